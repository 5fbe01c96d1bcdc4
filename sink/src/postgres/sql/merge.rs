//! Statements that merge rows into a target table.

use schemas::{
    native::postgres::Native as Pg,
    table::{Table, TableId},
};

use super::{bare_type, list, native, quote, table};

/// `unnest($1::…[], $2::…[])`, a set of rows from one array a column.
fn unnest(natives: &[&Pg]) -> String {
    let arrays: Vec<_> = natives.iter().enumerate().map(|(i, n)| format!("${}::{}[]", i + 1, bare_type(n))).collect();
    format!("unnest({})", arrays.join(", "))
}

fn equal(keys: &[String], with: &str) -> String {
    keys.iter().map(|k| format!("t.{0} = {with}.{0}", quote(k))).collect::<Vec<_>>().join(" AND ")
}

/// Where rows to merge come from.
pub enum From<'a> {
    /// Arrays as parameters, of these types.
    Arrays(&'a [&'a Pg]),
    Stage(&'a str),
    /// A stage of exactly so many rows: the server knows no better than to take a small one for one of thousands.
    StageOf(&'a str, usize),
}

impl From<'_> {
    fn rows(&self, columns: &[String]) -> String {
        match self {
            From::Arrays(natives) => format!("{} AS s({})", unnest(natives), list(columns)),
            From::Stage(name) => format!("pg_temp.{} AS s", quote(name)),
            From::StageOf(name, rows) => format!("(SELECT * FROM pg_temp.{} LIMIT {rows}) AS s", quote(name)),
        }
    }
}

/// Inserts rows; those whose key is there are overwritten.
pub fn upsert(id: &TableId, columns: &[String], keys: &[String], from: &From<'_>) -> String {
    let set: Vec<_> = columns.iter().filter(|c| !keys.contains(c)).map(|c| format!("{0} = EXCLUDED.{0}", quote(c))).collect();
    let action = if set.is_empty() { "NOTHING".to_owned() } else { format!("UPDATE SET {}", set.join(", ")) };
    format!("{} ON CONFLICT ({}) DO {action}", insert(id, columns, from), list(keys))
}

pub fn insert(id: &TableId, columns: &[String], from: &From<'_>) -> String {
    format!("INSERT INTO {} ({1}) SELECT {1} FROM {2}", table(id), list(columns), from.rows(columns))
}

/// Deletes the rows with the keys of `from`, whose columns are `columns`.
pub fn delete(id: &TableId, columns: &[String], keys: &[String], from: &From<'_>) -> String {
    format!("DELETE FROM {} AS t USING {} WHERE {}", table(id), from.rows(columns), equal(keys, "s"))
}

/// Updates the carried columns of rows that are there; returns the number (from 1) of each row that was hit.
pub fn update_carried(id: &TableId, columns: &[String], keys: &[String], natives: &[&Pg]) -> String {
    let changed: Vec<_> = columns.iter().filter(|c| !keys.contains(c)).collect();
    // An update that carries the key alone finds its row, and no more.
    let set: Vec<_> = if changed.is_empty() { keys.iter().collect() } else { changed };
    let set: Vec<_> = set.iter().map(|c| format!("{0} = s.{0}", quote(c))).collect();
    let rows = format!("{} WITH ORDINALITY AS s({}, instar_row_number)", unnest(natives), list(columns));
    let (target, set) = (table(id), set.join(", "));
    format!("UPDATE {target} AS t SET {set} FROM {rows} WHERE {} RETURNING s.instar_row_number", equal(keys, "s"))
}

/// Deletes exactly one row that equals the parameters in every column, by what is stored and not by what compares equal.
pub fn remove_one(id: &TableId, columns: &[(String, &Pg)]) -> String {
    let same: Vec<_> = columns.iter().enumerate().map(|(i, (name, native))| same(&format!("t.{}", quote(name)), i + 1, native)).collect();
    let target = table(id);
    format!("DELETE FROM {target} WHERE ctid = (SELECT t.ctid FROM {target} AS t WHERE {} LIMIT 1)", same.join(" AND "))
}

fn same(column: &str, parameter: usize, native: &Pg) -> String {
    let value = format!("${parameter}::{}", bare_type(native));
    match native {
        Pg::Real => format!("pg_catalog.float4send({column}) IS NOT DISTINCT FROM pg_catalog.float4send({value})"),
        Pg::Double => format!("pg_catalog.float8send({column}) IS NOT DISTINCT FROM pg_catalog.float8send({value})"),
        Pg::Interval { .. } => format!("pg_catalog.interval_send({column}) IS NOT DISTINCT FROM pg_catalog.interval_send({value})"),
        Pg::Text | Pg::VarChar { .. } => format!("{column} COLLATE \"C\" IS NOT DISTINCT FROM {value} COLLATE \"C\""),
        // No equality of their own, or one that is coarser than the text.
        Pg::Json
        | Pg::Jsonb
        | Pg::Xml
        | Pg::Numeric { size: None }
        | Pg::TimeTz { .. }
        | Pg::Char { .. }
        | Pg::Array { .. }
        | Pg::Other { .. } => format!("{column}::pg_catalog.text IS NOT DISTINCT FROM {value}::pg_catalog.text"),
        Pg::Boolean
        | Pg::SmallInt
        | Pg::Integer
        | Pg::BigInt
        | Pg::Numeric { size: Some(_) }
        | Pg::Money
        | Pg::InternalChar
        | Pg::Name
        | Pg::Bytea
        | Pg::Bit { .. }
        | Pg::VarBit { .. }
        | Pg::Date
        | Pg::Time { .. }
        | Pg::Timestamp { .. }
        | Pg::TimestampTz { .. }
        | Pg::Uuid
        | Pg::Inet
        | Pg::Cidr
        | Pg::MacAddr
        | Pg::MacAddr8
        | Pg::Oid
        | Pg::Enum { .. } => format!("{column} IS NOT DISTINCT FROM {value}"),
    }
}

/// A stage with the target's own columns, emptied by every commit.
pub fn create_stage(name: &str, id: &TableId, columns: &[String]) -> String {
    format!("CREATE TEMP TABLE {} ON COMMIT DELETE ROWS AS SELECT {} FROM {} WITH NO DATA", quote(name), list(columns), table(id))
}

pub fn copy(target: &str, columns: &[String]) -> String {
    format!("COPY {target} ({}) FROM STDIN (FORMAT binary)", list(columns))
}

/// The types of these columns of a target shape.
pub fn natives<'a>(shape: &'a Table, columns: &[String]) -> Result<Vec<&'a Pg>, String> {
    columns.iter().map(|name| shape.column(name).ok_or_else(|| format!("column {name} is not on the target")).and_then(native)).collect()
}
