//! The way of a reload: whatever the target table was, it gets the wanted shape, empty.

use super::{Action, Step};
use crate::table::{Column, ColumnId, Table};

/// The steps that give the target table the shape `wanted`, empty. Where a table is there it is altered, so that the user's
/// indexes, grants and views stay; columns are matched by name, for no value survives.
pub fn reshape(live: Option<&Table>, wanted: &Table) -> Vec<Step> {
    let Some(live) = live else {
        return vec![Step { action: Action::CreateTable, before: None, after: Some(wanted.clone()) }];
    };
    let live = &with_ids_of(live, wanted);
    let mut way = Way { table: live.clone(), steps: Vec::new() };
    way.step(Action::Truncate, |_table| {});
    let key_stays = key_names(live) == key_names(wanted);
    if !key_stays && live.primary.is_some() {
        way.step(Action::DropKey, |table| table.primary = None);
    }
    for column in live.columns.iter().filter(|c| wanted.column(&c.name).is_none()) {
        way.step(Action::DropColumn { name: column.name.clone() }, |table| table.columns.retain(|c| c.name != column.name));
    }
    for column in &wanted.columns {
        way.column(column);
    }
    if !key_stays && let Some(key) = &wanted.primary {
        let columns = key_names(wanted);
        way.step(Action::AddKey { columns }, |table| table.primary = Some(key.clone()));
    }
    way.steps
}

/// The live table under the identities of `wanted`, where the names agree, and under unused ones where they do not.
fn with_ids_of(live: &Table, wanted: &Table) -> Table {
    let mut table = live.clone();
    table.id = wanted.id.clone();
    table.next_column = live.next_column.max(wanted.next_column);
    let mut renamed = Vec::new();
    for column in &mut table.columns {
        let old = column.id;
        column.id = wanted.column(&column.name).map_or(ColumnId(table.next_column), |c| c.id);
        table.next_column += u32::from(wanted.column(&column.name).is_none());
        renamed.push((old, column.id));
    }
    let new_id = |old: &ColumnId| renamed.iter().find(|(from, _)| from == old).map_or(*old, |(_, to)| *to);
    if let Some(key) = &mut table.primary {
        key.columns = key.columns.iter().map(new_id).collect();
    }
    table
}

fn key_names(table: &Table) -> Vec<String> {
    let key = table.primary.iter().flat_map(|key| &key.columns);
    key.filter_map(|id| table.by_id(*id)).map(|c| c.name.clone()).collect()
}

struct Way {
    table: Table,
    steps: Vec<Step>,
}

impl Way {
    fn step(&mut self, action: Action, change: impl FnOnce(&mut Table)) {
        let before = self.table.clone();
        change(&mut self.table);
        self.steps.push(Step { action, before: Some(before), after: Some(self.table.clone()) });
    }

    fn column(&mut self, wanted: &Column) {
        let name = wanted.name.clone();
        let Some(live) = self.table.column(&name).cloned() else {
            return self.step(Action::AddColumn { column: wanted.clone(), fill: None }, |table| table.columns.push(wanted.clone()));
        };
        if live.native != wanted.native {
            let (from, to) = (live.native.clone(), wanted.native.clone());
            let action = Action::AlterType { name: name.clone(), from, to, convert: false };
            self.step(action, |table| edit(table, &name, |c| c.native = wanted.native.clone()));
        }
        if live.nullable != wanted.nullable {
            let action =
                if wanted.nullable { Action::DropNotNull { name: name.clone() } } else { Action::SetNotNull { name: name.clone() } };
            self.step(action, |table| edit(table, &name, |c| c.nullable = wanted.nullable));
        }
    }
}

fn edit(table: &mut Table, name: &str, change: impl FnOnce(&mut Column)) {
    if let Some(column) = table.columns.iter_mut().find(|c| c.name == name) {
        change(column);
    }
}
