//! The words of decisions.

use crate::{change::SchemaChange, table::Column, types::Type, value::Value};

/// Ways out of a hold.
pub const HELD: &str = "Approve or keep the change, or reload the table.";
/// Ways out where the target cannot have a column under its name.
pub const NAME: &str = "Give the column another name on this sink (`columns`), keep the change, or reload the table once it has one.";
/// Ways out where the target has no type for a column.
pub const TYPE: &str = "Give the column a type on this sink (`type_map`), keep the change, or reload the table once it has one.";
/// Ways out of a stop.
pub const STOPPED: &str = "Reload the table, or remove it from the configuration.";
/// The way out where the row key changed.
pub const KEY: &str = "Restore the row key on the source, then reload the table.";
/// Ways out where the source's table is gone.
pub const GONE: &str = "Remove the table from the configuration, or put it back on the source and reload the table.";
/// Ways out where it is not known what a statement did.
pub const UNKNOWN: &str =
    "Reload the table, remove it from the configuration, or accept the statement if it changed neither shape nor rows of it.";
/// The way out where the configuration no longer fits the source.
pub const MAPPING: &str = "Correct the table's columns in the configuration, or reload the table.";

/// A change in words: what the source did, with names and types, without a judgement.
pub fn diagnosis(change: &SchemaChange) -> String {
    match change {
        SchemaChange::AddColumn { column, fill } => added(column, fill),
        SchemaChange::DropColumn { column, in_key } => format!("{} `{}` is dropped", key_column(*in_key), column.name),
        SchemaChange::RenameColumn { from, column, in_key } => {
            format!("{} `{from}` is renamed to `{}`", key_column(*in_key), column.name)
        }
        SchemaChange::ChangeType { before, after, in_key, .. } => {
            format!("{} `{}` changes from {} to {}", key_column(*in_key), before.name, before.native, after.native)
        }
        SchemaChange::SetNotNull { column } => format!("column `{}` becomes NOT NULL", column.name),
        SchemaChange::DropNotNull { column } => format!("column `{}` may be NULL from now on", column.name),
        SchemaChange::ChangeDefault { before, .. } => format!("the default of column `{}` changes", before.name),
        SchemaChange::ChangeComment { column } => format!("the comment of {} changes", of(column.as_deref())),
        SchemaChange::ReorderColumn { column } => format!("column `{column}` moves"),
        SchemaChange::ChangeCharset { column, from, to } => {
            format!("the character set of {} changes from {from} to {to}", of(column.as_deref()))
        }
        SchemaChange::ChangeCollation { column, from, to } => {
            format!("the collation of {} changes from {from} to {to}", of(column.as_deref()))
        }
        SchemaChange::ChangeIdentity { before, after } => {
            let now = if after.identity { "becomes auto_increment" } else { "is no longer auto_increment" };
            format!("column `{}` {now}", before.name)
        }
        SchemaChange::ChangeGenerated { before, after } => {
            let expression =
                |c: &Column| c.generated.as_ref().map_or_else(|| "a stored value".to_owned(), |g| format!("({})", g.expression));
            format!("generated column `{}` changes from {} to {}", before.name, expression(before), expression(after))
        }
        SchemaChange::ChangeStorage { column, what } => format!("the storage of {} changes: {what}", of(column.as_deref())),
        SchemaChange::ChangeKey { before_names, after_names, before, after } => {
            let key = |names: &[String]| if names.is_empty() { "none".to_owned() } else { format!("({})", names.join(", ")) };
            let primary = before.iter().chain(after).any(|key| key.primary);
            let what = if primary { "primary key" } else { "row key" };
            format!("the {what} changes from {} to {}", key(before_names), key(after_names))
        }
        SchemaChange::ChangeIndex { name } => format!("index `{name}` changes"),
        SchemaChange::ChangeConstraint { name, cascades: true } => format!("constraint `{name}` changes rows by cascade"),
        SchemaChange::ChangeConstraint { name, cascades: false } => format!("constraint `{name}` changes"),
        SchemaChange::CreateTable => "the table is created".into(),
        SchemaChange::DropTable => "drop of the table".into(),
        SchemaChange::RenameTable { to } => format!("rename of the table to {to}"),
        SchemaChange::MovePartition { what } => format!("partitions move: {what}"),
        SchemaChange::TruncatePartition { what } => format!("partitions are emptied: {what}"),
        SchemaChange::TruncateTable => "truncate of the table".into(),
        SchemaChange::ReplaceRows { what } => format!("rows are replaced: {what}"),
        SchemaChange::Unknown { why } => format!("a statement that is not understood: {why}"),
    }
}

fn key_column(in_key: bool) -> &'static str {
    if in_key { "key column" } else { "column" }
}

fn of(column: Option<&str>) -> String {
    column.map_or_else(|| "the table".to_owned(), |name| format!("column `{name}`"))
}

fn added(column: &Column, fill: &crate::change::Fill) -> String {
    use crate::change::Fill;
    let head = format!("column `{}` {}", column.name, column.native);
    match fill {
        Fill::Null => format!("{head} is added"),
        Fill::Constant(value) => format!("{head} is added with default {}", constant(value, &column.ty())),
        Fill::Implicit(value) => format!("{head} is added and existing rows show {}", constant(value, &column.ty())),
        Fill::Volatile(_) if column.identity => format!("{head} is added as auto_increment"),
        Fill::Volatile(text) => format!("{head} is added with default {}", lower_outside_quotes(text)),
        Fill::Generated(text) => format!("{head} is added, generated as ({text})"),
    }
}

/// A constant of a statement, as a person writes it.
fn constant(value: &Value, ty: &Type) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Boolean(b) => b.to_string(),
        Value::Integer(i) => i.to_string(),
        Value::Float(f) => f.to_string(),
        Value::Decimal(text) => text.clone(),
        Value::Text(text) => format!("'{text}'"),
        Value::Bytes(bytes) => bytes.iter().fold("0x".to_owned(), |hex, byte| format!("{hex}{byte:02x}")),
        Value::Date(days) => format!("'{}'", date(i64::from(*days))),
        Value::Micros(micros) => match ty {
            Type::DateTime { .. } | Type::Timestamp { .. } => {
                format!("'{} {}'", date(micros.div_euclid(DAY)), clock(micros.rem_euclid(DAY).unsigned_abs()))
            }
            _time => format!("'{}{}'", if *micros < 0 { "-" } else { "" }, clock(micros.unsigned_abs())),
        },
        Value::Array(items) => format!("{{{}}}", items.iter().map(|item| constant(item, ty)).collect::<Vec<_>>().join(",")),
    }
}

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// The Gregorian date of a number of days since 1970-01-01, by counting years that begin in March.
fn date(days: i64) -> String {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

fn clock(micros: u64) -> String {
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    let fraction = if rest == 0 { String::new() } else { format!(".{rest:06}") };
    format!("{:02}:{:02}:{:02}{fraction}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(constant(&value, &ty), text);
        }
    }
}
