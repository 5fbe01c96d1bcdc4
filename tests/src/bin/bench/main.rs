//! Benches of the whole binary: what one process does, by its own CPU time, beside the servers' own tools in the same run.

#![allow(clippy::expect_used, reason = "tests")]

mod churn;
mod debezium;
mod scale;
mod steady;
mod topic;

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tests::{
    kafka::Topics,
    pipeline::{Pipeline, Setup, Transport, Usage},
    postgres, source,
};

const COLUMNS: &str = "id BIGINT PRIMARY KEY, customer INT NOT NULL, state TINYINT NOT NULL, name VARCHAR(60) NOT NULL, city VARCHAR(40), price DECIMAL(18,4) NOT NULL, placed DATETIME(6) NOT NULL, changed TIMESTAMP(3) NULL, weight DOUBLE, gift TINYINT(1) NOT NULL, note TEXT, code INT UNSIGNED";
const ROW: &str = "seq, seq % 50000, seq % 5, CONCAT('customer number ', seq), ELT(1 + seq % 4, 'Berlin', 'Köln', 'Lyon', NULL), seq / 7, '2024-01-01' + INTERVAL seq SECOND, '2024-01-01 12:00:00.5' + INTERVAL seq SECOND, seq / 3, seq % 2, IF(seq % 10 = 0, NULL, CONCAT('note of row ', seq)), seq * 3";
const NAME: &str = "bench";

struct Bench {
    rows: u64,
    source: source::Session,
    target: postgres::Session,
    pipeline: Pipeline,
    transport: Transport<'static>,
}

/// What is at work in a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Source,
    Sink,
    Both,
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let rows = arguments.peek().and_then(|a| a.parse().ok()).unwrap_or(1_000_000);
    let scenarios: Vec<String> = arguments.filter(|a| a.parse::<u64>().is_err()).collect();
    let wanted = |name: &str| scenarios.is_empty() || scenarios.iter().any(|s| s == name);
    println!("{rows} rows of 12 columns; CPU and memory are those of the process alone");
    if scenarios.iter().any(|s| s == "debezium") {
        debezium::run(rows).await;
    }
    let sized = |name: &str| scenarios.iter().any(|s| s == name);
    if sized("transaction") {
        scale::transaction(rows).await;
    }
    if sized("tables") {
        scale::tables(rows.min(10_000)).await;
    }
    if sized("versions") {
        scale::versions(rows.min(10_000)).await;
    }
    let mut bench = Bench {
        rows,
        source: source::Session::connect(&source::url("mariadb")).await,
        target: postgres::Session::fresh_database(NAME).await,
        pipeline: Pipeline::new(NAME, ""),
        transport: Transport::Local,
    };
    if scenarios.iter().any(|s| s == "kafka") {
        bench.transport = Transport::Kafka;
        println!("over Kafka, the source and a sink as processes apart:");
        bench.backlog().await;
        bench.latency().await;
        bench.ddl().await;
        bench.churn().await;
        bench.transport = Transport::Local;
    }
    if !scenarios.is_empty() && !scenarios.iter().any(|s| ["backlog", "copy", "latency", "ddl", "churn"].contains(&s.as_str())) {
        return;
    }
    if wanted("backlog") {
        bench.backlog().await;
    }
    if wanted("copy") {
        bench.copy().await;
    }
    if wanted("latency") {
        bench.latency().await;
    }
    if wanted("ddl") {
        bench.ddl().await;
    }
    if wanted("churn") {
        bench.churn().await;
    }
}

/// The columns of the table as it is made, whatever it has more.
fn names() -> String {
    COLUMNS.split(", ").filter_map(|column| column.split(' ').next()).collect::<Vec<_>>().join(", ")
}

/// MariaDB's statement for the rows of these ids.
fn insert_sequence(from: u64, to: u64) -> String {
    format!("INSERT INTO t ({}) SELECT {ROW} FROM seq_{from}_to_{to}", names())
}

/// A configuration of its source alone.
fn without_sinks(yaml: &str) -> String {
    format!("{}sinks: {{}}\n", &yaml[..yaml.find("sinks:").unwrap_or(yaml.len())])
}

/// What a process took for so many rows.
fn print_usage(what: &str, rows: u64, wall: f64, usage: Usage) {
    let Usage { cpu_seconds: cpu, peak_mib: peak } = usage;
    println!(
        "{what:34} {:>9.0} rows/s wall  {:>9.0} rows/CPU-s  {cpu:>6.2} CPU-s  {peak:>5.0} MiB peak",
        rows as f64 / wall,
        rows as f64 / cpu
    );
}

