//! What travels in the topics besides rows: schema-version events and the source's progress.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    change::SchemaChange,
    table::{Table, TableId},
};

/// Counts the statements that change a shape or empty a table; 1 is the pipeline's first event.
pub type Epoch = u64;
/// Numbers every row event of a pipeline in publication order.
pub type Seq = u64;
/// A place in a lane: the offset of the next record to read.
pub type Offset = u64;
/// A table's schema version, from 1.
pub type Version = u32;

/// Why a schema-version event stands in the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The pipeline's first tables.
    Initial,
    /// A statement of the source.
    Ddl,
    /// Tables begun anew: reload, a table added (again), a keyless copy.
    Reload,
    /// Tables taken out of the configuration.
    Retire,
}

/// One event of the schema-versions topic: a statement that changed shapes, or a reload or removal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchemaEvent {
    /// None where nothing is to be applied anywhere: recorded, but no boundary.
    pub epoch: Option<Epoch>,
    pub kind: EventKind,
    /// The source's position behind the statement, for people and for the source.
    pub position: String,
    /// When the source committed it, in milliseconds since 1970 UTC.
    pub ts_ms: i64,
    /// The statement's text, as the log has it.
    pub ddl: Option<String>,
    pub tables: Vec<TableEvent>,
    /// For one sink only (a reload asked for with `--sink`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_sink: Option<String>,
}

impl SchemaEvent {
    pub fn table(&self, id: &TableId) -> Option<&TableEvent> {
        self.tables.iter().find(|t| t.table.id == *id)
    }
}

/// What a [`SchemaEvent`] says of one table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableEvent {
    /// The full shape behind the event. Under a rename of the table: still under the captured name.
    pub table: Table,
    /// Rows from here on name this version.
    pub version: Version,
    pub changes: Vec<SchemaChange>,
    pub topic: String,
    /// The table's lanes, fixed by its first event.
    pub lanes: u32,
    /// Per lane: every older row lies below, every newer one at or above.
    pub boundaries: Vec<Offset>,
    /// Schema ids of the rows from here on, as the frame carries them.
    pub key_schema: Option<u32>,
    pub value_schema: u32,
    /// The topic's identity at the transport, which one of the same name that was made anew does not have; None where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_id: Option<String>,
    /// Statements that a reload of a source that stood skipped, with their positions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<SkippedStatement>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedStatement {
    pub position: String,
    pub ddl: String,
}

/// Where the source is: written in the transaction of what it has published. `P` is a place in the source's log: text in the
/// topic, the engine's own position in `order::source`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress<P = String> {
    pub pipeline_id: String,
    /// The source's restart position (engine's form).
    pub position: P,
    /// Rows of the group behind `position` that are published already.
    #[serde(default)]
    pub rows_done: u64,
    pub seq: Seq,
    pub epoch: Epoch,
    /// The next operator command to read.
    pub command: Offset,
    /// The captured tables and those retired, by topic. In the topic only those on which something is under way: the others stand as
    /// the newest event left them, see [`Progress::complete`].
    pub tables: BTreeMap<String, TableProgress<P>>,
    /// In the topic: topics of tables whose copy by key, for all sinks, has not begun.
    #[serde(default)]
    pub waiting: BTreeSet<String>,
    pub state: SourceState,
    #[serde(default)]
    pub message: String,
    /// When this was written and when the source committed what it stands at, in milliseconds since 1970 UTC.
    pub ts_ms: i64,
    pub commit_ts_ms: i64,
    /// When the next one is written at the latest, by a source that lives; 0: it has ended.
    pub due_ms: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    Running,
    /// A transient fault is waited out; the message says which.
    Retrying,
    Paused,
    Stopped,
}

/// One table at the source. It is kept when the table is retired, so that its versions and lanes go on when it is added again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableProgress<P = String> {
    pub id: TableId,
    /// 0: no event of this table yet.
    pub version: Version,
    pub topic: String,
    pub lanes: u32,
    #[serde(default)]
    pub retired: bool,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyProgress<P>>,
    /// The table is skipped in the log up to a pinned place, where its reload stands.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub begin: Option<Box<BeginProgress<P>>>,
}

fn none<T>() -> Option<T> {
    None
}

/// A table that begins anew at a place where its shape is pinned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BeginProgress<P = String> {
    pub at: P,
    /// The shape that holds at `at`.
    pub shape: Table,
    /// The statements skipped on the way.
    #[serde(default)]
    pub superseded: Vec<SkippedStatement>,
}

/// A copy that is not complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopyProgress<P = String> {
    /// For one sink only: the copied rows are marked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_sink: Option<String>,
    /// A table without a key: copied as one view, begun again after a crash.
    #[serde(default)]
    pub view: bool,
    /// Chunks planned that do not count yet, in key order. One that counts is taken out.
    pub chunks: Vec<ChunkProgress<P>>,
    /// The upper bound of the last chunk planned, as the source's literals; None: nothing planned yet.
    pub planned_to: Option<Vec<String>>,
    /// No further chunk is to be planned.
    pub all_planned: bool,
    /// Keys to be read again.
    #[serde(default = "Vec::new")]
    pub reread: Vec<RereadProgress<P>>,
    pub rows_done: u64,
    pub rows_estimated: u64,
}

