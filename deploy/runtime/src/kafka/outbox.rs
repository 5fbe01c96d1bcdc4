//! Hands records to a producer: many of one lane a call, and without a copy of their values.
#![expect(unsafe_code, reason = "the client library's own interface")]

use std::{
    ffi::{CStr, CString},
    ptr,
    sync::Arc,
};

use rdkafka::{
    bindings as raw,
    error::RDKafkaErrorCode,
    producer::{BaseProducer, Producer},
};

use super::{KafkaError, connection::Context, sorted_code};

/// A topic as a producer knows it.
pub struct Outbox {
    topic: *mut raw::rd_kafka_topic_t,
    name: String,
    /// The topic belongs to it.
    _producer: Arc<BaseProducer<Context>>,
}

// SAFETY: the library's topics may be used from any thread.
unsafe impl Send for Outbox {}
// SAFETY: as above.
unsafe impl Sync for Outbox {}

impl Drop for Outbox {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and destroyed once.
        unsafe { raw::rd_kafka_topic_destroy(self.topic) };
    }
}

/// Records of one lane that are about to be sent.
#[derive(Default)]
pub struct Records(Vec<raw::rd_kafka_message_t>);

// SAFETY: pointers to bytes that the caller of `Outbox::send` vouches for.
unsafe impl Send for Records {}

impl Records {
    pub fn push(&mut self, key: Option<&[u8]>, value: &[u8]) {
        let (key, key_len) = key.map_or((ptr::null_mut(), 0), |key| (key.as_ptr().cast_mut().cast(), key.len()));
        self.0.push(raw::rd_kafka_message_t {
            err: raw::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR,
            rkt: ptr::null_mut(),
            partition: 0,
            payload: value.as_ptr().cast_mut().cast(),
            len: value.len(),
            key,
            key_len,
            offset: 0,
            _private: ptr::null_mut(),
        });
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Whether all records were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    All,
    /// The producer is full; those that are left in [`Records`] are to be sent again.
    Full,
}

impl Outbox {
    pub fn new(producer: &Arc<BaseProducer<Context>>, topic: &str) -> Result<Self, KafkaError> {
        let name = CString::new(topic).map_err(|_| KafkaError::Topic(format!("topic {topic}: the name has a NUL")))?;
        // SAFETY: the client lives as long as the producer, which is kept; the name is copied.
        let handle = unsafe { raw::rd_kafka_topic_new(producer.client().native_ptr(), name.as_ptr(), ptr::null_mut()) };
        if handle.is_null() {
            return Err(KafkaError::Refused(format!("topic {topic}: the library does not take it")));
        }
        Ok(Self { topic: handle, name: topic.to_owned(), _producer: producer.clone() })
    }

    /// Queues records for a lane, in order. Keys are copied, values are not.
    ///
    /// # Errors
    ///
    /// A record that the library does not take; those before it are queued.
    ///
    /// # Safety
    ///
    /// The bytes of the records stay as they are until the producer has let go of them: until a flush has succeeded, or the producer is
    /// gone.
    pub unsafe fn send(&self, lane: u32, records: &mut Records) -> Result<Sent, KafkaError> {
        let lane = i32::try_from(lane).unwrap_or(i32::MAX);
        let count = i32::try_from(records.0.len()).unwrap_or(i32::MAX);
        // SAFETY: the topic is valid and the array has so many records; their bytes are the caller's word.
        let good = unsafe { raw::rd_kafka_produce_batch(self.topic, lane, 0, records.0.as_mut_ptr(), count) };
        if good == count {
            records.0.clear();
            return Ok(Sent::All);
        }
        let failed = records.0.iter().position(|r| r.err != raw::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR);
        let first = failed.unwrap_or(records.0.len());
        match records.0.get(first).map(|r| r.err) {
            None => Ok(Sent::All),
            Some(raw::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__QUEUE_FULL) => {
                records.0.drain(..first);
                Ok(Sent::Full)
            }
            Some(code) => {
                // SAFETY: the library's own text, which lives for ever.
                let text = unsafe { CStr::from_ptr(raw::rd_kafka_err2str(code)) }.to_string_lossy();
                Err(sorted_code(RDKafkaErrorCode::from(code), format!("topic {}: a row cannot be sent: {text}", self.name)))
            }
        }
    }
}
