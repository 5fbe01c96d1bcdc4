//! Retention: what is older than it goes, but only what every known sink has applied.

use redb::{ReadableTable, StorageError, Table};
use schemas::event::Offset;

use super::{
    Keep, LogOptions,
    segment::{Appender, Location},
    store::{BlockKey, Entry, LaneState, State},
    transaction::Moves,
};

/// Milliseconds between two looks.
pub(super) const PAUSE: u64 = 10_000;
/// Blocks removed in one look, so that no commit waits long; a backlog goes over several.
const AT_MOST: usize = 256;

/// Removes blocks within a transaction and notes the lanes' new beginnings.
pub(super) fn expire(
    index: &mut Table<'_, BlockKey, Entry>,
    segments: &mut Appender<'_>,
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
            let after = expire_lane(index, segments, place, at, limit, old, &mut left)?;
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
    index: &mut Table<'_, BlockKey, Entry>,
    segments: &mut Appender<'_>,
    (number, lane): (u32, u32),
    mut at: LaneState,
    limit: Offset,
    old: impl Fn(u64) -> bool,
    left: &mut usize,
) -> Result<LaneState, StorageError> {
    loop {
        let first = index.range((number, lane, at.start)..=(number, lane, u64::MAX))?.next().transpose()?;
        let Some((last, (segment, position, length, _, time))) = first.map(|(key, entry)| (key.value().2, entry.value())) else {
            return Ok(at);
        };
        at.oldest = Some(time);
        if last >= limit || !old(time) || *left == 0 {
            return Ok(at);
        }
        index.remove((number, lane, last))?;
        segments.release(Location { segment, position, length });
        *left -= 1;
        at.start = last + 1;
        at.oldest = None;
    }
}
