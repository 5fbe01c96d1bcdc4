//! What keeps a pipeline from publishing, all of it, each with its remedy. Changes nothing.

use runtime::{
    config::KafkaTopics,
    kafka::{Cluster, KafkaError, Keep},
};

use super::{KafkaPublisher, blocking, own_topics};
use crate::{engine::Problem, error::CaptureError, publisher::registry::Registry};

impl KafkaPublisher {
    /// Looks at brokers, rights, the pipeline's own topics and the registry.
    pub async fn preflight(topics: &KafkaTopics, prefix: &str) -> Vec<Problem> {
        let (settings, prefix) = (topics.clone(), prefix.to_owned());
        let of_brokers = blocking(move || Ok(brokers(&settings, &prefix)));
        let of_registry = async {
            match Registry::new(topics) {
                Ok(registry) => registry.reach().await,
                Err(error) => Err(error),
            }
        };
        let (of_brokers, of_registry) = tokio::join!(of_brokers, of_registry);
        let mut problems = of_brokers.unwrap_or_else(|error| vec![problem(error.to_string(), "try again")]);
        if let Err(error) = of_registry {
            let remedy = match &error {
                CaptureError::Transient(_) => "see whether the registry runs, and whether topics.kafka.registry names it",
                _ => "correct topics.kafka.registry, registry_auth or registry_tls",
            };
            problems.push(problem(error.to_string(), remedy));
        }
        problems
    }
}

fn problem(what: String, remedy: &str) -> Problem {
    Problem { fatal: true, what, remedy: remedy.to_owned(), sql: Vec::new() }
}

fn brokers(topics: &KafkaTopics, prefix: &str) -> Vec<Problem> {
    let cluster = match Cluster::connect(topics, &format!("instar-{prefix}-check")) {
        Ok(cluster) => cluster,
        Err(error) => {
            return vec![of_cluster(&error, "correct topics.kafka.brokers, sasl or tls")];
        }
    };
    let mut problems = Vec::new();
    for (name, keep) in own_topics(prefix) {
        match cluster.find(&name) {
            Ok(None) => {}
            Ok(Some(facts)) => {
                if facts.partitions != 1 {
                    problems.push(problem(
                        format!("topic {name} has {} partitions and must have one", facts.partitions),
                        "delete it where it is empty, or choose another topics.prefix",
                    ));
                }
                problems.extend(kept(&cluster, &name, keep));
            }
            Err(error) => problems.push(of_cluster(&error, "give the account the rights to describe, write and read the topics")),
        }
    }
    problems
}

fn kept(cluster: &Cluster, name: &str, keep: Keep) -> Option<Problem> {
    let error = cluster.check_keep(name, keep).err()?;
    Some(of_cluster(&error, "alter the topic's settings"))
}

/// `remedy`: where it does not go away by itself.
fn of_cluster(error: &KafkaError, remedy: &str) -> Problem {
    let remedy = match error {
        KafkaError::Transient(_) => "see whether the brokers run, and whether topics.kafka.brokers names them",
        KafkaError::Refused(_) | KafkaError::Fenced(_) | KafkaError::Topic(_) | KafkaError::Absent { .. } => remedy,
    };
    problem(error.to_string(), remedy)
}
