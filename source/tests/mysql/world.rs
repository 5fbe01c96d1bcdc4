//! A database of its own on a server, and what the engine says of it.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use mysql_async::{Conn, prelude::Queryable};
use runtime::config::{CapturedTable, NewTables, RowMetadata, Secret, Snapshot, SnapshotMode, Source, SourceEngine, Tls, TlsMode, Url};
use schemas::{
    table::{Table, TableId},
    types::Repr,
    wire::{
        codec::Reader,
        envelope::Op,
        row::{Field, RowSchema},
    },
};
use source::{
    engine::{Bounds, Chunk, ChunkReader, Engine, Entry, Published, Row, RowSink, Statement, Stream},
    error::CaptureError,
    mysql::{MySql, decode::temporal::civil_from_days, position::Position},
};

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

static NEXT_READER: AtomicU32 = AtomicU32::new(700_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    MariaDb,
    /// 11.8.
    MariaDb11,
    MySql,
}

pub const ALL: [Flavour; 3] = [Flavour::MariaDb, Flavour::MariaDb11, Flavour::MySql];
/// For what is the same in all versions of MariaDB.
pub const BOTH: [Flavour; 2] = [Flavour::MariaDb, Flavour::MySql];
pub const MARIADBS: [Flavour; 2] = [Flavour::MariaDb, Flavour::MariaDb11];

/// A stream stands at the end of an XA transaction that was prepared before it: tests of such have the servers for themselves.
static TESTS: RwLock<()> = RwLock::const_new(());

