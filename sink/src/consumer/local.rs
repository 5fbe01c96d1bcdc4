//! Reads the local log.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use runtime::log::{Keep, Log, LogError, Records, Topic};
use schemas::{
    command::Command,
    event::{Offset, Progress, SchemaEvent},
    wire::{
        event::{read_event, read_progress},
        names,
    },
};
use tokio::sync::watch;

use super::{Block, Consumer, Record};
use crate::error::SinkError;

/// Bytes read at a time from topics that are read whole.
const PART: usize = 1 << 20;

/// One sink's view of a local log.
#[derive(Debug, Clone)]
pub struct LocalConsumer {
    log: Log,
    prefix: Arc<str>,
    sink: Arc<str>,
    topics: Arc<Mutex<HashMap<String, Topic>>>,
}

impl LocalConsumer {
    /// `sink` names who reads: retention keeps what it has not applied.
    pub fn new(log: Log, prefix: &str, sink: &str) -> Result<Self, SinkError> {
        log.add_sink(sink).map_err(failed)?;
        Ok(Self::reader(log, prefix, sink))
    }

    /// For commands that only look: nothing is registered.
    pub fn reader(log: Log, prefix: &str, sink: &str) -> Self {
        Self { log, prefix: prefix.into(), sink: sink.into(), topics: Arc::default() }
    }

    fn topic(&self, name: &str) -> Option<Topic> {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(topic) = topics.get(name) {
            return Some(topic.clone());
        }
        let topic = self.log.find(name)?;
        topics.insert(name.to_owned(), topic.clone());
        Some(topic)
    }

    fn known(&self, name: &str) -> Result<Topic, SinkError> {
        let gone = || SinkError::Stop {
            message: format!("topic {name} is not in the log, but a schema-version event names it: rows are lost. Reload the tables."),
        };
        self.topic(name).ok_or_else(gone)
    }

    /// Calls `each` with every record of lane 0 from `from` on; returns the end.
    fn all(&self, name: &str, from: Offset, mut each: impl FnMut(&[u8]) -> Result<(), SinkError>) -> Result<Offset, SinkError> {
        let Some(topic) = self.topic(name) else { return Ok(from) };
        let mut at = from;
        loop {
            let records = self.log.records(&topic, 0, at, PART).map_err(failed)?;
            if records.is_empty() {
                return Ok(at);
            }
            for record in records.iter() {
                each(record.value)?;
            }
            at = records.next();
        }
    }
}

impl Block for Records {
    fn records(&self) -> impl Iterator<Item = Record<'_>> + Send {
        self.iter().map(|r| Record { offset: r.offset, key: r.key, value: r.value })
    }

    fn next(&self) -> Offset {
        Records::next(self)
    }

    fn whole(&self) -> bool {
        self.is_empty()
    }
}

impl Consumer for LocalConsumer {
    type Block = Records;
    type Proof = ();

    fn fetch(&self, topic: &str, _topic_id: Option<&str>, lane: u32, from: Offset, max_bytes: usize) -> Result<Records, SinkError> {
        self.log.records(&self.known(topic)?, lane, from, max_bytes).map_err(failed)
    }

    fn prove<'t>(&self, _topics: impl Iterator<Item = (&'t str, &'t str)>) {}

    async fn events(&self, from: Offset) -> Result<(Vec<SchemaEvent>, Offset), SinkError> {
        let name = names::versions(&self.prefix);
        let mut events = Vec::new();
        let end = self.all(&name, from, |value| {
            events.push(read_event(value).map_err(|e| unreadable(&name, &e))?);
            Ok(())
        })?;
        Ok((events, end))
    }

    async fn progress(&self) -> Result<Option<Progress>, SinkError> {
        let name = names::progress(&self.prefix);
        let Some(topic) = self.topic(&name) else { return Ok(None) };
        let newest = self.log.newest(&topic, 0).map_err(failed)?;
        newest.map(|value| read_progress(&value).map_err(|e| unreadable(&name, &e))).transpose()
    }

    async fn ends(&self, topic: &str) -> Result<Vec<Offset>, SinkError> {
        Ok(self.log.ends(&self.known(topic)?))
    }

    async fn starts(&self, topic: &str) -> Result<Vec<Offset>, SinkError> {
        Ok(self.log.starts(&self.known(topic)?))
    }

    async fn peek(&self, topic: &str, lane: u32, from: Offset) -> Result<Records, SinkError> {
        self.fetch(topic, None, lane, from, 1)
    }

    async fn ask(&self, command: &Command) -> Result<(), SinkError> {
        let (log, name, record) = (self.log.clone(), names::commands(&self.prefix), command.to_record());
        let written = tokio::task::spawn_blocking(move || {
            let topic = log.topic(&name, Some(1), Keep::Forever)?;
            let mut transaction = log.begin();
            transaction.append(&topic, 0, None, &record)?;
            transaction.commit()
        });
        written.await.map_err(|e| SinkError::Transient(e.to_string()))?.map_err(failed)
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.log.changed()
    }

    fn applied(&self, topic: &str, lane: u32, position: Offset) -> Result<(), SinkError> {
        self.log.sink_position(&self.sink, &self.known(topic)?, lane, position).map_err(failed)
    }
}

fn unreadable(topic: &str, error: &schemas::wire::WireError) -> SinkError {
    SinkError::Stop { message: format!("a record of topic {topic} cannot be read: {error}") }
}

fn failed(error: LogError) -> SinkError {
    match error {
        LogError::Full(message) => SinkError::Transient(message),
        LogError::Locked(message) | LogError::Absent(message) | LogError::Broken(message) | LogError::Topic(message) => {
            SinkError::Refused(message)
        }
        error @ (LogError::Expired { .. } | LogError::Beyond { .. }) => {
            SinkError::Stop { message: format!("{error}: rows are lost for this sink. Reload the table.") }
        }
    }
}
