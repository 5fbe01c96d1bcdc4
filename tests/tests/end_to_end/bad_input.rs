//! What a user gets wrong: each refused or stopped by name, with what to do.

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::world::{Options, World};
use tests::{
    pipeline::{Pipeline, binary, eventually, text},
    postgres,
    service::{Service, port},
    source,
};

/// A MariaDB server of its own, with other options.
fn mariadb(name: &str, slot: u16, options: &str) -> Service {
    let server = Service::mariadb(name, slot).with("MARIADB_OPTIONS", options);
    server.start();
    server
}

/// `check` and `run` both refuse with this exit code, and name all these.
pub fn refused(pipeline: &Pipeline, code: i32, words: &[&str]) {
    for command in ["check", "run"] {
        let output = pipeline.command(&[command], &[]);
        let printed = text(&output);
        assert_eq!(output.status.code(), Some(code), "{command}: {printed}");
        for word in words {
            assert!(printed.contains(word), "{command}: {word} is not in:\n{printed}");
        }
        assert!(!printed.contains("s3cret"), "a password is printed:\n{printed}");
    }
}

const PLAIN: &str = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));";

#[tokio::test]
async fn servers_that_do_not_answer_or_do_not_let_in_are_named() {
    let world = World::new("no_server", PLAIN, &["t"]).await;
    let yaml = std::fs::read_to_string(&world.pipeline.config).unwrap();
    let good = source::url("mariadb");
    world.pipeline.reconfigure(&yaml.replace(&good, "mysql://root:s3cret@127.0.0.1:1"));
    refused(&world.pipeline, 1, &["127.0.0.1:1", "source"]);
    world.pipeline.reconfigure(&yaml.replace(&good, &format!("mysql://root:s3cret@127.0.0.1:{}", port(&good))));
    refused(&world.pipeline, 1, &["root", "password"]);
    let target = postgres::database_url("no_server");
    world.pipeline.reconfigure(&yaml.replace(&target, &target.replace("postgres:test@", "postgres:s3cret@")));
    refused(&world.pipeline, 1, &["postgres", "password"]);
    world.pipeline.reconfigure(&yaml.replace(&target, "postgres://postgres:s3cret@127.0.0.1:1/x"));
    refused(&world.pipeline, 1, &["127.0.0.1:1", "target"]);
    world.pipeline.reconfigure(&yaml.replace(&target, &postgres::database_url("not_there")));
    refused(&world.pipeline, 1, &["not_there"]);
}

#[tokio::test]
async fn a_table_without_a_key_is_refused_until_a_sink_is_told_how_to_take_it() {
    let mut world =
        World::new("no_key", "CREATE TABLE t (id INT, v INT, UNIQUE (id));\nINSERT INTO t VALUES (NULL, 1), (NULL, 1);", &["t"]).await;
    refused(&world.pipeline, 1, &["sink target", "no_key.t", "no row key", "sinks.target.tables.no_key.t.keyless"]);
    assert_eq!(world.pipeline.history(), serde_json::json!([]), "nothing has begun");
    world.configure(&Options { sink: "    tables: { no_key.t: { keyless: full_row } }\n", ..Options::default() });
    world.start();
    assert_eq!(world.count("t").await, 2);
}

