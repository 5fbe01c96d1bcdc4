//! The sink process over the broker and a target in memory.

use std::{path::PathBuf, time::Duration};

use runtime::{
    config::{Keyless, OnStop, Sink},
    shutdown::{Shutdown, ShutdownHandle},
};
use schemas::{change::Kind, order::ledger::Lane, policy::Action, table::Table, value::Value, wire::envelope::Op};
use sink::{
    consumer::kafka::KafkaConsumer,
    error::SinkError,
    process::{Ended, SinkProcess},
};
use tokio::{task::JoinHandle, time::timeout};

use crate::{
    broker::Broker,
    fake::{
        FakeTarget, config,
        source::{Source, orders, sort},
    },
    mirror::Mirror,
};

fn n(i: i64) -> Value {
    Value::Integer(i.into())
}

struct Pipeline {
    broker: Broker,
    source: Source,
    target: FakeTarget,
    directory: PathBuf,
    _mirror: Mirror,
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

struct Running {
    stop: ShutdownHandle,
    task: JoinHandle<Result<Ended, SinkError>>,
}

impl Pipeline {
    fn new(name: &str, lanes: u32) -> Self {
        let broker = Broker::shared(name);
        let directory = std::env::temp_dir().join(&broker.prefix);
        let mut source = Source::new(&directory, lanes);
        source.prefix.clone_from(&broker.prefix);
        let mirror = Mirror::start(&source.log, &broker);
        Self { broker, source, target: FakeTarget::default(), directory, _mirror: mirror }
    }

    fn start(&self, sink: Sink) -> Running {
        let consumer = KafkaConsumer::connect(&self.broker.settings, &self.broker.prefix, &sink.name).unwrap();
        let process = SinkProcess::new(sink, self.target.clone(), consumer);
        let (stop, stopped) = Shutdown::new();
        Running { stop, task: tokio::spawn(process.run(stopped)) }
    }

    fn caught_up(&self) -> bool {
        let store = self.target.store();
        store.ledger.decided == self.source.epoch
            && self.source.tables.values().all(|t| {
                self.source.log.ends(&t.topic).iter().zip(0..).all(|(end, lane)| {
                    let lane = Lane { table: t.table.id.clone(), lane };
                    store.ledger.lanes.get(&lane).map_or(0, |p| p.position) == *end
                })
            })
    }

    async fn until_caught_up(&self) {
        self.until(Self::caught_up).await;
    }

