//! How processes run: configuration, secrets, retry, shutdown, telemetry, TLS, the local log, the way to a running process.

pub mod config;
pub mod control;
pub mod kafka;
pub mod log;
pub mod retry;
pub mod shutdown;
pub mod telemetry;
pub mod tls;
