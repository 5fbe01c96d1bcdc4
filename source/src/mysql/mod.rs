//! MySQL and MariaDB: row binlog, by GTID where it is on, else by file and position.

pub mod catalog;
mod charset;
pub mod config;
pub mod decode;
pub mod event;
pub mod group;
pub mod literal;
pub mod lock;
mod log;
pub mod mapping;
pub mod position;
pub mod preflight;
pub mod server;
pub mod shapes;
pub mod snapshot;
pub mod stream;
mod value;

use std::{path::PathBuf, sync::Arc, time::Duration};

use mysql_async::Conn;
use runtime::config::Source;
use schemas::table::{Table, TableId};
use tokio::sync::Mutex;

use self::{
    config::Config,
    lock::Lock,
    position::Position,
    server::{Purpose, Server},
};
use crate::{
    engine::{Engine, Problem},
    error::CaptureError,
};

/// How long the end of the log is waited for.
const ANSWER: Duration = Duration::from_secs(30);

/// A MySQL or MariaDB server as a source.
#[derive(Debug)]
pub struct MySql {
    config: Config,
    lock: Option<Lock>,
    /// The connection that held the lock last.
    holder: Option<u32>,
    /// What is known of the server; read at the first connection and again after a failure.
    server: Mutex<Option<Arc<Server>>>,
    catalog: Option<Conn>,
}

impl MySql {
    /// # Errors
    /// [`CaptureError::Refused`] where the configuration lacks something. Does not connect.
    pub fn new(source: &Source) -> Result<Self, CaptureError> {
        Ok(Self { config: Config::new(source)?, lock: None, holder: None, server: Mutex::new(None), catalog: None })
    }

    /// Where it keeps rows of transactions whose end is not read yet and which are too large for the memory; the folder of temporary
    /// files where nothing is said.
    pub fn keep_in(&mut self, folder: PathBuf) {
        self.config.folder = folder;
    }

    async fn server(&self, conn: &mut Conn) -> Result<Arc<Server>, CaptureError> {
        let mut known = self.server.lock().await;
        if let Some(server) = known.as_ref() {
            return Ok(Arc::clone(server));
        }
        let server = server::inspect(&self.config, conn, None).await?;
        *known = Some(Arc::clone(&server));
        Ok(server)
    }

    fn check_lock(&self) -> Result<(), CaptureError> {
        self.lock.as_ref().map_or(Ok(()), |held| lock::check(&held.lost(), &self.config))
    }

    /// The connection for the catalog, new where the last call failed.
    async fn catalog(&mut self) -> Result<(Conn, Arc<Server>), CaptureError> {
        self.check_lock()?;
        let mut conn = match self.catalog.take() {
            Some(conn) => conn,
            None => server::connect(&self.config, Purpose::Catalog).await?,
        };
        let server = self.server(&mut conn).await?;
        Ok((conn, server))
    }
}

impl Engine for MySql {
    const NAME: &'static str = "mysql";
    type Position = Position;
    type Stream = stream::Stream;
    type Reader = snapshot::Reader;

    async fn lock(&mut self, pipeline: &str) -> Result<(), CaptureError> {
        self.config.read_for(pipeline);
        // The same connection may not ask for the lock that this process holds already.
        if self.lock.as_ref().is_none_or(Lock::is_lost) {
            self.lock = None;
            let lock = Lock::take(&self.config, pipeline, self.holder).await?;
            self.holder = Some(lock.holder());
            self.lock = Some(lock);
        }
        Ok(())
    }

    async fn preflight(&mut self) -> Result<Vec<Problem>, CaptureError> {
        preflight::preflight(&self.config).await
    }

    async fn pinned(&mut self, tables: &[TableId]) -> Result<(Position, Vec<Table>), CaptureError> {
        let (mut conn, server) = self.catalog().await?;
        let pinned = catalog::pinned(&self.config, &server, &mut conn, tables).await?;
        self.catalog = Some(conn);
        Ok(pinned)
    }

    async fn beginning(&mut self, tables: &[TableId]) -> Result<(Position, Vec<Table>), CaptureError> {
        let (mut conn, server) = self.catalog().await?;
        let pinned = catalog::beginning(&self.config, &server, &mut conn, tables).await?;
        self.catalog = Some(conn);
        Ok(pinned)
    }

    async fn end(&mut self) -> Result<(Position, i64), CaptureError> {
        // Of a connection that was cut unseen nothing comes any more.
        let silent =
            CaptureError::Transient(format!("{}: the server did not say within {ANSWER:?} where its log ends", self.config.server()));
        tokio::time::timeout(ANSWER, self.log_end()).await.unwrap_or(Err(silent))
    }

