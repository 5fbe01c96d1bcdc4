//! Random programs: several sessions change and fill random tables while the pipeline is killed, stopped and started; at the end the
//! two sides have the same values, and the history has every change in its order.
//!
//! A seed makes a program; even seeds run on MariaDB, odd ones on MySQL. A program that fails is made shorter while it still fails.

mod column;
mod program;

use std::{
    hash::{BuildHasher, Hasher},
    sync::{Arc, Mutex},
};

use serde_json::Value as Json;
use tests::source;
use tokio::sync::watch;

use crate::world::{Options, World};
use program::{Action, Expected, Program, Step, program};

/// Steps of a program, and how far one session may be ahead of another.
const LENGTH: usize = 70;
const WINDOW: usize = 6;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

/// Which steps are done; a session waits here until its next one is near.
struct Gate {
    done: Mutex<Vec<bool>>,
    /// The first step that is not done.
    first: watch::Sender<usize>,
}

impl Gate {
    async fn near(&self, step: usize) {
        let mut first = self.first.subscribe();
        first.wait_for(|first| first + WINDOW > step).await.expect("the gate");
    }

    fn pass(&self, step: usize) {
        let mut done = self.done.lock().unwrap();
        done[step] = true;
        self.first.send_replace(done.iter().position(|done| !done).unwrap_or(done.len()));
    }
}

/// A change that the server took.
#[derive(Debug, Clone)]
struct Made {
    statement: String,
    expected: Expected,
}

/// The changes of one table: a program knows what each of them makes of the table only if they come in its order and all of them.
#[derive(Debug, Default)]
struct Changes {
    /// How many are done with.
    done: usize,
    made: Vec<Made>,
    /// The server did not take one: the later ones are left out.
    refused: bool,
}

/// What all sessions share.
struct Shared {
    gate: Gate,
    changes: Vec<watch::Sender<Changes>>,
}

/// One session's part of a program.
struct Session {
    session: source::Session,
    latin1: bool,
    /// With their numbers, and how many changes of the same table come before a change.
    steps: Vec<(usize, usize, Action)>,
    shared: Arc<Shared>,
}

impl Session {
    /// How many statements the server took and refused. A statement that comes too late is refused, and nothing of it is logged.
    async fn work(mut self) -> (u64, u64) {
        let (mut taken, mut refused) = (0, 0);
        for (number, before, action) in std::mem::take(&mut self.steps) {
            self.shared.gate.near(number).await;
            match action {
                Action::Rows { statements, commit } => {
                    self.session.run("BEGIN").await;
                    let mut fine = true;
                    for statement in &statements {
                        fine = self.try_run(statement).await;
                        (taken, refused) = (taken + u64::from(fine), refused + u64::from(!fine));
                        if !fine {
                            break;
                        }
                    }
                    self.session.run(if commit && fine { "COMMIT" } else { "ROLLBACK" }).await;
                }
                Action::Change { table, statement, expected } => {
                    let shared = self.shared.clone();
                    let changes = &shared.changes[table];
                    changes.subscribe().wait_for(|changes| changes.done == before).await.expect("the changes before");
                    let wanted = !changes.borrow().refused;
                    let fine = wanted && self.try_run(&statement).await;
                    (taken, refused) = (taken + u64::from(fine), refused + u64::from(wanted && !fine));
                    changes.send_modify(|changes| {
                        changes.done += 1;
                        changes.refused |= !fine;
                        changes.made.extend(fine.then_some(Made { statement, expected }));
                    });
                }
                Action::Kill | Action::Stop | Action::Start => unreachable!("the pipeline's own steps"),
            }
            self.shared.gate.pass(number);
        }
        (taken, refused)
    }

    async fn try_run(&mut self, statement: &str) -> bool {
        let latin1 = || statement.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
        let bytes: Vec<u8> = if self.latin1 { latin1() } else { statement.into() };
        let result = self.session.try_run(&bytes).await;
        if let Err(error) = &result {
            assert!(error.contains("ERROR "), "{statement}: {error}");
        }
        result.is_ok()
    }
}

