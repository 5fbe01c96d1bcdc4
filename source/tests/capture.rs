//! The loop over a real MariaDB and the local log: what a reader of the topics makes of them is what the server has.

#![expect(clippy::expect_used, reason = "tests")]

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    time::Duration,
};

use mysql_async::{Conn, OptsBuilder, Row, prelude::Queryable};
use runtime::{
    config::{
        CapturedTable, NewTables, OnStop, Retry, RowMetadata, Secret, Snapshot, SnapshotMode, Source, SourceEngine, Tls, TruncateEvents,
        Url,
    },
    log::{Keep, Log, LogOptions},
};
use schemas::{
    change::{Fill, SchemaChange},
    event::{EventKind, SchemaEvent, SourceState},
    table::{ColumnId, TableId},
    value::Value,
    wire::{
        codec::Reader,
        envelope::{Head, Op, Tail},
        event::{read_event, read_progress},
        names,
        row::RowSchema,
    },
};
use source::{
    capture::{Command, CommitBounds, Reporter, Settings, SourceStatus, State, run},
    engine::{Engine, Position as _},
    mysql::{MySql, position::Position},
    publisher::local::LocalPublisher,
};
use tokio::sync::watch;

struct World {
    database: String,
    conn: Conn,
    source: Source,
    settings: Settings,
    log: Log,
    publisher: LocalPublisher,
    reporter: Reporter,
    status: watch::Receiver<SourceStatus>,
    directory: PathBuf,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn url() -> Option<Url> {
    let Ok(text) = std::env::var("INSTAR_TEST_MARIADB") else {
        assert!(std::env::var("CI").is_err(), "INSTAR_TEST_MARIADB is not set");
        return None;
    };
    let (user, host) = text.strip_prefix("mysql://").and_then(|t| t.split_once('@')).expect("mysql://user:password@host:port");
    let (user, password) = user.split_once(':').expect("user:password");
    let (host, port) = host.trim_end_matches('/').split_once(':').expect("host:port");
    Some(Url {
        scheme: "mysql".into(),
        user: Some(user.into()),
        password: Some(Secret::new(password)),
        host: host.into(),
        port: Some(port.parse().expect("port")),
        database: None,
        parameters: BTreeMap::new(),
    })
}

impl World {
    async fn new(name: &str, tables: &[&str], ddl: &[&str]) -> Option<Self> {
        let url = url()?;
        let database = format!("capture_{name}");
        let opts = OptsBuilder::default()
            .ip_or_hostname(&url.host)
            .tcp_port(url.port.expect("port"))
            .user(url.user.clone())
            .pass(url.password.as_ref().map(|p| p.reveal().to_owned()))
            .prefer_socket(false);
        let mut conn = Conn::new(opts).await.expect("connect");
        for sql in [format!("DROP DATABASE IF EXISTS {database}"), format!("CREATE DATABASE {database}"), format!("USE {database}")] {
            conn.query_drop(sql).await.expect("database");
        }
        for sql in ddl {
            conn.query_drop(*sql).await.expect("ddl");
        }
        let captured = |name: &&str| CapturedTable {
            table: TableId::new(&database, *name),
            columns: Vec::new(),
            exclude_columns: Vec::new(),
            key: Vec::new(),
            filter: None,
        };
        let snapshot = Snapshot { mode: SnapshotMode::Initial, workers: 2, chunk_rows: 100, slice: Duration::from_millis(50) };
        let source = Source {
            engine: SourceEngine::MySql,
            url,
            tables: tables.iter().map(captured).collect(),
            snapshot: snapshot.clone(),
            new_tables: NewTables::Ignore,
            row_metadata: RowMetadata::Require,
            type_map: BTreeMap::new(),
            tls: Tls::default(),
            server_id: None,
            heartbeat: Duration::from_millis(200),
        };
        let settings = Settings {
            pipeline: database.clone(),
            prefix: "p".into(),
            server: "mysql".into(),
            tables: source.tables.clone(),
            snapshot,
            truncate: TruncateEvents::Publish,
            on_stop: OnStop::Wait,
            retry: Retry { initial: Duration::from_millis(10), max: Duration::from_secs(1) },
            commit: CommitBounds { rows: 500, ..CommitBounds::default() },
            heartbeat: Duration::from_secs(10),
            poll: Duration::from_millis(20),
        };
        let directory = std::env::temp_dir().join(format!("instar-{database}-{}", std::process::id()));
        let log = Log::open(&directory, LogOptions { partitions: 4, ..LogOptions::default() }).expect("log");
        let publisher = LocalPublisher::new(log.clone(), "p");
        let (reporter, status) = Reporter::new();
        Some(Self { database, conn, source, settings, log, publisher, reporter, status, directory })
    }

