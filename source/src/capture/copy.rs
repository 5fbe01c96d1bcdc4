//! Copies: in slices, during which the stream stands, chunks of tables are read by key; a table without a key comes as one view.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use metrics::counter;
use schemas::{order::source::Rows, table::TableId};
use tokio::{
    sync::{Mutex, mpsc},
    task::JoinSet,
    time::Instant,
};

use super::{
    chunk::{News, Plan, ReadChunk, Size, Slice, work},
    metric,
    record::{Batch, Cursor, Origin, now_ms},
    session::{Session, shutdown_asked},
    shape::Captured,
};
use crate::{
    engine::{ChunkReader, Engine, Position},
    error::CaptureError,
    publisher::Publisher,
};

/// How long a copy waits that cannot read now, because the server does not show what the stream has seen, or shows another shape.
const PAUSE: Duration = Duration::from_millis(20);

/// Rows of a view read at a time.
const VIEW_ROWS: u64 = 2_000;

/// The connections that read tables, and what is learnt about the tables' rows.
pub(super) struct Copier<E: Engine> {
    idle: Vec<E::Reader>,
    /// Rows and bytes of each table's last chunk.
    last: HashMap<TableId, (u64, usize)>,
    /// The open view of a table without a key.
    view: Option<(TableId, E::Reader)>,
    /// The last try read nothing: the stream comes first, and no new try before this.
    not_before: Option<Instant>,
}

impl<E: Engine> Default for Copier<E> {
    fn default() -> Self {
        Self { idle: Vec::new(), last: HashMap::new(), view: None, not_before: None }
    }
}

impl<E: Engine> Copier<E> {
    /// The table begins anew: an open view of it is of no use.
    pub fn forget(&mut self, table: &TableId) {
        self.view.take_if(|(viewed, _)| viewed == table);
    }
}

