//! A sink instance: a worker and a decider that carry out what `order::sink` asks for.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use schemas::{
    event::{Epoch, SchemaEvent, TableEvent},
    order::{
        cursor::Cursor,
        events::Events,
        ledger::{Ledger, LedgerChange, Outcome},
        protection::Protection,
        sink::{self, Admission, Job, Judge, Run, RunKind, Step, Verdict},
    },
};

use crate::{
    database::{Kind, of_change, shape_of, version_of},
    target::{Dead, Ended, Given, LaneBatch, Sid, Statement},
    task::{Task, pause},
    transport::{Payload, RowOp},
    world::{SINK, Shared},
};

/// What one instance has in memory.
struct Memory {
    w: Shared,
    number: usize,
    events: Events,
    read_to: u64,
    cursors: BTreeMap<(usize, u32), Cursor>,
    view: Rc<Ledger>,
    assigned: BTreeSet<(usize, u32)>,
    sessions: BTreeSet<Sid>,
}

pub struct Instance {
    pub number: usize,
    pub alive: bool,
    pub frozen: bool,
    pub tasks: Vec<Task>,
    memory: Rc<RefCell<Memory>>,
}

struct Rules;

impl Judge for Rules {
    fn judge(&self, _: &SchemaEvent, table: &TableEvent) -> Verdict {
        match of_change(&table.changes).0 {
            Kind::Hold => Verdict::Hold { reason: String::new(), proposed: Vec::new() },
            Kind::Stop => Verdict::Stop { reason: String::new() },
            Kind::None | Kind::Comment => Verdict::Nothing,
            Kind::Ok | Kind::Swap | Kind::Truncate | Kind::Fail | Kind::Unknown => Verdict::Run,
        }
    }
}

impl Instance {
    pub fn new(w: &Shared, number: usize) -> Self {
        let mut instance = Self { number, alive: true, frozen: false, tasks: Vec::new(), memory: memory(w, number) };
        instance.start(w);
        instance
    }

    pub fn start(&mut self, w: &Shared) {
        let assigned = std::mem::take(&mut self.memory.borrow_mut().assigned);
        self.memory = memory(w, self.number);
        self.memory.borrow_mut().assigned = assigned;
        self.tasks = vec![Box::pin(worker(w.clone(), self.memory.clone())), Box::pin(decider(w.clone(), self.memory.clone()))];
        (self.alive, self.frozen) = (true, false);
    }

    pub fn crash(&mut self, w: &Shared) {
        w.log(|| format!("sink{}: killed", self.number));
        self.alive = false;
        self.tasks.clear();
        w.target.borrow_mut().dead.extend(self.sessions());
    }

    pub fn sessions(&self) -> Vec<Sid> {
        self.memory.borrow().sessions.iter().copied().collect()
    }

    pub fn event(&self, epoch: Epoch) -> Option<Arc<SchemaEvent>> {
        self.memory.borrow().events.get(epoch).cloned()
    }

    pub fn assign(&self, lane: (usize, u32), to: bool) {
        let mut memory = self.memory.borrow_mut();
        if to {
            memory.assigned.insert(lane);
        } else {
            memory.assigned.remove(&lane);
        }
    }
}

fn memory(w: &Shared, number: usize) -> Rc<RefCell<Memory>> {
    Rc::new(RefCell::new(Memory {
        w: w.clone(),
        number,
        events: Events::new(SINK).protected_by(w.protections),
        read_to: 0,
        cursors: BTreeMap::new(),
        view: w.target.borrow().ledger.clone(),
        assigned: BTreeSet::new(),
        sessions: BTreeSet::new(),
    }))
}

impl Memory {
    fn look(&mut self) {
        let w = self.w.clone();
        let new = w.target.borrow().ledger.clone();
        if !w.has(Protection::OneSnapshot) && w.chance(0.3) {
            let torn = Ledger { decided: new.decided, ..(*self.view).clone() };
            self.view = Rc::new(torn);
        } else {
            self.view = new;
        }
    }

    fn stored(&self, (table, lane): (usize, u32)) -> u64 {
        self.w.target.borrow().ledger.position(&self.w.ids[table], lane).position
    }

    fn read_events(&mut self, limit: usize) {
        let w = self.w.clone();
        let transport = w.transport.borrow();
        let end = transport.readable(w.versions());
        let mut next = end;
        for (taken, (offset, event)) in transport.events(w.versions(), self.read_to).enumerate() {
            if taken == limit {
                next = offset;
                break;
            }
            self.events.add(event.clone());
        }
        self.read_to = next.max(self.read_to);
    }

