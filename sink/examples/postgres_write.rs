//! How fast one worker writes 12 columns into PostgreSQL, beside COPY into a stage and ON CONFLICT by hand with psql.
//!
//! `INSTAR_TEST_POSTGRES=postgres://user:password@host:port/database cargo run --release -p sink --example postgres_write [ROWS]`
//!
//! Prints the best of three runs each: rows a second of wall time and rows a second of this process's own CPU time.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a bench")]

use std::{
    collections::BTreeMap,
    io::Write,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use runtime::config::{BadValue, Batch as BatchConfig, Keyless, OnStop, Retry, Secret, Sink, SinkTable, TargetEngine, Tls, Url};
use schemas::{
    capability::POSTGRES,
    native::{
        Native,
        mysql::{Charset, Native as My},
    },
    order::ledger::{Lane, LanePosition},
    plan::{Action, Step, target_table},
    policy::Policy,
    table::{Column, Table, TableId},
    view::View,
    wire::{
        codec::{put_bytes, put_decimal_i128, put_double, put_int, put_long, put_null, put_some},
        row::RowSchema,
    },
};
use sink::{
    postgres::{
        PostgresTarget,
        encode::{COPY_HEAD, COPY_TAIL, Encoder},
        sql,
    },
    target::{Batch, Effect, LaneMove, TableBatch, TableVersion, Target, Writer, Written},
};

const BATCH: usize = 10_000;
const RUNS: usize = 3;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let rows: usize = std::env::args().nth(1).map_or(200_000, |n| n.parse().expect("a number of rows"));
    let text = std::env::var("INSTAR_TEST_POSTGRES").expect("INSTAR_TEST_POSTGRES");
    let config = config(&text);
    let version = version();
    let table = sql::table(&version.target.id);
    let first: Vec<_> = (0..rows).map(|i| row(i, 0)).collect();
    let second: Vec<_> = (0..rows).map(|i| row(i, 1)).collect();
    let keys: Vec<_> = (0..rows).map(key).collect();
    let encoder = Encoder::new(&version.table, &version.rows, &version.target, false).unwrap();
    encoding(&encoder, &first);
    let create = Step { action: Action::CreateTable, before: None, after: Some(version.target.clone()) };
    let begin = format!("DROP TABLE IF EXISTS {table}; CREATE SCHEMA IF NOT EXISTS bench; {}", sql::statement(&create).unwrap());
    let files = [file(&encoder, &first, "first"), file(&encoder, &second, "second")];
    let (mut by_hand, mut ours) = ([0f64; 2], [0f64; 2]);
    let mut cpu = [0f64; 2];
    for run in 0..RUNS {
        psql(&text, &begin);
        for (i, file) in files.iter().enumerate() {
            by_hand[i] = by_hand[i].max(rows as f64 / merge_by_hand(&text, &version, file).as_secs_f64());
        }
        psql(&text, &format!("{begin}; DROP SCHEMA IF EXISTS instar CASCADE"));
        let target = PostgresTarget::new(&format!("bench{run}"), &config).unwrap();
        target.prepare().await.unwrap();
        let mut writer = target.writer().await.unwrap();
        for (i, rows_of) in [&first, &second].into_iter().enumerate() {
            let (wall, own) = (Instant::now(), own_cpu());
            write_all(&mut writer, &version, &keys, rows_of, i * rows.div_ceil(BATCH)).await;
            ours[i] = ours[i].max(rows as f64 / wall.elapsed().as_secs_f64());
            cpu[i] = cpu[i].max(rows as f64 / (own_cpu() - own).as_secs_f64().max(0.01));
        }
    }
    for (i, what) in ["inserts", "updates"].into_iter().enumerate() {
        println!(
            "{what}: write() {:.0} rows/s, by hand {:.0} rows/s, ratio {:.2}; {:.0} rows per CPU-second of this process",
            ours[i],
            by_hand[i],
            ours[i] / by_hand[i],
            cpu[i]
        );
    }
    small_batches(&config, &version, &keys, &second).await;
    psql(&text, "DROP SCHEMA bench CASCADE; DROP SCHEMA instar CASCADE");
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Latency of small batches: of 500 each.
async fn small_batches(config: &Sink, version: &Arc<TableVersion>, keys: &[Vec<u8>], rows: &[Vec<u8>]) {
    for size in [1, 5, 20, 100] {
        let target = PostgresTarget::new(&format!("small{size}"), config).unwrap();
        target.prepare().await.unwrap();
        let mut writer = target.writer().await.unwrap();
        let mut times: Vec<_> = Vec::new();
        for i in 0..500 {
            let from = i * size;
            let begun = Instant::now();
            write_some(&mut writer, version, &keys[from..from + size], &rows[from..from + size], i as u64).await;
            times.push(begun.elapsed());
        }
        times.sort();
        println!("a batch of {size} rows: {:.2} ms at the median, {:.2} ms at least", ms(times[250]), ms(times[0]));
    }
}

async fn write_all(writer: &mut impl Writer, version: &Arc<TableVersion>, keys: &[Vec<u8>], rows: &[Vec<u8>], from: usize) {
    for (at, (keys, rows)) in keys.chunks(BATCH).zip(rows.chunks(BATCH)).enumerate() {
        write_some(writer, version, keys, rows, (from + at) as u64).await;
    }
}

async fn write_some(writer: &mut impl Writer, version: &Arc<TableVersion>, keys: &[Vec<u8>], rows: &[Vec<u8>], from: u64) {
    let lane = Lane { table: version.id.clone(), lane: 0 };
    let lanes =
        vec![LaneMove { lane, from, from_epoch: u64::from(from > 0), to: LanePosition { position: from + 1, seq: from, epoch: 1 } }];
    let effects = keys.iter().zip(rows).map(|(key, row)| Effect::Upsert { key, row, absent: Vec::new(), skip_missing: false }).collect();
    let tables = vec![TableBatch { version: version.clone(), effects, fresh_copy: false }];
    assert_eq!(writer.write(&Batch { lanes, tables }, &()).await.unwrap(), Written::Committed);
}

fn encoding(encoder: &Encoder, rows: &[Vec<u8>]) {
    let mut out = Vec::with_capacity(rows.len() * 200);
    let begun = Instant::now();
    let mut passes = 0u32;
    while begun.elapsed() < Duration::from_secs(1) {
        out.clear();
        rows.iter().for_each(|row| encoder.row(row, &mut out).unwrap());
        passes += 1;
    }
    let rate = rows.len() as f64 * f64::from(passes) / begun.elapsed().as_secs_f64();
    println!("encode: {rate:.0} rows/s on one core, {} bytes a row", out.len() / rows.len());
}

fn file(encoder: &Encoder, rows: &[Vec<u8>], name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("instar_bench_{}_{name}", std::process::id()));
    let mut bytes = COPY_HEAD.to_vec();
    rows.iter().for_each(|row| encoder.row(row, &mut bytes).unwrap());
    bytes.extend_from_slice(COPY_TAIL);
    std::fs::File::create(&path).unwrap().write_all(&bytes).unwrap();
    path
}

