//! MySQL and MariaDB: statements of the binary log, read under the settings of their own event.
//!
//! [`parse`] says what a statement is about, [`apply`] what it does to the known shapes. A statement that may touch a table and
//! that is not wholly understood is [`Parsed::Unknown`] or a [`Refusal`], never a guess.

mod alter;
mod apply;
mod charset;
mod column;
mod context;
mod create;
mod cursor;
mod declared;
mod expression;
mod key;
mod literal;
mod number;
mod option;
mod parser;
mod resolve;
mod statement;
mod temporal;
mod token;

use std::collections::BTreeMap;

pub(crate) use charset::widest;
pub use context::{Context, Days, Zone, mode};
pub(crate) use resolve::lob_bytes;
pub use statement::{
    Alter, Body, CharsetClause, Clause, ColumnDefinition, Constraint, Control, Create, Declared, DefaultClause, Exchange, Key, KeyKind,
    KeyPart, Literal, Parsed, Position, Refusal, Statement,
};

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
    /// Empty where nothing changes that is kept, though the shape may: FORCE, a column made invisible.
    pub changes: Vec<SchemaChange>,
}

/// Reads one statement, whose bytes are as the log has them.
pub fn parse(text: &[u8], context: &Context) -> Parsed {
    parser::parse(text, context)
}

/// What a statement does to the shapes that are known. `known` has every table of the captured databases.
///
/// # Errors
/// A [`Refusal`] where the statement cannot be followed: a table or column it names is not known, or a value depends on more than the text.
pub fn apply(statement: &Statement, context: &Context, known: &BTreeMap<TableId, Table>) -> Result<Vec<Effect>, Refusal> {
    apply::apply(statement, context, known)
}

/// A table from the text of SHOW CREATE TABLE or of a CREATE TABLE statement with its own columns. Catalog and log give identical
/// shapes, but for the names of indexes that foreign keys brought. SHOW CREATE TABLE says every TIMESTAMP's default itself: read
/// it with `explicit_defaults_for_timestamp` set.
///
/// # Errors
/// A [`Refusal`] that says what is not understood.
pub fn table_from_create(text: &[u8], context: &Context) -> Result<Table, Refusal> {
    match parse(text, context) {
        Parsed::Tables(Statement::Create(create)) => {
            apply::table_from(&create, context).map_err(|why| Refusal { tables: vec![create.table.clone()], why })
        }
        Parsed::Unknown { tables, why } => Err(Refusal { tables, why }),
        Parsed::Nothing | Parsed::Transaction(_) | Parsed::RowChange { .. } | Parsed::Tables(_) => {
            Err(Refusal { tables: Vec::new(), why: "the text is not a CREATE TABLE statement".into() })
        }
    }
}

/// The database whose default collation a CREATE or ALTER DATABASE states, and that collation.
///
/// # Errors
/// A [`Refusal`] without tables where the collation cannot be told.
pub fn database_default(statement: &Statement, context: &Context) -> Result<Option<(String, String)>, Refusal> {
    let Statement::Database { name, collation: Some(clause) } = statement else { return Ok(None) };
    let settled = resolve::settle(clause, Some(&context.server_collation), context).map_err(|why| Refusal { tables: Vec::new(), why })?;
    Ok(settled.map(|charset| (name.clone(), charset.collation)))
}
