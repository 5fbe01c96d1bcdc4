//! Processes that die: nothing lost, nothing twice.

use std::time::Duration;

use crate::world::{Options, World};
use tests::{pipeline::eventually, random::Random};

const KILLS: u64 = 30;
const IN_FLIGHT: u64 = 500;

/// How many rows the source has and the target has not; None: the target table is locked by a change that runs.
async fn missing(world: &mut World) -> Option<u64> {
    let sent = world.source.query("SELECT COUNT(*) FROM t").await.unwrap()[0][0].clone().unwrap();
    let sent: u64 = String::from_utf8(sent).unwrap().parse().unwrap();
    let there = world.target.query("SET lock_timeout = '200ms'; SELECT count(*) FROM t").await.ok()?;
    let there: u64 = there[0][0].as_deref().unwrap().parse().unwrap();
    Some(sent.abs_diff(there))
}

/// Freezes the process at a random moment. What its sessions at the target have begun ends by itself, or is rolled back by the kill.
async fn freeze(world: &World, after: Duration) {
    tokio::time::sleep(after).await;
    world.pipeline.signal("-STOP");
    let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Client' AND pid <> pg_backend_pid()";
    eventually("the target's sessions are at rest", Duration::from_secs(20), async || {
        world.target.value(busy).await.as_deref() == Some("0")
    })
    .await;
}

/// Kills processes of the pipeline thirty times, each time while at least 500 rows are not on the target.
pub async fn thirty_kills(name: &str, seed: u64, setup: &str, options: Options<'_>, statement: impl Fn(u64, u64) -> String) -> World {
    let mut world = World::with(name, setup, &["t"], options).await;
    let mut random = Random::seeded(name, seed);
    world.start();
    let (mut kills, mut from) = (0, 1);
    while kills < KILLS {
        assert!(from < 3_000_000, "{kills} kills only");
        // The rows are written while the process is frozen, so that it never has a quiet moment.
        world.pipeline.signal("-STOP");
        for _ in 0..4 {
            world.source.run(&statement(from, from + 999)).await;
            from += 1000;
        }
        world.source.run(&format!("UPDATE t SET v = CONCAT(LEFT(v, 12), RAND()) WHERE n = {} LIMIT 200", kills % 3)).await;
        if random.one_in(4) {
            world.source.run(&format!("ALTER TABLE t ADD COLUMN c{from} INT NOT NULL DEFAULT {kills}")).await;
        }
        world.pipeline.signal("-CONT");
        let wait = random.below(400);
        freeze(&world, Duration::from_millis(wait)).await;
        if missing(&mut world).await.is_some_and(|rows| rows < IN_FLIGHT) {
            world.pipeline.signal("-CONT");
            continue;
        }
        // Of several processes any may die, or all.
        let size = world.pipeline.size();
        let fate = 1 + random.below((1 << size) - 1);
        let victims: Vec<usize> = (0..size).filter(|number| fate >> number & 1 == 1).collect();
        for victim in &victims {
            world.pipeline.kill_one(*victim);
        }
        let rows = missing(&mut world).await;
        for victim in &victims {
            world.pipeline.start_one(*victim);
        }
        world.pipeline.signal("-CONT");
        if rows.is_none_or(|rows| rows < IN_FLIGHT) {
            continue;
        }
        kills += 1;
        println!("{name}: kill {kills} of processes {victims:?} of {size} after {wait} ms with {rows:?} rows not applied");
        // Some processes die while they start, others when they are at work.
        if random.one_in(2) {
            eventually("something is applied", Duration::from_secs(30), async || missing(&mut world).await < rows).await;
        }
    }
    world.pipeline.caught_up();
    world.assert_equal().await;
    world
}

pub const KEYED: &str = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(60) NOT NULL, n INT NOT NULL);";

pub fn keyed_rows(from: u64, to: u64) -> String {
    format!("INSERT INTO t (id, v, n) SELECT seq, CONCAT('row ', seq), seq % 13 FROM seq_{from}_to_{to}")
}

#[tokio::test]
async fn thirty_kills_lose_nothing_and_double_nothing() {
    thirty_kills("kills_keyed", 0x5eed_1234, KEYED, Options::default(), keyed_rows).await;
}

#[tokio::test]
async fn thirty_kills_double_nothing_without_a_key() {
    let setup = "CREATE TABLE t (v VARCHAR(60) NOT NULL, n INT NOT NULL);";
    let options = Options { sink: "    keyless: full_row\n", ..Options::default() };
    thirty_kills("kills_keyless", 0x5eed_1234, setup, options, |from, to| {
        format!("INSERT INTO t (v, n) SELECT CONCAT('row ', seq DIV 3), seq % 3 FROM seq_{from}_to_{to}")
    })
    .await;
}

/// Whether one session in the target's database runs a statement that begins like this, and waits so.
async fn running(world: &World, statement: &str, waits: &str) -> bool {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query ILIKE '{statement}%' AND {waits}"
    );
    world.target.value(&sql).await.as_deref() == Some("1")
}

#[tokio::test]
async fn a_change_that_waits_for_the_target_table_survives_its_client() {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL);\nINSERT INTO t SELECT seq, seq FROM seq_1_to_1000;";
    let mut world = World::new("alter_waits", setup, &["t"]).await;
    world.start();
    // Someone reads the target table: the change waits for its lock, and its client dies meanwhile.
    let reader = tests::postgres::Session::connect(&tests::postgres::database_url(&world.name)).await;
    reader.run("BEGIN; SELECT count(*) FROM t").await;
    world.source.run("ALTER TABLE t MODIFY v BIGINT NOT NULL").await;
    world.source.run("INSERT INTO t VALUES (5000000, 5000000000)").await;
    eventually("the change waits", Duration::from_secs(20), async || running(&world, "lock table", "wait_event_type = 'Lock'").await).await;
    world.pipeline.kill();
    world.pipeline.start();
    reader.run("COMMIT").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.last_outcome("t").0, "applied");
}

#[tokio::test]
async fn an_alter_that_outlives_its_client_is_not_run_twice() {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL);\nINSERT INTO t SELECT seq, seq FROM seq_1_to_1000;";
    let mut world = World::new("alter_outlives", setup, &["t"]).await;
    world.start();
    // An index that takes two seconds to build again, with which the ALTER takes that long.
    world
        .target
        .run(
            "CREATE FUNCTION slow(anyelement) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS \
             $$ BEGIN PERFORM pg_sleep(0.002); RETURN 1; END $$; \
             CREATE INDEX slow ON t (slow(v))",
        )
        .await;
    world.source.run("ALTER TABLE t MODIFY v BIGINT NOT NULL").await;
    world.source.run("INSERT INTO t VALUES (5000000, 5000000000)").await;
    eventually("the ALTER runs", Duration::from_secs(20), async || running(&world, "alter table", "wait_event = 'PgSleep'").await).await;
    world.pipeline.kill();
    assert!(running(&world, "alter table", "true").await, "the ALTER outlives its client");
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.last_outcome("t").0, "applied");
}
