//! PostgreSQL: the type table.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::Type;

mod declare;
mod fit;
mod parse;

pub use declare::declare;
pub use fit::{Check, Fit, fit, fit_column};

/// A column type, aliases and domains resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Native {
    Boolean,
    SmallInt,
    Integer,
    BigInt,
    Real,
    Double,
    /// `None`: without a declared size.
    Numeric {
        size: Option<(u16, i16)>,
    },
    Money,
    Text,
    VarChar {
        length: Option<u32>,
    },
    Char {
        length: u32,
    },
    /// PostgreSQL's internal one-byte `"char"`.
    InternalChar,
    Name,
    Bytea,
    Bit {
        length: u32,
    },
    VarBit {
        length: Option<u32>,
    },
    Date,
    Time {
        precision: u8,
    },
    TimeTz {
        precision: u8,
    },
    Timestamp {
        precision: u8,
    },
    TimestampTz {
        precision: u8,
    },
    Interval {
        precision: u8,
    },
    Uuid,
    Json,
    Jsonb,
    Xml,
    Inet,
    Cidr,
    MacAddr,
    MacAddr8,
    Oid,
    /// A user's enum type, by its qualified name.
    Enum {
        name: String,
        labels: Vec<String>,
    },
    Array {
        element: Box<Native>,
        dimensions: u8,
    },
    /// Types whose text form is exact: ranges, geometric types, `tsvector`, `hstore`, `ltree`, `citext` …
    Other {
        name: String,
    },
}

impl Native {
    pub fn logical(&self) -> Type {
        match self {
            Native::Boolean => Type::Boolean,
            Native::SmallInt => Type::Integer { bits: 16, unsigned: false },
            Native::Integer => Type::Integer { bits: 32, unsigned: false },
            Native::BigInt => Type::Integer { bits: 64, unsigned: false },
            Native::Oid => Type::Integer { bits: 32, unsigned: true },
            Native::Real => Type::Float32,
            Native::Double => Type::Float64,
            Native::Numeric { size: Some((precision, scale)) } => Type::Decimal { precision: *precision, scale: *scale },
            Native::Numeric { size: None } => Type::Numeric,
            Native::Money => Type::Decimal { precision: 19, scale: 2 },
            Native::Text | Native::Name | Native::InternalChar => Type::Text { length: None, fixed: false },
            Native::VarChar { length } => Type::Text { length: *length, fixed: false },
            Native::Char { length } => Type::Text { length: Some(*length), fixed: true },
            Native::Bytea => Type::Bytes { length: None, fixed: false },
            Native::Bit { length } => Type::Bits { length: *length, varying: false },
            Native::VarBit { length } => Type::Bits { length: length.unwrap_or(u32::MAX), varying: true },
            Native::Date => Type::Date,
            Native::Time { precision } => Type::Time { precision: *precision },
            Native::TimeTz { precision } => Type::TimeTz { precision: *precision },
            Native::Timestamp { precision } => Type::DateTime { precision: *precision },
            Native::TimestampTz { precision } => Type::Timestamp { precision: *precision },
            Native::Interval { .. } => Type::Interval,
            Native::Uuid => Type::Uuid,
            Native::Json | Native::Jsonb => Type::Json,
            Native::Xml => Type::Xml,
            Native::Inet | Native::Cidr => Type::Inet,
            Native::MacAddr | Native::MacAddr8 => Type::Verbatim { name: self.to_string() },
            Native::Enum { labels, .. } => Type::Enum { labels: labels.clone() },
            Native::Array { element, .. } => Type::Array { element: Box::new(element.logical()) },
            Native::Other { name } => Type::Verbatim { name: name.clone() },
        }
    }

    /// False where PostgreSQL's equality is coarser than the bytes: floats, unbounded numerics, padded text, `citext` and the like.
    pub fn equal_means_same_bytes(&self) -> bool {
        match self {
            Native::Real
            | Native::Double
            | Native::Numeric { size: None }
            | Native::Char { .. }
            | Native::TimeTz { .. }
            | Native::Interval { .. }
            | Native::Json
            | Native::Jsonb
            | Native::Xml
            | Native::Other { .. } => false,
            Native::Array { element, .. } => element.equal_means_same_bytes(),
            Native::Boolean
            | Native::SmallInt
            | Native::Integer
            | Native::BigInt
            | Native::Numeric { size: Some(_) }
            | Native::Money
            | Native::Text
            | Native::VarChar { .. }
            | Native::InternalChar
            | Native::Name
            | Native::Bytea
            | Native::Bit { .. }
            | Native::VarBit { .. }
            | Native::Date
            | Native::Time { .. }
            | Native::Timestamp { .. }
            | Native::TimestampTz { .. }
            | Native::Uuid
            | Native::Inet
            | Native::Cidr
            | Native::MacAddr
            | Native::MacAddr8
            | Native::Oid
            | Native::Enum { .. } => true,
        }
    }
}

