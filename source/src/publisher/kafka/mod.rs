//! Publishes to Kafka: two transactional producers that take turns, whose ids keep every older source of the pipeline out.
//!
//! The open transaction is kept here and sent when it is handed over, on a thread of its own, while the next one is filled. Each begins
//! when the one before is committed. The broker writes the marks of a transaction behind its commit, and takes nothing more from that
//! producer until they are there: so the next one is the other's.

mod preflight;
mod producer;
mod transaction;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use runtime::{
    config::KafkaTopics,
    kafka::{Cluster, KafkaError, Keep, Reader, Tail, TopicFacts},
};
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

use self::{
    producer::Producer,
    transaction::{Outgoing, Transaction},
};
use super::{LiveTopic, Publisher, TopicHandle, registry::Registry};
use crate::error::CaptureError;

/// Bytes of a batch, where every topic takes as many.
const BATCH: usize = 256 << 10;
/// Bytes kept for the next record of the pipeline's own.
const BUFFER: usize = 64 << 10;
/// What the broker counts of a record besides key and value, with its batch's head.
const OVERHEAD: usize = 128;
/// Kilobytes of a small topic that are fetched ahead.
const AHEAD_KB: u32 = 1024;
/// How often it is looked whether topics have been made anew.
const LOOK: Duration = Duration::from_secs(5);

/// The publisher of a cluster.
pub struct KafkaPublisher {
    cluster: Cluster,
    reader: Reader,
    registry: Registry,
    client: String,
    prefix: String,
    topics: Vec<TopicFacts>,
    /// Of each topic: the lanes that are written to. A grown topic has more.
    lanes: Vec<u32>,
    names: Vec<Arc<str>>,
    by_name: HashMap<String, TopicHandle>,
    system: Option<System>,
    /// The next transaction is the first one's.
    producers: VecDeque<Arc<Producer>>,
    open: Transaction,
    /// The room of the transaction before.
    spare: Transaction,
    /// A transaction that is being committed. It ends also where nobody waits for it any more.
    under_way: Option<JoinHandle<Result<Transaction, CaptureError>>>,
    buffer: Vec<u8>,
    /// When it was last looked whether topics are those that they were; none is asked about before its first use.
    looked: Instant,
    used: Vec<TopicHandle>,
}

/// The pipeline's own topics, and the schemas of what is written into them.
struct System {
    versions: TopicHandle,
    progress: TopicHandle,
    commands: Arc<Mutex<Tail>>,
    event_schema: u32,
    progress_schema: u32,
}

impl KafkaPublisher {
    /// Connects to the brokers and the registry; nothing is written before [`Publisher::start`].
    ///
    /// # Errors
    ///
    /// `Refused` within ten seconds: a wrong password, certificate or address. `Transient`: the brokers are not reachable now. A registry
    /// that is not is asked again by [`Publisher::start`].
    pub async fn connect(topics: &KafkaTopics, pipeline: &str, prefix: &str) -> Result<Self, CaptureError> {
        let registry = Registry::new(topics)?;
        let client = format!("instar-{pipeline}-source");
        let (settings, name) = (topics.clone(), client.clone());
        let connecting = blocking(move || {
            let cluster = Cluster::connect(&settings, &name).map_err(failed)?;
            let reader = Reader::open(&settings, &name, AHEAD_KB).map_err(failed)?;
            Ok((cluster, reader))
        });
        let reaching = async {
            match registry.reach().await {
                Err(CaptureError::Transient(reason)) => {
                    tracing::warn!(reason, "the registry is asked again");
                    Ok(())
                }
                reached => reached,
            }
        };
        let ((cluster, reader), ()) = tokio::try_join!(connecting, reaching)?;
        Ok(Self {
            cluster,
            reader,
            registry,
            client,
            prefix: prefix.to_owned(),
            topics: Vec::new(),
            lanes: Vec::new(),
            names: Vec::new(),
            by_name: HashMap::new(),
            system: None,
            producers: VecDeque::new(),
            open: Transaction::default(),
            spare: Transaction::default(),
            under_way: None,
            buffer: Vec::new(),
            looked: Instant::now(),
            used: Vec::new(),
        })
    }

