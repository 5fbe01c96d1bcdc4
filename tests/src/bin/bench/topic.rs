//! Rows as a reader of committed records gets them from a topic, whoever writes them.

use std::time::{Duration, Instant};

use rdkafka::{Message, consumer::BaseConsumer, error::KafkaError};
use schemas::wire::codec::Reader;

const PATIENCE: Duration = Duration::from_secs(120);

/// A record when it could be read.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// The key's, a BIGINT.
    pub id: u64,
    /// The value's schema, as the registry numbers it.
    pub schema: u32,
    pub at: Instant,
}

/// Takes the next records of a topic.
pub fn take(consumer: &BaseConsumer, count: u64) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    let mut last = Instant::now();
    while (arrivals.len() as u64) < count {
        assert!(last.elapsed() < PATIENCE, "{} of {count} records came", arrivals.len());
        match consumer.poll(Duration::from_millis(100)) {
            None | Some(Err(KafkaError::PartitionEOF(_))) => {}
            Some(Err(e)) => panic!("reading the topic: {e}"),
            Some(Ok(message)) => {
                last = Instant::now();
                let (id, schema) = (id(message.key().expect("a key")), schema(message.payload().expect("a value")));
                arrivals.push(Arrival { id, schema, at: last });
            }
        }
    }
    arrivals
}

fn schema(value: &[u8]) -> u32 {
    Reader::new(value).frame().expect("a framed value")
}

fn id(key: &[u8]) -> u64 {
    let mut key = Reader::new(key);
    key.frame().expect("a framed key");
    key.long().expect("a long").try_into().expect("an id above zero")
}
