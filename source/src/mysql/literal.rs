//! Key values as the server's own literals: read from it, given back to it, never interpreted here.

use schemas::{
    native::{Native, mysql::Native as MySql},
    table::{Column, Table},
};

use super::catalog::quoted;

/// An expression that gives a key column's value as the text of a literal.
///
/// # Errors
/// Why columns of this type cannot bound a chunk.
pub fn expression(column: &Column) -> Result<String, String> {
    let name = quoted(&column.name);
    let Native::MySql(native) = &column.native else { return Err(format!("{} is not a type of this engine", column.native)) };
    Ok(match native {
        MySql::Integer { .. } | MySql::Decimal { .. } | MySql::Year => format!("CAST({name} AS CHAR)"),
        // As doubles, whose text is exact.
        MySql::Float { .. } | MySql::Double { .. } => format!("CONCAT('(', CAST({name} + 0e0 AS CHAR), '+0e0)')"),
        MySql::Bit { .. } | MySql::Enum { .. } | MySql::Set { .. } => format!("CAST({name} + 0 AS CHAR)"),
        MySql::Date | MySql::Time { .. } | MySql::DateTime { .. } | MySql::Timestamp { .. } | MySql::Uuid | MySql::Inet4 | MySql::Inet6 => {
            format!("CONCAT('''', {name}, '''')")
        }
        MySql::Char { charset, .. } | MySql::VarChar { charset, .. } | MySql::Text { charset, .. } => {
            format!("CONCAT('_{} X''', HEX({name}), ''' COLLATE {}')", charset.charset, charset.collation)
        }
        MySql::Binary { .. } | MySql::VarBinary { .. } | MySql::Blob { .. } => format!("CONCAT('X''', HEX({name}), '''')"),
        MySql::Json | MySql::Geometry { .. } | MySql::Vector { .. } => {
            return Err(format!("column `{}` cannot be part of a key", column.name));
        }
    })
}

/// A key column as it is compared and sorted: labels by their index, as the server sorts them.
fn compared(column: &Column) -> String {
    let name = quoted(&column.name);
    match &column.native {
        Native::MySql(MySql::Enum { .. } | MySql::Set { .. } | MySql::Bit { .. } | MySql::Float { .. } | MySql::Double { .. }) => {
            format!("{name} + 0")
        }
        Native::MySql(_) | Native::Postgres(_) => name,
    }
}

/// The key's columns in their order, for ORDER BY.
pub fn order(table: &Table) -> String {
    table.key_columns().iter().map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Keys greater than the bound.
    Above,
    /// Keys up to the bound, itself included.
    UpTo,
}

/// A condition on the key against a bound of literals.
pub fn condition(table: &Table, bound: &[String], side: Side) -> String {
    let columns = table.key_columns();
    let pairs: Vec<(String, &String)> = columns.iter().map(|column| compared(column)).zip(bound).collect();
    let (strict, last) = match side {
        Side::Above => (">", ">"),
        Side::UpTo => ("<", "<="),
    };
    let mut text = String::new();
    for (i, (column, literal)) in pairs.iter().enumerate().rev() {
        text = if i + 1 == pairs.len() {
            format!("{column} {last} {literal}")
        } else {
            // The first comparison alone lets the server use the index.
            format!("{column} {strict}= {literal} AND ({column} {strict} {literal} OR ({text}))")
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use schemas::table::TableId;

    use super::*;

    #[test]
    fn bounds_are_compared_column_by_column() {
        let int = || Native::MySql(MySql::Integer { bits: 32, unsigned: false, zerofill: false, width: None });
        let columns = vec![Column::new(0, "a", int()).not_null(), Column::new(1, "b`c", int()).not_null()];
        let table = Table::new(TableId::new("s", "t"), columns, &["a", "b`c"]);
        let bound = ["1".to_owned(), "2".to_owned()];
        assert_eq!(condition(&table, &bound, Side::Above), "`a` >= 1 AND (`a` > 1 OR (`b``c` > 2))");
        assert_eq!(condition(&table, &bound, Side::UpTo), "`a` <= 1 AND (`a` < 1 OR (`b``c` <= 2))");
        assert_eq!(order(&table), "`a`, `b``c`");
    }
}