    async fn stream(&self, from: &Position, tables: Vec<Table>) -> Result<stream::Stream, CaptureError> {
        self.check_lock()?;
        let mut conn = server::connect(&self.config, Purpose::Catalog).await?;
        // Settings may have changed since the last connection, the server itself may have.
        let mut known = self.server.lock().await;
        let server = server::inspect(&self.config, &mut conn, known.as_deref()).await?;
        *known = Some(Arc::clone(&server));
        drop(known);
        for difference in tables.iter().flat_map(|table| self.config.mapping.disagreements(table)) {
            tracing::warn!("{difference}");
        }
        let captured: Vec<TableId> = tables.iter().map(|table| table.id.clone()).collect();
        let (at, others) = catalog::others(&self.config, &server, &mut conn, &captured).await?;
        let mut stream =
            stream::Stream::open(self.config.clone(), server, from.clone(), tables, self.lock.as_ref().map(Lock::lost)).await?;
        stream.learn(at, others);
        Ok(stream)
    }

    async fn reader(&self) -> Result<snapshot::Reader, CaptureError> {
        self.check_lock()?;
        let mut conn = server::connect(&self.config, Purpose::Catalog).await?;
        let server = self.server(&mut conn).await?;
        snapshot::Reader::open(self.config.clone(), server).await
    }
}

/// A statement read as if the log had it.
#[derive(Debug, Clone)]
pub enum Explained {
    /// The table's shape behind it, and the typed changes.
    Changes { shape: Table, changes: Vec<schemas::change::SchemaChange> },
    /// It does nothing to the table.
    Nothing,
    /// The source would stand before it.
    Stands(String),
}

impl MySql {
    async fn log_end(&mut self) -> Result<(Position, i64), CaptureError> {
        let (mut conn, server) = self.catalog().await?;
        let end = catalog::bound(&self.config, &server, &mut conn).await?;
        let now: Option<i64> =
            mysql_async::prelude::Queryable::query_first(&mut conn, "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)")
                .await
                .map_err(|error| server::failed(&self.config, "reading the server's time", &error))?;
        self.catalog = Some(conn);
        Ok((end, now.unwrap_or_default()))
    }

    /// The statements that give the source's account what it needs, and no more; runs none.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn grants(&self) -> Result<Vec<String>, CaptureError> {
        preflight::grants(&self.config).await
    }

    /// A table's shape now, at no certain place.
    ///
    /// # Errors
    /// Where it cannot be read or is not understood.
    pub async fn shape(&mut self, table: &TableId) -> Result<Table, CaptureError> {
        let (mut conn, server) = self.catalog().await?;
        let shape = catalog::shape(&self.config, &server, &mut conn, table).await?;
        self.catalog = Some(conn);
        Ok(shape)
    }

    /// Reads a statement against a table's shape, under this server's settings; runs nothing.
    pub async fn explain(&mut self, ddl: &str, table: &Table) -> Result<Explained, CaptureError> {
        use schemas::ddl::mysql::{Parsed, apply, parse};
        let (conn, server) = self.catalog().await?;
        self.catalog = Some(conn);
        let mut context = server.catalog_context(&table.id.namespace);
        context.explicit_defaults_for_timestamp = server.context.explicit_defaults_for_timestamp;
        let statement = match parse(ddl.as_bytes(), &context) {
            Parsed::Tables(statement) => statement,
            Parsed::Nothing | Parsed::Transaction(_) => return Ok(Explained::Nothing),
            Parsed::RowChange { .. } => return Ok(Explained::Stands("it changes rows: that is not a change of shape".into())),
            Parsed::Unknown { why, .. } => return Ok(Explained::Stands(why)),
        };
        let known = std::collections::BTreeMap::from([(table.id.clone(), table.clone())]);
        let effects = match apply(&statement, &context, &known) {
            Ok(effects) => effects,
            Err(refusal) => return Ok(Explained::Stands(refusal.why)),
        };
        let Some(mut effect) = effects.into_iter().find(|effect| effect.id == table.id && !effect.temporary) else {
            return Ok(Explained::Nothing);
        };
        self.config.mapping.mark_added(Some(table), &mut effect);
        if effect.changes.is_empty() {
            return Ok(Explained::Nothing);
        }
        Ok(Explained::Changes { shape: effect.shape.unwrap_or_else(|| table.clone()), changes: effect.changes })
    }
}