fn merge_by_hand(url: &str, version: &TableVersion, file: &std::path::Path) -> Duration {
    let columns: Vec<_> = version.target.columns.iter().map(|c| c.name.clone()).collect();
    let stage = sql::create_stage("stage", &version.target.id, &columns).replace("ON COMMIT DELETE ROWS", "");
    let copy = format!("\\copy stage ({}) FROM '{}' (FORMAT binary)", sql::list(&columns), file.display());
    let merge = sql::upsert(&version.target.id, &columns, &["id".to_owned()], &sql::From::Stage("stage"));
    let begun = Instant::now();
    let done = Command::new("psql").args([url, "-qX1", "-v", "ON_ERROR_STOP=1", "-c", &stage, "-c", &copy, "-c", &merge]).status().unwrap();
    assert!(done.success());
    begun.elapsed()
}

fn psql(url: &str, sql: &str) {
    let sql = format!("SET client_min_messages = error; {sql}");
    let done = Command::new("psql").args([url, "-qX", "-v", "ON_ERROR_STOP=1", "-c", &sql]).status();
    assert!(done.unwrap().success());
}

/// User and system time of this process.
fn own_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<i64> = stat.rsplit(')').next().unwrap().split_whitespace().skip(1).take(14).filter_map(|f| f.parse().ok()).collect();
    // Ticks of 10 ms; utime and stime are the 14th and 15th field, the command's name being the second.
    Duration::from_millis((fields[10] + fields[11]).unsigned_abs() * 10)
}

