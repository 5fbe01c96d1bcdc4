//! The order protocol's functions one by one: ledger, admission, decisions, cursor, source.

#![expect(clippy::unwrap_used, reason = "a test ends there")]

use std::{collections::BTreeSet, sync::Arc};

use schemas::{
    event::{EventKind, Progress, SchemaEvent, TableEvent},
    native::{Native, mysql},
    order::{
        boundary::{Act, Boundary},
        cursor::Cursor,
        events::{Asked, Events},
        ledger::{Approval, Broken, Hold, Lane, LanePosition, Ledger, LedgerChange, Outcome, RowStop},
        protection::Protections,
        sink::{self, Admission, Job, Judge, RunKind, Step, Verdict, admit, next, work},
        source::{Changed, Command, CommandStep, NewTable, Rows, Source, Unread},
    },
    table::{Column, Table, TableId},
    wire::event::{put_progress, read_progress},
};

fn id(name: &str) -> TableId {
    TableId::new("shop", name)
}

fn table(name: &str) -> Table {
    Table::new(id(name), vec![Column::new(0, "id", Native::MySql(mysql::Native::Date)).not_null()], &["id"])
}

fn keyless(name: &str) -> Table {
    Table::new(id(name), vec![Column::new(0, "id", Native::MySql(mysql::Native::Date))], &[])
}

fn event(epoch: u64, kind: EventKind, names: &[&str], boundary: u64) -> Arc<SchemaEvent> {
    let part = |name: &&str| TableEvent {
        table: table(name),
        version: epoch as u32,
        changes: Vec::new(),
        topic: format!("p.shop.{name}"),
        topic_id: None,
        lanes: 1,
        boundaries: vec![boundary],
        key_schema: None,
        value_schema: 1,
        superseded: Vec::new(),
    };
    let tables = names.iter().map(part).collect();
    Arc::new(SchemaEvent { epoch: Some(epoch), kind, position: "1".into(), ts_ms: 0, ddl: None, tables, for_sink: None })
}

fn events(all: &[Arc<SchemaEvent>]) -> Events {
    let mut events = Events::new("warehouse");
    all.iter().for_each(|e| events.add(e.clone()));
    events
}

struct Always(Verdict);

impl Judge for Always {
    fn judge(&self, _: &SchemaEvent, _: &TableEvent) -> Verdict {
        self.0.clone()
    }
}

fn outcome(epoch: u64, name: &str, outcome: Outcome) -> LedgerChange {
    LedgerChange::Outcome { epoch, table: id(name), outcome, reason: String::new(), target_ddl: Vec::new() }
}

fn hold(epoch: u64, name: &str) -> LedgerChange {
    LedgerChange::Hold { table: id(name), hold: Hold::Change { epoch }, reason: String::new(), proposed: Vec::new() }
}

fn ledger(changes: &[LedgerChange]) -> Ledger {
    let mut ledger = Ledger::default();
    for change in changes {
        ledger.apply(change).unwrap_or_else(|broken| panic!("{change:?}: {broken}"));
    }
    ledger
}

fn at(position: u64) -> LanePosition {
    LanePosition { position, seq: 0, epoch: 0 }
}

fn lane(name: &str) -> Lane {
    Lane { table: id(name), lane: 0 }
}

#[test]
fn a_final_outcome_stays() {
    for last in [Outcome::Applied, Outcome::Superseded, Outcome::Retired, Outcome::Kept, Outcome::Accepted] {
        let mut ledger = ledger(&[outcome(1, "a", last)]);
        for next in [Outcome::Applied, Outcome::Stopped, Outcome::Superseded, Outcome::Held] {
            let refused = ledger.apply(&outcome(1, "a", next));
            assert_eq!(refused, Err(Broken::Outcome { epoch: 1, table: id("a"), before: last, outcome: next }));
        }
        assert_eq!(ledger.outcome(1, &id("a")), Some(last));
    }
}

