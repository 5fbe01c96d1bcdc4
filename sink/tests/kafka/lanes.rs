//! Rows, and everything in a lane that is none.

use std::{sync::Mutex, time::Duration};

use sink::consumer::{Block, Consumer, Proof};

use crate::broker::{Broker, Reading, block_on, until};

#[test]
fn markers_and_aborted_records_move_the_position_to_the_end_of_the_lane() {
    let broker = Broker::shared("markers");
    let topic = broker.topic("t", 3);
    let (source, consumer) = (broker.source("a"), broker.consumer());
    let mut lanes: Vec<Reading> = (0..3).map(|lane| Reading::new(&topic, lane, 0)).collect();

    // An empty lane is at its end at once; the position is 0.
    until("the empty lane's end is known", || lanes[2].step(&consumer, None, 100).unwrap().then_some(()));
    assert_eq!(lanes[2].at, 0);

    source.publish(&topic, 0, &["a", "b"]);
    source.publish(&topic, 1, &["c"]);
    lanes[0].to(&consumer, 3);
    lanes[1].to(&consumer, 2);
    assert_eq!((lanes[0].names(), lanes[1].names()), (vec!["a", "b"], vec!["c"]));

    // Nothing but a marker is new: an aborted transaction, twice, behind an end that was seen.
    for end in [6, 9] {
        source.begin();
        source.send(&topic, 0, &["x", "y"]);
        source.abort();
        lanes[0].to(&consumer, end);
    }
    assert_eq!(lanes[0].names(), ["a", "b"]);
    source.publish(&topic, 0, &["d"]);
    lanes[0].to(&consumer, 11);
    assert_eq!(lanes[0].names(), ["a", "b", "d"]);
    assert_eq!(lanes[0].rows.last().unwrap().0, 9);
    assert_eq!(broker.ends(&topic, 3), [11, 2, 0]);
    assert_eq!(lanes.iter().map(|lane| lane.at).collect::<Vec<_>>(), [11, 2, 0]);
}

#[test]
fn rows_of_an_open_transaction_wait_and_those_of_a_dead_source_never_come() {
    let broker = Broker::shared("open");
    let topic = broker.topic("t", 1);
    let consumer = broker.consumer();
    let source = broker.source("a");
    source.publish(&topic, 0, &["a"]);
    source.begin();
    source.send(&topic, 0, &["lost"]);
    let mut lane = Reading::new(&topic, 0, 0);
    lane.to(&consumer, 2);
    // Its successor fences it, and goes on behind.
    let next = broker.source("a");
    next.publish(&topic, 0, &["b"]);
    lane.to(&consumer, 6);
    assert_eq!(lane.names(), ["a", "b"]);
    // Position 2 was the end of what was committed while the transaction was open.
    assert_eq!(lane.rows, [(0, "a".to_owned()), (4, "b".to_owned())]);
    assert_eq!(broker.ends(&topic, 1), [6]);
}

#[test]
fn a_lane_is_read_from_exactly_where_it_is_asked_for() {
    let broker = Broker::shared("places");
    let topic = broker.topic("t", 1);
    let (source, consumer) = (broker.source("a"), broker.consumer());
    let names: Vec<String> = (0..500).map(|i| format!("row {i}")).collect();
    source.publish(&topic, 0, &names.iter().map(String::as_str).collect::<Vec<_>>());
    for from in [0, 499, 250, 251, 0, 500, 3] {
        for bytes in [1, 1 << 20] {
            let mut lane = Reading::new(&topic, 0, from);
            until("the end", || {
                lane.step(&consumer, None, bytes).unwrap();
                (lane.at == 501).then_some(())
            });
            assert_eq!(lane.names(), names[usize::try_from(from).unwrap()..], "from {from}");
        }
    }
    // In the middle of what was taken: the same rows again, and from there on.
    let block = until("rows", || Some(consumer.fetch(&topic, None, 0, 0, 1 << 20).unwrap()).filter(|b| b.records().next().is_some()));
    let again = consumer.fetch(&topic, None, 0, 200, 1 << 20).unwrap();
    let offsets = |block: &dyn Fn() -> Vec<u64>| block();
    let (all, rest) = (offsets(&|| block.records().map(|r| r.offset).collect()), offsets(&|| again.records().map(|r| r.offset).collect()));
    assert_eq!(all[200..], rest[..]);
    assert_eq!(block.next(), again.next());
}

