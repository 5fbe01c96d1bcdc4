//! The log on its way: large events, checksums, connections that die without a word, places that are not there.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use runtime::config::{Tls, TlsMode};
use source::{
    engine::{Engine, Stream},
    error::CaptureError,
    mysql::{
        MySql,
        position::{Gtids, Position},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    change::told,
    world::{BOTH, Flavour, World, by_table, hear},
};

/// Longer than one packet of the protocol.
#[tokio::test]
async fn an_event_of_several_packets_is_one_event() {
    for flavour in BOTH {
        let Some(mut world) = World::new(flavour, "packets").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, a LONGBLOB, b LONGBLOB)").await;
        // No heartbeat comes within an event, and a busy server takes its time.
        let mut source = world.source(&["t"]);
        source.heartbeat = Duration::from_secs(10);
        let mut engine = MySql::new(&source).unwrap();
        let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        for sql in ["INSERT INTO t VALUES (1, REPEAT('a', 15000000), REPEAT('b', 15000001))", "INSERT INTO t VALUES (2, 'x', 'y')"] {
            world.run(sql).await;
        }
        let (end, _) = engine.end().await.unwrap();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        let heard = hear(&mut stream, &mut by_table(&shapes), &end).await.unwrap();
        assert_eq!((heard.rows.len(), heard.commits.len(), heard.stands.len()), (2, 2, 0), "{flavour:?}");
        let after = heard.rows[0].after.as_ref().unwrap();
        let count = |byte: u8| after.iter().filter(|found| **found == byte).count();
        // And the field's mark and length, some bytes.
        assert!((15_000_000..15_000_010).contains(&count(b'a')) && (15_000_001..15_000_010).contains(&count(b'b')), "{flavour:?}");
        assert!(after.len() < 30_000_020, "{flavour:?}");
    }
}

/// The server begins a new log file at each change of this setting.
#[tokio::test]
async fn checksums_may_be_there_or_not_and_change_on_the_way() {
    for flavour in BOTH {
        let Some(mut world) = World::new(flavour, "checksums").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(999))").await;
        let compressed = if flavour == Flavour::MySql { "SET SESSION binlog_transaction_compression = ON" } else { "DO 1" };
        let heard = told(
            &mut world,
            &["t"],
            &[
                "INSERT INTO t VALUES (1, 'a')",
                "SET GLOBAL binlog_checksum = NONE",
                "INSERT INTO t VALUES (2, 'b')",
                compressed,
                "INSERT INTO t VALUES (3, REPEAT('c', 900))",
                "INSERT INTO t VALUES (4, 'd')",
                "SET GLOBAL binlog_checksum = CRC32",
                "INSERT INTO t VALUES (5, REPEAT('e', 900))",
                "ALTER TABLE t ADD COLUMN b INT",
                "INSERT INTO t VALUES (6, 'f', 7)",
            ],
        )
        .await;
        assert_eq!(heard.stands, Vec::<String>::new(), "{flavour:?}");
        assert_eq!(heard.rows.iter().map(|row| row.key[0] / 2).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6], "{flavour:?}");
        assert_eq!(heard.statements.len(), 1, "{flavour:?}");
    }
}

/// Stands between a source and its server.
struct Between {
    port: u16,
    frozen: Arc<AtomicBool>,
}

/// What it turns into something else where `bend` is set.
const MARK: &[u8] = b"bend this";

