//! CREATE TABLE: a shape from nothing, or from another table.

use super::{
    super::{
        Effect,
        context::Context,
        resolve,
        statement::{Body, Clause, ColumnDefinition, Constraint, Create, Key},
        token::Fault,
    },
    Known,
    draft::{add_foreign_index, add_key, position_of, sort_plain, sort_unique, timestamp_defaults},
    lookup, resolve as resolve_name,
};
use crate::{
    change::SchemaChange,
    table::{ColumnId, Table, TableId},
};

pub(super) fn create(create: &Create, context: &Context, known: &Known) -> Result<Vec<Effect>, Fault> {
    let id = resolve_name(&create.table, context, known);
    let exists = known.contains_key(&id) && !create.temporary;
    if exists && create.if_not_exists && !create.or_replace {
        return Ok(Vec::new());
    }
    let shape = match &create.body {
        Body::Like(other) => {
            // No rows come with it, so its columns are new ones.
            let mut shape = numbered(lookup(other, context, known)?);
            shape.id = id.clone();
            shape
        }
        Body::Columns { .. } => table_from(create, context)?,
    };
    let changes = if exists && create.or_replace {
        vec![SchemaChange::DropTable, SchemaChange::CreateTable]
    } else {
        vec![SchemaChange::CreateTable]
    };
    Ok(vec![Effect { id, shape: Some(shape), renamed_to: None, temporary: create.temporary, changes }])
}

/// The shape that a CREATE TABLE with its own columns gives.
pub(in super::super) fn table_from(create: &Create, context: &Context) -> Result<Table, Fault> {
    let Body::Columns { columns, keys, constraints, options, select } = &create.body else {
        return Err("CREATE TABLE … LIKE has no columns of its own".into());
    };
    if *select {
        return Err("CREATE TABLE … SELECT does not say all its columns".into());
    }
    build(&create.table, columns, keys, constraints, table_collation(&create.table, options, context)?, context)
}

/// A new table's default collation: its own, else its database's, else the server's. None: not known.
fn table_collation(id: &TableId, options: &[Clause], context: &Context) -> Result<Option<String>, Fault> {
    let own = id.namespace == context.default_database;
    let mut collation = context.collation_of(&id.namespace).map(str::to_owned).or_else(|| own.then(|| context.server_collation.clone()));
    for option in options {
        if let Clause::TableCharset(clause) = option {
            collation = resolve::settle(clause, collation.as_deref(), context)?.map(|charset| charset.collation);
        }
    }
    Ok(collation)
}

fn build(
    id: &TableId,
    columns: &[ColumnDefinition],
    keys: &[Key],
    constraints: &[Constraint],
    collation: Option<String>,
    context: &Context,
) -> Result<Table, Fault> {
    let mut table = Table::new(id.clone(), Vec::new(), &[]);
    let mut stated = Vec::new();
    for definition in columns {
        if position_of(&table.columns, &definition.name).is_some() {
            return Err(format!("column {} is there twice", definition.name));
        }
        let mut column = resolve::column(definition, collation.as_deref(), context)?;
        column.id = ColumnId(table.next_column);
        table.next_column += 1;
        stated.push((column.id, definition.on_update_now));
        table.columns.push(column);
    }
    table.collation = collation;
    for key in keys {
        add_key(&mut table, key)?;
    }
    for constraint in constraints {
        add_foreign_index(&mut table, constraint)?;
    }
    timestamp_defaults(&mut table, &stated, context);
    sort_unique(&mut table);
    sort_plain(&mut table);
    Ok(table)
}

/// The same shape with column ids that count from 0.
fn numbered(table: &Table) -> Table {
    let mut shape = table.clone();
    let ids: Vec<ColumnId> = shape.columns.iter().map(|column| column.id).collect();
    let new = |old: ColumnId| ColumnId(ids.iter().position(|id| *id == old).and_then(|at| u32::try_from(at).ok()).unwrap_or(old.0));
    let keys = shape.primary.iter_mut().map(|key| &mut key.columns);
    let unique = shape.unique.iter_mut().map(|index| &mut index.columns);
    let plain = shape.indexes.iter_mut().map(|index| &mut index.columns);
    for columns in keys.chain(unique).chain(plain) {
        for id in columns {
            *id = new(*id);
        }
    }
    for column in &mut shape.columns {
        column.id = new(column.id);
    }
    shape.next_column = shape.columns.iter().map(|column| column.id.0 + 1).max().unwrap_or(0);
    shape
}
