//! A process of a pipeline: the source, one sink, or all of it (`instar source`, `sink`, `run`).

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use runtime::{
    config::{OnStop, Pipeline, Sink, SourceEngine, TargetEngine, Transport},
    control::{self, Request},
    log::Log,
    shutdown::Shutdown,
    telemetry::Metrics,
};
use serde_json::json;
use sink::{
    admin::{self, Admin, StatusSource},
    consumer::{Consumer, kafka::KafkaConsumer, local::LocalConsumer},
    error::SinkError,
    postgres::PostgresTarget,
    process::{Ended as SinkEnded, SinkProcess},
    shared::Shared,
    status::{
        Liveness,
        wait::{Goal, Standing, standing},
    },
    target::Target,
};
use source::{
    capture::{self, Ended as SourceEnded, Reporter, Settings, SourceStatus, State},
    engine::Engine,
    error::CaptureError,
    mysql::MySql,
    publisher::{Publisher, kafka::KafkaPublisher, local::LocalPublisher},
};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    desk::{self, Desk},
    exit::{Exit, Failure},
    observe::{Live, Observer},
    place::Place,
    preflight, progress,
};

/// How soon after its last chance a pipeline that cannot go on ends.
const SETTLE: Duration = Duration::from_millis(200);
/// How long a source stands before nobody is expected to lead it out.
const WAY_OUT: Duration = Duration::from_millis(600);
/// What a process has to end once it is asked to.
const GRACE: Duration = Duration::from_secs(9);

/// What of a pipeline a process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    Everything,
    Source,
    Sink(String),
}

impl Role {
    fn has_source(&self) -> bool {
        match self {
            Role::Everything | Role::Source => true,
            Role::Sink(_) => false,
        }
    }

    fn has_sink(&self, name: &str) -> bool {
        match self {
            Role::Everything => true,
            Role::Source => false,
            Role::Sink(own) => own == name,
        }
    }

    /// Alone, a part that stands ends its process as its configuration says; together, the process looks at all of them.
    fn on_stop(&self, configured: OnStop) -> OnStop {
        match self {
            Role::Everything => OnStop::Wait,
            Role::Source | Role::Sink(_) => configured,
        }
    }
}

/// What the parts are doing: `source`, and the sinks by name.
struct Parts(BTreeMap<String, watch::Sender<Liveness>>);

const SOURCE: &str = "source";

impl Parts {
    /// Those of a process that has just begun, and will have them once it has looked whether it may.
    fn beginning(pipeline: &Pipeline, role: &Role) -> Self {
        let sinks = pipeline.sinks.keys().map(String::as_str).filter(|name| role.has_sink(name));
        let names = role.has_source().then_some(SOURCE).into_iter().chain(sinks);
        Self(names.map(|name| (name.to_owned(), watch::Sender::new(Liveness::Running))).collect())
    }

    /// A part's state is told by `states` until the part ends.
    fn follow<S: Clone + Send + Sync + 'static>(&self, name: &str, mut states: watch::Receiver<S>, liveness: fn(&S) -> Liveness) {
        let Some(sender) = self.0.get(name).cloned() else { return };
        sender.send_replace(liveness(&states.borrow()));
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

    fn state(&self, part: &str) -> Option<Liveness> {
        self.0.get(part).map(|sender| sender.borrow().clone())
    }

    fn watch(&self) -> Vec<(String, watch::Receiver<Liveness>)> {
        self.0.iter().map(|(name, sender)| (name.clone(), sender.subscribe())).collect()
    }
}

impl Live for Parts {
    fn source(&self) -> Option<Liveness> {
        self.state(SOURCE)
    }

