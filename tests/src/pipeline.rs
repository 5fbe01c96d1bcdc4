//! A pipeline under test: its configuration, its process, and the commands a user would give.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value as Json;

/// A pipeline in a folder of its own. Dropping it kills its processes.
#[derive(Debug)]
pub struct Pipeline {
    pub folder: PathBuf,
    pub config: PathBuf,
    /// Whether it runs as `instar run`, or as a source and two instances of its sink.
    pub apart: bool,
    processes: Vec<Process>,
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
        Pipeline { folder, config, apart: false, processes: Vec::new() }
    }

    /// Writes another configuration; a running process does not see it.
    pub fn reconfigure(&self, yaml: &str) {
        std::fs::write(&self.config, yaml.replace("${folder}", self.folder.to_str().expect("UTF-8"))).expect("the configuration");
    }

    /// Starts `instar run`, or the processes apart; what they print is added to a log of each.
    pub fn start(&mut self) {
        self.start_with(&[]);
    }

    pub fn start_with(&mut self, arguments: &[&str]) {
        assert!(!self.is_running(), "the pipeline runs already");
        if self.apart {
            self.start_apart(true, 2);
        } else {
            self.processes = vec![self.spawn("run", &[&["run"], arguments].concat())];
        }
    }

    /// Starts the source or not, and so many instances of the sink, as processes of their own.
    pub fn start_apart(&mut self, source: bool, sinks: usize) {
        assert!(!self.is_running(), "the pipeline runs already");
        let source = source.then(|| self.source("source"));
        let sinks = (1..=sinks).map(|number| self.sink(&format!("sink{number}")));
        self.processes = source.into_iter().chain(sinks).collect();
    }

    /// Starts `instar source` as a process of its own; what it prints is added to `NAME.log`.
    pub fn source(&self, name: &str) -> Process {
        self.spawn(name, &["source"])
    }

    /// Starts `instar sink` for the sink `target`. Several of one sink share its lanes.
    pub fn sink(&self, name: &str) -> Process {
        self.spawn(name, &["sink", "target"])
    }

    /// Starts `instar COMMAND FILE ARGUMENTS…`; what it prints is added to `NAME.log`.
    pub fn spawn(&self, name: &str, arguments: &[&str]) -> Process {
        let (command, arguments) = arguments.split_first().expect("a command");
        let mut all = vec![(*command).to_owned(), self.config.display().to_string()];
        all.extend(arguments.iter().map(|a| (*a).to_owned()));
        all.extend(["--admin".to_owned(), "127.0.0.1:0".to_owned()]);
        Process::start(name, self.folder.join(format!("{name}.log")), all)
    }

    /// Whether all of its processes run.
    pub fn is_running(&mut self) -> bool {
        !self.processes.is_empty() && self.processes.iter_mut().all(Process::is_running)
    }

    /// Of `instar run`, or of the source.
    pub fn pid(&self) -> u32 {
        self.processes.first().expect("a process").pid()
    }

    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(Process::pid).collect()
    }

    /// kill -9 of all.
    pub fn kill(&mut self) {
        self.processes.clear();
    }

    /// How many processes it is made of.
    pub fn size(&self) -> usize {
        self.processes.len()
    }

    /// kill -9 of one; the others are what they were.
    pub fn kill_one(&mut self, number: usize) {
        self.processes[number].kill();
    }

    /// One that was killed, again.
    pub fn start_one(&mut self, number: usize) {
        self.processes[number].kill_and_start();
    }

    pub fn signal(&self, signal: &str) {
        for process in &self.processes {
            process.signal(signal);
        }
    }

    /// SIGTERM, and the greatest exit code. Ten seconds is what is promised.
    pub fn stop(&mut self) -> i32 {
        for process in &mut self.processes {
            if process.is_running() {
                process.signal("-TERM");
            }
        }
        self.exit(Duration::from_secs(10))
    }

    /// Waits for all processes to end by themselves; the greatest exit code.
    pub fn exit(&mut self, limit: Duration) -> i32 {
        assert!(!self.processes.is_empty(), "no process");
        self.processes.drain(..).map(|process| process.exit(limit)).max().unwrap_or_default()
    }

    /// What `instar run` and all other processes of this pipeline printed.
    pub fn log(&self) -> String {
        let mut names: Vec<PathBuf> = std::fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|f| f.path()).collect();
        names.retain(|p| p.extension().is_some_and(|e| e == "log"));
        names.sort();
        let mut all = String::new();
        for path in &names {
            if names.len() > 1 {
                all.push_str(&format!("--- {}\n", path.file_name().unwrap_or_default().display()));
            }
            all.push_str(&std::fs::read_to_string(path).unwrap_or_default());
        }
        all
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

