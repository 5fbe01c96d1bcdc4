//! Where a sink reads from. One file per transport.
//!
//! Positions are only ever the caller's, from the target; a consumer keeps none that counts.

pub mod kafka;
pub mod local;

use std::future::Future;

use schemas::{
    command::Command,
    event::{Offset, Progress, SchemaEvent},
};
use tokio::sync::watch;

use crate::error::SinkError;

/// One record of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub offset: Offset,
    /// Framed.
    pub key: Option<&'a [u8]>,
    /// Framed.
    pub value: &'a [u8],
}

/// Records of one lane in their order, holding their bytes.
pub trait Block: Send + Sync {
    fn records(&self) -> impl Iterator<Item = Record<'_>> + Send;
    /// The offset to read from next: behind the records, and behind whatever is no record (commit markers, aborted records).
    fn next(&self) -> Offset;
    /// Whether nothing more is there for this instance: `next` is the end of what is committed, or the lane is another's.
    fn whole(&self) -> bool;
}

/// Whether fetched rows are of the topics that the schema versions name. A topic that was made anew has the same offsets again.
pub trait Proof: Send + Sync {
    /// Awaited before a batch is committed. False: they are not, or that cannot be said; nothing of the batch may stay.
    ///
    /// # Errors
    ///
    /// `Transient`: the transport does not answer.
    fn holds(&self) -> impl Future<Output = Result<bool, SinkError>> + Send;
}

/// Of a transport whose topics cannot be made anew.
impl Proof for () {
    async fn holds(&self) -> Result<bool, SinkError> {
        Ok(true)
    }
}

/// Reads committed records of a pipeline's topics. Clones share what they read from.
///
/// `fetch` never waits: what is not there yet comes with a change of `changed`. A transport that is pushed to keeps a buffer per lane, stops filling it when it is full, and begins anew
/// when `from` is not where the buffer stands.
pub trait Consumer: Clone + Send + Sync + 'static {
    type Block: Block;
    type Proof: Proof;

    /// What is there of a lane from `from` on, about `max_bytes` of it. Without records, `next` is the end of what is committed, or
    /// `from` where that is not known or the lane is another instance's. `topic_id`: the topic's identity as the schema versions have
    /// it, if they tell; what is known to be another topic of that name is not read. It may have been made anew a moment ago, so what
    /// was fetched counts only when [`Self::prove`] says so.
    ///
    /// # Errors
    ///
    /// `Stop`: the topic does not have the next rows any more, or is another one. `Refused`: the transport does not let us read.
    fn fetch(&self, topic: &str, topic_id: Option<&str>, lane: u32, from: Offset, max_bytes: usize) -> Result<Self::Block, SinkError>;

    /// Asks whether what was fetched before this call is of these very topics, given by name and identity.
    fn prove<'t>(&self, topics: impl Iterator<Item = (&'t str, &'t str)>) -> Self::Proof;

    /// The schema-versions topic from `from` on to its end, and the offset to read from next.
    fn events(&self, from: Offset) -> impl Future<Output = Result<(Vec<SchemaEvent>, Offset), SinkError>> + Send;

    /// The source's newest progress; None before its first.
    fn progress(&self) -> impl Future<Output = Result<Option<Progress>, SinkError>> + Send;

    /// Per lane, the offset behind everything committed.
    fn ends(&self, topic: &str) -> impl Future<Output = Result<Vec<Offset>, SinkError>> + Send;

    /// Per lane, the oldest offset that is still there.
    fn starts(&self, topic: &str) -> impl Future<Output = Result<Vec<Offset>, SinkError>> + Send;

    /// As [`Self::fetch`], for those who look from outside: whose lane it is does not matter, and rows are given a moment to come.
    fn peek(&self, topic: &str, lane: u32, from: Offset) -> impl Future<Output = Result<Self::Block, SinkError>> + Send;

    /// Puts a command where the source reads it.
    fn ask(&self, command: &Command) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Changes whenever there may be something new in a lane, or a lane has become this instance's.
    fn changed(&self) -> watch::Receiver<u64>;

    /// Changes whenever there may be a new schema-version event.
    fn events_changed(&self) -> watch::Receiver<u64> {
        self.changed()
    }

    /// Which turn of this instance at the lane it is: another number after another instance had the lane meanwhile, for its stored
    /// position is another one then. None: the lane is not this instance's.
    fn turn(&self, _topic: &str, _lane: u32) -> Option<u64> {
        Some(0)
    }

    /// Why nothing can be read just now, though it will be again by itself.
    fn trouble(&self) -> watch::Receiver<Option<String>> {
        watch::channel(None).1
    }

    /// Tells the transport what is durable on the target; it may forget what lies below.
    fn applied(&self, topic: &str, lane: u32, position: Offset) -> Result<(), SinkError>;
}

/// Comes when a transport that was away can be read again; never where it was not away.
pub async fn reachable(trouble: &mut watch::Receiver<Option<String>>) {
    let away = trouble.borrow().is_some();
    if !away || trouble.wait_for(Option::is_none).await.is_err() {
        std::future::pending::<()>().await;
    }
}