/// A part of a table, by key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChunkProgress<P = String> {
    /// Exclusive lower and inclusive upper bound, as the source's literals; None: open.
    pub above: Option<Vec<String>>,
    pub up_to: Option<Vec<String>>,
    /// The place that the stream must pass before the chunk counts, read after the chunk was read; None: to be read (again).
    pub read_at: Option<P>,
}

/// A single key that is read as a chunk of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RereadProgress<P = String> {
    /// The key's values, as the source's literals.
    pub key: Vec<String>,
    /// As [`ChunkProgress::read_at`].
    pub read_at: Option<P>,
}

impl<P> Progress<P> {
    /// The same with every place turned into another form; the first that cannot be ends it.
    pub fn places<Q, E>(&self, f: &impl Fn(&P) -> Result<Q, E>) -> Result<Progress<Q>, E> {
        let tables = self.tables.iter().map(|(topic, table)| Ok((topic.clone(), table.places(f)?))).collect::<Result<_, E>>()?;
        Ok(self.of_tables(f(&self.position)?, tables, self.waiting.clone()))
    }

    /// The same with only these of its tables.
    pub(crate) fn of_tables<Q>(&self, position: Q, tables: BTreeMap<String, TableProgress<Q>>, waiting: BTreeSet<String>) -> Progress<Q> {
        Progress {
            pipeline_id: self.pipeline_id.clone(),
            position,
            rows_done: self.rows_done,
            seq: self.seq,
            epoch: self.epoch,
            command: self.command,
            tables,
            waiting,
            state: self.state,
            message: self.message.clone(),
            ts_ms: self.ts_ms,
            commit_ts_ms: self.commit_ts_ms,
            due_ms: self.due_ms,
        }
    }

    /// What the topic has, with all tables: those on which nothing is under way stand as the newest of these events left them.
    #[must_use]
    pub fn complete<'e>(mut self, events: impl IntoIterator<Item = &'e SchemaEvent>) -> Self {
        let mut newest = BTreeMap::new();
        for event in events {
            newest.extend(event.tables.iter().map(|part| (&part.topic, (event.kind, part))));
        }
        for (topic, (kind, part)) in newest {
            let copy = self.waiting.remove(topic).then(CopyProgress::default);
            self.tables.entry(topic.clone()).or_insert_with(|| TableProgress {
                id: part.table.id.clone(),
                version: part.version,
                topic: topic.clone(),
                lanes: part.lanes,
                retired: kind == EventKind::Retire,
                copy,
                begin: None,
            });
        }
        self
    }

    /// What is known of a table, retired ones too.
    pub fn table(&self, id: &TableId) -> Option<&TableProgress<P>> {
        self.tables.values().find(|t| t.id == *id)
    }
}

impl<P> TableProgress<P> {
    pub(crate) fn places<Q, E>(&self, f: &impl Fn(&P) -> Result<Q, E>) -> Result<TableProgress<Q>, E> {
        let begin = |b: &BeginProgress<P>| -> Result<_, E> {
            Ok(Box::new(BeginProgress { at: f(&b.at)?, shape: b.shape.clone(), superseded: b.superseded.clone() }))
        };
        Ok(TableProgress {
            id: self.id.clone(),
            version: self.version,
            topic: self.topic.clone(),
            lanes: self.lanes,
            retired: self.retired,
            copy: self.copy.as_ref().map(|copy| copy.places(f)).transpose()?,
            begin: self.begin.as_deref().map(begin).transpose()?,
        })
    }
}

impl<P> Default for CopyProgress<P> {
    /// One by key, for all sinks, that has not begun.
    fn default() -> Self {
        Self {
            for_sink: None,
            view: false,
            chunks: Vec::new(),
            planned_to: None,
            all_planned: false,
            reread: Vec::new(),
            rows_done: 0,
            rows_estimated: 0,
        }
    }
}

impl<P> CopyProgress<P> {
    fn places<Q, E>(&self, f: &impl Fn(&P) -> Result<Q, E>) -> Result<CopyProgress<Q>, E> {
        let chunk = |c: &ChunkProgress<P>| -> Result<_, E> {
            Ok(ChunkProgress { above: c.above.clone(), up_to: c.up_to.clone(), read_at: c.read_at.as_ref().map(f).transpose()? })
        };
        let reread = |r: &RereadProgress<P>| -> Result<_, E> {
            Ok(RereadProgress { key: r.key.clone(), read_at: r.read_at.as_ref().map(f).transpose()? })
        };
        Ok(CopyProgress {
            for_sink: self.for_sink.clone(),
            view: self.view,
            chunks: self.chunks.iter().map(chunk).collect::<Result<_, E>>()?,
            planned_to: self.planned_to.clone(),
            all_planned: self.all_planned,
            reread: self.reread.iter().map(reread).collect::<Result<_, E>>()?,
            rows_done: self.rows_done,
            rows_estimated: self.rows_estimated,
        })
    }
}