    async fn sql(&mut self, sql: &str) {
        self.conn.query_drop(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    async fn until(&mut self, done: impl Fn(&SourceStatus) -> bool) {
        let (stop, shutdown) = watch::channel(false);
        let mut status = self.status.clone();
        let mut engine = MySql::new(&self.source).expect("engine");
        let source = run(&mut engine, &mut self.publisher, &self.settings, &self.reporter, shutdown);
        tokio::pin!(source);
        let seen = tokio::select! {
            seen = tokio::time::timeout(Duration::from_secs(30), status.wait_for(|s| done(s))) => seen.is_ok(),
            ended = &mut source => panic!("the source ended: {ended:?}"),
        };
        assert!(seen, "the condition was not met in 30 s; status: {:?}", *self.status.borrow());
        stop.send(true).expect("shutdown");
        source.await.expect("run");
    }

    async fn until_caught_up(&mut self) {
        let (end, _) = MySql::new(&self.source).expect("engine").end().await.expect("end");
        let there = |s: &SourceStatus| Position::parse(&s.position).is_ok_and(|p| p.reached(&end));
        self.until(|s| there(s) && s.tables.values().all(Option::is_none)).await;
    }

    fn records(&self, topic: &str, lane: u32) -> Vec<Vec<u8>> {
        let topic = self.log.find(topic).expect("topic");
        let (mut out, mut next) = (Vec::new(), 0);
        loop {
            let records = self.log.records(&topic, lane, next, 1 << 20).expect("records");
            if records.is_empty() {
                return out;
            }
            out.extend(records.iter().map(|r| r.value.to_vec()));
            next = records.next();
        }
    }

    fn events(&self) -> Vec<SchemaEvent> {
        self.records(&names::versions("p"), 0).iter().map(|r| read_event(r).expect("event")).collect()
    }

    /// The rows that a reader of the topics has at the end, in the order of the table's columns, sorted.
    fn image(&self, name: &str) -> Vec<Vec<i64>> {
        let table = TableId::new(&self.database, name);
        let topic = names::topic("p", &table);
        let events = self.events();
        let mut by_schema = HashMap::new();
        for part in events.iter().filter_map(|e| e.table(&table)) {
            by_schema.entry(part.value_schema).or_insert_with(|| RowSchema::new(&part.table));
        }
        let mut rows = Vec::new();
        for lane in 0..self.log.find(&topic).expect("topic").lanes {
            for value in self.records(&topic, lane) {
                let (head, mut r) = Head::read(&value).expect("head");
                let fields = &by_schema[&head.schema].fields;
                let read = |r: &mut Reader<'_>| {
                    r.some().expect("branch").then(|| fields.iter().map(|f| (f.column, r.long().expect("long"))).collect::<Image>())
                };
                let (before, after) = (read(&mut r), read(&mut r));
                rows.push((head.seq, head.epoch, Tail::read(&mut r).expect("tail").op, before, after));
            }
        }
        rows.sort_by_key(|r| r.0);
        assert!(rows.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1), "{name}: seq or epoch");
        let (mut image, mut rows, mut newest) = (Vec::<Image>::new(), rows.into_iter().peekable(), None);
        for event in &events {
            let Some(epoch) = event.epoch else {
                // The order of the columns may have changed.
                newest = event.table(&table).or(newest);
                continue;
            };
            while let Some(row) = rows.next_if(|r| r.1 < epoch) {
                put(&mut image, name, row.2, row.3, row.4);
            }
            let Some(part) = event.table(&table) else { continue };
            newest = Some(part);
            match event.kind {
                EventKind::Ddl => part.changes.iter().for_each(|c| change(&mut image, c)),
                EventKind::Initial | EventKind::Reload | EventKind::Retire => image.clear(),
            }
        }
        rows.for_each(|row| put(&mut image, name, row.2, row.3, row.4));
        let columns = &newest.expect("event").table.columns;
        let mut out: Vec<Vec<i64>> = image.iter().map(|row| columns.iter().map(|c| row[&c.id]).collect()).collect();
        out.sort_unstable();
        out
    }

    async fn check(&mut self, name: &str) {
        let rows: Vec<Row> = self.conn.query(format!("SELECT * FROM {name}")).await.expect("select");
        let mut server: Vec<Vec<i64>> = rows.into_iter().map(|r| (0..r.len()).map(|i| r.get(i).expect("number")).collect()).collect();
        server.sort_unstable();
        assert_eq!(self.image(name), server, "{name}");
    }

