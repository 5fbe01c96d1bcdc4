//! The row schema of one table version: the fields of `before`, `after` and the key, in wire order.

use crate::{
    table::{Column, ColumnId, Table},
    types::{Repr, Type},
};

/// One field of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub column: ColumnId,
    /// The column's name; the Avro name is [`super::names::avro`] of it.
    pub name: String,
    pub ty: Type,
    pub repr: Repr,
    /// Stands as `["null", T]`.
    pub nullable: bool,
}

impl Field {
    fn new(column: &Column) -> Self {
        let ty = column.ty();
        Self { column: column.id, name: column.name.clone(), repr: ty.repr(), ty, nullable: column.nullable }
    }
}

/// The fields of a table version's rows. A row is its fields in this order; the key is the key's columns in key order.
#[derive(Debug, Clone, PartialEq)]
pub struct RowSchema {
    pub fields: Vec<Field>,
    /// Empty: the table has no row key and its records have no Kafka key.
    pub key: Vec<Field>,
}

impl RowSchema {
    pub fn new(table: &Table) -> Self {
        Self { fields: table.columns.iter().map(Field::new).collect(), key: table.key_columns().into_iter().map(Field::new).collect() }
    }
}