    async fn until(&self, condition: impl Fn(&Self) -> bool) {
        let wait = async {
            while !condition(self) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if timeout(Duration::from_secs(40), wait).await.is_err() {
            panic!("it does not come: epoch {}, {:#?}", self.source.epoch, self.target.store().ledger);
        }
    }

    fn assert_same(&self, name: &str) {
        let mut rows = self.target.rows(&self.source.id(name));
        sort(&mut rows);
        assert_eq!(rows, self.source.expected(name), "{name}");
    }
}

impl Running {
    async fn end(self) -> Ended {
        self.stop.request();
        timeout(Duration::from_secs(10), self.task).await.expect("the process ends").unwrap().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_around_changes_keep_their_order_on_four_lanes_and_two_instances_that_are_killed() {
    let mut pipeline = Pipeline::new("order", 4);
    pipeline.source.initial(vec![orders("orders"), orders("lines")]);
    let mut instances = vec![pipeline.start(config(2)), pipeline.start(config(3))];
    for round in 0..24i64 {
        let source = &mut pipeline.source;
        for id in 0..20 {
            source.put("orders", (id * 7 + round) % 30, &[("n", n(round))]);
            source.put("lines", id, &[("n", n(round))]);
        }
        source.delete("orders", round);
        match round % 4 {
            0 => source.add_column("orders", &format!("c{round}"), round),
            1 => source.rename_column("orders", &format!("c{}", round - 1), &format!("d{round}")),
            2 => source.truncate("lines"),
            _ => source.drop_column("orders", &format!("d{}", round - 2)),
        }
        if round % 5 == 4 {
            let at = usize::try_from(round % 2).unwrap();
            instances[at].task.abort();
            instances[at] = pipeline.start(config(2));
        }
        // Never far behind, so that instances go while others are at work.
        pipeline.until(|p| p.target.store().ledger.decided + 3 >= p.source.epoch).await;
    }
    pipeline.source.put("orders", 99, &[("n", n(1))]);
    pipeline.until_caught_up().await;
    pipeline.assert_same("orders");
    pipeline.assert_same("lines");
    for instance in instances {
        assert_eq!(instance.end().await, Ended::Shutdown);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_key_every_row_comes_once_while_lanes_go_from_instance_to_instance() {
    let mut pipeline = Pipeline::new("keyless", 4);
    let mut table: Table = orders("orders");
    table.primary = None;
    pipeline.source.initial(vec![table]);
    let sink = || {
        let mut sink = config(2);
        sink.defaults.keyless = Keyless::FullRow;
        sink
    };
    let mut instances = vec![pipeline.start(sink()), pipeline.start(sink())];
    for i in 0..400i64 {
        let row = pipeline.source.row("orders", &[("id", n(i % 7)), ("n", n(1))]);
        pipeline.source.publish("orders", Op::Create, None, Some(&row), &[], None);
        if i % 40 == 39 {
            pipeline.target.store().lose_answers += 1;
        }
        if i % 60 == 59 {
            let gone = instances.remove(0);
            match i % 120 {
                59 => gone.task.abort(),
                _ => drop(gone.end().await),
            }
            instances.push(pipeline.start(sink()));
        }
        let behind = usize::try_from(i).unwrap().saturating_sub(30);
        pipeline.until(|p| p.target.rows(&p.source.id("orders")).len() >= behind).await;
    }
    pipeline.until_caught_up().await;
    assert_eq!(pipeline.target.rows(&pipeline.source.id("orders")).len(), 400);
    for instance in instances {
        instance.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_before_a_stop_is_applied_before_the_process_ends() {
    let mut pipeline = Pipeline::new("stop", 3);
    let mut sink = config(2);
    sink.defaults.evolution.actions.insert(Kind::RenameColumn, Action::Stop);
    sink.on_stop = OnStop::Exit;
    let source = &mut pipeline.source;
    source.initial(vec![orders("orders"), orders("lines")]);
    for id in 0..50 {
        source.put("orders", id, &[("n", n(id))]);
        source.put("lines", id, &[("n", n(id))]);
    }
    let expected = (source.expected("orders"), source.expected("lines"));
    source.rename_column("orders", "n", "m");
    source.put("orders", 1, &[("m", n(7))]);
    // Found stopped by the next process too, which reads before it ends what the first had not applied.
    for _ in 0..2 {
        let running = pipeline.start(sink.clone());
        let ended = timeout(Duration::from_secs(20), running.task).await.expect("the process ends").unwrap().unwrap();
        let Ended::Stopped { message } = ended else { panic!("no stop") };
        assert!(message.contains("`n` is renamed to `m`"), "{message}");
        for (name, expected) in [("orders", &expected.0), ("lines", &expected.1)] {
            let mut rows = pipeline.target.rows(&pipeline.source.id(name));
            sort(&mut rows);
            assert_eq!(rows, *expected, "{name}");
        }
        pipeline.source.put("lines", 0, &[("n", n(0))]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_made_anew_stops_the_sink_and_a_reload_leads_out() {
    let mut pipeline = Pipeline::new("process-anew", 1);
    let topic = tokio::task::block_in_place(|| pipeline.broker.topic("shop.orders", 1));
    pipeline.source.topic_ids.insert("orders".into(), pipeline.broker.id(&topic));
    pipeline.source.initial(vec![orders("orders")]);
    for id in 0..3 {
        pipeline.source.put("orders", id, &[("n", n(id))]);
    }
    let running = pipeline.start(config(1));
    pipeline.until_caught_up().await;
    tokio::task::block_in_place(|| {
        pipeline.broker.delete(&topic);
        pipeline.broker.topic("shop.orders", 1);
    });
    let ended = timeout(Duration::from_secs(20), running.task).await.expect("the process ends").unwrap();
    let message = match ended {
        Ok(Ended::Stopped { message }) | Err(SinkError::Stop { message }) => message,
        other => panic!("{other:?}"),
    };
    assert!(message.contains(&format!("topic {topic} was made anew")) && message.contains("Reload the table"), "{message}");
    pipeline.assert_same("orders");

    // As many records as the mirror believes to be there: two, and their marker.
    pipeline.broker.source("filler").publish(&topic, 0, &["x", "y"]);
    pipeline.source.topic_ids.insert("orders".into(), pipeline.broker.id(&topic));
    pipeline.source.reload(&["orders"]);
    pipeline.source.put("orders", 7, &[("n", n(7))]);
    let running = pipeline.start(config(1));
    pipeline.until_caught_up().await;
    pipeline.assert_same("orders");
    assert_eq!(running.end().await, Ended::Shutdown);
}
