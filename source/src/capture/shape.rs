//! The captured tables as they are published at the stream's position, rebuilt from the schema-versions topic after a start.

use std::{collections::HashMap, sync::Arc};

use metrics::{Counter, counter};
use schemas::{
    event::{SchemaEvent, TableEvent, TableProgress, Version},
    table::{Table, TableId},
    wire::{
        avro::{key_schema, value_schema},
        names,
        row::RowSchema,
    },
};

use super::metric;
use crate::{
    engine::Published,
    error::CaptureError,
    publisher::{Publisher, TopicHandle},
};

/// A table as its rows are written now.
#[derive(Debug, Clone)]
pub(super) struct Captured {
    pub published: Published,
    pub version: Version,
    pub topic: TopicHandle,
    pub topic_name: String,
    /// The topic's identity, as the newest event names it.
    pub topic_id: Option<String>,
    /// The topic was made anew, and what begins the table anew in it is asked for: until then its rows are of no use.
    pub lost: bool,
    /// The largest record that the topic takes, in bytes.
    pub largest: usize,
    pub lanes: u32,
    /// False: all rows go to lane 0.
    pub spreads: bool,
    pub key_schema: Option<u32>,
    pub value_schema: u32,
    /// Counts what is published of it.
    pub rows: Counter,
}

impl Captured {
    pub fn id(&self) -> &TableId {
        &self.published.shape.id
    }

    pub fn keyless(&self) -> bool {
        self.published.rows.key.is_empty()
    }

    /// As an event introduces it.
    pub fn of_event(event: &TableEvent, topic: TopicHandle, largest: usize) -> Self {
        Self {
            published: Published { shape: event.table.clone(), rows: RowSchema::new(&event.table) },
            version: event.version,
            topic,
            topic_name: event.topic.clone(),
            topic_id: event.topic_id.clone(),
            lost: false,
            largest,
            lanes: event.lanes,
            spreads: event.table.spreads(),
            key_schema: event.key_schema,
            value_schema: event.value_schema,
            rows: counter!(metric::ROWS, "table" => event.table.id.to_string()),
        }
    }

    /// The same version behind a change that needs no epoch: rows stay as they are encoded.
    pub fn reshaped(&self, shape: Table) -> Self {
        Self { published: Published { shape, rows: self.published.rows.clone() }, ..self.clone() }
    }
}

/// All captured tables, by name.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    tables: HashMap<TableId, Arc<Captured>>,
}

impl Shapes {
    pub fn get(&self, id: &TableId) -> Option<&Arc<Captured>> {
        self.tables.get(id)
    }

    /// The physical shapes, for the stream.
    pub fn physical(&self) -> Vec<Table> {
        self.tables.values().map(|t| t.published.shape.clone()).collect()
    }

    pub fn insert(&mut self, table: Captured) {
        self.tables.insert(table.id().clone(), Arc::new(table));
    }

    pub fn remove(&mut self, id: &TableId) {
        self.tables.remove(id);
    }

    pub fn lost(&self) -> impl Iterator<Item = &Arc<Captured>> {
        self.tables.values().filter(|table| table.lost)
    }

    /// The tables of `progress` that an event has introduced, as the newest event left each. Those whose topic was made anew are
    /// marked as lost.
    pub async fn rebuild<'a, P: Publisher, Q: 'a>(
        events: &[SchemaEvent],
        tables: impl Iterator<Item = &'a TableProgress<Q>>,
        publisher: &mut P,
    ) -> Result<Self, CaptureError> {
        // Events and tables may both be very many: each is looked at once.
        let mut versions: HashMap<(&TableId, Version), (&TableEvent, &TableEvent)> = HashMap::new();
        for part in events.iter().flat_map(|event| &event.tables) {
            versions.entry((&part.table.id, part.version)).and_modify(|(_, newest)| *newest = part).or_insert((part, part));
        }
        let mut shapes = Shapes::default();
        for table in tables.filter(|t| !t.retired && t.version > 0) {
            let live = publisher.topic(&table.topic, Some(table.lanes)).await?;
            let Some((introduced, newest)) = versions.get(&(&table.id, table.version)) else {
                return Err(CaptureError::Transport(format!(
                    "the schema-versions topic has no version {} of table {}, which the progress topic names: the topics are not whole; \
                     remove both topics and the table topics to begin anew",
                    table.version, table.id
                )));
            };
            let captured = Captured::of_event(introduced, live.handle, publisher.largest(live.handle));
            let lost = newest.topic_id.is_some() && newest.topic_id != live.id;
            shapes.insert(Captured { lost, topic_id: newest.topic_id.clone(), ..captured.reshaped(newest.table.clone()) });
        }
        Ok(shapes)
    }
}

/// The topic's schemas of one shape, registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Schemas {
    pub key: Option<u32>,
    pub value: u32,
}

impl Schemas {
    pub async fn register<P: Publisher>(topic: &str, shape: &Table, publisher: &mut P) -> Result<Self, CaptureError> {
        let key = match key_schema(topic, shape) {
            Some(schema) => Some(publisher.register(&names::key_subject(topic), &schema).await?),
            None => None,
        };
        let value = publisher.register(&names::value_subject(topic), &value_schema(topic, shape)).await?;
        Ok(Self { key, value })
    }
}
