//! A target in memory and a source that writes the local log: the ledger by `Ledger::apply`, rows in maps, faults on demand.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod source;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use runtime::config::{BadValue, Batch as BatchConfig, Keyless, OnStop, Retry, Sink, SinkTable, TargetEngine, Tls, Url};
use schemas::{
    capability::{Capabilities, POSTGRES},
    event::{Epoch, Version},
    order::ledger::{Lane, LanePosition, Ledger, LedgerChange, Outcome},
    plan::{Action, Step},
    policy::Policy,
    table::{ColumnId, Table, TableId},
    types::Repr,
    value::Value,
    view::View,
    wire::{codec::Reader, row::RowSchema},
};
use sink::{
    consumer::Proof,
    error::SinkError,
    target::{Batch, Effect, HoldText, Journal, OutcomeText, PlannedStatement, Session, Target, Writer, Written},
};
use tokio::task::yield_now;

pub type Row = BTreeMap<ColumnId, Value>;

/// Rows of one target table: by key, or counted where there is none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    pub keyed: BTreeMap<Vec<u8>, Row>,
    pub plain: Vec<Row>,
}

#[derive(Debug, Default)]
pub struct Store {
    pub ledger: Ledger,
    pub journal: Journal,
    pub expected: BTreeMap<TableId, (Version, Table)>,
    pub tables: BTreeMap<TableId, (Table, Rows)>,
    pub audit: Vec<String>,
    holder: Option<u64>,
    sessions: u64,
    /// The statement that holds this text fails.
    pub refuse_sql: Option<String>,
    /// So many writes are applied and their answer is lost.
    pub lose_answers: usize,
    /// So many connections fail.
    pub refuse_connections: usize,
    pub writes: usize,
    /// How long a write takes.
    pub write_takes: Duration,
    /// Statements that were run, in their order.
    pub statements: Vec<String>,
}

/// A target database in memory; clones are connections to the same one.
#[derive(Debug, Clone, Default)]
pub struct FakeTarget {
    pub store: Arc<Mutex<Store>>,
    /// Target schema; None: the source's namespace.
    pub schema: Option<String>,
}

impl FakeTarget {
    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }

    fn connect(&self) -> Result<(), SinkError> {
        let mut store = self.store();
        if store.refuse_connections > 0 {
            store.refuse_connections -= 1;
            return Err(SinkError::Transient("connection refused".into()));
        }
        Ok(())
    }

    /// The rows of a table as name → value, in key order.
    pub fn rows(&self, table: &TableId) -> Vec<BTreeMap<String, Value>> {
        let store = self.store();
        let Some((shape, rows)) = store.tables.get(table) else { return Vec::new() };
        let named = |row: &Row| row.iter().filter_map(|(id, v)| Some((shape.by_id(*id)?.name.clone(), v.clone()))).collect();
        rows.keyed.values().chain(&rows.plain).map(named).collect()
    }
}

pub struct FakeSession {
    target: FakeTarget,
    number: u64,
}

impl Drop for FakeSession {
    fn drop(&mut self) {
        if let Ok(mut store) = self.target.store.lock()
            && store.holder == Some(self.number)
        {
            store.holder = None;
        }
    }
}

pub struct FakeWriter(FakeTarget);

impl Target for FakeTarget {
    type Session = FakeSession;
    type Writer = FakeWriter;

    fn capabilities(&self) -> &'static Capabilities {
        &POSTGRES
    }

    fn view(&self, table: &TableId) -> Result<View, SinkError> {
        Ok(View::plain(TableId::new(self.schema.as_deref().unwrap_or(&table.namespace), &table.name)))
    }

    fn render(&self, step: &Step) -> Result<Vec<String>, String> {
        Ok(vec![match &step.action {
            Action::CreateTable => "CREATE".into(),
            Action::DropTable => "DROP TABLE".into(),
            Action::AddColumn { column, fill } => match fill {
                Some(Value::Integer(i)) => format!("ADD {} {} {i}", column.name, column.id.0),
                Some(other) => panic!("fill {other:?}"),
                None => format!("ADD {} {}", column.name, column.id.0),
            },
            Action::DropColumn { name } => format!("DROP {name}"),
            Action::RenameColumn { from, to } => format!("RENAME {from} {to}"),
            Action::AlterType { name, to, .. } => format!("TYPE {name} {to}"),
            Action::SetNotNull { name } => format!("NOT NULL {name}"),
            Action::DropNotNull { name } => format!("NULL {name}"),
            Action::DropKey => "DROP KEY".into(),
            Action::AddKey { columns } => format!("KEY {columns:?}"),
            Action::Truncate => "TRUNCATE".into(),
        }])
    }

    async fn prepare(&self) -> Result<(), SinkError> {
        self.connect()
    }

    async fn session(&self) -> Result<FakeSession, SinkError> {
        yield_now().await;
        self.connect()?;
        let mut store = self.store();
        store.sessions += 1;
        Ok(FakeSession { target: self.clone(), number: store.sessions })
    }

    async fn writer(&self) -> Result<FakeWriter, SinkError> {
        yield_now().await;
        self.connect()?;
        Ok(FakeWriter(self.clone()))
    }
}

