//! Topics and the schema registry as a test sees them, by clients of its own. Calls block for as long as the broker takes.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
};

/// How long a broker may take for anything; also one that was just started.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server's address from the environment: `variable("INSTAR_TEST_KAFKA_SASL")`.
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: tests/run starts the servers and sets it"))
}

pub fn brokers() -> String {
    variable("INSTAR_TEST_KAFKA")
}

pub fn registry() -> String {
    variable("INSTAR_TEST_REGISTRY")
}

/// A record of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub partition: usize,
    pub offset: u64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    /// Milliseconds since 1970.
    pub time: i64,
}

/// Where a partition begins and ends; what an open or aborted transaction wrote and the marks of transactions count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub low: u64,
    pub high: u64,
}

/// The topics of a broker.
pub struct Topics {
    config: ClientConfig,
    admin: AdminClient<DefaultClientContext>,
    /// For questions about bounds.
    asker: BaseConsumer,
}

impl Topics {
    /// Of the broker that all tests share.
    pub fn shared() -> Topics {
        Topics::of(&brokers())
    }

    pub fn of(brokers: &str) -> Topics {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", brokers)
            .set("reconnect.backoff.max.ms", "500")
            .set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
        let admin = config.create().expect("a Kafka client");
        let asker = Topics::consumer(&config, "read_uncommitted");
        Topics { config, admin, asker }
    }

    fn consumer(config: &ClientConfig, isolation: &str) -> BaseConsumer {
        let mut config = config.clone();
        config
            .set("group.id", "tests")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("fetch.queue.backoff.ms", "5")
            .set("fetch.wait.max.ms", "50")
            .set("isolation.level", isolation);
        config.create().expect("a Kafka consumer")
    }

    /// The partitions of each topic whose name begins with `prefix`.
    pub fn all(&self, prefix: &str) -> BTreeMap<String, usize> {
        let metadata = self.admin.inner().fetch_metadata(None, PATIENCE).unwrap_or_else(|e| panic!("topics: {e}"));
        let named = metadata.topics().iter().filter(|t| t.name().starts_with(prefix));
        named.map(|t| (t.name().to_owned(), t.partitions().len())).collect()
    }

    /// Makes a topic and waits until it can be used.
    pub async fn create(&self, name: &str, partitions: usize, settings: &[(&str, &str)]) {
        let mut topic = NewTopic::new(name, i32::try_from(partitions).expect("partitions"), TopicReplication::Fixed(1));
        for (key, value) in settings {
            topic = topic.set(key, value);
        }
        let results = self.admin.create_topics(&[topic], &options()).await;
        done("create", results.map(|all| all.into_iter().map(|r| r.map_err(|(name, code)| format!("{name}: {code}"))).collect()));
        wait_until(&format!("topic {name} is there"), || self.all(name).get(name) == Some(&partitions));
    }

    /// Removes topics and waits until they are gone. A name that is none is fine.
    pub async fn delete(&self, names: &[&str]) {
        if names.is_empty() {
            return;
        }
        let gone = |code: RDKafkaErrorCode| matches!(code, RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic);
        let results = self.admin.delete_topics(names, &options()).await;
        let results = results.map(|all| {
            all.into_iter().map(|r| r.or_else(|(name, code)| if gone(code) { Ok(name) } else { Err(format!("{name}: {code}")) })).collect()
        });
        done("delete", results);
        wait_until(&format!("{names:?} are gone"), || names.iter().all(|name| !self.all(name).contains_key(*name)));
    }

    /// Gives a topic more partitions.
    pub async fn grow(&self, name: &str, partitions: usize) {
        let results = self.admin.create_partitions(&[NewPartitions::new(name, partitions)], &options()).await;
        done("grow", results.map(|all| all.into_iter().map(|r| r.map_err(|(name, code)| format!("{name}: {code}"))).collect()));
        wait_until(&format!("topic {name} has grown"), || self.all(name).get(name) == Some(&partitions));
    }

    /// Changes settings of a topic; those that are not named fall back to the broker's.
    pub async fn set(&self, name: &str, settings: &[(&str, &str)]) {
        let mut change = AlterConfig::new(ResourceSpecifier::Topic(name));
        for (key, value) in settings {
            change = change.set(key, value);
        }
        let results = self.admin.alter_configs(&[change], &options()).await;
        done("set", results.map(|all| all.into_iter().map(|r| r.map_err(|(resource, code)| format!("{resource:?}: {code}"))).collect()));
    }

    /// Removes a partition's records below an offset, as retention does.
    pub async fn expire(&self, name: &str, partition: usize, below: u64) {
        let mut list = TopicPartitionList::new();
        let place = i32::try_from(partition).expect("a partition");
        list.add_partition_offset(name, place, Offset::Offset(i64::try_from(below).expect("an offset"))).expect("an offset");
        let left = self.admin.delete_records(&list, &options()).await.unwrap_or_else(|e| panic!("expire {name}: {e}"));
        for element in left.elements() {
            element.error().unwrap_or_else(|e| panic!("expire {name} {partition}: {e}"));
        }
    }

