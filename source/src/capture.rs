//! The source loop, the same for every engine: reads the stream, publishes rows and events, copies tables, obeys commands.
//!
//! Every decision about order is `schemas::order::source`'s; what happens here is carried out from what is durable, so that the
//! process may end at any instruction and a new one goes on.

mod boundary;
mod chunk;
mod control;
mod copy;
mod metric;
mod record;
mod session;
mod setting;
mod shape;
mod start;
mod status;
#[cfg(test)]
mod tests;
mod turn;

use std::time::{Duration, Instant};

use metrics::{counter, gauge};
use runtime::config::OnStop;
pub use schemas::command::Command;
use schemas::event::{Offset, SourceState};
use tokio::sync::watch;

use self::{
    record::now_ms,
    session::{Tools, shutdown_asked},
};
pub use self::{
    setting::{CommitBounds, Settings},
    status::{CopyStatus, Reporter, SourceStatus, State},
};
use crate::{engine::Engine, error::CaptureError, publisher::Publisher};

/// How soon it is tried again what a person must make possible elsewhere.
const AGAIN: Duration = Duration::from_secs(5);

/// Why the loop ended without an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The process was asked to end; everything read is committed.
    Shutdown,
    /// `snapshot.mode: only`, and all tables are copied.
    Copied,
    /// A person must act (exit 3). Durable; a restart stands at the same place.
    Stopped { message: String },
}

/// Captures until the shutdown is set to true, a person must act (`on_stop: exit`), or an error that does not go away.
///
/// After a transient fault it connects again, with growing pauses, and goes on from the last committed progress.
pub async fn run<E: Engine, P: Publisher>(
    engine: &mut E,
    publisher: &mut P,
    settings: &Settings,
    reporter: &Reporter,
    shutdown: watch::Receiver<bool>,
) -> Result<Ended, CaptureError> {
    refuse_what_is_not_built(settings)?;
    let mut pause = settings.retry.initial;
    // The newest command that has led to another try.
    let mut tried = None;
    let mut told = String::new();
    loop {
        reporter.state(State::Starting, "");
        let before = reporter.reached();
        let mut tools = Tools { engine, publisher, settings, reporter, shutdown: shutdown.clone() };
        let mut ended = attempt(&mut tools).await.map(Some);
        if let Some((message, again)) = stop(&ended) {
            reporter.state(State::Stopped, &message);
            ended = stopped(&mut tools, message, &mut tried, again).await;
        }
        match ended {
            Ok(None) => {}
            Ok(Some(ended)) => {
                match &ended {
                    Ended::Stopped { message } => reporter.state(State::Stopped, message),
                    Ended::Shutdown | Ended::Copied => reporter.state(State::Down, ""),
                }
                return Ok(ended);
            }
            Err(CaptureError::Transient(reason)) => {
                if reporter.reached() != before {
                    pause = settings.retry.initial;
                    told.clear();
                }
                tracing::warn!(reason, seconds = pause.as_secs_f64(), "transient fault: the source connects again");
                counter!(metric::RETRIES).increment(1);
                reporter.state(State::Retrying, &reason);
                if pause > settings.retry.initial && told != reason {
                    tell_retrying(&mut tools, &reason).await;
                    told = reason;
                }
                if wait(pause, &mut tools.shutdown).await {
                    reporter.state(State::Down, "");
                    return Ok(Ended::Shutdown);
                }
                pause = (pause * 2).min(settings.retry.max);
            }
            Err(CaptureError::Stop { message } | CaptureError::Blocked { message }) => {
                // That it stands cannot be made durable.
                reporter.state(State::Stopped, &message);
                match settings.on_stop {
                    OnStop::Exit => return Ok(Ended::Stopped { message }),
                    OnStop::Wait => {
                        if wait(AGAIN, &mut tools.shutdown).await {
                            return Ok(Ended::Shutdown);
                        }
                    }
                }
            }
            Err(e @ (CaptureError::Refused(_) | CaptureError::Fenced(_) | CaptureError::Transport(_))) => {
                reporter.state(State::Down, &e.to_string());
                return Err(e);
            }
        }
    }
}

/// What a person must do, and how soon it is tried again by itself.
fn stop(ended: &Result<Option<Ended>, CaptureError>) -> Option<(String, Option<Duration>)> {
    match ended {
        Err(CaptureError::Stop { message }) => Some((message.clone(), None)),
        Err(CaptureError::Blocked { message }) => Some((message.clone(), Some(AGAIN))),
        Err(CaptureError::Transient(_) | CaptureError::Refused(_) | CaptureError::Fenced(_) | CaptureError::Transport(_)) | Ok(_) => None,
    }
}

