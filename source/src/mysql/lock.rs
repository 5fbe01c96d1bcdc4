//! The lock that keeps a second source of the pipeline out: a named lock of the server, held by a connection of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mysql_async::{Conn, prelude::Queryable};
use tokio::task::JoinHandle;

use super::{
    config::Config,
    server::{Purpose, connect, failed},
};
use crate::error::CaptureError;

/// How often the connection is asked whether it still holds the lock.
const WATCH: Duration = Duration::from_secs(1);
/// A server that does not answer within this is gone, and the lock with it: another source may have it by then.
const ANSWER: Duration = Duration::from_secs(10);
/// In seconds: the server itself ends the session from which nothing came for so long, so that a lock whose connection was cut
/// unseen is free again.
const LEASE: u32 = 20;
/// In seconds: a process that was killed or has just ended keeps the lock until the server sees that its connection is gone.
const PATIENCE: u32 = 5;
/// The server refuses longer names.
const LONGEST: usize = 64;

/// A held lock. Dropping it gives it back.
#[derive(Debug)]
pub struct Lock {
    /// The server's number of the connection that holds it.
    holder: u32,
    lost: Arc<AtomicBool>,
    watch: JoinHandle<()>,
}

impl Lock {
    /// `before`: the connection that held it for this process, which was cut; the server may not know that yet.
    ///
    /// # Errors
    /// [`CaptureError::Fenced`] where another source holds it.
    pub async fn take(config: &Config, pipeline: &str, before: Option<u32>) -> Result<Self, CaptureError> {
        let mut conn = connect(config, Purpose::Catalog).await?;
        let name = name(pipeline);
        conn.query_drop(format!("SET SESSION wait_timeout = {LEASE}")).await.map_err(|error| failed(config, "taking the lock", &error))?;
        let sql = "SELECT GET_LOCK(?, ?)";
        let got: Option<Option<u8>> =
            conn.exec_first(sql, (&name, PATIENCE)).await.map_err(|error| failed(config, "taking the lock", &error))?;
        if got.flatten() != Some(1) {
            let holder: Option<Option<u32>> =
                conn.exec_first("SELECT IS_USED_LOCK(?)", (&name,)).await.map_err(|error| failed(config, "reading the lock", &error))?;
            let holder = holder.flatten();
            if before.is_some() && (holder.is_none() || holder == before) {
                return Err(CaptureError::Transient(format!(
                    "{}: the server still keeps this source's connection that was cut, and with it the pipeline's lock; it ends within {LEASE} s",
                    config.server()
                )));
            }
            let holder = holder.map_or_else(String::new, |id| format!(" (the server's connection {id})"));
            return Err(CaptureError::Fenced(format!(
                "{}: another source of pipeline {pipeline} is at work{holder}; stop it first",
                config.server()
            )));
        }
        let lost = Arc::new(AtomicBool::new(false));
        let holder = conn.id();
        let watch = tokio::spawn(watch(conn, name, Arc::clone(&lost)));
        Ok(Self { holder, lost, watch })
    }

    /// The server's number of the connection that holds it.
    pub fn holder(&self) -> u32 {
        self.holder
    }

    /// Set once the connection that held the lock is gone.
    pub fn lost(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.lost)
    }

    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

/// # Errors
/// [`CaptureError::Transient`] where the lock was lost: who starts again takes it anew, or learns that another source has it.
pub fn check(lost: &AtomicBool, config: &Config) -> Result<(), CaptureError> {
    if lost.load(Ordering::Acquire) {
        return Err(CaptureError::Transient(format!("{}: the connection that held this pipeline's lock is gone", config.server())));
    }
    Ok(())
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

fn name(pipeline: &str) -> String {
    let name = format!("instar:{pipeline}");
    if name.len() <= LONGEST {
        return name;
    }
    let checksum = crc32fast::hash(pipeline.as_bytes());
    let kept: String = name.chars().take(40).collect();
    format!("{kept}:{checksum:08x}")
}

async fn watch(mut conn: Conn, name: String, lost: Arc<AtomicBool>) {
    loop {
        tokio::time::sleep(WATCH).await;
        let asked = conn.exec_first::<Option<u8>, _, _>("SELECT IS_USED_LOCK(?) = CONNECTION_ID()", (&name,));
        if !matches!(tokio::time::timeout(ANSWER, asked).await, Ok(Ok(Some(Some(1))))) {
            lost.store(true, Ordering::Release);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_stay_apart_within_the_servers_limit() {
        let (a, b) = ("x".repeat(100) + "a", "x".repeat(100) + "b");
        assert!(name(&a).len() <= LONGEST);
        assert_ne!(name(&a), name(&b));
        assert_eq!(name("shop"), "instar:shop");
    }
}
