//! What a change says to a person: what the source did, with names and types, without a judgement.

use std::fmt;

use super::{Fill, SchemaChange};
use crate::{
    table::{Column, Default},
    types::Type,
    value::Value,
};

/// A constant of a statement as a person writes it, in its column's type. These are defaults, never values of rows.
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
            Value::Date(days) => {
                f.write_str("'")?;
                date(f, i64::from(*days))?;
                f.write_str("'")
            }
            Value::Micros(micros) => {
                f.write_str("'")?;
                match self.1 {
                    Type::DateTime { .. } | Type::Timestamp { .. } => {
                        date(f, micros.div_euclid(DAY))?;
                        f.write_str(" ")?;
                        clock(f, micros.rem_euclid(DAY).unsigned_abs())?;
                    }
                    _time => {
                        f.write_str(if *micros < 0 { "-" } else { "" })?;
                        clock(f, micros.unsigned_abs())?;
                    }
                }
                f.write_str("'")
            }
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

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// The Gregorian date of a number of days since 1970-01-01, by counting years that begin in March.
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

fn clock(f: &mut fmt::Formatter<'_>, micros: u64) -> fmt::Result {
    let seconds = micros / 1_000_000;
    write!(f, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
    if micros.is_multiple_of(1_000_000) { Ok(()) } else { write!(f, ".{:06}", micros % 1_000_000) }
}

fn added(f: &mut fmt::Formatter<'_>, column: &Column, fill: &Fill) -> fmt::Result {
    write!(f, "column `{}` {} is added", column.name, column.native)?;
    match fill {
        Fill::Null => Ok(()),
        Fill::Constant(value) => write!(f, " with default {}", Shown(value, &column.ty())),
        Fill::Implicit(value) => write!(f, " and existing rows show {}", Shown(value, &column.ty())),
        Fill::Volatile(_) if column.identity => f.write_str(" as auto_increment"),
        Fill::Volatile(text) => write!(f, " with default {}", lower_outside_quotes(text)),
        Fill::Generated(text) => write!(f, ", generated as ({text})"),
    }
}

/// An expression as the server prints it back: names of functions in lower case.
fn lower_outside_quotes(text: &str) -> String {
    let mut quote = None;
    text.chars()
        .map(|c| match quote {
            Some(open) => {
                if c == open {
                    quote = None;
                }
                c
            }
            None => {
                if matches!(c, '\'' | '"' | '`') {
                    quote = Some(c);
                }
                c.to_ascii_lowercase()
            }
        })
        .collect()
}

fn shown_default(column: &Column) -> String {
    match &column.default {
        None => "none".into(),
        Some(Default::Constant(value)) => Shown(value, &column.ty()).to_string(),
        Some(Default::Expression(text)) => text.clone(),
    }
}

fn of(column: Option<&String>) -> String {
    column.map_or_else(|| "the table".into(), |name| format!("column `{name}`"))
}

fn key(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { format!("({})", names.join(", ")) }
}

fn key_column(yes: bool) -> &'static str {
    if yes { "key column" } else { "column" }
}

/// How a column's values come about.
fn computed(column: &Column) -> String {
    column.generated.as_ref().map_or_else(|| "a stored value".into(), |generated| format!("({})", generated.expression))
}

