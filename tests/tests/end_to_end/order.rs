//! Order around schema changes, over four lanes, by value.

use std::time::{Duration, Instant};

use crate::world::{Options, World};
use tests::pipeline::eventually;

/// Keeps inserting and updating in a session of its own until told to end; returns how often.
async fn load(mut session: tests::source::Session, table: &'static str, mut end: tokio::sync::oneshot::Receiver<()>) -> u32 {
    let mut rounds = 0;
    while end.try_recv().is_err() {
        session.run(&format!("INSERT INTO {table} (note) VALUES ('a'), ('b'), ('c'), ('d'), ('e')")).await;
        session.run(&format!("UPDATE {table} SET note = CONCAT(note, '+') WHERE id % 7 = {}", rounds % 7)).await;
        rounds += 1;
    }
    rounds
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_columns_are_added_under_load_and_every_row_has_its_values() {
    let setup = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(200));\nINSERT INTO t (note) VALUES ('first');";
    let mut world = World::new("sixty_columns", setup, &["t"]).await;
    world.start();
    let (end, ended) = tokio::sync::oneshot::channel();
    let writer = tokio::spawn(load(world.session().await, "t", ended));
    for i in 0..60 {
        world.source.run(&format!("ALTER TABLE t ADD COLUMN c{i} INT NOT NULL DEFAULT {i}")).await;
        world.source.run(&format!("INSERT INTO t (note, c{i}) VALUES ('with c{i}', {})", 1000 + i)).await;
    }
    end.send(()).unwrap();
    assert!(writer.await.unwrap() > 0);
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.history("t").iter().filter(|e| e["outcomes"]["target"]["outcome"] == "applied" && !e["ddl"].is_null()).count(), 60);
}

#[tokio::test]
async fn eighty_inserts_across_a_rename_stand_under_the_new_name() {
    let mut world = World::new("rename_across", "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) NOT NULL);", &["t"]).await;
    world.start();
    for i in 0..40 {
        world.source.run(&format!("INSERT INTO t (id, a) VALUES ({i}, 'old{i}')")).await;
    }
    world.source.run("ALTER TABLE t RENAME COLUMN a TO b").await;
    for i in 40..80 {
        world.source.run(&format!("INSERT INTO t (id, b) VALUES ({i}, 'new{i}')")).await;
    }
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(
        world.target.value("SELECT count(*) FROM t WHERE b = CASE WHEN id < 40 THEN 'old' ELSE 'new' END || id").await.as_deref(),
        Some("80")
    );
}

#[tokio::test]
async fn a_truncate_between_rows_of_one_batch_removes_only_the_older_ones() {
    let mut world = World::new("truncate_between", "CREATE TABLE t (id INT PRIMARY KEY, v INT);", &["t"]).await;
    world.start();
    // Written while the pipeline is down: all of it comes in one batch.
    world.pipeline.stop();
    world.source.run("INSERT INTO t SELECT seq, 1 FROM seq_1_to_500").await;
    world.source.run("TRUNCATE TABLE t").await;
    world.source.run("INSERT INTO t SELECT seq, 2 FROM seq_400_to_600").await;
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.target.value("SELECT count(*) FROM t WHERE v = 2").await.as_deref(), Some("201"));
    assert_eq!(world.count("t").await, 201);
}

#[tokio::test]
async fn changes_of_an_empty_table_and_of_one_with_a_single_row_are_decided_within_a_second() {
    let setup = "CREATE TABLE nothing (id INT PRIMARY KEY);\nCREATE TABLE single (id INT PRIMARY KEY);\nINSERT INTO single VALUES (1);";
    let mut world = World::new("decided_alone", setup, &["nothing", "single"]).await;
    world.start();
    for table in ["nothing", "single"] {
        // The quickest of three: a machine may be busy, but a change that waits for a later row or for a timer is never quick.
        let mut quickest = Duration::MAX;
        for column in ["u", "v", "w"] {
            let begin = Instant::now();
            world.source.run(&format!("ALTER TABLE {table} ADD COLUMN {column} INT NOT NULL DEFAULT 7")).await;
            world.column_there(table, column).await;
            quickest = quickest.min(begin.elapsed());
        }
        println!("{table}: {quickest:?}");
        assert!(quickest < Duration::from_secs(1), "{table}: {quickest:?}");
    }
    world.assert_equal().await;
}

