//! MySQL and MariaDB: statements of the binary log, read under the settings of their own event.
//!
//! [`parse`] says what a statement is about, [`apply`] what it does to the known shapes. A statement that may touch a table and
//! that is not wholly understood is [`Parsed::Unknown`] or a [`Refusal`], never a guess.

mod context;
mod statement;

use std::collections::BTreeMap;

pub use context::{Context, mode};
pub use statement::{Control, Parsed, Refusal, Statement};

use crate::{
    change::SchemaChange,
    table::{Table, TableId},
};

/// What a statement does to one table.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// The table's name before the statement.
    pub id: TableId,
    /// The shape after it. None: dropped.
    pub shape: Option<Table>,
    pub renamed_to: Option<TableId>,
    /// The statement itself says TEMPORARY.
    pub temporary: bool,
    pub changes: Vec<SchemaChange>,
}

/// Reads one statement, whose bytes are as the log has them.
pub fn parse(_text: &[u8], _context: &Context) -> Parsed {
    Parsed::Unknown { tables: Vec::new(), why: "statements are not read yet".into() }
}

/// What a statement does to the shapes that are known. `known` has every table of the captured databases.
///
/// # Errors
/// A [`Refusal`] where the statement cannot be followed: a table or column it names is not known, or a value depends on more than the text.
pub fn apply(_statement: &Statement, _context: &Context, _known: &BTreeMap<TableId, Table>) -> Result<Vec<Effect>, Refusal> {
    Err(Refusal { tables: Vec::new(), why: "statements are not applied yet".into() })
}

/// A table from the text of SHOW CREATE TABLE or of a CREATE TABLE statement. Catalog and log give identical shapes.
///
/// # Errors
/// A [`Refusal`] that says what is not understood.
pub fn table_from_create(_text: &[u8], _context: &Context) -> Result<Table, Refusal> {
    Err(Refusal { tables: Vec::new(), why: "statements are not read yet".into() })
}