    /// Asks the cluster on a thread that may block. A fault that passes names the brokers.
    async fn asked<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T, CaptureError> + Send + 'static) -> Result<T, CaptureError> {
        let brokers = &self.cluster.settings().brokers;
        blocking(work).await.map_err(|error| match error {
            CaptureError::Transient(reason) if !reason.contains(brokers.as_str()) => {
                CaptureError::Transient(format!("topics.kafka.brokers {brokers}: {reason}"))
            }
            error => error,
        })
    }

    fn system(&self) -> Result<&System, CaptureError> {
        self.system.as_ref().ok_or_else(|| CaptureError::Transport("the publisher is used before it was started".into()))
    }

    /// Forgets everything that is not committed.
    async fn abandon(&mut self) {
        // What became of it, the newest progress tells.
        let _ended = self.settle().await;
        self.open.clear();
        self.system = None;
        self.used.clear();
        let producers = std::mem::take(&mut self.producers);
        // Their end takes a moment.
        let _ended = tokio::task::spawn_blocking(move || drop(producers)).await;
    }

    fn keep(&mut self, facts: TopicFacts) -> TopicHandle {
        if let Some(handle) = self.by_name.get(&facts.name).copied() {
            self.topics[handle.0] = facts;
            return handle;
        }
        let handle = TopicHandle(self.topics.len());
        self.by_name.insert(facts.name.clone(), handle);
        self.names.push(facts.name.as_str().into());
        self.lanes.push(facts.partitions);
        self.topics.push(facts);
        handle
    }

    /// Makes or checks the pipeline's own topics.
    async fn own_topics(&mut self) -> Result<[TopicHandle; 3], CaptureError> {
        let wanted = own_topics(&self.prefix);
        let cluster = self.cluster.clone();
        let found = self.asked(move || {
            let ensure = |(name, keep): &(String, Keep)| one_lane(cluster.ensure(name, 1, *keep).map_err(failed)?);
            wanted.iter().map(ensure).collect::<Result<Vec<_>, _>>()
        });
        let mut handles = found.await?.into_iter().map(|facts| self.keep(facts));
        match (handles.next(), handles.next(), handles.next()) {
            (Some(versions), Some(progress), Some(commands)) => Ok([versions, progress, commands]),
            (_, _, _) => Err(CaptureError::Transport("the pipeline's own topics are not all there".into())),
        }
    }

    /// Adds a record of the pipeline's own to the open transaction.
    fn add_own(&mut self, topic: TopicHandle, key: Option<&[u8]>) -> Result<(), CaptureError> {
        let (size, largest) = (self.buffer.len(), self.largest(topic));
        if size > largest {
            let name = self.names.get(topic.0).cloned().unwrap_or_default();
            return Err(CaptureError::Blocked {
                message: format!(
                    "a record of {size} bytes is larger than topic {name} takes ({largest} bytes): raise max.message.bytes of the topic; the \
                     source then goes on by itself"
                ),
            });
        }
        self.open.add(Outgoing { topic, lane: 0, key, value: &self.buffer });
        Ok(())
    }

    /// Now and then: whether the topics in use are those that were found. One that was made anew has lost its rows.
    async fn look(&mut self) -> Result<(), CaptureError> {
        if self.looked.elapsed() < LOOK || self.used.is_empty() {
            return Ok(());
        }
        self.looked = Instant::now();
        let cluster = self.cluster.clone();
        let used: Vec<TopicFacts> = self.used.iter().filter_map(|handle| self.topics.get(handle.0).cloned()).collect();
        self.asked(move || {
            let names: Vec<&str> = used.iter().map(|facts| facts.name.as_str()).collect();
            let ids = cluster.identities(&names).map_err(failed)?;
            match used.iter().zip(ids).find(|(facts, id)| id.as_ref() != Some(&facts.id)) {
                None => Ok(()),
                // The next start finds it or makes it, and compares with what is recorded.
                Some((facts, _)) => Err(CaptureError::Transient(format!("topic {} was deleted or made anew", facts.name))),
            }
        })
        .await
    }
}

/// The pipeline's own topics with what each keeps: schema versions, progress, commands.
fn own_topics(prefix: &str) -> [(String, Keep); 3] {
    [(names::versions(prefix), Keep::Forever), (names::progress(prefix), Keep::Newest), (names::commands(prefix), Keep::Forever)]
}

fn one_lane(facts: TopicFacts) -> Result<TopicFacts, CaptureError> {
    match facts.partitions {
        1 => Ok(facts),
        more => Err(CaptureError::Refused(format!(
            "topic {} has {more} partitions and must have one: delete it where it is empty, or give this pipeline another topics.prefix",
            facts.name
        ))),
    }
}

