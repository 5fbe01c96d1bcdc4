//! Reading lanes: the library's queue of one partition, from exactly the offset asked for.
//!
//! The library's safe interface gives neither the offset of an end-of-partition event, by which a lane's position moves over
//! commit markers, nor several records a call. So this file speaks to the library itself.
#![expect(unsafe_code, reason = "the client library's own interface")]

use std::{
    borrow::Cow,
    ffi::{CStr, CString, c_void},
    ptr, slice,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use rdkafka::{
    bindings as raw,
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, Consumer},
    error::RDKafkaErrorCode,
};

use super::{KafkaError, connection::Context, connection::client_config, patience::patiently, sorted, sorted_code};
use crate::config::KafkaTopics;

/// Records taken from the library in one call.
const CALL: usize = 500;
/// How long a broker is asked for what a lane holds.
const ASK: Duration = Duration::from_secs(5);

/// Reads committed records of any number of lanes, each from an offset of the caller's.
#[derive(Clone)]
pub struct Reader {
    inner: Arc<Inner>,
}

struct Inner {
    consumer: Arc<BaseConsumer<Context>>,
    ended: Arc<AtomicBool>,
    poller: Option<JoinHandle<()>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(poller) = self.poller.take() {
            drop(poller.join());
        }
    }
}

impl Reader {
    /// `lane_kbytes`: how much of a lane is fetched ahead.
    pub fn open(topics: &KafkaTopics, client: &str, lane_kbytes: u32) -> Result<Self, KafkaError> {
        let mut config = client_config(topics, client);
        let ours = [
            ("isolation.level", "read_committed"),
            ("auto.offset.reset", "error"),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("enable.partition.eof", "true"),
            ("check.crcs", "true"),
        ];
        for (key, value) in ours {
            config.set(key, value);
        }
        let ahead = lane_kbytes.to_string();
        let unless_given = [
            // A queue that was full is filled again at once.
            ("fetch.queue.backoff.ms", "5"),
            // The end of a lane is told by the first answer that brings nothing, so this late: a boundary behind a marker waits for it.
            ("fetch.wait.max.ms", "10"),
            ("fetch.error.backoff.ms", "50"),
            // Compressed: a lane's queue may be over its limit by what one answer unpacks to.
            ("fetch.message.max.bytes", "524288"),
            // A record may be as large as its topic takes.
            ("receive.message.max.bytes", "2147483647"),
            ("queued.max.messages.kbytes", &ahead),
        ];
        for (key, value) in unless_given.into_iter().filter(|(key, _)| !topics.properties.contains_key(*key)) {
            config.set(key, value);
        }
        let consumer = BaseConsumer::from_config_and_context(&config, Context::new(topics));
        let consumer = Arc::new(consumer.map_err(|e| sorted("topics.kafka", &e))?);
        let ended = Arc::new(AtomicBool::new(false));
        let poller = {
            let (consumer, ended) = (consumer.clone(), ended.clone());
            // Errors, the log and the token are served here; records have queues of their own.
            std::thread::Builder::new().name("kafka-events".into()).spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    drop(consumer.poll(Duration::from_millis(100)));
                }
            })
        };
        let poller = poller.map_err(|e| KafkaError::Transient(format!("a thread: {e}")))?;
        Ok(Self { inner: Arc::new(Inner { consumer, ended, poller: Some(poller) }) })
    }

    pub fn context(&self) -> &Context {
        self.inner.consumer.client().context()
    }

    /// First and end offset of what is committed.
    pub fn bounds(&self, topic: &str, partition: u32) -> Result<(u64, u64), KafkaError> {
        let what = || format!("topic {topic}, partition {partition}");
        let number = i32::try_from(partition).map_err(|_| KafkaError::Topic(what()))?;
        let consumer = &self.inner.consumer;
        let (low, high) =
            patiently(consumer.client(), topic, || consumer.fetch_watermarks(topic, number, ASK).map_err(|e| sorted(&what(), &e)))?;
        Ok((u64::try_from(low).unwrap_or(0), u64::try_from(high).unwrap_or(0)))
    }

    /// Begins to read a lane at `from`. `news` is called, from a thread of the library, when there is something to take. A lane may be
    /// read once at a time.
    pub fn lane(&self, topic: &str, partition: u32, from: u64, news: impl Fn() + Send + Sync + 'static) -> Result<Lane, KafkaError> {
        let refused = |why: &str| KafkaError::Refused(format!("topic {topic}, partition {partition}: {why}"));
        let name = CString::new(topic).map_err(|_| refused("the name has a NUL"))?;
        let (number, offset) = match (i32::try_from(partition), i64::try_from(from)) {
            (Ok(number), Ok(offset)) => (number, offset),
            (Err(_), _) | (_, Err(_)) => return Err(refused("the number is too large")),
        };
        let client = self.inner.consumer.client().native_ptr();
        let news: Box<Box<dyn Fn() + Send + Sync>> = Box::new(Box::new(news));
        // SAFETY: the client lives as long as the lane, which holds the reader; topic and queue are destroyed by the lane's drop.
        let (handle, queue) = unsafe { (raw::rd_kafka_topic_new(client, name.as_ptr(), ptr::null_mut()), raw::rd_kafka_queue_new(client)) };
        if handle.is_null() {
            // SAFETY: the queue was made above and is used by nobody.
            unsafe { raw::rd_kafka_queue_destroy(queue) };
            return Err(refused("the library does not take it"));
        }
        let mut lane = Lane {
            reader: self.clone(),
            name,
            topic: handle,
            partition: number,
            queue,
            news,
            next: AtomicU64::new(from),
            floor: AtomicU64::new(u64::MAX),
            late: Mutex::default(),
            started: false,
        };
        // SAFETY: `news` is boxed twice, so the inner address stays; it is taken out of use before it is dropped.
        unsafe { raw::rd_kafka_queue_cb_event_enable(queue, Some(on_news), ptr::from_ref(&*lane.news).cast_mut().cast()) };
        // SAFETY: topic and queue are valid.
        if unsafe { raw::rd_kafka_consume_start_queue(handle, number, offset, queue) } != 0 {
            return Err(refused("the library does not read it"));
        }
        lane.started = true;
        Ok(lane)
    }
}

