//! Configurations, publishers and what readers of committed records see.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use runtime::{
    config::{KafkaTopics, RegistryAuth, Secret, Tls, TlsMode, Url},
    kafka::{Cluster, Reader},
};
use schemas::{
    event::{EventKind, Progress, SchemaEvent, SourceState},
    wire::{event::read_progress, names},
};
use source::publisher::{Publisher, kafka::KafkaPublisher};

pub const LONG: Duration = Duration::from_secs(20);

pub fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: start the servers"))
}

/// A registry's address taken apart.
pub fn url(text: &str) -> Url {
    let (scheme, rest) = text.split_once("://").unwrap();
    let (address, path) = rest.split_once('/').unwrap();
    let (host, port) = address.rsplit_once(':').unwrap();
    Url {
        scheme: scheme.into(),
        user: None,
        password: None,
        host: host.into(),
        port: Some(port.parse().unwrap()),
        database: Some(path.into()),
        parameters: BTreeMap::new(),
    }
}

pub fn tls(mode: TlsMode, ca: Option<String>) -> Tls {
    Tls { mode, ca: ca.map(PathBuf::from), certificate: None, key: None }
}

pub fn topics() -> KafkaTopics {
    KafkaTopics {
        brokers: env("INSTAR_TEST_KAFKA"),
        registry: url(&env("INSTAR_TEST_REGISTRY")),
        partitions: 4,
        replication: 1,
        properties: BTreeMap::new(),
        tls: None,
        sasl: None,
        registry_auth: RegistryAuth::None,
        registry_tls: tls(TlsMode::VerifyFull, None),
    }
}

pub fn secret(text: &str) -> Secret {
    Secret::new(text)
}

/// A prefix that no other test and no other run has.
pub fn prefix(what: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
    format!("{what}-{now}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

pub async fn publisher(prefix: &str) -> KafkaPublisher {
    KafkaPublisher::connect(&topics(), "p", prefix).await.unwrap()
}

/// A publisher that has started.
pub async fn started(prefix: &str) -> (KafkaPublisher, Option<Progress>) {
    let mut publisher = publisher(prefix).await;
    let progress = publisher.start().await.unwrap();
    (publisher, progress)
}

pub fn progress(seq: u64) -> Progress {
    Progress {
        pipeline_id: "p".into(),
        position: format!("at {seq}"),
        rows_done: 0,
        seq,
        epoch: 0,
        command: 0,
        tables: BTreeMap::new(),
        waiting: Default::default(),
        state: SourceState::Running,
        message: String::new(),
        ts_ms: 0,
        commit_ts_ms: 0,
        due_ms: i64::MAX,
    }
}

pub fn event(epoch: u64) -> SchemaEvent {
    SchemaEvent {
        epoch: Some(epoch),
        kind: EventKind::Ddl,
        position: "p".into(),
        ts_ms: 1,
        ddl: Some("ALTER".into()),
        tables: Vec::new(),
        for_sink: None,
    }
}

/// What a lane's committed records hold, with their offsets, and where it ends.
pub fn lane(topic: &str, number: u32) -> (Vec<(u64, Vec<u8>)>, u64) {
    let cluster = Cluster::connect(&topics(), "test").unwrap();
    let written = cluster.written(topic, number + 1).unwrap()[number as usize];
    until("the lane's markers", || (cluster.committed(topic, number + 1).unwrap()[number as usize] == written).then_some(()));
    let lane = Reader::open(&topics(), "test", 4096).unwrap().lane(topic, number, 0, || {}).unwrap();
    let mut records = Vec::new();
    until("the lane's end", || {
        let taken = lane.take(1 << 20, Duration::from_millis(200)).unwrap();
        records.extend(taken.messages().iter().map(|m| (m.offset(), m.value().unwrap().to_vec())));
        taken.end.filter(|end| *end >= written)
    });
    (records, written)
}

/// The values of a lane's committed records.
pub fn values(topic: &str, number: u32) -> Vec<String> {
    lane(topic, number).0.into_iter().map(|(_, value)| String::from_utf8(value).unwrap()).collect()
}

/// The newest committed progress.
pub fn newest(prefix: &str) -> Option<Progress> {
    lane(&names::progress(prefix), 0).0.last().map(|(_, record)| read_progress(record).unwrap())
}

pub fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One answer of the plain registry.
pub async fn registry(method: reqwest::Method, path: &str, body: Option<serde_json::Value>) -> (u16, serde_json::Value) {
    let config = runtime::tls::client_config(&tls(TlsMode::Require, None)).unwrap().unwrap();
    let client = reqwest::Client::builder().tls_backend_preconfigured(config).build().unwrap();
    let request = client.request(method, format!("{}/{path}", env("INSTAR_TEST_REGISTRY")));
    let request = request.header("Content-Type", "application/vnd.schemaregistry.v1+json");
    let request = if let Some(body) = body { request.body(body.to_string()) } else { request };
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}
