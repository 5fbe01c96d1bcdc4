//! Retention: what is older than it goes, but only what every known sink has applied.

use schemas::event::Offset;

use super::{
    Keep, Log, LogError, LogOptions, Topic, guard,
    rows::Rows,
    store::{LaneState, SINKS, Sinks, State},
    transaction::Moves,
};

/// Milliseconds between two looks.
pub(super) const PAUSE: u64 = 10_000;
/// Blocks removed in one look, so that no commit waits long; a backlog goes over several.
const AT_MOST: usize = 256;

impl Log {
    /// Makes a sink known: from here on retention keeps what it has not applied, until [`Self::forget_sink`].
    pub fn add_sink(&self, sink: &str) -> Result<(), LogError> {
        let _writer = guard(self.0.writer.lock());
        if guard(self.0.sinks.read()).contains_key(sink) {
            return Ok(());
        }
        self.edit(|database| {
            let transaction = database.begin_write()?;
            transaction.open_table(SINKS)?.insert(sink, ())?;
            transaction.commit()?;
            Ok(())
        })?;
        guard(self.0.sinks.write()).entry(sink.to_owned()).or_default();
        Ok(())
    }

    /// Says how far a sink has applied a lane, durable on its target. Held in memory: each sink says it of every lane after a start,
    /// else nothing of that lane is removed.
    pub fn sink_position(&self, sink: &str, topic: &Topic, lane: u32, applied: Offset) -> Result<(), LogError> {
        if !guard(self.0.sinks.read()).contains_key(sink) {
            self.add_sink(sink)?;
        }
        guard(self.0.sinks.write()).entry(sink.to_owned()).or_default().insert((topic.number, lane), applied);
        Ok(())
    }

    /// Sinks that retention waits for.
    pub fn sinks(&self) -> Vec<String> {
        guard(self.0.sinks.read()).keys().cloned().collect()
    }

    pub fn forget_sink(&self, sink: &str) -> Result<(), LogError> {
        let _writer = guard(self.0.writer.lock());
        self.edit(|database| {
            let transaction = database.begin_write()?;
            transaction.open_table(SINKS)?.remove(sink)?;
            transaction.commit()?;
            Ok(())
        })?;
        guard(self.0.sinks.write()).remove(sink);
        Ok(())
    }
}

/// Removes blocks within a transaction and notes the lanes' new beginnings. Returns whether all that may go is gone: where not, the next
/// commit looks again, so that the log shrinks as fast as it is written.
pub(super) fn expire(
    rows: &mut Rows<'_>,
    options: &LogOptions,
    state: &State,
    sinks: &Sinks,
    moves: &mut Moves,
    now: u64,
) -> Result<bool, redb::Error> {
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
            let limit = applied_by_all(sinks, place).unwrap_or(at.end).min(at.end);
            let old = |time: u64| now.saturating_sub(time) > retention;
            if at.start >= limit || left == 0 || !at.oldest.is_none_or(old) {
                continue;
            }
            let after = expire_lane(rows, place, at, limit, old, &mut left)?;
            if after != at {
                moves.insert(place, after);
            }
        }
    }
    Ok(left > 0)
}

/// What every known sink has applied; None where no sink is known.
fn applied_by_all(sinks: &Sinks, place: (u32, u32)) -> Option<Offset> {
    sinks.values().map(|applied| applied.get(&place).copied().unwrap_or(0)).min()
}

fn expire_lane(
    rows: &mut Rows<'_>,
    (number, lane): (u32, u32),
    mut at: LaneState,
    limit: Offset,
    old: impl Fn(u64) -> bool,
    left: &mut usize,
) -> Result<LaneState, redb::Error> {
    loop {
        let Some(first) = rows.first(number, lane, at.start)? else { return Ok(at) };
        at.oldest = Some(first.time);
        if first.last >= limit || !old(first.time) || *left == 0 {
            return Ok(at);
        }
        rows.remove(number, lane, first)?;
        *left -= 1;
        at.start = first.last + 1;
        at.oldest = None;
    }
}
