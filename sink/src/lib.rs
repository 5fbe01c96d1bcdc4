//! The sink process: consumes row and schema events, runs the evolution rules and writes to a target.

pub mod admin;
pub mod batch;
pub mod consumer;
pub mod error;
pub mod evolve;
pub mod placement;
pub mod postgres;
pub mod process;
pub mod review;
pub mod row;
pub mod shared;
pub mod status;
pub mod target;
pub mod versions;
pub mod worker;
