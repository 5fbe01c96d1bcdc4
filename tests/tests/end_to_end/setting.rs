//! The source server's settings: all that is wrong is told at once, with the statements that mend it; and what changes while it runs.

use serde_json::Value as Json;
use tests::{pipeline::text, service::Service};

use crate::world::{Options, World};

const WRONG: &str =
    "--binlog-format=MIXED --binlog-row-image=MINIMAL --binlog-ignore-db=elsewhere --binlog-expire-logs-seconds=3600 --sql-mode=";

const SETUP: &str = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL DEFAULT 5, w VARCHAR(20) DEFAULT 'w');\n\
                     CREATE TABLE bag (v INT);\n\
                     CREATE TABLE parent (id INT PRIMARY KEY);\n\
                     CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE);\n\
                     CREATE TABLE shape (id INT PRIMARY KEY, g GEOMETRY);\n\
                     CREATE TABLE secret (id INT PRIMARY KEY);";

/// A server of its own. `slot` keeps those that run at the same time apart.
fn service(kind: &str, name: &str, slot: u16, options: &str) -> Service {
    let service = if kind == "mysql" { Service::mysql(name, slot) } else { Service::mariadb(name, slot) };
    service.with(&format!("{}_OPTIONS", kind.to_uppercase()), options)
}

/// The problems of `check`, each with its weight.
fn problems(world: &World) -> Vec<(bool, String, Vec<String>)> {
    let output = world.pipeline.command(&["check"], &["--json"]);
    let report: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output)));
    let problem = |p: &Json| {
        assert!(p["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{p} has no remedy");
        let sql = p["sql"].as_array().unwrap().iter().map(|sql| sql.as_str().unwrap().to_owned()).collect();
        (p["fatal"].as_bool().unwrap(), p["what"].as_str().unwrap().to_owned(), sql)
    };
    report["problems"].as_array().unwrap().iter().map(problem).collect()
}