    /// Each partition's bounds.
    pub fn bounds(&self, name: &str) -> Vec<Bounds> {
        self.bounds_for(&self.asker, name)
    }

    /// As a consumer of its isolation has them.
    fn bounds_for(&self, consumer: &BaseConsumer, name: &str) -> Vec<Bounds> {
        let partitions = self.all(name).get(name).copied().unwrap_or_else(|| panic!("there is no topic {name}"));
        (0..partitions)
            .map(|partition| {
                let place = i32::try_from(partition).expect("a partition");
                // A topic made anew is known by its former one's leaders for a moment.
                let begin = Instant::now();
                let (low, high) = loop {
                    match consumer.fetch_watermarks(name, place, PATIENCE) {
                        Ok(bounds) => break bounds,
                        Err(e) => assert!(begin.elapsed() < PATIENCE, "{name} {partition}: {e}"),
                    }
                    std::thread::sleep(Duration::from_millis(50));
                };
                Bounds { low: low.try_into().expect("an offset"), high: high.try_into().expect("an offset") }
            })
            .collect()
    }

    /// The committed records, in each partition's order. An open transaction hides what lies behind its begin.
    pub fn committed(&self, name: &str) -> Vec<Record> {
        self.read(name, "read_committed")
    }

    /// All records, also those of open and aborted transactions.
    pub fn written(&self, name: &str) -> Vec<Record> {
        self.read(name, "read_uncommitted")
    }

    /// How many committed records each partition has.
    pub fn counts(&self, name: &str) -> Vec<u64> {
        let mut counts = vec![0; self.all(name).get(name).copied().unwrap_or_default()];
        for record in self.committed(name) {
            counts[record.partition] += 1;
        }
        counts
    }

    /// A reader of what is committed from now on.
    pub fn follow(&self, name: &str) -> BaseConsumer {
        let consumer = Topics::consumer(&self.config, "read_committed");
        let ends: Vec<Offset> = self.bounds(name).iter().map(|b| Offset::Offset(b.high.try_into().expect("an offset"))).collect();
        assign(&consumer, name, &ends);
        consumer
    }

    fn read(&self, name: &str, isolation: &str) -> Vec<Record> {
        // A broker that was killed gives at first less of a partition than it has; it tells no bounds until it gives all.
        let consumer = Topics::consumer(&self.config, isolation);
        let partitions = self.bounds_for(&consumer, name).len();
        assign(&consumer, name, &vec![Offset::Beginning; partitions]);
        let (mut records, mut ended) = (Vec::new(), 0);
        let mut last = Instant::now();
        while ended < partitions {
            assert!(last.elapsed() < PATIENCE, "{name}: the broker gives nothing more, {ended} of {partitions} partitions are read");
            match consumer.poll(Duration::from_millis(200)) {
                None => continue,
                Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
                Some(Err(KafkaError::MessageConsumption(code))) if transient(code) => continue,
                Some(Err(e)) => panic!("{name}: {e}"),
                Some(Ok(message)) => records.push(Record {
                    partition: usize::try_from(message.partition()).expect("a partition"),
                    offset: u64::try_from(message.offset()).expect("an offset"),
                    key: message.key().map(<[u8]>::to_vec),
                    value: message.payload().map(<[u8]>::to_vec),
                    time: message.timestamp().to_millis().unwrap_or(-1),
                }),
            }
            last = Instant::now();
        }
        records.sort_by_key(|r| (r.partition, r.offset));
        records
    }

    /// Removes every topic of a pipeline, and its subjects from the registry that all tests share.
    pub async fn forget(&self, prefix: &str) {
        let prefix = format!("{prefix}.");
        let names = self.all(&prefix);
        self.delete(&names.keys().map(String::as_str).collect::<Vec<_>>()).await;
        let registry = Registry::shared();
        for subject in registry.subjects().into_iter().filter(|s| s.starts_with(&prefix)) {
            registry.forget(&subject);
        }
    }
}

/// Lets a consumer read every partition from its offset on.
fn assign(consumer: &BaseConsumer, name: &str, offsets: &[Offset]) {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in (0..).zip(offsets) {
        list.add_partition_offset(name, partition, *offset).expect("an offset");
    }
    consumer.assign(&list).expect("the topic's partitions");
}

fn transient(code: RDKafkaErrorCode) -> bool {
    matches!(code, RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::UnknownTopicOrPartition)
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE))
}

