use schemas::{
    change::{Fill, SchemaChange},
    event::{CopyProgress, TableProgress},
    native::{Native, postgres},
    order::ledger::LanePosition,
    table::{Column, Table},
    value::Value,
};

use super::{
    history::{history, history_text, time},
    wait::{Goal, Standing, Until, standing},
    *,
};
use crate::target::{HoldText, OutcomeText};

fn id(name: &str) -> TableId {
    TableId::new("shop", name)
}

fn shape(name: &str) -> Table {
    let int = Native::Postgres(postgres::Native::Integer);
    Table::new(id(name), vec![Column::new(0, "id", int.clone()).not_null(), Column::new(1, "note", int)], &["id"])
}

pub(crate) fn part(name: &str, version: u32, boundaries: Vec<Offset>, changes: Vec<SchemaChange>) -> TableEvent {
    TableEvent {
        table: shape(name),
        version,
        changes,
        topic: format!("shop.shop.{name}"),
        topic_id: None,
        lanes: 2,
        boundaries,
        key_schema: Some(1),
        value_schema: 2,
        superseded: Vec::new(),
    }
}

pub(crate) fn event(epoch: Option<Epoch>, kind: EventKind, ddl: Option<&str>, tables: Vec<TableEvent>) -> SchemaEvent {
    let ts_ms = 1_700_000_000_000 + i64::try_from(epoch.unwrap_or(0)).unwrap() * 1000;
    SchemaEvent { epoch, kind, position: format!("log:{}", epoch.unwrap_or(0)), ts_ms, ddl: ddl.map(Into::into), tables, for_sink: None }
}

fn drop_note() -> SchemaChange {
    SchemaChange::DropColumn { column: shape("orders").column("note").unwrap().clone(), in_key: false }
}

/// Orders is held at a drop of epoch 2 and altered once more at 3; lines was altered at 4.
fn events() -> Vec<SchemaEvent> {
    let added = Column::new(2, "more", Native::Postgres(postgres::Native::Integer));
    let add = |fill| SchemaChange::AddColumn { column: added.clone(), fill };
    let comment = SchemaChange::ChangeComment { column: None };
    vec![
        event(Some(1), EventKind::Initial, None, vec![part("orders", 1, vec![0, 0], vec![]), part("lines", 1, vec![0, 0], vec![])]),
        event(Some(2), EventKind::Ddl, Some("ALTER TABLE orders DROP note"), vec![part("orders", 2, vec![3, 1], vec![drop_note()])]),
        event(None, EventKind::Ddl, Some("ALTER TABLE lines COMMENT 'x'"), vec![part("lines", 1, vec![5, 5], vec![comment])]),
        event(Some(3), EventKind::Ddl, Some("ALTER TABLE orders ADD more INT"), vec![part("orders", 3, vec![4, 2], vec![add(Fill::Null)])]),
        event(
            Some(4),
            EventKind::Ddl,
            Some("ALTER TABLE lines ADD more INT DEFAULT 7"),
            vec![part("lines", 2, vec![5, 5], vec![add(Fill::Constant(Value::Integer(7)))])],
        ),
    ]
}

fn ledger() -> Ledger {
    let at = |position| LanePosition { position, seq: 0, epoch: 1 };
    let lane = |name: &str, lane| Lane { table: id(name), lane };
    Ledger {
        decided: 4,
        outcomes: BTreeMap::from([((2, id("orders")), Outcome::Held), ((3, id("orders")), Outcome::Queued)]),
        held: BTreeMap::from([(id("orders"), Hold::Change { epoch: 2 })]),
        queued: BTreeMap::from([(id("orders"), vec![3])]),
        lanes: BTreeMap::from([
            (lane("orders", 0), at(3)),
            (lane("orders", 1), at(1)),
            (lane("lines", 0), at(6)),
            (lane("lines", 1), at(5)),
        ]),
        ..Ledger::default()
    }
}

fn text(outcome: Outcome, reason: &str, target_ddl: &[&str]) -> OutcomeText {
    OutcomeText { outcome, reason: reason.into(), target_ddl: target_ddl.iter().map(ToString::to_string).collect() }
}

