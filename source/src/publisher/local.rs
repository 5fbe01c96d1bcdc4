//! Publishes to the local log.

use std::collections::HashMap;

use runtime::log::{Keep, Log, LogError, Records, Topic, Transaction};
use schemas::{
    event::{Offset, Progress, SchemaEvent},
    wire::{
        avro::{event_schema, progress_schema},
        event::{put_event, put_progress, read_event, read_progress},
        names,
    },
};
use serde_json::Value as Json;
use tokio::task::{JoinError, JoinHandle};

use super::{LiveTopic, Publisher, TopicHandle};
use crate::error::CaptureError;

/// Bytes kept for the next record of the pipeline's own.
const BUFFER: usize = 64 << 10;
/// Bytes of records read at a time.
const READ: usize = 1 << 20;

/// The pipeline's own topics, and the schemas of what is written into them.
struct System {
    versions: Topic,
    progress: Topic,
    commands: Topic,
    event_schema: u32,
    progress_schema: u32,
}

/// The publisher of a log in this process. The log's directory lock keeps any other out.
pub struct LocalPublisher {
    log: Log,
    prefix: String,
    topics: Vec<Topic>,
    by_name: HashMap<String, TopicHandle>,
    system: Option<System>,
    transaction: Transaction,
    /// A commit that is being written. It ends also where nobody waits for it any more.
    commit: Option<JoinHandle<Result<(), LogError>>>,
    buffer: Vec<u8>,
}

impl LocalPublisher {
    pub fn new(log: Log, prefix: impl Into<String>) -> Self {
        let transaction = log.begin();
        Self {
            log,
            prefix: prefix.into(),
            topics: Vec::new(),
            by_name: HashMap::new(),
            system: None,
            transaction,
            commit: None,
            buffer: Vec::new(),
        }
    }

    fn system(&self) -> Result<&System, CaptureError> {
        self.system.as_ref().ok_or_else(|| CaptureError::Transport("the publisher is used before it was started".into()))
    }

    fn known(&self, handle: TopicHandle) -> Result<&Topic, CaptureError> {
        self.topics.get(handle.0).ok_or_else(|| CaptureError::Transport(format!("topic number {} is not known", handle.0)))
    }
}

impl Publisher for LocalPublisher {
    async fn start(&mut self) -> Result<Option<Progress>, CaptureError> {
        // What became of it stands in the log.
        let _ended = self.settle().await;
        self.transaction = self.log.begin();
        let (log, prefix) = (self.log.clone(), self.prefix.clone());
        let (system, last) = blocking(move || {
            let system = System {
                versions: log.topic(&names::versions(&prefix), Some(1), Keep::Forever)?,
                progress: log.topic(&names::progress(&prefix), Some(1), Keep::Newest)?,
                commands: log.topic(&names::commands(&prefix), Some(1), Keep::Forever)?,
                event_schema: log.register(&names::value_subject(&names::versions(&prefix)), &event_schema())?,
                progress_schema: log.register(&names::value_subject(&names::progress(&prefix)), &progress_schema())?,
            };
            let last = log.newest(&system.progress, 0)?;
            Ok((system, last))
        })
        .await?;
        self.system = Some(system);
        let read = |record: Vec<u8>| {
            read_progress(&record).map_err(|e| CaptureError::Transport(format!("the progress of {} cannot be read: {e}", self.prefix)))
        };
        last.map(read).transpose()
    }

    async fn events(&mut self) -> Result<Vec<SchemaEvent>, CaptureError> {
        let (log, topic) = (self.log.clone(), self.system()?.versions.clone());
        let records = blocking(move || all(&log, &topic, 0)).await?;
        records
            .iter()
            .map(|(offset, record)| {
                read_event(record)
                    .map_err(|e| CaptureError::Transport(format!("{}: record {offset} cannot be read: {e}", names::versions(&self.prefix))))
            })
            .collect()
    }

    async fn commands(&mut self, from: Offset) -> Result<Vec<(Offset, Vec<u8>)>, CaptureError> {
        let topic = &self.system()?.commands;
        // Nothing new is the rule, and known without reading.
        if self.log.ends(topic).first().is_none_or(|end| *end <= from) {
            return Ok(Vec::new());
        }
        let (log, topic) = (self.log.clone(), topic.clone());
        blocking(move || all(&log, &topic, from)).await
    }

    async fn topic(&mut self, name: &str, lanes: Option<u32>) -> Result<LiveTopic, CaptureError> {
        let (log, owned) = (self.log.clone(), name.to_owned());
        let topic = blocking(move || log.topic(&owned, lanes, Keep::Retention)).await?;
        let lanes = topic.lanes;
        if let Some(handle) = self.by_name.get(name).copied() {
            self.topics[handle.0] = topic;
            return Ok(LiveTopic { handle, lanes, id: None });
        }
        let handle = TopicHandle(self.topics.len());
        self.topics.push(topic);
        self.by_name.insert(name.to_owned(), handle);
        Ok(LiveTopic { handle, lanes, id: None })
    }

