//! `source:` and its tables.

use std::{collections::BTreeMap, time::Duration};

use schemas::{native::mysql, table::TableId};
use serde_yaml_ng::Value;

use super::{
    CapturedTable, NewTables, RowMetadata, Snapshot, SnapshotMode, Source, SourceEngine, Tls, TlsMode, Url,
    nearest::nearest,
    section::{Node, Section},
};

const ENGINES: [(&str, Option<SourceEngine>); 4] =
    [("mysql", Some(SourceEngine::MySql)), ("postgres", None), ("sqlserver", None), ("odbc", None)];

pub(super) fn source(node: &Node<'_>) -> Option<Source> {
    let section = node.section();
    let engine = section.required("engine", "mysql").and_then(|n| n.choice(&ENGINES)).flatten();
    let url = section.required("url", "mysql://user:${env:PASSWORD}@127.0.0.1:3306/shop").and_then(Node::url);
    if let (Some(engine), Some(url)) = (engine, &url) {
        check_scheme(&section, url, schemes(engine));
    }
    let new_tables = section.choice("new_tables", &[("ignore", NewTables::Ignore), ("capture", NewTables::Capture)], NewTables::Ignore);
    let tables = tables(&section, url.as_ref(), new_tables);
    let snapshot = snapshot(&section);
    let row_metadata = [("warn", RowMetadata::Warn), ("require", RowMetadata::Require)];
    let row_metadata = section.choice("row_metadata", &row_metadata, RowMetadata::Warn);
    let type_map = type_map(&section);
    let tls = tls(&section, "tls");
    let server_id = section.get("server_id").and_then(|n| n.integer(1..=u64::from(u32::MAX))).and_then(|id| u32::try_from(id).ok());
    let heartbeat = section.duration("heartbeat", Duration::from_secs(10));
    Some(Source { engine: engine?, url: url?, tables: tables?, snapshot, new_tables, row_metadata, type_map, tls, server_id, heartbeat })
}

/// Columns and types that are published as text.
fn type_map(source: &Section<'_>) -> BTreeMap<String, String> {
    let mut map = BTreeMap::new();
    for (key, node) in source.get("type_map").map(Node::entries).unwrap_or_default() {
        let Some(form) = node.choice(&[("string", "string")]) else { continue };
        let declaration = key.to_lowercase();
        let word = declaration.split(['(', ' ']).next().unwrap_or_default();
        match key.matches('.').count() {
            0 if !mysql::NAMES.contains(&word) => {
                let meant = nearest(word, mysql::NAMES).map_or(String::new(), |name| format!("; did you mean {name}?"));
                node.problem(format!("{key} is neither a type of the source (date, bigint unsigned) nor database.table.column{meant}"));
            }
            1 => node.problem(format!("{key} is not a whole name; write database.table.column")),
            _ => drop(map.insert(key, form.to_owned())),
        }
    }
    map
}

fn schemes(engine: SourceEngine) -> &'static [&'static str] {
    match engine {
        SourceEngine::MySql => &["mysql", "mariadb"],
    }
}

pub(super) fn check_scheme(section: &Section<'_>, url: &Url, schemes: &[&str]) {
    if !schemes.contains(&url.scheme.as_str())
        && let Some(node) = section.get("url")
    {
        node.problem(format!("begins with {}://, but must begin with {}://", url.scheme, schemes.join(":// or ")));
    }
}

fn snapshot(source: &Section<'_>) -> Snapshot {
    let default = Snapshot { mode: SnapshotMode::Initial, workers: 2, chunk_rows: 50_000, slice: Duration::from_secs(2) };
    let Some(section) = source.section("snapshot") else { return default };
    let modes = [("initial", SnapshotMode::Initial), ("never", SnapshotMode::Never), ("only", SnapshotMode::Only)];
    Snapshot {
        mode: section.choice("mode", &modes, default.mode),
        workers: count(&section, "workers", 64, default.workers),
        chunk_rows: section.integer("chunk_rows", 1..=100_000_000, default.chunk_rows),
        slice: section.duration("slice", default.slice),
    }
}

/// A small number of things, from 1.
pub(super) fn count(section: &Section<'_>, key: &'static str, most: u64, default: usize) -> usize {
    section.get(key).and_then(|n| n.integer(1..=most)).and_then(|n| usize::try_from(n).ok()).unwrap_or(default)
}

