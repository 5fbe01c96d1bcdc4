//! Many tables and many schema versions: what is asked of the target does not grow with what lies behind.

use crate::world::World;

const TABLES: usize = 20;
const VERSIONS: usize = 20;

#[tokio::test]
async fn many_tables_and_versions_are_found_again_after_a_start() {
    let names: Vec<String> = (0..TABLES).map(|i| format!("t{i}")).collect();
    let setup: String =
        names.iter().map(|t| format!("CREATE TABLE {t} (id INT PRIMARY KEY, v INT NOT NULL);\nINSERT INTO {t} VALUES (1, 1);\n")).collect();
    let tables: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new("many", &setup, &tables).await;
    world.start();
    for table in &names {
        world.source.run(&format!("INSERT INTO {table} VALUES (2, 2)")).await;
    }
    for version in 0..VERSIONS {
        let (from, to) = if version % 2 == 0 { ("v", "w") } else { ("w", "v") };
        world.source.run(&format!("ALTER TABLE t7 RENAME COLUMN {from} TO {to}")).await;
        world.source.run(&format!("INSERT INTO t7 VALUES ({}, {version})", version + 10)).await;
    }
    world.pipeline.caught_up();
    assert_eq!(world.pipeline.stop(), 0);
    world.start();
    world.source.run("UPDATE t7 SET v = v + 1").await;
    world.source.run("INSERT INTO t19 VALUES (3, 3)").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.count("t7").await, 2 + VERSIONS as u64);
    // Each change once, and none of them but the newest tables' shapes is kept with what every look at the target reads.
    let outcomes = world.target.value("SELECT count(*) || ' ' || count(DISTINCT (epoch, name)) FROM instar.outcomes").await;
    assert_eq!(outcomes.as_deref(), Some(format!("{0} {0}", TABLES + VERSIONS).as_str()));
    let open = "SELECT count(*) FROM instar.outcomes WHERE outcome IN ('pending', 'held', 'queued', 'stopped') OR epoch > (SELECT max(decided) FROM instar.sinks)";
    assert_eq!(world.target.value(open).await.as_deref(), Some("0"));
}
