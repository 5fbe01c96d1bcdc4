//! MariaDB's ALTER in two groups of its log (`binlog_alter_two_phase`): what other sessions commit while it runs stands between the two.

use std::time::Duration;

use tests::{pipeline::eventually, source};
use tokio::task::JoinHandle;

use crate::world::World;

/// A statement that altered `t` up to its last step, for which it waits until no transaction holds the table.
struct Altering {
    /// The server's number of its connection.
    connection: String,
    ended: JoinHandle<Result<(), String>>,
}

const ALTERING: Duration = Duration::from_secs(30);

async fn cell(session: &mut source::Session, sql: &str) -> String {
    let cell = session.query(sql).await.unwrap().swap_remove(0).swap_remove(0);
    String::from_utf8(cell.unwrap_or_default()).unwrap()
}

/// Alters `t` by a statement with `clause` in it, and has each writer write `t` in a transaction that it leaves open. The statement is
/// begun again, with another number, where it ends before the writers come.
async fn between(world: &mut World, clause: fn(u32) -> String, writers: &mut [source::Session], writes: &str) -> Altering {
    for attempt in 1..=20 {
        let place = world.source.query("SHOW MASTER STATUS").await.unwrap().swap_remove(0);
        let [file, offset] = [0, 1].map(|at| String::from_utf8(place[at].clone().unwrap()).unwrap());
        let mut session = world.session().await;
        session.run("SET SESSION binlog_alter_two_phase = ON").await;
        let connection = cell(&mut session, "SELECT CONNECTION_ID()").await;
        let statement = format!("ALTER TABLE t {}, FORCE, ALGORITHM=INPLACE, LOCK=NONE", clause(attempt));
        let begun = statement.clone();
        let ended = tokio::spawn(async move { session.try_run(statement.as_bytes()).await });
        let events = format!("SHOW BINLOG EVENTS IN '{file}' FROM {offset}");
        eventually("the statement is announced in the log", ALTERING, async || {
            let events = world.source.query(&events).await.unwrap();
            events.iter().any(|event| String::from_utf8_lossy(event[5].as_deref().unwrap_or_default()).contains(&begun))
        })
        .await;
        for (number, writer) in writers.iter_mut().enumerate() {
            writer.run("BEGIN").await;
            writer.run(&writes.replace("{n}", &(1_000_000 * u64::from(attempt) + number as u64).to_string())).await;
        }
        let state =
            format!("SELECT COALESCE(MAX(STATE), '') FROM information_schema.PROCESSLIST WHERE ID = {connection} AND INFO LIKE 'ALTER%'");
        let waits = "Waiting for table metadata lock";
        eventually("the statement waits or has ended", ALTERING, async || {
            ended.is_finished() || cell(&mut world.source, &state).await == waits
        })
        .await;
        if !ended.is_finished() {
            return Altering { connection, ended };
        }
        ended.await.unwrap().unwrap();
        for writer in writers.iter_mut() {
            writer.run("COMMIT").await;
        }
    }
    panic!("the statement always ends before others write");
}

async fn two_phase(name: &str) -> (World, Vec<source::Session>) {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT);\nCREATE TABLE other (id INT PRIMARY KEY, a INT);\n\
                 INSERT INTO t SELECT seq, seq % 7, seq FROM seq_1_to_100000;\nINSERT INTO other VALUES (1, 1);";
    let mut world = World::new(name, setup, &["t", "other"]).await;
    world.start();
    let mut writers = Vec::new();
    for _ in 0..3 {
        writers.push(world.session().await);
    }
    (world, writers)
}

/// Moves all columns, and gives each of two the other's name.
fn moving(attempt: u32) -> String {
    format!("ADD COLUMN c{attempt} INT NOT NULL DEFAULT {attempt} FIRST, RENAME COLUMN a TO b, RENAME COLUMN b TO a")
}

const WRITES: &str = "INSERT INTO t (id, a, b) VALUES ({n}, 1, 2)";

/// What the writers and others commit before the statement goes on; the last writer keeps its transaction open.
async fn write_on(world: &mut World, writers: &mut [source::Session]) {
    writers[1].run("UPDATE t SET a = -1 WHERE id IN (5, 6)").await;
    writers[1].run("COMMIT").await;
    writers[2].run("DELETE FROM t WHERE id = 7").await;
    writers[2].run("UPDATE t SET id = -8 WHERE id = 8").await;
    let mut another = world.session().await;
    another.run("SET SESSION binlog_alter_two_phase = ON").await;
    for sql in [
        "INSERT INTO other (id, a) VALUES (2, 2)",
        "ALTER TABLE other ADD COLUMN z INT NOT NULL DEFAULT 4 FIRST, DROP COLUMN a, ALGORITHM=COPY",
        "INSERT INTO other (z, id) VALUES (5, 3)",
    ] {
        another.run(sql).await;
    }
    writers[0].run("COMMIT").await;
}

#[tokio::test]
async fn rows_between_the_two_groups_of_an_alter_have_the_old_shape() {
    let (mut world, mut writers) = two_phase("two_phase_commit").await;
    let altering = between(&mut world, moving, &mut writers, WRITES).await;
    write_on(&mut world, &mut writers).await;
    writers[2].run("COMMIT").await;
    altering.ended.await.unwrap().unwrap();
    world.source.run("INSERT INTO t (c1, id, a, b) VALUES (9, -1, 3, 4)").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(applied(&world, "other"), 1);
}

#[tokio::test]
async fn a_source_that_dies_between_the_two_groups_of_an_alter_goes_on_there() {
    let (mut world, mut writers) = two_phase("two_phase_killed").await;
    let altering = between(&mut world, moving, &mut writers, WRITES).await;
    write_on(&mut world, &mut writers).await;
    let before = applied(&world, "t");
    for _ in 0..2 {
        world.pipeline.kill();
        world.pipeline.start();
        world.pipeline.caught_up();
    }
    assert_eq!(applied(&world, "t"), before);
    writers[2].run("COMMIT").await;
    altering.ended.await.unwrap().unwrap();
    world.source.run("INSERT INTO t (c1, id, a, b) VALUES (9, -1, 3, 4)").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(applied(&world, "t"), before + 1);
}

#[tokio::test]
async fn an_alter_that_is_rolled_back_changes_nothing_and_loses_no_row_of_others() {
    let (mut world, mut writers) = two_phase("two_phase_rollback").await;
    let altering = between(&mut world, moving, &mut writers, WRITES).await;
    write_on(&mut world, &mut writers).await;
    world.pipeline.caught_up();
    let before = applied(&world, "t");
    world.source.run(&format!("KILL QUERY {}", altering.connection)).await;
    let refused = altering.ended.await.unwrap().unwrap_err();
    assert!(refused.contains("interrupted"), "{refused}");
    writers[2].run("COMMIT").await;
    world.source.run("INSERT INTO t (id, a, b) VALUES (-1, 3, 4)").await;
    world.source.run("ALTER TABLE t ADD COLUMN z INT DEFAULT 5 AFTER id, DROP COLUMN b").await;
    world.source.run("INSERT INTO t (id, z, a) VALUES (-2, 3, 4)").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!((applied(&world, "t"), applied(&world, "other")), (before + 1, 1));
}

/// Changes in the history that the target made.
fn applied(world: &World, table: &str) -> usize {
    world.history(table).iter().filter(|e| !e["ddl"].is_null() && e["outcomes"]["target"]["outcome"] == "applied").count()
}
