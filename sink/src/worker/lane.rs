//! One lane of a worker: where it stands, and what the next batch takes from it.

use std::sync::Arc;

use runtime::config::Keyless;
use schemas::{
    event::{Epoch, Offset, Seq, Version},
    order::{
        cursor::Cursor,
        ledger::{Lane, LanePosition},
        protection::Protections,
        sink::{Admission, admit},
    },
    wire::{
        WireError,
        codec::{FRAME, Reader},
        envelope::{Head, Op},
    },
};

use crate::{
    batch::{Fold, FoldError},
    consumer::{Block, Record},
    row::Decoder,
    shared::View,
    target::LaneMove,
    versions::Current,
};

/// Bytes a row is taken to have before any was seen.
const ROW_BYTES: usize = 512;

/// A lane and its reader's state.
#[derive(Debug)]
pub(super) struct LaneState {
    pub lane: Lane,
    pub topic: Arc<str>,
    cursor: Cursor,
    seq: Seq,
    epoch: Epoch,
    /// The epoch stored with the cursor's position.
    stored_epoch: Epoch,
    decoder: Decoder,
    /// Whether every row of this version so far was one of the copy that began it.
    fresh: (Version, bool),
    /// Set while a row is looked for that cannot be applied: the lane is flushed alone, at most so many rows at a time.
    pub limit: Option<usize>,
    /// The view under which the next row waits: nothing is read until there is a newer one.
    pub parked: Option<u64>,
    /// The view and offset at which the lane could not go on, and its stored position was read again.
    read_again: Option<(u64, Offset)>,
    row_bytes: usize,
    /// Which turn of this instance at the lane its positions are of.
    pub turn: Option<u64>,
}

/// Why a lane's part of a batch ends.
#[derive(Debug)]
pub(super) enum End {
    /// All that was fetched is in; `more`: there were rows, so more may be there.
    Fetched { more: bool },
    /// The next row waits for a decision or a hold.
    Waits,
    /// The limit is reached.
    Limit,
    /// The topic does not have the next rows any more.
    Lost { message: String },
    /// The next row is of a version that its target table does not have.
    OtherVersion { epoch: Epoch, version: Option<Version> },
    /// The next row cannot join.
    Refused { epoch: Epoch, error: FoldError },
}

/// The folds of one batch: one per table.
#[derive(Debug, Default)]
pub(super) struct Folds<'b> {
    pub tables: Vec<(Fold<'b>, bool)>,
    pub rows: usize,
}

impl<'b> Folds<'b> {
    fn of(&mut self, current: &Arc<Current>, keyless: Keyless) -> &mut (Fold<'b>, bool) {
        let at = self.tables.iter().position(|(fold, _)| Arc::ptr_eq(fold.version(), &current.version)).unwrap_or_else(|| {
            self.tables.push((Fold::new(current.version.clone(), current.layout.clone(), keyless), true));
            self.tables.len() - 1
        });
        &mut self.tables[at]
    }
}

impl LaneState {
    pub fn new(lane: Lane, topic: Arc<str>, sink: &str, at: LanePosition) -> Self {
        Self {
            lane,
            topic,
            cursor: Cursor::new(at.position, Protections::ALL),
            seq: at.seq,
            epoch: at.epoch,
            stored_epoch: at.epoch,
            decoder: Decoder::new(sink),
            fresh: (0, false),
            limit: None,
            parked: None,
            read_again: None,
            row_bytes: ROW_BYTES,
            turn: None,
        }
    }

    pub fn stored(&self) -> Offset {
        self.cursor.stored()
    }

    pub fn next(&self) -> Offset {
        self.cursor.next()
    }

    /// Bytes to fetch for so many rows.
    pub fn bytes_for(&self, rows: usize) -> usize {
        rows.min(self.limit.unwrap_or(usize::MAX)).saturating_mul(self.row_bytes)
    }

    /// The epoch of the last row taken, or stored.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether the lane stands here under this view for the first time.
    pub fn first_time(&mut self, view: u64) -> bool {
        let here = Some((view, self.next()));
        std::mem::replace(&mut self.read_again, here) != here
    }

    /// Offsets that the next flush moves over, at most that many rows.
    pub fn rows(&self) -> usize {
        usize::try_from(self.next().saturating_sub(self.stored())).unwrap_or(usize::MAX)
    }

