//! The ledger in the target's tables means what [`Ledger::apply`] says.

use schemas::{
    native::postgres::Native as Pg,
    order::ledger::{Approval, Hold, Lane, LanePosition, Ledger, LedgerChange, Outcome},
    table::TableId,
};
use sink::{
    error::SinkError,
    postgres::{PostgresSession, PostgresTarget},
    target::{Session, Target, Writer},
};

use crate::support::{database, int, message, version};

/// A small generator: the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

const OUTCOMES: [Outcome; 12] = [
    Outcome::Pending,
    Outcome::Held,
    Outcome::Queued,
    Outcome::Stopped,
    Outcome::Applied,
    Outcome::NothingToApply,
    Outcome::Approved,
    Outcome::Kept,
    Outcome::Reloaded,
    Outcome::Superseded,
    Outcome::Retired,
    Outcome::Accepted,
];

fn change(random: &mut Random, ledger: &Ledger) -> LedgerChange {
    let table = TableId::new("shop", random.pick(&["orders", "o'rders \"x\"", "ünits"]));
    let epoch = ledger.decided + random.below(4);
    let reason = "it's a \"reason\"\nof two lines".to_owned();
    match random.below(18) {
        0..=3 => LedgerChange::Outcome { epoch, table, outcome: random.pick(&OUTCOMES), reason, target_ddl: vec!["ALTER 'x'".into()] },
        4 => LedgerChange::Decided(epoch),
        5 => {
            let hold = if random.below(2) == 0 { Hold::Change { epoch } } else { Hold::Value { epoch } };
            LedgerChange::Hold { table, hold, reason, proposed: vec!["-- by hand".into(), "ALTER".into()] }
        }
        6 => LedgerChange::Unhold(table),
        7 => LedgerChange::Queue { table, epoch },
        8 => LedgerChange::Unqueue { epoch: ledger.queued.get(&table).map_or(epoch, |q| q[0]), table },
        9 => LedgerChange::Block { table, epoch },
        10 => LedgerChange::Unblock(table),
        11 => {
            if random.below(2) == 0 {
                LedgerChange::Retire(table)
            } else {
                LedgerChange::Unretire(table)
            }
        }
        12 => {
            let approval =
                random.pick(&[Approval::Keep, Approval::Approve { ddl: None }, Approval::Approve { ddl: Some(vec!["a'b".into()]) }]);
            LedgerChange::Approve { table, approval, by: "ann".into() }
        }
        13 => LedgerChange::Unapprove(table),
        14 => LedgerChange::StopAtRow { table, epoch, message: "key id=1".into() },
        15 => LedgerChange::Resume,
        16 => {
            let to = LanePosition { position: random.below(50), seq: random.below(50), epoch };
            LedgerChange::MoveLanes(vec![(Lane { table: table.clone(), lane: 0 }, to), (Lane { table, lane: 1 }, to)])
        }
        _ => {
            if random.below(4) == 0 {
                LedgerChange::Forget(table)
            } else {
                LedgerChange::Audit { what: "x".into(), by: "ann".into() }
            }
        }
    }
}

/// What a ledger still decides by.
fn without_history(ledger: &Ledger) -> Ledger {
    let mut ledger = ledger.clone();
    let decided = ledger.decided;
    ledger.outcomes.retain(|(epoch, _), outcome| *epoch > decided || !outcome.is_final());
    ledger
}

/// Every look at the ledger reads it whole: what a sink has behind it must not be in it, and must not be written anew either.
#[tokio::test]
async fn history_does_not_make_the_ledger_larger() {
    let Some(database) = database().await else { return };
    let mut session = database.target.session().await.unwrap();
    let table = TableId::new("shop", "orders");
    let outcome = |epoch, outcome| LedgerChange::Outcome { epoch, table: table.clone(), outcome, reason: "".into(), target_ddl: vec![] };
    for epoch in 1..=40 {
        session.record(&[outcome(epoch, Outcome::Applied), LedgerChange::Decided(epoch)]).await.unwrap();
    }
    session.record(&[outcome(41, Outcome::NothingToApply)]).await.unwrap();
    let ledger = session.ledger().await.unwrap();
    assert_eq!((ledger.decided, ledger.outcomes.len()), (40, 1));
    assert_eq!(session.journal().await.unwrap().outcomes.len(), 41);
    let (kind, text) = message(&session.record(&[outcome(7, Outcome::Held)]).await.unwrap_err());
    assert_eq!(kind, "stop");
    assert!(text.contains("epoch 7 of shop.orders is applied already and cannot become held"), "{text}");
}

