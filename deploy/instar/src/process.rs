//! One process with the source and all sinks: `instar run`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use runtime::{
    config::{OnStop, Pipeline, Retry, SourceEngine, TargetEngine},
    control::{self, Request},
    log::Log,
    shutdown::Shutdown,
    telemetry::Metrics,
};
use serde_json::json;
use sink::{
    admin::{self, Admin, StatusSource},
    consumer::local::LocalConsumer,
    error::SinkError,
    postgres::PostgresTarget,
    process::{Ended as SinkEnded, SinkProcess},
    shared::Shared,
    status::{
        Liveness,
        wait::{Goal, Standing, standing},
    },
};
use source::{
    capture::{self, CommitBounds, Ended as SourceEnded, Reporter, Settings, SourceStatus, State},
    error::CaptureError,
    mysql::MySql,
    publisher::local::LocalPublisher,
};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    desk::{Desk, local},
    exit::{Exit, Failure},
    observe::{Live, Observer},
    preflight, progress,
};

/// How soon after its last chance a pipeline that cannot go on ends.
const SETTLE: Duration = Duration::from_millis(200);
/// What a process has to end once it is asked to.
const GRACE: Duration = Duration::from_secs(9);

/// What the parts are doing: `source`, and the sinks by name.
#[derive(Default)]
struct Parts(BTreeMap<String, watch::Sender<Liveness>>);

const SOURCE: &str = "source";

impl Parts {
    /// Adds a part whose state is told by `follow` until the part ends.
    fn add<S: Clone + Send + Sync + 'static>(&mut self, name: &str, mut states: watch::Receiver<S>, liveness: fn(&S) -> Liveness) {
        let sender = watch::Sender::new(liveness(&states.borrow()));
        self.0.insert(name.to_owned(), sender.clone());
        tokio::spawn(async move {
            while states.changed().await.is_ok() {
                let now = liveness(&states.borrow_and_update());
                // How it ended is the last word.
                sender.send_if_modified(|state| {
                    let goes_on = !matches!(state, Liveness::Ended(_));
                    if goes_on {
                        *state = now;
                    }
                    goes_on
                });
            }
        });
    }

    fn end(&self, part: &str, state: Liveness) {
        if let Some(sender) = self.0.get(part) {
            sender.send_replace(state);
        }
    }

    fn state(&self, part: &str) -> Liveness {
        self.0.get(part).map_or(Liveness::Down, |sender| sender.borrow().clone())
    }

    fn watch(&self) -> Vec<(String, watch::Receiver<Liveness>)> {
        self.0.iter().map(|(name, sender)| (name.clone(), sender.subscribe())).collect()
    }
}

impl Live for Parts {
    fn source(&self) -> Liveness {
        self.state(SOURCE)
    }

    fn sink(&self, name: &str) -> Liveness {
        self.state(name)
    }
}

fn source_liveness(status: &SourceStatus) -> Liveness {
    match status.state {
        State::Starting | State::Running => Liveness::Running,
        State::Retrying => Liveness::Retrying(status.message.clone()),
        State::Paused => Liveness::Paused,
        State::Stopped => Liveness::Stopped(status.message.clone()),
        State::Down => Liveness::Down,
    }
}

/// What became of a part.
enum Part {
    Source(Result<SourceEnded, CaptureError>),
    Sink(String, Result<SinkEnded, SinkError>),
}

/// Runs until a signal, an error that does not go away, or a stop at which nothing can go on.
pub async fn run(pipeline: Pipeline) -> Result<Exit, Failure> {
    let metrics = runtime::telemetry::init().map_err(|e| Failure::usage(e.to_string()))?;
    let (_handle, shutdown) = Shutdown::on_signals().map_err(|e| Failure::error(format!("signals: {e}")))?;
    let pipeline = Arc::new(pipeline);
    let (directory, options) = local(&pipeline);
    let log = tokio::task::spawn_blocking(move || Log::open(directory, options)).await.map_err(|e| Failure::error(e.to_string()))??;
    preflight::before_run(&pipeline, &log).await?;
    // Retention waits for the sinks that there are.
    for gone in log.sinks().iter().filter(|name| !pipeline.sinks.contains_key(*name)) {
        log.forget_sink(gone)?;
    }

    let (end, ended) = Shutdown::new();
    let (end_source, source_ended) = watch::channel(false);
    let mut parts = JoinSet::new();
    let (reporter, source_status) = Reporter::new();
    let mut live = Parts::default();
    let bars = tokio::spawn(progress::follow(source_status.clone()));
    live.add(SOURCE, source_status, source_liveness);
    spawn_source(&mut parts, &pipeline, &log, reporter, source_ended)?;
    for name in pipeline.sinks.keys() {
        let shared = spawn_sink(&mut parts, &pipeline, name, &log, ended.clone())?;
        live.add(name, shared.state(), Liveness::clone);
    }
    forget_removed_sinks(&pipeline, &log)?;
    let live = Arc::new(live);
    let desk = Arc::new(Desk::new(pipeline.clone(), Some(log.clone()), Some(live.clone())));
    let serving = {
        let desk = desk.clone();
        control::serve(&log, move |request| {
            let desk = desk.clone();
            async move { desk.handle(request).await }
        })
    };
    let _serving = serving.map_err(|e| Failure::error(format!("{}: the socket for commands: {e}", log.directory().display())))?;
    serve_admin(&pipeline, desk, live.watch(), metrics, ended).await?;

    let result = supervise(&pipeline, &log, &live, &mut parts, &shutdown).await;
    end.request();
    end_source.send_replace(true);
    drain(&mut parts).await;
    // What is drawn is cleared once the source has ended.
    let _ = tokio::time::timeout(SETTLE * 5, bars).await;
    result
}