#[test]
fn a_stop_ends_by_a_person_only() {
    let superseded = ledger(&[outcome(1, "a", Outcome::Stopped), outcome(1, "a", Outcome::Superseded)]);
    assert_eq!(superseded.outcome(1, &id("a")), Some(Outcome::Superseded));
    let mut stopped = ledger(&[outcome(1, "a", Outcome::Stopped)]);
    assert!(stopped.apply(&outcome(1, "a", Outcome::Applied)).is_err());
    assert_eq!(stopped.apply(&LedgerChange::Decided(1)), Err(Broken::Open { epoch: 1, table: id("a") }));
}

#[test]
fn epochs_are_decided_one_after_the_other() {
    let mut ledger = ledger(&[outcome(1, "a", Outcome::Applied), LedgerChange::Decided(1)]);
    assert_eq!(ledger.apply(&LedgerChange::Decided(3)), Err(Broken::Decided { decided: 1, epoch: 3 }));
    assert_eq!(ledger.apply(&LedgerChange::Decided(1)), Err(Broken::Decided { decided: 1, epoch: 1 }));
    assert_eq!(ledger.decided, 1);
}

#[test]
fn a_new_sink_may_begin_at_a_base_line() {
    assert_eq!(ledger(&[LedgerChange::Decided(7)]).decided, 7);
}

#[test]
fn lanes_move_forwards_only_and_by_compare_and_set() {
    let mut ledger = ledger(&[LedgerChange::MoveLanes(vec![(lane("a"), at(5))]), LedgerChange::MoveLanes(vec![(lane("a"), at(3))])]);
    assert_eq!(ledger.position(&id("a"), 0).position, 5);
    assert!(!ledger.compare_and_set(&lane("a"), 3, at(9)));
    assert!(!ledger.compare_and_set(&lane("a"), 5, at(4)));
    assert!(ledger.compare_and_set(&lane("a"), 5, at(9)));
    assert_eq!(ledger.position(&id("a"), 0).position, 9);
}

#[test]
fn lanes_of_a_topic_made_anew_are_moved_backwards_once() {
    let mut first = event(1, EventKind::Initial, &["a"], 0);
    let mut again = event(2, EventKind::Reload, &["a"], 0);
    Arc::make_mut(&mut first).tables[0].topic_id = Some("old".into());
    let part = &mut Arc::make_mut(&mut again).tables[0];
    (part.topic_id, part.boundaries) = (Some("new".into()), vec![3]);
    let events = events(&[first, again]);
    let mut ledger = ledger(&[LedgerChange::Decided(1), LedgerChange::MoveLanes(vec![(lane("a"), LanePosition { epoch: 1, ..at(500) })])]);
    let Some(Step::Record(changes)) = sink::next(&ledger, &events, &Job::Epoch(2), &Always(Verdict::Run)) else {
        panic!("nothing to record")
    };
    let to = LanePosition { position: 3, seq: ledger.position(&id("a"), 0).seq, epoch: 2 };
    assert_eq!(changes, [LedgerChange::ResetLanes(vec![(lane("a"), to)])]);
    ledger.apply(&changes[0]).unwrap();
    assert_eq!(ledger.position(&id("a"), 0), to);
    // A second time it is in order, wherever its rows have brought it.
    let next = sink::next(&ledger, &events, &Job::Epoch(2), &Always(Verdict::Run));
    assert!(!matches!(&next, Some(Step::Record(changes)) if matches!(changes[0], LedgerChange::ResetLanes(_))), "{next:?}");
}

