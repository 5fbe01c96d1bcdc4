//! Where the source stands, and the ways out.

use runtime::config::{OnStop, TruncateEvents};
use schemas::{
    change::SchemaChange,
    event::{EventKind, SourceState},
};

use super::{
    fake::{Server, id},
    world::{World, captured},
};
use crate::capture::{Command, Ended, State};

fn world() -> World {
    let server = Server::new();
    for name in ["a", "b"] {
        server.create(name, true);
        server.insert(&[(name, 1, 1), (name, 2, 2)]);
    }
    World::new(server, &["a", "b"])
}

#[tokio::test]
async fn it_stands_before_a_statement_that_it_does_not_understand() {
    let mut world = world();
    world.until_caught_up().await;
    world.server.insert(&[("a", 5, 5)]);
    world.server.unknown(&["a"], "odd", true);
    world.server.insert(&[("b", 6, 6)]);
    world.until(|s| s.state == State::Stopped).await;
    let progress = world.progress();
    assert_eq!(progress.state, SourceState::Stopped);
    for part in ["fake://1", "shop.a", "odd is not understood", "instar reload", "instar accept"] {
        assert!(progress.message.contains(part), "{}", progress.message);
    }
    assert_eq!(world.rows("a").len(), 3);
    assert_eq!(world.rows("b").len(), 2, "a row behind the statement was published");
    // So it does after a restart, and a process that is told to end at a stop ends.
    world.settings.on_stop = OnStop::Exit;
    let ended = world.run_out().await.expect("run");
    assert!(matches!(&ended, Ended::Stopped { message } if message.contains("odd")), "{ended:?}");
}

#[tokio::test]
async fn a_reload_leads_out_at_a_pinned_place() {
    let mut world = world();
    world.until_caught_up().await;
    world.server.unknown(&["a"], "odd", true);
    world.server.insert(&[("b", 6, 6), ("a", 6, 6)]);
    world.until(|s| s.state == State::Stopped).await;
    world.server.insert(&[("a", 7, 7)]);
    world.reload("a");
    world.until_caught_up().await;
    world.server.insert(&[("a", 8, 8), ("b", 8, 8)]);
    world.until_caught_up().await;
    world.check(&["a", "b"]);
    let reload = world.events().into_iter().find(|e| e.kind == EventKind::Reload).expect("reload");
    let superseded = &reload.table(&id("a")).expect("a").superseded;
    assert_eq!(superseded.iter().map(|s| s.ddl.as_str()).collect::<Vec<_>>(), ["ALTER TABLE … odd"]);
    assert_eq!(world.progress().state, SourceState::Running);
}

#[tokio::test]
async fn a_reload_that_was_asked_for_while_nothing_ran_is_taken_before_the_log() {
    let mut world = world();
    world.until_caught_up().await;
    world.server.unknown(&["a"], "odd", true);
    world.settings.on_stop = OnStop::Exit;
    assert!(matches!(world.run_out().await, Ok(Ended::Stopped { .. })));
    world.reload("a");
    world.until_caught_up().await;
    world.check(&["a", "b"]);
}

#[tokio::test]
async fn each_table_of_a_statement_needs_a_way_out() {
    let mut world = world();
    world.until_caught_up().await;
    world.server.unknown(&["a", "b"], "odd", true);
    world.until(|s| s.state == State::Stopped).await;
    world.reload("a");
    world.until(|s| s.state == State::Stopped && !s.message.is_empty()).await;
    world.server.insert(&[("a", 9, 9), ("b", 9, 9)]);
    world.reload("b");
    world.until_caught_up().await;
    world.check(&["a", "b"]);
}

#[tokio::test]
async fn taking_the_table_out_leads_on() {
    let mut world = world();
    world.until_caught_up().await;
    world.server.unknown(&["a"], "odd", true);
    world.server.insert(&[("b", 6, 6)]);
    world.until(|s| s.state == State::Stopped).await;
    world.settings.tables = vec![captured("b")];
    world.until_caught_up().await;
    world.check(&["b"]);
    assert_eq!(world.events().last().map(|e| e.kind), Some(EventKind::Retire));
}

