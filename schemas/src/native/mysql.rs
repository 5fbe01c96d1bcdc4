//! MySQL and MariaDB: the type table.

mod address;
mod printed;

pub use address::Inet6;
pub use printed::{NAMES, printed, zerofill_width};

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::Type;

/// The character set and collation of a text column, by the server's names, lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Charset {
    pub charset: String,
    pub collation: String,
}

/// The four sizes of TEXT and BLOB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LobSize {
    Tiny,
    Normal,
    Medium,
    Long,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Geometry {
    Geometry,
    Point,
    LineString,
    Polygon,
    MultiPoint,
    MultiLineString,
    MultiPolygon,
    GeometryCollection,
}

/// A column declaration, synonyms resolved (`BOOL` is `TINYINT(1)`, `NUMERIC` is `DECIMAL`, `SERIAL` is `BIGINT UNSIGNED`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Native {
    /// TINYINT, SMALLINT, MEDIUMINT, INT, BIGINT by bits (8, 16, 24, 32, 64). The display width says nothing about values.
    Integer {
        bits: u8,
        unsigned: bool,
        zerofill: bool,
        width: Option<u8>,
    },
    Decimal {
        precision: u8,
        scale: u8,
        unsigned: bool,
    },
    /// `digits` is the old FLOAT(M,D).
    Float {
        unsigned: bool,
        digits: Option<(u8, u8)>,
    },
    Double {
        unsigned: bool,
        digits: Option<(u8, u8)>,
    },
    Bit {
        length: u8,
    },
    Year,
    Date,
    Time {
        precision: u8,
    },
    DateTime {
        precision: u8,
    },
    Timestamp {
        precision: u8,
    },
    Char {
        length: u16,
        charset: Charset,
    },
    VarChar {
        length: u32,
        charset: Charset,
        compressed: bool,
    },
    Text {
        size: LobSize,
        charset: Charset,
        compressed: bool,
    },
    Binary {
        length: u16,
    },
    VarBinary {
        length: u32,
        compressed: bool,
    },
    Blob {
        size: LobSize,
        compressed: bool,
    },
    Enum {
        labels: Vec<String>,
        charset: Charset,
    },
    Set {
        labels: Vec<String>,
        charset: Charset,
    },
    /// MySQL's binary JSON. MariaDB's JSON is LONGTEXT with a CHECK, `Text` here.
    Json,
    Geometry {
        kind: Geometry,
        srid: Option<u32>,
    },
    /// MariaDB.
    Uuid,
    /// MariaDB.
    Inet4,
    /// MariaDB.
    Inet6,
    /// MySQL 9's VECTOR(n): 32-bit floats, little-endian.
    Vector {
        dimensions: u16,
    },
}

impl Native {
    pub fn logical(&self) -> Type {
        match self {
            Native::Integer { bits, unsigned, .. } => Type::Integer { bits: *bits, unsigned: *unsigned },
            Native::Decimal { precision, scale, .. } => Type::Decimal { precision: u16::from(*precision), scale: i16::from(*scale) },
            Native::Float { .. } => Type::Float32,
            Native::Double { .. } => Type::Float64,
            Native::Bit { length } => Type::Bits { length: u32::from(*length), varying: false },
            Native::Year => Type::Year,
            Native::Date => Type::Date,
            Native::Time { precision } => Type::Duration { precision: *precision },
            Native::DateTime { precision } => Type::DateTime { precision: *precision },
            Native::Timestamp { precision } => Type::Timestamp { precision: *precision },
            Native::Char { length, .. } => Type::Text { length: Some(u32::from(*length)), fixed: true },
            Native::VarChar { length, .. } => Type::Text { length: Some(*length), fixed: false },
            Native::Text { .. } => Type::Text { length: None, fixed: false },
            Native::Binary { length } => Type::Bytes { length: Some(u32::from(*length)), fixed: true },
            Native::VarBinary { length, .. } => Type::Bytes { length: Some(*length), fixed: false },
            Native::Blob { .. } => Type::Bytes { length: None, fixed: false },
            Native::Enum { labels, .. } => Type::Enum { labels: labels.clone() },
            Native::Set { labels, .. } => Type::Set { labels: labels.clone() },
            Native::Json => Type::Json,
            Native::Geometry { .. } => Type::Geometry,
            Native::Uuid => Type::Uuid,
            Native::Inet4 | Native::Inet6 => Type::Inet,
            Native::Vector { dimensions } => Type::Bytes { length: Some(u32::from(*dimensions) * 4), fixed: false },
        }
    }

