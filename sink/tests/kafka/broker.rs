//! Topics of a test's own, and what a source does to them.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant, SystemTime},
};

use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    producer::{BaseProducer, BaseRecord, Producer},
};
use runtime::{
    config::{KafkaTopics, RegistryAuth, Tls, TlsMode, Url},
    kafka::Cluster,
};
use sink::{
    consumer::{Block, Consumer, Proof, kafka::KafkaConsumer},
    error::SinkError,
};

const PATIENCE: Duration = Duration::from_secs(30);

pub fn settings(brokers: &str) -> KafkaTopics {
    KafkaTopics {
        brokers: brokers.to_owned(),
        registry: Url {
            scheme: "http".into(),
            user: None,
            password: None,
            host: "127.0.0.1".into(),
            port: Some(1),
            database: None,
            parameters: BTreeMap::new(),
        },
        partitions: 1,
        replication: 1,
        properties: BTreeMap::new(),
        tls: None,
        sasl: None,
        registry_auth: RegistryAuth::None,
        registry_tls: Tls { mode: TlsMode::Disable, ..Tls::default() },
    }
}

/// One test's pipeline.
pub struct Broker {
    pub settings: KafkaTopics,
    pub prefix: String,
    pub cluster: Cluster,
    admin: AdminClient<DefaultClientContext>,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Broker {
    pub fn shared(name: &str) -> Self {
        let brokers = std::env::var("INSTAR_TEST_KAFKA").expect("INSTAR_TEST_KAFKA=host:port of a broker for tests");
        Self::at(&brokers, name)
    }

    pub fn at(brokers: &str, name: &str) -> Self {
        let settings = settings(brokers);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        let prefix = format!("{name}-{since}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let cluster = Cluster::connect(&settings, "test").unwrap();
        let admin = ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap();
        Self { settings, prefix, cluster, admin }
    }

    pub fn consumer(&self) -> KafkaConsumer {
        KafkaConsumer::connect(&self.settings, &self.prefix, "warehouse").unwrap()
    }

    /// Makes a topic; returns its full name.
    pub fn topic(&self, name: &str, lanes: i32) -> String {
        let name = format!("{}.{name}", self.prefix);
        let topic = NewTopic::new(&name, lanes, TopicReplication::Fixed(1));
        let made = block_on(self.admin.create_topics(&[topic], &AdminOptions::new())).unwrap();
        made.into_iter().for_each(|made| drop(made.unwrap()));
        until("the topic is there", || self.cluster.find(&name).unwrap());
        name
    }

    pub fn id(&self, topic: &str) -> String {
        self.cluster.find(topic).unwrap().unwrap().id
    }

    pub fn delete(&self, topic: &str) {
        let deleted = block_on(self.admin.delete_topics(&[topic], &AdminOptions::new())).unwrap();
        deleted.into_iter().for_each(|deleted| drop(deleted.unwrap()));
        until("the topic is gone", || self.cluster.find(topic).unwrap().is_none().then_some(()));
    }

    /// Rows below `offset` expire.
    pub fn expire(&self, topic: &str, lane: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, lane, Offset::Offset(offset)).unwrap();
        block_on(self.admin.delete_records(&list, &AdminOptions::new())).unwrap();
    }

    pub fn ends(&self, topic: &str, lanes: u32) -> Vec<u64> {
        self.cluster.written(topic, lanes).unwrap()
    }

    /// A source, by its transactional id; fences the one before.
    pub fn source(&self, id: &str) -> Source {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.settings.brokers).set("transactional.id", format!("{}-{id}", self.prefix));
        let producer: BaseProducer = config.set("linger.ms", "0").set("transaction.timeout.ms", "20000").create().unwrap();
        producer.init_transactions(PATIENCE).unwrap();
        Source { producer }
    }
}

pub fn block_on<F: Future>(future: F) -> F::Output {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime.block_on(future),
        Err(_) => tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future),
    }
}

