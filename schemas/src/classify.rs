//! Which kind of change lies between two declarations of one column.
//!
//! The source's own declarations are compared, never the target's: `smallint` and `int` may both be one type there.

use crate::{
    change::Kind,
    ddl::mysql::{lob_bytes, widest},
    native::{Native, mysql, postgres},
    table::Column,
};

/// The kind of the type change from `before` to `after`; None where the values of both are the same set under the same form.
///
/// Character set, collation, compression, display width and ZEROFILL are not types: they are changes of their own, or none.
///
/// Of a column that is published as text, everything that gives the values that are there another text is a change of type.
pub fn type_change(before: &Column, after: &Column, in_key: bool) -> Option<Kind> {
    if before.as_text != after.as_text || (before.as_text && !printed_alike(&before.native, &after.native)) {
        return Some(Kind::ChangeType);
    }
    let kind = match (&before.native, &after.native) {
        (Native::MySql(before), Native::MySql(after)) => mysql_change(before, after),
        (Native::Postgres(before), Native::Postgres(after)) => postgres_change(before, after),
        (Native::MySql(_), Native::Postgres(_)) | (Native::Postgres(_), Native::MySql(_)) => Some(Kind::ChangeType),
    };
    match kind {
        Some(Kind::ChangeDecimal) if in_key => Some(Kind::ChangeKeyDecimal),
        other => other,
    }
}

/// Whether every value that both declarations hold has the same text under both.
fn printed_alike(before: &Native, after: &Native) -> bool {
    match (before, after) {
        (Native::MySql(before), Native::MySql(after)) => digits(before) == digits(after),
        (Native::MySql(_) | Native::Postgres(_), Native::Postgres(_)) | (Native::Postgres(_), Native::MySql(_)) => true,
    }
}

/// What a declaration says about the text of its values: the width that zeros fill, and the digits behind the point.
fn digits(native: &mysql::Native) -> (Option<Option<u8>>, Option<u8>) {
    use mysql::Native as N;
    match native {
        N::Integer { zerofill, width, .. } => (zerofill.then_some(*width), None),
        N::Decimal { scale, .. } => (None, Some(*scale)),
        N::Time { precision } | N::DateTime { precision } | N::Timestamp { precision } => (None, Some(*precision)),
        N::Float { .. }
        | N::Double { .. }
        | N::Bit { .. }
        | N::Year
        | N::Date
        | N::Char { .. }
        | N::VarChar { .. }
        | N::Text { .. }
        | N::Binary { .. }
        | N::VarBinary { .. }
        | N::Blob { .. }
        | N::Enum { .. }
        | N::Set { .. }
        | N::Json
        | N::Geometry { .. }
        | N::Uuid
        | N::Inet4
        | N::Inet6
        | N::Vector { .. } => (None, None),
    }
}

/// A size that grows or shrinks without touching the values that fit both.
fn size<T: Ord>(before: T, after: T) -> Option<Kind> {
    match before.cmp(&after) {
        std::cmp::Ordering::Less => Some(Kind::Lengthen),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(Kind::Shorten),
    }
}

/// Digits of a second: more of them keep every value; fewer are rounded by one server and cut by another.
fn fraction(before: u8, after: u8) -> Option<Kind> {
    match size(before, after) {
        Some(Kind::Shorten) => Some(Kind::ChangeType),
        other => other,
    }
}

/// Values of at most so many bytes go into a TEXT or BLOB.
fn holds(size: mysql::LobSize, bytes: u32) -> Option<Kind> {
    Some(if lob_bytes(size) >= bytes { Kind::Lengthen } else { Kind::ChangeType })
}

fn labels(before: &[String], after: &[String]) -> Option<Kind> {
    if before == after {
        None
    } else if after.starts_with(before) {
        Some(Kind::AppendEnumLabels)
    } else {
        Some(Kind::ChangeEnumLabels)
    }
}

fn different(is: bool) -> Option<Kind> {
    is.then_some(Kind::ChangeType)
}

/// Of a change of the type itself and a change of signedness: both at once is no single kind.
fn with_sign(kind: Option<Kind>, before: bool, after: bool) -> Option<Kind> {
    match (kind, before == after) {
        (kind, true) => kind,
        (None, false) => Some(Kind::ChangeSignedness),
        (Some(_), false) => Some(Kind::ChangeType),
    }
}