fn key(i: usize) -> Vec<u8> {
    let mut out = Vec::new();
    put_long(&mut out, i as i64);
    out
}

fn row(i: usize, pass: usize) -> Vec<u8> {
    let mut out = key(i);
    let n = i as i64 * 7_919 % 1_000_003 + pass as i64;
    put_int(&mut out, (n % 100_000) as i32);
    put_bytes(&mut out, [b"new".as_slice(), b"paid", b"sent", b"returned"][i % 4]);
    put_decimal_i128(&mut out, i128::from(n * 13));
    put_int(&mut out, (n % 50) as i32);
    put_long(&mut out, 1_700_000_000_000_000 + n * 1_000_003);
    put_some(&mut out);
    put_long(&mut out, 1_700_000_000_000_000 + n * 1_000_000);
    if i.is_multiple_of(5) {
        put_null(&mut out);
    } else {
        put_some(&mut out);
        put_bytes(&mut out, format!("note number {n} about order {i}, to be kept").as_bytes());
    }
    put_int(&mut out, i32::from(i.is_multiple_of(2)));
    put_double(&mut out, n as f64 / 7.0);
    put_int(&mut out, 19_000 + (n % 1_000) as i32);
    put_bytes(&mut out, format!("C{:06}", n % 1_000_000).as_bytes());
    out
}

fn version() -> Arc<TableVersion> {
    let charset = || Charset { charset: "utf8mb4".into(), collation: "utf8mb4_nopad_bin".into() };
    let integer = |bits| My::Integer { bits, unsigned: false, zerofill: false, width: None };
    let columns = [
        ("id", integer(64), false),
        ("customer", integer(32), false),
        ("status", My::VarChar { length: 20, charset: charset(), compressed: false }, false),
        ("price", My::Decimal { precision: 10, scale: 2, unsigned: false }, false),
        ("quantity", integer(32), false),
        ("created", My::DateTime { precision: 6 }, false),
        ("updated", My::Timestamp { precision: 3 }, true),
        ("note", My::VarChar { length: 200, charset: charset(), compressed: false }, true),
        ("flag", integer(8), false),
        ("rate", My::Double { unsigned: false, digits: None }, false),
        ("day", My::Date, false),
        ("code", My::Char { length: 8, charset: charset() }, false),
    ];
    let column = |(i, (name, native, nullable)): (usize, (&str, My, bool))| {
        let column = Column::new(i as u32, name, Native::MySql(native));
        if nullable { column } else { column.not_null() }
    };
    let id = TableId::new("bench", "orders");
    let table = Table::new(id.clone(), columns.into_iter().enumerate().map(column).collect(), &["id"]);
    let target = target_table(&table, &View::plain(id.clone()), &POSTGRES).expect("a target table");
    Arc::new(TableVersion { id, version: 1, rows: RowSchema::new(&table), table, target })
}

fn config(text: &str) -> Sink {
    let (user, rest) = text.strip_prefix("postgres://").unwrap().split_once('@').unwrap();
    let ((user, password), (place, database)) = (user.split_once(':').unwrap(), rest.split_once('/').unwrap());
    let (host, port) = place.split_once(':').unwrap();
    let url = Url {
        scheme: "postgres".into(),
        user: Some(user.into()),
        password: Some(Secret::new(password)),
        host: host.into(),
        port: Some(port.parse().unwrap()),
        database: Some(database.into()),
        parameters: BTreeMap::new(),
    };
    let defaults = SinkTable {
        rename: None,
        columns: BTreeMap::new(),
        evolution: Policy::default(),
        type_map: BTreeMap::new(),
        allow_truncation: false,
        keyless: Keyless::Refuse,
        bad_value: BadValue::Stop,
    };
    Sink {
        name: "bench".into(),
        target: TargetEngine::Postgres,
        url,
        schema: None,
        workers: 1,
        create: true,
        recreate: false,
        adopt: false,
        on_stop: OnStop::Exit,
        retry: Retry { initial: Duration::from_secs(1), max: Duration::from_secs(60) },
        lock_timeout: Duration::from_secs(5),
        batch: BatchConfig { rows: BATCH, bytes: 16 << 20, linger: Duration::from_millis(10) },
        tls: Tls::default(),
        defaults,
        tables: BTreeMap::new(),
    }
}
