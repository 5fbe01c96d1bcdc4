//! How fast the log of a MySQL or MariaDB server becomes Avro: 1 M rows of 12 columns from a backlog, without a topic.
//!
//! `INSTAR_TEST_MARIADB=mysql://root:test@127.0.0.1:3306 cargo run --release -p source --example binlog_speed [rows]`

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a bench")]

use std::{collections::BTreeMap, time::Duration, time::Instant};

use mysql_async::{Conn, OptsBuilder, prelude::Queryable};
use runtime::config::{CapturedTable, NewTables, RowMetadata, Secret, Snapshot, SnapshotMode, Source, SourceEngine, Tls, TlsMode, Url};
use schemas::{table::TableId, wire::row::RowSchema};
use source::{
    engine::{Bounds, Chunk, ChunkReader, Engine, Entry, Position as _, Published, Row, RowSink, Stream},
    error::CaptureError,
    mysql::MySql,
};

#[derive(Default)]
struct Count {
    rows: u64,
    bytes: u64,
}

impl RowSink for Count {
    fn row(&mut self, row: Row<'_>) -> Result<(), CaptureError> {
        self.rows += 1;
        self.bytes += (row.key.len() + row.before.map_or(0, <[u8]>::len) + row.after.map_or(0, <[u8]>::len)) as u64;
        Ok(())
    }
}

/// Processor seconds of this process, from the kernel's own account.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned()
}

fn source(url: Url, table: &TableId) -> Source {
    Source {
        engine: SourceEngine::MySql,
        url,
        tables: vec![CapturedTable {
            table: table.clone(),
            columns: Vec::new(),
            exclude_columns: Vec::new(),
            key: Vec::new(),
            filter: None,
        }],
        snapshot: Snapshot { mode: SnapshotMode::Initial, workers: 1, chunk_rows: 50_000, slice: Duration::from_secs(2) },
        new_tables: NewTables::Ignore,
        row_metadata: RowMetadata::Warn,
        type_map: BTreeMap::new(),
        tls: Tls { mode: TlsMode::Prefer, ..Tls::default() },
        server_id: None,
        heartbeat: Duration::from_secs(10),
    }
}

async fn fill(conn: &mut Conn, rows: u64) {
    let mut first = 0;
    while first < rows {
        let batch = (rows - first).min(10_000);
        conn.query_drop(format!(
            "INSERT INTO speed.t SELECT {first} + seq, seq % 100, seq % 1000, CONCAT('customer ', seq), CONCAT('street ', seq, ' number'), \
             seq / 7, '2024-02-29 12:34:56.123456', '2024-02-29 12:34:56.789', seq * 1.5, seq % 2, REPEAT('x', 20), seq FROM speed.n WHERE seq < {batch}"
        ))
        .await
        .unwrap();
        first += batch;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let address = std::env::var("INSTAR_TEST_MARIADB")
        .or_else(|_| std::env::var("INSTAR_TEST_MYSQL"))
        .expect("INSTAR_TEST_MARIADB or INSTAR_TEST_MYSQL");
    let rows: u64 = std::env::args().nth(1).map_or(1_000_000, |n| n.parse().unwrap());
    let (user, host) = address.strip_prefix("mysql://").unwrap().split_once('@').unwrap();
    let ((user, password), (host, port)) = (user.split_once(':').unwrap(), host.split_once(':').unwrap());
    let url = Url {
        scheme: "mysql".into(),
        user: Some(user.into()),
        password: Some(Secret::new(password)),
        host: host.into(),
        port: Some(port.parse().unwrap()),
        database: None,
        parameters: BTreeMap::new(),
    };
    let opts = OptsBuilder::default()
        .ip_or_hostname(host)
        .tcp_port(port.parse().unwrap())
        .user(Some(user))
        .pass(Some(password))
        .prefer_socket(false);
    let mut conn = Conn::new(opts).await.unwrap();
    for sql in [
        "DROP DATABASE IF EXISTS speed",
        "CREATE DATABASE speed CHARACTER SET utf8mb4",
        "CREATE TABLE speed.n (seq INT PRIMARY KEY)",
        "INSERT INTO speed.n SELECT a.x + b.x * 10 + c.x * 100 + d.x * 1000 FROM (SELECT 0 x UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION \
         SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) a, (SELECT 0 x UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION \
         SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) b, (SELECT 0 x UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION \
         SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) c, (SELECT 0 x UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION \
         SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) d",
        "CREATE TABLE speed.t (id BIGINT PRIMARY KEY, a INT, b INT, name VARCHAR(40), street VARCHAR(60), price DECIMAL(18,4), created DATETIME(6), \
         changed TIMESTAMP(3) NULL, weight DOUBLE, active BOOL, note TEXT, n BIGINT)",
    ] {
        conn.query_drop(sql).await.unwrap();
    }
    let table = TableId::new("speed", "t");
    let mut engine = MySql::new(&source(url, &table)).unwrap();
    let (from, shapes) = engine.pinned(std::slice::from_ref(&table)).await.unwrap();
    fill(&mut conn, rows).await;
    let (end, _) = engine.end().await.unwrap();
    let published = Published { shape: shapes[0].clone(), rows: RowSchema::new(&shapes[0]) };
    for run in 0..3 {
        let (clock, used) = (Instant::now(), cpu());
        let mut count = Count::default();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        loop {
            match stream.next().await.unwrap() {
                Entry::Rows { rows, .. } => {
                    stream.rows(rows, 0, &published, &mut count).unwrap();
                }
                Entry::Commit { position, .. } | Entry::Idle { position, .. } if position.reached(&end) => break,
                Entry::Commit { .. } | Entry::Idle { .. } | Entry::Statement(_) => {}
                Entry::Stand { message, .. } => panic!("{message}"),
            }
        }
        let (wall, used) = (clock.elapsed().as_secs_f64(), cpu() - used);
        println!(
            "stream {run}: {} rows, {} bytes of images and keys, {:.2} s wall, {:.2} s cpu: {:.0} rows per cpu second; {}",
            count.rows,
            count.bytes,
            wall,
            used,
            count.rows as f64 / used,
            peak_memory()
        );
    }
    for run in 0..3 {
        let (clock, used) = (Instant::now(), cpu());
        let mut count = Count::default();
        let mut reader = engine.reader().await.unwrap();
        let mut above = None;
        loop {
            let mut bounds = Bounds { above, up_to: None };
            let up_to = reader.bound(&shapes[0], &bounds, 50_000).await.unwrap();
            bounds.up_to.clone_from(&up_to);
            let chunk = reader.read(&published, &bounds, &end, &mut count).await.unwrap();
            assert!(matches!(chunk, Chunk::Read { .. }));
            above = up_to;
            if above.is_none() {
                break;
            }
        }
        let (wall, used) = (clock.elapsed().as_secs_f64(), cpu() - used);
        println!(
            "copy {run}: {} rows, {:.2} s wall, {:.2} s cpu: {:.0} rows per cpu second, {:.0} rows/s; {}",
            count.rows,
            wall,
            used,
            count.rows as f64 / used,
            count.rows as f64 / wall,
            peak_memory()
        );
    }
    conn.query_drop("DROP DATABASE speed").await.unwrap();
}
