//! What the library's safe interface does not tell: a topic's identity, and the ends of all of its lanes in one request.
#![expect(unsafe_code, reason = "the client library's own interface")]

use std::{
    ffi::{CStr, CString},
    ptr, slice,
    time::Duration,
};

use rdkafka::{bindings as raw, error::RDKafkaErrorCode};

use super::{KafkaError, sorted_code};

/// Which offset ends a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isolation {
    /// Behind everything written, whatever becomes of it.
    Written,
    /// Behind everything committed whose marker is there.
    Committed,
}

/// A topic as the broker describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Described {
    /// The identity that a topic of the same name, made anew, does not have.
    pub id: String,
    pub partitions: u32,
}

/// A queue for one answer.
struct Answer {
    queue: *mut raw::rd_kafka_queue_t,
    options: *mut raw::rd_kafka_AdminOptions_t,
    event: *mut raw::rd_kafka_event_t,
}

impl Drop for Answer {
    fn drop(&mut self) {
        // SAFETY: each was made by `Answer::new` or `wait`, and is destroyed once.
        unsafe {
            if !self.event.is_null() {
                raw::rd_kafka_event_destroy(self.event);
            }
            raw::rd_kafka_AdminOptions_destroy(self.options);
            raw::rd_kafka_queue_destroy(self.queue);
        }
    }
}

impl Answer {
    /// # Safety
    /// `client` is a valid client that outlives the answer.
    unsafe fn new(client: *mut raw::rd_kafka_t, operation: raw::rd_kafka_admin_op_t, timeout: Duration) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let answer = Self {
                queue: raw::rd_kafka_queue_new(client),
                options: raw::rd_kafka_AdminOptions_new(client, operation),
                event: ptr::null_mut(),
            };
            let ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
            raw::rd_kafka_AdminOptions_set_request_timeout(answer.options, ms, ptr::null_mut(), 0);
            answer
        }
    }

    fn wait(&mut self, what: &str, timeout: Duration) -> Result<(), KafkaError> {
        let ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).saturating_add(1000);
        // SAFETY: the queue is valid; the event is destroyed by drop.
        self.event = unsafe { raw::rd_kafka_queue_poll(self.queue, ms) };
        if self.event.is_null() {
            return Err(KafkaError::Transient(format!("{what}: the broker does not answer")));
        }
        // SAFETY: the event is valid.
        let code = unsafe { raw::rd_kafka_event_error(self.event) };
        match code {
            raw::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
            code => Err(failed(what, code)),
        }
    }
}

fn failed(what: &str, code: raw::rd_kafka_resp_err_t) -> KafkaError {
    // SAFETY: the library's own text, which lives for ever.
    let text = unsafe { CStr::from_ptr(raw::rd_kafka_err2str(code)) }.to_string_lossy();
    sorted_code(RDKafkaErrorCode::from(code), format!("{what}: {text}"))
}

/// Topics by name, in this order; None where there is no such topic.
///
/// # Safety
/// `client` is a valid client.
pub(super) unsafe fn topics(client: *mut raw::rd_kafka_t, names: &[&str], timeout: Duration) -> Result<Vec<Option<Described>>, KafkaError> {
    let what = || format!("topic {}", names.join(", "));
    let texts: Vec<CString> = names.iter().filter_map(|name| CString::new(*name).ok()).collect();
    let mut pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
    // SAFETY: the client is the caller's; the names outlive the call, which copies them; results live as long as the answer.
    unsafe {
        let mut answer = Answer::new(client, raw::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS, timeout);
        let collection = raw::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
        raw::rd_kafka_DescribeTopics(client, collection, answer.options, answer.queue);
        raw::rd_kafka_TopicCollection_destroy(collection);
        answer.wait(&what(), timeout)?;
        let result = raw::rd_kafka_event_DescribeTopics_result(answer.event);
        let mut count = 0;
        let topics = raw::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        if topics.is_null() || count != names.len() {
            return Err(KafkaError::Transient(format!("{}: the broker describes {count} of them", what())));
        }
        slice::from_raw_parts(topics, count).iter().zip(names).map(|(topic, name)| described(*topic, name)).collect()
    }
}

