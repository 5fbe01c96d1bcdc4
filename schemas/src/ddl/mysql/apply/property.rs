//! The differences of one column before and after, one change for each property.

use super::super::{resolve::lob_bytes, token::Fault};
use super::draft::mysql;
use crate::{
    change::{Kind, SchemaChange},
    native::mysql::{Charset, Native},
    table::Column,
};

/// What a column became.
pub(super) fn differences(before: &Column, after: &Column, in_key: bool) -> Result<Vec<SchemaChange>, Fault> {
    let mut changes = Vec::new();
    if before.name != after.name {
        changes.push(SchemaChange::RenameColumn { from: before.name.clone(), column: after.clone(), in_key });
    }
    let (old, new) = (mysql(before)?, mysql(after)?);
    if let Some(kind) = type_change(old, new, in_key) {
        changes.push(SchemaChange::ChangeType { kind, before: before.clone(), after: after.clone(), in_key });
    }
    if let (Some(old), Some(new)) = (charset(old), charset(new)) {
        let column = Some(before.name.clone());
        if old.charset != new.charset {
            changes.push(SchemaChange::ChangeCharset { column: column.clone(), from: old.charset.clone(), to: new.charset.clone() });
        }
        if old.collation != new.collation {
            changes.push(SchemaChange::ChangeCollation { column, from: old.collation.clone(), to: new.collation.clone() });
        }
    }
    match (before.nullable, after.nullable) {
        (true, false) => changes.push(SchemaChange::SetNotNull { column: after.clone() }),
        (false, true) => changes.push(SchemaChange::DropNotNull { column: after.clone() }),
        (true, true) | (false, false) => {}
    }
    if before.generated != after.generated {
        changes.push(SchemaChange::ChangeGenerated { before: before.clone(), after: after.clone() });
    }
    if before.identity != after.identity {
        changes.push(SchemaChange::ChangeIdentity { before: before.clone(), after: after.clone() });
    }
    if before.default != after.default {
        changes.push(SchemaChange::ChangeDefault { before: before.clone(), after: after.clone() });
    }
    if before.comment != after.comment {
        changes.push(SchemaChange::ChangeComment { column: Some(before.name.clone()) });
    }
    if compressed(old) != compressed(new) {
        let what = if compressed(new) { "COMPRESSED" } else { "not COMPRESSED any more" };
        changes.push(SchemaChange::ChangeStorage { column: Some(before.name.clone()), what: what.into() });
    }
    Ok(changes)
}

pub(super) fn charset(native: &Native) -> Option<&Charset> {
    match native {
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

fn compressed(native: &Native) -> bool {
    match native {
        Native::VarChar { compressed, .. }
        | Native::Text { compressed, .. }
        | Native::VarBinary { compressed, .. }
        | Native::Blob { compressed, .. } => *compressed,
        _ => false,
    }
}

fn by_size<T: PartialOrd>(old: T, new: T) -> Option<Kind> {
    if new > old {
        Some(Kind::Lengthen)
    } else if new < old {
        Some(Kind::Shorten)
    } else {
        None
    }
}

/// The kind of a change of type. None: the type is the same (a display width, a character set and compression are no type).
fn type_change(old: &Native, new: &Native, in_key: bool) -> Option<Kind> {
    match (old, new) {
        (Native::Integer { bits: a, unsigned: x, .. }, Native::Integer { bits: b, unsigned: y, .. }) => match (x == y, a.cmp(b)) {
            (false, _) => Some(Kind::ChangeSignedness),
            (true, std::cmp::Ordering::Less) => Some(Kind::WidenInteger),
            (true, std::cmp::Ordering::Equal) => None,
            (true, std::cmp::Ordering::Greater) => Some(Kind::ChangeType),
        },
        (Native::Decimal { precision: a, scale: s, unsigned: x }, Native::Decimal { precision: b, scale: t, unsigned: y }) => {
            if x != y {
                Some(Kind::ChangeSignedness)
            } else if (a, s) == (b, t) {
                None
            } else {
                Some(if in_key { Kind::ChangeKeyDecimal } else { Kind::ChangeDecimal })
            }
        }
        (Native::Float { unsigned: x, digits: a }, Native::Float { unsigned: y, digits: b })
        | (Native::Double { unsigned: x, digits: a }, Native::Double { unsigned: y, digits: b }) => {
            if x != y {
                Some(Kind::ChangeSignedness)
            } else {
                (a != b).then_some(Kind::ChangeType)
            }
        }
        (Native::VarChar { length: a, .. }, Native::VarChar { length: b, .. })
        | (Native::VarBinary { length: a, .. }, Native::VarBinary { length: b, .. }) => by_size(a, b),
        (Native::Char { length: a, .. }, Native::Char { length: b, .. }) => by_size(a, b),
        (Native::Text { size: a, .. }, Native::Text { size: b, .. }) | (Native::Blob { size: a, .. }, Native::Blob { size: b, .. }) => {
            by_size(a, b)
        }
        // A TEXT that holds all of a VARCHAR is its longer form, and the other way round; the same for bytes.
        (Native::VarChar { length, charset, .. }, Native::Text { size, .. }) => {
            let bytes = length.saturating_mul(super::super::charset::widest(&charset.charset));
            Some(if lob_bytes(*size) >= bytes { Kind::Lengthen } else { Kind::ChangeType })
        }
        (Native::VarBinary { length, .. }, Native::Blob { size, .. }) => {
            Some(if lob_bytes(*size) >= *length { Kind::Lengthen } else { Kind::ChangeType })
        }
        (Native::Time { precision: a }, Native::Time { precision: b })
        | (Native::DateTime { precision: a }, Native::DateTime { precision: b })
        | (Native::Timestamp { precision: a }, Native::Timestamp { precision: b }) => by_size(a, b),
        (Native::Enum { labels: a, .. }, Native::Enum { labels: b, .. })
        | (Native::Set { labels: a, .. }, Native::Set { labels: b, .. }) => {
            if a == b {
                None
            } else {
                Some(if b.starts_with(a) { Kind::AppendEnumLabels } else { Kind::ChangeEnumLabels })
            }
        }
        // Padding and bit strings of another length are other values.
        (old, new) => (old != new).then_some(Kind::ChangeType),
    }
}
