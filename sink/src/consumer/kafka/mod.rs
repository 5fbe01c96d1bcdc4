//! Reads Kafka.
//!
//! | file | what it owns |
//! |---|---|
//! | `member.rs` | this instance's place in the sink's group: which lanes are its own |
//! | `watcher.rs` | whether the brokers can be reached, and which topics there are under the names that are read |
//! | `topics.rs` | all topics that were asked for, and what those two have to tell |
//! | `topic.rs` | one topic: its identity, whose its lanes are, and the reading of them |
//! | `proof.rs` | whether rows are of the topics that the schema versions name |
//! | `block.rs` | records of a lane as the worker sees them |
//!
//! The group spreads lanes, nothing more: nothing is committed to it, and no position comes from it. A member that is not fetched
//! for and a reader without a group are two clients, so a worker takes records straight from the library's queue of the lane.

mod block;
mod member;
mod proof;
mod topic;
mod topics;
mod watcher;

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use runtime::{
    config::KafkaTopics,
    kafka::{Cluster, KafkaError, Reader, Tail},
};
use schemas::{
    command::Command,
    event::{Offset, Progress, SchemaEvent},
    wire::{
        event::{read_event, read_progress},
        names,
    },
};
use tokio::sync::watch;

pub use self::{block::KafkaBlock, proof::KafkaProof};
use self::{member::Member, topic::Asked, topics::Topics, watcher::Watcher};
use super::Consumer;
use crate::error::SinkError;

/// How much of a lane is fetched ahead, in kB: what a worker finds after a flush, and what a lane that waits takes of memory (about
/// three times as much with the library's own records). A pipeline of very many lanes sets `queued.max.messages.kbytes` lower.
const AHEAD: u32 = 2048;
/// The same for commands that only look at a lane's first row.
const LOOK: u32 = 16;

/// One sink's view of a pipeline's topics. Clones share the connections.
#[derive(Clone)]
pub struct KafkaConsumer {
    inner: Arc<Inner>,
}

/// In this order they go: the lanes' readers before the client that they read by.
struct Inner {
    _member: Option<Member>,
    watcher: Watcher,
    topics: Arc<Topics>,
    versions: Arc<Followed>,
    progress: Arc<Followed>,
    versions_changed: watch::Sender<u64>,
    cluster: Cluster,
    prefix: String,
}

/// A topic of one partition that is read to its end again and again.
struct Followed {
    tail: Mutex<Tail>,
    /// It was there once.
    seen: AtomicBool,
}

impl KafkaConsumer {
    /// A member of the sink's group: several instances of a sink share its lanes. Blocks up to ten seconds.
    ///
    /// # Errors
    ///
    /// `Refused`: the brokers do not let us in. `Transient`: they cannot be reached.
    pub fn connect(topics: &KafkaTopics, prefix: &str, sink: &str) -> Result<Self, SinkError> {
        let group = group(prefix, sink);
        Self::open(topics, prefix, &group, AHEAD, Some(&group))
    }

    /// For commands that only look: no group is joined, and every lane is this instance's. Blocks up to ten seconds.
    ///
    /// # Errors
    ///
    /// As of [`KafkaConsumer::connect`].
    pub fn reader(topics: &KafkaTopics, prefix: &str) -> Result<Self, SinkError> {
        Self::open(topics, prefix, &format!("instar-{prefix}"), LOOK, None)
    }

    fn open(config: &KafkaTopics, prefix: &str, client: &str, ahead: u32, group: Option<&str>) -> Result<Self, SinkError> {
        let failed = |e| failed_at(&config.brokers, e);
        let cluster = Cluster::connect(config, client).map_err(failed)?;
        let reader = Reader::open(config, client, ahead).map_err(failed)?;
        let topics = Arc::new(Topics::new(reader.clone(), &config.brokers, group.is_none()));
        let versions_changed = watch::Sender::new(0_u64);
        let news = {
            let versions_changed = versions_changed.clone();
            move || versions_changed.send_modify(|n| *n = n.wrapping_add(1))
        };
        let versions = Followed::new(Tail::new(reader.clone(), names::versions(prefix), news).asking(cluster.clone()));
        let progress = Followed::new(Tail::new(reader, names::progress(prefix), || {}));
        let watcher = Watcher::start(cluster.clone(), topics.clone(), &names::versions(prefix), versions_changed.clone())?;
        let member = match group {
            Some(group) => Some(Member::join(config, group, topics.clone()).map_err(failed)?),
            None => None,
        };
        let inner = Inner { _member: member, watcher, topics, versions, progress, versions_changed, cluster, prefix: prefix.to_owned() };
        Ok(Self { inner: Arc::new(inner) })
    }

