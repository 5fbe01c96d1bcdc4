//! What a statement says, before it is applied to any shape.

use crate::{
    native::mysql::{LobSize, Native},
    table::{Generated, TableId},
};

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

/// A statement that begins, ends or divides a transaction. An XA identifier is its text.
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
    Create(Box<Create>),
    /// ALTER TABLE, CREATE INDEX, DROP INDEX.
    Alter(Alter),
    Rename {
        /// From, to; left to right.
        pairs: Vec<(TableId, TableId)>,
        if_exists: bool,
    },
    Drop {
        tables: Vec<TableId>,
        temporary: bool,
        if_exists: bool,
    },
    Truncate(TableId),
    /// Rows removed or rewritten by a statement of its own: DELETE HISTORY, REPAIR TABLE.
    ReplaceRows {
        tables: Vec<TableId>,
        what: String,
    },
    /// CREATE or ALTER DATABASE: the default collation of new tables, where it says one.
    Database {
        name: String,
        collation: Option<CharsetClause>,
    },
    DropDatabase {
        name: String,
    },
}

impl Statement {
    /// Every table the statement names, except those of a dropped database.
    pub fn tables(&self) -> Vec<TableId> {
        match self {
            Statement::Create(create) => match &create.body {
                Body::Like(other) => vec![create.table.clone(), other.clone()],
                Body::Columns { .. } => vec![create.table.clone()],
            },
            Statement::Alter(alter) => {
                let mut tables = vec![alter.table.clone()];
                for clause in &alter.clauses {
                    match clause {
                        Clause::RenameTable(to) => tables.push(to.clone()),
                        Clause::ExchangePartition { with, .. } => tables.push(with.clone()),
                        _ => {}
                    }
                }
                tables
            }
            Statement::Rename { pairs, .. } => pairs.iter().flat_map(|(from, to)| [from.clone(), to.clone()]).collect(),
            Statement::Drop { tables, .. } | Statement::ReplaceRows { tables, .. } => tables.clone(),
            Statement::Truncate(table) => vec![table.clone()],
            Statement::Database { .. } | Statement::DropDatabase { .. } => Vec::new(),
        }
    }

    /// Whether the statement itself says TEMPORARY.
    pub fn temporary(&self) -> bool {
        match self {
            Statement::Create(create) => create.temporary,
            Statement::Drop { temporary, .. } => *temporary,
            Statement::Alter(_)
            | Statement::Rename { .. }
            | Statement::Truncate(_)
            | Statement::ReplaceRows { .. }
            | Statement::Database { .. }
            | Statement::DropDatabase { .. } => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Create {
    pub table: TableId,
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub temporary: bool,
    pub body: Body,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    Like(TableId),
    Columns {
        columns: Vec<ColumnDefinition>,
        keys: Vec<Key>,
        constraints: Vec<Constraint>,
        options: Vec<Clause>,
        /// `CREATE … SELECT`: the text does not name all columns.
        select: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Alter {
    pub table: TableId,
    pub if_exists: bool,
    /// MariaDB's ALTER IGNORE: rows that break a new key vanish.
    pub ignore: bool,
    pub clauses: Vec<Clause>,
}

/// Where a column is put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    First,
    After(String),
}

/// One clause of ALTER TABLE, or one option of CREATE TABLE.
#[derive(Debug, Clone, PartialEq)]
pub enum Clause {
    AddColumn {
        definition: Box<ColumnDefinition>,
        position: Option<Position>,
        if_not_exists: bool,
    },
    DropColumn {
        name: String,
        if_exists: bool,
    },
    /// CHANGE, and MODIFY with the same name.
    ChangeColumn {
        from: String,
        definition: Box<ColumnDefinition>,
        position: Option<Position>,
        if_exists: bool,
    },
    RenameColumn {
        from: String,
        to: String,
        if_exists: bool,
    },
    /// None: DROP DEFAULT.
    SetDefault {
        column: String,
        default: Option<DefaultClause>,
        if_exists: bool,
    },
    SetInvisible {
        column: String,
        invisible: bool,
    },
    AddKey {
        key: Key,
        if_not_exists: bool,
    },
    DropPrimaryKey,
    DropIndex {
        name: String,
        if_exists: bool,
    },
    RenameIndex {
        from: String,
        to: String,
        if_exists: bool,
    },
    AddConstraint(Constraint),
    /// DROP CONSTRAINT, FOREIGN KEY, CHECK; `any` may also be a key.
    DropConstraint {
        name: String,
        any: bool,
    },
    RenameTable(TableId),
    Convert(CharsetClause),
    TableCharset(CharsetClause),
    Engine(String),
    Comment(String),
    /// Changes nothing that is kept: ALGORITHM, LOCK, ROW_FORMAT, ADD PARTITION …
    Nothing,
    ExchangePartition {
        with: TableId,
        exchange: Exchange,
        what: String,
    },
    TruncatePartition(String),
    DropPartition(String),
    ReplaceRows(String),
    /// Understood, but what is kept changes in a way that no target follows.
    Storage(String),
}

/// What becomes of the other table of a partition's exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// It takes the partition's rows and gives its own.
    Swap,
    /// It is made of the partition.
    Made,
    /// It becomes a partition, and is gone.
    Taken,
}

/// CHARACTER SET and COLLATE as far as they are said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CharsetClause {
    pub charset: Option<String>,
    pub collation: Option<String>,
    /// The BINARY attribute: the set's binary collation.
    pub binary: bool,
}

/// A column's type before its character set is known.
#[derive(Debug, Clone, PartialEq)]
pub enum Declared {
    /// Whole as it stands.
    Plain(Native),
    Char(u32),
    VarChar(u32),
    /// `length` is TEXT(n), which picks the size.
    Text {
        size: LobSize,
        length: Option<u32>,
    },
    Blob {
        size: LobSize,
        length: Option<u32>,
    },
    VarBinary(u32),
    Enum(Vec<Literal>),
    Set(Vec<Literal>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDefinition {
    pub name: String,
    pub declared: Declared,
    pub charset: CharsetClause,
    /// None: neither NULL nor NOT NULL is said.
    pub nullable: Option<bool>,
    pub default: Option<DefaultClause>,
    pub on_update_now: bool,
    pub identity: bool,
    pub generated: Option<Generated>,
    pub comment: String,
    pub invisible: bool,
    pub compressed: bool,
    pub primary: bool,
    pub unique: bool,
    /// The text of an inline CHECK.
    pub check: bool,
    pub srid: Option<u32>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum DefaultClause {
    Literal(Literal),
    /// Text in normal form, such as `uuid()`.
    Expression(String),
}

/// A literal as written, its escapes resolved.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    Null,
    Boolean(bool),
    /// With its sign.
    Number(String),
    /// In the character set of its introducer; none: the client's.
    Text {
        bytes: Vec<u8>,
        introducer: Option<String>,
    },
    Hex {
        bytes: Vec<u8>,
        introducer: Option<String>,
    },
    /// Digits 0 and 1.
    Bits(String),
}

/// A primary key or an index.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    pub kind: KeyKind,
    pub name: Option<String>,
    pub parts: Vec<KeyPart>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Primary,
    Unique,
    Plain,
}

#[derive(Debug, Clone, PartialEq)]
pub enum KeyPart {
    Column { name: String, prefix: Option<u32> },
    Expression,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Constraint {
    Check { name: Option<String> },
    ForeignKey { name: Option<String>, index: Option<String>, columns: Vec<String>, cascades: bool },
}
