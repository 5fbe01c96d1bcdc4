//! From a decided change set to steps.

use super::{Action, PlanError, Step};
use crate::{
    capability::Capabilities,
    change::{Fill, Kind, SchemaChange},
    classify::type_change,
    native::Native,
    rules::{Context, SetDecision, complete},
    table::{Column, ColumnId, RowKey, Table},
    value::Value,
    view::View,
};

/// The target table that a source table begins with: its carried columns in the source's order, its row key as primary key.
///
/// # Errors
///
/// Every column that the target cannot have, by its type or its name; a table name that it would cut.
pub fn target_table(source: &Table, view: &View, capabilities: &Capabilities) -> Result<Table, Vec<PlanError>> {
    let table = source.id.to_string();
    let Some(declare) = capabilities.declare else {
        return Err(vec![PlanError::Refused { table, why: format!("target {} has no type table yet", capabilities.target) }]);
    };
    let (mut columns, mut errors) = (Vec::<Column>::new(), Vec::new());
    let names = [&view.table.namespace, &view.table.name];
    errors.extend(
        names.iter().filter_map(|name| capabilities.names.too_long(name)).map(|why| PlanError::Refused { table: table.clone(), why }),
    );
    for column in source.columns.iter().filter(|c| view.carries(&c.name)) {
        let name = view.name(&column.name);
        let refused = |why: String| PlanError::Name { table: table.clone(), column: column.name.clone(), why };
        if let Some(why) = capabilities.names.refuse(name) {
            errors.push(refused(why));
        } else if let Some(other) = columns.iter().find(|c| capabilities.names.same(&c.name, name)) {
            errors.push(refused(format!("the name `{name}` collides with target column `{}`", other.name)));
        }
        match view.declare(column, declare) {
            Ok(native) => columns.push(target_column(column, name, native)),
            Err(source) => errors.push(PlanError::Unsupported { table: table.clone(), column: column.name.clone(), source }),
        }
    }
    let primary = source.row_key();
    for id in primary.iter().flat_map(|key| &key.columns) {
        match columns.iter_mut().find(|c| c.id == *id) {
            Some(column) => column.nullable = false,
            None => {
                let name = source.by_id(*id).map_or("?", |c| c.name.as_str()).to_owned();
                let why = "it is part of the row key and must go to the target".to_owned();
                errors.push(PlanError::Name { table: table.clone(), column: name, why });
            }
        }
    }
    if errors.is_empty() { Ok(assembled(view, columns, primary)) } else { Err(errors) }
}

fn target_column(source: &Column, name: &str, native: Native) -> Column {
    let mut column = Column::new(source.id.0, name, native);
    column.nullable = source.nullable;
    column
}

fn assembled(view: &View, columns: Vec<Column>, key: Option<RowKey>) -> Table {
    let mut table = Table::new(view.table.clone(), columns, &[]);
    table.primary = key.map(|key| RowKey { name: "PRIMARY".into(), primary: true, columns: key.columns });
    table
}

/// The steps of a statement's changes on the expected target table (`context.target`). Changes that the decision leaves out
/// (nothing to apply, kept) give none, except that a kept dropped column must take NULL from then on.
///
/// # Errors
///
/// The expected target table does not have what the changes need.
pub fn plan(changes: &[SchemaChange], decision: &SetDecision, context: &Context<'_>) -> Result<Vec<Step>, PlanError> {
    let mut builder = Builder::new(changes, Some(decision), context)?;
    builder.build(true)?;
    Ok(builder.steps)
}

/// A line of a proposal for a person.
#[derive(Debug, Clone, PartialEq)]
pub enum Proposed {
    Step(Box<Step>),
    /// What a person must do or know; a target writes it as a comment.
    Comment(String),
}