impl fmt::Display for Native {
    /// The type as `format_type` prints it. Six digits of a second are the default and are not printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Native::Boolean => f.write_str("boolean"),
            Native::SmallInt => f.write_str("smallint"),
            Native::Integer => f.write_str("integer"),
            Native::BigInt => f.write_str("bigint"),
            Native::Real => f.write_str("real"),
            Native::Double => f.write_str("double precision"),
            Native::Numeric { size: Some((precision, scale)) } => write!(f, "numeric({precision},{scale})"),
            Native::Numeric { size: None } => f.write_str("numeric"),
            Native::Money => f.write_str("money"),
            Native::Text => f.write_str("text"),
            Native::VarChar { length } => sized(f, "character varying", *length),
            Native::Char { length } => sized(f, "character", Some(*length)),
            Native::InternalChar => f.write_str("\"char\""),
            Native::Name => f.write_str("name"),
            Native::Bytea => f.write_str("bytea"),
            Native::Bit { length } => sized(f, "bit", Some(*length)),
            Native::VarBit { length } => sized(f, "bit varying", *length),
            Native::Date => f.write_str("date"),
            Native::Time { precision } => temporal(f, "time", *precision, " without time zone"),
            Native::TimeTz { precision } => temporal(f, "time", *precision, " with time zone"),
            Native::Timestamp { precision } => temporal(f, "timestamp", *precision, " without time zone"),
            Native::TimestampTz { precision } => temporal(f, "timestamp", *precision, " with time zone"),
            Native::Interval { precision } => temporal(f, "interval", *precision, ""),
            Native::Uuid => f.write_str("uuid"),
            Native::Json => f.write_str("json"),
            Native::Jsonb => f.write_str("jsonb"),
            Native::Xml => f.write_str("xml"),
            Native::Inet => f.write_str("inet"),
            Native::Cidr => f.write_str("cidr"),
            Native::MacAddr => f.write_str("macaddr"),
            Native::MacAddr8 => f.write_str("macaddr8"),
            Native::Oid => f.write_str("oid"),
            Native::Enum { name, .. } | Native::Other { name } => f.write_str(name),
            Native::Array { element, .. } => write!(f, "{element}[]"),
        }
    }
}

fn sized(f: &mut fmt::Formatter<'_>, name: &str, length: Option<u32>) -> fmt::Result {
    match length {
        Some(length) => write!(f, "{name}({length})"),
        None => f.write_str(name),
    }
}

fn temporal(f: &mut fmt::Formatter<'_>, name: &str, precision: u8, zone: &str) -> fmt::Result {
    if precision == FRACTION { write!(f, "{name}{zone}") } else { write!(f, "{name}({precision}){zone}") }
}

/// The upper half of an interval's modifier where it is not bound to some fields (`DAY TO SECOND`).
const ALL_FIELDS: u32 = 0x7fff;

/// Digits of a second where a declaration names none.
const FRACTION: u8 = 6;

impl Native {
    /// The type of a catalog row: `pg_type.typname` and `pg_attribute.atttypmod` (-1: none). `labels` are the labels of an
    /// enum type in their order, `dimensions` is `attndims`. A domain must be resolved to its base type before.
    pub fn from_catalog(type_name: &str, typmod: i32, labels: Option<Vec<String>>, dimensions: u8) -> Native {
        if let Some(element) = type_name.strip_prefix('_') {
            let element = Box::new(Native::from_catalog(element, typmod, labels, 0));
            return Native::Array { element, dimensions };
        }
        if let Some(labels) = labels {
            return Native::Enum { name: type_name.to_owned(), labels };
        }
        let modifier = u32::try_from(typmod).ok();
        // Lengths of character types are stored with four bytes of header added.
        let length = modifier.map(|m| m.saturating_sub(4));
        if type_name == "interval" && modifier.is_some_and(|m| m >> 16 != ALL_FIELDS) {
            return Native::Other { name: "interval of some fields".into() };
        }
        let fraction = modifier.map_or(FRACTION, |m| u8::try_from(m & 0xffff).map_or(FRACTION, |p| p.min(FRACTION)));
        match type_name {
            "bool" => Native::Boolean,
            "int2" => Native::SmallInt,
            "int4" => Native::Integer,
            "int8" => Native::BigInt,
            "float4" => Native::Real,
            "float8" => Native::Double,
            "numeric" => Native::Numeric { size: length.map(numeric_size) },
            "money" => Native::Money,
            "text" => Native::Text,
            "varchar" => Native::VarChar { length },
            // Without a length it is text that ignores trailing blanks.
            "bpchar" => length.map_or_else(|| Native::Other { name: "bpchar".into() }, |length| Native::Char { length }),
            "char" => Native::InternalChar,
            "name" => Native::Name,
            "bytea" => Native::Bytea,
            "bit" => Native::Bit { length: modifier.unwrap_or(1) },
            "varbit" => Native::VarBit { length: modifier },
            "date" => Native::Date,
            "time" => Native::Time { precision: fraction },
            "timetz" => Native::TimeTz { precision: fraction },
            "timestamp" => Native::Timestamp { precision: fraction },
            "timestamptz" => Native::TimestampTz { precision: fraction },
            "interval" => Native::Interval { precision: fraction },
            "uuid" => Native::Uuid,
            "json" => Native::Json,
            "jsonb" => Native::Jsonb,
            "xml" => Native::Xml,
            "inet" => Native::Inet,
            "cidr" => Native::Cidr,
            "macaddr" => Native::MacAddr,
            "macaddr8" => Native::MacAddr8,
            "oid" => Native::Oid,
            other => Native::Other { name: other.to_owned() },
        }
    }
}

