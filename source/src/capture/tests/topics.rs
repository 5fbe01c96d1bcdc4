//! Topics that are made anew or take only small rows.

use std::sync::{Arc, Mutex};

use runtime::config::OnStop;
use schemas::event::{EventKind, Offset, Progress, SchemaEvent, SourceState};
use serde_json::Value as Json;

use super::{
    fake::{Server, id},
    world::World,
};
use crate::{
    capture::{Ended, State},
    error::CaptureError,
    publisher::{LiveTopic, Publisher, TopicHandle, local::LocalPublisher},
};

/// What a transport says of its topics.
#[derive(Debug, Clone)]
pub struct Facts {
    pub id: Option<String>,
    pub largest: usize,
}

/// The local log, with topics that have an identity and a limit.
pub struct Told {
    pub inner: LocalPublisher,
    pub facts: Arc<Mutex<Facts>>,
}

impl Told {
    fn facts(&self) -> Facts {
        self.facts.lock().expect("lock").clone()
    }
}

impl Publisher for Told {
    async fn start(&mut self) -> Result<Option<Progress>, CaptureError> {
        self.inner.start().await
    }

    async fn events(&mut self) -> Result<Vec<SchemaEvent>, CaptureError> {
        self.inner.events().await
    }

    async fn commands(&mut self, from: Offset) -> Result<Vec<(Offset, Vec<u8>)>, CaptureError> {
        self.inner.commands(from).await
    }

    async fn topic(&mut self, name: &str, lanes: Option<u32>) -> Result<LiveTopic, CaptureError> {
        let live = self.inner.topic(name, lanes).await?;
        Ok(LiveTopic { id: self.facts().id, ..live })
    }

    fn largest(&self, _: TopicHandle) -> usize {
        self.facts().largest
    }

    async fn register(&mut self, subject: &str, schema: &Json) -> Result<u32, CaptureError> {
        self.inner.register(subject, schema).await
    }

    fn produce(&mut self, topic: TopicHandle, lane: u32, key: Option<&[u8]>, value: &[u8]) -> Result<(), CaptureError> {
        self.inner.produce(topic, lane, key, value)
    }

    fn pending(&self) -> (usize, usize) {
        self.inner.pending()
    }

    async fn commit_soon(&mut self, progress: &Progress) -> Result<(), CaptureError> {
        self.inner.commit_soon(progress).await
    }

    async fn settle(&mut self) -> Result<(), CaptureError> {
        self.inner.settle().await
    }

    async fn ends(&mut self, topic: TopicHandle) -> Result<Vec<Offset>, CaptureError> {
        self.inner.ends(topic).await
    }

    async fn commit_event(&mut self, event: &SchemaEvent, progress: &Progress) -> Result<(), CaptureError> {
        self.inner.commit_event(event, progress).await
    }
}

const LARGE: i64 = 1 << 60;

fn world() -> World {
    let server = Server::new();
    for name in ["a", "b"] {
        server.create(name, true);
        server.insert(&[(name, 1, 1), (name, 2, 2)]);
    }
    World::new(server, &["a", "b"])
}

#[tokio::test]
async fn it_stands_at_a_row_that_its_topic_does_not_take_and_goes_on_when_it_does() {
    let mut world = world();
    world.until_caught_up().await;
    // Between a small row and one with a large key and value.
    world.facts.lock().expect("lock").largest = world.largest_record("a") + 18 + 8;
    world.server.insert(&[("a", 3, 3), ("a", LARGE, LARGE), ("b", 4, 4)]);
    world.until(|s| s.state == State::Stopped).await;
    assert_eq!(world.rows("a").len(), 3, "the row before it was not published");
    assert_eq!(world.rows("b").len(), 2, "a row behind it was published");
    let progress = world.progress();
    assert_eq!(progress.state, SourceState::Stopped);
    for part in ["shop.a", "row id=1152921504606846976", "topic shop.shop.a", "max.message.bytes", "instar reload"] {
        assert!(progress.message.contains(part), "{}", progress.message);
    }
    world.settings.on_stop = OnStop::Exit;
    assert!(matches!(world.run_out().await, Ok(Ended::Stopped { .. })));
    world.settings.on_stop = OnStop::Wait;
    world.until(|s| s.state == State::Stopped).await;
    world.facts.lock().expect("lock").largest = usize::MAX;
    world.until_caught_up().await;
    assert_eq!(world.rows("a").len(), 4);
    world.check(&["a", "b"]);
    assert_eq!(world.progress().state, SourceState::Running);
}

#[tokio::test]
async fn a_topic_made_anew_stops_its_tables_until_they_are_loaded_anew() {
    let mut world = world();
    world.facts.lock().expect("lock").id = Some("first".into());
    world.until_caught_up().await;
    assert!(world.events().iter().flat_map(|e| &e.tables).all(|t| t.topic_id.as_deref() == Some("first")));
    world.facts.lock().expect("lock").id = Some("second".into());
    world.server.insert(&[("a", 3, 3)]);
    world.settings.on_stop = OnStop::Exit;
    let ended = world.run_out().await.expect("run");
    let Ended::Stopped { message } = &ended else { panic!("{ended:?}") };
    for part in ["topic shop.shop.a (table shop.a)", "topic shop.shop.b (table shop.b)", "made anew", "instar reload"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(world.rows("a").len(), 2, "a row was published into a topic that others do not read");
    // One alone is not enough.
    world.reload("a");
    let ended = world.run_out().await.expect("run");
    assert!(matches!(&ended, Ended::Stopped { message } if message.contains("shop.b") && !message.contains("shop.a)")), "{ended:?}");
    world.reload("b");
    world.settings.on_stop = OnStop::Wait;
    world.until_caught_up().await;
    for name in ["a", "b"] {
        let events = world.events();
        let of_table = |e: &SchemaEvent| e.table(&id(name)).map(|t| (e.kind, t.topic_id.clone()));
        let last = events.iter().filter_map(of_table).next_back();
        assert_eq!(last, Some((EventKind::Reload, Some("second".into()))));
    }
    world.check(&["a", "b"]);
    world.settings.on_stop = OnStop::Exit;
    world.server.insert(&[("a", 4, 4)]);
    world.until_caught_up().await;
    assert_eq!(world.progress().state, SourceState::Running);
}
