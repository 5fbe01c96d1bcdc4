//! What a statement says, before it is applied to any shape.

use crate::table::TableId;

/// What a statement is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Parsed {
    /// Nothing that touches a table's shape or rows: GRANT, CREATE PROCEDURE, FLUSH …
    Nothing,
    /// The bounds of a transaction.
    Transaction(Control),
    /// Shapes, names or all rows of tables.
    Tables(Statement),
    /// Rows changed by statement: the log is not in row format there.
    RowChange { tables: Vec<TableId> },
    /// Not wholly understood. `tables` is every table it may touch; empty: it cannot be told.
    Unknown { tables: Vec<TableId>, why: String },
}

/// A statement that begins, ends or divides a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    Begin,
    Commit,
    Rollback,
    Savepoint(String),
    RollbackTo(String),
    Release(String),
    XaStart(String),
    XaEnd(String),
    XaPrepare(String),
    XaCommit { xid: String, one_phase: bool },
    XaRollback(String),
}

/// Why a statement is not applied. `tables` is every table it may touch; empty: it cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refusal {
    pub tables: Vec<TableId>,
    pub why: String,
}

/// A statement about tables.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// Placeholder of the interface's first version.
    Truncate(TableId),
}
