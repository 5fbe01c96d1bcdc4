//! This instance's place in the sink's group, on a thread of its own.
//!
//! The group says which lanes are ours. Nothing is fetched for it and nothing is committed to it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientContext, Offset, TopicPartitionList,
    client::OAuthToken,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol},
    error::{KafkaError as LibraryError, RDKafkaErrorCode},
    types::RDKafkaRespErr,
};
use runtime::{
    config::KafkaTopics,
    kafka::{Context, KafkaError, client_config, sorted},
};

use super::{topic::lock, topics::Topics};

/// How often the thread looks up from its events.
const TURN: Duration = Duration::from_millis(50);
/// What leaving the group may take before it is left to the session's end.
const LEAVE: Duration = Duration::from_secs(3);

/// In the group until dropped.
pub(super) struct Member {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return };
        let deadline = Instant::now() + LEAVE;
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Member {
    pub fn join(config: &KafkaTopics, group: &str, topics: Arc<Topics>) -> Result<Self, KafkaError> {
        let mut client = client_config(config, group);
        let ours = [
            ("group.id", group),
            ("group.protocol", "classic"),
            ("partition.assignment.strategy", "cooperative-sticky"),
            ("session.timeout.ms", "10000"),
            ("heartbeat.interval.ms", "2000"),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("auto.offset.reset", "error"),
            // Its partitions are paused. What may slip through before they are is small.
            ("queued.min.messages", "1"),
            ("queued.max.messages.kbytes", "1"),
            ("fetch.message.max.bytes", "1"),
        ];
        for (key, value) in ours {
            client.set(key, value);
        }
        let context =
            GroupContext { inner: Context::new(config), topics: topics.clone(), subscribed: Mutex::default(), lost: Mutex::default() };
        let consumer = BaseConsumer::from_config_and_context(&client, context).map_err(|e| sorted("topics.kafka", &e))?;
        let ended = Arc::new(AtomicBool::new(false));
        let thread = {
            let (ended, group) = (ended.clone(), group.to_owned());
            std::thread::Builder::new().name("kafka-group".into()).spawn(move || attend(&consumer, &topics, &group, &ended))
        };
        let thread = thread.map_err(|e| KafkaError::Transient(format!("a thread: {e}")))?;
        Ok(Self { ended, thread: Some(thread) })
    }
}

/// Serves the group until the end. The consumer leaves the group as it is dropped.
fn attend(consumer: &BaseConsumer<GroupContext>, topics: &Topics, group: &str, ended: &AtomicBool) {
    let (mut subscribed, mut before) = (Vec::new(), Vec::new());
    while !ended.load(Ordering::Relaxed) {
        if let Some(Err(error)) = consumer.poll(TURN) {
            heard(topics, group, &error);
        }
        let names = topics.names();
        // Topics come in swarms: each change of the list has the whole group assigned anew.
        if names != subscribed && names == before {
            let list: Vec<&str> = names.iter().map(|name| &**name).collect();
            match consumer.subscribe(&list) {
                Ok(()) => {
                    lock(&consumer.context().subscribed).clone_from(&names);
                    subscribed.clone_from(&names);
                }
                Err(error) => tracing::warn!(group, %error, "the group's topics cannot be told"),
            }
        }
        before = names;
    }
}

fn heard(topics: &Topics, group: &str, error: &LibraryError) {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::GroupAuthorizationFailed) => {
            topics.refuse(format!("consumer group {group}: {error}. Allow this user to read it."));
        }
        Some(RDKafkaErrorCode::TopicAuthorizationFailed) => topics.refuse(format!("consumer group {group}: {error}")),
        // A topic that is just made; the watcher says if it stays away. Offsets are not read here.
        Some(_) | None => tracing::debug!(group, %error, "the sink's group"),
    }
}

struct GroupContext {
    inner: Context,
    topics: Arc<Topics>,
    /// The topics of the last subscription.
    subscribed: Mutex<Vec<Arc<str>>>,
    /// Lanes that the group took without saying who has them now.
    lost: Mutex<Vec<(String, u32)>>,
}

impl ClientContext for GroupContext {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.inner.log(level, facility, message);
    }

    fn error(&self, error: LibraryError, reason: &str) {
        self.inner.error(error, reason);
    }

    fn generate_oauth_token(&self, config: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        self.inner.generate_oauth_token(config)
    }
}

impl ConsumerContext for GroupContext {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let lanes = lanes(list);
        let cooperative = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => true,
            RebalanceProtocol::None | RebalanceProtocol::Eager => false,
        };
        let assigned = match event {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => true,
            // The group has forgotten us, as it does where the broker was away for long. Nobody has said that another instance has
            // the lanes: they are read on until the group says whose they are. The stored positions keep two readers apart.
            _ if consumer.assignment_lost() => {
                lock(&self.lost).extend_from_slice(&lanes);
                false
            }
            _ => {
                // Given back once they are read no more.
                self.topics.revoked(&lanes);
                false
            }
        };
        let done = match (assigned, cooperative) {
            (true, true) => assign(consumer, list, &lanes),
            (true, false) => consumer.assign(list).and_then(|()| consumer.pause(list)),
            (false, true) => consumer.incremental_unassign(list),
            (false, false) => consumer.unassign(),
        };
        if let Err(error) = done {
            tracing::warn!(%error, "the group's answer cannot be taken");
        }
        tracing::debug!(?event, lanes = lanes.len(), "the sink's group has spread its lanes");
        if assigned {
            let mut lost = std::mem::take(&mut *lock(&self.lost));
            lost.retain(|lane| !lanes.contains(lane));
            self.topics.revoked(&lost);
            let subscribed = lock(&self.subscribed).clone();
            self.topics.assigned(&lanes, &subscribed);
        }
    }
}

fn lanes(list: &TopicPartitionList) -> Vec<(String, u32)> {
    let all = list.elements();
    all.iter().filter_map(|e| Some((e.topic().to_owned(), u32::try_from(e.partition()).ok()?))).collect()
}

/// Takes partitions on without reading them: with an offset, so that none is asked for, and paused at once.
fn assign(consumer: &BaseConsumer<GroupContext>, list: &mut TopicPartitionList, lanes: &[(String, u32)]) -> Result<(), LibraryError> {
    if lanes.is_empty() {
        return consumer.incremental_assign(list);
    }
    list.set_all_offsets(Offset::Offset(0))?;
    consumer.incremental_assign(list)?;
    consumer.pause(list)
}
