//! The exclusive lock on a log's directory.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::LogError;

/// Its name in the directory. The file stays; the lock is the kernel's, so that a killed process leaves none.
const FILE: &str = "lock";
/// How long a process waits for the one before it to end.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// Held while it lives.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
    directory: PathBuf,
}

impl DirectoryLock {
    /// Waits up to `patience` for the lock; then `Locked`, naming the directory and who has it. Blocks.
    pub fn acquire(directory: &Path, patience: Duration) -> Result<Self, LogError> {
        let path = directory.join(FILE);
        let trouble = |error: std::io::Error| super::io_error(directory, "the lock file", &error);
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(trouble)?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if begun.elapsed() >= patience => return Err(locked(directory)),
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
                Err(TryLockError::Error(error)) => return Err(trouble(error)),
            }
        }
        // Who has it is for messages alone: a full disk must not keep anyone out.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file, directory: directory.to_owned() })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// The process that says it has the lock.
pub fn holder(directory: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(directory.join(FILE)).ok()?.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

pub(super) fn locked(directory: &Path) -> LogError {
    let who = holder(directory).map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
    LogError::Locked(format!(
        "{}: the local log is in use by {who}; one process at a time can have it: stop that one, or give this pipeline a directory of \
         its own (topics.local.path)",
        directory.display()
    ))
}