#[test]
fn a_queue_keeps_its_order() {
    let queue = |epoch| LedgerChange::Queue { table: id("a"), epoch };
    let unqueue = |epoch| LedgerChange::Unqueue { table: id("a"), epoch };
    let mut ledger = ledger(&[hold(1, "a"), queue(2), queue(4)]);
    assert_eq!(ledger.apply(&queue(3)), Err(Broken::QueueOrder { table: id("a"), last: 4, epoch: 3 }));
    assert_eq!(ledger.apply(&unqueue(4)), Err(Broken::NotFirst { table: id("a"), epoch: 4 }));
    assert_eq!(ledger.apply(&hold(5, "a")), Err(Broken::HeldAlready { table: id("a"), at: 1, epoch: 5 }));
    assert_eq!(ledger.apply(&unqueue(2)), Ok(()));
    assert_eq!(ledger.queued[&id("a")], [4]);
}

#[test]
fn only_a_change_can_be_approved() {
    let approve = LedgerChange::Approve { table: id("a"), approval: Approval::Keep, by: "me".into() };
    assert_eq!(Ledger::default().apply(&approve), Err(Broken::NotHeld { table: id("a") }));
    let mut held = ledger(&[hold(1, "a"), approve.clone()]);
    assert_eq!(held.apply(&approve), Err(Broken::ApprovedAlready { table: id("a") }));
    let mut at_row = ledger(&sink::hold_at_row(&id("a"), 1, "too long"));
    assert_eq!(at_row.apply(&approve), Err(Broken::NotHeld { table: id("a") }));
}

#[test]
fn rows_are_admitted_up_to_the_decided_epoch_of_tables_that_go_on() {
    let events = events(&[event(1, EventKind::Initial, &["a", "b"], 0), event(2, EventKind::Ddl, &["a"], 0)]);
    let decided = ledger(&[LedgerChange::Decided(1)]);
    let ask = |ledger: &Ledger, name, epoch| admit(ledger, &events, &id(name), epoch);
    assert_eq!(ask(&decided, "a", 1), Admission::Apply);
    assert_eq!(ask(&decided, "a", 2), Admission::Wait);
    assert_eq!(ask(&Ledger { decided: 9, ..decided.clone() }, "a", 9), Admission::Wait, "an epoch that was not read yet");
    let held = Ledger { held: [(id("a"), Hold::Change { epoch: 1 })].into(), ..decided.clone() };
    assert_eq!((ask(&held, "a", 1), ask(&held, "b", 1)), (Admission::Wait, Admission::Apply));
    let queued = Ledger { decided: 2, queued: [(id("a"), vec![2])].into(), ..decided.clone() };
    assert_eq!((ask(&queued, "a", 1), ask(&queued, "a", 2)), (Admission::Apply, Admission::Wait));
    let blocked = Ledger { decided: 2, blocked: [(id("a"), 2)].into(), ..decided.clone() };
    assert_eq!((ask(&blocked, "a", 1), ask(&blocked, "a", 2)), (Admission::Apply, Admission::Wait));
    let retired = Ledger { retired: [id("a")].into(), ..decided.clone() };
    assert_eq!((ask(&retired, "a", 1), ask(&retired, "a", 2)), (Admission::Skip, Admission::Wait));
    let at_row = Ledger { stop_at_row: Some(RowStop { table: id("a"), epoch: 1 }), ..decided };
    assert_eq!((ask(&at_row, "a", 1), ask(&at_row, "b", 1)), (Admission::Wait, Admission::Wait));
}

#[test]
fn a_change_waits_for_its_own_lanes_and_is_decided_once() {
    let events = events(&[event(1, EventKind::Ddl, &["a"], 4)]);
    let mut state = Ledger::default();
    assert_eq!(work(&state, &events), None);
    assert!(state.compare_and_set(&lane("a"), 0, at(4)));
    assert_eq!(work(&state, &events), Some(Job::Epoch(1)));
    let Some(Step::Run(run)) = next(&state, &events, &Job::Epoch(1), &Always(Verdict::Run)) else { panic!("a run") };
    assert_eq!((run.kind, run.outcome.as_slice()), (RunKind::Ddl, &[outcome(1, "a", Outcome::Applied)][..]));
    state.apply(&run.outcome[0]).unwrap();
    assert_eq!(next(&state, &events, &Job::Epoch(1), &Always(Verdict::Run)), Some(Step::Record(vec![LedgerChange::Decided(1)])));
    state.apply(&LedgerChange::Decided(1)).unwrap();
    assert_eq!(next(&state, &events, &Job::Epoch(1), &Always(Verdict::Run)), None);
}

