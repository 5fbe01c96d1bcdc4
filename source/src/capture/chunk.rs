//! Workers that read chunks of tables in parallel while the stream stands.

use std::{collections::VecDeque, sync::Arc};

use schemas::{order::source::Unread, table::TableId};
use tokio::{
    sync::{Mutex, mpsc},
    time::Instant,
};

use super::{
    record::{Batch, Origin},
    shape::Captured,
};
use crate::{
    engine::{Bounds, Chunk, ChunkReader, Engine, Namespace},
    error::CaptureError,
};

/// Rows of a table's first chunk, before it is known how large its rows are.
const FIRST: u64 = 1_000;
/// Parts that are cut off a chunk at once.
const CUTS: usize = 16;

/// What a table's copy still needs, as the workers share it.
#[derive(Debug)]
pub(super) struct Plan {
    pub table: Arc<Captured>,
    pub unread: VecDeque<Unread>,
    pub planned_to: Option<Vec<String>>,
    pub all_planned: bool,
    /// Not asked for yet.
    pub estimated: bool,
    /// Rows of the next chunk.
    pub rows: u64,
    pub for_sink: Option<String>,
}

/// How large a chunk may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub rows: u64,
    pub bytes: usize,
}

impl Size {
    /// Bytes that a chunk may have at most, but for its last row: rows are not as large as those before them said.
    pub fn limit(self) -> usize {
        self.bytes.saturating_add(self.bytes / 2)
    }

    /// Rows of the next chunk: as many as fit the bytes, by the last chunk's rows.
    pub fn next(self, last: Option<(u64, usize)>) -> u64 {
        match last {
            None | Some((0, _)) => self.rows.min(FIRST),
            Some((rows, bytes)) => {
                let each = (bytes as u64 / rows).max(1);
                self.rows.min((self.bytes as u64 / each).max(1))
            }
        }
    }
}

/// What a worker tells, in an order in which it can be carried into progress.
#[derive(Debug)]
pub(super) enum News<P> {
    Estimated(TableId, u64),
    /// The next chunk reaches up to this key; None: to the table's end.
    Planned(TableId, Option<Vec<String>>),
    /// A planned chunk is read in two parts, of which the first reaches up to this key.
    Cut(TableId, Unread, Vec<String>),
    Read(Box<ReadChunk<P>>),
}

/// A chunk's rows, ready to be published.
#[derive(Debug)]
pub(super) struct ReadChunk<P> {
    pub table: Arc<Captured>,
    pub part: Unread,
    pub batch: Batch,
    pub rows: u64,
    pub read_at: P,
}

/// One slice's work, shared by its workers.
pub(super) struct Slice<P> {
    pub plans: Mutex<VecDeque<Plan>>,
    /// Where the stream stands.
    pub at: P,
    pub position: String,
    pub ends: Instant,
    pub size: Size,
    pub engine: &'static str,
    pub namespace: Namespace,
}

struct Work {
    table: Arc<Captured>,
    part: Unread,
    for_sink: Option<String>,
}

/// Reads chunks until the slice ends or nothing is left; gives the reader back.
pub(super) async fn work<E: Engine>(
    mut reader: E::Reader,
    slice: Arc<Slice<E::Position>>,
    news: mpsc::Sender<News<E::Position>>,
) -> Result<E::Reader, CaptureError> {
    while Instant::now() < slice.ends {
        let Some(work) = next_work(&mut reader, &slice, &news).await? else { break };
        let mut batch = Batch::default();
        let bounds = bounds(&work)?;
        let origin = Origin {
            engine: slice.engine,
            namespace: slice.namespace,
            position: &slice.position,
            transaction: None,
            ts_ms: super::record::now_ms(),
            snapshot: true,
            copying: true,
            for_sink: work.for_sink.as_deref(),
        };
        let mut writer = batch.writer(&work.table, &origin).within(slice.size.limit());
        let chunk = reader.read(&work.table.published, &bounds, &slice.at, &mut writer).await?;
        match chunk {
            Chunk::Full { rows } => {
                drop(batch);
                let parts = cut(&mut reader, &work, bounds, rows, &news).await?;
                if let Some(plan) = slice.plans.lock().await.iter_mut().find(|plan| plan.table.id() == work.table.id()) {
                    plan.rows = plan.rows.min(rows);
                    parts.into_iter().rev().for_each(|part| plan.unread.push_front(part));
                }
                // Where the plan is done with, the next slice finds them.
            }
            Chunk::OtherShape => {
                // The stream has to meet the change first.
                slice.plans.lock().await.retain(|plan| plan.table.id() != work.table.id());
            }
            Chunk::Read { rows, read_at } => {
                if let Some(plan) = slice.plans.lock().await.iter_mut().find(|plan| plan.table.id() == work.table.id()) {
                    plan.rows = slice.size.next(Some((rows, batch.bytes())));
                }
                let read = ReadChunk { table: work.table, part: work.part, batch, rows, read_at };
                if news.send(News::Read(Box::new(read))).await.is_err() {
                    break;
                }
            }
        }
    }
    Ok(reader)
}

