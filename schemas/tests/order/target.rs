//! The target's server: tables, ledger, sessions, one lock, and statements that go on after their client died.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use schemas::{
    event::{Epoch, EventKind, SchemaEvent},
    order::{
        ledger::{Lane, LanePosition, Ledger, LedgerChange, Outcome},
        protection::Protection,
        sink::{self, Run, RunKind},
    },
};

use crate::{
    database::{Kind, Rows, Value, of_change, shape_of, version_of},
    transport::{Row, RowOp},
    world::World,
};

pub type Sid = usize;

/// What the target's catalog shows of a table: shape, and the order of its columns.
pub type Visible = (Option<u32>, u32);

#[derive(Debug, Clone)]
pub struct TargetTable {
    pub rows: Rows,
    /// The source's version that its shape fits.
    pub version: u32,
    pub shape: u32,
    pub order: u32,
}

/// A plan's statement in the server.
#[derive(Clone)]
pub struct Statement {
    pub event: Arc<SchemaEvent>,
    pub run: Run,
    /// Transactional: the outcome is recorded at the same commit.
    pub with_outcome: bool,
}

/// How a statement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Done,
    Refused,
}

/// A row of a batch.
pub struct Given {
    pub offset: u64,
    pub row: Rc<Row>,
    /// The source's version under which the row was written.
    pub version: u32,
    /// The copy for this sink is unfinished.
    pub copying: bool,
}

/// One lane of a batch.
pub struct LaneBatch {
    pub table: usize,
    pub lane: u32,
    pub from: u64,
    pub to: u64,
    pub rows: Vec<Given>,
}

pub struct Target {
    pub ledger: Rc<Ledger>,
    pub tables: Vec<Option<TargetTable>>,
    /// Tables whose last change was kept away: their rows differ until they begin anew.
    pub kept: BTreeSet<usize>,
    pub intents: BTreeMap<(Epoch, usize), (Visible, Visible)>,
    pub holder: Option<Sid>,
    pub dead: BTreeSet<Sid>,
    pub running: BTreeMap<Sid, Statement>,
    pub ended: BTreeMap<Sid, Ended>,
    sessions: Sid,
    seen: BTreeSet<(usize, u32, u64)>,
}

pub struct Dead;

impl Target {
    pub fn new(tables: usize) -> Self {
        Self {
            ledger: Rc::default(),
            tables: vec![None; tables],
            kept: BTreeSet::new(),
            intents: BTreeMap::new(),
            holder: None,
            dead: BTreeSet::new(),
            running: BTreeMap::new(),
            ended: BTreeMap::new(),
            sessions: 0,
            seen: BTreeSet::new(),
        }
    }

    // ---- sessions and the lock

    pub fn session(&mut self) -> Sid {
        self.sessions += 1;
        self.sessions
    }

    /// A session that is dead answers nothing; without the protection a client would connect again and go on.
    pub fn alive(&self, w: &World, sid: Sid) -> Result<(), Dead> {
        if self.dead.contains(&sid) && w.has(Protection::LockSession) { Err(Dead) } else { Ok(()) }
    }

    pub fn lock(&mut self, w: &World, sid: Sid) -> Result<bool, Dead> {
        self.alive(w, sid)?;
        if !w.has(Protection::Lock) {
            return Ok(true);
        }
        let holder = *self.holder.get_or_insert(sid);
        Ok(holder == sid)
    }

    pub fn unlock(&mut self, sid: Sid) {
        if self.holder == Some(sid) {
            self.holder = None;
        }
    }

    /// One statement ends, or a dead session is noticed.
    pub fn server(&mut self, w: &World) {
        let sids: Vec<Sid> = self.running.keys().copied().collect();
        if !sids.is_empty() {
            let sid = w.pick(&sids);
            if let Some(statement) = self.running.remove(&sid) {
                let ended = self.execute(w, &statement);
                self.ended.insert(sid, ended);
            }
        }
        if let Some(holder) = self.holder
            && self.dead.contains(&holder)
            && !self.running.contains_key(&holder)
        {
            self.holder = None;
        }
    }

    pub fn visible(&self, w: &World, table: usize) -> Visible {
        match &self.tables[table] {
            None => (None, 0),
            Some(t) => (Some(t.shape), if w.has(Protection::ColumnOrder) { t.order } else { 0 }),
        }
    }

    // ---- ledger

    /// Applies changes in one transaction; a refusal is a breach.
    pub fn record(&mut self, w: &World, changes: &[LedgerChange]) {
        let ledger = Rc::make_mut(&mut self.ledger);
        for change in changes {
            w.log(|| format!("target: {change:?}"));
            if let Err(broken) = ledger.apply(change) {
                w.violated(broken.to_string());
                return;
            }
            if let LedgerChange::Decided(epoch) = change {
                check_decided(w, ledger, *epoch);
            }
            if let LedgerChange::Outcome { epoch, outcome: Outcome::Applied, .. } = change {
                check_nothing_after_stop(w, ledger, *epoch);
            }
        }
    }

