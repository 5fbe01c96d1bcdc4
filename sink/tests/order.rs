//! The sink process over a real local log and a target in memory: order around schema changes, holds, stops, restarts.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod fake;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use fake::{
    FakeTarget, config,
    source::{Source, orders, sort},
};
use runtime::{
    config::{BadValue, Keyless, OnStop, Sink},
    shutdown::{Shutdown, ShutdownHandle},
};
use schemas::{
    change::Kind,
    command::Command,
    event::EventKind,
    order::ledger::{Hold, Lane, Outcome},
    policy::Action,
    value::Value,
};
use sink::{
    consumer::{Consumer, local::LocalConsumer},
    error::SinkError,
    process::{Ended, SinkProcess},
    shared::Shared,
};
use tokio::{task::JoinHandle, time::timeout};

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("instar-sink-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn n(i: i64) -> Value {
    Value::Integer(i.into())
}

fn note(text: &str) -> Value {
    Value::Text(text.into())
}

struct Running {
    stop: ShutdownHandle,
    task: JoinHandle<Result<Ended, SinkError>>,
    shared: Arc<Shared>,
}

fn start(source: &Source, target: &FakeTarget, sink: Sink) -> Running {
    let consumer = LocalConsumer::new(source.log.clone(), "shop", &sink.name).unwrap();
    start_from(consumer, target, sink)
}

fn start_from(consumer: impl Consumer, target: &FakeTarget, sink: Sink) -> Running {
    let process = SinkProcess::new(sink, target.clone(), consumer);
    let (stop, stopped) = Shutdown::new();
    let shared = process.shared();
    Running { stop, task: tokio::spawn(process.run(stopped)), shared }
}

impl Running {
    async fn end(self) -> Result<Ended, SinkError> {
        self.stop.request();
        timeout(Duration::from_secs(10), self.task).await.expect("the process ends").unwrap()
    }

    /// Ends by itself.
    async fn ended(self) -> Result<Ended, SinkError> {
        timeout(Duration::from_secs(10), self.task).await.expect("the process ends").unwrap()
    }
}

