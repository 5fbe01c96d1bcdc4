//! What a configuration has changed since the pipeline ran last: tables and sinks that are new are looked at as at the first
//! start, and a running table that is given another name is refused, with the way out.

use std::collections::{BTreeMap, BTreeSet};

use runtime::config::{Pipeline, Sink, TargetEngine};
use schemas::{event::Progress, table::TableId};
use sink::{error::SinkError, placement, postgres::PostgresTarget, status::gather::Topics};
use source::{capture::Command, engine::Problem};

use crate::{
    exit::Failure,
    place::Place,
    preflight::{fatal, line, look},
};

/// What is wrong with what is new. What is not new is not looked at, and a server that does not answer is only told.
pub async fn problems(pipeline: &Pipeline, place: &Place) -> Result<Vec<Problem>, Failure> {
    let topics = place.topics().await.map_err(failed)?;
    let Some(progress) = &topics.progress else { return Ok(Vec::new()) };
    let configured = pipeline.source.tables.iter().map(|captured| captured.table.clone());
    let known = running(progress);
    let (running, added): (Vec<TableId>, Vec<TableId>) = configured.partition(|id| known.contains(id));
    let commands = place.commands_from(progress.command).await.map_err(failed)?;
    let mut found = Vec::new();
    let mut concerned: BTreeMap<&str, BTreeSet<TableId>> = BTreeMap::new();
    for (name, sink) in &pipeline.sinks {
        let reloading = reloading(&commands, sink, &running);
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

/// Names that the configuration has changed on one sink since it ran last.
pub async fn renamed(pipeline: &Pipeline, place: &Place, name: &str) -> Result<Vec<Problem>, Failure> {
    let topics = place.topics().await.map_err(failed)?;
    let (Some(progress), Some(sink)) = (&topics.progress, pipeline.sinks.get(name)) else { return Ok(Vec::new()) };
    let known = running(progress);
    let running: Vec<TableId> = pipeline.source.tables.iter().map(|t| t.table.clone()).filter(|id| known.contains(id)).collect();
    let reloading = reloading(&place.commands_from(progress.command).await.map_err(failed)?, sink, &running);
    match look_at(pipeline, sink, &topics, &running, &reloading).await {
        Ok(changed) => Ok(changed.into_iter().flatten().map(|what| fatal(what, "")).collect()),
        Err(error) => {
            tracing::warn!(sink = name, reason = %error, "what the configuration has changed could not be compared with the target");
            Ok(Vec::new())
        }
    }
}

/// The tables that are captured.
fn running(progress: &Progress) -> BTreeSet<&TableId> {
    progress.tables.values().filter(|table| !table.retired).map(|table| &table.id).collect()
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
fn reloading(commands: &[Command], sink: &Sink, running: &[TableId]) -> BTreeSet<TableId> {
    let mut asked = BTreeSet::new();
    for command in commands {
        match command {
            Command::Reload { table, sink: for_sink } if for_sink.as_ref().is_none_or(|name| *name == sink.name) => {
                asked.extend(running.iter().filter(|id| table.as_ref().is_none_or(|name| *name == id.to_string())).cloned());
            }
            Command::Reload { .. } | Command::Pause | Command::Resume | Command::Accept { .. } => {}
        }
    }
    asked
}

fn failed(error: SinkError) -> Failure {
    Failure::error(error.to_string())
}
