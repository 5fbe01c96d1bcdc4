//! What the commands look at: the topics and the targets, whether or not a process runs.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use runtime::{
    config::{Pipeline, TargetEngine},
    log::Log,
};
use schemas::table::TableId;
use serde_json::Value as Json;
use sink::{
    consumer::local::LocalConsumer,
    error::SinkError,
    postgres::{PostgresSession, PostgresTarget},
    review,
    status::{
        self, Liveness, SinkSnapshot, Snapshot,
        gather::{self, Topics},
        history,
    },
};
use tokio::sync::Mutex;

/// What the parts of a process are doing.
pub trait Live: Send + Sync {
    fn source(&self) -> Liveness;
    fn sink(&self, name: &str) -> Liveness;
}

/// Reads the state of one pipeline.
pub struct Observer {
    pipeline: Arc<Pipeline>,
    /// None: no process of this pipeline has ever run.
    log: Option<Log>,
    /// None: no process runs.
    live: Option<Arc<dyn Live>>,
    targets: BTreeMap<String, PostgresTarget>,
    /// Of the sinks, from one look to the next.
    sessions: Mutex<BTreeMap<String, Option<PostgresSession>>>,
}

/// One reading.
pub struct Reading {
    pub topics: Topics,
    pub sinks: BTreeMap<String, SinkSnapshot>,
    pub source: Liveness,
    now_ms: i64,
}

impl Observer {
    pub fn new(pipeline: Arc<Pipeline>, log: Option<Log>, live: Option<Arc<dyn Live>>) -> Result<Self, SinkError> {
        let mut targets = BTreeMap::new();
        for (name, sink) in &pipeline.sinks {
            let target = match sink.target {
                TargetEngine::Postgres => PostgresTarget::new(&pipeline.name, sink)?,
            };
            targets.insert(name.clone(), target);
        }
        Ok(Self { pipeline, log, live, targets, sessions: Mutex::default() })
    }

    fn consumer(&self, sink: &str) -> Option<LocalConsumer> {
        self.log.as_ref().map(|log| LocalConsumer::reader(log.clone(), &self.pipeline.topics.prefix, sink))
    }

    pub async fn read(&self) -> Result<Reading, SinkError> {
        let topics = match self.consumer("") {
            Some(consumer) => Topics::read(&consumer).await?,
            None => Topics::default(),
        };
        let mut sinks = BTreeMap::new();
        let mut sessions = self.sessions.lock().await;
        for (name, target) in &self.targets {
            let process = self.live.as_ref().map_or(Liveness::Down, |live| live.sink(name));
            let session = sessions.entry(name.clone()).or_default();
            let snapshot = match self.consumer(name) {
                Some(consumer) => gather::sink(name, target, session, &consumer, &topics, process).await,
                None => SinkSnapshot::nothing(process),
            };
            sinks.insert(name.clone(), snapshot);
        }
        let source = self.live.as_ref().map_or(Liveness::Down, |live| live.source());
        Ok(Reading { topics, sinks, source, now_ms: now_ms() })
    }

    fn snapshot<'r>(&'r self, reading: &'r Reading) -> Snapshot<'r> {
        Snapshot {
            pipeline: &self.pipeline.name,
            source: reading.source.clone(),
            progress: reading.topics.progress.as_ref(),
            events: &reading.topics.events,
            ends: &reading.topics.ends,
            sinks: reading.sinks.clone(),
            now_ms: reading.now_ms,
        }
    }

    pub async fn status(&self) -> Result<Json, SinkError> {
        let reading = self.read().await?;
        Ok(status::status(&self.snapshot(&reading)))
    }

    pub async fn history(&self, table: Option<&TableId>) -> Result<Json, SinkError> {
        let reading = self.read().await?;
        Ok(history::history(&self.snapshot(&reading), table))
    }

    /// The review cards of every sink.
    pub async fn cards(&self) -> Result<Json, SinkError> {
        let reading = self.read().await?;
        let snapshot = self.snapshot(&reading);
        Ok(self.pipeline.sinks.keys().flat_map(|name| review::cards(&snapshot, name)).collect())
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
