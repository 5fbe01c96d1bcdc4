//! Compares a source table with a target table value by value, each read as its own server prints it.

use crate::{postgres, source};

/// How the two sides' texts of a column become comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    /// Shortest decimal form of a double; compared as numbers.
    Float,
    /// `[-]h:mm:ss.ffffff`, compared as microseconds.
    Duration,
    /// A network address, which each server shortens in its own way.
    Address,
}

struct Column {
    name: String,
    source: String,
    target: String,
    form: Form,
}

/// What differs between `source_table` (`database.table`) and `target_table` (`schema.table`), in words; empty: nothing.
pub async fn differences(
    source: &mut source::Session,
    (database, table): (&str, &str),
    target: &postgres::Session,
    (schema, target_table): (&str, &str),
) -> Vec<String> {
    let mut columns = columns(source, database, table).await;
    let live = target
        .query(&format!(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = {} AND table_name = {} ORDER BY 1",
            literal(schema),
            literal(target_table)
        ))
        .await
        .expect("the target's catalog");
    let live: Vec<(String, String)> =
        live.into_iter().map(|row| (row[0].clone().unwrap_or_default(), row[1].clone().unwrap_or_default())).collect();
    // A column that is published as text holds what the source prints.
    for column in columns.iter_mut().filter(|column| live.iter().any(|(name, ty)| *name == column.name && ty == "text")) {
        (column.source, column.target, column.form) =
            (format!("`{}`", column.name.replace('`', "``")), identifier(&column.name), Form::Text);
    }
    let live: Vec<String> = live.into_iter().map(|(name, _)| name).collect();
    let mut names: Vec<String> = columns.iter().map(|c| c.name.clone()).collect();
    names.sort();
    if names != live {
        return vec![format!("{table}: the source has columns {names:?}, the target {live:?}")];
    }

    let select = |side: fn(&Column) -> &str| columns.iter().map(side).collect::<Vec<_>>().join(", ");
    let left = source
        .query(&format!("SELECT {} FROM `{database}`.`{}`", select(|c| &c.source), table.replace('`', "``")))
        .await
        .expect("source rows");
    let right = target
        .query(&format!("SELECT {} FROM {}.{}", select(|c| &c.target), identifier(schema), identifier(target_table)))
        .await
        .expect("target rows");

    let mut left: Vec<Vec<String>> = left
        .into_iter()
        .map(|row| {
            row.into_iter()
                .zip(&columns)
                .map(|(cell, c)| canonical(cell.map(|b| String::from_utf8_lossy(&b).into_owned()), c.form))
                .collect()
        })
        .collect();
    let mut right: Vec<Vec<String>> =
        right.into_iter().map(|row| row.into_iter().zip(&columns).map(|(cell, c)| canonical(cell, c.form)).collect()).collect();
    left.sort();
    right.sort();
    difference(table, &columns, &left, &right)
}

fn difference(table: &str, columns: &[Column], left: &[Vec<String>], right: &[Vec<String>]) -> Vec<String> {
    let mut found = Vec::new();
    let (mut l, mut r) = (left.iter().peekable(), right.iter().peekable());
    while found.len() < 10 {
        match (l.peek(), r.peek()) {
            (None, None) => break,
            (Some(a), Some(b)) if a == b => {
                l.next();
                r.next();
            }
            (Some(a), b) if b.is_none_or(|b| a < b) => {
                found.push(format!("{table}: only on the source: {}", show(columns, a)));
                l.next();
            }
            (_, Some(b)) => {
                found.push(format!("{table}: only on the target: {}", show(columns, b)));
                r.next();
            }
            (Some(_), None) => unreachable!("covered by the guard above"),
        }
    }
    if !found.is_empty() {
        found.push(format!("{table}: {} rows on the source, {} on the target", left.len(), right.len()));
    }
    found
}

fn show(columns: &[Column], row: &[String]) -> String {
    columns.iter().zip(row).map(|(c, v)| format!("{}={v}", c.name)).collect::<Vec<_>>().join(", ")
}

async fn columns(source: &mut source::Session, database: &str, table: &str) -> Vec<Column> {
    let rows = source
        .query(&format!(
            "SELECT COLUMN_NAME, LOWER(DATA_TYPE), COALESCE(NUMERIC_PRECISION, 0) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{}' AND TABLE_NAME = '{}' ORDER BY ORDINAL_POSITION",
            database.replace('\'', "''"),
            table.replace('\\', "\\\\").replace('\'', "''")
        ))
        .await
        .expect("the source's catalog");
    rows.into_iter()
        .map(|row| {
            let text = |i: usize| String::from_utf8_lossy(row[i].as_deref().unwrap_or_default()).into_owned();
            column(text(0), &text(1), &text(2))
        })
        .collect()
}

fn column(name: String, data_type: &str, precision: &str) -> Column {
    let (s, t) = (format!("`{}`", name.replace('`', "``")), identifier(&name));
    let (source, target, form) = match data_type {
        "bit" => (format!("LPAD(BIN({s} + 0), {precision}, '0')"), t, Form::Text),
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "vector" | "geometry" | "point" | "linestring"
        | "polygon" | "multipoint" | "multilinestring" | "multipolygon" | "geometrycollection" | "geomcollection" => {
            (format!("LOWER(HEX({s}))"), format!("encode({t}, 'hex')"), Form::Text)
        }
        "float" | "double" => (format!("CAST({s} AS DOUBLE)"), format!("{t}::float8::text"), Form::Float),
        "datetime" | "timestamp" => {
            (format!("DATE_FORMAT({s}, '%Y-%m-%d %H:%i:%s.%f')"), format!("to_char({t}, 'YYYY-MM-DD HH24:MI:SS.US')"), Form::Text)
        }
        "inet4" | "inet6" => (s, format!("host({t})"), Form::Address),
        // As numbers: ZEROFILL and YEAR are ways to print.
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" | "year" => (format!("{s} + 0"), t, Form::Text),
        "time" => (format!("TIME_FORMAT({s}, '%H:%i:%s.%f')"), t, Form::Duration),
        _ => (s, t, Form::Text),
    };
    Column { name, source, target, form }
}

fn canonical(cell: Option<String>, form: Form) -> String {
    let Some(text) = cell else { return "NULL".into() };
    match form {
        Form::Text => format!("'{text}'"),
        Form::Float => text.parse::<f64>().map_or(text, |f| format!("{f:?}")),
        Form::Address => text.parse::<std::net::IpAddr>().map_or(text, |address| address.to_string()),
        Form::Duration => micros(&text).map_or(text, |n| format!("{n} µs")),
    }
}

/// `[-]h:mm:ss[.f]` in microseconds.
fn micros(text: &str) -> Option<i64> {
    let (sign, rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (clock, fraction) = rest.split_once('.').unwrap_or((rest, ""));
    let mut parts = clock.split(':').map(str::parse::<i64>);
    let (h, m, s) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let fraction: i64 = format!("{fraction:0<6}").parse().ok()?;
    Some(sign * (((h * 60 + m) * 60 + s) * 1_000_000 + fraction))
}

pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
