//! Several instances of a sink.

use std::collections::BTreeSet;

use sink::consumer::{Consumer, kafka::KafkaConsumer};

use crate::broker::{Broker, Reading, until};

const LANES: u32 = 6;

fn turns(consumer: &KafkaConsumer, topic: &str) -> Vec<Option<u64>> {
    (0..LANES).map(|lane| consumer.turn(topic, lane)).collect()
}

fn ours(consumer: &KafkaConsumer, topic: &str) -> BTreeSet<u32> {
    (0..LANES).filter(|lane| consumer.turn(topic, *lane).is_some()).collect()
}

#[test]
fn two_instances_share_the_lanes_and_one_takes_over_what_the_other_leaves() {
    let broker = Broker::shared("share");
    let topic = broker.topic("t", i32::try_from(LANES).unwrap());
    let source = broker.source("a");
    let first = broker.consumer();
    until("the first has all lanes", || (ours(&first, &topic).len() == 6).then_some(()));
    let before = turns(&first, &topic);
    let second = broker.consumer();
    until("both have their half", || {
        let (a, b) = (ours(&first, &topic), ours(&second, &topic));
        (a.len() == 3 && b.len() == 3 && a.is_disjoint(&b)).then_some(())
    });
    // What stays stays: the same turn, no stored position is to be read again.
    for lane in ours(&first, &topic) {
        assert_eq!(first.turn(&topic, lane), before[lane as usize]);
    }
    for lane in 0..6 {
        source.publish(&topic, lane, &[&format!("a{lane}")]);
    }
    let mut lanes: Vec<Reading> = (0..6).map(|lane| Reading::new(&topic, lane, 0)).collect();
    let theirs = ours(&second, &topic);
    until("each lane's row", || {
        for lane in &mut lanes {
            // Only one of the two gives anything.
            let (mine, other) = if theirs.contains(&lane.lane) { (&second, &first) } else { (&first, &second) };
            let at = lane.at;
            lane.step(other, None, 1 << 20).unwrap();
            assert_eq!(lane.at, at);
            lane.step(mine, None, 1 << 20).unwrap();
        }
        lanes.iter().all(|lane| lane.at == 2).then_some(())
    });
    drop(second);
    until("the first has all lanes again", || (ours(&first, &topic).len() == 6).then_some(()));
    let after = turns(&first, &topic);
    for lane in 0..6 {
        let back = theirs.contains(&lane);
        assert_eq!(after[lane as usize] != before[lane as usize], back, "lane {lane}");
        source.publish(&topic, i32::try_from(lane).unwrap(), &[&format!("b{lane}")]);
    }
    for lane in &mut lanes {
        lane.to(&first, 4);
        assert_eq!(lane.names(), [format!("a{}", lane.lane), format!("b{}", lane.lane)]);
    }
}

#[test]
fn topics_that_are_added_while_others_are_read_are_taken_on_without_a_gap() {
    let broker = Broker::shared("added");
    let source = broker.source("a");
    let consumer = broker.consumer();
    let one = broker.topic("one", 2);
    source.publish(&one, 0, &["a"]);
    let mut first = Reading::new(&one, 0, 0);
    first.to(&consumer, 2);
    let turn = consumer.turn(&one, 0);
    let two = broker.topic("two", 2);
    source.publish(&two, 1, &["b"]);
    source.publish(&one, 0, &["c"]);
    let mut second = Reading::new(&two, 1, 0);
    second.to(&consumer, 2);
    first.to(&consumer, 4);
    assert_eq!((first.names(), second.names()), (vec!["a", "c"], vec!["b"]));
    assert_eq!(consumer.turn(&one, 0), turn);
    // A grown topic: its new lanes harm nothing.
    assert_eq!(broker.cluster.members(&sink::consumer::kafka::group(&broker.prefix, "warehouse")).unwrap(), 1);
}
