//! Carries out commands: in the process that runs, or in the command itself where none does.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use runtime::{
    config::{LocalTopics, Pipeline, Transport},
    control::{self, Access, ControlError, Reached, Refusal, Request},
    log::{LogError, LogOptions},
};
use schemas::{event::SourceState, table::TableId};
use serde_json::{Value as Json, json};
use sink::{
    error::SinkError,
    status::{
        Liveness,
        wait::{Goal, Standing, Until, standing},
    },
};
use source::{capture::Command, engine::Position as _, mysql::position::Position};

use crate::{
    exit::{Exit, Failure},
    observe::{Live, Observer, Reading},
    place::Place,
};

/// How often a waiting command looks again.
const LOOK: Duration = Duration::from_millis(25);
/// How long a question is asked again where the processes that should answer it end.
const PATIENCE: Duration = Duration::from_secs(5);

/// A pipeline's commands, over its topics.
pub struct Desk {
    pipeline: Arc<Pipeline>,
    place: Place,
    live: Option<Arc<dyn Live>>,
}

impl Desk {
    pub fn new(pipeline: Arc<Pipeline>, place: Place, live: Option<Arc<dyn Live>>) -> Self {
        Self { pipeline, place, live }
    }

    pub async fn handle(&self, request: Request) -> Result<Json, Refusal> {
        let arguments = request.arguments;
        match request.command.as_str() {
            "status" => self.observer()?.status().await.map_err(refusal),
            "history" => {
                let table: Option<TableId> = serde_json::from_value(arguments["table"].clone()).map_err(malformed)?;
                self.observer()?.history(table.as_ref()).await.map_err(refusal)
            }
            "review" => self.observer()?.cards(arguments["sink"].as_str()).await.map_err(refusal),
            "wait" => self.wait(&serde_json::from_value(arguments).map_err(malformed)?).await,
            "source" => {
                let command: Command = serde_json::from_value(arguments).map_err(malformed)?;
                self.send(command).await
            }
            other => Err(Refusal {
                message: format!("the process that runs does not know the command {other}: it is of another version"),
                code: 1,
            }),
        }
    }

    fn observer(&self) -> Result<Observer, Refusal> {
        Observer::new(self.pipeline.clone(), self.place.clone(), self.live.clone()).map_err(refusal)
    }

    /// Appends an operator's command to the topic that the source reads.
    async fn send(&self, mut command: Command) -> Result<Json, Refusal> {
        if self.live.is_none() && !self.place.begun().await.map_err(refusal)? {
            let message = format!("pipeline {} has never run: there is nothing to tell it; start it by instar run", self.pipeline.name);
            return Err(Refusal { message, code: 1 });
        }
        if let Command::Accept { at, .. } = &mut command {
            *at = Some(self.stands_at(at.take()).await?);
        }
        let offset = self.place.command(command.to_record()).await.map_err(refusal)?;
        Ok(json!({ "offset": offset }))
    }

    /// Where the source stands: what is accepted is what stands there now, and nothing that comes later.
    async fn stands_at(&self, wanted: Option<String>) -> Result<String, Refusal> {
        let progress = self.place.topics().await.map_err(refusal)?.progress;
        let here = progress.filter(|progress| progress.state == SourceState::Stopped).map(|progress| progress.position);
        let problem = match (here, wanted) {
            (Some(here), wanted) if wanted.as_ref().is_none_or(|wanted| *wanted == here) => return Ok(here),
            (Some(here), _) => format!("the source stands at {here}: look at what it says there before you accept it"),
            (None, _) => "the source stands at no statement: there is nothing to accept".into(),
        };
        Err(Refusal { message: problem, code: 1 })
    }

