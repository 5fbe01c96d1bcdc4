//! The source process: carries out what `order::source` and `order::boundary` ask for.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{
    event::{Epoch, Version},
    order::{
        boundary::{Act, Boundary},
        protection::Protection,
        source::{Changed, Command, CommandStep, Draft, NewTable, Rows as Admitted, Source, Unread},
    },
    table::Table,
};

use crate::{
    database::{Change, Entry, KEYS, Op, Part, Rows, Value, as_change, shape, shape_of, version_of},
    task::pause,
    transport::{Fenced, Payload, Row, RowOp, Tx},
    world::Shared,
};

struct View {
    rows: Vec<Value>,
    version: u32,
}

pub struct Capture {
    w: Shared,
    me: usize,
    producer: u64,
    tx: Option<Tx>,
    source: Source<usize>,
    /// The shapes at the stream's position, as the schema versions give them.
    shapes: BTreeMap<usize, Table>,
    views: BTreeMap<usize, View>,
    standing: BTreeSet<usize>,
    /// A statement that was passed over, and for which table.
    passed: Option<(usize, usize)>,
}

fn reached(a: &usize, b: &usize) -> bool {
    a >= b
}

pub async fn run(w: Shared, me: usize) {
    if start(w.clone(), me).await.is_err() {
        w.log(|| format!("source{me}: fenced, ended"));
    }
}

async fn start(w: Shared, me: usize) -> Result<(), Fenced> {
    let read = |w: &Shared| w.transport.borrow().progress(w.progress()).cloned();
    let early = (!w.has(Protection::FenceFirst)).then(|| read(&w));
    if early.is_some() {
        pause().await;
    }
    let producer = w.transport.borrow_mut().init();
    w.newest_source.set(me);
    w.log(|| format!("source{me}: started"));
    pause().await;
    while !w.transport.borrow().late.is_empty() {
        pause().await;
    }
    let progress = early.unwrap_or_else(|| read(&w));
    let mut shapes = BTreeMap::new();
    let events: Vec<_> = w.transport.borrow().events(w.versions(), 0).map(|(_, event)| event.clone()).collect();
    for part in events.iter().flat_map(|event| &event.tables) {
        shapes.insert(w.index(&part.table.id), part.table.clone());
    }
    let (source, draft) = match progress {
        Some(progress) => {
            let progress = schemas::event::Progress::clone(&progress).complete(events.iter().map(AsRef::as_ref));
            let Ok(source) = Source::open(&progress, |p| p.parse::<usize>(), reached) else { unreachable!("a position is a number") };
            (source, None)
        }
        None => {
            let db = w.database.borrow();
            let table = |t: usize| NewTable { shape: db.table(&w.ids[t], t), topic: format!("{}", w.ids[t]), lanes: w.lanes[t] };
            let (source, draft) = Source::begin("sim", db.log.len(), (0..w.ids.len()).map(table).collect(), true, reached);
            (source, Some(draft))
        }
    };
    let source = source.protected_by(w.protections);
    let (views, standing) = (BTreeMap::new(), BTreeSet::new());
    let mut capture = Capture { w, me, producer, tx: None, source, shapes, views, standing, passed: None };
    if let Some(draft) = draft {
        capture.publish(draft).await?;
    }
    loop {
        capture.turn().await?;
        capture.report();
        pause().await;
    }
}

impl Capture {
    fn report(&self) {
        if self.w.newest_source.get() != self.me {
            return;
        }
        let state = self.source.state();
        let mut status = self.w.status.borrow_mut();
        status.position = *self.source.position();
        status.copying = self.source.copying().next().is_some() || state.tables.values().any(|t| t.begin.is_some());
        status.command = state.command;
        status.standing.clone_from(&self.standing);
        status.open = self.tx.is_some();
        status.paused = state.state == schemas::event::SourceState::Paused;
        let wanted = self.w.wanted.borrow();
        status.configured = (0..wanted.len()).all(|t| self.source.captures(&self.w.ids[t]) == wanted[t]);
    }

