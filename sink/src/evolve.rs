//! The only driver of schema evolution: one decider per sink process, for every target.
//!
//! It reads the schema versions and the ledger, asks `schemas::order` what is to be decided, `schemas::rules` how, and runs
//! plans in the session that holds the sink's lock. It remembers nothing that is not read again.

mod begin;
mod create;
pub mod dry;
mod row;
mod run;
mod verdict;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use runtime::config::{OnStop, Sink};
use schemas::{
    event::{Offset, Version},
    order::{
        events::Events,
        ledger::Ledger,
        sink::{Job, work},
    },
    table::{Table, TableId},
};
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};

use crate::{
    consumer::{Consumer, reachable},
    error::SinkError,
    shared::{RowProblem, Shared, Task, View},
    status::stop_message,
    target::{Session, Target},
};

/// Other instances' changes, and a person's in the target, are seen at the latest after this.
const SAFETY: Duration = Duration::from_millis(200);

/// 1 while the sink waits for a person.
const STOPPED: &str = "instar_sink_stopped";
/// Held tables.
const HELD: &str = "instar_sink_held_tables";
/// 1 while the table is held, by sink and table.
const TABLE_HELD: &str = "instar_sink_table_held";

/// Why the decider ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    Shutdown,
    /// The ledger stands: a person must act. Everything before the stop is applied.
    Stopped {
        message: String,
    },
}

pub struct Decider<T: Target, C: Consumer> {
    sink: Arc<Sink>,
    target: Arc<T>,
    consumer: C,
    shared: Arc<Shared>,
    problems: mpsc::UnboundedReceiver<RowProblem>,
    shutdown: watch::Receiver<bool>,
    events: Arc<Events>,
    /// The next offset of the schema-versions topic.
    read: Offset,
    session: Option<T::Session>,
    expected: BTreeMap<TableId, (Version, Table)>,
    /// What was published last.
    view: Arc<View>,
    /// Look at the ledger even if no event is new.
    look: bool,
    stopped: Option<String>,
    /// The view under which all workers had nothing to do.
    drained: Option<u64>,
    /// Whether it is known how the sink begins.
    whole: bool,
}

/// What a round came to.
#[derive(Debug, PartialEq, Eq)]
enum Round {
    Progress,
    Idle,
}

impl<T: Target, C: Consumer> Decider<T, C> {
    pub fn new(
        sink: Arc<Sink>,
        target: Arc<T>,
        consumer: C,
        shared: Arc<Shared>,
        problems: mpsc::UnboundedReceiver<RowProblem>,
        shutdown: watch::Receiver<bool>,
    ) -> Self {
        let view = shared.view().borrow().clone();
        Self {
            events: view.events.clone(),
            sink,
            target,
            consumer,
            shared,
            problems,
            shutdown,
            read: 0,
            session: None,
            expected: BTreeMap::new(),
            view,
            look: true,
            stopped: None,
            drained: None,
            whole: false,
        }
    }

    /// Runs until shutdown, or until the ledger stands and the configuration says to end then.
    pub async fn run(mut self) -> Result<Ended, SinkError> {
        let (mut news, mut trouble) = (self.consumer.events_changed(), self.consumer.trouble());
        let mut pause = self.sink.retry.initial;
        while !*self.shutdown.borrow() {
            news.borrow_and_update();
            match self.round().await {
                Ok(round) => {
                    pause = self.sink.retry.initial;
                    self.shared.retrying(Task::Decider, None);
                    if round == Round::Progress {
                        continue;
                    }
                    let ending = self.stopped.clone().filter(|_| self.sink.on_stop == OnStop::Exit);
                    if let Some(message) = ending.clone().filter(|_| self.drained == Some(self.view.number)) {
                        return Ok(Ended::Stopped { message });
                    }
                    let (workers, number) = (self.sink.workers.max(1), self.view.number);
                    tokio::select! {
                        // What lies before the stop is applied first, and may make something else decidable.
                        () = self.shared.drained(workers, number), if ending.is_some() => {
                            self.drained = Some(number);
                            self.look = true;
                        }
                        () = self.shared.woken() => self.look = true,
                        _ = news.changed() => {}
                        _ = self.shutdown.changed() => {}
                        () = sleep(SAFETY) => self.look = true,
                    }
                }
                Err(SinkError::Transient(reason) | SinkError::SessionLost(reason)) => {
                    tracing::warn!(sink = %self.sink.name, %reason, "retrying");
                    self.session = None;
                    self.look = true;
                    self.shared.retrying(Task::Decider, Some(reason));
                    tokio::select! {
                        () = sleep(pause) => {}
                        () = reachable(&mut trouble) => {}
                        _ = self.shutdown.changed() => {}
                    }
                    pause = (pause * 2).min(self.sink.retry.max);
                }
                Err(
                    error @ (SinkError::BadValue { .. } | SinkError::Incomplete { .. } | SinkError::Stop { .. } | SinkError::Refused(_)),
                ) => {
                    return Err(error);
                }
            }
        }
        Ok(Ended::Shutdown)
    }