#[test]
fn a_statement_over_two_tables_stops_before_either_is_altered() {
    struct Second;
    impl Judge for Second {
        fn judge(&self, _: &SchemaEvent, part: &TableEvent) -> Verdict {
            if part.table.id.name == "b" { Verdict::Stop { reason: "no".into() } } else { Verdict::Run }
        }
    }
    let events = events(&[event(1, EventKind::Ddl, &["a", "b"], 0)]);
    let mut state = Ledger::default();
    let Some(Step::Record(changes)) = next(&state, &events, &Job::Epoch(1), &Second) else { panic!("a record") };
    changes.iter().for_each(|c| state.apply(c).unwrap());
    assert_eq!((state.outcome(1, &id("a")), state.outcome(1, &id("b"))), (None, Some(Outcome::Stopped)));
    assert_eq!(work(&state, &events), None);
    assert_eq!(next(&state, &events, &Job::Epoch(1), &Second), None);
}

#[test]
fn a_reload_supersedes_a_stop_moves_the_lanes_first_and_lifts_the_block() {
    let all = events(&[event(1, EventKind::Ddl, &["a"], 0), event(2, EventKind::Reload, &["a"], 8)]);
    let mut state = ledger(&[outcome(1, "a", Outcome::Stopped)]);
    let mut kinds = Vec::new();
    while let Some(job) = work(&state, &all) {
        while let Some(step) = next(&state, &all, &job, &Always(Verdict::Run)) {
            let changes = match step {
                Step::Record(changes) => changes,
                Step::Run(run) => {
                    kinds.push((run.kind, state.position(&id("a"), 0).position));
                    run.outcome
                }
            };
            changes.iter().for_each(|c| state.apply(c).unwrap());
        }
    }
    assert_eq!(kinds, [(RunKind::Reload, 8)]);
    assert_eq!((state.outcome(1, &id("a")), state.outcome(2, &id("a"))), (Some(Outcome::Superseded), Some(Outcome::Reloaded)));
    assert_eq!((state.decided, state.blocked.len()), (2, 0));
}

#[test]
fn a_stop_at_a_row_ends_by_a_reload_of_its_table_only() {
    let first = event(1, EventKind::Initial, &["a", "b"], 0);
    let mut state = ledger(&[LedgerChange::Decided(1), LedgerChange::StopAtRow { table: id("a"), epoch: 1, message: String::new() }]);
    assert_eq!(work(&state, &events(&[first.clone(), event(2, EventKind::Reload, &["b"], 0)])), None);
    let all = events(&[first, event(2, EventKind::Retire, &["a"], 0)]);
    let job = work(&state, &all).unwrap();
    assert_eq!(job, Job::LeaveRow { epoch: 1, table: id("a") });
    let step = next(&state, &all, &job, &Always(Verdict::Run));
    let expected = vec![LedgerChange::Block { table: id("a"), epoch: 1 }, LedgerChange::Resume];
    assert_eq!(step, Some(Step::Record(expected.clone())));
    expected.iter().for_each(|c| state.apply(c).unwrap());
    assert_eq!(work(&state, &all), Some(Job::Epoch(2)));
}

