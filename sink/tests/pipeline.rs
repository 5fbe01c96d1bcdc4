//! The sink process over a real local log and a real PostgreSQL (`INSTAR_TEST_POSTGRES=postgres://user:password@host:port/database`).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod fake;
#[path = "postgres/support.rs"]
#[allow(dead_code, reason = "the part that this test needs")]
mod support;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use fake::source::{Source, orders};
use runtime::{
    config::{Keyless, OnStop},
    shutdown::{Shutdown, ShutdownHandle},
};
use schemas::{change::Kind, event::EventKind, policy::Action, table::Table, value::Value, wire::envelope::Op};
use sink::{
    consumer::local::LocalConsumer,
    error::SinkError,
    process::{Ended, SinkProcess},
    status::{Liveness, Snapshot, gather, history::history, status},
    target::{Session, Target},
};
use support::{Database, database};
use tokio::{task::JoinHandle, time::timeout};

type Rows = Vec<BTreeMap<String, Value>>;

fn n(i: i64) -> Value {
    Value::Integer(i.into())
}

fn note(text: &str) -> Value {
    Value::Text(text.into())
}

fn source(name: &str, lanes: u32) -> Source {
    let path = std::env::temp_dir().join(format!("instar-pipeline-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    Source::new(&path, lanes)
}

struct Running {
    stop: ShutdownHandle,
    task: JoinHandle<Result<Ended, SinkError>>,
}

fn start(source: &Source, database: &Database) -> Running {
    let consumer = LocalConsumer::new(source.log.clone(), "shop", &database.config.name).unwrap();
    let target = sink::postgres::PostgresTarget::new("shop", &database.config).unwrap();
    let process = SinkProcess::new(database.config.clone(), target, consumer);
    let (stop, stopped) = Shutdown::new();
    Running { stop, task: tokio::spawn(process.run(stopped)) }
}

impl Running {
    async fn end(self) -> Result<Ended, SinkError> {
        self.stop.request();
        timeout(Duration::from_secs(20), self.task).await.expect("the process ends").unwrap()
    }

    async fn ended(self) -> Result<Ended, SinkError> {
        timeout(Duration::from_secs(20), self.task).await.expect("the process ends").unwrap()
    }
}

async fn rows(database: &Database, table: &str) -> Rows {
    let sql = format!("SELECT to_jsonb(t)::text FROM shop.{table} t ORDER BY id");
    let Ok(rows) = database.client.query(&sql, &[]).await else { return Vec::new() };
    let value = |v: &serde_json::Value| match v {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Number(number) => n(number.as_i64().unwrap()),
        serde_json::Value::String(text) => note(text),
        other => panic!("{other}"),
    };
    let row = |text: &str| {
        serde_json::from_str::<BTreeMap<String, serde_json::Value>>(text).unwrap().iter().map(|(k, v)| (k.clone(), value(v))).collect()
    };
    rows.iter().map(|r| row(r.get(0))).collect()
}

async fn until_same(source: &Source, database: &Database, table: &str) {
    let expected = source.expected(table);
    let begun = Instant::now();
    loop {
        let found = rows(database, table).await;
        if found == expected {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{table}: {found:?}\nexpected {expected:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_around_changes_keep_their_order_on_four_lanes() {
    let Some(mut database) = database().await else { return };
    database.config.workers = 3;
    let mut source = source("order", 4);
    source.initial(vec![orders("orders"), orders("lines")]);
    let mut running = start(&source, &database);
    for round in 0..16i64 {
        for id in 0..20 {
            source.put("orders", (id * 7 + round) % 30, &[("n", n(round)), ("note", note("x"))]);
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
            running.task.abort();
            running = start(&source, &database);
        }
    }
    source.put("orders", 99, &[("n", n(1))]);
    until_same(&source, &database, "orders").await;
    until_same(&source, &database, "lines").await;
    assert_eq!(running.end().await.unwrap(), Ended::Shutdown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_key_every_row_comes_once_through_kills() {
    let Some(mut database) = database().await else { return };
    database.config.defaults.keyless = Keyless::FullRow;
    let mut source = source("keyless", 4);
    let mut table: Table = orders("orders");
    table.primary = None;
    source.initial(vec![table]);
    let mut running = start(&source, &database);
    for i in 0..200i64 {
        let row = source.row("orders", &[("id", n(i % 7)), ("n", n(1))]);
        source.publish("orders", Op::Create, None, Some(&row), &[], None);
        if i % 3 == 0 {
            source.publish("orders", Op::Delete, Some(&row), None, &[], None);
        }
        if i % 20 == 19 {
            running.task.abort();
            running = start(&source, &database);
        }
    }
    let begun = Instant::now();
    while rows(&database, "orders").await.len() != 133 && begun.elapsed() < Duration::from_secs(20) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(rows(&database, "orders").await.len(), 133);
    running.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_and_stops_are_durable_and_reloads_lead_out() {
    let Some(mut database) = database().await else { return };
    database.config.defaults.evolution.actions.insert(Kind::DropColumn, Action::Hold);
    database.config.defaults.evolution.actions.insert(Kind::RenameColumn, Action::Stop);
    database.config.on_stop = OnStop::Exit;
    let mut source = source("durable", 2);
    source.initial(vec![orders("orders"), orders("lines")]);
    source.put("orders", 1, &[("n", n(1)), ("note", note("a"))]);
    source.drop_column("orders", "note");
    source.put("orders", 2, &[("n", n(2))]);
    source.put("lines", 1, &[("n", n(1))]);
    source.rename_column("lines", "n", "m");
    source.put("lines", 2, &[("m", n(2))]);
    let progress = source.progress(1_700_000_000_000, 1_700_000_000_000);
    let Ended::Stopped { message } = start(&source, &database).ended().await.unwrap() else { panic!("no stop") };
    assert!(message.contains("shop.lines") && message.contains("`n` is renamed to `m`"), "{message}");

    // Every process is dead.
    let consumer = LocalConsumer::reader(source.log.clone(), "shop", "warehouse");
    let topics = gather::Topics::read(&consumer).await.unwrap();
    assert_eq!(topics.progress, Some(progress));
    let sink = gather::sink(&database.config.name, &database.target, &mut None, &consumer, &topics, Liveness::Down).await;
    let name = database.config.name.clone();
    let snapshot = Snapshot {
        pipeline: "shop",
        source: Liveness::Down,
        progress: topics.progress.as_ref(),
        events: &topics.events,
        ends: &topics.ends,
        sinks: BTreeMap::from([(name.clone(), sink)]),
        now_ms: 1_700_000_005_000,
    };
    let json = status(&snapshot);
    let sink = &json["sinks"][&name];
    assert_eq!((sink["state"].as_str(), sink["message"].as_str()), (Some("stopped"), Some(message.as_str())));
    let table = &sink["tables"]["shop.orders"];
    assert_eq!((table["state"].as_str(), &table["lag_rows"], &table["lag_seconds"]), (Some("held"), &1.into(), &5.0.into()));
    assert!(table["message"].as_str().unwrap().contains("column `note` is dropped"), "{table}");
    let json = history(&snapshot, None);
    let outcomes: Vec<_> = json.as_array().unwrap().iter().map(|e| e["outcomes"][&name]["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["held", "stopped"]);
    assert_eq!(rows(&database, "lines").await.len(), 1);

    source.reload(&["orders"]);
    source.reload(&["lines"]);
    let running = start(&source, &database);
    until_same(&source, &database, "orders").await;
    until_same(&source, &database, "lines").await;
    running.end().await.unwrap();
    let mut session = database.target.session().await.unwrap();
    let journal = session.journal().await.unwrap();
    let outcomes: Vec<_> =
        journal.outcomes.iter().map(|((epoch, table), text)| (*epoch, table.name.as_str(), text.outcome.name())).collect();
    let expected = [
        (1, "lines", "applied"),
        (1, "orders", "applied"),
        (2, "orders", "superseded"),
        (3, "lines", "superseded"),
        (4, "orders", "reloaded"),
        (5, "lines", "reloaded"),
    ];
    assert_eq!(outcomes, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_does_not_fit_stops_before_its_row_and_names_it() {
    let Some(database) = database().await else { return };
    let mut source = source("nul", 1);
    source.initial(vec![orders("orders")]);
    for id in 0..40 {
        source.put("orders", id, &[("note", note(if id == 23 { "a\0b" } else { "good" }))]);
    }
    let Ended::Stopped { message } = start(&source, &database).ended().await.unwrap() else { panic!("no stop") };
    for part in ["shop.orders", "note", "23", "offset 23", "Reload the table"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert_eq!(rows(&database, "orders").await.len(), 23);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_altered_by_hand_stops_at_the_change() {
    let Some(database) = database().await else { return };
    let mut source = source("hand", 1);
    source.initial(vec![orders("orders")]);
    source.put("orders", 1, &[("n", n(1))]);
    let running = start(&source, &database);
    until_same(&source, &database, "orders").await;
    database.client.batch_execute("ALTER TABLE shop.orders ADD COLUMN extra int").await.unwrap();
    source.add_column("orders", "extra", 1);
    let Ended::Stopped { message } = running.ended().await.unwrap() else { panic!("no stop") };
    assert!(message.contains("not the expected shape") && message.contains("extra"), "{message}");
    // A reload takes the table as it is, and gives it the shape of its event.
    source.reload(&["orders"]);
    let running = start(&source, &database);
    until_same(&source, &database, "orders").await;
    running.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_table_is_refused_and_adopted() {
    let Some(mut database) = database().await else { return };
    let mut source = source("foreign", 1);
    source.initial(vec![orders("orders")]);
    source.put("orders", 1, &[]);
    let sql = "CREATE SCHEMA shop; CREATE TABLE shop.orders (id int PRIMARY KEY, n int, note text); INSERT INTO shop.orders VALUES (7)";
    database.client.batch_execute(sql).await.unwrap();
    let error = start(&source, &database).ended().await.unwrap_err();
    assert!(error.to_string().contains("shop.orders exists, holds rows and is not ours"), "{error}");
    database.config.adopt = true;
    let running = start(&source, &database);
    let begun = Instant::now();
    while rows(&database, "orders").await.len() != 2 {
        assert!(begun.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    source.begin(EventKind::Retire, vec![orders("orders")], None);
    running.end().await.unwrap();
}

/// Not an aim by itself: prints the time from the commit of a change and its row to the row's being visible.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_visible_soon() {
    let Some(database) = database().await else { return };
    let mut source = source("soon", 4);
    source.initial(vec![orders("orders")]);
    let running = start(&source, &database);
    source.put("orders", 0, &[]);
    until_same(&source, &database, "orders").await;
    let (mut changes, mut plain) = (Vec::new(), Vec::new());
    let look = |id: i64| format!("SELECT count(*) FROM shop.orders WHERE id = {id}");
    for round in 1..40i64 {
        let begun = Instant::now();
        if round % 2 == 0 {
            source.add_column("orders", &format!("c{round}"), 1);
        }
        let begun = if round % 2 == 0 { begun } else { Instant::now() };
        source.put("orders", round, &[("n", n(1))]);
        while database.client.query_one(&look(round), &[]).await.unwrap().get::<_, i64>(0) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(10));
        }
        if round % 2 == 0 { &mut changes } else { &mut plain }.push(begun.elapsed());
    }
    changes.sort();
    plain.sort();
    println!("change and row visible after {:?} (median), row alone {:?}", changes[changes.len() / 2], plain[plain.len() / 2]);
    assert!(changes[changes.len() / 2] < Duration::from_millis(500));
    running.end().await.unwrap();
}
