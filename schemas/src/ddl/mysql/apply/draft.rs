//! A shape under change: its columns, keys and indexes.

use super::super::{
    context::Context,
    literal::zero_moment,
    statement::{Constraint, Key, KeyKind, KeyPart},
    token::Fault,
};
use crate::{
    native::{Native, mysql},
    table::{Column, ColumnId, Default, PlainIndex, RowKey, Table, UniqueIndex},
    value::Value,
};

/// Column and index names compare without case.
pub(in super::super) fn same_name(one: &str, other: &str) -> bool {
    one == other || one.to_lowercase() == other.to_lowercase()
}

pub(super) fn position_of(columns: &[Column], name: &str) -> Option<usize> {
    columns.iter().position(|column| same_name(&column.name, name))
}

/// The MySQL declaration of a column.
pub(super) fn mysql(column: &Column) -> Result<&mysql::Native, Fault> {
    match &column.native {
        Native::MySql(native) => Ok(native),
        Native::Postgres(_) => Err(format!("column {} is not of a MySQL table", column.name)),
    }
}

/// Adds a key or an index, and gives the name it has.
pub(super) fn add_key(table: &mut Table, key: &Key) -> Result<String, Fault> {
    let mut columns = Vec::new();
    let mut partial = false;
    for part in &key.parts {
        match part {
            KeyPart::Expression => partial = true,
            KeyPart::Column { name, prefix } => {
                let at = position_of(&table.columns, name).ok_or_else(|| format!("a key names column {name}, which is not known"))?;
                partial |= prefix.is_some_and(|length| !whole(&table.columns[at], length));
                columns.push(table.columns[at].id);
            }
        }
    }
    if key.kind == KeyKind::Primary {
        if table.primary.is_some() {
            return Err("a primary key is added where one is known already".into());
        }
        for column in table.columns.iter_mut().filter(|c| columns.contains(&c.id)) {
            column.nullable = false;
        }
        table.primary = Some(RowKey { name: "PRIMARY".into(), primary: true, columns });
        return Ok("PRIMARY".into());
    }
    let name = match &key.name {
        Some(name) => name.clone(),
        None => free_name(table, &key.parts),
    };
    match key.kind {
        KeyKind::Unique => table.unique.push(UniqueIndex { name: name.clone(), columns, partial }),
        KeyKind::Plain | KeyKind::Primary => table.indexes.push(PlainIndex { name: name.clone(), columns }),
    }
    Ok(name)
}

/// Whether a prefix is the whole column, which the server then forgets.
fn whole(column: &Column, prefix: u32) -> bool {
    match &column.native {
        Native::MySql(mysql::Native::Char { length, .. } | mysql::Native::Binary { length }) => u32::from(*length) <= prefix,
        Native::MySql(mysql::Native::VarChar { length, .. } | mysql::Native::VarBinary { length, .. }) => *length <= prefix,
        _ => false,
    }
}

pub(super) fn has_index(table: &Table, name: &str) -> bool {
    table.unique.iter().any(|index| same_name(&index.name, name)) || table.indexes.iter().any(|index| same_name(&index.name, name))
}

/// The name the server gives an index without one: its first column's, with a number where that is taken.
fn free_name(table: &Table, parts: &[KeyPart]) -> String {
    let base = match parts.first() {
        Some(KeyPart::Column { name, .. }) => {
            position_of(&table.columns, name).map_or_else(|| name.clone(), |at| table.columns[at].name.clone())
        }
        Some(KeyPart::Expression) | None => "functional_index".into(),
    };
    if !has_index(table, &base) && !same_name(&base, "primary") {
        return base;
    }
    (2_u32..).map(|number| format!("{base}_{number}")).find(|name| !has_index(table, name)).unwrap_or(base)
}

/// The index that a foreign key brings where no key covers its columns.
pub(super) fn add_foreign_index(table: &mut Table, constraint: &Constraint) -> Result<(), Fault> {
    let Constraint::ForeignKey { name, index, columns, .. } = constraint else { return Ok(()) };
    let ids = columns
        .iter()
        .map(|name| {
            position_of(&table.columns, name)
                .map(|at| table.columns[at].id)
                .ok_or_else(|| format!("a foreign key names column {name}, which is not known"))
        })
        .collect::<Result<Vec<ColumnId>, _>>()?;
    let covered = table.primary.iter().any(|key| key.columns.starts_with(&ids))
        || table.unique.iter().any(|index| index.columns.starts_with(&ids))
        || table.indexes.iter().any(|index| index.columns.starts_with(&ids));
    if covered {
        return Ok(());
    }
    let parts = columns.iter().map(|name| KeyPart::Column { name: name.clone(), prefix: None }).collect();
    add_key(table, &Key { kind: KeyKind::Plain, name: name.clone().or_else(|| index.clone()), parts }).map(|_| ())
}

/// The server's order: unique indexes without nullable columns first, whole columns before prefixes. The order of other indexes
/// means nothing: they are kept by name.
pub(super) fn sort_unique(table: &mut Table) {
    let nullable: Vec<ColumnId> = table.columns.iter().filter(|c| c.nullable).map(|c| c.id).collect();
    table.unique.sort_by_key(|index| (index.columns.is_empty() || index.columns.iter().any(|id| nullable.contains(id)), index.partial));
}

pub(super) fn sort_plain(table: &mut Table) {
    table.indexes.sort_by(|one, other| one.name.cmp(&other.name));
}

/// What TIMESTAMP columns get unsaid where `explicit_defaults_for_timestamp` is off. `stated` are those of the statement.
pub(super) fn timestamp_defaults(table: &mut Table, stated: &[(ColumnId, bool)], context: &Context) {
    if context.explicit_defaults_for_timestamp {
        return;
    }
    let mut first = true;
    for column in &mut table.columns {
        let Native::MySql(mysql::Native::Timestamp { precision }) = column.native else { continue };
        let is_first = std::mem::take(&mut first);
        let Some((_, on_update)) = stated.iter().find(|(id, _)| *id == column.id) else { continue };
        if column.nullable || column.default.is_some() || column.generated.is_some() {
            continue;
        }
        column.default = Some(if is_first && !on_update {
            Default::Expression(if precision == 0 { "current_timestamp()".into() } else { format!("current_timestamp({precision})") })
        } else {
            Default::Constant(Value::Text(zero_moment(precision)))
        });
    }
}
