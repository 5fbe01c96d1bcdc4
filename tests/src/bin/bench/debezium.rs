//! The peer: Debezium's MySQL connector in Kafka Connect reads the same rows from a binary log into the same kind of topic.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use tests::{
    kafka::Topics,
    pipeline::{Pipeline, Setup, Transport, Usage, data},
    source,
};

use crate::{
    COLUMNS, NAME, ROW, names, print_percentiles, print_usage,
    steady::{self, Mark},
    topic::take,
    without_sinks,
};

/// What it writes to: four partitions, lz4.
const TOPIC: &str = "debezium.bench.t";
const LIMIT: Duration = Duration::from_secs(1800);

/// Instar's source beside it.
const PIPELINE: &str = "bench_peer";
/// Rows whose way into the topic is timed, and changes.
const TIMED: u64 = 20_000;
const CHANGES: u64 = 40;

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
    peer.instar_latency().await;
    peer.latency("Debezium", &[]).await;
    peer.latency("Debezium tuned", &tuned).await;
}

/// MySQL's statement for the rows of these ids.
fn insert(from: u64, to: u64) -> String {
    let numbers = format!("WITH RECURSIVE numbers (seq) AS (SELECT {from} UNION ALL SELECT seq + 1 FROM numbers WHERE seq < {to})");
    format!("INSERT INTO t ({}) {numbers} SELECT {ROW} FROM numbers", names())
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
            let to = (self.records + PART).min(end);
            self.source.run(&insert(self.records + 1, to)).await;
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
        print_usage("  the same without its start", self.rows, first.elapsed().as_secs_f64(), end.since(used));
        script("stop", environment);
    }

    async fn latency(&mut self, what: &str, environment: &[(&str, &str)]) {
        script("start", environment);
        self.insert(1).await;
        self.arrived(self.records);
        let pid = script("pid", environment).trim().parse().expect("a process id");
        self.topic_latency(what, TOPIC, pid).await;
        script("stop", environment);
    }

    /// Instar's source on the same table, by the same measure.
    async fn instar_latency(&mut self) {
        self.topics.forget(PIPELINE).await;
        let source_url = source::url("mysql");
        let table = format!("{NAME}.t");
        let setup = Setup {
            name: PIPELINE,
            source_url: &source_url,
            database: NAME,
            tables: &[table.as_str()],
            target_url: "",
            schema: "",
            partitions: 4,
            source_extra: "  snapshot: { mode: never }\n",
            sink_extra: "",
        };
        let mut pipeline = Pipeline::new(PIPELINE, &without_sinks(&setup.yaml_over(Transport::Kafka)));
        pipeline.start_apart(true, 0);
        pipeline.caught_up();
        self.topic_latency("Instar", &format!("{PIPELINE}.{table}"), pipeline.pid()).await;
        pipeline.stop();
    }

    /// From commit to readable in the topic: of rows at a steady rate, and of the first row of each new shape.
    async fn topic_latency(&mut self, what: &str, topic: &str, pid: u32) {
        let (consumer, before, used) = (self.topics.follow(topic), self.records, Usage::of(pid));
        let reading = tokio::task::spawn_blocking(move || (take(&consumer, TIMED), consumer));
        let begin = Instant::now();
        let committed = steady::rows(&mut self.source, TIMED, |from, to| insert(before + from, before + to)).await;
        self.records += TIMED;
        let (arrivals, consumer) = reading.await.expect("the reader");
        print_usage(&format!("{what}, steady"), TIMED, begin.elapsed().as_secs_f64(), Usage::of(pid).since(used));
        let mut seen: Vec<Mark> = arrivals.iter().map(|arrival| (arrival.id - before, arrival.at)).collect();
        seen.sort_unstable();
        print_percentiles(&format!("{what}: commit -> readable"), &mut steady::delays(&committed, &seen));

        let mut schema = arrivals.last().expect("a record").schema;
        let mut delays = Vec::new();
        for change in 0..CHANGES {
            let change = if change % 2 == 0 { "ADD COLUMN x INT NOT NULL DEFAULT 7" } else { "DROP COLUMN x" };
            self.source.run(&format!("ALTER TABLE t {change}")).await;
            let altered = Instant::now();
            self.insert(1).await;
            let arrival = take(&consumer, 1)[0];
            assert!(arrival.id == self.records && arrival.schema != schema, "{change}: {arrival:?} behind schema {schema}");
            schema = arrival.schema;
            delays.push((arrival.at - altered).as_secs_f64() * 1000.0);
        }
        print_percentiles(&format!("{what}: DDL -> first row readable"), &mut delays);
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