#[test]
fn tombstones_are_passed_over() {
    let broker = Broker::shared("tombstones");
    let topic = broker.topic("t", 1);
    let (source, consumer) = (broker.source("a"), broker.consumer());
    source.begin();
    source.tombstone(&topic, 0, "k");
    source.send(&topic, 0, &["a"]);
    source.tombstone(&topic, 0, "k");
    source.commit();
    let mut lane = Reading::new(&topic, 0, 0);
    lane.to(&consumer, 4);
    assert_eq!(lane.rows, [(1, "a".to_owned())]);
}

#[test]
fn rows_that_have_expired_stop_and_a_later_place_is_read() {
    let broker = Broker::shared("expired");
    let topic = broker.topic("t", 1);
    let (source, consumer) = (broker.source("a"), broker.consumer());
    for name in ["a", "b", "c"] {
        source.publish(&topic, 0, &[name]);
    }
    broker.expire(&topic, 0, 4);
    let id = broker.id(&topic);
    let mut lane = Reading::new(&topic, 0, 2);
    let message = lane.stop(&consumer, Some(&id));
    for part in [topic.as_str(), "offset 2", "holds 4 to 6", "rows are lost", "Reload the table"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    // It is no passing fault.
    assert!(lane.stop(&consumer, Some(&id)).contains("offset 2"));
    assert_eq!(lane.names(), [""; 0]);
    let mut lane = Reading::new(&topic, 0, 4);
    lane.to(&consumer, 6);
    assert_eq!(lane.names(), ["c"]);
    // Behind the end, too.
    assert!(Reading::new(&topic, 0, 9).stop(&consumer, Some(&id)).contains("offset 9"));
}

#[test]
fn a_topic_made_anew_stops_before_a_row_of_it_comes() {
    let broker = Broker::shared("anew");
    let topic = broker.topic("t", 1);
    let consumer = broker.consumer();
    let id = broker.id(&topic);
    broker.source("a").publish(&topic, 0, &["a", "b"]);
    let mut lane = Reading::new(&topic, 0, 0);
    until("the first rows", || {
        lane.step(&consumer, Some(&id), 1 << 20).unwrap();
        (lane.at == 3).then_some(())
    });
    broker.delete(&topic);
    assert_eq!(broker.topic("t", 1), topic);
    let other = broker.id(&topic);
    assert_ne!(other, id);
    let source = broker.source("b");
    source.publish(&topic, 0, &["0", "1", "2", "3", "4", "5"]);
    let message = lane.stop(&consumer, Some(&id));
    assert!(message.contains(&format!("topic {topic} was made anew: rows are lost")), "{message}");
    assert_eq!(lane.names(), ["a", "b"]);
    // Its event names the new one: that is read from where it is asked for.
    let mut lane = Reading::new(&topic, 0, 0);
    until("the rows of the new topic", || {
        lane.step(&consumer, Some(&other), 1 << 20).unwrap();
        (lane.at == 7).then_some(())
    });
    assert_eq!(lane.names(), ["0", "1", "2", "3", "4", "5"]);
}

/// The library reads on in a topic made anew, until someone looks.
#[test]
fn rows_are_proved_by_what_is_there_after_they_were_fetched() {
    let broker = Broker::shared("proof");
    let topic = broker.topic("t", 1);
    let other = broker.topic("other", 1);
    let consumer = broker.consumer();
    let (id, other_id) = (broker.id(&topic), broker.id(&other));
    broker.source("a").publish(&topic, 0, &["a", "b"]);
    let holds = |topics: &[(&str, &str)]| block_on(consumer.prove(topics.iter().copied()).holds()).unwrap();
    until("rows are fetched", || consumer.fetch(&topic, Some(&id), 0, 0, 1 << 20).unwrap().records().next().map(drop));
    assert!(holds(&[]));
    assert!(holds(&[(&topic, &id), (&other, &other_id)]));
    assert!(!holds(&[(&topic, &id), (&other, &id)]));
    // Asked before, answered by what was there then.
    broker.delete(&topic);
    assert!(!holds(&[(&topic, &id)]));
    broker.topic("t", 1);
    assert!(!holds(&[(&topic, &id), (&other, &other_id)]));
    assert!(holds(&[(&topic, &broker.id(&topic))]));
}

#[test]
fn a_deleted_topic_stops() {
    let broker = Broker::shared("deleted");
    let topic = broker.topic("t", 1);
    let consumer = broker.consumer();
    broker.source("a").publish(&topic, 0, &["a"]);
    let mut lane = Reading::new(&topic, 0, 0);
    lane.to(&consumer, 2);
    let id = broker.id(&topic);
    broker.delete(&topic);
    let message = lane.stop(&consumer, Some(&id));
    assert!(message.contains(&format!("topic {topic} is not there any more")), "{message}");
}

#[test]
fn who_only_looks_sees_the_next_row_and_joins_no_group() {
    let broker = Broker::shared("look");
    let topic = broker.topic("t", 2);
    broker.source("a").publish(&topic, 1, &["a", "b"]);
    let reader = sink::consumer::kafka::KafkaConsumer::reader(&broker.settings, &broker.prefix).unwrap();
    let peek = |lane, from| {
        let block = crate::broker::block_on(reader.peek(&topic, lane, from)).unwrap();
        block.records().next().map(|r| (r.offset, r.value.to_vec()))
    };
    assert_eq!(peek(1, 0), Some((0, b"a".to_vec())));
    assert_eq!(peek(1, 1), Some((1, b"b".to_vec())));
    assert_eq!((peek(1, 3), peek(0, 0)), (None, None));
    assert_eq!(crate::broker::block_on(reader.ends(&topic)).unwrap(), [0, 3]);
    assert_eq!(crate::broker::block_on(reader.starts(&topic)).unwrap(), [0, 0]);
    assert_eq!(broker.cluster.members(&sink::consumer::kafka::group(&broker.prefix, "warehouse")).unwrap(), 0);
}

/// Whether rows come in a row or one at a time: each wakes its reader.
#[test]
fn every_row_wakes_the_reader_of_its_lane() {
    let broker = Broker::shared("soon");
    let topic = broker.topic("t", 4);
    let (source, consumer) = (broker.source("a"), broker.consumer());
    let mut lanes: Vec<Reading> = (0..4).map(|lane| Reading::new(&topic, lane, 0)).collect();
    for lane in &mut lanes {
        until("the lane is ours", || lane.step(&consumer, None, 1).unwrap().then_some(()));
    }
    let rows = 1200;
    let seen = Mutex::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..rows {
                source.publish(&topic, i % 4, &[&format!("{i}")]);
                if i >= 1000 {
                    until("the row before the next", || (*seen.lock().unwrap() > i).then_some(()));
                }
            }
        });
        crate::broker::block_on(async {
            let mut news = consumer.changed();
            while *seen.lock().unwrap() < rows {
                news.borrow_and_update();
                for lane in &mut lanes {
                    lane.step(&consumer, None, 1 << 20).unwrap();
                }
                let there: usize = lanes.iter().map(|lane| lane.rows.len()).sum();
                *seen.lock().unwrap() = i32::try_from(there).unwrap();
                if there < usize::try_from(rows).unwrap() {
                    tokio::time::timeout(Duration::from_secs(5), news.changed()).await.expect("news").unwrap();
                }
            }
        });
    });
    for (number, lane) in (0..).zip(&lanes) {
        let names: Vec<String> = lane.rows.iter().map(|(_, name)| name.clone()).collect();
        let wanted: Vec<String> = (0..rows).filter(|i| i % 4 == number).map(|i| i.to_string()).collect();
        assert_eq!(names, wanted);
    }
}
