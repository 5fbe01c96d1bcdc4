//! Folds the events of each key into one effect.
//!
//! Not "the last one wins": an update may lack columns, which then come from what the batch already knows of the row, or
//! from the target. Events of one key share a lane, so they arrive in their order.

mod key;

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use runtime::config::Keyless;
use schemas::wire::{WireError, envelope::Op};
use thiserror::Error;

use self::key::KeyHash;
use crate::{
    row::{Layout, RowEvent},
    target::{Effect, TableBatch, TableVersion},
};

/// Why an event cannot join the batch. Nothing of it was taken.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum FoldError {
    /// An update lacks columns, and its row is not there.
    #[error("an update does not carry all columns, and its row is not on the target")]
    Incomplete,
    /// Without a key, a row is found by all its columns.
    #[error("a change of a table without a key does not carry all columns of the row before it")]
    Unidentified,
    #[error("`keyless: append` takes inserts only, and this is {0}; set `keyless: full_row`, or reload the table")]
    AppendOnly(&'static str),
    #[error("a row event of op {op} has no {image} image")]
    NoImage { op: &'static str, image: &'static str },
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// The effects of one table version in one batch.
#[derive(Debug)]
pub struct Fold<'r> {
    version: Arc<TableVersion>,
    layout: Arc<Layout>,
    keyless: Keyless,
    index: HashMap<&'r [u8], usize, KeyHash>,
    slots: Vec<Slot<'r>>,
    /// Keyless effects, in their order.
    plain: Vec<Plain<'r>>,
    only_reads: bool,
}

#[derive(Debug)]
struct Slot<'r> {
    key: &'r [u8],
    state: State<'r>,
}

#[derive(Debug)]
enum State<'r> {
    Deleted,
    Whole(Image<'r>),
    Partial { image: Image<'r>, absent: Vec<usize>, skip_missing: bool },
}

#[derive(Debug)]
enum Image<'r> {
    Carried(&'r [u8]),
    Made(Vec<u8>),
}

impl Image<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Image::Carried(bytes) => bytes,
            Image::Made(bytes) => bytes,
        }
    }
}

#[derive(Debug)]
enum Plain<'r> {
    Append(&'r [u8]),
    Remove(&'r [u8]),
}

impl<'r> Fold<'r> {
    pub fn new(version: Arc<TableVersion>, layout: Arc<Layout>, keyless: Keyless) -> Self {
        Self { version, layout, keyless, index: HashMap::default(), slots: Vec::new(), plain: Vec::new(), only_reads: true }
    }

    pub fn version(&self) -> &Arc<TableVersion> {
        &self.version
    }

    /// Takes one event in. `key` is the record's key without its frame; empty for a table without a key.
    pub fn push(&mut self, key: &'r [u8], event: &RowEvent<'r, '_>) -> Result<(), FoldError> {
        if self.version.rows.key.is_empty() {
            self.push_keyless(event)?
        } else {
            self.push_keyed(key, event)?
        }
        self.only_reads &= event.facts.op == Op::Read;
        Ok(())
    }

    fn push_keyed(&mut self, key: &'r [u8], event: &RowEvent<'r, '_>) -> Result<(), FoldError> {
        let facts = event.facts;
        match facts.op {
            Op::Truncate => Ok(()),
            Op::Delete => {
                self.set(key, State::Deleted);
                Ok(())
            }
            Op::Create | Op::Update | Op::Read => {
                let after = image(event.after, facts.op, "after")?;
                if facts.absent_after.is_empty() {
                    self.set(key, State::Whole(Image::Carried(after)));
                    return Ok(());
                }
                self.complete(key, after, &facts.absent_after, facts.copying)
            }
        }
    }

    fn set(&mut self, key: &'r [u8], state: State<'r>) {
        match self.index.entry(key) {
            Entry::Occupied(slot) => self.slots[*slot.get()].state = state,
            Entry::Vacant(slot) => {
                slot.insert(self.slots.len());
                self.slots.push(Slot { key, state });
            }
        }
    }

    /// An image without all columns, on top of what is known of the row.
    fn complete(&mut self, key: &'r [u8], after: &'r [u8], absent: &[usize], copying: bool) -> Result<(), FoldError> {
        let Some(slot) = self.index.get(key).map(|i| &mut self.slots[*i]) else {
            self.set(key, State::Partial { image: Image::Carried(after), absent: absent.to_vec(), skip_missing: copying });
            return Ok(());
        };
        match &mut slot.state {
            // The chunk that brings the row is still to come.
            State::Deleted if copying => Ok(()),
            State::Deleted => Err(FoldError::Incomplete),
            State::Whole(older) => {
                slot.state = State::Whole(Image::Made(self.layout.complete(older.bytes(), after, absent)?));
                Ok(())
            }
            State::Partial { image, absent: missing, skip_missing } => {
                *image = Image::Made(self.layout.complete(image.bytes(), after, absent)?);
                missing.retain(|i| absent.contains(i));
                *skip_missing &= copying;
                Ok(())
            }
        }
    }

    fn push_keyless(&mut self, event: &RowEvent<'r, '_>) -> Result<(), FoldError> {
        let facts = event.facts;
        match facts.op {
            Op::Truncate => Ok(()),
            Op::Create | Op::Read => self.append(event),
            Op::Delete => self.remove(event, "a delete"),
            Op::Update => {
                if !facts.absent_after.is_empty() {
                    return Err(FoldError::Unidentified);
                }
                let after = image(event.after, facts.op, "after")?;
                self.remove(event, "an update")?;
                self.plain.push(Plain::Append(after));
                Ok(())
            }
        }
    }

    fn append(&mut self, event: &RowEvent<'r, '_>) -> Result<(), FoldError> {
        if !event.facts.absent_after.is_empty() {
            return Err(FoldError::Incomplete);
        }
        self.plain.push(Plain::Append(image(event.after, event.facts.op, "after")?));
        Ok(())
    }

    fn remove(&mut self, event: &RowEvent<'r, '_>, what: &'static str) -> Result<(), FoldError> {
        match self.keyless {
            Keyless::FullRow => {}
            Keyless::Append | Keyless::Refuse => return Err(FoldError::AppendOnly(what)),
        }
        if !event.facts.absent_before.is_empty() {
            return Err(FoldError::Unidentified);
        }
        self.plain.push(Plain::Remove(image(event.before, event.facts.op, "before")?));
        Ok(())
    }

    /// What the target has to do, and whether every event came from a copy.
    pub fn batch(&self, fresh: bool) -> TableBatch<'_> {
        let keyed = self.slots.iter().map(|slot| match &slot.state {
            State::Deleted => Effect::Delete { key: slot.key },
            State::Whole(image) => Effect::Upsert { key: slot.key, row: image.bytes(), absent: Vec::new(), skip_missing: false },
            State::Partial { image, absent, skip_missing } => {
                Effect::Upsert { key: slot.key, row: image.bytes(), absent: absent.clone(), skip_missing: *skip_missing }
            }
        });
        let plain = self.plain.iter().map(|effect| match effect {
            Plain::Append(row) => Effect::Append { row },
            Plain::Remove(row) => Effect::Remove { row },
        });
        let effects = keyed.chain(plain).collect();
        TableBatch { version: self.version.clone(), effects, fresh_copy: fresh && self.only_reads }
    }
}

fn image<'r>(image: Option<&'r [u8]>, op: Op, name: &'static str) -> Result<&'r [u8], FoldError> {
    image.ok_or(FoldError::NoImage { op: op.code(), image: name })
}

#[cfg(test)]
mod tests;
