//! What a sink may apply and what it has to decide: pure functions over the [`Ledger`] and the [`Events`] read so far.
//!
//! Nothing is remembered between two calls, so a process may die at any instruction: the next one asks again.
//!
//! A decider: [`work`] without the lock; take the lock; read the schema versions to their end; then [`next`] again and
//! again, with the ledger read anew each time, until it says `None`; release the lock.

use super::{
    events::{Asked, Events},
    ledger::{Approval, Hold, Lane, LanePosition, Ledger, LedgerChange, Outcome},
    protection::Protection,
};
use std::collections::BTreeSet;

use crate::{
    event::{Epoch, SchemaEvent, TableEvent},
    table::TableId,
};

/// What is to be done with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Apply it.
    Apply,
    /// Not yet: the lane's position does not move over it. Ask again when the ledger has changed.
    Wait,
    /// Never: the lane's position moves over it.
    Skip,
}

/// Something this instance could decide now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// The next epoch.
    Epoch(Epoch),
    /// The first change behind a hold that has ended.
    Queued { epoch: Epoch, table: TableId },
    /// A held change that a person approved or kept.
    Approval { epoch: Epoch, table: TableId },
    /// A stop at a row of this table, out of which a reload or removal leads.
    LeaveRow { epoch: Epoch, table: TableId },
}

impl Job {
    /// The epoch and the tables that it is about: what a [`Judge`] may be asked for.
    pub fn tables<'e>(&'e self, events: &'e Events) -> (Epoch, Vec<&'e TableId>) {
        match self {
            Job::Epoch(epoch) => (*epoch, events.get(*epoch).map_or_else(Vec::new, |e| e.tables.iter().map(|t| &t.table.id).collect())),
            Job::Queued { epoch, table } | Job::Approval { epoch, table } | Job::LeaveRow { epoch, table } => (*epoch, vec![table]),
        }
    }
}

/// What the driver does next under the lock.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Record these changes in one transaction.
    Record(Vec<LedgerChange>),
    /// Make the plan of this table at this epoch and run it under intent, with these changes as its outcome.
    Run(Run),
}

/// A plan to be run. The driver adds the plan's statements to the outcome's `target_ddl` and appends [`LedgerChange::Shape`].
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub epoch: Epoch,
    pub table: TableId,
    pub kind: RunKind,
    pub outcome: Vec<LedgerChange>,
}

/// Which plan a [`Run`] wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunKind {
    /// The change set of the event.
    Ddl,
    /// No statement: the version goes on, the table stays.
    Nothing,
    /// The event's full shape, empty, whatever the table was.
    Reload,
    /// A new table of the event's shape.
    Create,
    /// What a person approved; None: as proposed.
    Approved(Option<Vec<String>>),
    /// The table stays as it is while rows still fit.
    Keep,
}

/// What the rules say of one table's part of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Run,
    Nothing,
    Hold { reason: String, proposed: Vec<String> },
    Stop { reason: String },
}

/// Answers for this target: the rules over change, expected table, capabilities and policy. The same answer within one job.
pub trait Judge {
    fn judge(&self, event: &SchemaEvent, table: &TableEvent) -> Verdict;
}

/// Whether a row of this table, written at this epoch, may be applied.
pub fn admit(ledger: &Ledger, events: &Events, table: &TableId, epoch: Epoch) -> Admission {
    if ledger.stop_at_row.is_some() || events.get(epoch).is_none() {
        return Admission::Wait;
    }
    if epoch > ledger.decided && events.has(Protection::Decided) {
        return Admission::Wait;
    }
    if ledger.retired.contains(table) {
        return Admission::Skip;
    }
    let behind_queue =
        events.has(Protection::Queue) && ledger.queued.get(table).and_then(|queue| queue.first()).is_some_and(|first| epoch >= *first);
    let blocked = ledger.blocked.get(table).is_some_and(|from| epoch >= *from);
    if ledger.held.contains_key(table) || behind_queue || blocked { Admission::Wait } else { Admission::Apply }
}

/// Whether this table's lanes stand at or above the boundaries of this epoch, or need not.
pub fn passed(ledger: &Ledger, events: &Events, epoch: Epoch, table: &TableId) -> bool {
    events.get(epoch).is_some_and(|event| event.table(table).is_some_and(|part| part_passed(ledger, events, event, part)))
}

