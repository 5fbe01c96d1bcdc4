//! Differences between two shapes of one table.
//!
//! [`diff`] goes by column identity and gives typed changes. [`shape_difference`] compares an expected target table with the
//! live one by name, in words for a person; the order of columns is no part of it.

mod fill;

use std::collections::BTreeSet;

use crate::{
    change::SchemaChange,
    classify::type_change,
    native::Native,
    table::{Column, ColumnId, RowKey, Table},
};

pub use fill::{fill, printed};

/// The changes that lead from one shape to the other. Columns are the same where their identities are; a name tells nothing.
///
/// What a shape does not show is not in it: truncation, partitions, indexes that are not unique, constraints.
pub fn diff(before: &Table, after: &Table) -> Vec<SchemaChange> {
    let mut changes = Vec::new();
    if before.id != after.id {
        changes.push(SchemaChange::RenameTable { to: after.id.clone() });
    }
    for column in after.columns.iter().filter(|c| before.by_id(c.id).is_none()) {
        changes.push(SchemaChange::AddColumn { column: column.clone(), fill: fill(column) });
    }
    for column in before.columns.iter().filter(|c| after.by_id(c.id).is_none()) {
        changes.push(SchemaChange::DropColumn { column: column.clone(), in_key: before.in_key(column.id) });
    }
    for new in &after.columns {
        if let Some(old) = before.by_id(new.id) {
            changes.extend(column_changes(old, new, before.in_key(new.id) || after.in_key(new.id)));
        }
    }
    let moved = moved(before, after);
    changes.extend(before.columns.iter().filter(|c| moved.contains(&c.id)).map(|c| SchemaChange::ReorderColumn { column: c.name.clone() }));
    if before.collation != after.collation {
        let name = |table: &Table| table.collation.clone().unwrap_or_default();
        changes.push(SchemaChange::ChangeCollation { column: None, from: name(before), to: name(after) });
    }
    key_changes(before, after, &mut changes);
    changes
}

/// The changes of one column that is there before and after.
pub(crate) fn column_changes(old: &Column, new: &Column, in_key: bool) -> Vec<SchemaChange> {
    let mut changes = Vec::new();
    let (before, after) = (|| old.clone(), || new.clone());
    if old.name != new.name {
        changes.push(SchemaChange::RenameColumn { from: old.name.clone(), column: after(), in_key });
    }
    if let Some(kind) = type_change(old, new, in_key) {
        changes.push(SchemaChange::ChangeType { kind, before: before(), after: after(), in_key });
    }
    text_changes(old, new, &mut changes);
    match (old.nullable, new.nullable) {
        (true, false) => changes.push(SchemaChange::SetNotNull { column: after() }),
        (false, true) => changes.push(SchemaChange::DropNotNull { column: after() }),
        (true, true) | (false, false) => {}
    }
    if old.generated != new.generated {
        changes.push(SchemaChange::ChangeGenerated { before: before(), after: after() });
    }
    if old.identity != new.identity {
        changes.push(SchemaChange::ChangeIdentity { before: before(), after: after() });
    }
    if old.default != new.default {
        changes.push(SchemaChange::ChangeDefault { before: before(), after: after() });
    }
    if old.comment != new.comment {
        changes.push(SchemaChange::ChangeComment { column: Some(old.name.clone()) });
    }
    changes
}

/// Character set, collation and compression: properties of a declaration that are no part of its type.
fn text_changes(old: &Column, new: &Column, changes: &mut Vec<SchemaChange>) {
    let (Native::MySql(before), Native::MySql(after)) = (&old.native, &new.native) else { return };
    let column = || Some(old.name.clone());
    if let (Some(from), Some(to)) = (before.charset(), after.charset()) {
        if from.charset != to.charset {
            changes.push(SchemaChange::ChangeCharset { column: column(), from: from.charset.clone(), to: to.charset.clone() });
        }
        if from.collation != to.collation {
            changes.push(SchemaChange::ChangeCollation { column: column(), from: from.collation.clone(), to: to.collation.clone() });
        }
    }
    if before.compressed() != after.compressed() {
        let what = if after.compressed() { "it is compressed from now on" } else { "it is no longer compressed" };
        changes.push(SchemaChange::ChangeStorage { column: column(), what: what.into() });
    }
}

