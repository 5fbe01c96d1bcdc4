//! How commands reach a running process: a socket in the local log's directory, a line of JSON each way.
//!
//! The process that has the directory's lock serves it; where nobody does, a command opens the log itself ([`reach`]). Only the user
//! whom the process belongs to can connect.

use std::{
    fs::{self, File, Permissions},
    future::Future,
    io,
    os::{fd::AsRawFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    task::{JoinHandle, JoinSet},
};

use crate::log::{Log, LogError, LogOptions};

const SOCKET: &str = "control.sock";
/// Longest request, in bytes.
const LONGEST: u64 = 1 << 20;
/// How long a command waits for a process that has the lock but does not answer yet.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest path that a socket's address can hold, with room to spare.
const ADDRESS: usize = 100;

/// One command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub command: String,
    #[serde(default)]
    pub arguments: Value,
}

impl Request {
    pub fn new(command: impl Into<String>, arguments: Value) -> Self {
        Self { command: command.into(), arguments }
    }
}

/// A command that was refused or failed: what to print, and the exit code to end with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{message}")]
pub struct Refusal {
    pub message: String,
    pub code: u8,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Ok(Value),
    Refused(Refusal),
}

#[derive(Debug, Error)]
pub enum ControlError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The process ended, or the connection broke: what became of the command is not known.
    #[error("{0}")]
    Lost(String),
    #[error(transparent)]
    Log(#[from] LogError),
}

/// What carries out commands in a running process. Requests of several connections come at the same time; a command whose caller
/// has gone is dropped at its next await.
pub trait Handler: Send + Sync + 'static {
    fn handle(&self, request: Request) -> impl Future<Output = Result<Value, Refusal>> + Send;
}

impl<F, A> Handler for F
where
    F: Fn(Request) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Value, Refusal>> + Send,
{
    fn handle(&self, request: Request) -> impl Future<Output = Result<Value, Refusal>> + Send {
        self(request)
    }
}

/// Serves until it is dropped.
#[derive(Debug)]
pub struct Server {
    accepting: JoinHandle<()>,
    path: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
        let _ = fs::remove_file(&self.path);
    }
}

/// Serves commands beside a log that this process has. A socket that a killed process left is removed: the lock is ours.
pub fn serve(log: &Log, handler: impl Handler) -> io::Result<Server> {
    let path = log.directory().join(SOCKET);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let address = Address::of(log.directory())?;
    let listener = UnixListener::bind(&address.path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    let handler = Arc::new(handler);
    let accepting = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let handler = handler.clone();
                    connections.spawn(async move {
                        if let Err(error) = converse(stream, &*handler).await {
                            tracing::debug!(%error, "a command's connection broke");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a command could not connect");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    });
    Ok(Server { accepting, path })
}

/// Answers the requests of one connection, in order.
async fn converse(stream: UnixStream, handler: &impl Handler) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let mut line = Vec::new();
        (&mut read).take(LONGEST).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Ok(());
        }
        let answer = match serde_json::from_slice(&line) {
            Ok(request) => tokio::select! {
                answered = handler.handle(request) => answered.map_or_else(Answer::Refused, Answer::Ok),
                gone = read.fill_buf() => match gone {
                    // The caller has gone: nobody waits for the answer.
                    Ok([]) | Err(_) => return Ok(()),
                    Ok(_) => Answer::Refused(Refusal { message: "a command was sent before the last one was answered".into(), code: 2 }),
                },
            },
            Err(error) => Answer::Refused(Refusal { message: format!("not a command: {error}"), code: 2 }),
        };
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        write.write_all(&text).await?;
    }
}

/// A connection to the process that has the log.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    directory: PathBuf,
}

impl Client {
    /// None where no process serves this directory.
    pub async fn connect(directory: &Path) -> Option<Client> {
        let address = Address::of(directory).ok()?;
        let stream = UnixStream::connect(&address.path).await.ok()?;
        Some(Client { stream: BufReader::new(stream), directory: directory.to_owned() })
    }

