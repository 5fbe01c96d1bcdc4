//! The protections of the protocol by name, so that a test can take one out and show that it is needed.

/// One rule without which the order can break. The product runs with all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Protection {
    /// Progress is moved by compare-and-set, first in every batch.
    CompareAndSet,
    /// The stored position counts markers and the end of the partition.
    Position,
    /// Decisions are taken under a session lock.
    Lock,
    /// A reload supersedes earlier changes that are not decided.
    Supersede,
    /// Changes of a held table queue behind the hold.
    Queue,
    /// A new source fences the old one off.
    Fence,
    /// Fencing comes before progress is read.
    FenceFirst,
    /// The stream stands while a chunk is read and published.
    Stand,
    /// The events of a key are folded, not "the last one wins".
    Fold,
    /// A decision waits until all lanes passed.
    Boundary,
    /// The boundary is read after the older rows were committed.
    BoundaryAfterCommit,
    /// A held table counts as having passed.
    HeldPasses,
    /// Event and progress are one transaction.
    EventWithProgress,
    /// Rows and progress are one transaction at the source.
    RowsWithProgress,
    /// The intent is recorded before the first statement.
    Intent,
    /// A chunk is thrown away where the catalog's shape differs.
    ShapeCheck,
    /// Rows are applied up to the newest decided epoch only.
    Decided,
    /// The position is stored where no row came.
    EmptyEnd,
    /// A key change is a delete and a create.
    KeySplit,
    /// Sinks read committed records only.
    ReadCommitted,
    /// Progress moves in the transaction of the rows at the target.
    SinkTransaction,
    /// A reload gives the target table the shape of its event, whatever it was.
    ReloadShape,
    /// Column order counts in an intent's shapes.
    ColumnOrder,
    /// A reload moves the table's stored positions to its boundaries first, and waits for none.
    MoveFirst,
    /// A chunk counts when the stream has passed its read position without a change of the table.
    ChunkPassed,
    /// A key change with columns not carried during a copy: the new key is read again.
    Reread,
    /// Without a key: the stream goes on to the view's position first.
    ViewPosition,
    /// Without a key: a copy begun again begins with the emptying event.
    ViewEmpties,
    /// Intent, DDL and outcome run in the session that holds the lock.
    LockSession,
    /// A held table's change is judged in epoch order.
    InOrder,
    /// Superseding is done under the lock.
    SupersedeUnderLock,
    /// A source that stood: the table's log is skipped up to a pinned place, where the reload's event stands.
    SkipToPinned,
    /// What an event changes in progress moves in the event's transaction only.
    EventEffect,
    /// Decided epoch, holds and queues are read in one snapshot.
    OneSnapshot,
    /// A chunk's view covers the stream's position.
    ViewCovers,
    /// The decider reads the schema versions to their end after it has the lock.
    ReadToEnd,
    /// Until its queue is empty a table counts as held.
    Drain,
}

impl Protection {
    pub const ALL: [Self; 37] = [
        Protection::CompareAndSet,
        Protection::Position,
        Protection::Lock,
        Protection::Supersede,
        Protection::Queue,
        Protection::Fence,
        Protection::FenceFirst,
        Protection::Stand,
        Protection::Fold,
        Protection::Boundary,
        Protection::BoundaryAfterCommit,
        Protection::HeldPasses,
        Protection::EventWithProgress,
        Protection::RowsWithProgress,
        Protection::Intent,
        Protection::ShapeCheck,
        Protection::Decided,
        Protection::EmptyEnd,
        Protection::KeySplit,
        Protection::ReadCommitted,
        Protection::SinkTransaction,
        Protection::ReloadShape,
        Protection::ColumnOrder,
        Protection::MoveFirst,
        Protection::ChunkPassed,
        Protection::Reread,
        Protection::ViewPosition,
        Protection::ViewEmpties,
        Protection::LockSession,
        Protection::InOrder,
        Protection::SupersedeUnderLock,
        Protection::SkipToPinned,
        Protection::EventEffect,
        Protection::OneSnapshot,
        Protection::ViewCovers,
        Protection::ReadToEnd,
        Protection::Drain,
    ];
}

/// A set of protections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protections(u64);

impl Protections {
    /// What the product runs with.
    pub const ALL: Self = Self(u64::MAX);

    /// All but one.
    #[must_use]
    pub const fn without(self, protection: Protection) -> Self {
        Self(self.0 & !(1 << protection as u64))
    }

    pub const fn has(self, protection: Protection) -> bool {
        self.0 & (1 << protection as u64) != 0
    }
}

impl Default for Protections {
    fn default() -> Self {
        Self::ALL
    }
}
