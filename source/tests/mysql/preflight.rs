//! What is wrong is said at once, with server, place and remedy.

use runtime::config::Secret;
use source::{
    engine::{Engine, Problem},
    error::CaptureError,
    mysql::MySql,
};

use crate::world::{ALL, Flavour, World};

#[tokio::test]
async fn a_good_server_has_no_problem() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "good").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, a TEXT)").await;
        assert_eq!(world.engine(&["t"]).preflight().await.unwrap(), Vec::<Problem>::new());
    }
}

#[tokio::test]
async fn all_problems_come_at_once_with_their_remedies() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "bad").await else { return };
        for sql in [
            "CREATE TABLE parent (id INT PRIMARY KEY)",
            "CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
            "CREATE TABLE bag (a INT)",
            "CREATE VIEW v AS SELECT 1 AS one",
        ] {
            world.run(sql).await;
        }
        let problems = world.engine(&["child", "bag", "v", "missing"]).preflight().await.unwrap();
        let find = |part: &str| problems.iter().find(|p| p.what.contains(part)).unwrap_or_else(|| panic!("{part}: {problems:?}"));
        assert!(!find("it_bad.bag has no row key").fatal);
        assert!(find("table it_bad.missing does not exist").fatal);
        assert!(find("it_bad.v is not a base table").fatal);
        // MySQL 9.7 logs the rows that a foreign key changes.
        if flavour != Flavour::MySql {
            assert!(find("foreign key `fk` changes its rows").sql == ["ALTER TABLE `it_bad`.`child` DROP FOREIGN KEY `fk`;"]);
        }
    }
}

#[tokio::test]
async fn wrong_passwords_and_silent_servers_are_named() {
    for flavour in ALL {
        let Some(world) = World::new(flavour, "refused").await else { return };
        let mut source = world.source(&["t"]);
        source.url.password = Some(Secret::new("wrong"));
        let error = MySql::new(&source).unwrap().preflight().await.unwrap_err();
        assert!(
            matches!(&error, CaptureError::Refused(text) if text.contains("127.0.0.1:") && text.contains("user `root` is refused")),
            "{error}"
        );
        assert!(!error.to_string().contains("wrong;"));
        source.url.port = Some(1);
        let error = MySql::new(&source).unwrap().preflight().await.unwrap_err();
        assert!(
            matches!(&error, CaptureError::Transient(text) if text.starts_with("127.0.0.1:1: connecting: the server cannot be reached")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_missing_right_is_named_with_its_grant() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "rights").await else { return };
        for sql in [
            "CREATE TABLE t (id INT PRIMARY KEY)",
            "DROP USER IF EXISTS nobody@'127.0.0.1'",
            "CREATE USER nobody@'127.0.0.1' IDENTIFIED BY 'nothing'",
        ] {
            world.run(sql).await;
        }
        let mut source = world.source(&["t"]);
        (source.url.user, source.url.password) = (Some("nobody".into()), Some(Secret::new("nothing")));
        let problems = MySql::new(&source).unwrap().preflight().await.unwrap();
        let remedies: Vec<&str> = problems.iter().flat_map(|p| &p.sql).map(String::as_str).collect();
        for part in [
            "GRANT REPLICATION SLAVE ON *.* TO `nobody`@`127.0.0.1`;",
            if flavour == Flavour::MySql { "GRANT REPLICATION CLIENT ON *.* TO" } else { "GRANT BINLOG MONITOR ON *.* TO" },
            "GRANT SELECT ON `it_rights`.`t` TO",
        ] {
            assert!(remedies.iter().any(|remedy| remedy.contains(part)), "{part}: {remedies:?}");
        }
    }
}

#[tokio::test]
async fn a_second_source_of_the_pipeline_is_kept_out_until_the_first_is_gone() {
    use mysql_async::{Row, prelude::Queryable};
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "lock").await else { return };
        let mut first = world.engine(&["t"]);
        first.lock("it-pipeline").await.unwrap();
        first.lock("it-pipeline").await.unwrap();
        let error = world.engine(&["t"]).lock("it-pipeline").await.unwrap_err();
        assert!(
            matches!(&error, CaptureError::Fenced(text) if text.contains("another source of pipeline it-pipeline is at work")),
            "{error}"
        );
        world.engine(&["t"]).lock("it-other").await.unwrap();
        // The server keeps the lock of a process that was killed until it sees that nobody is there.
        let mut second = world.engine(&["t"]);
        let taken = tokio::spawn(async move { second.lock("it-pipeline").await });
        let mut waits = false;
        while !waits {
            assert!(!taken.is_finished(), "it does not wait");
            let sessions: Vec<Row> = world.conn.query("SHOW PROCESSLIST").await.unwrap();
            let state = |session: &Row| session.get::<Option<String>, _>("State").flatten();
            waits = sessions.iter().any(|session| state(session).as_deref() == Some("User lock"));
        }
        drop(first);
        taken.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_source_whose_lock_is_lost_ends_its_stream_and_takes_the_lock_anew() {
    use mysql_async::prelude::Queryable;
    use source::engine::Stream;
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "lost").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY)").await;
        let mut engine = world.engine(&["t"]);
        engine.lock("it-lost").await.unwrap();
        let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let mut stream = engine.stream(&from, shapes).await.unwrap();
        let holder: u64 = world.conn.query_first("SELECT IS_USED_LOCK('instar:it-lost')").await.unwrap().unwrap();
        world.run(&format!("KILL {holder}")).await;
        let error = loop {
            if let Err(error) = stream.next().await {
                break error;
            }
        };
        assert!(matches!(&error, CaptureError::Transient(text) if text.contains("held this pipeline's lock is gone")), "{error}");
        engine.lock("it-lost").await.unwrap();
        assert!(engine.end().await.is_ok());
    }
}

/// The server ends the older of two readers that present themselves as one.
#[tokio::test]
async fn a_reader_that_another_one_takes_the_place_of_names_the_number() {
    use source::engine::Stream;
    let Some(mut world) = World::new(Flavour::MySql, "same_id").await else { return };
    world.run("CREATE TABLE t (id INT PRIMARY KEY)").await;
    let mut source = world.source(&["t"]);
    source.server_id = Some(654_321);
    let mut engine = MySql::new(&source).unwrap();
    let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
    let mut first = engine.stream(&from, shapes.clone()).await.unwrap();
    let _second = engine.stream(&from, shapes).await.unwrap();
    let error = loop {
        if let Err(error) = first.next().await {
            break error;
        }
    };
    let CaptureError::Stop { message } = &error else { panic!("{error}") };
    assert!(message.contains("presents itself as server 654321") && message.contains("source.server_id"), "{message}");
}
