//! What a client for questions and orders hears: the crate's own serves its answers only, so that errors, log and the wish for a
//! token would stay unheard.
#![expect(unsafe_code, reason = "the client library's own interface")]

use std::{
    ffi::{CStr, CString, c_char},
    ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use rdkafka::{ClientContext as _, admin::AdminClient, bindings as raw, config::RDKafkaLogLevel, error::KafkaError as LibraryError};

use super::{KafkaError, connection::Context};

/// One wait for news.
const STEP_MS: i32 = 50;
const TEXT: usize = 512;

/// A client with a thread that hears for it.
pub(super) struct Heard {
    pub admin: Arc<AdminClient<Context>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Heard {
    pub fn new(admin: AdminClient<Context>) -> Result<Self, KafkaError> {
        let (admin, ended) = (Arc::new(admin), Arc::new(AtomicBool::new(false)));
        let thread = {
            let (admin, ended) = (admin.clone(), ended.clone());
            std::thread::Builder::new().name("kafka-cluster".into()).spawn(move || hear(&admin, &ended))
        };
        let thread = thread.map_err(|e| KafkaError::Transient(format!("a thread: {e}")))?;
        Ok(Self { admin, ended, thread: Some(thread) })
    }
}

fn hear(admin: &AdminClient<Context>, ended: &AtomicBool) {
    let client = admin.inner().native_ptr();
    // SAFETY: the client lives as long as `admin`; the queue is let go below, before it.
    let queue = unsafe { raw::rd_kafka_queue_get_main(client) };
    while !ended.load(Ordering::Relaxed) {
        // SAFETY: the queue is valid; the event is ours, and is destroyed behind its use.
        unsafe {
            let event = raw::rd_kafka_queue_poll(queue, STEP_MS);
            if !event.is_null() {
                serve(client, event, admin.inner().context());
                raw::rd_kafka_event_destroy(event);
            }
        }
    }
    // SAFETY: taken above, and used by nobody any more.
    unsafe { raw::rd_kafka_queue_destroy(queue) };
}

/// # Safety
/// `client` and `event` are valid.
unsafe fn serve(client: *mut raw::rd_kafka_t, event: *mut raw::rd_kafka_event_t, context: &Context) {
    // SAFETY: the caller's; texts live as long as the event.
    unsafe {
        match raw::rd_kafka_event_type(event) {
            raw::RD_KAFKA_EVENT_ERROR => {
                let error = LibraryError::Global(raw::rd_kafka_event_error(event).into());
                context.error(error, text(raw::rd_kafka_event_error_string(event)).trim());
            }
            raw::RD_KAFKA_EVENT_LOG => {
                let (mut facility, mut message, mut level) = (ptr::null(), ptr::null(), 0);
                if raw::rd_kafka_event_log(event, &raw mut facility, &raw mut message, &raw mut level) == 0 {
                    let level = if level <= 3 { RDKafkaLogLevel::Error } else { RDKafkaLogLevel::Info };
                    context.log(level, text(facility).trim(), text(message).trim());
                }
            }
            raw::RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH => give_token(client, context),
            _ => {}
        }
    }
}

/// # Safety
/// `pointer` is null or a text that outlives the call's use.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// # Safety
/// `client` is valid.
unsafe fn give_token(client: *mut raw::rd_kafka_t, context: &Context) {
    let token = context.generate_oauth_token(None).map_err(|e| e.to_string());
    let token = token.and_then(|token| {
        let (value, principal) = (CString::new(token.token), CString::new(token.principal_name));
        match (value, principal) {
            (Ok(value), Ok(principal)) => Ok((value, principal, token.lifetime_ms)),
            (_, _) => Err("the token has a NUL".to_owned()),
        }
    });
    let mut problem = [0; TEXT];
    // SAFETY: the client is the caller's; the texts are copied by the calls.
    unsafe {
        let failure = match token {
            Ok((value, principal, lifetime)) => {
                let code = raw::rd_kafka_oauthbearer_set_token(
                    client,
                    value.as_ptr(),
                    lifetime,
                    principal.as_ptr(),
                    ptr::null_mut(),
                    0,
                    problem.as_mut_ptr(),
                    TEXT,
                );
                (code != raw::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| text(problem.as_ptr()))
            }
            Err(failure) => Some(failure),
        };
        if let Some(failure) = failure.and_then(|failure| CString::new(failure).ok()) {
            raw::rd_kafka_oauthbearer_set_token_failure(client, failure.as_ptr());
        }
    }
}
