//! Writing: records gathered into blocks, committed whole.

use std::{
    collections::BTreeMap,
    io, mem,
    time::{SystemTime, UNIX_EPOCH},
};

use redb::WriteTransaction;

use super::{
    Keep, Log, LogError, Topic,
    block::Builder,
    guard, retention,
    rows::{Left, Rows},
    store::{self, BLOCKS, LANES, LaneState, State},
};

/// What a commit changes in lanes, by topic number and lane.
pub(super) type Moves = BTreeMap<(u32, u32), LaneState>;

/// What a commit did.
pub(super) struct Commit {
    pub moves: Moves,
    pub looked: u64,
    pub left: Left,
}

/// Why nothing was committed.
pub(super) enum Unwritten {
    Store(redb::Error),
    Segment(io::Error),
}

impl<E: Into<redb::Error>> From<E> for Unwritten {
    fn from(error: E) -> Self {
        Unwritten::Store(error.into())
    }
}

/// Records of one lane that are not committed.
#[derive(Debug, Default)]
struct LaneBuffer {
    /// Records before those in the blocks that need not be written, since a newer one replaces them.
    replaced: u64,
    full: Vec<Builder>,
    open: Option<Builder>,
}

/// Records to be written together, kept in memory until then. Dropping it writes nothing.
#[derive(Debug)]
pub struct Transaction {
    log: Log,
    /// By topic number, by lane.
    lanes: Vec<Vec<LaneBuffer>>,
    touched: Vec<(u32, u32, Keep)>,
    records: usize,
    bytes: usize,
}

impl Transaction {
    pub(super) fn new(log: Log) -> Self {
        Self { log, lanes: Vec::new(), touched: Vec::new(), records: 0, bytes: 0 }
    }

    /// Adds a record to a lane of a topic of this log.
    #[inline]
    pub fn append(&mut self, topic: &Topic, lane: u32, key: Option<&[u8]>, value: &[u8]) -> Result<(), LogError> {
        self.bytes += key.map_or(0, <[u8]>::len) + value.len();
        self.records += 1;
        let Some(buffer) = self.lanes.get_mut(topic.number as usize).and_then(|lanes| lanes.get_mut(lane as usize)) else {
            return self.append_first(topic, lane, key, value);
        };
        match (&mut buffer.open, topic.keep) {
            (Some(block), Keep::Retention | Keep::Forever) if !block.is_full_for(key, value) => {
                block.push(key, value);
                Ok(())
            }
            (Some(_) | None, Keep::Retention | Keep::Forever | Keep::Newest) => self.append_block(topic, lane, key, value),
        }
    }

    /// Makes room for a topic that this transaction has not met.
    #[cold]
    fn append_first(&mut self, topic: &Topic, lane: u32, key: Option<&[u8]>, value: &[u8]) -> Result<(), LogError> {
        if lane >= topic.lanes {
            return Err(LogError::Topic(format!("topic {} has {} lanes; lane {lane} was written to", topic.name, topic.lanes)));
        }
        let number = topic.number as usize;
        if self.lanes.len() <= number {
            self.lanes.resize_with(number + 1, Vec::new);
        }
        self.lanes[number].resize_with(topic.lanes as usize, LaneBuffer::default);
        self.append_block(topic, lane, key, value)
    }

    /// Begins a block with this record.
    fn append_block(&mut self, topic: &Topic, lane: u32, key: Option<&[u8]>, value: &[u8]) -> Result<(), LogError> {
        let buffer = &mut self.lanes[topic.number as usize][lane as usize];
        let first = buffer.open.is_none();
        let mut block = match (topic.keep, buffer.open.take()) {
            (Keep::Newest, Some(replaced)) => {
                buffer.replaced += u64::from(replaced.count());
                Builder::new(replaced.into_bytes())
            }
            (Keep::Retention | Keep::Forever, Some(full)) => {
                buffer.full.push(full);
                Builder::new(self.log.buffer())
            }
            (Keep::Retention | Keep::Forever | Keep::Newest, None) => Builder::new(self.log.buffer()),
        };
        block.push(key, value);
        buffer.open = Some(block);
        if first {
            self.touched.push((topic.number, lane, topic.keep));
        }
        Ok(())
    }

