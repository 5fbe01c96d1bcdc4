//! Rows and statements in their order, restarts, and everything the stream stands at.

use schemas::{change::Kind, wire::envelope::Op};
use source::{
    engine::{Engine, Entry, Position as _, Stream},
    mysql::position::{Gtids, Position},
};

use crate::world::{ALL, Flavour, Heard, MARIADBS, Owned, Rows, World, by_table, hear, published, show};

/// Runs statements behind a pinned position and returns what the stream says of table `t` and those of `tables`.
pub async fn told(world: &mut World, tables: &[&str], statements: &[&str]) -> Heard {
    let mut engine = world.engine(tables);
    let (from, shapes) = engine.pinned(&world.ids(tables)).await.unwrap();
    let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
    for sql in statements {
        world.run(sql).await;
    }
    let (end, _) = engine.end().await.unwrap();
    hear(&mut stream, &mut by_table(&shapes), &end).await.unwrap()
}

fn ops(rows: &[Owned]) -> Vec<Op> {
    rows.iter().map(|row| row.op).collect()
}

#[tokio::test]
async fn a_changed_key_is_a_delete_and_a_create() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "keys").await else { return };
        world.run("CREATE TABLE t (a INT, b VARCHAR(9), c INT, PRIMARY KEY (b, a))").await;
        let statements = [
            "INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)",
            "UPDATE t SET c = 9 WHERE a = 1",
            "UPDATE t SET b = 'z' WHERE a = 2",
            "DELETE FROM t WHERE a = 1",
        ];
        let heard = told(&mut world, &["t"], &statements).await;
        assert_eq!(ops(&heard.rows), [Op::Create, Op::Create, Op::Update, Op::Delete, Op::Create, Op::Delete]);
        let key = |row: &Owned| row.key.clone();
        // Key columns in the key's order: b, then a.
        assert_eq!(key(&heard.rows[3]), [&[2][..], b"y", &[4]].concat());
        assert_eq!(key(&heard.rows[4]), [&[2][..], b"z", &[4]].concat());
        assert!(heard.rows[3].after.is_none() && heard.rows[4].before.is_none());
        assert_eq!(heard.commits.len(), 4);
    }
}

#[tokio::test]
async fn a_unique_index_without_nulls_is_the_key_that_the_log_tells_too() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "unique").await else { return };
        world.run("CREATE TABLE t (a INT, b INT NOT NULL, c INT NOT NULL, p VARCHAR(9) NOT NULL, UNIQUE ua (a), UNIQUE up (p(2)), UNIQUE uc (c, b))").await;
        let heard = told(&mut world, &["t"], &["INSERT INTO t VALUES (NULL, 1, 2, 'x')", "UPDATE t SET a = 5 WHERE b = 1"]).await;
        assert_eq!(ops(&heard.rows), [Op::Create, Op::Update]);
        assert_eq!(heard.rows[1].key, [4, 2]);
    }
}

#[tokio::test]
async fn shapes_move_on_with_the_statements_and_end_as_the_catalog_has_them() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "ddl").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10), b INT)").await;
        world.run("CREATE TABLE other (id INT PRIMARY KEY)").await;
        let mut engine = world.engine(&["t"]);
        let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        for sql in [
            "INSERT INTO t VALUES (1, 'x', 2)",
            "ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 7 AFTER a",
            "INSERT INTO t VALUES (2, 'y', 3, 4)",
            "ALTER TABLE other ADD COLUMN z INT",
            "ALTER TABLE t CHANGE b bb BIGINT UNSIGNED, DROP COLUMN a",
            "INSERT INTO t VALUES (3, 5, 18446744073709551615)",
            "TRUNCATE TABLE t",
            "CREATE TABLE noise AS SELECT 1 AS one",
            "DROP TABLE noise, other",
            "INSERT INTO t VALUES (4, 6, 8)",
        ] {
            world.run(sql).await;
        }
        let (end, now) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let mut known = by_table(&shapes);
        let heard = hear(&mut stream, &mut known, &end).await.unwrap();
        assert_eq!(heard.stands, Vec::<String>::new());
        assert_eq!(heard.rows.len(), 4);
        let kinds: Vec<Vec<Kind>> =
            heard.statements.iter().map(|s| s.tables.iter().flat_map(|t| &t.changes).map(|c| c.kind()).collect()).collect();
        assert_eq!(kinds[0], [Kind::AddColumnConstantDefault]);
        assert!(kinds[1].contains(&Kind::DropColumn) && kinds[1].contains(&Kind::RenameColumn), "{kinds:?}");
        assert_eq!(kinds[2], [Kind::TruncateTable]);
        assert_eq!(kinds.len(), 3);
        let tracked = &known[&world.table("t")].shape;
        let plain =
            |t: &schemas::table::Table| t.columns.iter().map(|c| (c.name.clone(), c.native.clone(), c.nullable)).collect::<Vec<_>>();
        assert_eq!(plain(tracked), plain(&now[0]));
        let last = show(&known[&world.table("t")].rows.fields, heard.rows[3].after.as_ref().unwrap());
        assert_eq!((last["id"].as_str(), last["c"].as_str(), last["bb"].as_str()), ("4", "6", "8"));
    }
}

