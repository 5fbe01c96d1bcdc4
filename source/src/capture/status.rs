//! What the source is doing, for status pages and probes of its own process. What is durable stands in the progress topic.

use std::{collections::BTreeMap, fmt::Display};

use schemas::{
    event::{CopyProgress, Epoch, Progress, Seq, SourceState, TableProgress},
    table::TableId,
};
use tokio::sync::watch;

/// The process's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Connecting and reading what is durable.
    #[default]
    Starting,
    Running,
    /// A transient fault; the message says which.
    Retrying,
    Paused,
    /// A person must act; the message says what.
    Stopped,
    /// The loop has ended.
    Down,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Running => "running",
            State::Retrying => "retrying",
            State::Paused => "paused",
            State::Stopped => "stopped",
            State::Down => "down",
        }
    }
}

/// A table's copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyStatus {
    pub rows_done: u64,
    pub rows_estimated: u64,
}

impl CopyStatus {
    pub(super) fn of<P>(copy: &CopyProgress<P>) -> Self {
        Self { rows_done: copy.rows_done, rows_estimated: copy.rows_estimated }
    }
}

/// What the source is doing, as of its last commit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceStatus {
    pub state: State,
    pub message: String,
    pub position: String,
    pub epoch: Epoch,
    pub seq: Seq,
    /// When the source committed what it stands at, in milliseconds since 1970 UTC; 0: nothing yet.
    pub commit_ts_ms: i64,
    /// Captured tables; those with a copy that is not complete carry it.
    pub tables: BTreeMap<TableId, Option<CopyStatus>>,
    /// Rows that a table's newest copy has read, complete or not; of the copies that went on in this process.
    pub copied: BTreeMap<TableId, u64>,
}

/// The writing end of [`SourceStatus`].
#[derive(Debug)]
pub struct Reporter(watch::Sender<SourceStatus>);

impl Reporter {
    pub fn new() -> (Self, watch::Receiver<SourceStatus>) {
        let (sender, receiver) = watch::channel(SourceStatus::default());
        (Self(sender), receiver)
    }

    /// How far the source has come: changes with every commit that moved it.
    pub(super) fn reached(&self) -> (String, Seq, Epoch) {
        let status = self.0.borrow();
        (status.position.clone(), status.seq, status.epoch)
    }

    pub(super) fn state(&self, state: State, message: &str) {
        self.0.send_if_modified(|status| {
            let changed = status.state != state || status.message != message;
            status.state = state;
            message.clone_into(&mut status.message);
            changed
        });
    }

    /// So many rows of a table's copy are read. Told with the next commit.
    pub(super) fn copied(&self, table: &TableId, rows: u64) {
        self.0.send_if_modified(|status| {
            status.copied.insert(table.clone(), rows);
            false
        });
    }

    /// Which tables are captured from here on.
    pub(super) fn captured<'a, P: 'a>(&self, tables: impl Iterator<Item = &'a TableProgress<P>>) {
        let tables = tables.filter(|t| !t.retired).map(|t| (t.id.clone(), t.copy.as_ref().map(CopyStatus::of))).collect();
        self.0.send_modify(|status| status.tables = tables);
    }

    /// The copies that are not complete, of the captured tables. Told with the commit.
    pub(super) fn copies(&self, copies: BTreeMap<TableId, CopyStatus>) {
        self.0.send_if_modified(|status| {
            status.tables.values_mut().for_each(|copy| *copy = None);
            status.tables.extend(copies.into_iter().map(|(id, copy)| (id, Some(copy))));
            false
        });
    }

    /// Takes over what was just made durable.
    pub(super) fn committed<P: Display>(&self, progress: &Progress<P>) {
        self.0.send_modify(|status| {
            status.state = match progress.state {
                SourceState::Running => State::Running,
                SourceState::Retrying => State::Retrying,
                SourceState::Paused => State::Paused,
                SourceState::Stopped => State::Stopped,
            };
            status.message.clone_from(&progress.message);
            status.position = progress.position.to_string();
            status.epoch = progress.epoch;
            status.seq = progress.seq;
            status.commit_ts_ms = progress.commit_ts_ms;
        });
    }
}
