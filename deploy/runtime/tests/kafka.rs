//! Topics and lanes on a real broker (INSTAR_TEST_KAFKA).
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions},
    client::DefaultClientContext,
    config::FromClientConfig,
    producer::{BaseProducer, BaseRecord, Producer},
};
use runtime::{
    config::{KafkaTopics, RegistryAuth, Tls, TlsMode, Url},
    kafka::{Cluster, KafkaError, Keep, Lane, Reader, Tail},
};

const LONG: Duration = Duration::from_secs(20);

fn brokers() -> String {
    std::env::var("INSTAR_TEST_KAFKA").expect("INSTAR_TEST_KAFKA: the broker's address")
}

fn topics() -> KafkaTopics {
    KafkaTopics {
        brokers: brokers(),
        registry: Url {
            scheme: "http".into(),
            user: None,
            password: None,
            host: "127.0.0.1".into(),
            port: None,
            database: None,
            parameters: BTreeMap::new(),
        },
        partitions: 1,
        replication: 1,
        properties: BTreeMap::new(),
        tls: None,
        sasl: None,
        registry_auth: RegistryAuth::None,
        registry_tls: Tls { mode: TlsMode::Disable, ca: None, certificate: None, key: None },
    }
}

/// A name that no other test and no other run has.
fn name(what: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
    format!("{what}-{now}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

fn cluster() -> Cluster {
    Cluster::connect(&topics(), "test").unwrap()
}

fn reader() -> Reader {
    Reader::open(&topics(), "test", 4096).unwrap()
}

fn producer(id: &str) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers()).set("transactional.id", id).set("transaction.timeout.ms", "10000");
    let producer = BaseProducer::from_config(&config).unwrap();
    producer.init_transactions(LONG).unwrap();
    producer
}

/// Writes records in a transaction of their own, committed or aborted.
fn write(producer: &BaseProducer, topic: &str, lane: i32, records: &[&str], commit: bool) {
    producer.begin_transaction().unwrap();
    for record in records {
        producer.send(BaseRecord::<str, str>::to(topic).partition(lane).key("k").payload(record)).map_err(|(e, _)| e).unwrap();
    }
    producer.flush(LONG).unwrap();
    if commit {
        producer.commit_transaction(LONG).unwrap();
    } else {
        producer.abort_transaction(LONG).unwrap();
    }
}

fn delete(topic: &str) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers());
    let admin: AdminClient<DefaultClientContext> = AdminClient::from_config(&config).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for result in runtime.block_on(admin.delete_topics(&[topic], &AdminOptions::new())).unwrap() {
        result.unwrap();
    }
}

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads a lane until its position is `end`; gives the values with their offsets.
fn read_to(lane: &Lane, end: u64) -> Vec<(u64, String)> {
    let mut values = Vec::new();
    until(&format!("the lane does not reach {end}: {values:?}"), || {
        let taken = lane.take(1 << 20, Duration::from_millis(200)).unwrap();
        for message in taken.messages() {
            values.push((message.offset(), String::from_utf8(message.value().unwrap().to_vec()).unwrap()));
        }
        taken.end.filter(|at| *at == end)
    });
    values
}

#[test]
fn a_topic_is_made_once_and_found_with_its_facts() {
    let (cluster, name) = (cluster(), name("made"));
    assert_eq!(cluster.find(&name).unwrap(), None);
    let made = cluster.ensure(&name, 3, Keep::Broker).unwrap();
    assert_eq!((made.name.as_str(), made.partitions, made.largest), (name.as_str(), 3, 1_048_588));
    assert_eq!(cluster.ensure(&name, 1, Keep::Broker).unwrap(), made);
    assert_eq!(cluster.find(&name).unwrap(), Some(made));
}