    async fn round(&mut self) -> Result<Round, SinkError> {
        let new = self.read_events().await?;
        let ledger = &self.view.ledger;
        if !(new || self.look || self.events.newest() > ledger.decided || !self.problems.is_empty()) {
            return Ok(Round::Idle);
        }
        self.look = false;
        if self.session.is_none() {
            self.session = Some(self.target.session().await?);
        }
        self.record_problems().await?;
        self.begin().await?;
        let ledger = self.look().await?;
        match work(&ledger, &self.events) {
            Some(job) if self.decide(&job).await? => Ok(Round::Progress),
            Some(_) | None => Ok(Round::Idle),
        }
    }

    fn session(&mut self) -> Result<&mut T::Session, SinkError> {
        self.session.as_mut().ok_or_else(|| SinkError::SessionLost("the decider's session is not open".into()))
    }

    /// Reads the schema versions to their end. True: there were new ones.
    async fn read_events(&mut self) -> Result<bool, SinkError> {
        let (new, end) = self.consumer.events(self.read).await?;
        self.read = end;
        if new.is_empty() {
            return Ok(false);
        }
        let mut events = Events::clone(&self.events);
        for event in new {
            events.add(Arc::new(event));
        }
        self.events = Arc::new(events);
        Ok(true)
    }

    /// Gives the workers the same view under a new number.
    fn renew(&mut self) {
        let view = View { number: self.view.number + 1, ..View::clone(&self.view) };
        self.view = Arc::new(view.clone());
        self.shared.publish(view);
    }

    async fn read_ledger(&mut self) -> Result<Ledger, SinkError> {
        let mut ledger = self.session()?.ledger().await?;
        prune(&mut ledger);
        Ok(ledger)
    }

    /// Reads the ledger, and tells the workers where something that they look at is new.
    async fn look(&mut self) -> Result<Arc<Ledger>, SinkError> {
        let mut ledger = self.read_ledger().await?;
        // Shapes belong to the ledger that was read before and after them.
        while self.view.number == 0 || !same_decisions(&ledger, &self.view.ledger) {
            self.read_expected(&ledger).await?;
            let after = self.read_ledger().await?;
            let settled = same_decisions(&ledger, &after);
            ledger = after;
            if settled {
                break;
            }
        }
        self.tell(ledger).await
    }

    /// Gives the workers a view of this ledger, if it says something new. The expected shapes are those that belong to it.
    async fn tell(&mut self, ledger: Ledger) -> Result<Arc<Ledger>, SinkError> {
        let ledger = Arc::new(ledger);
        let known = self.view.number > 0 && Arc::ptr_eq(&self.events, &self.view.events);
        if known && same_decisions(&ledger, &self.view.ledger) {
            return Ok(ledger);
        }
        let versions = Arc::new(self.view.versions.rebuild(&self.events, &self.expected));
        let view = View { number: self.view.number + 1, ledger: ledger.clone(), events: self.events.clone(), versions };
        self.view = Arc::new(view.clone());
        self.shared.publish(view);
        self.tell_stop(&ledger).await?;
        Ok(ledger)
    }

