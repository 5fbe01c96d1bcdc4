//! Rows that are kept until the end of their group is known: in memory up to a bound, behind it in a file.

use std::{
    collections::{BTreeSet, VecDeque},
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use schemas::table::TableId;

use crate::{
    error::CaptureError,
    mysql::decode::{rows::Rows, table_map::TableMap},
};

/// Rows of one group, in order.
#[derive(Debug, Default)]
pub struct Kept {
    /// The tables as the log wrote them; parts in the file name them by number.
    maps: Vec<Arc<TableMap>>,
    memory: VecDeque<Rows>,
    bytes: usize,
    /// What came behind those in memory.
    stored: Option<Extent>,
}

/// A part of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Extent {
    begin: u64,
    end: u64,
}

/// How much was kept at a savepoint.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    memory: usize,
    end: Option<u64>,
}

/// The file. It is removed as soon as it is open: nothing of it outlives the process, for the log has all of it.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    file: Option<File>,
    /// Parts that are in use, by begin. Groups follow each other in the log, so their parts never overlap.
    used: BTreeSet<Extent>,
    /// Bytes in memory, of all groups.
    memory: usize,
    limit: usize,
    buffer: Vec<u8>,
}

impl Store {
    pub fn new(folder: PathBuf, limit: usize) -> Self {
        Self { folder, file: None, used: BTreeSet::new(), memory: 0, limit, buffer: Vec::new() }
    }

    fn failed(&self, doing: &str, error: &io::Error) -> CaptureError {
        CaptureError::Transient(format!(
            "rows of a transaction whose end is not read yet cannot be {doing} in the folder {}: {error}; give it room",
            self.folder.display()
        ))
    }

    fn open(&mut self) -> Result<&File, CaptureError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if self.file.is_none() {
            let name = format!("instar-kept-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = self.folder.join(name);
            let made = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
            let file = made.map_err(|error| self.failed("kept", &error))?;
            std::fs::remove_file(&path).map_err(|error| self.failed("kept", &error))?;
            self.file = Some(file);
        }
        self.file.as_ref().ok_or_else(|| CaptureError::Transient("the file of kept rows is not open".into()))
    }

    /// Where the part that is used last ends.
    fn end(&self) -> u64 {
        self.used.last().map_or(0, |extent| extent.end)
    }

    fn append(&mut self, extent: Option<Extent>, rows: &Rows, map: u32) -> Result<Extent, CaptureError> {
        let end = self.end();
        let extent = extent.unwrap_or(Extent { begin: end, end });
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.extend([0; 8]);
        rows.store(map, &mut buffer);
        let length = buffer.len() as u64 - 8;
        buffer[..8].copy_from_slice(&length.to_le_bytes());
        let written = self.open()?.write_all_at(&buffer, extent.end);
        self.buffer = buffer;
        written.map_err(|error| self.failed("kept", &error))?;
        let longer = Extent { end: extent.end + 8 + length, ..extent };
        self.replace(Some(extent), Some(longer));
        Ok(longer)
    }

    fn read(&mut self, extent: &mut Extent, maps: &[Arc<TableMap>]) -> Result<Option<Rows>, CaptureError> {
        if extent.begin >= extent.end {
            return Ok(None);
        }
        let mut length = [0; 8];
        let at = extent.begin;
        let file = self.open()?;
        let read = file.read_exact_at(&mut length, at);
        let length = u64::from_le_bytes(length);
        let mut part = vec![0; usize::try_from(length).unwrap_or_default()];
        let read = read.and_then(|()| file.read_exact_at(&mut part, at + 8));
        read.map_err(|error| self.failed("read again", &error))?;
        extent.begin += 8 + length;
        let rows = Rows::restore(&part, maps).map_err(|problem| CaptureError::Transient(problem.to_string()))?;
        Ok(Some(rows))
    }

    /// Gives the end of the file back when nobody uses it.
    fn replace(&mut self, old: Option<Extent>, new: Option<Extent>) {
        if let Some(old) = old {
            self.used.remove(&old);
        }
        self.used.extend(new.filter(|extent| extent.begin < extent.end));
        if new.is_none_or(|new| old.is_some_and(|old| new.end < old.end))
            && let Some(file) = &self.file
        {
            // What cannot be given back is written over.
            let _ = file.set_len(self.end());
        }
    }
}

impl Kept {
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.stored.is_none()
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The tables that rows were kept of, as the log wrote them.
    pub fn maps(&self) -> &[Arc<TableMap>] {
        &self.maps
    }

    /// Keeps rows; where all groups together hold too much, in the file.
    pub fn push(&mut self, rows: Rows, store: &mut Store) -> Result<(), CaptureError> {
        if self.stored.is_none() && store.memory + rows.size() <= store.limit {
            self.push_in_memory(rows, store);
            return Ok(());
        }
        let map = self.number(&rows.map);
        let map = u32::try_from(map).map_err(|_| CaptureError::Transient("a group of more than 2^32 tables".into()))?;
        self.stored = Some(store.append(self.stored, &rows, map)?);
        Ok(())
    }

    /// Keeps rows in memory, whatever there is already.
    pub fn push_in_memory(&mut self, rows: Rows, store: &mut Store) {
        self.number(&rows.map);
        self.bytes += rows.size();
        store.memory += rows.size();
        self.memory.push_back(rows);
    }