impl Store {
    fn record(&mut self, changes: &[LedgerChange]) {
        let mut ledger = self.ledger.clone();
        for change in changes {
            ledger.apply(change).unwrap_or_else(|broken| panic!("{broken} in {changes:?}"));
            match change {
                LedgerChange::Outcome { epoch, table, outcome, reason, target_ddl } => {
                    let text = OutcomeText { outcome: *outcome, reason: reason.clone(), target_ddl: target_ddl.clone() };
                    self.journal.outcomes.insert((*epoch, table.clone()), text);
                }
                LedgerChange::Hold { table, reason, proposed, .. } => {
                    self.journal.holds.insert(table.clone(), HoldText { reason: reason.clone(), proposed: proposed.clone() });
                }
                LedgerChange::Unhold(table) => drop(self.journal.holds.remove(table)),
                LedgerChange::StopAtRow { message, .. } => self.journal.stop_at_row = Some(message.clone()),
                LedgerChange::Resume => self.journal.stop_at_row = None,
                LedgerChange::Shape { table, version, target } => drop(self.expected.insert(table.clone(), (*version, target.clone()))),
                LedgerChange::Audit { what, .. } => self.audit.push(what.clone()),
                LedgerChange::Decided(_)
                | LedgerChange::Queue { .. }
                | LedgerChange::Unqueue { .. }
                | LedgerChange::Block { .. }
                | LedgerChange::Unblock(_)
                | LedgerChange::Retire(_)
                | LedgerChange::Unretire(_)
                | LedgerChange::Approve { .. }
                | LedgerChange::Unapprove(_)
                | LedgerChange::MoveLanes(_)
                | LedgerChange::ResetLanes(_)
                | LedgerChange::Forget(_) => {}
            }
        }
        self.ledger = ledger;
    }

    /// The ledger as a store may give it: final outcomes of decided epochs are left out.
    fn image(&self) -> Ledger {
        let mut ledger = self.ledger.clone();
        let decided = ledger.decided;
        ledger.outcomes.retain(|(epoch, _), outcome| *epoch > decided || !outcome.is_final());
        ledger
    }

    fn run(&mut self, statement: &PlannedStatement) {
        self.statements.push(statement.sql.clone());
        let words: Vec<&str> = statement.sql.split(' ').collect();
        let before = statement.before.as_ref().map(|t| t.id.clone());
        let rows = before.and_then(|id| self.tables.remove(&id)).map(|(_, rows)| rows).unwrap_or_default();
        let Some(after) = statement.after.clone() else { return };
        let mut rows = if matches!(words[0], "CREATE" | "TRUNCATE") { Rows::default() } else { rows };
        let ids: BTreeSet<ColumnId> = after.columns.iter().map(|c| c.id).collect();
        for row in rows.keyed.values_mut().chain(&mut rows.plain) {
            row.retain(|id, _| ids.contains(id));
            if words[0] == "ADD" {
                let fill = words.get(3).map_or(Value::Null, |n| Value::Integer(n.parse().unwrap()));
                row.insert(ColumnId(words[2].parse().unwrap()), fill);
            }
        }
        self.tables.insert(after.id.clone(), (after, rows));
    }
}

fn same_shape(a: &Table, b: &Table) -> bool {
    let columns = |t: &Table| t.columns.iter().map(|c| (c.name.clone(), c.native.clone(), c.nullable)).collect::<Vec<_>>();
    columns(a) == columns(b)
}

