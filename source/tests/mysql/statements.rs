//! Statements of every kind: what they say of captured tables, and that others pass.

use std::collections::BTreeMap;

use mysql_async::prelude::Queryable;
use schemas::{change::Kind, table::Table, wire::envelope::Op};
use source::engine::Engine;

use crate::{
    change::told,
    world::{BOTH, Flavour, Heard, Owned, World, by_table, hear, published, show},
};

/// What rows lead to: the value of `v` by key.
fn folded(rows: &[Owned], table: &Table) -> BTreeMap<Vec<u8>, String> {
    let fields = published(table).rows.fields;
    let mut state = BTreeMap::new();
    for row in rows {
        match row.op {
            Op::Delete => {
                assert!(state.remove(&row.key).is_some());
            }
            Op::Create => {
                assert!(state.insert(row.key.clone(), show(&fields, row.after.as_ref().unwrap())["v"].clone()).is_none());
            }
            Op::Update => {
                assert!(state.insert(row.key.clone(), show(&fields, row.after.as_ref().unwrap())["v"].clone()).is_some());
            }
            other => panic!("{other:?}"),
        }
    }
    state
}

fn kinds(heard: &Heard, of: &World, table: &str) -> Vec<Kind> {
    let id = of.table(table);
    let tables = heard.statements.iter().flat_map(|statement| &statement.tables).filter(|table| table.id == id);
    tables.flat_map(|table| table.changes.iter().map(schemas::change::SchemaChange::kind)).collect()
}

#[tokio::test]
async fn statements_over_several_tables_and_replacements_lead_to_the_servers_rows() {
    for flavour in BOTH {
        let Some(mut world) = World::new(flavour, "several").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE, v INT)").await;
        world.run("CREATE TABLE other (id INT PRIMARY KEY, v INT)").await;
        let mut engine = world.engine(&["t"]);
        let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let statements = [
            "INSERT INTO t VALUES (1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 4, 1), (5, 5, 1)",
            "INSERT INTO other VALUES (1, 10), (3, 30), (9, 90)",
            "REPLACE INTO t VALUES (1, 1, 2), (6, 6, 2)",
            // Takes away two rows, and puts one in their place.
            "REPLACE INTO t VALUES (2, 3, 3)",
            "INSERT INTO t VALUES (4, 4, 0), (7, 7, 4) ON DUPLICATE KEY UPDATE v = v + 40",
            "UPDATE t JOIN other ON t.id = other.id SET t.v = other.v, other.v = other.v + 1",
            "UPDATE other, t SET t.v = 77 WHERE t.id = 7 AND other.id = 9",
            "DELETE t, other FROM t JOIN other ON t.id = 5 AND other.id = 9",
            "CREATE TABLE alike LIKE t",
            "CREATE TABLE chosen SELECT * FROM t",
            "INSERT INTO t SELECT 100 + id, 100 + id, 9 FROM chosen",
            "DROP TABLE alike, chosen, other",
        ];
        for sql in statements {
            world.run(sql).await;
        }
        let (end, _) = engine.end().await.unwrap();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        let heard = hear(&mut stream, &mut by_table(&shapes), &end).await.unwrap();
        drop(stream);
        assert_eq!((heard.stands.len(), heard.statements.len()), (0, 0), "{flavour:?}: {:?}", heard.stands);
        let rows: Vec<(i64, i64)> = world.conn.query("SELECT id, v FROM t ORDER BY id").await.unwrap();
        let key = |id: i64| {
            let mut key = Vec::new();
            schemas::wire::codec::put_long(&mut key, id);
            key
        };
        let expected: BTreeMap<Vec<u8>, String> = rows.iter().map(|(id, v)| (key(*id), v.to_string())).collect();
        assert_eq!(rows.len(), 10, "{flavour:?}");
        assert_eq!(folded(&heard.rows, &shapes[0]), expected, "{flavour:?}");
    }
}

