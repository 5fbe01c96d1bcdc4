//! Rows that cannot be applied: recorded under the lock, if their lane still stands before them.

use schemas::order::{ledger::LedgerChange, sink::hold_at_row};

use super::Decider;
use crate::{
    consumer::Consumer,
    error::SinkError,
    shared::{RowAction, RowProblem},
    target::{Session, Target},
};

/// Ways out of a stop at a row.
const STOP: &str = "Nothing behind this row is applied. Reload the table, or remove it from the configuration";
/// Ways out of a hold at a row.
const HOLD: &str = "The table is held there. Reload the table, or remove it from the configuration";

impl<T: Target, C: Consumer> Decider<T, C> {
    /// Records what the workers reported.
    pub(super) async fn record_problems(&mut self) -> Result<(), SinkError> {
        while let Ok(problem) = self.problems.try_recv() {
            self.session()?.lock().await?;
            self.record_problem(&problem).await?;
            self.session()?.unlock().await?;
            // The worker waits for a newer view, whatever came of it.
            self.renew();
        }
        Ok(())
    }

    async fn record_problem(&mut self, problem: &RowProblem) -> Result<(), SinkError> {
        let ledger = self.session()?.ledger().await?;
        let table = &problem.lane.table;
        let stands = ledger.position(table, problem.lane.lane).position == problem.position;
        if !stands || ledger.held.contains_key(table) || ledger.stop_at_row.is_some() || ledger.retired.contains(table) {
            return Ok(());
        }
        let place = self.events.get(problem.epoch).map_or_else(String::new, |event| format!(", behind position {}", event.position));
        let message = |ways: &str| format!("{} (lane {}, offset {}{place}). {ways}", problem.message, problem.lane.lane, problem.position);
        let changes = match problem.action {
            RowAction::Hold => hold_at_row(table, problem.epoch, &message(HOLD)),
            RowAction::Stop => {
                let message = message(STOP);
                vec![LedgerChange::StopAtRow { table: table.clone(), epoch: problem.epoch, message }]
            }
        };
        self.session()?.record(&changes).await
    }
}
