//! Source and sinks as processes of their own over a real broker and registry, with what may befall them there.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use schemas::wire::{codec::FRAME, lane::lane};
use tests::{
    kafka::{Registry, Topics},
    pipeline::{Transport, eventually, text},
};

use crate::{
    crash::{KEYED, keyed_rows, thirty_kills},
    world::{Options, World},
};

fn apart() -> Options<'static> {
    Options { transport: Transport::Kafka, apart: true, ..Options::default() }
}

async fn world(name: &str, setup: &str, tables: &[&str]) -> World {
    World::with(name, setup, tables, apart()).await
}

const SOME: &str = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(60), n INT NOT NULL);\nINSERT INTO t SELECT seq, CONCAT('row ', seq), seq % 13 FROM seq_1_to_2000;";

/// Rows of each lane on the target, by the keys that stand there; ids of the table `t`.
async fn lanes_of_target(world: &World, lanes: u32) -> Vec<u64> {
    let mut counts = vec![0; lanes as usize];
    for row in world.target.query("SELECT id FROM t").await.unwrap() {
        let id: i64 = row[0].as_deref().unwrap().parse().unwrap();
        let mut key = Vec::new();
        schemas::wire::codec::put_long(&mut key, id);
        counts[lane(&key, lanes) as usize] += 1;
    }
    counts
}

/// Each record's key stands once in its lane, and the target has as many rows of it.
async fn assert_lanes_agree(world: &World) {
    let records = Topics::shared().committed(&format!("{0}.{0}.t", world.name));
    let mut keys: BTreeMap<usize, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for record in &records {
        let value = record.value.as_deref().unwrap();
        assert!(value.len() > FRAME);
        keys.entry(record.partition).or_default().insert(record.key.clone().unwrap());
    }
    let topic: Vec<u64> = (0..4).map(|lane| keys.get(&lane).map_or(0, |keys| keys.len() as u64)).collect();
    assert_eq!(lanes_of_target(world, 4).await, topic);
    assert!(topic.iter().all(|count| *count > 0), "{topic:?}");
}

async fn kills(name: &str, seed: u64) {
    let world = thirty_kills(name, seed, KEYED, apart(), keyed_rows).await;
    assert_lanes_agree(&world).await;
}

#[tokio::test]
async fn thirty_kills_of_source_and_sinks_lose_nothing_and_double_nothing() {
    kills("apart_kills_1", 0x11d7).await;
}

#[tokio::test]
async fn thirty_kills_of_source_and_sinks_by_another_seed() {
    kills("apart_kills_2", 0x2b39_0c55).await;
}

#[tokio::test]
async fn thirty_kills_of_source_and_sinks_without_a_key() {
    let setup = "CREATE TABLE t (v VARCHAR(60) NOT NULL, n INT NOT NULL);";
    let options = Options { sink: "    keyless: full_row\n", ..apart() };
    thirty_kills("apart_kills_3", 0x3f7a_11e3, setup, options, |from, to| {
        format!("INSERT INTO t (v, n) SELECT CONCAT('row ', seq DIV 3), seq % 3 FROM seq_{from}_to_{to}")
    })
    .await;
}

#[tokio::test]
async fn a_sink_frozen_across_a_column_dropped_and_added_again_harms_nothing() {
    let mut world = world("apart_frozen", SOME, &["t"]).await;
    let _source = world.pipeline.source("source");
    let frozen = world.pipeline.sink("frozen");
    let _awake = world.pipeline.sink("awake");
    world.pipeline.caught_up();
    // It stands somewhere in the middle of these, with whatever it has fetched in its hands.
    world.source.run("INSERT INTO t SELECT seq, 'old', 1 FROM seq_10001_to_12000").await;
    frozen.signal("-STOP");
    let frozen_at = Instant::now();
    world.source.run("ALTER TABLE t DROP COLUMN v").await;
    world.source.run("INSERT INTO t (id, n) SELECT seq, 2 FROM seq_20001_to_21000").await;
    world.source.run("ALTER TABLE t ADD COLUMN v INT NOT NULL DEFAULT 5").await;
    world.source.run("INSERT INTO t (id, n, v) SELECT seq, 3, 6 FROM seq_30001_to_31000").await;
    tokio::time::sleep(Duration::from_secs(15).saturating_sub(frozen_at.elapsed())).await;
    frozen.signal("-CONT");
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.target.value("SELECT count(*) FROM t WHERE v = 5").await.as_deref(), Some("5000"));
    assert_eq!(world.target.value("SELECT count(*) FROM t WHERE v = 6").await.as_deref(), Some("1000"));
    assert_lanes_agree(&world).await;
}

