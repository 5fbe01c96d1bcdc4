//! The ways out of a hold, and reloads, while rows keep coming.

use std::time::Duration;

use tests::{
    compare,
    pipeline::{Setup, eventually, text},
    postgres, source,
};

use crate::{
    command::ready,
    load::Load,
    world::{Options, World, over_kafka},
};

const HOLD_DROPS: &str = "    evolution: { drop_column: hold }\n";

/// A table held at a dropped column, two changes queued behind it, and rows of all three shapes.
async fn held_with_a_queue(name: &str) -> World {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, gone INT, v INT);\nCREATE TABLE free (id INT PRIMARY KEY);\nINSERT INTO t VALUES (1, 10, 100);";
    let mut world = World::with(name, setup, &["t", "free"], Options { sink: HOLD_DROPS, ..Options::default() }).await;
    world.start();
    world.source.run("INSERT INTO t VALUES (2, 20, 200)").await;
    world.source.run("ALTER TABLE t DROP COLUMN gone").await;
    world.source.run("INSERT INTO t VALUES (3, 300)").await;
    world.source.run("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7").await;
    world.source.run("INSERT INTO t VALUES (4, 400, 8)").await;
    world.source.run("ALTER TABLE t RENAME COLUMN v TO u").await;
    world.source.run("UPDATE t SET u = -u WHERE id = 1").await;
    world.source.run("INSERT INTO free VALUES (1)").await;
    let (code, printed) = world.pipeline.wait("settled", 60);
    assert_eq!(code, 4, "{printed}\nlog:\n{}", world.pipeline.log());
    assert_eq!(outcomes(&world, "t"), ["held", "queued", "queued"]);
    assert_eq!(world.count("t").await, 2, "rows behind the hold wait");
    assert_eq!(world.count("free").await, 1);
    world
}

fn outcomes(world: &World, table: &str) -> Vec<String> {
    let outcome = |e: &serde_json::Value| e["outcomes"]["target"]["outcome"].as_str().unwrap_or("").to_owned();
    world.history(table).iter().filter(|e| !e["ddl"].is_null()).map(outcome).collect()
}

fn succeeds(world: &World, command: &[&str], arguments: &[&str]) {
    let output = world.pipeline.command(command, arguments);
    assert!(output.status.success(), "{command:?}: {}\nlog:\n{}", text(&output), world.pipeline.log());
}

#[tokio::test]
async fn an_approved_change_is_run_and_its_queue_follows() {
    let mut world = held_with_a_queue("review_approve").await;
    succeeds(&world, &["review", "approve"], &["review_approve.t"]);
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(outcomes(&world, "t"), ["approved", "applied", "applied"]);
    assert_eq!(world.table_state("t"), "streaming");
    world.source.run("INSERT INTO t VALUES (5, 500, 9)").await;
    world.source.run("ALTER TABLE t ADD COLUMN x INT").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
}

#[tokio::test]
async fn a_kept_change_leaves_the_column_and_its_queue_follows() {
    let mut world = held_with_a_queue("review_keep").await;
    // Decided with no process there: the next one finds it.
    world.pipeline.kill();
    succeeds(&world, &["review", "keep"], &["review_keep.t"]);
    world.pipeline.start();
    world.pipeline.caught_up();
    assert_eq!(outcomes(&world, "t"), ["kept", "applied", "applied"]);
    let rows =
        world.target.value("SELECT string_agg(concat_ws(':', id, coalesce(gone::text, 'null'), u, w), ' ' ORDER BY id) FROM t").await;
    // A kept column gets NULL from its drop on: row 1 was written later.
    assert_eq!(rows.as_deref(), Some("1:null:-100:7 2:20:200:7 3:null:300:7 4:null:400:8"));
    world.source.run("INSERT INTO t VALUES (5, 500, 9)").await;
    world.pipeline.caught_up();
    assert_eq!(
        world.target.value("SELECT concat_ws(':', coalesce(gone::text, 'null'), u, w) FROM t WHERE id = 5").await.as_deref(),
        Some("null:500:9")
    );
}

