//! Reading a lane.

use std::io;

use redb::{ReadTransaction, TableDefinition};
use schemas::event::Offset;

use super::{
    Keep, Log, LogError, Topic,
    block::{Header, Pushed, Records},
    guard,
    segment::Location,
    store::{self, BLOCKS, BlockKey, FRESH, INDEX},
};

/// What a read needs to know of its lane.
struct Lane<'l> {
    log: &'l Log,
    topic: &'l Topic,
    lane: u32,
    from: Offset,
    /// A commit of this moment may be in the store already and not in the bounds: what is behind these is read next time.
    until: Offset,
    max_bytes: usize,
}

impl Log {
    /// Records of a lane from `from` on: at least one block, further ones while they fit `max_bytes`; none at the lane's end.
    ///
    /// Below the lane's beginning it is `Expired` (of a topic that keeps the newest record only: that one), behind its end `Beyond`.
    pub fn records(&self, topic: &Topic, lane: u32, from: Offset, max_bytes: usize) -> Result<Records, LogError> {
        let bounds = guard(self.0.state.read()).lanes.get(&topic.number).and_then(|lanes| lanes.get(lane as usize)).copied();
        let Some(bounds) = bounds else {
            return Err(LogError::Topic(format!("{}: topic {} lane {lane} is not there", self.0.directory.display(), topic.name)));
        };
        if from > bounds.end {
            return Err(LogError::Beyond { topic: topic.name.to_string(), lane, wanted: from, end: bounds.end });
        }
        if from == bounds.end {
            return Ok(Records::at(from));
        }
        let transaction = self.store()?.begin_read(&self.0.directory)?;
        let until = match topic.keep {
            Keep::Retention | Keep::Forever => bounds.end,
            // That commit has taken away the record that the bounds name.
            Keep::Newest => Offset::MAX,
        };
        let read = Lane { log: self, topic, lane, from, until, max_bytes };
        let records = match topic.keep {
            Keep::Retention => read.rows(&transaction)?,
            Keep::Forever | Keep::Newest => read.stored(&transaction, BLOCKS, Records::at(from))?,
        };
        if records.is_empty() { Err(read.expired(bounds.end)) } else { Ok(records) }
    }

    /// The newest record of a lane.
    pub fn newest(&self, topic: &Topic, lane: u32) -> Result<Option<Vec<u8>>, LogError> {
        let end = self.ends(topic).get(lane as usize).copied().unwrap_or(0);
        let Some(last) = end.checked_sub(1) else { return Ok(None) };
        let records = self.records(topic, lane, last, usize::MAX)?;
        Ok(records.iter().last().map(|record| record.value.to_vec()))
    }
}

impl Lane<'_> {
    /// Rows: the settled blocks, then the fresh ones.
    fn rows(&self, transaction: &ReadTransaction) -> Result<Records, LogError> {
        let mut records = Records::at(self.from);
        let index = transaction.open_table(INDEX).map_err(|e| self.trouble(e))?;
        for entry in index.range(self.range()).map_err(|e| self.trouble(e))? {
            let (key, entry) = entry.map_err(|e| self.trouble(e))?;
            let (segment, position, length, first, _) = entry.value();
            if first > records.next() {
                return Err(self.expired(first));
            }
            if first >= self.until || !self.takes(&records, length as usize) {
                return Ok(records);
            }
            let location = Location { segment, position, length };
            let pushed = records.push(length as usize, (self.from, self.until), |out| self.log.0.segments.read(location, out));
            match pushed {
                Ok(()) => {}
                // Retention removed it just now.
                Err(Pushed::Read(error)) if error.kind() == io::ErrorKind::NotFound => {
                    let first = self.log.starts(self.topic).get(self.lane as usize).copied().unwrap_or(0);
                    if first <= self.from {
                        return Err(self.broken(key.value().2, &format!("segment {segment} is missing")));
                    }
                    return Err(self.expired(first));
                }
                Err(Pushed::Read(error)) => return Err(self.broken(key.value().2, &format!("segment {segment}: {error}"))),
                Err(Pushed::Broken(why)) => return Err(self.broken(key.value().2, why)),
            }
        }
        self.stored(transaction, FRESH, records)
    }

    /// Goes on with blocks that are in the store.
    fn stored(
        &self,
        transaction: &ReadTransaction,
        table: TableDefinition<'_, BlockKey, &'static [u8]>,
        mut records: Records,
    ) -> Result<Records, LogError> {
        let blocks = transaction.open_table(table).map_err(|e| self.trouble(e))?;
        for entry in blocks.range(self.range()).map_err(|e| self.trouble(e))? {
            let (key, block) = entry.map_err(|e| self.trouble(e))?;
            let (block, last) = (block.value(), key.value().2);
            let first = Header::read(block).ok_or_else(|| self.broken(last, "its header is cut"))?.first;
            match self.topic.keep {
                Keep::Retention if first > records.next() => return Err(self.expired(first)),
                Keep::Forever if first > records.next() => return Err(self.broken(last, "the block before it is missing")),
                Keep::Retention | Keep::Forever | Keep::Newest => {}
            }
            if first >= self.until || !self.takes(&records, block.len()) {
                break;
            }
            let pushed = records.push(block.len(), (self.from, self.until), |out| {
                out.copy_from_slice(block);
                io::Result::Ok(())
            });
            pushed.map_err(|why| match why {
                Pushed::Read(error) => self.broken(last, &error.to_string()),
                Pushed::Broken(why) => self.broken(last, why),
            })?;
        }
        Ok(records)
    }

    fn range(&self) -> std::ops::RangeInclusive<BlockKey> {
        (self.topic.number, self.lane, self.from)..=(self.topic.number, self.lane, u64::MAX)
    }

    fn takes(&self, records: &Records, length: usize) -> bool {
        records.is_empty() || records.size() + length <= self.max_bytes
    }

    fn expired(&self, first: Offset) -> LogError {
        LogError::Expired { topic: self.topic.name.to_string(), lane: self.lane, wanted: self.from, first }
    }

    fn trouble(&self, error: impl Into<redb::Error>) -> LogError {
        store::trouble(&self.log.0.directory, "reading", error)
    }

    fn broken(&self, last: Offset, why: &str) -> LogError {
        let (directory, topic) = (self.log.0.directory.display(), &self.topic.name);
        LogError::Broken(format!("{directory}: topic {topic} lane {}: the block at offset {last} is broken: {why}", self.lane))
    }
}
