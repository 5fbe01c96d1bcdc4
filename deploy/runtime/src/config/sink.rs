//! `sinks:`, each with its tables.

use std::{collections::BTreeMap, time::Duration};

use schemas::{
    policy::{Action, Policy},
    table::TableId,
};

use super::{
    BadValue, Batch, Keyless, OnStop, Retry, Sink, SinkTable, Source, TargetEngine,
    nearest::nearest,
    pipeline::sink_name,
    section::{Node, Section},
    source::{check_scheme, count, table_id, tls},
};

const TARGETS: [(&str, Option<TargetEngine>); 6] = [
    ("postgres", Some(TargetEngine::Postgres)),
    ("mysql", None),
    ("sqlserver", None),
    ("odbc", None),
    ("clickhouse", None),
    ("fabric", None),
];

/// All sinks; None where one of them cannot be built. A pipeline may have none, for other readers of its topics.
pub(super) fn sinks(node: &Node<'_>, source: Option<&Source>) -> Option<BTreeMap<String, Sink>> {
    if node.value.is_null() {
        node.problem("has no value; write {} for a pipeline without sinks");
    }
    let sinks: Vec<Option<(String, Sink)>> = node
        .entries()
        .into_iter()
        .map(|(name, node)| {
            let good = sink_name(&name, &node);
            let sink = sink(&name, &node, source)?;
            good.then_some((name, sink))
        })
        .collect();
    let sinks = sinks.into_iter().collect();
    if let (Some(sinks), Some(source)) = (&sinks, source) {
        written_twice(node, sinks, source);
    }
    sinks
}

/// A target table has one writer: progress of two would speak of each other's rows.
fn written_twice(node: &Node<'_>, sinks: &BTreeMap<String, Sink>, source: &Source) {
    let mut writers: BTreeMap<(String, u16, &str, &str, &str), String> = BTreeMap::new();
    for (name, node) in node.entries() {
        let Some(sink) = sinks.get(&name) else { continue };
        let (host, port, database) = place(sink);
        for id in source.tables.iter().map(|captured| &captured.table) {
            let schema = sink.schema.as_deref().unwrap_or(&id.namespace);
            let rename = sink.table(id).rename.as_deref();
            let table = rename.unwrap_or(&id.name);
            let key = if rename.is_some() { format!("sinks.{name}.tables.{id}.rename") } else { format!("sinks.{name} (table {id})") };
            match writers.get(&(host.clone(), port, database, schema, table)) {
                // A source table that is named twice is said there.
                Some(other) if *other == key => {}
                Some(other) => node.problem(format!(
                    "{key} writes the table {schema}.{table} of {host}:{port}/{database}, and so does {other}; give one of them another \
                     schema or rename"
                )),
                None => {
                    writers.insert((host.clone(), port, database, schema, table), key);
                }
            }
        }
    }
}

/// Host, port and database of a sink, with what stands for what is not said.
fn place(sink: &Sink) -> (String, u16, &str) {
    let url = &sink.url;
    let host = url.host.to_ascii_lowercase();
    let host = if matches!(host.as_str(), "localhost" | "::1") { "127.0.0.1".to_owned() } else { host };
    match sink.target {
        TargetEngine::Postgres => {
            let user = url.user.as_deref().unwrap_or("postgres");
            (host, url.port.unwrap_or(5432), url.database.as_deref().unwrap_or(user))
        }
    }
}

fn sink(name: &str, node: &Node<'_>, source: Option<&Source>) -> Option<Sink> {
    let section = node.section();
    let target = section.required("target", "postgres").and_then(|n| n.choice(&TARGETS)).flatten();
    let url = section.required("url", "postgres://user:${env:PASSWORD}@127.0.0.1:5432/warehouse").and_then(Node::url);
    if let (Some(target), Some(url)) = (target, &url) {
        check_scheme(&section, url, schemes(target));
    }
    let schema = schema(&section, target);
    let on_stop = section.choice("on_stop", &[("exit", OnStop::Exit), ("wait", OnStop::Wait)], OnStop::Exit);
    let defaults = table(&section, None);
    let tables = tables(&section, &defaults, source);
    let (retry, batch, tls) = (retry(&section), batch(&section), tls(&section, "tls"));
    Some(Sink {
        name: name.to_owned(),
        schema,
        workers: count(&section, "workers", 64, 4),
        create: section.flag("create", true),
        recreate: section.flag("recreate", false),
        adopt: section.flag("adopt", false),
        on_stop,
        retry,
        lock_timeout: section.duration("lock_timeout", Duration::from_secs(5)),
        batch,
        tls,
        defaults,
        tables,
        target: target?,
        url: url?,
    })
}