#[test]
fn what_the_target_refuses_stops_or_is_held_again() {
    let run = |epoch| sink::Run { epoch, table: id("a"), kind: RunKind::Ddl, outcome: Vec::new() };
    let mut state = Ledger::default();
    sink::failed(&Job::Epoch(1), &run(1), "refused", &[]).iter().for_each(|c| state.apply(c).unwrap());
    assert_eq!(state.outcome(1, &id("a")), Some(Outcome::Stopped));

    let queue = LedgerChange::Queue { table: id("a"), epoch: 2 };
    let mut state = ledger(&[outcome(2, "a", Outcome::Queued), queue]);
    let job = Job::Queued { epoch: 2, table: id("a") };
    sink::failed(&job, &run(2), "refused", &[]).iter().for_each(|c| state.apply(c).unwrap());
    assert_eq!((state.held.get(&id("a")), state.queued.len()), (Some(&Hold::Change { epoch: 2 }), 0));

    let approve = LedgerChange::Approve { table: id("a"), approval: Approval::Keep, by: "me".into() };
    state.apply(&approve).unwrap();
    let job = Job::Approval { epoch: 2, table: id("a") };
    sink::failed(&job, &run(2), "refused", &[]).iter().for_each(|c| state.apply(c).unwrap());
    assert_eq!((state.held.len(), state.approved.len()), (1, 0));
}

#[test]
fn an_approval_or_queued_change_is_void_once_a_reload_was_read() {
    let approve = LedgerChange::Approve { table: id("a"), approval: Approval::Keep, by: "me".into() };
    let approved = ledger(&[LedgerChange::Decided(1), hold(1, "a"), approve]);
    let queued = ledger(&[LedgerChange::Decided(1), LedgerChange::Queue { table: id("a"), epoch: 1 }]);
    let change = event(1, EventKind::Ddl, &["a"], 0);
    let (before, after) = (events(std::slice::from_ref(&change)), events(&[change, event(2, EventKind::Reload, &["a"], 0)]));
    for (state, job) in [(approved, Job::Approval { epoch: 1, table: id("a") }), (queued, Job::Queued { epoch: 1, table: id("a") })] {
        assert_eq!(work(&state, &before), Some(job.clone()));
        assert!(next(&state, &before, &job, &Always(Verdict::Run)).is_some());
        assert_eq!(work(&state, &after), Some(Job::Epoch(2)));
        assert_eq!(next(&state, &after, &job, &Always(Verdict::Run)), None);
    }
}

#[test]
fn a_reload_for_another_sink_is_a_new_version_and_nothing_more() {
    let mut other = SchemaEvent::clone(&event(1, EventKind::Reload, &["a"], 0));
    other.for_sink = Some("lake".into());
    let events = events(&[Arc::new(other.clone())]);
    assert_eq!(events.asked(&other), Asked::Elsewhere);
    assert_eq!((events.mine(Some("lake")), events.mine(Some("warehouse")), events.mine(None)), (false, true, true));
    let Some(Step::Run(run)) = next(&Ledger::default(), &events, &Job::Epoch(1), &Always(Verdict::Run)) else { panic!("a run") };
    assert_eq!(run.kind, RunKind::Nothing);
}

#[test]
fn a_cursor_counts_markers_and_is_stored_where_no_row_came() {
    let mut cursor = Cursor::new(3, Protections::ALL);
    assert_eq!(cursor.pending(), None);
    cursor.reached(5);
    assert_eq!(cursor.pending(), Some((3, 5)));
    cursor.row(5);
    cursor.reached(7);
    assert_eq!((cursor.pending(), cursor.next()), (Some((3, 7)), 7));
    cursor.committed();
    assert_eq!((cursor.pending(), cursor.stored()), (None, 7));
    cursor.moved(12);
    assert_eq!((cursor.next(), cursor.pending()), (12, None));
}

fn source(tables: Vec<Table>) -> Source<u64> {
    let new = |shape: Table| NewTable { topic: format!("p.{}", shape.id), shape, lanes: 2 };
    let (mut source, draft) = Source::begin("shop", 10, tables.into_iter().map(new).collect(), true, |a, b| a >= b);
    publish(&mut source, draft);
    source
}

