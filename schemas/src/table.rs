//! The table model: the shape of one table at one position of its source.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{native::Native, types::Type, value::Value};

/// A table's name: its database (MySQL) or schema (PostgreSQL, SQL Server) and its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TableId {
    pub namespace: String,
    pub name: String,
}

impl TableId {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace, self.name)
    }
}

/// A column's identity within its table: never used again, kept through renames and moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ColumnId(pub u32);

/// One column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    pub id: ColumnId,
    pub name: String,
    /// The engine's own declaration, whole.
    pub native: Native,
    pub nullable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Default>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated: Option<Generated>,
    /// AUTO_INCREMENT, IDENTITY, serial.
    #[serde(default, skip_serializing_if = "is_false")]
    pub identity: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub invisible: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// Its values are published as text, exactly as the source prints them (`source.type_map`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub as_text: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Column {
    /// A nullable column without anything else.
    pub fn new(id: u32, name: impl Into<String>, native: Native) -> Self {
        Self {
            id: ColumnId(id),
            name: name.into(),
            native,
            nullable: true,
            default: None,
            generated: None,
            identity: false,
            invisible: false,
            comment: String::new(),
            as_text: false,
        }
    }

    #[must_use]
    pub fn not_null(mut self) -> Self {
        self.nullable = false;
        self
    }

    /// What this column's values are.
    pub fn ty(&self) -> Type {
        if self.as_text { Type::Text { length: None, fixed: false } } else { self.native.logical() }
    }
}

/// What a column takes where a row does not name it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Default {
    /// A literal, evaluated in the column's type.
    Constant(Value),
    /// Anything else, as the source's text.
    Expression(String),
}

/// How a generated column comes to its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generated {
    pub expression: String,
    /// Stored in the row, or computed when read.
    pub stored: bool,
}

/// What identifies a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowKey {
    /// The index's name; PRIMARY for a primary key.
    pub name: String,
    pub primary: bool,
    /// In the key's own order.
    pub columns: Vec<ColumnId>,
}

/// A unique index other than the primary key, in the server's order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UniqueIndex {
    pub name: String,
    pub columns: Vec<ColumnId>,
    /// Over a prefix of a column or an expression: cannot be a row key.
    #[serde(default, skip_serializing_if = "is_false")]
    pub partial: bool,
}

/// An index that is not unique. It says nothing about rows; its name matters to statements that name indexes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlainIndex {
    pub name: String,
    pub columns: Vec<ColumnId>,
}

/// A table's shape. Column order is the source's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    pub id: TableId,
    pub columns: Vec<Column>,
    /// The primary key, if any; [`Table::row_key`] says what identifies a row.
    pub primary: Option<RowKey>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unique: Vec<UniqueIndex>,
    /// Indexes that are not unique, where the source follows them by their names (MySQL).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<PlainIndex>,
    /// Default collation of new text columns (MySQL), by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<String>,
    /// The next column's identity.
    pub next_column: u32,
}

impl Table {
    /// A table of these columns, whose ids count from 0, with a primary key over those named.
    pub fn new(id: TableId, columns: Vec<Column>, primary: &[&str]) -> Self {
        let next_column = columns.iter().map(|c| c.id.0 + 1).max().unwrap_or(0);
        let mut table = Self { id, columns, primary: None, unique: Vec::new(), indexes: Vec::new(), collation: None, next_column };
        if !primary.is_empty() {
            let columns = primary.iter().filter_map(|name| table.column(name).map(|c| c.id)).collect();
            table.primary = Some(RowKey { name: "PRIMARY".into(), primary: true, columns });
        }
        table
    }

    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }

    pub fn by_id(&self, id: ColumnId) -> Option<&Column> {
        self.columns.iter().find(|c| c.id == id)
    }

    /// What identifies a row: the primary key, else the first unique index whose columns are all NOT NULL, else nothing.
    pub fn row_key(&self) -> Option<RowKey> {
        if let Some(primary) = &self.primary {
            return Some(primary.clone());
        }
        let usable = |index: &&UniqueIndex| !index.partial && index.columns.iter().all(|id| self.by_id(*id).is_some_and(|c| !c.nullable));
        self.unique.iter().find(usable).map(|index| RowKey { name: index.name.clone(), primary: false, columns: index.columns.clone() })
    }

    /// The key's columns, in the key's order; empty without a row key.
    pub fn key_columns(&self) -> Vec<&Column> {
        self.row_key().map_or_else(Vec::new, |key| key.columns.iter().filter_map(|id| self.by_id(*id)).collect())
    }

    pub fn in_key(&self, id: ColumnId) -> bool {
        self.row_key().is_some_and(|key| key.columns.contains(&id))
    }

    /// Whether rows may be spread over lanes: there is a key, and keys that compare equal have equal bytes.
    pub fn spreads(&self) -> bool {
        let key = self.key_columns();
        !key.is_empty() && key.iter().all(|column| column.native.equal_means_same_bytes())
    }
}
