//! The commands, as a user gives them.

use std::time::{Duration, Instant};

use crate::world::{Options, World};
use tests::{
    pipeline::{Pipeline, binary, eventually, text},
    postgres,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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
    assert_eq!(
        world
            .target
            .value("SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 't'")
            .await
            .as_deref(),
        Some("2")
    );
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
    let mut world =
        World::new("wait_quiet", "CREATE TABLE t (id INT PRIMARY KEY);\nCREATE TABLE elsewhere (id INT PRIMARY KEY);", &["t"]).await;
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

/// Nothing comes from a quiet server but a heartbeat every ten seconds.
#[tokio::test]
async fn a_pipeline_on_a_quiet_server_takes_commands_and_ends_at_once() {
    let mut world = World::new("quiet", "CREATE TABLE t (id INT PRIMARY KEY);\nINSERT INTO t VALUES (1);", &["t"]).await;
    for _ in 0..2 {
        world.start();
        let begin = Instant::now();
        assert!(world.pipeline.command(&["pause"], &[]).status.success());
        eventually("the source is paused", Duration::from_secs(5), async || world.pipeline.status()["source"]["state"] == "paused").await;
        assert!(world.pipeline.command(&["resume"], &[]).status.success());
        eventually("the source goes on", Duration::from_secs(5), async || world.pipeline.status()["source"]["state"] == "running").await;
        assert_eq!(world.pipeline.stop(), 0);
        assert!(begin.elapsed() < Duration::from_secs(7), "{:?}\n{}", begin.elapsed(), world.pipeline.log());
    }
}

#[tokio::test]
async fn the_matrix_prints_every_kind_for_every_target() {
    let output = std::process::Command::new(binary()).args(["matrix", "--json"]).output().unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let find = |kind: &str, target: &str| {
        let row = rows
            .iter()
            .find(|r| r["source"] == "mysql" && r["kind"] == kind && r["target"] == target)
            .unwrap_or_else(|| panic!("{kind} {target}"));
        row["outcome"].as_str().unwrap().to_owned()
    };
    assert_eq!(find("add_column_constant_default", "postgres"), "applied");
    assert_eq!(find("rename_column", "fabric"), "held");
    assert_eq!(find("change_type", "clickhouse"), "stopped");
    assert_eq!(find("change_comment", "sqlserver"), "nothing_to_apply");
}

/// An answer of the process's own pages: the code and the body.
async fn page(pipeline: &Pipeline, path: &str) -> (u16, String) {
    page_of(&pipeline.log(), path).await
}

/// A page of the process with this log.
pub async fn page_of(log: &str, path: &str) -> (u16, String) {
    let address = log.rsplit("status at http://").next().unwrap().split('/').next().unwrap().to_owned();
    let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap_or_else(|e| panic!("{address}: {e}"));
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Waits until a line of `/metrics` reads so.
async fn metric(pipeline: &Pipeline, line: &str) {
    let what = format!("{line} in /metrics");
    let mut last = String::new();
    for _ in 0..500 {
        last = page(pipeline, "/metrics").await.1;
        if last.lines().any(|l| l == line) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what} is not there:\n{last}");
}

pub async fn ready(pipeline: &Pipeline, code: u16) -> String {
    let mut last = (0, String::new());
    for _ in 0..500 {
        last = page(pipeline, "/readyz").await;
        if last.0 == code {
            return last.1;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("/readyz is {last:?}, not {code}");
}

#[tokio::test]
async fn the_pages_of_a_process_say_what_it_does() {
    let options = Options { sink: "    on_stop: wait\n", ..Options::default() };
    let mut world =
        World::with("pages", "CREATE TABLE t (id INT PRIMARY KEY, v INT);\nINSERT INTO t VALUES (1, 1), (2, 2);", &["t"], options).await;
    world.start();
    assert_eq!(page(&world.pipeline, "/healthz").await, (200, "ok\n".into()));
    assert_eq!(ready(&world.pipeline, 200).await, "source: running\ntarget: running\n");
    world.source.run("ALTER TABLE t ADD COLUMN n INT").await;
    world.source.run("INSERT INTO t VALUES (3, 3, 3)").await;
    world.pipeline.caught_up();
    metric(&world.pipeline, "instar_sink_outcomes_total{sink=\"target\",kind=\"add_column_nullable\",outcome=\"applied\"} 1").await;
    metric(&world.pipeline, "instar_source_copy_rows_total{table=\"pages.t\"} 2").await;
    metric(&world.pipeline, "instar_source_stopped 0").await;
    let (code, body) = page(&world.pipeline, "/status").await;
    let status: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &status["sinks"]["target"]["tables"]["pages.t"]["state"]), (200, &"streaming".into()));
    assert_eq!(status["sinks"]["target"]["tables"]["pages.t"]["lag_rows"], 0);
    let (code, body) = page(&world.pipeline, "/").await;
    assert!(code == 200 && body.contains("pages.t"), "{body}");

    // Held: the others go on, so the process stays ready.
    world.source.run("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)").await;
    let (code, printed) = world.pipeline.wait("settled", 30);
    assert_eq!(code, 4, "{printed}");
    metric(&world.pipeline, "instar_sink_outcomes_total{sink=\"target\",kind=\"change_key\",outcome=\"held\"} 1").await;
    metric(&world.pipeline, "instar_sink_held_tables{sink=\"target\"} 1").await;
    metric(&world.pipeline, "instar_sink_table_held{sink=\"target\",table=\"pages.t\"} 1").await;
    ready(&world.pipeline, 200).await;
    assert!(world.pipeline.command(&["reload"], &["pages.t"]).status.success());
    world.pipeline.caught_up();
    metric(&world.pipeline, "instar_sink_table_held{sink=\"target\",table=\"pages.t\"} 0").await;
    metric(&world.pipeline, "instar_sink_outcomes_total{sink=\"target\",kind=\"reload\",outcome=\"reloaded\"} 1").await;

    // Stopped: not ready until a way out is taken.
    world.source.run("ALTER TABLE t MODIFY n VARCHAR(12)").await;
    let (code, printed) = world.pipeline.wait("settled", 30);
    assert_eq!(code, 3, "{printed}");
    let body = ready(&world.pipeline, 503).await;
    assert!(body.contains("target: stopped") && body.contains("pages.t") && body.contains("Reload the table"), "{body}");
    metric(&world.pipeline, "instar_sink_outcomes_total{sink=\"target\",kind=\"change_type\",outcome=\"stopped\"} 1").await;
    metric(&world.pipeline, "instar_sink_stopped{sink=\"target\"} 1").await;
    assert!(world.pipeline.command(&["reload"], &["pages.t"]).status.success());
    world.pipeline.caught_up();
    assert_eq!(ready(&world.pipeline, 200).await, "source: running\ntarget: running\n");
    metric(&world.pipeline, "instar_sink_stopped{sink=\"target\"} 0").await;
}

#[tokio::test]
async fn commands_before_the_first_run_answer_and_create_nothing() {
    let world = World::new("never_run", "CREATE TABLE t (id INT PRIMARY KEY);", &["t"]).await;
    let run = |command: &[&str], arguments: &[&str]| {
        let output = world.pipeline.command(command, arguments);
        (output.status.code().unwrap(), text(&output))
    };
    let status = world.pipeline.status();
    assert_eq!((&status["source"]["state"], &status["sinks"]["target"]["state"]), (&"down".into(), &"down".into()), "{status}");
    assert_eq!(world.pipeline.history(), serde_json::json!([]));
    assert_eq!(run(&["history"], &[]), (0, "no schema change yet\n".into()));
    assert_eq!(run(&["review", "list"], &[]), (0, "no table is held\n".into()));
    assert_eq!(run(&["review", "show"], &["t", "--json"]), (1, "never_run.t is not held\n".into()));
    for command in ["reload", "pause", "resume", "accept"] {
        assert_eq!(
            run(&[command], &[]),
            (1, "pipeline never_run has never run: there is nothing to tell it; start it by instar run\n".into())
        );
    }
    let (code, said) = run(&["wait"], &["--timeout", "300ms"]);
    assert!(code == 5 && said.contains("no process of the pipeline runs"), "{code} {said}");
    let (code, said) = run(&["review", "keep"], &["t"]);
    assert!(code == 1 && said.contains("sink target has never run here"), "{code} {said}");
    let (code, said) = run(&["plan"], &["--table", "t", "--ddl", "ALTER TABLE t ADD COLUMN v INT"]);
    assert!(code == 0 && said.contains("target: applied") && said.contains("ADD COLUMN \"v\" integer"), "{code} {said}");
    assert!(!world.pipeline.folder.join("topics").exists(), "nothing is created");
}

/// As for a while with many tables.
#[tokio::test]
async fn a_process_that_still_looks_at_its_tables_is_waited_for_and_tells_its_state() {
    let mut world = World::new("early", "CREATE TABLE t (id INT PRIMARY KEY);\nINSERT INTO t VALUES (1);", &["t"]).await;
    // There it stands when it looks at the target's table.
    let blocker = postgres::Session::connect(&world.target_url).await;
    blocker.run("BEGIN; LOCK TABLE pg_catalog.pg_trigger IN ACCESS EXCLUSIVE MODE").await;
    world.pipeline.start();
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("the process looks at the target", Duration::from_secs(20), async || {
        world.target.value(waiting).await.as_deref() == Some("1")
    })
    .await;
    let status = world.pipeline.status();
    assert_eq!((&status["source"]["state"], &status["sinks"]["target"]["state"]), (&"running".into(), &"running".into()), "{status}");
    let (code, printed) = world.pipeline.wait("caught-up", 1);
    assert_eq!((code, printed.as_str()), (5, "timed out: the source has published nothing yet\n"));
    blocker.run("COMMIT").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
}

#[tokio::test]
async fn a_taken_admin_port_and_bad_arguments_are_refused() {
    let mut world = World::new("taken_port", "CREATE TABLE t (id INT PRIMARY KEY);", &["t"]).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = world.pipeline.command(&["run"], &["--admin", &address]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&address) && said.contains("--admin ADDR"), "{said}");
    let output = world.pipeline.command(&["reload"], &["t", "u"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    // The lock on the topics is free again.
    world.start();
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
