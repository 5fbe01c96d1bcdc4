//! ALTER TABLE: all clauses refer to the names before it, and take effect together.

use super::{
    super::{
        Effect,
        context::Context,
        literal::implicit,
        option::engine_replaces_rows,
        resolve,
        statement::{Alter, CharsetClause, Clause, ColumnDefinition, Declared, Exchange, KeyKind, Position},
        token::Fault,
    },
    Known,
    draft::{has_index, mysql, position_of, same_name, timestamp_defaults},
    lookup, resolve as resolve_name,
};
use crate::{
    change::{Fill, SchemaChange},
    diff::column_changes,
    native::{Native, mysql as types},
    table::{Column, ColumnId, Default, Table},
};

pub(super) fn alter(alter: &Alter, context: &Context, known: &Known) -> Result<Vec<Effect>, Fault> {
    let id = resolve_name(&alter.table, context, known);
    let before = match lookup(&id, context, known) {
        Err(_) if alter.if_exists => return Ok(Vec::new()),
        found => found?,
    };
    let clauses = effective(before, &alter.clauses);
    let mut work = Work { context, before, after: before.clone(), touched: Vec::new(), stated: Vec::new(), changes: Vec::new() };
    work.charsets(&clauses)?;
    work.columns(&clauses)?;
    work.keys(&clauses)?;
    timestamp_defaults(&mut work.after, &work.stated, context);
    work.rest(&clauses, alter.ignore);
    work.finish(&clauses, known)
}

/// The clauses without those that IF EXISTS and IF NOT EXISTS make void, judged by the shape before.
fn effective<'a>(before: &Table, clauses: &'a [Clause]) -> Vec<&'a Clause> {
    let has = |name: &str| position_of(&before.columns, name).is_some();
    let mut added: Vec<&str> = Vec::new();
    let mut kept = Vec::new();
    for clause in clauses {
        let void = match clause {
            Clause::AddColumn { definition, if_not_exists, .. } => {
                let void = *if_not_exists && (has(&definition.name) || added.iter().any(|name| same_name(name, &definition.name)));
                added.push(&definition.name);
                void
            }
            Clause::DropColumn { name, if_exists } => *if_exists && !has(name),
            Clause::ChangeColumn { from, if_exists, .. } | Clause::RenameColumn { from, if_exists, .. } => *if_exists && !has(from),
            Clause::SetDefault { column, if_exists, .. } => *if_exists && !has(column),
            Clause::AddKey { key, if_not_exists } => {
                let exists = key.name.as_ref().is_some_and(|name| has_index(before, name))
                    || key.kind == KeyKind::Primary && before.primary.is_some();
                *if_not_exists && exists
            }
            Clause::RenameIndex { from, if_exists, .. } => *if_exists && !has_index(before, from),
            Clause::DropIndex { name, if_exists } => *if_exists && !has_index(before, name) && !same_name(name, "primary"),
            _ => false,
        };
        if !void {
            kept.push(clause);
        }
    }
    kept
}

/// A table under the clauses of one ALTER.
pub(super) struct Work<'a> {
    pub context: &'a Context,
    pub before: &'a Table,
    pub after: Table,
    /// Columns in the order in which clauses name them.
    pub touched: Vec<ColumnId>,
    /// Columns defined by the statement, and whether they say ON UPDATE.
    pub stated: Vec<(ColumnId, bool)>,
    /// Changes of the table as a whole, in the order of clauses.
    pub changes: Vec<SchemaChange>,
}

