//! What the loop is told: the parts of the configuration that concern it, and its bounds.

use std::{collections::HashSet, time::Duration};

use runtime::config::{CapturedTable, OnStop, Pipeline, Retry, Snapshot, TruncateEvents};
use schemas::table::TableId;

/// The capture loop's settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Written into progress; topics of another pipeline are refused.
    pub pipeline: String,
    /// Of the topics' names.
    pub prefix: String,
    /// The source database, as messages name it: `mysql://127.0.0.1:3306`.
    pub server: String,
    pub tables: Vec<CapturedTable>,
    pub snapshot: Snapshot,
    pub truncate: TruncateEvents,
    /// What to do where the source stands: end the process (exit 3), or wait for a command.
    pub on_stop: OnStop,
    pub retry: Retry,
    pub commit: CommitBounds,
    /// How often progress is written where nothing happens.
    pub heartbeat: Duration,
    /// How often commands are looked for.
    pub poll: Duration,
}

/// Silent heartbeats after which a source is taken to be gone.
const SILENCE: u32 = 3;

impl Settings {
    /// What a pipeline's configuration says of its source.
    pub fn of(pipeline: &Pipeline, on_stop: OnStop) -> Self {
        let url = &pipeline.source.url;
        let port = url.port.map(|port| format!(":{port}")).unwrap_or_default();
        Self {
            pipeline: pipeline.name.clone(),
            prefix: pipeline.topics.prefix.clone(),
            server: format!("{}://{}{port}", url.scheme, url.host),
            tables: pipeline.source.tables.clone(),
            snapshot: pipeline.source.snapshot.clone(),
            truncate: pipeline.topics.truncate,
            on_stop,
            retry: Retry { initial: Duration::from_secs(1), max: Duration::from_secs(60) },
            commit: CommitBounds::default(),
            heartbeat: pipeline.source.heartbeat,
            poll: Duration::from_millis(100),
        }
    }

    /// How long at most until progress is written again, in milliseconds, as told to those who look from outside.
    pub fn pulse_ms(&self) -> i64 {
        i64::try_from(self.heartbeat.saturating_mul(SILENCE).as_millis()).unwrap_or(i64::MAX)
    }

    pub fn captured(&self) -> HashSet<&TableId> {
        self.tables.iter().map(|t| &t.table).collect()
    }
}

/// How much one publisher transaction takes while more is waiting; when nothing waits it is committed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitBounds {
    pub rows: usize,
    pub bytes: usize,
    pub age: Duration,
    /// How soon a position that moved without rows is written.
    pub idle: Duration,
    /// Bytes of rows in one chunk of a copy, about.
    pub chunk_bytes: usize,
}

impl Default for CommitBounds {
    fn default() -> Self {
        Self { rows: 50_000, bytes: 4 << 20, age: Duration::from_millis(200), idle: Duration::from_millis(200), chunk_bytes: 4 << 20 }
    }
}
