//! Schema changes as typed values. `Display` is the diagnosis; the remedy depends on the target and is the decision's, see
//! [`crate::rules`].

pub(crate) mod text;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    table::{Column, RowKey, TableId},
    value::Value,
};

macro_rules! kinds {
    ($($variant:ident => $name:literal),* $(,)?) => {
        /// The kinds of change, as policies, matrix, history and metrics name them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Kind { $(#[serde(rename = $name)] $variant),* }

        impl Kind {
            pub const ALL: [Kind; 39] = [$(Kind::$variant),*];

            pub fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name),* }
            }

            pub fn parse(name: &str) -> Option<Kind> {
                match name { $($name => Some(Kind::$variant),)* _ => None }
            }
        }
    };
}

kinds! {
    AddColumnNullable => "add_column_nullable",
    AddColumnConstantDefault => "add_column_constant_default",
    AddColumnImplicitDefault => "add_column_implicit_default",
    AddColumnVolatileDefault => "add_column_volatile_default",
    AddColumnGenerated => "add_column_generated",
    DropColumn => "drop_column",
    DropKeyColumn => "drop_key_column",
    RenameColumn => "rename_column",
    RenameKeyColumn => "rename_key_column",
    Lengthen => "lengthen",
    Shorten => "shorten",
    WidenInteger => "widen_integer",
    ChangeDecimal => "change_decimal",
    ChangeKeyDecimal => "change_key_decimal",
    AppendEnumLabels => "append_enum_labels",
    ChangeEnumLabels => "change_enum_labels",
    ChangeSignedness => "change_signedness",
    ChangeType => "change_type",
    SetNotNull => "set_not_null",
    DropNotNull => "drop_not_null",
    ChangeDefault => "change_default",
    ChangeComment => "change_comment",
    ReorderColumn => "reorder_column",
    ChangeCharset => "change_charset",
    ChangeCollation => "change_collation",
    ChangeIdentity => "change_identity",
    ChangeGenerated => "change_generated",
    ChangeStorage => "change_storage",
    ChangeKey => "change_key",
    ChangeIndex => "change_index",
    ChangeConstraint => "change_constraint",
    CreateTable => "create_table",
    DropTable => "drop_table",
    RenameTable => "rename_table",
    MovePartition => "move_partition",
    TruncatePartition => "truncate_partition",
    TruncateTable => "truncate_table",
    ReplaceRows => "replace_rows",
    Unknown => "unknown",
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the rows that were there get in an added column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    Null,
    /// A literal default.
    Constant(Value),
    /// The server's own zero value, for NOT NULL without a default.
    Implicit(Value),
    /// A value that the log does not carry: an expression, the clock, AUTO_INCREMENT. Holds the source's text.
    Volatile(String),
    /// Computed by the source. Holds the expression.
    Generated(String),
}

/// One change of one table. A statement gives a set of these, in the order of its clauses.
///
/// `before` and `after` are the column whole; a clause that changes several properties gives several changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaChange {
    AddColumn {
        column: Column,
        fill: Fill,
    },
    DropColumn {
        column: Column,
        in_key: bool,
    },
    RenameColumn {
        from: String,
        column: Column,
        in_key: bool,
    },
    /// A change of type or of a type's size, of one of the kinds `lengthen` … `change_type`.
    ChangeType {
        kind: Kind,
        before: Column,
        after: Column,
        in_key: bool,
    },
    SetNotNull {
        column: Column,
    },
    DropNotNull {
        column: Column,
    },
    ChangeDefault {
        before: Column,
        after: Column,
    },
    ChangeComment {
        column: Option<String>,
    },
    ReorderColumn {
        column: String,
    },
    /// Of one column, or of the table's default for new ones (`column: None`, which changes no value).
    ChangeCharset {
        column: Option<String>,
        from: String,
        to: String,
    },
    ChangeCollation {
        column: Option<String>,
        from: String,
        to: String,
    },
    ChangeIdentity {
        before: Column,
        after: Column,
    },
    ChangeGenerated {
        before: Column,
        after: Column,
    },
    /// Compression, encryption, sparse, storage engine where it changes what is kept.
    ChangeStorage {
        column: Option<String>,
        what: String,
    },
    ChangeKey {
        before: Option<RowKey>,
        after: Option<RowKey>,
        before_names: Vec<String>,
        after_names: Vec<String>,
    },
    ChangeIndex {
        name: String,
    },
    /// A foreign key, CHECK or other constraint that is not the row key.
    ChangeConstraint {
        name: String,
        cascades: bool,
    },
    CreateTable,
    DropTable,
    RenameTable {
        to: TableId,
    },
    MovePartition {
        what: String,
    },
    TruncatePartition {
        what: String,
    },
    TruncateTable,
    /// Rows removed or rewritten without row events.
    ReplaceRows {
        what: String,
    },
    /// Not understood, with the reason.
    Unknown {
        why: String,
    },
}

