//! Holds the log's metadata against the tracked shape. It never interprets: it can only say that they disagree.

use schemas::{
    charset::Charsets,
    native::{Native, mysql::Native as MySql},
    table::{Column, Table},
};

use super::{
    cell::disagreement,
    collation::{BINARY, Collations},
    table_map::{MapColumn, TableMap},
};

/// What the referee knows of the server.
#[derive(Debug, Clone, Copy)]
pub struct Referee<'a> {
    pub charsets: &'a Charsets,
    pub collations: &'a Collations,
}

impl Referee<'_> {
    /// Compares a table as the log writes it with its tracked shape.
    ///
    /// # Errors
    /// The first disagreement, with its column.
    pub fn judge(&self, map: &TableMap, table: &Table) -> Result<(), String> {
        if map.columns.len() != table.columns.len() {
            return Err(format!("the log has {} columns, {} were expected", map.columns.len(), table.columns.len()));
        }
        for (found, column) in map.columns.iter().zip(&table.columns) {
            self.column(found, column).map_err(|problem| format!("column `{}`: {problem}", column.name))?;
        }
        match &map.primary {
            Some(primary) => judge_key(primary, table),
            None => Ok(()),
        }
    }

    fn column(&self, found: &MapColumn, column: &Column) -> Result<(), String> {
        let Native::MySql(native) = &column.native else {
            return Err(format!("{} is not a type of this engine", column.native));
        };
        if let Some(name) = found.name.as_ref().filter(|name| **name != column.name) {
            return Err(format!("the log names it `{name}`"));
        }
        if let Some(problem) = disagreement(native, found.physical) {
            return Err(problem);
        }
        if found.nullable != column.nullable {
            return Err(format!("the log says {}", if found.nullable { "NULL" } else { "NOT NULL" }));
        }
        if let (Some(found), Some(expected)) = (found.unsigned, unsigned(native))
            && found != expected
        {
            return Err(format!("the log says {}", if found { "UNSIGNED" } else { "signed" }));
        }
        self.collation(found, native)?;
        self.labels(found, native)
    }

    fn collation(&self, found: &MapColumn, native: &MySql) -> Result<(), String> {
        let Some(id) = found.collation else { return Ok(()) };
        match native.charset() {
            None if matches!(native, MySql::Enum { .. } | MySql::Set { .. }) => Ok(()),
            None if id == BINARY => Ok(()),
            None => Err(format!("the log has text (collation {id})")),
            Some(expected) => match self.collations.get(id) {
                Some((name, _)) if name == expected.collation => Ok(()),
                Some((name, _)) => Err(format!("the log has collation {name}, {} was expected", expected.collation)),
                None => Err(format!("the log has collation {id}, which the server does not list")),
            },
        }
    }

    fn labels(&self, found: &MapColumn, native: &MySql) -> Result<(), String> {
        let (Some(found), MySql::Enum { labels, charset } | MySql::Set { labels, charset }) = (&found.labels, native) else {
            return Ok(());
        };
        let decoder =
            self.charsets.decoder(&charset.charset).ok_or_else(|| format!("its character set {} is not known", charset.charset))?;
        let same = found.len() == labels.len()
            && found.iter().zip(labels).all(|(found, label)| decoder.decode(found).is_ok_and(|found| found == *label));
        if same { Ok(()) } else { Err(format!("the log has {} labels that are not the {} expected ones", found.len(), labels.len())) }
    }
}

/// Without a primary key both servers log the first unique index over columns that are all NOT NULL: what [`Table::row_key`] takes.
fn judge_key(found: &[(usize, u64)], table: &Table) -> Result<(), String> {
    let name = |i: usize| table.columns.get(i).map_or("?", |c| c.name.as_str());
    let found: Vec<&str> = found.iter().map(|(i, _)| name(*i)).collect();
    let expected: Vec<&str> = table.key_columns().into_iter().map(|c| c.name.as_str()).collect();
    if found == expected {
        Ok(())
    } else {
        Err(format!("the log has the row key ({}), ({}) was expected", found.join(", "), expected.join(", ")))
    }
}

fn unsigned(native: &MySql) -> Option<bool> {
    match native {
        MySql::Integer { unsigned, .. }
        | MySql::Decimal { unsigned, .. }
        | MySql::Float { unsigned, .. }
        | MySql::Double { unsigned, .. } => Some(*unsigned),
        // YEAR has a bit too, which says nothing.
        MySql::Year
        | MySql::Bit { .. }
        | MySql::Date
        | MySql::Time { .. }
        | MySql::DateTime { .. }
        | MySql::Timestamp { .. }
        | MySql::Char { .. }
        | MySql::VarChar { .. }
        | MySql::Text { .. }
        | MySql::Binary { .. }
        | MySql::VarBinary { .. }
        | MySql::Blob { .. }
        | MySql::Enum { .. }
        | MySql::Set { .. }
        | MySql::Json
        | MySql::Geometry { .. }
        | MySql::Uuid
        | MySql::Inet4
        | MySql::Inet6
        | MySql::Vector { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use schemas::ddl::mysql::{Context, table_from_create};

    use super::*;

    #[test]
    fn the_logs_key_is_the_primary_key_or_the_first_unique_index_without_nulls() {
        let context = Context { default_database: "shop".into(), ..Context::new(true, 101_119) };
        let table = |text: &str| table_from_create(text.as_bytes(), &context).unwrap();
        let unique = table("CREATE TABLE t (a INT, b INT NOT NULL, c INT NOT NULL, UNIQUE ua (a), UNIQUE uc (c, b))");
        assert_eq!(judge_key(&[(2, 0), (1, 0)], &unique), Ok(()));
        assert_eq!(judge_key(&[(0, 0)], &unique), Err("the log has the row key (a), (c, b) was expected".into()));
        let both = table("CREATE TABLE t (a INT NOT NULL, b INT PRIMARY KEY, UNIQUE ua (a))");
        assert_eq!(judge_key(&[(1, 0)], &both), Ok(()));
    }
}
