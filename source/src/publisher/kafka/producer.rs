//! The transactional producer. Its calls block.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rdkafka::{
    bindings as raw,
    config::FromClientConfigAndContext,
    error::{KafkaError as LibraryError, RDKafkaErrorCode},
    producer::{BaseProducer, Producer as _},
};
use runtime::{
    config::KafkaTopics,
    kafka::{Context, Outbox, Records, Sent, client_config, sorted, sorted_code},
};

use super::{failed, transaction::Transaction};
use crate::error::CaptureError;

/// A transaction that is open longer is aborted by the broker.
const TRANSACTION_TIMEOUT_MS: u32 = 30_000;
/// How long the broker may be away before the source says so and begins again.
const AWAY: Duration = Duration::from_secs(5);
/// How long one commit may take in all.
const COMMIT: Duration = Duration::from_secs(25);
/// How long the fence may take: the broker ends an older source's transaction first.
const FENCE: Duration = Duration::from_secs(9);
/// How long ending a transaction that failed may take; the next start's fence does it otherwise.
const ABORT: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(100);
/// The largest that the library allows: a topic's own limit is what counts, and is looked at before.
const LARGEST: &str = "1000000000";
/// Records that are sorted by lane at a time.
const PART: usize = 4000;

/// One life of the transactional id: from the fence until it fails or a newer one takes over.
pub(super) struct Producer {
    /// By the topics' handles.
    outboxes: Mutex<Vec<Option<Outbox>>>,
    inner: Arc<BaseProducer<Context>>,
    brokers: String,
    ended: Arc<AtomicBool>,
    poller: Option<JoinHandle<()>>,
    /// Transactions that failed: the library may still look at their bytes until it is gone, which it is before them.
    kept: Mutex<Vec<Transaction>>,
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(poller) = self.poller.take() {
            drop(poller.join());
        }
    }
}

