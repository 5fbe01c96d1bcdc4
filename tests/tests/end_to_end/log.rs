//! What a source makes of its log across deaths: transactions that are undecided for long, and another server with the same log.

use tests::{service::Service, source};

use crate::world::{Options, World};

const SETUP: &str = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(60)) ENGINE=InnoDB;\n\
                     CREATE TABLE keyless (v VARCHAR(60) NOT NULL) ENGINE=InnoDB;\n\
                     INSERT INTO t VALUES (1, 'first');";

fn options(source_url: &str) -> Options<'static> {
    Options { sink: "    keyless: full_row\n", source_url: Some(source_url.to_owned()), ..Options::default() }
}

/// Prepares an XA transaction with a row in each table, as a session of its own.
async fn prepare(world: &World, xid: &str, id: u32) -> source::Session {
    let mut session = world.session().await;
    for sql in [
        format!("XA START '{xid}'"),
        format!("INSERT INTO t VALUES ({id}, '{xid}')"),
        format!("INSERT INTO keyless VALUES ('{xid}')"),
        format!("UPDATE t SET v = CONCAT(v, '!') WHERE id = {id}"),
        format!("XA END '{xid}'"),
        format!("XA PREPARE '{xid}'"),
    ] {
        session.run(&sql).await;
    }
    session
}

async fn add(session: &mut source::Session, from: u32, to: u32) {
    for id in from..=to {
        session.run("BEGIN").await;
        session.run(&format!("INSERT INTO t VALUES ({id}, 'row')")).await;
        session.run("INSERT INTO keyless VALUES ('row')").await;
        session.run("COMMIT").await;
    }
}

/// Killed while XA transactions are open, around their ends and behind them: each row is there once, or never.
///
/// On a server of its own: a pipeline begins only when the transactions that are prepared there have ended.
async fn kills_around_xa(name: &str, server: &Service) {
    server.start();
    let mut world = World::with(name, SETUP, &["t", "keyless"], options(&server.url())).await;
    world.start();
    let mut first = prepare(&world, &format!("{name}_first"), 1001).await;
    add(&mut world.source, 10, 20).await;
    // What is undecided keeps nobody waiting.
    world.pipeline.caught_up();
    assert_eq!((world.count("t").await, world.count("keyless").await), (12, 11));
    let mut second = prepare(&world, &format!("{name}_second"), 1002).await;
    let mut third = prepare(&world, &format!("{name}_third"), 1003).await;
    world.pipeline.kill();
    add(&mut world.source, 21, 30).await;
    world.pipeline.start();
    world.pipeline.caught_up();
    first.run(&format!("XA COMMIT '{name}_first'")).await;
    world.pipeline.kill();
    second.run(&format!("XA ROLLBACK '{name}_second'")).await;
    world.pipeline.start();
    add(&mut world.source, 31, 40).await;
    world.pipeline.kill();
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    world.pipeline.kill();
    third.run(&format!("XA COMMIT '{name}_third'")).await;
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!((world.count("t").await, world.count("keyless").await), (34, 33));
    world.pipeline.kill();
}

#[tokio::test]
async fn kills_around_open_xa_transactions_lose_nothing_and_double_nothing() {
    kills_around_xa("xa_kills", &Service::mariadb("xa-mariadb", 5)).await;
}

#[tokio::test]
async fn kills_around_open_xa_transactions_of_mysql_lose_nothing_and_double_nothing() {
    kills_around_xa("my_xa_kills", &Service::mysql("xa-mysql", 5)).await;
}

/// The server dies, and its replica takes its place: the source goes on there by GTID, also with a transaction that is still open.
#[tokio::test]
async fn a_replica_takes_the_place_of_a_dead_source_server_and_nothing_is_lost_or_doubled() {
    let first = Service::mariadb("failover_first", 3);
    first.start();
    let replica = Service::mariadb("failover_replica", 4).with("MARIADB_OPTIONS", "--server-id=2 --log-slave-updates=ON");
    replica.start();
    let port = first.url().rsplit(':').next().expect("a port").to_owned();
    let mut there = source::Session::connect(&replica.url()).await;
    for sql in [
        "RESET MASTER".to_owned(),
        format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'cdc', MASTER_PASSWORD = 'cdc', MASTER_USE_GTID = slave_pos"
        ),
        "START SLAVE".to_owned(),
    ] {
        there.run(&sql).await;
    }
    let setup = format!("{SETUP}\nCREATE TABLE u (id INT PRIMARY KEY) ENGINE=InnoDB;");
    let mut world = World::with("failover", &setup, &["t", "keyless", "u"], options(&first.url())).await;
    world.start();
    // Its session ends with the server; what is prepared stays.
    let _open = prepare(&world, "failover_open", 1001).await;
    add(&mut world.source, 10, 60).await;
    // A change too (of a table that the open transaction does not keep), and the source dies while rows flow.
    world.source.run("INSERT INTO u VALUES (1)").await;
    world.source.run("ALTER TABLE u ADD COLUMN n INT NOT NULL DEFAULT 5").await;
    world.pipeline.kill();
    world.source.run("INSERT INTO keyless VALUES ('behind the change')").await;
    world.source.run("INSERT INTO u VALUES (2, 6)").await;
    let all = world.source.query("SELECT @@gtid_binlog_pos").await.expect("the end");
    let all = String::from_utf8(all[0][0].clone().expect("GTIDs")).expect("text");
    assert_eq!(there.query(&format!("SELECT MASTER_GTID_WAIT('{all}', 30)")).await.expect("waits")[0][0].as_deref(), Some(&b"0"[..]));
    first.kill();
    there.run("STOP SLAVE").await;

    world.source_url = replica.url();
    world.configure(&options(&world.source_url));
    world.source = world.session().await;
    world.source.run("INSERT INTO t VALUES (61, 'on the replica')").await;
    world.source.run("INSERT INTO keyless VALUES ('on the replica')").await;
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    world.source.run("XA COMMIT 'failover_open'").await;
    world.source.run("INSERT INTO keyless VALUES ('last')").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!((world.count("t").await, world.count("keyless").await, world.count("u").await), (54, 55, 2));
    world.pipeline.kill();
}
