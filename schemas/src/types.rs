//! Logical types: the closed set that both ends of a pipeline agree on.
//!
//! A source column's own declaration is its [`crate::native::Native`]; the logical type says what its values are.
//! How a logical type stands in Avro is [`Type::repr`], and nowhere else.

use serde::{Deserialize, Serialize};

/// What the values of a column are, whatever engine holds them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    Boolean,
    /// Whole numbers of 8, 16, 24, 32 or 64 bits.
    Integer {
        bits: u8,
        unsigned: bool,
    },
    Float32,
    Float64,
    /// Exact decimals; `precision` counts all digits, a negative `scale` counts zeros before the point.
    Decimal {
        precision: u16,
        scale: i16,
    },
    /// Exact decimals without a declared size, as text (PostgreSQL's bare `numeric`).
    Numeric,
    /// Text of at most `length` characters (none: unlimited); `fixed` is CHAR(n).
    Text {
        length: Option<u32>,
        fixed: bool,
    },
    /// JSON as the source prints it.
    Json,
    /// One of the labels, or MySQL's invalid empty value.
    Enum {
        labels: Vec<String>,
    },
    /// Any of the labels, joined by commas in their order.
    Set {
        labels: Vec<String>,
    },
    /// Bytes, at most `length` of them; `fixed` values are padded to it.
    Bytes {
        length: Option<u32>,
        fixed: bool,
    },
    /// A bit string of `length` bits, most significant bit first, left padded to whole bytes.
    Bits {
        length: u32,
        varying: bool,
    },
    /// Days since 1970-01-01 in the proleptic Gregorian calendar.
    Date,
    /// Microseconds since midnight, at most 24:00:00.
    Time {
        precision: u8,
    },
    /// Time of day with an offset, as the source prints it.
    TimeTz {
        precision: u8,
    },
    /// A signed span of microseconds (MySQL's TIME).
    Duration {
        precision: u8,
    },
    /// Microseconds since 1970-01-01 00:00:00 of a wall clock without a zone.
    DateTime {
        precision: u8,
    },
    /// Microseconds since 1970-01-01 00:00:00 UTC: an instant.
    Timestamp {
        precision: u8,
    },
    /// A year; MySQL's 0 is itself.
    Year,
    /// Months, days and microseconds, in ISO 8601 form.
    Interval,
    Uuid,
    /// A network address (`inet`, `cidr`, INET4, INET6), as text.
    Inet,
    Xml,
    /// SRID and WKB: four bytes little-endian, then the WKB.
    Geometry,
    /// Elements of one type, any of which may be NULL.
    Array {
        element: Box<Type>,
    },
    /// Any other type whose text form is exact, named by the source (`tsvector`, `ltree`, ranges …).
    Verbatim {
        name: String,
    },
}

/// How a logical type stands in Avro.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repr {
    Boolean,
    /// Avro `int`.
    Int,
    /// Avro `long`.
    Long,
    Float,
    Double,
    Bytes,
    String,
    /// `bytes` with `logicalType: decimal`.
    Decimal {
        precision: u16,
        scale: u16,
    },
    /// `int` with `logicalType: date`.
    Date,
    /// `long` with `logicalType: time-micros`.
    TimeMicros,
    /// `long` with `logicalType: local-timestamp-micros`.
    LocalTimestampMicros,
    /// `long` with `logicalType: timestamp-micros`.
    TimestampMicros,
    /// `string` with `logicalType: uuid`.
    Uuid,
    Array(Box<Repr>),
}

impl Type {
    /// The Avro form of this type's values.
    pub fn repr(&self) -> Repr {
        match self {
            Type::Boolean => Repr::Boolean,
            Type::Integer { bits: 64, unsigned: true } => Repr::Decimal { precision: 20, scale: 0 },
            Type::Integer { bits: 64, unsigned: false } | Type::Integer { bits: 32, unsigned: true } => Repr::Long,
            Type::Integer { .. } | Type::Year => Repr::Int,
            Type::Float32 => Repr::Float,
            Type::Float64 => Repr::Double,
            Type::Decimal { precision, scale } => match u16::try_from(*scale) {
                Ok(scale) => Repr::Decimal { precision: *precision, scale },
                Err(_) => Repr::Decimal { precision: precision + scale.unsigned_abs(), scale: 0 },
            },
            Type::Bytes { .. } | Type::Bits { .. } | Type::Geometry => Repr::Bytes,
            Type::Date => Repr::Date,
            Type::Time { .. } => Repr::TimeMicros,
            Type::Duration { .. } => Repr::Long,
            Type::DateTime { .. } => Repr::LocalTimestampMicros,
            Type::Timestamp { .. } => Repr::TimestampMicros,
            Type::Uuid => Repr::Uuid,
            Type::Array { element } => Repr::Array(Box::new(element.repr())),
            Type::Numeric
            | Type::Text { .. }
            | Type::Json
            | Type::Enum { .. }
            | Type::Set { .. }
            | Type::TimeTz { .. }
            | Type::Interval
            | Type::Inet
            | Type::Xml
            | Type::Verbatim { .. } => Repr::String,
        }
    }
}

impl Type {
    /// The type in words, for messages and tables.
    pub fn describe(&self) -> String {
        let sized = |name: &str, length: &Option<u32>| length.map_or_else(|| name.to_owned(), |n| format!("{name}({n})"));
        match self {
            Type::Boolean => "boolean".into(),
            Type::Integer { bits, unsigned } => format!("{bits}-bit {}integer", if *unsigned { "unsigned " } else { "" }),
            Type::Float32 => "32-bit float".into(),
            Type::Float64 => "64-bit float".into(),
            Type::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
            Type::Numeric => "decimal of any size".into(),
            Type::Text { length, fixed } => sized(if *fixed { "fixed text" } else { "text" }, length),
            Type::Json => "json".into(),
            Type::Enum { labels } => format!("enum of {} labels", labels.len()),
            Type::Set { labels } => format!("set of {} labels", labels.len()),
            Type::Bytes { length, fixed } => sized(if *fixed { "fixed bytes" } else { "bytes" }, length),
            Type::Bits { length, varying } => format!("{}bits({length})", if *varying { "varying " } else { "" }),
            Type::Date => "date".into(),
            Type::Time { precision } => format!("time({precision})"),
            Type::TimeTz { precision } => format!("time({precision}) with offset"),
            Type::Duration { precision } => format!("duration({precision})"),
            Type::DateTime { precision } => format!("date-time({precision})"),
            Type::Timestamp { precision } => format!("instant({precision})"),
            Type::Year => "year".into(),
            Type::Interval => "interval".into(),
            Type::Uuid => "uuid".into(),
            Type::Inet => "network address".into(),
            Type::Xml => "xml".into(),
            Type::Geometry => "geometry".into(),
            Type::Array { element } => format!("array of {}", element.describe()),
            Type::Verbatim { name } => name.clone(),
        }
    }
}
