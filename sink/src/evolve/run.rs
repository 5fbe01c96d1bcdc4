//! The steps of a job: what `schemas::order` asks for, carried out and recorded.

use std::collections::BTreeSet;

use schemas::{
    event::{Epoch, SchemaEvent, TableEvent},
    order::{
        events::Asked,
        ledger::{Broken, Ledger, LedgerChange, Outcome},
        sink::{Job, Run, RunKind, Step, failed, next},
    },
    table::TableId,
};

use super::{
    Decider, prune,
    verdict::{Planned, Rules, at},
};
use crate::{
    consumer::Consumer,
    error::SinkError,
    target::{Session, Target},
};

/// What became of a run.
enum Attempt {
    /// Done and recorded; the ledger behind it.
    Done(Box<Ledger>),
    /// Nothing was applied; what to tell.
    Failed(String),
}

impl<T: Target, C: Consumer> Decider<T, C> {
    /// Asks for the next step until there is none. Tells whether there was one, and the ledger behind it.
    ///
    /// Under the lock nobody else decides: the ledger behind a step is what [`Ledger::apply`] makes of it. Positions may have
    /// moved on meanwhile, which only makes more possible later.
    pub(super) async fn steps(&mut self, job: &Job, mut ledger: Ledger) -> Result<(bool, Ledger), SinkError> {
        let mut moved = false;
        loop {
            match next(&ledger, &self.events, job, &self.rules()) {
                None => break,
                Some(Step::Record(changes)) => ledger = self.record(job, &ledger, self.worded(changes)).await?,
                Some(Step::Run(run)) => ledger = self.run_step(job, &ledger, run).await?,
            }
            moved = true;
        }
        prune(&mut ledger);
        Ok((moved, ledger))
    }

    fn rules(&self) -> Rules<'_, T> {
        Rules { target: &*self.target, sink: &self.sink, events: &self.events, expected: &self.expected }
    }

    async fn record(&mut self, job: &Job, ledger: &Ledger, mut changes: Vec<LedgerChange>) -> Result<Ledger, SinkError> {
        let after = self.behind(job, ledger, &mut changes)?;
        self.session()?.record(&changes).await?;
        self.count(&changes);
        Ok(after)
    }

    /// The ledger behind these changes. Where nothing but "decided" is left of the job, it goes into the same transaction.
    fn behind(&self, job: &Job, ledger: &Ledger, changes: &mut Vec<LedgerChange>) -> Result<Ledger, SinkError> {
        let broken = |error: Broken| SinkError::Stop {
            message: format!("sink {}: {error}. What Instar keeps in the target was altered by hand.", self.sink.name),
        };
        let mut after = ledger.clone();
        changes.iter().try_for_each(|change| after.apply(change)).map_err(broken)?;
        if let Some(Step::Record(more)) = next(&after, &self.events, job, &self.rules())
            && more.iter().all(|change| matches!(change, LedgerChange::Decided(_)))
        {
            more.iter().try_for_each(|change| after.apply(change)).map_err(broken)?;
            changes.extend(more);
        }
        Ok(after)
    }

    async fn run_step(&mut self, job: &Job, ledger: &Ledger, run: Run) -> Result<Ledger, SinkError> {
        let events = self.events.clone();
        let Some((event, part)) = events.get(run.epoch).and_then(|event| event.table(&run.table).map(|part| (event, part))) else {
            return Err(SinkError::Stop {
                message: format!("epoch {} of table {} is not among the schema versions read", run.epoch, run.table),
            });
        };
        let reason = match self.attempt(job, ledger, &run, event, part).await? {
            Attempt::Done(after) => return Ok(*after),
            Attempt::Failed(reason) => reason,
        };
        tracing::warn!(sink = %self.sink.name, table = %run.table, epoch = run.epoch, %reason, "schema change cannot be made");
        let changes = failed(job, &run, &at(event, &reason), &[]);
        self.record(job, ledger, changes).await
    }

    async fn attempt(
        &mut self,
        job: &Job,
        ledger: &Ledger,
        run: &Run,
        event: &SchemaEvent,
        part: &TableEvent,
    ) -> Result<Attempt, SinkError> {
        let planned = match self.plan(run, event, part).await? {
            Ok(planned) => planned,
            Err(reason) => return Ok(Attempt::Failed(reason)),
        };
        let mut outcome = self.outcome(job, run, part, &planned);
        let after = self.behind(job, ledger, &mut outcome)?;
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
                self.expected.insert(run.table.clone(), (part.version, planned.shape));
                Ok(Attempt::Done(Box::new(after)))
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
            // What the configuration does not allow to one table is no error of the others.
            RunKind::Reload => match rules.begin(session, part, true).await {
                Err(SinkError::Refused(why)) => {
                    Ok(Err(format!("{why}. Correct that, then reload the table or remove it from the configuration")))
                }
                begun => begun.map(Ok),
            },
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
            if let LedgerChange::Outcome { epoch, table, outcome, .. } = change {
                for kind in self.kinds(*epoch, table) {
                    metrics::counter!(OUTCOMES, "sink" => self.sink.name.clone(), "kind" => kind, "outcome" => outcome.name()).increment(1);
                }
            }
        }
    }

    /// The kinds of a table's changes at an epoch, each once; of an event without changes (a reload, a removal) its own.
    fn kinds(&self, epoch: Epoch, table: &TableId) -> BTreeSet<&'static str> {
        let Some(event) = self.events.get(epoch) else { return BTreeSet::new() };
        let changes = event.table(table).map(|part| part.changes.as_slice()).unwrap_or_default();
        if changes.is_empty() { BTreeSet::from([event.kind.name()]) } else { changes.iter().map(|change| change.kind().name()).collect() }
    }
}

/// Recorded outcomes, by sink, kind of change and outcome.
const OUTCOMES: &str = "instar_sink_outcomes_total";