impl fmt::Display for SchemaChange {
    /// The diagnosis, without the table's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaChange::AddColumn { column, fill } => added(f, column, fill),
            SchemaChange::DropColumn { column, in_key } => write!(f, "{} `{}` is dropped", key_column(*in_key), column.name),
            SchemaChange::RenameColumn { from, column, in_key } => {
                write!(f, "{} `{from}` is renamed to `{}`", key_column(*in_key), column.name)
            }
            SchemaChange::ChangeType { before, after, in_key, .. } => {
                write!(f, "{} `{}` changes from {} to {}", key_column(*in_key), before.name, before.native, after.native)
            }
            SchemaChange::SetNotNull { column } => write!(f, "column `{}` becomes NOT NULL", column.name),
            SchemaChange::DropNotNull { column } => write!(f, "column `{}` may be NULL from now on", column.name),
            SchemaChange::ChangeDefault { before, after } => {
                write!(f, "the default of column `{}` changes from {} to {}", before.name, shown_default(before), shown_default(after))
            }
            SchemaChange::ChangeComment { column } => write!(f, "the comment of {} changes", of(column.as_ref())),
            SchemaChange::ReorderColumn { column } => write!(f, "column `{column}` moves"),
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
                let now = if after.identity { "becomes auto_increment" } else { "is no longer auto_increment" };
                write!(f, "column `{}` {now}", before.name)
            }
            SchemaChange::ChangeGenerated { before, after } => {
                write!(f, "generated column `{}` changes from {} to {}", before.name, computed(before), computed(after))
            }
            SchemaChange::ChangeStorage { column, what } => write!(f, "the storage of {} changes: {what}", of(column.as_ref())),
            SchemaChange::ChangeKey { before_names, after_names, before, after } => {
                let primary = before.iter().chain(after).any(|key| key.primary);
                let what = if primary { "primary key" } else { "row key" };
                write!(f, "the {what} changes from {} to {}", key(before_names), key(after_names))
            }
            SchemaChange::ChangeIndex { name } => write!(f, "index `{name}` changes"),
            SchemaChange::ChangeConstraint { name, cascades: true } => write!(f, "constraint `{name}` changes rows by cascade"),
            SchemaChange::ChangeConstraint { name, cascades: false } => write!(f, "constraint `{name}` changes"),
            SchemaChange::CreateTable => f.write_str("the table is created"),
            SchemaChange::DropTable => f.write_str("drop of the table"),
            SchemaChange::RenameTable { to } => write!(f, "rename of the table to {to}"),
            SchemaChange::MovePartition { what } => write!(f, "partitions move: {what}"),
            SchemaChange::TruncatePartition { what } => write!(f, "partitions are emptied: {what}"),
            SchemaChange::TruncateTable => f.write_str("truncate of the table"),
            SchemaChange::ReplaceRows { what } => write!(f, "rows are replaced: {what}"),
            SchemaChange::Unknown { why } => write!(f, "a statement that is not understood: {why}"),
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
    fn a_change_says_what_the_source_did() {
        let add = SchemaChange::AddColumn { column: int("b"), fill: Fill::Constant(Value::Integer(7)) };
        assert_eq!(add.to_string(), "column `b` int unsigned is added with default 7");
        let uuid = SchemaChange::AddColumn { column: int("u"), fill: Fill::Volatile("UUID()".into()) };
        assert_eq!(uuid.to_string(), "column `u` int unsigned is added with default uuid()");
        let key = SchemaChange::ChangeKey { before: None, after: None, before_names: vec!["a".into(), "b".into()], after_names: vec![] };
        assert_eq!(key.to_string(), "the row key changes from (a, b) to none");
    }

    #[test]
    fn functions_are_printed_in_lower_case_and_literals_as_they_are() {
        assert_eq!(lower_outside_quotes("(CONCAT('A''B', UUID()))"), "(concat('A''B', uuid()))");
    }

    #[test]
    fn constants_are_printed_as_a_person_writes_them() {
        let stamp = Type::DateTime { precision: 6 };
        for (value, ty, text) in [
            (Value::Date(19_782), Type::Date, "'2024-02-29'"),
            (Value::Date(-719_162), Type::Date, "'0001-01-01'"),
            (Value::Micros(-1), stamp.clone(), "'1969-12-31 23:59:59.999999'"),
            (Value::Micros(1_704_164_645_000_000), stamp, "'2024-01-02 03:04:05'"),
            (Value::Micros(-3_723_500_000), Type::Duration { precision: 1 }, "'-01:02:03.500000'"),
            (Value::Bytes(vec![0, 255]), Type::Bits { length: 9, varying: false }, "0x00ff"),
            (Value::Text("n/a".into()), Type::Json, "'n/a'"),
        ] {
            assert_eq!(Shown(&value, &ty).to_string(), text);
        }
    }
}
