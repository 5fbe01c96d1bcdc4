//! A broker that goes away and comes back.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use sink::{consumer::Consumer, error::SinkError};

use crate::broker::{Broker, Reading, block_on, until};

/// A broker of the test's own, stopped at the end.
struct Own {
    port: String,
}

impl Own {
    fn start() -> Self {
        let shared = std::env::var("INSTAR_TEST_KAFKA").expect("INSTAR_TEST_KAFKA=host:port of a broker for tests");
        let port: u16 = shared.rsplit(':').next().unwrap().parse().unwrap();
        let own = Self { port: (port + 30).to_string() };
        own.run("stop");
        own.run("install");
        own.run("start");
        own
    }

    fn run(&self, verb: &str) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/services/kafka.sh");
        let status = Command::new(script).arg(verb).env("KAFKA_NAME", "kafka-of-its-own").env("KAFKA_PORT", &self.port).status().unwrap();
        assert!(status.success(), "kafka.sh {verb}: {status}");
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.run("stop");
    }
}

#[test]
fn a_broker_that_is_killed_is_told_and_waited_for_and_nothing_is_lost_or_doubled() {
    let own = Own::start();
    let broker = Broker::at(&format!("127.0.0.1:{}", own.port), "restart");
    let topic = broker.topic("t", 2);
    let consumer = broker.consumer();
    let id = broker.id(&topic);
    let mut lanes = [Reading::new(&topic, 0, 0), Reading::new(&topic, 1, 0)];
    let mut published = Vec::new();
    for round in 0..2 {
        let source = broker.source(&format!("source {round}"));
        for i in 0..20 {
            let name = format!("{round}-{i}");
            source.publish(&topic, i % 2, &[&name]);
            published.push(name);
        }
        if round == 0 {
            // In the middle of reading.
            lanes[0].to(&consumer, 8);
        }
        let trouble = consumer.trouble();
        assert_eq!(*trouble.borrow(), None);
        own.run("kill");
        let begun = Instant::now();
        let reason = until("the trouble is told", || trouble.borrow().clone());
        assert!(reason.contains(&format!("topics.kafka.brokers 127.0.0.1:{}: ", own.port)), "{reason}");
        assert!(begun.elapsed() < Duration::from_secs(10));
        // What was fetched cannot be proved to be the topic's; there is no error that would end a sink.
        for lane in &mut lanes {
            let error = lane.step(&consumer, Some(&id), 1 << 20).unwrap_err();
            assert!(matches!(error, SinkError::Transient(_)), "{error:?}");
        }
        let error = block_on(consumer.events(0)).map(|(events, _)| events.len());
        assert!(matches!(error, Err(SinkError::Transient(_))), "{error:?}");
        own.run("start");
        until("the trouble is over", || trouble.borrow().is_none().then_some(()));
        let ends = block_on(consumer.ends(&topic)).unwrap();
        assert_eq!(ends, broker.ends(&topic, 2));
        for (lane, end) in lanes.iter_mut().zip(ends) {
            lane.to(&consumer, end);
        }
        until("the group knows us", || (0..2).all(|lane| consumer.turn(&topic, lane).is_some()).then_some(()));
    }
    let mut read: Vec<String> = lanes.iter().flat_map(|lane| lane.rows.iter().map(|(_, name)| name.clone())).collect();
    read.sort();
    published.sort();
    assert_eq!(read, published);
}
