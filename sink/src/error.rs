//! Errors of a sink, sorted by what must be done.

use schemas::table::TableId;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum SinkError {
    /// Goes away by itself: connect again.
    #[error("{0}")]
    Transient(String),
    /// A row that the target cannot hold, found before any of its bytes left.
    #[error("{message}")]
    BadValue { table: TableId, message: String },
    /// An update without all columns whose row is not on the target: the table is held.
    #[error("{message}")]
    Incomplete { table: TableId, message: String },
    /// A person must act. Exit 3.
    #[error("{message}")]
    Stop { message: String },
    /// The configuration or the target's settings are wrong. Exit 1.
    #[error("{0}")]
    Refused(String),
    /// The session that held the lock is gone: whatever it began, its successor looks at the live shape.
    #[error("the session is gone: {0}")]
    SessionLost(String),
}
