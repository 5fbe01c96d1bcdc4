//! `wait`: whether what the source had committed when the command began has arrived.

use std::collections::BTreeMap;

use schemas::{
    event::{Epoch, Offset, SchemaEvent},
    order::{
        events::Events,
        ledger::{Lane, Ledger},
        sink::{Admission, admit, work},
    },
};

use super::{Liveness, SinkSnapshot, captured, hold_message, stop_message};

/// What a `wait` waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Everything is applied.
    CaughtUp,
    /// Or what is missing stands behind a hold or a stop.
    Settled,
}

/// The places that every sink has to reach. Taken once the source's progress has reached the source's end, and its commands
/// are read, as they were when the command began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Goal {
    pub epoch: Epoch,
    pub lanes: BTreeMap<Lane, Offset>,
}

impl Goal {
    /// The topics' ends now.
    pub fn new(events: &[SchemaEvent], ends: &BTreeMap<String, Vec<Offset>>) -> Self {
        let epoch = events.iter().filter_map(|e| e.epoch).max().unwrap_or(0);
        let mut lanes = BTreeMap::new();
        for (id, table) in captured(events) {
            for (lane, end) in (0u32..).zip(ends.get(&table.last.topic).into_iter().flatten()) {
                lanes.insert(Lane { table: id.clone(), lane }, *end);
            }
        }
        Self { epoch, lanes }
    }
}

/// Where one sink stands against a goal. The variants are ordered: the greatest of all sinks is the pipeline's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    CaughtUp,
    /// All that can go on has arrived; the rest waits for a person, at these tables.
    Held(String),
    /// Nothing goes on until a person acts.
    Stopped(String),
    /// On its way; what is missing.
    Behind(String),
}

impl Standing {
    /// The exit code with which `wait` returns now; None: it goes on waiting.
    pub fn exit(&self, until: Until) -> Option<u8> {
        match (self, until) {
            (Standing::CaughtUp, _) => Some(0),
            (Standing::Held(_), Until::Settled) => Some(4),
            (Standing::Stopped(_), Until::Settled) => Some(3),
            (Standing::Held(_) | Standing::Stopped(_), Until::CaughtUp) | (Standing::Behind(_), _) => None,
        }
    }

    /// The exit code when the time is over.
    pub fn exit_at_timeout(&self) -> u8 {
        match self {
            Standing::CaughtUp => 0,
            Standing::Stopped(_) => 3,
            Standing::Held(_) => 4,
            Standing::Behind(_) => 5,
        }
    }

    pub fn message(&self) -> &str {
        match self {
            Standing::CaughtUp => "caught up",
            Standing::Held(message) | Standing::Stopped(message) | Standing::Behind(message) => message,
        }
    }
}

/// Where the sink `name` stands.
pub fn standing(name: &str, sink: &SinkSnapshot, events: &[SchemaEvent], goal: &Goal) -> Standing {
    let ended = |message: &str| Standing::Stopped(format!("sink {name} is stopped. {message}"));
    let Some(ledger) = &sink.ledger else {
        if let Liveness::Ended(message) = &sink.process {
            return ended(message);
        }
        let why = sink.unreachable.as_deref().unwrap_or_default();
        return Standing::Behind(format!("sink {name}: its target cannot be asked: {why}"));
    };
    let mut known = Events::new(name);
    for event in events {
        known.add(std::sync::Arc::new(event.clone()));
    }
    let missing: Vec<&Lane> =
        goal.lanes.iter().filter(|(lane, end)| ledger.position(&lane.table, lane.lane).position < **end).map(|(lane, _)| lane).collect();
    if let Liveness::Ended(message) = &sink.process
        && (!missing.is_empty() || ledger.decided < goal.epoch)
    {
        return ended(message);
    }
    if work(ledger, &known).is_some() {
        return Standing::Behind(format!("sink {name}: epoch {} is being decided", ledger.decided + 1));
    }
    let moving = missing.iter().find(|lane| can_move(ledger, &known, lane, sink));
    if let Some(lane) = moving {
        return Standing::Behind(format!("sink {name}: rows of {} lane {} are being applied", lane.table, lane.lane));
    }
    if let Some(message) = stop_message(ledger, &sink.journal) {
        return Standing::Stopped(format!("sink {name} is stopped. {message}"));
    }
    if ledger.decided < goal.epoch {
        return Standing::Behind(format!("sink {name}: epoch {} of {} is decided", ledger.decided, goal.epoch));
    }
    let mut held: BTreeMap<_, _> = ledger.queued.keys().map(|id| (id, String::new())).collect();
    held.extend(ledger.held.iter().map(|(id, hold)| {
        let reason = hold_message(sink, id, hold);
        (id, format!(": {}", reason.strip_prefix(&format!("table {id}: ")).unwrap_or(&reason)))
    }));
    if !held.is_empty() {
        let tables: Vec<String> = held.into_iter().map(|(id, why)| format!("{id}{why}")).collect();
        return Standing::Held(format!("sink {name} holds {}", tables.join("; ")));
    }
    match missing.first() {
        Some(lane) => Standing::Behind(format!("sink {name}: rows of {} lane {} wait", lane.table, lane.lane)),
        None => Standing::CaughtUp,
    }
}

/// Whether the lane's next row is admitted, or there is none before the end of what was read.
fn can_move(ledger: &Ledger, events: &Events, lane: &Lane, sink: &SinkSnapshot) -> bool {
    match sink.first.get(lane) {
        Some(row) => match admit(ledger, events, &lane.table, row.epoch) {
            Admission::Apply | Admission::Skip => true,
            Admission::Wait => false,
        },
        None => true,
    }
}