    /// Reads on in one lane, up to the first row that has to wait.
    fn take(&mut self, lane: (usize, u32)) -> Option<LaneBatch> {
        let w = self.w.clone();
        let mut cursor = self.cursors[&lane];
        let (partition, id) = (w.partition(lane.0, lane.1), &w.ids[lane.0]);
        let limit = w.between(1, 4);
        let transport = w.transport.borrow();
        let (mut offset, end, mut rows) = (cursor.next(), transport.readable(partition), Vec::new());
        while offset < end && rows.len() < limit {
            if let Some(Payload::Row(row)) = transport.record(partition, offset) {
                match sink::admit(&self.view, &self.events, id, row.epoch) {
                    Admission::Wait => break,
                    Admission::Skip => cursor.row(offset),
                    Admission::Apply if row.op == RowOp::Read && !self.events.mine(row.for_sink.as_deref()) => cursor.row(offset),
                    Admission::Apply => {
                        let Some((_, part)) = self.events.version(id, row.version) else { break };
                        let copying = row.copying && self.events.mine(row.for_sink.as_deref());
                        rows.push(Given { offset, row: row.clone(), version: version_of(&part.table), copying });
                        cursor.row(offset);
                    }
                }
            }
            offset += 1;
            cursor.reached(offset);
        }
        self.cursors.insert(lane, cursor);
        let (from, to) = cursor.pending()?;
        Some(LaneBatch { table: lane.0, lane: lane.1, from, to, rows })
    }

    /// Lanes that are ours: new ones begin at the stored position, lost ones are forgotten.
    fn follow_assignment(&mut self) {
        let assigned = self.assigned.clone();
        self.cursors.retain(|lane, _| assigned.contains(lane));
        for lane in assigned {
            if !self.cursors.contains_key(&lane) {
                let cursor = Cursor::new(self.stored(lane), self.w.protections);
                self.cursors.insert(lane, cursor);
            }
        }
    }
}

async fn worker(w: Shared, memory: Rc<RefCell<Memory>>) {
    loop {
        let batch = {
            let mut m = memory.borrow_mut();
            if w.chance(0.8) {
                m.look();
            }
            m.follow_assignment();
            let mut lanes: Vec<(usize, u32)> = m.cursors.keys().copied().collect();
            let count = if lanes.is_empty() { 0 } else { w.pick(&[1, 1, 2, 3]).min(lanes.len()) };
            let mut batch = Vec::new();
            for _ in 0..count {
                let lane = lanes.swap_remove(w.below(lanes.len()));
                match m.take(lane) {
                    Some(taken) => batch.push(taken),
                    None => {
                        let stored = m.stored(lane);
                        if let Some(cursor) = m.cursors.get_mut(&lane).filter(|c| c.stored() != stored) {
                            cursor.moved(stored);
                        }
                    }
                }
            }
            batch
        };
        pause().await;
        if !batch.is_empty() {
            flush(&w, &memory, &batch).await;
        }
        pause().await;
    }
}

async fn flush(w: &Shared, memory: &Rc<RefCell<Memory>>, batch: &[LaneBatch]) {
    let committed = if w.has(Protection::SinkTransaction) {
        w.target.borrow_mut().batch(w, batch)
    } else {
        let staying: Vec<LaneBatch> =
            batch.iter().map(|b| LaneBatch { to: b.from, rows: b.rows.iter().map(given).collect(), ..*b }).collect();
        let done = w.target.borrow_mut().batch(w, &staying);
        pause().await;
        let moves: Vec<LaneBatch> = batch.iter().map(|b| LaneBatch { rows: Vec::new(), ..*b }).collect();
        done && w.target.borrow_mut().batch(w, &moves)
    };
    let mut m = memory.borrow_mut();
    for b in batch {
        let lane = (b.table, b.lane);
        let stored = m.stored(lane);
        if let Some(cursor) = m.cursors.get_mut(&lane) {
            if committed && stored == b.to { cursor.committed() } else { cursor.moved(stored) }
        }
    }
}

fn given(g: &Given) -> Given {
    Given { row: g.row.clone(), ..*g }
}

async fn decider(w: Shared, memory: Rc<RefCell<Memory>>) {
    loop {
        memory.borrow_mut().read_events(1);
        pause().await;
        if !w.has(Protection::SupersedeUnderLock) {
            supersede_at_once(&w, &memory);
        }
        let job = sink::work(&w.target.borrow().ledger, &memory.borrow().events);
        let Some(job) = job else {
            pause().await;
            continue;
        };
        let sid = w.target.borrow_mut().session();
        memory.borrow_mut().sessions.insert(sid);
        if job_under_lock(&w, &memory, sid, &job).await.is_err() {
            w.log(|| format!("sink{}: session {sid} lost", memory.borrow().number));
        }
        memory.borrow_mut().sessions.remove(&sid);
        pause().await;
    }
}