#[tokio::test]
async fn a_restart_by_gtid_or_by_file_goes_on_where_it_was() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "restart").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY)").await;
        let mut engine = world.engine(&["t"]);
        let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        for id in 0..6 {
            world.run(&format!("INSERT INTO t VALUES ({id})")).await;
            if id == 2 {
                world.run("FLUSH BINARY LOGS").await;
            }
        }
        let (end, _) = engine.end().await.unwrap();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        let heard = hear(&mut stream, &mut by_table(&shapes), &end).await.unwrap();
        assert_eq!((heard.rows.len(), heard.commits.len()), (6, 6));
        drop(stream);
        assert!(!matches!(from.gtids, Gtids::None));
        for (i, commit) in heard.commits.iter().enumerate() {
            let stored = Position::parse(&commit.to_string()).unwrap();
            assert_eq!(stored, *commit);
            let by_file = Position { gtids: Gtids::None, ..stored.clone() };
            for from in [stored, by_file] {
                let until = Position { gtids: from.gtids.clone(), ..end.clone() };
                let until = if until.gtids == Gtids::None { until } else { end.clone() };
                if from.reached(&until) {
                    continue;
                }
                let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
                let again = hear(&mut stream, &mut by_table(&shapes), &until).await.unwrap();
                assert_eq!(again.rows, heard.rows[i + 1..], "from {from}");
                drop(stream);
            }
        }
        let elsewhere = Position { gtids: Gtids::None, server: "another".into(), ..end.clone() };
        let error = engine.stream(&elsewhere, shapes.clone()).await.unwrap_err().to_string();
        assert!(error.contains("file and offset mean nothing here"), "{error}");
    }
}

#[tokio::test]
async fn rows_of_a_group_that_were_published_are_skipped() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "skip").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY)").await;
        let mut engine = world.engine(&["t"]);
        let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        world.run("INSERT INTO t VALUES (1), (2), (3)").await;
        loop {
            if let Entry::Rows { rows, .. } = stream.next().await.unwrap() {
                let mut sink = Rows::default();
                assert_eq!(stream.rows(rows, 2, &published(&shapes[0]), &mut sink).unwrap(), 3);
                assert_eq!(sink.0.len(), 1);
                assert_eq!(sink.0[0].key, [6]);
                break;
            }
        }
        drop(stream);
    }
}

#[tokio::test]
async fn the_stream_stands_where_it_cannot_follow() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "stands").await else { return };
        let stands: &[(&[&str], &str)] = &[
            (&["RENAME TABLE t TO _t_del, _t_gho TO t"], "renames"),
            (&["ALTER TABLE t RENAME TO gone"], "renames"),
            (&["SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO t VALUES (1, 1)"], "rows were changed by a statement"),
        ];
        for (statements, message) in stands {
            world.run("SET SESSION binlog_format = 'ROW'").await;
            for sql in
                ["DROP TABLE IF EXISTS t, _t_gho, _t_del, gone", "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "CREATE TABLE _t_gho LIKE t"]
            {
                world.run(sql).await;
            }
            let heard = told(&mut world, &["t"], statements).await;
            assert_eq!(heard.stands.len(), 1, "{statements:?}");
            assert!(heard.stands[0].contains(message) && heard.stands[0].contains("it_stands.t"), "{}", heard.stands[0]);
            assert!(heard.rows.is_empty() && heard.statements.is_empty());
        }
    }
}