/// Carries an event out; the boundaries are all 7.
fn publish(source: &mut Source<u64>, draft: schemas::order::source::Draft<u64>) -> SchemaEvent {
    let mut boundary = Boundary::new(source, draft);
    let mut acts = Vec::new();
    loop {
        let act = boundary.act();
        acts.push(act);
        match act {
            Act::Commit => boundary.committed(),
            Act::Register(table) => boundary.registered(table, Some(1), 2),
            Act::Ends(table) => boundary.ends(table, vec![7, 7]),
            Act::Publish => break,
        }
    }
    assert_eq!((acts.first(), acts.last()), (Some(&Act::Commit), Some(&Act::Publish)));
    let (event, after) = boundary.publish(source).unwrap();
    *source = after;
    event
}

fn changed(shape: Table, epoch: bool) -> Vec<Changed> {
    vec![Changed { shape, changes: Vec::new(), epoch }]
}

#[test]
fn what_an_event_changes_moves_with_its_publication_only() {
    let mut source = source(vec![table("a")]);
    let draft = source.statement(11, 5, "alter", changed(table("a"), true)).unwrap();
    assert_eq!((source.state().epoch, *source.position()), (1, 10));
    let event = publish(&mut source, draft);
    assert_eq!((event.epoch, event.tables[0].version, event.tables[0].boundaries.as_slice()), (Some(2), 2, &[7, 7][..]));
    assert_eq!((source.state().epoch, *source.position()), (2, 11));
    assert_eq!(source.rows(&id("a")), Rows::Publish { epoch: 2, version: 2, copying: true });
}

#[test]
fn a_change_with_nothing_to_apply_has_no_epoch_and_no_new_version() {
    let mut source = source(vec![table("a")]);
    let draft = source.statement(11, 5, "comment", changed(table("a"), false)).unwrap();
    let event = publish(&mut source, draft);
    assert_eq!((event.epoch, event.tables[0].version, event.tables[0].boundaries.len()), (None, 1, 0));
    assert_eq!(source.state().epoch, 1);
}

#[test]
fn a_chunk_counts_when_the_stream_has_passed_it_without_a_change() {
    let mut source = source(vec![table("a")]);
    source.planned(&id("a"), Some(vec!["5".into()]));
    source.planned(&id("a"), None);
    let parts = source.unread(&id("a"));
    assert_eq!(parts[1], Unread::Chunk { above: Some(vec!["5".into()]), up_to: None });
    source.read(&id("a"), &parts[0], 10, 5);
    source.read(&id("a"), &parts[1], 13, 3);
    let draft = source.statement(12, 0, "alter", changed(table("a"), true)).unwrap();
    publish(&mut source, draft);
    assert_eq!(source.unread(&id("a")), parts[1..]);
    source.read(&id("a"), &parts[1], 13, 3);
    source.moved(12, 0);
    assert_eq!(source.copying().count(), 1);
    source.moved(13, 0);
    assert_eq!(source.copying().count(), 0);
}

#[test]
fn a_chunk_that_is_cut_counts_when_all_its_parts_do() {
    let mut source = source(vec![table("a")]);
    let bound = |key: &str| Some(vec![key.to_owned()]);
    source.planned(&id("a"), bound("9"));
    source.planned(&id("a"), None);
    let parts = source.unread(&id("a"));
    source.cut(&id("a"), &parts[0], vec!["3".into()]);
    // The open end too; a part that is not there any more, or read already, is not cut.
    source.cut(&id("a"), &parts[1], vec!["12".into()]);
    source.cut(&id("a"), &parts[0], vec!["4".into()]);
    let chunk = |above, up_to| Unread::Chunk { above, up_to };
    let cut = [chunk(None, bound("3")), chunk(bound("3"), bound("9")), chunk(bound("9"), bound("12")), chunk(bound("12"), None)];
    assert_eq!(source.unread(&id("a")), cut);
    for (number, part) in cut.iter().enumerate() {
        assert_eq!(source.copying().count(), 1, "{number} parts are read");
        source.read(&id("a"), part, 10, 1);
    }
    assert_eq!(source.copying().count(), 0);
    let mut read = self::source(vec![table("a")]);
    read.planned(&id("a"), None);
    read.read(&id("a"), &chunk(None, None), 13, 5);
    read.cut(&id("a"), &chunk(None, None), vec!["3".into()]);
    assert_eq!(read.unread(&id("a")), []);
}