/// # Safety
/// `topic` is valid.
unsafe fn described(topic: *const raw::rd_kafka_TopicDescription_t, name: &str) -> Result<Option<Described>, KafkaError> {
    // SAFETY: the caller's.
    unsafe {
        let code = raw::rd_kafka_error_code(raw::rd_kafka_TopicDescription_error(topic));
        match RDKafkaErrorCode::from(code) {
            RDKafkaErrorCode::NoError => {}
            RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic => return Ok(None),
            _ => return Err(failed(&format!("topic {name}"), code)),
        }
        let mut partitions = 0;
        raw::rd_kafka_TopicDescription_partitions(topic, &raw mut partitions);
        let id = raw::rd_kafka_TopicDescription_topic_id(topic);
        let id = CStr::from_ptr(raw::rd_kafka_Uuid_base64str(id)).to_string_lossy().into_owned();
        Ok(Some(Described { id, partitions: u32::try_from(partitions).unwrap_or(u32::MAX) }))
    }
}

/// The ends of the lanes 0 to `lanes` of a topic.
///
/// # Safety
/// `client` is a valid client.
pub(super) unsafe fn ends(
    client: *mut raw::rd_kafka_t,
    topic: &str,
    lanes: u32,
    isolation: Isolation,
    timeout: Duration,
) -> Result<Vec<u64>, KafkaError> {
    let what = format!("topic {topic}");
    let name = CString::new(topic).map_err(|_| KafkaError::Topic(format!("{what}: the name has a NUL")))?;
    let count = usize::try_from(lanes).unwrap_or(0);
    // SAFETY: the client is the caller's; the list is copied by the call; results live as long as the answer.
    unsafe {
        let mut answer = Answer::new(client, raw::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTOFFSETS, timeout);
        let level = match isolation {
            Isolation::Written => raw::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_UNCOMMITTED,
            Isolation::Committed => raw::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED,
        };
        let error = raw::rd_kafka_AdminOptions_set_isolation_level(answer.options, level);
        if !error.is_null() {
            raw::rd_kafka_error_destroy(error);
            return Err(KafkaError::Refused(format!("{what}: the library does not know the isolation level")));
        }
        let list = raw::rd_kafka_topic_partition_list_new(i32::try_from(lanes).unwrap_or(i32::MAX));
        for lane in 0..lanes {
            let entry = raw::rd_kafka_topic_partition_list_add(list, name.as_ptr(), i32::try_from(lane).unwrap_or(i32::MAX));
            (*entry).offset = i64::from(raw::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_LATEST as i32);
        }
        raw::rd_kafka_ListOffsets(client, list, answer.options, answer.queue);
        raw::rd_kafka_topic_partition_list_destroy(list);
        answer.wait(&what, timeout)?;
        let result = raw::rd_kafka_event_ListOffsets_result(answer.event);
        let mut found = 0;
        let infos = raw::rd_kafka_ListOffsets_result_infos(result, &raw mut found);
        let mut ends: Vec<Option<u64>> = vec![None; count];
        if !infos.is_null() {
            for info in slice::from_raw_parts(infos, found) {
                let place = &*raw::rd_kafka_ListOffsetsResultInfo_topic_partition(*info);
                match RDKafkaErrorCode::from(place.err) {
                    RDKafkaErrorCode::NoError => {}
                    RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownPartition | RDKafkaErrorCode::UnknownTopic => {
                        return Err(KafkaError::Topic(format!("{what}, partition {}: is not there", place.partition)));
                    }
                    _ => return Err(failed(&what, place.err)),
                }
                let end = usize::try_from(place.partition).ok().and_then(|lane| ends.get_mut(lane));
                if let Some(end) = end {
                    *end = u64::try_from(place.offset).ok();
                }
            }
        }
        let whole: Option<Vec<u64>> = ends.into_iter().collect();
        whole.ok_or_else(|| KafkaError::Transient(format!("{what}: the broker does not tell the end of every partition")))
    }
}