/// Runs a program and compares both sides. Panics where they differ.
async fn run(name: String, program: Program, options: Options<'static>) {
    let tables: Vec<&str> = program.tables.iter().map(String::as_str).collect();
    let setup: String = program.setup.iter().map(|statement| format!("{statement};\n")).collect();
    let mut world = World::with(&name, &setup, &tables, options).await;
    world.start();
    let count = program.steps.len();
    let shared = Arc::new(Shared {
        gate: Gate { done: Mutex::new(vec![false; count]), first: watch::Sender::new(0) },
        changes: tables.iter().map(|_| watch::Sender::default()).collect(),
    });
    let mut counts = vec![0; tables.len()];
    let mut before = |step: &Step| match &step.action {
        Action::Change { table, .. } => {
            counts[*table] += 1;
            counts[*table] - 1
        }
        Action::Rows { .. } | Action::Kill | Action::Stop | Action::Start => 0,
    };
    let befores: Vec<usize> = program.steps.iter().map(&mut before).collect();
    let mut sessions = tokio::task::JoinSet::new();
    for (number, (dialect, begin)) in program.sessions.iter().enumerate() {
        let mut session = world.session().await;
        session.run("SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = 5").await;
        session.run(begin).await;
        let steps = program.steps.iter().enumerate().filter(|(_, step)| step.session == number && !of_pipeline(step));
        let steps = steps.map(|(number, step)| (number, befores[number], step.action.clone())).collect();
        sessions.spawn(Session { session, latin1: dialect.latin1, steps, shared: shared.clone() }.work());
    }
    for (number, step) in program.steps.iter().enumerate().filter(|(_, step)| of_pipeline(step)) {
        shared.gate.near(number).await;
        match step.action {
            Action::Kill => {
                world.pipeline.kill();
                world.pipeline.start();
            }
            Action::Stop if world.pipeline.is_running() => {
                world.pipeline.stop();
            }
            Action::Start if !world.pipeline.is_running() => world.pipeline.start(),
            Action::Stop | Action::Start | Action::Rows { .. } | Action::Change { .. } => {}
        }
        shared.gate.pass(number);
    }
    let (mut taken, mut refused) = (0, 0);
    while let Some(counts) = sessions.join_next().await {
        let (t, r) = counts.unwrap();
        (taken, refused) = (taken + t, refused + r);
    }
    if !world.pipeline.is_running() {
        world.pipeline.start();
    }
    world.pipeline.caught_up();
    world.assert_equal().await;
    for (table, changes) in tables.iter().zip(&shared.changes) {
        same_history(&world.history(table), &changes.borrow().made);
    }
    // Most of what a whole program does must be done, where the tables are as it knows them.
    let known = shared.changes.iter().all(|changes| !changes.borrow().refused);
    assert!(count < LENGTH || !known || taken > refused, "{taken} statements were taken, {refused} refused");
}

fn of_pipeline(step: &Step) -> bool {
    matches!(step.action, Action::Kill | Action::Stop | Action::Start)
}

/// The history has the changes in their order, each with the right outcome; one with nothing to apply may not be there.
fn same_history(history: &[Json], made: &[Made]) {
    let mut entries = history.iter().filter(|entry| !entry["ddl"].is_null()).peekable();
    for change in made {
        let told = |entry: &&Json| entry["ddl"].as_str().map(str::trim) == Some(change.statement.trim());
        let Some(entry) = entries.next_if(told) else {
            assert_ne!(change.expected, Expected::Applied, "the history lacks {}; next is {:?}", change.statement, entries.peek());
            continue;
        };
        let outcome = entry["outcomes"]["target"]["outcome"].as_str().unwrap_or_default();
        let right: &[&str] = match change.expected {
            Expected::Applied => &["applied"],
            Expected::Nothing => &["nothing_to_apply"],
            Expected::Either => &["applied", "nothing_to_apply"],
        };
        assert!(right.contains(&outcome), "expected {right:?}: {entry}");
    }
    assert_eq!(entries.next(), None, "the history has a change that was not made there");
}

