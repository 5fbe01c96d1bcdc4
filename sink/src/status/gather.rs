//! Reads from topics and targets what `status`, `history` and `wait` are made of. Changes nothing, and needs no process.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

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

/// Between two looks for an event that is on its way.
const AGAIN: Duration = Duration::from_millis(2);
/// How long it may be on its way before what is there is told.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the topics say.
#[derive(Debug, Clone, Default)]
pub struct Topics {
    pub progress: Option<Progress>,
    pub events: Vec<SchemaEvent>,
    pub ends: BTreeMap<String, Vec<Offset>>,
}

impl Topics {
    pub async fn read<C: Consumer>(consumer: &C) -> Result<Self, SinkError> {
        // First of all: every row and event that this progress covers is in what is read behind it.
        let progress = consumer.progress().await?;
        let covered = progress.as_ref().map_or(0, |p| p.epoch);
        let mut events = Vec::new();
        let mut next = 0;
        let patience = Instant::now() + PATIENCE;
        loop {
            let (new, end) = consumer.events(next).await?;
            events.extend(new);
            next = end;
            // What is committed in one transaction may be seen in one topic a moment before the other.
            let there = events.iter().filter_map(|event| event.epoch).max().unwrap_or(0) >= covered;
            if there || Instant::now() >= patience {
                break;
            }
            tokio::time::sleep(AGAIN).await;
        }
        let mut ends = BTreeMap::new();
        for table in captured(&events).values() {
            ends.insert(table.last.topic.clone(), consumer.ends(&table.last.topic).await?);
        }
        let progress = progress.map(|progress| progress.complete(&events));
        Ok(Self { progress, events, ends })
    }
}

/// One sink, as its target knows it. A target that cannot be asked is said, not an error. `kept`: the session of the look before,
/// for the next one.
pub async fn sink<T: Target, C: Consumer>(
    name: &str,
    target: &T,
    kept: &mut Option<T::Session>,
    consumer: &C,
    topics: &Topics,
    process: Liveness,
) -> SinkSnapshot {
    match durable(target, kept).await {
        Ok((ledger, journal)) => {
            let first = first_rows(name, consumer, topics, &ledger).await;
            SinkSnapshot { process, ledger: Some(ledger), journal, first, unreachable: None }
        }
        Err(error) => {
            let unreachable = Some(error.to_string());
            SinkSnapshot { process, ledger: None, journal: Journal::default(), first: BTreeMap::new(), unreachable }
        }
    }
}

async fn durable<T: Target>(target: &T, kept: &mut Option<T::Session>) -> Result<(Ledger, Journal), SinkError> {
    if let Some(mut session) = kept.take()
        && let Ok(read) = read(&mut session).await
    {
        *kept = Some(session);
        return Ok(read);
    }
    let mut session = target.session().await?;
    let read = read(&mut session).await?;
    *kept = Some(session);
    Ok(read)
}

async fn read<S: Session>(session: &mut S) -> Result<(Ledger, Journal), SinkError> {
    Ok((session.ledger().await?, session.journal().await?))
}

/// The first row of each lane that is not applied. What cannot be read is left out: the rows are counted all the same.
async fn first_rows<C: Consumer>(name: &str, consumer: &C, topics: &Topics, ledger: &Ledger) -> BTreeMap<Lane, FirstRow> {
    let mut first = BTreeMap::new();
    for (id, table) in captured(&topics.events) {
        let ends = topics.ends.get(&table.last.topic).map_or(&[][..], Vec::as_slice);
        for (number, end) in (0u32..).zip(ends) {
            let lane = Lane { table: id.clone(), lane: number };
            let position = ledger.position(id, number).position;
            if position < *end
                && let Ok(block) = consumer.peek(&table.last.topic, number, position).await
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

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use schemas::{
        command::Command,
        event::{EventKind, TableEvent},
    };
    use tokio::sync::watch;

    use super::*;
    use crate::{consumer::Record, status::tests};

    /// A source that commits one more row between any two questions.
    #[derive(Debug, Clone, Default)]
    struct Busy(Arc<AtomicU64>);

    impl Busy {
        fn rows(&self) -> u64 {
            self.0.fetch_add(1, Ordering::SeqCst) + 1
        }
    }

    struct Nothing;

    impl Block for Nothing {
        fn records(&self) -> impl Iterator<Item = Record<'_>> + Send {
            std::iter::empty()
        }

        fn next(&self) -> Offset {
            0
        }

        fn whole(&self) -> bool {
            true
        }
    }

    impl Consumer for Busy {
        type Block = Nothing;
        type Proof = ();

        fn fetch(&self, _topic: &str, _topic_id: Option<&str>, _lane: u32, _from: Offset, _max_bytes: usize) -> Result<Nothing, SinkError> {
            Ok(Nothing)
        }

        fn prove<'t>(&self, _topics: impl Iterator<Item = (&'t str, &'t str)>) {}

        async fn events(&self, _from: Offset) -> Result<(Vec<SchemaEvent>, Offset), SinkError> {
            self.rows();
            let part: TableEvent = tests::part("orders", 1, vec![0, 0], Vec::new());
            Ok((vec![tests::event(Some(1), EventKind::Initial, None, vec![part])], 1))
        }

        async fn progress(&self) -> Result<Option<Progress>, SinkError> {
            Ok(Some(Progress { seq: self.rows(), ..tests::progress(None) }))
        }

        async fn ends(&self, _topic: &str) -> Result<Vec<Offset>, SinkError> {
            Ok(vec![self.rows(), 0])
        }

        async fn starts(&self, _topic: &str) -> Result<Vec<Offset>, SinkError> {
            Ok(vec![0, 0])
        }

        async fn peek(&self, _topic: &str, _lane: u32, _from: Offset) -> Result<Nothing, SinkError> {
            Ok(Nothing)
        }

        async fn ask(&self, _command: &Command) -> Result<(), SinkError> {
            Ok(())
        }

        fn changed(&self) -> watch::Receiver<u64> {
            watch::channel(0).1
        }

        fn applied(&self, _topic: &str, _lane: u32, _position: Offset) -> Result<(), SinkError> {
            Ok(())
        }
    }

    /// `wait` takes the ends for all that the progress covers.
    #[tokio::test]
    async fn the_ends_cover_the_progress_while_rows_are_committed() {
        let topics = Topics::read(&Busy::default()).await.unwrap();
        let (covered, end) = (topics.progress.unwrap().seq, topics.ends["shop.shop.orders"][0]);
        assert!(covered <= end, "the progress covers {covered} rows, the end is at {end}");
    }
}