    fn sink(&self, name: &str) -> Option<Liveness> {
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
pub async fn run(pipeline: Pipeline, role: Role) -> Result<Exit, Failure> {
    let metrics = runtime::telemetry::init().map_err(|e| Failure::usage(e.to_string()))?;
    let (_handle, shutdown) = Shutdown::on_signals().map_err(|e| Failure::error(format!("signals: {e}")))?;
    let pipeline = Arc::new(pipeline);
    let (log, place) = open(&pipeline).await?;
    let live = Arc::new(Parts::beginning(&pipeline, &role));
    let desk = Arc::new(Desk::new(pipeline.clone(), place.clone(), Some(live.clone())));
    // Before it is looked at what is wrong, which takes its time with many tables: nobody else can open the log.
    let _serving = log.as_ref().map(|log| serve_commands(log, desk.clone())).transpose()?;
    preflight::before_run(&pipeline, &place, &role).await?;
    let (end, ended) = Shutdown::new();
    let (end_source, source_ended) = watch::channel(false);
    let mut parts = JoinSet::new();
    let mut bars = None;
    if role.has_source() {
        let (reporter, source_status) = Reporter::new();
        bars = Some(tokio::spawn(progress::follow(source_status.clone())));
        live.follow(SOURCE, source_status, source_liveness);
        spawn_source(&mut parts, &pipeline, log.as_ref(), &role, reporter, source_ended).await?;
    }
    for name in pipeline.sinks.keys().filter(|name| role.has_sink(name)) {
        let shared = spawn_sink(&mut parts, &pipeline, name, log.as_ref(), &role, ended.clone()).await?;
        live.follow(name, shared.state(), Liveness::clone);
    }
    serve_admin(&pipeline, desk, live.watch(), metrics, ended).await?;

    let mut together =
        Together { pipeline: &pipeline, place: &place, live: &live, role: &role, ended: Ended::default(), stands_since: None };
    let result = together.supervise(&mut parts, &shutdown).await;
    end.request();
    end_source.send_replace(true);
    drain(&mut parts).await;
    // What is drawn is cleared once the source has ended.
    if let Some(bars) = bars {
        let _ = tokio::time::timeout(SETTLE * 5, bars).await;
    }
    result
}

/// The pipeline's topics: a local log is opened for this process alone, and does not keep rows for sinks that are gone.
async fn open(pipeline: &Pipeline) -> Result<(Option<Log>, Place), Failure> {
    let prefix = &pipeline.topics.prefix;
    match &pipeline.topics.transport {
        Transport::Local(local) => {
            let (directory, options) = desk::options(local);
            let opened = tokio::task::spawn_blocking(move || Log::open(directory, options)).await;
            let log = opened.map_err(|e| Failure::error(e.to_string()))??;
            forget_removed_sinks(pipeline, &log)?;
            Ok((Some(log.clone()), Place::local(prefix, Some(log))))
        }
        Transport::Kafka(kafka) => Ok((None, Place::kafka(prefix, kafka).await?)),
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

/// Other processes' commands come by a socket beside the local log, which they cannot open.
fn serve_commands(log: &Log, desk: Arc<Desk>) -> Result<control::Server, Failure> {
    let serving = control::serve(log, move |request| {
        let desk = desk.clone();
        async move { desk.handle(request).await }
    });
    serving.map_err(|e| Failure::error(format!("{}: the socket for commands: {e}", log.directory().display())))
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

async fn spawn_source(
    parts: &mut JoinSet<Part>,
    pipeline: &Arc<Pipeline>,
    log: Option<&Log>,
    role: &Role,
    reporter: Reporter,
    ended: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let settings = Settings::of(pipeline, role.on_stop(OnStop::Exit));
    let prefix = &pipeline.topics.prefix;
    let failed = |e: CaptureError| Failure::error(format!("source: {e}"));
    let mut engine = match pipeline.source.engine {
        SourceEngine::MySql => MySql::new(&pipeline.source).map_err(failed)?,
    };
    if let Transport::Local(local) = &pipeline.topics.transport {
        engine.keep_in(local.path.clone());
    }
    match (&pipeline.topics.transport, log) {
        (Transport::Kafka(kafka), _) => {
            let publisher = KafkaPublisher::connect(kafka, &pipeline.name, prefix).await.map_err(failed)?;
            capture(parts, engine, publisher, settings, reporter, ended);
        }
        (Transport::Local(_), Some(log)) => capture(parts, engine, LocalPublisher::new(log.clone(), prefix), settings, reporter, ended),
        (Transport::Local(_), None) => return Err(Failure::error("the local log is not open")),
    }
    Ok(())
}

fn capture<E: Engine + 'static, P: Publisher + 'static>(
    parts: &mut JoinSet<Part>,
    mut engine: E,
    mut publisher: P,
    settings: Settings,
    reporter: Reporter,
    ended: watch::Receiver<bool>,
) {
    parts.spawn(async move { Part::Source(capture::run(&mut engine, &mut publisher, &settings, &reporter, ended).await) });
}

async fn spawn_sink(
    parts: &mut JoinSet<Part>,
    pipeline: &Arc<Pipeline>,
    name: &str,
    log: Option<&Log>,
    role: &Role,
    ended: Shutdown,
) -> Result<Arc<Shared>, Failure> {
    let mut sink = pipeline.sinks[name].clone();
    sink.on_stop = role.on_stop(sink.on_stop);
    let failed = |e: SinkError| Failure::error(format!("sink {name}: {e}"));
    let prefix = pipeline.topics.prefix.clone();
    let target = match sink.target {
        TargetEngine::Postgres => PostgresTarget::new(&pipeline.name, &sink).map_err(failed)?,
    };
    match (&pipeline.topics.transport, log) {
        (Transport::Kafka(kafka), _) => {
            let (kafka, sink_name) = (kafka.clone(), name.to_owned());
            let connected = tokio::task::spawn_blocking(move || KafkaConsumer::connect(&kafka, &prefix, &sink_name)).await;
            let consumer = connected.map_err(|e| Failure::error(e.to_string()))?.map_err(failed)?;
            Ok(apply(parts, sink, target, consumer, ended))
        }
        (Transport::Local(_), Some(log)) => {
            let consumer = LocalConsumer::new(log.clone(), &prefix, name).map_err(failed)?;
            Ok(apply(parts, sink, target, consumer, ended))
        }
        (Transport::Local(_), None) => Err(Failure::error("the local log is not open")),
    }
}

fn apply<T: Target, C: Consumer>(parts: &mut JoinSet<Part>, sink: Sink, target: T, consumer: C, ended: Shutdown) -> Arc<Shared> {
    let name = sink.name.clone();
    let process = SinkProcess::new(sink, target, consumer);
    let shared = process.shared();
    parts.spawn(async move {
        let result = process.run(ended).await;
        Part::Sink(name, result)
    });
    shared
}

/// The parts of a process, looked at as one.
struct Together<'a> {
    pipeline: &'a Arc<Pipeline>,
    place: &'a Place,
    live: &'a Arc<Parts>,
    role: &'a Role,
    ended: Ended,
    stands_since: Option<Instant>,
}

impl Together<'_> {
    /// Looks after the parts until the process is to end.
    async fn supervise(&mut self, parts: &mut JoinSet<Part>, shutdown: &Shutdown) -> Result<Exit, Failure> {
        loop {
            tokio::select! {
                () = shutdown.wait() => return Ok(Exit::Fine),
                part = parts.join_next() => match part {
                    Some(Ok(part)) => note(part, self.live, &mut self.ended)?,
                    Some(Err(error)) => return Err(Failure::error(format!("a part of the process broke: {error}"))),
                    None => return Ok(self.ended.exit(*self.role == Role::Source)),
                },
                () = tokio::time::sleep(SETTLE), if *self.role == Role::Everything => {}
            }
            if *self.role == Role::Everything
                && let Some(exit) = self.over().await
            {
                return Ok(exit);
            }
        }
    }

    /// Whether nothing can go on: all is copied and applied, or the source and all sinks stand.
    async fn over(&mut self) -> Option<Exit> {
        let live = self.live.clone();
        let stands = || live.source().is_some_and(|source| stands(&source));
        if !self.ended.copied && !stands() {
            self.stands_since = None;
            return None;
        }
        // A way out that is there already is taken a moment after the source has come to stand.
        if !self.ended.copied && self.stands_since.get_or_insert_with(Instant::now).elapsed() < WAY_OUT {
            return None;
        }
        match self.furthest().await? {
            Standing::CaughtUp if self.ended.copied && !self.ended.failed => Some(Exit::Fine),
            // A command that came meanwhile is looked at first.
            _ if self.pipeline.sinks.values().all(|s| s.on_stop == OnStop::Exit) && (self.ended.copied || stands()) => {
                tracing::error!("stopped: needs operator; see instar status");
                Some(self.ended.exit(false))
            }
            _ => None,
        }
    }

    /// Where the sinks stand against what is published; None: something is still on its way.
    async fn furthest(&self) -> Option<Standing> {
        let observer = Observer::new(self.pipeline.clone(), self.place.clone(), Some(self.live.clone())).ok()?;
        let reading = observer.read().await.ok()?;
        let (events, goal) = (&reading.topics.events, Goal::new(&reading.topics.events, &reading.topics.ends));
        match reading.sinks.iter().map(|(name, sink)| standing(name, sink, events, &goal)).max().unwrap_or(Standing::CaughtUp) {
            Standing::Behind(_) => None,
            standing => Some(standing),
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
    /// How the process ends once nothing can go on. `alone`: the source is all there is in it.
    fn exit(&self, alone: bool) -> Exit {
        match self {
            Ended { failed: true, .. } => Exit::Error,
            Ended { copied: true, .. } if alone => Exit::Fine,
            Ended { .. } => Exit::Stopped,
        }
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
        Part::Source(Ok(SourceEnded::Stopped { message }))
        | Part::Source(Err(CaptureError::Stop { message } | CaptureError::Blocked { message })) => {
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

/// Gives the parts time to commit what is whole.
async fn drain(parts: &mut JoinSet<Part>) {
    let all = async { while parts.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all).await.is_err() {
        tracing::warn!("some parts did not end in time; what they had not committed is done again by the next process");
    }
}