#[tokio::test]
async fn another_instance_ends_the_alter_of_a_killed_decider() {
    let mut world = world("apart_decider", SOME, &["t"]).await;
    let _source = world.pipeline.source("source");
    let mut sinks = [world.pipeline.sink("sink1"), world.pipeline.sink("sink2")];
    world.pipeline.caught_up();
    world
        .target
        .run(
            "CREATE FUNCTION slow(anyelement) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS \
             $$ BEGIN PERFORM pg_sleep(0.001); RETURN 1; END $$; \
             CREATE INDEX slow ON t (slow(n))",
        )
        .await;
    world.source.run("ALTER TABLE t MODIFY n BIGINT NOT NULL").await;
    world.source.run("INSERT INTO t VALUES (5000000, 'x', 5000000000)").await;
    let altering = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query ILIKE 'alter table%' AND wait_event = 'PgSleep'";
    eventually("the ALTER runs", Duration::from_secs(30), async || world.target.value(altering).await.as_deref() == Some("1")).await;
    // Whose it is, its log says; the other one waits for the lock that the dead one's session still has.
    let decider = sinks.iter().position(|sink| sink.log().contains("MODIFY n BIGINT") || sink.log().contains("TYPE bigint"));
    sinks[decider.expect("the ALTER is told")].kill();
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.last_outcome("t").0, "applied");
}

#[tokio::test]
async fn instances_that_come_and_go_at_boundaries_leave_the_order_as_it_is() {
    let mut world = world("apart_rebalance", SOME, &["t"]).await;
    let _source = world.pipeline.source("source");
    let _stays = world.pipeline.sink("stays");
    world.pipeline.caught_up();
    for round in 0..6 {
        let from = 10_000 * (round + 1);
        world.source.run(&format!("INSERT INTO t (id, n) SELECT seq, {round} FROM seq_{from}_to_{}", from + 1999)).await;
        let comes = world.pipeline.sink(&format!("comes{round}"));
        eventually("it has begun", Duration::from_secs(20), async || comes.log().contains("status at")).await;
        world.source.run(&format!("ALTER TABLE t ADD COLUMN c{round} INT NOT NULL DEFAULT {round}")).await;
        world
            .source
            .run(&format!("INSERT INTO t (id, n, c{round}) SELECT seq, {round}, 99 FROM seq_{}_to_{}", from + 2000, from + 3999))
            .await;
        if round % 2 == 0 {
            // It leaves the group and ends in time, whatever it is at.
            assert_eq!(comes.stop(), 0);
        }
    }
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_lanes_agree(&world).await;
}

#[tokio::test]
async fn a_second_source_is_kept_out_and_a_signal_ends_each_process_in_time() {
    let world = world("apart_second", SOME, &["t"]).await;
    let source = world.pipeline.source("source");
    let sink = world.pipeline.sink("sink");
    world.pipeline.caught_up();
    let second = world.pipeline.source("second");
    assert_eq!(second.exit(Duration::from_secs(30)), 1);
    let said = std::fs::read_to_string(world.pipeline.folder.join("second.log")).unwrap();
    assert!(said.contains("another source"), "{said}");
    world.pipeline.caught_up();
    for process in [source, sink] {
        let begin = Instant::now();
        assert_eq!(process.stop(), 0, "{}", world.pipeline.log());
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
    // What they were is known without them.
    let status = world.pipeline.status();
    assert_eq!((&status["source"]["state"], &status["sinks"]["target"]["state"]), (&"down".into(), &"down".into()), "{status}");
    assert_eq!(status["sinks"]["target"]["tables"]["apart_second.t"]["lag_rows"], 0, "{status}");
}

#[tokio::test]
async fn pause_and_reload_reach_the_source_from_anywhere() {
    let mut world = world("apart_orders", SOME, &["t"]).await;
    world.start();
    assert!(world.pipeline.command(&["pause"], &[]).status.success());
    eventually("the source rests", Duration::from_secs(20), async || world.pipeline.status()["source"]["state"] == "paused").await;
    world.source.run("INSERT INTO t VALUES (90001, 'later', 1)").await;
    assert!(world.pipeline.command(&["resume"], &[]).status.success());
    world.pipeline.caught_up();
    assert!(world.pipeline.command(&["reload"], &["apart_orders.t"]).status.success());
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.history("t").last().unwrap()["outcomes"]["target"]["outcome"], "reloaded");
}

