//! A cluster's topics: made, checked and described; and the operators' commands written.

use std::{
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Poll, Wake, Waker},
    thread::Thread,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientContext, Message as _,
    admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication},
    client::OAuthToken,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    error::{KafkaError as LibraryError, RDKafkaErrorCode},
    producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext},
};

use super::{
    KafkaError,
    connection::{Context, client_config},
    describe::{self, Isolation},
    events::Heard,
    patience::{AGAIN, PATIENCE, patiently},
    sorted,
};
use crate::config::KafkaTopics;

/// One request.
const REQUEST: Duration = Duration::from_secs(5);
/// The brokers' own topic of consumer groups.
const GROUPS: &str = "__consumer_offsets";

/// What a topic keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Everything, for ever: checked where the topic is there already.
    Forever,
    /// The newest record of each key.
    Newest,
    /// As the broker says.
    Broker,
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicFacts {
    pub name: String,
    /// Another one for a topic of this name that was made anew.
    pub id: String,
    pub partitions: u32,
    /// The largest record it takes, in bytes.
    pub largest: usize,
}

/// A connection for questions and orders.
#[derive(Clone)]
pub struct Cluster {
    topics: Arc<KafkaTopics>,
    heard: Arc<Heard>,
    client: String,
}

impl Cluster {
    /// Connects, so that a wrong address, password or certificate is known within ten seconds.
    pub fn connect(topics: &KafkaTopics, client: &str) -> Result<Self, KafkaError> {
        let mut config = client_config(topics, client);
        config.set_log_level(RDKafkaLogLevel::Info);
        let admin = AdminClient::from_config_and_context(&config, Context::new(topics)).map_err(|e| sorted("topics.kafka", &e))?;
        let heard = Arc::new(Heard::new(admin)?);
        let cluster = Self { topics: Arc::new(topics.clone()), heard, client: client.to_owned() };
        cluster.reach()?;
        Ok(cluster)
    }

    fn reach(&self) -> Result<(), KafkaError> {
        let deadline = Instant::now() + PATIENCE;
        let (client, brokers) = (self.heard.admin.inner(), &self.topics.brokers);
        loop {
            let answer = client.fetch_metadata(Some(GROUPS), Duration::from_millis(500));
            let Err(error) = answer else {
                client.context().forget();
                return Ok(());
            };
            if let Some(refusal) = client.context().refusal() {
                return Err(KafkaError::Refused(format!("topics.kafka.brokers {brokers}: {refusal}")));
            }
            if Instant::now() >= deadline {
                let reason = client.context().unreachable().unwrap_or_else(|| error.to_string());
                return Err(KafkaError::Transient(format!("topics.kafka.brokers {brokers}: {reason}")));
            }
        }
    }

    pub fn settings(&self) -> &KafkaTopics {
        &self.topics
    }

    /// The topic, if it is there.
    pub fn find(&self, name: &str) -> Result<Option<TopicFacts>, KafkaError> {
        let Some(described) = self.describe(&[name])?.pop().flatten() else { return Ok(None) };
        let largest = self.setting(name, "max.message.bytes")?.and_then(|v| v.parse().ok()).unwrap_or(1_048_588);
        Ok(Some(TopicFacts { name: name.to_owned(), id: described.id, partitions: described.partitions, largest }))
    }

    /// Whether there is this very topic, with as many partitions.
    pub fn is_still(&self, known: &TopicFacts) -> Result<bool, KafkaError> {
        let described = self.describe(&[&known.name])?.pop().flatten();
        Ok(described.is_some_and(|d| d.id == known.id && d.partitions == known.partitions))
    }