    // ---- rows

    /// One transaction of a worker: compare-and-set of each lane, rows, positions. Returns whether it was committed.
    pub fn batch(&mut self, w: &World, lanes: &[LaneBatch]) -> bool {
        let stored = |t: &Self, b: &LaneBatch| t.ledger.position(&w.ids[b.table], b.lane).position;
        if w.has(Protection::CompareAndSet) && lanes.iter().any(|b| stored(self, b) != b.from) {
            return false;
        }
        for lane in lanes {
            self.lane(w, lane);
        }
        true
    }

    fn lane(&mut self, w: &World, batch: &LaneBatch) {
        let last_wins = !w.has(Protection::Fold);
        let mut rows: Vec<&Given> = batch.rows.iter().collect();
        if last_wins && !w.keyless[batch.table] {
            let last: BTreeMap<u8, &Given> = rows.iter().map(|g| (g.row.key, *g)).collect();
            rows = last.into_values().collect();
        }
        let mut to = batch.to;
        let mut epoch = 0;
        let mut seq = 0;
        for given in rows {
            (epoch, seq) = (given.row.epoch, given.row.seq);
            if !self.row(w, batch, given, last_wins) {
                to = given.offset;
                break;
            }
            self.seen.insert((batch.table, batch.lane, given.offset));
        }
        let id = Lane { table: w.ids[batch.table].clone(), lane: batch.lane };
        let ledger = Rc::make_mut(&mut self.ledger);
        let before = ledger.position(&id.table, id.lane);
        let new = LanePosition { position: to, seq: seq.max(before.seq), epoch: epoch.max(before.epoch) };
        if w.has(Protection::CompareAndSet) {
            if !ledger.compare_and_set(&id, batch.from, new) {
                w.violated(format!("lane {} of {} goes back to {to}", batch.lane, id.table));
            }
        } else {
            ledger.lanes.insert(id, new);
        }
        w.log(|| {
            format!(
                "target: {} lane {} {}->{to} rows {:?}",
                w.ids[batch.table],
                batch.lane,
                batch.from,
                batch.rows.iter().map(|g| &*g.row).collect::<Vec<_>>()
            )
        });
    }

    /// False: the row stops here, or holds its table here.
    fn row(&mut self, w: &World, batch: &LaneBatch, given: &Given, last_wins: bool) -> bool {
        let (t, row, id) = (batch.table, &given.row, &w.ids[batch.table]);
        let decided = self.ledger.decided;
        if row.epoch > decided {
            w.violated(format!("a row of {id} of epoch {} is applied, decided is {decided}", row.epoch));
        }
        if self.seen.contains(&(t, batch.lane, given.offset)) {
            w.violated(format!("row {} of {id}, lane {}, is applied twice", given.offset, batch.lane));
        }
        let Some(table) = self.tables[t].as_mut() else {
            w.violated(format!("a row of {id}, which is not there"));
            return true;
        };
        if given.version != table.version {
            w.violated(format!("a row of {id} of version {} ({row:?}) is applied on version {}", given.version, table.version));
        }
        let fits = row.op == RowOp::Delete || !row.value.is_some_and(|v| v.bad);
        let there = match (&mut table.rows, row.value) {
            (Rows::Bag(rows), Some(value)) if row.op == RowOp::Delete => {
                if !Rows::remove(rows, &value) && !self.kept.contains(&t) {
                    w.violated(format!("a delete of a row without a key that is not there: {id} {value:?}"));
                }
                true
            }
            (Rows::Bag(rows), Some(value)) => {
                *rows.entry(value).or_insert(0) += 1;
                true
            }
            (Rows::Keyed(rows), Some(value)) if fits => keyed(rows, given, value, last_wins),
            (_, _) => false,
        };
        if there {
            return true;
        }
        let changes = if fits || w.hold_bad {
            sink::hold_at_row(id, row.epoch, "")
        } else {
            vec![LedgerChange::StopAtRow { table: id.clone(), epoch: row.epoch, message: String::new() }]
        };
        self.record(w, &changes);
        false
    }

    // ---- statements

    fn execute(&mut self, w: &World, statement: &Statement) -> Ended {
        let run = &statement.run;
        let t = w.index(&run.table);
        let Some(part) = statement.event.table(&run.table) else { return Ended::Refused };
        let (kind, _) = of_change(&part.changes);
        let refused = match run.kind {
            RunKind::Ddl | RunKind::Approved(_) => kind == Kind::Fail,
            RunKind::Nothing | RunKind::Keep | RunKind::Reload | RunKind::Create => false,
        };
        if refused {
            w.log(|| format!("target: refuses E{} of {}", run.epoch, run.table));
            return Ended::Refused;
        }
        self.alter(w, t, statement);
        if statement.with_outcome {
            self.record(w, &run.outcome);
        }
        Ended::Done
    }