    /// Reads again what the tables that these decisions are about are expected to be.
    async fn read_expected(&mut self, ledger: &Ledger) -> Result<(), SinkError> {
        if self.view.number == 0 {
            self.expected = self.session()?.all_expected().await?;
            return Ok(());
        }
        let old = self.view.ledger.clone();
        let mut tables: BTreeSet<TableId> = BTreeSet::new();
        for (epoch, event) in self.events.iter() {
            if epoch > old.decided && epoch <= ledger.decided + 1 {
                tables.extend(event.tables.iter().map(|part| part.table.id.clone()));
            }
        }
        let told: BTreeSet<&TableId> = old.outcomes.keys().chain(ledger.outcomes.keys()).map(|(_, table)| table).collect();
        tables.extend(told.into_iter().filter(|table| tables_differ(&old, ledger, table)).cloned());
        for table in tables {
            self.read_one_expected(&table).await?;
        }
        Ok(())
    }

    async fn read_one_expected(&mut self, table: &TableId) -> Result<(), SinkError> {
        match self.session()?.expected(table).await? {
            Some(shape) => drop(self.expected.insert(table.clone(), shape)),
            None => drop(self.expected.remove(table)),
        }
        Ok(())
    }

    async fn tell_stop(&mut self, ledger: &Ledger) -> Result<(), SinkError> {
        let journal = match stop_message(ledger, &crate::target::Journal::default()) {
            Some(_) => self.session()?.journal().await?,
            None => crate::target::Journal::default(),
        };
        let message = stop_message(ledger, &journal);
        let name = || self.sink.name.clone();
        metrics::gauge!(STOPPED, "sink" => name()).set(u32::from(message.is_some()));
        metrics::gauge!(HELD, "sink" => name()).set(u32::try_from(ledger.held.len()).unwrap_or(u32::MAX));
        for table in self.expected.keys().chain(ledger.held.keys()) {
            let held = f64::from(u8::from(ledger.held.contains_key(table)));
            metrics::gauge!(TABLE_HELD, "sink" => name(), "table" => table.to_string()).set(held);
        }
        if message != self.stopped {
            if let Some(message) = &message {
                tracing::error!(sink = %self.sink.name, %message, "stopped: needs operator");
            }
            self.shared.stopped(message.clone());
            self.stopped = message;
        }
        Ok(())
    }

    /// Carries one job out under the lock. False: it has to wait after all.
    async fn decide(&mut self, job: &Job) -> Result<bool, SinkError> {
        self.session()?.lock().await?;
        self.read_events().await?;
        let ledger = self.read_ledger().await?;
        if !same_decisions(&ledger, &self.view.ledger) {
            self.read_expected(&ledger).await?;
        }
        // Where another instance was first there may be other work now.
        let (moved, ledger) = match work(&ledger, &self.events).as_ref() == Some(job) {
            true => self.steps(job, ledger).await?,
            false => (true, ledger),
        };
        // The rows behind the decision go on while the lock is given back.
        self.tell(ledger).await?;
        self.session()?.unlock().await?;
        Ok(moved)
    }
}

/// Final outcomes of decided epochs decide nothing any more; a store may leave them out.
fn prune(ledger: &mut Ledger) {
    let decided = ledger.decided;
    ledger.outcomes.retain(|(epoch, _), outcome| *epoch > decided || !outcome.is_final());
}

/// Whether two ledgers differ in what they say of a table's changes.
fn tables_differ(a: &Ledger, b: &Ledger, table: &TableId) -> bool {
    let outcomes =
        |ledger: &Ledger| ledger.outcomes.iter().filter(|((_, t), _)| t == table).map(|((e, _), o)| (*e, *o)).collect::<Vec<_>>();
    let rest = |ledger: &Ledger| (ledger.held.get(table).cloned(), ledger.queued.get(table).cloned(), ledger.approved.get(table).cloned());
    outcomes(a) != outcomes(b) || rest(a) != rest(b)
}

/// Whether two ledgers say the same about rows and changes; positions move all the time.
fn same_decisions(a: &Ledger, b: &Ledger) -> bool {
    let Ledger { decided, outcomes, held, queued, blocked, retired, approved, stop_at_row, lanes: _ } = a;
    (decided, outcomes, held, queued, blocked) == (&b.decided, &b.outcomes, &b.held, &b.queued, &b.blocked)
        && (retired, approved, stop_at_row) == (&b.retired, &b.approved, &b.stop_at_row)
}