    async fn turn(&mut self) -> Result<(), Fenced> {
        let w = self.w.clone();
        let next = self.source.state().command as usize;
        let command = w.commands.borrow().get(next).cloned();
        if let Some(command) = command
            && w.chance(0.5)
        {
            return self.command(next as u64, &command).await;
        }
        if self.configure().await? {
            return Ok(());
        }
        if let Some(draft) = self.source.due() {
            return self.publish(draft).await;
        }
        if self.source.state().state == schemas::event::SourceState::Paused {
            return if w.chance(0.7) { self.commit().await } else { Ok(()) };
        }
        let copying: Vec<usize> = self.source.copying().map(|(id, _)| w.index(id)).collect();
        if !copying.is_empty() && w.chance(0.5) {
            let table = w.pick(&copying);
            return self.slice(table).await;
        }
        self.stream().await
    }

    // ---- transactions

    async fn begin(&mut self) -> Result<Tx, Fenced> {
        while self.w.transport.borrow().busy(self.producer) {
            pause().await;
        }
        let tx = match self.tx {
            Some(tx) => tx,
            None => self.w.transport.borrow_mut().begin(self.producer)?,
        };
        self.tx = Some(tx);
        Ok(tx)
    }

    fn produce(&self, tx: Tx, partition: usize, payload: Payload) -> Result<(), Fenced> {
        self.w.transport.borrow_mut().produce(&mut self.w.random(), self.producer, tx, partition, payload)
    }

    async fn commit(&mut self) -> Result<(), Fenced> {
        let w = self.w.clone();
        let Some(mut tx) = self.tx else { return Ok(()) };
        if !w.has(Protection::RowsWithProgress) {
            tx = self.split(tx).await?;
        }
        let progress = self.source.progress(0);
        self.produce(tx, w.progress(), Payload::Progress(progress.into()))?;
        pause().await;
        w.transport.borrow_mut().commit(self.producer, tx)?;
        self.tx = None;
        pause().await;
        Ok(())
    }

    /// Only without protection: what was published and what follows are two transactions.
    async fn split(&mut self, tx: Tx) -> Result<Tx, Fenced> {
        self.w.transport.borrow_mut().commit(self.producer, tx)?;
        self.tx = None;
        pause().await;
        self.begin().await
    }

    async fn publish(&mut self, draft: Draft<usize>) -> Result<(), Fenced> {
        let w = self.w.clone();
        let mut boundary = Boundary::new(&mut self.source, draft);
        loop {
            match boundary.act() {
                Act::Commit => {
                    self.commit().await?;
                    boundary.committed();
                }
                Act::Register(table) => {
                    pause().await;
                    boundary.registered(table, Some(1), 1);
                }
                Act::Ends(table) => {
                    let t = boundary.table(table).map_or(0, |part| w.index(&part.table.id));
                    let ends = (0..w.lanes[t]).map(|l| w.transport.borrow().partitions[w.partition(t, l)].end()).collect();
                    boundary.ends(table, ends);
                    pause().await;
                }
                Act::Publish => break,
            }
        }
        let mut tx = self.begin().await?;
        let Some((event, after)) = boundary.publish(&self.source) else { unreachable!("the boundary says so") };
        w.log(|| {
            let parts: Vec<_> = event.tables.iter().map(|t| (t.table.id.to_string(), &t.changes, &t.boundaries)).collect();
            format!("source{}: E{:?} {:?} {parts:?} position {}", self.me, event.epoch, event.kind, event.position)
        });
        for part in &event.tables {
            self.shapes.insert(w.index(&part.table.id), part.table.clone());
        }
        self.produce(tx, w.versions(), Payload::Event(event.into()))?;
        if !w.has(Protection::EventWithProgress) {
            tx = self.split(tx).await?;
        }
        self.tx = Some(tx);
        self.source = after;
        self.views.retain(|t, _| self.source.view(&w.ids[*t]).is_some());
        self.commit().await
    }

    // ---- commands and configuration

