//! The sequence around an event: older rows committed, schemas registered, boundaries read, event and progress in one transaction.

use std::fmt::{Debug, Display};

use super::{
    protection::Protection,
    source::{Draft, Source},
};
use crate::event::{EventKind, Offset, SchemaEvent, TableEvent};

/// What the driver does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Commit the open transaction with the source's progress as it is, then [`Boundary::committed`].
    Commit,
    /// Register key and value schema of the event's table at this index, then [`Boundary::registered`].
    Register(usize),
    /// Read the end offsets of the lanes of the event's table at this index, then [`Boundary::ends`].
    Ends(usize),
    /// Commit [`Boundary::publish`] in one transaction; go on with the source it gives.
    Publish,
}

/// One event on its way. A crash anywhere before `Publish` is durable leaves no trace of it.
#[derive(Debug)]
pub struct Boundary<P> {
    draft: Draft<P>,
    tables: Vec<TableEvent>,
    committed: bool,
    registered: Vec<bool>,
    ends: Vec<bool>,
    ends_first: bool,
    effect_first: bool,
}

impl<P: Clone + PartialEq + Debug + Display> Boundary<P> {
    pub fn new(source: &mut Source<P>, draft: Draft<P>) -> Self {
        let tables: Vec<TableEvent> = draft.tables.iter().map(table_event).collect();
        let effect_first = !source.protections.has(Protection::EventEffect);
        if effect_first {
            source.take_effect(&draft);
        }
        Self {
            committed: false,
            registered: vec![false; tables.len()],
            // Nothing to apply anywhere: no boundary.
            ends: vec![!draft.epoch; tables.len()],
            ends_first: !source.protections.has(Protection::BoundaryAfterCommit),
            effect_first,
            draft,
            tables,
        }
    }

    pub fn act(&self) -> Act {
        let (register, ends) = (self.registered.iter().position(|done| !done), self.ends.iter().position(|done| !done));
        match (self.committed, register, ends) {
            (false, _, Some(table)) if self.ends_first => Act::Ends(table),
            (false, _, _) => Act::Commit,
            (true, Some(table), _) => Act::Register(table),
            (true, None, Some(table)) => Act::Ends(table),
            (true, None, None) => Act::Publish,
        }
    }

    /// The event's table at this index; ids and boundaries are filled in as they come.
    pub fn table(&self, table: usize) -> Option<&TableEvent> {
        self.tables.get(table)
    }

    pub fn committed(&mut self) {
        self.committed = true;
    }

    /// The schema ids of the rows from here on. For an event without an epoch: those of the version as it is.
    pub fn registered(&mut self, table: usize, key_schema: Option<u32>, value_schema: u32) {
        if let Some((event, done)) = self.tables.get_mut(table).zip(self.registered.get_mut(table)) {
            event.key_schema = key_schema;
            event.value_schema = value_schema;
            *done = true;
        }
    }

    /// The identity of the topic that the rows from here on are in.
    pub fn in_topic(&mut self, table: usize, id: Option<String>) {
        if let Some(event) = self.tables.get_mut(table) {
            event.topic_id = id;
        }
    }

    /// Nothing is to be applied anywhere: rows stay in the version that they are in.
    pub fn recorded_only(&self) -> bool {
        !self.draft.epoch
    }

    pub fn kind(&self) -> EventKind {
        self.draft.kind
    }

    /// The end offset of each of the table's lanes, behind everything committed.
    pub fn ends(&mut self, table: usize, ends: Vec<Offset>) {
        if let Some((event, done)) = self.tables.get_mut(table).zip(self.ends.get_mut(table)) {
            event.boundaries = ends;
            *done = true;
        }
    }

    /// The event, and the source behind it: its progress goes into the event's transaction, and it replaces the old source
    /// when that transaction is durable. None: [`Boundary::act`] does not say so yet.
    pub fn publish(&self, source: &Source<P>) -> Option<(SchemaEvent, Source<P>)> {
        if self.act() != Act::Publish {
            return None;
        }
        let mut after = source.clone();
        if !self.effect_first {
            after.take_effect(&self.draft);
        }
        let event = SchemaEvent {
            epoch: self.draft.epoch.then_some(after.state.epoch),
            kind: self.draft.kind,
            position: self.draft.position.to_string(),
            ts_ms: self.draft.ts_ms,
            ddl: self.draft.ddl.clone(),
            tables: self.tables.clone(),
            for_sink: self.draft.for_sink.clone(),
        };
        Some((event, after))
    }
}

fn table_event(part: &super::source::DraftTable) -> TableEvent {
    TableEvent {
        table: part.shape.clone(),
        version: part.version,
        changes: part.changes.clone(),
        topic: part.topic.clone(),
        topic_id: None,
        lanes: part.lanes,
        boundaries: Vec::new(),
        key_schema: None,
        value_schema: 0,
        superseded: part.superseded.clone(),
    }
}
