//! Text of statements: quoting, type names, literals, merges. No I/O.

use schemas::{
    native::{Native, postgres::Native as Pg},
    table::{Column, Table, TableId},
    types::Type,
    value::Value,
};

use super::encode::moment;

/// Bytes that PostgreSQL keeps of a name; longer ones are cut without a word.
pub const NAME_BYTES: usize = 63;

/// A quoted identifier.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A quoted, qualified table name.
pub fn table(id: &TableId) -> String {
    format!("{}.{}", quote(&id.namespace), quote(&id.name))
}

pub fn list<S: AsRef<str>>(names: &[S]) -> String {
    names.iter().map(|n| quote(n.as_ref())).collect::<Vec<_>>().join(", ")
}

/// A text literal.
pub fn text(value: &str) -> String {
    if value.contains('\\') {
        // The same under either setting of standard_conforming_strings.
        format!("E'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
    } else {
        format!("'{}'", value.replace('\'', "''"))
    }
}

/// A type as a column declaration names it.
pub fn declaration(native: &Pg) -> String {
    match native {
        Pg::Enum { name, .. } | Pg::Other { name } => qualified(name),
        Pg::Array { element, .. } => format!("{}[]", declaration(element)),
        sized => sized.to_string(),
    }
}

/// A type without its size: a cast to it changes no value.
pub fn bare_type(native: &Pg) -> String {
    let name = match native {
        Pg::Boolean => "bool",
        Pg::SmallInt => "int2",
        Pg::Integer => "int4",
        Pg::BigInt => "int8",
        Pg::Real => "float4",
        Pg::Double => "float8",
        Pg::Numeric { .. } => "numeric",
        Pg::Money => "money",
        Pg::Text => "text",
        Pg::VarChar { .. } => "varchar",
        Pg::Char { .. } => "bpchar",
        Pg::InternalChar => "\"char\"",
        Pg::Name => "name",
        Pg::Bytea => "bytea",
        // Quoted: bit alone is bit(1).
        Pg::Bit { .. } => "\"bit\"",
        Pg::VarBit { .. } => "varbit",
        Pg::Date => "date",
        Pg::Time { .. } => "time",
        Pg::TimeTz { .. } => "timetz",
        Pg::Timestamp { .. } => "timestamp",
        Pg::TimestampTz { .. } => "timestamptz",
        Pg::Interval { .. } => "interval",
        Pg::Uuid => "uuid",
        Pg::Json => "json",
        Pg::Jsonb => "jsonb",
        Pg::Xml => "xml",
        Pg::Inet => "inet",
        Pg::Cidr => "cidr",
        Pg::MacAddr => "macaddr",
        Pg::MacAddr8 => "macaddr8",
        Pg::Oid => "oid",
        Pg::Enum { name, .. } | Pg::Other { name } => return qualified(name),
        Pg::Array { element, .. } => return format!("{}[]", bare_type(element)),
    };
    format!("pg_catalog.{name}")
}

fn qualified(name: &str) -> String {
    match name.split_once('.') {
        Some((schema, name)) => format!("{}.{}", quote(schema), quote(name)),
        None => format!("pg_catalog.{}", quote(name)),
    }
}

/// The PostgreSQL type of a target column.
pub fn native(column: &Column) -> Result<&Pg, String> {
    match &column.native {
        Native::Postgres(native) => Ok(native),
        Native::MySql(_) => {
            Err(format!("column {} of a target shape is declared as {}, not as PostgreSQL's type", column.name, column.native))
        }
    }
}

/// A value as a literal for a column of this type. `ty`: what the value is at the source. Fails where the value is not one of
/// the type's.
pub fn literal(value: &Value, ty: &Type, target: &Pg) -> Result<String, String> {
    let mut out = Vec::new();
    match value {
        Value::Null => return Ok("NULL".into()),
        Value::Boolean(b) => return Ok(if *b { "TRUE" } else { "FALSE" }.into()),
        Value::Integer(n) => {
            return match (target, n) {
                (Pg::Boolean, 0) => Ok("FALSE".into()),
                (Pg::Boolean, 1) => Ok("TRUE".into()),
                (Pg::Boolean, _) => Err(format!("the default {n} is not a boolean")),
                (Pg::Bit { length }, n) => bits(&n.to_be_bytes(), *length),
                _ => Ok(n.to_string()),
            };
        }
        Value::Decimal(text) => return Ok(self::text(text)),
        Value::Float(n) if n.is_nan() => out.extend_from_slice(b"NaN"),
        Value::Float(n) if n.is_infinite() => out.extend_from_slice(if *n > 0.0 { b"Infinity" } else { b"-Infinity" }),
        Value::Float(n) => out.extend_from_slice(n.to_string().as_bytes()),
        Value::Text(text) if text.contains('\0') => return Err("the default holds a NUL byte, which PostgreSQL cannot keep".into()),
        Value::Text(text) => out.extend_from_slice(text.as_bytes()),
        Value::Bytes(bytes) => {
            return match target {
                Pg::Bit { length } => bits(bytes, *length),
                _ => Ok(format!("'\\x{}'::pg_catalog.bytea", bytes.iter().map(|b| format!("{b:02x}")).collect::<String>())),
            };
        }
        Value::Date(days) => moment::put_date(&mut out, *days),
        Value::Micros(micros) => match ty {
            Type::Timestamp { .. } => moment::put_timestamp(&mut out, *micros, "+00"),
            Type::DateTime { .. } => moment::put_timestamp(&mut out, *micros, ""),
            _ => moment::put_time(&mut out, *micros),
        },
        Value::Array(_) => return Err("an array as a default is not carried".into()),
    }
    Ok(text(&String::from_utf8_lossy(&out)))
}

/// The last `length` bits of big-endian bytes.
fn bits(bytes: &[u8], length: u32) -> Result<String, String> {
    let all: String = bytes.iter().map(|b| format!("{b:08b}")).collect();
    let length = length as usize;
    let padded = format!("{}{all}", "0".repeat(length.saturating_sub(all.len())));
    let (high, low) = padded.split_at(padded.len() - length);
    if high.contains('1') { Err(format!("the default has more than {length} bits")) } else { Ok(format!("B'{low}'")) }
}

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
}

impl From<'_> {
    fn rows(&self, columns: &[String]) -> String {
        match self {
            From::Arrays(natives) => format!("{} AS s({})", unnest(natives), list(columns)),
            From::Stage(name) => format!("pg_temp.{} AS s", quote(name)),
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
