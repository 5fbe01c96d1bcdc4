//! The change stream: reads events from the server and hands them to [`Groups`].

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::FutureExt;
use mysql_common::packets::{Sid, binlog_request::BinlogRequest};
use schemas::{
    charset::Charsets,
    table::{Table, TableId},
};
use tokio::time::Instant;

use super::{
    config::Config,
    decode::{
        plan::{Fields, Plan},
        rows::{Encoder, Rows},
        table_map::TableMap,
    },
    event::Event,
    group::Groups,
    lock,
    log::{Log, Next},
    position::{Gtids, Open, Position},
    server::{self, Server},
};
use crate::{
    engine::{self, Entry, Published, RowSink},
    error::CaptureError,
};

/// How many silent heartbeats mean a dead connection.
const SILENCE: u32 = 4;
/// Each silence doubles what the next connection bears, up to this, until a transaction came whole: it may be one whose events take long.
const MOST_PATIENCE: u32 = 64;

pub struct Stream {
    config: Config,
    server: Arc<Server>,
    log: Log,
    /// Whether the pipeline's lock was lost.
    lock: Option<Arc<AtomicBool>>,
    /// When something came last. Waiting is broken off and taken up again many times before a dead connection shows.
    heard: Instant,
    /// An event that came without waiting.
    ahead: Option<Result<Event, CaptureError>>,
    groups: Groups,
    plans: HashMap<TableId, Compiled>,
    encoder: Encoder,
}

struct Compiled {
    map: Arc<TableMap>,
    published: Published,
    plan: Plan,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("server", &self.config.server()).field("position", self.groups.position()).finish_non_exhaustive()
    }
}

