//! What `status`, `history` and `wait` say: pure functions of what is durable, and of what runs.

pub mod gather;
pub mod history;
pub mod wait;

use std::{collections::BTreeMap, fmt::Write};

use schemas::{
    event::{Epoch, EventKind, Offset, Progress, SchemaEvent, SourceState, TableEvent},
    order::ledger::{Hold, Lane, Ledger, Outcome},
    table::TableId,
};
use serde_json::{Value as Json, json};

use crate::target::Journal;

/// What a process does, as far as anyone can tell from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Liveness {
    Running,
    /// A transient fault, with its reason.
    Retrying(String),
    Paused,
    /// A person must act, or the configuration is refused.
    Stopped(String),
    /// It ended by itself at something that only a person mends, and that no ledger shows; the process goes on for the others.
    Ended(String),
    /// No process.
    Down,
}

/// All that the commands look at. The topics and targets say it; no process has to run.
#[derive(Debug)]
pub struct Snapshot<'a> {
    pub pipeline: &'a str,
    pub source: Liveness,
    pub progress: Option<&'a Progress>,
    /// The schema-versions topic, whole.
    pub events: &'a [SchemaEvent],
    /// Per topic, the ends of its lanes.
    pub ends: &'a BTreeMap<String, Vec<Offset>>,
    pub sinks: BTreeMap<String, SinkSnapshot>,
    /// Milliseconds since 1970 UTC.
    pub now_ms: i64,
}

/// One sink, from its target.
#[derive(Debug, Clone)]
pub struct SinkSnapshot {
    pub process: Liveness,
    /// None: the target cannot be asked.
    pub ledger: Option<Ledger>,
    pub journal: Journal,
    /// Of each lane that is behind.
    pub first: BTreeMap<Lane, FirstRow>,
    /// Why the target cannot be asked.
    pub unreachable: Option<String>,
}

impl SinkSnapshot {
    /// Of a pipeline that has never run.
    pub fn nothing(process: Liveness) -> Self {
        Self { process, ledger: Some(Ledger::default()), journal: Journal::default(), first: BTreeMap::new(), unreachable: None }
    }
}

/// The first row of a lane that is not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstRow {
    pub epoch: Epoch,
    /// When the source committed it, in milliseconds since 1970 UTC.
    pub ts_ms: i64,
}

/// A captured table: its first and its newest event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Captured<'a> {
    pub last: &'a TableEvent,
    /// The newest event that began the table anew.
    pub begun: (Epoch, EventKind),
    /// Begun more than once.
    again: bool,
}

/// The tables that are captured at the end of the schema-versions topic.
pub(crate) fn captured(events: &[SchemaEvent]) -> BTreeMap<&TableId, Captured<'_>> {
    let mut tables: BTreeMap<&TableId, Captured<'_>> = BTreeMap::new();
    for event in events {
        for table in &event.tables {
            let id = &table.table.id;
            let epoch = event.epoch.unwrap_or_default();
            match event.kind {
                EventKind::Retire => {
                    tables.remove(id);
                }
                EventKind::Initial | EventKind::Reload => {
                    let again = tables.contains_key(id);
                    tables.insert(id, Captured { last: table, begun: (epoch, event.kind), again });
                }
                EventKind::Ddl => {
                    if let Some(known) = tables.get_mut(id) {
                        known.last = table;
                    }
                }
            }
        }
    }
    tables
}

/// `instar status --json`.
pub fn status(snapshot: &Snapshot<'_>) -> Json {
    let sinks: serde_json::Map<String, Json> =
        snapshot.sinks.iter().map(|(name, sink)| (name.clone(), sink_status(snapshot, sink))).collect();
    json!({ "pipeline": snapshot.pipeline, "source": source_status(snapshot), "sinks": sinks })
}