/// What is expected of a problem: its weight, words of what it is, and words of the statements that mend it; none where none does.
struct Expected(bool, String, &'static str);

/// Exactly these problems are there; returns the statements that mend them.
fn assert_problems(world: &World, expected: &[&Expected]) -> Vec<String> {
    let found = problems(world);
    for Expected(fatal, what, sql) in expected {
        let mends = |statements: &[String]| {
            statements.is_empty() && sql.is_empty() || statements.iter().any(|s| !sql.is_empty() && s.contains(sql))
        };
        let there = found.iter().any(|(f, w, statements)| f == fatal && w.contains(what) && mends(statements));
        assert!(there, "{fatal} {what} {sql} is not in {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    found.into_iter().flat_map(|(_, _, statements)| statements).collect()
}

/// Everything is wrong: one report has all of it, and its statements mend what statements can.
async fn everything_wrong(kind: &str, options: &str, own: &[Expected], monitor: &'static str) {
    let server = service(kind, &format!("setting-{kind}"), 3, &format!("{WRONG} {options}"));
    server.start();
    let name = format!("setting_{kind}");
    let source = format!("  row_metadata: require\n  type_map: {{ geometry: string, {name}.t.gone: string }}\n");
    let world_options = Options { source_url: Some(server.url()), source: &source, ..Options::default() };
    let mut world = World::with(&name, SETUP, &["t", "bag", "child", "shape", "secret"], world_options.clone()).await;
    world.source.run("CREATE USER weak@'127.0.0.1' IDENTIFIED BY 'weak'").await;
    for table in ["t", "bag", "child", "shape"] {
        world.source.run(&format!("GRANT SELECT ON {name}.{table} TO weak@'127.0.0.1'")).await;
    }
    world.source_url = world.source_url.replace("root:test@", "weak:weak@");
    world.configure(&world_options);
    let mended = [
        Expected(true, "lacks the right REPLICATION SLAVE".into(), "GRANT REPLICATION SLAVE ON *.* TO `weak`@`127.0.0.1`;"),
        Expected(true, format!("lacks the right {monitor}"), monitor),
        Expected(true, format!("may not read {name}.secret"), "`secret` TO `weak`@`127.0.0.1`;"),
        Expected(true, "binlog_format is MIXED".into(), "binlog_format = 'ROW';"),
        Expected(true, "binlog_row_image is MINIMAL".into(), "binlog_row_image = 'FULL';"),
        Expected(true, "binlog_row_metadata is not FULL".into(), "binlog_row_metadata = 'FULL';"),
        Expected(false, "the log is kept for 3600 seconds only".into(), "binlog_expire_logs_seconds = 604800;"),
        Expected(false, "sql_mode is not strict".into(), "STRICT_TRANS_TABLES"),
        Expected(
            true,
            format!("{name}.bag has no row key"),
            "`bag` ADD COLUMN row_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY;",
        ),
        Expected(true, "foreign key `fk` changes its rows".into(), "`child` DROP FOREIGN KEY `fk`;"),
    ];
    let left = [
        Expected(true, format!("{name}.shape, column `g`: geometry cannot be published as text"), ""),
        Expected(true, format!("source.type_map names {name}.t.gone, which is not there"), ""),
    ];
    let all: Vec<&Expected> = mended.iter().chain(own).chain(&left).collect();
    for statement in assert_problems(&world, &all) {
        world.source.run(statement.trim_end_matches(';')).await;
    }
    // Who may ask for the log's end sees its filters too.
    let filter = Expected(true, "binlog_ignore_db is elsewhere".into(), "");
    assert_problems(&world, &[&left[0], &left[1], &filter]);
    let (code, printed) = check(&world);
    assert!(code == 1 && printed.contains("binlog_ignore_db is elsewhere") && printed.contains("3 problem(s) to mend"), "{printed}");
}

fn check(world: &World) -> (i32, String) {
    let output = world.pipeline.command(&["check"], &[]);
    (output.status.code().unwrap(), text(&output))
}

#[tokio::test]
async fn a_mariadb_with_every_setting_wrong_is_told_all_at_once_and_mended_by_what_is_printed() {
    everything_wrong("mariadb", "--binlog-row-metadata=NO_LOG", &[], "BINLOG MONITOR").await;
}

#[tokio::test]
async fn a_mysql_with_every_setting_wrong_is_told_all_at_once_and_mended_by_what_is_printed() {
    let options = "--binlog-row-metadata=MINIMAL --binlog-row-value-options=PARTIAL_JSON --gtid-mode=OFF --enforce-gtid-consistency=OFF \
                   --server-id=0 --innodb-native-foreign-keys=ON";
    let own = [
        Expected(true, "server_id is 0".into(), "server_id = 1;"),
        Expected(false, "gtid_mode is OFF".into(), "gtid_mode = ON_PERMISSIVE;"),
        Expected(
            true,
            "lacks the right LOCK TABLES on setting_mysql".into(),
            "GRANT LOCK TABLES ON `setting_mysql`.* TO `weak`@`127.0.0.1`;",
        ),
    ];
    everything_wrong("mysql", options, &own, "REPLICATION CLIENT").await;
}

/// A replica that does not log what it replicates, and a server without a log.
#[tokio::test]
async fn a_replica_that_logs_nothing_of_what_it_replicates_is_refused() {
    let server = service("mariadb", "setting-replica", 4, "--skip-log-bin --binlog-format=STATEMENT --log-slave-updates=OFF");
    server.start();
    let options = Options { source_url: Some(server.url()), ..Options::default() };
    let mut world = World::with("setting_replica", "CREATE TABLE t (id INT PRIMARY KEY);", &["t"], options).await;
    world.source.run("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'nobody', MASTER_CONNECT_RETRY = 1").await;
    world.source.run("START SLAVE").await;
    let (code, printed) = check(&world);
    assert_eq!(code, 1, "{printed}");
    for word in ["the binary log is off (log_bin)", "binlog_format is STATEMENT", "is a replica and log_slave_updates is OFF"] {
        assert!(printed.contains(word), "{word} is not in: {printed}");
    }
}

/// Sessions that write their part of the log in another way while the pipeline runs.
async fn changed_while_it_runs(kind: &str, less_metadata: &str) {
    let server = service(kind, &format!("changed-{kind}"), 5, "");
    server.start();
    let name = format!("changed_{kind}");
    let options = Options { source_url: Some(server.url()), sink: "    on_stop: wait\n", ..Options::default() };
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL DEFAULT 5, w VARCHAR(20) DEFAULT 'w');\n\
                 INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c');";
    let mut world = World::with(&name, setup, &["t"], options.clone()).await;
    world.start();

    // Columns that were not changed are left out: what is there stays.
    let mut session = world.session().await;
    session.run("SET SESSION binlog_row_image = 'MINIMAL'").await;
    session.run("UPDATE t SET w = 'changed' WHERE id = 1").await;
    session.run("DELETE FROM t WHERE id = 3").await;
    session.run("INSERT INTO t VALUES (5, 50, NULL)").await;
    world.pipeline.caught_up();
    world.assert_equal().await;

    // A new row without the columns that got their defaults cannot be completed from what is there: its table waits.
    session.run("INSERT INTO t (id) VALUES (4)").await;
    let (code, printed) = world.pipeline.wait("settled", 60);
    assert_eq!(code, 4, "{printed}");
    assert!(printed.contains(&format!("{name}.t, key id=4: the source did not carry the columns v, w")), "{printed}");
    reload(&mut world).await;

    // A statement in place of rows.
    session.run("SET SESSION binlog_format = 'STATEMENT'").await;
    session.run("UPDATE t SET v = v + 1").await;
    let printed = world.stopped();
    for word in [&*format!("{name}.t"), "SET GLOBAL binlog_format = 'ROW'", "the source stands before binlog.", "UPDATE t SET v = v + 1"] {
        assert!(printed.contains(word), "{word} is not in: {printed}");
    }
    assert_eq!(world.target.value("SELECT v FROM t WHERE id = 1").await.as_deref(), Some("1"));
    reload(&mut world).await;

    // The log names no columns any more: rows go on, a column that moves does not.
    world.source.run(&format!("SET GLOBAL binlog_row_metadata = '{less_metadata}'")).await;
    world.source.run("INSERT INTO t VALUES (6, 6, 'six')").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert!(world.pipeline.log().contains("binlog_row_metadata was changed on the source"), "{}", world.pipeline.log());
    world.source.run("ALTER TABLE t ADD COLUMN last INT").await;
    world.source.run("INSERT INTO t VALUES (7, 7, 'seven', 7)").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    world.source.run("ALTER TABLE t ADD COLUMN first INT FIRST").await;
    let printed = world.stopped();
    for word in [&*format!("{name}.t"), "SET GLOBAL binlog_row_metadata = 'FULL'", "the source stands before binlog.", "moves columns"] {
        assert!(printed.contains(word), "{word} is not in: {printed}");
    }
    world.source.run("SET GLOBAL binlog_row_metadata = 'FULL'").await;
    reload(&mut world).await;
    world.source.run("INSERT INTO t VALUES (8, 8, 8, 'eight', 8)").await;
    world.source.run("ALTER TABLE t ADD COLUMN second INT AFTER first").await;
    world.source.run("INSERT INTO t VALUES (9, 9, 9, 9, 'nine', 9)").await;
    world.pipeline.caught_up();
    world.assert_equal().await;

    // Who asks for names stops at the first row without them.
    world.pipeline.stop();
    world.configure(&Options { source: "  row_metadata: require\n", ..options });
    world.pipeline.start();
    world.pipeline.caught_up();
    world.source.run(&format!("SET GLOBAL binlog_row_metadata = '{less_metadata}'")).await;
    world.source.run("INSERT INTO t (id) VALUES (10)").await;
    let printed = world.stopped();
    for word in
        [&*format!("{name}.t: the log lacks column names"), "SET GLOBAL binlog_row_metadata = 'FULL'", "the source stands before binlog."]
    {
        assert!(printed.contains(word), "{word} is not in: {printed}");
    }
    world.source.run("SET GLOBAL binlog_row_metadata = 'FULL'").await;
    reload(&mut world).await;
}

async fn reload(world: &mut World) {
    let output = world.pipeline.command(&["reload"], &[&format!("{}.t", world.name)]);
    assert!(output.status.success(), "{}", text(&output));
    world.pipeline.caught_up();
    world.assert_equal().await;
}

#[tokio::test]
async fn mariadb_sessions_that_log_otherwise_stop_it_by_name_or_lose_nothing() {
    changed_while_it_runs("mariadb", "NO_LOG").await;
}

#[tokio::test]
async fn mysql_sessions_that_log_otherwise_stop_it_by_name_or_lose_nothing() {
    changed_while_it_runs("mysql", "MINIMAL").await;
}