    /// Of values, or of the labels.
    pub fn charset(&self) -> Option<&Charset> {
        match self {
            Native::Char { charset, .. }
            | Native::VarChar { charset, .. }
            | Native::Text { charset, .. }
            | Native::Enum { charset, .. }
            | Native::Set { charset, .. } => Some(charset),
            Native::Integer { .. }
            | Native::Decimal { .. }
            | Native::Float { .. }
            | Native::Double { .. }
            | Native::Bit { .. }
            | Native::Year
            | Native::Date
            | Native::Time { .. }
            | Native::DateTime { .. }
            | Native::Timestamp { .. }
            | Native::Binary { .. }
            | Native::VarBinary { .. }
            | Native::Blob { .. }
            | Native::Json
            | Native::Geometry { .. }
            | Native::Uuid
            | Native::Inet4
            | Native::Inet6
            | Native::Vector { .. } => None,
        }
    }

    /// The collation that values are sorted by; None where it is their type alone.
    pub fn collation(&self) -> Option<&str> {
        if matches!(self, Native::Enum { .. } | Native::Set { .. }) {
            return None;
        }
        self.charset().map(|charset| charset.collation.as_str())
    }

    /// Whether MariaDB keeps the column's values compressed.
    pub fn compressed(&self) -> bool {
        match self {
            Native::VarChar { compressed, .. }
            | Native::Text { compressed, .. }
            | Native::VarBinary { compressed, .. }
            | Native::Blob { compressed, .. } => *compressed,
            Native::Integer { .. }
            | Native::Decimal { .. }
            | Native::Float { .. }
            | Native::Double { .. }
            | Native::Bit { .. }
            | Native::Year
            | Native::Date
            | Native::Time { .. }
            | Native::DateTime { .. }
            | Native::Timestamp { .. }
            | Native::Char { .. }
            | Native::Binary { .. }
            | Native::Enum { .. }
            | Native::Set { .. }
            | Native::Json
            | Native::Geometry { .. }
            | Native::Uuid
            | Native::Inet4
            | Native::Inet6
            | Native::Vector { .. } => false,
        }
    }

    /// False for floats (-0 equals 0) and for text under a collation that is not binary.
    pub fn equal_means_same_bytes(&self) -> bool {
        match self {
            Native::Float { .. } | Native::Double { .. } | Native::Json | Native::Geometry { .. } => false,
            Native::Char { charset, .. } | Native::VarChar { charset, .. } | Native::Text { charset, .. } => {
                // PAD SPACE holds for `_bin` collations too: 'a' equals 'a '.
                charset.collation == "binary" || charset.collation.ends_with("_nopad_bin") || charset.collation == "utf8mb4_0900_bin"
            }
            Native::Integer { .. }
            | Native::Decimal { .. }
            | Native::Bit { .. }
            | Native::Year
            | Native::Date
            | Native::Time { .. }
            | Native::DateTime { .. }
            | Native::Timestamp { .. }
            | Native::Binary { .. }
            | Native::VarBinary { .. }
            | Native::Blob { .. }
            | Native::Enum { .. }
            | Native::Set { .. }
            | Native::Uuid
            | Native::Inet4
            | Native::Inet6
            | Native::Vector { .. } => true,
        }
    }
}