fn part_passed(ledger: &Ledger, events: &Events, event: &SchemaEvent, part: &TableEvent) -> bool {
    match events.asked(event) {
        Asked::Reload | Asked::Retire => return true,
        Asked::Create | Asked::Change | Asked::Elsewhere => {}
    }
    if !events.has(Protection::Boundary) || events.has(Protection::HeldPasses) && counts_as_held(ledger, events, &part.table.id) {
        return true;
    }
    lanes_passed(ledger, part)
}

/// What this instance could decide now, looked at without the lock.
pub fn work(ledger: &Ledger, events: &Events) -> Option<Job> {
    if let Some(stop) = &ledger.stop_at_row
        && events.superseded_by(stop.epoch, &stop.table).is_some()
    {
        return Some(Job::LeaveRow { epoch: stop.epoch, table: stop.table.clone() });
    }
    epoch_work(ledger, events).or_else(|| queue_work(ledger, events)).or_else(|| approval_work(ledger, events))
}

/// The next step of a job; None: done, or it has to wait. Ask under the lock, with a ledger read since the last step.
pub fn next(ledger: &Ledger, events: &Events, job: &Job, judge: &dyn Judge) -> Option<Step> {
    match job {
        Job::LeaveRow { epoch, table } => leave_row(ledger, events, *epoch, table),
        Job::Epoch(epoch) => decide(ledger, events, *epoch, judge),
        Job::Queued { epoch, table } => drain(ledger, events, *epoch, table, judge),
        Job::Approval { epoch, table } => approve(ledger, events, *epoch, table),
    }
}

/// Whether a stop at a row forbids what stands at this epoch: a change up to the row's own epoch comes before the row.
fn behind_row_stop(ledger: &Ledger, epoch: Epoch) -> bool {
    ledger.stop_at_row.as_ref().is_some_and(|stop| epoch > stop.epoch)
}

/// What to record where the target refused the plan (nothing of it was applied): an epoch's change stops, a queued one is
/// held again, an approved one stays held without its approval.
pub fn failed(job: &Job, run: &Run, reason: &str, proposed: &[String]) -> Vec<LedgerChange> {
    let Run { epoch, table, .. } = run;
    let hold = LedgerChange::Hold {
        table: table.clone(),
        hold: Hold::Change { epoch: *epoch },
        reason: reason.to_owned(),
        proposed: proposed.to_vec(),
    };
    let held = outcome(*epoch, table, Outcome::Held, reason);
    match job {
        Job::Epoch(_) | Job::LeaveRow { .. } => vec![outcome(*epoch, table, Outcome::Stopped, reason)],
        Job::Queued { .. } => vec![held, hold, LedgerChange::Unqueue { table: table.clone(), epoch: *epoch }],
        Job::Approval { .. } => vec![held, hold, LedgerChange::Unapprove(table.clone())],
    }
}

/// What a new sink records where rows have expired before it read them: the newest epoch is its base line. Its tables wait there as
/// retired ones, until the copies come that it has asked for.
pub fn base_line(events: &Events) -> Vec<LedgerChange> {
    let tables: BTreeSet<&TableId> = events.iter().flat_map(|(_, event)| &event.tables).map(|part| &part.table.id).collect();
    let mut changes: Vec<LedgerChange> = tables.into_iter().map(|table| LedgerChange::Retire(table.clone())).collect();
    changes.push(LedgerChange::Decided(events.newest()));
    changes
}

/// What to record where a row does not fit and the policy says hold: in the lane's own transaction, behind the rows before it.
pub fn hold_at_row(table: &TableId, epoch: Epoch, reason: &str) -> Vec<LedgerChange> {
    let hold = Hold::Value { epoch };
    vec![LedgerChange::Hold { table: table.clone(), hold, reason: reason.to_owned(), proposed: Vec::new() }]
}

fn outcome(epoch: Epoch, table: &TableId, outcome: Outcome, reason: &str) -> LedgerChange {
    LedgerChange::Outcome { epoch, table: table.clone(), outcome, reason: reason.to_owned(), target_ddl: Vec::new() }
}

/// Held, or its queue is not empty yet.
fn counts_as_held(ledger: &Ledger, events: &Events, table: &TableId) -> bool {
    let draining = ledger.queued.get(table).is_some_and(|queue| !queue.is_empty());
    ledger.held.contains_key(table) || draining && events.has(Protection::Drain)
}

