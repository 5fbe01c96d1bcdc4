//! PostgreSQL: the type table.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::Type;

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
    /// The type as `format_type` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
