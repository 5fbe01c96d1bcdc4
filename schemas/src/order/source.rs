//! The source's progress as a pure machine: what to publish, what to skip, when a copy is complete.
//!
//! A driver reads the log and the tables and publishes; this says what each of it means. Whatever changes here becomes
//! durable with the next [`Source::progress`] that is committed together with the rows it speaks of. What an event changes
//! ([`Draft`]) moves only in the transaction of that event: see `boundary`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    convert::Infallible,
    fmt::{Debug, Display},
};

pub use super::copy::Unread;
use super::protection::{Protection, Protections};
use crate::{
    change::SchemaChange,
    event::{BeginProgress, CopyProgress, Epoch, EventKind, Offset, Progress, Seq, SkippedStatement, SourceState, TableProgress, Version},
    table::{Table, TableId},
};

/// The machine. `P` is the engine's position; `reached(a, b)` says whether everything up to `b` lies at or before `a`.
#[derive(Debug, Clone)]
pub struct Source<P> {
    pub(super) protections: Protections,
    pub(super) reached: fn(&P, &P) -> bool,
    pub(super) state: Progress<P>,
    /// How long at most until the next progress is written, in milliseconds; 0: there will be none.
    pulse_ms: i64,
    /// The topic of each table: rows are looked up by it.
    topics: HashMap<TableId, String>,
    /// Topics of all tables that are copied or about to begin, and perhaps of a few more: the others, which may be very many, are not
    /// looked at with every group.
    pub(super) busy: BTreeSet<String>,
    /// Open views of tables without a key, and where they stand. Lost in a crash: the copy begins again.
    pub(super) views: BTreeMap<TableId, P>,
}

/// A table that the pipeline captures, with its topic.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTable {
    pub shape: Table,
    pub topic: String,
    /// Lanes of the topic; of a table known before (retired), those of its first event count.
    pub lanes: u32,
}

/// What to do with rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Publish them at this epoch under this version. `copying`: the copy is unfinished, which the rows themselves say.
    Publish { epoch: Epoch, version: Version, copying: bool },
    /// Not captured, retired, skipped up to a pinned place, or to be brought by a view.
    Skip,
}

/// An operator's command to the source, as the commands topic carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `for_sink`: the copied rows are for this sink only (for all where that would lose rows of the others).
    Reload {
        table: TableId,
        for_sink: Option<String>,
    },
    /// The statement that the source stands at had no effect on this table.
    Accept {
        table: TableId,
    },
    Pause,
    Resume,
}

/// What a command asks of the driver.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandStep<P> {
    /// Not within a group of rows: ask again behind it.
    Later,
    /// Nothing more: the command is taken and becomes durable with the next commit.
    Taken,
    /// Publish this event; the command is taken in its transaction.
    Event(Draft<P>),
    /// Read the table's shape at a pinned place, pass it to [`Source::begin_at`], and let the stream skip the table up to there.
    Pin,
    /// Pass over the statement for this table; the command is taken.
    PassOver,
}

/// What a statement does to one captured table.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// The shape behind the statement.
    pub shape: Table,
    pub changes: Vec<SchemaChange>,
    /// Whether there is anything to apply anywhere (`false`: comment, default, index, position, non-key constraint).
    pub epoch: bool,
}

/// An event to be published through a [`super::boundary::Boundary`].
#[derive(Debug, Clone, PartialEq)]
pub struct Draft<P> {
    pub kind: EventKind,
    /// Where the source stands behind the event.
    pub position: P,
    pub ts_ms: i64,
    pub ddl: Option<String>,
    pub for_sink: Option<String>,
    pub tables: Vec<DraftTable>,
    /// False: recorded only, no boundary.
    pub epoch: bool,
    /// The command that the event answers, if any.
    pub(super) command: Option<Offset>,
}

/// One table of a [`Draft`].
#[derive(Debug, Clone, PartialEq)]
pub struct DraftTable {
    pub shape: Table,
    pub topic: String,
    pub lanes: u32,
    pub version: Version,
    pub changes: Vec<SchemaChange>,
    pub superseded: Vec<SkippedStatement>,
}

