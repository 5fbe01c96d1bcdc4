//! A pipeline's topics as a reader that is not ours sees them: confluent-kafka and fastavro, with schemas from the registry.

use std::{collections::BTreeMap, process::Command};

use serde_json::{Value as Json, json};
use tests::pipeline::{Transport, data, text};

use crate::{
    change::{TYPES, VALUES},
    world::{Options, World},
};

/// The committed records of a table's topic, partition by partition.
fn read(world: &World, table: &str) -> Vec<Json> {
    let script = data("readers/plain_avro.sh");
    let installed = Command::new(&script).arg("install").output().expect("the reader's script");
    assert!(installed.status.success(), "{}", text(&installed));
    let topic = format!("{0}.{0}.{table}", world.name);
    let output = Command::new(&script).args(["read", &topic]).output().expect("the reader");
    assert!(output.status.success(), "{topic}: {}", text(&output));
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    lines.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
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

/// A cell as text.
fn cell(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Floats in this program's own text: both sides print the number exactly, but not alike.
fn number(data_type: &str, text: String) -> String {
    if matches!(data_type, "float" | "double") { format!("{:?}", text.parse::<f64>().unwrap()) } else { text }
}

/// The source's rows by id, every column in the reader's form.
async fn source_rows(world: &mut World, table: &str) -> BTreeMap<i64, BTreeMap<String, Option<String>>> {
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

    let mut records = read(&world, "every");
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
    let source = source_rows(&mut world, "every").await;
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

    let mut records = read(&world, "t");
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

/// What Flink makes of a topic: the rows that are left when its changes have been followed, as it prints them.
fn flink(sql: &str, world: &World) -> Vec<String> {
    let script = data("readers/flink.sh");
    let installed = Command::new(&script).arg("install").output().expect("the reader's script");
    assert!(installed.status.success(), "{}", text(&installed));
    let file = world.pipeline.folder.join("flink.sql");
    std::fs::write(&file, sql).expect("the statements");
    let output = Command::new(&script).arg("read").arg(&file).output().expect("Flink");
    assert!(output.status.success(), "{}", text(&output));
    let mut rows: Vec<String> = Vec::new();
    for line in String::from_utf8(output.stdout).expect("UTF-8").lines() {
        let (kind, row) = line.split_once('\t').unwrap_or_else(|| panic!("no change: {line}"));
        if matches!(kind, "+I" | "+U") {
            rows.push(row.to_owned());
        } else {
            let place = rows.iter().position(|there| there == row).unwrap_or_else(|| panic!("{kind} of a row that is not there: {row}"));
            rows.swap_remove(place);
        }
    }
    rows.sort();
    rows
}

#[tokio::test]
#[ignore = "160 MB of Maven packages and half a gigabyte of memory: cargo test -p tests --test end_to_end -- --ignored flink"]
async fn flink_reads_rows_by_its_own_debezium_format() {
    let options = Options { transport: Transport::Kafka, apart: true, ..Options::default() };
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, b BIGINT, d DECIMAL(20,6), f DOUBLE, v VARCHAR(40), bl VARBINARY(9), da DATE, gone INT);\n\
                 INSERT INTO t SELECT seq, seq * 5000000000, seq / 7, seq / 4, CONCAT('é ', seq), UNHEX(HEX(seq)), DATE_ADD('2024-02-28', INTERVAL seq DAY), seq FROM seq_1_to_200;";
    let mut world = World::with("reader_flink", setup, &["t"], options).await;
    world.start();
    for statement in [
        "INSERT INTO t (id) VALUES (1000)",
        "UPDATE t SET v = CONCAT(v, '!'), d = -d WHERE id % 3 = 0",
        "DELETE FROM t WHERE id % 7 = 0",
        "ALTER TABLE t DROP COLUMN gone, ADD COLUMN n INT NOT NULL DEFAULT 7",
        "INSERT INTO t (id, v, n) VALUES (1001, 'later', 8)",
        "UPDATE t SET id = id + 5000 WHERE id % 11 = 0",
        "UPDATE t SET n = NULLIF(n, 0), v = NULL WHERE id % 13 = 0",
    ] {
        world.source.run(statement).await;
    }
    world.pipeline.caught_up();
    world.assert_equal().await;
    let sql = format!(
        "CREATE TABLE t (id INT, b BIGINT, d DECIMAL(20, 6), f DOUBLE, v STRING, bl BYTES, da DATE) WITH (\n\
         'connector' = 'kafka', 'topic' = 'reader_flink.reader_flink.t', 'properties.bootstrap.servers' = '{}',\n\
         'properties.isolation.level' = 'read_committed', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',\n\
         'format' = 'debezium-avro-confluent', 'debezium-avro-confluent.url' = '{}');\n\
         SELECT * FROM t;\n",
        tests::kafka::brokers(),
        tests::kafka::registry()
    );
    let rows = flink(&sql, &world);
    let source = world.source.query("SELECT id, b, d, CAST(f AS DOUBLE), v, LOWER(HEX(bl)), da FROM t").await.unwrap();
    let mut expected: Vec<String> = source
        .into_iter()
        .map(|row| {
            let cells = row.into_iter().enumerate().map(|(i, cell)| {
                let text = cell.map(|bytes| String::from_utf8(bytes).unwrap());
                text.map_or("null".into(), |text| if i == 3 { format!("{:?}", text.parse::<f64>().unwrap()) } else { text })
            });
            cells.collect::<Vec<_>>().join("\t")
        })
        .collect();
    expected.sort();
    assert_eq!(rows, expected);
}
