//! A local log, copied to the broker as it grows: the same offsets, for there are no markers, and an event behind all rows below its
//! boundaries.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use rdkafka::{
    ClientConfig,
    producer::{BaseProducer, BaseRecord, Producer},
};
use runtime::{
    kafka::{Cluster, Keep},
    log::{Log, Topic},
};
use schemas::wire::names;

use crate::broker::Broker;

pub struct Mirror {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Copying {
    log: Log,
    cluster: Cluster,
    producer: BaseProducer,
    done: BTreeMap<String, Vec<u64>>,
}

impl Mirror {
    pub fn start(log: &Log, broker: &Broker) -> Self {
        let producer = ClientConfig::new()
            .set("bootstrap.servers", &broker.settings.brokers)
            .set("enable.idempotence", "true")
            .set("linger.ms", "0")
            .create()
            .unwrap();
        let mut copying = Copying { log: log.clone(), cluster: broker.cluster.clone(), producer, done: BTreeMap::new() };
        let ended = Arc::new(AtomicBool::new(false));
        let (versions, end) = (names::versions(&broker.prefix), ended.clone());
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                if !copying.round(&versions) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        Self { ended, thread: Some(thread) }
    }
}

impl Copying {
    /// True: something was copied.
    fn round(&mut self, versions: &str) -> bool {
        let events = self.log.find(versions);
        let end = events.as_ref().map_or(0, |topic| self.log.ends(topic)[0]);
        let rows: Vec<Topic> = self.log.topics().into_iter().filter(|topic| *topic.name != *versions).collect();
        let mut copied = false;
        for topic in &rows {
            let ends = self.log.ends(topic);
            copied |= self.copy(topic, &ends);
        }
        // Rows are there before the event whose boundaries lie behind them.
        self.flush();
        if let Some(topic) = &events {
            copied |= self.copy(topic, &[end]);
        }
        self.flush();
        copied
    }

    fn flush(&self) {
        while self.producer.in_flight_count() > 0 {
            self.producer.poll(Duration::from_millis(1));
        }
    }

    fn copy(&mut self, topic: &Topic, ends: &[u64]) -> bool {
        let mut copied = false;
        if !self.done.contains_key(&*topic.name) {
            self.cluster.ensure(&topic.name, topic.lanes, Keep::Broker).unwrap();
            self.done.insert(topic.name.to_string(), vec![0; ends.len()]);
        }
        let done = self.done.get_mut(&*topic.name).unwrap();
        for (lane, (at, end)) in done.iter_mut().zip(ends).enumerate() {
            while *at < *end {
                let records = self.log.records(topic, u32::try_from(lane).unwrap(), *at, 1 << 20).unwrap();
                for record in records.iter().take_while(|r| r.offset < *end) {
                    let mut message =
                        BaseRecord::<[u8], [u8]>::to(&topic.name).partition(i32::try_from(lane).unwrap()).payload(record.value);
                    if let Some(key) = record.key {
                        message = message.key(key);
                    }
                    self.producer.send(message).unwrap();
                    *at = record.offset + 1;
                    copied = true;
                }
            }
        }
        copied
    }
}