    /// The identities of topics, in this order; None where there is none of that name.
    pub fn identities(&self, names: &[&str]) -> Result<Vec<Option<String>>, KafkaError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.describe(names)?.into_iter().map(|d| d.map(|d| d.id)).collect())
    }

    #[expect(unsafe_code, reason = "the client library's own interface")]
    fn describe(&self, names: &[&str]) -> Result<Vec<Option<describe::Described>>, KafkaError> {
        self.ask(names.first().copied().unwrap_or_default(), || {
            // SAFETY: the client lives as long as the cluster.
            unsafe { describe::topics(self.heard.admin.inner().native_ptr(), names, REQUEST) }
        })
    }

    /// Asks about a topic, until the brokers know.
    fn ask<T>(&self, topic: &str, question: impl FnMut() -> Result<T, KafkaError>) -> Result<T, KafkaError> {
        patiently(self.heard.admin.inner(), topic, question)
    }

    /// Finds the topic, or makes it with so many partitions; checks that it keeps what it must.
    pub fn ensure(&self, name: &str, partitions: u32, keep: Keep) -> Result<TopicFacts, KafkaError> {
        if let Some(found) = self.find(name)? {
            self.check_keep(name, keep)?;
            return Ok(found);
        }
        self.create(name, partitions, keep)?;
        // The broker that answers may learn of it a moment later.
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.find(name)? {
                Some(made) => return Ok(made),
                None if Instant::now() < deadline => std::thread::sleep(AGAIN),
                None => return Err(KafkaError::Transient(format!("topic {name} was made, but the broker does not show it"))),
            }
        }
    }

    fn create(&self, name: &str, partitions: u32, keep: Keep) -> Result<(), KafkaError> {
        self.ask(name, || self.create_once(name, partitions, keep))
    }

    fn create_once(&self, name: &str, partitions: u32, keep: Keep) -> Result<(), KafkaError> {
        let what = format!("topic {name} cannot be created");
        let replication = TopicReplication::Fixed(i32::from(self.topics.replication));
        let mut topic = NewTopic::new(name, i32::try_from(partitions).unwrap_or(i32::MAX), replication);
        let settings: &[(&str, &str)] = match keep {
            Keep::Forever => &[("cleanup.policy", "delete"), ("retention.ms", "-1"), ("retention.bytes", "-1")],
            Keep::Newest => &[
                ("cleanup.policy", "compact"),
                ("segment.bytes", "16777216"),
                ("segment.ms", "3600000"),
                ("min.cleanable.dirty.ratio", "0.1"),
            ],
            Keep::Broker => &[],
        };
        for (key, value) in settings {
            topic = topic.set(key, value);
        }
        let options = AdminOptions::new().request_timeout(Some(REQUEST)).operation_timeout(Some(REQUEST));
        let results = wait(self.heard.admin.create_topics(&[topic], &options)).map_err(|e| sorted(&what, &e))?;
        for result in results {
            match result {
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((_, code)) => return Err(super::sorted_code(code, format!("{what}: {code}"))),
            }
        }
        Ok(())
    }

    /// Whether the topic, which is there, keeps what it must.
    pub fn check_keep(&self, name: &str, keep: Keep) -> Result<(), KafkaError> {
        let wrong: Vec<String> = match keep {
            Keep::Broker => return Ok(()),
            Keep::Newest => self.differing(name, &[("cleanup.policy", "compact")])?,
            Keep::Forever => self.differing(name, &[("cleanup.policy", "delete"), ("retention.ms", "-1"), ("retention.bytes", "-1")])?,
        };
        if wrong.is_empty() {
            return Ok(());
        }
        let why = match keep {
            Keep::Forever => "its records must be kept for ever",
            Keep::Newest | Keep::Broker => "it must keep the newest record",
        };
        Err(KafkaError::Topic(format!("topic {name} has {}: {why}; alter the topic", wrong.join(", "))))
    }

    fn differing(&self, name: &str, wanted: &[(&str, &str)]) -> Result<Vec<String>, KafkaError> {
        let mut wrong = Vec::new();
        for (key, want) in wanted {
            let is = self.setting(name, key)?;
            if is.as_deref().is_some_and(|is| is != *want) {
                wrong.push(format!("{key}={} instead of {want}", is.unwrap_or_default()));
            }
        }
        Ok(wrong)
    }

    /// One setting of a topic; None where the rights to see it are missing.
    fn setting(&self, name: &str, key: &str) -> Result<Option<String>, KafkaError> {
        self.ask(name, || self.setting_once(name, key))
    }

    fn setting_once(&self, name: &str, key: &str) -> Result<Option<String>, KafkaError> {
        let what = format!("topic {name}: its settings");
        let options = AdminOptions::new().request_timeout(Some(REQUEST));
        let results =
            wait(self.heard.admin.describe_configs(&[ResourceSpecifier::Topic(name)], &options)).map_err(|e| sorted(&what, &e))?;
        match results.into_iter().next() {
            Some(Ok(resource)) => Ok(resource.get(key).and_then(|entry| entry.value.clone())),
            Some(Err(RDKafkaErrorCode::TopicAuthorizationFailed)) | None => Ok(None),
            Some(Err(code)) => Err(super::sorted_code(code, format!("{what}: {code}"))),
        }
    }

    /// The end of each lane, behind everything that was written: what is committed later comes at or above it.
    pub fn written(&self, topic: &str, lanes: u32) -> Result<Vec<u64>, KafkaError> {
        self.ends(topic, lanes, Isolation::Written)
    }

    /// The end of each lane, behind what readers of committed records see.
    pub fn committed(&self, topic: &str, lanes: u32) -> Result<Vec<u64>, KafkaError> {
        self.ends(topic, lanes, Isolation::Committed)
    }

    #[expect(unsafe_code, reason = "the client library's own interface")]
    fn ends(&self, topic: &str, lanes: u32, isolation: Isolation) -> Result<Vec<u64>, KafkaError> {
        self.ask(topic, || {
            // SAFETY: the client lives as long as the cluster.
            unsafe { describe::ends(self.heard.admin.inner().native_ptr(), topic, lanes, isolation, REQUEST) }
        })
    }

    /// How many members a consumer group has.
    pub fn members(&self, group: &str) -> Result<usize, KafkaError> {
        let admin = self.heard.admin.inner();
        let list = self.ask(GROUPS, || admin.fetch_group_list(Some(group), REQUEST).map_err(|e| sorted(&format!("group {group}"), &e)))?;
        Ok(list.groups().iter().filter(|g| g.name() == group).map(|g| g.members().len()).sum())
    }

    /// Writes one record to partition 0 and waits until it is safe; returns its offset.
    pub fn append(&self, topic: &str, record: &[u8]) -> Result<u64, KafkaError> {
        let what = format!("topic {topic}: the record cannot be written");
        let mut config = client_config(&self.topics, &self.client);
        config.set("enable.idempotence", "true").set("message.timeout.ms", "10000").set("linger.ms", "0");
        let context = Receipts(Context::new(&self.topics));
        let producer: BaseProducer<Receipts> = BaseProducer::from_config_and_context(&config, context).map_err(|e| sorted(&what, &e))?;
        let receipt = Arc::new(Mutex::new(None));
        let message = BaseRecord::<(), [u8], _>::with_opaque_to(topic, receipt.clone()).partition(0).payload(record);
        producer.send(message).map_err(|(e, _)| sorted(&what, &e))?;
        producer.flush(Duration::from_secs(11)).map_err(|e| sorted(&what, &e))?;
        let received = receipt.lock().unwrap_or_else(PoisonError::into_inner).take();
        match received {
            Some(Ok(offset)) => Ok(offset),
            Some(Err(error)) => Err(sorted(&what, &error)),
            None => Err(KafkaError::Transient(format!("{what}: no answer came"))),
        }
    }
}

/// What became of one record.
type Receipt = Arc<Mutex<Option<Result<u64, LibraryError>>>>;

struct Receipts(Context);

impl ClientContext for Receipts {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.0.log(level, facility, message);
    }

    fn error(&self, error: LibraryError, reason: &str) {
        self.0.error(error, reason);
    }

    fn generate_oauth_token(&self, config: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        self.0.generate_oauth_token(config)
    }
}

impl ProducerContext for Receipts {
    type DeliveryOpaque = Receipt;

    fn delivery(&self, result: &DeliveryResult<'_>, receipt: Receipt) {
        let outcome = match result {
            Ok(message) => Ok(u64::try_from(message.offset()).unwrap_or(0)),
            Err((error, _)) => Err(error.clone()),
        };
        *receipt.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for one of the library's answers on this thread.
fn wait<F: Future>(answer: F) -> F::Output {
    let mut answer = pin!(answer);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    loop {
        match answer.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}
