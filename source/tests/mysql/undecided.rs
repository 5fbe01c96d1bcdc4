//! Groups whose rows count only when their end is known: what is rolled back in part, and XA transactions.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use source::{
    engine::{Engine, Entry, Position as _, Stream},
    mysql::position::{Gtids, Position},
};

use crate::{
    change::told,
    world::{BOTH, Flavour, Heard, Owned, World, by_table, hear},
};

/// The keys of rows: single integers.
fn ids(rows: &[Owned]) -> Vec<i64> {
    let id = |row: &Owned| schemas::wire::codec::Reader::new(&row.key).long().unwrap();
    rows.iter().map(id).collect()
}

#[tokio::test]
async fn what_a_transaction_takes_back_is_not_published() {
    for flavour in BOTH {
        let Some(mut world) = World::new(flavour, "rollback").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB").await;
        let statements = [
            "BEGIN",
            "INSERT INTO t VALUES (1)",
            "SAVEPOINT s",
            "INSERT INTO t VALUES (2)",
            "ROLLBACK TO SAVEPOINT s",
            "INSERT INTO t VALUES (3)",
            "COMMIT",
            "BEGIN",
            "INSERT INTO t VALUES (4)",
            "ROLLBACK",
        ];
        let heard = told(&mut world, &["t"], &statements).await;
        assert_eq!((ids(&heard.rows), heard.stands), (vec![1, 3], Vec::new()), "{flavour:?}");
    }
}

/// MariaDB has the rows in its log, and behind them what takes them back. (MySQL takes them out of its log.)
#[tokio::test]
async fn rows_behind_a_savepoint_are_taken_back_and_those_of_other_engines_stay() {
    let Some(mut world) = World::new(Flavour::MariaDb, "savepoints").await else { return };
    world.run("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB").await;
    world.run("CREATE TABLE side (id INT PRIMARY KEY) ENGINE=MyISAM").await;
    let statements = [
        "BEGIN",
        "INSERT INTO t VALUES (1)",
        "SAVEPOINT `S 1`",
        "INSERT INTO t VALUES (2)",
        "INSERT INTO side VALUES (100)",
        "SAVEPOINT b",
        "INSERT INTO t VALUES (3)",
        "ROLLBACK TO b",
        "INSERT INTO t VALUES (4)",
        "ROLLBACK TO `s 1`",
        "INSERT INTO t VALUES (5)",
        "ROLLBACK TO `s 1`",
        "INSERT INTO t VALUES (6)",
        "COMMIT",
        // All of it: the group ends by ROLLBACK, for a temporary table was made in it.
        "BEGIN",
        "INSERT INTO t VALUES (7)",
        "CREATE TEMPORARY TABLE tmp (a INT)",
        "INSERT INTO side VALUES (101)",
        "INSERT INTO t VALUES (8)",
        "ROLLBACK",
        "INSERT INTO t VALUES (9)",
    ];
    let heard = told(&mut world, &["t", "side"], &statements).await;
    assert_eq!((ids(&heard.rows), heard.stands), (vec![100, 1, 6, 101, 9], Vec::new()));
}

/// More than is kept in memory is kept in a file, taken back in part, and comes whole and in order.
#[tokio::test]
async fn a_large_transaction_with_savepoints_comes_without_what_it_took_back() {
    let Some(mut world) = World::new(Flavour::MariaDb, "savepoints_large").await else { return };
    world.run("CREATE TABLE t (id INT PRIMARY KEY, a LONGTEXT) ENGINE=InnoDB").await;
    world.run("CREATE TABLE side (id INT PRIMARY KEY) ENGINE=MyISAM").await;
    let insert = |id: u32| format!("INSERT INTO t VALUES ({id}, REPEAT('{}', 3000000))", id % 10);
    let mut statements: Vec<String> = vec!["BEGIN".into(), "SAVEPOINT first".into(), "INSERT INTO side VALUES (100)".into()];
    statements.extend((1..=4).map(insert));
    statements.push("SAVEPOINT s".into());
    statements.extend((5..=6).map(insert));
    statements.push("ROLLBACK TO s".into());
    statements.extend((7..=8).map(insert));
    statements.push("COMMIT".into());
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    let heard = told(&mut world, &["t"], &statements).await;
    assert_eq!((ids(&heard.rows), heard.stands.len(), heard.commits.len()), (vec![1, 2, 3, 4, 7, 8], 0, 1));
    for row in &heard.rows {
        let id = row.key[0] / 2;
        let after = row.after.as_ref().unwrap();
        assert!(after.len() > 3_000_000 && after[100..].iter().all(|byte| *byte == b'0' + id), "{id}");
    }
}

