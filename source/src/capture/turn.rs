//! The stream's turn: entries of the log in their order, committed as demand asks for.

use std::{collections::BTreeSet, time::Duration};

use futures_util::FutureExt;
use metrics::counter;
use schemas::{
    change::SchemaChange,
    event::SourceState,
    order::source::{Changed, Rows},
    table::TableId,
};
use tokio::time::{Instant, sleep_until};

use super::{
    metric,
    record::{Cursor, Origin},
    session::{Session, Standing, Stop, shutdown_asked},
};
use crate::{
    engine::{Engine, Entry, Position, Statement, Stream},
    error::CaptureError,
    publisher::Publisher,
};

/// With a copy under way, how long a stream that gives nothing keeps the copy from its next slice.
const QUIET: Duration = Duration::from_millis(20);

type EntryOf<E> = Entry<<E as Engine>::Position, <<E as Engine>::Stream as Stream>::Rows>;

/// The rows of one entry.
struct Part<R> {
    table: TableId,
    rows: R,
    position: String,
    transaction: Option<String>,
    ts_ms: i64,
}

/// When a turn ends in favour of a copy: where the log's end was, or after this long.
struct Until<P> {
    end: P,
    at: Instant,
}

impl<E: Engine, P: Publisher> Session<'_, E, P> {
    /// Reads the stream until something else has to be done: at the end of a group only, except for a stand or the shutdown.
    pub async fn turn(&mut self) -> Result<(), CaptureError> {
        let until = if self.copy_waits() {
            let (end, _) = self.tools.engine.end().await?;
            Some(Until { end, at: Instant::now() + self.tools.settings.snapshot.slice })
        } else {
            None
        };
        loop {
            if !self.in_group && self.turn_is_over(until.as_ref()) {
                return Ok(());
            }
            let Some(entry) = self.next_entry(until.is_some()).await? else {
                if self.in_group && !self.stopping() {
                    continue;
                }
                return Ok(());
            };
            self.take_entry(entry).await?;
            if self.standing.is_some() || self.stopping() {
                return Ok(());
            }
            if self.full() {
                self.commit_soon().await?;
            }
        }
    }

    fn turn_is_over(&self, until: Option<&Until<E::Position>>) -> bool {
        let copy_is_next = until.is_some_and(|u| self.source.position().reached(&u.end) || Instant::now() >= u.at);
        let configuration = !self.dropped.is_empty() || !self.leaving.is_empty() || !self.joining.is_empty();
        copy_is_next || configuration || !self.source.may_read() || !self.renewed.is_empty() || Instant::now() >= self.next_poll
    }

    /// The next entry; None: nothing came in time, what was due is committed.
    async fn next_entry(&mut self, copy_waits: bool) -> Result<Option<EntryOf<E>>, CaptureError> {
        // What came already may be no whole entry yet: then the shutdown and commands are not kept waiting.
        if self.stream.has_next()
            && let Some(entry) = self.stream.next().now_or_never()
        {
            return self.or_commit(entry).await;
        }
        if self.tools.publisher.pending().0 > 0 && !self.in_group {
            self.commit().await?;
        }
        self.settle().await?;
        let wake = self.wake(copy_waits);
        let entry = tokio::select! {
            biased;
            entry = self.stream.next() => Some(entry),
            () = shutdown_asked(&mut self.tools.shutdown) => None,
            () = sleep_until(wake) => None,
        };
        if let Some(entry) = entry {
            return self.or_commit(entry).await;
        }
        let idle = self.dirty && self.last_commit.elapsed() >= self.tools.settings.commit.idle;
        if self.full() || idle || self.heartbeat_is_due() && !self.in_group {
            self.commit().await?;
        }
        Ok(None)
    }

    /// What came before an entry that cannot be read is made durable.
    async fn or_commit(&mut self, entry: Result<EntryOf<E>, CaptureError>) -> Result<Option<EntryOf<E>>, CaptureError> {
        if matches!(entry, Err(CaptureError::Stop { .. })) {
            self.commit().await?;
        }
        entry.map(Some)
    }

    /// When waiting for the stream ends without an entry.
    fn wake(&self, copy_waits: bool) -> Instant {
        let bounds = self.tools.settings.commit;
        let mut wake = self.next_poll;
        if let Some(first) = self.first_pending {
            wake = wake.min(first + bounds.age);
        }
        wake = wake.min(self.last_commit + if self.dirty { bounds.idle } else { self.tools.settings.heartbeat });
        if copy_waits {
            wake = wake.min(Instant::now() + QUIET);
        }
        // Never in the past for long: a withheld commit must not make the loop spin.
        wake.max(Instant::now() + Duration::from_millis(1))
    }

    async fn take_entry(&mut self, entry: EntryOf<E>) -> Result<(), CaptureError> {
        match entry {
            Entry::Rows { table, rows, position, transaction, ts_ms } => {
                self.publish_rows(Part { table, rows, position, transaction, ts_ms }).await
            }
            Entry::Commit { position, ts_ms } => {
                counter!(metric::TRANSACTIONS).increment(1);
                self.move_to(position, ts_ms).await
            }
            Entry::Idle { position, ts_ms } => self.move_to(position, ts_ms).await,
            Entry::Statement(statement) => self.take_statement(statement).await,
            Entry::Stand { position, ddl, tables, message } => {
                let at = Stop::Statement { position, ddl };
                self.stand_at(Standing { tables: tables.into_iter().collect(), message, at }).await
            }
        }
    }

    /// The stream can be restarted at this position.
    pub async fn move_to(&mut self, position: E::Position, ts_ms: i64) -> Result<(), CaptureError> {
        if self.stood {
            // Where it still had to stand, that would have come first.
            self.go_on();
        }
        if position == *self.source.position() && ts_ms <= self.source.state().commit_ts_ms && !self.in_group {
            return Ok(());
        }
        self.source.moved(position, ts_ms);
        self.in_group = false;
        self.resumed = 0;
        self.touched();
        if self.dropped.is_empty() {
            self.withheld = false;
        }
        self.record_accepted().await
    }

    async fn publish_rows(&mut self, part: Part<<E::Stream as Stream>::Rows>) -> Result<(), CaptureError> {
        if !self.in_group {
            self.begin_here(&part.table).await?;
            self.in_group = true;
        }
        let Some(captured) = self.shapes.get(&part.table).cloned() else {
            return Err(CaptureError::Transport(format!(
                "the stream gave rows of {} at {}, which is not captured there",
                part.table, part.position
            )));
        };
        let admitted = self.source.rows(&part.table);
        let dropped = self.dropped.contains(&part.table) || captured.lost;
        let Rows::Publish { epoch, copying, .. } = admitted else { return self.pass_over(part, &captured) };
        if dropped {
            return self.pass_over(part, &captured);
        }
        let origin = Origin {
            engine: E::NAME,
            namespace: E::NAMESPACE,
            position: &part.position,
            transaction: part.transaction.as_deref(),
            ts_ms: part.ts_ms,
            snapshot: false,
            copying,
            // Where the copy is for one sink, the row is for all, and the others have all of the table's rows.
            for_sink: self.source.copy_for(&part.table),
        };
        let mut writer = self.batch.writer(&captured, &origin);
        let read = self.stream.rows(part.rows, self.resumed, &captured.published, &mut writer);
        let partial = writer.partial && copying;
        let (whole, too_large) = (writer.whole, writer.too_large);
        let (rows, stop) = match (read, too_large) {
            (Ok(rows), _) => (rows, None),
            (Err(CaptureError::Blocked { message }), Some(size)) => {
                let at = Stop::Large { table: part.table.clone(), size, next_look: Instant::now() };
                (self.resumed + whole.rows, Some((message, at)))
            }
            (Err(CaptureError::Stop { message }), _) => (self.resumed + whole.rows, Some((message, Stop::Row))),
            (Err(e), _) => return Err(e),
        };
        if stop.is_some() {
            self.batch.keep(whole);
        }
        if partial {
            // The new row's missing columns are known to the table alone: it is read again.
            self.renewed.insert(part.table.clone());
        }
        let staged = self.batch.len();
        let (source, publisher) = (&mut self.source, &mut *self.tools.publisher);
        self.batch.publish(&captured, Cursor::default(), epoch, || source.next_seq(), publisher, |_| false)?;
        captured.rows.increment(staged as u64);
        self.count(rows);
        self.touched();
        match stop {
            None => Ok(()),
            Some((message, at)) => self.stand_at(Standing { tables: BTreeSet::from([part.table]), message, at }).await,
        }
    }

    /// Rows that are not published count all the same, so that a restart finds its place.
    fn pass_over(&mut self, part: Part<<E::Stream as Stream>::Rows>, captured: &super::shape::Captured) -> Result<(), CaptureError> {
        let origin = Origin {
            engine: E::NAME,
            namespace: E::NAMESPACE,
            position: &part.position,
            transaction: None,
            ts_ms: part.ts_ms,
            snapshot: false,
            copying: false,
            for_sink: None,
        };
        let rows = self.stream.rows(part.rows, u64::MAX, &captured.published, &mut self.batch.writer(captured, &origin))?;
        self.count(rows);
        self.dirty = true;
        Ok(())
    }

    fn count(&mut self, rows: u64) {
        let before_restart = rows.min(self.resumed);
        self.resumed -= before_restart;
        self.source.group_rows(rows - before_restart);
    }

    /// A table that begins at a pinned place gives its first row: the stream has passed that place, whatever it told before.
    async fn begin_here(&mut self, table: &TableId) -> Result<(), CaptureError> {
        let begins_at = self.source.table(table).and_then(|t| t.begin.as_ref()).map(|begin| begin.at.clone());
        let Some(at) = begins_at.filter(|at| !self.source.position().reached(at)) else { return Ok(()) };
        let ts_ms = self.source.state().commit_ts_ms;
        self.source.moved(at, ts_ms);
        self.publish_due().await
    }

    pub async fn take_statement(&mut self, statement: Statement<E::Position>) -> Result<(), CaptureError> {
        if let Some(message) = self.refusal(&statement) {
            let tables = statement.tables.iter().map(|t| t.id.clone()).filter(|t| self.is_live(t)).collect();
            return self.stand_at(Standing { tables, message, at: Stop::Refused(statement) }).await;
        }
        self.go_on();
        self.in_group = false;
        self.resumed = 0;
        let Statement { position, ts_ms, ddl, tables } = statement;
        let changed = tables
            .into_iter()
            .map(|t| Changed { epoch: t.changes.iter().any(SchemaChange::needs_epoch), shape: t.shape, changes: t.changes })
            .collect();
        match self.source.statement(position, ts_ms, &ddl, changed) {
            Some(draft) => self.publish_event(draft).await?,
            None => self.touched(),
        }
        self.withheld = false;
        self.record_accepted().await
    }

    pub fn is_live(&self, table: &TableId) -> bool {
        self.source.table(table).is_some_and(|t| !t.retired && t.begin.is_none())
    }

    /// Stands: what came before is made durable together with the reason.
    pub async fn stand_at(&mut self, standing: Standing<E::Position>) -> Result<(), CaptureError> {
        let tables = standing.tables.iter().map(TableId::to_string).collect::<Vec<_>>().join(", ");
        let position = match &standing.at {
            Stop::Statement { position, .. } => position.to_string(),
            Stop::Refused(statement) => format!("before {}", statement.position),
            Stop::Row | Stop::Large { .. } => format!("behind {}", self.source.position()),
        };
        let way_out = match &standing.at {
            Stop::Statement { ddl: Some(_), .. } | Stop::Refused(_) => {
                "; or say that the statement had no effect on the rows and the shape: `instar accept FILE`"
            }
            Stop::Statement { ddl: None, .. } | Stop::Row | Stop::Large { .. } => "",
        };
        let ddl = match &standing.at {
            Stop::Statement { ddl: Some(ddl), .. } => format!(", statement: {}", shortened(ddl)),
            Stop::Statement { ddl: None, .. } | Stop::Refused(_) | Stop::Row | Stop::Large { .. } => String::new(),
        };
        let message = format!(
            "{}: {} (table {tables}, position {position}{ddl}). Ways out: load the table anew: `instar reload FILE TABLE`; or take it out of \
             the configuration{way_out}",
            self.tools.settings.server, standing.message
        );
        tracing::error!(tables, position, reason = standing.message, "the source stands");
        self.source.set_state(SourceState::Stopped, message.clone());
        self.standing = Some(Standing { message, ..standing });
        self.stood = false;
        // A way out that is there already is taken at once.
        self.next_poll = Instant::now();
        self.tools.reporter.state(super::status::State::Stopped, &self.source.state().message);
        self.commit().await
    }
}

/// As much of a statement as a message takes; the event that ends the stand has it whole.
fn shortened(ddl: &str) -> String {
    match ddl.char_indices().nth(300) {
        Some((end, _)) => format!("{} …", &ddl[..end]),
        None => ddl.to_owned(),
    }
}