impl Between {
    async fn new(server: u16, bend: bool) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let frozen = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&frozen);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = TcpStream::connect(("127.0.0.1", server)).await.unwrap().into_split();
                tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
                let stops = Arc::clone(&stops);
                tokio::spawn(async move {
                    let mut buffer = vec![0; 1 << 16];
                    while let Ok(n @ 1..) = from_server.read(&mut buffer).await {
                        // The connection stays, and nothing comes.
                        while stops.load(Ordering::Relaxed) {
                            tokio::time::sleep(Duration::from_millis(10)).await;
                        }
                        if let Some(at) = buffer[..n].windows(MARK.len()).position(|part| part == MARK).filter(|_| bend) {
                            buffer[at] ^= 1;
                        }
                        if to_client.write_all(&buffer[..n]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Between { port, frozen }
    }

    /// A source that reads through it, without encryption.
    fn engine(&self, world: &World) -> MySql {
        let mut source = world.source(&["t"]);
        source.url.port = Some(self.port);
        source.tls = Tls { mode: TlsMode::Disable, ..Tls::default() };
        MySql::new(&source).unwrap()
    }
}

#[tokio::test]
async fn a_connection_on_which_nothing_comes_any_more_is_noticed_and_the_next_one_goes_on() {
    for flavour in BOTH {
        let Some(mut world) = World::new(flavour, "silent").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY)").await;
        let between = Between::new(world.port(), false).await;
        let mut engine = between.engine(&world);
        let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        world.run("INSERT INTO t VALUES (1)").await;
        let (end, _) = engine.end().await.unwrap();
        let heard = hear(&mut stream, &mut by_table(&shapes), &end).await.unwrap();
        assert_eq!(heard.rows.len(), 1, "{flavour:?}");
        // A quiet server is not a dead one: its heartbeats come.
        for _ in 0..2 {
            assert!(matches!(stream.next().await.unwrap(), source::engine::Entry::Idle { .. }), "{flavour:?}");
        }
        between.frozen.store(true, Ordering::Relaxed);
        world.run("INSERT INTO t VALUES (2)").await;
        let error = loop {
            match stream.next().await {
                Ok(source::engine::Entry::Idle { .. }) => {}
                Ok(other) => panic!("{flavour:?}: {other:?}"),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(&error, CaptureError::Transient(text) if text.contains("nothing came from the log for 4s")),
            "{flavour:?}: {error}"
        );
        drop(stream);
        between.frozen.store(false, Ordering::Relaxed);
        let mut stream = engine.stream(heard.commits.last().unwrap(), shapes.clone()).await.unwrap();
        let (end, _) = engine.end().await.unwrap();
        let heard = hear(&mut stream, &mut by_table(&shapes), &end).await.unwrap();
        assert_eq!(heard.rows.iter().map(|row| row.key[0] / 2).collect::<Vec<_>>(), [2], "{flavour:?}");
    }
}

#[tokio::test]
async fn an_event_that_is_not_what_the_server_wrote_stops_with_its_place() {
    for flavour in BOTH {
        let Some(mut world) = World::new(flavour, "bent").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20))").await;
        let between = Between::new(world.port(), true).await;
        let mut engine = between.engine(&world);
        let (from, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let mut stream = engine.stream(&from, shapes.clone()).await.unwrap();
        world.run("INSERT INTO t VALUES (1, 'as it is')").await;
        let (file, offset) = world.log_end().await;
        // In two parts, so that the annotation does not have it.
        world.run("INSERT INTO t VALUES (2, CONCAT('bend ', 'this'))").await;
        let (end, _) = engine.end().await.unwrap();
        let error = hear(&mut stream, &mut by_table(&shapes), &end).await.unwrap_err();
        let CaptureError::Stop { message } = &error else { panic!("{flavour:?}: {error}") };
        let place = message.split_once(&format!("the event at {file}:")).map(|(_, rest)| rest);
        let found: u64 = place.and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{flavour:?}: {message}"));
        assert!((offset..offset + 1000).contains(&found) && message.contains("wrong checksum"), "{flavour:?}: {offset}: {message}");
    }
}

#[tokio::test]
async fn a_place_that_the_server_does_not_have_is_named() {
    for flavour in BOTH {
        let Some(mut world) = World::new(flavour, "missing").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY)").await;
        let mut engine = world.engine(&["t"]);
        let (at, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let gone = Position { gtids: Gtids::None, file: "binlog.999999".into(), ..at.clone() };
        let far = Position { gtids: Gtids::None, offset: 5_000_000_000, ..at.clone() };
        let mut places = vec![(gone, vec!["the missing position is", "@binlog.999999", "reload all tables"])];
        places.push((far, vec!["offset 5000000000 of binlog.0", "32 bits", "reload all tables"]));
        if let Gtids::MariaDb(_) = &at.gtids {
            let unknown = Gtids::MariaDb("0-1-4000000000".parse().unwrap());
            let open = Some(source::mysql::position::Open::new(Gtids::MariaDb("0-1-3999999999".parse().unwrap()), String::new(), 0));
            places.push((Position { gtids: unknown.clone(), ..at.clone() }, vec!["the missing position is 0-1-4000000000"]));
            places.push((Position { gtids: unknown, open, ..at }, vec!["the missing position is 0-1-3999999999", "XA transactions"]));
        }
        for (place, parts) in places {
            let error = engine.stream(&place, shapes.clone()).await.unwrap_err();
            let CaptureError::Stop { message } = &error else { panic!("{flavour:?}: {error}") };
            for part in parts {
                assert!(message.contains(part), "{flavour:?}: {part}: {message}");
            }
        }
    }
}
