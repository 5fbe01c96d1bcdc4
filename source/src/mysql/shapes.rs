//! The shapes of tables at the stream's position, moved on by the log's own statements.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{
    change::SchemaChange,
    ddl::mysql::{self as ddl, Context, Control, Effect, Parsed},
    table::{Table, TableId},
};

use super::{mapping::Mapping, position::Position};
use crate::engine::{Position as _, StatementTable};

/// Who wrote a statement: temporary tables belong to one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Session {
    pub server: u32,
    pub thread: u32,
}

/// What a statement of the log is to the stream.
#[derive(Debug)]
pub enum Verdict {
    Nothing,
    Transaction(Control),
    /// It changed captured tables; the shapes here have moved on.
    Tables(Vec<StatementTable>),
    /// It may touch captured tables and cannot be followed.
    Stand {
        tables: Vec<TableId>,
        message: String,
    },
}

/// A table whose rows and statements are passed over up to a place where its shape is known.
#[derive(Debug, Clone)]
struct Skip {
    shape: Table,
    until: Position,
}

#[derive(Debug, Clone, Default)]
pub struct Shapes {
    /// The log names columns, as far as it was read: a column that moves is noticed.
    full_metadata: bool,
    mapping: Mapping,
    /// Every table whose shape is known, captured or not.
    known: BTreeMap<TableId, Table>,
    captured: BTreeSet<TableId>,
    skipped: BTreeMap<TableId, Skip>,
    /// Tables on which the statement that the stream stands at had no effect.
    passed: BTreeSet<TableId>,
    temporary: BTreeSet<(Session, TableId)>,
    /// Shapes of other tables as the catalog had them at a place ahead.
    ahead: Option<(Position, Vec<Table>)>,
    /// Counts the changes of what is known.
    generation: u64,
}

impl Shapes {
    pub fn new(full_metadata: bool, mapping: Mapping) -> Self {
        Self { full_metadata, mapping, ..Self::default() }
    }

    /// What the log itself shows: the server's setting may change while it is read. Whether that is news.
    pub fn named(&mut self, full_metadata: bool) -> bool {
        std::mem::replace(&mut self.full_metadata, full_metadata) != full_metadata
    }