    /// Has a command carried out; waits as long as it takes.
    pub async fn call(&mut self, request: &Request) -> Result<Value, ControlError> {
        let lost = |why: String| {
            let place = self.directory.display();
            ControlError::Lost(format!("{place}: the process that runs here was lost during {}: {why}", request.command))
        };
        let mut text = serde_json::to_vec(request).map_err(|e| lost(e.to_string()))?;
        text.push(b'\n');
        let answered = async {
            self.stream.get_mut().write_all(&text).await?;
            let mut line = Vec::new();
            self.stream.read_until(b'\n', &mut line).await?;
            io::Result::Ok(line)
        };
        let line = answered.await.map_err(|e| lost(e.to_string()))?;
        if !line.ends_with(b"\n") {
            return Err(lost("it ended".into()));
        }
        match serde_json::from_slice(&line).map_err(|e| lost(e.to_string()))? {
            Answer::Ok(value) => Ok(value),
            Answer::Refused(refusal) => Err(refusal.into()),
        }
    }
}

/// What a command wants the log for, where no process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    /// Takes the lock, for as long as the log is open.
    Write(LogOptions),
}

/// Who carries out a command.
#[derive(Debug)]
pub enum Reached {
    /// The process that runs.
    Process(Client),
    /// The command itself.
    Log(Log),
}

/// Finds the process that runs on this directory, or opens the log where none does.
///
/// # Errors
///
/// `Absent` where a reading command finds no log; `Locked` where a process has it for 5 s without serving commands.
pub async fn reach(directory: &Path, access: Access) -> Result<Reached, LogError> {
    let begun = Instant::now();
    loop {
        if let Some(client) = Client::connect(directory).await {
            return Ok(Reached::Process(client));
        }
        let path = directory.to_owned();
        let opened = tokio::task::spawn_blocking(move || match access {
            Access::Read => Log::read(path),
            Access::Write(options) => Log::open_at_once(path, options),
        });
        match opened.await {
            Ok(Ok(log)) => return Ok(Reached::Log(log)),
            // It begins or ends just now.
            Ok(Err(LogError::Locked(_))) if begun.elapsed() < PATIENCE => tokio::time::sleep(Duration::from_millis(20)).await,
            Ok(Err(error)) => return Err(error),
            Err(panic) => return Err(LogError::Broken(format!("{}: opening the local log: {panic}", directory.display()))),
        }
    }
}

/// The socket's path, by a shorter way where it is longer than an address can be.
struct Address {
    path: PathBuf,
    _directory: Option<File>,
}