impl fmt::Display for Native {
    /// The declaration as the server's own `column_type` prints it: without character set, the display width only where it is
    /// not the usual one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Native::Integer { bits, unsigned, zerofill, width } => {
                f.write_str(integer_name(*bits))?;
                if let Some(width) = width {
                    write!(f, "({width})")?;
                }
                f.write_str(sign(*unsigned))?;
                f.write_str(if *zerofill { " zerofill" } else { "" })
            }
            Native::Decimal { precision, scale, unsigned } => write!(f, "decimal({precision},{scale}){}", sign(*unsigned)),
            Native::Float { unsigned, digits } => floating(f, "float", *digits, *unsigned),
            Native::Double { unsigned, digits } => floating(f, "double", *digits, *unsigned),
            Native::Bit { length } => write!(f, "bit({length})"),
            Native::Year => f.write_str("year"),
            Native::Date => f.write_str("date"),
            Native::Time { precision } => clock(f, "time", *precision),
            Native::DateTime { precision } => clock(f, "datetime", *precision),
            Native::Timestamp { precision } => clock(f, "timestamp", *precision),
            Native::Char { length, .. } => write!(f, "char({length})"),
            Native::VarChar { length, .. } => write!(f, "varchar({length})"),
            Native::Text { size, .. } => write!(f, "{}text", size.prefix()),
            Native::Binary { length } => write!(f, "binary({length})"),
            Native::VarBinary { length, .. } => write!(f, "varbinary({length})"),
            Native::Blob { size, .. } => write!(f, "{}blob", size.prefix()),
            Native::Enum { labels, .. } => listed(f, "enum", labels),
            Native::Set { labels, .. } => listed(f, "set", labels),
            Native::Json => f.write_str("json"),
            Native::Geometry { kind, .. } => f.write_str(kind.name()),
            Native::Uuid => f.write_str("uuid"),
            Native::Inet4 => f.write_str("inet4"),
            Native::Inet6 => f.write_str("inet6"),
            Native::Vector { dimensions } => write!(f, "vector({dimensions})"),
        }
    }
}

fn integer_name(bits: u8) -> &'static str {
    match bits {
        8 => "tinyint",
        16 => "smallint",
        24 => "mediumint",
        32 => "int",
        _ => "bigint",
    }
}

fn sign(unsigned: bool) -> &'static str {
    if unsigned { " unsigned" } else { "" }
}

fn floating(f: &mut fmt::Formatter<'_>, name: &str, digits: Option<(u8, u8)>, unsigned: bool) -> fmt::Result {
    f.write_str(name)?;
    if let Some((width, scale)) = digits {
        write!(f, "({width},{scale})")?;
    }
    f.write_str(sign(unsigned))
}

fn clock(f: &mut fmt::Formatter<'_>, name: &str, precision: u8) -> fmt::Result {
    if precision == 0 { f.write_str(name) } else { write!(f, "{name}({precision})") }
}

fn listed(f: &mut fmt::Formatter<'_>, name: &str, labels: &[String]) -> fmt::Result {
    let quoted: Vec<String> = labels.iter().map(|label| format!("'{}'", label.replace('\'', "''"))).collect();
    write!(f, "{name}({})", quoted.join(","))
}

impl LobSize {
    /// What stands before TEXT and BLOB.
    pub fn prefix(self) -> &'static str {
        match self {
            LobSize::Tiny => "tiny",
            LobSize::Normal => "",
            LobSize::Medium => "medium",
            LobSize::Long => "long",
        }
    }
}

impl Geometry {
    pub fn name(self) -> &'static str {
        match self {
            Geometry::Geometry => "geometry",
            Geometry::Point => "point",
            Geometry::LineString => "linestring",
            Geometry::Polygon => "polygon",
            Geometry::MultiPoint => "multipoint",
            Geometry::MultiLineString => "multilinestring",
            Geometry::MultiPolygon => "multipolygon",
            Geometry::GeometryCollection => "geometrycollection",
        }
    }
}