    /// Records and their bytes so far.
    pub fn pending(&self) -> (usize, usize) {
        (self.records, self.bytes)
    }

    /// Writes all of it or nothing; on disk when it returns. Blocks, so call it where blocking is allowed.
    ///
    /// After an error it is whole in the log or not at all (the disk may have failed behind the last write): what is there must be
    /// read before anything is written again.
    pub fn commit(self) -> Result<(), LogError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
        self.commit_at(now)
    }

    /// [`Self::commit`] at this time, in milliseconds since 1970.
    pub(super) fn commit_at(mut self, now: u64) -> Result<(), LogError> {
        if self.records == 0 {
            return Ok(());
        }
        let log = self.log.clone();
        let _writer = guard(log.0.writer.lock());
        let written = {
            let store = log.store()?;
            let database = store.database(&log.0.directory)?;
            let state = guard(log.0.state.read());
            database
                .begin_write()
                .map_err(|e| Unwritten::Store(e.into()))
                .and_then(|transaction| self.write(transaction, &log, &state, now))
        };
        match written {
            Ok(commit) => {
                log.0.committed(commit);
                log.recycle(self.into_buffers());
                Ok(())
            }
            // The store has not been touched; a full disk gets back what was written.
            Err(Unwritten::Segment(error)) => {
                let error = super::io_error(&log.0.directory, "writing", &error);
                if let Err(error) = log.0.segments.tidy(&guard(log.0.state.read()).segments) {
                    tracing::warn!(directory = %log.0.directory.display(), %error, "what was not committed could not be taken back");
                }
                Err(error)
            }
            Err(Unwritten::Store(error)) => {
                let error = store::trouble(&log.0.directory, "writing", error);
                log.reopen();
                Err(error)
            }
        }
    }

    fn write(&mut self, transaction: WriteTransaction, log: &Log, state: &State, now: u64) -> Result<Commit, Unwritten> {
        let mut moves = Moves::new();
        let mut looked = state.looked;
        let left = {
            let mut rows = Rows::begin(&transaction, &log.0.segments, state, self.bytes)?;
            let mut blocks = transaction.open_table(BLOCKS)?;
            for &(number, lane, keep) in &self.touched {
                let buffer = &mut self.lanes[number as usize][lane as usize];
                let before = state.lanes.get(&number).and_then(|lanes| lanes.get(lane as usize)).copied().unwrap_or_default();
                let mut at = before;
                if at.start == at.end {
                    at.oldest = Some(now);
                }
                at.end += buffer.replaced;
                for block in buffer.full.iter_mut().chain(buffer.open.as_mut()) {
                    let first = at.end;
                    at.end += u64::from(block.count());
                    let (key, block) = ((number, lane, at.end - 1), block.finish(now, first));
                    match keep {
                        Keep::Retention => rows.put(key, block, first, now)?,
                        Keep::Forever | Keep::Newest => drop(blocks.insert(key, block)?),
                    }
                }
                if keep == Keep::Newest {
                    at.start = at.end - 1;
                    if before.end > before.start {
                        blocks.remove((number, lane, before.end - 1))?;
                    }
                }
                moves.insert((number, lane), at);
            }
            if now.saturating_sub(looked) >= retention::PAUSE {
                let sinks = guard(log.0.sinks.read());
                if retention::expire(&mut rows, &log.0.options, state, &sinks, &mut moves, now)? {
                    looked = now;
                }
            }
            let mut lanes = transaction.open_table(LANES)?;
            for (key, at) in &moves {
                lanes.insert(key, (at.start, at.end))?;
            }
            rows.finish()?
        };
        store::write_usage(&transaction, &state.segments, &left)?;
        transaction.commit()?;
        Ok(Commit { moves, looked, left })
    }

    fn into_buffers(mut self) -> impl Iterator<Item = Vec<u8>> {
        let lanes = mem::take(&mut self.lanes);
        lanes.into_iter().flatten().flat_map(|lane| lane.full.into_iter().chain(lane.open)).map(Builder::into_bytes)
    }
}