impl Stream {
    /// Opens the log at a position, by GTID where the position has them.
    pub(super) async fn open(
        config: Config,
        server: Arc<Server>,
        from: Position,
        tables: Vec<Table>,
        lock: Option<Arc<AtomicBool>>,
    ) -> Result<Self, CaptureError> {
        check_server(&config, &server, &from)?;
        let nanoseconds = config.heartbeat.max(Duration::from_millis(100)).as_nanos();
        let mut statements = vec![format!("SET @master_heartbeat_period = {nanoseconds}, @source_heartbeat_period = {nanoseconds}")];
        let mut request = BinlogRequest::new(config.server_id);
        let start = from.start();
        match &start.gtids {
            Gtids::MariaDb(domains) => {
                statements
                    .push(format!("SET @mariadb_slave_capability = 4, @slave_connect_state = '{domains}', @slave_gtid_strict_mode = 0"));
            }
            Gtids::MySql(set) => {
                let sids = set.origins().map(|origin| origin.parse::<Sid<'_>>()).collect::<Result<Vec<_>, _>>();
                let sids = sids.map_err(|error| CaptureError::Refused(format!("the position {start} cannot be asked for: {error}")))?;
                request = request.with_use_gtid(true).with_sids(sids);
            }
            Gtids::None => {
                if server.mariadb {
                    statements.push("SET @mariadb_slave_capability = 4".into());
                }
                if start.offset > u64::from(u32::MAX) {
                    return Err(CaptureError::Stop {
                        message: format!(
                            "{}: the log cannot be read from offset {} of {}: the protocol carries 32 bits; turn on gtid_mode, or reload all tables",
                            config.server(),
                            start.offset,
                            start.file
                        ),
                    });
                }
                request = request.with_filename(start.file.as_bytes()).with_pos(start.offset);
            }
        }
        let mut log = server::open_log(&config, &statements).await?;
        log.ask(&request).await.map_err(|error| match &error {
            // We are in: what is denied is the log.
            mysql_async::Error::Server(denied) if denied.code == 1045 => server::lacks(&config, "REPLICATION SLAVE", &denied.message),
            _ => server::failed(&config, "asking for the log", &error),
        })?;
        let require = config.row_metadata == runtime::config::RowMetadata::Require;
        let groups = Groups::new(Arc::clone(&server), require, from.clone(), tables, config.mapping.clone(), config.folder.clone());
        let heard = Instant::now();
        let mut stream = Self { config, server, log, lock, heard, ahead: None, groups, plans: HashMap::new(), encoder: Encoder::default() };
        // The server says only with the first event whether it has the place: one that is gone is known before anything is read.
        let first = stream.receive().await.map_err(|error| missing(error, &from, &start))?;
        stream.ahead = Some(Ok(first));
        Ok(stream)
    }

    /// Gives the shapes of other tables in the captured databases, as the catalog has them at `at`.
    pub(super) fn learn(&mut self, at: Position, tables: Vec<Table>) {
        self.groups.learn(at, tables);
    }

    async fn receive(&mut self) -> Result<Event, CaptureError> {
        if let Some(ahead) = self.ahead.take() {
            return ahead;
        }
        let times = self.config.patience.load(Ordering::Relaxed);
        let patience = self.config.heartbeat.max(Duration::from_secs(1)) * SILENCE * times;
        match tokio::time::timeout_at(self.heard + patience, self.log.next()).await {
            Ok(next) => {
                self.heard = Instant::now();
                self.take(next)
            }
            Err(_) => {
                self.config.patience.store((times * 2).min(MOST_PATIENCE), Ordering::Relaxed);
                Err(CaptureError::Transient(format!(
                    "{}: nothing came from the log for {patience:?}, not even a heartbeat",
                    self.config.server()
                )))
            }
        }
    }

    fn take(&self, next: Result<Next, mysql_async::Error>) -> Result<Event, CaptureError> {
        let server = || self.config.server();
        match next {
            Ok(Next::Event(event)) => Ok(event),
            Ok(Next::End) => Err(CaptureError::Transient(format!("{}: the server ended the log stream", server()))),
            Ok(Next::Damaged(header, problem)) => Err(CaptureError::Stop {
                message: format!(
                    "{}: the event at {} {problem}: the log is damaged there, or what came of it; start the source again, and where it \
                     stays so, reload all tables",
                    server(),
                    self.groups.place_ahead(header.log_pos, header.size)
                ),
            }),
            Err(error) => Err(server::failed(&self.config, "reading the log", &error)),
        }
    }

    fn look_ahead(&mut self) {
        if self.ahead.is_none()
            && let Some(next) = self.log.next().now_or_never()
        {
            self.heard = Instant::now();
            self.ahead = Some(self.take(next));
        }
    }
}

/// A place by file and offset holds on the server that wrote the file only.
fn check_server(config: &Config, server: &Server, from: &Position) -> Result<(), CaptureError> {
    let same_kind = match &from.gtids {
        Gtids::None => true,
        Gtids::MySql(_) => !server.mariadb && server.gtids,
        Gtids::MariaDb(_) => server.mariadb,
    };
    if !same_kind {
        return Err(CaptureError::Stop {
            message: format!(
                "{}: the stored position {from} cannot be found on this server (another product, or gtid_mode is off); reload all tables",
                config.server()
            ),
        });
    }
    if from.gtids == Gtids::None && from.server != server.identity {
        return Err(CaptureError::Stop {
            message: format!(
                "{}: the stored position {from} is of server {}, this one is {}: file and offset mean nothing here; connect to that server, or reload all tables",
                config.server(),
                from.server,
                server.identity
            ),
        });
    }
    Ok(())
}

/// Names the place that the server does not have.
fn missing(error: CaptureError, from: &Position, start: &Open) -> CaptureError {
    let CaptureError::Stop { message } = error else { return error };
    let why = match &from.open {
        Some(_) => format!(" (for XA transactions that are prepared and undecided since then; published is all up to {from})"),
        None => String::new(),
    };
    CaptureError::Stop { message: format!("{message}; the missing position is {start}{why}") }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn compile(map: &Arc<TableMap>, published: &Published, charsets: &Charsets) -> Result<Plan, CaptureError> {
    let stop = |problem: String| CaptureError::Stop { message: format!("{}: {problem}", map.table) };
    let fields = Fields::new(&published.shape, &published.rows, charsets).map_err(stop)?;
    if published.shape.columns.len() != map.columns.len() {
        return Err(stop(format!(
            "the log has {} columns, {} were expected; reload the table",
            map.columns.len(),
            published.shape.columns.len()
        )));
    }
    Ok(Plan::new(fields, map.columns.iter().map(|column| column.physical)))
}

impl engine::Stream for Stream {
    type Position = Position;
    type Rows = Rows;

    async fn next(&mut self) -> Result<Entry<Position, Rows>, CaptureError> {
        if let Some(lost) = &self.lock {
            lock::check(lost, &self.config)?;
        }
        loop {
            if let Some(entry) = self.groups.pop()? {
                if matches!(entry, Entry::Commit { .. } | Entry::Statement(_)) {
                    self.config.patience.store(1, Ordering::Relaxed);
                }
                self.look_ahead();
                return Ok(entry);
            }
            let event = match self.groups.resume() {
                Some(event) => event,
                None => self.receive().await?,
            };
            self.groups.event(event, now_ms())?;
        }
    }

    fn has_next(&self) -> bool {
        self.groups.has_ready() || self.ahead.is_some()
    }

    fn rows(&mut self, rows: Rows, skip: u64, table: &Published, out: &mut impl RowSink) -> Result<u64, CaptureError> {
        let id = &rows.map.table;
        let fresh = self.plans.get(id).is_some_and(|c| (Arc::ptr_eq(&c.map, &rows.map) || c.map == rows.map) && c.published == *table);
        if !fresh {
            let plan = compile(&rows.map, table, &self.server.charsets)?;
            self.plans.insert(id.clone(), Compiled { map: Arc::clone(&rows.map), published: table.clone(), plan });
        }
        match self.plans.get(id) {
            Some(compiled) => self.encoder.encode(&rows, skip, &compiled.plan, out),
            None => Err(CaptureError::Stop { message: format!("{id}: no plan for its rows") }),
        }
    }

    fn capture(&mut self, tables: Vec<Table>) {
        self.groups.shapes.capture(tables);
    }

    fn release(&mut self, table: &TableId) {
        self.groups.shapes.release(table);
        self.plans.remove(table);
    }

    fn skip(&mut self, table: Table, until: Position) {
        self.groups.skip(table, until);
    }
}
