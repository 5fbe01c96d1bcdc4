//! Keys, indexes and constraints under ALTER TABLE.

use std::collections::BTreeMap;

use super::{
    super::{
        create::column_key,
        statement::{Clause, Constraint, Key, KeyKind},
        token::Fault,
    },
    alter::Work,
    draft::{add_foreign_index, add_key, has_index, same_name, sort_plain, sort_unique},
};
use crate::{
    change::SchemaChange,
    table::{Column, ColumnId, RowKey, Table},
};

impl Work<'_> {
    /// Keys and indexes after the clauses: first those that go, then those that follow their columns, then new ones.
    pub(super) fn keys(&mut self, clauses: &[&Clause]) -> Result<(), Fault> {
        self.drop_keys(clauses);
        self.follow_columns();
        let mut sorts = false;
        for clause in clauses {
            match clause {
                Clause::AddColumn { definition, .. } | Clause::ChangeColumn { definition, .. } => {
                    if let Some(key) = column_key(definition) {
                        self.add(&key)?;
                        sorts = true;
                    }
                    if definition.check {
                        self.changes.push(SchemaChange::ChangeConstraint { name: definition.name.clone(), cascades: false });
                    }
                }
                Clause::AddKey { key, .. } => {
                    self.add(key)?;
                    sorts = true;
                }
                Clause::RenameIndex { from, to, .. } => self.rename_index(from, to),
                Clause::AddConstraint(constraint) => {
                    add_foreign_index(&mut self.after, constraint)?;
                    self.changes.push(constraint_change(constraint));
                }
                _ => {}
            }
        }
        // MySQL sorts anew at every ALTER; MariaDB when it makes keys, and when a column may be NULL from then on.
        let opened = self.after.columns.iter().any(|c| c.nullable && self.before.by_id(c.id).is_some_and(|old| !old.nullable));
        if sorts || opened || !self.context.mariadb {
            sort_unique(&mut self.after);
        }
        sort_plain(&mut self.after);
        self.no_prefix_may_have_become_whole()
    }

    /// A prefix that a shorter column makes the whole column could be the row key from then on, and how long prefixes are is not kept.
    fn no_prefix_may_have_become_whole(&self) -> Result<(), Fault> {
        if self.after.primary.is_some() {
            return Ok(());
        }
        let sized = |id: &ColumnId| match (self.before.by_id(*id), self.after.by_id(*id)) {
            (Some(before), Some(after)) => before.native != after.native && !after.nullable,
            (None, _) | (_, None) => false,
        };
        let old = |name: &str| self.before.unique.iter().any(|index| same_name(&index.name, name));
        match self.after.unique.iter().find(|index| index.partial && old(&index.name) && index.columns.iter().any(sized)) {
            None => Ok(()),
            Some(index) => Err(format!("the unique index {} is over the beginning of a column whose type changes", index.name)),
        }
    }

    fn add(&mut self, key: &Key) -> Result<(), Fault> {
        if let Some(name) = key.name.as_ref().filter(|name| has_index(&self.after, name)) {
            // A foreign key's own index makes way for one of the same name that the user adds.
            self.after.indexes.retain(|index| !same_name(&index.name, name));
            if has_index(&self.after, name) {
                return Err(format!("the index {name} is added where one is known already"));
            }
        }
        let name = add_key(&mut self.after, key)?;
        if key.kind != KeyKind::Primary {
            self.changes.push(SchemaChange::ChangeIndex { name });
        }
        Ok(())
    }

    fn drop_keys(&mut self, clauses: &[&Clause]) {
        for clause in clauses {
            match clause {
                Clause::DropPrimaryKey => self.after.primary = None,
                Clause::DropIndex { name, .. } if same_name(name, "primary") => self.after.primary = None,
                Clause::DropConstraint { name, any: true } if same_name(name, "primary") => self.after.primary = None,
                Clause::DropIndex { name, .. } => {
                    self.after.unique.retain(|index| !same_name(&index.name, name));
                    self.after.indexes.retain(|index| !same_name(&index.name, name));
                    self.changes.push(SchemaChange::ChangeIndex { name: name.clone() });
                }
                Clause::DropConstraint { name, any } => {
                    let unique = *any && self.after.unique.iter().any(|index| same_name(&index.name, name));
                    if unique {
                        self.after.unique.retain(|index| !same_name(&index.name, name));
                        self.changes.push(SchemaChange::ChangeIndex { name: name.clone() });
                    } else {
                        self.changes.push(SchemaChange::ChangeConstraint { name: name.clone(), cascades: false });
                    }
                }
                _ => {}
            }
        }
    }

    /// Which column a key's column is now. The server looks by the old name through the new order, and takes an added column of
    /// that name for the old one: after `DROP a, ADD a` the key is over the new column.
    fn successor(&self, id: ColumnId) -> Option<ColumnId> {
        let name = &self.before.by_id(id)?.name;
        let old_name = |column: &'_ Column| self.before.by_id(column.id).map_or_else(|| column.name.clone(), |old| old.name.clone());
        self.after.columns.iter().find(|column| same_name(&old_name(column), name)).map(|column| column.id)
    }

    /// A key loses its dropped columns; one that has none left is gone.
    fn follow_columns(&mut self) {
        let moved: BTreeMap<ColumnId, ColumnId> = self.before.columns.iter().filter_map(|c| Some((c.id, self.successor(c.id)?))).collect();
        let follow = |columns: &mut Vec<ColumnId>| *columns = columns.iter().filter_map(|id| moved.get(id).copied()).collect();
        if let Some(key) = &mut self.after.primary {
            follow(&mut key.columns);
            for column in self.after.columns.iter_mut().filter(|column| key.columns.contains(&column.id)) {
                column.nullable = false;
            }
        }
        self.after.primary = self.after.primary.take().filter(|key| !key.columns.is_empty());
        // One over expressions alone had no columns before.
        self.after.unique.retain_mut(|index| {
            let had = !index.columns.is_empty();
            follow(&mut index.columns);
            !(had && index.columns.is_empty())
        });
        for index in &mut self.after.indexes {
            follow(&mut index.columns);
        }
        self.after.indexes.retain(|index| !index.columns.is_empty());
    }

    fn rename_index(&mut self, from: &str, to: &str) {
        for index in self.after.unique.iter_mut().filter(|index| same_name(&index.name, from)) {
            to.clone_into(&mut index.name);
        }
        for index in self.after.indexes.iter_mut().filter(|index| same_name(&index.name, from)) {
            to.clone_into(&mut index.name);
        }
        self.changes.push(SchemaChange::ChangeIndex { name: from.to_owned() });
    }

    /// A change of what identifies a row, whatever clause caused it.
    pub(super) fn key_change(&self) -> Option<SchemaChange> {
        let (before, after) = (self.before.row_key(), self.after.row_key());
        let columns = |key: &Option<RowKey>| key.as_ref().map(|key| key.columns.clone());
        if columns(&before) == columns(&after) {
            let primary = |key: &Option<RowKey>| key.as_ref().is_some_and(|key| key.primary);
            return (primary(&before) != primary(&after)).then(|| SchemaChange::ChangeIndex { name: "PRIMARY".into() });
        }
        let names = |table: &Table| table.key_columns().into_iter().map(|c| c.name.clone()).collect();
        Some(SchemaChange::ChangeKey { before_names: names(self.before), after_names: names(&self.after), before, after })
    }
}

fn constraint_change(constraint: &Constraint) -> SchemaChange {
    match constraint {
        Constraint::Check { name } => {
            SchemaChange::ChangeConstraint { name: name.clone().unwrap_or_else(|| "CHECK".into()), cascades: false }
        }
        Constraint::ForeignKey { name, columns, cascades, .. } => SchemaChange::ChangeConstraint {
            name: name.clone().unwrap_or_else(|| format!("FOREIGN KEY ({})", columns.join(", "))),
            cascades: *cascades,
        },
    }
}
