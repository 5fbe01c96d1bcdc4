//! What the commands look at: the topics and the targets, whether or not a process runs.

use std::{collections::BTreeMap, sync::Arc};

use runtime::config::{Pipeline, TargetEngine};
use schemas::table::TableId;
use serde_json::Value as Json;
use sink::{
    error::SinkError,
    postgres::{PostgresSession, PostgresTarget},
    review,
    status::{self, Liveness, SinkSnapshot, Snapshot, gather::Topics, history},
};
use tokio::sync::Mutex;

use crate::place::{Place, now_ms};

/// What the parts of this process are doing; None: the part is not in this process.
pub trait Live: Send + Sync {
    fn source(&self) -> Option<Liveness>;
    fn sink(&self, name: &str) -> Option<Liveness>;
}

/// Reads the state of one pipeline.
pub struct Observer {
    pipeline: Arc<Pipeline>,
    place: Place,
    /// None: no part runs in this process.
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
    pub fn new(pipeline: Arc<Pipeline>, place: Place, live: Option<Arc<dyn Live>>) -> Result<Self, SinkError> {
        let mut targets = BTreeMap::new();
        for (name, sink) in &pipeline.sinks {
            let target = match sink.target {
                TargetEngine::Postgres => PostgresTarget::new(&pipeline.name, sink)?,
            };
            targets.insert(name.clone(), target);
        }
        Ok(Self { pipeline, place, live, targets, sessions: Mutex::default() })
    }

    pub async fn read(&self) -> Result<Reading, SinkError> {
        let topics = self.place.topics().await?;
        let mut sinks = BTreeMap::new();
        let mut sessions = self.sessions.lock().await;
        for (name, target) in &self.targets {
            let process = match self.live.as_ref().and_then(|live| live.sink(name)) {
                Some(here) => here,
                None => self.place.sink_elsewhere(name).await?,
            };
            let session = sessions.entry(name.clone()).or_default();
            let snapshot = self.place.sink(name, target, session, &topics, process).await;
            sinks.insert(name.clone(), snapshot);
        }
        let here = self.live.as_ref().and_then(|live| live.source());
        let source = here.unwrap_or_else(|| self.place.elsewhere(topics.progress.as_ref()));
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

    /// The review cards of one sink, or of every sink; an error where a target cannot be asked what is held.
    pub async fn cards(&self, sink: Option<&str>) -> Result<Json, SinkError> {
        let reading = self.read().await?;
        let snapshot = self.snapshot(&reading);
        let mut cards = Vec::new();
        for (name, state) in reading.sinks.iter().filter(|(name, _)| sink.is_none_or(|only| only == *name)) {
            if let Some(why) = &state.unreachable {
                return Err(SinkError::Transient(format!("sink {name}: its target cannot be asked: {why}")));
            }
            cards.extend(review::cards(&snapshot, name));
        }
        Ok(Json::Array(cards))
    }
}
