//! Servers of a test's own, for tests that stop and kill them; by the scripts in tests/services.

use std::process::{Command, Stdio};

use crate::{kafka, pipeline::data};

/// A server that a test may do with as it likes. Dropping it stops it and removes its data.
#[derive(Debug)]
pub struct Service {
    script: String,
    name: String,
    environment: Vec<(String, String)>,
}

impl Service {
    /// A broker with all its listeners. `slot` keeps the ports of tests that run at the same time apart: 1 and up.
    pub fn kafka(name: &str, slot: u16) -> Service {
        Service::new("kafka", name, port(&kafka::brokers()) + 20 * slot)
    }

    pub fn registry(name: &str, slot: u16) -> Service {
        Service::new("registry", name, port(&kafka::brokers()) + 20 * slot + 10)
    }

    pub fn postgres(name: &str, slot: u16) -> Service {
        let url = crate::postgres::url();
        let address = url.rsplit_once('/').map_or(url.as_str(), |(server, _)| server);
        Service::new("postgres", name, port(address) + slot)
    }

    pub fn mariadb(name: &str, slot: u16) -> Service {
        Service::new("mariadb", name, port(&crate::source::url("mariadb")) + 10 * slot)
    }

    pub fn mysql(name: &str, slot: u16) -> Service {
        Service::new("mysql", name, port(&crate::source::url("mysql")) + 10 * slot)
    }

    fn new(kind: &str, name: &str, port: u16) -> Service {
        let kind_upper = kind.to_uppercase();
        let environment = vec![(format!("{kind_upper}_NAME"), name.to_owned()), (format!("{kind_upper}_PORT"), port.to_string())];
        let service = Service { script: data(&format!("services/{kind}.sh")).display().to_string(), name: name.to_owned(), environment };
        service.run("remove");
        service
    }

    /// More for the script's environment: `with("KAFKA_PROPERTIES", "message.max.bytes=100000")`.
    #[must_use]
    pub fn with(mut self, variable: &str, value: &str) -> Service {
        self.environment.push((variable.to_owned(), value.to_owned()));
        self
    }

    /// Starts it and waits until it answers; its data are those it had when it ended.
    pub fn start(&self) {
        self.run("start");
    }

    pub fn stop(&self) {
        self.run("stop");
    }

    /// kill -9.
    pub fn kill(&self) {
        self.run("kill");
    }

    pub fn url(&self) -> String {
        self.run("url").trim().to_owned()
    }

    /// What the script's `env` says of a variable.
    pub fn variable(&self, name: &str) -> String {
        let all = self.run("env");
        let value = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("{} has no {name}: {all}", self.script)).to_owned()
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.script);
        command.arg(verb).envs(self.environment.iter().map(|(k, v)| (k, v))).stdin(Stdio::null());
        command
    }

    fn run(&self, verb: &str) -> String {
        let output = self.command(verb).output().unwrap_or_else(|e| panic!("{}: {e}", self.script));
        assert!(output.status.success(), "{} {verb} of {}: {}", self.script, self.name, String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // A failed test is told as it failed, and its server's log stays.
        let _ = self.command(if std::thread::panicking() { "stop" } else { "remove" }).output();
    }
}

fn port(address: &str) -> u16 {
    address.rsplit(':').next().and_then(|p| p.parse().ok()).unwrap_or_else(|| panic!("{address} has no port"))
}
