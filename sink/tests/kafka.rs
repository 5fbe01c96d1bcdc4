//! The consumer over Kafka, on a real broker: `INSTAR_TEST_KAFKA=host:port`; the test of a restart starts a broker of its own, by
//! `tests/services/kafka.sh`.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "kafka/broker.rs"]
mod broker;
#[path = "kafka/group.rs"]
mod group;
#[path = "kafka/lanes.rs"]
mod lanes;
#[path = "kafka/restart.rs"]
mod restart;
#[path = "kafka/versions.rs"]
mod versions;