    fn failed(&self, error: KafkaError) -> SinkError {
        failed_at(&self.inner.cluster.settings().brokers, error)
    }

    /// How many lanes the topic has: as it was recorded, not what it has grown to.
    fn lanes(&self, topic: &str) -> Result<u32, SinkError> {
        if let Some(lanes) = self.inner.topics.lanes(topic) {
            return Ok(lanes);
        }
        let found = self.inner.cluster.find(topic).map_err(|e| self.failed(e))?;
        let gone = || SinkError::Stop { message: format!("topic {topic} is not there: rows are lost for this sink. Reload the table.") };
        found.map(|facts| facts.partitions).ok_or_else(gone)
    }

    /// Runs what blocks on a thread for that.
    async fn blocking<R: Send + 'static>(&self, f: impl FnOnce(&Self) -> Result<R, SinkError> + Send + 'static) -> Result<R, SinkError> {
        let this = self.clone();
        let done = tokio::task::spawn_blocking(move || f(&this)).await;
        done.unwrap_or_else(|e| Err(SinkError::Refused(format!("a thread of the consumer broke: {e}"))))
    }

    /// Whether the topic is there. One that was there is not asked for again.
    fn exists(&self, followed: &Followed, name: &str) -> Result<bool, SinkError> {
        if !followed.seen.load(Ordering::Relaxed) {
            let found = self.inner.cluster.identities(&[name]).map_err(|e| self.failed(e))?;
            followed.seen.store(found.iter().any(Option::is_some), Ordering::Relaxed);
        }
        Ok(followed.seen.load(Ordering::Relaxed))
    }

    fn read_events(&self, from: Offset) -> Result<(Vec<SchemaEvent>, Offset), SinkError> {
        let mut tail = self.inner.versions.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let name = tail.topic().to_owned();
        if !self.exists(&self.inner.versions, &name)? {
            return Ok((Vec::new(), from));
        }
        self.inner.watcher.check_versions()?;
        let mut events = Vec::new();
        let read = tail.read(from, |offset, value| {
            events.push(read_event(value).map_err(|e| ReadError::Unreadable(offset, e))?);
            Ok::<(), ReadError>(())
        });
        let next = read.map_err(|error| self.read_failed(&name, error))?;
        self.inner.topics.learn(&events);
        Ok((events, next))
    }

    fn read_progress(&self) -> Result<Option<Progress>, SinkError> {
        let mut tail = self.inner.progress.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let name = tail.topic().to_owned();
        if !self.exists(&self.inner.progress, &name)? {
            return Ok(None);
        }
        let newest = tail.newest().map_err(|e| self.failed(e))?;
        newest.map(|value| read_progress(&value)).transpose().map_err(|e| unreadable(&name, "the newest record", &e))
    }

    fn read_failed(&self, name: &str, error: ReadError) -> SinkError {
        match error {
            ReadError::Kafka(KafkaError::Absent { offset, low, high, .. }) => SinkError::Stop {
                message: format!(
                    "topic {name} holds the offsets {low} to {high}, not {offset}: schema versions are gone, without which rows cannot \
                     be read. It must keep its records for ever (retention.ms=-1, retention.bytes=-1, cleanup.policy=delete)."
                ),
            },
            ReadError::Kafka(error) => self.failed(error),
            ReadError::Unreadable(offset, error) => unreadable(name, &format!("the record at offset {offset}"), &error),
        }
    }
}

enum ReadError {
    Kafka(KafkaError),
    Unreadable(Offset, schemas::wire::WireError),
}

impl From<KafkaError> for ReadError {
    fn from(error: KafkaError) -> Self {
        Self::Kafka(error)
    }
}

impl Followed {
    fn new(tail: Tail) -> Arc<Self> {
        Arc::new(Self { tail: Mutex::new(tail), seen: AtomicBool::new(false) })
    }
}

