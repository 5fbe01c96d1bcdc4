//! A source that follows the protocol: rows into lanes, boundaries read before each event. It keeps what the tables must become.

use std::collections::BTreeMap;

use runtime::log::{Keep, Log, LogOptions, Topic};
use schemas::{
    change::{Fill, SchemaChange},
    command::Command,
    event::{Epoch, EventKind, Progress, SchemaEvent, Seq, SourceState, TableEvent, TableProgress, Version},
    native::{Native, postgres},
    table::{Column, Table, TableId},
    types::Repr,
    value::Value,
    wire::{
        avro::{event_schema, key_schema, progress_schema, value_schema},
        codec::{put_bytes, put_frame, put_int, put_long, put_null, put_some},
        envelope::{Op, Source as Origin, put_head, put_image, put_source, put_tail},
        event::{put_event, put_progress},
        lane::lane,
        names,
        row::{Field, RowSchema},
    },
};

use super::Row;

pub fn int(id: u32, name: &str) -> Column {
    Column::new(id, name, Native::Postgres(postgres::Native::Integer))
}

pub fn text(id: u32, name: &str) -> Column {
    Column::new(id, name, Native::Postgres(postgres::Native::Text))
}

/// `id` (key), `n`, `note`.
pub fn orders(name: &str) -> Table {
    Table::new(TableId::new("shop", name), vec![int(0, "id").not_null(), int(1, "n"), text(2, "note")], &["id"])
}

pub struct Captured {
    pub table: Table,
    pub version: Version,
    pub topic: Topic,
    pub value_schema: u32,
    pub key_schema: Option<u32>,
    /// What the target must hold in the end: by key.
    pub rows: BTreeMap<i64, Row>,
}

pub struct Source {
    pub log: Log,
    pub prefix: String,
    pub epoch: Epoch,
    pub seq: Seq,
    pub tables: BTreeMap<String, Captured>,
    pub lanes: u32,
    /// Of topics whose identity is told, by table.
    pub topic_ids: BTreeMap<String, String>,
}

fn put_value(out: &mut Vec<u8>, field: &Field, value: &Value) {
    if field.nullable {
        if *value == Value::Null {
            return put_null(out);
        }
        put_some(out);
    }
    match (&field.repr, value) {
        (Repr::Int, Value::Integer(i)) => put_int(out, i32::try_from(*i).unwrap()),
        (Repr::Long, Value::Integer(i)) => put_long(out, i64::try_from(*i).unwrap()),
        (Repr::String, Value::Text(text)) => put_bytes(out, text.as_bytes()),
        other => panic!("{other:?}"),
    }
}

fn encode(fields: &[Field], row: &Row) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        put_value(&mut out, field, &row[&field.column]);
    }
    out
}

impl Source {
    pub fn new(path: &std::path::Path, lanes: u32) -> Self {
        let log = Log::open(path, LogOptions { partitions: lanes, ..LogOptions::default() }).unwrap();
        Self { log, prefix: "shop".into(), epoch: 0, seq: 0, tables: BTreeMap::new(), lanes, topic_ids: BTreeMap::new() }
    }

    pub fn id(&self, name: &str) -> TableId {
        self.tables[name].table.id.clone()
    }

    /// The pipeline's first event.
    pub fn initial(&mut self, tables: Vec<Table>) {
        self.begin(EventKind::Initial, tables, None);
    }

    /// Tables begun anew at their present shape; the rows that are there come by a copy.
    pub fn reload(&mut self, names: &[&str]) {
        self.copy(names, None);
    }

    /// The same for one sink alone.
    pub fn reload_for(&mut self, sink: &str, names: &[&str]) {
        self.copy(names, Some(sink));
    }

    fn copy(&mut self, names: &[&str], sink: Option<&str>) {
        let tables = names.iter().map(|name| self.tables[*name].table.clone()).collect();
        self.begin(EventKind::Reload, tables, sink.map(str::to_owned));
        for name in names {
            for row in self.tables[*name].rows.values().cloned().collect::<Vec<_>>() {
                self.publish(name, Op::Read, None, Some(&row), &[], sink);
            }
        }
    }

    /// What sinks have asked for.
    pub fn commands(&self) -> Vec<Command> {
        let Some(topic) = self.log.find(&names::commands(&self.prefix)) else { return Vec::new() };
        self.log.records(&topic, 0, 0, 1 << 20).unwrap().iter().map(|r| Command::parse(r.value).unwrap()).collect()
    }