/// What would make a held statement's changes on the target, as far as steps can say it.
pub fn held_proposal(changes: &[SchemaChange], context: &Context<'_>) -> Vec<Proposed> {
    let mut lines = Vec::new();
    let key = |table: &Table| table.key_columns().iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
    if complete(changes, context).iter().any(touches_key) {
        let (table, before, after) = (&context.view.table, key(context.before), key(context.after));
        lines.push(Proposed::Comment(match after.is_empty() {
            true => format!("The key ({before}) of {table} must be dropped first, by hand; the source has none to make again."),
            false => format!("The key ({before}) of {table} must be dropped and made again as ({after}) first, by hand."),
        }));
    }
    let steps = Builder::new(changes, None, context).and_then(|mut builder| builder.build(false).map(|()| builder.steps));
    match steps {
        Ok(steps) => lines.extend(steps.into_iter().map(|step| Proposed::Step(Box::new(step)))),
        Err(error) => lines.push(Proposed::Comment(error.to_string())),
    }
    if lines.is_empty() {
        lines.push(Proposed::Comment("No statement makes this change on the target.".into()));
    }
    lines
}

fn touches_key(change: &SchemaChange) -> bool {
    matches!(change.kind(), Kind::ChangeKey | Kind::DropKeyColumn | Kind::RenameKeyColumn | Kind::ChangeKeyDecimal)
}

struct Builder<'a> {
    /// The statement's changes, whole, in the order of the decision's parts.
    changes: Vec<SchemaChange>,
    decision: Option<&'a SetDecision>,
    context: &'a Context<'a>,
    /// The target table as the steps so far leave it.
    table: Table,
    steps: Vec<Step>,
}

impl<'a> Builder<'a> {
    fn new(changes: &[SchemaChange], decision: Option<&'a SetDecision>, context: &'a Context<'a>) -> Result<Self, PlanError> {
        let table = context.target.cloned().ok_or_else(|| PlanError::Shape {
            table: context.view.table.to_string(),
            difference: "no expected shape is recorded for it".into(),
        })?;
        Ok(Self { changes: complete(changes, context), decision, context, table, steps: Vec::new() })
    }

    /// Drops free names first, renames come next, added columns go last. `keys`: the key itself is dropped and made again too.
    fn build(&mut self, keys: bool) -> Result<(), PlanError> {
        let new_key = keys && self.key_changes();
        if self.makes(|change| matches!(change, SchemaChange::TruncateTable)) {
            self.step(Action::Truncate, |_table| {});
        }
        if new_key && self.table.primary.is_some() {
            self.step(Action::DropKey, |table| table.primary = None);
        }
        self.drops();
        self.renames()?;
        for column in self.in_both() {
            self.retype(&column)?;
            self.nullability(&column);
        }
        self.adds()?;
        if new_key {
            self.add_key()?;
        }
        Ok(())
    }

    fn step(&mut self, action: Action, change: impl FnOnce(&mut Table)) {
        let before = self.table.clone();
        change(&mut self.table);
        self.steps.push(Step { action, before: Some(before), after: Some(self.table.clone()) });
    }

    /// Whether some change that is carried out is so.
    fn makes(&self, is: impl Fn(&SchemaChange) -> bool) -> bool {
        let carried_out = |index: usize| !self.decision.is_some_and(|decision| decision.leaves(index));
        self.changes.iter().enumerate().any(|(index, change)| carried_out(index) && is(change))
    }

    fn key_changes(&self) -> bool {
        let ids = |table: &Table| table.row_key().map(|key| key.columns);
        ids(self.context.before) != ids(self.context.after) && self.makes(touches_key)
    }

    /// Columns that the source had before and has behind the statement, as they are behind it, and that the target has.
    fn in_both(&self) -> Vec<Column> {
        let known = |c: &&Column| self.context.before.by_id(c.id).is_some() && self.table.by_id(c.id).is_some();
        self.context.after.columns.iter().filter(known).cloned().collect()
    }

    fn drops(&mut self) {
        let gone: Vec<Column> = self.context.before.columns.iter().filter(|c| self.context.after.by_id(c.id).is_none()).cloned().collect();
        for column in gone {
            let Some(target) = self.table.by_id(column.id).cloned() else { continue };
            let this =
                |change: &SchemaChange| matches!(change, SchemaChange::DropColumn { column: dropped, .. } if dropped.id == column.id);
            if self.makes(this) {
                let name = target.name;
                self.step(Action::DropColumn { name }, |table| table.columns.retain(|c| c.id != column.id));
            } else if !target.nullable {
                self.set_nullable(column.id, target.name, true);
            }
        }
    }