async fn until(what: &str, target: &FakeTarget, condition: impl Fn(&FakeTarget) -> bool) {
    let wait = async {
        while !condition(target) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    if timeout(Duration::from_secs(20), wait).await.is_err() {
        panic!("{what} does not come: {:#?}", target.store().ledger);
    }
}

/// Every lane stands at its end and every epoch is decided.
fn caught_up(source: &Source, target: &FakeTarget) -> bool {
    let store = target.store();
    store.ledger.decided == source.epoch
        && source.tables.values().all(|t| {
            source.log.ends(&t.topic).iter().zip(0..).all(|(end, lane)| {
                let lane = Lane { table: t.table.id.clone(), lane };
                store.ledger.lanes.get(&lane).map_or(0, |p| p.position) == *end
            })
        })
}

fn assert_same(source: &Source, target: &FakeTarget, name: &str) {
    let mut rows = target.rows(&source.id(name));
    sort(&mut rows);
    assert_eq!(rows, source.expected(name), "{name}");
}

#[tokio::test]
async fn rows_around_changes_keep_their_order_on_four_lanes() {
    let mut source = Source::new(&directory("order"), 4);
    source.initial(vec![orders("orders"), orders("lines")]);
    let target = FakeTarget::default();
    let running = start(&source, &target, config(3));
    for round in 0..12i64 {
        for id in 0..20 {
            source.put("orders", (id * 7 + round) % 30, &[("n", n(round)), ("note", note("x"))]);
            source.put("lines", id, &[("n", n(round))]);
        }
        source.delete("orders", round);
        match round % 4 {
            0 => source.add_column("orders", &format!("c{round}"), round),
            1 => source.rename_column("orders", &format!("c{}", round - 1), &format!("d{round}")),
            2 => source.truncate("lines"),
            _ => source.drop_column("orders", &format!("d{}", round - 2)),
        }
    }
    source.put("orders", 99, &[("n", n(1))]);
    until("the end", &target, |t| caught_up(&source, t)).await;
    assert_same(&source, &target, "orders");
    assert_same(&source, &target, "lines");
    for epoch in 2..=source.epoch {
        let table = if fake::outcome(&target, epoch, &source.id("orders")).is_some() { "orders" } else { "lines" };
        assert_eq!(fake::outcome(&target, epoch, &source.id(table)), Some(Outcome::Applied), "{epoch}");
    }
    assert_eq!(running.end().await.unwrap(), Ended::Shutdown);
}

fn holding(kind: Kind) -> Sink {
    let mut sink = config(2);
    sink.defaults.evolution.actions.insert(kind, Action::Hold);
    sink
}

#[tokio::test]
async fn a_held_table_queues_its_changes_and_a_reload_leads_out() {
    let mut source = Source::new(&directory("hold"), 2);
    source.initial(vec![orders("orders"), orders("lines")]);
    let target = FakeTarget::default();
    let running = start(&source, &target, holding(Kind::DropColumn));
    let id = source.id("orders");
    source.put("orders", 1, &[("n", n(1))]);
    source.drop_column("orders", "note");
    source.put("orders", 2, &[("n", n(2))]);
    source.add_column("orders", "extra", 5);
    source.put("orders", 3, &[("n", n(3)), ("extra", n(3))]);
    source.add_column("lines", "more", 1);
    source.put("lines", 1, &[("n", n(1)), ("more", n(2))]);
    until("the other table's change", &target, |t| t.store().ledger.decided == source.epoch && t.rows(&source.id("lines")).len() == 1)
        .await;
    {
        let store = target.store();
        assert_eq!(store.ledger.held[&id], Hold::Change { epoch: 2 });
        assert_eq!(store.ledger.queued[&id], [3]);
        let reason = &store.journal.holds[&id].reason;
        assert!(reason.contains("shop.orders") && reason.contains("`note` is dropped") && reason.contains("log:2"), "{reason}");
        assert_eq!(store.journal.holds[&id].proposed, ["DROP note"]);
    }
    assert_eq!(target.rows(&id).len(), 1, "rows behind the hold wait");
    assert_same(&source, &target, "lines");

    source.reload(&["orders"]);
    source.put("orders", 4, &[("n", n(4))]);
    until("the reload", &target, |t| caught_up(&source, t)).await;
    assert_same(&source, &target, "orders");
    for (epoch, outcome) in [(2, Outcome::Superseded), (3, Outcome::Superseded), (5, Outcome::Reloaded)] {
        assert_eq!(fake::outcome(&target, epoch, &id), Some(outcome), "{epoch}");
    }
    assert!(target.store().ledger.held.is_empty() && target.store().ledger.queued.is_empty());
    running.end().await.unwrap();
}

#[tokio::test]
async fn a_held_change_is_approved_or_kept_and_its_queue_follows() {
    use schemas::order::ledger::Approval;
    use sink::review::approve;
    for approval in [Approval::Approve { ddl: None }, Approval::Keep] {
        let mut source = Source::new(&directory(if approval == Approval::Keep { "keep" } else { "approve" }), 2);
        source.initial(vec![orders("orders")]);
        let target = FakeTarget::default();
        let running = start(&source, &target, holding(Kind::DropColumn));
        let id = source.id("orders");
        source.put("orders", 1, &[("n", n(1)), ("note", note("a"))]);
        source.drop_column("orders", "note");
        source.put("orders", 2, &[("n", n(2))]);
        source.add_column("orders", "extra", 5);
        source.put("orders", 3, &[("n", n(3)), ("extra", n(3))]);
        until("the queue", &target, |t| fake::outcome(t, 3, &id) == Some(Outcome::Queued)).await;
        let edited = Approval::Approve { ddl: Some(vec!["DROP TABLE orders".into()]) };
        assert!(matches!(approve(&target, &id, edited, "ann").await, Err(SinkError::Refused(_))));
        approve(&target, &id, approval.clone(), "ann").await.unwrap();
        until("the end", &target, |t| caught_up(&source, t) && t.store().ledger.queued.is_empty()).await;
        assert_eq!(fake::outcome(&target, 3, &id), Some(Outcome::Applied));
        if approval == Approval::Keep {
            assert_eq!(fake::outcome(&target, 2, &id), Some(Outcome::Kept));
            let notes: Vec<Value> = target.rows(&id).iter().map(|row| row["note"].clone()).collect();
            assert_eq!(notes, [note("a"), Value::Null, Value::Null]);
        } else {
            assert_eq!(fake::outcome(&target, 2, &id), Some(Outcome::Approved));
            assert_same(&source, &target, "orders");
        }
        assert_eq!(target.store().audit.len(), 1);
        assert!(matches!(approve(&target, &id, Approval::Keep, "ann").await, Err(SinkError::Refused(_))));
        running.end().await.unwrap();
    }
}

#[tokio::test]
async fn a_stop_ends_the_process_behind_what_came_before_and_a_reload_leads_on() {
    let mut source = Source::new(&directory("stop"), 2);
    source.initial(vec![orders("orders"), orders("lines")]);
    let target = FakeTarget::default();
    let mut sink = config(2);
    sink.defaults.evolution.actions.insert(Kind::DropColumn, Action::Stop);
    for id in 0..30 {
        source.put("lines", id, &[("n", n(id))]);
    }
    source.drop_column("orders", "note");
    let decided = source.epoch - 1;
    source.put("lines", 100, &[("n", n(1))]);
    source.add_column("lines", "more", 1);
    let ended = start(&source, &target, sink.clone()).ended().await.unwrap();
    let Ended::Stopped { message } = ended else { panic!("{ended:?}") };
    for part in ["shop.orders", "`note` is dropped", "log:2", "ALTER TABLE orders DROP COLUMN note", "Reload the table"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert_eq!(target.store().ledger.decided, decided);
    assert_eq!(target.rows(&source.id("lines")).len(), 30, "all before the stop, nothing behind it");

    // A restart stands at the same change.
    assert_eq!(start(&source, &target, sink.clone()).ended().await.unwrap(), Ended::Stopped { message });
    source.reload(&["orders"]);
    let running = start(&source, &target, sink);
    until("the reload", &target, |t| caught_up(&source, t)).await;
    assert_same(&source, &target, "orders");
    assert_same(&source, &target, "lines");
    assert_eq!(fake::outcome(&target, 2, &source.id("orders")), Some(Outcome::Superseded));
    assert_eq!(fake::outcome(&target, 3, &source.id("lines")), Some(Outcome::Applied));
    running.end().await.unwrap();
}

#[tokio::test]
async fn on_stop_wait_goes_on_when_the_ledger_does() {
    let mut source = Source::new(&directory("wait"), 1);
    source.initial(vec![orders("orders")]);
    let target = FakeTarget::default();
    let mut sink = config(1);
    sink.on_stop = OnStop::Wait;
    sink.defaults.evolution.actions.insert(Kind::DropColumn, Action::Stop);
    source.drop_column("orders", "note");
    source.put("orders", 1, &[]);
    let running = start(&source, &target, sink);
    until("the stop", &target, |t| fake::outcome(t, 2, &source.id("orders")) == Some(Outcome::Stopped)).await;
    let mut state = running.shared.state();
    timeout(Duration::from_secs(5), state.wait_for(|s| matches!(s, sink::status::Liveness::Stopped(_)))).await.unwrap().unwrap();
    source.reload(&["orders"]);
    until("the reload", &target, |t| caught_up(&source, t)).await;
    timeout(Duration::from_secs(5), state.wait_for(|s| *s == sink::status::Liveness::Running)).await.unwrap().unwrap();
    assert_same(&source, &target, "orders");
    running.end().await.unwrap();
}

#[tokio::test]
async fn a_row_that_does_not_fit_stops_behind_the_rows_before_it() {
    let mut source = Source::new(&directory("row"), 1);
    source.initial(vec![orders("orders"), orders("lines")]);
    let target = FakeTarget::default();
    let mut sink = config(1);
    sink.batch.rows = 16;
    for id in 0..40 {
        source.put("orders", id, &[("note", note(if id == 23 { "BAD" } else { "good" }))]);
        source.put("lines", id, &[("note", note("good"))]);
    }
    source.add_column("orders", "late", 1);
    source.add_column("lines", "late", 1);
    let Ended::Stopped { message } = start(&source, &target, sink.clone()).ended().await.unwrap() else { panic!("no stop") };
    for part in ["shop.orders", "column `note`", "offset 23", "Reload the table"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert_eq!(target.rows(&source.id("orders")).len(), 23);
    assert_eq!(target.store().ledger.decided, 1, "no later epoch is decided");

    let captured = source.tables.get_mut("orders").unwrap();
    let fixed = captured.table.column("note").unwrap().id;
    captured.rows.get_mut(&23).unwrap().insert(fixed, note("mended"));
    source.reload(&["orders"]);
    let running = start(&source, &target, sink);
    until("the reload", &target, |t| caught_up(&source, t)).await;
    assert_same(&source, &target, "orders");
    assert_same(&source, &target, "lines");
    running.end().await.unwrap();
}

#[tokio::test]
async fn bad_value_hold_holds_that_table_alone() {
    let mut source = Source::new(&directory("badhold"), 2);
    source.initial(vec![orders("orders"), orders("lines")]);
    let target = FakeTarget::default();
    let mut sink = config(2);
    sink.defaults.bad_value = BadValue::Hold;
    let running = start(&source, &target, sink);
    for id in 0..20 {
        source.put("orders", id, &[("note", note(if id == 11 { "BAD" } else { "good" }))]);
        source.put("lines", id, &[("note", note("good"))]);
    }
    source.add_column("orders", "later", 1);
    source.add_column("lines", "later", 1);
    source.put("lines", 50, &[("later", n(9))]);
    until("the other table", &target, |t| t.store().ledger.decided == source.epoch && t.rows(&source.id("lines")).len() == 21).await;
    let id = source.id("orders");
    assert_eq!(target.store().ledger.held[&id], Hold::Value { epoch: 1 });
    assert_eq!(fake::outcome(&target, 2, &id), Some(Outcome::Queued));
    assert!(target.rows(&id).len() < 20);
    assert_same(&source, &target, "lines");
    running.end().await.unwrap();
}

/// The search for a bad row takes one lane at a time: lanes where nothing is left to search must not keep the others waiting.
#[tokio::test]
async fn behind_a_bad_row_the_other_lanes_of_the_worker_go_on() {
    let mut source = Source::new(&directory("search"), 4);
    source.initial(vec![orders("orders"), orders("lines")]);
    let target = FakeTarget::default();
    let mut sink = config(1);
    sink.defaults.bad_value = BadValue::Hold;
    for id in 0..20 {
        source.put("orders", id, &[("note", note(if id == 11 { "BAD" } else { "good" }))]);
    }
    let running = start(&source, &target, sink);
    let id = source.id("orders");
    until("the hold", &target, |t| t.store().ledger.held.contains_key(&id)).await;
    // Most lanes of the table stay empty behind the reload.
    source.tables.get_mut("orders").unwrap().rows.clear();
    source.reload(&["orders"]);
    until("the reload", &target, |t| t.store().ledger.decided == source.epoch).await;
    for id in 0..20 {
        source.put("lines", id, &[("note", note("good"))]);
    }
    until("the other table", &target, |t| caught_up(&source, t)).await;
    assert_same(&source, &target, "lines");
    assert_same(&source, &target, "orders");
    running.end().await.unwrap();
}

/// A local log whose oldest rows are gone.
#[derive(Clone)]
struct Cut {
    inner: LocalConsumer,
    below: u64,
}

impl Consumer for Cut {
    type Block = <LocalConsumer as Consumer>::Block;
    type Proof = ();

    fn fetch(&self, topic: &str, _topic_id: Option<&str>, lane: u32, from: u64, max_bytes: usize) -> Result<Self::Block, SinkError> {
        if from < self.below {
            return Err(SinkError::Stop { message: format!("topic {topic}: rows before {} are gone", self.below) });
        }
        self.inner.fetch(topic, None, lane, from, max_bytes)
    }

    fn prove<'t>(&self, _topics: impl Iterator<Item = (&'t str, &'t str)>) {}

    async fn events(&self, from: u64) -> Result<(Vec<schemas::event::SchemaEvent>, u64), SinkError> {
        self.inner.events(from).await
    }

    async fn progress(&self) -> Result<Option<schemas::event::Progress>, SinkError> {
        self.inner.progress().await
    }

    async fn ends(&self, topic: &str) -> Result<Vec<u64>, SinkError> {
        self.inner.ends(topic).await
    }

    async fn starts(&self, topic: &str) -> Result<Vec<u64>, SinkError> {
        Ok(self.inner.starts(topic).await?.into_iter().map(|start| start.max(self.below)).collect())
    }

    async fn peek(&self, topic: &str, lane: u32, from: u64) -> Result<Self::Block, SinkError> {
        self.fetch(topic, None, lane, from, 1)
    }

    async fn ask(&self, command: &Command) -> Result<(), SinkError> {
        self.inner.ask(command).await
    }

    fn changed(&self) -> tokio::sync::watch::Receiver<u64> {
        self.inner.changed()
    }

    fn applied(&self, topic: &str, lane: u32, position: u64) -> Result<(), SinkError> {
        self.inner.applied(topic, lane, position)
    }
}

#[tokio::test]
async fn a_new_sink_whose_first_rows_are_gone_asks_for_copies_of_its_own() {
    let mut source = Source::new(&directory("late"), 1);
    source.initial(vec![orders("orders"), orders("lines")]);
    for id in 0..5 {
        source.put("orders", id, &[]);
        source.put("lines", id, &[]);
    }
    let target = FakeTarget::default();
    let consumer = Cut { inner: LocalConsumer::new(source.log.clone(), "shop", "warehouse").unwrap(), below: 5 };
    let running = start_from(consumer.clone(), &target, config(1));
    until("the base line", &target, |t| t.store().ledger.decided == 1).await;
    assert_eq!(source.commands(), [Command::Reload { table: None, sink: Some("warehouse".into()) }]);
    assert_eq!(target.store().ledger.retired, [source.id("orders"), source.id("lines")].into());
    // Rows between the base line and the copies are in the copies.
    source.put("orders", 9, &[("n", n(9))]);
    source.reload_for("warehouse", &["orders"]);
    source.reload_for("warehouse", &["lines"]);
    source.put("lines", 9, &[("n", n(9))]);
    until("the copies", &target, |t| caught_up(&source, t)).await;
    assert_same(&source, &target, "orders");
    assert_same(&source, &target, "lines");
    running.end().await.unwrap();
    // Not again at its next start.
    let running = start_from(consumer, &target, config(1));
    source.put("lines", 10, &[]);
    until("the row", &target, |t| caught_up(&source, t)).await;
    assert_eq!(source.commands().len(), 1);
    running.end().await.unwrap();
}

#[tokio::test]
async fn rows_that_are_gone_stop_a_sink_and_a_reload_leads_out_without_a_restart() {
    let mut source = Source::new(&directory("gone"), 1);
    source.initial(vec![orders("orders")]);
    source.put("orders", 7, &[]);
    let target = FakeTarget::default();
    let running = start(&source, &target, config(1));
    until("the first row", &target, |t| caught_up(&source, t)).await;
    running.end().await.unwrap();
    for id in 0..5 {
        source.put("orders", id, &[]);
    }
    let consumer = Cut { inner: LocalConsumer::new(source.log.clone(), "shop", "warehouse").unwrap(), below: 5 };
    let error = start_from(consumer.clone(), &target, config(1)).ended().await.unwrap_err();
    assert!(matches!(&error, SinkError::Stop { message } if message.contains("rows before 5 are gone")), "{error:?}");
    source.reload(&["orders"]);
    let running = start_from(consumer, &target, config(1));
    until("the reload", &target, |t| caught_up(&source, t)).await;
    assert_same(&source, &target, "orders");
    running.end().await.unwrap();
}

#[tokio::test]
async fn a_reload_that_the_configuration_does_not_allow_stops_and_the_next_one_leads_out() {
    let mut source = Source::new(&directory("disallowed"), 1);
    source.initial(vec![orders("orders")]);
    let target = FakeTarget::default();
    let mut sink = config(1);
    sink.defaults.keyless = Keyless::Refuse;
    source.put("orders", 1, &[("n", n(1))]);
    let keyed = source.tables["orders"].table.clone();
    source.tables.get_mut("orders").unwrap().table.primary = None;
    source.begin(EventKind::Reload, vec![source.tables["orders"].table.clone()], None);
    let Ended::Stopped { message } = start(&source, &target, sink.clone()).ended().await.unwrap() else { panic!("no stop") };
    for part in ["shop.orders has no row key", "keyless", "reload the table", "epoch 2"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    source.tables.get_mut("orders").unwrap().table = keyed;
    source.reload(&["orders"]);
    let running = start(&source, &target, sink);
    until("the next reload", &target, |t| caught_up(&source, t)).await;
    assert_same(&source, &target, "orders");
    assert_eq!(fake::outcome(&target, 2, &source.id("orders")), Some(Outcome::Superseded));
    running.end().await.unwrap();
}

#[tokio::test]
async fn an_update_without_all_columns_whose_row_is_missing_holds() {
    use schemas::wire::envelope::Op;
    let mut source = Source::new(&directory("incomplete"), 1);
    source.initial(vec![orders("orders")]);
    let target = FakeTarget::default();
    let running = start(&source, &target, config(1));
    source.put("orders", 1, &[("n", n(1)), ("note", note("kept"))]);
    let partial = source.row("orders", &[("id", n(1)), ("n", n(2))]);
    source.publish("orders", Op::Update, None, Some(&partial), &["note"], None);
    let missing = source.row("orders", &[("id", n(9)), ("n", n(2))]);
    source.publish("orders", Op::Update, None, Some(&missing), &["note"], None);
    let id = source.id("orders");
    until("the hold", &target, |t| t.store().ledger.held.contains_key(&id)).await;
    assert_eq!(target.store().ledger.held[&id], Hold::Value { epoch: 1 });
    let rows = target.rows(&id);
    assert_eq!((rows.len(), &rows[0]["n"], &rows[0]["note"]), (1, &n(2), &note("kept")));
    running.end().await.unwrap();
}

#[tokio::test]
async fn a_retired_table_stays_as_it_is_and_comes_back_by_a_reload() {
    let mut source = Source::new(&directory("retire"), 2);
    source.initial(vec![orders("orders"), orders("lines")]);
    let target = FakeTarget::default();
    let running = start(&source, &target, config(2));
    source.put("orders", 1, &[("n", n(1))]);
    until("the row", &target, |t| t.rows(&source.id("orders")).len() == 1).await;
    source.retire("orders");
    source.put("lines", 1, &[]);
    until("the removal", &target, |t| t.store().ledger.decided == 2 && t.rows(&source.id("lines")).len() == 1).await;
    assert_eq!(fake::outcome(&target, 2, &source.id("orders")), Some(Outcome::Retired));
    assert_eq!(target.rows(&source.id("orders")).len(), 1);
    source.tables.get_mut("orders").unwrap().rows.clear();
    source.reload(&["orders"]);
    source.put("orders", 5, &[("n", n(5))]);
    until("the table again", &target, |t| caught_up(&source, t)).await;
    assert_same(&source, &target, "orders");
    running.end().await.unwrap();
}

#[tokio::test]
async fn a_reload_for_another_sink_only_moves_the_position() {
    use schemas::wire::envelope::Op;
    let mut source = Source::new(&directory("other"), 2);
    source.initial(vec![orders("orders")]);
    let target = FakeTarget::default();
    let running = start(&source, &target, config(2));
    source.put("orders", 1, &[("n", n(1))]);
    source.begin(EventKind::Reload, vec![source.tables["orders"].table.clone()], Some("lake".into()));
    for id in 1..6 {
        let row = source.row("orders", &[("id", n(id)), ("n", n(77))]);
        source.publish("orders", Op::Read, None, Some(&row), &[], Some("lake"));
    }
    source.put("orders", 2, &[("n", n(2))]);
    until("the end", &target, |t| caught_up(&source, t)).await;
    assert_same(&source, &target, "orders");
    assert_eq!(fake::outcome(&target, 2, &source.id("orders")), Some(Outcome::NothingToApply));
    running.end().await.unwrap();
}

#[tokio::test]
async fn what_the_server_refuses_stops_at_the_change() {
    let mut source = Source::new(&directory("refused"), 1);
    source.initial(vec![orders("orders")]);
    let target = FakeTarget::default();
    target.store().refuse_sql = Some("ADD bad".into());
    source.put("orders", 1, &[]);
    source.add_column("orders", "bad", 1);
    source.put("orders", 2, &[]);
    let Ended::Stopped { message } = start(&source, &target, config(1)).ended().await.unwrap() else { panic!("no stop") };
    assert!(message.contains("the server refuses `ADD bad 3 1`") && message.contains("epoch 2"), "{message}");
    assert_eq!(target.rows(&source.id("orders")).len(), 1);
}

#[tokio::test]
async fn a_table_that_is_not_ours_is_refused_before_anything_is_touched() {
    let mut source = Source::new(&directory("foreign"), 1);
    source.initial(vec![orders("orders")]);
    source.put("orders", 1, &[]);
    let target = FakeTarget::default();
    let mut rows = fake::Rows::default();
    rows.plain.push(fake::Row::new());
    target.store().tables.insert(source.id("orders"), (orders("orders"), rows));
    let error = start(&source, &target, config(1)).ended().await.unwrap_err();
    let SinkError::Refused(message) = error else { panic!("{error:?}") };
    assert!(message.contains("shop.orders exists, holds rows and is not ours") && message.contains("adopt: true"), "{message}");
    assert_eq!(target.store().statements, Vec::<String>::new());

    let mut sink = config(1);
    sink.adopt = true;
    let running = start(&source, &target, sink);
    until("the row", &target, |t| caught_up(&source, t)).await;
    assert_eq!(target.rows(&source.id("orders")).len(), 2);
    running.end().await.unwrap();
}

#[tokio::test]
async fn what_comes_behind_a_flush_waits_as_long_as_it_took() {
    const FLUSH: Duration = Duration::from_millis(50);
    let mut source = Source::new(&directory("linger"), 1);
    source.initial(vec![orders("orders")]);
    let target = FakeTarget::default();
    target.store().write_takes = FLUSH;
    let mut sink = config(1);
    sink.batch.linger = Duration::from_secs(3600);
    let running = start(&source, &target, sink);
    until("the first event", &target, |t| caught_up(&source, t)).await;
    let begun = Instant::now();
    for id in 1..=4 {
        source.put("orders", id, &[("n", n(id))]);
        until("the row", &target, |t| caught_up(&source, t)).await;
    }
    // Four flushes, and the waits between them.
    assert!(begun.elapsed() >= FLUSH * 7, "{:?}", begun.elapsed());
    running.end().await.unwrap();
}

#[tokio::test]
async fn without_a_key_every_row_comes_once() {
    use schemas::{table::Table, wire::envelope::Op};
    let mut source = Source::new(&directory("keyless"), 4);
    let mut table: Table = orders("orders");
    table.primary = None;
    source.initial(vec![table]);
    let target = FakeTarget::default();
    let mut running = start(&source, &target, config(2));
    for i in 0..60 {
        let row = source.row("orders", &[("id", n(i % 7)), ("n", n(1))]);
        source.publish("orders", Op::Create, None, Some(&row), &[], None);
        if i % 3 == 0 {
            source.publish("orders", Op::Delete, Some(&row), None, &[], None);
        }
        if i % 10 == 9 {
            target.store().lose_answers = 1;
        }
        if i % 20 == 19 {
            running.task.abort();
            running = start(&source, &target, config(2));
        }
    }
    until("the end", &target, |t| caught_up(&source, t)).await;
    assert_eq!(target.rows(&source.id("orders")).len(), 40);
    running.end().await.unwrap();
}

/// Two instances, each killed at any await, lost answers and refused connections, while tables are altered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_killed_at_any_await_end_with_the_sources_rows() {
    for seed in 0..6u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut roll = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut source = Source::new(&directory(&format!("two{seed}")), 3);
        source.initial(vec![orders("orders"), orders("lines")]);
        let target = FakeTarget::default();
        let mut instances = vec![start(&source, &target, config(2)), start(&source, &target, config(3))];
        for step in 0..120i64 {
            let name = if roll(2) == 0 { "orders" } else { "lines" };
            match roll(20) {
                0 => source.add_column(name, &format!("c{step}"), step),
                1 => source.truncate(name),
                2 => source.reload(&[name]),
                3 | 4 => source.delete(name, i64::try_from(roll(15)).unwrap()),
                _ => source.put(name, i64::try_from(roll(15)).unwrap(), &[("n", n(step))]),
            }
            if roll(8) == 0 {
                let at = usize::try_from(roll(2)).unwrap();
                for _ in 0..roll(40) {
                    tokio::task::yield_now().await;
                }
                instances[at].task.abort();
                instances[at] = start(&source, &target, config(2));
            }
            if roll(15) == 0 {
                target.store().lose_answers += 1;
            }
            if roll(25) == 0 {
                target.store().refuse_connections += 1;
            }
        }
        until("the end", &target, |t| caught_up(&source, t)).await;
        assert_same(&source, &target, "orders");
        assert_same(&source, &target, "lines");
        for instance in instances {
            instance.end().await.unwrap();
        }
    }
}