#[tokio::test]
async fn a_topic_that_has_grown_keeps_its_lanes() {
    let mut world = world("apart_grown", SOME, &["t"]).await;
    world.start();
    Topics::shared().grow("apart_grown.apart_grown.t", 6).await;
    world.source.run("INSERT INTO t SELECT seq, 'more', 1 FROM seq_10001_to_12000").await;
    world.pipeline.caught_up();
    world.pipeline.kill();
    world.pipeline.start();
    world.source.run("INSERT INTO t SELECT seq, 'still more', 1 FROM seq_20001_to_22000").await;
    world.source.run("ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 1").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(Topics::shared().counts("apart_grown.apart_grown.t")[4..], [0, 0]);
}

#[tokio::test]
async fn a_topic_made_anew_stops_and_a_reload_leads_out() {
    let mut world = world("apart_anew", SOME, &["t"]).await;
    world.start();
    let topic = "apart_anew.apart_anew.t";
    world.pipeline.kill();
    Topics::shared().delete(&[topic]).await;
    Topics::shared().create(topic, 4, &[]).await;
    world.source.run("INSERT INTO t SELECT seq, 'more', 1 FROM seq_10001_to_12000").await;
    world.pipeline.start();
    let (code, printed) = world.pipeline.wait("settled", 60);
    assert_eq!(code, 3, "{printed}\n{}", world.pipeline.log());
    assert!(printed.contains(topic) && printed.contains("made anew") && printed.contains("eload"), "{printed}");
    assert!(world.pipeline.command(&["reload"], &["apart_anew.t"]).status.success());
    world.pipeline.kill();
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
}

#[tokio::test]
async fn rows_expired_below_the_stored_position_stop_the_sink_and_a_reload_leads_out() {
    let mut world = world("apart_expired", SOME, &["t"]).await;
    let _source = world.pipeline.source("source");
    let sink = world.pipeline.sink("sink");
    world.pipeline.caught_up();
    assert_eq!(sink.stop(), 0);
    world.source.run("INSERT INTO t SELECT seq, 'gone', 1 FROM seq_10001_to_14000").await;
    let topic = "apart_expired.apart_expired.t";
    eventually("the rows are published", Duration::from_secs(30), async || Topics::shared().counts(topic).iter().sum::<u64>() >= 6000)
        .await;
    let topics = Topics::shared();
    for (lane, bounds) in topics.bounds(topic).into_iter().enumerate() {
        topics.expire(topic, lane, bounds.high - 10).await;
    }
    let sink = world.pipeline.sink("again");
    // Not a stop that stands in the ledger: the process ends, whatever `on_stop` says.
    assert_eq!(sink.exit(Duration::from_secs(60)), 3);
    let said = std::fs::read_to_string(world.pipeline.folder.join("again.log")).unwrap();
    assert!(said.contains("rows are lost for this sink") && said.contains(topic), "{said}");
    assert!(world.pipeline.command(&["reload"], &["apart_expired.t"]).status.success());
    let _sink = world.pipeline.sink("reloaded");
    world.pipeline.caught_up();
    world.assert_equal().await;
}

#[tokio::test]
async fn a_sink_added_when_old_rows_have_expired_begins_with_copies_of_its_own() {
    let mut world = world("apart_added", SOME, &["t"]).await;
    let source = world.pipeline.source("source");
    let topic = "apart_added.apart_added.t";
    eventually("the copy is published", Duration::from_secs(30), async || {
        Topics::shared().all("apart_added.").contains_key(topic) && Topics::shared().counts(topic).iter().sum::<u64>() >= 2000
    })
    .await;
    world.source.run("ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 4").await;
    world.source.run("INSERT INTO t SELECT seq, 'later', 1, 5 FROM seq_10001_to_11000").await;
    eventually("the rows are published", Duration::from_secs(30), async || Topics::shared().counts(topic).iter().sum::<u64>() >= 3000)
        .await;
    for lane in 0..4 {
        Topics::shared().expire(topic, lane, 100).await;
    }
    let _first = world.pipeline.sink("first");
    let _second = world.pipeline.sink("second");
    world.pipeline.caught_up();
    world.assert_equal().await;
    world.source.run("INSERT INTO t SELECT seq, 'last', 1, 6 FROM seq_20001_to_21000").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(source.stop(), 0);
}