    /// A table's number in this group.
    fn number(&mut self, map: &Arc<TableMap>) -> usize {
        let known = self.maps.iter().rposition(|known| Arc::ptr_eq(known, map));
        known.unwrap_or_else(|| {
            self.maps.push(Arc::clone(map));
            self.maps.len() - 1
        })
    }

    pub fn mark(&self) -> Mark {
        Mark { memory: self.memory.len(), end: self.stored.map(|extent| extent.end) }
    }

    /// Takes back what came behind a mark.
    pub fn back_to(&mut self, mark: Mark, store: &mut Store) {
        if let Some(extent) = self.stored {
            let shorter = mark.end.map(|end| Extent { end, ..extent }).filter(|extent| extent.begin < extent.end);
            store.replace(Some(extent), shorter);
            self.stored = shorter;
        }
        for rows in self.memory.drain(mark.memory.min(self.memory.len())..) {
            self.bytes -= rows.size();
            store.memory -= rows.size();
        }
    }

    /// The oldest rows that are left.
    pub fn next(&mut self, store: &mut Store) -> Result<Option<Rows>, CaptureError> {
        if let Some(rows) = self.memory.pop_front() {
            self.bytes -= rows.size();
            store.memory -= rows.size();
            return Ok(Some(rows));
        }
        let Some(extent) = self.stored else { return Ok(None) };
        let mut left = extent;
        let rows = store.read(&mut left, &self.maps)?;
        let left = (left.begin < left.end).then_some(left);
        store.replace(Some(extent), left);
        self.stored = left;
        Ok(rows)
    }

    /// Takes all of it back.
    pub fn discard(mut self, store: &mut Store) {
        self.back_to(Mark { memory: 0, end: None }, store);
    }

    /// Leaves out rows in memory of tables that are not these.
    pub fn only(&mut self, tables: &BTreeSet<TableId>, store: &mut Store) {
        let (bytes, memory) = (&mut self.bytes, &mut store.memory);
        self.memory.retain(|rows| {
            let stays = tables.contains(&rows.map.table);
            if !stays {
                *bytes -= rows.size();
                *memory -= rows.size();
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::decode::rows::Kind;

    fn map() -> Arc<TableMap> {
        // Table 7, `d`.`t`: one INT.
        let body = [&[7, 0, 0, 0, 0, 0, 1, 0, 1][..], b"d\0", &[1], b"t\0", &[1, 3, 0, 1]].concat();
        Arc::new(TableMap::read(&body, true).unwrap())
    }

    fn rows(map: &Arc<TableMap>, id: u8, size: usize) -> Rows {
        let mut body = vec![7, 0, 0, 0, 0, 0, 1, 0, 1, 1];
        body.resize(body.len() + size, id);
        Rows::read(&body, Kind::of(23).unwrap(), Arc::clone(map), format!("log:{id}")).unwrap()
    }

    fn all(kept: &mut Kept, store: &mut Store) -> Vec<(String, usize)> {
        std::iter::from_fn(|| kept.next(store).unwrap()).map(|rows| (rows.position.clone(), rows.size())).collect()
    }

    fn length(store: &Store) -> u64 {
        store.file.as_ref().map_or(0, |file| file.metadata().unwrap().len())
    }

    #[test]
    fn what_is_beyond_the_memory_comes_back_from_the_file_in_order_and_leaves_nothing() {
        let folder = std::env::temp_dir().join(format!("instar-kept-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (map, mut store) = (map(), Store::new(folder.clone(), 100));
        let (mut first, mut second) = (Kept::default(), Kept::default());
        for id in 1..=4 {
            first.push(rows(&map, id, 40), &mut store).unwrap();
        }
        assert_eq!((first.bytes(), first.memory.len()), (80, 2));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "the file has no name");
        // Another group, behind it in the file; a part of it is taken back, then more is kept.
        second.push(rows(&map, 5, 1000), &mut store).unwrap();
        let (mark, before) = (second.mark(), length(&store));
        second.push(rows(&map, 6, 1000), &mut store).unwrap();
        second.back_to(mark, &mut store);
        assert_eq!(length(&store), before);
        second.push(rows(&map, 7, 2000), &mut store).unwrap();
        assert_eq!(all(&mut second, &mut store), [("log:5".into(), 1000), ("log:7".into(), 2000)]);
        assert!(length(&store) > 0 && length(&store) < before);
        assert_eq!(all(&mut first, &mut store), (1..=4).map(|id| (format!("log:{id}"), 40)).collect::<Vec<_>>());
        assert_eq!((length(&store), store.memory), (0, 0));
        // Back to a mark in memory takes all of the file's part.
        let mark = second.mark();
        for id in 1..=4 {
            second.push(rows(&map, id, 60), &mut store).unwrap();
        }
        second.back_to(mark, &mut store);
        assert!(second.is_empty());
        assert_eq!((length(&store), store.memory), (0, 0));
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_takes_nothing_is_named() {
        let (map, mut store) = (map(), Store::new("/nowhere/at/all".into(), 10));
        let error = Kept::default().push(rows(&map, 1, 40), &mut store).unwrap_err();
        assert!(matches!(&error, CaptureError::Transient(text) if text.contains("/nowhere/at/all")), "{error}");
    }
}