    /// Another number whenever a shape may have changed.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn capture(&mut self, tables: Vec<Table>) {
        self.generation += 1;
        for table in tables {
            self.captured.insert(table.id.clone());
            self.skipped.remove(&table.id);
            self.known.insert(table.id.clone(), table);
        }
    }

    pub fn release(&mut self, table: &TableId) {
        self.captured.remove(table);
        self.skipped.remove(table);
    }

    pub fn skip(&mut self, shape: Table, until: Position) {
        self.captured.insert(shape.id.clone());
        self.skipped.insert(shape.id.clone(), Skip { shape, until });
    }

    /// The statement that the stream stands at is passed over for this table, and for it alone.
    pub fn pass(&mut self, table: TableId) {
        self.passed.insert(table);
    }

    /// The stream is behind the statement.
    pub fn passed(&mut self) {
        self.passed.clear();
    }

    /// Whether a statement on this table means anything.
    pub fn heeds(&self, table: &TableId) -> bool {
        self.follows(table) && !self.passed.contains(table)
    }

    /// Gives the shapes of tables that are not captured, as they are at `at`.
    pub fn learn(&mut self, at: Position, tables: Vec<Table>) {
        self.ahead = Some((at, tables));
    }

    /// The stream stands at a new place.
    pub fn arrive(&mut self, position: &Position) {
        if self.ahead.as_ref().is_some_and(|(at, _)| position.reached(at)) {
            for table in self.ahead.take().into_iter().flat_map(|(_, tables)| tables) {
                self.known.entry(table.id.clone()).or_insert(table);
            }
        }
        let arrived: Vec<TableId> =
            self.skipped.iter().filter(|(_, skip)| position.reached(&skip.until)).map(|(id, _)| id.clone()).collect();
        for id in arrived {
            if let Some(skip) = self.skipped.remove(&id) {
                self.generation += 1;
                self.known.insert(id, skip.shape);
            }
        }
    }

    /// Whether rows of this table are published from here on.
    pub fn follows(&self, table: &TableId) -> bool {
        self.captured.contains(table) && !self.skipped.contains_key(table)
    }

    /// Whether rows of this table are kept. Those of an XA transaction may be committed when the table is followed again.
    pub fn keeps(&self, table: &TableId, xa: bool) -> bool {
        if xa { self.captured.contains(table) } else { self.follows(table) }
    }

    /// The followed tables that the statement that the stream stands at means anything to.
    pub fn heeded(&self) -> Vec<TableId> {
        self.captured.iter().filter(|id| self.heeds(id)).cloned().collect()
    }

    /// All tables that are followed.
    pub fn followed(&self) -> Vec<TableId> {
        self.captured.iter().filter(|id| self.follows(id)).cloned().collect()
    }

    pub fn shape(&self, table: &TableId) -> Option<&Table> {
        self.known.get(table)
    }

    /// Judges a statement. Where it is understood, the known shapes have moved on when this returns; where not, nothing has.
    pub fn statement(&mut self, text: &[u8], context: &Context, session: Session) -> Verdict {
        match ddl::parse(text, context) {
            Parsed::Nothing => Verdict::Nothing,
            Parsed::Transaction(control) => Verdict::Transaction(control),
            Parsed::RowChange { tables } => {
                let what = "rows were changed by a statement, not by row events: SET GLOBAL binlog_format = 'ROW' on the source and in every session, then reload";
                self.stand_or_forget(&tables, session, what, false)
            }
            Parsed::Unknown { tables, why } => {
                self.stand_or_forget(&tables, session, &format!("the statement is not understood ({why})"), true)
            }
            Parsed::Tables(statement) => match ddl::apply(&statement, context, &self.known) {
                Ok(mut effects) => {
                    for effect in &mut effects {
                        self.mapping.mark_added(self.known.get(&effect.id), effect);
                    }
                    self.effects(effects, session)
                }
                Err(refusal) => {
                    self.stand_or_forget(&refusal.tables, session, &format!("the statement cannot be followed ({})", refusal.why), true)
                }
            },
        }
    }

    fn owns_temporary(&self, session: Session, table: &TableId) -> bool {
        self.temporary.contains(&(session, table.clone()))
    }

    /// An empty list may be any table.
    fn stand_or_forget(&mut self, tables: &[TableId], session: Session, what: &str, shapes_unknown: bool) -> Verdict {
        let real: Vec<&TableId> = tables.iter().filter(|id| !self.owns_temporary(session, id)).collect();
        let mut touched: Vec<TableId> = match (tables.is_empty(), real.is_empty()) {
            (true, _) => self.followed().into_iter().filter(|id| self.heeds(id)).collect(),
            (false, true) => Vec::new(),
            (false, false) => real.iter().filter(|id| self.heeds(id)).map(|id| (*id).clone()).collect(),
        };
        touched.sort();
        touched.dedup();
        if !touched.is_empty() {
            return Verdict::Stand { message: format!("{what}; it may touch {}", names(&touched)), tables: touched };
        }
        if shapes_unknown {
            for id in real {
                if !self.captured.contains(id) {
                    self.known.remove(id);
                }
            }
        }
        Verdict::Nothing
    }

    fn effects(&mut self, effects: Vec<Effect>, session: Session) -> Verdict {
        if let Some(stand) = self.taken_away(&effects, session).or_else(|| self.moved_unseen(&effects, session)) {
            return stand;
        }
        let mut touched = Vec::new();
        for effect in effects {
            let temporary = effect.temporary || self.owns_temporary(session, &effect.id);
            if temporary {
                self.temporary_effect(effect, session);
                continue;
            }
            if self.skipped.contains_key(&effect.id) || self.passed.contains(&effect.id) {
                continue;
            }
            // What is said to have no effect does not put another shape under the table's name either.
            if effect.renamed_to.as_ref().is_some_and(|to| self.passed.contains(to)) {
                self.known.remove(&effect.id);
                continue;
            }
            if self.captured.contains(&effect.id) {
                let last = self.known.get(&effect.id).cloned();
                if let Some(shape) = effect.shape.clone().or(last)
                    && !effect.changes.is_empty()
                {
                    touched.push(StatementTable { id: effect.id.clone(), shape, changes: replaced(effect.changes) });
                }
            }
            self.move_on(effect.id, effect.shape, effect.renamed_to);
        }
        if touched.is_empty() { Verdict::Nothing } else { Verdict::Tables(touched) }
    }

    fn move_on(&mut self, id: TableId, shape: Option<Table>, renamed_to: Option<TableId>) {
        self.generation += 1;
        match (shape, renamed_to) {
            (Some(mut shape), Some(to)) => {
                self.known.remove(&id);
                shape.id = to.clone();
                self.known.insert(to, shape);
            }
            (Some(shape), None) => {
                self.known.insert(id, shape);
            }
            (None, _) => {
                self.known.remove(&id);
            }
        }
    }

    /// A rename that takes a captured table away, or puts another one under its name.
    fn taken_away(&self, effects: &[Effect], session: Session) -> Option<Verdict> {
        let mut tables = Vec::new();
        let mut renames = Vec::new();
        for effect in effects {
            let Some(to) = &effect.renamed_to else { continue };
            if effect.temporary || self.owns_temporary(session, &effect.id) {
                continue;
            }
            renames.push(format!("{} to {to}", effect.id));
            tables.extend([&effect.id, to].into_iter().filter(|id| self.heeds(id)).cloned());
        }
        tables.sort();
        tables.dedup();
        if tables.is_empty() {
            return None;
        }
        let message = format!(
            "the statement renames {}: which rows belong to {} from here on cannot be told; reload it, or take it out of the configuration",
            renames.join(", "),
            names(&tables)
        );
        Some(Verdict::Stand { tables, message })
    }

    /// Without column names in the log nothing would notice a column at another place than the statement says.
    fn moved_unseen(&self, effects: &[Effect], session: Session) -> Option<Verdict> {
        if self.full_metadata {
            return None;
        }
        let moved = |effect: &&Effect| {
            let after = effect.shape.as_ref().zip(self.known.get(&effect.id));
            self.heeds(&effect.id)
                && !effect.temporary
                && !self.owns_temporary(session, &effect.id)
                && after.is_some_and(|(after, before)| moves_columns(before, after, &effect.changes))
        };
        let tables: Vec<TableId> = effects.iter().filter(moved).map(|effect| effect.id.clone()).collect();
        if tables.is_empty() {
            return None;
        }
        let message = format!(
            "the statement moves columns of {}, and the log does not name columns; SET GLOBAL binlog_row_metadata = 'FULL' on the source, then reload",
            names(&tables)
        );
        Some(Verdict::Stand { tables, message })
    }

    fn temporary_effect(&mut self, effect: Effect, session: Session) {
        match (effect.shape, effect.renamed_to) {
            (Some(_), None) => {
                self.temporary.insert((session, effect.id));
            }
            (Some(_), Some(to)) => {
                self.temporary.remove(&(session, effect.id));
                self.temporary.insert((session, to));
            }
            (None, _) => {
                self.temporary.remove(&(session, effect.id));
            }
        }
    }
}

