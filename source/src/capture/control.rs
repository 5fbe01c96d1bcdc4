//! What people ask for: operator commands, and tables that a changed configuration adds or takes out.

use std::collections::BTreeSet;

use runtime::config::TruncateEvents;
use schemas::{
    change::SchemaChange,
    command::Command,
    event::{Offset, SourceState},
    order::source::{Changed, Command as Step, CommandStep, Draft, NewTable},
    table::TableId,
    wire::names,
};
use tokio::time::Instant;

use super::session::{Accepted, Session, Stop};
use crate::{
    engine::{Engine, Statement, Stream},
    error::CaptureError,
    publisher::Publisher,
};

impl<E: Engine, P: Publisher> Session<'_, E, P> {
    /// Retires and adds tables, as the configuration says since the last start.
    pub async fn take_configuration(&mut self) -> Result<(), CaptureError> {
        if !self.leaving.is_empty() {
            // Perhaps that leads out.
            self.go_on();
        }
        for table in std::mem::take(&mut self.leaving) {
            let begins = self.source.table(&table).and_then(|t| t.begin.as_ref()).map(|b| b.shape.clone());
            let shape = self.shapes.get(&table).map(|c| c.published.shape.clone()).or(begins);
            let draft = shape.and_then(|shape| self.source.retire(shape));
            self.stream.release(&table);
            if let Some(draft) = draft {
                self.publish_event(draft).await?;
            }
        }
        let joining = std::mem::take(&mut self.joining);
        if joining.is_empty() {
            return Ok(());
        }
        let (at, shapes) = self.tools.engine.pinned(&joining).await?;
        for shape in shapes {
            let topic = names::topic(&self.tools.settings.prefix, &shape.id);
            let wanted = match self.source.table(&shape.id) {
                Some(known) => Some(known.lanes),
                None => (!shape.spreads()).then_some(1),
            };
            let lanes = self.tools.publisher.topic(&topic, wanted).await?.lanes;
            self.stream.skip(shape.clone(), at.clone());
            self.source.add(NewTable { shape, topic, lanes }, at.clone());
        }
        self.commit().await
    }

    /// Takes the commands that have come.
    pub async fn take_commands(&mut self) -> Result<(), CaptureError> {
        if Instant::now() < self.next_poll && self.dropped.is_empty() {
            return Ok(());
        }
        self.next_poll = Instant::now() + self.tools.settings.poll;
        // An accepted statement is passed first: until then nothing may become durable.
        if self.stood || self.accepted.is_some() {
            return Ok(());
        }
        let from = self.source.state().command;
        let commands = self.tools.publisher.commands(from).await?;
        for (offset, record) in commands {
            match Command::parse(&record) {
                Ok(command) => {
                    tracing::info!(?command, offset, "command");
                    self.take_command(offset, command).await?;
                }
                Err(problem) => {
                    tracing::warn!(offset, problem, "a record of the commands topic is no command and is passed over");
                    self.take_nothing(offset);
                }
            }
            self.dirty = true;
            if self.accepted.is_some() {
                break;
            }
        }
        if self.dirty && from != self.source.state().command {
            self.commit().await?;
        }
        Ok(())
    }

    async fn take_command(&mut self, offset: Offset, command: Command) -> Result<(), CaptureError> {
        match command {
            Command::Pause => self.step(offset, &Step::Pause),
            Command::Resume => {
                self.step(offset, &Step::Resume);
                if let Some(standing) = &self.standing {
                    self.source.set_state(SourceState::Stopped, standing.message.clone());
                }
            }
            Command::Reload { table, sink } => self.reload(offset, table.as_deref(), sink).await?,
            Command::Accept { table, at, by } => self.accept(offset, table.as_deref(), at.as_deref(), by),
        }
        self.leave_stand().await
    }

    /// It stood, and does not any more.
    pub fn go_on(&mut self) {
        self.stood = false;
        if self.source.state().state == SourceState::Stopped {
            self.source.set_state(SourceState::Running, "");
        }
    }

    /// A command of which the state machine alone makes something.
    fn step(&mut self, offset: Offset, step: &Step) {
        let standing = BTreeSet::new();
        let _taken = self.source.command(offset, step, &standing, None);
    }

    /// The command asks for nothing that can be done.
    fn take_nothing(&mut self, offset: Offset) {
        self.step(offset, &Step::Accept { table: TableId::new("", "") });
    }

    /// The captured tables that a command names; without a name all of them.
    fn named(&self, table: Option<&str>) -> Vec<TableId> {
        let live = self.source.state().tables.values().filter(|t| !t.retired && t.begin.is_none());
        live.map(|t| t.id.clone()).filter(|id| table.is_none_or(|name| id.to_string() == name)).collect()
    }

    async fn reload(&mut self, offset: Offset, table: Option<&str>, sink: Option<String>) -> Result<(), CaptureError> {
        let tables = self.named(table);
        if tables.is_empty() {
            tracing::warn!(table, "nothing to reload: the table is not captured, or is about to begin anew");
            self.take_nothing(offset);
            return Ok(());
        }
        let mut standing = self.dropped.clone();
        standing.extend(self.standing.iter().flat_map(|s| s.tables.iter().cloned()));
        let (mut event, mut pins): (Option<Draft<E::Position>>, Vec<TableId>) = (None, Vec::new());
        for table in tables {
            let step = Step::Reload { table: table.clone(), for_sink: sink.clone() };
            let shape = self.shapes.get(&table).map(|c| &c.published.shape);
            match self.source.command(offset, &step, &standing, shape) {
                CommandStep::Event(draft) => match &mut event {
                    None => event = Some(draft),
                    Some(event) => {
                        event.tables.extend(draft.tables);
                        if event.for_sink != draft.for_sink {
                            event.for_sink = None;
                        }
                    }
                },
                CommandStep::Pin => pins.push(table),
                CommandStep::Later => return Ok(()),
                CommandStep::Taken | CommandStep::PassOver => {}
            }
        }
        // The command is taken by the event where there is one, for then all of it is done.
        let taken_by_pin = event.is_none().then_some(offset);
        self.pin(&pins, taken_by_pin).await?;
        match event {
            Some(draft) => {
                for table in &draft.tables {
                    self.copier.forget(&table.shape.id);
                }
                self.publish_event(draft).await
            }
            None => Ok(()),
        }
    }

    /// Tables whose shape the log does not tell begin anew where it is pinned.
    async fn pin(&mut self, tables: &[TableId], command: Option<Offset>) -> Result<(), CaptureError> {
        if tables.is_empty() {
            return Ok(());
        }
        let (at, shapes) = self.tools.engine.pinned(tables).await?;
        for shape in shapes {
            let id = shape.id.clone();
            self.copier.forget(&id);
            self.stream.skip(shape.clone(), at.clone());
            self.source.begin_at(at.clone(), shape.clone(), command);
            self.dropped.remove(&id);
            let Some(standing) = &mut self.standing else { continue };
            if let (true, Stop::Statement { position, ddl: Some(ddl) }) = (standing.tables.remove(&id), &standing.at) {
                // The reload's event names what it passes over.
                let changed = vec![Changed { shape, changes: Vec::new(), epoch: true }];
                let ts_ms = self.source.state().commit_ts_ms;
                let _superseded = self.source.statement(position.clone(), ts_ms, ddl, changed);
            }
        }
        Ok(())
    }

    fn accept(&mut self, offset: Offset, table: Option<&str>, at: Option<&str>, by: Option<String>) {
        let here = self.source.position().to_string();
        if at.is_some_and(|at| at != here) {
            tracing::warn!(at, here, "what was accepted is not what the source stands at: it is passed over");
            return self.take_nothing(offset);
        }
        let Some(standing) = &mut self.standing else { return self.take_nothing(offset) };
        let named = |id: &&TableId| table.is_none_or(|name| id.to_string() == name);
        let tables: Vec<TableId> = standing.tables.iter().filter(named).cloned().collect();
        let (position, ddl) = match &mut standing.at {
            Stop::Statement { ddl: None, .. } => {
                tracing::warn!(
                    "accept is for statements: the source stands at rows or at a gap, where only a reload or a removal leads on"
                );
                return self.take_nothing(offset);
            }
            Stop::Statement { position, ddl } => (position.clone(), ddl.clone()),
            Stop::Refused(statement) => {
                statement.tables.retain(|t| !tables.contains(&t.id));
                standing.tables.retain(|t| !tables.contains(t));
                return self.take_nothing(offset);
            }
            Stop::Row | Stop::Large { .. } => return self.take_nothing(offset),
        };
        let standing_tables = standing.tables.clone();
        standing.tables.retain(|t| !tables.contains(t));
        for table in &tables {
            let _passed_over = self.source.command(offset, &Step::Accept { table: table.clone() }, &standing_tables, None);
            if let Some(captured) = self.shapes.get(table) {
                self.stream.skip(captured.published.shape.clone(), position.clone());
            }
        }
        if tables.is_empty() {
            return self.take_nothing(offset);
        }
        // Taken for good only when the stream is behind the statement: a restart before that stands again.
        self.withheld = true;
        match &mut self.accepted {
            Some(accepted) => accepted.tables.extend(tables),
            None => self.accepted = Some(Accepted { ddl, tables, by }),
        }
    }

    /// Goes on where no table needs a way out any more.
    async fn leave_stand(&mut self) -> Result<(), CaptureError> {
        let Some(standing) = self.standing.take_if(|s| s.tables.is_empty()) else { return Ok(()) };
        self.go_on();
        match standing.at {
            Stop::Refused(statement) => self.take_accepted(statement).await,
            Stop::Statement { .. } | Stop::Row | Stop::Large { .. } => Ok(()),
        }
    }

    /// The statement that the configuration refused, of which nothing is left but tables that are passed over.
    async fn take_accepted(&mut self, statement: Statement<E::Position>) -> Result<(), CaptureError> {
        self.take_statement(statement).await
    }

    /// Records a statement that was accepted, when the position has moved behind it.
    pub async fn record_accepted(&mut self) -> Result<(), CaptureError> {
        let Some(accepted) = self.accepted.take() else { return Ok(()) };
        let by = accepted.by.as_deref().unwrap_or("the operator");
        let why = format!("accepted by {by}: no effect on this table");
        let changed = accepted.tables.iter().filter_map(|id| self.shapes.get(id)).map(|captured| Changed {
            shape: captured.published.shape.clone(),
            changes: vec![SchemaChange::Unknown { why: why.clone() }],
            epoch: false,
        });
        let changed = changed.collect();
        let (position, ts_ms) = (self.source.position().clone(), self.source.state().commit_ts_ms);
        match self.source.statement(position, ts_ms, accepted.ddl.as_deref().unwrap_or_default(), changed) {
            Some(draft) => self.publish_event(draft).await,
            None => Ok(()),
        }
    }

    /// Where the source stands in the middle of a group: whether a reload of that table is asked for. The group then goes on without
    /// it, and the command is taken at its end.
    pub async fn look_for_reload(&mut self) -> Result<bool, CaptureError> {
        let Some(standing) = &self.standing else { return Ok(false) };
        if Instant::now() < self.next_poll {
            return Ok(false);
        }
        let commands = self.tools.publisher.commands(self.source.state().command).await?;
        self.next_poll = Instant::now() + self.tools.settings.poll;
        let asked = |id: &TableId| commands.iter().any(|(_, record)| Command::parse(record).is_ok_and(|command| command.reloads(id)));
        if !standing.tables.iter().all(asked) {
            return Ok(false);
        }
        let tables: Vec<TableId> = standing.tables.iter().cloned().collect();
        if matches!(standing.at, Stop::Statement { .. }) {
            // Only to go on: the place where they begin anew is fixed when the command is taken.
            let (at, shapes) = self.tools.engine.pinned(&tables).await?;
            shapes.into_iter().for_each(|shape| self.stream.skip(shape, at.clone()));
        }
        self.dropped.extend(tables);
        self.standing = None;
        self.withheld = true;
        self.go_on();
        Ok(true)
    }

    /// Why the configuration stops at a statement.
    pub fn refusal(&self, statement: &Statement<E::Position>) -> Option<String> {
        match self.tools.settings.truncate {
            TruncateEvents::Publish => None,
            TruncateEvents::Stop => {
                let empties = |t: &&crate::engine::StatementTable| t.changes.contains(&SchemaChange::TruncateTable) && self.is_live(&t.id);
                let table = statement.tables.iter().find(empties)?;
                Some(format!("{} empties {} and topics.truncate is `stop`", statement.ddl, table.id))
            }
        }
    }
}
