//! What one sink has read of the schema-versions topic.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

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
    /// Of each table the epochs that introduced its versions, and its place in their events.
    versions: HashMap<TableId, BTreeMap<Version, (Epoch, usize)>>,
    /// Reloads and removals that mean this sink.
    anew: BTreeSet<Epoch>,
}

impl Events {
    /// None read yet, for this sink.
    pub fn new(sink: impl Into<String>) -> Self {
        Self { sink: sink.into(), ..Self::default() }
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
        let Some(epoch) = event.epoch.filter(|epoch| !self.by_epoch.contains_key(epoch)) else { return };
        for (place, part) in event.tables.iter().enumerate() {
            self.versions.entry(part.table.id.clone()).or_default().entry(part.version).or_insert((epoch, place));
        }
        if self.begins_anew(&event) {
            self.anew.insert(epoch);
        }
        self.by_epoch.insert(epoch, event);
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
        let (epoch, place) = *self.versions.get(table)?.get(&version)?;
        Some((epoch, self.by_epoch.get(&epoch)?.tables.get(place)?))
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
        let mut behind = self.anew.range(epoch.saturating_add(1)..);
        behind.find(|epoch| self.get(**epoch).is_some_and(|event| event.table(table).is_some())).copied()
    }

    fn begins_anew(&self, event: &SchemaEvent) -> bool {
        match self.asked(event) {
            Asked::Reload | Asked::Retire => true,
            Asked::Create | Asked::Change | Asked::Elsewhere => false,
        }
    }
}
