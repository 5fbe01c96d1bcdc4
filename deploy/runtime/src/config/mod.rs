//! One pipeline's configuration, checked: no option is left open and every default is filled in.
//!
//! `document` and `section` read the file and note every problem with its key path and line; `pipeline`, `source` and `sink` hold the
//! keys and their defaults. Relative paths in a configuration are relative to the working directory.

mod document;
mod kafka;
mod nearest;
mod pipeline;
mod problem;
mod secret;
mod section;
mod sink;
mod source;
#[cfg(test)]
mod tests;
mod unbuilt;
mod unit;
mod url;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use schemas::{policy::Policy, table::TableId};

pub use self::{
    problem::{ConfigErrors, ConfigProblem},
    secret::Secret,
    unit::duration,
};

/// `scheme://user:password@host:port/database?key=value`, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    pub scheme: String,
    pub user: Option<String>,
    pub password: Option<Secret>,
    pub host: String,
    pub port: Option<u16>,
    pub database: Option<String>,
    pub parameters: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    pub name: String,
    /// The configuration file, for messages.
    pub file: PathBuf,
    pub topics: Topics,
    pub source: Source,
    pub sinks: BTreeMap<String, Sink>,
    pub admin: Admin,
}

impl Pipeline {
    /// Reads and checks a file.
    ///
    /// # Errors
    ///
    /// All of its problems, each with key path and line.
    pub fn load(file: impl AsRef<Path>) -> Result<Self, ConfigErrors> {
        pipeline::load(document::Document::load(file.as_ref())?)
    }

    /// Checks a file's text.
    ///
    /// # Errors
    ///
    /// All of its problems, each with key path and line.
    pub fn parse(file: impl AsRef<Path>, text: String) -> Result<Self, ConfigErrors> {
        pipeline::load(document::Document::parse(file.as_ref(), text)?)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    pub listen: SocketAddr,
    pub token: Option<Secret>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topics {
    pub prefix: String,
    pub transport: Transport,
    pub truncate: TruncateEvents,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TruncateEvents {
    Publish,
    Stop,
}

/// Where topics live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    Local(LocalTopics),
    Kafka(KafkaTopics),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalTopics {
    pub path: PathBuf,
    pub partitions: u32,
    pub retention: Duration,
}

/// A Kafka cluster with its schema registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaTopics {
    /// `host:port`, several with commas between them.
    pub brokers: String,
    pub registry: Url,
    /// Of the tables' topics, where they are made.
    pub partitions: u32,
    pub replication: u16,
    /// The client library's own properties, by name.
    pub properties: BTreeMap<String, Secret>,
    /// None: brokers are spoken to in the clear.
    pub tls: Option<Tls>,
    pub sasl: Option<Sasl>,
    pub registry_auth: RegistryAuth,
    /// Of an https registry; as the brokers' where it has none of its own.
    pub registry_tls: Tls,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sasl {
    Password {
        mechanism: SaslMechanism,
        user: String,
        password: Secret,
    },
    /// OAUTHBEARER.
    Token(Secret),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslMechanism {
    Plain,
    ScramSha256,
    ScramSha512,
    OAuthBearer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryAuth {
    None,
    Basic { user: String, password: Secret },
    Bearer(Secret),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceEngine {
    MySql,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    pub engine: SourceEngine,
    pub url: Url,
    pub tables: Vec<CapturedTable>,
    pub snapshot: Snapshot,
    pub new_tables: NewTables,
    pub row_metadata: RowMetadata,
    /// By `database.table.column`, or by source type name: the logical type to publish (`string`).
    pub type_map: BTreeMap<String, String>,
    pub tls: Tls,
    pub server_id: Option<u32>,
    pub heartbeat: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedTable {
    pub table: TableId,
    /// Only these columns; empty: all.
    pub columns: Vec<String>,
    pub exclude_columns: Vec<String>,
    /// The row key, where the table has none that is usable.
    pub key: Vec<String>,
    pub filter: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub mode: SnapshotMode,
    pub workers: usize,
    pub chunk_rows: u64,
    pub slice: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotMode {
    Initial,
    Never,
    Only,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewTables {
    Ignore,
    Capture,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowMetadata {
    Warn,
    Require,
}

/// TLS of one connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    pub mode: TlsMode,
    pub ca: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// TLS where the server offers it, without proof of who it is.
    #[default]
    Prefer,
    Disable,
    Require,
    VerifyCa,
    VerifyFull,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetEngine {
    Postgres,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sink {
    pub name: String,
    pub target: TargetEngine,
    pub url: Url,
    /// Schema (PostgreSQL, SQL Server) or database (MySQL, ClickHouse) of the target tables; None: the source table's namespace.
    pub schema: Option<String>,
    pub workers: usize,
    pub create: bool,
    pub recreate: bool,
    pub adopt: bool,
    pub on_stop: OnStop,
    pub retry: Retry,
    pub lock_timeout: Duration,
    pub batch: Batch,
    pub tls: Tls,
    /// What holds for tables that have no entry of their own.
    pub defaults: SinkTable,
    pub tables: BTreeMap<TableId, SinkTable>,
}

impl Sink {
    pub fn table(&self, id: &TableId) -> &SinkTable {
        self.tables.get(id).unwrap_or(&self.defaults)
    }
}

/// One table on one sink; what a table does not say is the sink's.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkTable {
    pub rename: Option<String>,
    /// Source column to target column.
    pub columns: BTreeMap<String, String>,
    pub evolution: Policy,
    /// By source type or source column: the target type.
    pub type_map: BTreeMap<String, String>,
    pub allow_truncation: bool,
    pub keyless: Keyless,
    pub bad_value: BadValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keyless {
    Refuse,
    Append,
    FullRow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadValue {
    Stop,
    Hold,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStop {
    Exit,
    Wait,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    pub initial: Duration,
    pub max: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    pub rows: usize,
    pub bytes: usize,
    /// What comes right behind a flush waits for company as long as that flush took, but no longer than this.
    pub linger: Duration,
}
