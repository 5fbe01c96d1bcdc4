//! The meaning of every change to a ledger. A store in SQL gives each of them the same meaning.

use std::collections::HashMap;

use super::ledger::{Broken, Hold, Lane, LanePosition, Ledger, LedgerChange, Outcome, RowStop};
use crate::{
    event::{Epoch, Offset},
    table::TableId,
};

impl Ledger {
    /// What became of a table's part of an epoch, as far as it is recorded.
    pub fn outcome(&self, epoch: Epoch, table: &TableId) -> Option<Outcome> {
        self.outcomes.get(&(epoch, table.clone())).copied()
    }

    /// What became of each table's part of an epoch, as far as it is recorded.
    pub(super) fn outcomes_of(&self, epoch: Epoch) -> HashMap<&TableId, Outcome> {
        let none = || TableId::new("", "");
        let of_epoch = self.outcomes.range((epoch, none())..(epoch.saturating_add(1), none()));
        of_epoch.map(|((_, table), outcome)| (table, *outcome)).collect()
    }

    /// How far a lane is durable; a lane that is not stored yet stands at 0.
    pub fn position(&self, table: &TableId, lane: u32) -> LanePosition {
        self.lanes.get(&Lane { table: table.clone(), lane }).copied().unwrap_or_default()
    }

    /// Moves a lane by compare-and-set; false: it does not stand at `from`, and nothing has changed.
    pub fn compare_and_set(&mut self, lane: &Lane, from: Offset, to: LanePosition) -> bool {
        let stored = self.lanes.entry(lane.clone()).or_default();
        let hit = stored.position == from && to.position >= from;
        if hit {
            *stored = to;
        }
        hit
    }

    /// Carries out one change, or refuses it and leaves everything as it was.
    pub fn apply(&mut self, change: &LedgerChange) -> Result<(), Broken> {
        match change {
            LedgerChange::Outcome { epoch, table, outcome, .. } => self.record(*epoch, table, *outcome)?,
            LedgerChange::Decided(epoch) => self.decide(*epoch)?,
            LedgerChange::Hold { table, hold, .. } => self.hold(table, hold)?,
            LedgerChange::Unhold(table) => drop(self.held.remove(table)),
            LedgerChange::Queue { table, epoch } => self.queue(table, *epoch)?,
            LedgerChange::Unqueue { table, epoch } => self.unqueue(table, *epoch)?,
            LedgerChange::Block { table, epoch } => {
                let from = self.blocked.entry(table.clone()).or_insert(*epoch);
                *from = (*from).min(*epoch);
            }
            LedgerChange::Unblock(table) => drop(self.blocked.remove(table)),
            LedgerChange::Retire(table) => drop(self.retired.insert(table.clone())),
            LedgerChange::Unretire(table) => drop(self.retired.remove(table)),
            // The first one may be half carried out already.
            LedgerChange::Approve { table, .. } if self.approved.contains_key(table) => {
                return Err(Broken::ApprovedAlready { table: table.clone() });
            }
            LedgerChange::Approve { table, approval, .. } => match self.held.get(table) {
                Some(Hold::Change { .. }) => drop(self.approved.insert(table.clone(), approval.clone())),
                Some(Hold::Value { .. }) | None => return Err(Broken::NotHeld { table: table.clone() }),
            },
            LedgerChange::Unapprove(table) => drop(self.approved.remove(table)),
            LedgerChange::StopAtRow { table, epoch, .. } => {
                self.stop_at_row.get_or_insert_with(|| RowStop { table: table.clone(), epoch: *epoch });
            }
            LedgerChange::Resume => self.stop_at_row = None,
            LedgerChange::MoveLanes(moves) => {
                for (lane, to) in moves {
                    let stored = self.lanes.entry(lane.clone()).or_default();
                    if stored.position < to.position {
                        *stored = *to;
                    }
                }
            }
            LedgerChange::ResetLanes(moves) => {
                for (lane, to) in moves {
                    let stored = self.lanes.entry(lane.clone()).or_default();
                    if stored.epoch < to.epoch {
                        *stored = *to;
                    }
                }
            }
            LedgerChange::Forget(table) => self.forget(table),
            // What they say is kept beside the ledger.
            LedgerChange::Shape { .. } | LedgerChange::Audit { .. } => {}
        }
        Ok(())
    }