#[tokio::test]
async fn a_held_table_queues_its_changes_and_the_others_go_on() {
    let setup = "CREATE TABLE held (id INT NOT NULL, name VARCHAR(9) NOT NULL, PRIMARY KEY (id));\nCREATE TABLE free (id INT PRIMARY KEY, v INT);\nINSERT INTO held VALUES (1, 'one');";
    let mut world = World::new("held_queue", setup, &["held", "free"]).await;
    world.start();
    world.source.run("ALTER TABLE held DROP PRIMARY KEY, ADD PRIMARY KEY (id, name)").await;
    world.source.run("INSERT INTO held VALUES (1, 'two')").await;
    world.source.run("INSERT INTO free VALUES (1, 1)").await;
    world.source.run("ALTER TABLE held ADD COLUMN a INT NULL").await;
    world.source.run("ALTER TABLE free ADD COLUMN w INT NOT NULL DEFAULT 5").await;
    world.source.run("ALTER TABLE held ADD COLUMN b INT NULL").await;
    world.source.run("INSERT INTO free VALUES (2, 2, 6)").await;
    let (code, printed) = world.pipeline.wait("settled", 60);
    assert_eq!(code, 4, "{printed}");
    assert!(printed.contains("held_queue.held"), "{printed}");
    assert_eq!(world.table_state("held"), "held");
    assert_eq!(world.table_state("free"), "streaming");
    assert_eq!(world.target.query("SELECT id, v, w FROM free ORDER BY id").await.unwrap().len(), 2);
    assert_eq!(world.count("held").await, 1, "rows of a held table wait");
    let outcomes: Vec<String> = world
        .history("held")
        .iter()
        .filter(|e| !e["ddl"].is_null())
        .map(|e| e["outcomes"]["target"]["outcome"].as_str().unwrap_or("").to_owned())
        .collect();
    assert_eq!(outcomes, ["held", "queued", "queued"]);

    // The reload supersedes all three and brings the table in its newest shape.
    let table = format!("{}.held", world.name);
    let output = world.pipeline.command(&["reload"], &[&table]);
    assert!(output.status.success(), "{}", tests::pipeline::text(&output));
    world.pipeline.caught_up();
    world.assert_equal().await;
    let outcomes: Vec<String> = world
        .history("held")
        .iter()
        .filter(|e| !e["ddl"].is_null())
        .map(|e| e["outcomes"]["target"]["outcome"].as_str().unwrap_or("").to_owned())
        .collect();
    assert_eq!(outcomes, ["superseded", "superseded", "superseded"]);
    world.source.run("INSERT INTO held VALUES (1, 'three', 3, 4)").await;
    world.source.run("ALTER TABLE held ADD COLUMN c INT NULL").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
}

#[tokio::test]
async fn a_stop_lets_nothing_pass_until_a_reload_leads_out() {
    let setup =
        "CREATE TABLE stops (id INT PRIMARY KEY, v INT);\nCREATE TABLE other (id INT PRIMARY KEY);\nINSERT INTO stops VALUES (1, 1);";
    let mut world = World::new("stop_reload", setup, &["stops", "other"]).await;
    world.start();
    world.source.run("INSERT INTO other VALUES (1)").await;
    world.source.run("ALTER TABLE stops MODIFY v VARCHAR(12)").await;
    world.source.run("INSERT INTO other VALUES (2)").await;
    world.source.run("INSERT INTO stops VALUES (2, 'two')").await;
    world.stopped();
    assert_eq!(world.count("other").await, 1, "nothing passes a stop");
    assert_eq!(world.count("stops").await, 1);
    let (outcome, reason) = world.last_outcome("stops");
    assert_eq!(outcome, "stopped");
    for word in ["stop_reload.stops", "v", "int", "varchar(12)"] {
        assert!(reason.to_lowercase().contains(word), "{word} is not in: {reason}");
    }
    assert_eq!(world.sink_state(), "stopped");
    assert!(world.stopped().contains("reload"), "the ways out are named");

    // The source goes on publishing; a restart stands at the same change.
    assert!(world.pipeline.is_running());
    world.pipeline.kill();
    world.pipeline.start();
    world.stopped();
    assert_eq!(world.count("other").await, 1);

    let table = format!("{}.stops", world.name);
    let output = world.pipeline.command(&["reload"], &[&table]);
    assert!(output.status.success(), "{}", tests::pipeline::text(&output));
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.last_outcome("stops").0, "superseded");
}

#[tokio::test]
async fn removing_a_table_from_the_configuration_leads_out_of_a_stop() {
    let setup = "CREATE TABLE gone (id INT PRIMARY KEY, v INT);\nCREATE TABLE stays (id INT PRIMARY KEY);\nINSERT INTO gone VALUES (1, 1);";
    let mut world = World::new("stop_retire", setup, &["gone", "stays"]).await;
    world.start();
    world.source.run("ALTER TABLE gone MODIFY v VARCHAR(12)").await;
    world.source.run("INSERT INTO stays VALUES (1)").await;
    world.stopped();
    world.pipeline.stop();
    world.tables = vec!["stays".into()];
    world.configure(&Options::default());
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.count("gone").await, 1, "a retired table stays as it is");
    assert_eq!(world.last_outcome("gone").0, "superseded");
    world.source.run("DROP TABLE gone").await;
    world.source.run("INSERT INTO stays VALUES (2)").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
}

#[tokio::test]
async fn a_copy_in_chunks_of_one_row_survives_changes_of_its_table() {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, a INT, gone INT);\nINSERT INTO t SELECT seq, seq, 9 FROM seq_1_to_300;";
    let options = Options { source: "  snapshot: { chunk_rows: 1, workers: 2, slice: 200ms }\n", ..Options::default() };
    let mut world = World::with("copy_altered", setup, &["t"], options).await;
    world.pipeline.start();
    eventually("the copy has begun", Duration::from_secs(30), async || {
        world.target.query("SELECT count(*) FROM t").await.is_ok_and(|rows| rows[0][0].as_deref() != Some("0"))
    })
    .await;
    world.source.run("ALTER TABLE t ADD COLUMN b INT NOT NULL DEFAULT 4 FIRST").await;
    world.source.run("UPDATE t SET b = 40 WHERE id % 10 = 1").await;
    world.source.run("ALTER TABLE t DROP COLUMN gone").await;
    world.source.run("INSERT INTO t (id, a, b) VALUES (1001, 4, 44)").await;
    world.source.run("DELETE FROM t WHERE id % 10 = 3").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
}
