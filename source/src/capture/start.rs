//! The start order: the lock at the source database, the publisher's fence, progress, shapes; then the log.

use std::collections::BTreeSet;

use runtime::config::SnapshotMode;
use schemas::{
    command::Command,
    event::{Progress, SchemaEvent, SourceState},
    order::{
        boundary::Boundary,
        source::{NewTable, Source},
    },
    table::TableId,
    wire::names,
};
use tokio::time::Instant;

use super::{
    boundary::{incomplete, made_anew, prepare},
    copy::Copier,
    record::{Batch, now_ms},
    session::{Session, Tools},
    setting::Settings,
    shape::Shapes,
};
use crate::{
    engine::{Engine, Position, Stream},
    error::CaptureError,
    publisher::Publisher,
};

/// Connects, reads what is durable and opens the stream where it ends.
pub(super) async fn open<E: Engine, P: Publisher>(tools: Tools<'_, E, P>) -> Result<Session<'_, E, P>, CaptureError> {
    let settings = tools.settings;
    tools.engine.lock(&settings.pipeline).await?;
    let (mut source, events) = match tools.publisher.start().await? {
        Some(progress) => {
            let events = tools.publisher.events().await?;
            (resume::<E>(progress, &events, settings)?, events)
        }
        None => (begin(tools.engine, tools.publisher, settings).await?, tools.publisher.events().await?),
    };
    source.set_pulse(settings.pulse_ms());
    if source.state().state == SourceState::Retrying {
        source.set_state(SourceState::Running, "");
    }
    let stood = source.state().state == SourceState::Stopped;
    let shapes = Shapes::rebuild(&events, source.state().tables.values(), tools.publisher).await?;
    lead_out(tools.publisher, settings, &mut source, &shapes).await?;
    let stream = open_stream(tools.engine, tools.publisher, settings, &mut source, &shapes).await?;
    let captured = settings.captured();
    let leaving: Vec<TableId> =
        source.state().tables.values().filter(|t| !t.retired && !captured.contains(&t.id)).map(|t| t.id.clone()).collect();
    let joining = settings.tables.iter().map(|t| t.table.clone()).filter(|id| !source.captures(id)).collect();
    let resumed = source.state().rows_done;
    // Not where all tables have just begun anew.
    let stood = stood && source.state().state == SourceState::Stopped;
    tools.reporter.captured(source.state().tables.values());
    tools.reporter.committed(source.state());
    Ok(Session {
        tools,
        source,
        shapes,
        stream,
        copier: Copier::default(),
        standing: None,
        stood,
        accepted: None,
        // In the middle of a group their rows still count.
        dropped: if resumed > 0 { leaving.iter().cloned().collect() } else { BTreeSet::new() },
        withheld: false,
        leaving,
        joining,
        renewed: BTreeSet::new(),
        resumed,
        in_group: resumed > 0,
        batch: Batch::default(),
        under_way: None,
        dirty: true,
        first_pending: None,
        last_commit: Instant::now(),
        next_poll: Instant::now(),
    })
}

fn resume<E: Engine>(progress: Progress, events: &[SchemaEvent], settings: &Settings) -> Result<Source<E::Position>, CaptureError> {
    let Settings { pipeline, prefix, .. } = settings;
    if progress.pipeline_id != *pipeline {
        return Err(CaptureError::Refused(format!(
            "the topics with the prefix {prefix:?} belong to the pipeline {:?}, and this is {pipeline:?}: give this pipeline another \
             topics.prefix or another place",
            progress.pipeline_id
        )));
    }
    // They are written together.
    let newest = events.iter().filter_map(|event| event.epoch).max().unwrap_or(0);
    if newest != progress.epoch {
        return Err(CaptureError::Transport(format!(
            "the schema-versions topic ends at epoch {newest}, and the progress topic names {}: the topics are not whole; remove both topics \
             and the table topics to begin anew",
            progress.epoch
        )));
    }
    Source::open(&progress.complete(events), |text: &String| E::Position::parse(text), E::Position::reached)
}

/// A new pipeline: its tables' shapes where they are pinned, and the event that publishes them.
async fn begin<E: Engine, P: Publisher>(
    engine: &mut E,
    publisher: &mut P,
    settings: &Settings,
) -> Result<Source<E::Position>, CaptureError> {
    let ids: Vec<TableId> = settings.tables.iter().map(|t| t.table.clone()).collect();
    let (at, shapes) = engine.beginning(&ids).await?;
    let mut tables = Vec::new();
    for shape in shapes {
        let topic = names::topic(&settings.prefix, &shape.id);
        let lanes = publisher.topic(&topic, (!shape.spreads()).then_some(1)).await?.lanes;
        tables.push(NewTable { shape, topic, lanes });
    }
    let copy = match settings.snapshot.mode {
        SnapshotMode::Initial | SnapshotMode::Only => true,
        SnapshotMode::Never => false,
    };
    let (mut source, mut draft) = Source::begin(&settings.pipeline, at, tables, copy, E::Position::reached);
    draft.ts_ms = now_ms();
    let mut boundary = Boundary::new(&mut source, draft);
    prepare(&mut boundary, &source, publisher, &Shapes::default()).await?;
    let (event, after) = boundary.publish(&source).ok_or_else(incomplete)?;
    publisher.commit_event(&event, &after.progress(now_ms())).await?;
    tracing::info!(position = event.position, tables = event.tables.len(), "new pipeline");
    Ok(after)
}

/// Tables whose topic was made anew go on where a reload of them is asked for, or where the configuration takes them out.
async fn lead_out<P: Publisher, Q: Position>(
    publisher: &mut P,
    settings: &Settings,
    source: &mut Source<Q>,
    shapes: &Shapes,
) -> Result<(), CaptureError> {
    let begins = |id: &TableId| source.table(id).is_some_and(|t| t.begin.is_some());
    let captured = settings.captured();
    let lost: Vec<_> = shapes.lost().filter(|table| captured.contains(table.id()) && !begins(table.id())).collect();
    if lost.is_empty() {
        return Ok(());
    }
    let commands = publisher.commands(source.state().command).await?;
    let asked = |id: &TableId| commands.iter().any(|(_, record)| Command::parse(record).is_ok_and(|command| command.reloads(id)));
    let stuck: Vec<_> = lost.into_iter().filter(|table| !asked(table.id())).collect();
    if !stuck.is_empty() {
        return Err(made_anew(stuck));
    }
    source.set_state(SourceState::Running, "");
    Ok(())
}

async fn open_stream<E: Engine, P: Publisher>(
    engine: &mut E,
    publisher: &mut P,
    settings: &Settings,
    source: &mut Source<E::Position>,
    shapes: &Shapes,
) -> Result<E::Stream, CaptureError> {
    let begins = |source: &Source<E::Position>| {
        let begins = source.state().tables.values().filter(|t| !t.retired).filter_map(|t| t.begin.as_ref());
        begins.map(|begin| (begin.shape.clone(), begin.at.clone())).collect::<Vec<_>>()
    };
    let streaming = |id: &TableId| source.table(id).is_some_and(|t| t.begin.is_none());
    let tables = shapes.physical().into_iter().filter(|t| streaming(&t.id)).collect();
    let mut stream = match engine.stream(source.position(), tables).await {
        Err(CaptureError::Stop { message }) => {
            relocate(engine, publisher, settings, source, message).await?;
            engine.stream(source.position(), Vec::new()).await?
        }
        opened => opened?,
    };
    for (shape, at) in begins(source) {
        stream.skip(shape, at);
    }
    Ok(stream)
}

/// The log cannot be read from where the source was. With a reload of all tables in the commands topic, all begin anew at the log's
/// end; without it, this is the end.
async fn relocate<E: Engine, P: Publisher>(
    engine: &mut E,
    publisher: &mut P,
    settings: &Settings,
    source: &mut Source<E::Position>,
    message: String,
) -> Result<(), CaptureError> {
    let commands = publisher.commands(source.state().command).await?;
    let all = Ok(Command::Reload { table: None, sink: None });
    let Some((offset, _)) = commands.iter().find(|(_, record)| Command::parse(record) == all) else {
        let message = format!("{message}. Way out: load all tables anew: `instar reload FILE`");
        return Err(CaptureError::Stop { message });
    };
    // Those that the configuration takes out are retired where they stand: they may be gone at the source.
    let captured = settings.captured();
    let staying = source.state().tables.values().filter(|t| !t.retired && captured.contains(&t.id));
    let ids: Vec<TableId> = staying.map(|t| t.id.clone()).collect();
    let (at, shapes) = engine.beginning(&ids).await?;
    tracing::warn!(from = %source.position(), to = %at, reason = message, "all tables begin anew behind a gap in the log");
    for shape in shapes {
        source.begin_at(at.clone(), shape, Some(*offset));
    }
    source.moved(at, now_ms());
    source.set_state(SourceState::Running, "");
    publisher.commit(&source.progress(now_ms())).await
}