/// Binds to `admin.listen` and says where.
async fn serve_admin(
    pipeline: &Arc<Pipeline>,
    desk: Arc<Desk>,
    parts: Vec<(String, watch::Receiver<Liveness>)>,
    metrics: Metrics,
    ended: Shutdown,
) -> Result<(), Failure> {
    let listen = pipeline.admin.listen;
    let (listener, address) = admin::bind(listen).await.map_err(|e| {
        Failure::error(format!("admin.listen {listen}: {e}; choose another address, or give --admin ADDR (port 0: any free port)"))
    })?;
    tracing::info!("status at http://{address}/");
    let status: StatusSource = Arc::new(move || {
        let desk = desk.clone();
        Box::pin(async move { desk.handle(Request::new("status", json!({}))).await.map_err(|e| e.message) })
    });
    let pages = Admin { pipeline: pipeline.name.clone(), parts, status, metrics: Arc::new(move || metrics.render()) };
    tokio::spawn(async move {
        if let Err(error) = admin::serve(listener, pages, ended).await {
            tracing::warn!(%error, "the admin server ended");
        }
    });
    Ok(())
}

fn spawn_source(
    parts: &mut JoinSet<Part>,
    pipeline: &Arc<Pipeline>,
    log: &Log,
    reporter: Reporter,
    ended: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let settings = settings(pipeline);
    let mut publisher = LocalPublisher::new(log.clone(), &pipeline.topics.prefix);
    match pipeline.source.engine {
        SourceEngine::MySql => {
            let mut engine = MySql::new(&pipeline.source).map_err(|e| Failure::error(e.to_string()))?;
            parts.spawn(async move { Part::Source(capture::run(&mut engine, &mut publisher, &settings, &reporter, ended).await) });
        }
    }
    Ok(())
}

/// The source waits where it stands: whether the process ends is decided here, with the sinks in view.
fn settings(pipeline: &Pipeline) -> Settings {
    let url = &pipeline.source.url;
    let port = url.port.map_or_else(String::new, |port| format!(":{port}"));
    Settings {
        pipeline: pipeline.name.clone(),
        prefix: pipeline.topics.prefix.clone(),
        server: format!("{}://{}{port}", url.scheme, url.host),
        tables: pipeline.source.tables.clone(),
        snapshot: pipeline.source.snapshot.clone(),
        truncate: pipeline.topics.truncate,
        on_stop: OnStop::Wait,
        retry: Retry { initial: Duration::from_secs(1), max: Duration::from_secs(60) },
        commit: CommitBounds::default(),
        poll: Duration::from_millis(100),
    }
}

/// The log does not keep rows for a sink that the configuration has no more, but for its retention.
fn forget_removed_sinks(pipeline: &Pipeline, log: &Log) -> Result<(), Failure> {
    for sink in log.sinks().into_iter().filter(|sink| !pipeline.sinks.contains_key(sink)) {
        tracing::warn!(
            sink,
            "the sink is not in the configuration any more: rows that it has not applied stay for topics.local.retention only"
        );
        log.forget_sink(&sink)?;
    }
    Ok(())
}

fn spawn_sink(parts: &mut JoinSet<Part>, pipeline: &Arc<Pipeline>, name: &str, log: &Log, ended: Shutdown) -> Result<Arc<Shared>, Failure> {
    let mut sink = pipeline.sinks[name].clone();
    sink.on_stop = OnStop::Wait;
    let failed = |e: SinkError| Failure::error(format!("sink {name}: {e}"));
    let consumer = LocalConsumer::new(log.clone(), &pipeline.topics.prefix, name).map_err(failed)?;
    let process = match sink.target {
        TargetEngine::Postgres => SinkProcess::new(sink.clone(), PostgresTarget::new(&pipeline.name, &sink).map_err(failed)?, consumer),
    };
    let (shared, name) = (process.shared(), name.to_owned());
    parts.spawn(async move {
        let result = process.run(ended).await;
        Part::Sink(name, result)
    });
    Ok(shared)
}

