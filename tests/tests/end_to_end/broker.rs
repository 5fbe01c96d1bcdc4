//! What the tests over Kafka rest on: a real broker and registry, and clients that see what is committed.

use std::time::Duration;

use rdkafka::{
    ClientConfig,
    producer::{BaseProducer, BaseRecord, Producer},
};
use tests::{
    kafka::{self, Bounds, Registry, Topics},
    service::Service,
};

const PATIENCE: Duration = Duration::from_secs(30);

fn producer(brokers: &str, id: &str) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("transactional.id", id).set("transaction.timeout.ms", "20000");
    let producer: BaseProducer = config.create().expect("a producer");
    producer.init_transactions(PATIENCE).expect("transactions");
    producer
}

fn send(producer: &BaseProducer, topic: &str, rows: std::ops::Range<i32>) {
    producer.begin_transaction().expect("a transaction");
    for row in rows {
        let (key, value) = (row.to_string(), format!("row {row}"));
        producer.send(BaseRecord::to(topic).partition(row % 2).key(&key).payload(&value)).unwrap_or_else(|(e, _)| panic!("{e}"));
    }
    producer.flush(PATIENCE).expect("written");
}

#[tokio::test]
async fn readers_see_committed_records_alone() {
    let topics = Topics::shared();
    let name = "broker_sees.t";
    topics.forget("broker_sees").await;
    topics.create(name, 2, &[("retention.ms", "-1")]).await;
    let writer = producer(&kafka::brokers(), "broker_sees");
    send(&writer, name, 0..4);
    writer.commit_transaction(PATIENCE).expect("committed");
    send(&writer, name, 4..10);
    writer.abort_transaction(PATIENCE).expect("aborted");
    send(&writer, name, 10..12);
    writer.commit_transaction(PATIENCE).expect("committed");
    send(&writer, name, 12..13);
    // An open transaction stands at the end of partition 0.
    assert_eq!(topics.counts(name), [3, 3]);
    let keys: Vec<String> = topics.committed(name).into_iter().map(|r| String::from_utf8(r.key.unwrap()).unwrap()).collect();
    assert_eq!(keys, ["0", "2", "10", "1", "3", "11"]);
    assert_eq!(topics.written(name).len(), 13);
    // Three marks in each partition: the ends of three transactions.
    assert_eq!(topics.bounds(name), [Bounds { low: 0, high: 10 }, Bounds { low: 0, high: 9 }]);
    drop(writer);
    producer(&kafka::brokers(), "broker_sees");
    topics.expire(name, 0, 3).await;
    assert_eq!(topics.bounds(name)[0].low, 3);
    topics.grow(name, 3).await;
    assert_eq!(topics.counts(name), [1, 3, 0]);
    topics.forget("broker_sees").await;
    assert!(topics.all("broker_sees.").is_empty());
}

#[tokio::test]
async fn the_registry_keeps_levels_and_forgets_subjects() {
    let registry = Registry::shared();
    let subject = "broker_levels.t-value";
    registry.forget(subject);
    registry.register(subject, "\"string\"").expect("registered");
    registry.set_level(subject, "FULL");
    assert_eq!(registry.level(subject), "FULL");
    assert_eq!(registry.newest(subject).1, "\"string\"");
    let (code, _) = registry.register(subject, "\"int\"").expect_err("not compatible");
    assert_eq!(code, 409);
    registry.forget(subject);
    assert!(!registry.subjects().iter().any(|s| s == subject));
}

#[tokio::test]
async fn a_broker_that_was_killed_has_what_was_committed() {
    let broker = Service::kafka("broker-killed", 1);
    broker.start();
    let topics = Topics::of(&broker.url());
    topics.create("t", 2, &[]).await;
    let writer = producer(&broker.url(), "broker_killed");
    send(&writer, "t", 0..1000);
    writer.commit_transaction(PATIENCE).expect("committed");
    broker.kill();
    broker.start();
    assert_eq!(Topics::of(&broker.url()).counts("t"), [500, 500]);
}
