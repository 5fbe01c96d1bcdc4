//! The local transport: durable topics in one directory, written in transactions.
//!
//! A topic has lanes; a lane is a sequence of records whose offsets count from 0. Rows are kept as blocks, the values of an embedded
//! store; one commit of the store is one transaction here, on disk when it returns. One process has the directory at a time.

use std::{path::Path, sync::Arc, time::Duration};

use schemas::event::Offset;
use serde_json::Value as Json;
use thiserror::Error;
use tokio::sync::watch;

#[derive(Debug, Error)]
pub enum LogError {
    /// Another process has the directory; the message names both.
    #[error("{0}")]
    Locked(String),
    /// The disk is full: nothing of the transaction was written, everything before it is there.
    #[error("{0}")]
    Full(String),
    /// There is no log in the directory (yet).
    #[error("{0}")]
    Absent(String),
    #[error("{0}")]
    Broken(String),
    #[error("{0}")]
    Topic(String),
    /// The offset was removed by retention.
    #[error("{topic} lane {lane}: offset {wanted} is gone, the log begins at {first}")]
    Expired { topic: String, lane: u32, wanted: Offset, first: Offset },
    /// The offset lies behind the end: the log is not the one that the offset was taken from.
    #[error("{topic} lane {lane}: offset {wanted} was asked for, but the log ends at {end}; it is not the log that this position came from")]
    Beyond { topic: String, lane: u32, wanted: Offset, end: Offset },
}

/// How long records stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Rows: until they are older than the log's retention and every known sink has applied them.
    Retention,
    /// For ever (schema-versions, commands).
    Forever,
    /// Of each lane the newest record only (progress).
    Newest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// Lanes of topics created without a number of their own.
    pub partitions: u32,
    pub retention: Duration,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { partitions: 1, retention: Duration::from_secs(7 * 24 * 3600) }
    }
}

/// A topic of one log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub name: Arc<str>,
    /// Identity: a topic removed and created again has another one.
    pub id: u128,
    pub lanes: u32,
    pub keep: Keep,
    number: u32,
}

/// A log that is open. Clones share it; the directory is free again when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Log;

impl Log {
    /// Opens the log in `path`, creating it where it is not there, and takes the directory's lock: tried for 5 s, then `Locked`.
    pub fn open(path: impl AsRef<Path>, options: LogOptions) -> Result<Self, LogError> {
        let _ = (path.as_ref(), options);
        Err(not_built())
    }

    /// Opens the log for reading while no process runs: `Absent` where there is none, `Locked` where one runs. Writing is refused.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, LogError> {
        let _ = path.as_ref();
        Err(not_built())
    }

    /// The topic of this name, created where it is not there. `lanes`: None: as it is, or as configured; another number than it has
    /// is an error.
    pub fn topic(&self, name: &str, lanes: Option<u32>, keep: Keep) -> Result<Topic, LogError> {
        let _ = (name, lanes, keep);
        Err(not_built())
    }

    pub fn find(&self, name: &str) -> Option<Topic> {
        let _ = name;
        None
    }

    /// Begins a transaction. Several may be open; their records get offsets in the order of the commits.
    pub fn begin(&self) -> Transaction {
        Transaction
    }

    /// Per lane, the offset that the next record will get.
    pub fn ends(&self, topic: &Topic) -> Vec<Offset> {
        let _ = topic;
        Vec::new()
    }

    /// Per lane, the first offset that is there.
    pub fn starts(&self, topic: &Topic) -> Vec<Offset> {
        let _ = topic;
        Vec::new()
    }

    /// Records of a lane from `from` on, as many blocks as fit `max_bytes`, but one at least; none at the end of the lane.
    pub fn records(&self, topic: &Topic, lane: u32, from: Offset, max_bytes: usize) -> Result<Records, LogError> {
        let _ = (topic, lane, from, max_bytes);
        Err(not_built())
    }

    /// Counts the commits; changes when one is done.
    pub fn changed(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }

    /// Registers a schema under a subject and returns its id; the same schema gives the same id.
    pub fn register(&self, subject: &str, schema: &Json) -> Result<u32, LogError> {
        let _ = (subject, schema);
        Err(not_built())
    }

    pub fn schema(&self, id: u32) -> Result<Json, LogError> {
        let _ = id;
        Err(not_built())
    }

    /// Makes a sink known: from here on retention keeps what it has not applied.
    pub fn add_sink(&self, sink: &str) -> Result<(), LogError> {
        let _ = sink;
        Err(not_built())
    }

    /// Says how far a sink has applied a lane, durably on its target. Cheap.
    pub fn sink_position(&self, sink: &str, topic: &Topic, lane: u32, applied: Offset) -> Result<(), LogError> {
        let _ = (sink, topic, lane, applied);
        Err(not_built())
    }

    pub fn forget_sink(&self, sink: &str) -> Result<(), LogError> {
        let _ = sink;
        Err(not_built())
    }
}

fn not_built() -> LogError {
    LogError::Broken("the local log is not built yet".into())
}

/// Records to be written together. Dropping it writes nothing.
#[derive(Debug)]
pub struct Transaction;

impl Transaction {
    pub fn append(&mut self, topic: &Topic, lane: u32, key: Option<&[u8]>, value: &[u8]) -> Result<(), LogError> {
        let _ = (topic, lane, key, value);
        Err(not_built())
    }

    /// Records and their bytes so far.
    pub fn pending(&self) -> (usize, usize) {
        (0, 0)
    }

    /// Writes all of it or nothing. On disk when it returns; blocks.
    pub fn commit(self) -> Result<(), LogError> {
        Err(not_built())
    }
}

/// Records of one lane, in order.
#[derive(Debug, Default)]
pub struct Records {
    next: Offset,
}

/// One record; key and value are as they were appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub offset: Offset,
    pub key: Option<&'a [u8]>,
    pub value: &'a [u8],
}

impl Records {
    pub fn iter(&self) -> impl Iterator<Item = Record<'_>> {
        std::iter::empty()
    }

    /// The offset to read from next.
    pub fn next(&self) -> Offset {
        self.next
    }

    pub fn is_empty(&self) -> bool {
        true
    }
}
