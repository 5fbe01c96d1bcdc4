//! What is wrong before anything runs: the source, the tables, the targets. All of it at once.

use std::collections::{BTreeMap, BTreeSet};

use runtime::config::{Keyless, Pipeline, Sink, SourceEngine, TargetEngine, Transport};
use schemas::{
    capability,
    plan::target_table,
    table::{Table, TableId},
};
use sink::{
    error::SinkError,
    postgres::{
        PostgresTarget,
        check::{self, Wanted},
    },
    target::Target,
};
use source::{
    engine::{Engine, Problem},
    error::CaptureError,
    mysql::{MySql, preflight::add_key},
    publisher::kafka::KafkaPublisher,
};

use crate::{exit::Failure, place::Place, process::Role, restart};

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    pub problems: Vec<Problem>,
    /// Servers that do not answer now. A pipeline that has run before waits for them.
    pub unreachable: Vec<Problem>,
}

impl Found {
    fn source_error(&mut self, error: &CaptureError) {
        let problem = fatal(format!("source: {error}"), "");
        match error {
            CaptureError::Transient(_) => self.unreachable.push(problem),
            CaptureError::Stop { .. }
            | CaptureError::Blocked { .. }
            | CaptureError::Refused(_)
            | CaptureError::Fenced(_)
            | CaptureError::Transport(_) => {
                self.problems.push(problem);
            }
        }
    }

    fn sink_error(&mut self, sink: &str, error: &SinkError) {
        let problem = fatal(format!("sink {sink}, target: {error}"), "");
        match error {
            SinkError::Transient(_) | SinkError::SessionLost(_) => self.unreachable.push(problem),
            SinkError::BadValue { .. } | SinkError::Incomplete { .. } | SinkError::Stop { .. } | SinkError::Refused(_) => {
                self.problems.push(problem);
            }
        }
    }
}

/// Everything that is wrong with this pipeline, from `source:` to the last sink.
pub async fn problems(pipeline: &Pipeline) -> Vec<Problem> {
    let mut found = look(pipeline, |_, _| true).await;
    found.problems.append(&mut found.unreachable);
    found.problems
}

