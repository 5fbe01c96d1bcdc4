//! The local transport: durable topics in one directory, written in transactions.
//!
//! A topic has lanes; a lane is a sequence of records whose offsets count from 0. Records that were written together make a block. Blocks
//! of rows stand in segment files, and an embedded store has their index; what stays for ever is in the store itself. One commit of the
//! store is one transaction here, on disk when it returns. One process has the directory at a time.
//!
//! Why the rows are not in the store: its pages and their copies made two and a half times the rows' size, and after a kill all of it was
//! read; with the index alone, opening takes no longer than it is long.

mod block;
mod lock;
mod read;
mod registry;
mod retention;
mod rows;
mod segment;
mod store;
#[cfg(test)]
mod tests;
mod transaction;

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    io,
    path::{Path, PathBuf},
    sync::{Arc, LockResult, Mutex, PoisonError, RwLock, RwLockReadGuard},
    time::{Duration, SystemTime},
};

use redb::{Database, DatabaseError, ReadableTable};
use schemas::event::Offset;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::watch;

pub use self::{
    block::{Record, RecordIter, Records},
    lock::{DirectoryLock, holder},
    transaction::Transaction,
};
use self::{
    rows::Left,
    segment::{Appender, Location, Segments},
    store::{BLOCKS, FRESH, INDEX, LANES, META, NEXT_TOPIC, Sinks, State, Store, StoredTopic, TOPICS},
    transaction::Commit,
};

#[derive(Debug, Error)]
pub enum LogError {
    /// Another process has the directory; the message names both.
    #[error("{0}")]
    Locked(String),
    /// The disk is full: everything that was committed before is there.
    #[error("{0}")]
    Full(String),
    /// There is no log in the directory (yet).
    #[error("{0}")]
    Absent(String),
    #[error("{0}")]
    Broken(String),
    #[error("{0}")]
    Topic(String),
    /// The offset was removed by retention.
    #[error("{topic} lane {lane}: offset {wanted} is gone, the log begins at {first}")]
    Expired { topic: String, lane: u32, wanted: Offset, first: Offset },
    /// The offset lies behind the end.
    #[error("{topic} lane {lane}: offset {wanted} is behind the log's end {end}: this is not the log that the position came from")]
    Beyond { topic: String, lane: u32, wanted: Offset, end: Offset },
}

/// How long records stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Rows: until they are older than the log's retention and every known sink has applied them.
    Retention,
    /// For ever (schema-versions, commands).
    Forever,
    /// Of each lane the newest record only (progress).
    Newest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// Lanes of topics created without a number of their own.
    pub partitions: u32,
    pub retention: Duration,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { partitions: 1, retention: Duration::from_secs(7 * 24 * 3600) }
    }
}

/// A topic of one log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub name: Arc<str>,
    /// Identity: a topic removed and created again has another one.
    pub id: u128,
    pub lanes: u32,
    pub keep: Keep,
    number: u32,
}

/// A log that is open. Clones share it; the directory is free again when the last one is dropped.
///
/// Everything here may wait for the disk: reading for the time of a page or two, writing for an fsync.
#[derive(Debug, Clone)]
pub struct Log(Arc<Inner>);

type MakeStore = Box<dyn Fn() -> Result<Database, DatabaseError> + Send + Sync>;

struct Inner {
    directory: PathBuf,
    options: LogOptions,
    make: MakeStore,
    store: RwLock<Store>,
    segments: Segments,
    /// Written under `writer` alone, so that reading it never waits for a commit's sync.
    state: RwLock<State>,
    sinks: RwLock<Sinks>,
    /// One writer at a time: offsets are given under it.
    writer: Mutex<()>,
    changed: watch::Sender<u64>,
    /// Buffers of past transactions.
    buffers: Mutex<Vec<Vec<u8>>>,
    /// Last, so that the store is closed before another process can have the directory.
    _lock: Option<DirectoryLock>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// Buffers kept for the next transaction.
const BUFFERS: usize = 64;

impl Log {
    /// Opens the log in `path`, creating it where it is not there, and takes the directory's lock: tried for 5 s, then `Locked`.
    pub fn open(path: impl AsRef<Path>, options: LogOptions) -> Result<Self, LogError> {
        Self::open_within(path.as_ref(), options, lock::PATIENCE)
    }