/// Precision and scale of a numeric's modifier; the scale is an 11-bit two's complement since PostgreSQL 15.
fn numeric_size(modifier: u32) -> (u16, i16) {
    let precision = (modifier >> 16) as u16;
    let scale = ((modifier & 0x7ff) as i16 ^ 1024) - 1024;
    (precision, scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type name, modifier, dimensions and labels as the catalog of a PostgreSQL 15 has them, and what `format_type` prints.
    #[test]
    fn catalog_rows_print_as_the_server_prints_them() {
        for (name, typmod, dimensions, labels, shown) in [
            ("bool", -1, 0, "", "boolean"),
            ("int2", -1, 0, "", "smallint"),
            ("int4", -1, 0, "", "integer"),
            ("int8", -1, 0, "", "bigint"),
            ("float4", -1, 0, "", "real"),
            ("float8", -1, 0, "", "double precision"),
            ("numeric", 4259874, 0, "", "numeric(65,30)"),
            ("numeric", 329730, 0, "", "numeric(5,-2)"),
            ("numeric", -1, 0, "", "numeric"),
            ("numeric", 196617, 0, "", "numeric(3,5)"),
            ("money", -1, 0, "", "money"),
            ("text", -1, 0, "", "text"),
            ("varchar", 24, 0, "", "character varying(20)"),
            ("varchar", -1, 0, "", "character varying"),
            ("bpchar", 9, 0, "", "character(5)"),
            ("char", -1, 0, "", "\"char\""),
            ("name", -1, 0, "", "name"),
            ("bytea", -1, 0, "", "bytea"),
            ("bit", 10, 0, "", "bit(10)"),
            ("bit", 1, 0, "", "bit(1)"),
            ("varbit", 7, 0, "", "bit varying(7)"),
            ("varbit", -1, 0, "", "bit varying"),
            ("date", -1, 0, "", "date"),
            ("time", -1, 0, "", "time without time zone"),
            ("time", 0, 0, "", "time(0) without time zone"),
            ("timetz", -1, 0, "", "time with time zone"),
            ("timetz", 3, 0, "", "time(3) with time zone"),
            ("timestamp", -1, 0, "", "timestamp without time zone"),
            ("timestamp", 3, 0, "", "timestamp(3) without time zone"),
            ("timestamptz", 0, 0, "", "timestamp(0) with time zone"),
            ("timestamptz", -1, 0, "", "timestamp with time zone"),
            ("interval", -1, 0, "", "interval"),
            ("interval", 2147418112, 0, "", "interval(0)"),
            ("interval", 2147418115, 0, "", "interval(3)"),
            ("uuid", -1, 0, "", "uuid"),
            ("json", -1, 0, "", "json"),
            ("jsonb", -1, 0, "", "jsonb"),
            ("xml", -1, 0, "", "xml"),
            ("inet", -1, 0, "", "inet"),
            ("cidr", -1, 0, "", "cidr"),
            ("macaddr", -1, 0, "", "macaddr"),
            ("macaddr8", -1, 0, "", "macaddr8"),
            ("oid", -1, 0, "", "oid"),
            ("mood", -1, 0, "a,b", "mood"),
            ("_int4", -1, 1, "", "integer[]"),
            ("_varchar", 13, 1, "", "character varying(9)[]"),
            ("tsvector", -1, 0, "", "tsvector"),
            ("_numeric", 655366, 1, "", "numeric(10,2)[]"),
            ("timestamp", 6, 0, "", "timestamp without time zone"),
            ("bpchar", -1, 0, "", "bpchar"),
            ("interval", 470286338, 0, "", "interval of some fields"),
        ] {
            let labels = (!labels.is_empty()).then(|| labels.split(',').map(str::to_owned).collect());
            assert_eq!(Native::from_catalog(name, typmod, labels, dimensions).to_string(), shown, "{name} {typmod}");
        }
    }
}
