//! Log bytes to events and Avro images. Pure: no connection, no clock.

pub mod cell;
pub mod charset;
pub mod collation;
pub mod compressed;
pub mod cursor;
pub mod decimal;
pub mod format;
pub mod gtid;
pub mod json;
pub mod json_diff;
pub mod layout;
pub mod network;
pub mod number;
pub mod payload;
pub mod plan;
pub mod query;
pub mod referee;
pub mod rows;
pub mod table_map;
pub mod temporal;
pub mod xid;

use thiserror::Error;

/// Bytes that are not what the protocol says.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    #[error("the event ends in the middle of {0}")]
    Truncated(&'static str),
    #[error("{what}: {problem}")]
    Unreadable { what: &'static str, problem: String },
}

/// A value that cannot be published, without its place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unfit {
    /// What the value is and why it does not fit.
    #[error("{0}")]
    Value(String),
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl Unfit {
    pub(crate) fn value(problem: impl Into<String>) -> Self {
        Self::Value(problem.into())
    }
}