    async fn command(&mut self, offset: u64, command: &Command) -> Result<(), Fenced> {
        let w = self.w.clone();
        w.log(|| format!("source{}: command {command:?}", self.me));
        let standing: BTreeSet<_> = self.standing.iter().map(|t| w.ids[*t].clone()).collect();
        let table = match command {
            Command::Reload { table, .. } | Command::Accept { table } => Some(w.index(table)),
            Command::Pause | Command::Resume => None,
        };
        let stood = table.is_some_and(|t| self.standing.contains(&t));
        let shape = table.and_then(|t| if stood { Some(w.database.borrow().table(&w.ids[t], t)) } else { self.shapes.get(&t).cloned() });
        match self.source.command(offset, command, &standing, shape.as_ref()) {
            CommandStep::Later => self.stream().await,
            CommandStep::Taken => {
                // So that it is durable on a quiet source too.
                self.begin().await?;
                self.commit().await
            }
            CommandStep::Event(draft) => {
                let position = *self.source.position();
                self.publish(draft).await?;
                if let Some(t) = table.filter(|_| stood) {
                    self.passed = Some((position, t));
                }
                Ok(())
            }
            CommandStep::Pin => {
                let t = table.unwrap_or(0);
                let (at, shape) = {
                    let db = w.database.borrow();
                    (db.log.len(), db.table(&w.ids[t], t))
                };
                self.source.begin_at(at, shape, Some(offset));
                self.standing.remove(&t);
                self.views.remove(&t);
                Ok(())
            }
            CommandStep::PassOver => {
                self.passed = table.map(|t| (*self.source.position(), t));
                Ok(())
            }
        }
    }

    /// Whether something was done about the configuration.
    async fn configure(&mut self) -> Result<bool, Fenced> {
        let w = self.w.clone();
        let wanted = w.wanted.borrow().clone();
        for (t, wanted) in wanted.into_iter().enumerate() {
            let id = &w.ids[t];
            if wanted == self.source.captures(id) {
                continue;
            }
            if wanted {
                let (at, shape) = {
                    let db = w.database.borrow();
                    (db.log.len(), db.table(id, t))
                };
                w.log(|| format!("source{}: {id} is added, to begin at {at}", self.me));
                self.source.add(NewTable { shape, topic: id.to_string(), lanes: w.lanes[t] }, at);
            } else if let Some(draft) = self.shapes.get(&t).cloned().and_then(|shape| self.source.retire(shape)) {
                self.publish(draft).await?;
                self.views.remove(&t);
            }
            return Ok(self.source.between_groups());
        }
        Ok(false)
    }

    // ---- stream

    fn record(
        &mut self,
        tx: Tx,
        t: usize,
        (epoch, version, copying): (Epoch, Version, bool),
        key: u8,
        op: RowOp,
        value: Option<Value>,
    ) -> Result<(), Fenced> {
        let seq = self.source.next_seq();
        let lane = u32::from(key) % self.w.lanes[t];
        let for_sink = self.source.copy_for(&self.w.ids[t]).map(str::to_owned);
        let row = Row { epoch, seq, op, key, value, version, copying, for_sink };
        self.produce(tx, self.w.partition(t, lane), Payload::Row(row.into()))
    }

    async fn stream(&mut self) -> Result<(), Fenced> {
        let w = self.w.clone();
        let position = *self.source.position();
        let entry = w.database.borrow().log.get(position).cloned();
        match entry.filter(|_| self.source.may_read()) {
            None => {
                if w.chance(0.7) {
                    self.commit().await?;
                }
                Ok(())
            }
            Some(Entry::Rows(group)) => {
                let done = self.source.state().rows_done as usize;
                if let Some(change) = group.get(done) {
                    self.row(*change).await?;
                    self.source.group_rows(1);
                }
                if done + 1 >= group.len() {
                    self.source.moved(position + 1, 0);
                }
                if w.chance(0.4) {
                    self.commit().await?;
                }
                Ok(())
            }
            Some(Entry::Statement(parts)) => self.statement(position, parts).await,
        }
    }

