//! PostgreSQL as a target.
//!
//! `config` the connection, `catalog` live table → model, `sql` text of statements, `encode` Avro bytes → PostgreSQL's binary,
//! `connection` a client with its errors sorted, `store` the ledger's tables, `session` the decider's session, `writer` a
//! worker's connection, `check` what is wrong with a target before anything runs. Only the last five do I/O.

pub mod config;
pub mod encode;

use runtime::config::Sink;

use crate::error::SinkError;
use config::Settings;

/// A PostgreSQL database as one sink of one pipeline.
#[derive(Clone)]
pub struct PostgresTarget {
    pipeline: String,
    sink: Sink,
    settings: Settings,
}

impl PostgresTarget {
    /// `pipeline` and the sink's name tell this sink's progress from others' in the same database. Opens no connection.
    pub fn new(pipeline: &str, sink: &Sink) -> Result<Self, SinkError> {
        Ok(Self { pipeline: pipeline.to_owned(), sink: sink.clone(), settings: Settings::new(sink)? })
    }
}