fn lanes_passed(ledger: &Ledger, part: &TableEvent) -> bool {
    (0u32..).zip(&part.boundaries).all(|(lane, boundary)| *boundary == 0 || ledger.position(&part.table.id, lane).position >= *boundary)
}

/// Final, held or queued: the epoch need not wait for it.
fn settled(outcome: Outcome) -> bool {
    outcome.is_final() || matches!(outcome, Outcome::Held | Outcome::Queued)
}

/// The parts of the event that the epoch still waits for, and whether each of them is stopped. An event may have very many.
fn open<'e>(ledger: &Ledger, event: &'e SchemaEvent, epoch: Epoch) -> Vec<(&'e TableEvent, bool)> {
    let outcomes = ledger.outcomes_of(epoch);
    let parts = event.tables.iter().map(|part| (part, outcomes.get(&part.table.id).copied()));
    let open = parts.filter(|(_, outcome)| !outcome.is_some_and(settled));
    open.map(|(part, outcome)| (part, outcome == Some(Outcome::Stopped))).collect()
}

/// Whether a later reload or removal makes this part void. A removal itself is never void: it costs nothing.
fn void(events: &Events, event: &SchemaEvent, epoch: Epoch, table: &TableId) -> bool {
    events.asked(event) != Asked::Retire && events.superseded_by(epoch, table).is_some()
}

fn epoch_work(ledger: &Ledger, events: &Events) -> Option<Job> {
    let epoch = ledger.decided + 1;
    if ledger.stop_at_row.is_some() {
        return None;
    }
    if let Some(event) = events.get(epoch) {
        let mut ready = true;
        for (part, stopped) in open(ledger, event, epoch) {
            let void = void(events, event, epoch, &part.table.id);
            if void && stopped {
                return Some(Job::Epoch(epoch));
            }
            ready &= void || !stopped && part_passed(ledger, events, event, part);
        }
        if ready {
            return Some(Job::Epoch(epoch));
        }
    }
    if events.has(Protection::InOrder) {
        return None;
    }
    let early = events.iter().filter(|(e, event)| *e > epoch && events.asked(event) == Asked::Change);
    early.filter(|(e, event)| event.tables.iter().any(|t| at_once(ledger, *e, &t.table.id))).map(|(e, _)| Job::Epoch(e)).next()
}

/// Without the protection of epoch order: a held table's change is judged as soon as it is read.
fn at_once(ledger: &Ledger, epoch: Epoch, table: &TableId) -> bool {
    ledger.held.contains_key(table) && ledger.outcome(epoch, table).is_none()
}

fn queue_work(ledger: &Ledger, events: &Events) -> Option<Job> {
    ledger.queued.iter().find_map(|(table, queue)| {
        let epoch = *queue.first()?;
        let part = events.get(epoch)?.table(table)?;
        let free = !ledger.held.contains_key(table) && !behind_row_stop(ledger, epoch) && events.superseded_by(epoch, table).is_none();
        (free && lanes_passed(ledger, part)).then(|| Job::Queued { epoch, table: table.clone() })
    })
}

fn approval_work(ledger: &Ledger, events: &Events) -> Option<Job> {
    ledger.approved.keys().find_map(|table| match ledger.held.get(table)? {
        Hold::Change { epoch } if behind_row_stop(ledger, *epoch) || events.superseded_by(*epoch, table).is_some() => None,
        Hold::Change { epoch } => events.get(*epoch).map(|_| Job::Approval { epoch: *epoch, table: table.clone() }),
        Hold::Value { .. } => None,
    })
}

fn leave_row(ledger: &Ledger, events: &Events, epoch: Epoch, table: &TableId) -> Option<Step> {
    let stop = ledger.stop_at_row.as_ref().filter(|stop| stop.epoch == epoch && stop.table == *table)?;
    events.superseded_by(stop.epoch, table)?;
    Some(Step::Record(vec![LedgerChange::Block { table: table.clone(), epoch }, LedgerChange::Resume]))
}