unsafe extern "C" fn on_news(_: *mut raw::rd_kafka_t, news: *mut c_void) {
    // SAFETY: the pointer is the one given with this callback, to a box that outlives it.
    let news = unsafe { &*news.cast::<Box<dyn Fn() + Send + Sync>>() };
    news();
}

/// One lane that is being read.
pub struct Lane {
    reader: Reader,
    name: CString,
    topic: *mut raw::rd_kafka_topic_t,
    partition: i32,
    queue: *mut raw::rd_kafka_queue_t,
    news: Box<Box<dyn Fn() + Send + Sync>>,
    /// The offset of the next record, as far as is known.
    next: AtomicU64,
    /// Above it the library's position tells what was read. Before anything came, it may be that of an earlier reading; an
    /// end-of-partition event moves it one too far.
    floor: AtomicU64,
    /// An error that came behind records.
    late: Mutex<Option<raw::rd_kafka_resp_err_t>>,
    started: bool,
}

// SAFETY: the library's topics and queues may be used from any thread.
unsafe impl Send for Lane {}
// SAFETY: as above; `late` has its lock.
unsafe impl Sync for Lane {}

impl Drop for Lane {
    fn drop(&mut self) {
        // SAFETY: each was made in `Reader::lane` and is let go once, the callback before its box.
        unsafe {
            if self.started {
                raw::rd_kafka_consume_stop(self.topic, self.partition);
            }
            raw::rd_kafka_queue_cb_event_enable(self.queue, None, ptr::null_mut());
            raw::rd_kafka_queue_destroy(self.queue);
            raw::rd_kafka_topic_destroy(self.topic);
        }
    }
}

impl Lane {
    /// What has come, in order, about `bytes` of it; waits that long for the first of it.
    ///
    /// # Errors
    ///
    /// `Absent`: the lane does not have the offset that was asked for. Others by the broker's code.
    pub fn take(&self, bytes: usize, wait: Duration) -> Result<Taken, KafkaError> {
        let mut taken = Taken { messages: Vec::new(), end: None, position: None, bytes: 0, _reader: self.reader.clone() };
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(code) = late {
            return Err(self.failed(code));
        }
        if wait.is_zero() || !self.call(&mut taken, 1, wait)?.is_empty_call() {
            while taken.bytes < bytes {
                if self.call(&mut taken, CALL, Duration::ZERO)?.is_empty_call() {
                    break;
                }
            }
        }
        taken.position = self.position();
        Ok(taken)
    }

    /// Behind everything that was read, commit markers and aborted records too; None: that is not known.
    fn position(&self) -> Option<u64> {
        let floor = self.floor.load(Ordering::Relaxed);
        if floor == u64::MAX {
            return None;
        }
        // SAFETY: the client lives as long as the reader; the list has one element, and is destroyed here.
        let position = unsafe {
            let list = raw::rd_kafka_topic_partition_list_new(1);
            let element = raw::rd_kafka_topic_partition_list_add(list, self.name.as_ptr(), self.partition);
            raw::rd_kafka_position(self.reader.inner.consumer.client().native_ptr(), list);
            let position = (*element).offset;
            raw::rd_kafka_topic_partition_list_destroy(list);
            position
        };
        u64::try_from(position).ok().filter(|position| *position > floor)
    }