/// Everything a stream says from `from` to `end`, and the positions it could be restarted at.
async fn heard(world: &World, from: &Position, end: &Position) -> Heard {
    let engine = world.engine(&["t"]);
    let (_, shapes) = world.engine(&["t"]).pinned(&world.ids(&["t"])).await.unwrap();
    let mut stream = engine.stream(from, shapes.clone()).await.unwrap();
    hear(&mut stream, &mut by_table(&shapes), end).await.unwrap()
}

#[tokio::test]
async fn an_xa_transaction_counts_at_its_end_and_from_wherever_it_is_read_again() {
    for flavour in BOTH {
        let Some(mut world) = World::alone(flavour, "xa").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, a INT) ENGINE=InnoDB").await;
        world.run("CREATE TABLE other (id INT PRIMARY KEY, a INT) ENGINE=InnoDB").await;
        let mut engine = world.engine(&["t"]);
        let (from, _) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        for sql in [
            "INSERT INTO t VALUES (1, 1)",
            "XA START 'it_x', 'b', 3",
            "INSERT INTO t VALUES (2, 1), (3, 1)",
            "UPDATE t SET a = 2 WHERE id = 3",
            "XA END 'it_x', 'b', 3",
            "XA PREPARE 'it_x', 'b', 3",
        ] {
            world.run(sql).await;
        }
        // Other sessions go on; another transaction begins and is rolled back, a third one outlasts the first.
        let mut second = world.another().await;
        let mut third = world.another().await;
        for sql in [
            "INSERT INTO t VALUES (4, 1)",
            "ALTER TABLE other ADD COLUMN b INT",
            "XA START 'it_y'",
            "INSERT INTO t VALUES (5, 1)",
            "XA END 'it_y'",
            "XA PREPARE 'it_y'",
        ] {
            second.query_drop(sql).await.unwrap();
        }
        for sql in ["XA START 'it_z'", "INSERT INTO t VALUES (6, 1)", "XA END 'it_z'", "XA PREPARE 'it_z'"] {
            third.query_drop(sql).await.unwrap();
        }
        second.query_drop("XA ROLLBACK 'it_y'").await.unwrap();
        second.query_drop("INSERT INTO t VALUES (7, 1)").await.unwrap();
        world.run("XA COMMIT 'it_x', 'b', 3").await;
        world.run("INSERT INTO t VALUES (8, 1)").await;
        // The same name again.
        for sql in ["XA START 'it_x', 'b', 3", "INSERT INTO t VALUES (9, 1)", "XA END 'it_x', 'b', 3", "XA PREPARE 'it_x', 'b', 3"] {
            world.run(sql).await;
        }
        third.query_drop("XA COMMIT 'it_z'").await.unwrap();
        world.run("XA COMMIT 'it_x', 'b', 3").await;
        world.run("INSERT INTO t VALUES (10, 1)").await;
        let (end, _) = engine.end().await.unwrap();

        let all = [1, 4, 7, 2, 3, 3, 8, 6, 9, 10];
        // By GTID, and as a server without GTIDs is read.
        let by_file = |position: &Position| Position { gtids: Gtids::None, ..position.clone() };
        let mut ways = vec![(from.clone(), end.clone())];
        ways.extend((flavour == Flavour::MySql).then(|| (by_file(&from), by_file(&end))));
        for (from, end) in ways {
            let whole = heard(&world, &from, &end).await;
            assert_eq!((ids(&whole.rows), &whole.stands), (all.to_vec(), &Vec::new()), "{flavour:?} from {from}");
            assert_eq!(whole.commits.last().unwrap().open, None, "{flavour:?}");
            // A position in its text form, as it is stored: each row comes once, from wherever the reading begins.
            let mut published = 0;
            for commit in &whole.commits {
                published += if published == 3 { 3 } else { 1 };
                assert_eq!(commit.open.is_some(), (2..9).contains(&published), "{flavour:?}: behind row {published}: {commit}");
                // With two of them open, with another one open, with one of the same name open again.
                if ![3, 7, 8].contains(&published) {
                    continue;
                }
                let stored = Position::parse(&commit.to_string()).unwrap();
                let rest = heard(&world, &stored, &end).await;
                assert_eq!((ids(&rest.rows), rest.stands), (all[published..].to_vec(), Vec::new()), "{flavour:?} from {stored}");
            }
            assert_eq!(published, all.len());
        }
    }
}