    async fn register(&mut self, subject: &str, schema: &Json) -> Result<u32, CaptureError> {
        let (log, subject, schema) = (self.log.clone(), subject.to_owned(), schema.clone());
        blocking(move || log.register(&subject, &schema)).await
    }

    fn produce(&mut self, topic: TopicHandle, lane: u32, key: Option<&[u8]>, value: &[u8]) -> Result<(), CaptureError> {
        let topic = self.topics.get(topic.0).ok_or_else(|| CaptureError::Transport(format!("topic number {} is not known", topic.0)))?;
        self.transaction.append(topic, lane, key, value).map_err(failed)
    }

    fn pending(&self) -> (usize, usize) {
        self.transaction.pending()
    }

    async fn commit_soon(&mut self, progress: &Progress) -> Result<(), CaptureError> {
        let (topic, schema) = self.system().map(|s| (s.progress.clone(), s.progress_schema))?;
        self.buffer.clear();
        // The pipeline's first event holds all its tables.
        self.buffer.shrink_to(BUFFER);
        put_progress(&mut self.buffer, schema, progress);
        self.transaction.append(&topic, 0, None, &self.buffer).map_err(failed)?;
        self.settle().await?;
        let transaction = std::mem::replace(&mut self.transaction, self.log.begin());
        self.commit = Some(tokio::task::spawn_blocking(move || transaction.commit()));
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), CaptureError> {
        let Some(commit) = &mut self.commit else { return Ok(()) };
        let ended = commit.await;
        self.commit = None;
        joined(ended)
    }

    async fn ends(&mut self, topic: TopicHandle) -> Result<Vec<Offset>, CaptureError> {
        self.settle().await?;
        Ok(self.log.ends(self.known(topic)?))
    }

    async fn commit_event(&mut self, event: &SchemaEvent, progress: &Progress) -> Result<(), CaptureError> {
        let (topic, schema) = self.system().map(|s| (s.versions.clone(), s.event_schema))?;
        self.buffer.clear();
        put_event(&mut self.buffer, schema, event);
        self.transaction.append(&topic, 0, None, &self.buffer).map_err(failed)?;
        self.commit(progress).await
    }
}

fn all(log: &Log, topic: &Topic, from: Offset) -> Result<Vec<(Offset, Vec<u8>)>, LogError> {
    let (mut out, mut next) = (Vec::new(), from);
    loop {
        let records: Records = log.records(topic, 0, next, READ)?;
        if records.is_empty() {
            return Ok(out);
        }
        out.extend(records.iter().map(|r| (r.offset, r.value.to_vec())));
        next = records.next();
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, LogError> + Send + 'static) -> Result<T, CaptureError> {
    joined(tokio::task::spawn_blocking(work).await)
}

fn joined<T>(ended: Result<Result<T, LogError>, JoinError>) -> Result<T, CaptureError> {
    match ended {
        Ok(result) => result.map_err(failed),
        Err(e) => Err(CaptureError::Transport(format!("the local log's thread ended: {e}"))),
    }
}

fn failed(error: LogError) -> CaptureError {
    match error {
        // Room may be made while the process waits.
        LogError::Full(message) => CaptureError::Transient(message),
        LogError::Locked(message) => CaptureError::Fenced(message),
        e @ (LogError::Absent(_) | LogError::Broken(_) | LogError::Topic(_) | LogError::Expired { .. } | LogError::Beyond { .. }) => {
            CaptureError::Transport(e.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use runtime::log::LogOptions;
    use schemas::event::SourceState;

    use super::*;

    fn progress(seq: u64) -> Progress {
        Progress {
            pipeline_id: "p".into(),
            position: format!("at {seq}"),
            rows_done: 0,
            seq,
            epoch: 0,
            command: 0,
            tables: BTreeMap::new(),
            waiting: Default::default(),
            state: SourceState::Running,
            message: String::new(),
            ts_ms: 0,
            commit_ts_ms: 0,
            due_ms: i64::MAX,
        }
    }

    #[tokio::test]
    async fn ends_lie_behind_what_was_handed_over() {
        let directory = std::env::temp_dir().join(format!("instar-publisher-{}", std::process::id()));
        let log = Log::open(&directory, LogOptions::default()).unwrap();
        let mut publisher = LocalPublisher::new(log, "p");
        assert_eq!(publisher.start().await.unwrap(), None);
        let topic = publisher.topic("p.t", Some(1)).await.unwrap().handle;
        publisher.produce(topic, 0, None, b"older").unwrap();
        publisher.commit_soon(&progress(1)).await.unwrap();
        publisher.produce(topic, 0, None, b"newer").unwrap();
        assert_eq!(publisher.ends(topic).await.unwrap(), [1]);
        publisher.commit_soon(&progress(2)).await.unwrap();
        publisher.settle().await.unwrap();
        assert_eq!(publisher.ends(topic).await.unwrap(), [2]);
        assert_eq!(publisher.start().await.unwrap(), Some(progress(2)));
        drop(publisher);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
