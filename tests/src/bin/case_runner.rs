//! Runs case files against real servers: a line a case, and `N passed, N failed, N skipped` last.

#![allow(clippy::expect_used, reason = "tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use serde_json::Value as Json;
use serde_yaml_ng::Value as Yaml;
use tests::{
    case::{self, Case, Rows, Step},
    compare, kafka,
    pipeline::{self, Pipeline, Setup, Transport},
    postgres,
    service::Service,
    source,
};

const USAGE: &str = "usage: tests/cases --source mariadb|mysql --target postgres --transport local|kafka [--only ID,…] DIR…";

/// Partitions of each table's topic.
const LANES: u32 = 4;

struct Arguments {
    source: String,
    transport: Transport<'static>,
    only: BTreeSet<String>,
    paths: Vec<PathBuf>,
}

fn arguments() -> Result<Arguments, String> {
    let (mut source, mut target, mut transport) = (None, None, None);
    let (mut only, mut paths) = (BTreeSet::new(), Vec::new());
    let mut all = std::env::args().skip(1);
    while let Some(argument) = all.next() {
        let mut value = || all.next().ok_or(format!("{argument} wants a value\n{USAGE}"));
        match argument.as_str() {
            "--source" => source = Some(value()?),
            "--target" => target = Some(value()?),
            "--transport" => transport = Some(value()?),
            "--only" => only.extend(value()?.split(',').map(str::to_owned)),
            flag if flag.starts_with('-') => return Err(format!("unknown option {flag}\n{USAGE}")),
            path => paths.push(path.into()),
        }
    }
    let source = source.filter(|s| s == "mariadb" || s == "mysql").ok_or(format!("--source is mariadb or mysql\n{USAGE}"))?;
    let transport = match transport.as_deref() {
        Some("local") => Transport::Local,
        Some("kafka") => Transport::Kafka,
        _ => return Err(format!("--transport is local or kafka\n{USAGE}")),
    };
    if target.as_deref() != Some("postgres") || paths.is_empty() {
        return Err(USAGE.into());
    }
    Ok(Arguments { source, transport, only, paths })
}