fn decide(ledger: &Ledger, events: &Events, epoch: Epoch, judge: &dyn Judge) -> Option<Step> {
    let event = events.get(epoch).filter(|_| ledger.stop_at_row.is_none())?;
    if epoch != ledger.decided + 1 {
        if events.has(Protection::InOrder) {
            return None;
        }
        let part = event.tables.iter().find(|t| at_once(ledger, epoch, &t.table.id))?;
        return Some(behind_hold(epoch, &part.table.id, &judge.judge(event, part)));
    }
    let open = open(ledger, event, epoch);
    if open.is_empty() {
        return Some(Step::Record(vec![LedgerChange::Decided(epoch)]));
    }
    if let Some((part, _)) = open.iter().find(|(part, _)| void(events, event, epoch, &part.table.id)) {
        let table = &part.table.id;
        let block = LedgerChange::Block { table: table.clone(), epoch };
        return Some(Step::Record(vec![outcome(epoch, table, Outcome::Superseded, ""), block]));
    }
    if open.iter().any(|(_, stopped)| *stopped) {
        return None;
    }
    let ready = || open.iter().map(|(part, _)| *part).filter(|part| part_passed(ledger, events, event, part));
    if events.asked(event) == Asked::Change {
        for part in ready() {
            if let Verdict::Stop { reason } = judge.judge(event, part) {
                return Some(Step::Record(vec![outcome(epoch, &part.table.id, Outcome::Stopped, &reason)]));
            }
        }
    }
    ready().next().map(|part| settle(ledger, events, (epoch, event), part, judge))
}

/// The step of one table whose part does not stop.
fn settle(ledger: &Ledger, events: &Events, (epoch, event): (Epoch, &SchemaEvent), part: &TableEvent, judge: &dyn Judge) -> Step {
    let table = &part.table.id;
    let run = |kind, outcome| Step::Run(Run { epoch, table: table.clone(), kind, outcome });
    match events.asked(event) {
        Asked::Retire => {
            let mut changes = begin_anew(ledger, epoch, table);
            changes.extend([outcome(epoch, table, Outcome::Retired, ""), LedgerChange::Retire(table.clone())]);
            Step::Record(changes)
        }
        Asked::Create | Asked::Reload => {
            if events.has(Protection::MoveFirst)
                && let Some(step) = move_lanes(ledger, events, epoch, part)
            {
                return step;
            }
            let mut changes = begin_anew(ledger, epoch, table);
            let (kind, how) = match events.asked(event) {
                Asked::Create => (RunKind::Create, Outcome::Applied),
                Asked::Reload | Asked::Retire | Asked::Change | Asked::Elsewhere => (RunKind::Reload, Outcome::Reloaded),
            };
            changes.push(outcome(epoch, table, how, ""));
            run(kind, changes)
        }
        Asked::Change | Asked::Elsewhere => {
            let verdict = if events.asked(event) == Asked::Change { judge.judge(event, part) } else { Verdict::Nothing };
            if events.has(Protection::Queue) && counts_as_held(ledger, events, table) {
                return behind_hold(epoch, table, &verdict);
            }
            match verdict {
                Verdict::Run => run(RunKind::Ddl, vec![outcome(epoch, table, Outcome::Applied, "")]),
                Verdict::Nothing => run(RunKind::Nothing, vec![outcome(epoch, table, Outcome::NothingToApply, "")]),
                Verdict::Stop { reason } => Step::Record(vec![outcome(epoch, table, Outcome::Stopped, &reason)]),
                Verdict::Hold { reason, proposed } => Step::Record(hold(epoch, table, &reason, proposed)),
            }
        }
    }
}

fn hold(epoch: Epoch, table: &TableId, reason: &str, proposed: Vec<String>) -> Vec<LedgerChange> {
    let hold = LedgerChange::Hold { table: table.clone(), hold: Hold::Change { epoch }, reason: reason.to_owned(), proposed };
    vec![outcome(epoch, table, Outcome::Held, reason), hold]
}

fn behind_hold(epoch: Epoch, table: &TableId, verdict: &Verdict) -> Step {
    match verdict {
        Verdict::Stop { reason } => Step::Record(vec![outcome(epoch, table, Outcome::Stopped, reason)]),
        Verdict::Run | Verdict::Nothing | Verdict::Hold { .. } => {
            Step::Record(vec![outcome(epoch, table, Outcome::Queued, ""), LedgerChange::Queue { table: table.clone(), epoch }])
        }
    }
}

