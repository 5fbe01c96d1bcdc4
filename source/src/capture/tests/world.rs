//! A pipeline under test, and a reader of its topics that plays a sink: it applies everything and compares with the source.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    future::Future,
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use runtime::{
    config::{CapturedTable, OnStop, Retry, Snapshot, SnapshotMode, TruncateEvents},
    log::{Keep, Log, LogOptions},
};
use schemas::{
    change::{Fill, SchemaChange},
    event::{EventKind, Progress, SchemaEvent, TableEvent},
    table::{ColumnId, TableId},
    value::Value,
    wire::{
        codec::Reader,
        envelope::{Head, Op, Tail},
        event::{read_event, read_progress},
        names,
        row::RowSchema,
    },
};
use tokio::sync::watch;

use super::{
    fake::{Server, Values, id},
    topics::{Facts, Told},
};
use crate::{
    capture::{Command, CommitBounds, Ended, Reporter, Settings, SourceStatus, run},
    error::CaptureError,
    publisher::local::LocalPublisher,
};

const PREFIX: &str = "shop";

pub struct World {
    pub server: Server,
    pub settings: Settings,
    pub log: Log,
    publisher: Told,
    /// What the transport says of its topics.
    pub facts: Arc<Mutex<Facts>>,
    reporter: Reporter,
    pub status: watch::Receiver<SourceStatus>,
    directory: PathBuf,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A table of the configuration.
pub fn captured(name: &str) -> CapturedTable {
    CapturedTable { table: id(name), columns: Vec::new(), exclude_columns: Vec::new(), key: Vec::new(), filter: None }
}

/// The newest progress of all.
fn newest(log: &Log) -> Option<Progress> {
    let record = log.find(&names::progress(PREFIX)).and_then(|topic| log.newest(&topic, 0).expect("read"));
    record.map(|record| read_progress(&record).expect("progress"))
}

impl World {
    pub fn new(server: Server, tables: &[&str]) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("instar-capture-{}-{number}", std::process::id()));
        let log = Log::open(&directory, LogOptions { partitions: 3, ..LogOptions::default() }).expect("log");
        let facts = Arc::new(Mutex::new(Facts { id: None, largest: usize::MAX }));
        let publisher = Told { inner: LocalPublisher::new(log.clone(), PREFIX), facts: facts.clone() };
        let (reporter, status) = Reporter::new();
        let short = Duration::from_millis(1);
        let settings = Settings {
            pipeline: "shop".into(),
            prefix: PREFIX.into(),
            server: "fake://1".into(),
            tables: tables.iter().map(|t| captured(t)).collect(),
            snapshot: Snapshot { mode: SnapshotMode::Initial, workers: 2, chunk_rows: 3, slice: 5 * short },
            truncate: TruncateEvents::Publish,
            on_stop: OnStop::Wait,
            retry: Retry { initial: short, max: 5 * short },
            commit: CommitBounds { rows: 7, bytes: 1 << 20, age: 2 * short, idle: short, chunk_bytes: 1 << 20 },
            heartbeat: Duration::from_secs(10),
            poll: short,
        };
        Self { server, settings, log, publisher, facts, reporter, status, directory }
    }

    /// Runs the loop until `done` says so of its status, then ends it in good order.
    pub async fn until(&mut self, done: impl Fn(&SourceStatus) -> bool) -> Ended {
        let (stop, shutdown) = watch::channel(false);
        let (mut status, mut engine) = (self.status.clone(), self.server.engine());
        let watcher = async {
            let seen = tokio::time::timeout(Duration::from_secs(20), status.wait_for(|s| done(s))).await.is_ok();
            assert!(seen, "the condition was not met in 20 s; status: {:?}", *self.status.borrow());
            stop.send(true).expect("shutdown");
            std::future::pending::<()>().await;
        };
        let source = run(&mut engine, &mut self.publisher, &self.settings, &self.reporter, shutdown);
        tokio::select! {
            ended = source => ended.expect("run"),
            () = watcher => unreachable!("the watcher never ends"),
        }
    }

    /// Runs until everything is published and copied.
    pub async fn until_caught_up(&mut self) -> Ended {
        let (server, log) = (self.server.clone(), self.log.clone());
        // The status may be that of a run before: what was taken since, and is not done, is seen in the log.
        let nothing_left = move || {
            let commands = log.find(&names::commands(PREFIX)).map_or(0, |topic| log.ends(&topic)[0]);
            newest(&log).is_some_and(|progress| {
                let begun = progress.tables.values().all(|t| t.retired || (t.copy.is_none() && t.begin.is_none()));
                begun && progress.waiting.is_empty() && progress.command == commands
            })
        };
        let there = |s: &SourceStatus| s.position == server.end().to_string() && !s.tables.is_empty();
        self.until(|s| there(s) && s.tables.values().all(Option::is_none) && nothing_left()).await
    }

    /// Runs until so many commands were taken, whatever came of them.
    pub async fn until_command(&mut self, number: u64) -> Ended {
        let log = self.log.clone();
        self.until(|_| newest(&log).is_some_and(|progress| progress.command >= number)).await
    }

    /// Runs the loop to its own end.
    pub async fn run_out(&mut self) -> Result<Ended, CaptureError> {
        let (_stop, shutdown) = watch::channel(false);
        let mut engine = self.server.engine();
        let source = run(&mut engine, &mut self.publisher, &self.settings, &self.reporter, shutdown);
        tokio::time::timeout(Duration::from_secs(20), source).await.expect("end in 20 s")
    }

    /// Runs the loop and drops it at its await number `polls`.
    pub async fn killed_after(&mut self, polls: usize) {
        let (_stop, shutdown) = watch::channel(false);
        let mut engine = self.server.engine();
        let source = run(&mut engine, &mut self.publisher, &self.settings, &self.reporter, shutdown);
        Limited { inner: Box::pin(source), left: polls }.await;
    }

    pub fn command(&self, command: &Command) {
        let topic = self.log.topic(&names::commands(PREFIX), Some(1), Keep::Forever).expect("topic");
        let mut transaction = self.log.begin();
        transaction.append(&topic, 0, None, &command.to_record()).expect("append");
        transaction.commit().expect("commit");
    }

    pub fn reload(&self, table: &str) {
        self.command(&Command::Reload { table: Some(format!("shop.{table}")), sink: None });
    }

    fn records(&self, topic: &str, lane: u32) -> Vec<(u64, Option<Vec<u8>>, Vec<u8>)> {
        let topic = self.log.find(topic).expect("topic");
        let (mut out, mut next) = (Vec::new(), 0);
        loop {
            let records = self.log.records(&topic, lane, next, 1 << 20).expect("records");
            if records.is_empty() {
                return out;
            }
            out.extend(records.iter().map(|r| (r.offset, r.key.map(<[u8]>::to_vec), r.value.to_vec())));
            next = records.next();
        }
    }

    /// Bytes of key and value of a table's largest record.
    pub fn largest_record(&self, name: &str) -> usize {
        let topic = names::topic(PREFIX, &id(name));
        let lanes = self.log.find(&topic).expect("topic").lanes;
        let size = |(_, key, value): (u64, Option<Vec<u8>>, Vec<u8>)| key.map_or(0, |k| k.len()) + value.len();
        (0..lanes).flat_map(|lane| self.records(&topic, lane)).map(size).max().unwrap_or(0)
    }

    pub fn events(&self) -> Vec<SchemaEvent> {
        self.records(&names::versions(PREFIX), 0).iter().map(|(_, _, value)| read_event(value).expect("event")).collect()
    }

    pub fn kinds(&self) -> Vec<EventKind> {
        self.events().iter().map(|e| e.kind).collect()
    }

    pub fn progress(&self) -> Progress {
        newest(&self.log).expect("progress").complete(&self.events())
    }

    /// All rows of a table, in publication order.
    pub fn rows(&self, name: &str) -> Vec<Event> {
        let topic = names::topic(PREFIX, &id(name));
        let lanes = self.log.find(&topic).expect("topic").lanes;
        let events = self.events();
        let mut rows: Vec<Event> = Vec::new();
        for lane in 0..lanes {
            let mut last = (0, 0);
            for (offset, key, value) in self.records(&topic, lane) {
                let row = Event::read(&id(name), &events, lane, offset, key, &value);
                assert!(row.seq > last.0 && row.epoch >= last.1, "{topic} lane {lane}: seq or epoch falls at offset {offset}");
                last = (row.seq, row.epoch);
                rows.push(row);
            }
        }
        rows.sort_by_key(|r| r.seq);
        rows
    }

    /// Applies everything as a sink does and compares with the source's tables.
    pub fn check(&self, names: &[&str]) {
        let events = self.events();
        let mut seen = HashSet::new();
        for name in names {
            let rows = self.rows(name);
            for row in &rows {
                assert!(seen.insert(row.seq), "seq {} twice", row.seq);
            }
            let table = id(name);
            check_boundaries(&table, &events, &rows);
            let mut image = apply(&table, &events, &rows);
            image.sort_unstable();
            assert_eq!(image, self.server.rows(name), "{name}: the topics give other rows than the source has");
        }
    }
}

