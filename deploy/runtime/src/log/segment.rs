//! Segments: files that hold the rows' blocks, one behind the other, in the order of the commits.
//!
//! The store's index says where each block is; bytes that it does not name are nothing. So a block is written and synced first, then
//! the index commits, and what a failed or killed writer left behind the committed length is written over.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, RwLock},
};

use super::guard;

/// A segment that is longer than this gets no further block.
const LONGEST: u64 = 64 << 20;
/// Files kept open.
const OPEN: usize = 16;
const PREFIX: &str = "segment-";

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Location {
    pub segment: u32,
    pub position: u64,
    pub length: u32,
}

/// A segment's committed length, and how much of it is still wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub length: u64,
    pub live: u64,
}

/// The segments' files.
#[derive(Debug)]
pub(super) struct Segments {
    directory: PathBuf,
    writable: bool,
    open: RwLock<BTreeMap<u32, Arc<File>>>,
    /// How long the disk lets a segment become.
    #[cfg(test)]
    pub room: std::sync::atomic::AtomicU64,
}

impl Segments {
    pub fn new(directory: &Path, writable: bool) -> Self {
        Self {
            directory: directory.to_owned(),
            writable,
            open: RwLock::default(),
            #[cfg(test)]
            room: u64::MAX.into(),
        }
    }

    fn path(&self, segment: u32) -> PathBuf {
        self.directory.join(format!("{PREFIX}{segment:010}"))
    }

    /// Gives back what no index names: of a writer that was killed or failed before its commit, or of a removal that was.
    pub fn tidy(&self, known: &BTreeMap<u32, Usage>) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let number = entry.file_name().to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
            let Some(number) = number else { continue };
            match known.get(&number) {
                Some(usage) if entry.metadata()?.len() > usage.length => {
                    OpenOptions::new().write(true).open(entry.path())?.set_len(usage.length)?;
                }
                Some(_) => {}
                None => self.remove(number)?,
            }
        }
        Ok(())
    }

    pub fn remove(&self, segment: u32) -> io::Result<()> {
        guard(self.open.write()).remove(&segment);
        fs::remove_file(self.path(segment))
    }

    pub fn read(&self, location: Location, out: &mut [u8]) -> io::Result<()> {
        self.file(location.segment, false)?.read_exact_at(out, location.position)
    }

    fn file(&self, segment: u32, create: bool) -> io::Result<Arc<File>> {
        if let Some(file) = guard(self.open.read()).get(&segment) {
            return Ok(file.clone());
        }
        let file = Arc::new(OpenOptions::new().read(true).write(self.writable).create(create).truncate(false).open(self.path(segment))?);
        let mut open = guard(self.open.write());
        if open.len() >= OPEN {
            open.pop_first();
        }
        open.insert(segment, file.clone());
        Ok(file)
    }
}

/// The blocks of one commit on their way into segments.
pub(super) struct Appender<'s> {
    segments: &'s Segments,
    usage: BTreeMap<u32, Usage>,
    current: Option<(u32, Arc<File>)>,
    began: bool,
}

impl<'s> Appender<'s> {
    /// Goes on behind what is committed.
    pub fn new(segments: &'s Segments, usage: &BTreeMap<u32, Usage>) -> Self {
        Self { segments, usage: usage.clone(), current: None, began: false }
    }

    pub fn append(&mut self, block: &[u8]) -> io::Result<Location> {
        let length = u32::try_from(block.len()).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let (segment, file) = self.current()?;
        let usage = self.usage.entry(segment).or_default();
        let location = Location { segment, position: usage.length, length };
        #[cfg(test)]
        if location.position + block.len() as u64 > self.segments.room.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.write_all_at(block, location.position)?;
        usage.length += u64::from(length);
        usage.live += u64::from(length);
        Ok(location)
    }

    /// The segment that takes the next block.
    fn current(&mut self) -> io::Result<(u32, Arc<File>)> {
        let last = self.usage.last_key_value().map(|(segment, usage)| (*segment, usage.length));
        let segment = match last {
            Some((segment, length)) if length < LONGEST => segment,
            Some((segment, _)) => segment + 1,
            None => 0,
        };
        if let Some((open, file)) = &self.current {
            if *open == segment {
                return Ok((segment, file.clone()));
            }
            file.sync_data()?;
        }
        self.began |= last.is_none_or(|(last, _)| last != segment);
        let file = self.segments.file(segment, true)?;
        self.current = Some((segment, file.clone()));
        Ok((segment, file))
    }

    /// A block is not wanted any more.
    pub fn release(&mut self, location: Location) {
        if let Some(usage) = self.usage.get_mut(&location.segment) {
            usage.live = usage.live.saturating_sub(u64::from(location.length));
        }
    }

    /// Syncs what was written. Returns what the segments are now, and those that nothing is wanted of: their files may go when the
    /// index has committed.
    pub fn finish(mut self) -> io::Result<(BTreeMap<u32, Usage>, Vec<u32>)> {
        if let Some((_, file)) = &self.current {
            file.sync_data()?;
        }
        if self.began {
            File::open(&self.segments.directory)?.sync_all()?;
        }
        // The last one stays, so that numbers are never used again.
        let last = self.usage.last_key_value().map(|(segment, _)| *segment);
        let dead: Vec<u32> = self.usage.iter().filter(|(n, usage)| usage.live == 0 && Some(**n) != last).map(|(n, _)| *n).collect();
        for segment in &dead {
            self.usage.remove(segment);
        }
        Ok((self.usage, dead))
    }
}
