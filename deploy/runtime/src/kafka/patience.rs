//! Questions that are asked again until the brokers know the answer.

use std::time::{Duration, Instant};

use rdkafka::client::Client;

use super::{KafkaError, connection::Context};

/// How long a wrong password, an unreachable broker or a missing topic may take to be found.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);
/// Between two looks for something that is about to be there.
pub(super) const AGAIN: Duration = Duration::from_millis(20);
/// How long the brokers may take to show that they are there.
const LOOK: Duration = Duration::from_secs(1);

/// Asks about a topic until the brokers know. One that has just begun, or has just been given a lane, says for a moment that it does not;
/// and the library asks with what it knew of the topic before, again and again, until it is told to look anew.
///
/// # Errors
///
/// Where asking again does not help; `Transient` also at once where no broker answers.
pub(super) fn patiently<T>(
    client: &Client<Context>,
    topic: &str,
    mut question: impl FnMut() -> Result<T, KafkaError>,
) -> Result<T, KafkaError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = question();
        let ask_again = matches!(answer, Err(KafkaError::Transient(_))) && Instant::now() < deadline;
        if !ask_again || client.fetch_metadata(Some(topic), LOOK).is_err() {
            return answer;
        }
        std::thread::sleep(AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rdkafka::{
        mocking::MockCluster,
        producer::DefaultProducerContext,
        types::{RDKafkaApiKey, RDKafkaRespErr},
    };

    use super::*;
    use crate::{
        config::{KafkaTopics, RegistryAuth, Tls, TlsMode, Url},
        kafka::{Cluster, Reader},
    };

    const TOPIC: &str = "t";
    /// What a broker says of a lane that it does not know of yet, or not any more.
    const YOUNG: [RDKafkaRespErr; 6] = [
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH,
    ];

    fn brokers() -> (MockCluster<'static, DefaultProducerContext>, KafkaTopics) {
        let brokers = MockCluster::new(1).unwrap();
        brokers.create_topic(TOPIC, 2, 1).unwrap();
        let topics = KafkaTopics {
            brokers: brokers.bootstrap_servers(),
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
        };
        (brokers, topics)
    }

    #[test]
    fn a_broker_that_does_not_know_yet_is_asked_again() {
        let (brokers, topics) = brokers();
        let (cluster, reader) = (Cluster::connect(&topics, "test").unwrap(), Reader::open(&topics, "test", 1024).unwrap());
        brokers.request_errors(RDKafkaApiKey::ListOffsets, &YOUNG);
        assert_eq!(cluster.written(TOPIC, 2).unwrap(), [0, 0]);
        brokers.request_errors(RDKafkaApiKey::ListOffsets, &YOUNG);
        assert_eq!(cluster.committed(TOPIC, 1).unwrap(), [0]);
        brokers.request_errors(RDKafkaApiKey::ListOffsets, &YOUNG);
        assert_eq!(reader.bounds(TOPIC, 1).unwrap(), (0, 0));
    }

    #[test]
    fn what_asking_again_does_not_mend_is_told_at_once() {
        let (brokers, topics) = brokers();
        let cluster = Cluster::connect(&topics, "test").unwrap();
        brokers.request_errors(RDKafkaApiKey::ListOffsets, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);
        let error = cluster.written(TOPIC, 2).unwrap_err();
        assert!(matches!(&error, KafkaError::Refused(text) if text.contains("topic t: ")), "{error:?}");
        assert_eq!(cluster.written(TOPIC, 2).unwrap(), [0, 0]);
    }

    #[test]
    fn brokers_that_are_gone_are_not_asked_again() {
        let (brokers, topics) = brokers();
        let cluster = Cluster::connect(&topics, "test").unwrap();
        brokers.broker_down(1).unwrap();
        let begin = Instant::now();
        let error = cluster.written(TOPIC, 2).unwrap_err();
        assert!(matches!(error, KafkaError::Transient(_)), "{error:?}");
        assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    }
}
