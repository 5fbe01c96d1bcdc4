//! Order, exactly once and copies, also when the loop is dropped at any await.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use proptest::prelude::*;
use runtime::config::SnapshotMode;
use schemas::{event::EventKind, wire::envelope::Op};

use super::{
    fake::Server,
    world::{World, captured},
};
use crate::capture::{Command, Ended, State};

fn server(rows: i64) -> Server {
    let server = Server::new();
    server.create("orders", true);
    server.create("log", false);
    for n in 0..rows {
        server.insert(&[("orders", n, n * 10), ("log", n % 3, n)]);
    }
    server
}

#[tokio::test]
async fn rows_and_changes_arrive_in_order_with_the_copy() {
    let mut world = World::new(server(20), &["orders", "log"]);
    assert_eq!(world.until_caught_up().await, Ended::Shutdown);
    let server = world.server.clone();
    server.insert(&[("orders", 100, 1), ("orders", 101, 1)]);
    server.add_column(&["orders"], "extra", 5);
    assert!(server.update("orders", 100, 200, 2));
    server.insert(&[("orders", 102, 1), ("log", 9, 9)]);
    server.truncate("log");
    server.insert(&[("log", 7, 7)]);
    assert!(server.delete("orders", 3));
    world.until_caught_up().await;
    world.check(&["orders", "log"]);
    // The copy of a table without a key begins with an emptying event of its own.
    assert_eq!(world.kinds(), [EventKind::Initial, EventKind::Reload, EventKind::Ddl, EventKind::Ddl]);
    let truncates: Vec<_> = world.rows("log").into_iter().filter(|r| r.op == Op::Truncate).map(|r| (r.lane, r.epoch, r.key)).collect();
    assert_eq!(truncates, [(0, 4, Some(b"log".to_vec()))]);
    let orders = world.rows("orders");
    assert_eq!(orders.iter().filter(|r| r.snapshot).count(), 20);
    assert!(orders.iter().filter(|r| r.epoch >= 3).all(|r| !r.copying));
    assert!(orders.iter().map(|r| r.lane).collect::<std::collections::HashSet<_>>().len() > 1);
}

#[tokio::test]
async fn a_chunk_that_is_larger_than_it_may_be_is_read_in_parts() {
    let mut world = World::new(server(200), &["orders"]);
    world.settings.snapshot.chunk_rows = 1_000;
    let each = 60;
    world.settings.commit.chunk_bytes = 5 * each;
    world.until_caught_up().await;
    world.check(&["orders"]);
    let orders = world.rows("orders");
    assert_eq!((orders.len(), orders.iter().filter(|r| r.snapshot).count()), (200, 200), "each row is copied once");
}

#[tokio::test]
async fn a_truncate_is_told_on_every_lane() {
    let mut world = World::new(server(5), &["orders"]);
    world.until_caught_up().await;
    world.server.truncate("orders");
    world.until_caught_up().await;
    world.check(&["orders"]);
    let lanes: Vec<_> = world.rows("orders").iter().filter(|r| r.op == Op::Truncate).map(|r| r.lane).collect();
    assert_eq!(lanes, [0, 1, 2]);
}

#[tokio::test]
async fn what_has_nothing_to_apply_is_recorded_without_an_epoch() {
    let mut world = World::new(server(2), &["orders"]);
    world.until_caught_up().await;
    world.server.comment("orders");
    world.server.insert(&[("orders", 50, 1)]);
    world.until_caught_up().await;
    world.check(&["orders"]);
    let events = world.events();
    assert_eq!(events.last().map(|e| (e.epoch, e.tables[0].version)), Some((None, 1)));
    assert_eq!(world.progress().epoch, 1);
    // Nor is one taken by it after a restart.
    world.server.insert(&[("orders", 51, 1)]);
    world.until_caught_up().await;
    world.check(&["orders"]);
}

#[tokio::test]
async fn a_large_transaction_spans_several_commits_and_survives_kills() {
    let mut world = World::new(server(1), &["orders", "log"]);
    world.until_caught_up().await;
    let rows: Vec<_> = (1000..1200).map(|n| (if n % 5 == 0 { "log" } else { "orders" }, n, n)).collect();
    world.server.insert(&rows);
    let mut in_the_middle = 0;
    for polls in 3..60 {
        world.killed_after(polls).await;
        in_the_middle += usize::from(world.progress().rows_done > 0);
    }
    world.until_caught_up().await;
    world.check(&["orders", "log"]);
    assert!(in_the_middle > 3, "no kill fell into the middle of the transaction");
}

#[tokio::test]
async fn positions_move_without_rows() {
    let mut world = World::new(server(1), &["orders"]);
    world.until_caught_up().await;
    let commits = world.log.changed();
    let before = *commits.borrow();
    (0..5).for_each(|_| world.server.foreign());
    let end = world.server.end().to_string();
    world.until(|s| s.position == end).await;
    assert_eq!(world.progress().position, end);
    assert!(*commits.borrow() > before);
}

