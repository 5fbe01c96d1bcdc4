//! Reads from topics and targets what `status`, `history` and `wait` are made of. Changes nothing, and needs no process.

use std::collections::BTreeMap;

use schemas::{
    event::{Offset, Progress, SchemaEvent},
    order::ledger::{Lane, Ledger},
    wire::{envelope::Head, row::RowSchema},
};

use super::{FirstRow, Liveness, SinkSnapshot, captured};
use crate::{
    consumer::{Block, Consumer},
    error::SinkError,
    row::{Decoder, Layout},
    target::{Journal, Session, Target},
};

/// What the topics say.
#[derive(Debug, Clone, Default)]
pub struct Topics {
    pub progress: Option<Progress>,
    pub events: Vec<SchemaEvent>,
    pub ends: BTreeMap<String, Vec<Offset>>,
}

impl Topics {
    pub async fn read<C: Consumer>(consumer: &C) -> Result<Self, SinkError> {
        let (events, _) = consumer.events(0).await?;
        let mut ends = BTreeMap::new();
        for table in captured(&events).values() {
            ends.insert(table.last.topic.clone(), consumer.ends(&table.last.topic).await?);
        }
        Ok(Self { progress: consumer.progress().await?, events, ends })
    }
}

/// One sink, as its target knows it. A target that cannot be asked is said, not an error.
pub async fn sink<T: Target, C: Consumer>(name: &str, target: &T, consumer: &C, topics: &Topics, process: Liveness) -> SinkSnapshot {
    match durable(target).await {
        Ok((ledger, journal)) => {
            let first = first_rows(name, consumer, topics, &ledger);
            SinkSnapshot { process, ledger: Some(ledger), journal, first, unreachable: None }
        }
        Err(error) => {
            let unreachable = Some(error.to_string());
            SinkSnapshot { process, ledger: None, journal: Journal::default(), first: BTreeMap::new(), unreachable }
        }
    }
}

async fn durable<T: Target>(target: &T) -> Result<(Ledger, Journal), SinkError> {
    let mut session = target.session().await?;
    Ok((session.ledger().await?, session.journal().await?))
}

/// The first row of each lane that is not applied. What cannot be read is left out: the rows are counted all the same.
fn first_rows<C: Consumer>(name: &str, consumer: &C, topics: &Topics, ledger: &Ledger) -> BTreeMap<Lane, FirstRow> {
    let mut first = BTreeMap::new();
    for (id, table) in captured(&topics.events) {
        let ends = topics.ends.get(&table.last.topic).map_or(&[][..], Vec::as_slice);
        for (number, end) in (0u32..).zip(ends) {
            let lane = Lane { table: id.clone(), lane: number };
            let position = ledger.position(id, number).position;
            if position < *end
                && let Ok(block) = consumer.fetch(&table.last.topic, number, position, 1)
                && let Some(record) = block.records().next()
                && let Some(row) = first_row(name, topics, &lane, record.value)
            {
                first.insert(lane, row);
            }
        }
    }
    first
}

fn first_row(name: &str, topics: &Topics, lane: &Lane, record: &[u8]) -> Option<FirstRow> {
    let (head, reader) = Head::read(record).ok()?;
    // A version's rows have the shape of the event that introduced it; later events of the version tell of other shapes.
    let mut parts = topics.events.iter().filter_map(|event| event.table(&lane.table));
    let part = parts.find(|part| part.value_schema == head.schema)?;
    let layout = Layout::new(&RowSchema::new(&part.table));
    let mut decoder = Decoder::new(name);
    let event = decoder.read(&layout, reader).ok()?;
    Some(FirstRow { epoch: head.epoch, ts_ms: event.facts.ts_ms })
}
