//! The PostgreSQL type that holds every value of a source column exactly.

use super::Native;
use crate::{
    native::{Native as AnyNative, Unsupported, mysql},
    table::Column,
};

/// The PostgreSQL type for a column of any source.
///
/// # Errors
///
/// The source type has values that no PostgreSQL type holds.
pub fn declare(column: &Column) -> Result<Native, Unsupported> {
    if column.as_text {
        return Ok(Native::Text);
    }
    match &column.native {
        AnyNative::MySql(native) => Ok(from_mysql(native)),
        AnyNative::Postgres(native) => from_postgres(native),
    }
}

fn from_mysql(native: &mysql::Native) -> Native {
    use mysql::Native as M;
    match native {
        M::Integer { bits, unsigned, .. } => integer(*bits, *unsigned),
        M::Decimal { precision, scale, .. } => Native::Numeric { size: Some((u16::from(*precision), i16::from(*scale))) },
        M::Float { .. } => Native::Real,
        M::Double { .. } => Native::Double,
        M::Bit { length } => Native::Bit { length: u32::from(*length) },
        M::Year => Native::SmallInt,
        M::Date => Native::Date,
        // MySQL's TIME reaches from -838:59:59 to 838:59:59: a span, not a time of day.
        M::Time { precision } => Native::Interval { precision: *precision },
        M::DateTime { precision } => Native::Timestamp { precision: *precision },
        M::Timestamp { precision } => Native::TimestampTz { precision: *precision },
        // The server gives CHAR without its trailing blanks: character(n) would put them back.
        M::Char { length, .. } => varchar(u32::from(*length)),
        M::VarChar { length, .. } => varchar(*length),
        // Not jsonb: it reorders keys, drops doubled ones and rewrites numbers.
        M::Json => Native::Json,
        M::Text { .. } | M::Enum { .. } | M::Set { .. } => Native::Text,
        M::Binary { .. } | M::VarBinary { .. } | M::Blob { .. } | M::Geometry { .. } | M::Vector { .. } => Native::Bytea,
        M::Uuid => Native::Uuid,
        M::Inet4 | M::Inet6 => Native::Inet,
    }
}

/// The smallest integer that holds the whole range.
fn integer(bits: u8, unsigned: bool) -> Native {
    match bits + u8::from(unsigned) {
        0..=16 => Native::SmallInt,
        17..=32 => Native::Integer,
        33..=64 => Native::BigInt,
        65.. => Native::Numeric { size: Some((20, 0)) },
    }
}

/// PostgreSQL has no varchar(0).
fn varchar(length: u32) -> Native {
    if length == 0 { Native::Text } else { Native::VarChar { length: Some(length) } }
}

fn from_postgres(native: &Native) -> Result<Native, Unsupported> {
    match native {
        // User-defined types need not exist on the target; their text is exact.
        Native::Enum { .. } | Native::Other { .. } => Ok(Native::Text),
        Native::Array { element, dimensions } => {
            let element = Box::new(from_postgres(element)?);
            Ok(Native::Array { element, dimensions: *dimensions })
        }
        Native::Boolean
        | Native::SmallInt
        | Native::Integer
        | Native::BigInt
        | Native::Real
        | Native::Double
        | Native::Numeric { .. }
        | Native::Money
        | Native::Text
        | Native::VarChar { .. }
        | Native::Char { .. }
        | Native::InternalChar
        | Native::Name
        | Native::Bytea
        | Native::Bit { .. }
        | Native::VarBit { .. }
        | Native::Date
        | Native::Time { .. }
        | Native::TimeTz { .. }
        | Native::Timestamp { .. }
        | Native::TimestampTz { .. }
        | Native::Interval { .. }
        | Native::Uuid
        | Native::Json
        | Native::Jsonb
        | Native::Xml
        | Native::Inet
        | Native::Cidr
        | Native::MacAddr
        | Native::MacAddr8
        | Native::Oid => Ok(native.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_take_the_smallest_type_that_holds_their_range() {
        for (bits, unsigned, name) in [
            (8, false, "smallint"),
            (8, true, "smallint"),
            (16, false, "smallint"),
            (16, true, "integer"),
            (24, false, "integer"),
            (24, true, "integer"),
            (32, false, "integer"),
            (32, true, "bigint"),
            (64, false, "bigint"),
            (64, true, "numeric(20,0)"),
        ] {
            assert_eq!(integer(bits, unsigned).to_string(), name, "{bits} bits, unsigned {unsigned}");
        }
    }
}
