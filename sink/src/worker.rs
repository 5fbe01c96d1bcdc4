//! Applies rows: a fixed number of workers, each with its lanes, one connection and one transaction per flush.

mod lane;

use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

use runtime::config::{BadValue, Sink};
use schemas::{
    event::{Epoch, Version},
    order::ledger::Lane,
    table::TableId,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use self::lane::{End, Folds, LaneState};
use crate::{
    batch::FoldError,
    consumer::{Block, Consumer, reachable},
    error::SinkError,
    shared::{RowAction, RowProblem, Shared, Task, View},
    target::{Batch, LaneMove, Target, Writer, Written},
};

/// Tables in one batch: what a target keeps for each of them stays bounded, however many tables there are.
const TABLES: usize = 256;

/// Other instances' changes are seen at the latest after this.
const SAFETY: Duration = Duration::from_millis(200);

/// One worker: it owns the lanes that are hashed onto it.
pub struct Worker<T: Target, C: Consumer> {
    pub number: usize,
    pub sink: Arc<Sink>,
    pub target: Arc<T>,
    pub consumer: C,
    pub shared: Arc<Shared>,
    pub shutdown: watch::Receiver<bool>,
    lanes: Vec<LaneState>,
    writer: Option<T::Writer>,
    /// The lane with which the next batch begins, so that none starves.
    turn: usize,
    /// The view whose lanes were taken on.
    adopted: Option<u64>,
}

/// What a round came to.
enum Round {
    /// Something was written or moved: look again. `soon`: when the next flush may begin, if there is no reason to hurry.
    Progress { soon: Option<Instant> },
    /// Nothing to do under this view; `whole`: nothing is on its way to us either.
    Idle { whole: bool },
}

/// What became of a batch.
enum Flushed {
    /// There was none.
    Nothing,
    Committed,
    /// Nothing of it was applied; the lanes stand at their stored positions again.
    Undone,
}

impl<T: Target, C: Consumer> Worker<T, C> {
    pub fn new(number: usize, sink: Arc<Sink>, target: Arc<T>, consumer: C, shared: Arc<Shared>, shutdown: watch::Receiver<bool>) -> Self {
        Self { number, sink, target, consumer, shared, shutdown, lanes: Vec::new(), writer: None, turn: 0, adopted: None }
    }

    /// Runs until shutdown. An error is one that trying again does not mend.
    pub async fn run(mut self) -> Result<(), SinkError> {
        let mut view = self.shared.view();
        let (mut news, mut trouble) = (self.consumer.changed(), self.consumer.trouble());
        let mut pause = self.sink.retry.initial;
        while !*self.shutdown.borrow() {
            news.borrow_and_update();
            let now = view.borrow_and_update().clone();
            match self.round(&now).await {
                Ok(round) => {
                    pause = self.sink.retry.initial;
                    let reason = match round {
                        Round::Progress { .. } => None,
                        Round::Idle { .. } => trouble.borrow().clone(),
                    };
                    self.shared.retrying(Task::Worker(self.number), reason);
                    match round {
                        Round::Progress { soon: None } => continue,
                        Round::Progress { soon: Some(soon) } => {
                            tokio::select! {
                                () = sleep_until(soon) => {}
                                _ = view.changed() => {}
                                _ = self.shutdown.changed() => {}
                            }
                            continue;
                        }
                        Round::Idle { whole: true } => self.shared.idle(self.number, now.number),
                        Round::Idle { whole: false } => {}
                    }
                    tokio::select! {
                        _ = view.changed() => {}
                        _ = news.changed() => {}
                        _ = self.shutdown.changed() => {}
                        () = sleep(SAFETY) => {}
                    }
                }
                Err(SinkError::Transient(reason) | SinkError::SessionLost(reason)) => {
                    tracing::warn!(sink = %self.sink.name, worker = self.number, %reason, "retrying");
                    self.shared.retrying(Task::Worker(self.number), Some(reason));
                    // Whether the last batch was committed is not known: the stored positions will tell.
                    self.writer = None;
                    tokio::select! {
                        () = sleep(pause) => {}
                        () = reachable(&mut trouble) => {}
                        _ = self.shutdown.changed() => {}
                    }
                    pause = (pause * 2).min(self.sink.retry.max);
                }
                Err(
                    error @ (SinkError::BadValue { .. } | SinkError::Incomplete { .. } | SinkError::Stop { .. } | SinkError::Refused(_)),
                ) => {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    async fn round(&mut self, view: &View) -> Result<Round, SinkError> {
        self.connect().await?;
        self.adopt(view).await?;
        self.take_over().await?;
        let picks = self.picks(view);
        let blocks: Vec<OnceLock<C::Block>> = picks.iter().map(|_| OnceLock::new()).collect();
        let mut folds = Folds::default();
        let (mut refused, mut more, mut whole) = (None, false, true);
        for (pick, cell) in picks.iter().zip(&blocks) {
            if folds.rows >= self.sink.batch.rows || folds.tables.len() >= TABLES {
                more = true;
                break;
            }
            match self.gather(*pick, cell, view, &mut folds)? {
                // Nothing is left to be searched: the other lanes of this worker come again at once.
                End::Fetched { more: false } => {
                    more |= self.lanes[*pick].limit.take().is_some();
                    whole &= cell.get().is_some_and(Block::whole);
                }
                End::Fetched { more: true } | End::Limit => more = true,
                End::Waits => {
                    self.lanes[*pick].parked = Some(view.number);
                    more |= self.lanes[*pick].limit.is_some();
                }
                end @ (End::OtherVersion { .. } | End::Refused { .. } | End::Lost { .. }) => refused = refused.or(Some((*pick, end))),
            }
        }
        self.turn = self.turn.wrapping_add(1);
        let began = Instant::now();
        let flushed = self.flush(view, &picks, &folds).await?;
        drop(folds);
        match (flushed, refused) {
            (Flushed::Nothing | Flushed::Committed, Some((pick, end))) => self.refuse(pick, end, view).await?,
            (Flushed::Nothing, None) if !more => return Ok(Round::Idle { whole }),
            (Flushed::Committed, None) if self.lanes.iter().all(|lane| lane.limit.is_none()) => {
                let now = Instant::now();
                return Ok(Round::Progress { soon: Some(now + (now - began).min(self.sink.batch.linger)) });
            }
            (Flushed::Nothing | Flushed::Committed | Flushed::Undone, _) => {}
        }
        Ok(Round::Progress { soon: None })
    }

    async fn connect(&mut self) -> Result<(), SinkError> {
        if self.writer.is_none() {
            self.writer = Some(self.target.writer().await?);
            self.reread().await?;
        }
        Ok(())
    }

    fn writer(&mut self) -> Result<&mut T::Writer, SinkError> {
        self.writer.as_mut().ok_or_else(|| SinkError::Transient("the writer's connection is not open".into()))
    }

    /// Sets every lane back to its stored position.
    async fn reread(&mut self) -> Result<(), SinkError> {
        let lanes: Vec<Lane> = self.lanes.iter().map(|l| l.lane.clone()).collect();
        if lanes.is_empty() {
            return Ok(());
        }
        let stored = self.writer()?.positions(&lanes).await?;
        for (state, at) in self.lanes.iter_mut().zip(stored) {
            state.moved(at);
        }
        Ok(())
    }

    /// Lanes that another instance had meanwhile begin at their stored positions.
    async fn take_over(&mut self) -> Result<(), SinkError> {
        let turns = self.lanes.iter().map(|lane| self.consumer.turn(&lane.topic, lane.lane.lane));
        let news = turns.enumerate().filter_map(|(i, turn)| turn.filter(|turn| self.lanes[i].turn != Some(*turn)).map(|turn| (i, turn)));
        let taken: Vec<(usize, u64)> = news.collect();
        if taken.is_empty() {
            return Ok(());
        }
        let lanes: Vec<Lane> = taken.iter().map(|(i, _)| self.lanes[*i].lane.clone()).collect();
        let stored = self.writer()?.positions(&lanes).await?;
        for ((i, turn), at) in taken.into_iter().zip(stored) {
            self.lanes[i].moved(at);
            self.lanes[i].turn = Some(turn);
        }
        Ok(())
    }

    /// Takes on lanes of tables that have become known.
    async fn adopt(&mut self, view: &View) -> Result<(), SinkError> {
        if self.adopted == Some(view.number) {
            return Ok(());
        }
        let known: HashSet<&Lane> = self.lanes.iter().map(|state| &state.lane).collect();
        let mut new = Vec::new();
        for topic in view.versions.topics() {
            for lane in (0..topic.lanes).map(|lane| Lane { table: topic.table.clone(), lane }) {
                if worker_of(&lane, self.sink.workers) == self.number && !known.contains(&lane) {
                    new.push((lane, topic.name.clone()));
                }
            }
        }
        self.adopted = Some(view.number);
        if new.is_empty() {
            return Ok(());
        }
        let lanes: Vec<Lane> = new.iter().map(|(lane, _)| lane.clone()).collect();
        let stored = self.writer()?.positions(&lanes).await?;
        let name = self.sink.name.clone();
        self.lanes.extend(new.into_iter().zip(stored).map(|((lane, topic), at)| LaneState::new(lane, topic, &name, at)));
        Ok(())
    }

    /// The lanes of this round: one alone while a row is looked for that cannot be applied.
    fn picks(&self, view: &View) -> Vec<usize> {
        let ready = |i: &usize| self.lanes[*i].parked != Some(view.number) && !view.ledger.retired.contains(&self.lanes[*i].lane.table);
        let count = self.lanes.len();
        let order: Vec<usize> = (0..count).map(|i| (i + self.turn) % count).filter(ready).collect();
        match order.iter().find(|i| self.lanes[**i].limit.is_some()) {
            Some(alone) => vec![*alone],
            None => order,
        }
    }

    fn gather<'b>(&mut self, pick: usize, cell: &'b OnceLock<C::Block>, view: &View, folds: &mut Folds<'b>) -> Result<End, SinkError> {
        let left = self.sink.batch.rows.saturating_sub(folds.rows);
        let lane = &mut self.lanes[pick];
        let bytes = lane.bytes_for(left).min(self.sink.batch.bytes).max(1);
        let fetched = match self.consumer.fetch(&lane.topic, topic_id(view, lane), lane.lane.lane, lane.next(), bytes) {
            Ok(fetched) => fetched,
            // Rows are gone that nobody waits for: a reload of the table leads out, or is on its way.
            Err(SinkError::Stop { message }) if begins_anew(view, &lane.lane.table) => {
                tracing::warn!(sink = %self.sink.name, table = %lane.lane.table, %message, "waits for the table's reload");
                return Ok(End::Waits);
            }
            Err(SinkError::Stop { message }) => return Ok(End::Lost { message }),
            Err(error) => return Err(error),
        };
        let block = cell.get_or_init(|| fetched);
        let keyless = self.sink.table(&lane.lane.table).keyless;
        Ok(lane.take(block, view, keyless, folds))
    }

    /// Writes what was gathered.
    async fn flush(&mut self, view: &View, picks: &[usize], folds: &Folds<'_>) -> Result<Flushed, SinkError> {
        let (lanes, moves): (Vec<usize>, Vec<LaneMove>) =
            picks.iter().filter_map(|pick| Some((*pick, self.lanes[*pick].pending()?))).unzip();
        if moves.is_empty() {
            return Ok(Flushed::Nothing);
        }
        let adopted = self.sink.adopt;
        let tables = folds.tables.iter().map(|(fold, fresh)| fold.batch(*fresh && !adopted)).collect();
        let batch = Batch { lanes: moves, tables };
        let moved = lanes.iter().map(|pick| &self.lanes[*pick]);
        let proof = self.consumer.prove(moved.filter_map(|lane| Some((&*lane.topic, topic_id(view, lane)?))));
        match self.writer()?.write(&batch, &proof).await {
            Ok(Written::Committed) => {
                self.committed(&lanes, &batch.lanes, folds.rows)?;
                if view.events.newest() > view.ledger.decided || !view.ledger.queued.is_empty() {
                    self.shared.wake();
                }
                return Ok(Flushed::Committed);
            }
            Ok(Written::Moved) => {
                self.reread().await?;
                self.shared.wake();
            }
            Err(SinkError::BadValue { table, message }) => self.narrow(Some(&table), &lanes, message, false, view).await?,
            Err(SinkError::Incomplete { table, message }) => self.narrow(Some(&table), &lanes, message, true, view).await?,
            Err(SinkError::Stop { message }) => self.narrow(None, &lanes, message, false, view).await?,
            Err(error @ (SinkError::Transient(_) | SinkError::SessionLost(_) | SinkError::Refused(_))) => return Err(error),
        }
        Ok(Flushed::Undone)
    }

    fn committed(&mut self, lanes: &[usize], moves: &[LaneMove], rows: usize) -> Result<(), SinkError> {
        for (pick, moved) in lanes.iter().zip(moves) {
            let lane = &mut self.lanes[*pick];
            lane.committed();
            // A lane that was searched goes back to whole batches step by step.
            lane.limit = lane.limit.map(|limit| limit.saturating_mul(2)).filter(|limit| *limit < self.sink.batch.rows);
            self.consumer.applied(&lane.topic, lane.lane.lane, moved.to.position)?;
        }
        metrics::counter!(ROWS, "sink" => self.sink.name.clone()).increment(rows as u64);
        Ok(())
    }

    /// A batch holds a row that cannot be applied: halves the lane's part until it is that row alone, then reports it.
    /// `table`: whose row it is; None: not known.
    async fn narrow(
        &mut self,
        table: Option<&TableId>,
        lanes: &[usize],
        message: String,
        incomplete: bool,
        view: &View,
    ) -> Result<(), SinkError> {
        let alone = lanes.len() == 1;
        let mut found = None;
        for pick in lanes {
            let batch_rows = self.sink.batch.rows;
            let lane = &mut self.lanes[*pick];
            if !alone && table.is_some_and(|table| lane.lane.table != *table) {
                continue;
            }
            let rows = lane.limit.unwrap_or(batch_rows).min(lane.rows()).max(1);
            if alone && rows == 1 {
                found = Some((*pick, lane.epoch()));
            }
            lane.limit = Some(if alone { (rows / 2).max(1) } else { rows });
        }
        self.reread().await?;
        if let Some((pick, epoch)) = found {
            let action = self.action(pick, incomplete);
            self.report(pick, epoch, message, action, view);
        }
        Ok(())
    }

    /// The next row of this lane cannot join a batch, and everything before it is durable.
    async fn refuse(&mut self, pick: usize, end: End, view: &View) -> Result<(), SinkError> {
        let (epoch, message, action) = match end {
            End::OtherVersion { .. } | End::Lost { .. } if self.lanes[pick].first_time(view.number) => {
                // A reload may have moved the lane since this reader looked.
                self.shared.wake();
                return self.reread().await;
            }
            End::OtherVersion { epoch, version } => (epoch, other_version(&self.lanes[pick], version, view), RowAction::Stop),
            End::Lost { message } => return Err(SinkError::Stop { message }),
            End::Refused { epoch, error } => {
                let action = match error {
                    FoldError::Incomplete => RowAction::Hold,
                    FoldError::NoImage { .. } | FoldError::Wire(_) => RowAction::Stop,
                    FoldError::Unidentified | FoldError::AppendOnly(_) => self.action(pick, false),
                };
                let lane = &self.lanes[pick];
                (epoch, format!("{} lane {}, offset {}: {error}", lane.lane.table, lane.lane.lane, lane.next()), action)
            }
            End::Fetched { .. } | End::Waits | End::Limit => return Ok(()),
        };
        self.report(pick, epoch, message, action, view);
        Ok(())
    }

    fn action(&self, pick: usize, incomplete: bool) -> RowAction {
        match (incomplete, self.sink.table(&self.lanes[pick].lane.table).bad_value) {
            (true, _) | (false, BadValue::Hold) => RowAction::Hold,
            (false, BadValue::Stop) => RowAction::Stop,
        }
    }

    fn report(&mut self, pick: usize, epoch: Epoch, message: String, action: RowAction, view: &View) {
        let lane = &mut self.lanes[pick];
        lane.parked = Some(view.number);
        lane.limit = None;
        self.shared.report(RowProblem { lane: lane.lane.clone(), position: lane.stored(), epoch, action, message });
    }
}

/// The identity that the lane's topic has by the schema versions.
fn topic_id<'v>(view: &'v View, lane: &LaneState) -> Option<&'v str> {
    view.versions.get(&lane.lane.table)?.topic_id.as_deref()
}

fn other_version(lane: &LaneState, version: Option<Version>, view: &View) -> String {
    let row = version.map_or_else(|| "an unknown schema".to_owned(), |v| format!("schema version {v}"));
    let target = match view.versions.get(&lane.lane.table) {
        Some(current) => format!("the target table stands at version {}", current.version.version),
        None => "the target table has no recorded version".to_owned(),
    };
    let Lane { table, lane: number } = &lane.lane;
    format!(
        "{table} lane {number}, offset {}: the row is of {row}, but {target}: what Instar keeps in the target was altered by hand.",
        lane.next()
    )
}

/// Whether the table is held, or a reload or removal of it is still to be decided.
fn begins_anew(view: &View, table: &TableId) -> bool {
    view.ledger.held.contains_key(table) || view.events.superseded_by(view.ledger.decided, table).is_some()
}

/// Rows applied, folded or not.
const ROWS: &str = "instar_sink_rows_total";

/// Which worker has a lane: fixed while the number of workers is.
fn worker_of(lane: &Lane, workers: usize) -> usize {
    let name = schemas::wire::lane::murmur2(lane.table.to_string().as_bytes());
    name.wrapping_add(lane.lane) as usize % workers.max(1)
}