fn sink(ledger: Ledger) -> SinkSnapshot {
    let journal = Journal {
        outcomes: BTreeMap::from([
            ((2, id("orders")), text(Outcome::Held, "table shop.orders: column `note` is dropped", &[])),
            ((3, id("orders")), text(Outcome::Queued, "", &[])),
            ((4, id("lines")), text(Outcome::Applied, "added", &["ALTER TABLE lines ADD COLUMN more int"])),
        ]),
        holds: BTreeMap::from([(
            id("orders"),
            HoldText {
                reason: "`note` is dropped. Reload the table.".into(),
                proposed: vec!["ALTER TABLE orders DROP COLUMN note".into()],
            },
        )]),
        stop_at_row: None,
    };
    let first = BTreeMap::from([(Lane { table: id("orders"), lane: 0 }, FirstRow { epoch: 2, ts_ms: 1_700_000_001_500 })]);
    SinkSnapshot { process: Liveness::Running, ledger: Some(ledger), journal, first, unreachable: None }
}

fn ends() -> BTreeMap<String, Vec<Offset>> {
    BTreeMap::from([("shop.shop.orders".into(), vec![10, 1]), ("shop.shop.lines".into(), vec![6, 5])])
}

pub(crate) fn progress(copy: Option<&str>) -> Progress {
    let table = |name: &str| TableProgress {
        id: id(name),
        version: 1,
        topic: format!("shop.shop.{name}"),
        lanes: 2,
        retired: false,
        copy: (copy == Some(name)).then(|| CopyProgress { rows_done: 50, rows_estimated: 200, ..copy_of_none() }),
        begin: None,
    };
    Progress {
        pipeline_id: "p".into(),
        position: "log:9".into(),
        rows_done: 0,
        seq: 99,
        epoch: 4,
        command: 0,
        tables: ["orders", "lines"].map(|name| (format!("shop.shop.{name}"), table(name))).into(),
        waiting: Default::default(),
        state: SourceState::Running,
        message: String::new(),
        ts_ms: 1_700_000_010_000,
        commit_ts_ms: 1_700_000_009_750,
        due_ms: i64::MAX,
    }
}

fn copy_of_none() -> CopyProgress {
    serde_json::from_value(json!({ "chunks": [], "planned_to": null, "all_planned": false, "rows_done": 0, "rows_estimated": 0 })).unwrap()
}

fn snapshot<'a>(
    events: &'a [SchemaEvent],
    ends: &'a BTreeMap<String, Vec<Offset>>,
    progress: &'a Progress,
    sink: SinkSnapshot,
) -> Snapshot<'a> {
    Snapshot {
        pipeline: "shop",
        source: Liveness::Running,
        progress: Some(progress),
        events,
        ends,
        sinks: BTreeMap::from([("warehouse".to_owned(), sink)]),
        now_ms: 1_700_000_012_000,
    }
}

pub(crate) fn held_snapshot() -> SinkSnapshot {
    sink(ledger())
}

