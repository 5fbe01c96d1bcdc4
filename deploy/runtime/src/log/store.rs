//! The embedded store under the log: its tables, how it is opened, and what its errors mean.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::Path,
    sync::Arc,
    thread,
    time::Instant,
};

use redb::{
    Builder, Database, DatabaseError, ReadOnlyDatabase, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError,
    WriteTransaction,
};
use schemas::event::Offset;
use serde::{Deserialize, Serialize};

use super::{
    Keep, LogError, Topic,
    lock::{self, DirectoryLock},
    rows::Left,
    segment::Usage,
};

/// Topic number, lane and last offset of a block: the first at or above an offset is the block that holds it.
pub(super) type BlockKey = (u32, u32, u64);
/// Blocks of topics that are small and stay.
pub(super) const BLOCKS: TableDefinition<'_, BlockKey, &[u8]> = TableDefinition::new("blocks");
/// Blocks of rows that are not in a segment yet.
pub(super) const FRESH: TableDefinition<'_, BlockKey, &[u8]> = TableDefinition::new("fresh");
/// Where settled blocks of rows are: segment, position, length, first offset, time.
pub(super) type Entry = (u32, u64, u32, u64, u64);
pub(super) const INDEX: TableDefinition<'_, BlockKey, Entry> = TableDefinition::new("index");
/// Length and wanted bytes of each segment.
pub(super) const SEGMENTS: TableDefinition<'_, u32, (u64, u64)> = TableDefinition::new("segments");
/// First and next offset by topic number and lane.
pub(super) const LANES: TableDefinition<'_, (u32, u32), (u64, u64)> = TableDefinition::new("lanes");
pub(super) const TOPICS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("topics");
pub(super) const SCHEMAS: TableDefinition<'_, u32, &str> = TableDefinition::new("schemas");
pub(super) const SCHEMA_IDS: TableDefinition<'_, &str, u32> = TableDefinition::new("schema_ids");
pub(super) const SUBJECTS: TableDefinition<'_, (&str, u32), ()> = TableDefinition::new("subjects");
pub(super) const SINKS: TableDefinition<'_, &str, ()> = TableDefinition::new("sinks");
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

pub(super) const FORMAT: &str = "format";
/// Topic numbers are never used again, so that a topic made anew finds nothing of the old one.
pub(super) const NEXT_TOPIC: &str = "next_topic";
const VERSION: u64 = 1;

pub(super) const FILE: &str = "log.redb";
const UNFINISHED: &str = "log.redb.new";
/// Memory of the store, which holds little: the rows are in segments.
const CACHE: usize = 4 * 1024 * 1024;

/// A topic as the store keeps it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredTopic {
    pub number: u32,
    pub id: u128,
    pub lanes: u32,
    pub keep: Keep,
}

/// A lane's bounds, and when its oldest block was written (None: not looked at yet).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LaneState {
    pub start: Offset,
    pub end: Offset,
    pub oldest: Option<u64>,
}

/// Known sinks, and how far each has applied a lane (topic number, lane).
pub(super) type Sinks = BTreeMap<String, BTreeMap<(u32, u32), Offset>>;

/// What is committed, in memory.
#[derive(Debug, Default)]
pub(super) struct State {
    pub topics: BTreeMap<Arc<str>, Topic>,
    /// By topic number.
    pub lanes: BTreeMap<u32, Vec<LaneState>>,
    pub segments: BTreeMap<u32, Usage>,
    /// Bytes of fresh blocks.
    pub fresh: u64,
    /// When retention last looked, in milliseconds since 1970.
    pub looked: u64,
}

pub(super) enum Store {
    Write(Database),
    Read(ReadOnlyDatabase),
    /// It failed and could not be opened again.
    Failed(String),
}

impl Store {
    pub fn begin_read(&self, directory: &Path) -> Result<ReadTransaction, LogError> {
        match self {
            Store::Write(database) => database.begin_read().map_err(|e| trouble(directory, "reading", e)),
            Store::Read(database) => database.begin_read().map_err(|e| trouble(directory, "reading", e)),
            Store::Failed(why) => Err(LogError::Broken(why.clone())),
        }
    }

