//! What a statement does to the shapes that are known.

mod alter;
mod create;
mod draft;
mod index;

use std::collections::BTreeMap;

use super::{
    Effect,
    context::Context,
    statement::{Refusal, Statement},
    token::Fault,
};
use crate::{
    change::SchemaChange,
    table::{Table, TableId},
};

pub(super) use create::table_from;

pub(super) type Known = BTreeMap<TableId, Table>;

/// Applies a statement; faults name every table of it.
pub(super) fn apply(statement: &Statement, context: &Context, known: &Known) -> Result<Vec<Effect>, Refusal> {
    let effects = match statement {
        Statement::Create(create) => create::create(create, context, known),
        Statement::Alter(alter) => alter::alter(alter, context, known),
        Statement::Rename { pairs, if_exists } => rename(pairs, *if_exists, context, known),
        Statement::Drop { tables, temporary, .. } => Ok(tables.iter().map(|id| dropped(resolve(id, context, known), *temporary)).collect()),
        Statement::Truncate(id) => lookup(id, context, known).map(|table| vec![unchanged(table, SchemaChange::TruncateTable)]),
        Statement::ReplaceRows { tables, what } => Ok(tables
            .iter()
            .filter_map(|id| lookup(id, context, known).ok())
            .map(|table| unchanged(table, SchemaChange::ReplaceRows { what: what.clone() }))
            .collect()),
        Statement::Database { .. } => Ok(Vec::new()),
        Statement::DropDatabase { name } => {
            let same = |id: &&TableId| {
                if context.lower_case_table_names == 0 { id.namespace == *name } else { id.namespace.to_lowercase() == name.to_lowercase() }
            };
            Ok(known.keys().filter(same).map(|id| dropped(id.clone(), false)).collect())
        }
    };
    effects.map_err(|why| Refusal { tables: statement.tables(), why })
}

fn dropped(id: TableId, temporary: bool) -> Effect {
    Effect { id, shape: None, renamed_to: None, temporary, changes: vec![SchemaChange::DropTable] }
}

fn unchanged(table: &Table, change: SchemaChange) -> Effect {
    Effect { id: table.id.clone(), shape: Some(table.clone()), renamed_to: None, temporary: false, changes: vec![change] }
}

/// A name as the known table spells it, where the server compares names without case.
fn resolve(id: &TableId, context: &Context, known: &Known) -> TableId {
    if known.contains_key(id) || context.lower_case_table_names == 0 {
        return id.clone();
    }
    let fold = |id: &TableId| (id.namespace.to_lowercase(), id.name.to_lowercase());
    known.keys().find(|other| fold(other) == fold(id)).unwrap_or(id).clone()
}

fn lookup<'a>(id: &TableId, context: &Context, known: &'a Known) -> Result<&'a Table, Fault> {
    known.get(&resolve(id, context, known)).ok_or_else(|| format!("{id} is not a table whose shape is known"))
}

/// Left to right, so that a swap through a third name comes out as what it is.
fn rename(pairs: &[(TableId, TableId)], if_exists: bool, context: &Context, known: &Known) -> Result<Vec<Effect>, Fault> {
    let mut now: BTreeMap<TableId, TableId> = known.keys().map(|id| (id.clone(), id.clone())).collect();
    let mut moved = Vec::new();
    for (from, to) in pairs {
        let from = if now.contains_key(from) { from.clone() } else { resolve(from, context, known) };
        let Some(original) = now.remove(&from) else {
            if if_exists {
                continue;
            }
            return Err(format!("{from} is not a table whose shape is known"));
        };
        if now.contains_key(to) {
            return Err(format!("{from} is renamed to {to}, which exists as far as is known"));
        }
        if !moved.contains(&original) {
            moved.push(original.clone());
        }
        now.insert(to.clone(), original);
    }
    let ends: BTreeMap<TableId, TableId> = now.into_iter().map(|(name, original)| (original, name)).collect();
    let effect = |original: TableId| {
        let to = ends.get(&original).filter(|to| **to != original)?.clone();
        let mut shape = known.get(&original)?.clone();
        shape.id = to.clone();
        let changes = vec![SchemaChange::RenameTable { to: to.clone() }];
        Some(Effect { id: original, shape: Some(shape), renamed_to: Some(to), temporary: false, changes })
    };
    Ok(moved.into_iter().filter_map(effect).collect())
}
