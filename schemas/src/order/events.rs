//! What one sink has read of the schema-versions topic.

use std::{collections::BTreeMap, sync::Arc};

use super::protection::{Protection, Protections};
use crate::{
    event::{Epoch, EventKind, SchemaEvent, TableEvent, Version},
    table::TableId,
};

/// What an event asks of this sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Make the pipeline's first tables.
    Create,
    /// Carry out a statement.
    Change,
    /// Begin the tables anew.
    Reload,
    /// Leave the tables alone from here on.
    Retire,
    /// A reload for another sink: a new version of the same table, nothing more.
    Elsewhere,
}

/// The events with an epoch, read so far in their order.
#[derive(Debug, Clone, Default)]
pub struct Events {
    sink: String,
    protections: Protections,
    by_epoch: BTreeMap<Epoch, Arc<SchemaEvent>>,
}

impl Events {
    /// None read yet, for this sink.
    pub fn new(sink: impl Into<String>) -> Self {
        Self { sink: sink.into(), protections: Protections::ALL, by_epoch: BTreeMap::new() }
    }

    /// As [`Events::new`], with some protections taken out: only to show that they are needed.
    #[must_use]
    pub fn protected_by(mut self, protections: Protections) -> Self {
        self.protections = protections;
        self
    }

    pub(super) fn has(&self, protection: Protection) -> bool {
        self.protections.has(protection)
    }

    /// Adds an event. One without an epoch changes nothing here; one that is known already neither.
    pub fn add(&mut self, event: Arc<SchemaEvent>) {
        if let Some(epoch) = event.epoch {
            self.by_epoch.entry(epoch).or_insert(event);
        }
    }

    pub fn get(&self, epoch: Epoch) -> Option<&Arc<SchemaEvent>> {
        self.by_epoch.get(&epoch)
    }

    /// The newest epoch read; 0: none.
    pub fn newest(&self) -> Epoch {
        self.by_epoch.last_key_value().map_or(0, |(epoch, _)| *epoch)
    }

    /// All events, in epoch order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Epoch, &Arc<SchemaEvent>)> {
        self.by_epoch.iter().map(|(epoch, event)| (*epoch, event))
    }

    /// The event that introduced a version of a table, and its epoch.
    pub fn version(&self, table: &TableId, version: Version) -> Option<(Epoch, &TableEvent)> {
        self.by_epoch.iter().find_map(|(epoch, event)| event.table(table).filter(|t| t.version == version).map(|t| (*epoch, t)))
    }

    /// What this event asks of this sink.
    pub fn asked(&self, event: &SchemaEvent) -> Asked {
        match event.kind {
            EventKind::Initial => Asked::Create,
            EventKind::Ddl => Asked::Change,
            EventKind::Retire => Asked::Retire,
            EventKind::Reload if self.mine(event.for_sink.as_deref()) => Asked::Reload,
            EventKind::Reload => Asked::Elsewhere,
        }
    }

    /// Whether a copy is for this sink. A copied row of a copy for another one is passed over; on a row of the stream, a copy
    /// for another sink is no copy: the row that an update needs must be there.
    pub fn mine(&self, for_sink: Option<&str>) -> bool {
        for_sink.is_none_or(|name| name == self.sink)
    }

    /// The first reload or removal of the table behind `epoch`, if one was read: what is not decided at `epoch` is void then.
    pub fn superseded_by(&self, epoch: Epoch, table: &TableId) -> Option<Epoch> {
        if !self.has(Protection::Supersede) {
            return None;
        }
        let behind = self.by_epoch.range(epoch.saturating_add(1)..);
        behind.filter(|(_, event)| self.begins_anew(event) && event.table(table).is_some()).map(|(epoch, _)| *epoch).next()
    }

    fn begins_anew(&self, event: &SchemaEvent) -> bool {
        match self.asked(event) {
            Asked::Reload | Asked::Retire => true,
            Asked::Create | Asked::Change | Asked::Elsewhere => false,
        }
    }
}