    pub fn database(&self, directory: &Path) -> Result<&Database, LogError> {
        match self {
            Store::Write(database) => Ok(database),
            Store::Read(_) => Err(LogError::Broken(format!("{}: the local log is open for reading only", directory.display()))),
            Store::Failed(why) => Err(LogError::Broken(why.clone())),
        }
    }
}

/// Opens the store for writing, under the directory's lock. A reading command may have it for a moment.
pub(super) fn open(directory: &Path, builder: impl Fn() -> Result<Database, DatabaseError>) -> Result<Database, LogError> {
    let begun = Instant::now();
    if !fs::exists(directory.join(FILE)).map_err(|e| super::io_error(directory, FILE, &e))? {
        begin(directory)?;
    }
    let database = loop {
        match builder() {
            Ok(database) => break database,
            Err(DatabaseError::DatabaseAlreadyOpen) if begun.elapsed() < lock::PATIENCE => thread::sleep(lock::PAUSE),
            Err(DatabaseError::DatabaseAlreadyOpen) => return Err(lock::locked(directory)),
            Err(error) => return Err(trouble(directory, "opening", error)),
        }
    };
    check_version(&database).map_err(|e| trouble(directory, "opening", e))?;
    Ok(database)
}

pub(super) fn create(directory: &Path) -> Result<Database, DatabaseError> {
    Builder::new().set_cache_size(CACHE).create(directory.join(FILE))
}

/// Makes the store under another name first, so that it is there whole or not at all.
fn begin(directory: &Path) -> Result<(), LogError> {
    let path = directory.join(UNFINISHED);
    let failed = |e: io::Error| super::io_error(directory, "creating the store", &e);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    let database = Builder::new().set_cache_size(CACHE).create(&path).map_err(|e| trouble(directory, "creating", e))?;
    create_tables(&database).map_err(|e| trouble(directory, "creating", e))?;
    database.close().map_err(|e| trouble(directory, "creating", e))?;
    fs::rename(&path, directory.join(FILE)).map_err(failed)?;
    File::open(directory).and_then(|d| d.sync_all()).map_err(failed)
}

/// Opens the store for reading. After a kill it needs repair, for which the lock is taken for a moment.
pub(super) fn open_read_only(directory: &Path) -> Result<ReadOnlyDatabase, LogError> {
    let path = directory.join(FILE);
    if !fs::exists(&path).map_err(|e| super::io_error(directory, FILE, &e))? {
        return Err(LogError::Absent(format!("{}: there is no local log here yet: `instar run` creates it", directory.display())));
    }
    let begun = Instant::now();
    loop {
        match Builder::new().set_cache_size(CACHE).open_read_only(&path) {
            Ok(database) => return Ok(database),
            Err(DatabaseError::RepairAborted) => {
                let _lock = DirectoryLock::acquire(directory, lock::PATIENCE)?;
                drop(open(directory, || create(directory))?);
            }
            Err(DatabaseError::DatabaseAlreadyOpen) if DirectoryLock::acquire(directory, std::time::Duration::ZERO).is_err() => {
                return Err(lock::locked(directory));
            }
            // Another reader repairs it, or a process is just ending.
            Err(DatabaseError::DatabaseAlreadyOpen) if begun.elapsed() < lock::PATIENCE => thread::sleep(lock::PAUSE),
            Err(DatabaseError::DatabaseAlreadyOpen) => return Err(lock::locked(directory)),
            Err(error) => return Err(trouble(directory, "opening", error)),
        }
    }
}

fn check_version(database: &Database) -> Result<(), redb::Error> {
    match version(&database.begin_read()?)? {
        Some(VERSION) => Ok(()),
        Some(other) => Err(redb::Error::Corrupted(format!("it has format {other}; this version of Instar knows format {VERSION}"))),
        None => Err(redb::Error::Corrupted("it has no format; it was not made by Instar".into())),
    }
}