#[tokio::test]
async fn rows_that_are_logged_as_statements_stand_with_table_and_place_and_those_of_other_tables_pass() {
    for flavour in BOTH {
        let Some(mut world) = World::new(flavour, "as_text").await else { return };
        for sql in
            ["CREATE TABLE t (id INT PRIMARY KEY, a INT)", "CREATE TABLE other (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)"]
        {
            world.run(sql).await;
        }
        for format in ["STATEMENT", "MIXED"] {
            let set = format!("SET SESSION binlog_format = '{format}'");
            let passing = [
                set.as_str(),
                "INSERT INTO other VALUES (1, 1)",
                "UPDATE other SET a = a + 1",
                "DELETE FROM other",
                "SET SESSION binlog_format = 'ROW'",
                "UPDATE t SET a = a + 1",
            ];
            let heard = told(&mut world, &["t"], &passing).await;
            assert_eq!((heard.rows.len(), heard.stands), (1, Vec::new()), "{flavour:?} {format}");
            for sql in
                ["UPDATE t SET a = a + 1", "UPDATE other JOIN t ON other.id = t.id SET t.a = 5", "DELETE t FROM t JOIN other ON t.id = 77"]
            {
                let heard = told(&mut world, &["t"], &["SET SESSION binlog_format = 'ROW'", &set, sql]).await;
                assert_eq!(heard.stands.len(), 1, "{flavour:?} {format}: {sql}");
                for part in
                    ["rows were changed by a statement", "it_as_text.t", "the source stands before binlog.0", "binlog_format = 'ROW'"]
                {
                    assert!(heard.stands[0].contains(part), "{part}: {}", heard.stands[0]);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_dropped_table_among_others_and_a_dropped_database_are_told() {
    for flavour in BOTH {
        let Some(mut world) = World::new(flavour, "dropped").await else { return };
        for sql in ["CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)"]
        {
            world.run(sql).await;
        }
        let elsewhere = ["DROP DATABASE IF EXISTS it_dropped_2", "CREATE DATABASE it_dropped_2", "CREATE TABLE it_dropped_2.t (id INT)"];
        for sql in elsewhere {
            world.run(sql).await;
        }
        let statements = [
            "RENAME TABLE other TO another, another TO third",
            "DROP DATABASE it_dropped_2",
            "INSERT INTO t VALUES (1)",
            "DROP TABLE third, t",
            "INSERT INTO u VALUES (1)",
            "DROP DATABASE it_dropped",
        ];
        let heard = told(&mut world, &["t", "u"], &statements).await;
        assert_eq!((heard.rows.len(), heard.stands.len()), (2, 0), "{flavour:?}: {:?}", heard.stands);
        assert_eq!((kinds(&heard, &world, "t"), kinds(&heard, &world, "u")), (vec![Kind::DropTable], vec![Kind::DropTable]), "{flavour:?}");
    }
}

#[tokio::test]
async fn a_database_changes_its_charset_for_the_tables_that_come() {
    for flavour in BOTH {
        let Some(mut world) = World::new(flavour, "charset").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))").await;
        let mut engine = world.engine(&["t"]);
        let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        for sql in [
            "ALTER DATABASE CHARACTER SET latin1 COLLATE latin1_swedish_ci",
            // The table keeps its own.
            "ALTER TABLE t ADD COLUMN w VARCHAR(9)",
            "INSERT INTO t VALUES (1, 'é€', 'ж')",
            "DROP TABLE t",
            "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))",
            "INSERT INTO t VALUES (2, 'é€')",
        ] {
            world.run(sql).await;
        }
        let (end, now) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        let mut known = by_table(&shapes);
        let heard = hear(&mut stream, &mut known, &end).await.unwrap();
        assert_eq!((heard.rows.len(), heard.stands.len()), (2, 0), "{flavour:?}: {:?}", heard.stands);
        let shown = show(&known[&world.table("t")].rows.fields, heard.rows[1].after.as_ref().unwrap());
        assert_eq!(shown["v"], "é€", "{flavour:?}");
        let native = |table: &Table| table.columns.iter().map(|column| format!("{:?}", column.native)).collect::<Vec<_>>();
        assert_eq!(native(&known[&world.table("t")].shape), native(&now[0]), "{flavour:?}");
        assert!(native(&now[0])[1].contains("latin1"), "{:?}", native(&now[0]));
    }
}

#[tokio::test]
async fn partitions_that_take_rows_along_are_told_by_kind() {
    for flavour in BOTH {
        let Some(mut world) = World::new(flavour, "partitions").await else { return };
        let exchange = "ALTER TABLE t EXCHANGE PARTITION p1 WITH TABLE other";
        for (sql, kind) in [
            ("ALTER TABLE t TRUNCATE PARTITION p0", Kind::TruncatePartition),
            ("ALTER TABLE t DROP PARTITION p1", Kind::TruncatePartition),
            (exchange, Kind::MovePartition),
        ] {
            for prepare in [
                "DROP TABLE IF EXISTS t, other",
                "CREATE TABLE other (id INT PRIMARY KEY, v INT)",
                "CREATE TABLE t (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
            ] {
                world.run(prepare).await;
            }
            let heard = told(&mut world, &["t"], &["INSERT INTO t VALUES (1, 1), (11, 1)", sql]).await;
            assert_eq!((heard.rows.len(), heard.stands.len()), (2, 0), "{flavour:?}: {sql}: {:?}", heard.stands);
            assert_eq!(kinds(&heard, &world, "t"), [kind], "{flavour:?}: {sql}");
            // The other side of an exchange is changed as well.
            if sql == exchange {
                world.run("DELETE FROM other").await;
                let heard = told(&mut world, &["other"], &["INSERT INTO other VALUES (12, 1)", exchange]).await;
                assert_eq!(kinds(&heard, &world, "other"), [Kind::MovePartition], "{flavour:?}: {:?}", heard.stands);
            }
        }
    }
}

#[tokio::test]
async fn a_table_with_system_versioning_is_refused_by_name_before_anything_is_read() {
    let Some(mut world) = World::new(Flavour::MariaDb, "versioned").await else { return };
    world.run("CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING").await;
    world.run("CREATE TABLE u (id INT PRIMARY KEY, v INT)").await;
    let problems = world.engine(&["t"]).preflight().await.unwrap();
    let named = |p: &&source::engine::Problem| p.fatal && p.what.contains("it_versioned.t") && p.what.contains("system versioning");
    assert_eq!(problems.iter().filter(named).count(), 1, "{problems:?}");
    // One that gets it later: no row of the past becomes a row of the source.
    let heard =
        told(&mut world, &["u"], &["INSERT INTO u VALUES (1, 1)", "ALTER TABLE u ADD SYSTEM VERSIONING", "UPDATE u SET v = 2"]).await;
    assert_eq!(heard.rows.len(), 1);
    assert!(heard.stands.len() == 1 && heard.stands[0].contains("it_versioned.u"), "{:?} {:?}", heard.stands, heard.statements);
}
