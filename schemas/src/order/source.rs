//! The source's progress as a pure machine: what to publish, what to skip, when a copy is complete.
//!
//! A driver reads the log and the tables and publishes; this says what each of it means. Whatever changes here becomes
//! durable with the next [`Source::progress`] that is committed together with the rows it speaks of. What an event changes
//! ([`Draft`]) moves only in the transaction of that event: see `boundary`.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fmt::{Debug, Display},
};

use super::protection::{Protection, Protections};
use crate::{
    change::SchemaChange,
    event::{
        BeginProgress, ChunkProgress, CopyProgress, Epoch, EventKind, Offset, Progress, RereadProgress, Seq, SkippedStatement, SourceState,
        TableProgress, Version,
    },
    table::{Table, TableId},
};

/// The machine. `P` is the engine's position; `reached(a, b)` says whether everything up to `b` lies at or before `a`.
#[derive(Debug, Clone)]
pub struct Source<P> {
    pub(super) protections: Protections,
    reached: fn(&P, &P) -> bool,
    pub(super) state: Progress<P>,
    /// Open views of tables without a key, and where they stand. Lost in a crash: the copy begins again.
    views: BTreeMap<TableId, P>,
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

/// A part of a copy that is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// Exclusive below, inclusive above; None: open.
    Chunk { above: Option<Vec<String>>, up_to: Option<Vec<String>> },
    /// A single key.
    Key(Vec<String>),
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
            state: SourceState::Running,
            message: String::new(),
            ts_ms: 0,
            commit_ts_ms: 0,
        };
        let mut source = Self { protections: Protections::ALL, reached, state, views: BTreeMap::new() };
        for table in &tables {
            let copy = copy.then(|| new_copy(&table.shape, None));
            source.state.tables.insert(table.topic.clone(), TableProgress { copy, ..unknown(table) });
        }
        let shapes = tables.into_iter().map(|t| (t.shape, Vec::new(), Vec::new())).collect();
        let draft = source.draft(EventKind::Initial, shapes);
        (source, draft)
    }

    /// Goes on from the last committed progress. `parse` reads the engine's position.
    pub fn open<E>(progress: &Progress, parse: impl Fn(&String) -> Result<P, E>, reached: fn(&P, &P) -> bool) -> Result<Self, E> {
        Ok(Self { protections: Protections::ALL, reached, state: progress.places(&parse)?, views: BTreeMap::new() })
    }

    /// With some protections taken out: only to show that they are needed.
    #[must_use]
    pub fn protected_by(mut self, protections: Protections) -> Self {
        self.protections = protections;
        self
    }

    /// What to commit together with everything published so far.
    pub fn progress(&self, ts_ms: i64) -> Progress {
        let text = |place: &P| Ok::<_, Infallible>(place.to_string());
        let Ok(mut progress) = self.state.places(&text);
        progress.ts_ms = ts_ms;
        progress
    }

    /// The state, with typed positions.
    pub fn state(&self) -> &Progress<P> {
        &self.state
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
        self.state.table(table).is_some_and(|t| !t.retired)
    }

    // ---- stream

    /// Whether the stream may read on: not while an event or a view is due at this place. Ask after every commit entry.
    pub fn may_read(&self) -> bool {
        self.due_begin().is_none() && self.due_view().is_none()
    }

    /// What to do with rows of this table.
    pub fn rows(&self, table: &TableId) -> Rows {
        let Some(known) = self.state.table(table).filter(|t| !t.retired && t.begin.is_none() && t.version > 0) else { return Rows::Skip };
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
            let Some(known) = self.state.tables.values_mut().find(|t| t.id == *id && !t.retired) else { continue };
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
        match command {
            Command::Pause => self.set_state(SourceState::Paused, ""),
            Command::Resume => self.set_state(SourceState::Running, ""),
            Command::Accept { table } if standing.contains(table) => {
                self.state.command = offset + 1;
                return CommandStep::PassOver;
            }
            Command::Accept { .. } => {}
            Command::Reload { table, for_sink } => {
                let live = self.state.table(table).is_some_and(|t| !t.retired && t.begin.is_none());
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
        if let Some(known) = self.state.tables.values_mut().find(|t| t.id == shape.id && !t.retired) {
            known.copy = None;
            known.begin = Some(BeginProgress { at, shape, superseded: Vec::new() });
        }
        if let Some(offset) = command {
            self.state.command = offset + 1;
        }
    }

    /// A table comes into the configuration (again), pinned at a place: its rows count from there, by a reload.
    pub fn add(&mut self, table: NewTable, at: P) {
        let id = table.shape.id.clone();
        match self.state.tables.values_mut().find(|t| t.id == id) {
            Some(known) if known.retired => known.retired = false,
            Some(_) => return,
            None => drop(self.state.tables.insert(table.topic.clone(), unknown(&table))),
        }
        self.begin_at(at, table.shape, None);
    }

    /// A table goes out of the configuration. `shape`: its last known one. None: it is not captured.
    pub fn retire(&self, shape: Table) -> Option<Draft<P>> {
        self.captures(&shape.id).then(|| self.draft(EventKind::Retire, vec![(shape, Vec::new(), Vec::new())]))
    }

    /// The reload that is due where the stream stands now, if one is. Publish it before anything else is read.
    pub fn due(&self) -> Option<Draft<P>> {
        let begin = self.due_begin()?;
        Some(self.draft(EventKind::Reload, vec![(begin.shape.clone(), Vec::new(), begin.superseded.clone())]))
    }

    fn due_begin(&self) -> Option<&BeginProgress<P>> {
        let begins = self.state.tables.values().filter(|t| !t.retired).filter_map(|t| t.begin.as_ref());
        begins.filter(|begin| (self.reached)(&self.state.position, &begin.at)).last()
    }

    /// A reload is for one sink only where no copy for others is on its way, and nothing is skipped: neither statements that
    /// the source stood at, nor the rows up to a view's place.
    fn sole_sink(&self, shape: &Table, asked: Option<&str>, standing: &BTreeSet<TableId>) -> Option<String> {
        let running = self.state.table(&shape.id).and_then(|t| t.copy.as_ref());
        let others = running.is_some_and(|copy| copy.for_sink.as_deref() != asked);
        asked.filter(|_| !others && !standing.contains(&shape.id) && shape.row_key().is_some()).map(str::to_owned)
    }

    // ---- copy by key

    /// Tables whose copy is not complete.
    pub fn copying(&self) -> impl Iterator<Item = (&TableId, &CopyProgress<P>)> {
        self.state.tables.values().filter(|t| !t.retired && t.begin.is_none()).filter_map(|t| t.copy.as_ref().map(|copy| (&t.id, copy)))
    }

    /// The sink that the table's unfinished copy is for; None: all of them, or no copy. All rows of the table say so beside
    /// `copying`: a copied row is for that sink only, and only there may an update find its row missing.
    pub fn copy_for(&self, table: &TableId) -> Option<&str> {
        self.copy(table).and_then(|copy| copy.for_sink.as_deref())
    }

    fn copy(&self, table: &TableId) -> Option<&CopyProgress<P>> {
        self.copying().find(|(id, _)| *id == table).map(|(_, copy)| copy)
    }

    fn copy_mut(&mut self, table: &TableId) -> Option<&mut CopyProgress<P>> {
        self.state.tables.values_mut().find(|t| t.id == *table).and_then(|t| t.copy.as_mut())
    }

    /// Adds the chunk behind the last one planned; `up_to`: its inclusive upper bound, None: the rest of the table.
    pub fn planned(&mut self, table: &TableId, up_to: Option<Vec<String>>) {
        if let Some(copy) = self.copy_mut(table).filter(|copy| !copy.all_planned && !copy.view) {
            copy.chunks.push(ChunkProgress { above: copy.planned_to.clone(), up_to: up_to.clone(), read_at: None });
            copy.all_planned = up_to.is_none();
            copy.planned_to = up_to;
        }
    }

    /// The rows that the copy has to bring, by the server's estimate.
    pub fn estimated(&mut self, table: &TableId, rows: u64) {
        if let Some(copy) = self.copy_mut(table) {
            copy.rows_estimated = rows;
        }
    }

    /// What is planned and not read yet (or has to be read again), in order.
    pub fn unread(&self, table: &TableId) -> Vec<Unread> {
        let Some(copy) = self.copy(table) else { return Vec::new() };
        let chunk = |c: &ChunkProgress<P>| Unread::Chunk { above: c.above.clone(), up_to: c.up_to.clone() };
        let chunks = copy.chunks.iter().filter(|c| c.read_at.is_none()).map(chunk);
        chunks.chain(copy.reread.iter().filter(|r| r.read_at.is_none()).map(|r| Unread::Key(r.key.clone()))).collect()
    }

    /// A part was read and its rows were published behind everything else, while the stream stood; `read_at` was read after it.
    pub fn read(&mut self, table: &TableId, part: &Unread, read_at: P, rows: u64) {
        let Some(copy) = self.copy_mut(table) else { return };
        let place = match part {
            Unread::Chunk { above, up_to } => {
                copy.rows_done += rows;
                copy.chunks.iter_mut().find(|c| c.above == *above && c.up_to == *up_to).map(|c| &mut c.read_at)
            }
            Unread::Key(key) => copy.reread.iter_mut().find(|r| r.key == *key).map(|r| &mut r.read_at),
        };
        if let Some(place) = place {
            *place = Some(read_at);
        }
        self.pass_chunks();
    }

    /// A key change whose new row was not carried whole, during a copy: the new key is read as a chunk of its own.
    pub fn reread(&mut self, table: &TableId, key: Vec<String>) {
        if !self.protections.has(Protection::Reread) {
            return;
        }
        if let Some(copy) = self.copy_mut(table) {
            copy.reread.retain(|r| r.key != key);
            copy.reread.push(RereadProgress { key, read_at: None });
        }
    }

    /// What the stream has passed counts: it is taken out. A copy of which nothing is left is complete.
    fn pass_chunks(&mut self) {
        let (reached, position) = (self.reached, &self.state.position);
        let waits = |read_at: &Option<P>| read_at.as_ref().is_none_or(|at| !reached(position, at));
        for table in self.state.tables.values_mut() {
            if let Some(copy) = table.copy.as_mut().filter(|copy| !copy.view) {
                copy.chunks.retain(|chunk| waits(&chunk.read_at));
                copy.reread.retain(|reread| waits(&reread.read_at));
                if copy.all_planned && copy.chunks.is_empty() && copy.reread.is_empty() {
                    table.copy = None;
                }
            }
        }
    }

    // ---- copy without a key

    /// A view of a table without a key was opened, at this place: the stream goes on to it without the table's rows. False:
    /// the stream is past that place already (the log is ahead of what a view shows); open another.
    pub fn view_opened(&mut self, table: &TableId, at: P) -> bool {
        let usable = at == self.state.position || !(self.reached)(&self.state.position, &at);
        if usable {
            self.views.insert(table.clone(), at);
        }
        usable
    }

    /// Where the open view of a table stands.
    pub fn view(&self, table: &TableId) -> Option<&P> {
        self.views.get(table)
    }

    /// The view was lost (its connection ended): it has to be opened again.
    pub fn view_lost(&mut self, table: &TableId) {
        self.views.remove(table);
    }

    /// A table whose view stands where the stream stands: publish [`Source::view_event`], then the view's rows.
    pub fn due_view(&self) -> Option<TableId> {
        self.views.iter().find(|(_, at)| (self.reached)(&self.state.position, at)).map(|(table, _)| table.clone())
    }

    /// The emptying event before a view's rows; `shape`: the table's at this place.
    pub fn view_event(&self, shape: Table) -> Option<Draft<P>> {
        let copy = self.copy(&shape.id)?;
        if copy.rows_done > 0 && !self.protections.has(Protection::ViewEmpties) {
            return None;
        }
        let for_sink = copy.for_sink.clone();
        Some(Draft { for_sink, ..self.draft(EventKind::Reload, vec![(shape, Vec::new(), Vec::new())]) })
    }

    /// Rows of the view were published; `end`: the last of them, the copy is complete with the next commit.
    pub fn view_rows(&mut self, table: &TableId, rows: u64, end: bool) {
        if let Some(copy) = self.copy_mut(table) {
            copy.rows_done += rows;
        }
        if end {
            self.views.remove(table);
            if let Some(known) = self.state.tables.values_mut().find(|t| t.id == *table) {
                known.copy = None;
            }
        }
    }

    // ---- events

    fn draft(&self, kind: EventKind, tables: Vec<(Table, Vec<SchemaChange>, Vec<SkippedStatement>)>) -> Draft<P> {
        let part = |(shape, changes, superseded): (Table, Vec<SchemaChange>, Vec<SkippedStatement>)| {
            let known = self.state.table(&shape.id)?;
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
        let Some(known) = self.state.tables.values_mut().find(|t| t.id == part.shape.id) else { return };
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
    CopyProgress {
        for_sink,
        view: shape.row_key().is_none(),
        chunks: Vec::new(),
        planned_to: None,
        all_planned: false,
        reread: Vec::new(),
        rows_done: 0,
        rows_estimated: 0,
    }
}
