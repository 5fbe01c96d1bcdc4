//! The end of a process: asked for by a signal, waited for by everything that runs.

use std::io;

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// Tells whether the process is to end. Clones see the same.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

/// Asks for the end. Dropping it asks for nothing.
#[derive(Debug, Clone)]
pub struct ShutdownHandle(watch::Sender<bool>);

impl Shutdown {
    pub fn new() -> (ShutdownHandle, Shutdown) {
        let (sender, receiver) = watch::channel(false);
        (ShutdownHandle(sender), Shutdown(receiver))
    }

    /// One that SIGTERM and SIGINT ask for. A second signal ends the process at once, which is safe at any moment.
    pub fn on_signals() -> io::Result<(ShutdownHandle, Shutdown)> {
        let (handle, shutdown) = Self::new();
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let asked = handle.clone();
        tokio::spawn(async move {
            for first in [true, false] {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                };
                if first {
                    tracing::info!(signal = name, "ending; once more ends at once");
                    asked.request();
                } else {
                    std::process::exit(1);
                }
            }
        });
        Ok((handle, shutdown))
    }

    pub fn requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when the end is asked for. Cancel safe.
    pub async fn wait(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|requested| *requested).await.is_err() {
            // Nobody is left who could ask.
            std::future::pending::<()>().await;
        }
    }
}

impl ShutdownHandle {
    pub fn request(&self) {
        self.0.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn those_who_wait_and_those_who_come_later_see_it() {
        let (handle, shutdown) = Shutdown::new();
        assert!(!shutdown.requested());
        let waiting = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { shutdown.wait().await }
        });
        handle.request();
        waiting.await.unwrap();
        assert!(shutdown.requested());
        shutdown.wait().await;
    }

    #[tokio::test]
    async fn a_handle_that_is_gone_asks_for_nothing() {
        let (handle, shutdown) = Shutdown::new();
        drop(handle);
        assert!(tokio::time::timeout(Duration::from_millis(20), shutdown.wait()).await.is_err());
        assert!(!shutdown.requested());
    }

    #[tokio::test]
    async fn a_signal_asks_for_the_end() {
        let (_handle, shutdown) = Shutdown::on_signals().unwrap();
        let killed = tokio::process::Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status().await.unwrap();
        assert!(killed.success());
        tokio::time::timeout(Duration::from_secs(10), shutdown.wait()).await.unwrap();
        assert!(shutdown.requested());
    }
}