/// Waits for a condition.
pub fn until<R>(what: &str, mut condition: impl FnMut() -> Option<R>) -> R {
    let begun = Instant::now();
    loop {
        if let Some(result) = condition() {
            return result;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub struct Source {
    producer: BaseProducer,
}

impl Source {
    pub fn begin(&self) {
        self.producer.begin_transaction().unwrap();
    }

    /// Each record's key and value are its name.
    pub fn send(&self, topic: &str, lane: i32, names: &[&str]) {
        for name in names {
            self.producer.send(BaseRecord::to(topic).partition(lane).key(*name).payload(*name)).unwrap();
        }
        self.flush();
    }

    pub fn tombstone(&self, topic: &str, lane: i32, key: &str) {
        self.producer.send(BaseRecord::<str, str>::to(topic).partition(lane).key(key)).unwrap();
        self.flush();
    }

    pub fn value(&self, topic: &str, lane: i32, value: &[u8]) {
        self.producer.send(BaseRecord::<str, [u8]>::to(topic).partition(lane).payload(value)).unwrap();
        self.flush();
    }

    /// The library's own flush looks up every 100 ms.
    fn flush(&self) {
        let begun = Instant::now();
        while self.producer.in_flight_count() > 0 {
            assert!(begun.elapsed() < PATIENCE, "the records do not go out");
            self.producer.poll(Duration::from_millis(1));
        }
    }

    pub fn commit(&self) {
        self.producer.commit_transaction(PATIENCE).unwrap();
    }

    pub fn abort(&self) {
        self.producer.abort_transaction(PATIENCE).unwrap();
    }

    /// One transaction with these records of one lane.
    pub fn publish(&self, topic: &str, lane: i32, names: &[&str]) {
        self.begin();
        self.send(topic, lane, names);
        self.commit();
    }
}

/// One lane as a sink reads it.
#[derive(Debug)]
pub struct Reading {
    pub topic: String,
    pub lane: u32,
    pub at: u64,
    /// By offset, as text.
    pub rows: Vec<(u64, String)>,
}

impl Reading {
    pub fn new(topic: &str, lane: u32, from: u64) -> Self {
        Self { topic: topic.to_owned(), lane, at: from, rows: Vec::new() }
    }

    /// Takes what is there, if it is proved to be the topic's. True: all that is committed was read.
    pub fn step(&mut self, consumer: &KafkaConsumer, id: Option<&str>, bytes: usize) -> Result<bool, SinkError> {
        let block = consumer.fetch(&self.topic, id, self.lane, self.at, bytes)?;
        if let Some(id) = id
            && !block_on(consumer.prove([(self.topic.as_str(), id)].into_iter()).holds())?
        {
            return Ok(false);
        }
        for record in block.records() {
            assert_eq!(record.key, Some(record.value));
            assert!(record.offset >= self.at, "{record:?} before {}", self.at);
            self.rows.push((record.offset, String::from_utf8(record.value.to_vec()).unwrap()));
        }
        assert!(block.next() >= self.at);
        self.at = block.next();
        Ok(block.whole())
    }

    /// Reads on until the position is there.
    pub fn to(&mut self, consumer: &KafkaConsumer, position: u64) {
        let what = format!("{} lane {} reaches {position}", self.topic, self.lane);
        until(&what, || {
            self.step(consumer, None, 1 << 20).unwrap();
            (self.at >= position).then_some(())
        });
    }

    pub fn names(&self) -> Vec<&str> {
        self.rows.iter().map(|(_, name)| name.as_str()).collect()
    }

    /// Reads until this stop comes; returns its message.
    pub fn stop(&mut self, consumer: &KafkaConsumer, id: Option<&str>) -> String {
        until("the stop", || match self.step(consumer, id, 1 << 20) {
            Ok(_) => None,
            Err(SinkError::Stop { message }) => Some(message),
            Err(other) => panic!("{other}"),
        })
    }
}