/// A captured table that is created took the place of the one whose rows were followed: its rows have another shape.
fn replaced(changes: Vec<SchemaChange>) -> Vec<SchemaChange> {
    match changes.as_slice() {
        [SchemaChange::CreateTable] => vec![SchemaChange::DropTable, SchemaChange::CreateTable],
        _ => changes,
    }
}

/// Whether a change puts a column between or before others that were there.
pub fn moves_columns(before: &Table, after: &Table, changes: &[SchemaChange]) -> bool {
    let moved = changes.iter().any(|change| matches!(change, SchemaChange::ReorderColumn { .. }));
    let old_end = after.columns.iter().rposition(|c| before.by_id(c.id).is_some());
    let first_new = after.columns.iter().position(|c| before.by_id(c.id).is_none());
    moved || matches!((first_new, old_end), (Some(new), Some(old)) if new < old)
}

pub fn names(tables: &[TableId]) -> String {
    tables.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> Context {
        Context { default_database: "shop".into(), ..Context::new(true, 101_119) }
    }

    fn table(text: &str) -> Table {
        ddl::table_from_create(text.as_bytes(), &context()).unwrap()
    }

    #[test]
    fn a_captured_table_that_is_created_again_is_another_table_with_its_own_shape() {
        let mut shapes = Shapes::new(true, Mapping::default());
        shapes.capture(vec![table("CREATE TABLE crate (id INT PRIMARY KEY, label VARCHAR(20))")]);
        let session = Session { server: 1, thread: 1 };
        let changes = |verdict| match verdict {
            Verdict::Tables(tables) => tables.into_iter().map(|t| (t.shape, t.changes)).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        let dropped = changes(shapes.statement(b"DROP TABLE spare, crate", &context(), session));
        assert_eq!(dropped[0].1, [SchemaChange::DropTable]);
        let text = "CREATE TABLE crate (id INT PRIMARY KEY, label INT)";
        let made = changes(shapes.statement(text.as_bytes(), &context(), session));
        assert_eq!(made, [(table(text), vec![SchemaChange::DropTable, SchemaChange::CreateTable])]);
    }
}
