//! A source database, a target database and a pipeline between them, all named after the test.

use std::time::Duration;

use serde_json::Value as Json;
use tests::{
    compare, kafka,
    pipeline::{Pipeline, Setup, Transport, eventually},
    postgres, source,
};

pub struct World {
    pub name: String,
    pub source: source::Session,
    pub target: postgres::Session,
    pub pipeline: Pipeline,
    pub tables: Vec<String>,
    /// The source server.
    pub source_url: String,
    /// The target database.
    pub target_url: String,
}

/// What differs from the usual.
#[derive(Debug, Clone, Default)]
pub struct Options<'a> {
    /// Lines under `source:`, two spaces deep.
    pub source: &'a str,
    /// Lines under the sink, four spaces deep.
    pub sink: &'a str,
    pub source_url: Option<String>,
    /// A target server of the test's own.
    pub target_url: Option<String>,
    pub transport: Transport<'a>,
    /// A source and two instances of the sink, as processes of their own.
    pub apart: bool,
}

/// Whether this run of the tests takes a broker where a test does not say (INSTAR_TEST_TRANSPORT).
pub fn over_kafka() -> bool {
    std::env::var("INSTAR_TEST_TRANSPORT").is_ok_and(|t| t == "kafka")
}

impl Options<'_> {
    /// What the run of the tests says (INSTAR_TEST_TRANSPORT) of those that do not say it themselves.
    fn of_this_run(mut self) -> Self {
        if self.transport == Transport::Local && over_kafka() {
            self.transport = Transport::Kafka;
            self.apart = true;
        }
        self
    }
}

impl World {
    /// Runs `setup` in an empty source database and configures a pipeline of `tables` over 4 lanes. Nothing is started.
    pub async fn new(name: &str, setup: &str, tables: &[&str]) -> World {
        World::with(name, setup, tables, Options::default()).await
    }

    pub async fn with(name: &str, setup: &str, tables: &[&str], options: Options<'_>) -> World {
        let options = options.of_this_run();
        let url = options.source_url.clone().unwrap_or_else(|| source::url("mariadb"));
        let mut session = source::Session::connect(&url).await;
        session.fresh_database(name).await;
        session.script(setup).await;
        let target_server = options.target_url.clone().unwrap_or_else(postgres::url);
        let target = postgres::Session::fresh_database_at(&target_server, name).await;
        if options.transport == Transport::Kafka {
            kafka::Topics::shared().forget(name).await;
        }
        let mut pipeline = Pipeline::new(name, "");
        pipeline.apart = options.apart;
        let world = World {
            name: name.into(),
            source: session,
            target,
            pipeline,
            tables: tables.iter().map(|t| (*t).to_owned()).collect(),
            source_url: url,
            target_url: postgres::database_at(&target_server, name),
        };
        world.configure(&options);
        world
    }

    /// Writes the configuration for the tables that the world has now.
    pub fn configure(&self, options: &Options<'_>) {
        let options = options.clone().of_this_run();
        // Apart, nobody else decides whether a sink that stands ends.
        let waits = if options.apart && !options.sink.contains("on_stop") { "    on_stop: wait\n" } else { "" };
        let tables: Vec<String> = self.tables.iter().map(|t| format!("{}.{t}", self.name)).collect();
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        let setup = Setup {
            name: &self.name,
            source_url: &self.source_url,
            database: &self.name,
            tables: &tables,
            target_url: &self.target_url,
            schema: "public",
            partitions: 4,
            source_extra: options.source,
            sink_extra: &format!("{}{waits}", options.sink),
        };
        self.pipeline.reconfigure(&setup.yaml_over(options.transport));
    }

    /// Starts the pipeline and waits until the copy is on the target.
    pub fn start(&mut self) {
        self.pipeline.start();
        self.pipeline.caught_up();
    }

    /// Waits until the pipeline stands at a stop; what `wait` printed.
    pub fn stopped(&self) -> String {
        let (code, printed) = self.pipeline.wait("settled", 60);
        assert_eq!(code, 3, "{printed}\nlog:\n{}", self.pipeline.log());
        printed
    }

    /// New sessions at both sides, whose servers were started again.
    pub async fn reconnect(&mut self) {
        self.source = self.session().await;
        self.target = postgres::Session::connect(&self.target_url).await;
    }

    /// A further session at the source, in the test's database.
    pub async fn session(&self) -> source::Session {
        let mut session = source::Session::connect(&self.source_url).await;
        session.run(&format!("USE `{}`", self.name)).await;
        session
    }

    /// Both sides hold the same rows and columns.
    pub async fn assert_equal(&mut self) {
        for table in self.tables.clone() {
            let found = compare::differences(&mut self.source, (&self.name, &table), &self.target, ("public", &table)).await;
            assert!(found.is_empty(), "{found:#?}\nlog:\n{}", self.pipeline.log());
        }
    }

    pub async fn count(&self, table: &str) -> u64 {
        self.target
            .value(&format!("SELECT count(*) FROM {}", compare::identifier(table)))
            .await
            .and_then(|n| n.parse().ok())
            .expect("a count")
    }

    /// The sink's state in `status --json`.
    pub fn sink_state(&self) -> String {
        self.pipeline.status()["sinks"]["target"]["state"].as_str().unwrap_or_default().to_owned()
    }

    pub fn table_state(&self, table: &str) -> String {
        self.pipeline.status()["sinks"]["target"]["tables"][format!("{}.{table}", self.name)]["state"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The entries of `history --json` for a table.
    pub fn history(&self, table: &str) -> Vec<Json> {
        let name = format!("{}.{table}", self.name);
        self.pipeline.history().as_array().cloned().unwrap_or_default().into_iter().filter(|e| e["table"] == name.as_str()).collect()
    }

    /// The outcome of the newest entry of a table that carries DDL.
    pub fn last_outcome(&self, table: &str) -> (String, String) {
        let entry = self.history(table).into_iter().rfind(|e| !e["ddl"].is_null()).expect("an entry with DDL");
        let outcome = &entry["outcomes"]["target"];
        (outcome["outcome"].as_str().unwrap_or_default().to_owned(), outcome["reason"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until a column stands on the target.
    pub async fn column_there(&self, table: &str, column: &str) {
        let sql = format!(
            "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public' AND table_name = {} AND column_name = {}",
            compare::literal(table),
            compare::literal(column)
        );
        eventually(&format!("column {column} of {table}"), Duration::from_secs(20), async || {
            self.target.value(&sql).await.as_deref() == Some("1")
        })
        .await;
    }
}
