//! `instar accept`: the way past a statement that had no effect.

use std::time::Duration;

use tests::{
    pipeline::{eventually, text},
    source,
};

use crate::world::{Options, World};

const PATIENCE: Duration = Duration::from_secs(30);

const SETUP: &str = "CREATE TABLE t (id INT PRIMARY KEY, v INT);\n\
                     CREATE TABLE shadow (id INT PRIMARY KEY, w VARCHAR(20), v INT);\n\
                     CREATE TABLE u (id INT PRIMARY KEY);\n\
                     INSERT INTO t VALUES (1, 1);\n\
                     INSERT INTO shadow VALUES (1, 'other', 1);";

fn command(world: &World, command: &str, arguments: &[&str]) -> (i32, String) {
    let output = world.pipeline.command(&[command], arguments);
    (output.status.code().unwrap(), text(&output))
}

fn message(world: &World) -> String {
    world.pipeline.status()["source"]["message"].as_str().unwrap_or_default().to_owned()
}

fn position(world: &World) -> String {
    world.pipeline.status()["source"]["position"].as_str().unwrap().to_owned()
}

async fn accept(kind: &str) {
    let name = format!("accept_{kind}");
    let table = format!("{name}.t");
    let options = Options { source_url: Some(source::url(kind)), sink: "    on_stop: wait\n", ..Options::default() };
    let mut world = World::with(&name, SETUP, &["t", "u"], options).await;
    world.start();
    let (code, said) = command(&world, "accept", &[]);
    assert_eq!((code, said.as_str()), (1, "the source stands at no statement: there is nothing to accept\n"));

    // Back under its name, and a statement that found no row.
    world.source.run("RENAME TABLE t TO away").await;
    world.source.run("RENAME TABLE away TO t").await;
    world.source.run("SET SESSION binlog_format = 'STATEMENT'").await;
    world.source.run("UPDATE t SET v = 9 WHERE id = -1").await;
    world.source.run("SET SESSION binlog_format = 'ROW'").await;
    world.source.run("INSERT INTO t VALUES (2, 0), (3, 0)").await;
    world.source.run("INSERT INTO u VALUES (1)").await;
    for (statement, words) in [
        ("RENAME TABLE t TO away", "the statement renames"),
        ("RENAME TABLE away TO t", "it may touch"),
        ("UPDATE t SET v = 9 WHERE id = -1", "SET GLOBAL binlog_format = 'ROW'"),
    ] {
        let printed = world.stopped();
        for word in [statement, words, &table, "the source stands before binlog.", "instar accept FILE", "instar reload FILE TABLE"] {
            assert!(printed.contains(word), "{word} is not in: {printed}");
        }
        assert_eq!((world.count("t").await, world.count("u").await), (1, 0), "nothing passes the statement");
        let (code, said) = command(&world, "accept", &["--at", "elsewhere:4"]);
        assert!(code == 1 && said.contains(&format!("the source stands at {}", position(&world))), "{code} {said}");
        assert_eq!(command(&world, "accept", &["missing"]).0, 2);
        // So it does over a restart.
        world.pipeline.kill();
        world.pipeline.start();
        world.stopped();
        let at = position(&world);
        let (code, said) = command(&world, "accept", &[&table, "--at", &at]);
        assert_eq!(code, 0, "{said}");
        eventually("it is past the statement", PATIENCE, async || position(&world) != at).await;
        let entry = world.history("t").pop().unwrap();
        assert_eq!((&entry["ddl"], &entry["epoch"]), (&statement.into(), &serde_json::Value::Null), "{entry}");
        let outcome = &entry["outcomes"]["target"];
        assert_eq!(outcome["outcome"], "accepted", "{entry}");
        let reason = outcome["reason"].as_str().unwrap();
        assert!(reason.starts_with("accepted by ") && reason.ends_with(": no effect on this table"), "{entry}");
    }
    world.pipeline.caught_up();
    world.assert_equal().await;

    // It had an effect all the same: the next row's own metadata says so. Given twice, it is taken once.
    world.source.run("RENAME TABLE t TO old, shadow TO t").await;
    world.source.run("INSERT INTO t VALUES (9, 'nine', 9)").await;
    world.stopped();
    let at = position(&world);
    for _ in 0..2 {
        let (code, said) = command(&world, "accept", &["--at", &at]);
        // The first one may have led on by then.
        assert!(code == 0 || said.contains("the source stands at"), "{code} {said}");
    }
    eventually("it stands at the row", PATIENCE, async || {
        message(&world).contains("the log's metadata does not agree with the tracked shape")
    })
    .await;
    let said = message(&world);
    assert!(said.contains(&table) && said.contains("3 columns, 2 were expected") && !said.contains("instar accept"), "{said}");
    assert_eq!(world.count("t").await, 3, "no row of the other table is under its name");
    assert_eq!(command(&world, "reload", &[&table]).0, 0);
    world.pipeline.caught_up();
    world.assert_equal().await;
}

#[tokio::test]
async fn mariadb_goes_on_behind_what_is_accepted_and_stops_where_it_was_not_so() {
    accept("mariadb").await;
}

#[tokio::test]
async fn mysql_goes_on_behind_what_is_accepted_and_stops_where_it_was_not_so() {
    accept("mysql").await;
}