struct Limited<F> {
    inner: Pin<Box<F>>,
    left: usize,
}

impl<F: Future> Future for Limited<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        self.inner.as_mut().poll(cx).map(Some)
    }
}

/// A row event as a reader sees it.
#[derive(Debug, Clone)]
pub struct Event {
    pub seq: u64,
    pub epoch: u64,
    pub lane: u32,
    pub offset: u64,
    pub key: Option<Vec<u8>>,
    pub op: Op,
    pub version: u32,
    pub snapshot: bool,
    pub copying: bool,
    pub for_sink: Option<String>,
    before: Option<BTreeMap<ColumnId, i64>>,
    after: Option<BTreeMap<ColumnId, i64>>,
}

impl Event {
    fn read(table: &TableId, events: &[SchemaEvent], lane: u32, offset: u64, key: Option<Vec<u8>>, value: &[u8]) -> Self {
        let (head, mut reader) = Head::read(value).expect("head");
        // The version is behind the images: any version with this schema id has the same fields.
        let by_schema = |t: &&TableEvent| t.table.id == *table && t.value_schema == head.schema;
        let event = events.iter().flat_map(|e| &e.tables).find(by_schema).expect("a version with this schema");
        let fields = RowSchema::new(&event.table).fields;
        let image = |reader: &mut Reader<'_>| {
            reader.some().expect("branch").then(|| fields.iter().map(|f| (f.column, reader.long().expect("long"))).collect())
        };
        let (before, after) = (image(&mut reader), image(&mut reader));
        let tail = Tail::read(&mut reader).expect("tail");
        assert_eq!((tail.source.database, tail.source.table), (Some("shop"), table.name.as_str()));
        Self {
            seq: head.seq,
            epoch: head.epoch,
            lane,
            offset,
            key,
            op: tail.op,
            version: tail.source.schema_version,
            snapshot: tail.source.snapshot,
            copying: tail.source.copying,
            for_sink: tail.source.for_sink.map(str::to_owned),
            before,
            after,
        }
    }
}

