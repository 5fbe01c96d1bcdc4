//! Values as the server prints them, for columns that are published as text.

use std::fmt::Write;

use super::Native;
use crate::{change::text::date, value::Value};

/// The first words of all declarations, by which a configuration names types.
pub const NAMES: [&str; 41] = [
    "tinyint",
    "smallint",
    "mediumint",
    "int",
    "bigint",
    "decimal",
    "float",
    "double",
    "bit",
    "year",
    "date",
    "time",
    "datetime",
    "timestamp",
    "char",
    "varchar",
    "tinytext",
    "text",
    "mediumtext",
    "longtext",
    "binary",
    "varbinary",
    "tinyblob",
    "blob",
    "mediumblob",
    "longblob",
    "enum",
    "set",
    "json",
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
    "uuid",
    "inet4",
    "inet6",
    "vector",
];

/// A constant of a column as the server prints it. A value whose type has no text form of its own stays as it is: such columns are
/// not published as text.
pub fn printed(native: &Native, value: Value) -> Value {
    let text = match (&value, native) {
        (Value::Integer(number), Native::Integer { zerofill: true, width, bits, .. }) => {
            format!("{number:0width$}", width = usize::from(width.unwrap_or_else(|| zerofill_width(*bits))))
        }
        (Value::Integer(number), Native::Year) => format!("{number:04}"),
        (Value::Integer(number), _) => number.to_string(),
        (Value::Decimal(text), _) => text.clone(),
        (Value::Date(days), _) => date_text(i64::from(*days)),
        (Value::Micros(micros), Native::Time { precision }) => {
            let sign = if *micros < 0 { "-" } else { "" };
            format!("{sign}{}", clock(micros.unsigned_abs(), *precision))
        }
        (Value::Micros(micros), Native::DateTime { precision } | Native::Timestamp { precision }) => {
            let days = micros.div_euclid(DAY);
            format!("{} {}", date_text(days), clock(micros.rem_euclid(DAY).unsigned_abs(), *precision))
        }
        (Value::Micros(_) | Value::Null | Value::Boolean(_) | Value::Float(_) | Value::Text(_) | Value::Bytes(_) | Value::Array(_), _) => {
            return value;
        }
    };
    Value::Text(text)
}

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// The display width of an integer that declares none: its digits.
pub fn zerofill_width(bits: u8) -> u8 {
    match bits {
        8 => 3,
        16 => 5,
        24 => 8,
        32 => 10,
        _ => 20,
    }
}

fn date_text(days: i64) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = date(&mut text, days);
    text
}

fn clock(micros: u64, precision: u8) -> String {
    let seconds = micros / 1_000_000;
    let mut text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if precision > 0 {
        let digits = usize::from(precision.min(6));
        let _ = write!(text, ".{}", &format!("{:06}", micros % 1_000_000)[..digits]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::mysql_examples;

    #[test]
    fn constants_are_printed_as_the_server_prints_them() {
        let int = |zerofill, width| Native::Integer { bits: 16, unsigned: true, zerofill, width };
        for (native, value, text) in [
            (int(false, None), Value::Integer(-7), "-7"),
            (int(true, Some(4)), Value::Integer(7), "0007"),
            (int(true, None), Value::Integer(7), "00007"),
            (Native::Year, Value::Integer(0), "0000"),
            (Native::Decimal { precision: 5, scale: 2, unsigned: false }, Value::Decimal("-1.50".into()), "-1.50"),
            (Native::Date, Value::Date(-1), "1969-12-31"),
            (Native::Date, Value::Text("2024-05-00".into()), "2024-05-00"),
            (Native::Time { precision: 2 }, Value::Micros(-3_020_399_120_000), "-838:59:59.12"),
            (Native::DateTime { precision: 0 }, Value::Micros(-1_000_000), "1969-12-31 23:59:59"),
            (Native::Timestamp { precision: 6 }, Value::Micros(1), "1970-01-01 00:00:00.000001"),
        ] {
            assert_eq!(printed(&native, value.clone()), Value::Text(text.into()), "{native} {value:?}");
        }
        assert_eq!(printed(&Native::Date, Value::Null), Value::Null);
    }

    #[test]
    fn every_declaration_begins_with_a_known_name() {
        for (declared, native) in mysql_examples() {
            let declaration = native.to_string();
            let word = declaration.split(['(', ' ']).next().unwrap();
            assert!(NAMES.contains(&word), "{declared}: {word}");
        }
    }
}
