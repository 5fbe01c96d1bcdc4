//! The commands, as a user gives them.

use std::time::Duration;

use crate::world::{Options, World};
use tests::pipeline::{binary, eventually, text};

#[tokio::test]
async fn status_has_the_promised_shape_while_running_and_when_nothing_runs() {
    let mut world = World::new("status_shape", "CREATE TABLE t (id INT PRIMARY KEY);\nINSERT INTO t VALUES (1);", &["t"]).await;
    world.start();
    for running in [true, false] {
        let status = world.pipeline.status();
        assert_eq!(status["pipeline"], "status_shape");
        assert_eq!(status["source"]["state"], if running { "running" } else { "down" }, "{status}");
        assert!(status["source"]["position"].as_str().is_some_and(|p| !p.is_empty()), "{status}");
        assert!(status["source"]["lag_seconds"].is_number() || status["source"]["lag_seconds"].is_null(), "{status}");
        let sink = &status["sinks"]["target"];
        assert_eq!(sink["state"], if running { "running" } else { "down" }, "{status}");
        let table = &sink["tables"]["status_shape.t"];
        assert_eq!(table["state"], "streaming", "{status}");
        assert_eq!(table["lag_rows"], 0, "{status}");
        if running {
            assert_eq!(world.pipeline.stop(), 0);
        }
    }
}

