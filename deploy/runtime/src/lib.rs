//! How processes run: configuration, secrets, retry, shutdown, telemetry, the local log.

pub mod config;
pub mod log;
