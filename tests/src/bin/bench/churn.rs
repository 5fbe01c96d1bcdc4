//! A table that is altered once a second while rows flow into it.

use std::time::{Duration, Instant};

use tests::{compare, pipeline::Usage, postgres, source};

use crate::{
    Bench, NAME, Work, insert_sequence, print_percentiles, print_usage,
    steady::{self, RATE},
};

const SECONDS: u64 = 30;
/// What is altered in turn, and what the target has then of these columns.
const CHANGES: [(&str, &str); 4] = [
    ("ADD COLUMN x INT NOT NULL DEFAULT 7", "x integer"),
    ("RENAME COLUMN x TO y", "y integer"),
    ("MODIFY y BIGINT NOT NULL DEFAULT 7", "y bigint"),
    ("DROP COLUMN y", ""),
];
/// Without a lock on the table.
const SHAPE: &str = "SELECT coalesce(string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', '), '') FROM pg_attribute \
                     WHERE attrelid = 't'::regclass AND attname IN ('x', 'y') AND NOT attisdropped";
const LIMIT: Duration = Duration::from_secs(60);

impl Bench {
    /// Latency of rows and of changes, what the processes took, and both sides' values at the end.
    pub async fn churn(&mut self) {
        self.empty_table().await;
        self.configure("initial", Work::Both);
        self.start(Work::Both);
        self.pipeline.caught_up();
        let before: Vec<(u32, Usage)> = self.pipeline.pids().into_iter().map(|pid| (pid, Usage::of(pid))).collect();
        let (rows, begin) = (SECONDS * RATE, Instant::now());
        let (watcher, changes) = (tokio::spawn(steady::watch_target(rows)), tokio::spawn(alter()));
        let committed = steady::rows(&mut self.source, rows, insert_sequence).await;
        let (mut changed, seen) = (changes.await.expect("the changes"), watcher.await.expect("the watcher"));
        let wall = begin.elapsed().as_secs_f64();
        print_percentiles("churn: commit -> visible", &mut steady::delays(&committed, &seen));
        print_percentiles("churn: DDL -> new shape visible", &mut changed);
        let parts: &[&str] = if before.len() == 1 { &["source and sink"] } else { &["source", "sink"] };
        for ((pid, before), part) in before.into_iter().zip(parts) {
            print_usage(&format!("churn: {part}"), rows, wall, Usage::of(pid).since(before));
        }
        self.pipeline.caught_up();
        let found = compare::differences(&mut self.source, (NAME, "t"), &self.target, ("public", "t")).await;
        assert!(found.is_empty(), "{found:#?}\n{}", self.pipeline.log());
        self.pipeline.stop();
    }
}

/// Alters the table once a second; milliseconds until the target has each shape.
async fn alter() -> Vec<f64> {
    let mut source = source::Session::connect(&source::url("mariadb")).await;
    source.run(&format!("USE {NAME}")).await;
    let target = postgres::Session::connect(&postgres::database_url(NAME)).await;
    let begin = Instant::now();
    let mut delays = Vec::new();
    for (second, (change, shape)) in (1..SECONDS).zip(CHANGES.iter().cycle()) {
        tokio::time::sleep_until((begin + Duration::from_secs(second)).into()).await;
        source.run(&format!("ALTER TABLE t {change}")).await;
        let altered = Instant::now();
        while target.value(SHAPE).await.as_deref() != Some(*shape) {
            assert!(altered.elapsed() < LIMIT, "{change}: not on the target after {LIMIT:?}");
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        delays.push(altered.elapsed().as_secs_f64() * 1000.0);
    }
    delays
}
