//! What the end-to-end tests share: the servers, a pipeline as a process, and the comparison of both sides by value.

#![allow(clippy::expect_used, reason = "tests")]

pub mod case;
pub mod compare;
pub mod forwarder;
pub mod kafka;
pub mod pipeline;
pub mod postgres;
pub mod random;
pub mod service;
pub mod source;
pub mod values;