    pub fn begin(&mut self, kind: EventKind, tables: Vec<Table>, for_sink: Option<String>) {
        let mut parts = Vec::new();
        for table in tables {
            let name = table.id.name.clone();
            let lanes = if table.row_key().is_some() { self.lanes } else { 1 };
            let topic = self.log.topic(&names::topic(&self.prefix, &table.id), Some(lanes), Keep::Retention).unwrap();
            let known = self.tables.remove(&name);
            let (version, rows) = known.map_or((0, BTreeMap::new()), |k| (k.version, k.rows));
            self.tables.insert(name.clone(), Captured { table: table.clone(), version, topic, value_schema: 0, key_schema: None, rows });
            parts.push(self.part(&name, table, Vec::new()));
        }
        self.event(kind, None, parts, for_sink);
    }

    pub fn retire(&mut self, name: &str) {
        let table = self.tables[name].table.clone();
        let part = self.part(name, table, Vec::new());
        self.event(EventKind::Retire, None, vec![part], None);
    }

    /// A statement over some tables: their shapes behind it, and the changes.
    pub fn ddl(&mut self, ddl: &str, tables: Vec<(Table, Vec<SchemaChange>)>) {
        let parts = tables.into_iter().map(|(table, changes)| self.part(&table.id.name.clone(), table, changes)).collect();
        self.event(EventKind::Ddl, Some(ddl), parts, None);
    }

    fn part(&mut self, name: &str, table: Table, changes: Vec<SchemaChange>) -> TableEvent {
        let captured = self.tables.get_mut(name).unwrap();
        captured.version += 1;
        captured.table = table.clone();
        let topic = captured.topic.name.to_string();
        captured.value_schema = self.log.register(&format!("{topic}-value"), &value_schema(&topic, &table)).unwrap();
        captured.key_schema = key_schema(&topic, &table).map(|schema| self.log.register(&format!("{topic}-key"), &schema).unwrap());
        TableEvent {
            version: captured.version,
            changes,
            lanes: captured.topic.lanes,
            boundaries: self.log.ends(&captured.topic),
            key_schema: captured.key_schema,
            value_schema: captured.value_schema,
            topic_id: self.topic_ids.get(name).cloned(),
            superseded: Vec::new(),
            topic,
            table,
        }
    }

    fn event(&mut self, kind: EventKind, ddl: Option<&str>, tables: Vec<TableEvent>, for_sink: Option<String>) {
        self.epoch += 1;
        let event = SchemaEvent {
            epoch: Some(self.epoch),
            kind,
            position: format!("log:{}", self.epoch),
            ts_ms: 1_700_000_000_000 + i64::try_from(self.epoch).unwrap(),
            ddl: ddl.map(Into::into),
            tables,
            for_sink,
        };
        self.publish_event(&event);
    }

    pub fn publish_event(&self, event: &SchemaEvent) {
        let topic = self.log.topic(&names::versions(&self.prefix), Some(1), Keep::Forever).unwrap();
        let schema = self.log.register(&format!("{}-value", names::versions(&self.prefix)), &event_schema()).unwrap();
        let mut value = Vec::new();
        put_event(&mut value, schema, event);
        let mut transaction = self.log.begin();
        transaction.append(&topic, 0, None, &value).unwrap();
        transaction.commit().unwrap();
    }

    pub fn progress(&self, commit_ts_ms: i64, ts_ms: i64) -> Progress {
        let tables = self
            .tables
            .values()
            .map(|c| {
                let progress = TableProgress {
                    id: c.table.id.clone(),
                    version: c.version,
                    topic: c.topic.name.to_string(),
                    lanes: c.topic.lanes,
                    retired: false,
                    copy: None,
                    begin: None,
                };
                (c.topic.name.to_string(), progress)
            })
            .collect();
        let progress = Progress {
            pipeline_id: "p".into(),
            position: format!("log:{}", self.epoch),
            rows_done: 0,
            seq: self.seq,
            epoch: self.epoch,
            command: 0,
            tables,
            waiting: Default::default(),
            state: SourceState::Running,
            message: String::new(),
            ts_ms,
            commit_ts_ms,
            due_ms: i64::MAX,
        };
        let topic = self.log.topic(&names::progress(&self.prefix), Some(1), Keep::Newest).unwrap();
        let schema = self.log.register(&format!("{}-value", names::progress(&self.prefix)), &progress_schema()).unwrap();
        let mut value = Vec::new();
        put_progress(&mut value, schema, &progress);
        let mut transaction = self.log.begin();
        transaction.append(&topic, 0, None, &value).unwrap();
        transaction.commit().unwrap();
        progress
    }

    /// A row of named values; what is not named is NULL.
    pub fn row(&self, name: &str, values: &[(&str, Value)]) -> Row {
        let table = &self.tables[name].table;
        let named = |column: &str| values.iter().find(|(n, _)| *n == column).map_or(Value::Null, |(_, v)| v.clone());
        table.columns.iter().map(|c| (c.id, named(&c.name))).collect()
    }

