//! Rows per CPU-second of the loop and the local log alone: an engine that gives encoded rows of 12 columns for nothing.
//!
//! `cargo run --release -p source --example capture_speed [ROWS]`

use std::{fmt, process::ExitCode, time::Duration};

use runtime::{
    config::{CapturedTable, OnStop, Retry, Snapshot, SnapshotMode, TruncateEvents},
    log::{Log, LogOptions},
};
use schemas::{
    native::{Native, mysql},
    table::{Column, Table, TableId},
    wire::{codec::put_long, envelope::Op},
};
use source::{
    capture::{CommitBounds, Reporter, Settings, run},
    engine::{Bounds, Chunk, ChunkReader, Engine, Entry, Position, Problem, Published, Row, RowSink, Stream},
    error::CaptureError,
    publisher::local::LocalPublisher,
};
use tokio::sync::watch;

const GROUP: u64 = 100;

#[derive(Debug, Clone, Copy, PartialEq)]
struct At(u64);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Position for At {
    fn parse(text: &str) -> Result<Self, CaptureError> {
        text.parse().map(At).map_err(|_| CaptureError::Transport(format!("no position: {text}")))
    }

    fn reached(&self, other: &Self) -> bool {
        self.0 >= other.0
    }
}

struct Rows(u64);

struct Given {
    groups: u64,
}

struct Flow {
    at: u64,
    groups: u64,
    given: bool,
    image: Vec<u8>,
    key: Vec<u8>,
}

fn orders() -> TableId {
    TableId::new("shop", "orders")
}

fn shape() -> Table {
    let native = Native::MySql(mysql::Native::Integer { bits: 64, unsigned: false, zerofill: false, width: None });
    let columns = (0..12).map(|n| Column::new(n, format!("c{n}"), native.clone()).not_null()).collect();
    Table::new(orders(), columns, &["c0"])
}

impl Engine for Given {
    const NAME: &'static str = "speed";
    type Position = At;
    type Stream = Flow;
    type Reader = NoReader;

    async fn lock(&mut self, _: &str) -> Result<(), CaptureError> {
        Ok(())
    }

    async fn preflight(&mut self) -> Result<Vec<Problem>, CaptureError> {
        Ok(Vec::new())
    }

    async fn pinned(&mut self, _: &[TableId]) -> Result<(At, Vec<Table>), CaptureError> {
        Ok((At(0), vec![shape()]))
    }

    async fn end(&mut self) -> Result<(At, i64), CaptureError> {
        Ok((At(self.groups), 0))
    }

    async fn stream(&self, from: &At, _: Vec<Table>) -> Result<Flow, CaptureError> {
        Ok(Flow { at: from.0, groups: self.groups, given: false, image: Vec::new(), key: Vec::new() })
    }

    async fn reader(&self) -> Result<NoReader, CaptureError> {
        Ok(NoReader)
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rows of group {}", self.0)
    }
}

impl Stream for Flow {
    type Position = At;
    type Rows = Rows;

    async fn next(&mut self) -> Result<Entry<At, Rows>, CaptureError> {
        if self.at == self.groups {
            std::future::pending::<()>().await;
        }
        self.given = !self.given;
        if self.given {
            let position = format!("mariadb gtid=0-1-{} server=1 file=binlog.000001:60628", self.at);
            return Ok(Entry::Rows {
                table: orders(),
                rows: Rows(self.at),
                position,
                transaction: Some(format!("0-1-{}", self.at)),
                ts_ms: 1,
            });
        }
        self.at += 1;
        Ok(Entry::Commit { position: At(self.at), ts_ms: 1 })
    }

    fn has_next(&self) -> bool {
        self.at < self.groups
    }