fn source_status(snapshot: &Snapshot<'_>) -> Json {
    let durable = snapshot.progress.map(|p| (p.state, p.message.as_str()));
    let (state, message) = match (&snapshot.source, durable) {
        (Liveness::Stopped(message) | Liveness::Ended(message), _) => ("stopped", message.as_str()),
        (_, Some((SourceState::Stopped, message))) => ("stopped", message),
        (Liveness::Down, _) => ("down", "no source process runs"),
        (Liveness::Retrying(reason), _) => ("retrying", reason.as_str()),
        (Liveness::Paused, _) | (Liveness::Running, Some((SourceState::Paused, _))) => ("paused", ""),
        (Liveness::Running, Some((SourceState::Retrying, message))) => ("retrying", message),
        (Liveness::Running, Some((SourceState::Running, message))) => ("running", message),
        (Liveness::Running, None) => ("running", ""),
    };
    let lag = snapshot.progress.map(|p| {
        // A source that runs on a quiet server is not behind; one that does not run falls behind by the clock.
        let until = if state == "running" || state == "paused" { p.ts_ms } else { snapshot.now_ms };
        seconds(until.saturating_sub(p.commit_ts_ms))
    });
    let copies: serde_json::Map<String, Json> = snapshot
        .progress
        .into_iter()
        .flat_map(|p| &p.tables)
        .filter_map(|(_, table)| {
            table
                .copy
                .as_ref()
                .map(|copy| (table.id.to_string(), json!({ "rows_done": copy.rows_done, "rows_estimated": copy.rows_estimated })))
        })
        .collect();
    json!({
        "state": state,
        "message": message,
        "position": snapshot.progress.map(|p| p.position.as_str()),
        "lag_seconds": lag,
        "copies": copies,
    })
}

fn seconds(ms: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a lag in milliseconds stays far below 2^52")]
    let ms = ms.max(0) as f64;
    ms / 1000.0
}

fn sink_status(snapshot: &Snapshot<'_>, sink: &SinkSnapshot) -> Json {
    let (state, message) = sink_state(sink);
    let mut tables = serde_json::Map::new();
    if let Some(ledger) = &sink.ledger {
        for (id, table) in captured(snapshot.events) {
            tables.insert(id.to_string(), table_status(snapshot, sink, ledger, id, &table));
        }
    }
    let decided = sink.ledger.as_ref().map(|l| l.decided);
    json!({ "state": state, "message": message, "decided_epoch": decided, "tables": tables })
}

/// A stop is durable: it is one with every process dead.
fn sink_state(sink: &SinkSnapshot) -> (&'static str, String) {
    let stop = sink.ledger.as_ref().and_then(|ledger| stop_message(ledger, &sink.journal));
    match (&sink.process, stop) {
        (_, Some(message)) => ("stopped", message),
        (Liveness::Stopped(message) | Liveness::Ended(message), None) => ("stopped", message.clone()),
        (Liveness::Down, None) => ("down", sink.unreachable.clone().unwrap_or_else(|| "no process of this sink runs".into())),
        (Liveness::Retrying(reason), None) => ("retrying", reason.clone()),
        (Liveness::Paused, None) => ("paused", String::new()),
        (Liveness::Running, None) => ("running", sink.unreachable.clone().unwrap_or_default()),
    }
}

/// Why the sink stands, if it does.
pub fn stop_message(ledger: &Ledger, journal: &Journal) -> Option<String> {
    let stopped = ledger.outcomes.iter().filter(|(_, outcome)| **outcome == Outcome::Stopped);
    let mut messages: Vec<String> = stopped
        .map(|((epoch, table), _)| match journal.outcomes.get(&(*epoch, table.clone())) {
            Some(text) if !text.reason.is_empty() => text.reason.clone(),
            Some(_) | None => format!("stopped at a change of {table} (epoch {epoch})"),
        })
        .collect();
    if let Some(row) = &ledger.stop_at_row {
        messages.push(journal.stop_at_row.clone().unwrap_or_else(|| format!("stopped at a row of {}", row.table)));
    }
    if messages.is_empty() { None } else { Some(messages.join(" ")) }
}