    fn record(&mut self, epoch: Epoch, table: &TableId, outcome: Outcome) -> Result<(), Broken> {
        let before = self.outcome(epoch, table);
        if !before.is_none_or(|before| may_become(before, outcome)) {
            return Err(Broken::Outcome { epoch, table: table.clone(), before: before.unwrap_or(Outcome::Pending), outcome });
        }
        self.outcomes.insert((epoch, table.clone()), outcome);
        Ok(())
    }

    fn decide(&mut self, epoch: Epoch) -> Result<(), Broken> {
        let base_line = self.decided == 0 && self.outcomes.is_empty();
        if epoch != self.decided + 1 && !base_line {
            return Err(Broken::Decided { decided: self.decided, epoch });
        }
        let open = self.outcomes.iter().find(|((e, _), o)| *e <= epoch && matches!(o, Outcome::Pending | Outcome::Stopped));
        if let Some(((epoch, table), _)) = open {
            return Err(Broken::Open { epoch: *epoch, table: table.clone() });
        }
        self.decided = epoch;
        Ok(())
    }

    fn hold(&mut self, table: &TableId, hold: &Hold) -> Result<(), Broken> {
        match (self.held.get(table), hold) {
            (None, _) => drop(self.held.insert(table.clone(), hold.clone())),
            // Another lane was first: one reason to wait is enough.
            (Some(_), Hold::Value { .. }) => {}
            (Some(there), Hold::Change { .. }) if there == hold => {}
            (Some(there), Hold::Change { epoch }) => {
                return Err(Broken::HeldAlready { table: table.clone(), at: there.epoch(), epoch: *epoch });
            }
        }
        Ok(())
    }

    fn queue(&mut self, table: &TableId, epoch: Epoch) -> Result<(), Broken> {
        let queue = self.queued.entry(table.clone()).or_default();
        let last = queue.last().copied().unwrap_or(0);
        if last >= epoch {
            return Err(Broken::QueueOrder { table: table.clone(), last, epoch });
        }
        queue.push(epoch);
        Ok(())
    }

    fn unqueue(&mut self, table: &TableId, epoch: Epoch) -> Result<(), Broken> {
        match self.queued.get_mut(table) {
            Some(queue) if queue.first() == Some(&epoch) => {
                queue.remove(0);
                if queue.is_empty() {
                    self.queued.remove(table);
                }
                Ok(())
            }
            Some(_) | None => Err(Broken::NotFirst { table: table.clone(), epoch }),
        }
    }

    /// The table was never there, but for its outcomes: they are history.
    fn forget(&mut self, table: &TableId) {
        self.held.remove(table);
        self.queued.remove(table);
        self.blocked.remove(table);
        self.approved.remove(table);
        self.retired.remove(table);
        self.lanes.retain(|lane, _| lane.table != *table);
    }
}

/// Which outcome may follow which. A final one stays.
fn may_become(before: Outcome, after: Outcome) -> bool {
    use Outcome::{Accepted, Applied, Approved, Held, Kept, NothingToApply, Pending, Queued, Reloaded, Retired, Stopped, Superseded};
    match before {
        Pending => true,
        Held => matches!(after, Held | Approved | Kept | Superseded),
        Queued => matches!(after, Queued | Applied | NothingToApply | Held | Superseded),
        Stopped => matches!(after, Stopped | Superseded),
        Applied | NothingToApply | Approved | Kept | Reloaded | Superseded | Retired | Accepted => false,
    }
}