#[tokio::test]
async fn a_configuration_is_refused_by_key_and_line() {
    let pipeline = Pipeline::new("bad_config", "pipeline: x\nsource:\n  engine: mysql\n  url: mysql://a@b/c\n  tabels: [a.b]\nsinks: {}\n");
    refused(&pipeline, 2, &["source.tabels", "tables"]);
    pipeline.reconfigure("pipeline: x\nsource:\n  engine: mys");
    refused(&pipeline, 2, &["pipeline.yaml", "engine"]);
    pipeline.reconfigure("pipeline: [");
    refused(&pipeline, 2, &["pipeline.yaml", "line"]);
    pipeline.reconfigure("pipeline: x\nsource: { engine: mysql, url: \"mysql://a:${env:NOT_SET_ANYWHERE}@b/c\", tables: [c.t] }\nsinks: { t: { target: postgres, url: postgres://a@b/c } }\n");
    refused(&pipeline, 2, &["NOT_SET_ANYWHERE", "source.url"]);
    let output = Command::new(binary()).args(["check", "/nowhere/pipeline.yaml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("/nowhere/pipeline.yaml"));
    let output = Command::new(binary()).args(["chekc"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[tokio::test]
async fn a_log_of_some_databases_only_is_refused() {
    let server = mariadb("do_db", 6, "--binlog-do-db=elsewhere");
    let options = Options { source_url: Some(server.url()), ..Options::default() };
    let world = World::with("do_db", PLAIN, &["t"], options).await;
    let address = format!("127.0.0.1:{}", port(&server.url()));
    refused(&world.pipeline, 1, &[&address, "binlog_do_db is elsewhere", "Take binlog_do_db out of the server's configuration"]);
}

#[tokio::test]
async fn a_server_without_binlog_is_refused() {
    let server = mariadb("no_binlog", 7, "--skip-log-bin");
    let options = Options { source_url: Some(server.url()), ..Options::default() };
    let world = World::with("no_binlog", PLAIN, &["t"], options).await;
    refused(&world.pipeline, 1, &["log_bin"]);
}

#[tokio::test]
async fn a_missing_right_is_refused_with_the_grant() {
    let world = World::new("missing_right", PLAIN, &["t"]).await;
    let mut root = source::Session::connect(&source::url("mariadb")).await;
    root.run("CREATE OR REPLACE USER weak@'127.0.0.1' IDENTIFIED BY 's3cret'").await;
    root.run("GRANT SELECT ON missing_right.* TO weak@'127.0.0.1'").await;
    let yaml = std::fs::read_to_string(&world.pipeline.config).unwrap();
    world.pipeline.reconfigure(&yaml.replace("root:test@", "weak:s3cret@"));
    let wanted = [
        "user `weak` lacks the right",
        "GRANT REPLICATION SLAVE ON *.* TO `weak`@`127.0.0.1`;",
        "GRANT BINLOG MONITOR ON *.* TO `weak`@`127.0.0.1`;",
    ];
    refused(&world.pipeline, 1, &wanted);
    root.run("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO weak@'127.0.0.1'").await;
    root.run("REVOKE ALL ON missing_right.* FROM weak@'127.0.0.1'").await;
    refused(&world.pipeline, 1, &["may not read missing_right.t", "GRANT SELECT ON `missing_right`.`t` TO `weak`@`127.0.0.1`;"]);
    root.run("GRANT SELECT ON missing_right.* TO weak@'127.0.0.1'").await;
    assert_eq!(world.pipeline.command(&["check"], &[]).status.code(), Some(0), "what was said is enough");
}

#[tokio::test]
async fn tables_that_cannot_be_captured_are_refused_by_name() {
    let setup = "CREATE TABLE nokey (v INT);\nCREATE TABLE parent (id INT PRIMARY KEY);\nCREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE);";
    let world = World::new("not_captured", setup, &["nokey", "parent", "child", "missing"]).await;
    refused(&world.pipeline, 1, &["not_captured.nokey", "key", "keyless", "not_captured.child", "CASCADE", "not_captured.missing"]);
}

#[tokio::test]
async fn a_target_table_that_is_not_ours_is_refused() {
    let world = World::new("not_ours", PLAIN, &["t"]).await;
    world.target.run("CREATE TABLE t (id integer PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'mine')").await;
    refused(&world.pipeline, 1, &["t", "adopt"]);
    assert_eq!(world.target.value("SELECT v FROM t").await.as_deref(), Some("mine"));
}

/// Starts, alters the target by hand, then the source: the sink stops with the difference.
async fn altered_by_hand(name: &str, by_hand: &str, alter: &str, words: &[&str]) {
    let mut world = World::new(name, PLAIN, &["t"]).await;
    world.start();
    world.target.run(by_hand).await;
    world.source.run(alter).await;
    world.stopped();
    let (outcome, reason) = world.last_outcome("t");
    assert_eq!(outcome, "stopped");
    for word in words {
        assert!(reason.contains(word), "{word} is not in: {reason}");
    }
}

/// The server would round what comes then. What the ALTER itself rounds is the doing of the hand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_column_narrowed_by_hand_while_rows_flow_stops_before_the_next_row() {
    for (name, declared, narrow) in
        [("narrow_scale", "DECIMAL(18,4)", "TYPE numeric(18,2)"), ("narrow_text", "VARCHAR(40)", "TYPE character(12)")]
    {
        let mut world = World::new(name, &format!("CREATE TABLE t (id INT PRIMARY KEY, v {declared});"), &["t"]).await;
        world.start();
        let mut session = world.session().await;
        let ended = Arc::new(AtomicBool::new(false));
        let load = tokio::spawn({
            let ended = ended.clone();
            async move {
                for id in 1.. {
                    session.run(&format!("INSERT INTO t VALUES ({id}, 1.2345 + {id})")).await;
                    if ended.load(Ordering::Relaxed) {
                        break;
                    }
                }
            }
        });
        eventually("rows flow", Duration::from_secs(20), async || world.count("t").await > 50).await;
        world
            .target
            .run(&format!("BEGIN; ALTER TABLE t ALTER v {narrow}; CREATE TABLE seen AS SELECT count(*) AS rows FROM t; COMMIT"))
            .await;
        eventually("the sink stops", Duration::from_secs(20), async || world.sink_state() == "stopped").await;
        ended.store(true, Ordering::Relaxed);
        load.await.unwrap();
        let printed = world.stopped();
        assert!(printed.contains("is not the expected shape") && printed.contains("column `v`") && printed.contains("reload"), "{printed}");
        let written = world.target.value("SELECT (SELECT count(*) FROM t) - (SELECT rows FROM seen)").await;
        assert_eq!(written.as_deref(), Some("0"), "rows came into the narrowed column");
        assert!(world.pipeline.command(&["reload"], &[&format!("{name}.t")]).status.success());
        world.pipeline.caught_up();
        world.assert_equal().await;
    }
}

#[tokio::test]
async fn a_target_altered_by_hand_stops_the_next_change() {
    altered_by_hand(
        "hand_altered",
        "ALTER TABLE t ALTER COLUMN v TYPE varchar(5)",
        "ALTER TABLE t ADD COLUMN n INT",
        &["expected shape", "v", "varying(5)"],
    )
    .await;
}

#[tokio::test]
async fn a_target_that_looks_like_after_already_stops() {
    altered_by_hand("hand_after", "ALTER TABLE t ADD COLUMN n integer", "ALTER TABLE t ADD COLUMN n INT", &["expected shape", "n"]).await;
}

/// Starts, with the target column `v` of this type where one is given, then writes rows of which one does not fit: it stops before that row, the older ones are there.
async fn bad_value(name: &str, columns: &str, rows: &[&str], target_type: &str, words: &[&str]) {
    let narrower = format!("    type_map: {{ v: {target_type} }}\n");
    let options = Options { sink: if target_type.is_empty() { "" } else { &narrower }, ..Options::default() };
    let mut world = World::with(name, &format!("CREATE TABLE t (id INT PRIMARY KEY, {columns});"), &["t"], options).await;
    world.source.run("SET sql_mode = ''").await;
    world.start();
    for row in rows {
        world.source.run(&format!("INSERT INTO t VALUES ({row})")).await;
    }
    world.stopped();
    assert_eq!(world.count("t").await, 1, "the older row is there, the bad one and the later one are not");
    let printed = text(&world.pipeline.command(&["status"], &[]));
    for word in words {
        assert!(printed.contains(word), "{word} is not in:\n{printed}");
    }
}

#[tokio::test]
async fn a_nul_byte_stops_before_its_row() {
    bad_value("nul_byte", "v VARCHAR(20)", &["1, 'ok'", "2, 'a\\0b'", "3, 'ok'"], "", &["nul_byte.t", "id=2", "v"]).await;
}

#[tokio::test]
async fn a_zero_date_stops_before_its_row() {
    bad_value(
        "zero_date",
        "v DATE",
        &["1, '2024-01-01'", "2, '0000-00-00'", "3, '2024-01-02'"],
        "",
        &["zero_date.t", "id=2", "v", "0000-00-00"],
    )
    .await;
}

#[tokio::test]
async fn a_number_out_of_range_stops_before_its_row() {
    let narrow = "smallint";
    bad_value("out_of_range", "v INT", &["1, 32767", "2, 32768", "3, 1"], narrow, &["out_of_range.t", "id=2", "column v", "out of range"])
        .await;
}

#[tokio::test]
async fn a_string_too_long_stops_before_its_row() {
    let narrow = "varchar(3)";
    bad_value(
        "too_long",
        "v VARCHAR(20)",
        &["1, 'äöü'", "2, 'abcd'", "3, 'x'"],
        narrow,
        &["too_long.t", "id=2", "column v", "3 characters"],
    )
    .await;
}

/// Every type and character set of these servers is carried in one form or another; what can be refused is a form.
#[tokio::test]
async fn a_type_without_a_text_form_cannot_be_mapped_to_text() {
    let options = Options { source: "  type_map: { geometry: string, no_text.t.gone: string }\n", ..Options::default() };
    let world = World::with("no_text", "CREATE TABLE t (id INT PRIMARY KEY, g GEOMETRY);", &["t"], options).await;
    refused(
        &world.pipeline,
        1,
        &["no_text.t", "`g`", "geometry cannot be published as text", "source.type_map names no_text.t.gone, which is not there"],
    );
}

#[tokio::test]
async fn a_zero_date_stop_ends_by_mapping_the_column_and_reloading() {
    let mut world =
        World::new("zero_then_text", "CREATE TABLE t (id INT PRIMARY KEY, v DATE);\nINSERT INTO t VALUES (1, '2024-01-01');", &["t"]).await;
    world.source.run("SET sql_mode = ''").await;
    world.start();
    world.source.run("INSERT INTO t VALUES (2, '0000-00-00')").await;
    let printed = world.stopped();
    assert!(printed.contains("source.type_map") && printed.contains("then reload the table"), "{printed}");
    assert_eq!(world.pipeline.exit(Duration::from_secs(20)), 3);
    let options = Options { source: "  type_map: { zero_then_text.t.v: string }\n", ..Options::default() };
    world.configure(&options);
    world.pipeline.start();
    let wanted = "zero_then_text.t, column `v` is published as no string, and source.type_map asks for string";
    eventually("the difference is told", Duration::from_secs(20), async || world.pipeline.log().contains(wanted)).await;
    assert_eq!(world.pipeline.exit(Duration::from_secs(20)), 3, "the mapping alone changes nothing that is published");
    assert!(world.pipeline.command(&["reload"], &["zero_then_text.t"]).status.success());
    world.pipeline.start();
    world.pipeline.caught_up();
    world.source.run("INSERT INTO t VALUES (3, '2024-05-00')").await;
    world.source.run("ALTER TABLE t RENAME COLUMN v TO day").await;
    world.source.run("INSERT INTO t VALUES (4, '2024-06-00')").await;
    world.pipeline.caught_up();
    let rows = world.target.value("SELECT string_agg(day, ' ' ORDER BY id) FROM t").await;
    assert_eq!(rows.as_deref(), Some("2024-01-01 0000-00-00 2024-05-00 2024-06-00"));
}

#[tokio::test]
async fn an_added_column_of_a_mapped_type_is_text_with_its_default() {
    let options = Options { source: "  type_map: { datetime: string, decimal: string }\n", ..Options::default() };
    let mut world = World::with("added_text", "CREATE TABLE t (id INT PRIMARY KEY);\nINSERT INTO t VALUES (1);", &["t"], options).await;
    world.source.run("SET sql_mode = ''").await;
    world.start();
    world.source.run("ALTER TABLE t ADD COLUMN m DATETIME(2) NOT NULL DEFAULT '2024-02-29 01:02:03.5', ADD COLUMN z DATETIME NOT NULL, ADD COLUMN d DECIMAL(6,2) NOT NULL DEFAULT 1.5").await;
    world.source.run("INSERT INTO t VALUES (2, '2024-00-00 00:00:00.25', '0000-00-00', -0.5)").await;
    world.pipeline.caught_up();
    let rows = world.target.value("SELECT string_agg(concat_ws('|', m, z, d), ' / ' ORDER BY id) FROM t").await;
    let wanted = "2024-02-29 01:02:03.50|0000-00-00 00:00:00|1.50 / 2024-00-00 00:00:00.25|0000-00-00 00:00:00|-0.50";
    assert_eq!(rows.as_deref(), Some(wanted));
    let types = "SELECT string_agg(DISTINCT data_type, ' ') FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 't' AND column_name <> 'id'";
    assert_eq!(world.target.value(types).await.as_deref(), Some("text"));
}

#[tokio::test]
async fn a_zero_date_mapped_to_text_is_carried_exactly() {
    let options = Options { source: "  type_map: { zero_text.t.v: string }\n", ..Options::default() };
    let mut world = World::with(
        "zero_text",
        "CREATE TABLE t (id INT PRIMARY KEY, v DATE);\nSET sql_mode = 'ALLOW_INVALID_DATES';\nINSERT INTO t VALUES (1, '0000-00-00');",
        &["t"],
        options,
    )
    .await;
    world.start();
    world.source.run("INSERT INTO t VALUES (2, '2024-05-00'), (3, '2024-02-30'), (4, NULL), (5, '2024-02-29')").await;
    world.pipeline.caught_up();
    let rows = world.target.value("SELECT string_agg(coalesce(v, 'NULL'), ' ' ORDER BY id) FROM t").await;
    assert_eq!(rows.as_deref(), Some("0000-00-00 2024-05-00 2024-02-30 NULL 2024-02-29"));
}

#[tokio::test]
async fn a_purged_binlog_stops_and_names_the_way_out() {
    let server = mariadb("purged", 8, "");
    let options = Options { source_url: Some(server.url()), ..Options::default() };
    let mut world = World::with("purged", PLAIN, &["t"], options).await;
    world.start();
    world.pipeline.stop();
    world.source.run("INSERT INTO t VALUES (1, 'lost')").await;
    world.source.run("FLUSH BINARY LOGS").await;
    world.source.run("INSERT INTO t VALUES (2, 'kept')").await;
    let logs = world.source.query("SHOW BINARY LOGS").await.unwrap();
    let newest = String::from_utf8(logs.last().unwrap()[0].clone().unwrap()).unwrap();
    // The server keeps a log as long as it still sends it to the reader that has gone.
    for _ in 0..500 {
        world.source.run(&format!("PURGE BINARY LOGS TO '{newest}'")).await;
        if world.source.query("SHOW BINARY LOGS").await.unwrap().len() == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(world.source.query("SHOW BINARY LOGS").await.unwrap().len(), 1, "the older logs are gone");
    world.pipeline.start();
    assert_eq!(world.pipeline.exit(Duration::from_secs(30)), 3, "{}", world.pipeline.log());
    let message = world.pipeline.status()["source"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("purged") && message.contains("reload"), "{message}");
    let output = world.pipeline.command(&["reload"], &[]);
    assert!(output.status.success(), "{}", text(&output));
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
}

/// A small file system that fills up; needs root.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    fn mount(path: &Path) -> SmallDisk<'_> {
        std::fs::create_dir_all(path).unwrap();
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(path).status().unwrap();
        assert!(status.success(), "this test mounts a small file system: run it as root");
        SmallDisk(path)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[tokio::test]
async fn a_full_disk_is_said_and_nothing_is_lost() {
    let mut world = World::new("full_disk", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(4000));", &["t"]).await;
    let folder = world.pipeline.folder.join("topics");
    let disk = SmallDisk::mount(&folder);
    world.start();
    world.source.run("INSERT INTO t SELECT seq, REPEAT('x', 4000) FROM seq_1_to_5000").await;
    eventually("the full disk is said", Duration::from_secs(30), async || {
        let log = world.pipeline.log();
        log.contains("full") || log.contains("No space left")
    })
    .await;
    let enough = Command::new("mount").args(["-o", "remount,size=200m"]).arg(&folder).status().unwrap();
    assert!(enough.success());
    if !world.pipeline.is_running() {
        world.pipeline.start();
    }
    world.pipeline.caught_up();
    world.assert_equal().await;
    world.pipeline.kill();
    drop(disk);
}
