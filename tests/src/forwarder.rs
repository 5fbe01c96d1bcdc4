//! A way to a server that a test can cut, silence and listen to.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    /// Connections end, and new ones end at once.
    Cut,
    /// Nothing passes, and nobody is told.
    Silent,
}

/// Forwards to a server on this machine.
#[derive(Debug)]
pub struct Forwarder {
    port: u16,
    way: watch::Sender<Way>,
    /// Counts the times that what was open was lost.
    lost: watch::Sender<u32>,
    heard: Arc<Mutex<Heard>>,
    task: JoinHandle<()>,
}

/// Bytes of all connections, each direction by itself.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    pub from_server: Vec<u8>,
    pub from_client: Vec<u8>,
}

impl Forwarder {
    pub async fn to(server: u16) -> Forwarder {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (way, seen) = watch::channel(Way::Open);
        let (lost, losses) = watch::channel(0);
        let heard = Arc::new(Mutex::new(Heard::default()));
        let task = tokio::spawn(listen(listener, server, seen, losses, Arc::clone(&heard)));
        Forwarder { port, way, lost, heard, task }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn cut(&self) {
        self.way.send_replace(Way::Cut);
    }

    pub fn silence(&self) {
        self.way.send_replace(Way::Silent);
    }

    pub fn open(&self) {
        self.way.send_replace(Way::Open);
    }

    /// What is open passes nothing any more, for good, and neither end is told; new connections are made.
    pub fn lose(&self) {
        self.lost.send_modify(|count| *count += 1);
    }

    /// What passed since it was asked last.
    pub fn heard(&self) -> Heard {
        std::mem::take(&mut *self.heard.lock().expect("one thread at a time"))
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(listener: TcpListener, server: u16, mut way: watch::Receiver<Way>, lost: watch::Receiver<u32>, heard: Arc<Mutex<Heard>>) {
    loop {
        let (client, _) = listener.accept().await.expect("a connection");
        let now = *way.borrow_and_update();
        if now == Way::Cut {
            continue;
        }
        tokio::spawn(forward(client, server, way.clone(), lost.clone(), Arc::clone(&heard)));
    }
}

async fn forward(
    mut client: TcpStream,
    server: u16,
    mut way: watch::Receiver<Way>,
    mut lost: watch::Receiver<u32>,
    heard: Arc<Mutex<Heard>>,
) {
    lost.mark_unchanged();
    if way.wait_for(|way| *way != Way::Silent).await.is_err() {
        return;
    }
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    let (mut from_client, mut from_server) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        let now = *way.borrow_and_update();
        tokio::select! {
            biased;
            changed = lost.changed() => {
                if changed.is_ok() {
                    // Both sockets stay open until the test ends.
                    while way.changed().await.is_ok() {}
                }
                return;
            }
            changed = way.changed() => {
                if changed.is_err() || *way.borrow() == Way::Cut {
                    return;
                }
            }
            read = client.read(&mut from_client), if now == Way::Open => {
                let Some(count) = read.ok().filter(|count| *count > 0) else { return };
                heard.lock().expect("one thread at a time").from_client.extend_from_slice(&from_client[..count]);
                if server.write_all(&from_client[..count]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut from_server), if now == Way::Open => {
                let Some(count) = read.ok().filter(|count| *count > 0) else { return };
                heard.lock().expect("one thread at a time").from_server.extend_from_slice(&from_server[..count]);
                if client.write_all(&from_server[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}