#[tokio::test]
async fn a_skipped_table_goes_on_where_its_shape_is_pinned_and_others_lose_nothing() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "way_out").await else { return };
        for sql in [
            "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
            "CREATE TABLE u (id INT PRIMARY KEY)",
            "CREATE TABLE _t_gho (id INT PRIMARY KEY, x TEXT)",
        ] {
            world.run(sql).await;
        }
        let mut engine = world.engine(&["t", "u"]);
        let (from, shapes) = engine.pinned(&world.ids(&["t", "u"])).await.unwrap();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        for sql in [
            "INSERT INTO u VALUES (1)",
            "RENAME TABLE t TO _t_del, _t_gho TO t",
            "INSERT INTO t VALUES (1, 'lost to the stream')",
            "INSERT INTO u VALUES (2)",
        ] {
            world.run(sql).await;
        }
        let (end, _) = engine.end().await.unwrap();
        let mut known = by_table(&shapes);
        let heard = hear(&mut stream, &mut known, &end).await.unwrap();
        assert_eq!((heard.rows.len(), heard.stands.len()), (1, 1));
        let (until, new) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        stream.skip(new[0].clone(), until);
        known.insert(world.table("t"), published(&new[0]));
        world.run("INSERT INTO t VALUES (2, 'seen')").await;
        let (end, _) = engine.end().await.unwrap();
        let heard = hear(&mut stream, &mut known, &end).await.unwrap();
        assert_eq!(heard.stands, Vec::<String>::new());
        assert_eq!(heard.rows.iter().map(|row| row.key.clone()).collect::<Vec<_>>(), [[4], [4]]);
        let seen = show(&known[&world.table("t")].rows.fields, heard.rows[1].after.as_ref().unwrap());
        assert_eq!(seen["x"], "seen");
    }
}

#[tokio::test]
async fn temporary_tables_of_a_captured_name_are_not_the_captured_table() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "temporary").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)").await;
        let statements = [
            "INSERT INTO t VALUES (1, 1)",
            "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY)",
            "ALTER TABLE t ADD COLUMN z INT",
            "TRUNCATE TABLE t",
            "DROP TEMPORARY TABLE t",
            "INSERT INTO t VALUES (2, 2)",
        ];
        let heard = told(&mut world, &["t"], &statements).await;
        assert_eq!(heard.stands, Vec::<String>::new(), "{flavour:?}");
        assert_eq!((heard.rows.len(), heard.statements.len()), (2, 0), "{flavour:?}");
    }
}

#[tokio::test]
async fn a_two_phase_alter_changes_the_shape_at_its_commit_only() {
    for flavour in MARIADBS {
        let Some(mut world) = World::new(flavour, "two_phase").await else { continue };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)").await;
        let statements = [
            "SET SESSION binlog_alter_two_phase = 1",
            "INSERT INTO t VALUES (1, 1)",
            "ALTER TABLE t ADD COLUMN b INT, ALGORITHM=COPY",
            "INSERT INTO t VALUES (2, 2, 2)",
        ];
        let heard = told(&mut world, &["t"], &statements).await;
        assert_eq!(heard.stands, Vec::<String>::new());
        assert_eq!((heard.rows.len(), heard.statements.len()), (2, 1));
    }
}

#[tokio::test]
async fn a_failed_alter_of_two_phases_changes_nothing() {
    use mysql_async::prelude::Queryable;
    for flavour in MARIADBS {
        let Some(mut world) = World::new(flavour, "two_phase_failed").await else { continue };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)").await;
        world.run("INSERT INTO t VALUES (1, 1), (2, 1)").await;
        let mut engine = world.engine(&["t"]);
        let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        world.run("SET SESSION binlog_alter_two_phase = 1").await;
        let refused = world.conn.query_drop("ALTER TABLE t ADD UNIQUE (a), ALGORITHM=COPY").await;
        assert!(refused.is_err());
        world.run("INSERT INTO t VALUES (3, 3)").await;
        let (end, _) = engine.end().await.unwrap();
        let heard = hear(&mut stream, &mut by_table(&shapes), &end).await.unwrap();
        assert_eq!((heard.rows.len(), heard.statements.len(), heard.stands.len()), (1, 0, 0));
    }
}

#[tokio::test]
async fn compressed_logs_are_read() {
    let Some(mut world) = World::new(Flavour::MySql, "compressed").await else { return };
    world.run("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(2000))").await;
    let long = format!("INSERT INTO t VALUES (1, REPEAT('{}', 100)), (2, 'x')", "ab");
    let heard = told(
        &mut world,
        &["t"],
        &["SET SESSION binlog_transaction_compression = ON", &long, "ALTER TABLE t ADD b INT", "INSERT INTO t VALUES (3, 'y', 1)"],
    )
    .await;
    assert_eq!((heard.rows.len(), heard.statements.len(), heard.commits.len()), (3, 1, 2));

    for flavour in MARIADBS {
        let Some(mut world) = World::new(flavour, "compressed").await else { continue };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(2000))").await;
        world.run("SET GLOBAL log_bin_compress = ON").await;
        let update = "UPDATE t SET a = REPEAT('cd', 300)";
        let heard = told(&mut world, &["t"], &[&long, update, "ALTER TABLE t ADD COLUMN b INT COMMENT 'a comment that is long enough to be compressed, which takes more than 256 bytes: ________________________________________________________________________________________________________________________________________________________________________________________________'"]).await;
        world.run("SET GLOBAL log_bin_compress = OFF").await;
        assert_eq!(heard.stands, Vec::<String>::new());
        assert_eq!((ops(&heard.rows), heard.statements.len()), (vec![Op::Create, Op::Create, Op::Update, Op::Update], 1));
    }
}

