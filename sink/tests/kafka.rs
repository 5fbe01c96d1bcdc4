//! The consumer over Kafka, on a real broker: `INSTAR_TEST_KAFKA=host:port`; the test of a restart starts a broker of its own, by
//! `tests/services/kafka.sh`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "kafka/broker.rs"]
mod broker;
mod fake;
#[path = "kafka/group.rs"]
mod group;
#[path = "kafka/lanes.rs"]
mod lanes;
#[path = "kafka/mirror.rs"]
mod mirror;
#[path = "kafka/process.rs"]
mod process;
#[path = "kafka/restart.rs"]
mod restart;
#[path = "kafka/rights.rs"]
mod rights;
#[path = "kafka/versions.rs"]
mod versions;
