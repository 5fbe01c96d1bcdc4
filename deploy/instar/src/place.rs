//! Where a pipeline's topics are, as processes and commands come to them.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use runtime::{
    config::KafkaTopics,
    kafka::{Cluster, KafkaError, Reader, Tail},
    log::{Keep, Log, LogError, Topic},
};
use schemas::{
    command::Command,
    event::{Offset, Progress, SourceState},
    wire::names,
};
use sink::{
    consumer::{
        kafka::{self, KafkaConsumer},
        local::LocalConsumer,
    },
    error::SinkError,
    postgres::{PostgresSession, PostgresTarget},
    status::{
        Liveness, SinkSnapshot,
        gather::{self, Topics},
    },
};

use crate::exit::Failure;

/// The topics of one pipeline.
#[derive(Clone)]
pub struct Place {
    prefix: String,
    topics: Transport,
}

#[derive(Clone)]
enum Transport {
    /// A local log that nobody has made yet.
    Nothing,
    Local(Log),
    Kafka(Arc<Broker>),
}

/// A Kafka cluster, as those see it who only look and give orders.
struct Broker {
    cluster: Cluster,
    consumer: KafkaConsumer,
}

impl Place {
    pub fn local(prefix: &str, log: Option<Log>) -> Self {
        Self { prefix: prefix.to_owned(), topics: log.map_or(Transport::Nothing, Transport::Local) }
    }

    /// Connects, or says within ten seconds why not.
    pub async fn kafka(prefix: &str, topics: &KafkaTopics) -> Result<Self, Failure> {
        let (topics, name) = (topics.clone(), prefix.to_owned());
        let connected = tokio::task::spawn_blocking(move || {
            let cluster = Cluster::connect(&topics, &format!("instar-{name}")).map_err(|e| Failure::error(e.to_string()))?;
            let consumer = KafkaConsumer::reader(&topics, &name).map_err(|e| Failure::error(e.to_string()))?;
            Ok::<_, Failure>(Broker { cluster, consumer })
        });
        let broker = connected.await.map_err(|e| Failure::error(e.to_string()))??;
        Ok(Self { prefix: prefix.to_owned(), topics: Transport::Kafka(Arc::new(broker)) })
    }

    /// Whether commands find here what other processes do, and need not look for one to ask.
    pub fn is_shared(&self) -> bool {
        match &self.topics {
            Transport::Kafka(_) => true,
            Transport::Nothing | Transport::Local(_) => false,
        }
    }

    /// What the topics say.
    pub async fn topics(&self) -> Result<Topics, SinkError> {
        match &self.topics {
            Transport::Nothing => Ok(Topics::default()),
            Transport::Local(log) => Topics::read(&LocalConsumer::reader(log.clone(), &self.prefix, "")).await,
            Transport::Kafka(broker) => Topics::read(&broker.consumer).await,
        }
    }

    /// One sink, as its target and the topics know it.
    pub async fn sink(
        &self,
        name: &str,
        target: &PostgresTarget,
        session: &mut Option<PostgresSession>,
        topics: &Topics,
        process: Liveness,
    ) -> SinkSnapshot {
        match &self.topics {
            Transport::Nothing => SinkSnapshot::nothing(process),
            Transport::Local(log) => {
                let consumer = LocalConsumer::reader(log.clone(), &self.prefix, name);
                gather::sink(name, target, session, &consumer, topics, process).await
            }
            Transport::Kafka(broker) => gather::sink(name, target, session, &broker.consumer, topics, process).await,
        }
    }

    /// What the source of another process does, by what it left in the topics.
    pub fn elsewhere(&self, progress: Option<&Progress>) -> Liveness {
        match (&self.topics, progress) {
            (Transport::Nothing | Transport::Local(_), _) | (Transport::Kafka(_), None) => Liveness::Down,
            (Transport::Kafka(_), Some(progress)) => match progress.state {
                SourceState::Stopped => Liveness::Stopped(progress.message.clone()),
                _ if progress.due_ms < now_ms() => Liveness::Down,
                SourceState::Running => Liveness::Running,
                SourceState::Retrying => Liveness::Retrying(progress.message.clone()),
                SourceState::Paused => Liveness::Paused,
            },
        }
    }