    /// Begins anew at the stored position.
    pub fn moved(&mut self, at: LanePosition) {
        self.cursor.moved(at.position);
        (self.seq, self.epoch, self.stored_epoch) = (at.seq, at.epoch, at.epoch);
        self.fresh = (0, false);
    }

    /// The flush was committed.
    pub fn committed(&mut self) {
        if self.cursor.pending().is_some() {
            self.stored_epoch = self.epoch;
        }
        self.cursor.committed();
    }

    /// What the flush has to store, if anything moved.
    pub fn pending(&self) -> Option<LaneMove> {
        let (from, position) = self.cursor.pending()?;
        Some(LaneMove { lane: self.lane.clone(), from, from_epoch: self.stored_epoch, to: LanePosition { position, seq: self.seq, epoch: self.epoch } })
    }

    /// Takes what is admitted of a block into the batch.
    pub fn take<'b, B: Block>(&mut self, block: &'b B, view: &View, keyless: Keyless, folds: &mut Folds<'b>) -> End {
        let current = view.versions.get(&self.lane.table);
        let limit = self.limit.unwrap_or(usize::MAX);
        let mut admitted: Option<(Epoch, Admission)> = None;
        let (mut rows, mut bytes) = (0usize, 0usize);
        for record in block.records() {
            if rows >= limit {
                self.cursor.reached(record.offset);
                return End::Limit;
            }
            let (head, reader) = match Head::read(record.value) {
                Ok(read) => read,
                Err(error) => return self.unreadable(record.offset, self.epoch, error),
            };
            let admission = match admitted {
                Some((epoch, admission)) if epoch == head.epoch => admission,
                Some(_) | None => admit(&view.ledger, &view.events, &self.lane.table, head.epoch),
            };
            admitted = Some((head.epoch, admission));
            let end = match admission {
                Admission::Wait => Some(End::Waits),
                Admission::Skip => None,
                Admission::Apply => match self.fold(record, head, reader, current, keyless, folds) {
                    Ok(end) => end,
                    Err(error) => return self.unreadable(record.offset, head.epoch, error),
                },
            };
            if let Some(end) = end {
                self.cursor.reached(record.offset);
                return end;
            }
            self.cursor.row(record.offset);
            (self.seq, self.epoch) = (head.seq, head.epoch);
            rows += 1;
            bytes += record.value.len() + record.key.map_or(0, <[u8]>::len);
        }
        self.cursor.reached(block.next());
        if let Some(average) = bytes.checked_div(rows) {
            self.row_bytes = average.max(1);
        }
        End::Fetched { more: rows > 0 }
    }

    fn unreadable(&mut self, offset: Offset, epoch: Epoch, error: WireError) -> End {
        self.cursor.reached(offset);
        End::Refused { epoch, error: FoldError::Wire(error) }
    }

    /// Folds one admitted row; Some: it cannot join, and why.
    fn fold<'b>(
        &mut self,
        record: Record<'b>,
        head: Head,
        reader: Reader<'b>,
        current: Option<&Arc<Current>>,
        keyless: Keyless,
        folds: &mut Folds<'b>,
    ) -> Result<Option<End>, WireError> {
        let other = |version| Ok(Some(End::OtherVersion { epoch: head.epoch, version }));
        let Some(current) = current.filter(|c| c.value_schema == head.schema) else { return other(None) };
        let event = self.decoder.read(&current.layout, reader)?;
        let version = current.version.version;
        if event.facts.version != version {
            return other(Some(event.facts.version));
        }
        if !event.facts.addressed || event.facts.op == Op::Truncate {
            return Ok(None);
        }
        if self.fresh.0 != version {
            let start = current.begun.as_ref().and_then(|b| b.get(self.lane.lane as usize));
            self.fresh = (version, start == Some(&self.cursor.next()));
        }
        self.fresh.1 &= event.facts.op == Op::Read;
        let (fold, fresh) = folds.of(current, keyless);
        let key = record.key.and_then(|key| key.get(FRAME..)).unwrap_or_default();
        if let Err(error) = fold.push(key, &event) {
            return Ok(Some(End::Refused { epoch: head.epoch, error }));
        }
        *fresh &= self.fresh.1;
        folds.rows += 1;
        Ok(None)
    }
}
