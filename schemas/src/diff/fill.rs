//! What the rows that are there get in an added column, as far as its declaration says.

use crate::{
    change::Fill,
    native::{Native, mysql},
    table::{Column, Default},
    types::Type,
    value::Value,
};

/// The fill of an added column, by its declaration: its default, or NULL, or what the server puts in place of NULL.
pub fn fill(column: &Column) -> Fill {
    let fill = of_its_type(column);
    if column.as_text { printed(fill, column) } else { fill }
}

/// The fill of a column that is published as text.
pub fn printed(fill: Fill, column: &Column) -> Fill {
    match (&column.native, fill) {
        (Native::MySql(native), Fill::Constant(value)) => Fill::Constant(mysql::printed(native, value)),
        (Native::MySql(native), Fill::Implicit(value)) => Fill::Implicit(mysql::printed(native, value)),
        (Native::MySql(_), fill @ (Fill::Null | Fill::Volatile(_) | Fill::Generated(_))) | (Native::Postgres(_), fill) => fill,
    }
}

fn of_its_type(column: &Column) -> Fill {
    if let Some(generated) = &column.generated {
        return Fill::Generated(generated.expression.clone());
    }
    if column.identity {
        return Fill::Volatile("auto_increment".into());
    }
    match &column.default {
        Some(Default::Constant(value)) => Fill::Constant(value.clone()),
        Some(Default::Expression(text)) => Fill::Volatile(text.clone()),
        None if column.nullable => Fill::Null,
        None => match &column.native {
            Native::MySql(native) => implicit(native),
            // Other engines refuse the column unless the table is empty.
            Native::Postgres(_) => Fill::Null,
        },
    }
}

/// MySQL's and MariaDB's own value for NOT NULL without a default.
fn implicit(native: &mysql::Native) -> Fill {
    use mysql::Native as N;
    let zero = match native {
        N::Integer { .. } | N::Year => Value::Integer(0),
        N::Decimal { scale, .. } => Value::Decimal(zero_decimal(*scale)),
        N::Float { .. } | N::Double { .. } => Value::Float(0.0),
        N::Bit { length } => Value::Bytes(vec![0; usize::from(*length).div_ceil(8)]),
        N::Time { .. } => Value::Micros(0),
        N::Date => Value::Text("0000-00-00".into()),
        N::DateTime { .. } | N::Timestamp { .. } => Value::Text("0000-00-00 00:00:00".into()),
        N::Char { .. } | N::VarChar { .. } | N::Text { .. } | N::Set { .. } => Value::Text(String::new()),
        N::Enum { labels, .. } => Value::Text(labels.first().cloned().unwrap_or_default()),
        N::Binary { length } => Value::Bytes(vec![0; usize::from(*length)]),
        N::VarBinary { .. } | N::Blob { .. } => Value::Bytes(Vec::new()),
        N::Uuid => Value::Text("00000000-0000-0000-0000-000000000000".into()),
        N::Inet4 => Value::Text("0.0.0.0".into()),
        N::Inet6 => Value::Text("::".into()),
        // Servers differ in what they show here, and none of it is a value of the type.
        N::Json | N::Geometry { .. } | N::Vector { .. } => return Fill::Volatile(format!("the server's own value for {}", kind(native))),
    };
    Fill::Implicit(zero)
}

fn kind(native: &mysql::Native) -> &'static str {
    match native.logical() {
        Type::Json => "json",
        Type::Geometry => "geometry",
        _other => "vector",
    }
}

fn zero_decimal(scale: u8) -> String {
    if scale == 0 { "0".into() } else { format!("0.{}", "0".repeat(usize::from(scale))) }
}