    /// What the instances of a sink in other processes do; an error: the brokers cannot be asked.
    pub async fn sink_elsewhere(&self, sink: &str) -> Result<Liveness, SinkError> {
        match &self.topics {
            Transport::Nothing | Transport::Local(_) => Ok(Liveness::Down),
            Transport::Kafka(broker) => {
                let group = kafka::group(&self.prefix, sink);
                let members = broker.ask(move |b| b.cluster.members(&group)).await?;
                Ok(if members == 0 { Liveness::Down } else { Liveness::Running })
            }
        }
    }

    /// Whether the source has ever published.
    pub async fn begun(&self) -> Result<bool, SinkError> {
        let progress = names::progress(&self.prefix);
        self.end(progress).await.map(|end| end > 0)
    }

    /// The end of the commands topic.
    pub async fn commands(&self) -> Result<Offset, SinkError> {
        self.end(names::commands(&self.prefix)).await
    }

    /// The commands from this offset on.
    pub async fn commands_from(&self, from: Offset) -> Result<Vec<Command>, SinkError> {
        let topic = names::commands(&self.prefix);
        let records = match &self.topics {
            Transport::Nothing => Vec::new(),
            Transport::Local(log) => match log.find(&topic) {
                Some(topic) => local_records(log, &topic, from).map_err(|e| SinkError::Refused(e.to_string()))?,
                None => Vec::new(),
            },
            Transport::Kafka(broker) => broker.ask(move |b| b.records(&topic, from)).await?,
        };
        // What cannot be read the source passes over, with a warning.
        Ok(records.iter().filter_map(|record| Command::parse(record).ok()).collect())
    }

    /// The end of a topic of one lane; 0 where there is no such topic.
    async fn end(&self, topic: String) -> Result<Offset, SinkError> {
        match &self.topics {
            Transport::Nothing => Ok(0),
            Transport::Local(log) => Ok(log.find(&topic).and_then(|t| log.ends(&t).first().copied()).unwrap_or(0)),
            Transport::Kafka(broker) => {
                let ends = broker.ask(move |b| match b.cluster.find(&topic)? {
                    Some(_) => b.cluster.written(&topic, 1),
                    None => Ok(Vec::new()),
                });
                Ok(ends.await?.first().copied().unwrap_or(0))
            }
        }
    }

    /// Puts an operator's command where the source reads it; returns its place.
    pub async fn command(&self, record: Vec<u8>) -> Result<Offset, SinkError> {
        let topic = names::commands(&self.prefix);
        match &self.topics {
            Transport::Nothing => Err(SinkError::Refused("the pipeline has never run".into())),
            Transport::Local(log) => {
                let log = log.clone();
                let appended = tokio::task::spawn_blocking(move || {
                    let topic = log.topic(&topic, Some(1), Keep::Forever)?;
                    let mut transaction = log.begin();
                    transaction.append(&topic, 0, None, &record)?;
                    transaction.commit()?;
                    Ok::<_, LogError>(log.ends(&topic).first().copied().unwrap_or(0))
                });
                let appended = appended.await.map_err(|e| SinkError::Refused(e.to_string()))?;
                appended.map_err(|e| SinkError::Refused(e.to_string()))
            }
            Transport::Kafka(broker) => broker.ask(move |b| b.cluster.append(&topic, &record)).await,
        }
    }
}

fn local_records(log: &Log, topic: &Topic, from: Offset) -> Result<Vec<Vec<u8>>, LogError> {
    let (mut records, mut at) = (Vec::new(), from);
    loop {
        let part = log.records(topic, 0, at, 1 << 16)?;
        if part.is_empty() {
            return Ok(records);
        }
        records.extend(part.iter().map(|record| record.value.to_vec()));
        at = part.next();
    }
}

impl Broker {
    fn records(&self, topic: &str, from: Offset) -> Result<Vec<Vec<u8>>, KafkaError> {
        let mut records = Vec::new();
        if self.cluster.find(topic)?.is_some() {
            let reader = Reader::open(self.cluster.settings(), "instar", 1024)?;
            Tail::new(reader, topic, || {}).read(from, |_, record| {
                records.push(record.to_vec());
                Ok::<(), KafkaError>(())
            })?;
        }
        Ok(records)
    }

    /// Asks the cluster on a thread that may block.
    async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Broker) -> Result<T, KafkaError> + Send + 'static,
    ) -> Result<T, SinkError> {
        let broker = self.clone();
        let asked = tokio::task::spawn_blocking(move || question(&broker)).await;
        asked.map_err(|e| SinkError::Refused(e.to_string()))?.map_err(kafka::failed)
    }
}

/// Milliseconds since 1970 UTC.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
