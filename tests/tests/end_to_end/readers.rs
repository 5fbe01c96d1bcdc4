//! Readers of the topics that are not ours see the source's rows: a plain Avro consumer in Python, and Flink by SQL.

use std::{collections::BTreeMap, process::Command};

use serde_json::{Value as Json, json};
use tests::{
    kafka,
    pipeline::{Transport, data, text},
};

use crate::{
    change::{TYPES, VALUES},
    world::{Options, World},
};

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

/// All records of a table's topic as a plain consumer prints them, partition by partition.
fn records(world: &World, table: &str) -> Vec<Json> {
    let printed = reader("plain_avro", &[&format!("{0}.{0}.{table}", world.name)]);
    printed.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn seq(record: &Json) -> i64 {
    record["seq"].as_i64().unwrap_or_else(|| panic!("no seq: {record}"))
}

/// In every partition `seq` grows and `epoch` does not shrink; no `seq` is there twice.
fn assert_order(records: &[Json]) {
    for pair in records.windows(2).filter(|pair| pair[0]["partition"] == pair[1]["partition"]) {
        assert!(seq(&pair[0]) < seq(&pair[1]), "{pair:#?}");
        assert!(pair[0]["epoch"].as_i64() <= pair[1]["epoch"].as_i64(), "{pair:#?}");
        assert!(pair[0]["offset"].as_i64() < pair[1]["offset"].as_i64(), "{pair:#?}");
    }
    let all: std::collections::BTreeSet<i64> = records.iter().map(seq).collect();
    assert_eq!(all.len(), records.len());
}

/// The source's own text of a value in the form in which the reader prints it.
fn printed(column: &str, data_type: &str, bits: u32) -> String {
    match data_type {
        "bit" => format!("LPAD(LOWER(HEX(`{column}` + 0)), {}, '0')", bits.div_ceil(8) * 2),
        "binary" | "varbinary" | "blob" | "longblob" | "geometry" => format!("LOWER(HEX(`{column}`))"),
        "float" | "double" => format!("CAST(`{column}` AS DOUBLE)"),
        "datetime" | "timestamp" => format!("DATE_FORMAT(`{column}`, '%Y-%m-%d %H:%i:%s.%f')"),
        "time" => format!("CAST(TIME_TO_SEC(`{column}`) * 1000000 AS SIGNED)"),
        "year" => format!("`{column}` + 0"),
        _ => format!("`{column}`"),
    }
}

/// Floats in this program's own text: both sides print the number exactly, but not alike.
fn number(data_type: &str, text: String) -> String {
    if matches!(data_type, "float" | "double") { format!("{:?}", text.parse::<f64>().unwrap()) } else { text }
}

/// The source's rows by id, every column in the reader's form.
async fn rows_by_id(world: &mut World, table: &str) -> BTreeMap<i64, BTreeMap<String, Option<String>>> {
    let columns = world
        .source
        .query(&format!(
            "SELECT COLUMN_NAME, LOWER(DATA_TYPE), COALESCE(NUMERIC_PRECISION, 0) FROM information_schema.COLUMNS \
             WHERE TABLE_SCHEMA = '{}' AND TABLE_NAME = '{table}' ORDER BY ORDINAL_POSITION",
            world.name
        ))
        .await
        .unwrap();
    let columns: Vec<(String, String, u32)> = columns
        .into_iter()
        .map(|row| {
            let part = |i: usize| String::from_utf8(row[i].clone().unwrap()).unwrap();
            (part(0), part(1), part(2).parse().unwrap())
        })
        .collect();
    let expressions: Vec<String> = columns.iter().map(|(name, data_type, bits)| printed(name, data_type, *bits)).collect();
    let rows = world.source.query(&format!("SELECT {} FROM `{table}`", expressions.join(", "))).await.unwrap();
    let rows = rows.into_iter().map(|row| {
        let cells: BTreeMap<String, Option<String>> = columns
            .iter()
            .zip(row)
            .map(|((name, data_type, _), value)| {
                let text = value.map(|bytes| String::from_utf8(bytes).unwrap());
                (name.clone(), text.map(|text| number(data_type, text)))
            })
            .collect();
        (cells["id"].as_deref().unwrap().parse().unwrap(), cells)
    });
    rows.collect()
}

fn cells(row: &Json) -> BTreeMap<String, Option<String>> {
    row.as_object().unwrap_or_else(|| panic!("no row: {row}")).iter().map(|(name, value)| (name.clone(), cell(value))).collect()
}

#[tokio::test]
async fn a_plain_avro_consumer_reads_every_type_as_the_source_has_it() {
    let options = Options { transport: Transport::Kafka, apart: true, ..Options::default() };
    let mut world = World::with("reader_types", TYPES, &["every"], options).await;
    world.source.run("SET time_zone = '+00:00'").await;
    for (id, values) in VALUES.iter().enumerate() {
        world.source.run(&format!("INSERT INTO every VALUES ({id}, {values})")).await;
    }
    world.start();
    for (id, values) in VALUES.iter().enumerate() {
        world.source.run(&format!("INSERT INTO every VALUES ({}, {values})", id + 10)).await;
    }
    world.source.run("UPDATE every SET v = CONCAT(COALESCE(v, ''), '!') WHERE id >= 10").await;
    world.source.run("INSERT INTO every (id) VALUES (20)").await;
    world.source.run("DELETE FROM every WHERE id = 20").await;
    world.pipeline.caught_up();
    world.assert_equal().await;

    let mut records = records(&world, "every");
    assert_order(&records);
    records.sort_by_key(seq);
    let ops: String = records.iter().filter_map(|r| r["op"].as_str()).collect();
    assert_eq!((ops.as_str(), records.len()), ("rrrcccuuucd", 11), "a record for each change of a row");
    // The rows as this reader has them when it has followed all records.
    let mut rows: BTreeMap<i64, BTreeMap<String, Option<String>>> = BTreeMap::new();
    for record in &records {
        let id = record["key"]["id"].as_i64().expect("a key");
        let before = record["before"].as_object().map(|_| cells(&record["before"]));
        assert_eq!(rows.remove(&id), before, "what was there is what the record says was there");
        if !record["after"].is_null() {
            rows.insert(id, cells(&record["after"]));
        }
        assert_eq!(record["source"]["snapshot"], json!(record["op"] == "r"));
        assert_eq!((&record["source"]["database"], &record["source"]["table"]), (&"reader_types".into(), &"every".into()));
    }
    let source = rows_by_id(&mut world, "every").await;
    assert_eq!(rows.len(), 6);
    for (id, row) in &source {
        for (column, value) in row {
            let floats = if matches!(column.as_str(), "f" | "df") { "double" } else { "" };
            let read = rows[id][column].clone().map(|text| number(floats, text));
            assert_eq!(&read, value, "row {id}, column {column}");
        }
        assert_eq!(rows[id].len(), row.len());
    }
    assert_eq!(rows.keys().collect::<Vec<_>>(), source.keys().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_plain_avro_consumer_reads_each_record_under_the_shape_that_its_row_had() {
    let options = Options { transport: Transport::Kafka, apart: true, ..Options::default() };
    let mut world = World::with("reader_shapes", "CREATE TABLE t (id INT PRIMARY KEY, v INT);", &["t"], options).await;
    world.start();
    for statement in [
        "INSERT INTO t VALUES (1, 10)",
        "ALTER TABLE t CHANGE v w BIGINT NOT NULL",
        "UPDATE t SET w = 5000000000 WHERE id = 1",
        "ALTER TABLE t ADD COLUMN n VARCHAR(9) DEFAULT 'x' FIRST",
        "UPDATE t SET id = 2 WHERE id = 1",
        "TRUNCATE TABLE t",
        "INSERT INTO t (id, w) VALUES (3, 30)",
        "DELETE FROM t WHERE id = 3",
    ] {
        world.source.run(statement).await;
    }
    world.pipeline.caught_up();
    world.assert_equal().await;

    let mut records = records(&world, "t");
    assert_order(&records);
    records.sort_by_key(seq);
    let truncates: Vec<&Json> = records.iter().filter(|r| r["op"] == "t").collect();
    let lanes: Vec<i64> = truncates.iter().filter_map(|r| r["partition"].as_i64()).collect();
    assert_eq!(lanes, [0, 1, 2, 3], "TRUNCATE is told in each partition");
    assert!(truncates.iter().all(|r| r["before"].is_null() && r["after"].is_null()), "{truncates:?}");
    let changes: Vec<Json> = records
        .iter()
        .filter(|r| r["op"] != "t")
        .map(|r| json!([r["op"], r["key"]["id"], r["before"], r["after"], r["source"]["schema_version"]]))
        .collect();
    assert_eq!(
        Json::from(changes),
        json!([
            ["c", 1, null, { "id": 1, "v": 10 }, 1],
            ["u", 1, { "id": 1, "w": 10 }, { "id": 1, "w": 5_000_000_000_i64 }, 2],
            ["d", 1, { "n": "x", "id": 1, "w": 5_000_000_000_i64 }, null, 3],
            ["c", 2, null, { "n": "x", "id": 2, "w": 5_000_000_000_i64 }, 3],
            ["c", 3, null, { "n": "x", "id": 3, "w": 30 }, 4],
            ["d", 3, { "n": "x", "id": 3, "w": 30 }, null, 4],
        ])
    );
    // No record without a value: topics carry no tombstones.
    assert!(records.iter().all(|r| r["op"].is_string()), "{records:?}");
}