/// Only without protection: what a reload supersedes is recorded as soon as it is read.
fn supersede_at_once(w: &Shared, memory: &Rc<RefCell<Memory>>) {
    let mut target = w.target.borrow_mut();
    let job = Job::Epoch(target.ledger.decided + 1);
    let step = sink::next(&target.ledger, &memory.borrow().events, &job, &Rules);
    if let Some(Step::Record(changes)) = step
        && changes.iter().any(|c| matches!(c, LedgerChange::Outcome { outcome: Outcome::Superseded, .. }))
        && changes.iter().any(|c| matches!(c, LedgerChange::Block { .. }))
    {
        target.record(w, &changes);
    }
}

async fn job_under_lock(w: &Shared, memory: &Rc<RefCell<Memory>>, sid: Sid, job: &Job) -> Result<(), Dead> {
    let mut tries = 0;
    while !w.target.borrow_mut().lock(w, sid)? {
        tries += 1;
        if tries > 6 {
            return Ok(());
        }
        pause().await;
    }
    pause().await;
    w.target.borrow().alive(w, sid)?;
    if w.has(Protection::ReadToEnd) {
        memory.borrow_mut().read_events(usize::MAX);
    }
    loop {
        let step = {
            let target = w.target.borrow();
            target.alive(w, sid)?;
            sink::next(&target.ledger, &memory.borrow().events, job, &Rules)
        };
        pause().await;
        match step {
            None => break,
            Some(Step::Record(changes)) => {
                w.target.borrow().alive(w, sid)?;
                w.target.borrow_mut().record(w, &changes);
            }
            Some(Step::Run(run)) => {
                let event = memory.borrow().events.get(run.epoch).cloned();
                let Some(event) = event else { break };
                if carry_out(w, sid, &event, &run).await? == Ended::Refused {
                    w.target.borrow_mut().record(w, &sink::failed(job, &run, "", &[]));
                }
            }
        }
        if w.broken() {
            break;
        }
    }
    w.target.borrow().alive(w, sid)?;
    w.target.borrow_mut().unlock(sid);
    Ok(())
}

/// Intent, DDL in the server, outcome. A transactional target does the last two at one commit.
async fn carry_out(w: &Shared, sid: Sid, event: &Arc<SchemaEvent>, run: &Run) -> Result<Ended, Dead> {
    let statement = |with_outcome| Statement { event: event.clone(), run: run.clone(), with_outcome };
    let t = w.index(&run.table);
    if w.transactional || matches!(run.kind, RunKind::Nothing | RunKind::Keep) {
        return in_server(w, sid, statement(true)).await;
    }
    let Some(part) = event.table(&run.table) else { return Ok(Ended::Refused) };
    let live = |w: &Shared| w.target.borrow().visible(w, t);
    let before = live(w);
    let anew = matches!(run.kind, RunKind::Reload | RunKind::Create);
    let order = match of_change(&part.changes).0 {
        _ if anew || !w.has(Protection::ColumnOrder) => 0,
        Kind::Swap => 1 - before.1,
        Kind::Ok | Kind::Truncate | Kind::Hold | Kind::Stop | Kind::Fail | Kind::Unknown | Kind::None | Kind::Comment => before.1,
    };
    let after = (Some(shape_of(&part.table)), order);
    let recorded = w.target.borrow().intents.get(&(run.epoch, t)).copied();
    let (before, after) = match recorded {
        Some(intent) => intent,
        None => {
            if w.has(Protection::Intent) {
                w.target.borrow().alive(w, sid)?;
                w.target.borrow_mut().intents.insert((run.epoch, t), (before, after));
                pause().await;
            }
            (before, after)
        }
    };
    if live(w) == after && before != after {
        w.log(|| format!("target: E{} {} was done already", run.epoch, run.table));
    } else {
        if live(w) != before {
            w.violated(format!("the live shape {:?} of {} is neither {before:?} nor {after:?}", live(w), run.table));
        }
        if in_server(w, sid, statement(false)).await? == Ended::Refused {
            return Ok(Ended::Refused);
        }
    }
    pause().await;
    w.target.borrow().alive(w, sid)?;
    w.target.borrow_mut().record(w, &run.outcome);
    Ok(Ended::Done)
}

async fn in_server(w: &Shared, sid: Sid, statement: Statement) -> Result<Ended, Dead> {
    w.target.borrow().alive(w, sid)?;
    w.target.borrow_mut().running.insert(sid, statement);
    loop {
        pause().await;
        if !w.target.borrow().running.contains_key(&sid) {
            break;
        }
    }
    w.target.borrow().alive(w, sid)?;
    let ended = w.target.borrow_mut().ended.remove(&sid);
    Ok(ended.unwrap_or(Ended::Done))
}