#[tokio::test]
async fn zero_dates_stop_by_name_or_are_carried_as_text() {
    use schemas::types::Repr;
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "zero").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, d DATE, dt DATETIME(3), ts TIMESTAMP NULL)").await;
        let mut engine = world.engine(&["t"]);
        let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        world.run("INSERT INTO t VALUES (1, '0000-00-00', '2020-00-15 01:02:03.004', '0000-00-00')").await;
        let (end, _) = engine.end().await.unwrap();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        let error = hear(&mut stream, &mut by_table(&shapes), &end).await.unwrap_err().to_string();
        drop(stream);
        for part in ["it_zero.t", "column `d`", "row id=1", "binlog.0", "'0000-00-00' is not a date", "source.type_map"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let error = crate::world::copy(&engine, &published(&shapes[0]), &end).await.unwrap_err().to_string();
        assert!(error.contains("column `d`, row id=1, while copying: '0000-00-00' is not a date"), "{error}");

        let mut mapped = published(&shapes[0]);
        for field in &mut mapped.rows.fields[1..] {
            field.repr = Repr::String;
        }
        let mut known = by_table(&shapes);
        known.insert(world.table("t"), mapped.clone());
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        let heard = hear(&mut stream, &mut known, &end).await.unwrap();
        let shown = show(&mapped.rows.fields, heard.rows[0].after.as_ref().unwrap());
        assert_eq!(
            shown.values().map(String::as_str).collect::<Vec<_>>(),
            ["0000-00-00", "2020-00-15 01:02:03.004", "1", "0000-00-00 00:00:00"]
        );
        assert_eq!(crate::world::copy(&engine, &mapped, &end).await.unwrap()[0].after, heard.rows[0].after);
        drop(stream);
    }
}

#[tokio::test]
async fn partial_images_name_the_columns_they_lack() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "minimal").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, b TEXT)").await;
        let statements =
            ["INSERT INTO t VALUES (1, 2, 'x')", "SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE t SET b = 'y'", "DELETE FROM t"];
        let heard = told(&mut world, &["t"], &statements).await;
        assert_eq!(ops(&heard.rows), [Op::Create, Op::Update, Op::Delete]);
        assert_eq!(heard.rows[1].absent_after, ["a"]);
        assert_eq!(heard.rows[1].absent_before, ["a", "b"]);
        // id 1, a's filler, 'y': the key stands in the before image only.
        assert_eq!(heard.rows[1].after.as_deref(), Some(&[2, 0, 2, 2, b'y'][..]));
        assert_eq!((heard.rows[1].key.as_slice(), heard.rows[2].key.as_slice()), (&[2][..], &[2][..]));
    }
}

#[tokio::test]
async fn a_transaction_larger_than_what_is_kept_back_comes_whole_and_once() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "large").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, a LONGTEXT)").await;
        let statements = [
            "BEGIN",
            "INSERT INTO t VALUES (1, REPEAT('a', 5000000))",
            "INSERT INTO t VALUES (2, REPEAT('b', 5000000))",
            "INSERT INTO t VALUES (3, 'c')",
            "COMMIT",
        ];
        let heard = told(&mut world, &["t"], &statements).await;
        assert_eq!(heard.rows.iter().map(|row| row.key[0] / 2).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(heard.rows[1].after.as_ref().unwrap().len(), 5_000_000 + 6);
        assert_eq!((heard.commits.len(), heard.stands.len()), (1, 0));
    }
}

#[tokio::test]
async fn a_log_that_is_not_there_any_more_stops_with_the_way_out() {
    use source::error::CaptureError;
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "purged").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY)").await;
        let mut engine = world.engine(&["t"]);
        let (at, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let gone = Position { gtids: Gtids::None, file: "binlog.999999".into(), ..at };
        let error = engine.stream(&gone, shapes).await.unwrap_err();
        assert!(matches!(&error, CaptureError::Stop { message } if message.contains("reload all tables")), "{error}");
    }
}
