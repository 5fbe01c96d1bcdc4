//! A lane's place in the topic, as one reader has it: what is stored, and how far it has read.

use super::protection::{Protection, Protections};
use crate::event::Offset;

/// Where a reader of a lane is. Feed it every record, marker and end of partition; it says what a flush has to store.
///
/// The stored position counts commit markers, aborted records and the end of the partition: it is never "last row + 1",
/// and it is stored also where no row came, for a boundary may lie behind the last row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    protections: Protections,
    stored: Offset,
    next: Offset,
    rows: usize,
    behind_row: Offset,
}

impl Cursor {
    /// A reader that begins at the stored position.
    pub fn new(stored: Offset, protections: Protections) -> Self {
        Self { protections, stored, next: stored, rows: 0, behind_row: stored }
    }

    /// The next offset to read.
    pub fn next(&self) -> Offset {
        self.next
    }

    /// What the target had stored when this reader looked last.
    pub fn stored(&self) -> Offset {
        self.stored
    }

    /// A row at this offset was taken into the batch (or passed over on purpose).
    pub fn row(&mut self, offset: Offset) {
        self.rows += 1;
        self.next = offset + 1;
        self.behind_row = self.next;
    }

    /// Everything below this offset was delivered: markers, aborted records, the end of the partition. Never backwards.
    pub fn reached(&mut self, next: Offset) {
        self.next = self.next.max(next);
    }

    /// The compare-and-set that the next flush must carry, from and to; None: nothing moved.
    pub fn pending(&self) -> Option<(Offset, Offset)> {
        let to = if self.protections.has(Protection::Position) { self.next } else { self.behind_row };
        if self.rows == 0 && !self.protections.has(Protection::EmptyEnd) {
            return None;
        }
        (to != self.stored || self.rows > 0).then_some((self.stored, to))
    }

    /// The flush was committed.
    pub fn committed(&mut self) {
        if let Some((_, to)) = self.pending() {
            *self = Self::new(to, self.protections);
        }
    }

    /// Someone else moved the lane, or the flush failed: read again from what is stored.
    pub fn moved(&mut self, stored: Offset) {
        *self = Self::new(stored, self.protections);
    }
}