#[tokio::test]
async fn an_accepted_statement_is_recorded_and_passed() {
    let mut world = world();
    world.until_caught_up().await;
    world.server.unknown(&["a"], "odd", false);
    world.until(|s| s.state == State::Stopped).await;
    // One that is about another statement, given twice or too late, does nothing.
    let accept = |at: &str| Command::Accept { table: Some("shop.a".into()), at: Some(at.into()), by: Some("ann".into()) };
    world.command(&accept("fake:0"));
    world.settings.on_stop = OnStop::Exit;
    assert!(matches!(world.run_out().await, Ok(Ended::Stopped { .. })));
    world.settings.on_stop = OnStop::Wait;
    world.command(&accept(&world.progress().position));
    world.command(&accept(&world.progress().position));
    world.server.insert(&[("a", 6, 6)]);
    for polls in 1..40 {
        world.killed_after(polls).await;
    }
    world.until_caught_up().await;
    world.check(&["a", "b"]);
    let last = world.events().pop().expect("event");
    assert_eq!((last.epoch, last.ddl.as_deref()), (None, Some("ALTER TABLE … odd")));
    assert!(matches!(&last.tables[0].changes[..], [SchemaChange::Unknown { why }] if why == "accepted by ann: no effect on this table"));
    assert_eq!(world.events().len(), 2, "accepted twice");
}

#[tokio::test]
async fn a_row_that_cannot_be_read_stops_before_its_entry() {
    let mut world = world();
    world.until_caught_up().await;
    world.server.bad_row("a", 666);
    world.server.insert(&[("a", 10, 1), ("b", 10, 1), ("b", 11, 1), ("a", 11, 666), ("b", 12, 1), ("b", 13, 1), ("a", 12, 1)]);
    world.server.insert(&[("b", 14, 1), ("a", 14, 1)]);
    world.until(|s| s.state == State::Stopped).await;
    assert_eq!(world.rows("a").len(), 3);
    assert_eq!(world.rows("b").len(), 4);
    assert!(world.progress().message.contains("row 11 cannot be read"), "{}", world.progress().message);
    // The value is mended at the source; the table is loaded anew, and the other one goes on where it was.
    world.server.update("a", 11, 11, 7);
    world.reload("a");
    for polls in 1..60 {
        world.killed_after(polls).await;
    }
    world.until_caught_up().await;
    world.check(&["a", "b"]);
}

#[tokio::test]
async fn a_table_with_an_unreadable_row_can_be_taken_out() {
    let mut world = world();
    world.until_caught_up().await;
    world.server.bad_row("a", 666);
    world.server.insert(&[("a", 10, 1), ("b", 10, 1), ("b", 11, 1), ("a", 11, 666), ("b", 12, 1), ("b", 13, 1), ("a", 12, 1)]);
    world.until(|s| s.state == State::Stopped).await;
    assert!(world.progress().rows_done > 0);
    world.settings.tables = vec![captured("b")];
    for polls in 1..40 {
        world.killed_after(polls).await;
    }
    world.until_caught_up().await;
    world.check(&["b"]);
}

#[tokio::test]
async fn a_truncate_stops_where_the_configuration_says_so() {
    let mut world = world();
    world.settings.truncate = TruncateEvents::Stop;
    world.until_caught_up().await;
    world.server.truncate("a");
    world.server.insert(&[("a", 3, 3), ("b", 3, 3)]);
    world.until(|s| s.state == State::Stopped).await;
    assert!(world.progress().message.contains("topics.truncate"), "{}", world.progress().message);
    world.reload("a");
    world.until_caught_up().await;
    world.check(&["a", "b"]);
    assert_eq!(world.kinds(), [EventKind::Initial, EventKind::Reload]);
}

#[tokio::test]
async fn a_lost_log_is_not_asked_for_again_and_again_and_a_reload_of_all_leads_on() {
    let mut world = world();
    world.until_caught_up().await;
    world.server.insert(&[("a", 6, 6)]);
    world.server.drop_table("a");
    world.server.insert(&[("b", 6, 6)]);
    world.server.lose_log();
    // A command that does not lead on is tried once.
    world.reload("b");
    world.killed_after(200).await;
    assert!(world.progress().message.contains("instar reload FILE"), "{}", world.progress().message);
    assert_eq!(world.server.opened(), 2);
    // The table that is gone is taken out together with the reload.
    world.settings.tables = vec![captured("b")];
    world.command(&Command::Reload { table: None, sink: None });
    world.until_caught_up().await;
    world.server.insert(&[("b", 7, 7)]);
    world.until_caught_up().await;
    world.check(&["b"]);
    assert!(world.kinds().contains(&EventKind::Retire));
}