    async fn wait(&self, wanted: &Wanted) -> Result<Json, Refusal> {
        let deadline = Instant::now() + Duration::from_millis(wanted.timeout_ms);
        let end = Position::parse(&wanted.end).map_err(|e| Refusal { message: e.to_string(), code: 1 })?;
        let observer = self.observer()?;
        let commands = self.place.commands().await.map_err(refusal)?;
        let mut goal = None;
        loop {
            let reading = match observer.read().await {
                // Brokers come back.
                Err(SinkError::Transient(_)) if self.place.is_shared() && Instant::now() < deadline => {
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                reading => reading.map_err(refusal)?,
            };
            let answer = answer(&self.pipeline, &reading, &end, commands, &mut goal);
            let alone = self.live.is_none() && !self.place.is_shared();
            let over = Instant::now() >= deadline || alone;
            match answer.exit(wanted.until()) {
                Some(code) => return Ok(json!({ "code": code, "message": answer.message(), "over": true })),
                None if over => {
                    return Ok(
                        json!({ "code": answer.exit_at_timeout(), "message": answer.message(), "over": Instant::now() >= deadline, "live": !alone }),
                    );
                }
                None => {}
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// What `wait` waits for.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Wanted {
    /// The source's end when the command began.
    pub end: String,
    pub settled: bool,
    pub timeout_ms: u64,
}

impl Wanted {
    fn until(&self) -> Until {
        if self.settled { Until::Settled } else { Until::CaughtUp }
    }
}

/// Where the whole pipeline stands against the source's end.
fn answer(pipeline: &Pipeline, reading: &Reading, end: &Position, commands: u64, goal: &mut Option<Goal>) -> Standing {
    let Some(progress) = &reading.topics.progress else { return Standing::Behind("the source has published nothing yet".into()) };
    let untaken = untaken(pipeline, progress);
    // What an earlier process left behind is no stop of the one that has just begun: it may get past it.
    let stands = match reading.source {
        Liveness::Stopped(_) | Liveness::Ended(_) | Liveness::Down => true,
        Liveness::Running | Liveness::Retrying(_) | Liveness::Paused => false,
    };
    let stopped = stands && progress.state == SourceState::Stopped && progress.command >= commands && untaken.is_none();
    let reached = Position::parse(&progress.position).is_ok_and(|at| at.reached(end));
    let copying = progress.tables.values().any(|t| !t.retired && (t.copy.is_some() || t.begin.is_some()));
    if goal.is_none() && reached && progress.command >= commands && !copying && untaken.is_none() {
        *goal = Some(Goal::new(&reading.topics.events, &reading.topics.ends));
    }
    let now = Goal::new(&reading.topics.events, &reading.topics.ends);
    let against = match (&goal, stopped) {
        (Some(goal), _) => goal,
        // What a source that stands has published can still arrive.
        (None, true) => &now,
        (None, false) => return Standing::Behind(untaken.unwrap_or_else(|| behind(progress, copying, reached))),
    };
    let sinks = reading.sinks.iter().map(|(name, sink)| standing(name, sink, &reading.topics.events, against));
    let worst = sinks.max().unwrap_or(Standing::CaughtUp);
    match worst {
        Standing::Behind(_) => worst,
        _ if stopped && goal.is_none() => Standing::Stopped(format!("the source is stopped. {}", progress.message)),
        other => other,
    }
}

/// What the source has not taken of its configuration yet: tables that were added or taken out since it ran last.
fn untaken(pipeline: &Pipeline, progress: &schemas::event::Progress) -> Option<String> {
    let captured: BTreeSet<&TableId> = progress.tables.values().filter(|t| !t.retired).map(|t| &t.id).collect();
    let configured: BTreeSet<&TableId> = pipeline.source.tables.iter().map(|t| &t.table).collect();
    let added = configured.difference(&captured).next();
    let gone = captured.difference(&configured).next();
    added
        .map(|id| format!("the source has not begun with {id} yet, which the configuration names"))
        .or_else(|| gone.map(|id| format!("the source has not let go of {id} yet, which the configuration names no more")))
}

fn behind(progress: &schemas::event::Progress, copying: bool, reached: bool) -> String {
    match (copying, reached) {
        _ if progress.state == SourceState::Paused => "the source is paused".into(),
        (true, _) => "tables are being copied".into(),
        (false, true) => "a command waits to be read".into(),
        (false, false) => format!("the source stands at {}, the end of its log is further on", progress.position),
    }
}

fn refusal(error: SinkError) -> Refusal {
    Refusal { message: error.to_string(), code: 1 }
}

fn malformed(error: serde_json::Error) -> Refusal {
    Refusal { message: format!("a command's arguments: {error}"), code: 1 }
}

/// Where a local log is, and how it is opened.
pub fn options(local: &LocalTopics) -> (std::path::PathBuf, LogOptions) {
    (local.path.clone(), LogOptions { partitions: local.partitions, retention: local.retention })
}

/// Has a command carried out by the process that runs, or here. A question is asked again where the process ended over it: the
/// answer is in the log. An order is not: what became of it is not known.
pub async fn ask(pipeline: &Arc<Pipeline>, request: Request, write: bool) -> Result<Json, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match asked_once(pipeline, &request, write).await {
            Err(Unanswered::Lost(_)) if !write && Instant::now() < deadline => tokio::time::sleep(LOOK).await,
            Err(Unanswered::Lost(error)) => return Err(error.into()),
            Err(Unanswered::Failed(failure)) => return Err(failure),
            Ok(answer) => return Ok(answer),
        }
    }
}

/// Why a command has no answer.
enum Unanswered {
    /// The process that was asked ended, or the connection to it broke.
    Lost(ControlError),
    Failed(Failure),
}

async fn asked_once(pipeline: &Arc<Pipeline>, request: &Request, write: bool) -> Result<Json, Unanswered> {
    let failed = |failure: Failure| Unanswered::Failed(failure);
    let prefix = &pipeline.topics.prefix;
    let local = match &pipeline.topics.transport {
        Transport::Local(local) => local,
        Transport::Kafka(kafka) => {
            let place = Place::kafka(prefix, kafka).await.map_err(failed)?;
            return carry_out(pipeline, place, request).await;
        }
    };
    let (directory, options) = options(local);
    // A command does not make the log of a pipeline that has never run.
    let access = if write && directory.exists() { Access::Write(options) } else { Access::Read };
    let log = match control::reach(&directory, access).await {
        Ok(Reached::Process(mut client)) => {
            return client.call(request).await.map_err(|error| match error {
                ControlError::Lost(_) => Unanswered::Lost(error),
                ControlError::Refused(_) | ControlError::Log(_) => failed(error.into()),
            });
        }
        Ok(Reached::Log(log)) => Some(log),
        Err(LogError::Absent(_)) => None,
        Err(error) => return Err(failed(error.into())),
    };
    carry_out(pipeline, Place::local(prefix, log), request).await
}

async fn carry_out(pipeline: &Arc<Pipeline>, place: Place, request: &Request) -> Result<Json, Unanswered> {
    Desk::new(pipeline.clone(), place, None).handle(request.clone()).await.map_err(|refusal| Unanswered::Failed(refusal.into()))
}

/// Waits, across processes that end and begin meanwhile.
pub async fn wait(pipeline: &Arc<Pipeline>, mut wanted: Wanted) -> Result<(Exit, String), Failure> {
    let deadline = Instant::now() + Duration::from_millis(wanted.timeout_ms);
    let request = |wanted: &Wanted| {
        let arguments = serde_json::to_value(wanted).map_err(|e| Failure::error(e.to_string()))?;
        Ok::<_, Failure>(Request::new("wait", arguments))
    };
    match &pipeline.topics.transport {
        Transport::Kafka(_) => return ask(pipeline, request(&wanted)?, false).await.map(|answer| told(&answer)),
        Transport::Local(_) => {}
    }
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        wanted.timeout_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        match ask(pipeline, request(&wanted)?, false).await {
            Ok(answer) if answer["over"] == true || left.is_zero() => return Ok(told(&answer)),
            // No process runs, or it ended while it was asked: look again.
            Ok(_) => {}
            Err(failure) if left.is_zero() || failure.exit != Exit::Error => return Err(failure),
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// How `wait` ends, and what it prints.
fn told(answer: &Json) -> (Exit, String) {
    let exit = match answer["code"].as_u64() {
        Some(0) => Exit::Fine,
        Some(3) => Exit::Stopped,
        Some(4) => Exit::Held,
        _ => Exit::TimedOut,
    };
    let message = answer["message"].as_str().unwrap_or_default();
    let alone = exit == Exit::TimedOut && answer["live"] == false;
    (exit, format!("{message}{}", if alone { "; no process of the pipeline runs" } else { "" }))
}

#[cfg(test)]
mod tests {
    use schemas::event::{Progress, TableProgress};

    use super::*;

    fn pipeline(tables: &str) -> Pipeline {
        let path = std::env::temp_dir().join(format!("instar-desk-{}-{}.yaml", std::process::id(), tables.len()));
        let yaml = format!(
            "pipeline: shop\ntopics: {{ prefix: shop }}\nsource: {{ engine: mysql, url: 'mysql://u@h/shop', tables: [{tables}] }}\n\
             sinks: {{ warehouse: {{ target: postgres, url: 'postgres://u@h/w' }} }}\n"
        );
        std::fs::write(&path, yaml).unwrap();
        let pipeline = Pipeline::load(&path);
        std::fs::remove_file(&path).unwrap();
        pipeline.unwrap()
    }

    fn progress(tables: &[(&str, bool)]) -> Progress {
        let table = |(name, retired): &(&str, bool)| {
            let topic = format!("shop.shop.{name}");
            let id = TableId::new("shop", *name);
            (topic.clone(), TableProgress { id, version: 1, topic, lanes: 1, retired: *retired, copy: None, begin: None })
        };
        Progress {
            pipeline_id: "p".into(),
            position: String::new(),
            rows_done: 0,
            seq: 0,
            epoch: 1,
            command: 0,
            tables: tables.iter().map(table).collect(),
            waiting: Default::default(),
            state: SourceState::Running,
            message: String::new(),
            ts_ms: 0,
            commit_ts_ms: 0,
            due_ms: i64::MAX,
        }
    }

    /// Right after a start with another configuration the progress is still the old one's.
    #[test]
    fn wait_is_not_over_before_the_source_has_taken_its_configuration() {
        let two = pipeline("orders, lines");
        assert_eq!(untaken(&two, &progress(&[("orders", false), ("lines", false), ("old", true)])), None);
        for known in [&[("orders", false)][..], &[("orders", false), ("lines", true)]] {
            let told = untaken(&two, &progress(known));
            assert_eq!(told.as_deref(), Some("the source has not begun with shop.lines yet, which the configuration names"));
        }
        let told = untaken(&pipeline("orders"), &progress(&[("orders", false), ("lines", false)]));
        assert_eq!(told.as_deref(), Some("the source has not let go of shop.lines yet, which the configuration names no more"));
    }
}
