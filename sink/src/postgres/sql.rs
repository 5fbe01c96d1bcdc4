//! Text of statements: quoting, type names, literals; merges of rows; plans. No I/O.

mod merge;
mod plan;

use schemas::{
    native::{Native, postgres::Native as Pg},
    table::{Column, TableId},
    value::Value,
};

pub use merge::{From, copy, create_stage, delete, insert, natives, remove_one, update_carried, upsert};
pub use plan::{render, statement, statements};

use super::encode::moment;

/// Bytes that PostgreSQL keeps of a name; longer ones are cut without a word.
pub const NAME_BYTES: usize = 63;

/// A quoted identifier.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A quoted, qualified table name.
pub fn table(id: &TableId) -> String {
    format!("{}.{}", quote(&id.namespace), quote(&id.name))
}

pub fn list<S: AsRef<str>>(names: &[S]) -> String {
    names.iter().map(|n| quote(n.as_ref())).collect::<Vec<_>>().join(", ")
}

/// A text literal.
pub fn text(value: &str) -> String {
    if value.contains('\\') {
        // The same under either setting of standard_conforming_strings.
        format!("E'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
    } else {
        format!("'{}'", value.replace('\'', "''"))
    }
}

/// A type as a column declaration names it.
pub fn declaration(native: &Pg) -> String {
    match native {
        Pg::Enum { name, .. } | Pg::Other { name } => qualified(name),
        Pg::Array { element, .. } => format!("{}[]", declaration(element)),
        sized => sized.to_string(),
    }
}

/// A type without its size: a cast to it changes no value.
pub fn bare_type(native: &Pg) -> String {
    let name = match native {
        Pg::Boolean => "bool",
        Pg::SmallInt => "int2",
        Pg::Integer => "int4",
        Pg::BigInt => "int8",
        Pg::Real => "float4",
        Pg::Double => "float8",
        Pg::Numeric { .. } => "numeric",
        Pg::Money => "money",
        Pg::Text => "text",
        Pg::VarChar { .. } => "varchar",
        Pg::Char { .. } => "bpchar",
        Pg::InternalChar => "\"char\"",
        Pg::Name => "name",
        Pg::Bytea => "bytea",
        // Quoted: bit alone is bit(1).
        Pg::Bit { .. } => "\"bit\"",
        Pg::VarBit { .. } => "varbit",
        Pg::Date => "date",
        Pg::Time { .. } => "time",
        Pg::TimeTz { .. } => "timetz",
        Pg::Timestamp { .. } => "timestamp",
        Pg::TimestampTz { .. } => "timestamptz",
        Pg::Interval { .. } => "interval",
        Pg::Uuid => "uuid",
        Pg::Json => "json",
        Pg::Jsonb => "jsonb",
        Pg::Xml => "xml",
        Pg::Inet => "inet",
        Pg::Cidr => "cidr",
        Pg::MacAddr => "macaddr",
        Pg::MacAddr8 => "macaddr8",
        Pg::Oid => "oid",
        Pg::Enum { name, .. } | Pg::Other { name } => return qualified(name),
        Pg::Array { element, .. } => return format!("{}[]", bare_type(element)),
    };
    format!("pg_catalog.{name}")
}

fn qualified(name: &str) -> String {
    match name.split_once('.') {
        Some((schema, name)) => format!("{}.{}", quote(schema), quote(name)),
        None => format!("pg_catalog.{}", quote(name)),
    }
}

/// The PostgreSQL type of a target column.
pub fn native(column: &Column) -> Result<&Pg, String> {
    match &column.native {
        Native::Postgres(native) => Ok(native),
        Native::MySql(_) => {
            Err(format!("column {} of a target shape is declared as {}, not as PostgreSQL's type", column.name, column.native))
        }
    }
}

/// Why PostgreSQL would cut or round the value on its way into the column, without a word.
fn bent(value: &Value, target: &Pg) -> Option<String> {
    match (value, target) {
        (Value::Decimal(text), Pg::Numeric { size: Some((_, scale)) }) => {
            let digits = text.split_once('.').map_or("", |(_, fraction)| fraction.trim_end_matches('0')).len();
            (i64::try_from(digits).unwrap_or(i64::MAX) > i64::from(*scale))
                .then(|| format!("the default {text} would be rounded in {target}"))
        }
        (Value::Text(text), Pg::VarChar { length: Some(most) } | Pg::Char { length: most }) => {
            let longer = text.chars().nth(usize::try_from(*most).unwrap_or(usize::MAX)).is_some();
            longer.then(|| format!("the default is longer than {target}"))
        }
        (
            Value::Micros(micros),
            Pg::Time { precision } | Pg::Timestamp { precision } | Pg::TimestampTz { precision } | Pg::Interval { precision },
        ) => {
            let step = 10i64.pow(u32::from(6 - precision.min(&6)));
            (micros % step != 0).then(|| format!("the default has a fraction of a second that would be rounded in {target}"))
        }
        _fits_or_is_refused_by_the_server => None,
    }
}

/// A value as a literal for a column of this type. Fails where the value is not one of the type's, or would not arrive exactly.
pub fn literal(value: &Value, target: &Pg) -> Result<String, String> {
    if let Some(why) = bent(value, target) {
        return Err(why);
    }
    let mut out = Vec::new();
    match value {
        Value::Null => return Ok("NULL".into()),
        Value::Boolean(b) => return Ok(if *b { "TRUE" } else { "FALSE" }.into()),
        Value::Integer(n) => {
            return match (target, n) {
                (Pg::Boolean, 0) => Ok("FALSE".into()),
                (Pg::Boolean, 1) => Ok("TRUE".into()),
                (Pg::Boolean, _) => Err(format!("the default {n} is not a boolean")),
                (Pg::Bit { length }, n) => bits(&n.to_be_bytes(), *length),
                _ => Ok(n.to_string()),
            };
        }
        Value::Decimal(text) => return Ok(self::text(text)),
        Value::Float(n) if n.is_nan() => out.extend_from_slice(b"NaN"),
        Value::Float(n) if n.is_infinite() => out.extend_from_slice(if *n > 0.0 { b"Infinity" } else { b"-Infinity" }),
        Value::Float(n) => out.extend_from_slice(n.to_string().as_bytes()),
        Value::Text(text) if text.contains('\0') => return Err("the default holds a NUL byte, which PostgreSQL cannot keep".into()),
        Value::Text(text) => out.extend_from_slice(text.as_bytes()),
        Value::Bytes(bytes) => {
            return match target {
                Pg::Bit { length } => bits(bytes, *length),
                _ => Ok(format!("'\\x{}'::pg_catalog.bytea", bytes.iter().map(|b| format!("{b:02x}")).collect::<String>())),
            };
        }
        Value::Date(days) => moment::put_date(&mut out, *days),
        Value::Micros(micros) => match target {
            Pg::TimestampTz { .. } => moment::put_timestamp(&mut out, *micros, "+00"),
            Pg::Timestamp { .. } => moment::put_timestamp(&mut out, *micros, ""),
            Pg::Time { .. } | Pg::Interval { .. } => moment::put_time(&mut out, *micros),
            other => return Err(format!("a time as the default of a column of type {other}")),
        },
        Value::Array(_) => return Err("an array as a default is not carried".into()),
    }
    Ok(text(&String::from_utf8_lossy(&out)))
}

/// The last `length` bits of big-endian bytes.
fn bits(bytes: &[u8], length: u32) -> Result<String, String> {
    let all: String = bytes.iter().map(|b| format!("{b:08b}")).collect();
    let length = length as usize;
    let padded = format!("{}{all}", "0".repeat(length.saturating_sub(all.len())));
    let (high, low) = padded.split_at(padded.len() - length);
    if high.contains('1') { Err(format!("the default has more than {length} bits")) } else { Ok(format!("B'{low}'")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_that_the_column_would_cut_or_round_is_refused() {
        let decimal = |text: &str| Value::Decimal(text.into());
        let text = |text: &str| Value::Text(text.into());
        for (value, target, expected) in [
            (decimal("1.250"), "numeric(5,2)", Ok("'1.250'")),
            (decimal("1.25"), "numeric(5,1)", Err("the default 1.25 would be rounded in numeric(5,1)")),
            (decimal("1.25"), "numeric", Ok("'1.25'")),
            (text("ab"), "varchar(2)", Ok("'ab'")),
            (text("ab "), "varchar(2)", Err("the default is longer than character varying(2)")),
            (Value::Micros(-1_500_000), "interval(1)", Ok("'-00:00:01.5'")),
            (
                Value::Micros(1_500_000),
                "timestamp(0)",
                Err("the default has a fraction of a second that would be rounded in timestamp(0) without time zone"),
            ),
        ] {
            let written = literal(&value, &Pg::parse(target).unwrap());
            assert_eq!(written.as_deref().map_err(String::as_str), expected, "{value:?} {target}");
        }
    }
}