/// The statements that give the source's account what it needs, and no more; none where the server cannot be asked.
pub async fn grants(pipeline: &Pipeline) -> Vec<String> {
    let engine = match pipeline.source.engine {
        SourceEngine::MySql => MySql::new(&pipeline.source),
    };
    match engine {
        Ok(engine) => engine.grants().await.unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

/// Looks at the source with its tables, and at each sink for those of them that concern it.
pub async fn look(pipeline: &Pipeline, concerns: impl Fn(&str, &TableId) -> bool) -> Found {
    let mut found = Found::default();
    // Side by side: each may wait for a server that does not answer.
    let (tables, of_topics) = tokio::join!(source(pipeline, &mut found), topics(pipeline));
    found.problems.extend(of_topics);
    for (name, sink) in &pipeline.sinks {
        let tables: Vec<&Table> = tables.iter().filter(|table| concerns(name, &table.id)).collect();
        target(pipeline, sink, &tables, &mut found).await;
    }
    let mut seen = BTreeSet::new();
    found.problems.retain(|p| seen.insert((p.what.clone(), p.remedy.clone())));
    found
}

async fn topics(pipeline: &Pipeline) -> Vec<Problem> {
    match &pipeline.topics.transport {
        Transport::Local(_) => Vec::new(),
        Transport::Kafka(kafka) => KafkaPublisher::preflight(kafka, &pipeline.topics.prefix).await,
    }
}

/// The source's problems; returns the shapes of the tables that could be read.
async fn source(pipeline: &Pipeline, found: &mut Found) -> Vec<Table> {
    let engine = match pipeline.source.engine {
        SourceEngine::MySql => MySql::new(&pipeline.source),
    };
    let mut engine = match engine {
        Ok(engine) => engine,
        Err(error) => {
            found.source_error(&error);
            return Vec::new();
        }
    };
    match engine.preflight().await {
        Ok(problems) => {
            // A table without a key is each sink's own matter, and said there.
            let of_the_sinks = |p: &Problem| p.what.contains("has no row key") && !pipeline.sinks.is_empty();
            found.problems.extend(problems.into_iter().filter(|p| !of_the_sinks(p)));
        }
        Err(error) => {
            found.source_error(&error);
            return Vec::new();
        }
    }
    let mut shapes = Vec::new();
    for table in &pipeline.source.tables {
        // What cannot be read was reported above.
        shapes.extend(engine.shape(&table.table).await);
    }
    shapes
}

async fn target(pipeline: &Pipeline, sink: &Sink, tables: &[&Table], found: &mut Found) {
    let name = &sink.name;
    let postgres = match sink.target {
        TargetEngine::Postgres => PostgresTarget::new(&pipeline.name, sink),
    };
    let postgres = match postgres {
        Ok(target) => target,
        Err(error) => {
            found.sink_error(name, &error);
            return;
        }
    };
    let mut wanted = Vec::new();
    for table in tables {
        let id = &table.id;
        if table.row_key().is_none() && sink.table(id).keyless == Keyless::Refuse {
            let what = format!("sink {name}: {id} has no row key: neither a primary key nor a unique index over NOT NULL columns");
            let remedy = format!("Add a primary key, or set sinks.{name}.tables.{id}.keyless to full_row or append.");
            found.problems.push(Problem { sql: vec![add_key(id)], ..fatal(what, &remedy) });
            continue;
        }
        let target = postgres.view(&table.id).map_err(|e| vec![e.to_string()]).and_then(|view| {
            target_table(table, &view, &capability::POSTGRES).map_err(|errors| errors.iter().map(ToString::to_string).collect())
        });
        match target {
            Ok(target) => wanted.push(Wanted { id: table.id.clone(), target, lanes: lanes(pipeline, table) }),
            Err(errors) => found.problems.extend(errors.into_iter().map(|e| fatal(format!("sink {name}: {e}"), ""))),
        }
    }
    match check::problems(&postgres, &wanted).await {
        Ok(problems) => found.problems.extend(problems.into_iter().map(|p| fatal(format!("sink {name}: {p}"), ""))),
        Err(error) => found.sink_error(name, &error),
    }
}

fn lanes(pipeline: &Pipeline, table: &Table) -> u32 {
    match &pipeline.topics.transport {
        Transport::Local(local) if table.spreads() => local.partitions,
        Transport::Kafka(kafka) if table.spreads() => kafka.partitions,
        Transport::Local(_) | Transport::Kafka(_) => 1,
    }
}

pub fn fatal(what: String, remedy: &str) -> Problem {
    Problem { fatal: true, what, remedy: remedy.into(), sql: Vec::new() }
}

/// A problem as it is printed.
pub fn line(problem: &Problem) -> String {
    let weight = if problem.fatal { "error" } else { "warning" };
    let first = format!("{weight}: {}", problem.what);
    let rest = std::iter::once(&problem.remedy).filter(|remedy| !remedy.is_empty()).chain(&problem.sql);
    rest.fold(first, |text, line| format!("{text}\n  {line}"))
}

/// A pipeline that has never run begins only where nothing is wrong. One that has run goes on, where what its configuration added
/// or renamed since is in order: what else is wrong meanwhile shows where it stands, and a server that is down is waited for.
///
/// A part alone looks at what is its own: a source process needs no target, and a sink process no source.
pub async fn before_run(pipeline: &Pipeline, place: &Place, role: &Role) -> Result<(), Failure> {
    let begun = place.begun().await.map_err(|e| Failure::error(e.to_string()))?;
    let problems = match role {
        Role::Everything if begun => restart::problems(pipeline, place).await?,
        Role::Everything => problems(pipeline).await,
        Role::Source if begun => Vec::new(),
        Role::Source => self::problems(&Pipeline { sinks: BTreeMap::new(), ..pipeline.clone() }).await,
        Role::Sink(name) => restart::renamed(pipeline, place, name).await?,
    };
    for problem in problems.iter().filter(|p| !p.fatal) {
        tracing::warn!("{}", line(problem));
    }
    let fatal: Vec<String> = problems.iter().filter(|p| p.fatal).map(line).collect();
    if fatal.is_empty() { Ok(()) } else { Err(Failure::error(fatal.join("\n"))) }
}
