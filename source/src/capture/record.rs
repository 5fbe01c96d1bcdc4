//! Rows on their way into topics: the engine's images become envelopes here.
//!
//! A batch (one entry of the log, one chunk of a copy) is staged whole before it is published; of one that holds a row that cannot be
//! read only the rows before that one are. Epoch and seq are put in when it is published.

use std::time::{SystemTime, UNIX_EPOCH};

use schemas::{
    event::{Epoch, Seq},
    wire::{
        codec::put_frame,
        envelope::{Op, Source, put_head, put_image, put_source, put_tail},
        lane::lane,
    },
};

use super::shape::Captured;
use crate::{
    engine::{Namespace, Row, RowSink},
    error::CaptureError,
    publisher::Publisher,
};

/// Milliseconds since 1970 UTC.
pub(super) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// Where a batch's rows come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub engine: &'static str,
    pub namespace: Namespace,
    pub position: &'a str,
    pub transaction: Option<&'a str>,
    pub ts_ms: i64,
    pub snapshot: bool,
    pub copying: bool,
    pub for_sink: Option<&'a str>,
}

/// Staged records of one table.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Of each record: the framed key, then everything of the value behind epoch and seq.
    bytes: Vec<u8>,
    records: Vec<Staged>,
    /// The encoded `source` that the batch's rows share.
    source: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Staged {
    key: u32,
    rest: u32,
    lane: u32,
}

impl Batch {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets what was staged behind the rows that are whole.
    pub fn keep(&mut self, whole: Whole) {
        self.records.truncate(whole.records);
    }

    /// Begins a batch: rows written to what this returns are those of `table`.
    pub fn writer<'a>(&'a mut self, table: &'a Captured, origin: &Origin<'_>) -> Writer<'a> {
        self.clear();
        self.source.clear();
        table.put_source(&mut self.source, origin);
        Writer { batch: self, table, ts_ms: now_ms(), partial: false, whole: Whole::default(), too_large: None, limit: usize::MAX }
    }

    /// Puts the staged records from `from` on into the publisher's transaction, each numbered by `seq`. Stops where `full` says so;
    /// returns how far it came.
    pub fn publish<P: Publisher>(
        &mut self,
        table: &Captured,
        from: Cursor,
        epoch: Epoch,
        mut seq: impl FnMut() -> Seq,
        publisher: &mut P,
        full: impl Fn((usize, usize)) -> bool,
    ) -> Result<Cursor, CaptureError> {
        let Cursor { mut record, mut offset } = from;
        for staged in self.records.iter().skip(record) {
            if full(publisher.pending()) {
                break;
            }
            let (key, rest) = (staged.key as usize, staged.rest as usize);
            let Some(bytes) = self.bytes.get(offset..offset + key + rest) else {
                return Err(CaptureError::Transport(format!("a staged record of {} ends early", table.id())));
            };
            self.value.clear();
            put_head(&mut self.value, table.value_schema, epoch, seq());
            self.value.extend_from_slice(&bytes[key..]);
            publisher.produce(table.topic, staged.lane, (key > 0).then_some(&bytes[..key]), &self.value)?;
            record += 1;
            offset += key + rest;
        }
        Ok(Cursor { record, offset })
    }
}

/// How much of a batch is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cursor {
    pub record: usize,
    offset: usize,
}

/// How much of a batch is staged whole: rows of the source, and records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Whole {
    pub rows: u64,
    records: usize,
}

/// Epoch and seq at their longest, and the frame.
const HEAD: usize = 25;

/// Stages the rows of one batch.
pub(super) struct Writer<'a> {
    batch: &'a mut Batch,
    table: &'a Captured,
    ts_ms: i64,
    /// A row was created without all of its columns: a key change whose old row has the rest.
    pub partial: bool,
    pub whole: Whole,
    /// The size of the row that was refused, for the topic does not take as much.
    pub too_large: Option<usize>,
    /// Bytes at which it is full.
    limit: usize,
}

impl Writer<'_> {
    fn refuse(&mut self, size: usize, row: &Row<'_>) -> CaptureError {
        self.too_large = Some(size);
        let fields = &self.table.published.rows.key;
        let key = crate::key::text(fields.iter().map(|f| (f.name.as_str(), &f.repr, f.nullable)), row.key);
        CaptureError::Blocked {
            message: format!(
                "{}, row {key}: its record of {size} bytes is larger than its topic {} takes ({} bytes): raise max.message.bytes of the topic \
                 (and of the broker's replicas); the source then goes on by itself",
                self.table.id(),
                self.table.topic_name,
                self.table.largest
            ),
        }
    }

    /// With so many bytes staged it is full; the row that reaches them is taken whole.
    pub fn within(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }
}

impl RowSink for Writer<'_> {
    fn full(&self) -> bool {
        self.batch.bytes.len() >= self.limit
    }

    fn row(&mut self, row: Row<'_>) -> Result<(), CaptureError> {
        let bytes = &mut self.batch.bytes;
        let start = bytes.len();
        if let Some(schema) = self.table.key_schema {
            put_frame(bytes, schema);
            bytes.extend_from_slice(row.key);
        }
        let key = bytes.len() - start;
        for image in [row.before, row.after] {
            put_image(bytes, image.is_some());
            bytes.extend_from_slice(image.unwrap_or_default());
        }
        put_tail(bytes, row.op, &self.batch.source, row.absent_before, row.absent_after, self.ts_ms);
        let rest = bytes.len() - start - key;
        let lane = if self.table.spreads { lane(row.key, self.table.lanes) } else { 0 };
        let (Ok(key), Ok(rest)) = (u32::try_from(key), u32::try_from(rest)) else {
            return Err(CaptureError::Stop { message: format!("a row of {} is larger than 4 GiB", self.table.id()) });
        };
        let size = (key + rest) as usize + HEAD;
        if size > self.table.largest {
            return Err(self.refuse(size, &row));
        }
        self.partial |= row.op == Op::Create && !row.absent_after.is_empty();
        self.batch.records.push(Staged { key, rest, lane });
        Ok(())
    }

    fn end(&mut self) {
        self.whole.rows += 1;
        self.whole.records = self.batch.records.len();
    }
}

impl Captured {
    pub(super) fn put_source(&self, out: &mut Vec<u8>, origin: &Origin<'_>) {
        let id = self.id();
        let (database, schema) = match origin.namespace {
            Namespace::Database => (Some(id.namespace.as_str()), None),
            Namespace::Schema => (None, Some(id.namespace.as_str())),
        };
        put_source(
            out,
            &Source {
                engine: origin.engine,
                database,
                schema,
                table: &id.name,
                position: origin.position,
                transaction: origin.transaction,
                ts_ms: origin.ts_ms,
                schema_version: self.version,
                snapshot: origin.snapshot,
                copying: origin.copying,
                for_sink: origin.for_sink,
            },
        );
    }
}