#[test]
fn a_topic_that_does_not_keep_what_it_must_is_refused() {
    let (cluster, name) = (cluster(), name("keep"));
    cluster.ensure(&name, 1, Keep::Newest).unwrap();
    cluster.ensure(&name, 1, Keep::Newest).unwrap();
    let error = cluster.ensure(&name, 1, Keep::Forever).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, KafkaError::Topic(_)), "{error:?}");
    for part in [name.as_str(), "cleanup.policy=compact instead of delete", "retention.ms=604800000 instead of -1", "kept for ever"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_topic_made_anew_has_another_identity() {
    let (cluster, name, missing) = (cluster(), name("anew"), name("missing"));
    let first = cluster.ensure(&name, 1, Keep::Broker).unwrap();
    assert_eq!(cluster.identities(&[&missing, &name]).unwrap(), [None, Some(first.id.clone())]);
    assert_eq!(cluster.identities(&[]).unwrap(), Vec::<Option<String>>::new());
    delete(&name);
    until("the topic is not deleted", || cluster.find(&name).unwrap().is_none().then_some(()));
    let second = cluster.ensure(&name, 1, Keep::Broker).unwrap();
    assert_ne!(first.id, second.id);
    assert_eq!(cluster.identities(&[&name]).unwrap(), [Some(second.id)]);
}

#[test]
fn ends_count_markers_and_open_transactions_only_where_they_are_written() {
    let (cluster, name) = (cluster(), name("ends"));
    cluster.ensure(&name, 2, Keep::Broker).unwrap();
    assert_eq!(cluster.written(&name, 2).unwrap(), [0, 0]);
    let producer = producer(&name);
    write(&producer, &name, 1, &["a", "b"], true);
    until("the marker is written", || (cluster.committed(&name, 2).unwrap() == [0, 3]).then_some(()));
    assert_eq!(cluster.written(&name, 2).unwrap(), [0, 3]);
    producer.begin_transaction().unwrap();
    producer.send(BaseRecord::<str, str>::to(&name).partition(1).key("k").payload("open")).map_err(|(e, _)| e).unwrap();
    producer.flush(LONG).unwrap();
    assert_eq!(cluster.written(&name, 2).unwrap(), [0, 4]);
    assert_eq!(cluster.committed(&name, 2).unwrap(), [0, 3]);
    let error = cluster.written(&name, 3).unwrap_err();
    assert!(matches!(&error, KafkaError::Topic(text) if text.contains(&name)), "{error:?}");
}

#[test]
fn an_appended_record_has_an_offset_and_is_read() {
    let (cluster, name) = (cluster(), name("append"));
    cluster.ensure(&name, 1, Keep::Forever).unwrap();
    assert_eq!(cluster.append(&name, b"one").unwrap(), 0);
    assert_eq!(cluster.append(&name, b"two").unwrap(), 1);
    let mut tail = Tail::new(reader(), name.as_str(), || {});
    let mut read = Vec::new();
    let next = tail.read(0, |offset, record| {
        read.push((offset, record.to_vec()));
        Ok::<_, KafkaError>(())
    });
    assert_eq!((next.unwrap(), read), (2, vec![(0, b"one".to_vec()), (1, b"two".to_vec())]));
}

#[test]
fn a_lane_gives_committed_records_and_its_position_moves_over_the_rest() {
    let (cluster, name) = (cluster(), name("lane"));
    cluster.ensure(&name, 1, Keep::Broker).unwrap();
    let heard = Arc::new(AtomicUsize::new(0));
    let (reader, hears) = (reader(), heard.clone());
    let lane = reader
        .lane(&name, 0, 0, move || {
            hears.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    assert_eq!(read_to(&lane, 0), []);
    let producer = producer(&name);
    write(&producer, &name, 0, &["a", "b"], true);
    let expected = [(0, "a".to_owned()), (1, "b".to_owned())];
    assert_eq!(read_to(&lane, 3), expected);
    assert!(heard.load(Ordering::Relaxed) > 0);
    // Nothing but an aborted record and its marker: the position moves all the same.
    write(&producer, &name, 0, &["never"], false);
    assert_eq!(read_to(&lane, 5), []);
    write(&producer, &name, 0, &["c"], true);
    assert_eq!(read_to(&lane, 7), [(5, "c".to_owned())]);
    drop(lane);
    let again = reader.lane(&name, 0, 1, || {}).unwrap();
    assert_eq!(read_to(&again, 7), [(1, "b".to_owned()), (5, "c".to_owned())]);
}

#[test]
fn a_place_that_is_not_there_is_told_with_what_is() {
    let (cluster, name) = (cluster(), name("absent"));
    cluster.ensure(&name, 1, Keep::Broker).unwrap();
    cluster.append(&name, b"one").unwrap();
    let lane = reader().lane(&name, 0, 9, || {}).unwrap();
    let error = until("no error", || lane.take(1 << 20, Duration::from_millis(200)).err());
    match error {
        KafkaError::Absent { topic, partition, offset, low, high } => {
            assert_eq!((topic, partition, offset, low, high), (name.clone(), 0, 9, 0, 1));
        }
        other => panic!("{other:?}"),
    }
    let error = Tail::new(reader(), name, || {}).read(2, |_, _| Ok::<_, KafkaError>(())).unwrap_err();
    assert!(matches!(error, KafkaError::Absent { offset: 2, low: 0, high: 1, .. }), "{error:?}");
}

#[test]
fn a_tail_goes_on_where_it_ended_over_markers() {
    let (cluster, name) = (cluster(), name("tail"));
    cluster.ensure(&name, 1, Keep::Forever).unwrap();
    let producer = producer(&name);
    let mut tail = Tail::new(reader(), name.as_str(), || {});
    let mut read = |from: u64| {
        let mut values = Vec::new();
        let next = tail.read(from, |_, record| {
            values.push(String::from_utf8(record.to_vec()).unwrap());
            Ok::<_, KafkaError>(())
        });
        (next.unwrap(), values)
    };
    assert_eq!(read(0), (0, Vec::new()));
    write(&producer, &name, 0, &["a"], true);
    until("the marker is written", || (cluster.committed(&name, 1).unwrap() == [2]).then_some(()));
    assert_eq!(read(0), (2, vec!["a".to_owned()]));
    assert_eq!(read(2), (2, Vec::new()));
    write(&producer, &name, 0, &["x"], false);
    write(&producer, &name, 0, &["b"], true);
    until("the marker is written", || (cluster.committed(&name, 1).unwrap() == [6]).then_some(()));
    assert_eq!(read(2), (6, vec!["b".to_owned()]));
    assert_eq!(read(0), (6, vec!["a".to_owned(), "b".to_owned()]));
}

#[test]
fn the_newest_record_is_found_behind_many_aborted_ones() {
    let (cluster, name) = (cluster(), name("newest"));
    cluster.ensure(&name, 1, Keep::Newest).unwrap();
    let mut tail = Tail::new(reader(), name.as_str(), || {});
    assert_eq!(tail.newest().unwrap(), None);
    let producer = producer(&name);
    write(&producer, &name, 0, &["old", "newest"], true);
    for _ in 0..100 {
        write(&producer, &name, 0, &["never"], false);
    }
    until("the markers are written", || (cluster.committed(&name, 1).unwrap() == [203]).then_some(()));
    assert_eq!(tail.newest().unwrap(), Some(b"newest".to_vec()));
    assert_eq!(Tail::new(reader(), name.as_str(), || {}).newest().unwrap(), Some(b"newest".to_vec()));
    write(&producer, &name, 0, &["newer"], true);
    until("the marker is written", || (cluster.committed(&name, 1).unwrap() == [205]).then_some(()));
    assert_eq!(tail.newest().unwrap(), Some(b"newer".to_vec()));
}