    /// [`Self::open`] without waiting for another process to end.
    pub fn open_at_once(path: impl AsRef<Path>, options: LogOptions) -> Result<Self, LogError> {
        Self::open_within(path.as_ref(), options, Duration::ZERO)
    }

    fn open_within(path: &Path, options: LogOptions, patience: Duration) -> Result<Self, LogError> {
        let directory = path.to_owned();
        let make: MakeStore = Box::new(move || store::create(&directory));
        Self::open_with(path.to_owned(), options, make, patience)
    }

    fn open_with(directory: PathBuf, options: LogOptions, make: MakeStore, patience: Duration) -> Result<Self, LogError> {
        fs::create_dir_all(&directory).map_err(|e| io_error(&directory, "creating it", &e))?;
        let lock = DirectoryLock::acquire(&directory, patience)?;
        let database = store::open(&directory, &make)?;
        Self::new(directory, options, make, Store::Write(database), Some(lock))
    }

    /// Opens the log for reading while no process runs: `Absent` where there is none, `Locked` where one runs. Writing is refused.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, LogError> {
        let directory = path.as_ref().to_owned();
        let database = store::open_read_only(&directory)?;
        let make = Box::new(|| Err(DatabaseError::DatabaseAlreadyOpen));
        Self::new(directory, LogOptions::default(), make, Store::Read(database), None)
    }

    fn new(directory: PathBuf, options: LogOptions, make: MakeStore, store: Store, lock: Option<DirectoryLock>) -> Result<Self, LogError> {
        let transaction = store.begin_read(&directory)?;
        let opening = |e| store::trouble(&directory, "opening", e);
        let (state, sinks) = (store::load(&transaction).map_err(opening)?, store::load_sinks(&transaction).map_err(opening)?);
        drop(transaction);
        let segments = Segments::new(&directory, lock.is_some());
        if lock.is_some() {
            segments.tidy(&state.segments).map_err(|e| io_error(&directory, "opening", &e))?;
        }
        Ok(Self(Arc::new(Inner {
            directory,
            options,
            make,
            store: RwLock::new(store),
            segments,
            state: RwLock::new(state),
            sinks: RwLock::new(sinks),
            writer: Mutex::new(()),
            changed: watch::Sender::new(0),
            buffers: Mutex::default(),
            _lock: lock,
        })))
    }

    pub fn directory(&self) -> &Path {
        &self.0.directory
    }

    /// The topic of this name, created where it is not there. `lanes`: None: as many as it has, or as configured; another number than
    /// it has, or another way to keep it, is an error.
    pub fn topic(&self, name: &str, lanes: Option<u32>, keep: Keep) -> Result<Topic, LogError> {
        let _writer = guard(self.0.writer.lock());
        if let Some(topic) = self.find(name) {
            return self.same(topic, lanes, keep);
        }
        let lanes = lanes.unwrap_or(self.0.options.partitions);
        if lanes == 0 {
            return Err(LogError::Topic(format!("topic {name} needs at least one lane")));
        }
        self.edit(|database| {
            let transaction = database.begin_write()?;
            let topic = {
                let mut meta = transaction.open_table(META)?;
                let number = meta.get(NEXT_TOPIC)?.map_or(0, |n| n.value());
                meta.insert(NEXT_TOPIC, number + 1)?;
                let number = u32::try_from(number).map_err(|_| redb::Error::Corrupted("more topics than a log can have".into()))?;
                let stored = StoredTopic { number, id: identity(), lanes, keep };
                let json = serde_json::to_vec(&stored).map_err(|e| redb::Error::Corrupted(e.to_string()))?;
                transaction.open_table(TOPICS)?.insert(name, json.as_slice())?;
                Topic { name: name.into(), id: stored.id, lanes, keep, number }
            };
            transaction.commit()?;
            Ok(topic)
        })
        .inspect(|topic| {
            let mut state = guard(self.0.state.write());
            state.lanes.insert(topic.number, vec![store::LaneState::default(); lanes as usize]);
            state.topics.insert(topic.name.clone(), topic.clone());
        })
    }