/// Moves the lanes that stand below the boundaries of a reload, or all that were of a topic which was made anew; None: none is left.
fn move_lanes(ledger: &Ledger, events: &Events, epoch: Epoch, part: &TableEvent) -> Option<Step> {
    let before = events.iter().rev().filter(|(e, _)| *e < epoch).find_map(|(_, event)| event.table(&part.table.id));
    let anew = before.is_some_and(|before| before.topic_id != part.topic_id);
    let mut moves = Vec::new();
    for (lane, boundary) in (0u32..).zip(&part.boundaries) {
        let stored = ledger.position(&part.table.id, lane);
        if stored.position < *boundary || anew && stored.epoch < epoch {
            let lane = Lane { table: part.table.id.clone(), lane };
            moves.push((lane, LanePosition { position: *boundary, seq: stored.seq, epoch }));
        }
    }
    let change = if anew { LedgerChange::ResetLanes } else { LedgerChange::MoveLanes };
    (!moves.is_empty()).then(|| Step::Record(vec![change(moves)]))
}

/// What a reload or removal ends: every hold, queue, stop and block of the table at an earlier epoch.
fn begin_anew(ledger: &Ledger, epoch: Epoch, table: &TableId) -> Vec<LedgerChange> {
    let mut changes: Vec<_> =
        ledger.queued.get(table).into_iter().flatten().map(|e| LedgerChange::Unqueue { table: table.clone(), epoch: *e }).collect();
    let older = ledger.outcomes.range(..(epoch, TableId::new("", ""))).filter(|((_, t), o)| t == table && !o.is_final());
    changes.extend(older.map(|((e, _), _)| outcome(*e, table, Outcome::Superseded, "")));
    let mut clear = |there: bool, change: fn(TableId) -> LedgerChange| {
        if there {
            changes.push(change(table.clone()));
        }
    };
    clear(ledger.held.contains_key(table), LedgerChange::Unhold);
    clear(ledger.approved.contains_key(table), LedgerChange::Unapprove);
    clear(ledger.blocked.contains_key(table), LedgerChange::Unblock);
    clear(ledger.retired.contains(table), LedgerChange::Unretire);
    changes
}

fn drain(ledger: &Ledger, events: &Events, epoch: Epoch, table: &TableId, judge: &dyn Judge) -> Option<Step> {
    let event = events.get(epoch)?;
    let part = event.table(table)?;
    let first = ledger.queued.get(table).and_then(|queue| queue.first()) == Some(&epoch);
    if !first || ledger.held.contains_key(table) || behind_row_stop(ledger, epoch) || !lanes_passed(ledger, part) {
        return None;
    }
    // A reload that a dead decider began may have altered the table already.
    if events.superseded_by(epoch, table).is_some() {
        return None;
    }
    let unqueue = LedgerChange::Unqueue { table: table.clone(), epoch };
    let run = |kind, how| {
        Some(Step::Run(Run { epoch, table: table.clone(), kind, outcome: vec![outcome(epoch, table, how, ""), unqueue.clone()] }))
    };
    let verdict = if events.asked(event) == Asked::Change { judge.judge(event, part) } else { Verdict::Nothing };
    let (reason, proposed) = match verdict {
        Verdict::Run => return run(RunKind::Ddl, Outcome::Applied),
        Verdict::Nothing => return run(RunKind::Nothing, Outcome::NothingToApply),
        Verdict::Hold { reason, proposed } => (reason, proposed),
        Verdict::Stop { reason } => (reason, Vec::new()),
    };
    let mut changes = hold(epoch, table, &reason, proposed);
    changes.push(unqueue);
    Some(Step::Record(changes))
}

fn approve(ledger: &Ledger, events: &Events, epoch: Epoch, table: &TableId) -> Option<Step> {
    events.get(epoch)?.table(table)?;
    // As in `drain`.
    if events.superseded_by(epoch, table).is_some() {
        return None;
    }
    if ledger.held.get(table) != Some(&Hold::Change { epoch }) || behind_row_stop(ledger, epoch) {
        return None;
    }
    let (kind, how) = match ledger.approved.get(table)? {
        Approval::Approve { ddl } => (RunKind::Approved(ddl.clone()), Outcome::Approved),
        Approval::Keep => (RunKind::Keep, Outcome::Kept),
    };
    let ends = vec![outcome(epoch, table, how, ""), LedgerChange::Unhold(table.clone()), LedgerChange::Unapprove(table.clone())];
    Some(Step::Run(Run { epoch, table: table.clone(), kind, outcome: ends }))
}
