//! A pipeline that has run is started again with another configuration.

use std::time::Duration;

use tests::{compare, pipeline::text, postgres};

use crate::world::{Options, World};

const SETUP: &str = "CREATE TABLE t (id INT PRIMARY KEY, v INT);\nINSERT INTO t VALUES (1, 10);\n\
                     CREATE TABLE late (id INT PRIMARY KEY, w INT);\nINSERT INTO late VALUES (1, 100), (2, 200);";

/// Starts the pipeline, which must end at once by exit 1; what it printed since.
fn refused(world: &mut World) -> String {
    let before = world.pipeline.log().len();
    world.pipeline.start();
    let code = world.pipeline.exit(Duration::from_secs(20));
    let printed = world.pipeline.log()[before..].to_owned();
    assert_eq!(code, 1, "{printed}");
    printed
}

fn reload(world: &World, arguments: &[&str]) {
    let output = world.pipeline.command(&["reload"], arguments);
    assert!(output.status.success(), "{}", text(&output));
}

#[tokio::test]
async fn a_table_added_later_is_looked_at_as_at_the_first_start() {
    let mut world = World::new("added_foreign", SETUP, &["t"]).await;
    world.start();
    world.pipeline.stop();
    world.target.run("CREATE TABLE late (id int PRIMARY KEY, note text); INSERT INTO late VALUES (7, 'theirs'); CREATE RULE r AS ON DELETE TO late DO INSTEAD NOTHING").await;
    world.tables.push("late".into());
    world.configure(&Options::default());
    let printed = refused(&mut world);
    for part in [
        "table added_foreign.late: the target table public.late holds rows and has no progress of this sink",
        "has the rule r",
        "not the expected shape",
    ] {
        assert!(printed.contains(part), "{part} is not in {printed}");
    }
    assert!(!printed.contains("public.t "), "a table that runs is not looked at: {printed}");
    assert_eq!(world.target.value("SELECT note FROM late").await.as_deref(), Some("theirs"), "nothing was touched");

    // Allowed to, the first load of the added table makes it anew; what runs already is not touched.
    world.target.run("DROP RULE r ON late; CREATE INDEX theirs ON late (note); CREATE INDEX ours ON t (v)").await;
    world.configure(&Options { sink: "    recreate: true\n", ..Options::default() });
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    let there = |index: &'static str| format!("SELECT to_regclass('public.{index}') IS NOT NULL");
    assert_eq!(world.target.value(&there("theirs")).await.as_deref(), Some("f"), "made anew");
    let history = world.history("late");
    assert!(
        history.iter().any(|e| e["outcomes"]["target"]["reason"].as_str().is_some_and(|r| r.contains("recreate: true"))),
        "{history:?}"
    );
    // A reload is none: what is ours is emptied, and keeps the user's indexes.
    world.target.run("CREATE INDEX kept ON late (w)").await;
    reload(&world, &[]);
    world.pipeline.caught_up();
    world.assert_equal().await;
    for index in ["kept", "ours"] {
        assert_eq!(world.target.value(&there(index)).await.as_deref(), Some("t"), "{index}");
    }
}

#[tokio::test]
async fn a_sink_added_later_is_looked_at_as_at_the_first_start() {
    let mut world = World::new("added_sink", SETUP, &["t"]).await;
    world.start();
    world.pipeline.stop();
    let other = postgres::Session::fresh_database("added_sink_other").await;
    other.run("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (7, 7)").await;
    let first = std::fs::read_to_string(&world.pipeline.config).unwrap();
    let second = format!("  other:\n    target: postgres\n    url: {}\n    schema: public\n", postgres::database_url("added_sink_other"));
    world.pipeline.reconfigure(&format!("{first}{second}"));
    let printed = refused(&mut world);
    assert!(printed.contains("sink other: table added_sink.t: the target table public.t holds rows"), "{printed}");
    assert!(!printed.contains("sink target"), "{printed}");
    other.run("DELETE FROM t").await;
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    let found = compare::differences(&mut world.source, ("added_sink", "t"), &other, ("public", "t")).await;
    assert!(found.is_empty(), "{found:#?}\nlog:\n{}", world.pipeline.log());
}

#[tokio::test]
async fn another_target_name_for_a_running_table_is_refused_and_taken_by_a_reload() {
    let mut world = World::new("renamed_later", SETUP, &["t"]).await;
    world.start();
    world.pipeline.stop();
    let renamed = Options { sink: "    tables: { renamed_later.t: { rename: elsewhere } }\n", ..Options::default() };
    world.configure(&renamed);
    let printed = refused(&mut world);
    let wanted = "sinks.target.tables.renamed_later.t.rename: rows of renamed_later.t go to public.t, and the file says public.elsewhere. \
                  A table that runs gets it by a reload: `instar reload FILE renamed_later.t --sink target`, then start again; or put t back";
    assert!(printed.contains(wanted), "{printed}");
    // Put back, it goes on as if nothing had been.
    world.configure(&Options::default());
    world.source.run("INSERT INTO t VALUES (2, 20)").await;
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    world.pipeline.stop();

    world.configure(&renamed);
    reload(&world, &["renamed_later.t", "--sink", "target"]);
    world.pipeline.start();
    world.pipeline.caught_up();
    world.source.run("INSERT INTO t VALUES (3, 30)").await;
    world.source.run("ALTER TABLE t ADD COLUMN n INT").await;
    world.pipeline.caught_up();
    let found = compare::differences(&mut world.source, ("renamed_later", "t"), &world.target, ("public", "elsewhere")).await;
    assert!(found.is_empty(), "{found:#?}\nlog:\n{}", world.pipeline.log());
    assert_eq!(world.count("t").await, 2, "the old table stays as it was");
    // The new name stands now.
    world.pipeline.stop();
    world.pipeline.start();
    world.pipeline.caught_up();
}

#[tokio::test]
async fn another_target_name_for_a_column_of_a_running_table_is_refused_and_taken_by_a_reload() {
    let mut world = World::new("column_later", SETUP, &["t"]).await;
    world.start();
    // Kept from the target by a policy: no change of the file.
    world.pipeline.stop();
    world.configure(&Options { sink: "    evolution: { rename_column: keep }\n", ..Options::default() });
    world.pipeline.start();
    world.source.run("ALTER TABLE t RENAME COLUMN v TO u").await;
    world.source.run("INSERT INTO t VALUES (2, 20)").await;
    world.pipeline.caught_up();
    world.pipeline.stop();
    world.pipeline.start();
    world.pipeline.caught_up();
    world.pipeline.stop();

    let mapped = "    tables: { column_later.t: { columns: { u: amount } } }\n";
    world.configure(&Options { sink: mapped, ..Options::default() });
    let printed = refused(&mut world);
    let wanted = "sinks.target.tables.column_later.t.columns: the column u of column_later.t goes to the column v of public.t, and the \
                  file says amount. A table that runs gets it by a reload: `instar reload FILE column_later.t --sink target`, then start \
                  again; or put v back";
    assert!(printed.contains(wanted), "{printed}");
    reload(&world, &["column_later.t"]);
    world.pipeline.start();
    world.pipeline.caught_up();
    world.source.run("INSERT INTO t VALUES (3, 30)").await;
    world.pipeline.caught_up();
    let rows = world.target.value("SELECT string_agg(concat_ws(':', id, amount), ' ' ORDER BY id) FROM t").await;
    assert_eq!(rows.as_deref(), Some("1:10 2:20 3:30"));
}
