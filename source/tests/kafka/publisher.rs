//! Transactions: what is committed is there, with its progress; what is not is not.

use std::time::Instant;

use schemas::wire::{event::read_event, names};
use source::{error::CaptureError, publisher::Publisher};

use crate::world::{event, lane, newest, prefix, progress, publisher, started, values};

#[tokio::test(flavor = "multi_thread")]
async fn rows_and_progress_are_committed_together_in_their_order() {
    let prefix = prefix("commit");
    let (mut publisher, found) = started(&prefix).await;
    assert_eq!(found, None);
    let topic = publisher.topic(&format!("{prefix}.s.t"), None).await.unwrap();
    assert_eq!(topic.lanes, 4);
    for number in 0..1000 {
        publisher.produce(topic.handle, number % 2 * 3, Some(b"\0\0\0\0\x01k"), format!("row {number}").as_bytes()).unwrap();
    }
    assert_eq!(publisher.pending().0, 1000);
    publisher.commit_soon(&progress(1)).await.unwrap();
    assert_eq!(publisher.pending(), (0, 0));
    publisher.produce(topic.handle, 1, None, b"next").unwrap();
    publisher.commit(&progress(2)).await.unwrap();
    let name = format!("{prefix}.s.t");
    let even: Vec<String> = (0..1000).step_by(2).map(|n| format!("row {n}")).collect();
    let odd: Vec<String> = (1..1000).step_by(2).map(|n| format!("row {n}")).collect();
    assert_eq!([values(&name, 0), values(&name, 1), values(&name, 2), values(&name, 3)], [even, vec!["next".into()], vec![], odd]);
    assert_eq!(newest(&prefix), Some(progress(2)));
    assert_eq!(publisher.start().await.unwrap(), Some(progress(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_lie_behind_everything_that_was_handed_over() {
    let prefix = prefix("ends");
    let (mut publisher, _) = started(&prefix).await;
    let topic = publisher.topic(&format!("{prefix}.s.t"), Some(2)).await.unwrap().handle;
    assert_eq!(publisher.ends(topic).await.unwrap(), [0, 0]);
    publisher.produce(topic, 1, None, b"older").unwrap();
    publisher.commit_soon(&progress(1)).await.unwrap();
    publisher.produce(topic, 0, None, b"newer").unwrap();
    let boundary = publisher.ends(topic).await.unwrap();
    assert!(boundary[0] == 0 && boundary[1] >= 1, "{boundary:?}");
    publisher.commit(&progress(2)).await.unwrap();
    publisher.produce(topic, 1, None, b"newest").unwrap();
    publisher.commit(&progress(3)).await.unwrap();
    let (records, _) = lane(&format!("{prefix}.s.t"), 1);
    assert_eq!(records.iter().filter(|(offset, _)| *offset < boundary[1]).count(), 1);
    assert_eq!(records.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_committed_is_forgotten_and_the_lanes_are_free() {
    let prefix = prefix("crash");
    let (mut dead, _) = started(&prefix).await;
    let name = format!("{prefix}.s.t");
    let topic = dead.topic(&name, Some(1)).await.unwrap().handle;
    dead.produce(topic, 0, None, b"committed").unwrap();
    dead.commit(&progress(1)).await.unwrap();
    dead.produce(topic, 0, None, b"lost").unwrap();
    drop(dead);
    let (mut publisher, found) = started(&prefix).await;
    assert_eq!(found, Some(progress(1)));
    assert_eq!(publisher.pending(), (0, 0));
    let topic = publisher.topic(&name, Some(1)).await.unwrap().handle;
    publisher.produce(topic, 0, None, b"forgotten").unwrap();
    assert_eq!(publisher.start().await.unwrap(), Some(progress(1)));
    let topic = publisher.topic(&name, Some(1)).await.unwrap().handle;
    publisher.produce(topic, 0, None, b"after").unwrap();
    publisher.commit(&progress(2)).await.unwrap();
    assert_eq!(values(&name, 0), ["committed", "after"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_source_keeps_the_older_one_out_in_the_middle_of_its_transaction() {
    let prefix = prefix("fence");
    let (mut older, _) = started(&prefix).await;
    let name = format!("{prefix}.s.t");
    let topic = older.topic(&name, Some(1)).await.unwrap().handle;
    older.produce(topic, 0, None, b"of the older").unwrap();
    older.commit(&progress(1)).await.unwrap();
    older.produce(topic, 0, None, b"too late").unwrap();
    let (mut newer, found) = started(&prefix).await;
    assert_eq!(found, Some(progress(1)));
    let error = older.commit(&progress(2)).await.unwrap_err();
    assert!(matches!(&error, CaptureError::Fenced(text) if text.contains("another source")), "{error:?}");
    let topic = newer.topic(&name, Some(1)).await.unwrap().handle;
    newer.produce(topic, 0, None, b"of the newer").unwrap();
    newer.commit(&progress(3)).await.unwrap();
    assert_eq!(values(&name, 0), ["of the older", "of the newer"]);
    assert_eq!(newest(&prefix), Some(progress(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_and_its_progress_are_one() {
    let prefix = prefix("event");
    let (mut publisher, _) = started(&prefix).await;
    assert_eq!(publisher.events().await.unwrap(), []);
    publisher.commit_event(&event(1), &progress(1)).await.unwrap();
    publisher.commit_event(&event(2), &progress(2)).await.unwrap();
    assert_eq!(publisher.events().await.unwrap(), [event(1), event(2)]);
    let (records, _) = lane(&names::versions(&prefix), 0);
    let read: Vec<_> = records.iter().map(|(_, record)| read_event(record).unwrap()).collect();
    assert_eq!(read, [event(1), event(2)]);
    assert_eq!(newest(&prefix), Some(progress(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_come_from_where_they_were_left() {
    let prefix = prefix("commands");
    let (mut publisher, _) = started(&prefix).await;
    assert_eq!(publisher.commands(0).await.unwrap(), []);
    let cluster = runtime::kafka::Cluster::connect(&crate::world::topics(), "test").unwrap();
    assert_eq!(cluster.append(&names::commands(&prefix), b"one").unwrap(), 0);
    assert_eq!(cluster.append(&names::commands(&prefix), b"two").unwrap(), 1);
    assert_eq!(publisher.commands(0).await.unwrap(), [(0, b"one".to_vec()), (1, b"two".to_vec())]);
    assert_eq!(publisher.commands(1).await.unwrap(), [(1, b"two".to_vec())]);
    assert_eq!(publisher.commands(2).await.unwrap(), []);
    let error = publisher.commands(3).await.unwrap_err();
    assert!(matches!(&error, CaptureError::Stop { message } if message.contains("kept for ever")), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_used_publisher_needs_a_start() {
    let prefix = prefix("unstarted");
    let mut publisher = publisher(&prefix).await;
    let error = publisher.commit(&progress(1)).await.unwrap_err();
    assert!(matches!(error, CaptureError::Transport(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_commit_takes_milliseconds() {
    let prefix = prefix("latency");
    let (mut publisher, _) = started(&prefix).await;
    let topic = publisher.topic(&format!("{prefix}.s.t"), Some(4)).await.unwrap().handle;
    let mut times = Vec::new();
    for number in 0..200u32 {
        for lane in 0..4 {
            publisher.produce(topic, lane, None, &[b'x'; 300]).unwrap();
        }
        let began = Instant::now();
        publisher.commit(&progress(u64::from(number))).await.unwrap();
        times.push(began.elapsed());
    }
    times.sort();
    eprintln!("commit of 4 rows: p50 {:?}, p99 {:?}", times[100], times[198]);
    assert!(times[100].as_millis() < 50, "{:?}", times[100]);
}