    /// Inserts or updates, at the source and in the topic.
    pub fn put(&mut self, name: &str, id: i64, values: &[(&str, Value)]) {
        let mut all = vec![("id", Value::Integer(id.into()))];
        all.extend(values.iter().cloned());
        let row = self.row(name, &all);
        let before = self.tables.get_mut(name).unwrap().rows.insert(id, row.clone());
        let op = if before.is_some() { Op::Update } else { Op::Create };
        self.publish(name, op, before.as_ref(), Some(&row), &[], None);
    }

    pub fn delete(&mut self, name: &str, id: i64) {
        if let Some(row) = self.tables.get_mut(name).unwrap().rows.remove(&id) {
            self.publish(name, Op::Delete, Some(&row), None, &[], None);
        }
    }

    pub fn publish(&mut self, name: &str, op: Op, before: Option<&Row>, after: Option<&Row>, absent: &[&str], for_sink: Option<&str>) {
        self.seq += 1;
        let captured = &self.tables[name];
        let rows = RowSchema::new(&captured.table);
        let mut source = Vec::new();
        let origin = Origin {
            engine: "mysql",
            database: Some("shop"),
            schema: None,
            table: name,
            position: "log",
            transaction: None,
            ts_ms: 1_700_000_000_000,
            schema_version: captured.version,
            snapshot: op == Op::Read,
            copying: op == Op::Read,
            for_sink,
        };
        put_source(&mut source, &origin);
        let mut value = Vec::new();
        put_head(&mut value, captured.value_schema, self.epoch, self.seq);
        for image in [before, after] {
            put_image(&mut value, image.is_some());
            if let Some(row) = image {
                value.extend(encode(&rows.fields, row));
            }
        }
        put_tail(&mut value, op, &source, &[], absent, 0);
        let key = encode(&rows.key, after.or(before).unwrap());
        let number = lane(&key, captured.topic.lanes);
        let mut framed = Vec::new();
        put_frame(&mut framed, captured.key_schema.unwrap_or(0));
        framed.extend(key);
        let mut transaction = self.log.begin();
        let framed = captured.key_schema.map(|_| framed.as_slice());
        transaction.append(&captured.topic, number, framed, &value).unwrap();
        transaction.commit().unwrap();
    }

    /// `ALTER TABLE … ADD COLUMN name INT DEFAULT fill`.
    pub fn add_column(&mut self, name: &str, column: &str, fill: i64) {
        let mut table = self.tables[name].table.clone();
        let added = int(table.next_column, column);
        table.next_column += 1;
        table.columns.push(added.clone());
        for row in self.tables.get_mut(name).unwrap().rows.values_mut() {
            row.insert(added.id, Value::Integer(fill.into()));
        }
        let change = SchemaChange::AddColumn { column: added, fill: Fill::Constant(Value::Integer(fill.into())) };
        self.ddl(&format!("ALTER TABLE {name} ADD COLUMN {column} INT DEFAULT {fill}"), vec![(table, vec![change])]);
    }

    pub fn rename_column(&mut self, name: &str, from: &str, to: &str) {
        let mut table = self.tables[name].table.clone();
        let column = table.columns.iter_mut().find(|c| c.name == from).unwrap();
        column.name = to.into();
        let change = SchemaChange::RenameColumn { from: from.into(), column: column.clone(), in_key: false };
        self.ddl(&format!("ALTER TABLE {name} RENAME COLUMN {from} TO {to}"), vec![(table, vec![change])]);
    }

    pub fn drop_column(&mut self, name: &str, column: &str) {
        let mut table = self.tables[name].table.clone();
        let dropped = table.column(column).unwrap().clone();
        table.columns.retain(|c| c.id != dropped.id);
        for row in self.tables.get_mut(name).unwrap().rows.values_mut() {
            row.remove(&dropped.id);
        }
        let change = SchemaChange::DropColumn { column: dropped, in_key: false };
        self.ddl(&format!("ALTER TABLE {name} DROP COLUMN {column}"), vec![(table, vec![change])]);
    }

    pub fn truncate(&mut self, name: &str) {
        let captured = self.tables.get_mut(name).unwrap();
        captured.rows.clear();
        let table = captured.table.clone();
        self.ddl(&format!("TRUNCATE TABLE {name}"), vec![(table, vec![SchemaChange::TruncateTable])]);
    }

    /// The table's rows as a target must show them.
    pub fn expected(&self, name: &str) -> Vec<BTreeMap<String, Value>> {
        let captured = &self.tables[name];
        let mut rows: Vec<_> = captured
            .rows
            .values()
            .map(|row| row.iter().map(|(id, v)| (captured.table.by_id(*id).unwrap().name.clone(), v.clone())).collect())
            .collect();
        sort(&mut rows);
        rows
    }
}

pub fn sort(rows: &mut [BTreeMap<String, Value>]) {
    rows.sort_by_key(|row| match row["id"] {
        Value::Integer(i) => i,
        ref other => panic!("{other:?}"),
    });
}
