//! Updates of JSON documents that the log has as differences (`binlog_row_value_options=PARTIAL_JSON`), on MySQL.

use mysql_async::{Row, prelude::Queryable};
use source::engine::Engine;

use crate::world::{Flavour, World, by_table, copy, hear, published, show};

/// Types of the events behind a place, in order, up to the end of all files.
async fn events(world: &mut World, file: &str, offset: u64) -> Vec<String> {
    let files: Vec<Row> = world.conn.query("SHOW BINARY LOGS").await.unwrap();
    let files = files.iter().map(|row| row.get::<String, _>(0).unwrap()).filter(|name| name.as_str() >= file);
    let mut types = Vec::new();
    for name in files {
        let from = if name == file { offset } else { 4 };
        let rows: Vec<Row> = world.conn.query(format!("SHOW BINLOG EVENTS IN '{name}' FROM {from}")).await.unwrap();
        types.extend(rows.iter().map(|row| row.get::<String, _>(2).unwrap()));
    }
    types
}

#[tokio::test]
async fn differences_lead_to_the_document_that_the_server_has() {
    let Some(mut world) = World::new(Flavour::MySql, "partial").await else { return };
    world.run("CREATE TABLE t (id INT PRIMARY KEY, j JSON NOT NULL, n INT, k JSON, x TEXT, l JSON)").await;
    let long = "x".repeat(90);
    let long = format!(
        r#"{{"a": 1, "b": "{long}", "c": [1, 2, {{"d": [10, 20, "{long}"]}}], "e": {{"f.g": 1.50, "h \"i": true, "ü": null}}, "long": "{long}"}}"#
    );
    world.conn.exec_drop("INSERT INTO t VALUES (1, ?, 1, ?, 'x', ?)", (&long, &long, &long)).await.unwrap();
    world.conn.exec_drop("INSERT INTO t VALUES (2, ?, 1, NULL, 'y', '[]')", (&long,)).await.unwrap();
    let mut engine = world.engine(&["t"]);
    let (mut from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
    let begin = from.clone();
    world.run("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'").await;
    let table = published(&shapes[0]);
    for change in [
        "j = JSON_SET(j, '$.a', 22)",
        "j = JSON_SET(j, '$.b', 'short')",
        "j = JSON_SET(j, '$.b', 'short', '$.c[1]', CAST('{\"new\": [1]}' AS JSON))",
        "j = JSON_SET(j, '$.c[2].d[1]', 1.25)",
        "j = JSON_SET(j, '$.c[9]', 'appended')",
        "j = JSON_SET(j, '$.zz', 1, '$.z', 2, '$.zzzzzzzz', 3)",
        "j = JSON_REPLACE(j, '$.e.\"f.g\"', CAST('2024-02-29 01:02:03.5' AS DATETIME(3)))",
        "j = JSON_REPLACE(j, '$.e.\"h \\\\\"i\"', FALSE)",
        "j = JSON_SET(j, '$.e.ü', 'größer', '$.e.\"new key\"', NULL)",
        "j = JSON_REMOVE(j, '$.c[0]')",
        "j = JSON_REMOVE(j, '$.a', '$.e.ü')",
        "j = JSON_SET(j, '$.b', 18446744073709551615), n = n + 1, k = JSON_REMOVE(k, '$.c')",
        "l = JSON_SET(l, '$.a', -1), x = 'z'",
        "k = JSON_SET(k, '$.e', CAST('[]' AS JSON)), l = JSON_REMOVE(l, '$.e', '$.c')",
        "j = JSON_REPLACE(j, '$.none', 1), n = n + 1",
        "k = JSON_SET(k, '$[0].a', 3)",
        "k = JSON_SET(k, '$.b[1]', 'wrapped')",
        "j = '{\"whole\": 1}'",
        "j = JSON_SET(j, '$.whole', 2), k = NULL",
        "n = n + 1",
    ] {
        let sql = format!("UPDATE t SET {change}");
        world.run(&sql).await;
        let (end, _) = engine.end().await.unwrap();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        let heard = hear(&mut stream, &mut by_table(&shapes), &end).await.unwrap();
        drop(stream);
        assert_eq!(heard.stands, Vec::<String>::new(), "{sql}");
        for row in copy(&engine, &table, &end).await.unwrap() {
            let Some(update) = heard.rows.iter().find(|update| update.key == row.key) else { continue };
            let shown = |image: &Option<Vec<u8>>| show(&table.rows.fields, image.as_ref().unwrap());
            assert_eq!(shown(&update.after), shown(&row.after), "{sql}");
            assert!(update.absent_after.is_empty() && update.absent_before.is_empty());
        }
        assert!(!heard.rows.is_empty(), "{sql}");
        from = end;
    }
    let events = events(&mut world, &begin.file, begin.offset).await;
    let partial = events.iter().filter(|event| *event == "Update_rows_partial").count();
    assert!(partial >= 15, "{events:?}");
}

/// MINIMAL leaves the document out of the before image; NOBLOB has it, for JSON is no BLOB there.
#[tokio::test]
async fn a_difference_without_its_document_stops_and_other_columns_do_not() {
    for image in ["MINIMAL", "NOBLOB"] {
        let Some(mut world) = World::new(Flavour::MySql, "partial_minimal").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, k JSON, a INT, b TEXT, j JSON)").await;
        let text = "x".repeat(200);
        world.run(&format!(r#"INSERT INTO t VALUES (1, '[1, "{text}"]', 1, 'b', '{{"a": 1, "b": "{text}"}}')"#)).await;
        let mut engine = world.engine(&["t"]);
        let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        world.run(&format!("SET SESSION binlog_row_value_options = 'PARTIAL_JSON', binlog_row_image = '{image}'")).await;
        world.run("UPDATE t SET a = 7").await;
        let (end, _) = engine.end().await.unwrap();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        let heard = hear(&mut stream, &mut by_table(&shapes), &end).await.unwrap();
        assert_eq!((heard.rows.len(), heard.stands.len()), (1, 0), "{image}");
        let absent: &[&str] = if image == "MINIMAL" { &["k", "b", "j"] } else { &["b"] };
        assert_eq!(heard.rows[0].absent_after, absent, "{image}");
        world.run("UPDATE t SET j = JSON_SET(j, '$.a', 2)").await;
        let (end, _) = engine.end().await.unwrap();
        let told = hear(&mut stream, &mut by_table(&shapes), &end).await;
        if image == "NOBLOB" {
            let shown = show(&published(&shapes[0]).rows.fields, told.unwrap().rows[0].after.as_ref().unwrap());
            assert_eq!(shown["j"], format!(r#"{{"a": 2, "b": "{text}"}}"#));
            continue;
        }
        let error = told.unwrap_err().to_string();
        for part in ["it_partial_minimal.t", "column `j`", "partial JSON", "binlog.0", "binlog_row_image=FULL"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