    /// Whether a topic that is there is the one that was asked for.
    fn same(&self, topic: Topic, lanes: Option<u32>, keep: Keep) -> Result<Topic, LogError> {
        let (place, name) = (self.0.directory.display(), &topic.name);
        let asked = lanes.unwrap_or(topic.lanes);
        if asked != topic.lanes {
            return Err(LogError::Topic(format!(
                "{place}: topic {name} has {} lanes, {asked} were asked for; a topic keeps the number it began with",
                topic.lanes
            )));
        }
        if keep != topic.keep {
            return Err(LogError::Topic(format!(
                "{place}: topic {name} is of another kind: a table's topic and one of Instar's own have the same name; change topics.prefix"
            )));
        }
        Ok(topic)
    }

    pub fn find(&self, name: &str) -> Option<Topic> {
        guard(self.0.state.read()).topics.get(name).cloned()
    }

    /// Every topic, by name.
    pub fn topics(&self) -> Vec<Topic> {
        guard(self.0.state.read()).topics.values().cloned().collect()
    }

    /// Removes a topic with its records. One created again under its name has another identity.
    pub fn remove(&self, topic: &Topic) -> Result<(), LogError> {
        let _writer = guard(self.0.writer.lock());
        let removed = self.edit(|database| {
            let transaction = database.begin_write()?;
            transaction.open_table(TOPICS)?.remove(&*topic.name)?;
            transaction.open_table(LANES)?.retain_in((topic.number, 0)..=(topic.number, u32::MAX), |_, _| false)?;
            let all = (topic.number, 0, 0)..=(topic.number, u32::MAX, u64::MAX);
            transaction.open_table(BLOCKS)?.retain_in(all.clone(), |_, _| false)?;
            let mut fresh = guard(self.0.state.read()).fresh;
            transaction.open_table(FRESH)?.retain_in(all.clone(), |_, block| {
                fresh = fresh.saturating_sub(block.len() as u64);
                false
            })?;
            let before = guard(self.0.state.read()).segments.clone();
            let mut segments = Appender::new(&self.0.segments, &before);
            transaction.open_table(INDEX)?.retain_in(all, |_, (segment, position, length, ..)| {
                segments.release(Location { segment, position, length });
                false
            })?;
            let (usage, dead) = segments.finish()?;
            let left = Left { usage, dead, fresh };
            store::write_usage(&transaction, &before, &left)?;
            transaction.commit()?;
            Ok(left)
        });
        let left = removed?;
        let mut state = guard(self.0.state.write());
        state.topics.remove(&topic.name);
        state.lanes.remove(&topic.number);
        (state.segments, state.fresh) = (left.usage, left.fresh);
        drop(state);
        self.0.discard(&left.dead);
        Ok(())
    }

    /// Begins a transaction. Several may be open; their records get offsets in the order of the commits.
    pub fn begin(&self) -> Transaction {
        Transaction::new(self.clone())
    }

    /// Per lane, the offset that the next record will get.
    pub fn ends(&self, topic: &Topic) -> Vec<Offset> {
        guard(self.0.state.read()).lanes.get(&topic.number).map_or_else(Vec::new, |lanes| lanes.iter().map(|l| l.end).collect())
    }