impl Session for FakeSession {
    async fn lock(&mut self) -> Result<(), SinkError> {
        loop {
            {
                let mut store = self.target.store();
                if store.holder.is_none() || store.holder == Some(self.number) {
                    store.holder = Some(self.number);
                    return Ok(());
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn unlock(&mut self) -> Result<(), SinkError> {
        yield_now().await;
        let mut store = self.target.store();
        assert_eq!(store.holder, Some(self.number), "the lock is given back by who holds it");
        store.holder = None;
        Ok(())
    }

    async fn ledger(&mut self) -> Result<Ledger, SinkError> {
        yield_now().await;
        Ok(self.target.store().image())
    }

    async fn journal(&mut self) -> Result<Journal, SinkError> {
        yield_now().await;
        Ok(self.target.store().journal.clone())
    }

    async fn expected(&mut self, table: &TableId) -> Result<Option<(Version, Table)>, SinkError> {
        yield_now().await;
        Ok(self.target.store().expected.get(table).cloned())
    }

    async fn all_expected(&mut self) -> Result<BTreeMap<TableId, (Version, Table)>, SinkError> {
        yield_now().await;
        Ok(self.target.store().expected.clone())
    }

    async fn describe(&mut self, table: &TableId, expected: Option<&Table>) -> Result<Option<Table>, SinkError> {
        yield_now().await;
        let Some(mut live) = self.target.store().tables.get(table).map(|(table, _)| table.clone()) else { return Ok(None) };
        for column in &mut live.columns {
            if let Some(known) = expected.and_then(|e| e.column(&column.name)) {
                column.id = known.id;
            }
        }
        Ok(Some(live))
    }

    async fn is_empty(&mut self, table: &TableId) -> Result<bool, SinkError> {
        yield_now().await;
        Ok(self.target.store().tables.get(table).is_none_or(|(_, rows)| *rows == Rows::default()))
    }

    async fn record(&mut self, changes: &[LedgerChange]) -> Result<(), SinkError> {
        yield_now().await;
        {
            let mut store = self.target.store();
            assert_eq!(store.holder, Some(self.number), "recorded under the lock: {changes:?}");
            store.record(changes);
        }
        yield_now().await;
        Ok(())
    }

    async fn run(&mut self, _epoch: Epoch, _table: &TableId, plan: &[PlannedStatement], outcome: &[LedgerChange]) -> Result<(), SinkError> {
        yield_now().await;
        self.run_all(plan, outcome)?;
        yield_now().await;
        Ok(())
    }
}

impl FakeSession {
    fn run_all(&self, plan: &[PlannedStatement], outcome: &[LedgerChange]) -> Result<(), SinkError> {
        let mut store = self.target.store();
        assert_eq!(store.holder, Some(self.number), "run under the lock");
        if let Some(text) = store.refuse_sql.clone()
            && let Some(bad) = plan.iter().find(|s| s.sql.contains(&text))
        {
            return Err(SinkError::Stop { message: format!("the server refuses `{}`", bad.sql) });
        }
        if let Some(before) = plan.first().and_then(|first| first.before.as_ref()) {
            match store.tables.get(&before.id) {
                Some((live, _)) if same_shape(live, before) => {}
                live => return Err(SinkError::Stop { message: format!("the live table is {live:?}, expected {before:?}") }),
            }
        }
        for statement in plan {
            store.run(statement);
        }
        store.record(outcome);
        Ok(())
    }
}

/// The fields of a row; whole numbers and text only.
fn decode(rows: &RowSchema, bytes: &[u8]) -> Row {
    let mut reader = Reader::new(bytes);
    let row = rows
        .fields
        .iter()
        .map(|field| {
            let value = if field.nullable && !reader.some().unwrap() {
                Value::Null
            } else {
                match field.repr {
                    Repr::Int | Repr::Long => Value::Integer(reader.long().unwrap().into()),
                    Repr::String => Value::Text(reader.string().unwrap().into()),
                    ref other => panic!("{other:?}"),
                }
            };
            (field.column, value)
        })
        .collect();
    assert!(reader.rest().is_empty(), "a row is read with its own schema");
    row
}

impl FakeWriter {
    fn apply(store: &mut Store, batch: &Batch<'_>) -> Result<Written, SinkError> {
        let mut ledger = store.ledger.clone();
        if !batch.lanes.iter().all(|m| ledger.compare_and_set(&m.lane, m.from, m.to)) {
            return Ok(Written::Moved);
        }
        let mut tables = store.tables.clone();
        for part in &batch.tables {
            let version = &part.version;
            let (expected, _) = &store.expected[&version.id];
            assert_eq!(*expected, version.version, "a row of {} is applied on its own version", version.id);
            let (shape, rows) = tables.get_mut(&version.target.id).unwrap();
            assert!(same_shape(shape, &version.target), "the target's shape is the one that the writer was told");
            if part.fresh_copy {
                let untouched = part.effects.iter().all(|e| match e {
                    Effect::Upsert { key, absent, .. } => !rows.keyed.contains_key(*key) && absent.is_empty(),
                    Effect::Append { .. } => true,
                    Effect::Delete { .. } | Effect::Remove { .. } => false,
                });
                assert!(untouched, "a fresh copy meets no row that is there");
            }
            for effect in &part.effects {
                Self::effect(version, shape, rows, effect)?;
            }
        }
        (store.ledger, store.tables) = (ledger, tables);
        Ok(Written::Committed)
    }

    fn effect(version: &sink::target::TableVersion, shape: &Table, rows: &mut Rows, effect: &Effect<'_>) -> Result<(), SinkError> {
        let table = version.id.clone();
        let read = |bytes: &[u8]| {
            let mut row = decode(&version.rows, bytes);
            if row.values().any(|v| matches!(v, Value::Text(t) if t.contains("BAD"))) {
                let message = format!("table {table}: a value does not fit column `note`");
                return Err(SinkError::BadValue { table: table.clone(), message });
            }
            row.retain(|id, _| shape.by_id(*id).is_some());
            for column in &shape.columns {
                row.entry(column.id).or_insert(Value::Null);
            }
            Ok(row)
        };
        match effect {
            Effect::Delete { key } => drop(rows.keyed.remove(*key)),
            Effect::Upsert { key, row, absent, skip_missing } => {
                let mut new = read(row)?;
                match (absent.is_empty(), rows.keyed.get(*key)) {
                    (true, _) => {}
                    (false, Some(old)) => {
                        for index in absent {
                            let id = version.rows.fields[*index].column;
                            new.insert(id, old[&id].clone());
                        }
                    }
                    (false, None) if *skip_missing => return Ok(()),
                    (false, None) => {
                        let message = format!("table {table}: an update lacks columns and its row is not there");
                        return Err(SinkError::Incomplete { table: table.clone(), message });
                    }
                }
                rows.keyed.insert(key.to_vec(), new);
            }
            Effect::Append { row } => rows.plain.push(read(row)?),
            Effect::Remove { row } => {
                let gone = read(row)?;
                let at = rows.plain.iter().position(|r| *r == gone);
                let missing = || SinkError::Stop { message: format!("table {table}: a row to be removed is not there") };
                rows.plain.remove(at.ok_or_else(missing)?);
            }
        }
        Ok(())
    }
}

impl Writer for FakeWriter {
    async fn positions(&mut self, lanes: &[Lane]) -> Result<Vec<LanePosition>, SinkError> {
        yield_now().await;
        let store = self.0.store();
        Ok(lanes.iter().map(|lane| store.ledger.lanes.get(lane).copied().unwrap_or_default()).collect())
    }

    async fn write(&mut self, batch: &Batch<'_>, proof: &impl Proof) -> Result<Written, SinkError> {
        yield_now().await;
        let takes = self.0.store().write_takes;
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        if !proof.holds().await? {
            return Ok(Written::Moved);
        }
        let written = {
            let mut store = self.0.store();
            let written = Self::apply(&mut store, batch)?;
            store.writes += 1;
            if store.lose_answers > 0 {
                store.lose_answers -= 1;
                return Err(SinkError::Transient("the answer is lost".into()));
            }
            written
        };
        yield_now().await;
        Ok(written)
    }

    async fn ledger(&mut self) -> Result<Ledger, SinkError> {
        Ok(self.0.store().image())
    }
}

/// A sink's configuration with quick retries.
pub fn config(workers: usize) -> Sink {
    let url = Url {
        scheme: "fake".into(),
        user: None,
        password: None,
        host: "localhost".into(),
        port: None,
        database: None,
        parameters: BTreeMap::new(),
    };
    Sink {
        name: "warehouse".into(),
        target: TargetEngine::Postgres,
        url,
        schema: None,
        workers,
        create: true,
        recreate: false,
        adopt: false,
        on_stop: OnStop::Exit,
        retry: Retry { initial: Duration::from_millis(1), max: Duration::from_millis(5) },
        lock_timeout: Duration::from_secs(1),
        batch: BatchConfig { rows: 100, bytes: 1 << 20, linger: Duration::ZERO },
        tls: Tls::default(),
        defaults: SinkTable {
            rename: None,
            columns: BTreeMap::new(),
            evolution: Policy::default(),
            type_map: BTreeMap::new(),
            allow_truncation: false,
            keyless: Keyless::FullRow,
            bad_value: BadValue::Stop,
        },
        tables: BTreeMap::new(),
    }
}

/// The outcome recorded last.
pub fn outcome(target: &FakeTarget, epoch: Epoch, table: &TableId) -> Option<Outcome> {
    target.store().journal.outcomes.get(&(epoch, table.clone())).map(|text| text.outcome)
}