#[tokio::test]
async fn tables_join_and_leave_by_configuration() {
    let mut world = World::new(server(10), &["orders"]);
    world.until_caught_up().await;
    world.server.insert(&[("orders", 60, 1), ("log", 60, 1)]);
    world.server.create("late", true);
    world.server.insert(&[("late", 1, 1), ("late", 2, 2)]);
    world.settings.tables = vec![captured("orders"), captured("log"), captured("late")];
    world.server.insert(&[("log", 61, 1), ("late", 3, 1)]);
    world.until_caught_up().await;
    world.server.insert(&[("late", 4, 1), ("orders", 61, 1)]);
    world.until_caught_up().await;
    world.check(&["orders", "log", "late"]);
    world.settings.tables = vec![captured("late"), captured("log")];
    world.server.insert(&[("orders", 62, 1)]);
    world.until_caught_up().await;
    assert_eq!(world.events().last().map(|e| (e.kind, e.tables[0].table.id.name.clone())), Some((EventKind::Retire, "orders".into())));
    assert!(world.progress().tables["shop.shop.orders"].retired);
    // A table that comes again goes on with its versions.
    world.settings.tables = vec![captured("orders"), captured("late"), captured("log")];
    world.server.insert(&[("orders", 63, 1)]);
    world.until_caught_up().await;
    world.check(&["orders", "log", "late"]);
    let versions: Vec<_> = world.events().iter().filter_map(|e| e.table(&super::fake::id("orders")).map(|t| t.version)).collect();
    assert_eq!(versions, [1, 2, 3]);
}

