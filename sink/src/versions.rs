//! What rows look like and where they go: one entry per table, of the version that its target table fits now.
//!
//! A row of another version is not for now: the order lets a row through only while its version is the target's.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use schemas::{
    event::{Epoch, Offset, Version},
    order::events::{Asked, Events},
    table::{Table, TableId},
    wire::row::RowSchema,
};

use crate::{row::Layout, target::TableVersion};

/// One table's rows, as they fit its target table now.
#[derive(Debug, PartialEq)]
pub struct Current {
    pub version: Arc<TableVersion>,
    pub layout: Arc<Layout>,
    /// The schema id in the rows' frames.
    pub value_schema: u32,
    /// The identity of the topic that has these rows, where the transport tells one.
    pub topic_id: Option<Arc<str>>,
    /// Where the version began by emptying the table: its lanes' boundaries.
    pub begun: Option<Vec<Offset>>,
}

/// A topic that this sink reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub table: TableId,
    pub name: Arc<str>,
    pub lanes: u32,
}

/// Rebuilt when the schema-versions topic or a target table's expected shape changes; shared by the workers.
#[derive(Debug, Clone, Default)]
pub struct Versions {
    current: HashMap<TableId, Arc<Current>>,
    topics: Vec<Topic>,
}

impl Versions {
    /// `expected` holds the target tables' recorded versions and shapes. Entries that stay the same stay the same object.
    #[must_use]
    pub fn rebuild(&self, events: &Events, expected: &BTreeMap<TableId, (Version, Table)>) -> Self {
        let mut current = HashMap::new();
        for (id, (version, target)) in expected {
            let Some((epoch, part)) = events.version(id, *version) else { continue };
            let known = self.current.get(id).filter(|c| c.version.version == *version && c.version.target == *target);
            let entry = match known {
                Some(known) => known.clone(),
                None => {
                    let rows = RowSchema::new(&part.table);
                    let layout = Arc::new(Layout::new(&rows));
                    let table = TableVersion { id: id.clone(), version: *version, table: part.table.clone(), rows, target: target.clone() };
                    let begun = begun(events, epoch).then(|| part.boundaries.clone());
                    let topic_id = part.topic_id.as_deref().map(Arc::from);
                    Arc::new(Current { version: Arc::new(table), layout, value_schema: part.value_schema, topic_id, begun })
                }
            };
            current.insert(id.clone(), entry);
        }
        Self { current, topics: topics(events) }
    }

    pub fn get(&self, table: &TableId) -> Option<&Arc<Current>> {
        self.current.get(table)
    }

    /// All topics, in the order of their first events.
    pub fn topics(&self) -> &[Topic] {
        &self.topics
    }
}

fn begun(events: &Events, epoch: Epoch) -> bool {
    events.get(epoch).is_some_and(|event| match events.asked(event) {
        Asked::Create | Asked::Reload => true,
        Asked::Change | Asked::Retire | Asked::Elsewhere => false,
    })
}

fn topics(events: &Events) -> Vec<Topic> {
    let (mut topics, mut known) = (Vec::new(), HashSet::new());
    for part in events.iter().flat_map(|(_, event)| &event.tables) {
        if known.insert(&part.table.id) {
            topics.push(Topic { table: part.table.id.clone(), name: part.topic.as_str().into(), lanes: part.lanes });
        }
    }
    topics
}