/// Runs a program in a task of its own; what it panicked with.
async fn attempt(name: &str, program: &Program, options: &Options<'static>) -> Result<(), String> {
    let task = tokio::spawn(run(name.to_owned(), program.clone(), options.clone()));
    task.await.map_err(|error| {
        let panic = error.into_panic();
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}

/// Leaves out steps while the program still fails: halves, quarters, … single ones.
async fn shrink(name: &str, mut program: Program, mut why: String, options: &Options<'static>) -> (Program, String) {
    let mut attempts = number("INSTAR_TEST_MODEL_ATTEMPTS").unwrap_or(12);
    let mut length = program.steps.len().div_ceil(2);
    loop {
        let mut from = 0;
        while from < program.steps.len() && attempts > 0 {
            let mut shorter = program.clone();
            shorter.steps.drain(from..(from + length).min(program.steps.len()));
            attempts -= 1;
            match attempt(name, &shorter, options).await {
                Ok(()) => from += length,
                Err(again) => (program, why) = (shorter, again),
            }
        }
        if length == 1 || attempts == 0 {
            return (program, why);
        }
        length = length.div_ceil(2);
    }
}

async fn check(seed: u64) {
    let mariadb = seed.is_multiple_of(2);
    let server = if mariadb { "mariadb" } else { "mysql" };
    let name = format!("model_{server}_{}", seed % 10_000);
    println!("{server}: seed {seed}");
    let program = program(seed, mariadb, &name, LENGTH);
    let options = Options { source_url: Some(source::url(server)), sink: "    keyless: full_row\n", ..Options::default() };
    let Err(why) = attempt(&name, &program, &options).await else { return };
    println!("{server}: seed {seed} fails; again with: tests/model --seed {seed}\n{why}");
    let (shorter, why) = shrink(&name, program, why, &options).await;
    panic!("tests/model --seed {seed}: {} steps on {server} fail:\n{shorter}{why}", shorter.steps.len());
}

/// The seeds of this server: INSTAR_TEST_SEED alone, else half of INSTAR_TEST_MODEL_RUNS fresh ones.
async fn check_all(parity: u64) {
    if let Some(seed) = number("INSTAR_TEST_SEED") {
        if seed % 2 == parity {
            check(seed).await;
        }
        return;
    }
    for _ in 0..number("INSTAR_TEST_MODEL_RUNS").unwrap_or(10).div_ceil(2) {
        let fresh = std::hash::RandomState::new().build_hasher().finish() >> 24;
        check(fresh / 2 * 2 + parity).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_programs_on_mariadb_end_equal() {
    check_all(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_programs_on_mysql_end_equal() {
    check_all(1).await;
}

/// The test of the test: a change that was not recorded, is in the wrong place or has the wrong outcome is found.
#[test]
fn a_history_that_lacks_or_doubles_a_change_is_found() {
    let entry = |ddl: &str, outcome: &str| serde_json::json!({ "ddl": ddl, "outcomes": { "target": { "outcome": outcome } } });
    let made = |statement: &str, expected| Made { statement: statement.into(), expected };
    let changes = [made("a", Expected::Applied), made("b", Expected::Nothing), made("c", Expected::Applied)];
    let right = [entry("a", "applied"), entry("c", "applied")];
    same_history(&right, &changes);
    let wrong = [
        vec![entry("c", "applied")],
        vec![entry("c", "applied"), entry("a", "applied")],
        vec![entry("a", "applied"), entry("a", "applied"), entry("c", "applied")],
        vec![entry("a", "applied"), entry("b", "applied"), entry("c", "applied")],
        vec![entry("a", "applied"), entry("c", "nothing_to_apply")],
    ];
    for history in wrong {
        assert!(std::panic::catch_unwind(|| same_history(&history, &changes)).is_err(), "{history:?}");
    }
}
