//! Publishes to topics, in transactions. One folder file per transport.

pub mod kafka;
pub mod local;
pub mod registry;

use std::future::Future;

use schemas::event::{Offset, Progress, SchemaEvent};
use serde_json::Value as Json;

use crate::error::CaptureError;

/// A topic that the publisher knows, by the order of [`Publisher::topic`] calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TopicHandle(pub usize);

/// A topic as [`Publisher::topic`] found or made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveTopic {
    pub handle: TopicHandle,
    pub lanes: u32,
    /// Its identity, which a topic of the same name that was made anew does not have; None where the transport has none.
    pub id: Option<String>,
}

/// Writes rows, events and progress. There is one open transaction at any time; rows are buffered until it is committed.
pub trait Publisher: Send {
    /// Keeps older publishers of this pipeline out, then reads the last committed progress; None: a new pipeline.
    fn start(&mut self) -> impl Future<Output = Result<Option<Progress>, CaptureError>> + Send;

    /// Every schema-version event so far, in order.
    fn events(&mut self) -> impl Future<Output = Result<Vec<SchemaEvent>, CaptureError>> + Send;

    /// Commands from `from` on, with their offsets. Does not wait.
    fn commands(&mut self, from: Offset) -> impl Future<Output = Result<Vec<(Offset, Vec<u8>)>, CaptureError>> + Send;

    /// Creates the topic or checks that it has at least this many lanes (`None`: as configured). `lanes` of the answer are those to
    /// write to: as many as were asked for, or what the topic has.
    fn topic(&mut self, name: &str, lanes: Option<u32>) -> impl Future<Output = Result<LiveTopic, CaptureError>> + Send;

    /// The largest record that the topic takes: bytes of key and value.
    fn largest(&self, _: TopicHandle) -> usize {
        usize::MAX
    }

    /// Registers a schema under a subject and returns its id; the same schema gives the same id.
    fn register(&mut self, subject: &str, schema: &Json) -> impl Future<Output = Result<u32, CaptureError>> + Send;

    /// Adds a framed record to the open transaction. `key` is framed too; None for tables without a key.
    fn produce(&mut self, topic: TopicHandle, lane: u32, key: Option<&[u8]>, value: &[u8]) -> Result<(), CaptureError>;

    /// Rows and bytes in the open transaction.
    fn pending(&self) -> (usize, usize);

    /// Commits the open transaction with this progress. Durable when it returns.
    fn commit(&mut self, progress: &Progress) -> impl Future<Output = Result<(), CaptureError>> + Send {
        async {
            self.commit_soon(progress).await?;
            self.settle().await
        }
    }

    /// Hands the open transaction over to be committed with this progress, and opens the next one; waits for an older one that was
    /// handed over. Durable when [`Self::settle`] or a later commit has returned; an error shows there.
    fn commit_soon(&mut self, progress: &Progress) -> impl Future<Output = Result<(), CaptureError>> + Send;

    /// Waits until what was handed over is durable.
    fn settle(&mut self) -> impl Future<Output = Result<(), CaptureError>> + Send;

    /// The end offsets of a topic's lanes, behind everything committed; what was handed over is settled first.
    fn ends(&mut self, topic: TopicHandle) -> impl Future<Output = Result<Vec<Offset>, CaptureError>> + Send;

    /// Commits the open transaction with this event and progress behind it.
    fn commit_event(&mut self, event: &SchemaEvent, progress: &Progress) -> impl Future<Output = Result<(), CaptureError>> + Send;
}
