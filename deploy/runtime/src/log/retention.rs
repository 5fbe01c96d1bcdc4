//! Retention: what is older than it goes, but only what every known sink has applied.

use redb::{ReadableTable, StorageError, Table};
use schemas::event::Offset;

use super::{
    Keep, LogOptions,
    block::Header,
    store::{LaneState, State},
    transaction::Moves,
};

/// Milliseconds between two looks.
pub(super) const PAUSE: u64 = 10_000;
/// Blocks removed in one look, so that no commit waits long; a backlog goes over several.
const AT_MOST: usize = 256;

/// Removes blocks within a transaction and notes the lanes' new beginnings.
pub(super) fn expire(
    blocks: &mut Table<'_, (u32, u32, u64), &[u8]>,
    options: &LogOptions,
    state: &State,
    moves: &mut Moves,
    now: u64,
) -> Result<(), StorageError> {
    let retention = u64::try_from(options.retention.as_millis()).unwrap_or(u64::MAX);
    let mut left = AT_MOST;
    for topic in state.topics.values() {
        match topic.keep {
            Keep::Retention => {}
            Keep::Forever | Keep::Newest => continue,
        }
        for (lane, known) in (0u32..).zip(state.lanes.get(&topic.number).into_iter().flatten()) {
            let place = (topic.number, lane);
            let at = moves.get(&place).copied().unwrap_or(*known);
            let limit = applied_by_all(state, place).unwrap_or(at.end).min(at.end);
            let old = |time: u64| now.saturating_sub(time) > retention;
            if at.start >= limit || left == 0 || !at.oldest.is_none_or(old) {
                continue;
            }
            let after = expire_lane(blocks, place, at, limit, old, &mut left)?;
            if after != at {
                moves.insert(place, after);
            }
        }
    }
    Ok(())
}

/// What every known sink has applied; None where no sink is known.
fn applied_by_all(state: &State, place: (u32, u32)) -> Option<Offset> {
    state.sinks.values().map(|applied| applied.get(&place).copied().unwrap_or(0)).min()
}

fn expire_lane(
    blocks: &mut Table<'_, (u32, u32, u64), &[u8]>,
    (number, lane): (u32, u32),
    mut at: LaneState,
    limit: Offset,
    old: impl Fn(u64) -> bool,
    left: &mut usize,
) -> Result<LaneState, StorageError> {
    loop {
        let Some((last, header)) = first_block(blocks, number, lane, at.start)? else { return Ok(at) };
        at.oldest = Some(header.time);
        if last >= limit || !old(header.time) || *left == 0 {
            return Ok(at);
        }
        blocks.remove((number, lane, last))?;
        *left -= 1;
        at.start = last + 1;
        at.oldest = None;
    }
}

/// The last offset and the header of the first block from `start` on.
fn first_block(
    blocks: &Table<'_, (u32, u32, u64), &[u8]>,
    number: u32,
    lane: u32,
    start: Offset,
) -> Result<Option<(Offset, Header)>, StorageError> {
    let Some(first) = blocks.range((number, lane, start)..=(number, lane, u64::MAX))?.next() else { return Ok(None) };
    let (key, block) = first?;
    let (_, _, last) = key.value();
    let broken = || StorageError::Corrupted(format!("the block at offset {last} of lane {lane} of topic number {number} has no header"));
    Ok(Some((last, Header::read(block.value()).ok_or_else(broken)?)))
}