#[tokio::test]
async fn a_copy_goes_on_while_rows_and_changes_come() {
    let mut world = World::new(server(60), &["orders", "log"]);
    let (server, mut status) = (world.server.clone(), world.status.clone());
    let finished = Arc::new(AtomicBool::new(false));
    let done = finished.clone();
    let user = tokio::spawn(async move {
        drop(status.wait_for(|s| s.epoch > 0).await.expect("status"));
        for n in 0..40 {
            server.insert(&[("orders", 1000 + n, n), ("log", n, n)]);
            server.update("orders", n, n + 500, n);
            if n % 10 == 5 {
                server.add_column(&["orders"], &format!("c{n}"), n);
            }
            if n % 16 == 3 {
                server.add_column(&["orders", "log"], &format!("d{n}"), n);
            }
            if n == 25 {
                server.truncate("log");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        done.store(true, Ordering::SeqCst);
        server.foreign();
    });
    world.until(|_| finished.load(Ordering::SeqCst)).await;
    user.await.expect("user");
    world.until_caught_up().await;
    world.check(&["orders", "log"]);
}

#[tokio::test]
async fn snapshot_only_ends_when_copied_and_never_copies_nothing() {
    let mut world = World::new(server(30), &["orders", "log"]);
    world.settings.snapshot.mode = SnapshotMode::Only;
    assert_eq!(world.run_out().await.expect("run"), Ended::Copied);
    world.check(&["orders", "log"]);

    let mut world = World::new(server(30), &["orders"]);
    world.settings.snapshot.mode = SnapshotMode::Never;
    world.until_caught_up().await;
    assert_eq!(world.rows("orders").len(), 0);
}

#[tokio::test]
async fn pause_and_resume() {
    let mut world = World::new(server(3), &["orders"]);
    world.until_caught_up().await;
    world.command(&Command::Pause);
    world.until(|s| s.state == State::Paused).await;
    world.server.insert(&[("orders", 70, 1)]);
    let before = world.rows("orders").len();
    // A restart stays paused.
    world.until(|s| s.state == State::Paused).await;
    assert_eq!(world.rows("orders").len(), before);
    world.command(&Command::Resume);
    world.until_caught_up().await;
    world.check(&["orders"]);
}

#[tokio::test]
async fn reload_of_one_of_all_and_for_one_sink() {
    let mut world = World::new(server(10), &["orders", "log"]);
    world.until_caught_up().await;
    world.reload("orders");
    world.until(|s| s.epoch == 3).await;
    world.until_caught_up().await;
    world.check(&["orders", "log"]);
    world.command(&Command::Reload { table: None, sink: None });
    world.until(|s| s.epoch >= 4).await;
    world.until_caught_up().await;
    world.check(&["orders", "log"]);
    let all = world.events().into_iter().find(|e| e.epoch == Some(4)).expect("event");
    assert_eq!((all.kind, all.tables.len()), (EventKind::Reload, 2));
    let epoch = world.progress().epoch;
    world.command(&Command::Reload { table: Some("shop.orders".into()), sink: Some("warehouse".into()) });
    world.until(|s| s.epoch > epoch).await;
    world.until_caught_up().await;
    assert_eq!(world.events().last().and_then(|e| e.for_sink.clone()), Some("warehouse".into()));
    let read: Vec<_> = world.rows("orders").into_iter().filter(|r| r.epoch > epoch).map(|r| (r.op, r.for_sink)).collect();
    assert_eq!(read, vec![(Op::Read, Some("warehouse".to_owned())); 10]);
}

#[tokio::test]
async fn commands_that_are_none_are_passed_over() {
    let mut world = World::new(server(3), &["orders"]);
    world.until_caught_up().await;
    world.reload("unknown");
    world.command(&Command::Accept { table: None, at: None, by: None });
    world.until(|_| true).await;
    world.reload("orders");
    world.until(|s| s.epoch == 2).await;
    assert_eq!(world.progress().command, 3);
}

#[tokio::test]
async fn cut_connections_are_made_anew() {
    let mut world = World::new(server(20), &["orders", "log"]);
    let server = world.server.clone();
    let user = tokio::spawn(async move {
        for n in 0..20 {
            server.insert(&[("orders", 1000 + n, n), ("log", n, n)]);
            server.cut(1);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    world.until(|s| s.state == State::Retrying && s.message.contains("cut")).await;
    user.await.expect("user");
    world.until_caught_up().await;
    world.check(&["orders", "log"]);
}

#[tokio::test]
async fn topics_of_another_pipeline_are_refused() {
    let mut world = World::new(server(1), &["orders"]);
    world.until_caught_up().await;
    world.settings.pipeline = "other".into();
    let error = world.run_out().await.expect_err("refused").to_string();
    assert!(error.contains("\"shop\"") && error.contains("\"other\""), "{error}");
}

/// What a user does between two kills.
#[derive(Debug, Clone)]
enum Deed {
    Insert(i64, i64),
    Both(i64, i64),
    Update(i64, i64, i64),
    Delete(i64),
    Large,
    Foreign,
    Add(bool),
    Truncate(bool),
    Comment,
    Reload(bool),
    ReloadAll,
}

fn deed() -> impl Strategy<Value = Deed> {
    let key = 0..30i64;
    prop_oneof![
        4 => (key.clone(), any::<u8>()).prop_map(|(k, v)| Deed::Insert(k, v.into())),
        4 => (key.clone(), any::<u8>()).prop_map(|(k, v)| Deed::Both(k, v.into())),
        4 => (key.clone(), key.clone(), any::<u8>()).prop_map(|(k, n, v)| Deed::Update(k, n, v.into())),
        3 => key.prop_map(Deed::Delete),
        1 => Just(Deed::Large),
        1 => Just(Deed::Foreign),
        2 => any::<bool>().prop_map(Deed::Add),
        1 => any::<bool>().prop_map(Deed::Truncate),
        1 => Just(Deed::Comment),
        1 => any::<bool>().prop_map(Deed::Reload),
        1 => Just(Deed::ReloadAll),
    ]
}

fn done(world: &World, number: usize, deed: &Deed) {
    let server = &world.server;
    let table = |keyed: bool| if keyed { "orders" } else { "log" };
    let there = |key: i64| server.rows("orders").iter().any(|r| r[0] == key);
    match deed {
        Deed::Insert(k, v) if !there(*k) => server.insert(&[("orders", *k, *v)]),
        Deed::Both(k, v) if !there(*k) => server.insert(&[("log", *k, *v), ("orders", *k, *v), ("log", *k, *v)]),
        Deed::Insert(k, v) | Deed::Both(k, v) => server.insert(&[("log", *k, *v)]),
        Deed::Update(k, n, v) => drop(server.update("orders", *k, *n, *v)),
        Deed::Delete(k) => drop(server.delete("orders", *k)),
        Deed::Large => {
            let first = 1000 * (number as i64 + 1);
            let rows: Vec<_> = (first..first + 30).map(|n| (table(n % 4 != 0), n, n)).collect();
            server.insert(&rows);
        }
        Deed::Foreign => server.foreign(),
        Deed::Add(both) => server.add_column(if *both { &["orders", "log"] } else { &["orders"] }, &format!("c{number}"), 4),
        Deed::Truncate(keyed) => server.truncate(table(*keyed)),
        Deed::Comment => server.comment("orders"),
        Deed::Reload(keyed) => world.reload(table(*keyed)),
        Deed::ReloadAll => world.command(&Command::Reload { table: None, sink: None }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_doubled_by_kills(steps in prop::collection::vec((deed(), 0..60usize), 1..30), chunk_bytes in prop::sample::select(vec![40, 1 << 20])) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let mut world = World::new(server(12), &["orders", "log"]);
            // Every chunk of more than a row or two is too large, and cut.
            world.settings.commit.chunk_bytes = chunk_bytes;
            for (number, (deed, polls)) in steps.iter().enumerate() {
                done(&world, number, deed);
                world.killed_after(*polls).await;
            }
            world.until_caught_up().await;
            world.check(&["orders", "log"]);
        });
    }
}
