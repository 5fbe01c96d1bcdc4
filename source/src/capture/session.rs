//! One run from connection to end: owns the stream and the progress, and says in which order things are done.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use metrics::{gauge, histogram};
use runtime::config::{OnStop, SnapshotMode};
use schemas::{
    event::{Progress, SourceState},
    order::source::Source,
    table::TableId,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    AGAIN, Ended,
    copy::Copier,
    metric,
    record::{Batch, now_ms},
    setting::Settings,
    shape::Shapes,
    status::{CopyStatus, Reporter},
};
use crate::{
    engine::{Engine, Statement},
    error::CaptureError,
    publisher::Publisher,
};

/// What a session works with; outlives it.
pub(super) struct Tools<'a, E: Engine, P: Publisher> {
    pub engine: &'a mut E,
    pub publisher: &'a mut P,
    pub settings: &'a Settings,
    pub reporter: &'a Reporter,
    pub shutdown: watch::Receiver<bool>,
}

/// Returns when the process is asked to end; a sender that is gone asks for nothing.
pub(super) async fn shutdown_asked(shutdown: &mut watch::Receiver<bool>) {
    if shutdown.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Where the source stands and why.
#[derive(Debug)]
pub(super) struct Standing<P> {
    /// Those that still need a way out.
    pub tables: BTreeSet<TableId>,
    pub message: String,
    pub at: Stop<P>,
}

#[derive(Debug)]
pub(super) enum Stop<P> {
    /// The stream gives nothing more until it is told to skip or pass over the statement at this position.
    Statement { position: P, ddl: Option<String> },
    /// The stream has given this statement, but the configuration stops at it.
    Refused(Statement<P>),
    /// A row of a group cannot be read; the group goes on without its table when a reload is asked for.
    Row,
    /// A row is larger than its topic takes; it is read again when the topic takes it, or passed over as above.
    Large { table: TableId, size: usize, next_look: Instant },
}

/// A statement that was accepted as without effect: recorded when the stream has passed it.
#[derive(Debug)]
pub(super) struct Accepted {
    pub ddl: Option<String>,
    pub tables: Vec<TableId>,
    pub by: Option<String>,
}

/// Copies that are not complete.
pub(super) type Copies = BTreeMap<TableId, CopyStatus>;

/// The loop's state between a connection and its end.
pub(super) struct Session<'a, E: Engine, P: Publisher> {
    pub tools: Tools<'a, E, P>,
    pub source: Source<E::Position>,
    pub shapes: Shapes,
    pub stream: E::Stream,
    pub copier: Copier<E>,
    pub standing: Option<Standing<E::Position>>,
    /// It stood when it ended last, and the stream has not come there again: commands wait, for what they mean depends on it.
    pub stood: bool,
    pub accepted: Option<Accepted>,
    /// Tables whose rows are passed over until the open group ends: they cannot be read, or are being taken out.
    pub dropped: BTreeSet<TableId>,
    /// Nothing may become durable until the position moves: a command is taken that only holds behind it.
    pub withheld: bool,
    /// Tables that the configuration takes out or adds, at the next end of a group.
    pub leaving: Vec<TableId>,
    pub joining: Vec<TableId>,
    /// Tables whose copy has to begin anew at the next end of a group.
    pub renewed: BTreeSet<TableId>,
    /// Rows of the open group that were published before a restart and are passed over.
    pub resumed: u64,
    pub in_group: bool,
    pub batch: Batch,
    /// What was handed over to be committed while the stream is read on.
    pub under_way: Option<(Progress, Copies)>,
    /// Progress has changed since the last commit.
    pub dirty: bool,
    pub first_pending: Option<Instant>,
    pub last_commit: Instant,
    pub next_poll: Instant,
}