    fn set_nullable(&mut self, id: ColumnId, name: String, nullable: bool) {
        let action = if nullable { Action::DropNotNull { name } } else { Action::SetNotNull { name } };
        self.step(action, |table| edit(table, id, |column| column.nullable = nullable));
    }

    fn renames(&mut self) -> Result<(), PlanError> {
        let mut waiting: Vec<(ColumnId, String)> = Vec::new();
        for column in self.in_both() {
            let this =
                |change: &SchemaChange| matches!(change, SchemaChange::RenameColumn { column: renamed, .. } if renamed.id == column.id);
            let to = self.context.view.name(&column.name);
            if self.makes(this) && self.table.by_id(column.id).is_some_and(|target| target.name != to) {
                self.allowed(to)?;
                waiting.push((column.id, to.to_owned()));
            }
        }
        while !waiting.is_empty() {
            match waiting.iter().position(|(id, to)| !self.taken(*id, to)) {
                Some(free) => {
                    let (id, to) = waiting.remove(free);
                    self.rename(id, to);
                }
                // Every name that is wanted is taken: a circle, opened by a detour, or a column that stays in the way.
                None => {
                    let (id, to) = waiting[0].clone();
                    let blocked = waiting.iter().all(|(other, _)| self.table.by_id(*other).is_none_or(|c| !self.same(&c.name, &to)));
                    if blocked {
                        return Err(self.taken_error(&to));
                    }
                    let holder = waiting.iter().find(|(other, _)| self.table.by_id(*other).is_some_and(|c| self.same(&c.name, &to)));
                    let detour = self.free_name();
                    self.rename(holder.map_or(id, |(other, _)| *other), detour);
                }
            }
        }
        Ok(())
    }

    fn same(&self, a: &str, b: &str) -> bool {
        self.context.capabilities.names.same(a, b)
    }

    /// Whether another column has the name.
    fn taken(&self, id: ColumnId, name: &str) -> bool {
        self.table.columns.iter().any(|c| c.id != id && self.same(&c.name, name))
    }

    /// Refuses a name that the server would cut or not take.
    fn allowed(&self, name: &str) -> Result<(), PlanError> {
        match self.context.capabilities.names.refuse(name) {
            None => Ok(()),
            Some(why) => Err(PlanError::Name { table: self.context.view.table.to_string(), column: name.to_owned(), why }),
        }
    }

    fn taken_error(&self, name: &str) -> PlanError {
        PlanError::Name {
            table: self.context.view.table.to_string(),
            column: name.to_owned(),
            why: format!("the name `{name}` is taken by another column of the target"),
        }
    }

    fn free_name(&self) -> String {
        let mut number = 1_u32;
        loop {
            let name = format!("instar_rename_{number}");
            if !self.table.columns.iter().any(|c| self.same(&c.name, &name)) {
                return name;
            }
            number += 1;
        }
    }

    fn rename(&mut self, id: ColumnId, to: String) {
        let Some(from) = self.table.by_id(id).map(|c| c.name.clone()) else { return };
        self.step(Action::RenameColumn { from, to: to.clone() }, |table| edit(table, id, |column| column.name = to));
    }