impl Work<'_> {
    fn collation(&self) -> Option<String> {
        self.after.collation.clone()
    }

    /// The table's own default first: new columns take it.
    fn charsets(&mut self, clauses: &[&Clause]) -> Result<(), Fault> {
        for clause in clauses {
            let (Clause::TableCharset(words) | Clause::Convert(words)) = clause else { continue };
            let over = self.outer(words);
            let settled =
                resolve::settle(words, over.as_deref(), self.context)?.ok_or("the default character set of the database is not known")?;
            let old = self.after.collation.as_deref().and_then(super::super::charset::collation_name);
            if let Some((collation, charset)) = old {
                if charset != settled.charset {
                    self.changes.push(SchemaChange::ChangeCharset { column: None, from: charset, to: settled.charset.clone() });
                }
                if collation != settled.collation {
                    self.changes.push(SchemaChange::ChangeCollation { column: None, from: collation, to: settled.collation.clone() });
                }
            }
            self.after.collation = Some(settled.collation);
        }
        Ok(())
    }

    /// What `DEFAULT` and a lone COLLATE refer to: the database's default.
    fn outer(&self, words: &CharsetClause) -> Option<String> {
        if words.charset.as_deref() != Some("default") {
            return self.after.collation.clone();
        }
        let database = &self.before.id.namespace;
        let own = *database == self.context.default_database;
        self.context.collation_of(database).map(str::to_owned).or_else(|| own.then(|| self.context.server_collation.clone()))
    }

    /// As the server goes: every old column at its place first, then one clause after another puts a column elsewhere.
    fn columns(&mut self, clauses: &[&Clause]) -> Result<(), Fault> {
        let mut columns = Vec::new();
        for old in &self.before.columns {
            columns.extend(self.kept(old, clauses)?);
        }
        for clause in clauses {
            match clause {
                Clause::AddColumn { definition, position, .. } => {
                    let column = self.added(definition)?;
                    insert(&mut columns, column, position.as_ref())?;
                }
                Clause::ChangeColumn { from, position, .. } => {
                    let id = self.touch(from)?;
                    if let (Some(position), Some(at)) = (position, columns.iter().position(|column| column.id == id)) {
                        let column = columns.remove(at);
                        insert(&mut columns, column, Some(position))?;
                    }
                }
                Clause::DropColumn { name, .. } => {
                    self.touch(name)?;
                }
                Clause::RenameColumn { from, .. } => {
                    self.touch(from)?;
                }
                Clause::SetDefault { column, .. } | Clause::SetInvisible { column, .. } => {
                    self.touch(column)?;
                }
                _ => {}
            }
        }
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|other| same_name(&other.name, &column.name)) {
                return Err(format!("column {} would be there twice", column.name));
            }
        }
        self.after.columns = columns;
        if clauses.iter().any(|clause| matches!(clause, Clause::Convert(_))) { self.convert(clauses) } else { Ok(()) }
    }

    fn touch(&mut self, name: &str) -> Result<ColumnId, Fault> {
        let at = position_of(&self.before.columns, name).ok_or_else(|| format!("column {name} of {} is not known", self.before.id))?;
        let id = self.before.columns[at].id;
        if !self.touched.contains(&id) {
            self.touched.push(id);
        }
        Ok(id)
    }

    /// An old column after the clauses about it. None: dropped.
    fn kept(&mut self, old: &Column, clauses: &[&Clause]) -> Result<Option<Column>, Fault> {
        let mut column = old.clone();
        for clause in clauses {
            match clause {
                Clause::DropColumn { name, .. } if same_name(name, &old.name) => return Ok(None),
                Clause::ChangeColumn { from, definition, .. } if same_name(from, &old.name) => {
                    column = resolve::column(definition, self.collation().as_deref(), self.context)?;
                    column.id = old.id;
                    column.as_text = old.as_text;
                    self.stated.push((old.id, definition.on_update_now));
                }
                Clause::RenameColumn { from, to, .. } if same_name(from, &old.name) => column.name.clone_from(to),
                Clause::SetDefault { column: name, default, .. } if same_name(name, &old.name) => {
                    column.default = match default {
                        None => None,
                        Some(default) => {
                            resolve::default(default, mysql(old)?, self.context).map_err(|why| format!("column {name}: {why}"))?
                        }
                    };
                }
                Clause::SetInvisible { column: name, invisible } if same_name(name, &old.name) => column.invisible = *invisible,
                _ => {}
            }
        }
        Ok(Some(column))
    }

    fn added(&mut self, definition: &ColumnDefinition) -> Result<Column, Fault> {
        let mut column = resolve::column(definition, self.collation().as_deref(), self.context)?;
        column.id = ColumnId(self.after.next_column);
        self.after.next_column = self.after.next_column.checked_add(1).ok_or("a table has had too many columns")?;
        self.stated.push((column.id, definition.on_update_now));
        self.touched.push(column.id);
        Ok(column)
    }

    /// CONVERT TO: every text column, TEXT made larger where its characters may need more bytes.
    fn convert(&mut self, clauses: &[&Clause]) -> Result<(), Fault> {
        let collation = self.after.collation.clone().ok_or("the default character set of the database is not known")?;
        let (collation, name) =
            super::super::charset::collation_name(&collation).ok_or_else(|| format!("the collation {collation} is not known"))?;
        let stated = |clause: &&Clause| matches!(clause, Clause::AddColumn { definition, .. } | Clause::ChangeColumn { definition, .. } if definition.charset != CharsetClause::default() || matches!(definition.declared, Declared::Text { .. }));
        if clauses.iter().any(stated) || clauses.iter().any(|clause| matches!(clause, Clause::TableCharset(_))) {
            return Err("CONVERT TO CHARACTER SET stands beside a column with a character set of its own, or a TEXT column".into());
        }
        if name == "binary" {
            return Err("CONVERT TO CHARACTER SET binary makes other types of all text columns".into());
        }
        let new = types::Charset { charset: name, collation };
        for column in &mut self.after.columns {
            let Native::MySql(native) = &mut column.native else { continue };
            match native {
                types::Native::Text { size, charset, .. } => {
                    let characters = resolve::lob_bytes(*size) / super::super::charset::widest(&charset.charset);
                    let bytes = characters.saturating_mul(super::super::charset::widest(&new.charset));
                    // The longest stays the longest, whatever a narrower set would need.
                    *size = if *size == types::LobSize::Long { types::LobSize::Long } else { resolve::lob_size(bytes) };
                    charset.clone_from(&new);
                }
                types::Native::VarChar { length, charset, .. } => {
                    if length.saturating_mul(super::super::charset::widest(&new.charset)) > 65_535 {
                        return Err(format!("column {} does not fit its type in {}", column.name, new.charset));
                    }
                    charset.clone_from(&new);
                }
                types::Native::Char { charset, .. } | types::Native::Enum { charset, .. } | types::Native::Set { charset, .. } => {
                    charset.clone_from(&new)
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Clauses that touch neither columns nor keys.
    fn rest(&mut self, clauses: &[&Clause], ignore: bool) {
        if ignore {
            self.changes.push(SchemaChange::ReplaceRows { what: "ALTER IGNORE TABLE removes rows that break a new key".into() });
        }
        for clause in clauses {
            let change = match clause {
                Clause::Engine(engine) if engine_replaces_rows(engine) => SchemaChange::ReplaceRows { what: format!("ENGINE={engine}") },
                Clause::Comment(_) => SchemaChange::ChangeComment { column: None },
                Clause::ExchangePartition { what, .. } => SchemaChange::MovePartition { what: what.clone() },
                Clause::TruncatePartition(what) | Clause::DropPartition(what) => SchemaChange::TruncatePartition { what: what.clone() },
                Clause::ReplaceRows(what) => SchemaChange::ReplaceRows { what: what.clone() },
                Clause::Storage(what) => SchemaChange::ChangeStorage { column: None, what: what.clone() },
                Clause::RenameTable(to) => SchemaChange::RenameTable { to: to.clone() },
                Clause::AddColumn { .. }
                | Clause::DropColumn { .. }
                | Clause::ChangeColumn { .. }
                | Clause::RenameColumn { .. }
                | Clause::SetDefault { .. }
                | Clause::SetInvisible { .. }
                | Clause::AddKey { .. }
                | Clause::DropPrimaryKey
                | Clause::DropIndex { .. }
                | Clause::RenameIndex { .. }
                | Clause::AddConstraint(_)
                | Clause::DropConstraint { .. }
                | Clause::Convert(_)
                | Clause::TableCharset(_)
                | Clause::Engine(_)
                | Clause::Nothing => continue,
            };
            self.changes.push(change);
        }
    }

    fn finish(mut self, clauses: &[&Clause], known: &Known) -> Result<Vec<Effect>, Fault> {
        let id = self.before.id.clone();
        let renamed_to = clauses.iter().rev().find_map(|clause| match clause {
            Clause::RenameTable(to) => Some(to.clone()),
            _ => None,
        });
        let renamed_to = renamed_to.filter(|to| *to != id);
        let mut changes = self.column_changes()?;
        changes.extend(self.key_change());
        changes.append(&mut self.changes);
        if let Some(to) = &renamed_to {
            if known.contains_key(to) {
                return Err(format!("{id} is renamed to {to}, which exists as far as is known"));
            }
            self.after.id = to.clone();
        } else {
            changes.retain(|change| !matches!(change, SchemaChange::RenameTable { .. }));
        }
        let others = exchanged(clauses, &self.after, known);
        let mut effects = vec![Effect { id, shape: Some(self.after), renamed_to, temporary: false, changes }];
        effects.extend(others);
        Ok(effects)
    }

    /// Every column's changes: first those that clauses name, in their order, then what a key implies.
    fn column_changes(&self) -> Result<Vec<SchemaChange>, Fault> {
        let implied = self.before.columns.iter().map(|c| c.id).filter(|id| !self.touched.contains(id));
        let mut changes = Vec::new();
        for id in self.touched.iter().copied().chain(implied) {
            match (self.before.by_id(id), self.after.by_id(id)) {
                (None, Some(column)) => changes.push(SchemaChange::AddColumn { column: column.clone(), fill: fill(column)? }),
                (Some(column), None) => changes.push(SchemaChange::DropColumn { column: column.clone(), in_key: self.before.in_key(id) }),
                (Some(before), Some(after)) => changes.extend(column_changes(before, after, self.before.in_key(id))),
                (None, None) => {}
            }
        }
        changes.extend(self.reordered());
        Ok(changes)
    }

    /// Columns that clauses moved, if the order of those that stay is another now.
    fn reordered(&self) -> Vec<SchemaChange> {
        let stays = |table: &Table, other: &Table| -> Vec<ColumnId> {
            table.columns.iter().map(|c| c.id).filter(|id| other.by_id(*id).is_some()).collect()
        };
        let (old, new) = (stays(self.before, &self.after), stays(&self.after, self.before));
        if old == new {
            return Vec::new();
        }
        let moved = |id: &&ColumnId| {
            let without = |ids: &[ColumnId]| ids.iter().copied().filter(|other| other != *id).collect::<Vec<_>>();
            // A column moved if it stands after another than before.
            let before_of = |ids: &[ColumnId]| ids.iter().position(|other| other == *id).map(|at| ids[..at].to_vec());
            before_of(&old) != before_of(&new) && (without(&old) == without(&new) || self.touched.contains(id))
        };
        let named: Vec<&ColumnId> = self.touched.iter().filter(|id| old.contains(id)).filter(moved).collect();
        named.into_iter().filter_map(|id| self.before.by_id(*id)).map(|c| SchemaChange::ReorderColumn { column: c.name.clone() }).collect()
    }
}

/// What becomes of the other tables of partitions' exchanges.
fn exchanged(clauses: &[&Clause], shape: &Table, known: &Known) -> Vec<Effect> {
    let mut effects = Vec::new();
    for clause in clauses {
        let Clause::ExchangePartition { with, exchange, what } = clause else { continue };
        let (shape, change) = match exchange {
            Exchange::Swap => match known.get(with) {
                Some(table) => (Some(table.clone()), SchemaChange::MovePartition { what: what.clone() }),
                None => continue,
            },
            Exchange::Made => (Some(Table { id: with.clone(), ..shape.clone() }), SchemaChange::CreateTable),
            Exchange::Taken => (None, SchemaChange::DropTable),
        };
        effects.push(Effect { id: with.clone(), shape, renamed_to: None, temporary: false, changes: vec![change] });
    }
    effects
}

fn insert(columns: &mut Vec<Column>, column: Column, position: Option<&Position>) -> Result<(), Fault> {
    let at = match position {
        None => columns.len(),
        Some(Position::First) => 0,
        Some(Position::After(name)) => {
            position_of(columns, name).ok_or_else(|| format!("column {name}, after which another is put, is not known"))? + 1
        }
    };
    columns.insert(at, column);
    Ok(())
}

/// What rows that are there get in an added column.
fn fill(column: &Column) -> Result<Fill, Fault> {
    if let Some(generated) = &column.generated {
        return Ok(Fill::Generated(generated.expression.clone()));
    }
    if column.identity {
        return Ok(Fill::Volatile("AUTO_INCREMENT".into()));
    }
    Ok(match &column.default {
        Some(Default::Constant(value)) => Fill::Constant(value.clone()),
        Some(Default::Expression(text)) => Fill::Volatile(text.clone()),
        None if column.nullable => Fill::Null,
        None => match implicit(mysql(column)?) {
            Some(value) => Fill::Implicit(value),
            None => Fill::Volatile("(the server's own value)".into()),
        },
    })
}
