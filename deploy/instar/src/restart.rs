//! What a configuration has changed since the pipeline ran last: tables and sinks that are new are looked at as at the first
//! start, and a running table that is given another name is refused, with the way out.

use std::collections::{BTreeMap, BTreeSet};

use runtime::{
    config::{Pipeline, Sink, TargetEngine},
    log::Log,
};
use schemas::{
    event::{Offset, Progress},
    table::TableId,
    wire::names,
};
use sink::{consumer::local::LocalConsumer, error::SinkError, placement, postgres::PostgresTarget, status::gather::Topics};
use source::{capture::Command, engine::Problem};

use crate::{
    exit::Failure,
    preflight::{fatal, line, look},
};

/// What is wrong with what is new. What is not new is not looked at, and a server that does not answer is only told.
pub async fn problems(pipeline: &Pipeline, log: &Log) -> Result<Vec<Problem>, Failure> {
    let prefix = &pipeline.topics.prefix;
    let failed = |error: SinkError| Failure::error(error.to_string());
    let topics = Topics::read(&LocalConsumer::reader(log.clone(), prefix, "")).await.map_err(failed)?;
    let Some(progress) = &topics.progress else { return Ok(Vec::new()) };
    let configured = pipeline.source.tables.iter().map(|captured| captured.table.clone());
    let (running, added): (Vec<TableId>, Vec<TableId>) = configured.partition(|id| runs(progress, id));
    let mut found = Vec::new();
    let mut concerned: BTreeMap<&str, BTreeSet<TableId>> = BTreeMap::new();
    for (name, sink) in &pipeline.sinks {
        let reloading = reloading(log, prefix, progress.command, sink, &running)?;
        let tables = match look_at(pipeline, sink, &topics, &running, &reloading).await {
            Ok(Some(changed)) => {
                found.extend(changed.into_iter().map(|what| fatal(what, "")));
                added.iter().cloned().collect()
            }
            Ok(None) => running.iter().chain(&added).cloned().collect(),
            // The sink itself waits for its server, or says what is wrong.
            Err(error) => {
                tracing::warn!(sink = name, reason = %error, "what the configuration has changed could not be compared with the target");
                BTreeSet::new()
            }
        };
        concerned.insert(name, tables);
    }
    let new: BTreeSet<&TableId> = concerned.values().flatten().chain(&added).collect();
    if new.is_empty() {
        return Ok(found);
    }
    let mut part = pipeline.clone();
    part.source.tables.retain(|captured| new.contains(&captured.table));
    part.sinks.retain(|name, _| concerned.get(name.as_str()).is_some_and(|tables| !tables.is_empty()));
    let seen = look(&part, |sink, id| concerned.get(sink).is_some_and(|tables| tables.contains(id))).await;
    for problem in &seen.unreachable {
        tracing::warn!("tables that are new could not be looked at: {}", line(problem));
    }
    found.extend(seen.problems);
    Ok(found)
}

fn runs(progress: &Progress, id: &TableId) -> bool {
    progress.tables.values().any(|table| table.id == *id && !table.retired)
}

/// Names that the configuration has changed on this sink; None: it has never run.
async fn look_at(
    pipeline: &Pipeline,
    sink: &Sink,
    topics: &Topics,
    running: &[TableId],
    reloading: &BTreeSet<TableId>,
) -> Result<Option<Vec<String>>, SinkError> {
    match sink.target {
        TargetEngine::Postgres => {
            let target = PostgresTarget::new(&pipeline.name, sink)?;
            if !target.has_run().await? {
                return Ok(None);
            }
            placement::changed(&target, sink, &topics.events, running, reloading).await.map(Some)
        }
    }
}

/// Tables of which a reload for this sink is asked for, and not published yet.
fn reloading(log: &Log, prefix: &str, from: Offset, sink: &Sink, running: &[TableId]) -> Result<BTreeSet<TableId>, Failure> {
    let mut asked = BTreeSet::new();
    let Some(topic) = log.find(&names::commands(prefix)) else { return Ok(asked) };
    let mut at = from;
    loop {
        let records = log.records(&topic, 0, at, 1 << 16)?;
        if records.is_empty() {
            return Ok(asked);
        }
        for record in records.iter() {
            match Command::parse(record.value) {
                Ok(Command::Reload { table, sink: for_sink }) if for_sink.as_ref().is_none_or(|name| *name == sink.name) => {
                    asked.extend(running.iter().filter(|id| table.as_ref().is_none_or(|name| *name == id.to_string())).cloned());
                }
                Ok(Command::Reload { .. } | Command::Pause | Command::Resume | Command::Accept { .. }) | Err(_) => {}
            }
        }
        at = records.next();
    }
}