impl Producer {
    /// Connects and keeps every older producer with this transactional id out. No batch is larger than `batch` bytes but for a single
    /// record that is.
    pub fn open(topics: &KafkaTopics, client: &str, id: &str, batch: usize) -> Result<Self, CaptureError> {
        let mut config = client_config(topics, client);
        let batch = batch.to_string();
        let tunable = [
            ("compression.type", "lz4"),
            ("linger.ms", "5"),
            ("batch.size", batch.as_str()),
            // Our transactions bound what waits; a record that is larger than the library's queue would never be taken.
            ("queue.buffering.max.kbytes", "2147483647"),
            ("queue.buffering.max.messages", "10000000"),
            ("batch.num.messages", "100000"),
        ];
        for (key, value) in tunable {
            if !topics.properties.contains_key(key) {
                config.set(key, value);
            }
        }
        config.set("transactional.id", id).set("enable.idempotence", "true").set("acks", "all");
        config.set("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS.to_string());
        config.set("delivery.report.only.error", "true").set("message.max.bytes", LARGEST);
        let what = "topics.kafka: the producer";
        let inner: BaseProducer<Context> =
            BaseProducer::from_config_and_context(&config, Context::new(topics)).map_err(|e| failed(sorted(what, &e)))?;
        let inner = Arc::new(inner);
        let ended = Arc::new(AtomicBool::new(false));
        let poller = {
            let (inner, ended) = (inner.clone(), ended.clone());
            // Errors, tokens and what was not delivered are heard here.
            std::thread::Builder::new().name("kafka-producer".into()).spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    inner.poll(STEP);
                }
            })
        };
        let poller = poller.map_err(|e| CaptureError::Transient(format!("a thread cannot be started: {e}")))?;
        let producer = Self {
            outboxes: Mutex::default(),
            inner,
            brokers: topics.brokers.clone(),
            ended,
            poller: Some(poller),
            kept: Mutex::default(),
        };
        producer.fence(id)?;
        Ok(producer)
    }

    fn context(&self) -> &Context {
        self.inner.client().context()
    }

    fn fence(&self, id: &str) -> Result<(), CaptureError> {
        let deadline = Instant::now() + FENCE;
        loop {
            let Err(error) = self.inner.init_transactions(Duration::from_millis(1000)) else {
                self.context().forget();
                return Ok(());
            };
            if let Some(refusal) = self.context().refusal() {
                return Err(CaptureError::Refused(format!("topics.kafka.brokers {}: {refusal}", self.brokers)));
            }
            let retriable = matches!(&error, LibraryError::Transaction(e) if e.is_retriable());
            if !retriable || Instant::now() >= deadline {
                return Err(self.sorted(&format!("the transactional id {id} cannot be taken"), &error));
            }
        }
    }

    /// Sends everything and commits it; gives back the transaction's room. `names` are the topics' names by their handles.
    ///
    /// # Errors
    ///
    /// Where nothing of it is there, or where it is not known: the next fence, and then the newest progress, tell.
    pub fn commit(&self, mut transaction: Transaction, names: &[Arc<str>]) -> Result<Transaction, CaptureError> {
        match self.try_commit(&transaction, names) {
            Ok(()) => {
                transaction.clear();
                Ok(transaction)
            }
            Err(error) => {
                self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(transaction);
                Err(error)
            }
        }
    }

    fn try_commit(&self, transaction: &Transaction, names: &[Arc<str>]) -> Result<(), CaptureError> {
        self.inner.begin_transaction().map_err(|e| self.sorted("a transaction cannot be begun", &e))?;
        let done = self.send(transaction, names).and_then(|()| self.flush()).and_then(|()| self.end());
        if let Err(error) = &done
            && matches!(error, CaptureError::Transient(_) | CaptureError::Stop { .. })
            && self.context().unreachable().is_none()
            // Where that fails too, the next fence ends it.
            && let Err(error) = self.inner.abort_transaction(ABORT)
        {
            tracing::debug!(%error, "the transaction could not be aborted");
        }
        done
    }

    /// Queues all records, those of a lane in their order.
    fn send(&self, transaction: &Transaction, names: &[Arc<str>]) -> Result<(), CaptureError> {
        let mut outboxes = self.outboxes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lanes: BTreeMap<(usize, u32), Records> = BTreeMap::new();
        let mut records = transaction.iter().peekable();
        while records.peek().is_some() {
            for outgoing in records.by_ref().take(PART) {
                lanes.entry((outgoing.topic.0, outgoing.lane)).or_default().push(outgoing.key, outgoing.value);
            }
            for ((topic, lane), records) in lanes.iter_mut().filter(|(_, records)| !records.is_empty()) {
                let outbox = self.outbox(&mut outboxes, *topic, names)?;
                self.send_lane(outbox, *lane, records)?;
            }
        }
        Ok(())
    }

    fn outbox<'o>(&self, outboxes: &'o mut Vec<Option<Outbox>>, topic: usize, names: &[Arc<str>]) -> Result<&'o Outbox, CaptureError> {
        let unknown = || CaptureError::Transport(format!("topic number {topic} is not known"));
        if outboxes.len() <= topic {
            outboxes.resize_with(topic + 1, || None);
        }
        let place = outboxes.get_mut(topic).ok_or_else(unknown)?;
        if place.is_none() {
            *place = Some(Outbox::new(&self.inner, names.get(topic).ok_or_else(unknown)?).map_err(failed)?);
        }
        place.as_ref().ok_or_else(unknown)
    }

    #[expect(unsafe_code, reason = "values are not copied")]
    fn send_lane(&self, outbox: &Outbox, lane: u32, records: &mut Records) -> Result<(), CaptureError> {
        let began = Instant::now();
        loop {
            // SAFETY: the bytes are the transaction's, which is left alone until its flush has succeeded, or kept until `inner` is gone.
            match unsafe { outbox.send(lane, records) }.map_err(failed)? {
                Sent::All => return Ok(()),
                Sent::Full => {
                    self.still_there(began)?;
                    self.wait_for_room();
                }
            }
        }
    }

    /// Room comes as the broker takes what it was sent; the poller takes the library's other news.
    fn wait_for_room(&self) {
        std::thread::sleep(Duration::from_millis(1));
    }

    /// Sends at once what waits for company, and waits until the broker has it all.
    fn flush(&self) -> Result<(), CaptureError> {
        let began = Instant::now();
        loop {
            match self.flush_for(STEP) {
                RDKafkaErrorCode::NoError => return Ok(()),
                RDKafkaErrorCode::OperationTimedOut => self.still_there(began)?,
                code => return Err(self.sorted("rows cannot be sent", &LibraryError::Flush(code))),
            }
            if self.inner.client().fatal_error().is_some() {
                return Err(self.sorted("rows cannot be sent", &LibraryError::Flush(RDKafkaErrorCode::Fatal)));
            }
        }
    }

    /// The crate's own flush sleeps in steps of 100 ms when nothing is reported of what was delivered; the library's wakes at once.
    #[expect(unsafe_code, reason = "the client library's own interface")]
    fn flush_for(&self, time: Duration) -> RDKafkaErrorCode {
        let ms = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the client lives as long as `inner`.
        unsafe { raw::rd_kafka_flush(self.inner.client().native_ptr(), ms) }.into()
    }

    fn end(&self) -> Result<(), CaptureError> {
        let began = Instant::now();
        loop {
            let Err(error) = self.inner.commit_transaction(AWAY) else { return Ok(()) };
            let again = matches!(&error, LibraryError::Transaction(e) if e.is_retriable() && !e.txn_requires_abort());
            if !again || self.still_there(began).is_err() || began.elapsed() >= COMMIT {
                return Err(self.sorted("a transaction cannot be committed", &error));
            }
        }
    }

    /// An error where the broker is away since `since` or longer than it may be.
    fn still_there(&self, since: Instant) -> Result<(), CaptureError> {
        let away = self.context().unreachable().filter(|_| since.elapsed() >= AWAY);
        let away = away.or_else(|| (since.elapsed() >= COMMIT).then(|| "the broker takes nothing more".into()));
        match away {
            None => Ok(()),
            Some(reason) => Err(CaptureError::Transient(format!("topics.kafka.brokers {}: {reason}", self.brokers))),
        }
    }

    /// Sorts an error by what must be done; the reason of a record that was not taken comes first.
    fn sorted(&self, what: &str, error: &LibraryError) -> CaptureError {
        let what = format!("topics.kafka.brokers {}: {what}", self.brokers);
        let code = match self.inner.client().fatal_error() {
            Some((code, _)) => Some(code),
            None => error.rdkafka_error_code(),
        };
        let fenced =
            matches!(code, Some(RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced | RDKafkaErrorCode::InvalidProducerEpoch));
        if fenced {
            return CaptureError::Fenced(format!(
                "{what}: another source of this pipeline has taken over, or this one stood still for more than {} s: {error}",
                TRANSACTION_TIMEOUT_MS / 1000
            ));
        }
        if let Some((code, topic)) = self.context().undelivered() {
            return failed(sorted_code(code, format!("{what}: topic {topic} does not take a record: {code}")));
        }
        match (code, error) {
            // Errors of a transaction end with it.
            (Some(code), LibraryError::Transaction(_)) if !refused(code) => CaptureError::Transient(format!("{what}: {error}")),
            (Some(code), _) => failed(sorted_code(code, format!("{what}: {error}"))),
            (None, _) => CaptureError::Transient(format!("{what}: {error}")),
        }
    }
}

/// What trying again does not mend.
fn refused(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::TransactionalIdAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::InvalidTransactionTimeout
            | RDKafkaErrorCode::SaslAuthenticationFailed
            | RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::SSL
    )
}
