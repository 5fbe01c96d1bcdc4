//! What a change says to a person: the diagnosis and the remedy.

use std::fmt;

use super::{Fill, Kind, SchemaChange};
use crate::{
    table::{Column, Default},
    types::Type,
    value::Value,
};

/// A value as a message shows it, in its column's type. These are defaults from statements, never values of rows.
struct Shown<'a>(&'a Value, &'a Type);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("NULL"),
            Value::Boolean(value) => write!(f, "{value}"),
            Value::Integer(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value}"),
            Value::Decimal(value) => f.write_str(value),
            Value::Text(value) => write!(f, "'{value}'"),
            Value::Bytes(bytes) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Value::Date(days) => date(f, i64::from(*days)),
            Value::Micros(micros) => match self.1 {
                Type::DateTime { .. } | Type::Timestamp { .. } => {
                    date(f, micros.div_euclid(86_400_000_000))?;
                    f.write_str(" ")?;
                    clock(f, micros.rem_euclid(86_400_000_000))
                }
                _ => {
                    f.write_str(if *micros < 0 { "-" } else { "" })?;
                    clock(f, micros.saturating_abs())
                }
            },
            Value::Array(values) => {
                f.write_str("[")?;
                for (at, value) in values.iter().enumerate() {
                    write!(f, "{}{}", if at == 0 { "" } else { ", " }, Shown(value, self.1))?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Days since 1970-01-01 as a date.
pub(crate) fn date(f: &mut impl fmt::Write, days: i64) -> fmt::Result {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    write!(f, "{year:04}-{month:02}-{:02}", of_year - (153 * shifted + 2) / 5 + 1)
}

fn clock(f: &mut fmt::Formatter<'_>, micros: i64) -> fmt::Result {
    let seconds = micros / 1_000_000;
    write!(f, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
    if micros % 1_000_000 == 0 { Ok(()) } else { write!(f, ".{:06}", micros % 1_000_000) }
}

/// What existing rows get.
fn filled(fill: &Fill, ty: &Type) -> String {
    match fill {
        Fill::Null => "existing rows get NULL".into(),
        Fill::Constant(value) => format!("existing rows get {}", Shown(value, ty)),
        Fill::Implicit(value) => format!("existing rows get the server's own {}", Shown(value, ty)),
        Fill::Volatile(text) => format!("existing rows get {text}, whose values the log does not carry"),
        Fill::Generated(expression) => format!("its values are computed by the source as {expression}"),
    }
}

fn shown_default(column: &Column) -> String {
    match &column.default {
        None => "none".into(),
        Some(Default::Constant(value)) => Shown(value, &column.ty()).to_string(),
        Some(Default::Expression(text)) => text.clone(),
    }
}

/// The words for a kind of change of type.
fn verb(kind: Kind) -> &'static str {
    match kind {
        Kind::Lengthen => "grows",
        Kind::Shorten => "shrinks",
        Kind::WidenInteger => "becomes a larger integer",
        Kind::ChangeDecimal | Kind::ChangeKeyDecimal => "changes precision or scale",
        Kind::AppendEnumLabels => "gets labels at its end",
        Kind::ChangeEnumLabels => "gets other labels",
        Kind::ChangeSignedness => "changes its sign",
        _ => "changes type",
    }
}

fn of(column: Option<&String>) -> String {
    column.map_or_else(|| "the table".into(), |name| format!("column `{name}`"))
}

fn key(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { format!("({})", names.join(", ")) }
}

fn in_key(yes: bool) -> &'static str {
    if yes { "key column" } else { "column" }
}

impl fmt::Display for SchemaChange {
    /// The diagnosis, without the table's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaChange::AddColumn { column, fill } => {
                write!(f, "column `{}` of type {} is added, {}", column.name, column.native, filled(fill, &column.ty()))
            }
            SchemaChange::DropColumn { column, in_key: key } => {
                write!(f, "{} `{}` of type {} is dropped", in_key(*key), column.name, column.native)
            }
            SchemaChange::RenameColumn { from, column, in_key: key } => {
                write!(f, "{} `{from}` is renamed to `{}`", in_key(*key), column.name)
            }
            SchemaChange::ChangeType { kind, before, after, in_key: key } => {
                write!(f, "{} `{}` {}: {} becomes {}", in_key(*key), before.name, verb(*kind), before.native, after.native)
            }
            SchemaChange::SetNotNull { column } => write!(f, "column `{}` becomes NOT NULL", column.name),
            SchemaChange::DropNotNull { column } => write!(f, "column `{}` may be NULL from now on", column.name),
            SchemaChange::ChangeDefault { before, after } => {
                write!(f, "the default of column `{}` changes from {} to {}", before.name, shown_default(before), shown_default(after))
            }
            SchemaChange::ChangeComment { column } => write!(f, "the comment of {} changes", of(column.as_ref())),
            SchemaChange::ReorderColumn { column } => write!(f, "column `{column}` moves to another place"),
            SchemaChange::ChangeCharset { column: None, from, to } => {
                write!(f, "the default character set of new columns changes from {from} to {to}")
            }
            SchemaChange::ChangeCharset { column, from, to } => {
                write!(f, "the character set of {} changes from {from} to {to}", of(column.as_ref()))
            }
            SchemaChange::ChangeCollation { column: None, from, to } => {
                write!(f, "the default collation of new columns changes from {from} to {to}")
            }
            SchemaChange::ChangeCollation { column, from, to } => {
                write!(f, "the collation of {} changes from {from} to {to}", of(column.as_ref()))
            }
            SchemaChange::ChangeIdentity { before, after } => {
                let now = if after.identity { "is numbered by the source from now on" } else { "is not numbered by the source any more" };
                write!(f, "column `{}` {now}", before.name)
            }
            SchemaChange::ChangeGenerated { before, after } => match (&before.generated, &after.generated) {
                (_, Some(new)) => write!(f, "column `{}` is computed by the source as {} from now on", before.name, new.expression),
                (_, None) => write!(f, "column `{}` is not computed by the source any more", before.name),
            },
            SchemaChange::ChangeStorage { column, what } => write!(f, "the storage of {} changes: {what}", of(column.as_ref())),
            SchemaChange::ChangeKey { before_names, after_names, .. } => {
                write!(f, "the primary key or row key changes from {} to {}", key(before_names), key(after_names))
            }
            SchemaChange::ChangeIndex { name } => write!(f, "the index `{name}` changes"),
            SchemaChange::ChangeConstraint { name, cascades: true } => {
                write!(f, "the foreign key `{name}` changes rows together with their parents")
            }
            SchemaChange::ChangeConstraint { name, cascades: false } => write!(f, "the constraint `{name}` changes"),
            SchemaChange::CreateTable => f.write_str("the table is created"),
            SchemaChange::DropTable => f.write_str("the table is dropped"),
            SchemaChange::RenameTable { to } => write!(f, "the table is renamed to {to}"),
            SchemaChange::MovePartition { what } => write!(f, "rows move with a partition, unseen by the log: {what}"),
            SchemaChange::TruncatePartition { what } => write!(f, "rows go with a partition, unseen by the log: {what}"),
            SchemaChange::TruncateTable => f.write_str("all rows are removed by TRUNCATE"),
            SchemaChange::ReplaceRows { what } => write!(f, "rows may be removed or rewritten, unseen by the log: {what}"),
            SchemaChange::Unknown { why } => write!(f, "the statement is not understood: {why}"),
        }
    }
}

