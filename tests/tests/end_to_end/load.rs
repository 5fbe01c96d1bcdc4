//! Much at once: writers in sessions of their own, a large transaction, keys that move between lanes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tests::{pipeline::eventually, source};
use tokio::task::JoinHandle;

use crate::world::{Options, World};

/// Sessions that insert, update and delete in tables with `id` (auto increment) and `note`, until told to end.
pub struct Load {
    end: Arc<AtomicBool>,
    writers: Vec<JoinHandle<u64>>,
}

impl Load {
    /// One session per table.
    pub async fn start(world: &World, tables: &[&str]) -> Load {
        let end = Arc::new(AtomicBool::new(false));
        let mut writers = Vec::new();
        for table in tables {
            let (session, table, end) = (world.session().await, (*table).to_owned(), end.clone());
            writers.push(tokio::spawn(write(session, table, end)));
        }
        Load { end, writers }
    }

    /// Ends the writers; how many rounds they made.
    pub async fn end(self) -> u64 {
        self.end.store(true, Ordering::Relaxed);
        let mut rounds = 0;
        for writer in self.writers {
            rounds += writer.await.unwrap();
        }
        rounds
    }
}

async fn write(mut session: tests::source::Session, table: String, end: Arc<AtomicBool>) -> u64 {
    let mut rounds = 0;
    while !end.load(Ordering::Relaxed) {
        session.run(&format!("INSERT INTO {table} (note) VALUES ('a'), ('b'), ('c'), ('d'), ('e')")).await;
        session.run(&format!("UPDATE {table} SET note = CONCAT(LEFT(note, 150), '+') WHERE id % 97 = {}", rounds % 97)).await;
        session.run(&format!("DELETE FROM {table} WHERE id % 89 = {}", rounds % 89)).await;
        rounds += 1;
    }
    rounds
}

/// The greatest resident size that a process has had, in megabytes.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[tokio::test]
async fn a_transaction_of_half_a_million_rows_takes_bounded_memory() {
    let setup =
        "CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(80) NOT NULL);\nCREATE TABLE b (id INT PRIMARY KEY, v VARCHAR(80) NOT NULL);";
    let mut world = World::new("large_transaction", setup, &["a", "b"]).await;
    world.start();
    world.source.run("BEGIN").await;
    for part in 0..5 {
        let (from, to) = (part * 50_000, part * 50_000 + 49_999);
        for table in ["a", "b"] {
            world.source.run(&format!("INSERT INTO {table} SELECT seq, CONCAT(seq, REPEAT('x', 60)) FROM seq_{from}_to_{to}")).await;
        }
    }
    world.source.run("COMMIT").await;
    world.source.run("ALTER TABLE a ADD COLUMN w INT NOT NULL DEFAULT 4").await;
    world.source.run("INSERT INTO a VALUES (1000000, 'last', 5)").await;
    let begin = Instant::now();
    let (code, printed) = world.pipeline.wait("caught-up", 240);
    assert_eq!(code, 0, "{printed}\nlog:\n{}", world.pipeline.log());
    let peak = peak_memory(world.pipeline.pid());
    println!("500,000 rows in one transaction: {:?}, peak {peak} MB", begin.elapsed());
    assert!(peak < 200, "peak memory: {peak} MB");
    world.assert_equal().await;
}

#[tokio::test]
async fn a_compressed_transaction_takes_bounded_memory() {
    // What the sink holds of long rows is not the question here.
    let sink = "    workers: 1\n    batch: { bytes: 1MB }\n";
    let options = Options { source_url: Some(source::url("mysql")), sink, ..Options::default() };
    let mut world = World::with("compressed", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(3000) NOT NULL);", &["t"], options).await;
    world.start();
    world.source.run("SET binlog_transaction_compression = ON, cte_max_recursion_depth = 100000").await;
    let numbers =
        "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 100000) SELECT n, CONCAT(n, REPEAT('x', 2500))";
    world.source.run(&format!("INSERT INTO t {numbers} FROM s")).await;
    let (code, printed) = world.pipeline.wait("caught-up", 240);
    assert_eq!(code, 0, "{printed}\nlog:\n{}", world.pipeline.log());
    let peak = peak_memory(world.pipeline.pid());
    println!("250 MB in one compressed transaction: peak {peak} MB");
    assert!(peak < 150, "peak memory: {peak} MB");
    world.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_move_between_lanes_under_load_stand_where_they_moved() {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, big TEXT);\nINSERT INTO t SELECT seq, seq, REPEAT('y', 50) FROM seq_1_to_500;\nCREATE TABLE noise (id INT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(200));";
    let mut world = World::new("key_moves", setup, &["t", "noise"]).await;
    world.start();
    let load = Load::start(&world, &["noise"]).await;
    for round in 0..40 {
        // Every key moves one thousand up or down, so that each is used, left and used again.
        let step = if round % 2 == 0 { 1000 } else { -1000 };
        world.source.run(&format!("UPDATE t SET id = id + {step}, v = v + 1 ORDER BY id {}", if step > 0 { "DESC" } else { "ASC" })).await;
        world.source.run(&format!("UPDATE t SET v = -v WHERE id % 10 = {}", round % 10)).await;
        // Neighbours exchange their keys within one transaction.
        let (a, b) = if step > 0 { (1001 + round, 1002 + round) } else { (1 + round, 2 + round) };
        world.source.run("BEGIN").await;
        world.source.run(&format!("UPDATE t SET id = 99999 WHERE id = {a}")).await;
        world.source.run(&format!("UPDATE t SET id = {a} WHERE id = {b}")).await;
        world.source.run(&format!("UPDATE t SET id = {b} WHERE id = 99999")).await;
        world.source.run("COMMIT").await;
        if round == 20 {
            world.source.run("ALTER TABLE t ADD COLUMN late INT NOT NULL DEFAULT 6").await;
            world.pipeline.kill();
            world.pipeline.start();
        }
    }
    assert!(load.end().await > 0);
    world.pipeline.caught_up();
    world.assert_equal().await;
    eventually("all rows are there", Duration::from_secs(1), async || world.count("t").await == 500).await;
}