#[tokio::test]
async fn a_registry_that_refuses_a_change_stops_the_source_before_it() {
    for level in ["BACKWARD", "FULL"] {
        let name = format!("apart_refused_{}", level.to_lowercase());
        let mut world = world(&name, SOME, &["t"]).await;
        world.start();
        let subject = format!("{name}.{name}.t-value");
        Registry::shared().set_level(&subject, level);
        world.source.run("ALTER TABLE t DROP COLUMN n, ADD COLUMN m INT NOT NULL DEFAULT 9").await;
        world.source.run("INSERT INTO t (id, v) VALUES (90001, 'behind')").await;
        let (code, printed) = world.pipeline.wait("settled", 60);
        assert_eq!(code, 3, "{printed}\n{}", world.pipeline.log());
        assert!(printed.contains(&subject) && printed.contains(level), "{printed}");
        assert_eq!(world.target.value("SELECT count(*) FROM t WHERE n IS NOT NULL").await.as_deref(), Some("2000"));
        // The way out is at the registry; then it goes on.
        Registry::shared().set_level(&subject, "NONE");
        world.pipeline.kill();
        world.pipeline.start();
        world.pipeline.caught_up();
        world.assert_equal().await;
        assert_eq!(world.last_outcome("t").0, "applied");
    }
}

#[tokio::test]
async fn a_row_larger_than_its_topic_takes_stops_behind_the_rows_before_it() {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT);";
    let mut world = world("apart_large", setup, &["t"]).await;
    world.start();
    world.source.run("INSERT INTO t SELECT seq, 'small' FROM seq_1_to_100").await;
    world.source.run("INSERT INTO t VALUES (777, REPEAT('x', 3000000))").await;
    world.source.run("INSERT INTO t VALUES (101, 'behind')").await;
    let (code, printed) = world.pipeline.wait("settled", 60);
    assert_eq!(code, 3, "{printed}\n{}", world.pipeline.log());
    for word in ["apart_large.t", "max.message.bytes", "777", "takes (1048460 bytes)"] {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    assert_eq!(world.count("t").await, 100);
    Topics::shared().set("apart_large.apart_large.t", &[("max.message.bytes", "4000000")]).await;
    world.pipeline.kill();
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.count("t").await, 102);
}

#[tokio::test]
async fn a_wrong_password_and_a_missing_broker_are_told_within_ten_seconds() {
    let sasl = tests::kafka::variable("INSTAR_TEST_KAFKA_SASL");
    let registry = tests::kafka::registry();
    let nowhere = "127.0.0.1:9".to_owned();
    for (name, brokers, sasl, words) in [
        (
            "apart_password",
            &sasl,
            "    sasl: { mechanism: SCRAM-SHA-512, user: cdc, password: wrong }\n",
            ["topics.kafka.brokers", "uthentication"],
        ),
        ("apart_nowhere", &nowhere, "", ["topics.kafka.brokers", "127.0.0.1:9"]),
    ] {
        let lines = format!("    brokers: \"{brokers}\"\n    registry: \"{registry}\"\n{sasl}");
        let options = Options { transport: Transport::KafkaWith(&lines), apart: true, ..Options::default() };
        let world = World::with(name, SOME, &["t"], options).await;
        for command in [&["check"][..], &["status"], &["source"], &["wait"]] {
            let begin = Instant::now();
            let output = world.pipeline.command(command, &[]);
            assert_eq!(output.status.code(), Some(1), "{command:?}: {}", text(&output));
            assert!(begin.elapsed() < Duration::from_secs(11), "{command:?}: {:?}", begin.elapsed());
            let said = text(&output);
            assert!(words.iter().all(|word| said.contains(word)) && !said.contains("wrong"), "{command:?}: {said}");
        }
    }
}