    fn call(&self, taken: &mut Taken, most: usize, wait: Duration) -> Result<Called, KafkaError> {
        let mut messages: [*mut raw::rd_kafka_message_t; CALL] = [ptr::null_mut(); CALL];
        let wait = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the array has room for `most` pointers; those filled in are ours to destroy, which `Message` does.
        let count = unsafe { raw::rd_kafka_consume_batch_queue(self.queue, wait, messages.as_mut_ptr(), most.min(CALL)) };
        let count = usize::try_from(count).unwrap_or(0);
        let mut failed = None;
        for message in messages.into_iter().take(count) {
            let message = Message(message);
            let head = message.head();
            match head.err {
                raw::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => {
                    taken.end = None;
                    if self.floor.load(Ordering::Relaxed) == u64::MAX {
                        self.floor.store(0, Ordering::Relaxed);
                    }
                    self.next.store(message.offset() + 1, Ordering::Relaxed);
                    taken.bytes += head.len + head.key_len;
                    taken.messages.push(message);
                }
                raw::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__PARTITION_EOF => {
                    taken.end = u64::try_from(head.offset).ok();
                    self.floor.store(taken.end.map_or(u64::MAX, |end| end + 1), Ordering::Relaxed);
                }
                code => {
                    failed = Some(code);
                    self.floor.store(u64::MAX, Ordering::Relaxed);
                }
            }
        }
        match failed {
            Some(code) if taken.messages.is_empty() => Err(self.failed(code)),
            Some(code) => {
                *self.late.lock().unwrap_or_else(PoisonError::into_inner) = Some(code);
                Ok(Called(0))
            }
            None => Ok(Called(count)),
        }
    }

    fn name(&self) -> Cow<'_, str> {
        self.name.to_string_lossy()
    }

    fn failed(&self, code: raw::rd_kafka_resp_err_t) -> KafkaError {
        let partition = u32::try_from(self.partition).unwrap_or(0);
        // SAFETY: the library's own text, which lives for ever.
        let text = unsafe { CStr::from_ptr(raw::rd_kafka_err2str(code)) }.to_string_lossy();
        let text = format!("topic {}, partition {partition}: {text}", self.name());
        let code = RDKafkaErrorCode::from(code);
        match code {
            RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange => match self.reader.bounds(&self.name(), partition) {
                Ok((low, high)) => {
                    KafkaError::Absent { topic: self.name().into_owned(), partition, offset: self.next.load(Ordering::Relaxed), low, high }
                }
                Err(error) => error,
            },
            RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownPartition => {
                KafkaError::Topic(text)
            }
            _ => sorted_code(code, text),
        }
    }
}

/// How many things came of one call.
struct Called(usize);

impl Called {
    fn is_empty_call(&self) -> bool {
        self.0 == 0
    }
}

/// Records of a lane, holding their bytes.
pub struct Taken {
    messages: Vec<Message>,
    /// The end of what is committed, where it was seen behind the records: commit markers and aborted records lie below it.
    pub end: Option<u64>,
    /// The library's position, where it tells of more.
    position: Option<u64>,
    bytes: usize,
    /// Behind the messages: they go first.
    _reader: Reader,
}

impl Taken {
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Behind everything that was read, commit markers and aborted records too; None: nothing was.
    pub fn behind(&self) -> Option<u64> {
        self.end.max(self.position).max(self.messages.last().map(|message| message.offset() + 1))
    }
}

/// One record.
pub struct Message(*mut raw::rd_kafka_message_t);

// SAFETY: a message is read-only, and the library lets it be destroyed on any thread.
unsafe impl Send for Message {}
// SAFETY: as above.
unsafe impl Sync for Message {}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: it came from the library and is destroyed once.
        unsafe { raw::rd_kafka_message_destroy(self.0) };
    }
}

impl Message {
    fn head(&self) -> &raw::rd_kafka_message_t {
        // SAFETY: valid until it is destroyed.
        unsafe { &*self.0 }
    }

    pub fn offset(&self) -> u64 {
        u64::try_from(self.head().offset).unwrap_or(0)
    }

    pub fn key(&self) -> Option<&[u8]> {
        let head = self.head();
        // SAFETY: the library's pointer and length of the key, valid with the message.
        (!head.key.is_null()).then(|| unsafe { slice::from_raw_parts(head.key.cast(), head.key_len) })
    }

    /// None: a tombstone.
    pub fn value(&self) -> Option<&[u8]> {
        let head = self.head();
        // SAFETY: as of the key.
        (!head.payload.is_null()).then(|| unsafe { slice::from_raw_parts(head.payload.cast(), head.len) })
    }
}