fn schemes(target: TargetEngine) -> &'static [&'static str] {
    match target {
        TargetEngine::Postgres => &["postgres", "postgresql"],
    }
}

fn schema(section: &Section<'_>, target: Option<TargetEngine>) -> Option<String> {
    let (schema, database) = (section.get("schema"), section.get("database"));
    match target {
        Some(TargetEngine::Postgres) => {
            if let Some(node) = database {
                node.problem("a PostgreSQL sink has its database in the url; schema says where in it the tables go");
            }
            schema.and_then(Node::text)
        }
        None => None,
    }
}

fn retry(sink: &Section<'_>) -> Retry {
    let default = Retry { initial: Duration::from_secs(1), max: Duration::from_secs(60) };
    let Some(section) = sink.section("retry") else { return default };
    let retry = Retry { initial: section.duration("initial", default.initial), max: section.duration("max", default.max) };
    if retry.initial > retry.max {
        section.node.problem("has an initial pause that is longer than its max");
    }
    retry
}

fn batch(sink: &Section<'_>) -> Batch {
    let default = Batch { rows: 10_000, bytes: 16 << 20, linger: Duration::from_millis(10) };
    let Some(section) = sink.section("batch") else { return default };
    let batch = Batch {
        rows: count(&section, "rows", 10_000_000, default.rows),
        bytes: section.size("bytes", default.bytes),
        linger: section.duration("linger", default.linger),
    };
    if batch.bytes == 0 {
        section.node.problem("has bytes: 0; a batch needs room for a row");
    }
    batch
}

/// What a sink says for all of its tables, or (`defaults`) a table for itself.
fn table(section: &Section<'_>, defaults: Option<&SinkTable>) -> SinkTable {
    let keyless = [("refuse", Keyless::Refuse), ("append", Keyless::Append), ("full_row", Keyless::FullRow)];
    let bad_value = [("stop", BadValue::Stop), ("hold", BadValue::Hold)];
    let own = section.get("evolution").map(policy).unwrap_or_default();
    let evolution = defaults.map_or_else(|| own.clone(), |d| own.over(&d.evolution));
    let mut type_map = defaults.map(|d| d.type_map.clone()).unwrap_or_default();
    type_map.extend(section.names("type_map"));
    let (mut rename, mut columns) = (None, BTreeMap::new());
    if defaults.is_some() {
        rename = section.get("rename").and_then(Node::text);
        columns = section.names("columns");
    }
    SinkTable {
        rename,
        columns,
        evolution,
        type_map,
        allow_truncation: section.flag("allow_truncation", defaults.is_some_and(|d| d.allow_truncation)),
        keyless: section.choice("keyless", &keyless, defaults.map_or(Keyless::Refuse, |d| d.keyless)),
        bad_value: section.choice("bad_value", &bad_value, defaults.map_or(BadValue::Stop, |d| d.bad_value)),
    }
}

fn policy(node: &Node<'_>) -> Policy {
    let actions = Action::ALL.map(|action| (action.name(), action));
    let entries: Vec<(String, Action)> = node
        .entries()
        .into_iter()
        .filter_map(|(name, node)| {
            if !Policy::names().any(|known| known == name) {
                let meant = nearest(&name, Policy::names()).map_or(String::new(), |meant| format!("; did you mean {meant}?"));
                node.problem(format!("is neither a kind of change nor a group of them{meant}"));
                return None;
            }
            Some((name, node.choice(&actions)?))
        })
        .collect();
    let parsed = Policy::parse(entries.iter().map(|(name, action)| (name.as_str(), action.name())));
    parsed.unwrap_or_else(|errors| {
        for error in errors {
            node.problem(error.to_string());
        }
        Policy::default()
    })
}

fn tables(sink: &Section<'_>, defaults: &SinkTable, source: Option<&Source>) -> BTreeMap<TableId, SinkTable> {
    let namespace = source.and_then(|s| s.url.database.as_deref());
    let mut tables = BTreeMap::new();
    for (name, node) in sink.get("tables").map(Node::entries).unwrap_or_default() {
        let table = table(&node.section(), Some(defaults));
        // Without a source there is nothing to look the name up in; its own problems are said already.
        let Some(source) = source else { continue };
        let Some(id) = table_id(&node, &name, namespace) else { continue };
        if !source.tables.iter().any(|t| t.table == id) {
            let known: Vec<String> = source.tables.iter().map(|t| t.table.to_string()).collect();
            let meant =
                nearest(&id.to_string(), known.iter().map(String::as_str)).map_or(String::new(), |m| format!("; did you mean {m}?"));
            node.problem(format!("{id} is not among source.tables{meant}"));
        }
        tables.insert(id, table);
    }
    tables
}
