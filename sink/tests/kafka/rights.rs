//! Who is let in, and to what: `INSTAR_TEST_KAFKA_SASL=host:port`.

use std::time::{Duration, Instant};

use runtime::config::{KafkaTopics, Sasl, SaslMechanism, Secret};
use sink::{
    consumer::{Consumer, kafka::KafkaConsumer},
    error::SinkError,
};

use crate::broker::{Broker, Reading, settings, until};

/// `{"alg":"none"}.{"sub":"cdc","exp":2000000000}.`
const TOKEN: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJjZGMiLCJleHAiOjIwMDAwMDAwMDB9.";

fn as_user(user: &str, password: &str) -> KafkaTopics {
    let password = Secret::new(password);
    with(Sasl::Password { mechanism: SaslMechanism::ScramSha512, user: user.into(), password })
}

fn with(sasl: Sasl) -> KafkaTopics {
    let brokers = std::env::var("INSTAR_TEST_KAFKA_SASL").expect("INSTAR_TEST_KAFKA_SASL=host:port of a broker for tests");
    KafkaTopics { sasl: Some(sasl), ..settings(&brokers) }
}

#[test]
fn a_password_or_a_token_lets_member_and_reader_in() {
    let broker = Broker::shared("let-in");
    let topic = broker.topic("t", 2);
    broker.source("a").publish(&topic, 1, &["a"]);
    for (number, settings) in [as_user("cdc", "cdc"), with(Sasl::Token(Secret::new(TOKEN)))].iter().enumerate() {
        let consumer = KafkaConsumer::connect(settings, &broker.prefix, &format!("sink{number}")).unwrap();
        let mut lane = Reading::new(&topic, 1, 0);
        lane.to(&consumer, 2);
        assert_eq!(lane.names(), ["a"]);
        until("all lanes", || consumer.turn(&topic, 0));
    }
}

#[test]
fn a_wrong_password_is_refused_within_ten_seconds() {
    let begun = Instant::now();
    let error = KafkaConsumer::connect(&as_user("cdc", "wrong secret"), "p", "s").err();
    let Some(SinkError::Refused(message)) = error else { panic!("{error:?}") };
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(message.contains("topics.kafka.brokers") && message.contains("uthentication"), "{message}");
    assert!(!message.contains("wrong secret"), "{message}");
}

#[test]
fn a_topic_that_may_not_be_read_is_refused_and_named() {
    let broker = Broker::shared("not-read");
    let topic = broker.topic("t", 1);
    let consumer = KafkaConsumer::connect(&as_user("guest", "guest"), &broker.prefix, "s").unwrap();
    let mut lane = Reading::new(&topic, 0, 0);
    let message = until("the refusal", || match lane.step(&consumer, None, 1) {
        Ok(_) => None,
        Err(SinkError::Refused(message)) => Some(message),
        Err(other) => panic!("{other}"),
    });
    assert!(message.contains(&broker.prefix), "{message}");
    println!("{message}");
}