#[test]
fn a_key_that_changed_without_all_columns_is_read_again() {
    let mut source = source(vec![table("a")]);
    source.planned(&id("a"), None);
    let all = source.unread(&id("a"));
    source.read(&id("a"), &all[0], 10, 1);
    assert_eq!(source.copying().count(), 0, "nothing is left");
    let mut source = self::source(vec![table("a")]);
    source.reread(&id("a"), vec!["9".into()]);
    source.planned(&id("a"), None);
    source.read(&id("a"), &all[0], 10, 1);
    assert_eq!(source.unread(&id("a")), [Unread::Key(vec!["9".into()])]);
}

#[test]
fn a_table_that_the_source_stands_at_begins_at_a_pinned_place() {
    let mut source = source(vec![table("a")]);
    let reload = Command::Reload { table: id("a"), for_sink: Some("lake".into()) };
    let standing = BTreeSet::from([id("a")]);
    assert_eq!(source.command(0, &reload, &standing, Some(&table("a"))), CommandStep::Pin);
    source.begin_at(20, table("a"), Some(0));
    assert_eq!((source.state().command, source.rows(&id("a"))), (1, Rows::Skip));
    assert_eq!(source.statement(15, 0, "strange", changed(table("a"), true)), None);
    assert!(source.may_read());
    source.moved(20, 0);
    assert!(!source.may_read());
    let draft = source.due().unwrap();
    let event = publish(&mut source, draft);
    assert_eq!((event.kind, event.for_sink, event.tables[0].superseded[0].ddl.as_str()), (EventKind::Reload, None, "strange"));
    assert_eq!(source.rows(&id("a")), Rows::Publish { epoch: 2, version: 2, copying: true });
}

#[test]
fn a_reload_is_for_one_sink_only_where_the_others_lose_nothing() {
    let asked = |source: &mut Source<u64>, shape: Table| {
        let reload = Command::Reload { table: shape.id.clone(), for_sink: Some("lake".into()) };
        let CommandStep::Event(draft) = source.command(0, &reload, &BTreeSet::new(), Some(&shape)) else { panic!("an event") };
        draft.for_sink
    };
    let mut copied = source(vec![table("a"), keyless("b")]);
    assert_eq!(asked(&mut copied, table("a")), None, "its first copy is under way");
    copied.planned(&id("a"), None);
    let part = copied.unread(&id("a"))[0].clone();
    copied.read(&id("a"), &part, 10, 1);
    assert_eq!(asked(&mut copied, table("a")), Some("lake".into()));
    assert_eq!(asked(&mut copied, keyless("b")), None, "the rows up to the view are published for nobody");
}

#[test]
fn nothing_else_is_done_within_a_group() {
    let mut source = source(vec![table("a")]);
    source.planned(&id("a"), None);
    source.group_rows(2);
    let reload = Command::Reload { table: id("a"), for_sink: None };
    assert_eq!(source.command(0, &reload, &BTreeSet::new(), Some(&table("a"))), CommandStep::Later);
    assert_eq!((source.unread(&id("a")), source.retire(table("a"))), (Vec::new(), None));
    source.moved(11, 0);
    assert_eq!(source.unread(&id("a")).len(), 1);
}