impl SchemaChange {
    pub fn kind(&self) -> Kind {
        match self {
            SchemaChange::AddColumn { fill, .. } => match fill {
                Fill::Null => Kind::AddColumnNullable,
                Fill::Constant(_) => Kind::AddColumnConstantDefault,
                Fill::Implicit(_) => Kind::AddColumnImplicitDefault,
                Fill::Volatile(_) => Kind::AddColumnVolatileDefault,
                Fill::Generated(_) => Kind::AddColumnGenerated,
            },
            SchemaChange::DropColumn { in_key: true, .. } => Kind::DropKeyColumn,
            SchemaChange::DropColumn { .. } => Kind::DropColumn,
            SchemaChange::RenameColumn { in_key: true, .. } => Kind::RenameKeyColumn,
            SchemaChange::RenameColumn { .. } => Kind::RenameColumn,
            SchemaChange::ChangeType { kind, .. } => *kind,
            SchemaChange::SetNotNull { .. } => Kind::SetNotNull,
            SchemaChange::DropNotNull { .. } => Kind::DropNotNull,
            SchemaChange::ChangeDefault { .. } => Kind::ChangeDefault,
            SchemaChange::ChangeComment { .. } => Kind::ChangeComment,
            SchemaChange::ReorderColumn { .. } => Kind::ReorderColumn,
            SchemaChange::ChangeCharset { .. } => Kind::ChangeCharset,
            SchemaChange::ChangeCollation { .. } => Kind::ChangeCollation,
            SchemaChange::ChangeIdentity { .. } => Kind::ChangeIdentity,
            SchemaChange::ChangeGenerated { .. } => Kind::ChangeGenerated,
            SchemaChange::ChangeStorage { .. } => Kind::ChangeStorage,
            SchemaChange::ChangeKey { .. } => Kind::ChangeKey,
            SchemaChange::ChangeIndex { .. } => Kind::ChangeIndex,
            SchemaChange::ChangeConstraint { .. } => Kind::ChangeConstraint,
            SchemaChange::CreateTable => Kind::CreateTable,
            SchemaChange::DropTable => Kind::DropTable,
            SchemaChange::RenameTable { .. } => Kind::RenameTable,
            SchemaChange::MovePartition { .. } => Kind::MovePartition,
            SchemaChange::TruncatePartition { .. } => Kind::TruncatePartition,
            SchemaChange::TruncateTable => Kind::TruncateTable,
            SchemaChange::ReplaceRows { .. } => Kind::ReplaceRows,
            SchemaChange::Unknown { .. } => Kind::Unknown,
        }
    }

    /// The column this change is about, by its name before it.
    pub fn column(&self) -> Option<&str> {
        match self {
            SchemaChange::AddColumn { column, .. }
            | SchemaChange::DropColumn { column, .. }
            | SchemaChange::SetNotNull { column }
            | SchemaChange::DropNotNull { column } => Some(&column.name),
            SchemaChange::RenameColumn { from, .. } => Some(from),
            SchemaChange::ChangeType { before, .. }
            | SchemaChange::ChangeDefault { before, .. }
            | SchemaChange::ChangeIdentity { before, .. }
            | SchemaChange::ChangeGenerated { before, .. } => Some(&before.name),
            SchemaChange::ReorderColumn { column } => Some(column),
            SchemaChange::ChangeComment { column }
            | SchemaChange::ChangeCharset { column, .. }
            | SchemaChange::ChangeCollation { column, .. }
            | SchemaChange::ChangeStorage { column, .. } => column.as_deref(),
            SchemaChange::ChangeKey { .. }
            | SchemaChange::ChangeIndex { .. }
            | SchemaChange::ChangeConstraint { .. }
            | SchemaChange::CreateTable
            | SchemaChange::DropTable
            | SchemaChange::RenameTable { .. }
            | SchemaChange::MovePartition { .. }
            | SchemaChange::TruncatePartition { .. }
            | SchemaChange::TruncateTable
            | SchemaChange::ReplaceRows { .. }
            | SchemaChange::Unknown { .. } => None,
        }
    }
}
