//! `source.type_map`: the columns whose values are published as the server's text.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{
    change::SchemaChange,
    ddl::mysql::Effect,
    diff,
    table::{Column, Table, TableId},
};

/// Which columns are mapped to text: by `database.table.column`, or by type as the server prints it (`bigint unsigned`) or its first
/// word (`bigint`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping {
    columns: BTreeSet<String>,
    types: BTreeSet<String>,
}

impl Mapping {
    /// Of a checked configuration.
    pub fn new(entries: &BTreeMap<String, String>) -> Self {
        let (columns, types): (Vec<&String>, Vec<&String>) = entries.keys().partition(|key| key.contains('.'));
        Self { columns: columns.into_iter().cloned().collect(), types: types.into_iter().map(|name| name.to_lowercase()).collect() }
    }

    fn maps(&self, table: &TableId, column: &Column) -> bool {
        if self.columns.is_empty() && self.types.is_empty() {
            return false;
        }
        let declaration = column.native.to_string().to_lowercase();
        self.types.contains(&declaration)
            || self.types.contains(first_word(&declaration))
            || self.columns.contains(&format!("{table}.{}", column.name))
    }

    /// Marks the columns of a shape that the catalog gave.
    pub fn mark(&self, mut table: Table) -> Table {
        for column in &mut table.columns {
            column.as_text = self.maps(&table.id, column);
        }
        table
    }

    /// Marks the columns that a statement added: those that were there keep what they are under every name and type.
    pub fn mark_added(&self, before: Option<&Table>, effect: &mut Effect) {
        let Some(shape) = &mut effect.shape else { return };
        for column in shape.columns.iter_mut().filter(|column| before.is_none_or(|table| table.by_id(column.id).is_none())) {
            column.as_text = self.maps(&effect.id, column);
        }
        for change in &mut effect.changes {
            if let SchemaChange::AddColumn { column, fill } = change
                && self.maps(&effect.id, column)
            {
                column.as_text = true;
                *fill = diff::printed(fill.clone(), column);
            }
        }
    }

    /// Columns of a recorded shape that are published otherwise than the configuration asks for now, each in words.
    pub fn disagreements(&self, table: &Table) -> Vec<String> {
        let other = |column: &&Column| column.as_text != self.maps(&table.id, column);
        let words = |column: &Column| {
            let (is, wanted) = if column.as_text { ("string", "no string") } else { ("no string", "string") };
            format!(
                "{}, column `{}` is published as {is}, and source.type_map asks for {wanted}: that begins with `instar reload FILE {}`",
                table.id, column.name, table.id
            )
        };
        table.columns.iter().filter(other).map(words).collect()
    }

    /// Keys of these tables that name a column which is not there.
    pub fn unknown(&self, table: &Table) -> Vec<String> {
        let prefix = format!("{}.", table.id);
        let missing = |key: &&String| key.strip_prefix(&prefix).is_some_and(|column| table.column(column).is_none());
        self.columns.iter().filter(missing).cloned().collect()
    }
}

fn first_word(declaration: &str) -> &str {
    declaration.split(['(', ' ']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use schemas::{
        change::Fill,
        ddl::mysql::{Context, Parsed, apply, parse, table_from_create},
        types::Type,
        value::Value,
    };

    use super::*;

    fn mapping(entries: &[(&str, &str)]) -> Mapping {
        Mapping::new(&entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    fn context() -> Context {
        Context { default_database: "s".into(), ..Context::new(true, 101_100) }
    }

    fn table(text: &str) -> Table {
        table_from_create(text.as_bytes(), &context()).unwrap()
    }

    fn texts(table: &Table) -> Vec<&str> {
        table.columns.iter().filter(|c| c.as_text).map(|c| c.name.as_str()).collect()
    }

    #[test]
    fn columns_are_mapped_by_name_by_type_and_by_declaration() {
        let shape = table("CREATE TABLE t (id INT, d DATE, e DATE, m DATETIME(3), n DATETIME, u BIGINT UNSIGNED, b BIGINT)");
        let marked = |entries: &[(&str, &str)]| mapping(entries).mark(shape.clone());
        assert_eq!(texts(&marked(&[("s.t.d", "string"), ("other.t.e", "string")])), ["d"]);
        assert_eq!(texts(&marked(&[("DATE", "string"), ("datetime", "string")])), ["d", "e", "m", "n"]);
        assert_eq!(texts(&marked(&[("datetime(3)", "string"), ("bigint unsigned", "string")])), ["m", "u"]);
        assert_eq!(marked(&[("s.t.d", "string")]).column("d").unwrap().ty(), Type::Text { length: None, fixed: false });
        assert_eq!(mapping(&[("s.t.nothere", "string"), ("s.u.x", "string")]).unknown(&shape), ["s.t.nothere"]);
    }

    #[test]
    fn an_added_column_is_mapped_and_a_renamed_one_stays_so() {
        let mapping = mapping(&[("s.t.d", "string"), ("datetime", "string")]);
        let before = mapping.mark(table("CREATE TABLE t (id INT, d DATE)"));
        let Parsed::Tables(statement) = parse(
            b"ALTER TABLE t CHANGE d day DATE NOT NULL, ADD m DATETIME(1) NOT NULL DEFAULT '2024-02-29 01:02:03', ADD z DATETIME NOT NULL",
            &context(),
        ) else {
            panic!("not understood")
        };
        let known = BTreeMap::from([(before.id.clone(), before.clone())]);
        let mut effect = apply(&statement, &context(), &known).unwrap().remove(0);
        mapping.mark_added(Some(&before), &mut effect);
        let after = effect.shape.unwrap();
        assert_eq!(texts(&after), ["day", "m", "z"]);
        let fills: Vec<Fill> = effect
            .changes
            .into_iter()
            .filter_map(|change| if let SchemaChange::AddColumn { fill, .. } = change { Some(fill) } else { None })
            .collect();
        let text = |text: &str| Value::Text(text.into());
        assert_eq!(fills, [Fill::Constant(text("2024-02-29 01:02:03.0")), Fill::Implicit(text("0000-00-00 00:00:00"))]);
        assert_eq!(mapping.disagreements(&after).len(), 1, "the new name is not in the configuration");
    }
}