/// Of the two producers.
fn transactional_ids(prefix: &str) -> [String; 2] {
    [format!("instar-{prefix}"), format!("instar-{prefix}-2")]
}

impl Publisher for KafkaPublisher {
    async fn start(&mut self) -> Result<Option<Progress>, CaptureError> {
        self.abandon().await;
        let [versions, progress, commands] = self.own_topics().await?;
        let name = |handle: TopicHandle| self.names.get(handle.0).map(|name| name.to_string()).unwrap_or_default();
        let (versions_name, progress_name, commands_name) = (name(versions), name(progress), name(commands));
        let event_schema = self.registry.register(&names::value_subject(&versions_name), &event_schema()).await?;
        let progress_schema = self.registry.register(&names::value_subject(&progress_name), &progress_schema()).await?;
        let batch = self.topics.iter().map(|facts| facts.largest).fold(BATCH, usize::min);
        let (settings, client, ids) = (self.cluster.settings().clone(), self.client.clone(), transactional_ids(&self.prefix));
        let reader = self.reader.clone();
        let (producers, last) = self
            .asked(move || {
                let open = |id: &String| Producer::open(&settings, &client, id, batch).map(Arc::new);
                let producers = ids.iter().map(open).collect::<Result<_, _>>()?;
                // Behind the fences: nothing can be added any more by an older source.
                let last = Tail::new(reader, progress_name, || {}).newest().map_err(failed)?;
                Ok((producers, last))
            })
            .await?;
        self.producers = producers;
        let commands = Arc::new(Mutex::new(Tail::new(self.reader.clone(), commands_name, || {})));
        self.system = Some(System { versions, progress, commands, event_schema, progress_schema });
        self.looked = Instant::now();
        let read = |record: Vec<u8>| {
            read_progress(&record).map_err(|e| CaptureError::Transport(format!("the progress of {} cannot be read: {e}", self.prefix)))
        };
        last.map(read).transpose()
    }

    async fn events(&mut self) -> Result<Vec<SchemaEvent>, CaptureError> {
        let name = names::versions(&self.prefix);
        let (reader, cluster) = (self.reader.clone(), self.cluster.clone());
        self.asked(move || {
            let mut events = Vec::new();
            // What is written is committed or aborted: no other source can have a transaction open.
            let written = cluster.written(&name, 1).map_err(failed)?.first().copied().unwrap_or(0);
            let read = Tail::new(reader, name.as_str(), || {}).read_to(0, written, |offset, record| {
                let event = read_event(record);
                events.push(
                    event.map_err(|e| ReadError::Own(CaptureError::Transport(format!("{name}: record {offset} cannot be read: {e}"))))?,
                );
                Ok(())
            });
            read.map_err(|e: ReadError| e.sorted("schema-version events are kept for ever, and the oldest are gone"))?;
            Ok(events)
        })
        .await
    }

    async fn commands(&mut self, from: Offset) -> Result<Vec<(Offset, Vec<u8>)>, CaptureError> {
        self.look().await?;
        let tail = self.system()?.commands.clone();
        self.asked(move || {
            let mut commands = Vec::new();
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            let read = tail.read(from, |offset, record| {
                commands.push((offset, record.to_vec()));
                Ok(())
            });
            read.map_err(|e: ReadError| e.sorted("commands are kept for ever, and those from the newest taken one on are gone"))?;
            Ok(commands)
        })
        .await
    }

    async fn topic(&mut self, name: &str, lanes: Option<u32>) -> Result<LiveTopic, CaptureError> {
        let (cluster, owned) = (self.cluster.clone(), name.to_owned());
        let partitions = lanes.unwrap_or(cluster.settings().partitions);
        // One that is in use has the limits that it had when its use began.
        let in_use =
            self.by_name.get(name).filter(|handle| self.used.contains(handle)).and_then(|handle| self.topics.get(handle.0)).cloned();
        let look = move || match in_use {
            Some(known) if cluster.is_still(&known)? => Ok(known),
            Some(_) | None => cluster.ensure(&owned, partitions, Keep::Broker),
        };
        let facts = self.asked(move || look().map_err(failed)).await?;
        let (has, id) = (facts.partitions, facts.id.clone());
        if let Some(wanted) = lanes.filter(|wanted| *wanted > has) {
            return Err(CaptureError::Stop {
                message: format!(
                    "topic {name} has {has} partitions, and {wanted} are recorded: it was made anew with fewer (shrunk). Way out: delete it, so \
                     that it is made with {wanted}; then load the table anew: `instar reload FILE TABLE`"
                ),
            });
        }
        let handle = self.keep(facts);
        let lanes = lanes.unwrap_or(has);
        self.lanes[handle.0] = lanes;
        if !self.used.contains(&handle) {
            self.used.push(handle);
        }
        Ok(LiveTopic { handle, lanes, id: Some(id) })
    }