#[tokio::test]
async fn history_lists_every_change_with_outcome_and_target_ddl() {
    let mut world = World::new("history_shape", "CREATE TABLE t (id INT PRIMARY KEY);", &["t"]).await;
    world.start();
    world.source.run("ALTER TABLE t ADD COLUMN v INT NOT NULL DEFAULT 3").await;
    world.source.run("ALTER TABLE t COMMENT = 'x'").await;
    world.source.run("TRUNCATE TABLE t").await;
    world.source.run("INSERT INTO t VALUES (1, 1)").await;
    world.pipeline.caught_up();
    let entries: Vec<_> = world.history("t").into_iter().filter(|e| !e["ddl"].is_null()).collect();
    assert_eq!(entries.len(), 3, "{entries:?}");
    let kinds: Vec<&str> = entries.iter().map(|e| e["changes"][0]["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["add_column_constant_default", "change_comment", "truncate_table"]);
    let outcomes: Vec<&str> = entries.iter().map(|e| e["outcomes"]["target"]["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["applied", "nothing_to_apply", "applied"]);
    assert_eq!(entries[0]["ddl"], "ALTER TABLE t ADD COLUMN v INT NOT NULL DEFAULT 3");
    assert_eq!(entries[0]["changes"][0]["column"], "v");
    assert!(entries[0]["epoch"].is_number() && entries[1]["epoch"].is_null(), "{entries:?}");
    let ddl = entries[0]["outcomes"]["target"]["target_ddl"].as_array().unwrap();
    assert!(ddl[0].as_str().unwrap().starts_with("ALTER TABLE \"public\".\"t\" ADD COLUMN \"v\" integer"), "{ddl:?}");
    assert!(entries[0]["time"].as_str().is_some_and(|t| t.starts_with("20")), "{entries:?}");
    let printed = text(&world.pipeline.command(&["history"], &["--table", "history_shape.t"]));
    assert!(printed.contains("nothing_to_apply"), "{printed}");
}

#[tokio::test]
async fn plan_tells_the_outcome_and_touches_nothing() {
    let mut world = World::new("plan_dry", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(5));", &["t"]).await;
    world.start();
    let plan = |ddl: &'static str| text(&world.pipeline.command(&["plan"], &["--table", "plan_dry.t", "--ddl", ddl]));
    let printed = plan("ALTER TABLE t MODIFY v VARCHAR(50), ADD COLUMN n INT NOT NULL DEFAULT 4");
    assert!(printed.contains("applied") && printed.contains("ALTER COLUMN \"v\"") && printed.contains("ADD COLUMN \"n\""), "{printed}");
    assert!(plan("ALTER TABLE t MODIFY v INT").contains("stopped"));
    assert!(plan("ALTER TABLE t DROP PRIMARY KEY").contains("held"));
    world.pipeline.stop();
    assert_eq!(world.target.value("SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 't'").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_paused_pipeline_waits_and_goes_on() {
    let mut world = World::new("pause_resume", "CREATE TABLE t (id INT PRIMARY KEY);", &["t"]).await;
    world.start();
    assert!(world.pipeline.command(&["pause"], &[]).status.success());
    eventually("the source is paused", Duration::from_secs(10), async || world.pipeline.status()["source"]["state"] == "paused").await;
    world.source.run("INSERT INTO t VALUES (1)").await;
    let (code, _) = world.pipeline.wait("caught-up", 1);
    assert_eq!(code, 5, "a paused source does not catch up");
    assert_eq!(world.count("t").await, 0);
    assert!(world.pipeline.command(&["resume"], &[]).status.success());
    world.pipeline.caught_up();
    assert_eq!(world.count("t").await, 1);
}

#[tokio::test]
async fn a_second_run_is_refused_by_name() {
    let mut world = World::new("second_run", "CREATE TABLE t (id INT PRIMARY KEY);", &["t"]).await;
    world.start();
    let output = world.pipeline.command(&["run"], &["--admin", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output);
    assert!(printed.contains("topics") && printed.contains(&world.pipeline.pid().to_string()), "{printed}");
    assert!(world.pipeline.is_running());
}

#[tokio::test]
async fn wait_works_on_a_quiet_table_too() {
    let mut world = World::new("wait_quiet", "CREATE TABLE t (id INT PRIMARY KEY);\nCREATE TABLE elsewhere (id INT PRIMARY KEY);", &["t"]).await;
    world.start();
    world.source.run("INSERT INTO elsewhere VALUES (1)").await;
    world.pipeline.caught_up();
}

#[tokio::test]
async fn sigterm_ends_within_ten_seconds_with_zero() {
    let mut world = World::new("sigterm", "CREATE TABLE t (id INT PRIMARY KEY);", &["t"]).await;
    world.start();
    world.source.run("INSERT INTO t SELECT seq FROM seq_1_to_50000").await;
    assert_eq!(world.pipeline.stop(), 0, "{}", world.pipeline.log());
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
}

#[tokio::test]
async fn the_matrix_prints_every_kind_for_every_target() {
    let output = std::process::Command::new(binary()).args(["matrix", "--json"]).output().unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let find = |kind: &str, target: &str| {
        let row = rows.iter().find(|r| r["source"] == "mysql" && r["kind"] == kind && r["target"] == target).unwrap_or_else(|| panic!("{kind} {target}"));
        row["outcome"].as_str().unwrap().to_owned()
    };
    assert_eq!(find("add_column_constant_default", "postgres"), "applied");
    assert_eq!(find("rename_column", "fabric"), "held");
    assert_eq!(find("change_type", "clickhouse"), "stopped");
    assert_eq!(find("change_comment", "sqlserver"), "nothing_to_apply");
}

#[tokio::test]
async fn an_idle_stop_with_on_stop_wait_serves_readyz_503() {
    let options = Options { sink: "    on_stop: wait\n", ..Options::default() };
    let mut world = World::with("on_stop_wait", "CREATE TABLE t (id INT PRIMARY KEY, v INT);", &["t"], options).await;
    world.start();
    world.source.run("ALTER TABLE t MODIFY v VARCHAR(12)").await;
    let (code, printed) = world.pipeline.wait("settled", 30);
    assert_eq!(code, 3, "{printed}");
    assert!(world.pipeline.is_running());
    let output = world.pipeline.command(&["reload"], &["on_stop_wait.t"]);
    assert!(output.status.success(), "{}", text(&output));
    world.source.run("INSERT INTO t VALUES (1, 'x')").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
}
