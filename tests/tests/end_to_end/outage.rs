//! Servers that go away and come back while a source and two instances of a sink run as processes of their own.
//!
//! Each is waited out with the reason where it can be seen; then everything is on the target, and nothing twice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tests::{
    kafka,
    pipeline::{Process, Transport, eventually, text},
    service::Service,
};

use crate::{
    command::page_of,
    world::{Options, World},
};

/// A table without a key shows what is there twice.
const SETUP: &str = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(60));\n\
                     CREATE TABLE keyless (v VARCHAR(60) NOT NULL, n INT NOT NULL);\n\
                     INSERT INTO t (v) SELECT CONCAT('row ', seq) FROM seq_1_to_2000;\n\
                     INSERT INTO keyless SELECT CONCAT('row ', seq DIV 3), seq % 3 FROM seq_1_to_2000;";

const TABLES: [&str; 2] = ["t", "keyless"];

/// How soon a process says what it misses, and how soon it goes on.
const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> Options<'static> {
    Options { sink: "    keyless: full_row\n", transport: Transport::Kafka, apart: true, ..Options::default() }
}

/// The three processes.
struct Apart {
    source: Process,
    sinks: [Process; 2],
}

impl Apart {
    fn start(world: &World) -> Apart {
        let apart = Apart { source: world.pipeline.source("source"), sinks: [world.pipeline.sink("sink1"), world.pipeline.sink("sink2")] };
        world.pipeline.caught_up();
        apart
    }

    fn all_run(&mut self) -> bool {
        self.source.is_running() && self.sinks.iter_mut().all(Process::is_running)
    }
}

/// Waits until a process says that it tries again, and why, on its page and in its log.
async fn retries(process: &Process, word: &str) {
    eventually(&format!("it tries again: {word}"), PATIENCE, async || {
        let (code, body) = page_of(&process.log(), "/readyz").await;
        let log = process.log();
        let warned = log.lines().any(|line| line.contains("WARN") && line.contains(word));
        code == 200 && warned && body.lines().any(|line| line.contains(": retrying") && line.contains(word))
    })
    .await;
}

/// Waits until a process says that it runs.
async fn runs(process: &Process) {
    eventually("it runs again", PATIENCE, async || {
        let (code, body) = page_of(&process.log(), "/readyz").await;
        code == 200 && body.lines().all(|line| line.ends_with(": running"))
    })
    .await;
}