fn done(what: &str, results: Result<Vec<Result<impl Sized, String>>, KafkaError>) {
    for result in results.unwrap_or_else(|e| panic!("{what}: {e}")) {
        if let Err(e) = result {
            panic!("{what}: {e}");
        }
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A schema registry without authentication, spoken to in plain HTTP.
#[derive(Debug)]
pub struct Registry {
    host: String,
    path: String,
}

impl Registry {
    pub fn shared() -> Registry {
        Registry::of(&registry())
    }

    pub fn of(url: &str) -> Registry {
        let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("{url} is not http"));
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        Registry { host: host.to_owned(), path: format!("/{path}") }
    }

    pub fn subjects(&self) -> Vec<String> {
        serde_json::from_str(&self.call("GET", "/subjects", "")).expect("a list of subjects")
    }

    /// The newest schema of a subject: its id and text.
    pub fn newest(&self, subject: &str) -> (u32, String) {
        let answer = self.call("GET", &format!("/subjects/{}/versions/latest", encoded(subject)), "");
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("a version");
        let id = answer["id"].as_u64().and_then(|n| n.try_into().ok()).expect("an id");
        (id, answer["schema"].as_str().expect("a schema").to_owned())
    }

    /// Registers a schema: its id, or the code and text of the refusal.
    pub fn register(&self, subject: &str, schema: &str) -> Result<u32, (u16, String)> {
        let body = serde_json::json!({ "schema": schema }).to_string();
        let path = format!("/subjects/{}/versions", encoded(subject));
        let (code, answer) = self.answer("POST", &path, &body);
        if code != 200 {
            return Err((code, answer));
        }
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("an id");
        Ok(answer["id"].as_u64().and_then(|n| n.try_into().ok()).expect("an id"))
    }

    /// Sets the compatibility level of a subject, which need not be there yet.
    pub fn set_level(&self, subject: &str, level: &str) {
        self.call("PUT", &format!("/config/{}", encoded(subject)), &format!("{{\"compatibility\":\"{level}\"}}"));
    }

    /// The compatibility level that a subject has of its own.
    pub fn level(&self, subject: &str) -> String {
        let answer = self.call("GET", &format!("/config/{}", encoded(subject)), "");
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("a configuration");
        answer["compatibilityLevel"].as_str().expect("a level").to_owned()
    }

    /// Removes a subject, if it is there, with all its versions and its level.
    pub fn forget(&self, subject: &str) {
        for how in ["", "?permanent=true"] {
            let path = format!("/subjects/{}{how}", encoded(subject));
            let (code, answer) = self.answer("DELETE", &path, "");
            assert!(matches!(code, 200 | 404), "DELETE {}{path}: {code} {answer}", self.host);
        }
    }

    /// The body of a successful answer.
    fn call(&self, method: &str, path: &str, body: &str) -> String {
        let (code, answer) = self.answer(method, path, body);
        assert!((200..300).contains(&code), "{method} {}{path}: {code} {answer}", self.host);
        answer
    }

    /// The first answer: a busy registry closes connections that it took without one, and every request here may be sent again.
    fn answer(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let begin = Instant::now();
        loop {
            match self.try_answer(method, path, body) {
                Ok(answer) => return answer,
                Err(e) => assert!(begin.elapsed() < PATIENCE, "{method} {}{path}: {e}", self.host),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn try_answer(&self, method: &str, path: &str, body: &str) -> std::io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(&self.host)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let request = format!(
            "{method} {}{path} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/vnd.schemaregistry.v1+json\r\nContent-Length: {}\r\n\r\n{body}",
            self.path,
            self.host,
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap_or(answer.len());
        let (head, body) = (String::from_utf8_lossy(&answer[..end]).to_lowercase(), answer.get(end + 4..).unwrap_or_default());
        let code = head.split_whitespace().nth(1).and_then(|c| c.parse().ok());
        let code = code.ok_or_else(|| std::io::Error::new(ErrorKind::UnexpectedEof, format!("no status: {head:?}")))?;
        // A long answer comes in pieces, also to a client of HTTP/1.0.
        let body = if head.contains("transfer-encoding: chunked") { joined(body) } else { body.to_vec() };
        Ok((code, String::from_utf8(body).map_err(std::io::Error::other)?))
    }
}

/// A body that comes in pieces, each behind its length in hexadecimal.
fn joined(mut pieces: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = pieces.windows(2).position(|bytes| bytes == b"\r\n") {
        let length = std::str::from_utf8(&pieces[..end]).ok().and_then(|hex| usize::from_str_radix(hex, 16).ok());
        let begin = end + 2;
        let end = begin + length.expect("the length of a piece");
        body.extend_from_slice(&pieces[begin..end]);
        pieces = &pieces[(end + 2).min(pieces.len())..];
    }
    body
}

/// As a part of a path.
fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_in_pieces_is_joined() {
        assert_eq!(joined("5\r\n[\"\u{e9}\"\r\n9\r\n,\"b\r\n\",1]\r\n0\r\n\r\n".as_bytes()), "[\"\u{e9}\",\"b\r\n\",1]".as_bytes());
    }
}