#[tokio::test]
async fn every_change_means_in_the_tables_what_it_means_in_memory() {
    let Some(database) = database().await else { return };
    let mut session = database.target.session().await.unwrap();
    let mut model = Ledger::default();
    let (mut random, mut taken, mut refused) = (Random(7), 0, 0);
    for step in 0..600 {
        let change = change(&mut random, &model);
        let mut next = model.clone();
        let stored = session.record(std::slice::from_ref(&change)).await;
        match (next.apply(&change), stored) {
            (Ok(()), Ok(())) => {
                model = next;
                taken += 1;
            }
            (Err(broken), Err(SinkError::Stop { message })) => {
                assert!(message.contains(&broken.to_string()), "{message}");
                refused += 1;
            }
            (meant, stored) => panic!("step {step}, {change:?}: {meant:?}, but {stored:?}"),
        }
        assert_eq!(session.ledger().await.unwrap(), without_history(&model), "step {step}, {change:?}");
    }
    assert!(taken > 200 && refused > 50, "{taken} taken, {refused} refused");
    let model = without_history(&model);
    assert_eq!(database.target.writer().await.unwrap().ledger().await.unwrap(), model);
    // Another session, another process: the same.
    assert_eq!(database.target.session().await.unwrap().ledger().await.unwrap(), model);
}

#[tokio::test]
async fn changes_that_come_together_are_carried_out_together_or_not_at_all() {
    let Some(database) = database().await else { return };
    let mut session = database.target.session().await.unwrap();
    let table = TableId::new("shop", "orders");
    let changes = [LedgerChange::Retire(table.clone()), LedgerChange::Decided(1), LedgerChange::Unqueue { table, epoch: 3 }];
    let (kind, text) = message(&session.record(&changes).await.unwrap_err());
    assert_eq!(kind, "stop");
    assert!(text.contains("epoch 3 is not the first in the queue of shop.orders"), "{text}");
    assert_eq!(session.ledger().await.unwrap(), Ledger::default());
    session.record(&changes[..2]).await.unwrap();
    assert_eq!(session.ledger().await.unwrap().decided, 1);
}

#[tokio::test]
async fn reasons_statements_and_messages_are_kept_for_people() {
    let Some(database) = database().await else { return };
    let mut session = database.target.session().await.unwrap();
    let table = TableId::new("shop", "orders");
    let held = LedgerChange::Outcome { epoch: 1, table: table.clone(), outcome: Outcome::Held, reason: "why".into(), target_ddl: vec![] };
    let hold = Hold::Change { epoch: 1 };
    let hold =
        LedgerChange::Hold { table: table.clone(), hold, reason: "the key".into(), proposed: vec!["-- first".into(), "ALTER".into()] };
    let stop = LedgerChange::StopAtRow { table: table.clone(), epoch: 1, message: "key id=7".into() };
    session.record(&[held, hold, stop, LedgerChange::Audit { what: "reload".into(), by: "ann".into() }]).await.unwrap();
    let journal = session.journal().await.unwrap();
    assert_eq!(journal.outcomes[&(1, table.clone())].reason, "why");
    assert_eq!(journal.holds[&table].proposed, ["-- first", "ALTER"]);
    assert_eq!(journal.stop_at_row.as_deref(), Some("key id=7"));
    assert_eq!(database.one("SELECT who, what FROM instar.audit").await, "ann|reload");
}

#[tokio::test]
async fn a_shape_comes_back_as_it_was_recorded_and_goes_with_the_table() {
    let Some(database) = database().await else { return };
    let mut session = database.target.session().await.unwrap();
    let version = version("orders", &[("id", int(), Pg::Integer, false), ("n", int(), Pg::Numeric { size: Some((9, 2)) }, true)], &["id"]);
    let (table, target) = (version.id.clone(), version.target.clone());
    assert_eq!(session.expected(&table).await.unwrap(), None);
    session.record(&[LedgerChange::Shape { table: table.clone(), version: 3, target: target.clone() }]).await.unwrap();
    assert_eq!(session.expected(&table).await.unwrap(), Some((3, target)));
    session.record(&[LedgerChange::Forget(table.clone())]).await.unwrap();
    assert_eq!(session.expected(&table).await.unwrap(), None);
}

#[tokio::test]
async fn sinks_and_pipelines_in_one_database_know_nothing_of_each_other() {
    let Some(database) = database().await else { return };
    let others = [PostgresTarget::new("other", &database.config).unwrap(), {
        let mut config = database.config.clone();
        config.name = "second".into();
        PostgresTarget::new("shop", &config).unwrap()
    }];
    let mut first: PostgresSession = database.target.session().await.unwrap();
    first.record(&[LedgerChange::Decided(1), LedgerChange::Retire(TableId::new("shop", "orders"))]).await.unwrap();
    first.lock().await.unwrap();
    for other in others {
        // Prepared twice, as two processes of one sink do.
        let (one, two) = tokio::join!(other.prepare(), other.prepare());
        one.unwrap();
        two.unwrap();
        let mut session = other.session().await.unwrap();
        assert_eq!(session.ledger().await.unwrap(), Ledger::default());
        session.lock().await.unwrap();
        session.unlock().await.unwrap();
    }
}

#[tokio::test]
async fn tables_of_another_format_are_refused() {
    let Some(database) = database().await else { return };
    database.sql("UPDATE instar.format SET version = 2").await;
    let (kind, text) = message(&database.target.prepare().await.unwrap_err());
    assert_eq!(kind, "refused");
    assert!(text.contains("has format 2, this program knows 1"), "{text}");
}
