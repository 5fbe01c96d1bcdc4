//! A database of its own for each test, and rows by hand.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use runtime::config::{BadValue, Batch as BatchConfig, Keyless, OnStop, Retry, Secret, Sink, SinkTable, TargetEngine, Tls, Url};
use schemas::{
    native::{Native, mysql, postgres},
    order::ledger::{Lane, LanePosition},
    policy::Policy,
    table::{Column, Table, TableId},
    wire::row::RowSchema,
};
use sink::{
    error::SinkError,
    postgres::PostgresTarget,
    target::{Batch, Effect, LaneMove, TableBatch, TableVersion, Target, Writer, Written},
};
use tokio_postgres::{Client, NoTls};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A fresh database.
pub struct Database {
    pub url: Url,
    pub client: Client,
    pub target: PostgresTarget,
    pub config: Sink,
}

/// None: no server is named, and this is not CI.
pub async fn database() -> Option<Database> {
    let Ok(text) = std::env::var("INSTAR_TEST_POSTGRES") else {
        assert!(std::env::var_os("CI").is_none(), "INSTAR_TEST_POSTGRES is not set");
        eprintln!("skipped: INSTAR_TEST_POSTGRES is not set");
        return None;
    };
    let mut url = url(&text);
    let name = format!("instar_test_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let admin = connect(&url).await;
    drop_left_over(&admin).await;
    admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name}")).await.unwrap();
    admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")).await.unwrap();
    url.database = Some(name);
    let client = connect(&url).await;
    let config = sink(&url);
    let target = PostgresTarget::new("shop", &config).unwrap();
    target.prepare().await.unwrap();
    Some(Database { url, client, target, config })
}

/// Databases of test processes that are no more.
async fn drop_left_over(admin: &Client) {
    let rows = admin.query(r"SELECT datname::text FROM pg_database WHERE datname LIKE 'instar\_test\_%'", &[]).await.unwrap();
    for row in rows {
        let name: String = row.get(0);
        let process = name.split('_').nth(2).unwrap_or_default();
        if !std::path::Path::new(&format!("/proc/{process}")).exists() {
            // Another test may be quicker.
            let _ = admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
        }
    }
}

fn url(text: &str) -> Url {
    let rest = text.strip_prefix("postgres://").unwrap();
    let (user, rest) = rest.split_once('@').unwrap();
    let (name, password) = user.split_once(':').unwrap();
    let (place, database) = rest.split_once('/').unwrap();
    let (host, port) = place.split_once(':').unwrap();
    Url {
        scheme: "postgres".into(),
        user: Some(name.into()),
        password: Some(Secret::new(password)),
        host: host.into(),
        port: Some(port.parse().unwrap()),
        database: Some(database.into()),
        parameters: BTreeMap::new(),
    }
}

pub async fn connect(url: &Url) -> Client {
    let mut config = tokio_postgres::Config::new();
    config.host(&url.host).port(url.port.unwrap()).user(url.user.as_deref().unwrap());
    config.password(url.password.as_ref().unwrap().reveal()).dbname(url.database.as_deref().unwrap());
    config.options("-c TimeZone=UTC -c extra_float_digits=1");
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub fn sink(url: &Url) -> Sink {
    let table = SinkTable {
        rename: None,
        columns: BTreeMap::new(),
        evolution: Policy::default(),
        type_map: BTreeMap::new(),
        allow_truncation: false,
        keyless: Keyless::FullRow,
        bad_value: BadValue::Stop,
    };
    Sink {
        name: "warehouse".into(),
        target: TargetEngine::Postgres,
        url: url.clone(),
        schema: None,
        workers: 1,
        create: true,
        recreate: false,
        adopt: false,
        on_stop: OnStop::Exit,
        retry: Retry { initial: Duration::from_secs(1), max: Duration::from_secs(60) },
        lock_timeout: Duration::from_millis(100),
        batch: BatchConfig { rows: 10_000, bytes: 16 << 20, linger: Duration::from_millis(10) },
        tls: Tls::default(),
        defaults: table,
        tables: BTreeMap::new(),
    }
}

impl Database {
    pub async fn sql(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }

    /// Each row's text, as the server prints it, in order.
    pub async fn rows(&self, sql: &str) -> Vec<String> {
        let messages = self.client.simple_query(sql).await.unwrap();
        let mut rows = Vec::new();
        for message in messages {
            if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
                rows.push((0..row.len()).map(|i| row.get(i).unwrap_or("NULL").to_owned()).collect::<Vec<_>>().join("|"));
            }
        }
        rows
    }

    pub async fn one(&self, sql: &str) -> String {
        self.rows(sql).await.remove(0)
    }
}