    async fn row(&mut self, Change { table: t, op, key, value, version }: Change) -> Result<(), Fenced> {
        let w = self.w.clone();
        let id = &w.ids[t];
        let Admitted::Publish { epoch, version: published, copying } = self.source.rows(id) else { return Ok(()) };
        if self.shapes.get(&t).map(version_of) != Some(version) {
            w.violated(format!("the source decodes a row of {id} at shape {version} with {:?}", self.shapes.get(&t).map(version_of)));
        }
        let tx = self.begin().await?;
        let under = (epoch, published, copying);
        match op {
            Op::Create => self.record(tx, t, under, key, RowOp::Create, Some(value)),
            Op::Update => self.record(tx, t, under, key, RowOp::Update, Some(value)),
            Op::PartialUpdate => self.record(tx, t, under, key, RowOp::PartialUpdate, Some(value)),
            Op::Delete => self.record(tx, t, under, key, RowOp::Delete, Some(value)),
            Op::Move(to) | Op::PartialMove(to) if !w.has(Protection::KeySplit) => {
                let op = if matches!(op, Op::Move(_)) { RowOp::Update } else { RowOp::PartialUpdate };
                self.record(tx, t, under, to, op, Some(value))
            }
            Op::Move(to) => {
                self.record(tx, t, under, key, RowOp::Delete, Some(value))?;
                self.record(tx, t, under, to, RowOp::Create, Some(value))
            }
            Op::PartialMove(to) => {
                self.record(tx, t, under, key, RowOp::Delete, Some(value))?;
                if copying {
                    self.source.reread(id, vec![to.to_string()]);
                }
                self.record(tx, t, under, to, RowOp::PartialCreate, Some(value))
            }
        }
    }

    async fn statement(&mut self, position: usize, parts: Vec<Part>) -> Result<(), Fenced> {
        let w = self.w.clone();
        let live =
            |c: &Self, t: usize| c.source.captures(&w.ids[t]) && c.source.state().table(&w.ids[t]).is_some_and(|p| p.begin.is_none());
        let unknown = |p: &Part| p.kind == crate::database::Kind::Unknown;
        let stands: BTreeSet<usize> = parts
            .iter()
            .filter(|p| unknown(p) && live(self, p.table) && self.passed != Some((position, p.table)))
            .map(|p| p.table)
            .collect();
        if !stands.is_empty() {
            self.commit().await?;
            self.standing = stands;
            return Ok(());
        }
        self.standing.clear();
        let changed: Vec<Changed> = parts
            .iter()
            .filter(|p| !(unknown(p) && live(self, p.table)))
            .map(|p| Changed {
                shape: shape(&w.ids[p.table], w.keyless[p.table], p.version, p.shape),
                changes: vec![as_change(p)],
                epoch: p.kind != crate::database::Kind::Comment,
            })
            .collect();
        match self.source.statement(position + 1, 0, "", changed) {
            Some(draft) => self.publish(draft).await,
            None => Ok(()),
        }
    }

    // ---- copy

