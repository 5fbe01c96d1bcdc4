//! The schema versions and the source's progress.

use std::time::{Duration, Instant};

use schemas::{
    event::{EventKind, Progress, SchemaEvent, SourceState},
    wire::event::{put_event, put_progress},
};
use sink::{consumer::Consumer, error::SinkError};

use crate::broker::{Broker, block_on, until};

fn event(epoch: u64) -> (SchemaEvent, Vec<u8>) {
    let event = SchemaEvent {
        epoch: Some(epoch),
        kind: EventKind::Ddl,
        position: format!("p{epoch}"),
        ts_ms: 1,
        ddl: Some("x".repeat(usize::try_from(epoch % 50).unwrap())),
        tables: Vec::new(),
        for_sink: None,
    };
    let mut bytes = Vec::new();
    put_event(&mut bytes, 1, &event);
    (event, bytes)
}

fn progress(seq: u64) -> (Progress, Vec<u8>) {
    let progress = Progress {
        pipeline_id: "p".into(),
        position: "at".into(),
        rows_done: 0,
        seq,
        epoch: 0,
        command: 0,
        tables: Default::default(),
        waiting: Default::default(),
        state: SourceState::Running,
        message: String::new(),
        ts_ms: 1,
        commit_ts_ms: 1,
        due_ms: 1,
    };
    let mut bytes = Vec::new();
    put_progress(&mut bytes, 1, &progress);
    (progress, bytes)
}

#[test]
fn events_are_read_to_the_end_as_of_the_call() {
    let broker = Broker::shared("events");
    let consumer = broker.consumer();
    // Before the source's first start there is no such topic.
    assert_eq!(block_on(consumer.events(0)).unwrap(), (Vec::new(), 0));
    assert_eq!(block_on(consumer.progress()).unwrap(), None);
    let (versions, of_progress) = (broker.topic("schema-versions", 1), broker.topic("progress", 1));
    let source = broker.source("a");
    let (mut at, mut slowest) = (0, Duration::ZERO);
    for epoch in 1..40 {
        let (expected, bytes) = event(epoch);
        let (progress, progress_bytes) = progress(epoch);
        if epoch % 3 == 0 {
            source.begin();
            source.value(&versions, 0, &event(1000).1);
            source.abort();
        }
        source.begin();
        source.value(&versions, 0, &bytes);
        source.value(&of_progress, 0, &progress_bytes);
        source.commit();
        // The marker may be written a moment after the commit is told.
        let end = if epoch % 3 == 0 { at + 4 } else { at + 2 };
        until("the marker", || (broker.cluster.committed(&versions, 1).unwrap() == [end]).then_some(()));
        let begun = Instant::now();
        let (events, next) = block_on(consumer.events(at)).unwrap();
        slowest = slowest.max(begun.elapsed());
        assert_eq!((events, next), (vec![expected], end));
        assert_eq!(block_on(consumer.events(next)).unwrap(), (Vec::new(), next));
        until("the progress", || (block_on(consumer.progress()).unwrap().as_ref() == Some(&progress)).then_some(()));
        at = next;
    }
    let (all, next) = block_on(consumer.events(0)).unwrap();
    assert_eq!(all, (1..40).map(|epoch| event(epoch).0).collect::<Vec<_>>());
    assert_eq!(next, at);
    println!("the slowest reading of one event took {slowest:?}");
}

#[test]
fn news_of_an_event_come_without_being_asked_for() {
    let broker = Broker::shared("news");
    let versions = broker.topic("schema-versions", 1);
    let (source, consumer) = (broker.source("a"), broker.consumer());
    block_on(consumer.events(0)).unwrap();
    let mut news = consumer.events_changed();
    let mut times = Vec::new();
    let mut at = 0;
    for epoch in 1..20 {
        news.borrow_and_update();
        source.begin();
        source.value(&versions, 0, &event(epoch).1);
        source.commit();
        let begun = Instant::now();
        loop {
            let (events, next) = block_on(consumer.events(at)).unwrap();
            at = next;
            if !events.is_empty() {
                break;
            }
            block_on(async { tokio::time::timeout(Duration::from_secs(10), news.changed()).await.unwrap().unwrap() });
            news.borrow_and_update();
        }
        times.push(begun.elapsed());
    }
    times.sort();
    println!("an event is known {:?} (median) after its commit, {:?} at the latest", times[times.len() / 2], times.last().unwrap());
}

#[test]
fn schema_versions_that_are_gone_stop() {
    let broker = Broker::shared("gone");
    let versions = broker.topic("schema-versions", 1);
    let (source, consumer) = (broker.source("a"), broker.consumer());
    for epoch in 1..4 {
        source.begin();
        source.value(&versions, 0, &event(epoch).1);
        source.commit();
    }
    broker.expire(&versions, 0, 2);
    let Err(SinkError::Stop { message }) = block_on(consumer.events(0)) else { panic!("no stop") };
    assert!(
        message.contains(&format!("topic {versions} holds the offsets 2 to 6, not 0")) && message.contains("retention.ms=-1"),
        "{message}"
    );
}
