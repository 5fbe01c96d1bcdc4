//! The source process: captures row and schema changes and publishes them.

pub mod capture;
pub mod engine;
pub mod error;
pub mod key;
pub mod mysql;
pub mod publisher;
