//! What an engine must do to be a source. `capture` drives all of them.

use std::{fmt::Debug, future::Future};

use schemas::{
    change::SchemaChange,
    table::{Table, TableId},
    wire::{envelope::Op, row::RowSchema},
};

use crate::error::CaptureError;

/// One row event, encoded: images are the row's Avro fields in the order of the version's [`RowSchema`].
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub op: Op,
    /// Avro bytes of the key, without frame; empty for a table without a row key.
    pub key: &'a [u8],
    pub before: Option<&'a [u8]>,
    pub after: Option<&'a [u8]>,
    /// Names of columns whose bytes in the image are a filler.
    pub absent_before: &'a [&'a str],
    pub absent_after: &'a [&'a str],
}

/// Takes rows as an engine encodes them. A key change arrives as a delete under the old key and a create under the new one.
pub trait RowSink {
    fn row(&mut self, row: Row<'_>) -> Result<(), CaptureError>;

    /// All that comes of one row of the source is taken: what came up to here may be published without what follows.
    fn end(&mut self) {}

    /// Whether it holds as much as it should: a reader of a copy gives it no further row.
    fn full(&self) -> bool {
        false
    }
}

/// A table as it is published: rows of `shape` (the engine's physical order) are encoded in the order of `rows`.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The physical shape at the stream's position.
    pub shape: Table,
    /// The fields of the published version. Its columns are matched to `shape` by [`schemas::table::ColumnId`].
    pub rows: RowSchema,
}

/// A statement that changes shapes or empties tables, wholly understood.
#[derive(Debug, Clone)]
pub struct Statement<P> {
    /// Where the stream goes on behind it.
    pub position: P,
    pub ts_ms: i64,
    pub ddl: String,
    pub tables: Vec<StatementTable>,
}

/// What a statement does to one captured table.
#[derive(Debug, Clone)]
pub struct StatementTable {
    pub id: TableId,
    /// The shape behind the statement; of a dropped or renamed table, the last one.
    pub shape: Table,
    pub changes: Vec<SchemaChange>,
}

/// What the log says next, in the source's order.
#[derive(Debug)]
pub enum Entry<P, R> {
    /// Rows of one table, not decoded yet: [`Stream::rows`] encodes them.
    Rows {
        table: TableId,
        rows: R,
        position: String,
        transaction: Option<String>,
        ts_ms: i64,
    },
    /// A transaction ended; the stream can be restarted from here.
    Commit {
        position: P,
        ts_ms: i64,
    },
    /// Nothing to publish, but the position moved (other tables, heartbeats). Several may be told as one; before the rows of a group
    /// the end of the group before it is always told.
    Idle {
        position: P,
        ts_ms: i64,
    },
    Statement(Statement<P>),
    /// The stream stands before a statement or row that it does not understand: nothing behind it is read until a way out is
    /// taken. `tables` are those it may touch.
    Stand {
        position: P,
        ddl: Option<String>,
        tables: Vec<TableId>,
        message: String,
    },
}

/// A change stream. Dropping it ends it.
pub trait Stream: Send {
    type Position: Position;
    type Rows: Send + Debug;

    /// Waits for the next entry. Cancel safe.
    fn next(&mut self) -> impl Future<Output = Result<Entry<Self::Position, Self::Rows>, CaptureError>> + Send;

    /// Whether something came that may be another entry; where not, what is published so far is committed at once.
    fn has_next(&self) -> bool;

    /// Encodes the rows of an entry, skipping the first `skip`. Returns how many there were.
    fn rows(&mut self, rows: Self::Rows, skip: u64, table: &Published, out: &mut impl RowSink) -> Result<u64, CaptureError>;

    /// Tells the stream which tables are captured from here on, and their shapes; it follows DDL on them itself.
    fn capture(&mut self, tables: Vec<Table>);
    /// Takes a table out.
    fn release(&mut self, table: &TableId);
    /// Passes over the statement that the stream stands at, for these tables: they are skipped up to `until`, where `shape` holds.
    fn skip(&mut self, table: Table, until: Self::Position);
}

/// A place in an engine's log. Its text form is kept in the progress topic.
pub trait Position: Clone + Debug + PartialEq + Send + Sync + std::fmt::Display + 'static {
    fn parse(text: &str) -> Result<Self, CaptureError>;
    /// Whether everything up to `other` lies at or before this place.
    fn reached(&self, other: &Self) -> bool;
}