impl Bench {
    fn configure(&self, snapshot: &str, work: Work) {
        let source_url = source::url("mariadb");
        let setup = Setup {
            name: NAME,
            source_url: &source_url,
            database: NAME,
            tables: &["bench.t"],
            target_url: &postgres::database_url(NAME),
            schema: "public",
            partitions: 4,
            source_extra: &format!("  snapshot: {{ mode: {snapshot} }}\n"),
            sink_extra: "",
        };
        let yaml = setup.yaml_over(self.transport);
        self.pipeline.reconfigure(&if work == Work::Source { without_sinks(&yaml) } else { yaml });
    }

    async fn empty_table(&mut self) {
        self.pipeline.kill();
        match self.transport {
            Transport::Local => drop(std::fs::remove_dir_all(self.pipeline.folder.join("topics"))),
            Transport::Kafka | Transport::KafkaWith(_) => Topics::shared().forget(NAME).await,
        }
        self.source.fresh_database(NAME).await;
        self.source.run(&format!("CREATE TABLE t ({COLUMNS})")).await;
        self.target.run("DROP SCHEMA IF EXISTS instar CASCADE; DROP TABLE IF EXISTS t").await;
    }

    async fn insert(&mut self, from: u64, to: u64) {
        self.source.run("SET NAMES utf8mb4").await;
        let mut at = from;
        while at <= to {
            let end = (at + 9_999).min(to);
            self.source.run(&insert_sequence(at, end)).await;
            at = end + 1;
        }
    }

    /// Starts what is to work. Locally one process is all of it: a sink works alone while its source has nothing to do.
    fn start(&mut self, work: Work) {
        match (self.transport, work) {
            (Transport::Local, _) => self.pipeline.start(),
            (Transport::Kafka | Transport::KafkaWith(_), Work::Source) => self.pipeline.start_apart(true, 0),
            (Transport::Kafka | Transport::KafkaWith(_), Work::Sink) => self.pipeline.start_apart(false, 1),
            (Transport::Kafka | Transport::KafkaWith(_), Work::Both) => self.pipeline.start_apart(true, 1),
        }
    }

    /// Starts the pipeline, waits until it has caught up, and prints what it took.
    fn measure(&mut self, what: &str, rows: u64, work: Work) -> f64 {
        let begin = Instant::now();
        self.start(work);
        let (code, printed) = self.pipeline.wait("caught-up", 600);
        assert_eq!(code, 0, "{printed}\n{}", self.pipeline.log());
        let wall = begin.elapsed().as_secs_f64();
        for pid in self.pipeline.pids() {
            print_usage(what, rows, wall, Usage::of(pid));
        }
        self.pipeline.stop();
        rows as f64 / wall
    }

    async fn backlog(&mut self) {
        let rows = self.rows;
        self.empty_table().await;
        self.configure("never", Work::Source);
        self.start(Work::Source);
        self.pipeline.caught_up();
        self.pipeline.stop();
        self.insert(1, rows).await;
        self.measure("source alone, inserts", rows, Work::Source);
        self.configure("never", Work::Sink);
        self.target.run("CHECKPOINT").await;
        let sink = self.measure("sink alone, new rows", rows, Work::Sink);
        self.target.run("CREATE TABLE by_hand (LIKE t INCLUDING ALL)").await;
        let by_hand = self.merge_by_hand().await;
        println!("{:34} {by_hand:>9.0} rows/s wall; sink / by hand = {:.2}", "COPY to a stage + ON CONFLICT, new", sink / by_hand);
        self.source.run("UPDATE t SET price = price + 1, state = state + 1").await;
        self.configure("never", Work::Source);
        self.measure("source alone, updates", rows, Work::Source);
        self.configure("never", Work::Sink);
        self.target.run("CHECKPOINT").await;
        let sink = self.measure("sink alone, updates", rows, Work::Sink);
        let by_hand = self.merge_by_hand().await;
        println!("{:34} {by_hand:>9.0} rows/s wall; sink / by hand = {:.2}", "COPY to a stage + ON CONFLICT, upd", sink / by_hand);
        self.insert(rows + 1, 2 * rows).await;
        self.target.run("CHECKPOINT").await;
        self.measure("source and sink, inserts", rows, Work::Both);
    }