fn table_status(snapshot: &Snapshot<'_>, sink: &SinkSnapshot, ledger: &Ledger, id: &TableId, table: &Captured<'_>) -> Json {
    let (state, message) = table_state(snapshot, sink, ledger, id, table);
    let ends = snapshot.ends.get(&table.last.topic);
    let (mut rows, mut oldest) = (0u64, None::<i64>);
    for lane in 0..table.last.lanes {
        let lane_id = Lane { table: id.clone(), lane };
        let position = ledger.lanes.get(&lane_id).map_or(0, |p| p.position);
        let end = ends.and_then(|e| e.get(lane as usize)).copied().unwrap_or(position);
        rows = rows.saturating_add(end.saturating_sub(position));
        if end > position {
            oldest = [oldest, sink.first.get(&lane_id).map(|row| row.ts_ms)].into_iter().flatten().min();
        }
    }
    let lag = oldest.map_or(0.0, |ts| seconds(snapshot.now_ms.saturating_sub(ts)));
    json!({ "state": state, "message": message, "lag_rows": rows, "lag_seconds": lag })
}

fn table_state(
    snapshot: &Snapshot<'_>,
    sink: &SinkSnapshot,
    ledger: &Ledger,
    id: &TableId,
    table: &Captured<'_>,
) -> (&'static str, String) {
    let at_source = snapshot.progress.and_then(|p| p.tables.get(&table.last.topic));
    let copying = at_source.is_some_and(|t| t.copy.is_some());
    let undecided = ledger.decided < table.begun.0;
    let held = ledger.held.get(id);
    if at_source.is_some_and(|t| t.begin.is_some()) || table.again && undecided {
        return ("reloading", String::new());
    }
    if let Some(hold) = held {
        return ("held", hold_message(sink, id, hold));
    }
    if let Some(queue) = ledger.queued.get(id).filter(|queue| !queue.is_empty()) {
        return ("held", format!("{} queued changes are being applied", queue.len()));
    }
    if copying || undecided {
        return (if table.again { "reloading" } else { "snapshotting" }, String::new());
    }
    ("streaming", String::new())
}

fn hold_message(sink: &SinkSnapshot, id: &TableId, hold: &Hold) -> String {
    match sink.journal.holds.get(id) {
        Some(text) => text.reason.clone(),
        None => format!("held at epoch {}", hold.epoch()),
    }
}

/// `status` for people.
pub fn status_text(status: &Json) -> String {
    let mut out = String::new();
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Json| if value.is_null() { "-".to_owned() } else { value.to_string() };
    let source = &status["source"];
    let _ = writeln!(out, "pipeline {}", text(&status["pipeline"]));
    let _ = writeln!(
        out,
        "source   {:<12} lag {} s  position {}",
        text(&source["state"]),
        number(&source["lag_seconds"]),
        text(&source["position"])
    );
    note(&mut out, "         ", &source["message"]);
    for (name, copy) in source["copies"].as_object().into_iter().flatten() {
        let _ = writeln!(out, "         copy of {name}: {} of about {} rows", number(&copy["rows_done"]), number(&copy["rows_estimated"]));
    }
    for (name, sink) in status["sinks"].as_object().into_iter().flatten() {
        let _ = writeln!(out, "sink {name}  {}", text(&sink["state"]));
        note(&mut out, "         ", &sink["message"]);
        for (table, t) in sink["tables"].as_object().into_iter().flatten() {
            let _ = writeln!(
                out,
                "  {table:<30} {:<12} lag {} rows, {} s",
                text(&t["state"]),
                number(&t["lag_rows"]),
                number(&t["lag_seconds"])
            );
            note(&mut out, "    ", &t["message"]);
        }
    }
    out
}

fn note(out: &mut String, indent: &str, message: &Json) {
    for line in message.as_str().unwrap_or_default().lines() {
        let _ = writeln!(out, "{indent}{line}");
    }
}

#[cfg(test)]
pub(crate) mod tests;
