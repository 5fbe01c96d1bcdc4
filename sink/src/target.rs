//! What a target must do. `evolve` and `worker` drive all of them.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use schemas::{
    capability::Capabilities,
    event::{Epoch, Offset, Version},
    order::ledger::{Lane, LanePosition, Ledger, LedgerChange, Outcome},
    plan::Step,
    table::{Table, TableId},
    view::View,
    wire::row::RowSchema,
};

use crate::{consumer::Proof, error::SinkError};

/// A table version as rows name it, with where its rows go.
#[derive(Debug, PartialEq)]
pub struct TableVersion {
    pub id: TableId,
    pub version: Version,
    /// The shape of the event that introduced the version.
    pub table: Table,
    pub rows: RowSchema,
    /// The target table that these rows fit, in the target's own types and column order; column ids are the source's.
    pub target: Table,
}

/// One effect on a table, after folding: at most one per key in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect<'a> {
    /// The row is there with these values afterwards. `absent`: field indexes not carried, kept from the target's row.
    /// `skip_missing`: where columns are absent and the row is not there, do nothing (its chunk will bring it).
    Upsert { key: &'a [u8], row: &'a [u8], absent: Vec<usize>, skip_missing: bool },
    /// The row is not there afterwards.
    Delete { key: &'a [u8] },
    /// Keyless: one more such row.
    Append { row: &'a [u8] },
    /// Keyless: one such row less; it is a stop if there is none.
    Remove { row: &'a [u8] },
}

/// The effects on one table version, in the order in which keyless ones happened.
#[derive(Debug)]
pub struct TableBatch<'a> {
    pub version: Arc<TableVersion>,
    pub effects: Vec<Effect<'a>>,
    /// All rows come from a copy, the table was empty when it began and no stream row was applied to it since.
    pub fresh_copy: bool,
}

/// The progress of one lane that a batch carries: moved by compare-and-set, first in the transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneMove {
    pub lane: Lane,
    pub from: Offset,
    /// The epoch that is stored with `from`: a topic made anew has the same offsets again, but never the same epoch.
    pub from_epoch: Epoch,
    pub to: LanePosition,
}

/// What one worker writes in one transaction.
#[derive(Debug)]
pub struct Batch<'a> {
    pub lanes: Vec<LaneMove>,
    pub tables: Vec<TableBatch<'a>>,
}

/// Whether a batch was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Committed,
    /// Another owner moved a lane, or a decision moved it, or the proof does not hold: nothing was applied; read again from the stored
    /// positions.
    Moved,
}

/// One statement of a plan, with the target shape it needs and gives. Every `after` differs from its `before`, column order counts.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedStatement {
    pub sql: String,
    pub before: Option<Table>,
    pub after: Option<Table>,
}

/// An outcome with what was written beside it, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeText {
    pub outcome: Outcome,
    pub reason: String,
    pub target_ddl: Vec<String>,
}

/// What was written beside a hold, for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HoldText {
    pub reason: String,
    pub proposed: Vec<String>,
}

/// The whole history of a [`Ledger`], with reasons, statements and ways out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Journal {
    pub outcomes: BTreeMap<(Epoch, TableId), OutcomeText>,
    pub holds: BTreeMap<TableId, HoldText>,
    pub stop_at_row: Option<String>,
}

/// A target database. Connections are opened by [`Target::session`] and [`Target::writer`].
pub trait Target: Send + Sync + 'static {
    type Session: Session;
    type Writer: Writer;

    /// What this target can do to a table.
    fn capabilities(&self) -> &'static Capabilities;
    /// Names and types of a source table on this target, as configured.
    fn view(&self, table: &TableId) -> Result<View, SinkError>;
    /// A step of a plan as statements: together they are one change of shape. An error: the target has no exact statement, and why.
    fn render(&self, step: &Step) -> Result<Vec<String>, String>;

    /// Creates what Instar keeps in the target, if it is not there; checks its version.
    fn prepare(&self) -> impl Future<Output = Result<(), SinkError>> + Send;
    /// A session for the decider.
    fn session(&self) -> impl Future<Output = Result<Self::Session, SinkError>> + Send;
    /// A connection for one worker.
    fn writer(&self) -> impl Future<Output = Result<Self::Writer, SinkError>> + Send;
}

/// The decider's session: holds the lock; never reconnects. When it fails, whatever it held is gone.
pub trait Session: Send {
    /// Waits for this sink's lock. It cannot be had while a dead session's statement still runs.
    fn lock(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send;
    fn unlock(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// The ledger, read in one snapshot.
    fn ledger(&mut self) -> impl Future<Output = Result<Ledger, SinkError>> + Send;
    /// The ledger's history, whole: also the outcomes that [`Session::ledger`] may leave out.
    fn journal(&mut self) -> impl Future<Output = Result<Journal, SinkError>> + Send;
    /// What the target table is expected to be: version and shape.
    fn expected(&mut self, table: &TableId) -> impl Future<Output = Result<Option<(Version, Table)>, SinkError>> + Send;
    /// The same of all tables, which may be very many.
    fn all_expected(&mut self) -> impl Future<Output = Result<BTreeMap<TableId, (Version, Table)>, SinkError>> + Send;
    /// The live target table. `table` is its own name on the target ([`Table::id`] of a target shape). With the column ids of `expected` where the names agree.
    fn describe(&mut self, table: &TableId, expected: Option<&Table>) -> impl Future<Output = Result<Option<Table>, SinkError>> + Send;
    /// Whether the target table has no row. `table` is its own name on the target.
    fn is_empty(&mut self, table: &TableId) -> impl Future<Output = Result<bool, SinkError>> + Send;

    /// Applies these changes in one transaction.
    fn record(&mut self, changes: &[LedgerChange]) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Runs a plan under intent: where DDL is transactional, plan and `outcome` are one transaction; else intent, statements one by
    /// one, outcome, and a plan found half done goes on where the live shape says. A live shape that is neither stops.
    fn run(
        &mut self,
        epoch: Epoch,
        table: &TableId,
        plan: &[PlannedStatement],
        outcome: &[LedgerChange],
    ) -> impl Future<Output = Result<(), SinkError>> + Send;
}

/// A worker's connection.
pub trait Writer: Send {
    /// Stored positions of these lanes; absent ones are at 0.
    fn positions(&mut self, lanes: &[Lane]) -> impl Future<Output = Result<Vec<LanePosition>, SinkError>> + Send;
    /// Compare-and-set of every lane first, then deletes, then upserts, in one transaction. `Upsert`s of a key come after its delete.
    /// Committed only if `proof` holds.
    fn write(&mut self, batch: &Batch<'_>, proof: &impl Proof) -> impl Future<Output = Result<Written, SinkError>> + Send;
    /// The ledger, read in one snapshot.
    fn ledger(&mut self) -> impl Future<Output = Result<Ledger, SinkError>> + Send;
}