#[tokio::test]
async fn a_held_table_is_retired_and_the_others_go_on() {
    let mut world = held_with_a_queue("retire_held").await;
    world.pipeline.stop();
    world.tables = vec!["free".into()];
    world.configure(&Options { sink: HOLD_DROPS, ..Options::default() });
    world.source.run("INSERT INTO t VALUES (9, 900, 9)").await;
    world.source.run("INSERT INTO free VALUES (2)").await;
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.count("t").await, 2, "a retired table stays as it is");
    assert_eq!(outcomes(&world, "t"), ["superseded", "superseded", "superseded"]);

    // Added again, it begins as after a reload, in the shape that it has by then.
    world.pipeline.stop();
    world.source.run("ALTER TABLE t ADD COLUMN z INT NOT NULL DEFAULT 3").await;
    world.source.run("INSERT INTO t VALUES (10, 1000, 10, 4)").await;
    world.tables.push("t".into());
    world.configure(&Options { sink: HOLD_DROPS, ..Options::default() });
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    world.source.run("DELETE FROM t WHERE id = 10").await;
    world.source.run("INSERT INTO t VALUES (11, 1100, 11, 5)").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_of_all_tables_under_load_ends_equal() {
    let tables = ["a", "b", "c"];
    let setup: String = tables.iter().map(|t| format!("CREATE TABLE {t} (id INT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(200));\nINSERT INTO {t} (note) SELECT CONCAT('n', seq) FROM seq_1_to_5000;\n")).collect();
    let options = Options { source: "  snapshot: { chunk_rows: 500, slice: 200ms }\n", ..Options::default() };
    let mut world = World::with("reload_all", &setup, &tables, options).await;
    world.start();
    let load = Load::start(&world, &tables).await;
    for _ in 0..2 {
        succeeds(&world, &["reload"], &[]);
        eventually("all tables are reloaded", Duration::from_secs(60), async || {
            tables.iter().all(|t| {
                world.history(t).iter().all(|e| e["outcomes"]["target"]["outcome"] != "pending") && world.table_state(t) == "streaming"
            })
        })
        .await;
    }
    assert!(load.end().await > 0);
    world.pipeline.caught_up();
    world.assert_equal().await;
    for table in tables {
        let reloads = world.history(table).iter().filter(|e| e["outcomes"]["target"]["outcome"] == "reloaded").count();
        assert!(reloads >= 2, "{table}: {:?}", world.history(table));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_of_one_table_while_it_and_others_get_rows_ends_equal() {
    let setup = "CREATE TABLE again (id INT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(200));\nCREATE TABLE other (id INT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(200));\nINSERT INTO again (note) SELECT CONCAT('n', seq) FROM seq_1_to_5000;";
    let options = Options { source: "  snapshot: { chunk_rows: 300, slice: 200ms }\n", ..Options::default() };
    let mut world = World::with("reload_one", setup, &["again", "other"], options).await;
    world.start();
    // Someone spoils the target: only a reload brings these rows back. Before the load, whose rows would wait for the same locks.
    world.target.run("UPDATE again SET note = 'spoilt' WHERE id % 2 = 0; DELETE FROM again WHERE id % 3 = 0").await;
    let load = Load::start(&world, &["again", "other"]).await;
    let before = world.count("other").await;
    succeeds(&world, &["reload"], &["reload_one.again"]);
    eventually("the others get rows meanwhile", Duration::from_secs(60), async || world.count("other").await > before).await;
    world.source.run("ALTER TABLE again ADD COLUMN late INT NOT NULL DEFAULT 2").await;
    eventually("the table is reloaded", Duration::from_secs(60), async || world.table_state("again") == "streaming").await;
    assert!(load.end().await > 0);
    world.pipeline.caught_up();
    world.assert_equal().await;
    let reloads = |table: &str| world.history(table).iter().filter(|e| e["outcomes"]["target"]["outcome"] == "reloaded").count();
    assert_eq!(reloads("other"), 0, "only the named table is read again: {:?}", world.history("other"));
}

#[tokio::test]
async fn a_stopped_sink_leaves_the_other_going_on() {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, v INT);\nCREATE TABLE u (id INT PRIMARY KEY);\nINSERT INTO t VALUES (1, 1);";
    let mut world = World::new("two_sinks", setup, &["t", "u"]).await;
    let other = postgres::Session::fresh_database("two_sinks_other").await;
    let second = format!(
        "  other:\n    target: postgres\n    url: {}\n    schema: public\n    evolution: {{ drop_column: stop }}\n",
        postgres::database_url("two_sinks_other")
    );
    let setup = Setup {
        name: "two_sinks",
        source_url: &source::url("mariadb"),
        database: "two_sinks",
        tables: &["two_sinks.t", "two_sinks.u"],
        target_url: &postgres::database_url("two_sinks"),
        schema: "public",
        partitions: 4,
        source_extra: "",
        sink_extra: "",
    };
    world.pipeline.reconfigure(&format!("{}{second}", setup.yaml()));
    // Two sinks: all in one process.
    world.pipeline.apart = false;
    world.start();
    world.source.run("ALTER TABLE t DROP COLUMN v").await;
    world.source.run("INSERT INTO t VALUES (2)").await;
    world.source.run("ALTER TABLE u ADD COLUMN w INT NOT NULL DEFAULT 4").await;
    world.source.run("INSERT INTO u VALUES (1, 5)").await;
    eventually("the sink that may drop goes on", Duration::from_secs(30), async || {
        world.target.value("SELECT count(*) FROM information_schema.columns WHERE table_name = 'u' AND column_name = 'w'").await.as_deref()
            == Some("1")
            && world.count("u").await == 1
    })
    .await;
    world.assert_equal().await;
    let (code, printed) = world.pipeline.wait("settled", 30);
    assert_eq!(code, 3, "{printed}");
    let status = world.pipeline.status();
    assert_eq!(
        (&status["sinks"]["target"]["state"], &status["sinks"]["other"]["state"]),
        (&"running".into(), &"stopped".into()),
        "{status}"
    );
    assert_eq!(other.value("SELECT count(*) FROM u").await.as_deref(), Some("0"), "nothing passes the stop of the other sink");
    assert!(world.pipeline.is_running());

    // The stop stands through a restart; the reload for the stopped sink alone leads out.
    world.pipeline.kill();
    world.pipeline.start();
    succeeds(&world, &["reload"], &["two_sinks.t", "--sink", "other"]);
    world.pipeline.caught_up();
    world.assert_equal().await;
    for table in ["t", "u"] {
        let found = compare::differences(&mut world.source, ("two_sinks", table), &other, ("public", table)).await;
        assert!(found.is_empty(), "{found:#?}\nlog:\n{}", world.pipeline.log());
    }
}

/// A sink whose server lets it in no more, while another one runs: only that one ends, and what it waits for is applied later.
#[tokio::test]
async fn a_sink_that_is_refused_while_it_runs_leaves_the_other_going_on() {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, v DATE);\nINSERT INTO t VALUES (1, NULL);";
    let mut world = World::new("refused_sink", setup, &["t"]).await;
    let admin = postgres::Session::fresh_database("refused_sink_other").await;
    admin
        .run("DROP ROLE IF EXISTS refused_loader; CREATE ROLE refused_loader LOGIN PASSWORD 'x'; ALTER DATABASE refused_sink_other OWNER TO refused_loader")
        .await;
    let url = postgres::database_url("refused_sink_other").replace("postgres:test@", "refused_loader:x@");
    // Processes apart wait at a stop; here one ends when nothing goes on.
    let config = std::fs::read_to_string(&world.pipeline.config).unwrap().replace("    on_stop: wait\n", "");
    world.pipeline.reconfigure(&format!("{config}  other:\n    target: postgres\n    url: {url}\n    schema: public\n"));
    // Two sinks: all in one process.
    world.pipeline.apart = false;
    world.start();
    admin
        .run("ALTER ROLE refused_loader NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'refused_loader'")
        .await;
    world.source.run("INSERT INTO t VALUES (2, '2024-01-02')").await;
    let body = ready(&world.pipeline, 503).await;
    let refused = "role \"refused_loader\" is not permitted to log in";
    assert!(body.contains("other: stopped") && body.contains(refused) && body.contains("target: running"), "{body}");
    // Over a broker a command knows of a process by its group alone: it is in none any more.
    let ended = if over_kafka() { "down" } else { "stopped" };
    eventually("the ended sink is known from outside", Duration::from_secs(60), async || {
        world.pipeline.status()["sinks"]["other"]["state"] == ended
    })
    .await;
    let sinks = &world.pipeline.status()["sinks"];
    assert_eq!(sinks["target"]["state"], "running", "{sinks}");
    assert!(sinks["other"]["message"].as_str().unwrap().contains(refused), "{sinks}");
    world.source.run("INSERT INTO t VALUES (3, '2024-01-03')").await;
    eventually("the other sink goes on", Duration::from_secs(20), async || world.count("t").await == 3).await;
    assert!(world.pipeline.is_running());

    // With the source stopped too nothing goes on: an error has the say over a stop.
    world.source.run("SET sql_mode = ''").await;
    world.source.run("INSERT INTO t VALUES (4, '0000-00-00')").await;
    assert_eq!(world.pipeline.exit(Duration::from_secs(30)), 1, "{}", world.pipeline.log());
    world.source.run("UPDATE t SET v = NULL WHERE id = 4").await;
    admin.run("ALTER ROLE refused_loader LOGIN").await;
    succeeds(&world, &["reload"], &["refused_sink.t"]);
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    let found = compare::differences(&mut world.source, ("refused_sink", "t"), &admin, ("public", "t")).await;
    assert!(found.is_empty(), "{found:#?}\nlog:\n{}", world.pipeline.log());
}
