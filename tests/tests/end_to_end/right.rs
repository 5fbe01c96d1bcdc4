//! The rights of the source's account: what `check` prints is enough, and each of it is needed.

use serde_json::{Value as Json, json};
use tests::{pipeline::text, service::port, source};

use crate::{
    bad_input::refused,
    world::{Options, World},
};

const SETUP: &str = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));\n\
                     CREATE TABLE keyless (v INT NOT NULL);\n\
                     CREATE TABLE elsewhere (id INT PRIMARY KEY);\n\
                     INSERT INTO t VALUES (1, 'one'), (2, 'two');\n\
                     INSERT INTO keyless VALUES (1), (1);";

fn check(world: &World) -> Json {
    let output = world.pipeline.command(&["check"], &["--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output)))
}

/// An account with exactly the rights that `check` prints runs everything; without one of them that one is named.
async fn least_rights(kind: &str, monitor: &str) {
    let (name, url) = (format!("rights_{kind}"), source::url(kind));
    let options = Options { source_url: Some(url.clone()), sink: "    keyless: full_row\n", ..Options::default() };
    let mut world = World::with(&name, SETUP, &["t", "keyless"], options.clone()).await;
    world.source.run("DROP USER IF EXISTS least@'127.0.0.1'").await;
    world.source.run("CREATE USER least@'127.0.0.1' IDENTIFIED BY 's3cret'").await;
    world.source_url = format!("mysql://least:s3cret@127.0.0.1:{}", port(&url));
    world.configure(&options);
    let account = "`least`@`127.0.0.1`";
    let mut grants = vec![
        format!("GRANT REPLICATION SLAVE, {monitor} ON *.* TO {account};"),
        format!("GRANT SELECT ON `{name}`.`t` TO {account};"),
        format!("GRANT SELECT ON `{name}`.`keyless` TO {account};"),
    ];
    let report = check(&world);
    assert_eq!(report["grants"], json!(grants));
    for grant in &grants {
        world.source.run(grant.trim_end_matches(';')).await;
    }
    if kind == "mysql" {
        // The copy of a table that is seen to have no key.
        let lock = format!("GRANT LOCK TABLES ON `{name}`.* TO {account};");
        refused(&world.pipeline, 1, &[&format!("lacks the right LOCK TABLES on {name}\n  Grant it.\n  {lock}")]);
        world.source.run(lock.trim_end_matches(';')).await;
        grants.push(lock);
    }
    let report = check(&world);
    assert_eq!((&report["problems"], &report["grants"]), (&json!([]), &json!(grants)));

    world.start();
    world.source.run("INSERT INTO t VALUES (3, 'three')").await;
    world.source.run("UPDATE keyless SET v = 2 LIMIT 1").await;
    world.source.run("ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 5, MODIFY v VARCHAR(30)").await;
    world.source.run("TRUNCATE TABLE keyless").await;
    world.source.run("INSERT INTO keyless VALUES (7)").await;
    world.source.run("INSERT INTO elsewhere VALUES (1)").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert!(world.pipeline.command(&["reload"], &[]).status.success());
    world.pipeline.caught_up();
    world.assert_equal().await;
    world.pipeline.stop();

    for right in ["REPLICATION SLAVE", monitor] {
        world.source.run(&format!("REVOKE {right} ON *.* FROM {account}")).await;
        let output = world.pipeline.command(&["check"], &[]);
        let (code, printed) = (output.status.code(), text(&output));
        assert_eq!(code, Some(1), "{printed}");
        assert!(
            printed.contains(&format!("user `least` lacks the right {right}\n  Grant it.\n  GRANT {right} ON *.* TO {account};")),
            "{printed}"
        );
        // A pipeline that has run says so where it needs the right.
        let output = world.pipeline.command(&["run"], &["--admin", "127.0.0.1:0"]);
        let printed = text(&output);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        assert!(
            printed.contains("user `least` lacks the right") && printed.contains(right) && printed.contains("instar check"),
            "{printed}"
        );
        world.source.run(&format!("GRANT {right} ON *.* TO {account}")).await;
    }
    world.source.run(&format!("REVOKE SELECT ON `{name}`.`t` FROM {account}")).await;
    let report = check(&world);
    let problem = &report["problems"][0];
    assert_eq!(problem["sql"], json!([grants[1]]), "{report}");
    assert!(problem["what"].as_str().unwrap().ends_with(&format!("user `least` may not read {name}.t")), "{report}");
}

#[tokio::test]
async fn mariadb_needs_what_check_prints_and_no_more() {
    least_rights("mariadb", "BINLOG MONITOR").await;
}

#[tokio::test]
async fn mysql_needs_what_check_prints_and_no_more() {
    least_rights("mysql", "REPLICATION CLIENT").await;
}

/// The information schema does not show such an account the foreign keys.
#[tokio::test]
async fn a_cascade_is_found_by_an_account_that_may_only_read() {
    let url = source::url("mariadb");
    let setup = "CREATE TABLE p (id INT PRIMARY KEY);\n\
                 CREATE TABLE c (id INT PRIMARY KEY, p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES p (id) ON UPDATE SET NULL);";
    let mut world = World::new("read_cascade", setup, &["c"]).await;
    world.source.run("CREATE OR REPLACE USER reader@'127.0.0.1' IDENTIFIED BY 's3cret'").await;
    world.source.run("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO reader@'127.0.0.1'").await;
    world.source.run("GRANT SELECT ON read_cascade.c TO reader@'127.0.0.1'").await;
    world.source_url = format!("mysql://reader:s3cret@127.0.0.1:{}", port(&url));
    world.configure(&Options::default());
    refused(&world.pipeline, 1, &["foreign key `fk` changes its rows", "ALTER TABLE `read_cascade`.`c` DROP FOREIGN KEY `fk`;"]);
    world.source.run("ALTER TABLE c DROP FOREIGN KEY fk").await;
    assert_eq!(world.pipeline.command(&["check"], &[]).status.code(), Some(0));
}