pub fn charset() -> mysql::Charset {
    mysql::Charset { charset: "utf8mb4".into(), collation: "utf8mb4_nopad_bin".into() }
}

pub fn int() -> Native {
    Native::MySql(mysql::Native::Integer { bits: 32, unsigned: false, zerofill: false, width: None })
}

pub fn text() -> Native {
    Native::MySql(mysql::Native::Text { size: mysql::LobSize::Normal, charset: charset(), compressed: false })
}

/// A source table `shop.<name>` and the target table of the same name, `id` being the key of both where there is one.
pub fn version(name: &str, columns: &[(&str, Native, postgres::Native, bool)], key: &[&str]) -> Arc<TableVersion> {
    let id = TableId::new("shop", name);
    let column = |i: usize, name: &str, native: Native, nullable: bool| {
        let column = Column::new(i as u32, name, native);
        if nullable { column } else { column.not_null() }
    };
    let source = columns.iter().enumerate().map(|(i, c)| column(i, c.0, c.1.clone(), c.3)).collect();
    let target = columns.iter().enumerate().map(|(i, c)| column(i, c.0, Native::Postgres(c.2.clone()), c.3)).collect();
    let table = Table::new(id.clone(), source, key);
    let rows = RowSchema::new(&table);
    Arc::new(TableVersion { id: id.clone(), version: 1, table, rows, target: Table::new(id, target, key) })
}

pub async fn create(database: &Database, version: &TableVersion) {
    let step = schemas::plan::Step { action: schemas::plan::Action::CreateTable, before: None, after: Some(version.target.clone()) };
    database.sql(&format!("CREATE SCHEMA IF NOT EXISTS shop; {}", sink::postgres::sql::statement(&step).unwrap())).await;
}

pub fn lane(table: &str, number: u32) -> Lane {
    Lane { table: TableId::new("shop", table), lane: number }
}

pub fn step(lane: Lane, from: u64, to: u64) -> LaneMove {
    LaneMove { lane, from, from_epoch: u64::from(from > 0), to: LanePosition { position: to, seq: to, epoch: 1 } }
}

/// Writes one batch of one table, its lane 0 going from `from` to `from + 1`.
pub async fn write(
    writer: &mut impl Writer,
    version: &Arc<TableVersion>,
    from: u64,
    effects: Vec<Effect<'_>>,
) -> Result<Written, SinkError> {
    write_as(writer, version, from, effects, false).await
}

pub async fn write_as(
    writer: &mut impl Writer,
    version: &Arc<TableVersion>,
    from: u64,
    effects: Vec<Effect<'_>>,
    fresh_copy: bool,
) -> Result<Written, SinkError> {
    let lanes = vec![step(Lane { table: version.id.clone(), lane: 0 }, from, from + 1)];
    writer.write(&Batch { lanes, tables: vec![TableBatch { version: version.clone(), effects, fresh_copy }] }, &()).await
}

pub fn upsert<'a>(key: &'a [u8], row: &'a [u8]) -> Effect<'a> {
    Effect::Upsert { key, row, absent: Vec::new(), skip_missing: false }
}

/// The message of an error, with its variant's name.
pub fn message(error: &SinkError) -> (&'static str, String) {
    let name = match error {
        SinkError::Transient(_) => "transient",
        SinkError::BadValue { .. } => "bad value",
        SinkError::Incomplete { .. } => "incomplete",
        SinkError::Stop { .. } => "stop",
        SinkError::Refused(_) => "refused",
        SinkError::SessionLost(_) => "session lost",
    };
    (name, error.to_string())
}