    fn rows(&mut self, rows: Rows, _: u64, _: &Published, out: &mut impl RowSink) -> Result<u64, CaptureError> {
        for n in 0..GROUP {
            let key = (rows.0 * GROUP + n).cast_signed();
            self.key.clear();
            put_long(&mut self.key, key);
            self.image.clear();
            for column in 0..12 {
                // About 120 bytes, as a row of mixed types has.
                put_long(&mut self.image, if column == 0 { key } else { i64::MAX - column });
            }
            out.row(Row { op: Op::Create, key: &self.key, before: None, after: Some(&self.image), absent_before: &[], absent_after: &[] })?;
        }
        Ok(GROUP)
    }

    fn capture(&mut self, _: Vec<Table>) {}
    fn release(&mut self, _: &TableId) {}
    fn skip(&mut self, _: Table, _: At) {}
}

/// Nothing is copied here.
struct NoReader;

fn nothing<T>() -> Result<T, CaptureError> {
    Err(CaptureError::Refused("this engine has no tables to copy".into()))
}

impl ChunkReader for NoReader {
    type Position = At;

    async fn estimate(&mut self, _: &Table) -> Result<u64, CaptureError> {
        nothing()
    }

    async fn bound(&mut self, _: &Table, _: &Bounds, _: u64) -> Result<Option<Vec<String>>, CaptureError> {
        nothing()
    }

    async fn read(&mut self, _: &Published, _: &Bounds, _: &At, _: &mut (impl RowSink + Send)) -> Result<Chunk<At>, CaptureError> {
        nothing()
    }

    async fn view(&mut self, _: &Table) -> Result<Option<At>, CaptureError> {
        nothing()
    }

    async fn view_rows(&mut self, _: &Published, _: u64, _: &mut (impl RowSink + Send)) -> Result<bool, CaptureError> {
        nothing()
    }
}

fn settings() -> Settings {
    let table = CapturedTable { table: orders(), columns: Vec::new(), exclude_columns: Vec::new(), key: Vec::new(), filter: None };
    Settings {
        pipeline: "speed".into(),
        prefix: "speed".into(),
        server: "speed".into(),
        tables: vec![table],
        snapshot: Snapshot { mode: SnapshotMode::Never, workers: 1, chunk_rows: 1, slice: Duration::from_secs(2) },
        truncate: TruncateEvents::Publish,
        on_stop: OnStop::Exit,
        retry: Retry { initial: Duration::from_secs(1), max: Duration::from_secs(1) },
        commit: CommitBounds::default(),
        heartbeat: Duration::from_secs(10),
        poll: Duration::from_millis(100),
    }
}

/// CPU seconds of this process, and its peak memory in MB.
fn used() -> (f64, u64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().filter_map(|i| fields.get(*i)?.parse::<u64>().ok()).sum();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    (ticks as f64 / 100.0, peak.unwrap_or(0) / 1024)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let rows: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2_000_000);
    let directory = std::env::temp_dir().join(format!("instar-capture-speed-{}", std::process::id()));
    let log = match Log::open(&directory, LogOptions { partitions: 4, ..LogOptions::default() }) {
        Ok(log) => log,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    let (mut engine, mut publisher) = (Given { groups: rows / GROUP }, LocalPublisher::new(log, "speed"));
    let ((reporter, mut status), settings, (stop, shutdown)) = (Reporter::new(), settings(), watch::channel(false));
    let end = At(rows / GROUP).to_string();
    let (start, before) = (std::time::Instant::now(), used().0);
    tokio::spawn(async move {
        // Both end with the process.
        let _ = status.wait_for(|s| s.position == end).await.map(drop);
        let _ = stop.send(true);
    });
    let ended = run(&mut engine, &mut publisher, &settings, &reporter, shutdown).await;
    let (cpu, peak) = used();
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu - before);
    println!("{ended:?}: {rows} rows, {wall:.2} s, {cpu:.2} CPU-seconds, {:.0} rows per CPU-second, peak {peak} MB", rows as f64 / cpu);
    let _ = std::fs::remove_dir_all(&directory);
    ExitCode::SUCCESS
}
