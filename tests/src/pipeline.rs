//! A pipeline under test: its configuration, its process, and the commands a user would give.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value as Json;

/// A pipeline in a folder of its own. Dropping it kills its process.
#[derive(Debug)]
pub struct Pipeline {
    pub folder: PathBuf,
    pub config: PathBuf,
    process: Option<Child>,
}

/// The binary under test: INSTAR_BIN, or the one built beside this test.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("INSTAR_BIN") {
        return path.into();
    }
    let exe = std::env::current_exe().expect("this test's path");
    let folder = exe.ancestors().find(|p| p.ends_with("release") || p.ends_with("debug")).expect("a build folder");
    folder.join("instar")
}

impl Pipeline {
    /// A pipeline named `name` with this configuration; `${folder}` in it is the pipeline's own folder, empty at first.
    pub fn new(name: &str, yaml: &str) -> Pipeline {
        let folder = std::env::temp_dir().join("instar-tests").join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        let config = folder.join("pipeline.yaml");
        std::fs::write(&config, yaml.replace("${folder}", folder.to_str().expect("UTF-8"))).expect("the configuration");
        Pipeline { folder, config, process: None }
    }

    /// Writes another configuration; a running process does not see it.
    pub fn reconfigure(&self, yaml: &str) {
        std::fs::write(&self.config, yaml.replace("${folder}", self.folder.to_str().expect("UTF-8"))).expect("the configuration");
    }

    /// Starts `instar run`; what it prints is added to `run.log`.
    pub fn start(&mut self) {
        self.start_with(&[]);
    }

    pub fn start_with(&mut self, arguments: &[&str]) {
        assert!(!self.is_running(), "the pipeline runs already");
        let log = File::options().create(true).append(true).open(self.folder.join("run.log")).expect("run.log");
        let child = Command::new(binary())
            .arg("run")
            .arg(&self.config)
            .args(["--admin", "127.0.0.1:0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("run.log"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", binary().display()));
        self.process = Some(child);
    }

    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|p| p.try_wait().expect("the process").is_none())
    }

    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("a process").id()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.pid().to_string()]).status().expect("kill");
        assert!(status.success(), "kill {signal}");
    }

    /// SIGTERM, and the exit code. Ten seconds is what is promised.
    pub fn stop(&mut self) -> i32 {
        if self.is_running() {
            self.signal("-TERM");
        }
        self.exit(Duration::from_secs(10))
    }

    /// Waits for the process to end by itself.
    pub fn exit(&mut self, limit: Duration) -> i32 {
        let begin = Instant::now();
        let Some(mut process) = self.process.take() else { panic!("no process") };
        loop {
            if let Some(status) = process.try_wait().expect("the process") {
                return status.code().unwrap_or(-1);
            }
            if begin.elapsed() > limit {
                let _ = process.kill();
                let _ = process.wait();
                panic!("still running after {limit:?}; log:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What `instar run` printed.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("run.log")).unwrap_or_default()
    }

    /// Runs a command on this pipeline: `instar COMMAND FILE ARGUMENTS…`.
    pub fn command(&self, command: &[&str], arguments: &[&str]) -> Output {
        Command::new(binary()).args(command).arg(&self.config).args(arguments).stdin(Stdio::null()).output().expect("instar")
    }

    fn json(&self, command: &str) -> Json {
        let output = self.command(&[command], &["--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| {
            panic!("{command}: {e}: {}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        })
    }

    pub fn status(&self) -> Json {
        self.json("status")
    }

    pub fn history(&self) -> Json {
        self.json("history")
    }

    /// `instar wait`: the exit code and what it printed.
    pub fn wait(&self, goal: &str, seconds: u32) -> (i32, String) {
        let output = self.command(&["wait"], &["--for", goal, "--timeout", &format!("{seconds}s")]);
        (output.status.code().unwrap_or(-1), text(&output))
    }

    /// Waits until the sink has caught up, or fails with what stands in the way.
    pub fn caught_up(&self) {
        let (code, printed) = self.wait("caught-up", 60);
        assert_eq!(code, 0, "instar wait: {printed}\nlog:\n{}", self.log());
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Waits for a condition; `what` names it where it does not come within `limit`.
pub async fn eventually(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !condition().await {
        assert!(begin.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The usual configuration: one MySQL-family source, local topics, one PostgreSQL sink named `target`.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    pub name: &'a str,
    pub source_url: &'a str,
    pub database: &'a str,
    pub tables: &'a [&'a str],
    pub target_database: &'a str,
    /// The sink's schema; empty: each database has its own.
    pub schema: &'a str,
    pub partitions: u32,
    /// More lines under `source:` and under the sink, two and four spaces deep.
    pub source_extra: &'a str,
    pub sink_extra: &'a str,
}

impl Setup<'_> {
    pub fn yaml(&self) -> String {
        let tables: String = self.tables.iter().map(|t| format!("\n    - {}", serde_json::Value::from(*t))).collect();
        format!(
            "pipeline: {name}\ntopics:\n  transport: local\n  prefix: {name}\n  local: {{ path: \"${{folder}}/topics\", partitions: {partitions} }}\n\
             source:\n  engine: mysql\n  url: {source}/{database}\n  tables:{tables}\n{source_extra}\
             sinks:\n  target:\n    target: postgres\n    url: {target}\n{schema}{sink_extra}",
            name = self.name,
            partitions = self.partitions,
            source = self.source_url,
            database = self.database,
            source_extra = self.source_extra,
            target = crate::postgres::database_url(self.target_database),
            schema = if self.schema.is_empty() { String::new() } else { format!("    schema: {}\n", self.schema) },
            sink_extra = self.sink_extra,
        )
    }
}

/// The folder of a file that is part of this crate.
pub fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
