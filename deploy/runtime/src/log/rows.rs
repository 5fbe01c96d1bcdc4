//! Blocks of rows within one transaction of the store: fresh ones in the store itself, settled ones in segments.
//!
//! A small commit needs to be on disk soon: its blocks go into the store, which one sync makes durable. When the fresh blocks have
//! become many, or a large commit comes, all of them settle: joined to large blocks, they move to a segment. In each lane the settled
//! blocks come before the fresh ones.

use std::collections::BTreeMap;

use redb::{ReadableTable, Table, WriteTransaction};
use schemas::event::Offset;

use super::{
    block::{Builder, Header},
    segment::{Appender, Location, Segments, Usage},
    store::{self, BlockKey, Entry, FRESH, INDEX, State},
    transaction::Unwritten,
};

/// A commit with more bytes than this goes to a segment at once.
const SMALL: usize = 128 << 10;
/// Fresh blocks with more bytes than this settle.
const FRESH_MOST: u64 = 4 << 20;

pub(super) struct Rows<'t> {
    index: Table<'t, BlockKey, Entry>,
    fresh: Table<'t, BlockKey, &'static [u8]>,
    segments: Appender<'t>,
    fresh_bytes: u64,
    /// Whether this commit's blocks stay fresh.
    small: bool,
}

/// The first block of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct First {
    pub last: Offset,
    pub time: u64,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Settled(Location),
    Fresh(u64),
}

/// What a commit leaves.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub usage: BTreeMap<u32, Usage>,
    /// Segments that nothing is wanted of.
    pub dead: Vec<u32>,
    pub fresh: u64,
}

impl<'t> Rows<'t> {
    /// Begins a commit of this many bytes.
    pub fn begin(transaction: &'t WriteTransaction, segments: &'t Segments, state: &State, bytes: usize) -> Result<Self, Unwritten> {
        let small = bytes <= SMALL && state.fresh + bytes as u64 <= FRESH_MOST;
        let mut rows = Self {
            index: transaction.open_table(INDEX)?,
            fresh: transaction.open_table(FRESH)?,
            segments: Appender::new(segments, &state.segments),
            fresh_bytes: state.fresh,
            small,
        };
        if !small && rows.fresh_bytes > 0 {
            rows.settle()?;
        }
        Ok(rows)
    }

    pub fn put(&mut self, key: BlockKey, block: &[u8], first: Offset, time: u64) -> Result<(), Unwritten> {
        if self.small {
            self.fresh_bytes += block.len() as u64;
            self.fresh.insert(key, block)?;
            return Ok(());
        }
        put_settled(&mut self.index, &mut self.segments, key, block, first, time)
    }

    /// Moves the fresh blocks to a segment, joining those of each lane.
    fn settle(&mut self) -> Result<(), Unwritten> {
        let mut joined: Option<Joined> = None;
        for entry in self.fresh.iter()? {
            let (key, block) = entry?;
            let (key, block) = (key.value(), block.value());
            let header = Header::read(block).ok_or_else(|| store::headless(key))?;
            if let Some(before) = &mut joined {
                if before.take(key, header, block) {
                    continue;
                }
                before.put(&mut self.index, &mut self.segments)?;
            }
            joined = Some(Joined::new(key, header, block));
        }
        if let Some(mut last) = joined {
            last.put(&mut self.index, &mut self.segments)?;
        }
        self.fresh.retain(|_, _| false)?;
        self.fresh_bytes = 0;
        Ok(())
    }

    /// The first block of a lane that holds `start` or anything behind it.
    pub fn first(&self, number: u32, lane: u32, start: Offset) -> Result<Option<First>, redb::Error> {
        let range = (number, lane, start)..=(number, lane, u64::MAX);
        if let Some(entry) = self.index.range(range.clone())?.next() {
            let (key, entry) = entry?;
            let (segment, position, length, _, time) = entry.value();
            return Ok(Some(First { last: key.value().2, time, place: Place::Settled(Location { segment, position, length }) }));
        }
        let Some(entry) = self.fresh.range(range)?.next() else { return Ok(None) };
        let (key, block) = entry?;
        let header = Header::read(block.value()).ok_or_else(|| store::headless(key.value()))?;
        Ok(Some(First { last: key.value().2, time: header.time, place: Place::Fresh(block.value().len() as u64) }))
    }

    pub fn remove(&mut self, number: u32, lane: u32, first: First) -> Result<(), redb::Error> {
        let key = (number, lane, first.last);
        match first.place {
            Place::Settled(location) => {
                self.index.remove(key)?;
                self.segments.release(location);
            }
            Place::Fresh(length) => {
                self.fresh.remove(key)?;
                self.fresh_bytes = self.fresh_bytes.saturating_sub(length);
            }
        }
        Ok(())
    }

    /// Syncs what went to segments; the transaction may commit then.
    pub fn finish(self) -> Result<Left, Unwritten> {
        let (usage, dead) = self.segments.finish().map_err(Unwritten::Segment)?;
        Ok(Left { usage, dead, fresh: self.fresh_bytes })
    }
}

fn put_settled(
    index: &mut Table<'_, BlockKey, Entry>,
    segments: &mut Appender<'_>,
    key: BlockKey,
    block: &[u8],
    first: Offset,
    time: u64,
) -> Result<(), Unwritten> {
    let Location { segment, position, length } = segments.append(block).map_err(Unwritten::Segment)?;
    index.insert(key, (segment, position, length, first, time))?;
    Ok(())
}

/// Consecutive blocks of a lane on their way to becoming one.
struct Joined {
    key: BlockKey,
    first: Offset,
    /// Of the newest of them.
    time: u64,
    builder: Builder,
}

impl Joined {
    fn new(key: BlockKey, header: Header, block: &[u8]) -> Self {
        let mut builder = Builder::new(Vec::new());
        builder.extend(header, block);
        Self { key, first: header.first, time: header.time, builder }
    }

    /// Takes the next block, if it is the next of the same lane and there is room.
    fn take(&mut self, key: BlockKey, header: Header, block: &[u8]) -> bool {
        let follows = (key.0, key.1) == (self.key.0, self.key.1) && header.first == self.key.2 + 1;
        if !follows || !self.builder.has_room_for(block) {
            return false;
        }
        self.builder.extend(header, block);
        (self.key, self.time) = (key, header.time);
        true
    }

    fn put(&mut self, index: &mut Table<'_, BlockKey, Entry>, segments: &mut Appender<'_>) -> Result<(), Unwritten> {
        put_settled(index, segments, self.key, self.builder.finish(self.time, self.first), self.first, self.time)
    }
}