    async fn slice(&mut self, t: usize) -> Result<(), Fenced> {
        let w = self.w.clone();
        let id = &w.ids[t];
        if w.keyless[t] {
            return self.view(t).await;
        }
        let plan = self.source.copying().find(|(i, _)| *i == id).filter(|(_, c)| !c.all_planned).map(|(_, c)| c.planned_to.is_none());
        if let Some(first) = plan {
            self.source.planned(id, first.then(|| vec!["1".to_owned()]));
        }
        let todo = self.source.unread(id);
        if todo.is_empty() {
            return self.stream().await;
        }
        let part = todo[w.below(todo.len())].clone();
        let expected = self.shapes.get(&t).map_or(0, shape_of);
        let guarded = w.has(Protection::ShapeCheck);
        let live = |w: &Shared| w.database.borrow().shape[t];
        if guarded && live(&w) != expected {
            return self.stream().await;
        }
        pause().await;
        while w.database.borrow().seen < *self.source.position() && w.has(Protection::ViewCovers) {
            pause().await;
        }
        let (rows, read_under) = (chunk(w.database.borrow().select(t), &part), live(&w));
        pause().await;
        if guarded && live(&w) != expected {
            w.log(|| format!("source{}: {part:?} of {id} thrown away", self.me));
            return Ok(());
        }
        if read_under != expected {
            w.violated(format!("a chunk of {id} was read under shape {read_under}, published as {expected}"));
        }
        let read_at = w.database.borrow().log.len();
        if !w.has(Protection::Stand) {
            let turns = w.below(4);
            for _ in 0..turns {
                self.stream().await?;
            }
            if !self.source.unread(id).contains(&part) {
                return Ok(());
            }
        }
        let Admitted::Publish { epoch, version, copying } = self.source.rows(id) else { return Ok(()) };
        let tx = self.begin().await?;
        w.log(|| format!("source{}: {part:?} of {id} read at {read_at}, stream at {}: {rows:?}", self.me, self.source.position()));
        let count = rows.len() as u64;
        for (key, value) in rows {
            self.record(tx, t, (epoch, version, copying), key, RowOp::Read, Some(value))?;
        }
        self.source.read(id, &part, read_at, count);
        self.commit().await
    }

    /// A table without a key: one view at P; the stream goes on to P; emptying event and rows there; then on from P.
    async fn view(&mut self, t: usize) -> Result<(), Fenced> {
        let w = self.w.clone();
        let id = &w.ids[t];
        let Some(view) = self.views.get(&t) else {
            let (at, rows, version) = {
                let db = w.database.borrow();
                (db.seen, flat(db.select(t)), db.version[t])
            };
            if self.source.view_opened(id, at) {
                w.log(|| format!("source{}: view of {id} at {at}", self.me));
                self.views.insert(t, View { rows, version });
                return Ok(());
            }
            return self.stream().await;
        };
        let (rows, version, known) = (view.rows.clone(), view.version, self.shapes.get(&t).map(version_of));
        if self.source.due_view().as_ref() != Some(id) {
            if w.has(Protection::ViewPosition) {
                return self.stream().await;
            }
            if Some(version) != known {
                self.source.view_lost(id);
                self.views.remove(&t);
                return self.stream().await;
            }
        }
        let Some(shape) = self.shapes.get(&t).cloned() else { return Ok(()) };
        if let Some(draft) = self.source.view_event(shape) {
            self.publish(draft).await?;
        }
        let (epoch, version) = (self.source.state().epoch, self.source.state().table(id).map_or(0, |p| p.version));
        let half = rows.len() / 2;
        for (part, end) in [(&rows[..half], false), (&rows[half..], true)] {
            let tx = self.begin().await?;
            for value in part {
                self.record(tx, t, (epoch, version, true), 0, RowOp::Read, Some(*value))?;
            }
            self.source.view_rows(id, part.len() as u64, end);
            self.commit().await?;
        }
        self.views.remove(&t);
        Ok(())
    }
}

fn chunk(rows: &Rows, part: &Unread) -> Vec<(u8, Value)> {
    let Rows::Keyed(rows) = rows else { return Vec::new() };
    let number = |key: &Option<Vec<String>>| key.as_ref().and_then(|k| k.first()).and_then(|k| k.parse::<u8>().ok());
    let (low, high) = match part {
        Unread::Chunk { above, up_to } => (number(above).map_or(0, |k| k + 1), number(up_to).unwrap_or(KEYS)),
        Unread::Key(key) => {
            let key = number(&Some(key.clone())).unwrap_or(0);
            (key, key)
        }
    };
    rows.range(low..=high).map(|(k, v)| (*k, *v)).collect()
}

fn flat(rows: &Rows) -> Vec<Value> {
    match rows {
        Rows::Bag(rows) => rows.iter().flat_map(|(v, n)| std::iter::repeat_n(*v, *n as usize)).collect(),
        Rows::Keyed(rows) => rows.values().copied().collect(),
    }
}
