//! The same promises with MySQL as the source: its GTIDs, its log and its own words.

use tests::{pipeline::text, source};

use crate::{
    crash::thirty_kills,
    world::{Options, World},
};

fn options() -> Options<'static> {
    Options { source_url: Some(source::url("mysql")), ..Options::default() }
}

async fn world(name: &str, setup: &str, tables: &[&str]) -> World {
    let mut world = World::with(name, setup, tables, options()).await;
    world.start();
    world
}

/// Numbers from `from` to `to`, which MySQL has no table of.
fn numbers(from: u64, to: u64) -> String {
    format!("(WITH RECURSIVE n(seq) AS (SELECT {from} UNION ALL SELECT seq + 1 FROM n WHERE seq < {to}) SELECT seq FROM n) AS numbers")
}

#[tokio::test]
async fn added_columns_reach_old_and_new_rows() {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(20));\nINSERT INTO t VALUES (0, 'first');";
    let mut world = world("my_added", setup, &["t"]).await;
    for i in 1..=20 {
        world.source.run(&format!("ALTER TABLE t ADD COLUMN c{i} INT NOT NULL DEFAULT {i}")).await;
        world.source.run(&format!("INSERT INTO t (id, note, c{i}) VALUES ({i}, 'with c{i}', {})", 1000 + i)).await;
    }
    world.pipeline.caught_up();
    world.assert_equal().await;
    let applied = world.history("t").iter().filter(|e| !e["ddl"].is_null() && e["outcomes"]["target"]["outcome"] == "applied").count();
    assert_eq!(applied, 20);
}

#[tokio::test]
async fn rows_across_a_rename_stand_under_the_new_name() {
    let mut world = world("my_rename", "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) NOT NULL);", &["t"]).await;
    for i in 0..40 {
        world.source.run(&format!("INSERT INTO t (id, a) VALUES ({i}, 'old{i}')")).await;
    }
    world.source.run("ALTER TABLE t RENAME COLUMN a TO b").await;
    for i in 40..80 {
        world.source.run(&format!("INSERT INTO t (id, b) VALUES ({i}, 'new{i}')")).await;
    }
    world.pipeline.caught_up();
    world.assert_equal().await;
    let right = "SELECT count(*) FROM t WHERE b = CASE WHEN id < 40 THEN 'old' ELSE 'new' END || id";
    assert_eq!(world.target.value(right).await.as_deref(), Some("80"));
}

#[tokio::test]
async fn a_truncate_between_rows_of_one_batch_removes_only_the_older_ones() {
    let mut world = world("my_truncate", "CREATE TABLE t (id INT PRIMARY KEY, v INT);", &["t"]).await;
    world.pipeline.stop();
    world.source.run(&format!("INSERT INTO t SELECT seq, 1 FROM {}", numbers(1, 500))).await;
    world.source.run("TRUNCATE TABLE t").await;
    world.source.run(&format!("INSERT INTO t SELECT seq, 2 FROM {}", numbers(400, 600))).await;
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.count("t").await, 201);
}

#[tokio::test]
async fn a_key_change_is_held_and_a_reload_leads_out() {
    let setup = "CREATE TABLE held (id INT NOT NULL, name VARCHAR(9) NOT NULL, PRIMARY KEY (id));\nCREATE TABLE free (id INT PRIMARY KEY);\nINSERT INTO held VALUES (1, 'one');";
    let mut world = world("my_held", setup, &["held", "free"]).await;
    world.source.run("ALTER TABLE held DROP PRIMARY KEY, ADD PRIMARY KEY (id, name)").await;
    world.source.run("INSERT INTO held VALUES (1, 'two')").await;
    world.source.run("INSERT INTO free VALUES (1)").await;
    let (code, printed) = world.pipeline.wait("settled", 60);
    assert_eq!(code, 4, "{printed}");
    assert_eq!((world.count("held").await, world.count("free").await), (1, 1));
    let output = world.pipeline.command(&["reload"], &["my_held.held"]);
    assert!(output.status.success(), "{}", text(&output));
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.last_outcome("held").0, "superseded");
}

#[tokio::test]
async fn thirty_kills_lose_nothing_and_double_nothing() {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(60) NOT NULL, n INT NOT NULL);";
    thirty_kills("my_kills", 0x5eed_1234, setup, options(), |from, to| {
        format!("INSERT INTO t (id, v, n) SELECT seq, CONCAT('row ', seq), seq % 13 FROM {}", numbers(from, to))
    })
    .await;
}