#[derive(Debug)]
enum Turn {
    Shared { _held: RwLockReadGuard<'static, ()> },
    Alone { _held: RwLockWriteGuard<'static, ()> },
}

pub struct World {
    pub database: String,
    pub conn: Conn,
    url: Url,
    _turn: Turn,
}

/// The server of this kind; None where the variable is not set outside of CI.
fn address(flavour: Flavour) -> Option<String> {
    let name = match flavour {
        Flavour::MariaDb => "INSTAR_TEST_MARIADB",
        Flavour::MariaDb11 => "INSTAR_TEST_MARIADB_11",
        Flavour::MySql => "INSTAR_TEST_MYSQL",
    };
    match std::env::var(name) {
        Ok(url) => Some(url),
        Err(_) if std::env::var("CI").is_ok_and(|ci| ci == "true") => panic!("{name} is not set"),
        Err(_) => {
            eprintln!("skipped: {name} is not set");
            None
        }
    }
}

impl World {
    /// A fresh database of this name.
    pub async fn new(flavour: Flavour, database: &str) -> Option<World> {
        let address = address(flavour)?;
        World::at(&address, database, Turn::Shared { _held: TESTS.read().await }).await
    }

    /// The same, while no other test is at work.
    pub async fn alone(flavour: Flavour, database: &str) -> Option<World> {
        let address = address(flavour)?;
        World::at(&address, database, Turn::Alone { _held: TESTS.write().await }).await
    }

    async fn at(address: &str, database: &str, turn: Turn) -> Option<World> {
        let rest = address.strip_prefix("mysql://").expect("a mysql:// address");
        let (user, host) = rest.split_once('@').expect("user and host");
        let (user, password) = user.split_once(':').expect("user and password");
        let (host, port) = host.split_once(':').expect("host and port");
        let url = Url {
            scheme: "mysql".into(),
            user: Some(user.into()),
            password: Some(Secret::new(password)),
            host: host.into(),
            port: Some(port.trim_end_matches('/').parse().unwrap()),
            database: None,
            parameters: BTreeMap::new(),
        };
        let opts = mysql_async::OptsBuilder::default()
            .ip_or_hostname(host)
            .tcp_port(url.port.unwrap())
            .user(Some(user))
            .pass(Some(password))
            .prefer_socket(false);
        let mut conn = Conn::new(opts).await.unwrap();
        let database = format!("it_{database}");
        if matches!(turn, Turn::Alone { .. }) {
            // What a test that failed left prepared keeps its tables.
            let left: Vec<(u32, usize, usize, Vec<u8>)> = conn.query("XA RECOVER").await.unwrap();
            for (format, global, _, bytes) in left {
                let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                let (global, branch) = (hex(&bytes[..global]), hex(&bytes[global..]));
                conn.query_drop(format!("XA ROLLBACK X'{global}', X'{branch}', {format}")).await.unwrap();
            }
        }
        for sql in [
            format!("DROP DATABASE IF EXISTS {database}"),
            format!("CREATE DATABASE {database} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"),
            format!("USE {database}"),
            "SET NAMES utf8mb4, time_zone = '+00:00', sql_mode = ''".into(),
        ] {
            conn.query_drop(sql).await.unwrap();
        }
        Some(World { database, conn, url, _turn: turn })
    }

    /// Another session in the same database.
    pub async fn another(&self) -> Conn {
        let opts = mysql_async::OptsBuilder::default()
            .ip_or_hostname(self.url.host.clone())
            .tcp_port(self.url.port.unwrap())
            .user(self.url.user.clone())
            .pass(self.url.password.as_ref().map(|password| password.reveal().to_owned()))
            .db_name(Some(&self.database))
            .prefer_socket(false);
        Conn::new(opts).await.unwrap()
    }

    pub fn port(&self) -> u16 {
        self.url.port.unwrap()
    }

    /// The end of the log: file and offset.
    pub async fn log_end(&mut self) -> (String, u64) {
        let version: String = self.conn.query_first("SELECT VERSION()").await.unwrap().unwrap();
        let sql = if version.contains("MariaDB") { "SHOW MASTER STATUS" } else { "SHOW BINARY LOG STATUS" };
        let row: mysql_async::Row = self.conn.query_first(sql).await.unwrap().unwrap();
        (row.get(0).unwrap(), row.get(1).unwrap())
    }

    pub async fn run(&mut self, sql: &str) {
        if let Err(error) = self.conn.query_drop(sql).await {
            panic!("{sql}: {error}");
        }
    }

    pub fn table(&self, name: &str) -> TableId {
        TableId::new(&self.database, name)
    }

    pub fn source(&self, tables: &[&str]) -> Source {
        Source {
            engine: SourceEngine::MySql,
            url: self.url.clone(),
            tables: tables
                .iter()
                .map(|name| CapturedTable {
                    table: self.table(name),
                    columns: Vec::new(),
                    exclude_columns: Vec::new(),
                    key: Vec::new(),
                    filter: None,
                })
                .collect(),
            snapshot: Snapshot { mode: SnapshotMode::Initial, workers: 1, chunk_rows: 1, slice: Duration::from_secs(1) },
            new_tables: NewTables::Ignore,
            row_metadata: RowMetadata::Require,
            type_map: BTreeMap::new(),
            tls: Tls { mode: TlsMode::Prefer, ..Tls::default() },
            // A server ends the older of two readers that give the same id.
            server_id: Some(NEXT_READER.fetch_add(1, Ordering::Relaxed)),
            heartbeat: Duration::from_secs(1),
        }
    }

    pub fn engine(&self, tables: &[&str]) -> MySql {
        MySql::new(&self.source(tables)).unwrap()
    }

    pub fn ids(&self, tables: &[&str]) -> Vec<TableId> {
        tables.iter().map(|name| self.table(name)).collect()
    }
}

/// A row event, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    pub op: Op,
    pub key: Vec<u8>,
    pub before: Option<Vec<u8>>,
    pub after: Option<Vec<u8>>,
    pub absent_before: Vec<String>,
    pub absent_after: Vec<String>,
}

#[derive(Debug, Default)]
pub struct Rows(pub Vec<Owned>);

impl RowSink for Rows {
    fn row(&mut self, row: Row<'_>) -> Result<(), CaptureError> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        self.0.push(Owned {
            op: row.op,
            key: row.key.to_vec(),
            before: row.before.map(<[u8]>::to_vec),
            after: row.after.map(<[u8]>::to_vec),
            absent_before: names(row.absent_before),
            absent_after: names(row.absent_after),
        });
        Ok(())
    }
}

pub fn published(shape: &Table) -> Published {
    Published { shape: shape.clone(), rows: RowSchema::new(shape) }
}

/// What a stream said, up to a place.
#[derive(Debug, Default)]
pub struct Heard {
    pub rows: Vec<Owned>,
    pub statements: Vec<Statement<Position>>,
    pub commits: Vec<Position>,
    pub stands: Vec<String>,
}