/// Every table is there from the beginning, so that a reader never meets a missing one.
fn create_tables(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(BLOCKS)?;
    transaction.open_table(FRESH)?;
    transaction.open_table(INDEX)?;
    transaction.open_table(SEGMENTS)?;
    transaction.open_table(LANES)?;
    transaction.open_table(TOPICS)?;
    transaction.open_table(SCHEMAS)?;
    transaction.open_table(SCHEMA_IDS)?;
    transaction.open_table(SUBJECTS)?;
    transaction.open_table(SINKS)?;
    transaction.open_table(META)?.insert(FORMAT, VERSION)?;
    transaction.commit()?;
    Ok(())
}

fn version(transaction: &ReadTransaction) -> Result<Option<u64>, redb::Error> {
    match transaction.open_table(META) {
        Ok(table) => Ok(table.get(FORMAT)?.map(|v| v.value())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads what is committed.
pub(super) fn load(transaction: &ReadTransaction) -> Result<State, redb::Error> {
    let mut state = State::default();
    for entry in transaction.open_table(TOPICS)?.iter()? {
        let (name, stored) = entry?;
        let stored: StoredTopic =
            serde_json::from_slice(stored.value()).map_err(|e| redb::Error::Corrupted(format!("topic {}: {e}", name.value())))?;
        let name: Arc<str> = name.value().into();
        state.lanes.insert(stored.number, vec![LaneState::default(); stored.lanes as usize]);
        let topic = Topic { name: name.clone(), id: stored.id, lanes: stored.lanes, keep: stored.keep, number: stored.number };
        state.topics.insert(name, topic);
    }
    for entry in transaction.open_table(LANES)?.iter()? {
        let (key, bounds) = entry?;
        let (number, lane) = key.value();
        let (start, end) = bounds.value();
        if let Some(lane) = state.lanes.get_mut(&number).and_then(|lanes| lanes.get_mut(lane as usize)) {
            *lane = LaneState { start, end, oldest: None };
        }
    }
    for entry in transaction.open_table(FRESH)?.iter()? {
        state.fresh += entry?.1.value().len() as u64;
    }
    for entry in transaction.open_table(SEGMENTS)?.iter()? {
        let (segment, usage) = entry?;
        let (length, live) = usage.value();
        state.segments.insert(segment.value(), Usage { length, live });
    }
    Ok(state)
}

/// Reads which sinks are known; where they are they say anew.
pub(super) fn load_sinks(transaction: &ReadTransaction) -> Result<Sinks, redb::Error> {
    let mut sinks = Sinks::new();
    for entry in transaction.open_table(SINKS)?.iter()? {
        sinks.insert(entry?.0.value().to_owned(), BTreeMap::new());
    }
    Ok(sinks)
}

/// The error for a block that is too short to be one.
pub(super) fn headless((number, lane, last): BlockKey) -> redb::Error {
    redb::Error::Corrupted(format!("the block at offset {last} of lane {lane} of topic number {number} has no header"))
}

/// Writes what changed in the segments.
pub(super) fn write_usage(transaction: &WriteTransaction, before: &BTreeMap<u32, Usage>, left: &Left) -> Result<(), redb::Error> {
    let mut segments = transaction.open_table(SEGMENTS)?;
    for (segment, usage) in &left.usage {
        if before.get(segment) != Some(usage) {
            segments.insert(segment, (usage.length, usage.live))?;
        }
    }
    for segment in &left.dead {
        segments.remove(segment)?;
    }
    Ok(())
}

/// What an error of the store means to its user.
pub(super) fn trouble(directory: &Path, doing: &str, error: impl Into<redb::Error>) -> LogError {
    match error.into() {
        redb::Error::Io(error) => super::io_error(directory, doing, &error),
        other => LogError::Broken(format!("{}: {doing} the local log: {other}", directory.display())),
    }
}
