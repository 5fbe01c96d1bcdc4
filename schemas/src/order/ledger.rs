//! What a sink's target remembers: one image, read in one snapshot, changed in transactions.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    event::{Epoch, Offset, Seq, Version},
    table::{Table, TableId},
};

/// A change that the ledger refuses: something recorded it twice or out of order. Always a bug, or a table changed by hand.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Broken {
    #[error("epoch {epoch} of {table} is {} already and cannot become {}", before.name(), outcome.name())]
    Outcome { epoch: Epoch, table: TableId, before: Outcome, outcome: Outcome },
    #[error("epoch {epoch} cannot be decided: {decided} is the newest decided one")]
    Decided { decided: Epoch, epoch: Epoch },
    #[error("epoch {epoch} cannot be decided: {table} has no outcome there yet")]
    Open { epoch: Epoch, table: TableId },
    #[error("{table} is held at epoch {at} already and cannot be held at {epoch}")]
    HeldAlready { table: TableId, at: Epoch, epoch: Epoch },
    #[error("{table} is not held at a change: nothing to approve or keep")]
    NotHeld { table: TableId },
    #[error("{table} is approved or kept already; that is carried out first")]
    ApprovedAlready { table: TableId },
    #[error("epoch {epoch} cannot queue behind {last} of {table}")]
    QueueOrder { table: TableId, last: Epoch, epoch: Epoch },
    #[error("epoch {epoch} is not the first in the queue of {table}")]
    NotFirst { table: TableId, epoch: Epoch },
}

/// What became of one table's part of one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Pending,
    Held,
    Queued,
    Stopped,
    Applied,
    NothingToApply,
    Approved,
    Kept,
    Reloaded,
    Superseded,
    Retired,
    Accepted,
}

impl Outcome {
    pub fn is_final(self) -> bool {
        match self {
            Outcome::Pending | Outcome::Held | Outcome::Queued | Outcome::Stopped => false,
            Outcome::Applied
            | Outcome::NothingToApply
            | Outcome::Approved
            | Outcome::Kept
            | Outcome::Reloaded
            | Outcome::Superseded
            | Outcome::Retired
            | Outcome::Accepted => true,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Outcome::Pending => "pending",
            Outcome::Held => "held",
            Outcome::Queued => "queued",
            Outcome::Stopped => "stopped",
            Outcome::Applied => "applied",
            Outcome::NothingToApply => "nothing_to_apply",
            Outcome::Approved => "approved",
            Outcome::Kept => "kept",
            Outcome::Reloaded => "reloaded",
            Outcome::Superseded => "superseded",
            Outcome::Retired => "retired",
            Outcome::Accepted => "accepted",
        }
    }
}

/// A lane of a table's topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Lane {
    pub table: TableId,
    pub lane: u32,
}

/// How far a lane is durable on the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LanePosition {
    /// The next offset to read; counts markers and aborted records.
    pub position: Offset,
    pub seq: Seq,
    pub epoch: Epoch,
}

/// Why a table is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// At a change, until a person decides.
    Change { epoch: Epoch },
    /// At a row that does not fit, or cannot be completed.
    Value { epoch: Epoch },
}

impl Hold {
    pub fn epoch(&self) -> Epoch {
        match self {
            Hold::Change { epoch } | Hold::Value { epoch } => *epoch,
        }
    }
}

/// The durable state of one sink. The target stores it; [`Ledger::apply`] is the meaning of every change to it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// Every epoch up to this one has its outcomes; rows up to it may be applied.
    pub decided: Epoch,
    pub outcomes: BTreeMap<(Epoch, TableId), Outcome>,
    pub held: BTreeMap<TableId, Hold>,
    /// Changes that wait behind a hold, in epoch order.
    pub queued: BTreeMap<TableId, Vec<Epoch>>,
    /// Tables whose rows from this epoch on wait: a change was superseded and the reload has not run yet.
    pub blocked: BTreeMap<TableId, Epoch>,
    pub retired: BTreeSet<TableId>,
    /// Held tables whose change a person has approved or kept and that is not carried out yet.
    pub approved: BTreeMap<TableId, Approval>,
    /// A row that stopped the sink: no later epoch is decided, every lane ends.
    pub stop_at_row: Option<RowStop>,
    pub lanes: BTreeMap<Lane, LanePosition>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// Run this DDL; None: as proposed.
    Approve {
        ddl: Option<Vec<String>>,
    },
    Keep,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowStop {
    pub table: TableId,
    pub epoch: Epoch,
}

/// A record of the ledger's change, written in the decider's session.
#[derive(Debug, Clone, PartialEq)]
pub enum LedgerChange {
    Outcome {
        epoch: Epoch,
        table: TableId,
        outcome: Outcome,
        reason: String,
        target_ddl: Vec<String>,
    },
    Decided(Epoch),
    Hold {
        table: TableId,
        hold: Hold,
        reason: String,
        proposed: Vec<String>,
    },
    Unhold(TableId),
    Queue {
        table: TableId,
        epoch: Epoch,
    },
    Unqueue {
        table: TableId,
        epoch: Epoch,
    },
    Block {
        table: TableId,
        epoch: Epoch,
    },
    Unblock(TableId),
    Retire(TableId),
    Unretire(TableId),
    Approve {
        table: TableId,
        approval: Approval,
        by: String,
    },
    Unapprove(TableId),
    StopAtRow {
        table: TableId,
        epoch: Epoch,
        message: String,
    },
    Resume,
    /// Sets lane positions whatever they were (a reload's boundaries); never backwards.
    MoveLanes(Vec<(Lane, LanePosition)>),
    /// The same where the topic was made anew, backwards too: offsets of the old one say nothing of the new one. The epoch grows, by
    /// which the compare-and-set of a batch of the old topic fails.
    ResetLanes(Vec<(Lane, LanePosition)>),
    /// The target table's expected shape from here on, for this version of the source's.
    Shape {
        table: TableId,
        version: Version,
        target: Table,
    },
    Forget(TableId),
    Audit {
        what: String,
        by: String,
    },
}
