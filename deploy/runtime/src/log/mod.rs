//! The local transport: durable topics in one directory, written in transactions.

use schemas::event::Offset;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum LogError {
    /// Another process has the directory; the message names both.
    #[error("{0}")]
    Locked(String),
    #[error("{0}")]
    Full(String),
    #[error("{0}")]
    Broken(String),
    #[error("{0}")]
    Topic(String),
    /// The offset was removed by retention.
    #[error("{topic} lane {lane}: offset {wanted} is gone, the log begins at {first}")]
    Expired { topic: String, lane: u32, wanted: Offset, first: Offset },
}