fn check_boundaries(table: &TableId, events: &[SchemaEvent], rows: &[Event]) {
    let mut versions: HashMap<u64, u32> = HashMap::new();
    for event in events {
        let (Some(epoch), Some(part)) = (event.epoch, event.table(table)) else { continue };
        versions.insert(epoch, part.version);
        for row in rows {
            let boundary = part.boundaries[row.lane as usize];
            assert_eq!(row.offset < boundary, row.epoch < epoch, "{table}: boundary {boundary} of epoch {epoch} and {row:?}");
        }
    }
    for row in rows {
        let version = (0..=row.epoch).rev().find_map(|e| versions.get(&e));
        assert_eq!(Some(&row.version), version, "{table}: {row:?}");
    }
}

type Image = BTreeMap<ColumnId, i64>;

fn apply(table: &TableId, events: &[SchemaEvent], rows: &[Event]) -> Vec<Values> {
    let (mut image, mut next, mut newest): (Vec<Image>, usize, Option<&TableEvent>) = (Vec::new(), 0, None);
    for event in events {
        let Some(epoch) = event.epoch else {
            newest = event.table(table).or(newest);
            continue;
        };
        while let Some(row) = rows.get(next).filter(|r| r.epoch < epoch) {
            apply_row(newest.expect("a row before its table's first event"), &mut image, row);
            next += 1;
        }
        let Some(part) = event.table(table) else { continue };
        newest = Some(part);
        match event.kind {
            EventKind::Ddl => part.changes.iter().for_each(|change| apply_change(&mut image, change)),
            EventKind::Initial | EventKind::Reload | EventKind::Retire => image.clear(),
        }
    }
    let Some(newest) = newest else { return Vec::new() };
    for row in &rows[next..] {
        apply_row(newest, &mut image, row);
    }
    image.iter().map(|row| newest.table.columns.iter().map(|c| row[&c.id]).collect()).collect()
}

fn apply_change(image: &mut Vec<Image>, change: &SchemaChange) {
    match change {
        SchemaChange::TruncateTable => image.clear(),
        SchemaChange::AddColumn { column, fill: Fill::Constant(Value::Integer(fill)) } => {
            let fill = i64::try_from(*fill).expect("fill");
            image.iter_mut().for_each(|row| assert_eq!(row.insert(column.id, fill), None));
        }
        other => panic!("unexpected change {other:?}"),
    }
}

fn apply_row(table: &TableEvent, image: &mut Vec<Image>, row: &Event) {
    let keyed = table.key_schema.is_some();
    let of = |image: &[Image], wanted: &Image| {
        image.iter().position(|r| if keyed { r[&ColumnId(0)] == wanted[&ColumnId(0)] } else { r == wanted })
    };
    match row.op {
        Op::Truncate => {}
        Op::Delete => {
            let before = row.before.as_ref().expect("before");
            match of(image, before) {
                Some(at) => drop(image.remove(at)),
                None => assert!(keyed, "delete of a row that is not there: {row:?}"),
            }
        }
        Op::Create | Op::Update | Op::Read => {
            let replaced = if keyed { row.after.as_ref() } else { row.before.as_ref() };
            if let Some(at) = replaced.and_then(|r| of(image, r)) {
                image.remove(at);
            }
            image.push(row.after.clone().expect("after"));
        }
    }
}