impl<P: Clone + PartialEq + Debug + Display> Source<P> {
    /// A new pipeline that begins at a pinned position, with the event that publishes its first tables. `copy`: whether they
    /// are copied (`snapshot: initial`).
    pub fn begin(pipeline_id: &str, at: P, tables: Vec<NewTable>, copy: bool, reached: fn(&P, &P) -> bool) -> (Self, Draft<P>) {
        let state = Progress {
            pipeline_id: pipeline_id.to_owned(),
            position: at,
            rows_done: 0,
            seq: 0,
            epoch: 0,
            command: 0,
            tables: BTreeMap::new(),
            waiting: BTreeSet::new(),
            state: SourceState::Running,
            message: String::new(),
            ts_ms: 0,
            commit_ts_ms: 0,
            due_ms: 0,
        };
        let mut source = Self {
            protections: Protections::ALL,
            reached,
            pulse_ms: 0,
            state,
            topics: HashMap::new(),
            busy: BTreeSet::new(),
            views: BTreeMap::new(),
        };
        for table in &tables {
            let copy = copy.then(|| new_copy(&table.shape, None));
            source.insert(TableProgress { copy, ..unknown(table) });
        }
        let shapes = tables.into_iter().map(|t| (t.shape, Vec::new(), Vec::new())).collect();
        let draft = source.draft(EventKind::Initial, shapes);
        (source, draft)
    }

    /// Goes on from the last committed progress, completed by the events. `parse` reads the engine's position.
    pub fn open<E>(progress: &Progress, parse: impl Fn(&String) -> Result<P, E>, reached: fn(&P, &P) -> bool) -> Result<Self, E> {
        let state = progress.places(&parse)?;
        let topics = state.tables.values().map(|t| (t.id.clone(), t.topic.clone())).collect();
        let busy = state.tables.keys().cloned().collect();
        Ok(Self { protections: Protections::ALL, reached, pulse_ms: 0, state, topics, busy, views: BTreeMap::new() })
    }

    /// With some protections taken out: only to show that they are needed.
    #[must_use]
    pub fn protected_by(mut self, protections: Protections) -> Self {
        self.protections = protections;
        self
    }

    /// How long at most until the next progress is written; 0: there will be none, the process ends.
    pub fn set_pulse(&mut self, ms: i64) {
        self.pulse_ms = ms;
    }

    /// What to commit together with everything published so far: of the tables those on which something is under way, so that its size
    /// does not grow with the tables that have nothing but rows.
    pub fn progress(&self, ts_ms: i64) -> Progress {
        let (mut tables, mut waiting) = (BTreeMap::new(), BTreeSet::new());
        for table in self.busy().filter(|t| t.copy.is_some() || t.begin.is_some()) {
            if table.begin.is_none() && table.copy.as_ref() == Some(&CopyProgress::default()) {
                waiting.insert(table.topic.clone());
            } else {
                let Ok(told) = table.places(&|place| Ok::<_, Infallible>(place.to_string()));
                tables.insert(told.topic.clone(), told);
            }
        }
        let mut progress = self.state.of_tables(self.state.position.to_string(), tables, waiting);
        progress.ts_ms = ts_ms;
        progress.due_ms = if self.pulse_ms > 0 { ts_ms.saturating_add(self.pulse_ms) } else { 0 };
        progress
    }

    /// The state, with typed positions.
    pub fn state(&self) -> &Progress<P> {
        &self.state
    }

    /// What is known of a table, retired ones too.
    pub fn table(&self, id: &TableId) -> Option<&TableProgress<P>> {
        self.topics.get(id).and_then(|topic| self.state.tables.get(topic))
    }

    pub(super) fn table_mut(&mut self, id: &TableId) -> Option<&mut TableProgress<P>> {
        let topic = self.topics.get(id)?;
        self.busy.insert(topic.clone());
        self.state.tables.get_mut(topic)
    }

    pub(super) fn busy(&self) -> impl DoubleEndedIterator<Item = &TableProgress<P>> {
        self.busy.iter().filter_map(|topic| self.state.tables.get(topic))
    }

    fn insert(&mut self, table: TableProgress<P>) {
        self.topics.insert(table.id.clone(), table.topic.clone());
        self.busy.insert(table.topic.clone());
        self.state.tables.insert(table.topic.clone(), table);
    }

    pub fn position(&self) -> &P {
        &self.state.position
    }

    /// What `status` shows of the source from here on.
    pub fn set_state(&mut self, state: SourceState, message: impl Into<String>) {
        self.state.state = state;
        self.state.message = message.into();
    }

    /// Whether the table is captured (not unknown, not retired).
    pub fn captures(&self, table: &TableId) -> bool {
        self.table(table).is_some_and(|t| !t.retired)
    }

    // ---- stream

    /// Whether the stream stands between two groups. Within one nothing is copied and no event is published, for the source
    /// could not be restarted there: [`Source::command`] says `Later`, the other questions have no answer.
    pub fn between_groups(&self) -> bool {
        self.state.rows_done == 0
    }

    /// Whether the stream may read on: not while an event or a view is due at this place. Ask after every commit entry.
    pub fn may_read(&self) -> bool {
        self.due_begin().is_none() && self.due_view().is_none()
    }

