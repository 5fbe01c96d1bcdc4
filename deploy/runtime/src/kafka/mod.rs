//! Kafka: what source, sinks and commands share. The library's connection settings, topics and their facts, reading of lanes.
//!
//! All calls block; they belong on threads of their own.

mod cluster;
mod connection;
mod describe;
mod events;
mod lane;
mod outbox;
mod patience;
mod tail;

use rdkafka::error::{KafkaError as LibraryError, RDKafkaErrorCode};
use thiserror::Error;

pub use self::{
    cluster::{Cluster, Keep, TopicFacts},
    connection::{Context, client_config},
    lane::{Lane, Message, Reader, Taken},
    outbox::{Outbox, Records, Sent},
    tail::Tail,
};

/// Errors of the broker, sorted by what must be done.
#[derive(Debug, Error)]
pub enum KafkaError {
    /// Goes away by itself: try again.
    #[error("{0}")]
    Transient(String),
    /// The configuration or the broker's rights are wrong.
    #[error("{0}")]
    Refused(String),
    /// Another process took this one's place.
    #[error("{0}")]
    Fenced(String),
    /// A topic is not what it must be.
    #[error("{0}")]
    Topic(String),
    /// A place that the topic does not have (any more).
    #[error("topic {topic}, partition {partition}: offset {offset} is not there; the partition holds {low} to {high}")]
    Absent { topic: String, partition: u32, offset: u64, low: u64, high: u64 },
}

/// Sorts a library's error. `what` was to be done: "topic shop.orders cannot be created".
pub fn sorted(what: &str, error: &LibraryError) -> KafkaError {
    let text = format!("{what}: {error}");
    let Some(code) = error.rdkafka_error_code() else { return KafkaError::Refused(text) };
    sorted_code(code, text)
}

/// The same by code.
pub fn sorted_code(code: RDKafkaErrorCode, text: String) -> KafkaError {
    use RDKafkaErrorCode as Code;
    match code {
        Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch => KafkaError::Fenced(text),
        Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::SSL
        | Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::DelegationTokenAuthorizationFailed
        | Code::UnsupportedSASLMechanism
        | Code::UnsupportedVersion
        | Code::InvalidConfig
        | Code::InvalidArgument
        | Code::PolicyViolation
        | Code::InvalidTransactionTimeout
        | Code::InvalidReplicationFactor => KafkaError::Refused(text),
        // Brokers and networks come back; whatever is not known is tried again, with its reason shown.
        _ => KafkaError::Transient(text),
    }
}