#[test]
fn a_table_added_again_goes_on_with_its_versions() {
    let mut source = source(vec![table("a")]);
    let draft = source.retire(table("a")).unwrap();
    assert_eq!(publish(&mut source, draft).tables[0].version, 2);
    assert!(!source.captures(&id("a")));
    source.add(NewTable { shape: table("a"), topic: "p.a".into(), lanes: 5 }, 10);
    let draft = source.due().unwrap();
    let event = publish(&mut source, draft);
    assert_eq!((event.tables[0].version, event.tables[0].lanes, event.kind), (3, 2, EventKind::Reload));
}

#[test]
fn a_view_is_published_where_it_stands_and_begun_again_with_an_emptying_event() {
    let mut source = source(vec![keyless("b")]);
    assert!(!source.view_opened(&id("b"), 9), "the stream is past it");
    assert!(source.view_opened(&id("b"), 12));
    assert_eq!((source.rows(&id("b")), source.due_view()), (Rows::Skip, None));
    source.moved(12, 0);
    assert_eq!(source.due_view(), Some(id("b")));
    let draft = source.view_event(keyless("b")).unwrap();
    publish(&mut source, draft);
    source.view_rows(&id("b"), 4, false);
    let text = source.progress(0);
    let again = Source::open(&text, |p| p.parse::<u64>(), |a, b| a >= b).unwrap();
    assert!(again.view_event(keyless("b")).is_some());
    source.view_rows(&id("b"), 1, true);
    assert_eq!(source.copying().count(), 0);
}

#[test]
fn progress_is_read_back_as_it_was_written() {
    let mut source = source(vec![table("a"), keyless("b"), table("c")]);
    source.planned(&id("a"), Some(vec!["5".into()]));
    let part = source.unread(&id("a"))[0].clone();
    source.read(&id("a"), &part, 14, 5);
    source.reread(&id("a"), vec!["7".into()]);
    source.begin_at(30, table("c"), None);
    let written: Progress = source.progress(99);
    let mut bytes = Vec::new();
    put_progress(&mut bytes, 3, &written);
    let read = read_progress(&bytes).unwrap();
    assert_eq!(read, written);
    let again = Source::open(&read, |p| p.parse::<u64>(), |a, b| a >= b).unwrap();
    assert_eq!(again.progress(99), written);
}

#[test]
fn progress_names_what_is_under_way_and_the_events_say_the_rest() {
    let mut source = source(vec![table("a"), table("b"), table("c"), keyless("d")]);
    let mut events = vec![];
    let draft = source.view_event(keyless("d")).unwrap();
    events.push(publish(&mut source, draft));
    for name in ["a", "b"] {
        source.planned(&id(name), None);
        let part = source.unread(&id(name))[0].clone();
        source.read(&id(name), &part, 10, 5);
    }
    source.moved(10, 0);
    let draft = source.retire(table("b")).unwrap();
    events.push(publish(&mut source, draft));
    let changed = Changed { shape: table("a"), changes: vec![], epoch: true };
    let draft = source.statement(11, 0, "ALTER", vec![changed]).unwrap();
    events.push(publish(&mut source, draft));

    let written = source.progress(99);
    assert_eq!(written.tables.keys().collect::<Vec<_>>(), ["p.shop.d"], "a view may be half read");
    assert_eq!(written.waiting, BTreeSet::from(["p.shop.c".into()]));
    let mut bytes = Vec::new();
    put_progress(&mut bytes, 3, &written);
    let read = read_progress(&bytes).unwrap();
    assert_eq!(read, written);
    let mut first = SchemaEvent::clone(&event(1, EventKind::Initial, &["a", "b", "c", "d"], 0));
    first.tables.iter_mut().for_each(|part| part.lanes = 2);
    events.insert(0, first);
    let whole = read.complete(&events);
    let again = Source::open(&whole, |p| p.parse::<u64>(), |a, b| a >= b).unwrap();
    assert_eq!(again.state().tables, source.state().tables);
}
