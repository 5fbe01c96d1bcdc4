//! The differences of one column before and after, one change for each property.

use super::super::token::Fault;
use super::draft::mysql;
use crate::{
    change::SchemaChange,
    classify::type_change,
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
    if let Some(kind) = type_change(before, after, in_key) {
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
