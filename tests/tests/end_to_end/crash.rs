//! Processes that die: nothing lost, nothing twice.

use std::time::Duration;

use crate::world::{Options, World};
use tests::pipeline::eventually;

/// A small generator: the seed is printed, so that a failing run can be looked at again.
struct Random(u64);

impl Random {
    fn new(name: &str) -> Self {
        let seed = std::env::var("INSTAR_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0x5eed_1234_u64);
        println!("{name}: INSTAR_TEST_SEED={seed}");
        Random(seed | 1)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Kills `instar run` thirty times, each time while at least 500 rows are not on the target yet.
async fn thirty_kills(name: &str, setup: &str, sink: &str, statement: impl Fn(u64, u64) -> String) {
    let options = Options { sink, ..Options::default() };
    let mut world = World::with(name, setup, &["t"], options).await;
    let mut random = Random::new(name);
    world.start();
    for kill in 0..30 {
        let base = 10_000 * (kill + 1);
        for part in 0..4 {
            world.source.run(&statement(base + 1000 * part, base + 1000 * part + 999)).await;
        }
        if kill % 5 == 2 {
            world.source.run(&format!("ALTER TABLE t ADD COLUMN k{kill} INT NOT NULL DEFAULT {kill}")).await;
        }
        let applied = world.count("t").await;
        let sent: u64 = String::from_utf8(world.source.query("SELECT COUNT(*) FROM t").await.unwrap()[0][0].clone().unwrap()).unwrap().parse().unwrap();
        let wait = random.below(120);
        if sent.abs_diff(applied) >= 500 {
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        let applied = world.count("t").await;
        println!("{name}: kill {kill} after {wait} ms with {} rows not applied", sent.abs_diff(applied));
        world.pipeline.kill();
        world.pipeline.start();
    }
    world.pipeline.caught_up();
    world.assert_equal().await;
}

#[tokio::test]
async fn thirty_kills_lose_nothing_and_double_nothing() {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40) NOT NULL, n INT NOT NULL);";
    thirty_kills("kills_keyed", setup, "", |from, to| format!("INSERT INTO t (id, v, n) SELECT seq, CONCAT('row ', seq), seq % 13 FROM seq_{from}_to_{to}")).await;
}

#[tokio::test]
async fn thirty_kills_double_nothing_without_a_key() {
    let setup = "CREATE TABLE t (v VARCHAR(40) NOT NULL, n INT NOT NULL);";
    thirty_kills("kills_keyless", setup, "    keyless: full_row\n", |from, to| format!("INSERT INTO t (v, n) SELECT CONCAT('row ', seq DIV 3), seq % 3 FROM seq_{from}_to_{to}")).await;
}

#[tokio::test]
async fn an_alter_that_outlives_its_client_is_not_run_twice() {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL);\nINSERT INTO t SELECT seq, seq FROM seq_1_to_1000;";
    let mut world = World::new("alter_outlives", setup, &["t"]).await;
    world.start();
    // Someone reads the target table: the ALTER waits for the lock, and its client dies meanwhile.
    let reader = tests::postgres::Session::connect(&tests::postgres::database_url(&world.name)).await;
    reader.run("BEGIN; SELECT count(*) FROM t").await;
    world.source.run("ALTER TABLE t MODIFY v BIGINT NOT NULL").await;
    world.source.run("INSERT INTO t VALUES (5000000, 5000000000)").await;
    eventually("the ALTER waits", Duration::from_secs(20), async || {
        world.target.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ILIKE '%alter%'").await.as_deref() == Some("1")
    })
    .await;
    world.pipeline.kill();
    world.pipeline.start();
    reader.run("COMMIT").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.last_outcome("t").0, "applied");
}
