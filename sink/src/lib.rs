//! The sink process: consumes row and schema events, runs the evolution rules and writes to a target.

pub mod error;
pub mod postgres;
pub mod target;