async fn attempt<E: Engine, P: Publisher>(tools: &mut Tools<'_, E, P>) -> Result<Ended, CaptureError> {
    let again = Tools {
        engine: &mut *tools.engine,
        publisher: &mut *tools.publisher,
        settings: tools.settings,
        reporter: tools.reporter,
        shutdown: tools.shutdown.clone(),
    };
    let mut stop = tools.shutdown.clone();
    let session = tokio::select! {
        session = start::open(again) => session?,
        () = shutdown_asked(&mut stop) => return Ok(Ended::Shutdown),
    };
    session.run().await
}

/// A fault that lasts is told to those who look from outside, if it does not hinder that too.
async fn tell_retrying<E: Engine, P: Publisher>(tools: &mut Tools<'_, E, P>, reason: &str) {
    let written = async {
        let Some(mut progress) = tools.publisher.start().await? else { return Ok(()) };
        if matches!(progress.state, SourceState::Running | SourceState::Retrying) {
            progress.state = SourceState::Retrying;
            reason.clone_into(&mut progress.message);
            progress.ts_ms = now_ms();
            progress.due_ms = now_ms().saturating_add(tools.settings.pulse_ms());
            tools.publisher.commit(&progress).await?;
        }
        Ok::<(), CaptureError>(())
    };
    if let Err(error) = written.await {
        tracing::debug!(%error, "the fault could not be told in the topics");
    }
}

/// The source cannot go on. Makes that durable; then the end, or waits for a command that has not been tried, or until `again`.
async fn stopped<E: Engine, P: Publisher>(
    tools: &mut Tools<'_, E, P>,
    message: String,
    tried: &mut Option<Offset>,
    again: Option<Duration>,
) -> Result<Option<Ended>, CaptureError> {
    tracing::error!(reason = message, "the source stands");
    let Some(mut progress) = tools.publisher.start().await? else {
        // A new pipeline: there is nothing yet to make it durable in.
        return match (tools.settings.on_stop, again) {
            (OnStop::Wait, Some(pause)) => Ok(wait(pause, &mut tools.shutdown).await.then_some(Ended::Shutdown)),
            (OnStop::Wait, None) | (OnStop::Exit, _) => Ok(Some(Ended::Stopped { message })),
        };
    };
    progress.state = SourceState::Stopped;
    progress.message.clone_from(&message);
    progress.ts_ms = now_ms();
    tools.publisher.commit(&progress).await?;
    tools.reporter.committed(&progress);
    gauge!(metric::STOPPED).set(1.0);
    match tools.settings.on_stop {
        OnStop::Exit => Ok(Some(Ended::Stopped { message })),
        OnStop::Wait => {
            let since = Instant::now();
            loop {
                if wait(tools.settings.poll, &mut tools.shutdown).await {
                    return Ok(Some(Ended::Shutdown));
                }
                let newest = tools.publisher.commands(progress.command).await?.last().map(|(offset, _)| *offset);
                if newest > *tried {
                    *tried = newest;
                    return Ok(None);
                }
                if again.is_some_and(|pause| since.elapsed() >= pause) {
                    return Ok(None);
                }
            }
        }
    }
}

/// Waits, or less where the process is to end; whether it is.
async fn wait(pause: Duration, shutdown: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        () = tokio::time::sleep(pause) => false,
        () = shutdown_asked(shutdown) => true,
    }
}

fn refuse_what_is_not_built(settings: &Settings) -> Result<(), CaptureError> {
    let unbuilt = |table: &runtime::config::CapturedTable| {
        let keys = [
            ("columns", !table.columns.is_empty()),
            ("exclude_columns", !table.exclude_columns.is_empty()),
            ("key", !table.key.is_empty()),
            ("filter", table.filter.is_some()),
        ];
        keys.into_iter().find_map(|(key, set)| set.then_some(key))
    };
    match settings.tables.iter().find_map(|t| unbuilt(t).map(|key| (key, t))) {
        None => Ok(()),
        Some((key, table)) => Err(CaptureError::Refused(format!(
            "source.tables: `{key}` of {} is not supported yet: name the table alone and leave columns out at the sink",
            table.table
        ))),
    }
}
