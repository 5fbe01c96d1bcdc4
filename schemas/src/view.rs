//! How one sink sees one source table: under which names and types, and which columns of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    native::{
        Native, Unsupported,
        postgres::{self, Fit},
    },
    table::{Column, TableId},
};

/// One source table on one sink, as the configuration says it. Everything is by the source's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The target table.
    pub table: TableId,
    /// Source column to target column, where the names differ.
    pub columns: BTreeMap<String, String>,
    /// Only these source columns; empty: all.
    pub only: BTreeSet<String>,
    /// Not these source columns.
    pub excluded: BTreeSet<String>,
    /// The target type, by source column, or by source type in lower case, as the source prints it (`bigint unsigned`) or its
    /// first word (`bigint`).
    pub types: BTreeMap<String, Native>,
}

/// The direction from a source column to a target's type.
pub type Declare = fn(&Column) -> Result<Native, Unsupported>;

impl View {
    /// All columns under their own names and types.
    pub fn plain(table: TableId) -> Self {
        Self { table, columns: BTreeMap::new(), only: BTreeSet::new(), excluded: BTreeSet::new(), types: BTreeMap::new() }
    }

    /// Whether the source column goes to this sink.
    pub fn carries(&self, column: &str) -> bool {
        (self.only.is_empty() || self.only.contains(column)) && !self.excluded.contains(column)
    }

    /// The target column's name.
    pub fn name<'a>(&'a self, column: &'a str) -> &'a str {
        self.columns.get(column).map_or(column, String::as_str)
    }

    /// Whether the configuration names this source column as one to carry.
    pub fn names_it(&self, column: &str) -> bool {
        self.columns.contains_key(column) || self.only.contains(column)
    }

    /// The target column's type: as configured, else the type table's.
    ///
    /// # Errors
    ///
    /// The target has no type that holds every value of the column and the configuration names none, or it names one that
    /// holds no value of the column.
    pub fn declare(&self, column: &Column, declare: Declare) -> Result<Native, Unsupported> {
        let Some(native) = self.configured(column) else { return declare(column) };
        let fit = match native {
            Native::Postgres(native) => postgres::fit_column(column, native),
            Native::MySql(_) => Fit::Exact,
        };
        match fit {
            Fit::Exact | Fit::Checked(_) => Ok(native.clone()),
            Fit::Never { why } => Err(Unsupported { declaration: column.native.to_string(), why }),
        }
    }

    /// The type that the configuration gives to the column.
    pub fn configured(&self, column: &Column) -> Option<&Native> {
        if self.types.is_empty() {
            return None;
        }
        let declaration = column.native.to_string().to_lowercase();
        let word = declaration.split(['(', ' ']).next().unwrap_or_default();
        self.types.get(&column.name).or_else(|| self.types.get(&declaration)).or_else(|| self.types.get(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::mysql;

    fn int(unsigned: bool) -> Column {
        Column::new(0, "a", Native::MySql(mysql::Native::Integer { bits: 64, unsigned, zerofill: false, width: None }))
    }

    fn declared(view: &View, column: &Column) -> Result<String, String> {
        let declare: Declare = |column| postgres::declare(column).map(Native::Postgres);
        view.declare(column, declare).map(|native| native.to_string()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_configured_type_goes_before_the_type_table() {
        let mut view = View::plain(TableId::new("shop", "t"));
        assert_eq!(declared(&view, &int(true)), Ok("numeric(20,0)".into()));
        view.types.insert("a".into(), Native::Postgres(postgres::Native::Integer));
        assert_eq!(declared(&view, &int(true)), Ok("integer".into()));
    }

    #[test]
    fn a_configured_type_that_holds_no_value_is_refused() {
        let mut view = View::plain(TableId::new("shop", "t"));
        view.types.insert("a".into(), Native::Postgres(postgres::Native::Date));
        assert!(declared(&view, &int(false)).is_err_and(|why| why.contains("date")));
    }
}