/// Rows that keep coming, in small transactions over both tables: `t (id AUTO_INCREMENT, v)` and `keyless (v, n)`.
pub struct Flow {
    end: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Flow {
    pub async fn start(world: &World) -> Flow {
        let (end, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut session = world.session().await;
        let (ended, counted) = (end.clone(), rounds.clone());
        let task = tokio::spawn(async move {
            while !ended.load(Ordering::Relaxed) {
                let n = counted.fetch_add(1, Ordering::Relaxed);
                session.run("BEGIN").await;
                session.run(&format!("INSERT INTO t (v) VALUES ('flow {n}'), ('flow {n}')")).await;
                session.run(&format!("UPDATE t SET v = CONCAT(v, '!') WHERE id = {}", n % 2000 + 1)).await;
                session.run(&format!("INSERT INTO keyless VALUES ('flow', {}), ('flow', {0}), ('flow {n}', 1)", n % 5)).await;
                session.run(&format!("DELETE FROM keyless WHERE v = 'row {}' LIMIT 1", n % 600)).await;
                session.run("COMMIT").await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        Flow { end, rounds, task }
    }

    /// Waits for so many more transactions.
    pub async fn more(&self, transactions: u64) {
        let goal = self.rounds.load(Ordering::Relaxed) + transactions;
        eventually("rows flow", PATIENCE, async || self.rounds.load(Ordering::Relaxed) >= goal).await;
    }

    pub async fn end(self) {
        self.end.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
    }
}

async fn caught_up_and_equal(world: &mut World, apart: &mut Apart) {
    let begin = Instant::now();
    world.pipeline.caught_up();
    println!("{}: caught up {:.1} s after the last row", world.name, begin.elapsed().as_secs_f64());
    world.assert_equal().await;
    assert!(apart.all_run(), "{}", world.pipeline.log());
    for process in [&apart.source, &apart.sinks[0], &apart.sinks[1]] {
        runs(process).await;
    }
}

fn port(address: &str) -> &str {
    address.split(['/', '@']).find_map(|part| part.strip_prefix("127.0.0.1")).unwrap_or_else(|| panic!("{address} has no port"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_killed_and_stopped_while_rows_flow_is_waited_out() {
    let broker = Service::kafka("outage-broker", 2);
    broker.start();
    let lines = format!("    brokers: \"{}\"\n    registry: \"{}\"\n", broker.url(), kafka::registry());
    let mut world = World::with("outage_broker", SETUP, &TABLES, Options { transport: Transport::KafkaWith(&lines), ..options() }).await;
    let mut apart = Apart::start(&world);
    let flow = Flow::start(&world).await;
    flow.more(50).await;
    // Once by kill -9, once as an operator would.
    for end in [Service::kill, Service::stop] {
        end(&broker);
        for process in [&apart.source, &apart.sinks[0], &apart.sinks[1]] {
            retries(process, &broker.url()).await;
        }
        // Who asks meanwhile is told what is missing, and soon.
        let begin = Instant::now();
        let output = world.pipeline.command(&["status"], &[]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output).contains(&broker.url()) && begin.elapsed() < Duration::from_secs(11), "{}", text(&output));
        flow.more(50).await;
        broker.start();
        let begin = Instant::now();
        for process in [&apart.source, &apart.sinks[0], &apart.sinks[1]] {
            runs(process).await;
        }
        println!("all run {:.1} s after the broker is back", begin.elapsed().as_secs_f64());
        flow.more(50).await;
    }
    flow.end().await;
    caught_up_and_equal(&mut world, &mut apart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_that_is_away_while_a_change_comes_is_waited_out() {
    let registry = Service::registry("outage-registry", 3);
    registry.start();
    let lines = format!("    brokers: \"{}\"\n    registry: \"{}\"\n", kafka::brokers(), registry.url());
    kafka::Topics::shared().forget("outage_registry").await;
    let mut world = World::with("outage_registry", SETUP, &TABLES, Options { transport: Transport::KafkaWith(&lines), ..options() }).await;
    let mut apart = Apart::start(&world);
    let flow = Flow::start(&world).await;
    flow.more(50).await;
    registry.stop();
    world.source.run("INSERT INTO t (v) VALUES ('before')").await;
    world.source.run("ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 7").await;
    world.source.run("INSERT INTO t (v, c) VALUES ('behind', 8)").await;
    retries(&apart.source, port(&registry.url())).await;
    let address = port(&registry.url()).to_owned();
    eventually("status says why", PATIENCE, async || {
        let source = &world.pipeline.status()["source"];
        source["state"] == "retrying" && source["message"].as_str().is_some_and(|m| m.contains(&address))
    })
    .await;
    eventually("what lies before the change is applied", PATIENCE, async || {
        world.target.value("SELECT count(*) FROM t WHERE v = 'before'").await.as_deref() == Some("1")
    })
    .await;
    let behind = "SELECT count(*) FROM t WHERE v = 'behind'";
    assert_eq!(world.target.value(behind).await.as_deref(), Some("0"));
    registry.start();
    flow.more(50).await;
    flow.end().await;
    caught_up_and_equal(&mut world, &mut apart).await;
    assert_eq!(world.last_outcome("t").0, "applied");
    assert_eq!(world.target.value(behind).await.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_stopped_while_rows_flow_is_waited_out() {
    let postgres = Service::postgres("outage-postgres", 4);
    postgres.start();
    let mut world = World::with("outage_target", SETUP, &TABLES, Options { target_url: Some(postgres.url()), ..options() }).await;
    let mut apart = Apart::start(&world);
    let flow = Flow::start(&world).await;
    flow.more(50).await;
    postgres.stop();
    let address = port(&world.target_url).to_owned();
    for sink in &apart.sinks {
        retries(sink, &address).await;
    }
    world.source.run("ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 7").await;
    // The source does not care, and the sink's state is told by who asks for it.
    let status = world.pipeline.status();
    assert_eq!(status["source"]["state"], "running", "{status}");
    assert!(status["sinks"]["target"]["message"].as_str().unwrap().contains(&address), "{status}");
    flow.more(50).await;
    postgres.start();
    flow.more(50).await;
    flow.end().await;
    world.reconnect().await;
    caught_up_and_equal(&mut world, &mut apart).await;
    assert_eq!(world.last_outcome("t").0, "applied");
}

/// Runs commands side by side. Each must end within ten seconds by its code, and print the word.
fn end_soon(world: &World, word: &str, commands: &[(&[&str], i32)]) {
    let pipeline = &world.pipeline;
    std::thread::scope(|scope| {
        for (command, wanted) in commands {
            scope.spawn(move || {
                let begin = Instant::now();
                let output = pipeline.command(command, &[]);
                let (took, printed) = (begin.elapsed(), text(&output));
                assert_eq!(output.status.code(), Some(*wanted), "{command:?}: {printed}");
                assert!(printed.contains(word) && !printed.contains("panicked"), "{command:?}: {printed}");
                assert!(took < Duration::from_secs(10), "{command:?}: {took:?}: {printed}");
            });
        }
    });
}

/// Without what they need commands say so and end; what they do not need they do not miss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_without_a_server_end_soon_and_name_it() {
    let mut world = World::with("outage_commands", SETUP, &TABLES, options()).await;
    // It goes on meanwhile, as it was configured.
    world.start();
    let (source_url, target_url) = (world.source_url.clone(), world.target_url.clone());
    let over = |world: &World, brokers: &str, registry: &str| {
        let lines = format!("    brokers: \"{brokers}\"\n    registry: \"{registry}\"\n");
        world.configure(&Options { transport: Transport::KafkaWith(&lines), ..options() });
    };
    let (brokers, registry) = (kafka::brokers(), kafka::registry());
    // Nobody listens at the one; at the other connections are taken, and nothing is said.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for address in ["127.0.0.1:9".to_owned(), silent.local_addr().unwrap().to_string()] {
        over(&world, &address, &registry);
        let commands: [&[&str]; 8] =
            [&["status"], &["history"], &["review", "list"], &["wait"], &["reload"], &["check"], &["source"], &["run"]];
        end_soon(&world, &address, &commands.map(|command| (command, 1)));

        // Nothing but processes and what looks for them needs the registry.
        over(&world, &brokers, &format!("http://{address}"));
        end_soon(&world, "", &[(&["status"], 0), (&["history"], 0), (&["review", "list"], 0), (&["wait"], 0)]);
        end_soon(&world, &address, &[(&["check"], 1)]);

        // Without the target what the topics tell is told, and why that is all.
        world.target_url = format!("postgres://u@{address}/w");
        over(&world, &brokers, &registry);
        end_soon(&world, "", &[(&["history"], 0)]);
        end_soon(&world, &address, &[(&["status"], 0), (&["review", "list"], 1), (&["wait", "--timeout", "1s"], 5), (&["check"], 1)]);
        world.target_url.clone_from(&target_url);

        world.source_url = format!("mysql://u@{address}");
        over(&world, &brokers, &registry);
        end_soon(&world, "", &[(&["status"], 0), (&["history"], 0), (&["review", "list"], 0)]);
        end_soon(&world, &address, &[(&["wait"], 1), (&["check"], 1)]);
        world.source_url.clone_from(&source_url);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_database_that_is_started_again_is_waited_out() {
    let mariadb = Service::mariadb("outage-mariadb", 1);
    mariadb.start();
    let mut world = World::with("outage_source", SETUP, &TABLES, Options { source_url: Some(mariadb.url()), ..options() }).await;
    let mut apart = Apart::start(&world);
    let flow = Flow::start(&world).await;
    flow.more(50).await;
    flow.end().await;
    // With rows that the source may not have read yet.
    mariadb.stop();
    let address = port(&mariadb.url()).to_owned();
    retries(&apart.source, &address).await;
    eventually("status says why", PATIENCE, async || {
        let source = &world.pipeline.status()["source"];
        source["state"] == "retrying" && source["message"].as_str().is_some_and(|m| m.contains(&address))
    })
    .await;
    mariadb.start();
    world.reconnect().await;
    world.source.run("ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 7").await;
    let flow = Flow::start(&world).await;
    flow.more(50).await;
    flow.end().await;
    caught_up_and_equal(&mut world, &mut apart).await;
    assert_eq!(world.last_outcome("t").0, "applied");
}