#[tokio::test]
async fn an_xa_transaction_larger_than_the_memory_and_one_in_one_phase() {
    for flavour in BOTH {
        let Some(mut world) = World::alone(flavour, "xa_large").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, a LONGTEXT) ENGINE=InnoDB").await;
        let mut engine = world.engine(&["t"]);
        let (from, _) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        world.run("XA START 'it_large'").await;
        for id in 1..=4 {
            world.run(&format!("INSERT INTO t VALUES ({id}, REPEAT('{id}', 3000000))")).await;
        }
        world.run("XA END 'it_large'").await;
        world.run("XA PREPARE 'it_large'").await;
        let mut other = world.another().await;
        other.query_drop("INSERT INTO t VALUES (5, 'between')").await.unwrap();
        world.run("XA COMMIT 'it_large'").await;
        for sql in ["XA START 'it_one'", "INSERT INTO t VALUES (6, 'x')", "XA END 'it_one'", "XA COMMIT 'it_one' ONE PHASE"] {
            world.run(sql).await;
        }
        let (end, _) = engine.end().await.unwrap();
        let heard = heard(&world, &from, &end).await;
        assert_eq!((ids(&heard.rows), heard.stands.len()), (vec![5, 1, 2, 3, 4, 6], 0), "{flavour:?}");
        for row in &heard.rows[1..5] {
            let after = row.after.as_ref().unwrap();
            assert!(after.len() > 3_000_000 && after[100..].iter().all(|byte| *byte == b'0' + row.key[0] / 2), "{flavour:?}");
        }
    }
}

/// Its rows were logged before the source began to read: only a person knows whether they are rows of a captured table.
#[tokio::test]
async fn the_end_of_an_xa_transaction_whose_rows_were_not_read_stands() {
    for flavour in BOTH {
        let Some(mut world) = World::alone(flavour, "xa_unknown").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB").await;
        for sql in ["XA START 'it_unknown'", "INSERT INTO t VALUES (1)", "XA END 'it_unknown'", "XA PREPARE 'it_unknown'"] {
            world.run(sql).await;
        }
        let mut engine = world.engine(&["t"]);
        let mut other = world.another().await;
        let error = engine.beginning(&world.ids(&["t"])).await.unwrap_err().to_string();
        assert!(error.contains("the XA transaction X'69745f756e6b6e6f776e',X'',1 was prepared before the pipeline begins"), "{error}");
        let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        other.query_drop("INSERT INTO t VALUES (2)").await.unwrap();
        world.run("XA COMMIT 'it_unknown'").await;
        let (end, _) = engine.end().await.unwrap();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        let told = hear(&mut stream, &mut by_table(&shapes), &end).await.unwrap();
        assert_eq!((ids(&told.rows), told.stands.len()), (vec![2], 1), "{flavour:?}");
        for part in ["X'69745f756e6b6e6f776e',X'',1", "its rows are not known", "it_xa_unknown.t", "binlog.0"] {
            assert!(told.stands[0].contains(part), "{part}: {}", told.stands[0]);
        }
        // A rolled back one says nothing.
        drop(stream);
        for sql in ["XA START 'it_gone'", "INSERT INTO t VALUES (3)", "XA END 'it_gone'", "XA PREPARE 'it_gone'"] {
            world.run(sql).await;
        }
        let (from, _) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        world.run("XA ROLLBACK 'it_gone'").await;
        other.query_drop("INSERT INTO t VALUES (4)").await.unwrap();
        let (end, _) = engine.end().await.unwrap();
        let told = heard(&world, &from, &end).await;
        assert_eq!((ids(&told.rows), told.stands), (vec![4], Vec::new()), "{flavour:?}");
    }
}

/// How often the server was asked for prepared transactions.
async fn looks(conn: &mut mysql_async::Conn) -> u64 {
    let row: Option<(String, u64)> = conn.query_first("SHOW GLOBAL STATUS LIKE 'Com_xa_recover'").await.unwrap();
    row.unwrap().1
}