    /// What to do with rows of this table.
    pub fn rows(&self, table: &TableId) -> Rows {
        let Some(known) = self.table(table).filter(|t| !t.retired && t.begin.is_none() && t.version > 0) else { return Rows::Skip };
        let by_view = known.copy.as_ref().is_some_and(|copy| copy.view) && self.protections.has(Protection::ViewPosition);
        if by_view {
            return Rows::Skip;
        }
        Rows::Publish { epoch: self.state.epoch, version: known.version, copying: known.copy.is_some() }
    }

    /// Numbers the next row event.
    pub fn next_seq(&mut self) -> Seq {
        self.state.seq += 1;
        self.state.seq
    }

    /// Rows of the open group that are published, in whole row entries: a restart skips so many.
    pub fn group_rows(&mut self, rows: u64) {
        self.state.rows_done += rows;
    }

    /// A group ended, or the log moved without rows: the stream can be restarted here.
    pub fn moved(&mut self, position: P, commit_ts_ms: i64) {
        self.state.position = position;
        self.state.rows_done = 0;
        self.state.commit_ts_ms = commit_ts_ms;
        self.pass_chunks();
    }

    /// A statement. None: of tables that are not captured or skipped only; the position has moved over it.
    pub fn statement(&mut self, position: P, ts_ms: i64, ddl: &str, changed: Vec<Changed>) -> Option<Draft<P>> {
        let mut live = Vec::new();
        for part in changed {
            let id = &part.shape.id;
            let Some(known) = self.table_mut(id).filter(|t| !t.retired) else { continue };
            match &mut known.begin {
                Some(begin) => begin.superseded.push(SkippedStatement { position: position.to_string(), ddl: ddl.to_owned() }),
                None => live.push(part),
            }
        }
        if live.is_empty() {
            self.moved(position, ts_ms);
            return None;
        }
        let epoch = live.iter().any(|part| part.epoch);
        let tables = live.into_iter().map(|part| (part.shape, part.changes, Vec::new())).collect();
        let mut draft = self.draft(EventKind::Ddl, tables);
        if !epoch {
            draft.record_only();
        }
        Some(Draft { position, ts_ms, ddl: Some(ddl.to_owned()), ..draft })
    }

    // ---- commands and configuration

    /// What a command asks for. `standing`: the tables of the statement that the stream stands at. `shape`: the table's
    /// physical shape at the stream's position, where the source knows it.
    pub fn command(&mut self, offset: Offset, command: &Command, standing: &BTreeSet<TableId>, shape: Option<&Table>) -> CommandStep<P> {
        if !self.between_groups() {
            return CommandStep::Later;
        }
        match command {
            Command::Pause => self.set_state(SourceState::Paused, ""),
            Command::Resume => self.set_state(SourceState::Running, ""),
            Command::Accept { table } if standing.contains(table) => {
                self.state.command = offset + 1;
                return CommandStep::PassOver;
            }
            Command::Accept { .. } => {}
            Command::Reload { table, for_sink } => {
                let live = self.table(table).is_some_and(|t| !t.retired && t.begin.is_none());
                if live && standing.contains(table) && self.protections.has(Protection::SkipToPinned) {
                    return CommandStep::Pin;
                }
                if let (true, Some(shape)) = (live, shape) {
                    let mut draft = self.draft(EventKind::Reload, vec![(shape.clone(), Vec::new(), Vec::new())]);
                    draft.for_sink = self.sole_sink(shape, for_sink.as_deref(), standing);
                    draft.command = Some(offset);
                    return CommandStep::Event(draft);
                }
                if live {
                    return CommandStep::Pin;
                }
            }
        }
        self.state.command = offset + 1;
        CommandStep::Taken
    }

    /// The table begins anew at a pinned place; `command`: the one that asked for it. Up to there it is skipped.
    pub fn begin_at(&mut self, at: P, shape: Table, command: Option<Offset>) {
        self.views.remove(&shape.id);
        if let Some(known) = self.table_mut(&shape.id).filter(|t| !t.retired) {
            known.copy = None;
            known.begin = Some(Box::new(BeginProgress { at, shape, superseded: Vec::new() }));
        }
        if let Some(offset) = command {
            self.state.command = offset + 1;
        }
    }

    /// A table comes into the configuration (again), pinned at a place: its rows count from there, by a reload.
    pub fn add(&mut self, table: NewTable, at: P) {
        let id = table.shape.id.clone();
        match self.table_mut(&id) {
            Some(known) if known.retired => known.retired = false,
            Some(_) => return,
            None => self.insert(unknown(&table)),
        }
        self.begin_at(at, table.shape, None);
    }

