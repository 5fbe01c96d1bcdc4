//! Plans: the steps that bring a target table from one shape to the next.
//!
//! Pure. A step is a change of shape with the shape before and after it; a target's `sql.rs` writes it down as a statement.
//! Column identities in a target table are the source's, so that renames are renames.

mod build;
mod reshape;

use thiserror::Error;

use crate::{
    native::{Native, Unsupported},
    table::{Column, Table},
    value::Value,
};

pub use build::{Proposed, held_proposal, plan, target_table};
pub use reshape::reshape;

/// One change of a target table's shape (or the emptying of it).
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Make the table: `after` of the step, with its primary key.
    CreateTable,
    DropTable,
    /// A column behind all others. `fill`: what the rows that are there get; None: NULL, or nothing where the table is empty.
    /// No default remains on the column.
    AddColumn {
        column: Column,
        fill: Option<Value>,
    },
    DropColumn {
        name: String,
    },
    RenameColumn {
        from: String,
        to: String,
    },
    /// `convert`: the values that are there go along, exactly, or the step fails whole; else the table is empty.
    AlterType {
        name: String,
        from: Native,
        to: Native,
        convert: bool,
    },
    SetNotNull {
        name: String,
    },
    DropNotNull {
        name: String,
    },
    DropKey,
    AddKey {
        columns: Vec<String>,
    },
    Truncate,
}

/// One step: `before` None for a table that is made, `after` None for one that is dropped. Except for [`Action::Truncate`] the
/// two differ, column order counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub action: Action,
    pub before: Option<Table>,
    pub after: Option<Table>,
}

/// Why no plan, or no target table, can be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    #[error("table {table}, column `{column}`: {source}")]
    Unsupported { table: String, column: String, source: Unsupported },
    #[error("table {table}, column `{column}`: {why}")]
    Name { table: String, column: String, why: String },
    #[error("table {table}: the target table is not of the expected shape: {difference}")]
    Shape { table: String, difference: String },
    #[error("table {table}: no target table can be made: {why}")]
    Refused { table: String, why: String },
}

#[cfg(test)]
mod tests;
