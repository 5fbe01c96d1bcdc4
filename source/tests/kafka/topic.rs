//! Topics: their settings, sizes and identities.

use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewPartitions},
    client::DefaultClientContext,
    config::FromClientConfig,
};
use runtime::kafka::{Cluster, Keep};
use schemas::wire::names;
use source::{
    error::CaptureError,
    publisher::{Publisher, kafka::KafkaPublisher},
};

use crate::world::{env, prefix, progress, publisher, started, topics, until, values};

fn admin() -> AdminClient<DefaultClientContext> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", env("INSTAR_TEST_KAFKA"));
    AdminClient::from_config(&config).unwrap()
}

async fn delete(topic: &str) {
    for result in admin().delete_topics(&[topic], &AdminOptions::new()).await.unwrap() {
        result.unwrap();
    }
    let cluster = Cluster::connect(&topics(), "test").unwrap();
    until("the topic is not deleted", || cluster.find(topic).unwrap().is_none().then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_with_wrong_settings_stops_the_start_and_the_check_names_all() {
    let prefix = prefix("settings");
    let cluster = Cluster::connect(&topics(), "test").unwrap();
    cluster.ensure(&names::versions(&prefix), 2, Keep::Broker).unwrap();
    cluster.ensure(&names::progress(&prefix), 1, Keep::Forever).unwrap();
    let error = publisher(&prefix).await.start().await.unwrap_err();
    assert!(matches!(&error, CaptureError::Stop { message } if message.contains("retention.ms")), "{error:?}");
    let problems = KafkaPublisher::preflight(&topics(), &prefix).await;
    let text: Vec<&str> = problems.iter().map(|p| p.what.as_str()).collect();
    assert_eq!(problems.len(), 3, "{text:?}");
    assert!(text.iter().any(|t| t.contains("2 partitions")), "{text:?}");
    assert!(text.iter().any(|t| t.contains("retention.ms")), "{text:?}");
    assert!(text.iter().any(|t| t.contains("cleanup.policy=delete instead of compact")), "{text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_of_what_is_not_there_yet_finds_nothing() {
    let prefix = prefix("check");
    assert_eq!(KafkaPublisher::preflight(&topics(), &prefix).await, []);
    started(&prefix).await;
    assert_eq!(KafkaPublisher::preflight(&topics(), &prefix).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grown_topic_keeps_its_lanes_and_a_shrunk_one_stops() {
    let prefix = prefix("lanes");
    let name = format!("{prefix}.s.t");
    let (mut publisher, _) = started(&prefix).await;
    let first = publisher.topic(&name, Some(2)).await.unwrap();
    admin().create_partitions(&[NewPartitions::new(&name, 5)], &AdminOptions::new()).await.unwrap();
    let cluster = Cluster::connect(&topics(), "test").unwrap();
    until("the topic does not grow", || cluster.find(&name).unwrap().filter(|facts| facts.partitions == 5));
    let grown = publisher.topic(&name, Some(2)).await.unwrap();
    assert_eq!(grown, first);
    assert_eq!(publisher.ends(grown.handle).await.unwrap(), [0, 0]);
    let error = publisher.topic(&name, Some(6)).await.unwrap_err();
    assert!(matches!(&error, CaptureError::Stop { message } if message.contains(&name) && message.contains("shrunk")), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_made_anew_has_another_identity_and_is_noticed() {
    let prefix = prefix("anew");
    let name = format!("{prefix}.s.t");
    let (mut publisher, _) = started(&prefix).await;
    let first = publisher.topic(&name, Some(1)).await.unwrap();
    publisher.produce(first.handle, 0, None, b"gone").unwrap();
    publisher.commit(&progress(1)).await.unwrap();
    delete(&name).await;
    let began = std::time::Instant::now();
    let error = loop {
        if let Err(error) = publisher.commands(0).await {
            break error;
        }
        assert!(began.elapsed().as_secs() < 15, "it is not noticed");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    assert!(matches!(&error, CaptureError::Transient(text) if text.contains(&name)), "{error:?}");
    assert_eq!(publisher.start().await.unwrap(), Some(progress(1)));
    let second = publisher.topic(&name, Some(1)).await.unwrap();
    assert!(first.id.is_some() && second.id.is_some() && first.id != second.id);
    publisher.produce(second.handle, 0, None, b"new").unwrap();
    publisher.commit(&progress(2)).await.unwrap();
    assert_eq!(values(&name, 0), ["new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_record_that_a_topic_takes_is_taken() {
    let prefix = prefix("large");
    let (mut publisher, _) = started(&prefix).await;
    let name = format!("{prefix}.s.t");
    let made = rdkafka::admin::NewTopic::new(&name, 1, rdkafka::admin::TopicReplication::Fixed(1)).set("max.message.bytes", "50000");
    admin().create_topics([&made], &AdminOptions::new()).await.unwrap();
    let topic = publisher.topic(&name, Some(1)).await.unwrap().handle;
    let largest = publisher.largest(topic);
    assert!((49_000..50_000).contains(&largest), "{largest}");
    // Bytes that do not get smaller by compression, many of them in one transaction: batches too stay below the limit.
    let mut state = 1u64;
    let mut noise = |length: usize| {
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            b'!' + u8::try_from(state >> 33 & 0x3f).unwrap()
        };
        (0..length).map(next).collect::<Vec<u8>>()
    };
    let rows: Vec<Vec<u8>> = [largest, 30_000, 30_000, 10, 20_000, 20_000, 20_000, largest].into_iter().map(&mut noise).collect();
    // The publisher learns of the topic's limit after it was opened: one start more is allowed.
    for attempt in 0..2 {
        rows.iter().for_each(|row| publisher.produce(topic, 0, None, row).unwrap());
        match publisher.commit(&progress(1)).await {
            Ok(()) => break,
            Err(CaptureError::Transient(_)) if attempt == 0 => assert_eq!(publisher.start().await.unwrap(), None),
            Err(error) => panic!("{error:?}"),
        }
    }
    let expected: Vec<String> = rows.into_iter().map(|row| String::from_utf8(row).unwrap()).collect();
    assert!(values(&name, 0) == expected, "other rows came");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_larger_than_a_whole_transaction_is_taken() {
    let prefix = prefix("huge");
    let (mut publisher, _) = started(&prefix).await;
    let name = format!("{prefix}.s.t");
    let made = rdkafka::admin::NewTopic::new(&name, 1, rdkafka::admin::TopicReplication::Fixed(1)).set("max.message.bytes", "64000000");
    admin().create_topics([&made], &AdminOptions::new()).await.unwrap();
    let topic = publisher.topic(&name, Some(1)).await.unwrap().handle;
    let rows = [b"before".to_vec(), vec![b'x'; 40_000_000], b"after".to_vec()];
    rows.iter().for_each(|row| publisher.produce(topic, 0, None, row).unwrap());
    publisher.commit(&progress(1)).await.unwrap();
    let found: Vec<(usize, u8)> = values(&name, 0).iter().map(|value| (value.len(), value.as_bytes()[0])).collect();
    assert_eq!(found, [(6, b'b'), (40_000_000, b'x'), (5, b'a')]);
}
