//! The wire format: Avro in Confluent framing, its names, and the lane a key belongs to.

pub mod avro;
pub mod codec;
pub mod envelope;
pub mod event;
pub mod lane;
pub mod names;
pub mod row;

use thiserror::Error;

/// Bytes that are not what the schema says.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WireError {
    #[error("the record ends in the middle of a value")]
    Truncated,
    #[error("a variable-length integer is longer than its type")]
    Overflow,
    #[error("the frame begins with byte {0:#04x}, not with Confluent's 0x00")]
    Magic(u8),
    #[error("branch {0} of a union of two")]
    Branch(i64),
    #[error("a string is not UTF-8")]
    Utf8,
    #[error("unknown {what} {value:?}")]
    Unknown { what: &'static str, value: String },
    #[error("{0} bytes are left behind the record")]
    Trailing(usize),
    #[error("the JSON inside a schema-version event: {0}")]
    Json(String),
}