/// One process of a pipeline. Dropping it is kill -9.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    arguments: Vec<String>,
    child: Child,
}

impl Process {
    fn start(name: &str, log: PathBuf, arguments: Vec<String>) -> Process {
        let child = Process::child(&log, &arguments);
        Process { name: name.to_owned(), log, arguments, child }
    }

    fn child(log: &Path, arguments: &[String]) -> Child {
        let log = File::options().create(true).append(true).open(log).expect("a log file");
        Command::new(binary())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log file"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", binary().display()))
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the process").is_none()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the process, which must be there: `-STOP`, `-CONT`, `-TERM`.
    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.pid().to_string()]).status().expect("kill");
        assert!(status.success(), "kill {signal} {}", self.name);
    }

    /// kill -9, and the same process again.
    pub fn kill_and_start(&mut self) {
        self.kill();
        self.child = Process::child(&self.log, &self.arguments);
    }

    /// kill -9, also of a process that is stopped or has ended.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM, and the exit code. Ten seconds is what is promised.
    pub fn stop(mut self) -> i32 {
        if self.is_running() {
            self.signal("-TERM");
        }
        self.exit(Duration::from_secs(10))
    }

    /// Waits for the process to end by itself.
    pub fn exit(mut self, limit: Duration) -> i32 {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("the process") {
                return status.code().unwrap_or(-1);
            }
            assert!(begin.elapsed() <= limit, "{} still runs after {limit:?}; log:\n{}", self.name, self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it printed, also before it was killed and started again.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// CPU seconds so far, and the greatest memory in MiB.
    pub fn usage(&self) -> Usage {
        Usage::of(self.pid())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a process took of the machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    pub cpu_seconds: f64,
    pub peak_mib: f64,
}

impl Usage {
    /// What was taken since `before`; the greatest memory of all the time.
    #[must_use]
    pub fn since(self, before: Usage) -> Usage {
        Usage { cpu_seconds: self.cpu_seconds - before.cpu_seconds, ..self }
    }

    /// Zeros for a process that is gone.
    pub fn of(pid: u32) -> Usage {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or_default();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
        Usage { cpu_seconds: (ticks(11) + ticks(12)) / 100.0, peak_mib: peak.unwrap_or_default() / 1024.0 }
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
    /// The target database's address.
    pub target_url: &'a str,
    /// The sink's schema; empty: each database has its own.
    pub schema: &'a str,
    pub partitions: u32,
    /// More lines under `source:` and under the sink, two and four spaces deep.
    pub source_extra: &'a str,
    pub sink_extra: &'a str,
}

/// What carries a pipeline's topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport<'a> {
    #[default]
    Local,
    /// The broker and registry that all tests share.
    Kafka,
    /// Lines under `topics.kafka:`, four spaces deep: another broker, authentication, properties. `partitions` is added.
    KafkaWith(&'a str),
}

impl Setup<'_> {
    pub fn yaml(&self) -> String {
        self.yaml_over(Transport::Local)
    }

    pub fn yaml_over(&self, transport: Transport<'_>) -> String {
        let tables: String = self.tables.iter().map(|t| format!("\n    - {}", serde_json::Value::from(*t))).collect();
        format!(
            "pipeline: {name}\ntopics:\n  prefix: {name}\n{transport}\
             source:\n  engine: mysql\n  url: {source}/{database}\n  tables:{tables}\n{source_extra}\
             sinks:\n  target:\n    target: postgres\n    url: {target}\n{schema}{sink_extra}",
            name = self.name,
            transport = transport.yaml(self.partitions),
            source = self.source_url,
            database = self.database,
            source_extra = self.source_extra,
            target = self.target_url,
            schema = if self.schema.is_empty() { String::new() } else { format!("    schema: {}\n", self.schema) },
            sink_extra = self.sink_extra,
        )
    }
}

impl Transport<'_> {
    fn yaml(self, partitions: u32) -> String {
        match self {
            Transport::Local => format!("  transport: local\n  local: {{ path: \"${{folder}}/topics\", partitions: {partitions} }}\n"),
            Transport::Kafka => {
                let (brokers, registry) = (crate::kafka::brokers(), crate::kafka::registry());
                Transport::KafkaWith(&format!("    brokers: \"{brokers}\"\n    registry: \"{registry}\"\n")).yaml(partitions)
            }
            Transport::KafkaWith(lines) => format!("  transport: kafka\n  kafka:\n{lines}    partitions: {partitions}\n"),
        }
    }
}

/// The folder of a file that is part of this crate.
pub fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