macro_rules! same_variant {
    ($pattern:pat = $after:expr) => {
        let $pattern = $after else { return Some(Kind::ChangeType) };
    };
}

fn mysql_change(before: &mysql::Native, after: &mysql::Native) -> Option<Kind> {
    use mysql::Native as N;
    match before {
        N::Integer { bits, unsigned, .. } => {
            same_variant!(N::Integer { bits: new_bits, unsigned: new_unsigned, .. } = after);
            let width = match size(bits, new_bits) {
                Some(Kind::Lengthen) => Some(Kind::WidenInteger),
                Some(_) => Some(Kind::ChangeType),
                None => None,
            };
            with_sign(width, *unsigned, *new_unsigned)
        }
        N::Decimal { precision, scale, unsigned } => {
            same_variant!(N::Decimal { precision: new_precision, scale: new_scale, unsigned: new_unsigned } = after);
            let digits = ((precision, scale) != (new_precision, new_scale)).then_some(Kind::ChangeDecimal);
            with_sign(digits, *unsigned, *new_unsigned)
        }
        N::Float { unsigned, digits } => {
            same_variant!(N::Float { unsigned: new_unsigned, digits: new_digits } = after);
            with_sign(different(digits != new_digits), *unsigned, *new_unsigned)
        }
        N::Double { unsigned, digits } => {
            same_variant!(N::Double { unsigned: new_unsigned, digits: new_digits } = after);
            with_sign(different(digits != new_digits), *unsigned, *new_unsigned)
        }
        N::Time { precision } => {
            same_variant!(N::Time { precision: new } = after);
            fraction(*precision, *new)
        }
        N::DateTime { precision } => {
            same_variant!(N::DateTime { precision: new } = after);
            fraction(*precision, *new)
        }
        N::Timestamp { precision } => {
            same_variant!(N::Timestamp { precision: new } = after);
            fraction(*precision, *new)
        }
        N::Char { length, .. } => {
            same_variant!(N::Char { length: new, .. } = after);
            size(length, new)
        }
        // A TEXT that holds every value of a VARCHAR is its longer form; the same for bytes.
        N::VarChar { length, charset, .. } => {
            if let N::Text { size, .. } = after {
                return holds(*size, length.saturating_mul(widest(&charset.charset)));
            }
            same_variant!(N::VarChar { length: new, .. } = after);
            size(length, new)
        }
        N::Text { size: length, .. } => {
            same_variant!(N::Text { size: new, .. } = after);
            size(length, new)
        }
        N::VarBinary { length, .. } => {
            if let N::Blob { size, .. } = after {
                return holds(*size, *length);
            }
            same_variant!(N::VarBinary { length: new, .. } = after);
            size(length, new)
        }
        N::Blob { size: length, .. } => {
            same_variant!(N::Blob { size: new, .. } = after);
            size(length, new)
        }
        N::Enum { labels: old, .. } => {
            same_variant!(N::Enum { labels: new, .. } = after);
            labels(old, new)
        }
        N::Set { labels: old, .. } => {
            same_variant!(N::Set { labels: new, .. } = after);
            labels(old, new)
        }
        // A longer BINARY pads the values that are there, a longer BIT moves their bits: no mere growth.
        N::Bit { .. }
        | N::Binary { .. }
        | N::Year
        | N::Date
        | N::Json
        | N::Geometry { .. }
        | N::Uuid
        | N::Inet4
        | N::Inet6
        | N::Vector { .. } => different(before != after),
    }
}