    fn retype(&mut self, column: &Column) -> Result<(), PlanError> {
        let this = |change: &SchemaChange| matches!(change, SchemaChange::ChangeType { after, .. } if after.id == column.id);
        let (Some(before), Some(target)) = (self.context.before.by_id(column.id), self.table.by_id(column.id).cloned()) else {
            return Ok(());
        };
        if !self.makes(this) {
            return Ok(());
        }
        let (was, wanted) = (self.declare(before)?, self.declare(column)?);
        if target.native == wanted || was == wanted {
            return Ok(());
        }
        let mut retyped = target.clone();
        retyped.native = wanted.clone();
        // A target column that was kept, or adopted, goes along only where its own type grows or shrinks in kind.
        let kin =
            !matches!(type_change(&target, &retyped, false), Some(Kind::ChangeType | Kind::ChangeSignedness | Kind::ChangeEnumLabels));
        if target.native != was && !kin {
            return Err(PlanError::Shape {
                table: self.context.view.table.to_string(),
                difference: format!("column `{}` is {}, expected {was}", target.name, target.native),
            });
        }
        let action = Action::AlterType { name: target.name, from: target.native, to: wanted.clone(), convert: true };
        self.step(action, |table| edit(table, column.id, |c| c.native = wanted));
        Ok(())
    }

    fn declare(&self, column: &Column) -> Result<Native, PlanError> {
        let table = self.context.view.table.to_string();
        let Some(declare) = self.context.capabilities.declare else {
            return Err(PlanError::Refused { table, why: format!("target {} has no type table yet", self.context.capabilities.target) });
        };
        self.context.view.declare(column, declare).map_err(|source| PlanError::Unsupported { table, column: column.name.clone(), source })
    }

    fn nullability(&mut self, column: &Column) {
        let this = |change: &SchemaChange| match change {
            SchemaChange::SetNotNull { column: changed } | SchemaChange::DropNotNull { column: changed } => changed.id == column.id,
            _other => false,
        };
        let Some(target) = self.table.by_id(column.id).cloned() else { return };
        let in_key = self.table.primary.as_ref().is_some_and(|key| key.columns.contains(&column.id));
        if self.makes(this) && target.nullable != column.nullable && !(in_key && column.nullable) {
            self.set_nullable(column.id, target.name, column.nullable);
        }
    }

    fn adds(&mut self) -> Result<(), PlanError> {
        let added: Vec<(Column, Fill)> = self
            .changes
            .iter()
            .enumerate()
            .filter(|(index, _)| !self.decision.is_some_and(|decision| decision.leaves(*index)))
            .filter_map(|(_, change)| match change {
                SchemaChange::AddColumn { column, fill } => Some((column.clone(), fill.clone())),
                _other => None,
            })
            .collect();
        for (column, fill) in added {
            // Behind the whole statement: a later clause may have changed or dropped it again.
            let Some(column) = self.context.after.by_id(column.id).filter(|c| self.context.view.carries(&c.name)).cloned() else {
                continue;
            };
            let name = self.context.view.name(&column.name).to_owned();
            if self.taken(column.id, &name) {
                return Err(self.taken_error(&name));
            }
            self.allowed(&name)?;
            let target = target_column(&column, &name, self.declare(&column)?);
            let fill = match fill {
                Fill::Constant(value) | Fill::Implicit(value) if value != Value::Null => Some(value),
                Fill::Null | Fill::Constant(_) | Fill::Implicit(_) | Fill::Volatile(_) | Fill::Generated(_) => None,
            };
            self.step(Action::AddColumn { column: target.clone(), fill }, |table| {
                table.next_column = table.next_column.max(target.id.0 + 1);
                table.columns.push(target);
            });
        }
        Ok(())
    }

    fn add_key(&mut self) -> Result<(), PlanError> {
        let Some(key) = self.context.after.row_key() else { return Ok(()) };
        let mut names = Vec::new();
        for id in &key.columns {
            match self.table.by_id(*id) {
                Some(column) => names.push(column.name.clone()),
                None => {
                    let difference = "it lacks a column of the new key".to_owned();
                    return Err(PlanError::Shape { table: self.context.view.table.to_string(), difference });
                }
            }
        }
        self.step(Action::AddKey { columns: names }, |table| {
            for id in &key.columns {
                edit(table, *id, |column| column.nullable = false);
            }
            table.primary = Some(RowKey { name: "PRIMARY".into(), primary: true, columns: key.columns });
        });
        Ok(())
    }
}

fn edit(table: &mut Table, id: ColumnId, change: impl FnOnce(&mut Column)) {
    if let Some(column) = table.columns.iter_mut().find(|c| c.id == id) {
        change(column);
    }
}