    fn command(&self, command: &Command) {
        let topic = self.log.topic(&names::commands("p"), Some(1), Keep::Forever).expect("topic");
        let mut transaction = self.log.begin();
        transaction.append(&topic, 0, None, &command.to_record()).expect("append");
        transaction.commit().expect("commit");
    }
}

type Image = BTreeMap<ColumnId, i64>;

fn put(image: &mut Vec<Image>, name: &str, op: Op, before: Option<Image>, after: Option<Image>) {
    let keyed = name != "k";
    let same = |a: &Image, b: &Image| if keyed { a[&ColumnId(0)] == b[&ColumnId(0)] } else { a == b };
    let gone = match op {
        Op::Truncate => return,
        Op::Delete => before,
        Op::Create | Op::Update | Op::Read => {
            if keyed {
                after.clone()
            } else {
                before
            }
        }
    };
    if let Some(at) = gone.and_then(|gone| image.iter().position(|row| same(row, &gone))) {
        image.remove(at);
    }
    image.extend(after);
}

fn change(image: &mut Vec<Image>, change: &SchemaChange) {
    match change {
        SchemaChange::TruncateTable => image.clear(),
        SchemaChange::AddColumn { column, fill: Fill::Constant(Value::Integer(fill)) } => {
            let fill = i64::try_from(*fill).expect("fill");
            image.iter_mut().for_each(|row| assert_eq!(row.insert(column.id, fill), None));
        }
        SchemaChange::RenameColumn { .. } | SchemaChange::ChangeComment { .. } | SchemaChange::ReorderColumn { .. } => {}
        SchemaChange::ChangeType { .. } => {}
        other => panic!("unexpected change {other:?}"),
    }
}

const TABLES: [&str; 3] = [
    "CREATE TABLE t (id INT PRIMARY KEY, v BIGINT NOT NULL)",
    "CREATE TABLE k (a INT NOT NULL, b BIGINT NOT NULL)",
    "CREATE TABLE other (x INT)",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_rows_and_changes_of_mariadb() {
    let Some(mut world) = World::new("order", &["t", "k"], &TABLES).await else { return };
    world.sql("INSERT INTO t SELECT seq, seq * 2 FROM seq_1_to_1500").await;
    world.sql("INSERT INTO k SELECT seq % 7, seq % 3 FROM seq_1_to_300").await;
    world.until_caught_up().await;
    world.check("t").await;
    world.check("k").await;
    for sql in [
        "INSERT INTO t VALUES (5001, 1), (5002, 2)",
        "ALTER TABLE t ADD COLUMN w BIGINT NOT NULL DEFAULT 5",
        "UPDATE t SET v = v + 1 WHERE id > 1400",
        "UPDATE t SET id = id + 10000 WHERE id = 3",
        "ALTER TABLE t CHANGE COLUMN v value BIGINT NOT NULL COMMENT 'renamed'",
        "INSERT INTO t VALUES (6001, 1, 2)",
        "ALTER TABLE t MODIFY COLUMN w BIGINT NOT NULL DEFAULT 5 AFTER id",
        "INSERT INTO t VALUES (6002, 1, 2)",
        "DELETE FROM k WHERE a = 2 LIMIT 5",
        "TRUNCATE TABLE k",
        "INSERT INTO k VALUES (1, 1), (1, 1)",
        "INSERT INTO other VALUES (1)",
    ] {
        world.sql(sql).await;
    }
    world.until_caught_up().await;
    world.check("t").await;
    world.check("k").await;
    world.command(&Command::Reload { table: None, sink: None });
    let epoch = world.status.borrow().epoch;
    world.until(|s| s.epoch >= epoch + 2).await;
    world.until_caught_up().await;
    world.check("t").await;
    world.check("k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_a_statement_that_cannot_be_followed_and_a_reload() {
    let Some(mut world) = World::new("stand", &["t", "k"], &TABLES).await else { return };
    world.sql("INSERT INTO t VALUES (1, 1)").await;
    world.until_caught_up().await;
    world.sql("RENAME TABLE t TO t_old").await;
    world.sql("CREATE TABLE t (id INT PRIMARY KEY, v BIGINT NOT NULL, z BIGINT NOT NULL)").await;
    world.sql("INSERT INTO t VALUES (7, 7, 7)").await;
    world.sql("INSERT INTO k VALUES (7, 7)").await;
    world.until(|s| s.state == State::Stopped).await;
    let topic = world.log.find(&names::progress("p")).expect("topic");
    let progress = read_progress(&world.log.newest(&topic, 0).expect("read").expect("progress")).expect("progress");
    assert_eq!(progress.state, SourceState::Stopped);
    assert!(progress.message.contains("RENAME") && progress.message.contains("instar reload"), "{}", progress.message);
    assert_eq!(world.image("k").len(), 0, "a row behind the statement was published");
    world.command(&Command::Reload { table: Some(format!("{}.t", world.database)), sink: None });
    world.until_caught_up().await;
    world.sql("INSERT INTO t VALUES (8, 8, 8)").await;
    world.until_caught_up().await;
    world.check("t").await;
    world.check("k").await;
    let events = world.events();
    let superseded = &events.last().expect("event").tables[0].superseded;
    assert_eq!(superseded.len(), 1, "{superseded:?}");
}