    /// The rows that the sink has just applied, through a stage by psql: one COPY and one statement, one session.
    async fn merge_by_hand(&mut self) -> f64 {
        let file = self.pipeline.folder.join("rows.copy");
        let path = file.display();
        psql(&format!("\\copy (SELECT * FROM t ORDER BY id LIMIT {}) TO '{path}' (FORMAT binary)", self.rows));
        self.target.run("CHECKPOINT").await;
        let columns = self.target.value("SELECT string_agg(column_name, ', ' ORDER BY ordinal_position) FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 't'").await.unwrap_or_default();
        let set = columns.split(", ").skip(1).map(|c| format!("{c} = EXCLUDED.{c}")).collect::<Vec<_>>().join(", ");
        let begin = Instant::now();
        psql(&format!(
            "CREATE TEMP TABLE stage (LIKE by_hand)\n\\copy stage FROM '{path}' (FORMAT binary)\nINSERT INTO by_hand SELECT * FROM stage ON CONFLICT (id) DO UPDATE SET {set}"
        ));
        self.rows as f64 / begin.elapsed().as_secs_f64()
    }

    async fn copy(&mut self) {
        let rows = self.rows;
        self.empty_table().await;
        self.insert(1, rows).await;
        self.configure("initial", Work::Both);
        self.target.run("CHECKPOINT").await;
        let copy = self.measure("copy", rows, Work::Both);
        // COPY's default format, and the one that costs the server least.
        for format in ["text", "binary"] {
            let by_hand = self.copy_by_hand(format).await;
            println!(
                "{:34} {by_hand:>9.0} rows/s wall; copy / psql COPY = {:.2}",
                format!("psql COPY ({format}), a keyed table"),
                copy / by_hand
            );
        }
    }

    /// The target's rows into another table with a key, by psql from a file.
    async fn copy_by_hand(&mut self, format: &str) -> f64 {
        let file = self.pipeline.folder.join("rows.copy");
        let path = file.display();
        psql(&format!("\\copy t TO '{path}' (FORMAT {format})"));
        self.target.run("DROP TABLE IF EXISTS by_hand; CREATE TABLE by_hand (LIKE t INCLUDING ALL)").await;
        self.target.run("CHECKPOINT").await;
        let begin = Instant::now();
        psql(&format!("\\copy by_hand FROM '{path}' (FORMAT {format})"));
        self.rows as f64 / begin.elapsed().as_secs_f64()
    }

    async fn latency(&mut self) {
        self.empty_table().await;
        self.configure("initial", Work::Both);
        self.start(Work::Both);
        self.pipeline.caught_up();
        let watcher = tokio::spawn(steady::watch_target(20_000));
        let committed = steady::rows(&mut self.source, 20_000, insert_sequence).await;
        let mut delays = steady::delays(&committed, &watcher.await.expect("the watcher"));
        print_percentiles("commit -> visible at 2,000 rows/s", &mut delays);
        self.pipeline.stop();
    }

    async fn ddl(&mut self) {
        self.empty_table().await;
        self.insert(1, 1000).await;
        self.configure("initial", Work::Both);
        self.start(Work::Both);
        self.pipeline.caught_up();
        let mut delays = Vec::new();
        for i in 0..40 {
            self.source.run(&format!("ALTER TABLE t ADD COLUMN x{i} INT NOT NULL DEFAULT {i}")).await;
            let begin = Instant::now();
            self.source
                .run(&format!(
                    "INSERT INTO t (id, customer, state, name, price, placed, gift, x{i}) VALUES ({}, 1, 1, 'x', 1, NOW(), 1, 5)",
                    100_000 + i
                ))
                .await;
            while !self.target.query(&format!("SELECT x{i} FROM t WHERE id = {}", 100_000 + i)).await.is_ok_and(|r| !r.is_empty()) {
                tokio::time::sleep(Duration::from_micros(500)).await;
            }
            delays.push(begin.elapsed().as_secs_f64() * 1000.0);
        }
        print_percentiles("DDL commit -> first new row visible", &mut delays);
        self.pipeline.stop();
    }
}

fn print_percentiles(what: &str, delays: &mut [f64]) {
    delays.sort_by(f64::total_cmp);
    let at = |p: f64| delays.get(((delays.len() as f64 * p) as usize).min(delays.len().saturating_sub(1))).copied().unwrap_or_default();
    println!("{what:34} p50 {:.1} ms  p99 {:.1} ms  max {:.1} ms ({} samples)", at(0.5), at(0.99), at(1.0), delays.len());
}

fn psql(script: &str) {
    use std::io::Write;
    let mut child = Command::new("psql")
        .args(["-qAtX", "-v", "ON_ERROR_STOP=1", &postgres::database_url(NAME)])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("psql");
    let script: String =
        script.lines().map(|line| if line.starts_with('\\') { format!("{line}\n") } else { format!("{line};\n") }).collect();
    child.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("psql reads");
    assert!(child.wait().expect("psql").success(), "psql: {script}");
}
