//! Errors of the source, sorted by what must be done.

use thiserror::Error;

/// Why capture ended.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// Goes away by itself: connect again from the last position.
    #[error("{0}")]
    Transient(String),
    /// A person must act; the message says what. Exit 3.
    #[error("{message}")]
    Stop { message: String },
    /// A person must act elsewhere; when that is done, trying again works. As a stop otherwise.
    #[error("{message}")]
    Blocked { message: String },
    /// The configuration or the server's settings are wrong. Exit 1.
    #[error("{0}")]
    Refused(String),
    /// Another source of this pipeline is at work. Exit 1, not retried.
    #[error("{0}")]
    Fenced(String),
    /// The transport failed for good.
    #[error("{0}")]
    Transport(String),
}