#[tokio::main]
async fn main() -> ExitCode {
    let (arguments, cases, ports, skips) = match read() {
        Ok(all) => all,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let originals: BTreeSet<String> = cases.iter().map(Case::id).collect();
    for case in &cases {
        let id = case.id();
        if !arguments.only.is_empty() && !arguments.only.contains(&id) {
            continue;
        }
        if !case.source.contains(&arguments.source) || !case.target.iter().any(|t| t == "postgres") {
            continue;
        }
        // A port runs in its original's place.
        if arguments.only.is_empty() && id.strip_suffix('m').is_some_and(|original| originals.contains(original)) {
            continue;
        }
        let case = ports.get(&format!("{id}m")).filter(|port| port.source.contains(&arguments.source)).unwrap_or(case);
        let reason = match case.sql_dialect.as_str() {
            "mysql" => skips.get(&arguments.source).and_then(|s| s.get(&id)).cloned(),
            other => Some(format!("written in {other}'s dialect, and not ported")),
        };
        if let Some(reason) = reason.filter(|_| arguments.only.is_empty()) {
            skipped += 1;
            println!("skip {id} {}: {reason}", case.title);
            continue;
        }
        let begin = Instant::now();
        match run_all(case, &arguments.source, arguments.transport).await {
            Ok(()) => {
                passed += 1;
                println!("pass {id} {} ({:.1} s)", case.title, begin.elapsed().as_secs_f32());
            }
            Err(problems) => {
                failed += 1;
                println!("FAIL {id} {} ({:.1} s)", case.title, begin.elapsed().as_secs_f32());
                for problem in problems {
                    println!("     {}", problem.trim_end().replace('\n', "\n     "));
                }
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

type Skips = BTreeMap<String, BTreeMap<String, String>>;

/// What is asked for, the cases, the ports by id, and the skips.
fn read() -> Result<(Arguments, Vec<Case>, BTreeMap<String, Case>, Skips), String> {
    let arguments = arguments()?;
    let cases = case::find(&arguments.paths)?;
    Ok((arguments, cases, ports()?, skips()?))
}

/// Cases in other words, for servers that do not understand the original's: its id with an `m`, for the sources that the port names.
fn ports() -> Result<BTreeMap<String, Case>, String> {
    let all = case::find(&[pipeline::data("data/cases-more")])?;
    Ok(all.into_iter().filter(|case| case.id().ends_with('m')).map(|case| (case.id(), case)).collect())
}

/// Cases that are not run, by source and id, each with its reason.
fn skips() -> Result<Skips, String> {
    let path = pipeline::data("data/skipped.yaml");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_yaml_ng::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// A table that a case captures, and the target's schema that gets it.
#[derive(Clone)]
struct Captured {
    database: String,
    table: String,
    schema: String,
}

impl Captured {
    /// As a configuration names it: names with a dot are quoted.
    fn configured(&self) -> String {
        let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
        if self.database.contains('.') {
            format!("{}.{}", quoted(&self.database), quoted(&self.table))
        } else {
            format!("{}.{}", self.database, self.table)
        }
    }
}

/// The tables of the case's databases, in order.
async fn captured(case: &Case, session: &mut source::Session) -> Result<Vec<Captured>, String> {
    let databases = if case.databases.is_empty() { vec!["shop".to_owned()] } else { case.databases.clone() };
    let mut tables = Vec::new();
    for database in databases {
        let listed = session
            .query(&format!(
                "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{database}' AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')"
            ))
            .await?;
        let schema = if case.databases.is_empty() { "public".to_owned() } else { database.clone() };
        for name in listed.into_iter().filter_map(|mut row| row.swap_remove(0)) {
            tables.push(Captured {
                database: database.clone(),
                table: String::from_utf8_lossy(&name).into_owned(),
                schema: schema.clone(),
            });
        }
    }
    tables.sort_by(|a, b| (&a.database, &a.table).cmp(&(&b.database, &b.table)));
    if let Some(only) = case.config.as_deref().and_then(|c| c.strip_prefix("only shop.")).and_then(|c| c.split_whitespace().next()) {
        tables.retain(|t| t.table == only);
    }
    Ok(tables)
}

/// One case at work.
struct Run<'a> {
    case: &'a Case,
    variation: Variation,
    /// `mariadb` or `mysql`.
    flavour: &'a str,
    source: source::Session,
    others: BTreeMap<String, source::Session>,
    target: postgres::Session,
    pipeline: Pipeline,
    source_url: String,
    transport: Transport<'static>,
    tables: Vec<Captured>,
    /// What `instar run` exited with, where it ended by itself.
    exit: Option<i32>,
    problems: Vec<String>,
}

/// How a case is run once more, where its `config` asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variation {
    AsWritten,
    /// On a server with `binlog_row_metadata=MINIMAL`.
    Minimal,
    /// The pipeline is stopped before the first change and started behind everything.
    StoppedMeanwhile,
}

async fn run_all(case: &Case, flavour: &str, transport: Transport<'static>) -> Result<(), Vec<String>> {
    let config = case.config.as_deref().unwrap_or_default();
    let mut variations = vec![Variation::AsWritten];
    if config.contains("MINIMAL") {
        variations.push(Variation::Minimal);
    }
    if config.contains("stopped before the first") {
        variations.push(Variation::StoppedMeanwhile);
    }
    for variation in variations {
        run(case, variation, flavour, transport).await.map_err(|mut problems| {
            problems.insert(0, format!("run {variation:?}"));
            problems
        })?;
    }
    Ok(())
}

/// A server whose log does not name columns. No session has that for itself, and other tests may be at work on the usual server.
fn unnamed(flavour: &str) -> Service {
    let (server, options) = match flavour {
        "mysql" => (Service::mysql("unnamed-mysql", 8), "MYSQL_OPTIONS"),
        _ => (Service::mariadb("unnamed-mariadb", 8), "MARIADB_OPTIONS"),
    };
    let server = server.with(options, "--binlog-row-metadata=MINIMAL");
    server.start();
    server
}

async fn run(case: &Case, variation: Variation, flavour: &str, transport: Transport<'static>) -> Result<(), Vec<String>> {
    let unnamed = (variation == Variation::Minimal).then(|| unnamed(flavour));
    let source_url = unnamed.as_ref().map_or_else(|| source::url(flavour), Service::url);
    let mut session = source::Session::connect(&source_url).await;
    for leftover in ["shop2", "other", "shop3", "archive"] {
        session.run(&format!("DROP DATABASE IF EXISTS `{leftover}`")).await;
    }
    session.fresh_database("shop").await;
    for database in case.databases.iter().filter(|d| *d != "shop") {
        session.run(&format!("DROP DATABASE IF EXISTS `{database}`")).await;
    }
    for statement in source::statements(&case.setup) {
        if let Err(e) = session.try_run(statement.as_bytes()).await {
            return Err(vec![format!("setup: {statement}: {e}")]);
        }
    }
    let tables = captured(case, &mut session).await.map_err(|e| vec![e])?;
    let name = format!("case_{}", case.id());
    let target = postgres::Session::fresh_database(&name).await;
    if transport == Transport::Kafka {
        let topics = kafka::Topics::shared();
        topics.forget(&name).await;
        // Who has such rows makes the topics so: a broker takes 1 MB a record by itself.
        if case.config.as_deref().is_some_and(|config| config.contains("large records")) {
            for Captured { database, table, .. } in &tables {
                topics.create(&format!("{name}.{database}.{table}"), LANES as usize, &[("max.message.bytes", "67108864")]).await;
            }
        }
    }
    let mut run = Run {
        case,
        variation,
        flavour,
        source: session,
        others: BTreeMap::new(),
        target,
        pipeline: Pipeline::new(&name, ""),
        source_url,
        transport,
        tables,
        exit: None,
        problems: Vec::new(),
    };
    let changes = |step: &Step| step.source_sql.as_deref().is_some_and(|sql| sql.contains("ALTER"));
    let (first, last) = (case.steps.iter().position(changes), case.steps.iter().rposition(|step| step.source_sql.is_some()));
    for (number, step) in case.steps.iter().enumerate() {
        let (begin, end) = (first == Some(number), last == Some(number));
        if variation == Variation::StoppedMeanwhile && begin {
            run.stop();
        }
        // Nothing is waited for while nothing runs.
        if step.source_sql.is_some() || run.pipeline.is_running() || variation != Variation::StoppedMeanwhile || number == 0 {
            run.step(step).await;
        }
        if variation == Variation::StoppedMeanwhile && end {
            run.pipeline.start();
        }
    }
    run.judge().await;
    run.pipeline.kill();
    if transport == Transport::Kafka {
        // The broker gets slower with each topic that is left.
        kafka::Topics::shared().forget(&name).await;
    }
    if run.problems.is_empty() {
        Ok(())
    } else {
        run.problems.push(format!("log: {}", tail(&run.pipeline.log(), 25)));
        Err(run.problems)
    }
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

impl Run<'_> {
    async fn step(&mut self, step: &Step) {
        if let Some(sql) = &step.source_sql {
            self.source_sql(step, sql).await;
        }
        if let Some(sql) = &step.target_sql {
            self.target.run(sql).await;
        }
        if let Some(words) = &step.pipeline {
            self.words(words).await;
        }
        if let Some(note) = &step.note
            && note.starts_with("PURGE BINARY LOGS")
        {
            self.purge().await;
        }
    }

    /// Removes every log file but the newest. The server keeps one that a reader's connection still holds for a while.
    async fn purge(&mut self) {
        for _ in 0..200 {
            let files = self.source.query("SHOW BINARY LOGS").await.unwrap_or_default();
            let newest = files.last().and_then(|r| r[0].clone()).unwrap_or_default();
            if files.len() <= 1 {
                return;
            }
            self.source.run(&format!("PURGE BINARY LOGS TO '{}'", String::from_utf8_lossy(&newest))).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.problems.push("the server does not purge its log files".into());
    }

    async fn source_sql(&mut self, step: &Step, sql: &str) {
        let session = match &step.session {
            None => &mut self.source,
            Some(name) => {
                if !self.others.contains_key(name) {
                    let mut other = source::Session::connect(&self.source_url).await;
                    other.run("USE shop").await;
                    self.others.insert(name.clone(), other);
                }
                self.others.get_mut(name).expect("just inserted")
            }
        };
        for statement in source::statements(sql) {
            match (session.try_run(statement.as_bytes()).await, &step.expect_source_error) {
                (Ok(()), _) => {}
                (Err(e), Some(expected)) if e.contains(&case::cell(expected).unwrap_or_default()) => {}
                (Err(e), _) => self.problems.push(format!("source: {statement}: {e}")),
            }
        }
    }

    fn configure(&self, extra: &str) {
        let name = format!("case_{}", self.case.id());
        let tables: Vec<String> = self.tables.iter().map(Captured::configured).collect();
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        let setup = Setup {
            name: &name,
            source_url: &self.source_url,
            database: "shop",
            tables: &tables,
            target_url: &postgres::database_url(&name),
            schema: if self.case.databases.is_empty() { "public" } else { "" },
            partitions: LANES,
            source_extra: extra,
            // Where a case wants tables without a key refused, the default does it.
            sink_extra: if self.case.expected.outcome == "refused_at_start" { "" } else { "    keyless: full_row\n" },
        };
        self.pipeline.reconfigure(&setup.yaml_over(self.transport));
    }

    async fn words(&mut self, words: &str) {
        if words.starts_with("start") {
            let chunk = if words.contains("chunks of one row") {
                "  snapshot: { chunk_rows: 1 }\n"
            } else if words.contains("chunks of two rows") {
                "  snapshot: { chunk_rows: 2 }\n"
            } else {
                ""
            };
            self.configure(chunk);
            self.pipeline.start();
        } else if words.starts_with("stop") || words == "pause" {
            self.stop();
        } else if words.starts_with("restart") {
            self.stop();
            self.pipeline.start();
        } else if words.starts_with("resume") {
            self.pipeline.start();
        } else if words.starts_with("kill -9") {
            self.pipeline.kill();
            self.pipeline.start();
        } else if let Some(goal) = words.strip_prefix("wait_") {
            let goal = if goal.starts_with("caught_up") { "caught-up" } else { "settled" };
            self.wait(goal);
        }
    }

    fn stop(&mut self) {
        if self.pipeline.is_running() {
            self.pipeline.stop();
        }
    }

    /// Waits for the goal; a process that has ended by itself is settled too.
    fn wait(&mut self, goal: &str) {
        if !self.pipeline.is_running() {
            self.note_exit();
            return;
        }
        let begin = Instant::now();
        let (code, printed) = loop {
            let (code, printed) = self.pipeline.wait("settled", 5);
            if matches!(code, 0 | 3 | 4) || !self.pipeline.is_running() || begin.elapsed() > Duration::from_secs(60) {
                break (code, printed);
            }
        };
        if !matches!(code, 0 | 3 | 4) && self.pipeline.is_running() {
            self.problems.push(format!("instar wait --for {goal} exits {code}: {printed}"));
        }
        self.note_exit();
    }

    fn note_exit(&mut self) {
        if self.exit.is_none() && !self.pipeline.is_running() {
            self.exit = Some(self.pipeline.exit(Duration::from_secs(1)));
        }
    }

    async fn judge(&mut self) {
        let refused = matches!(self.exit, Some(1 | 2));
        let status = if refused { Json::Null } else { self.pipeline.status() };
        let history = if refused { Json::Null } else { self.pipeline.history() };
        let found = outcome(refused, &status);
        let expected = &self.case.expected;
        let narrowed = expected.by_source.get(self.flavour).or_else(|| expected.by_target.get("postgres"));
        let note = narrowed.cloned().unwrap_or_default();
        let words = ["applied", "held", "stopped", "nothing_to_apply", "rows_only", "refused_at_start"];
        let wanted = words.into_iter().find(|word| note.starts_with(word)).unwrap_or(expected.outcome.as_str());
        let second = expected.second_change.as_ref().and_then(case::cell).unwrap_or_default();
        let also = format!("{} {note} {second}", expected.accept_also.as_deref().unwrap_or_default());
        let allowed = |word: &str| match wanted {
            "applied" | "nothing_to_apply" | "rows_only" => word == "applied",
            "refused_at_start" => word == "refused",
            "depends" => true,
            other => other == word,
        };
        // Without the columns' names in the log, a statement that moves columns stops the source.
        let unnamed = self.variation == Variation::Minimal && found == "stopped" && status.to_string().contains("binlog_row_metadata");
        let stem = |word: &str| if word == "stopped" { "stop" } else { word }.to_owned();
        if !allowed(found)
            && !unnamed
            && !(also.contains(&stem(found)) && found != "applied")
            && !(found == "applied" && also.contains("nothing to apply"))
        {
            self.problems.push(format!("expected {wanted}, found {found}: status {status}"));
        }
        let all = format!("{status} {history} {}", self.pipeline.log());
        if found != "applied" {
            self.check_message(&all);
        }
        for table in &expected.held_tables {
            if status["sinks"]["target"]["tables"][format!("shop.{table}")]["state"] != "held" {
                self.problems.push(format!("{table} is not held"));
            }
        }
        self.check_history(&history, found);
        if found == "applied" {
            self.compare().await;
        }
        if let Some(rows) = &self.case.expected.source_rows {
            self.rows(rows, false).await;
        }
        if let Some(rows) = &self.case.expected.final_rows {
            self.rows(rows, found == "applied").await;
        }
    }

    /// The last words a person reads must name what the case says.
    fn check_message(&mut self, all: &str) {
        let all = all.to_lowercase();
        let script = format!("{} {}", self.case.setup, self.case.steps.iter().filter_map(|s| s.source_sql.as_deref()).collect::<String>())
            .to_lowercase();
        for name in &self.case.expected.message_must_name {
            let name = case::cell(name).unwrap_or_default().to_lowercase();
            // Descriptions of a name ("the column") are for people; names, values and short words are for this check.
            let literal = name.starts_with("id=") || name == "0000-00-00" || (!name.contains(' ') && script.contains(&name));
            if literal && !all.contains(&name) && !all.contains(&name.replace("id=", "id: ")) {
                self.problems.push(format!("no message names {name}"));
            }
        }
    }

    fn check_history(&mut self, history: &Json, found: &str) {
        let outcomes =
            history.as_array().into_iter().flatten().map(|e| e["outcomes"]["target"]["outcome"].as_str().unwrap_or("none").to_owned());
        let outcomes: BTreeSet<String> = outcomes.collect();
        if found == "applied" && outcomes.iter().any(|o| matches!(o.as_str(), "pending" | "held" | "queued" | "stopped")) {
            self.problems.push(format!("everything is applied, but the history has {outcomes:?}: {history}"));
        }
        if self.case.expected.outcome == "nothing_to_apply" && outcomes.contains("applied") {
            self.problems.push(format!("nothing was to be applied, the history has {outcomes:?}: {history}"));
        }
    }

    async fn compare(&mut self) {
        for Captured { database, table, schema } in self.tables.clone() {
            let found = compare::differences(&mut self.source, (&database, &table), &self.target, (&schema, &table)).await;
            self.problems.extend(found);
        }
    }

    /// The case's query gives its rows on the source and, where PostgreSQL can run it as it stands, on the target.
    async fn rows(&mut self, expected: &Rows, on_target: bool) {
        self.source.run("USE shop").await;
        self.source.run("SET time_zone = '+00:00'").await;
        match self.source.query(&expected.query).await {
            Err(e) => self.problems.push(format!("source: {}: {e}", expected.query)),
            Ok(rows) => {
                let rows: Vec<Vec<Option<String>>> = rows
                    .into_iter()
                    .map(|r| r.into_iter().map(|c| c.map(|b| String::from_utf8_lossy(&b).into_owned())).collect())
                    .collect();
                self.same_rows("source", expected, &rows);
            }
        }
        if on_target && let Ok(rows) = self.target.query(&expected.query).await {
            self.same_rows("target", expected, &rows);
        }
    }

    fn same_rows(&mut self, side: &str, expected: &Rows, found: &[Vec<Option<String>>]) {
        let cells = |row: &[Yaml]| row.iter().map(case::cell).collect::<Vec<_>>();
        let wanted: Vec<Vec<Option<String>>> = expected.rows.iter().map(|r| cells(r)).collect();
        let same = wanted.len() == found.len()
            && wanted
                .iter()
                .zip(found)
                .all(|(w, f)| w.len() == f.len() && w.iter().zip(f).all(|(a, b)| case::same(a.as_deref(), b.as_deref())));
        if !same {
            self.problems.push(format!("{side}: {}: expected {wanted:?}, found {found:?}", expected.query));
        }
    }
}

/// How the pipeline stands, in the words of the cases.
fn outcome(refused: bool, status: &Json) -> &'static str {
    if refused {
        return "refused";
    }
    let sink = &status["sinks"]["target"];
    if status["source"]["state"] == "stopped" || sink["state"] == "stopped" {
        return "stopped";
    }
    let held = sink["tables"].as_object().into_iter().flatten().any(|(_, t)| t["state"] == "held");
    if held { "held" } else { "applied" }
}
