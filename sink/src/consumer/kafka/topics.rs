//! All topics that were asked for, and what the threads that look after them have to tell.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem,
    sync::{
        Arc, Condvar, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use runtime::kafka::{KafkaError, Reader};
use schemas::event::SchemaEvent;
use tokio::sync::watch;

use super::{
    failed_at,
    proof::KafkaProof,
    topic::{Topic, lock},
};
use crate::error::SinkError;

pub(super) struct Topics {
    reader: Reader,
    brokers: String,
    /// Nobody shares the lanes.
    alone: bool,
    topics: RwLock<HashMap<Arc<str>, Arc<Topic>>>,
    /// How many lanes each topic has, as the schema versions tell.
    lanes: Mutex<BTreeMap<String, u32>>,
    changed: watch::Sender<u64>,
    trouble: watch::Sender<Option<String>>,
    /// Why the brokers refuse us.
    refused: Mutex<Option<String>>,
    looking: Mutex<Looking>,
    asked: Condvar,
    looked: watch::Sender<Looked>,
    turns: AtomicU64,
}

/// What the watcher is asked for.
#[derive(Default)]
struct Looking {
    /// All topics are to be looked at.
    now: bool,
    /// Topics whose rows wait to be committed: only these are looked at, however many there are.
    doubted: BTreeSet<Arc<str>>,
    ended: bool,
    /// The number of the newest look that has begun.
    begun: u64,
}

/// What came of the newest look.
#[derive(Default)]
pub(super) struct Looked {
    pub number: u64,
    pub failed: Option<String>,
}

/// One look of the watcher.
pub(super) struct Look {
    pub number: u64,
    /// Without `all`: these topics only.
    pub doubted: Vec<Arc<str>>,
    pub all: bool,
}

impl Topics {
    pub fn new(reader: Reader, brokers: &str, alone: bool) -> Self {
        Self {
            reader,
            brokers: brokers.to_owned(),
            alone,
            topics: RwLock::default(),
            lanes: Mutex::default(),
            changed: watch::Sender::new(0),
            trouble: watch::Sender::new(None),
            refused: Mutex::default(),
            looking: Mutex::default(),
            asked: Condvar::new(),
            looked: watch::Sender::default(),
            turns: AtomicU64::new(1),
        }
    }

    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    pub fn alone(&self) -> bool {
        self.alone
    }

    pub fn failed(&self, error: KafkaError) -> SinkError {
        failed_at(&self.brokers, error)
    }

    /// The topic, which is looked after from now on.
    pub fn wanted(&self, name: &str) -> Arc<Topic> {
        if let Some(known) = self.topics.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return known.clone();
        }
        let topic = {
            let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
            topics.entry(name.into()).or_insert_with(|| Arc::new(Topic::new(name))).clone()
        };
        self.look();
        topic
    }

    /// The names that were asked for, in order.
    pub fn names(&self) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = self.topics.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        names.sort_unstable();
        names
    }

    pub fn learn(&self, events: &[SchemaEvent]) {
        let mut lanes = lock(&self.lanes);
        for part in events.iter().flat_map(|event| &event.tables) {
            lanes.insert(part.topic.clone(), part.lanes);
        }
    }

    pub fn lanes(&self, topic: &str) -> Option<u32> {
        lock(&self.lanes).get(topic).copied()
    }

    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// What a lane calls when there is something to take: from a thread of the library, so it only counts.
    pub fn news(&self) -> impl Fn() + Send + Sync + 'static {
        let changed = self.changed.clone();
        move || changed.send_modify(|n| *n = n.wrapping_add(1))
    }

    pub fn bump(&self) {
        self.changed.send_modify(|n| *n = n.wrapping_add(1));
    }

    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.trouble.subscribe()
    }

    /// The brokers cannot be reached, or can be again. True: something else than before.
    pub fn troubled(&self, reason: Option<String>) -> bool {
        let reason = reason.map(|reason| match failed_at(&self.brokers, KafkaError::Transient(reason)) {
            SinkError::Transient(reason) => reason,
            other => other.to_string(),
        });
        self.trouble.send_if_modified(|known| {
            let new = *known != reason;
            *known = reason;
            new
        })
    }

    pub fn refuse(&self, reason: String) {
        *lock(&self.refused) = Some(reason);
        self.bump();
    }

    pub fn refused(&self) -> Option<SinkError> {
        lock(&self.refused).clone().map(SinkError::Refused)
    }

    /// The group gave us lanes, and has said with it whose the lanes of `subscribed` are.
    pub fn assigned(&self, lanes: &[(String, u32)], subscribed: &[Arc<str>]) {
        for (name, lane) in lanes {
            self.wanted(name).assign(*lane, self.turns.fetch_add(1, Ordering::Relaxed));
        }
        for name in subscribed {
            self.wanted(name).told();
        }
        self.bump();
    }

    pub fn revoked(&self, lanes: &[(String, u32)]) {
        for (name, lane) in lanes {
            self.wanted(name).revoke(*lane);
        }
        self.bump();
    }

    /// Asks the watcher to look at the topics now.
    pub fn look(&self) {
        lock(&self.looking).now = true;
        self.asked.notify_all();
    }

    /// Ends the watcher.
    pub fn end(&self) {
        lock(&self.looking).ended = true;
        self.asked.notify_all();
    }

    /// Waits until a look is asked for; after `deadline` all topics are to be looked at. None: there is nothing to be looked at any more.
    pub fn asked(&self, deadline: Instant) -> Option<Look> {
        let looking = lock(&self.looking);
        let at_most = deadline.saturating_duration_since(Instant::now());
        let idle = |looking: &mut Looking| !looking.now && looking.doubted.is_empty() && !looking.ended;
        let (mut looking, waited) = self.asked.wait_timeout_while(looking, at_most, idle).unwrap_or_else(PoisonError::into_inner);
        if looking.ended {
            return None;
        }
        looking.begun += 1;
        let all = mem::take(&mut looking.now) || waited.timed_out() || Instant::now() >= deadline;
        Some(Look { number: looking.begun, doubted: mem::take(&mut looking.doubted).into_iter().collect(), all })
    }

    /// What came of a look.
    pub fn looked(&self, look: &Look, failed: Option<String>) {
        self.looked.send_replace(Looked { number: look.number, failed });
    }

    /// Asks whether these topics, by name and identity, are those that rows were fetched from before this call.
    pub fn prove<'t>(&self, topics: impl Iterator<Item = (&'t str, &'t str)>) -> KafkaProof {
        let doubted: BTreeMap<&str, &str> = topics.collect();
        let known = doubted.iter().map(|(name, id)| (self.wanted(name), Arc::from(*id))).collect();
        let mut proof = KafkaProof { topics: known, number: 0, looked: self.looked.subscribe() };
        if !doubted.is_empty() {
            let mut looking = lock(&self.looking);
            looking.doubted.extend(doubted.keys().map(|name| Arc::from(*name)));
            proof.number = looking.begun + 1;
            self.asked.notify_all();
        }
        proof
    }
}
