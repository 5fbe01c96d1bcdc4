//! Records of a lane.

use std::sync::Arc;

use runtime::kafka::Taken;
use schemas::event::Offset;

use crate::consumer::{Block, Record};

/// What was taken of a lane, or the rest of it. The bytes are the library's own.
pub struct KafkaBlock {
    taken: Option<Arc<Taken>>,
    /// Messages before the first of this block.
    skip: usize,
    next: Offset,
    whole: bool,
}

impl KafkaBlock {
    /// Nothing is there.
    pub(super) fn empty(next: Offset, whole: bool) -> Self {
        Self { taken: None, skip: 0, next, whole }
    }

    /// What lies at or above `from`.
    pub(super) fn rest(taken: &Arc<Taken>, from: Offset, next: Offset) -> Self {
        let skip = taken.messages().partition_point(|message| message.offset() < from);
        Self { taken: Some(taken.clone()), skip, next, whole: false }
    }
}

impl Block for KafkaBlock {
    fn records(&self) -> impl Iterator<Item = Record<'_>> + Send {
        let messages = self.taken.iter().flat_map(|taken| taken.messages()).skip(self.skip);
        // A tombstone is no row: the deletion before it is.
        messages.filter_map(|m| Some(Record { offset: m.offset(), key: m.key(), value: m.value()? }))
    }

    fn next(&self) -> Offset {
        self.next
    }

    fn whole(&self) -> bool {
        self.whole
    }
}
