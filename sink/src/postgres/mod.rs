//! PostgreSQL as a target.
//!
//! `config` the connection, `catalog` live table → model, `sql` text of statements, `encode` Avro bytes → PostgreSQL's binary,
//! `effects` and `arrays` a batch in that form, `connection` a client with its errors sorted, `store` the ledger's tables,
//! `session` the decider's session, `loader`, `mark` and `writer` a worker's connection, `check` what is wrong with a target before
//! anything runs. Only the last seven do I/O.

mod arrays;
pub mod catalog;
pub mod check;
pub mod config;
mod connection;
mod effects;
pub mod encode;
mod loader;
mod mark;
mod session;
pub mod sql;
mod store;
pub mod view;
mod writer;

use std::sync::Arc;

use runtime::config::Sink;
use schemas::{
    capability::{self, Capabilities},
    plan::Step,
    table::TableId,
    view::View,
};

use crate::{error::SinkError, target::Target};
use config::Settings;
use connection::Connection;
pub use session::PostgresSession;
use store::SinkId;
pub use writer::PostgresWriter;

/// A PostgreSQL database as one sink of one pipeline.
#[derive(Clone)]
pub struct PostgresTarget {
    pipeline: String,
    sink: Arc<Sink>,
    settings: Settings,
}

impl PostgresTarget {
    /// `pipeline` and the sink's name tell this sink's progress from others' in the same database. Opens no connection.
    pub fn new(pipeline: &str, sink: &Sink) -> Result<Self, SinkError> {
        Ok(Self { pipeline: pipeline.to_owned(), sink: Arc::new(sink.clone()), settings: Settings::new(sink)? })
    }

    /// Whether this sink keeps progress here.
    pub async fn has_run(&self) -> Result<bool, SinkError> {
        let connection = Connection::open(&self.settings).await?;
        Ok(store::recorded(&connection, &self.pipeline, &self.sink.name).await?.is_some())
    }

    async fn open(&self) -> Result<(Connection, SinkId), SinkError> {
        let connection = Connection::open(&self.settings).await?;
        let sink = store::recorded(&connection, &self.pipeline, &self.sink.name).await?;
        let never = || SinkError::Refused(format!("{}: sink {} has never run here", self.settings.server, self.sink.name));
        let sink = sink.ok_or_else(never)?;
        Ok((connection, sink))
    }
}

impl Target for PostgresTarget {
    type Session = PostgresSession;
    type Writer = PostgresWriter;

    fn capabilities(&self) -> &'static Capabilities {
        &capability::POSTGRES
    }

    fn view(&self, table: &TableId) -> Result<View, SinkError> {
        view::view(&self.sink, table)
    }

    fn render(&self, step: &Step) -> Result<Vec<String>, String> {
        sql::statement(step).map(|statement| vec![statement])
    }

    async fn prepare(&self) -> Result<(), SinkError> {
        let connection = Connection::open(&self.settings).await?;
        store::prepare(&connection, &self.pipeline, &self.sink.name).await.map(drop)
    }

    async fn session(&self) -> Result<PostgresSession, SinkError> {
        let (connection, sink) = self.open().await?;
        Ok(PostgresSession { connection, sink, lock_timeout: self.sink.lock_timeout })
    }

    async fn writer(&self) -> Result<PostgresWriter, SinkError> {
        let (connection, sink) = self.open().await?;
        connection.replicate().await?;
        PostgresWriter::new(connection, sink, self.sink.clone()).await
    }
}