/// Something that keeps the source from working, with the way to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// False: a warning.
    pub fatal: bool,
    /// What is wrong and where: server, table, column, setting.
    pub what: String,
    /// What to do.
    pub remedy: String,
    /// The statements that do it at the source, in this order; none where it is not done by statements.
    pub sql: Vec<String>,
}

/// Bounds of a chunk in key order, exclusive below, inclusive above, as the server's own literals.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bounds {
    pub above: Option<Vec<String>>,
    pub up_to: Option<Vec<String>>,
}

/// What a chunk's reading found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk<P> {
    /// The chunk counts when the stream has passed this place without a change of the table.
    Read { rows: u64, read_at: P },
    /// The sink was full before the chunk's end, after so many rows: none of them counts, and the chunk is read in smaller parts.
    Full { rows: u64 },
    /// The table does not have the expected shape now: read again after the stream has met the change.
    OtherShape,
}

/// What a table's namespace is in an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespace {
    Database,
    Schema,
}

/// A source database.
pub trait Engine: Send + Sync + Sized + 'static {
    const NAME: &'static str;
    const NAMESPACE: Namespace = Namespace::Database;
    type Position: Position;
    type Stream: Stream<Position = Self::Position>;
    type Reader: ChunkReader<Position = Self::Position>;

    /// Connects and takes the lock that keeps a second source of this pipeline out.
    fn lock(&mut self, pipeline: &str) -> impl Future<Output = Result<(), CaptureError>> + Send;

    /// Lists everything that is wrong with the server, the rights and the tables. Changes nothing.
    fn preflight(&mut self) -> impl Future<Output = Result<Vec<Problem>, CaptureError>> + Send;

    /// The shapes of these tables and a position at which they hold: no DDL of them can stand between the two.
    fn pinned(&mut self, tables: &[TableId]) -> impl Future<Output = Result<(Self::Position, Vec<Table>), CaptureError>> + Send;

    /// The same at a place where a new stream may begin: no transaction whose rows lie before it is decided behind it, unless the
    /// position says so.
    fn beginning(&mut self, tables: &[TableId]) -> impl Future<Output = Result<(Self::Position, Vec<Table>), CaptureError>> + Send {
        self.pinned(tables)
    }

    /// The end of the log now, to be compared with: everything committed lies before it.
    fn end(&mut self) -> impl Future<Output = Result<(Self::Position, i64), CaptureError>> + Send;

    /// Opens the stream at a position, with the shapes that hold there.
    fn stream(&self, from: &Self::Position, tables: Vec<Table>) -> impl Future<Output = Result<Self::Stream, CaptureError>> + Send;

    /// A connection that reads chunks.
    fn reader(&self) -> impl Future<Output = Result<Self::Reader, CaptureError>> + Send;
}

/// Reads a table by key, for the copy.
pub trait ChunkReader: Send {
    type Position: Position;

    /// An estimate of the table's rows.
    fn estimate(&mut self, table: &Table) -> impl Future<Output = Result<u64, CaptureError>> + Send;

    /// The key of the row `rows` places after the lower bound, in the server's order; None where fewer are left up to the upper one.
    fn bound(
        &mut self,
        table: &Table,
        within: &Bounds,
        rows: u64,
    ) -> impl Future<Output = Result<Option<Vec<String>>, CaptureError>> + Send;

    /// Reads a chunk in a view that covers `at`, waiting until the server shows one. Ends early where `out` is full and there is
    /// another row.
    fn read(
        &mut self,
        table: &Published,
        bounds: &Bounds,
        at: &Self::Position,
        out: &mut (impl RowSink + Send),
    ) -> impl Future<Output = Result<Chunk<Self::Position>, CaptureError>> + Send;

    /// For tables without a key: opens one consistent view and tells where it stands. [`Self::view_rows`] reads it in parts.
    fn view(&mut self, table: &Table) -> impl Future<Output = Result<Option<Self::Position>, CaptureError>> + Send;

    /// Reads up to `limit` further rows of the open view, fewer where `out` is full; false at its end.
    fn view_rows(
        &mut self,
        table: &Published,
        limit: u64,
        out: &mut (impl RowSink + Send),
    ) -> impl Future<Output = Result<bool, CaptureError>> + Send;
}
