//! The steps of a job: what `schemas::order` asks for, carried out and recorded.

use schemas::{
    event::{SchemaEvent, TableEvent, Version},
    order::{
        events::Asked,
        ledger::{LedgerChange, Outcome},
        sink::{Job, Run, RunKind, Step, failed, next},
    },
};

use super::{
    Decider,
    verdict::{Planned, Rules, at},
};
use crate::{
    consumer::Consumer,
    error::SinkError,
    target::{Session, Target},
};

/// What became of a run before anything of it was recorded.
enum Attempt {
    Done(Version, schemas::table::Table),
    /// Nothing was applied; what to tell.
    Failed(String),
}

impl<T: Target, C: Consumer> Decider<T, C> {
    /// Asks for the next step until there is none. Under the lock. Tells whether there was one.
    pub(super) async fn steps(&mut self, job: &Job) -> Result<bool, SinkError> {
        let mut moved = false;
        let events = self.events.clone();
        let (_, tables) = job.tables(&events);
        for table in tables {
            self.read_one_expected(table).await?;
        }
        loop {
            let ledger = self.session()?.ledger().await?;
            let rules = Rules { target: &*self.target, sink: &self.sink, events: &self.events, expected: &self.expected };
            match next(&ledger, &self.events, job, &rules) {
                None => return Ok(moved),
                Some(Step::Record(changes)) => {
                    let changes = self.worded(changes);
                    self.session()?.record(&changes).await?;
                    self.count(&changes);
                }
                Some(Step::Run(run)) => self.run_step(job, run).await?,
            }
            moved = true;
        }
    }

    async fn run_step(&mut self, job: &Job, run: Run) -> Result<(), SinkError> {
        let events = self.events.clone();
        let Some((event, part)) = events.get(run.epoch).and_then(|event| event.table(&run.table).map(|part| (event, part))) else {
            return Err(SinkError::Stop {
                message: format!("epoch {} of table {} is not among the schema versions read", run.epoch, run.table),
            });
        };
        match self.attempt(job, &run, event, part).await? {
            Attempt::Done(version, shape) => drop(self.expected.insert(run.table.clone(), (version, shape))),
            Attempt::Failed(reason) => {
                let changes = failed(job, &run, &at(event, &reason), &[]);
                self.session()?.record(&changes).await?;
                self.count(&changes);
            }
        }
        Ok(())
    }

    async fn attempt(&mut self, job: &Job, run: &Run, event: &SchemaEvent, part: &TableEvent) -> Result<Attempt, SinkError> {
        let planned = match self.plan(run, event, part).await? {
            Ok(planned) => planned,
            Err(reason) => return Ok(Attempt::Failed(reason)),
        };
        let outcome = self.outcome(job, run, part, &planned);
        let session = self.session()?;
        let done = if planned.statements.is_empty() {
            session.record(&outcome).await
        } else {
            session.run(run.epoch, &run.table, &planned.statements, &outcome).await
        };
        match done {
            Ok(()) => {
                self.count(&outcome);
                tracing::info!(sink = %self.sink.name, table = %run.table, epoch = run.epoch, "schema change done");
                Ok(Attempt::Done(part.version, planned.shape))
            }
            Err(SinkError::Stop { message } | SinkError::Refused(message)) => Ok(Attempt::Failed(message)),
            Err(SinkError::BadValue { message, .. } | SinkError::Incomplete { message, .. }) => Ok(Attempt::Failed(message)),
            Err(error @ (SinkError::Transient(_) | SinkError::SessionLost(_))) => Err(error),
        }
    }

    /// The plan that a run wants; the inner error: it cannot be made, and why.
    async fn plan(&mut self, run: &Run, event: &SchemaEvent, part: &TableEvent) -> Result<Result<Planned, String>, SinkError> {
        let Some(session) = self.session.as_mut() else { return Err(SinkError::SessionLost("the decider's session is not open".into())) };
        let rules = Rules { target: &*self.target, sink: &self.sink, events: &self.events, expected: &self.expected };
        match &run.kind {
            RunKind::Ddl => Ok(rules.planned(part, false)),
            RunKind::Keep => Ok(rules.planned(part, true)),
            RunKind::Nothing => Ok(rules.untouched(event, part)),
            RunKind::Create => rules.begin(session, part, false).await.map(Ok),
            RunKind::Reload => rules.begin(session, part, true).await.map(Ok),
            RunKind::Approved(None) => Ok(rules.approved(part)),
            RunKind::Approved(Some(_)) => {
                Ok(Err("edited statements cannot be run yet: approve the proposal as it is, keep, or reload the table".into()))
            }
        }
    }

    /// The run's outcome with its statements, its words and the shape behind it.
    fn outcome(&self, job: &Job, run: &Run, part: &TableEvent, planned: &Planned) -> Vec<LedgerChange> {
        // `kept` is an outcome of its own where the policy says so; a queued change ends as applied.
        let keeps = planned.kept && matches!(job, Job::Epoch(_));
        let mut changes = self.worded(run.outcome.clone());
        for change in &mut changes {
            if let LedgerChange::Outcome { epoch, outcome, reason, target_ddl, .. } = change
                && *epoch == run.epoch
            {
                target_ddl.clone_from(&planned.sql);
                reason.clone_from(&planned.reason);
                if keeps && *outcome == Outcome::Applied {
                    *outcome = Outcome::Kept;
                }
            }
        }
        changes.push(LedgerChange::Shape { table: run.table.clone(), version: part.version, target: planned.shape.clone() });
        changes
    }

    /// Superseded outcomes say what superseded them.
    fn worded(&self, mut changes: Vec<LedgerChange>) -> Vec<LedgerChange> {
        for change in &mut changes {
            if let LedgerChange::Outcome { epoch, table, outcome: Outcome::Superseded, reason, .. } = change
                && reason.is_empty()
                && let Some(later) = self.events.superseded_by(*epoch, table)
            {
                let what = match self.events.get(later).map(|event| self.events.asked(event)) {
                    Some(Asked::Retire) => "removal",
                    Some(Asked::Reload | Asked::Create | Asked::Change | Asked::Elsewhere) | None => "reload",
                };
                *reason = format!("superseded by the {what} of the table at epoch {later}");
            }
        }
        changes
    }

    fn count(&self, changes: &[LedgerChange]) {
        for change in changes {
            if let LedgerChange::Outcome { outcome, .. } = change {
                metrics::counter!(OUTCOMES, "sink" => self.sink.name.clone(), "outcome" => outcome.name()).increment(1);
            }
        }
    }
}

/// Recorded outcomes, by sink and outcome.
const OUTCOMES: &str = "instar_sink_outcomes_total";