impl<E: Engine, P: Publisher> Session<'_, E, P> {
    /// Works until something ends it.
    pub async fn run(mut self) -> Result<Ended, CaptureError> {
        loop {
            if self.stopping() {
                self.source.set_pulse(0);
                self.commit().await?;
                return Ok(Ended::Shutdown);
            }
            if !self.in_group {
                if let Some(ended) = self.between_groups().await? {
                    return Ok(ended);
                }
                if self.source.state().state == SourceState::Paused {
                    self.rest().await?;
                    continue;
                }
            }
            if self.standing.is_some() {
                if let Some(ended) = self.stand().await? {
                    return Ok(ended);
                }
                continue;
            }
            self.turn().await?;
        }
    }

    /// All that may only happen where no group is open: configuration, commands, events that are due, the copy.
    async fn between_groups(&mut self) -> Result<Option<Ended>, CaptureError> {
        self.take_configuration().await?;
        self.take_commands().await?;
        self.dropped.clear();
        self.withheld = self.accepted.is_some();
        if self.withheld || self.source.state().state == SourceState::Paused {
            return Ok(None);
        }
        self.publish_due().await?;
        self.renew_copies().await?;
        self.copy().await?;
        let copied = self.tools.settings.snapshot.mode == SnapshotMode::Only && !self.has_copies();
        if copied {
            self.commit().await?;
        }
        Ok(copied.then_some(Ended::Copied))
    }

    fn has_copies(&self) -> bool {
        self.source.state().tables.values().any(|t| !t.retired && (t.copy.is_some() || t.begin.is_some()))
    }

    /// Waits for a command where the source stands, or ends.
    async fn stand(&mut self) -> Result<Option<Ended>, CaptureError> {
        if self.in_group && self.look_for_reload().await? {
            return Ok(None);
        }
        self.look_for_room().await?;
        let Some(standing) = &self.standing else { return Ok(None) };
        match self.tools.settings.on_stop {
            OnStop::Exit => Ok(Some(Ended::Stopped { message: standing.message.clone() })),
            OnStop::Wait => {
                self.rest().await?;
                Ok(None)
            }
        }
    }

    /// Where it stands at a row that is larger than its topic takes: whether that has changed. The row is then read again.
    async fn look_for_room(&mut self) -> Result<(), CaptureError> {
        let Some(Standing { at: Stop::Large { table, size, next_look }, .. }) = &mut self.standing else { return Ok(()) };
        if Instant::now() < *next_look {
            return Ok(());
        }
        *next_look = Instant::now() + AGAIN;
        let Some(captured) = self.shapes.get(table) else { return Ok(()) };
        let live = self.tools.publisher.topic(&captured.topic_name, Some(captured.lanes)).await?;
        if self.tools.publisher.largest(live.handle) < *size {
            return Ok(());
        }
        Err(CaptureError::Transient(format!("topic {} takes a record of {size} bytes now", captured.topic_name)))
    }

    /// Commits what there is and waits until commands are looked for again.
    async fn rest(&mut self) -> Result<(), CaptureError> {
        if self.dirty || self.tools.publisher.pending().0 > 0 || self.heartbeat_is_due() {
            self.commit().await?;
        }
        self.settle().await?;
        tokio::select! {
            () = sleep_until(self.next_poll) => {}
            () = shutdown_asked(&mut self.tools.shutdown) => {}
        }
        Ok(())
    }

    pub fn stopping(&self) -> bool {
        *self.tools.shutdown.borrow()
    }

    /// Makes everything published so far durable, with the progress that speaks of it.
    pub async fn commit(&mut self) -> Result<(), CaptureError> {
        if self.withheld {
            return Ok(());
        }
        let progress = self.source.progress(now_ms());
        let started = Instant::now();
        self.tools.publisher.commit(&progress).await?;
        histogram!(metric::COMMIT_SECONDS).record(started.elapsed().as_secs_f64());
        self.committed();
        Ok(())
    }

    /// Hands everything published so far over to be made durable with its progress; the next is read meanwhile.
    pub async fn commit_soon(&mut self) -> Result<(), CaptureError> {
        if self.withheld {
            return Ok(());
        }
        let progress = self.source.progress(now_ms());
        let started = Instant::now();
        self.tools.publisher.commit_soon(&progress).await?;
        histogram!(metric::COMMIT_SECONDS).record(started.elapsed().as_secs_f64());
        if let Some((older, copies)) = self.under_way.replace((progress, self.copies())) {
            self.durable(&older, copies);
        }
        self.handed_over();
        Ok(())
    }

    /// Waits until what was handed over is durable.
    pub async fn settle(&mut self) -> Result<(), CaptureError> {
        if let Some((progress, copies)) = self.under_way.take() {
            self.tools.publisher.settle().await?;
            self.durable(&progress, copies);
        }
        Ok(())
    }

    /// Bookkeeping behind a commit.
    pub fn committed(&mut self) {
        self.under_way = None;
        self.handed_over();
        self.durable(self.source.state(), self.copies());
    }

    fn copies(&self) -> Copies {
        self.source.copying().map(|(id, copy)| (id.clone(), CopyStatus::of(copy))).collect()
    }

    fn handed_over(&mut self) {
        self.dirty = false;
        self.first_pending = None;
        self.last_commit = Instant::now();
    }

    /// Tells how far everything is durable.
    fn durable<T: std::fmt::Display>(&self, progress: &Progress<T>, copies: Copies) {
        if progress.commit_ts_ms > 0 {
            let lag = Duration::from_millis(u64::try_from(now_ms() - progress.commit_ts_ms).unwrap_or(0));
            gauge!(metric::LAG_SECONDS).set(lag.as_secs_f64());
        }
        gauge!(metric::STOPPED).set(f64::from(u8::from(progress.state == SourceState::Stopped)));
        self.tools.reporter.copies(copies);
        self.tools.reporter.committed(progress);
    }

    /// Whether the open transaction has reached one of its bounds.
    pub fn full(&self) -> bool {
        let bounds = self.tools.settings.commit;
        let (rows, bytes) = self.tools.publisher.pending();
        rows >= bounds.rows || bytes >= bounds.bytes || self.first_pending.is_some_and(|first| first.elapsed() >= bounds.age)
    }

    pub fn heartbeat_is_due(&self) -> bool {
        self.last_commit.elapsed() >= self.tools.settings.heartbeat
    }

    /// Notes that rows or progress wait for a commit.
    pub fn touched(&mut self) {
        self.dirty = true;
        if self.first_pending.is_none() && self.tools.publisher.pending().0 > 0 {
            self.first_pending = Some(Instant::now());
        }
    }
}