/// The fewest columns that must move for the columns of both shapes to stand in the new order: those outside a longest run
/// that keeps its order.
fn moved(before: &Table, after: &Table) -> BTreeSet<ColumnId> {
    let old: Vec<ColumnId> = before.columns.iter().map(|c| c.id).filter(|id| after.by_id(*id).is_some()).collect();
    let places: Vec<(ColumnId, usize)> =
        old.iter().filter_map(|id| after.columns.iter().position(|c| c.id == *id).map(|place| (*id, place))).collect();
    // For each column: the length of the longest run that ends in it, and the column before it in that run.
    let mut runs: Vec<(usize, Option<usize>)> = Vec::with_capacity(places.len());
    for (i, (_, place)) in places.iter().enumerate() {
        let previous = (0..i).filter(|j| places[*j].1 < *place).max_by_key(|j| runs[*j].0);
        runs.push((previous.map_or(1, |j| runs[j].0 + 1), previous));
    }
    let mut stays = BTreeSet::new();
    let mut last = (0..runs.len()).max_by_key(|i| runs[*i].0);
    while let Some(i) = last {
        stays.insert(places[i].0);
        last = runs[i].1;
    }
    old.into_iter().filter(|id| !stays.contains(id)).collect()
}

fn key_changes(before: &Table, after: &Table, changes: &mut Vec<SchemaChange>) {
    let (old, new) = (before.row_key(), after.row_key());
    let columns = |key: &Option<RowKey>| key.as_ref().map(|key| key.columns.clone());
    if columns(&old) != columns(&new) {
        let names = |table: &Table| table.key_columns().iter().map(|c| c.name.clone()).collect();
        changes.push(SchemaChange::ChangeKey { before_names: names(before), after_names: names(after), before: old, after: new });
    } else if before.primary.as_ref().map(|key| &key.columns) != after.primary.as_ref().map(|key| &key.columns) {
        changes.push(SchemaChange::ChangeIndex { name: "PRIMARY".into() });
    }
    let unique = before.unique.iter().chain(&after.unique).map(|index| &index.name);
    let names: BTreeSet<&String> = unique.chain(before.indexes.iter().chain(&after.indexes).map(|index| &index.name)).collect();
    for name in names {
        let unique = |table: &Table| table.unique.iter().find(|index| index.name == *name).cloned();
        let plain = |table: &Table| table.indexes.iter().find(|index| index.name == *name).cloned();
        if unique(before) != unique(after) || plain(before) != plain(after) {
            changes.push(SchemaChange::ChangeIndex { name: name.clone() });
        }
    }
}

/// What a live target table has otherwise than expected, a line each; empty: nothing. By name; order is no part of it.
pub fn shape_difference(expected: &Table, live: &Table) -> Vec<String> {
    let mut lines = Vec::new();
    for column in &expected.columns {
        match live.column(&column.name) {
            None => lines.push(format!("column `{}` {} is missing", column.name, column.native)),
            Some(found) => {
                if found.native != column.native {
                    lines.push(format!("column `{}` is {}, expected {}", column.name, found.native, column.native));
                }
                match (column.nullable, found.nullable) {
                    (true, false) => lines.push(format!("column `{}` is NOT NULL, expected nullable", column.name)),
                    (false, true) => lines.push(format!("column `{}` is nullable, expected NOT NULL", column.name)),
                    (true, true) | (false, false) => {}
                }
            }
        }
    }
    for column in live.columns.iter().filter(|c| expected.column(&c.name).is_none()) {
        lines.push(format!("column `{}` {} is there, and is not expected", column.name, column.native));
    }
    let key = |table: &Table| match &table.primary {
        None => "none".to_owned(),
        Some(key) => {
            let names: Vec<&str> = key.columns.iter().filter_map(|id| table.by_id(*id)).map(|c| c.name.as_str()).collect();
            format!("({})", names.join(", "))
        }
    };
    if key(expected) != key(live) {
        lines.push(format!("the primary key is {}, expected {}", key(live), key(expected)));
    }
    lines
}

/// The message of a stop at a target table that was altered by hand.
pub fn shape_message(expected: &Table, live: &Table) -> String {
    format!("target table {} is not of the expected shape: {}", live.id, shape_difference(expected, live).join("; "))
}

#[cfg(test)]
mod tests;