impl<E: Engine, P: Publisher> Session<'_, E, P> {
    /// Whether the copy could go on with another slice or view now.
    pub fn copy_waits(&self) -> bool {
        if self.copier.not_before.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        self.source.copying().any(|(table, copy)| {
            if copy.view {
                return self.source.view(table).is_none();
            }
            !copy.all_planned || copy.chunks.iter().any(|chunk| chunk.read_at.is_none())
        })
    }

    /// One slice of the copies, and the views that stand here.
    pub async fn copy(&mut self) -> Result<(), CaptureError> {
        self.open_view().await?;
        while let Some(table) = self.source.due_view() {
            self.publish_view(&table).await?;
            if self.stopping() {
                return Ok(());
            }
            self.open_view().await?;
        }
        if !self.copy_waits() {
            return Ok(());
        }
        let plans = self.plans();
        if plans.is_empty() {
            return Ok(());
        }
        let chunks = self.slice(plans).await?;
        self.copier.not_before = (chunks == 0).then(|| Instant::now() + PAUSE);
        Ok(())
    }

    fn size(&self) -> Size {
        Size { rows: self.tools.settings.snapshot.chunk_rows, bytes: self.tools.settings.commit.chunk_bytes }
    }

    fn plans(&self) -> VecDeque<Plan> {
        let plan = |(table, copy): (&TableId, &schemas::event::CopyProgress<E::Position>)| {
            let captured = self.shapes.get(table).filter(|captured| !captured.lost)?;
            let unread: VecDeque<_> = self.source.unread(table).into();
            (!unread.is_empty() || !copy.all_planned).then(|| Plan {
                table: captured.clone(),
                unread,
                planned_to: copy.planned_to.clone(),
                all_planned: copy.all_planned,
                estimated: copy.rows_estimated > 0 || copy.planned_to.is_some(),
                rows: self.size().next(self.copier.last.get(table).copied()),
                for_sink: copy.for_sink.clone(),
            })
        };
        self.source.copying().filter(|(_, copy)| !copy.view).filter_map(plan).collect()
    }

    /// Returns how many chunks were read.
    async fn slice(&mut self, plans: VecDeque<Plan>) -> Result<usize, CaptureError> {
        let slice = Arc::new(Slice {
            plans: Mutex::new(plans),
            at: self.source.position().clone(),
            position: self.source.position().to_string(),
            ends: Instant::now() + self.tools.settings.snapshot.slice,
            size: self.size(),
            engine: E::NAME,
            namespace: E::NAMESPACE,
        });
        let workers = self.tools.settings.snapshot.workers.max(1);
        let (sender, mut news) = mpsc::channel(workers);
        let mut running = JoinSet::new();
        for _ in 0..workers {
            let reader = match self.copier.idle.pop() {
                Some(reader) => reader,
                None => self.tools.engine.reader().await?,
            };
            running.spawn(work::<E>(reader, slice.clone(), sender.clone()));
        }
        drop(sender);
        let mut chunks = 0;
        loop {
            let told = tokio::select! {
                told = news.recv() => told,
                // What is in flight is read again after the next start.
                () = shutdown_asked(&mut self.tools.shutdown) => break,
            };
            let Some(told) = told else { break };
            chunks += usize::from(matches!(told, News::Read(_)));
            self.take_news(told).await?;
        }
        if self.stopping() {
            running.abort_all();
            return self.commit().await.map(|()| chunks);
        }
        while let Some(ended) = running.join_next().await {
            let reader = ended.map_err(|e| CaptureError::Transport(format!("a reader of the copy ended: {e}")))?;
            self.copier.idle.push(reader.map_err(with_way_out)?);
        }
        self.commit().await.map(|()| chunks)
    }

    async fn take_news(&mut self, told: News<E::Position>) -> Result<(), CaptureError> {
        self.dirty = true;
        match told {
            News::Estimated(table, rows) => self.source.estimated(&table, rows),
            News::Planned(table, up_to) => self.source.planned(&table, up_to),
            News::Cut(table, part, at) => self.source.cut(&table, &part, at),
            News::Read(chunk) => {
                let ReadChunk { table, part, mut batch, rows, read_at } = *chunk;
                self.publish_batch(&table, &mut batch).await?;
                self.copier.last.insert(table.id().clone(), (rows, batch.bytes()));
                self.tell_copied(table.id(), rows);
                self.source.read(table.id(), &part, read_at, rows);
                if self.full() {
                    self.commit_soon().await?;
                }
            }
        }
        Ok(())
    }

    /// Before the source knows of these rows: with the last of them it forgets the copy.
    fn tell_copied(&self, table: &TableId, rows: u64) {
        if let Some(copy) = self.source.copy(table) {
            self.tools.reporter.copied(table, copy.rows_done + rows);
        }
    }

    /// Publishes a batch of copied rows, in as many transactions as its size asks for.
    async fn publish_batch(&mut self, table: &Captured, batch: &mut Batch) -> Result<(), CaptureError> {
        let Rows::Publish { epoch, .. } = self.admitted(table) else {
            return Err(CaptureError::Transport(format!("a copy of {} was read that is not under way", table.id())));
        };
        let bounds = self.tools.settings.commit;
        let full = |(rows, bytes): (usize, usize)| rows >= bounds.rows || bytes >= bounds.bytes;
        let mut cursor = Cursor::default();
        while cursor.record < batch.len() {
            let (source, publisher) = (&mut self.source, &mut *self.tools.publisher);
            cursor = batch.publish(table, cursor, epoch, || source.next_seq(), publisher, full)?;
            self.touched();
            if cursor.record < batch.len() {
                self.commit_soon().await?;
            }
        }
        counter!(metric::COPY_ROWS, "table" => table.id().to_string()).increment(batch.len() as u64);
        table.rows.increment(batch.len() as u64);
        Ok(())
    }

    /// Rows of a view are published although the stream's rows of its table are not.
    fn admitted(&self, table: &Captured) -> Rows {
        let copying = self.source.copy(table.id()).is_some();
        if copying {
            return Rows::Publish { epoch: self.source.state().epoch, version: table.version, copying };
        }
        Rows::Skip
    }

    /// Opens a view of the next table without a key. One at a time.
    async fn open_view(&mut self) -> Result<(), CaptureError> {
        if self.copier.view.is_some() || self.copier.not_before.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        let next = self.source.copying().find(|(_, copy)| copy.view).map(|(table, _)| table.clone());
        let Some(captured) = next.and_then(|table| self.shapes.get(&table).cloned()) else { return Ok(()) };
        let mut reader = match self.copier.idle.pop() {
            Some(reader) => reader,
            None => self.tools.engine.reader().await?,
        };
        let rows = reader.estimate(&captured.published.shape).await?;
        self.source.estimated(captured.id(), rows);
        let here = self.source.position();
        // Not behind the stream: rows between the two were passed over already. None: the stream has to meet a change first.
        let view = reader.view(&captured.published.shape).await?;
        let Some(at) = view.filter(|at| !here.reached(at) || at.reached(here)) else {
            self.copier.not_before = Some(Instant::now() + PAUSE);
            return Ok(());
        };
        // The same place, however it is written: as another one the stream would be past it.
        let at = if here.reached(&at) { here.clone() } else { at };
        if self.source.view_opened(captured.id(), at) {
            self.copier.view = Some((captured.id().clone(), reader));
        } else {
            self.copier.not_before = Some(Instant::now() + PAUSE);
        }
        Ok(())
    }

    /// The stream stands where the view does: the emptying event, then the view's rows.
    async fn publish_view(&mut self, table: &TableId) -> Result<(), CaptureError> {
        let open = self.copier.view.take_if(|(viewed, _)| viewed == table);
        let shape = self.shapes.get(table).map(|c| c.published.shape.clone());
        let Some(((_, mut reader), shape)) = open.zip(shape) else {
            self.source.view_lost(table);
            return Ok(());
        };
        let estimate = self.source.copy(table).map_or(0, |copy| copy.rows_estimated);
        let Some(draft) = self.source.view_event(shape) else {
            self.source.view_lost(table);
            return Ok(());
        };
        self.publish_event(draft).await?;
        self.source.estimated(table, estimate);
        let Some(captured) = self.shapes.get(table).cloned() else { return Ok(()) };
        let for_sink = self.source.copy_for(table).map(str::to_owned);
        let position = self.source.position().to_string();
        let mut batch = Batch::default();
        loop {
            let origin = Origin {
                engine: E::NAME,
                namespace: E::NAMESPACE,
                position: &position,
                transaction: None,
                ts_ms: now_ms(),
                snapshot: true,
                copying: true,
                for_sink: for_sink.as_deref(),
            };
            let more = reader
                .view_rows(&captured.published, VIEW_ROWS, &mut batch.writer(&captured, &origin).within(self.size().bytes))
                .await
                .map_err(with_way_out)?;
            self.publish_batch(&captured, &mut batch).await?;
            self.tell_copied(table, batch.len() as u64);
            self.source.view_rows(table, batch.len() as u64, !more);
            if !more {
                self.copier.idle.push(reader);
                return self.commit().await;
            }
            if self.full() {
                self.commit_soon().await?;
            }
            if self.stopping() {
                // Begun again after the next start, with a new emptying event.
                return Ok(());
            }
        }
    }
}

/// A row that cannot be read while its table is copied.
fn with_way_out(error: CaptureError) -> CaptureError {
    match error {
        CaptureError::Stop { message } => CaptureError::Stop {
            message: format!(
                "{message}. Ways out: mend the value at the source and let the copy go on: `instar resume FILE`; or take the table out of \
                 the configuration"
            ),
        },
        other @ (CaptureError::Blocked { .. }
        | CaptureError::Transient(_)
        | CaptureError::Refused(_)
        | CaptureError::Fenced(_)
        | CaptureError::Transport(_)) => other,
    }
}