/// Takes the next part that is planned, or plans one. The lock keeps the chunks of a table in key order.
async fn next_work<R: ChunkReader>(
    reader: &mut R,
    slice: &Slice<R::Position>,
    news: &mpsc::Sender<News<R::Position>>,
) -> Result<Option<Work>, CaptureError> {
    let mut plans = slice.plans.lock().await;
    loop {
        let Some(plan) = plans.front_mut() else { return Ok(None) };
        let shape = &plan.table.published.shape;
        if !plan.estimated {
            plan.estimated = true;
            let rows = reader.estimate(shape).await?;
            // A closed channel: the slice has ended.
            let _closed = news.send(News::Estimated(shape.id.clone(), rows)).await;
        }
        if let Some(part) = plan.unread.pop_front() {
            return Ok(Some(Work { table: plan.table.clone(), part, for_sink: plan.for_sink.clone() }));
        }
        if plan.all_planned {
            plans.pop_front();
            continue;
        }
        let within = Bounds { above: plan.planned_to.clone(), up_to: None };
        let up_to = reader.bound(shape, &within, plan.rows).await?;
        let part = Unread::Chunk { above: plan.planned_to.take(), up_to: up_to.clone() };
        let _closed = news.send(News::Planned(shape.id.clone(), up_to.clone())).await;
        plan.all_planned = up_to.is_none();
        plan.planned_to = up_to;
        return Ok(Some(Work { table: plan.table.clone(), part, for_sink: plan.for_sink.clone() }));
    }
}

/// Cuts a chunk that was full after so many rows; gives its parts in key order.
async fn cut<R: ChunkReader>(
    reader: &mut R,
    work: &Work,
    mut within: Bounds,
    rows: u64,
    news: &mpsc::Sender<News<R::Position>>,
) -> Result<Vec<Unread>, CaptureError> {
    let (shape, mut parts) = (&work.table.published.shape, Vec::new());
    // The rows were read in no promised order: others may be larger.
    let mut each = (rows / 2).max(1);
    while parts.len() < CUTS {
        let at = reader.bound(shape, &within, each).await?;
        match at {
            Some(at) if Some(&at) != within.up_to.as_ref() => {
                let whole = Unread::Chunk { above: within.above.clone(), up_to: within.up_to.clone() };
                // A closed channel: the slice has ended.
                let _closed = news.send(News::Cut(shape.id.clone(), whole, at.clone())).await;
                parts.push(Unread::Chunk { above: within.above.replace(at.clone()), up_to: Some(at) });
            }
            // Rows were removed meanwhile.
            Some(_) | None if parts.is_empty() && each > 1 => each /= 2,
            Some(_) | None => break,
        }
    }
    parts.push(Unread::Chunk { above: within.above, up_to: within.up_to });
    Ok(parts)
}

fn bounds(work: &Work) -> Result<Bounds, CaptureError> {
    match &work.part {
        Unread::Chunk { above, up_to } => Ok(Bounds { above: above.clone(), up_to: up_to.clone() }),
        // Copies begin anew instead.
        Unread::Key(_) => {
            Err(CaptureError::Transport(format!("the progress of {} asks for a single key, which no source writes", work.table.id())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_grow_to_what_fits_the_bytes() {
        let size = Size { rows: 50_000, bytes: 1 << 20 };
        assert_eq!(size.next(None), 1_000);
        assert_eq!(size.next(Some((1_000, 100_000))), 10_485);
        assert_eq!(size.next(Some((1_000, 1_000))), 50_000);
        assert_eq!(size.next(Some((2, 8 << 20))), 1);
        assert_eq!(Size { rows: 1, bytes: 1 << 20 }.next(None), 1);
    }
}
