//! The peer: Debezium's MySQL connector in Kafka Connect reads the same rows from a binary log into the same kind of topic.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use tests::{
    kafka::Topics,
    pipeline::{Usage, data},
    source,
};

use crate::{COLUMNS, NAME, ROW, print_usage};

/// What it writes to: four partitions, lz4.
const TOPIC: &str = "debezium.bench.t";
const LIMIT: Duration = Duration::from_secs(1800);

/// Rows a statement, and a transaction.
const PART: u64 = 10_000;

struct Peer {
    source: source::Session,
    topics: Topics,
    rows: u64,
    /// Records that the topic must have when nothing is missing.
    records: u64,
}

pub async fn run(rows: u64) {
    script("remove", &[]);
    let topics = Topics::shared();
    topics.forget("debezium").await;
    topics.delete(&["debezium.history"]).await;
    let mut source = source::Session::connect(&source::url("mysql")).await;
    source.fresh_database(NAME).await;
    source.run(&format!("CREATE TABLE t ({COLUMNS})")).await;
    source.run("SET SESSION cte_max_recursion_depth = 1000000").await;
    let mut peer = Peer { source, topics, rows, records: 0 };
    peer.place().await;
    peer.backlog("Debezium, inserts, Avro", &[]).await;
    // Java takes the memory that it may take; this is what it needs.
    let tuned = [("DEBEZIUM_TUNED", "1"), ("DEBEZIUM_HEAP", "512m")];
    peer.backlog("Debezium tuned, inserts, Avro", &tuned).await;
    peer.backlog("Debezium tuned, inserts, JSON", &[&tuned[..], &[("DEBEZIUM_CONVERTER", "json")]].concat()).await;
}

impl Peer {
    /// It remembers a place in the log only with a record that it has written.
    async fn place(&mut self) {
        script("start", &[]);
        self.insert(1).await;
        self.arrived(self.records);
        script("stop", &[]);
    }

    async fn insert(&mut self, rows: u64) {
        let end = self.records + rows;
        while self.records < end {
            let (from, to) = (self.records + 1, (self.records + PART).min(end));
            let numbers = format!("WITH RECURSIVE numbers (seq) AS (SELECT {from} UNION ALL SELECT seq + 1 FROM numbers WHERE seq < {to})");
            self.source.run(&format!("INSERT INTO t {numbers} SELECT {ROW} FROM numbers")).await;
            self.records = to;
        }
    }

    /// Writes rows while it does not run, starts it, and measures until the last of them is in the topic.
    async fn backlog(&mut self, what: &str, environment: &[(&str, &str)]) {
        let before = self.records;
        self.insert(self.rows).await;
        let begin = Instant::now();
        script("start", environment);
        let pid = script("pid", environment).trim().parse().expect("a process id");
        self.arrived(before + 1);
        let (first, used) = (Instant::now(), Usage::of(pid));
        self.arrived(self.records);
        let end = Usage::of(pid);
        print_usage(what, self.rows, begin.elapsed().as_secs_f64(), end);
        let steady = Usage { cpu_seconds: end.cpu_seconds - used.cpu_seconds, ..end };
        print_usage("  the same without its start", self.rows, first.elapsed().as_secs_f64(), steady);
        script("stop", environment);
    }

    /// Waits until the topic has so many records.
    fn arrived(&self, records: u64) {
        let begin = Instant::now();
        loop {
            let there: u64 =
                if self.topics.all(TOPIC).contains_key(TOPIC) { self.topics.bounds(TOPIC).iter().map(|b| b.high).sum() } else { 0 };
            if there >= records {
                assert!(there <= self.records, "{TOPIC} has {there} records of {}", self.records);
                return;
            }
            assert!(begin.elapsed() < LIMIT, "{TOPIC} has {there} records of {records} after {LIMIT:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn script(verb: &str, environment: &[(&str, &str)]) -> String {
    let path = data("services/debezium.sh");
    let output = Command::new(&path).arg(verb).envs(environment.iter().copied()).output().expect("debezium.sh");
    assert!(output.status.success(), "{} {verb}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