    /// A table goes out of the configuration. `shape`: its last known one. None: it is not captured, or not within a group.
    pub fn retire(&self, shape: Table) -> Option<Draft<P>> {
        (self.captures(&shape.id) && self.between_groups()).then(|| self.draft(EventKind::Retire, vec![(shape, Vec::new(), Vec::new())]))
    }

    /// The reload that is due where the stream stands now, if one is. Publish it before anything else is read.
    pub fn due(&self) -> Option<Draft<P>> {
        let begin = self.due_begin()?;
        Some(self.draft(EventKind::Reload, vec![(begin.shape.clone(), Vec::new(), begin.superseded.clone())]))
    }

    fn due_begin(&self) -> Option<&BeginProgress<P>> {
        let begins = self.busy().filter(|t| !t.retired).filter_map(|t| t.begin.as_deref());
        begins.filter(|begin| self.between_groups() && (self.reached)(&self.state.position, &begin.at)).last()
    }

    /// A reload is for one sink only where no copy for others is on its way, and nothing is skipped: neither statements that
    /// the source stood at, nor the rows up to a view's place.
    fn sole_sink(&self, shape: &Table, asked: Option<&str>, standing: &BTreeSet<TableId>) -> Option<String> {
        let running = self.table(&shape.id).and_then(|t| t.copy.as_ref());
        let others = running.is_some_and(|copy| copy.for_sink.as_deref() != asked);
        asked.filter(|_| !others && !standing.contains(&shape.id) && shape.row_key().is_some()).map(str::to_owned)
    }

    // ---- events

    pub(super) fn draft(&self, kind: EventKind, tables: Vec<(Table, Vec<SchemaChange>, Vec<SkippedStatement>)>) -> Draft<P> {
        let part = |(shape, changes, superseded): (Table, Vec<SchemaChange>, Vec<SkippedStatement>)| {
            let known = self.table(&shape.id)?;
            Some(DraftTable { topic: known.topic.clone(), lanes: known.lanes, version: known.version + 1, shape, changes, superseded })
        };
        Draft {
            kind,
            position: self.state.position.clone(),
            ts_ms: self.state.commit_ts_ms,
            ddl: None,
            for_sink: None,
            tables: tables.into_iter().filter_map(part).collect(),
            epoch: true,
            command: None,
        }
    }

    /// What an event changes in progress, all of it.
    pub(super) fn take_effect(&mut self, draft: &Draft<P>) {
        if let Some(offset) = draft.command {
            self.state.command = offset + 1;
        }
        if draft.epoch {
            self.state.epoch += 1;
        }
        for part in &draft.tables {
            self.table_effect(draft, part);
        }
        self.moved(draft.position.clone(), draft.ts_ms);
    }

    fn table_effect(&mut self, draft: &Draft<P>, part: &DraftTable) {
        let (reached, position) = (self.reached, self.state.position.clone());
        let invalidate = self.protections.has(Protection::ChunkPassed);
        let keep_view = self.views.get(&part.shape.id).is_some_and(|at| reached(&position, at)) && draft.command.is_none();
        let Some(known) = self.table_mut(&part.shape.id) else { return };
        known.version = part.version;
        match draft.kind {
            EventKind::Initial => {}
            EventKind::Ddl => {
                // What the stream had passed before is taken out already: the rest has met a change.
                if let Some(copy) = known.copy.as_mut().filter(|_| invalidate) {
                    copy.chunks.iter_mut().for_each(|chunk| chunk.read_at = None);
                    copy.reread.iter_mut().for_each(|reread| reread.read_at = None);
                }
            }
            EventKind::Reload => {
                known.begin = None;
                known.copy = Some(new_copy(&part.shape, draft.for_sink.clone()));
                if !keep_view {
                    self.views.remove(&part.shape.id);
                }
            }
            EventKind::Retire => {
                known.retired = true;
                known.copy = None;
                known.begin = None;
                self.views.remove(&part.shape.id);
            }
        }
    }
}

impl<P> Draft<P> {
    fn record_only(&mut self) {
        self.epoch = false;
        for table in &mut self.tables {
            table.version -= 1;
        }
    }
}

fn unknown<P>(table: &NewTable) -> TableProgress<P> {
    TableProgress {
        id: table.shape.id.clone(),
        version: 0,
        topic: table.topic.clone(),
        lanes: table.lanes,
        retired: false,
        copy: None,
        begin: None,
    }
}

fn new_copy<P>(shape: &Table, for_sink: Option<String>) -> CopyProgress<P> {
    CopyProgress { for_sink, view: shape.row_key().is_none(), ..CopyProgress::default() }
}