pub(crate) fn with_snapshot(sink: SinkSnapshot, test: impl FnOnce(&Snapshot<'_>)) {
    let (events, ends, progress) = (events(), ends(), progress(None));
    test(&snapshot(&events, &ends, &progress, sink));
}

#[test]
fn status_names_states_lags_and_reasons() {
    let (events, ends, progress) = (events(), ends(), progress(None));
    let json = status(&snapshot(&events, &ends, &progress, sink(ledger())));
    let expected = json!({
        "pipeline": "shop",
        "source": { "state": "running", "message": "", "position": "log:9", "lag_seconds": 0.25, "copies": {} },
        "sinks": { "warehouse": { "state": "running", "message": "", "decided_epoch": 4, "tables": {
            "shop.orders": { "state": "held", "message": "`note` is dropped. Reload the table.", "lag_rows": 7, "lag_seconds": 10.5 },
            "shop.lines": { "state": "streaming", "message": "", "lag_rows": 0, "lag_seconds": 0.0 },
        } } },
    });
    assert_eq!(json, expected);
    let printed = status_text(&json);
    assert!(
        printed.contains("shop.orders") && printed.contains("held") && printed.contains("`note` is dropped. Reload the table."),
        "{printed}"
    );
}

#[test]
fn a_stop_shows_with_every_process_dead() {
    let (events, ends, mut progress) = (events(), ends(), progress(Some("lines")));
    progress.state = SourceState::Stopped;
    progress.message = "the statement at log:9 is not understood".into();
    let mut ledger = ledger();
    ledger.decided = 3;
    ledger.outcomes.insert((4, id("lines")), Outcome::Stopped);
    let mut sink = sink(ledger);
    sink.process = Liveness::Down;
    sink.journal.outcomes.insert((4, id("lines")), text(Outcome::Stopped, "it stops here. Reload the table.", &[]));
    let mut snapshot = snapshot(&events, &ends, &progress, sink);
    snapshot.source = Liveness::Down;
    let json = status(&snapshot);
    assert_eq!(json["source"]["state"], "stopped");
    assert_eq!(json["source"]["message"], "the statement at log:9 is not understood");
    assert_eq!(json["source"]["lag_seconds"], 2.25);
    assert_eq!(json["source"]["copies"], json!({ "shop.lines": { "rows_done": 50, "rows_estimated": 200 } }));
    assert_eq!(json["sinks"]["warehouse"]["state"], "stopped");
    assert_eq!(json["sinks"]["warehouse"]["message"], "it stops here. Reload the table.");
    assert_eq!(json["sinks"]["warehouse"]["tables"]["shop.lines"]["state"], "snapshotting");
}

#[test]
fn without_a_process_a_pipeline_is_down_and_retrying_says_why() {
    let (events, ends, progress) = (events(), ends(), progress(None));
    let mut dead = sink(ledger());
    dead.process = Liveness::Down;
    let mut snapshot = snapshot(&events, &ends, &progress, dead);
    snapshot.source = Liveness::Down;
    let json = status(&snapshot);
    assert_eq!((json["source"]["state"].as_str(), json["sinks"]["warehouse"]["state"].as_str()), (Some("down"), Some("down")));
    snapshot.sinks.get_mut("warehouse").unwrap().process = Liveness::Retrying("connection refused".into());
    let json = status(&snapshot);
    assert_eq!(json["sinks"]["warehouse"]["state"], "retrying");
    assert_eq!(json["sinks"]["warehouse"]["message"], "connection refused");
}

#[test]
fn history_has_one_entry_per_statement_and_table() {
    let (events, ends, progress) = (events(), ends(), progress(None));
    let snapshot = snapshot(&events, &ends, &progress, sink(ledger()));
    let json = history(&snapshot, None);
    let expected = json!([
        { "epoch": 2, "table": "shop.orders", "position": "log:2", "time": "2023-11-14T22:13:22.000Z", "kind": "ddl",
          "ddl": "ALTER TABLE orders DROP note", "changes": [{ "kind": "drop_column", "column": "note", "from": "integer" }],
          "outcomes": { "warehouse": { "outcome": "held", "reason": "table shop.orders: column `note` is dropped", "target_ddl": [] } } },
        { "epoch": null, "table": "shop.lines", "position": "log:0", "time": "2023-11-14T22:13:20.000Z", "kind": "ddl",
          "ddl": "ALTER TABLE lines COMMENT 'x'", "changes": [{ "kind": "change_comment", "column": null }],
          "outcomes": { "warehouse": { "outcome": "nothing_to_apply", "reason": "", "target_ddl": [] } } },
        { "epoch": 3, "table": "shop.orders", "position": "log:3", "time": "2023-11-14T22:13:23.000Z", "kind": "ddl",
          "ddl": "ALTER TABLE orders ADD more INT", "changes": [{ "kind": "add_column_nullable", "column": "more", "to": "integer" }],
          "outcomes": { "warehouse": { "outcome": "queued", "reason": "", "target_ddl": [] } } },
        { "epoch": 4, "table": "shop.lines", "position": "log:4", "time": "2023-11-14T22:13:24.000Z", "kind": "ddl",
          "ddl": "ALTER TABLE lines ADD more INT DEFAULT 7", "changes": [{ "kind": "add_column_constant_default", "column": "more", "to": "integer" }],
          "outcomes": { "warehouse": { "outcome": "applied", "reason": "added", "target_ddl": ["ALTER TABLE lines ADD COLUMN more int"] } } },
    ]);
    assert_eq!(json, expected);
    assert_eq!(history(&snapshot, Some(&id("lines"))).as_array().unwrap().len(), 2);
    let printed = history_text(&json);
    assert!(printed.contains("warehouse: applied  added\n         ALTER TABLE lines ADD COLUMN more int"), "{printed}");
}

#[test]
fn a_change_without_an_outcome_is_pending() {
    let (events, ends, progress) = (events(), ends(), progress(None));
    let mut sink = sink(ledger());
    sink.journal.outcomes.clear();
    let json = history(&snapshot(&events, &ends, &progress, sink.clone()), Some(&id("orders")));
    assert_eq!(json[0]["outcomes"]["warehouse"], json!({ "outcome": "pending", "reason": "", "target_ddl": [] }));
    sink.unreachable = Some("connect to the target: connection refused".into());
    let json = history(&snapshot(&events, &ends, &progress, sink), Some(&id("orders")));
    let unknown = json!({ "outcome": "pending", "reason": "connect to the target: connection refused", "target_ddl": [] });
    assert_eq!(json[0]["outcomes"]["warehouse"], unknown);
}

#[test]
fn wait_is_settled_behind_a_hold_and_caught_up_without_one() {
    let (events, ends) = (events(), ends());
    let goal = Goal::new(&events, &ends);
    let held = standing("warehouse", &sink(ledger()), &events, &goal);
    assert_eq!(held, Standing::Held("sink warehouse holds shop.orders: `note` is dropped. Reload the table.".into()));
    assert_eq!((held.exit(Until::Settled), held.exit(Until::CaughtUp), held.exit_at_timeout()), (Some(4), None, 4));

    let mut free = ledger();
    (free.held, free.queued, free.outcomes) = Default::default();
    let behind = standing("warehouse", &sink(free.clone()), &events, &goal);
    assert_eq!((behind.exit(Until::Settled), behind.exit_at_timeout()), (None, 5), "{behind:?}");

    free.lanes.get_mut(&Lane { table: id("orders"), lane: 0 }).unwrap().position = 10;
    let done = standing("warehouse", &sink(free), &events, &goal);
    assert_eq!((&done, done.exit(Until::CaughtUp)), (&Standing::CaughtUp, Some(0)));
}

#[test]
fn wait_is_settled_behind_a_stop_but_not_while_a_reload_leads_out() {
    let (mut events, ends) = (events(), ends());
    let mut ledger = ledger();
    (ledger.held, ledger.queued, ledger.decided) = (BTreeMap::new(), BTreeMap::new(), 3);
    ledger.outcomes = BTreeMap::from([((4, id("lines")), Outcome::Stopped)]);
    ledger.lanes.get_mut(&Lane { table: id("orders"), lane: 0 }).unwrap().position = 10;
    let stopped = standing("warehouse", &sink(ledger.clone()), &events, &Goal::new(&events, &ends));
    assert_eq!((stopped.exit(Until::Settled), stopped.exit(Until::CaughtUp), stopped.exit_at_timeout()), (Some(3), None, 3), "{stopped:?}");

    events.push(event(Some(5), EventKind::Reload, None, vec![part("lines", 3, vec![6, 5], vec![])]));
    let leaving = standing("warehouse", &sink(ledger), &events, &Goal::new(&events, &ends));
    assert_eq!(leaving.exit(Until::Settled), None, "{leaving:?}");
}

#[test]
fn a_sink_that_ended_by_itself_is_stopped_and_not_on_its_way() {
    let (events, ends) = (events(), ends());
    let mut free = ledger();
    (free.held, free.queued, free.outcomes) = Default::default();
    let mut ended = sink(free.clone());
    ended.process = Liveness::Ended("rows are lost. Reload the table.".into());
    let goal = Goal::new(&events, &ends);
    let stopped = Standing::Stopped("sink warehouse is stopped. rows are lost. Reload the table.".into());
    assert_eq!(standing("warehouse", &ended, &events, &goal), stopped);
    // What it had applied before is applied.
    free.lanes.get_mut(&Lane { table: id("orders"), lane: 0 }).unwrap().position = 10;
    ended.ledger = Some(free);
    assert_eq!(standing("warehouse", &ended, &events, &goal), Standing::CaughtUp);
}

#[test]
fn times_are_rfc_3339() {
    assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(time(951_827_696_789), "2000-02-29T12:34:56.789Z");
    assert_eq!(time(-1), "1969-12-31T23:59:59.999Z");
}