fn postgres_change(before: &postgres::Native, after: &postgres::Native) -> Option<Kind> {
    use postgres::Native as N;
    let integer_bits = |native: &N| match native.logical() {
        crate::types::Type::Integer { bits, unsigned: false } => Some(bits),
        _ => None,
    };
    match before {
        N::SmallInt | N::Integer | N::BigInt => match (integer_bits(before), integer_bits(after)) {
            (Some(old), Some(new)) if old < new => Some(Kind::WidenInteger),
            (Some(old), Some(new)) if old == new => None,
            _ => Some(Kind::ChangeType),
        },
        N::Numeric { .. } => {
            same_variant!(N::Numeric { .. } = after);
            (before != after).then_some(Kind::ChangeDecimal)
        }
        // Without a length is the longest.
        N::VarChar { length } => {
            let unlimited = |length: Option<u32>| length.unwrap_or(u32::MAX);
            if *after == N::Text {
                return length.is_some().then_some(Kind::Lengthen);
            }
            same_variant!(N::VarChar { length: new } = after);
            size(unlimited(*length), unlimited(*new))
        }
        N::Text => {
            if *after == N::Text {
                return None;
            }
            same_variant!(N::VarChar { length: new } = after);
            new.is_some().then_some(Kind::Shorten)
        }
        N::VarBit { length } => {
            same_variant!(N::VarBit { length: new } = after);
            size(length.unwrap_or(u32::MAX), new.unwrap_or(u32::MAX))
        }
        N::Time { precision } => {
            same_variant!(N::Time { precision: new } = after);
            fraction(*precision, *new)
        }
        N::TimeTz { precision } => {
            same_variant!(N::TimeTz { precision: new } = after);
            fraction(*precision, *new)
        }
        N::Timestamp { precision } => {
            same_variant!(N::Timestamp { precision: new } = after);
            fraction(*precision, *new)
        }
        N::TimestampTz { precision } => {
            same_variant!(N::TimestampTz { precision: new } = after);
            fraction(*precision, *new)
        }
        N::Interval { precision } => {
            same_variant!(N::Interval { precision: new } = after);
            fraction(*precision, *new)
        }
        N::Enum { name, labels: old } => {
            same_variant!(N::Enum { name: new_name, labels: new } = after);
            if name == new_name { labels(old, new) } else { Some(Kind::ChangeType) }
        }
        // A longer character(n) or bit(n) pads the values that are there.
        N::Char { .. }
        | N::Bit { .. }
        | N::Boolean
        | N::Real
        | N::Double
        | N::Money
        | N::InternalChar
        | N::Name
        | N::Bytea
        | N::Date
        | N::Uuid
        | N::Json
        | N::Jsonb
        | N::Xml
        | N::Inet
        | N::Cidr
        | N::MacAddr
        | N::MacAddr8
        | N::Oid
        | N::Array { .. }
        | N::Other { .. } => different(before != after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql::{Charset, LobSize, Native as M};

    fn charset(name: &str) -> Charset {
        Charset { charset: name.into(), collation: format!("{name}_general_ci") }
    }

    fn int(bits: u8, unsigned: bool) -> M {
        M::Integer { bits, unsigned, zerofill: false, width: None }
    }

    fn decimal(precision: u8, scale: u8) -> M {
        M::Decimal { precision, scale, unsigned: false }
    }

    fn varchar(length: u32) -> M {
        M::VarChar { length, charset: charset("utf8mb4"), compressed: false }
    }

    fn char(length: u16) -> M {
        M::Char { length, charset: charset("utf8mb4") }
    }

    fn text(size: LobSize) -> M {
        M::Text { size, charset: charset("utf8mb4"), compressed: false }
    }

    fn enumeration(labels: &[&str]) -> M {
        M::Enum { labels: labels.iter().map(|l| (*l).to_owned()).collect(), charset: charset("utf8mb4") }
    }

    fn change(before: M, after: M, in_key: bool) -> Option<Kind> {
        type_change(&Column::new(0, "c", Native::MySql(before)), &Column::new(0, "c", Native::MySql(after)), in_key)
    }

    #[test]
    fn every_mysql_type_change_has_its_class() {
        let digits = Some((7, 2));
        for (before, after, kind) in [
            (int(16, false), int(32, false), Some(Kind::WidenInteger)),
            (int(64, false), int(32, false), Some(Kind::ChangeType)),
            (int(32, false), int(32, true), Some(Kind::ChangeSignedness)),
            (int(16, false), int(32, true), Some(Kind::ChangeType)),
            (int(32, false), M::Integer { bits: 32, unsigned: false, zerofill: false, width: Some(5) }, None),
            (int(32, true), M::Integer { bits: 32, unsigned: true, zerofill: true, width: Some(5) }, None),
            (int(32, false), varchar(12), Some(Kind::ChangeType)),
            (varchar(10), varchar(20), Some(Kind::Lengthen)),
            (varchar(300), varchar(8), Some(Kind::Shorten)),
            (varchar(10), text(LobSize::Normal), Some(Kind::Lengthen)),
            (varchar(16_384), text(LobSize::Normal), Some(Kind::ChangeType)),
            (text(LobSize::Normal), varchar(10), Some(Kind::ChangeType)),
            (char(5), varchar(5), Some(Kind::ChangeType)),
            (char(5), char(9), Some(Kind::Lengthen)),
            (text(LobSize::Normal), text(LobSize::Medium), Some(Kind::Lengthen)),
            (text(LobSize::Long), text(LobSize::Tiny), Some(Kind::Shorten)),
            (decimal(8, 2), decimal(12, 2), Some(Kind::ChangeDecimal)),
            (decimal(10, 4), decimal(10, 2), Some(Kind::ChangeDecimal)),
            (M::DateTime { precision: 0 }, M::Date, Some(Kind::ChangeType)),
            (M::DateTime { precision: 0 }, M::DateTime { precision: 6 }, Some(Kind::Lengthen)),
            (M::Time { precision: 0 }, M::Time { precision: 3 }, Some(Kind::Lengthen)),
            (M::Time { precision: 3 }, M::Time { precision: 0 }, Some(Kind::ChangeType)),
            (M::Float { unsigned: false, digits: None }, M::Double { unsigned: false, digits: None }, Some(Kind::ChangeType)),
            (M::Float { unsigned: false, digits: None }, M::Float { unsigned: false, digits }, Some(Kind::ChangeType)),
            (M::Bit { length: 3 }, M::Bit { length: 8 }, Some(Kind::ChangeType)),
            (M::Binary { length: 3 }, M::Binary { length: 8 }, Some(Kind::ChangeType)),
            (M::Year, int(16, false), Some(Kind::ChangeType)),
            (enumeration(&["a", "b"]), enumeration(&["a", "b", "c"]), Some(Kind::AppendEnumLabels)),
            (enumeration(&["a", "b"]), enumeration(&["c", "a", "b"]), Some(Kind::ChangeEnumLabels)),
            (enumeration(&["a", "b"]), enumeration(&["a"]), Some(Kind::ChangeEnumLabels)),
        ] {
            assert_eq!(change(before.clone(), after.clone(), false), kind, "{before:?} to {after:?}");
        }
    }

    #[test]
    fn a_decimal_in_the_key_is_a_kind_of_its_own() {
        assert_eq!(change(decimal(8, 2), decimal(9, 2), true), Some(Kind::ChangeKeyDecimal));
        assert_eq!(change(int(32, false), int(64, false), true), Some(Kind::WidenInteger));
    }

    #[test]
    fn of_a_column_published_as_text_another_text_is_another_type() {
        let text = |native: M| {
            let mut column = Column::new(0, "c", Native::MySql(native));
            column.as_text = true;
            column
        };
        let zerofill = |width| M::Integer { bits: 32, unsigned: true, zerofill: true, width: Some(width) };
        for (before, after, kind) in [
            (M::DateTime { precision: 0 }, M::DateTime { precision: 3 }, Some(Kind::ChangeType)),
            (decimal(8, 2), decimal(8, 3), Some(Kind::ChangeType)),
            (decimal(8, 2), decimal(9, 2), Some(Kind::ChangeDecimal)),
            (int(32, true), zerofill(5), Some(Kind::ChangeType)),
            (zerofill(5), zerofill(6), Some(Kind::ChangeType)),
            (int(32, false), int(64, false), Some(Kind::WidenInteger)),
            (M::Date, M::Date, None),
        ] {
            assert_eq!(type_change(&text(before.clone()), &text(after.clone()), false), kind, "{before:?} to {after:?}");
        }
        let plain = Column::new(0, "c", Native::MySql(M::Date));
        assert_eq!(type_change(&plain, &text(M::Date), false), Some(Kind::ChangeType));
    }

    #[test]
    fn charset_and_compression_are_no_type_change() {
        let latin = M::VarChar { length: 10, charset: charset("latin1"), compressed: true };
        assert_eq!(change(varchar(10), latin, false), None);
    }
}