    /// The target's DDL for one table; for a plan without statements, the version alone.
    pub fn alter(&mut self, w: &World, t: usize, statement: &Statement) {
        let run = &statement.run;
        let Some(part) = statement.event.table(&run.table) else { return };
        let (version, shape) = (version_of(&part.table), shape_of(&part.table));
        let (kind, mark) = of_change(&part.changes);
        match run.kind {
            RunKind::Create | RunKind::Reload => {
                if run.kind == RunKind::Create && self.tables[t].is_some() {
                    w.violated(format!("{} is created twice", run.table));
                }
                let (old, fresh) = (self.tables[t].take(), TargetTable { rows: Rows::empty(w.keyless[t]), version, shape, order: 0 });
                self.tables[t] = match old {
                    Some(old) if !w.has(Protection::ReloadShape) => Some(TargetTable { rows: fresh.rows, ..old }),
                    Some(_) | None => Some(fresh),
                };
                self.kept.remove(&t);
            }
            RunKind::Ddl | RunKind::Approved(_) | RunKind::Nothing | RunKind::Keep => {
                self.check_older_rows(w, t, run);
                let Some(table) = self.tables[t].as_mut() else {
                    w.violated(format!("a change of {}, which is not there", run.table));
                    return;
                };
                if kind == Kind::Truncate && table.version == version {
                    table.rows = Rows::empty(w.keyless[t]);
                    return;
                }
                let step = u32::from(kind != Kind::Comment && statement.event.kind == EventKind::Ddl);
                if version != table.version + step {
                    w.violated(format!("E{} brings {} to version {version} from {}", run.epoch, run.table, table.version));
                }
                if run.kind == RunKind::Keep {
                    self.kept.insert(t);
                } else if run.kind != RunKind::Nothing {
                    table.rows.change(kind, mark);
                }
                table.version = version;
                table.shape = shape;
                if kind == Kind::Swap {
                    table.order = 1 - table.order;
                }
            }
        }
        w.log(|| format!("target: E{} {} {:?} done", run.epoch, run.table, run.kind));
    }

    /// Every row published before a change is applied before it.
    fn check_older_rows(&self, w: &World, t: usize, run: &Run) {
        let transport = w.transport.borrow();
        let anew = transport
            .events(w.versions(), 0)
            .filter(|(_, e)| w.begins_anew(e) && e.epoch.is_some_and(|e| e <= run.epoch) && e.table(&run.table).is_some());
        let anew = anew.filter_map(|(_, e)| e.epoch).max().unwrap_or(0);
        for lane in 0..w.lanes[t] {
            let from = self.ledger.position(&run.table, lane).position;
            let older = transport.rows(w.partition(t, lane), from).find(|(_, row)| row.epoch < run.epoch && row.epoch >= anew);
            if let Some((offset, _)) = older {
                w.violated(format!("E{} of {} is applied before older rows: lane {lane} offset {offset}", run.epoch, run.table));
            }
        }
    }
}

/// Whether the row could be applied.
fn keyed(rows: &mut BTreeMap<u8, Value>, given: &Given, value: Value, last_wins: bool) -> bool {
    let row = &given.row;
    match row.op {
        RowOp::Delete => {
            rows.remove(&row.key);
        }
        RowOp::Create | RowOp::Update | RowOp::Read => {
            rows.insert(row.key, value);
        }
        RowOp::PartialUpdate | RowOp::PartialCreate if last_wins => {
            rows.insert(row.key, Value { q: None, ..value });
        }
        RowOp::PartialUpdate | RowOp::PartialCreate => match rows.get_mut(&row.key) {
            Some(there) => *there = Value { q: there.q, ..value },
            // Its chunk will bring it.
            None => return given.copying,
        },
    }
    true
}

/// A decided epoch has an outcome for every table, and nothing is decided behind a stop.
fn check_decided(w: &World, ledger: &Ledger, epoch: Epoch) {
    let transport = w.transport.borrow();
    let Some((_, event)) = transport.events(w.versions(), 0).find(|(_, e)| e.epoch == Some(epoch)) else {
        return w.violated(format!("epoch {epoch} is decided, but is not in the topic"));
    };
    for part in &event.tables {
        let outcome = ledger.outcome(epoch, &part.table.id);
        if !outcome.is_some_and(|o| o.is_final() || matches!(o, Outcome::Held | Outcome::Queued)) {
            w.violated(format!("epoch {epoch} is decided, and {} has {outcome:?}", part.table.id));
        }
    }
}

fn check_nothing_after_stop(w: &World, ledger: &Ledger, epoch: Epoch) {
    if let Some(((stop, table), _)) = ledger.outcomes.iter().find(|((e, _), o)| *e < epoch && **o == Outcome::Stopped) {
        w.violated(format!("E{epoch} is applied behind the stop E{stop} of {table}"));
    }
}
