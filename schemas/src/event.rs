//! What travels in the topics besides rows: schema-version events and the source's progress.

use std::collections::BTreeMap;

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
    /// Statements that a reload of a source that stood skipped, with their positions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<SkippedStatement>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedStatement {
    pub position: String,
    pub ddl: String,
}

/// Where the source is: written in the transaction of what it has published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub pipeline_id: String,
    /// The source's restart position (engine's form).
    pub position: String,
    /// Rows of the group behind `position` that are published already.
    #[serde(default)]
    pub rows_done: u64,
    pub seq: Seq,
    pub epoch: Epoch,
    /// The next operator command to read.
    pub command: Offset,
    /// The captured tables and their copies.
    pub tables: BTreeMap<String, TableProgress>,
    pub state: SourceState,
    #[serde(default)]
    pub message: String,
    /// When this was written and when the source committed what it stands at, in milliseconds since 1970 UTC.
    pub ts_ms: i64,
    pub commit_ts_ms: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    Running,
    Paused,
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableProgress {
    pub id: TableId,
    pub version: Version,
    pub topic: String,
    pub lanes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyProgress>,
}

/// A copy that is not complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopyProgress {
    /// Chunks read: the position the stream must pass before each counts.
    pub chunks: Vec<ChunkProgress>,
    /// The upper bound of the last chunk planned, as the source's literals; None: nothing planned yet.
    pub planned_to: Option<Vec<String>>,
    /// No further chunk is to be planned.
    pub all_planned: bool,
    /// Keys to be read again, as the source's literals.
    #[serde(default)]
    pub reread: Vec<Vec<String>>,
    pub rows_done: u64,
    pub rows_estimated: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChunkProgress {
    /// Exclusive lower and inclusive upper bound, as the source's literals; None: open.
    pub above: Option<Vec<String>>,
    pub up_to: Option<Vec<String>>,
    /// The position read after the chunk was read.
    pub read_at: String,
}
