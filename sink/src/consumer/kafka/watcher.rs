//! A thread that asks the brokers which topics there are under the names that are read: of all once a second, and of those whose rows
//! are about to be committed.
//!
//! So it also knows whether the brokers can be reached: an idle lane does not tell.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use runtime::kafka::{Cluster, KafkaError};
use tokio::sync::watch;

use super::topics::{Look, Topics};
use crate::error::SinkError;

const PERIOD: Duration = Duration::from_secs(1);
/// While the brokers cannot be reached.
const AGAIN: Duration = Duration::from_millis(100);
/// A topic that was made a moment ago is not known to every broker yet.
const SOON: Duration = Duration::from_millis(100);

pub(super) struct Watcher {
    topics: Arc<Topics>,
    versions: Arc<Versions>,
}

/// The schema-versions topic, which must stay the one that it was.
struct Versions {
    name: String,
    id: OnceLock<String>,
    /// Another topic is there under the name.
    anew: OnceLock<()>,
    changed: watch::Sender<u64>,
}

impl Drop for Watcher {
    /// The thread may wait for an answer of a broker that gives none: it is not waited for.
    fn drop(&mut self) {
        self.topics.end();
    }
}

impl Watcher {
    pub fn start(cluster: Cluster, topics: Arc<Topics>, versions: &str, changed: watch::Sender<u64>) -> Result<Self, SinkError> {
        let versions = Arc::new(Versions { name: versions.to_owned(), id: OnceLock::new(), anew: OnceLock::new(), changed });
        let watcher = Self { topics: topics.clone(), versions: versions.clone() };
        let thread = std::thread::Builder::new().name("kafka-topics".into());
        thread.spawn(move || watch(&cluster, &topics, &versions)).map_err(|e| SinkError::Transient(format!("a thread: {e}")))?;
        Ok(watcher)
    }

    /// An error where the schema versions that were read are not those of the topic that is there now.
    pub fn check_versions(&self) -> Result<(), SinkError> {
        let name = &self.versions.name;
        match self.versions.anew.get() {
            None => Ok(()),
            Some(()) => Err(SinkError::Stop {
                message: format!(
                    "topic {name} was made anew while it was read: it is the record of the pipeline's tables, and no sink can go on \
                     without it. Begin a new pipeline with another topics.prefix."
                ),
            }),
        }
    }
}

fn watch(cluster: &Cluster, topics: &Topics, versions: &Versions) {
    let mut next = Instant::now();
    while let Some(asked) = topics.asked(next) {
        // Before the question, which waits for seconds where nobody answers.
        if let Some(reason) = topics.reader().context().unreachable() {
            topics.troubled(Some(reason));
        }
        let pause = look(cluster, topics, versions, &asked);
        if asked.all || pause < PERIOD {
            next = Instant::now() + pause;
        }
    }
}

/// One look; how long until the next at all topics.
fn look(cluster: &Cluster, topics: &Topics, versions: &Versions, asked: &Look) -> Duration {
    let names = if asked.all { topics.names() } else { asked.doubted.clone() };
    let all: Vec<&str> = std::iter::once(versions.name.as_str()).chain(names.iter().map(|name| &**name)).collect();
    match cluster.identities(&all) {
        Ok(ids) => {
            topics.reader().context().forget();
            let mut news = topics.troubled(None);
            if let Some(id) = ids.first().and_then(Option::as_deref) {
                versions.is(id);
            }
            for (name, id) in names.iter().zip(ids.iter().skip(1)) {
                news |= topics.wanted(name).identified(id.as_deref());
            }
            topics.looked(asked, None);
            if news {
                topics.bump();
                versions.changed.send_modify(|n| *n = n.wrapping_add(1));
            }
            if ids.iter().skip(1).any(Option::is_none) { SOON } else { PERIOD }
        }
        Err(KafkaError::Refused(reason)) => {
            topics.looked(asked, Some(reason.clone()));
            topics.refuse(reason);
            PERIOD
        }
        Err(error @ (KafkaError::Transient(_) | KafkaError::Fenced(_) | KafkaError::Topic(_) | KafkaError::Absent { .. })) => {
            let reason = topics.reader().context().unreachable().unwrap_or_else(|| error.to_string());
            topics.looked(asked, Some(reason.clone()));
            topics.troubled(Some(reason));
            AGAIN
        }
    }
}

impl Versions {
    fn is(&self, id: &str) {
        if self.id.get_or_init(|| id.to_owned()) != id {
            self.anew.get_or_init(|| ());
        }
    }
}
