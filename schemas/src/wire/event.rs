//! Schema-version events and progress, to and from Avro.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    WireError,
    codec::{Reader, put_array, put_bytes, put_frame, put_long, put_null, put_optional_string, put_some},
};
use crate::{
    event::{EventKind, Progress, SchemaEvent, SkippedStatement, SourceState, TableEvent, TableProgress},
    table::Table,
};

impl EventKind {
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Initial => "initial",
            EventKind::Ddl => "ddl",
            EventKind::Reload => "reload",
            EventKind::Retire => "retire",
        }
    }

    fn parse(name: &str) -> Result<Self, WireError> {
        match name {
            "initial" => Ok(EventKind::Initial),
            "ddl" => Ok(EventKind::Ddl),
            "reload" => Ok(EventKind::Reload),
            "retire" => Ok(EventKind::Retire),
            other => Err(WireError::Unknown { what: "event kind", value: other.into() }),
        }
    }
}

impl SourceState {
    pub fn name(self) -> &'static str {
        match self {
            SourceState::Running => "running",
            SourceState::Retrying => "retrying",
            SourceState::Paused => "paused",
            SourceState::Stopped => "stopped",
        }
    }

    fn parse(name: &str) -> Result<Self, WireError> {
        match name {
            "running" => Ok(SourceState::Running),
            "retrying" => Ok(SourceState::Retrying),
            "paused" => Ok(SourceState::Paused),
            "stopped" => Ok(SourceState::Stopped),
            other => Err(WireError::Unknown { what: "source state", value: other.into() }),
        }
    }
}

fn json<T: serde::Serialize>(value: &T) -> String {
    // Maps with string keys, strings and numbers only: cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, WireError> {
    serde_json::from_str(text).map_err(|e| WireError::Json(e.to_string()))
}

fn unsigned(value: i64) -> Result<u64, WireError> {
    u64::try_from(value).map_err(|_| WireError::Overflow)
}

fn small(value: i64) -> Result<u32, WireError> {
    u32::try_from(value).map_err(|_| WireError::Overflow)
}

/// A framed schema-version event.
pub fn put_event(out: &mut Vec<u8>, schema: u32, event: &SchemaEvent) {
    put_frame(out, schema);
    match event.epoch {
        None => put_null(out),
        Some(epoch) => {
            put_some(out);
            put_long(out, epoch.cast_signed());
        }
    }
    put_bytes(out, event.kind.name().as_bytes());
    put_bytes(out, event.position.as_bytes());
    put_long(out, event.ts_ms);
    put_optional_string(out, event.ddl.as_deref());
    put_optional_string(out, event.for_sink.as_deref());
    put_array(out, &event.tables, put_table);
}

fn put_table(out: &mut Vec<u8>, table: &TableEvent) {
    put_bytes(out, table.table.id.namespace.as_bytes());
    put_bytes(out, table.table.id.name.as_bytes());
    put_long(out, i64::from(table.version));
    put_bytes(out, table.topic.as_bytes());
    put_long(out, i64::from(table.lanes));
    put_array(out, &table.boundaries, |out, offset| put_long(out, offset.cast_signed()));
    match table.key_schema {
        None => put_null(out),
        Some(id) => {
            put_some(out);
            put_long(out, i64::from(id));
        }
    }
    put_long(out, i64::from(table.value_schema));
    put_bytes(out, json(&table.table).as_bytes());
    put_bytes(out, json(&table.changes).as_bytes());
    put_array(out, &table.superseded, |out, skipped| {
        put_bytes(out, skipped.position.as_bytes());
        put_bytes(out, skipped.ddl.as_bytes());
    });
    put_optional_string(out, table.topic_id.as_deref());
}

/// Reads what [`put_event`] wrote.
pub fn read_event(record: &[u8]) -> Result<SchemaEvent, WireError> {
    let mut r = Reader::new(record);
    r.frame()?;
    let epoch = if r.some()? { Some(unsigned(r.long()?)?) } else { None };
    let kind = EventKind::parse(r.string()?)?;
    let position = r.string()?.to_owned();
    let ts_ms = r.long()?;
    let ddl = r.optional_string()?.map(str::to_owned);
    let for_sink = r.optional_string()?.map(str::to_owned);
    let mut tables = Vec::new();
    r.array(|r| read_table(r).map(|t| tables.push(t)))?;
    match r.rest().len() {
        0 => Ok(SchemaEvent { epoch, kind, position, ts_ms, ddl, tables, for_sink }),
        left => Err(WireError::Trailing(left)),
    }
}

fn read_table(r: &mut Reader<'_>) -> Result<TableEvent, WireError> {
    let (_namespace, _name) = (r.string()?, r.string()?);
    let version = small(r.long()?)?;
    let topic = r.string()?.to_owned();
    let lanes = small(r.long()?)?;
    let mut boundaries = Vec::new();
    r.array(|r| unsigned(r.long()?).map(|offset| boundaries.push(offset)))?;
    let key_schema = if r.some()? { Some(small(r.long()?)?) } else { None };
    let value_schema = small(r.long()?)?;
    let mut table: Table = parse(r.string()?)?;
    // It is kept for as long as the version is.
    table.columns.shrink_to_fit();
    let changes = parse(r.string()?)?;
    let mut superseded = Vec::new();
    r.array(|r| {
        superseded.push(SkippedStatement { position: r.string()?.to_owned(), ddl: r.string()?.to_owned() });
        Ok::<_, WireError>(())
    })?;
    let topic_id = r.optional_string()?.map(str::to_owned);
    Ok(TableEvent { table, version, changes, topic, lanes, boundaries, key_schema, value_schema, topic_id, superseded })
}

/// A framed progress record.
pub fn put_progress(out: &mut Vec<u8>, schema: u32, progress: &Progress) {
    put_frame(out, schema);
    put_bytes(out, progress.pipeline_id.as_bytes());
    put_bytes(out, progress.position.as_bytes());
    for number in [progress.rows_done, progress.seq, progress.epoch, progress.command] {
        put_long(out, number.cast_signed());
    }
    put_bytes(out, progress.state.name().as_bytes());
    put_bytes(out, progress.message.as_bytes());
    put_long(out, progress.ts_ms);
    put_long(out, progress.commit_ts_ms);
    put_long(out, progress.due_ms);
    let waiting = progress.waiting.iter().map(|topic| (topic, None));
    let tables: BTreeMap<_, _> = progress.tables.iter().map(|(topic, table)| (topic, Some(table))).chain(waiting).collect();
    put_bytes(out, json(&tables).as_bytes());
}

/// Reads what [`put_progress`] wrote.
pub fn read_progress(record: &[u8]) -> Result<Progress, WireError> {
    let mut r = Reader::new(record);
    r.frame()?;
    let mut progress = Progress {
        pipeline_id: r.string()?.to_owned(),
        position: r.string()?.to_owned(),
        rows_done: unsigned(r.long()?)?,
        seq: unsigned(r.long()?)?,
        epoch: unsigned(r.long()?)?,
        command: unsigned(r.long()?)?,
        state: SourceState::parse(r.string()?)?,
        message: r.string()?.to_owned(),
        ts_ms: r.long()?,
        commit_ts_ms: r.long()?,
        due_ms: r.long()?,
        tables: BTreeMap::new(),
        waiting: BTreeSet::new(),
    };
    for (topic, table) in parse::<BTreeMap<String, Option<TableProgress>>>(r.string()?)? {
        match table {
            Some(table) => drop(progress.tables.insert(topic, table)),
            None => drop(progress.waiting.insert(topic)),
        }
    }
    Ok(progress)
}