/// A pipeline begins while transactions come and go: those that are open where it begins are read from before.
#[tokio::test]
async fn a_beginning_knows_the_transactions_that_are_open_there() {
    for flavour in BOTH {
        let Some(mut world) = World::alone(flavour, "xa_begins").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB").await;
        let mut engine = world.engine(&["t"]);
        let mut other = world.another().await;
        for sql in ["XA START 'it_older'", "INSERT INTO t VALUES (1)", "XA END 'it_older'", "XA PREPARE 'it_older'"] {
            world.run(sql).await;
        }
        let tables = world.ids(&["t"]);
        let mut watch = world.another().await;
        let before = looks(&mut watch).await;
        let beginning = tokio::spawn(async move { engine.beginning(&tables).await });
        // It waits for the older one; a younger one is prepared meanwhile.
        for sql in ["XA START 'it_younger'", "INSERT INTO t VALUES (2)", "XA END 'it_younger'"] {
            other.query_drop(sql).await.unwrap();
        }
        // It has looked, and looks again.
        while looks(&mut watch).await < before + 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        other.query_drop("XA PREPARE 'it_younger'").await.unwrap();
        world.run("XA COMMIT 'it_older'").await;
        let (from, _) = beginning.await.unwrap().unwrap();
        other.query_drop("XA COMMIT 'it_younger'").await.unwrap();
        world.run("INSERT INTO t VALUES (3)").await;
        let (end, _) = world.engine(&["t"]).end().await.unwrap();
        let told = heard(&world, &Position::parse(&from.to_string()).unwrap(), &end).await;
        // What was committed where it begins is the copy's.
        assert_eq!((ids(&told.rows), told.stands), (vec![2, 3], Vec::new()), "{flavour:?}: {from}");
    }
}

/// A table that joins between PREPARE and COMMIT has rows there that nobody kept.
#[tokio::test]
async fn a_table_that_is_captured_while_an_xa_transaction_of_it_is_open_stands_at_its_commit() {
    for flavour in BOTH {
        let Some(mut world) = World::alone(flavour, "xa_joins").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB").await;
        world.run("CREATE TABLE u (id INT PRIMARY KEY) ENGINE=InnoDB").await;
        let mut engine = world.engine(&["t", "u"]);
        let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        for sql in
            ["XA START 'it_joins'", "INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)", "XA END 'it_joins'", "XA PREPARE 'it_joins'"]
        {
            world.run(sql).await;
        }
        let mut other = world.another().await;
        other.query_drop("INSERT INTO t VALUES (2)").await.unwrap();
        let mut known = by_table(&shapes);
        let (at, _) = engine.end().await.unwrap();
        let told = hear(&mut stream, &mut known, &at).await.unwrap();
        assert_eq!((ids(&told.rows), told.stands), (vec![2], Vec::new()), "{flavour:?}");
        let (until, joined) = engine.pinned(&world.ids(&["u"])).await.unwrap();
        known.extend(by_table(&joined));
        stream.skip(joined[0].clone(), until);
        world.run("XA COMMIT 'it_joins'").await;
        let (end, _) = engine.end().await.unwrap();
        let told = hear(&mut stream, &mut known, &end).await.unwrap();
        assert!(
            told.stands.len() == 1 && told.stands[0].contains("it_xa_joins.u") && !told.stands[0].contains("it_xa_joins.t"),
            "{told:?}"
        );
        // The way out: the table begins anew behind it; nothing of the other one is lost.
        let (until, joined) = engine.pinned(&world.ids(&["u"])).await.unwrap();
        stream.skip(joined[0].clone(), until);
        let told = hear(&mut stream, &mut known, &end).await.unwrap();
        assert_eq!((ids(&told.rows), told.stands), (vec![1], Vec::new()), "{flavour:?}");
    }
}

/// A reader that is told to go on while it waits inside a transaction: nothing is ready before its end.
#[tokio::test]
async fn nothing_of_an_undecided_transaction_is_ready() {
    for flavour in BOTH {
        let Some(mut world) = World::alone(flavour, "xa_waits").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB").await;
        let mut engine = world.engine(&["t"]);
        let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let mut stream = engine.stream(&from, shapes).await.unwrap();
        for sql in ["XA START 'it_waits'", "INSERT INTO t VALUES (1)", "XA END 'it_waits'", "XA PREPARE 'it_waits'"] {
            world.run(sql).await;
        }
        let (end, _) = engine.end().await.unwrap();
        loop {
            match stream.next().await.unwrap() {
                Entry::Idle { position, .. } if position.reached(&end) => {
                    let open = position.open.unwrap();
                    let before = Position { gtids: open.gtids, open: None, ..end.clone() };
                    assert!(!before.reached(&end), "{flavour:?}: what is read again begins before it");
                    break;
                }
                Entry::Idle { .. } => {}
                other => panic!("{flavour:?}: {other:?}"),
            }
        }
        world.run("XA ROLLBACK 'it_waits'").await;
    }
}