fn tables(source: &Section<'_>, url: Option<&Url>, new_tables: NewTables) -> Option<Vec<CapturedTable>> {
    let namespace = url.and_then(|url| url.database.as_deref());
    let node = match new_tables {
        NewTables::Capture => source.get("tables"),
        NewTables::Ignore => source.required("tables", "[shop.orders, shop.customers]"),
    };
    let Some(node) = node else {
        return match new_tables {
            NewTables::Capture => Some(Vec::new()),
            NewTables::Ignore => None,
        };
    };
    let mut tables: Vec<CapturedTable> = Vec::new();
    for entry in node.list() {
        let Some(table) = captured(&entry, namespace) else { continue };
        if tables.iter().any(|t| t.table == table.table) {
            entry.problem(format!("{} is named twice", table.table));
        }
        tables.push(table);
    }
    if tables.is_empty() && new_tables == NewTables::Ignore {
        node.problem("names no table");
    }
    Some(tables)
}

fn captured(entry: &Node<'_>, namespace: Option<&str>) -> Option<CapturedTable> {
    if !matches!(entry.value, Value::Mapping(_)) {
        let table = table_id(entry, &entry.text()?, namespace)?;
        return Some(CapturedTable { table, columns: Vec::new(), exclude_columns: Vec::new(), key: Vec::new(), filter: None });
    }
    let section = entry.section();
    let table = section.required("table", "shop.orders").and_then(|node| table_id(node, &node.text()?, namespace));
    let columns = section.texts("columns");
    let exclude_columns = section.texts("exclude_columns");
    let key = section.texts("key");
    let filter = section.get("filter").and_then(Node::text);
    if !columns.is_empty() && !exclude_columns.is_empty() {
        entry.problem("has columns and exclude_columns; give one of them");
    }
    Some(CapturedTable { table: table?, columns, exclude_columns, key, filter })
}

/// `namespace.table`, or a table of the URL's database. A part may stand in backquotes, as MySQL writes it; without them the first dot divides.
pub(super) fn table_id(node: &Node<'_>, text: &str, namespace: Option<&str>) -> Option<TableId> {
    if text.starts_with('`') || text.contains(".`") {
        let parts = quoted(text).unwrap_or_default();
        return match (parts.as_slice(), namespace) {
            ([namespace, name], _) if !namespace.is_empty() && !name.is_empty() => Some(TableId::new(namespace, name)),
            ([name], Some(namespace)) if !name.is_empty() => Some(TableId::new(namespace, name)),
            _ => {
                node.problem(format!("{text:?} is not `database`.`table`"));
                None
            }
        };
    }
    if text.contains('*') {
        node.problem(format!("{text}: a pattern of tables is not built yet; name each table"));
        return None;
    }
    let (namespace, name) = match (text.split_once('.'), namespace) {
        (Some((namespace, name)), _) => (namespace, name),
        (None, Some(namespace)) => (namespace, text),
        (None, None) => {
            node.problem(format!("{text}: say in which database the table is: database.{text}"));
            return None;
        }
    };
    if namespace.is_empty() || name.is_empty() {
        node.problem(format!("{text:?} is not database.table"));
        return None;
    }
    Some(TableId::new(namespace, name))
}

/// The parts of a name of which some stand in backquotes, undone; nothing where it is not whole.
fn quoted(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (part, after) = match rest.strip_prefix('`') {
            Some(inside) => unquote(inside)?,
            None => {
                let (part, after) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
                (part.to_owned(), after)
            }
        };
        parts.push(part);
        if after.is_empty() {
            return Some(parts);
        }
        rest = after.strip_prefix('.')?;
    }
}

/// The text up to the closing backquote, a doubled one being one of the text; and what follows.
fn unquote(inside: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut rest = inside;
    loop {
        let (before, after) = rest.split_once('`')?;
        text.push_str(before);
        match after.strip_prefix('`') {
            None => return Some((text, after)),
            Some(more) => {
                text.push('`');
                rest = more;
            }
        }
    }
}

/// `tls:` of a source or a sink. A CA without a mode asks for full verification: it would have no use otherwise.
pub(super) fn tls(parent: &Section<'_>, key: &'static str) -> Tls {
    let Some(section) = parent.section(key) else { return Tls::default() };
    let modes = [
        ("prefer", TlsMode::Prefer),
        ("disable", TlsMode::Disable),
        ("require", TlsMode::Require),
        ("verify-ca", TlsMode::VerifyCa),
        ("verify-full", TlsMode::VerifyFull),
    ];
    let (ca, certificate, key) = (section.path("ca"), section.path("certificate"), section.path("key"));
    let mode = section.choice("mode", &modes, if ca.is_some() { TlsMode::VerifyFull } else { TlsMode::Prefer });
    match (&certificate, &key) {
        (Some(_), None) => section.node.problem("has a certificate without its key; give both"),
        (None, Some(_)) => section.node.problem("has a key without its certificate; give both"),
        (Some(_), Some(_)) | (None, None) => {}
    }
    Tls { mode, ca, certificate, key }
}