/// Reads a stream until it has reached `end` or stands. Shapes move on with its statements.
pub async fn hear<S>(stream: &mut S, shapes: &mut BTreeMap<TableId, Published>, end: &Position) -> Result<Heard, CaptureError>
where
    S: Stream<Position = Position>,
{
    use source::engine::Position as _;
    let mut heard = Heard::default();
    loop {
        let entry = tokio::time::timeout(Duration::from_secs(30), stream.next()).await.expect("an entry within 30 seconds")?;
        let position = match entry {
            Entry::Rows { table, rows, .. } => {
                let mut sink = Rows::default();
                let published = shapes.get(&table).unwrap_or_else(|| panic!("rows of {table}"));
                stream.rows(rows, 0, published, &mut sink)?;
                heard.rows.extend(sink.0);
                continue;
            }
            Entry::Commit { position, .. } => {
                heard.commits.push(position.clone());
                position
            }
            Entry::Idle { position, .. } => position,
            Entry::Statement(statement) => {
                for table in &statement.tables {
                    shapes.insert(table.id.clone(), published(&table.shape));
                }
                let position = statement.position.clone();
                heard.statements.push(statement);
                position
            }
            Entry::Stand { message, .. } => {
                heard.stands.push(message);
                return Ok(heard);
            }
        };
        if position.reached(end) {
            return Ok(heard);
        }
    }
}

pub fn by_table(tables: &[Table]) -> BTreeMap<TableId, Published> {
    tables.iter().map(|table| (table.id.clone(), published(table))).collect()
}

/// Reads a whole table as one chunk.
pub async fn copy(engine: &MySql, table: &Published, at: &Position) -> Result<Vec<Owned>, CaptureError> {
    let mut reader = engine.reader().await?;
    let mut rows = Rows::default();
    match reader.read(table, &Bounds::default(), at, &mut rows).await? {
        Chunk::Read { rows: count, .. } => assert_eq!(count, rows.0.len() as u64),
        Chunk::Full { .. } => panic!("nothing bounds these rows"),
        Chunk::OtherShape => panic!("{} has another shape", table.shape.id),
    }
    Ok(rows.0)
}

/// An image as text, field by field: `name=value`.
pub fn show(fields: &[Field], image: &[u8]) -> BTreeMap<String, String> {
    let mut reader = Reader::new(image);
    let shown = fields.iter().map(|field| (field.name.clone(), value(&mut reader, field))).collect();
    assert!(reader.rest().is_empty(), "{} bytes are left", reader.rest().len());
    shown
}

fn value(reader: &mut Reader<'_>, field: &Field) -> String {
    if field.nullable && !reader.some().unwrap() {
        return "NULL".into();
    }
    match &field.repr {
        Repr::Boolean => reader.boolean().unwrap().to_string(),
        Repr::Int | Repr::Long | Repr::TimeMicros => reader.long().unwrap().to_string(),
        Repr::Float => format!("{:?}", reader.float().unwrap()),
        Repr::Double => format!("{:?}", reader.double().unwrap()),
        Repr::Bytes => reader.bytes().unwrap().iter().map(|b| format!("{b:02x}")).collect(),
        Repr::String | Repr::Uuid => reader.string().unwrap().to_owned(),
        Repr::Decimal { scale, .. } => decimal(reader.bytes().unwrap(), usize::from(*scale)),
        Repr::Date => {
            let (y, m, d) = civil_from_days(reader.long().unwrap());
            format!("{y:04}-{m:02}-{d:02}")
        }
        Repr::LocalTimestampMicros | Repr::TimestampMicros => {
            let micros = reader.long().unwrap();
            let (y, m, d) = civil_from_days(micros.div_euclid(86_400_000_000));
            let of_day = micros.rem_euclid(86_400_000_000);
            let seconds = of_day / 1_000_000;
            format!("{y:04}-{m:02}-{d:02} {:02}:{:02}:{:02}.{:06}", seconds / 3600, seconds / 60 % 60, seconds % 60, of_day % 1_000_000)
        }
        Repr::Array(_) => panic!("no arrays here"),
    }
}

/// Decimal digits of big-endian two's complement, by schoolbook division.
fn decimal(bytes: &[u8], scale: usize) -> String {
    let negative = bytes[0] >= 0x80;
    let mut magnitude: Vec<u8> = bytes.iter().map(|b| if negative { !b } else { *b }).collect();
    if negative {
        for byte in magnitude.iter_mut().rev() {
            let (next, carry) = byte.overflowing_add(1);
            *byte = next;
            if !carry {
                break;
            }
        }
    }
    let mut digits = String::new();
    while magnitude.iter().any(|b| *b != 0) || digits.len() <= scale {
        let mut rest = 0u32;
        for byte in &mut magnitude {
            let value = rest * 256 + u32::from(*byte);
            *byte = (value / 10) as u8;
            rest = value % 10;
        }
        digits.insert(0, char::from(b'0' + rest as u8));
    }
    if scale > 0 {
        digits.insert(digits.len() - scale, '.');
    }
    if negative { format!("-{digits}") } else { digits }
}