impl SchemaChange {
    /// What a person can do where this change stops or is held. None: nothing needs to be done.
    pub fn hint(&self) -> Option<&'static str> {
        match self.kind() {
            Kind::AddColumnVolatileDefault | Kind::AddColumnGenerated => Some(
                "The values of existing rows are not in the log: reload the table, or remove the column from the configuration's column list.",
            ),
            Kind::AddColumnImplicitDefault => {
                Some("A value that the target cannot hold (a zero date) needs a default on the source, then a reload.")
            }
            Kind::DropKeyColumn | Kind::RenameKeyColumn => {
                Some("Drop the key on the target and make it again by hand, or reload the table.")
            }
            Kind::ChangeKey => Some("Restore the row key on the source, then reload the table."),
            Kind::Shorten | Kind::ChangeDecimal => {
                Some("A value on the target that does not fit makes the change fail whole: correct it, or reload the table.")
            }
            Kind::ChangeKeyDecimal
            | Kind::ChangeEnumLabels
            | Kind::ChangeSignedness
            | Kind::ChangeType
            | Kind::ChangeCharset
            | Kind::ChangeCollation
            | Kind::ChangeIdentity
            | Kind::ChangeGenerated
            | Kind::ChangeStorage => Some("Reload the table, so that it is made anew with the new type and values."),
            Kind::SetNotNull => Some("Where the target holds NULL the change fails whole: correct those rows, or reload the table."),
            Kind::DropTable | Kind::RenameTable => {
                Some("Remove the table from the configuration, or make it again on the source and reload it.")
            }
            Kind::MovePartition | Kind::TruncatePartition | Kind::ReplaceRows => {
                Some("Reload the table, since the log does not show which rows changed.")
            }
            Kind::ChangeConstraint => {
                Some("If rows change by a cascade that the log does not show, drop the cascade on the source, then reload the table.")
            }
            Kind::Unknown => Some("Reload the table, remove it from the configuration, or accept the statement if it had no effect on it."),
            Kind::AddColumnNullable | Kind::AddColumnConstantDefault | Kind::DropColumn | Kind::RenameColumn => {
                Some("If the target cannot follow, approve the change by hand, keep the table as it is, or reload it.")
            }
            Kind::Lengthen | Kind::WidenInteger | Kind::AppendEnumLabels | Kind::DropNotNull => {
                Some("If the target cannot make the same change, reload the table.")
            }
            Kind::TruncateTable => Some("If the target cannot be emptied in order, reload the table."),
            Kind::ChangeDefault | Kind::ChangeComment | Kind::ReorderColumn | Kind::ChangeIndex | Kind::CreateTable => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{Native, mysql};

    fn int(name: &str) -> Column {
        Column::new(0, name, Native::MySql(mysql::Native::Integer { bits: 32, unsigned: true, zerofill: false, width: None }))
    }

    #[test]
    fn a_change_says_what_happens_and_what_existing_rows_get() {
        let add = SchemaChange::AddColumn { column: int("b"), fill: Fill::Constant(Value::Integer(7)) };
        assert_eq!(add.to_string(), "column `b` of type int unsigned is added, existing rows get 7");
        let uuid = SchemaChange::AddColumn { column: int("u"), fill: Fill::Volatile("uuid()".into()) };
        assert_eq!(
            uuid.to_string(),
            "column `u` of type int unsigned is added, existing rows get uuid(), whose values the log does not carry"
        );
        let key = SchemaChange::ChangeKey { before: None, after: None, before_names: vec!["a".into(), "b".into()], after_names: vec![] };
        assert_eq!(key.to_string(), "the primary key or row key changes from (a, b) to none");
        assert_eq!(key.hint(), Some("Restore the row key on the source, then reload the table."));
        assert_eq!(SchemaChange::ChangeComment { column: None }.hint(), None);
    }
}