    /// Per lane, the first offset that is there (its end, where it is empty).
    pub fn starts(&self, topic: &Topic) -> Vec<Offset> {
        guard(self.0.state.read()).lanes.get(&topic.number).map_or_else(Vec::new, |lanes| lanes.iter().map(|l| l.start).collect())
    }

    /// Counts the commits; changes when one is done.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// A small change of the store, under the writer's lock.
    fn edit<T>(&self, change: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, LogError> {
        let changed = change(self.store()?.database(&self.0.directory)?);
        changed.map_err(|error| {
            let error = store::trouble(&self.0.directory, "writing", error);
            self.reopen();
            error
        })
    }

    /// The store; opened again where it failed.
    fn store(&self) -> Result<RwLockReadGuard<'_, Store>, LogError> {
        let store = guard(self.0.store.read());
        match &*store {
            Store::Write(_) | Store::Read(_) => Ok(store),
            Store::Failed(_) => {
                drop(store);
                self.reopen();
                Ok(guard(self.0.store.read()))
            }
        }
    }

    /// Closes the store after an error of the disk and opens it again, at its last commit.
    fn reopen(&self) {
        let mut store = guard(self.0.store.write());
        match &*store {
            Store::Read(_) => return,
            Store::Write(_) | Store::Failed(_) => *store = Store::Failed(String::new()),
        }
        let opened = store::open(&self.0.directory, &self.0.make).and_then(|database| {
            let opened = Store::Write(database);
            let state = store::load(&opened.begin_read(&self.0.directory)?);
            Ok((opened, state.map_err(|e| store::trouble(&self.0.directory, "opening", e))?))
        });
        *store = match opened {
            Ok((opened, loaded)) => {
                *guard(self.0.state.write()) = loaded;
                opened
            }
            Err(error) => Store::Failed(error.to_string()),
        };
    }

    fn buffer(&self) -> Vec<u8> {
        guard(self.0.buffers.lock()).pop().unwrap_or_default()
    }

    fn recycle(&self, used: impl Iterator<Item = Vec<u8>>) {
        let mut buffers = guard(self.0.buffers.lock());
        let room = BUFFERS.saturating_sub(buffers.len());
        buffers.extend(used.filter(|b| b.capacity() <= 2 * block::TARGET).take(room));
    }
}

impl Inner {
    /// Takes over what a commit moved, and tells the readers.
    fn committed(&self, commit: Commit) {
        let mut state = guard(self.state.write());
        for ((number, lane), at) in commit.moves {
            if let Some(state) = state.lanes.get_mut(&number).and_then(|lanes| lanes.get_mut(lane as usize)) {
                *state = at;
            }
        }
        state.looked = commit.looked;
        (state.segments, state.fresh) = (commit.left.usage, commit.left.fresh);
        drop(state);
        self.changed.send_modify(|count| *count += 1);
        self.discard(&commit.left.dead);
    }

    /// Removes the files of segments that no index names any more; what cannot be removed goes when the log is opened again.
    fn discard(&self, dead: &[u32]) {
        for segment in dead {
            if let Err(error) = self.segments.remove(*segment) {
                tracing::warn!(directory = %self.directory.display(), segment, %error, "an old segment could not be removed");
            }
        }
    }
}

/// The value under a lock; a panic elsewhere leaves it as whole as it was, since every change is made in one step.
fn guard<G>(locked: LockResult<G>) -> G {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// A number that no other topic has.
fn identity() -> u128 {
    let now = SystemTime::now();
    let half = || u128::from(RandomState::new().hash_one((now, std::process::id())));
    half() << 64 | half()
}

/// What an error of the file system means to the log's user.
fn io_error(directory: &Path, doing: &str, error: &io::Error) -> LogError {
    let place = directory.display();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => LogError::Full(format!(
            "{place}: the disk of the local log is full ({error}). Everything committed before is there. Make room on it, shorten \
             topics.local.retention, or let the sinks catch up, and start again"
        )),
        _ => LogError::Broken(format!("{place}: the local log: {doing}: {error}")),
    }
}