impl Address {
    fn of(directory: &Path) -> io::Result<Self> {
        let path = directory.join(SOCKET);
        if path.as_os_str().len() <= ADDRESS {
            return Ok(Self { path, _directory: None });
        }
        let directory = File::open(directory)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()));
        Ok(Self { path, _directory: Some(directory) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("instar-control-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    async fn answer(request: Request) -> Result<Value, Refusal> {
        match request.command.as_str() {
            "echo" => Ok(request.arguments),
            other => Err(Refusal { message: format!("no such command: {other}"), code: 2 }),
        }
    }

    async fn client(directory: &Path) -> Client {
        match reach(directory, Access::Read).await.unwrap() {
            Reached::Process(client) => client,
            Reached::Log(_) => panic!("nobody serves"),
        }
    }

    #[tokio::test]
    async fn a_command_is_answered_or_refused_with_its_exit_code() {
        for name in ["short".to_owned(), "long".repeat(40)] {
            let directory = Directory::new(&name);
            let log = Log::open(&directory.0, LogOptions::default()).unwrap();
            let server = serve(&log, answer).unwrap();
            let mut caller = client(&directory.0).await;
            for i in 0..3 {
                let arguments = json!({ "table": "a\nb", "i": i });
                assert_eq!(caller.call(&Request::new("echo", arguments.clone())).await.unwrap(), arguments);
            }
            let refused = caller.call(&Request::new("dance", Value::Null)).await.unwrap_err();
            assert!(matches!(&refused, ControlError::Refused(r) if r.code == 2), "{refused:?}");
            assert_eq!(refused.to_string(), "no such command: dance");
            let mode = fs::metadata(directory.0.join(SOCKET)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            drop(server);
            assert!(!directory.0.join(SOCKET).exists());
            assert!(Client::connect(&directory.0).await.is_none());
        }
    }

    #[tokio::test]
    async fn a_command_that_is_under_way_does_not_keep_others_waiting_and_ends_with_its_caller() {
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let directory = Directory::new("concurrent");
        let log = Log::open(&directory.0, LogOptions::default()).unwrap();
        let under_way = Arc::new(AtomicUsize::new(0));
        let counter = under_way.clone();
        let _server = serve(&log, move |request: Request| {
            let counter = counter.clone();
            async move {
                if request.command == "wait" {
                    counter.fetch_add(1, Ordering::SeqCst);
                    let _counted = Counted(counter);
                    std::future::pending::<()>().await;
                }
                Ok(Value::from(1))
            }
        })
        .unwrap();
        let mut waiting = client(&directory.0).await;
        let waiting = tokio::spawn(async move { waiting.call(&Request::new("wait", Value::Null)).await });
        until(|| under_way.load(Ordering::SeqCst) == 1).await;
        assert_eq!(client(&directory.0).await.call(&Request::new("other", Value::Null)).await.unwrap(), 1);
        waiting.abort();
        until(|| under_way.load(Ordering::SeqCst) == 0).await;
    }

    async fn until(condition: impl Fn() -> bool) {
        let waited = async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), waited).await.unwrap();
    }

    #[tokio::test]
    async fn a_caller_is_told_when_the_process_ends() {
        let directory = Directory::new("lost");
        let log = Log::open(&directory.0, LogOptions::default()).unwrap();
        let server = serve(&log, |_: Request| std::future::pending::<Result<Value, Refusal>>()).unwrap();
        let mut caller = client(&directory.0).await;
        let request = Request::new("wait", Value::Null);
        let (answer, ()) = tokio::join!(caller.call(&request), async { drop(server) });
        let lost = answer.unwrap_err();
        assert!(matches!(lost, ControlError::Lost(_)), "{lost:?}");
        assert!(lost.to_string().contains("the process that runs here was lost during wait"), "{lost}");
    }

    #[tokio::test]
    async fn without_a_process_the_command_opens_the_log_and_a_stale_socket_is_no_process() {
        let directory = Directory::new("stale");
        let absent = reach(&directory.0, Access::Read).await.unwrap_err();
        assert!(matches!(absent, LogError::Absent(_)), "{absent}");
        fs::create_dir_all(&directory.0).unwrap();
        drop(UnixListener::bind(directory.0.join(SOCKET)).unwrap());
        assert!(matches!(reach(&directory.0, Access::Write(LogOptions::default())).await.unwrap(), Reached::Log(_)));
        assert!(matches!(reach(&directory.0, Access::Read).await.unwrap(), Reached::Log(_)));
        let log = Log::open(&directory.0, LogOptions::default()).unwrap();
        let _server = serve(&log, answer).unwrap();
        assert_eq!(client(&directory.0).await.call(&Request::new("echo", json!(7))).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_command_waits_for_a_process_that_is_just_beginning() {
        let directory = Directory::new("beginning");
        let log = Log::open(&directory.0, LogOptions::default()).unwrap();
        let (reached, server) = tokio::join!(client(&directory.0), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            serve(&log, answer).unwrap()
        });
        let mut reached = reached;
        assert_eq!(reached.call(&Request::new("echo", json!("x"))).await.unwrap(), "x");
        drop(server);
    }
}