    fn largest(&self, topic: TopicHandle) -> usize {
        self.topics.get(topic.0).map_or(0, |facts| facts.largest.saturating_sub(OVERHEAD))
    }

    async fn register(&mut self, subject: &str, schema: &Json) -> Result<u32, CaptureError> {
        self.registry.register(subject, schema).await
    }

    fn produce(&mut self, topic: TopicHandle, lane: u32, key: Option<&[u8]>, value: &[u8]) -> Result<(), CaptureError> {
        self.open.add(Outgoing { topic, lane, key, value });
        Ok(())
    }

    fn pending(&self) -> (usize, usize) {
        self.open.pending()
    }

    async fn commit_soon(&mut self, progress: &Progress) -> Result<(), CaptureError> {
        let (topic, schema) = self.system().map(|s| (s.progress, s.progress_schema))?;
        self.buffer.clear();
        // The pipeline's first event holds all its tables.
        self.buffer.shrink_to(BUFFER);
        put_progress(&mut self.buffer, schema, progress);
        self.add_own(topic, Some(self.prefix.clone().as_bytes()))?;
        self.settle().await?;
        let producer = self.producers.pop_front();
        let producer = producer.ok_or_else(|| CaptureError::Transport("the publisher is used before it was started".into()))?;
        self.producers.push_back(producer.clone());
        let transaction = std::mem::replace(&mut self.open, std::mem::take(&mut self.spare));
        let names = self.names.clone();
        self.under_way = Some(tokio::task::spawn_blocking(move || producer.commit(transaction, &names)));
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), CaptureError> {
        let Some(commit) = &mut self.under_way else { return Ok(()) };
        let ended = commit.await;
        self.under_way = None;
        self.spare = ended.map_err(|e| thread_ended(&e))??;
        Ok(())
    }

    async fn ends(&mut self, topic: TopicHandle) -> Result<Vec<Offset>, CaptureError> {
        self.settle().await?;
        let known = self.names.get(topic.0).cloned().zip(self.lanes.get(topic.0).copied());
        let (name, lanes) = known.ok_or_else(|| CaptureError::Transport(format!("topic number {} is not known", topic.0)))?;
        let cluster = self.cluster.clone();
        self.asked(move || cluster.written(&name, lanes).map_err(failed)).await
    }

    async fn commit_event(&mut self, event: &SchemaEvent, progress: &Progress) -> Result<(), CaptureError> {
        let (topic, schema) = self.system().map(|s| (s.versions, s.event_schema))?;
        self.buffer.clear();
        put_event(&mut self.buffer, schema, event);
        self.add_own(topic, None)?;
        self.commit(progress).await
    }
}

/// Why a small topic could not be read.
enum ReadError {
    Kafka(KafkaError),
    Own(CaptureError),
}

impl From<KafkaError> for ReadError {
    fn from(error: KafkaError) -> Self {
        Self::Kafka(error)
    }
}

impl ReadError {
    /// `gone`: what it means that the topic begins later.
    fn sorted(self, gone: &str) -> CaptureError {
        match self {
            Self::Own(error) => error,
            Self::Kafka(error @ KafkaError::Absent { .. }) => CaptureError::Stop {
                message: format!("{error}: {gone}. Way out: give this pipeline another topics.prefix, which loads all tables anew"),
            },
            Self::Kafka(error) => failed(error),
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, CaptureError> + Send + 'static) -> Result<T, CaptureError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) => Err(thread_ended(&e)),
    }
}

fn thread_ended(error: &JoinError) -> CaptureError {
    CaptureError::Transport(format!("a thread of the publisher ended: {error}"))
}

fn failed(error: KafkaError) -> CaptureError {
    match error {
        KafkaError::Transient(message) => CaptureError::Transient(message),
        KafkaError::Refused(message) => CaptureError::Refused(message),
        KafkaError::Fenced(message) => CaptureError::Fenced(message),
        KafkaError::Topic(message) => CaptureError::Stop { message },
        e @ KafkaError::Absent { .. } => CaptureError::Stop { message: e.to_string() },
    }
}