impl Consumer for KafkaConsumer {
    type Block = KafkaBlock;
    type Proof = KafkaProof;

    fn fetch(&self, topic: &str, topic_id: Option<&str>, lane: u32, from: Offset, max_bytes: usize) -> Result<KafkaBlock, SinkError> {
        if let Some(refused) = self.inner.topics.refused() {
            return Err(refused);
        }
        self.inner.topics.wanted(topic).fetch(&self.inner.topics, &Asked { topic_id, lane, from, max_bytes })
    }

    fn prove<'t>(&self, topics: impl Iterator<Item = (&'t str, &'t str)>) -> KafkaProof {
        self.inner.topics.prove(topics)
    }

    async fn events(&self, from: Offset) -> Result<(Vec<SchemaEvent>, Offset), SinkError> {
        self.blocking(move |this| this.read_events(from)).await
    }

    async fn progress(&self) -> Result<Option<Progress>, SinkError> {
        self.blocking(Self::read_progress).await
    }

    async fn ends(&self, topic: &str) -> Result<Vec<Offset>, SinkError> {
        let topic = topic.to_owned();
        self.blocking(move |this| {
            // Not the end of what readers see: a marker may be written after its transaction is told to be committed.
            this.inner.cluster.written(&topic, this.lanes(&topic)?).map_err(|e| this.failed(e))
        })
        .await
    }

    async fn starts(&self, topic: &str) -> Result<Vec<Offset>, SinkError> {
        let topic = topic.to_owned();
        self.blocking(move |this| {
            let start = |lane| this.inner.topics.reader().bounds(&topic, lane).map(|bounds| bounds.0);
            (0..this.lanes(&topic)?).map(start).collect::<Result<_, _>>().map_err(|e| this.failed(e))
        })
        .await
    }

    async fn peek(&self, topic: &str, lane: u32, from: Offset) -> Result<KafkaBlock, SinkError> {
        let topic = self.inner.topics.wanted(topic);
        self.blocking(move |this| topic.peek(&this.inner.topics, lane, from)).await
    }

    async fn ask(&self, command: &Command) -> Result<(), SinkError> {
        let record = command.to_record();
        self.blocking(move |this| {
            let topic = names::commands(&this.inner.prefix);
            this.inner.cluster.append(&topic, &record).map(drop).map_err(|e| this.failed(e))
        })
        .await
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.inner.topics.changed()
    }

    fn events_changed(&self) -> watch::Receiver<u64> {
        self.inner.versions_changed.subscribe()
    }

    fn turn(&self, topic: &str, lane: u32) -> Option<u64> {
        match self.inner.topics.alone() {
            true => Some(0),
            false => self.inner.topics.wanted(topic).turn(lane),
        }
    }

    fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.inner.topics.trouble()
    }

    /// The topics keep what their own retention says.
    fn applied(&self, _topic: &str, _lane: u32, _position: Offset) -> Result<(), SinkError> {
        Ok(())
    }
}

fn unreadable(topic: &str, what: &str, error: &schemas::wire::WireError) -> SinkError {
    SinkError::Stop { message: format!("topic {topic}: {what} cannot be read: {error}") }
}

/// The consumer group of a sink's instances.
pub fn group(prefix: &str, sink: &str) -> String {
    format!("instar-{prefix}-{sink}")
}

/// As [`failed`]; a fault that passes names the brokers.
fn failed_at(brokers: &str, error: KafkaError) -> SinkError {
    match failed(error) {
        SinkError::Transient(reason) if !reason.starts_with("topics.kafka.brokers") => {
            SinkError::Transient(format!("topics.kafka.brokers {brokers}: {reason}"))
        }
        error => error,
    }
}

/// Sorts what the cluster said.
pub fn failed(error: KafkaError) -> SinkError {
    match error {
        KafkaError::Transient(reason) => SinkError::Transient(reason),
        KafkaError::Refused(reason) | KafkaError::Fenced(reason) => SinkError::Refused(reason),
        KafkaError::Topic(reason) => SinkError::Stop { message: format!("{reason}: rows are lost for this sink. Reload the table.") },
        error @ KafkaError::Absent { .. } => {
            SinkError::Stop { message: format!("{error}: rows are lost for this sink. Reload the table.") }
        }
    }
}