/// Looks after the parts until the process is to end.
async fn supervise(
    pipeline: &Arc<Pipeline>,
    log: &Log,
    live: &Arc<Parts>,
    parts: &mut JoinSet<Part>,
    shutdown: &Shutdown,
) -> Result<Exit, Failure> {
    let mut ended = Ended::default();
    loop {
        tokio::select! {
            () = shutdown.wait() => return Ok(Exit::Fine),
            part = parts.join_next() => match part {
                Some(Ok(part)) => note(part, live, &mut ended)?,
                Some(Err(error)) => return Err(Failure::error(format!("a part of the process broke: {error}"))),
                None => return Ok(ended.exit()),
            },
            () = tokio::time::sleep(SETTLE) => {}
        }
        let source_stands = stands(&live.source());
        if !ended.copied && !source_stands {
            continue;
        }
        match furthest(pipeline, log, live).await {
            Some(Standing::CaughtUp) if ended.copied && !ended.failed => return Ok(Exit::Fine),
            Some(_) if pipeline.sinks.values().all(|s| s.on_stop == OnStop::Exit) => {
                // A command that came meanwhile is looked at first.
                if ended.copied || stands(&live.source()) {
                    tracing::error!("stopped: needs operator; see instar status");
                    return Ok(ended.exit());
                }
            }
            Some(_) | None => {}
        }
    }
}

/// Whether a part waits for a person.
fn stands(part: &Liveness) -> bool {
    match part {
        Liveness::Stopped(_) | Liveness::Ended(_) => true,
        Liveness::Running | Liveness::Retrying(_) | Liveness::Paused | Liveness::Down => false,
    }
}

/// What the parts that have ended leave behind.
#[derive(Default)]
struct Ended {
    /// The source has nothing left to copy, and was asked for no more.
    copied: bool,
    /// A sink ended at an error.
    failed: bool,
}

impl Ended {
    /// How the process ends once nothing can go on.
    fn exit(&self) -> Exit {
        if self.failed { Exit::Error } else { Exit::Stopped }
    }
}

/// Takes down how a part ended. A sink that ends takes nobody with it; a source that is refused (another one runs, say) ends all.
fn note(part: Part, live: &Parts, ended: &mut Ended) -> Result<(), Failure> {
    match part {
        Part::Source(Ok(SourceEnded::Copied)) => {
            live.end(SOURCE, Liveness::Down);
            ended.copied = true;
        }
        Part::Source(Ok(SourceEnded::Shutdown)) | Part::Sink(_, Ok(SinkEnded::Shutdown)) => {}
        Part::Source(Ok(SourceEnded::Stopped { message })) | Part::Source(Err(CaptureError::Stop { message })) => {
            live.end(SOURCE, Liveness::Ended(message));
        }
        Part::Source(Err(error)) => return Err(Failure::error(format!("source: {error}"))),
        Part::Sink(name, Ok(SinkEnded::Stopped { message })) | Part::Sink(name, Err(SinkError::Stop { message })) => {
            tracing::error!(sink = name, reason = message, "stopped: needs operator");
            live.end(&name, Liveness::Ended(message));
        }
        Part::Sink(name, Err(error)) => {
            let message = format!("{error}; correct that, then start the process again");
            tracing::error!(sink = name, reason = message, "the sink ended; the others go on");
            live.end(&name, Liveness::Ended(message));
            ended.failed = true;
        }
    }
    Ok(())
}

/// Where the sinks stand against what is published; None: something is still on its way.
async fn furthest(pipeline: &Arc<Pipeline>, log: &Log, live: &Arc<Parts>) -> Option<Standing> {
    let observer = Observer::new(pipeline.clone(), Some(log.clone()), Some(live.clone())).ok()?;
    let reading = observer.read().await.ok()?;
    let goal = Goal::new(&reading.topics.events, &reading.topics.ends);
    match reading.sinks.iter().map(|(name, sink)| standing(name, sink, &reading.topics.events, &goal)).max().unwrap_or(Standing::CaughtUp) {
        Standing::Behind(_) => None,
        standing => Some(standing),
    }
}

/// Gives the parts time to commit what is whole.
async fn drain(parts: &mut JoinSet<Part>) {
    let all = async { while parts.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all).await.is_err() {
        tracing::warn!("some parts did not end in time; what they had not committed is done again by the next process");
    }
}
