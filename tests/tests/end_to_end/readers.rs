//! Readers of the topics that are not ours see the source's rows: a plain Avro consumer in Python, and Flink by SQL.

use std::{collections::BTreeMap, process::Command};

use serde_json::Value as Json;
use tests::{
    kafka,
    pipeline::{Transport, data, text},
};

use crate::world::{Options, World};

/// Rows by key, cell by cell as text; None is NULL.
type Rows = BTreeMap<String, Vec<Option<String>>>;

fn reader(script: &str, arguments: &[&str]) -> String {
    let script = data(&format!("readers/{script}.sh"));
    for verb in [&["install"][..], &[&["read"], arguments].concat()] {
        let output = Command::new(&script).args(verb).output().expect("a reader");
        assert!(output.status.success(), "{} {verb:?}: {}", script.display(), text(&output));
        if verb[0] == "read" {
            return String::from_utf8(output.stdout).expect("UTF-8");
        }
    }
    unreachable!("the last verb reads")
}

async fn source_rows(world: &mut World, columns: &str) -> Rows {
    world.source.run("SET time_zone = '+00:00'").await;
    let rows = world.source.query(&format!("SELECT {columns} FROM t")).await.unwrap();
    let rows = rows.into_iter().map(|row| row.into_iter().map(|c| c.map(|c| String::from_utf8(c).unwrap())).collect::<Vec<_>>());
    rows.map(|row| (row[0].clone().expect("a key"), row)).collect()
}

/// A world whose rows came by a copy, by inserts, updates and deletes, and whose table changed its shape between them.
async fn changed_world(name: &str) -> World {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(10,2) NOT NULL, big BIGINT UNSIGNED, born DATE, at DATETIME(6), \
                 stamp TIMESTAMP(3) NULL, clock TIME(6), w DOUBLE, raw VARBINARY(20));\n\
                 INSERT INTO t SELECT seq, CONCAT('Köln ', seq), seq / 7, 18446744073709551615 - seq, '2024-02-29' - INTERVAL seq DAY, \
                 '2024-01-02 03:04:05.678901' + INTERVAL seq MINUTE, '2024-01-02 03:04:05.678', SEC_TO_TIME(seq), seq / 3, UNHEX(HEX(seq)) FROM seq_1_to_500;";
    let options = Options { transport: Transport::Kafka, ..Options::default() };
    let mut world = World::with(name, setup, &["t"], options).await;
    let source = world.pipeline.source("source");
    let sinks = [world.pipeline.sink("sink-1"), world.pipeline.sink("sink-2")];
    world.pipeline.caught_up();
    world.source.run("UPDATE t SET name = NULL, price = -price, at = NULL WHERE id % 5 = 0").await;
    world.source.run("DELETE FROM t WHERE id % 7 = 0").await;
    world.source.run("ALTER TABLE t ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT 'none' AFTER name").await;
    world.source.run("INSERT INTO t (id, name, note, price) SELECT seq, 'later', CONCAT('note ', seq), 1 FROM seq_1001_to_1100").await;
    world.source.run("UPDATE t SET id = id + 5000 WHERE id < 20").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    for process in sinks {
        assert_eq!(process.stop(), 0);
    }
    assert_eq!(source.stop(), 0);
    world
}

#[tokio::test]
async fn a_plain_avro_consumer_reads_the_rows() {
    let mut world = changed_world("readers_plain").await;
    let printed = reader("plain_avro", &["readers_plain.readers_plain.t"]);
    let columns = ["id", "name", "note", "price", "big", "born", "at", "stamp", "w", "raw"];
    let (mut rows, mut places) = (Rows::new(), BTreeMap::new());
    for line in printed.lines() {
        let record: Json = serde_json::from_str(line).expect("JSON");
        let key = cell(&record["key"]["id"]).expect("a key");
        let place = places.entry(key.clone()).or_insert_with(|| record["partition"].clone());
        assert_eq!(*place, record["partition"], "key {key} is in one lane");
        match record["op"].as_str() {
            Some("c" | "u" | "r") => {
                let after = &record["after"];
                rows.insert(
                    key,
                    columns.iter().map(|c| if after.get(c).is_some() { cell(&after[*c]) } else { Some("none".into()) }).collect(),
                );
            }
            Some("d") => drop(rows.remove(&key).expect("the deleted row")),
            other => panic!("{other:?}: {line}"),
        }
    }
    let counts = kafka::Topics::shared().counts("readers_plain.readers_plain.t");
    assert_eq!(counts.iter().sum::<u64>(), printed.lines().count() as u64);
    assert!(counts.iter().all(|n| *n > 0), "all lanes have rows: {counts:?}");
    let query = "id, name, note, price, big, born, at, CAST(stamp AS DATETIME(6)), IF(w = FLOOR(w), FORMAT(w, 1), w), LOWER(HEX(raw))";
    same(&source_rows(&mut world, query).await, &rows);
}

#[tokio::test]
async fn flink_reads_the_rows_by_sql() {
    let mut world = changed_world("readers_flink").await;
    let file = world.pipeline.folder.join("read.sql");
    // Instants are microseconds since 1970: Flink's own TIMESTAMP would take them for milliseconds.
    let sql = format!(
        "CREATE TABLE t (id INT, name STRING, price DECIMAL(10, 2), big DECIMAL(20, 0), born DATE, `at` BIGINT) WITH (\n\
         'connector' = 'kafka', 'topic' = 'readers_flink.readers_flink.t', 'properties.bootstrap.servers' = '{}',\n\
         'properties.isolation.level' = 'read_committed', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',\n\
         'format' = 'debezium-avro-confluent', 'debezium-avro-confluent.url' = '{}');\n\
         SELECT id, name, price, big, born, `at` FROM t;\n",
        kafka::brokers(),
        kafka::registry()
    );
    std::fs::write(&file, sql).unwrap();
    let printed = reader("flink", &[file.to_str().unwrap()]);
    let mut rows = Rows::new();
    for line in printed.lines() {
        let mut cells = line.split('\t').map(|c| (c != "null").then(|| c.to_owned()));
        let kind = cells.next().flatten().expect("a kind");
        let row: Vec<Option<String>> = cells.collect();
        let key = row[0].clone().expect("a key");
        match kind.as_str() {
            "+I" | "+U" => drop(rows.insert(key, row)),
            "-U" => {}
            "-D" => drop(rows.remove(&key).expect("the deleted row")),
            other => panic!("{other}: {line}"),
        }
    }
    let micros = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at)";
    same(&source_rows(&mut world, &format!("id, name, price, big, born, {micros}")).await, &rows);
}

fn cell(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn same(source: &Rows, read: &Rows) {
    assert_eq!(source.len(), read.len(), "rows at the source, rows that were read");
    for (key, row) in source {
        assert_eq!(Some(row), read.get(key), "key {key}");
    }
}
