//! Puts the log's events together to groups: what is published is known to be committed. Pure, but for the file of [`kept::Store`].

mod begin;
mod kept;
mod prepared;
mod statement;
mod table;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    path::PathBuf,
    sync::Arc,
};

use schemas::table::{Table, TableId};

use self::{
    begin::{Group, Identity},
    kept::{Kept, Store},
    prepared::{Again, Prepared},
    table::Mapped,
};
use super::{
    decode::{
        Malformed,
        cursor::Cursor,
        format,
        gtid::MySqlGtid,
        query::Form,
        rows::{Kind, Rows},
        xid::Prepare,
    },
    event::{Event, IGNORABLE, behind, kind},
    mapping::Mapping,
    position::{Gtids, Open, Position},
    server::Server,
    shapes::{Shapes, names},
};
use crate::{engine::Entry, error::CaptureError};

/// A group up to this many bytes is kept back until its end is known; a larger one is passed on while it is read. Groups that may not
/// be passed on together have this much memory; what is beyond it is in a file.
const KEPT_BACK: usize = 8 << 20;

/// What is complete.
#[derive(Debug)]
enum Ready {
    Entry(Entry<Position, Rows>),
    Rows(Decided),
}

/// Rows of a group whose end is known.
#[derive(Debug)]
struct Decided {
    rows: Kept,
    /// Tables whose rows are published.
    tables: BTreeSet<TableId>,
    transaction: Option<String>,
    ts_ms: i64,
}

/// The stream's state between two events.
#[derive(Debug)]
pub struct Groups {
    server: Arc<Server>,
    require_metadata: bool,
    pub shapes: Shapes,
    /// Behind the last whole group.
    position: Position,
    file: String,
    offset: u64,
    /// In the file where the position lies, groups come from here on; events tell the lower half of their offsets only.
    resumed_at: Option<u64>,
    maps: HashMap<u64, Mapped>,
    group: Option<Group>,
    store: Store,
    prepared: Prepared,
    /// What is read again, where the stream began before the position.
    again: Option<Again>,
    ready: VecDeque<Ready>,
    /// The event the stream stands at.
    standing: Option<Event>,
}

/// What an event that is not consumed leaves behind.
enum Halt {
    Stand { tables: Vec<TableId>, ddl: Option<String>, message: String },
    Failed(CaptureError),
}

impl From<Malformed> for Halt {
    fn from(malformed: Malformed) -> Self {
        Halt::Failed(CaptureError::Stop { message: malformed.to_string() })
    }
}

type Step = Result<(), Halt>;

impl Groups {
    /// `folder` takes what does not fit in memory.
    pub fn new(server: Arc<Server>, require_metadata: bool, from: Position, tables: Vec<Table>, mapping: Mapping, folder: PathBuf) -> Self {
        let mut shapes = Shapes::new(server.full_metadata, mapping);
        shapes.capture(tables);
        let again = from.open.clone().map(|open| Again::new(open, &from, from.server == server.identity));
        let (file, offset) = match &from.open {
            Some(Open { gtids: Gtids::None, file, offset }) => (file.clone(), *offset),
            Some(Open { gtids: Gtids::MySql(_) | Gtids::MariaDb(_), .. }) | None => (from.file.clone(), from.offset),
        };
        Self {
            server,
            require_metadata,
            shapes,
            position: from,
            file,
            offset,
            resumed_at: None,
            maps: HashMap::new(),
            group: None,
            store: Store::new(folder, KEPT_BACK),
            prepared: Prepared::default(),
            again,
            ready: VecDeque::new(),
            standing: None,
        }
    }

    pub fn position(&self) -> &Position {
        &self.position
    }

    /// Gives the shapes of tables that are not captured, as they are at `at`.
    pub fn learn(&mut self, at: Position, tables: Vec<Table>) {
        self.shapes.learn(at, tables);
        self.shapes.arrive(&self.position);
    }

    /// Passes over a table up to `until`; where the stream is there already, over the statement that it stands at, if it stands at one.
    pub fn skip(&mut self, table: Table, until: Position) {
        if until == self.position && self.stands_at_statement() {
            self.shapes.pass(table.id);
            return;
        }
        self.shapes.skip(table, until);
        self.shapes.arrive(&self.position);
    }

    /// The next entry that is complete.
    ///
    /// # Errors
    /// Where rows that were kept cannot be read again.
    pub fn pop(&mut self) -> Result<Option<Entry<Position, Rows>>, CaptureError> {
        while let Some(Ready::Rows(decided)) = self.ready.front_mut() {
            let Some(rows) = decided.rows.next(&mut self.store)? else {
                self.ready.pop_front();
                continue;
            };
            if decided.tables.contains(&rows.map.table) {
                return Ok(Some(Entry::Rows {
                    table: rows.map.table.clone(),
                    position: rows.position.clone(),
                    transaction: decided.transaction.clone(),
                    ts_ms: decided.ts_ms,
                    rows,
                }));
            }
        }
        Ok(self.ready.pop_front().and_then(|ready| match ready {
            Ready::Entry(entry) => Some(entry),
            Ready::Rows(_) => None,
        }))
    }

    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    fn stands_at_statement(&self) -> bool {
        let statements = [kind::QUERY, kind::QUERY_COMPRESSED, kind::EXECUTE_LOAD_QUERY];
        self.standing.as_ref().is_some_and(|event| statements.contains(&event.kind))
    }

    /// The event that the stream stood at, to be judged again.
    pub fn resume(&mut self) -> Option<Event> {
        self.standing.take()
    }

    /// Takes one event. What it completes is there for [`Self::pop`]; `now_ms` is the time for heartbeats.
    pub fn event(&mut self, event: Event, now_ms: i64) -> Result<(), CaptureError> {
        let begins_group = [kind::GTID, kind::GTID_TAGGED, kind::MARIADB_GTID].contains(&event.kind);
        if begins_group && let Some(offset) = self.resumed_at.take() {
            self.offset = self.offset.max(offset);
        }
        if !event.unpacked && event.log_pos != 0 && event.kind != kind::ROTATE {
            self.offset = behind(self.offset, event.log_pos);
        }
        match self.step(&event, now_ms) {
            Ok(()) => {
                self.shapes.passed();
                Ok(())
            }
            Err(Halt::Failed(CaptureError::Stop { message })) => {
                Err(CaptureError::Stop { message: format!("{message}, at {}", self.place(&event)) })
            }
            Err(Halt::Failed(error)) => Err(error),
            Err(Halt::Stand { tables, ddl, message }) => {
                let message = format!("{message}; the source stands before {}", self.place(&event));
                self.standing = Some(event);
                self.ready.push_back(Ready::Entry(Entry::Stand { position: self.position.clone(), ddl, tables, message }));
                Ok(())
            }
        }
    }

    /// Where an event that is not taken yet begins, for people.
    pub fn place_ahead(&self, log_pos: u32, size: u32) -> String {
        let end = if log_pos == 0 { self.offset } else { behind(self.offset, log_pos) };
        format!("{}:{}", self.file, end.saturating_sub(u64::from(size)))
    }

    /// Where an event begins, for people.
    fn place(&self, event: &Event) -> String {
        let size = if event.unpacked || event.log_pos == 0 { 0 } else { u64::from(event.size) };
        format!("{}:{}", self.file, self.offset.saturating_sub(size))
    }

    fn step(&mut self, event: &Event, now_ms: i64) -> Step {
        match event.kind {
            kind::ROTATE => self.rotate(event),
            kind::FORMAT_DESCRIPTION => {
                format::check(&event.body)?;
                self.new_file(event)
            }
            kind::HEARTBEAT | kind::HEARTBEAT_V2 => {
                if self.group.is_none() {
                    // What came since the last group, a new file's head, is behind us too.
                    self.advance(None);
                    self.idle(now_ms);
                }
                Ok(())
            }
            kind::GTID | kind::ANONYMOUS_GTID | kind::GTID_TAGGED => {
                let gtid = match event.tagged.clone() {
                    Some(tagged) => tagged,
                    None => MySqlGtid::read(&event.body)?,
                };
                self.begin_mysql(event, gtid)
            }
            kind::MARIADB_GTID => self.begin_mariadb(event),
            kind::QUERY => self.query(event, Form::Plain),
            kind::QUERY_COMPRESSED => self.query(event, Form::Compressed),
            kind::EXECUTE_LOAD_QUERY => self.query(event, Form::Load),
            kind::TABLE_MAP => self.table_map(event),
            kind::XID => self.commit_group(),
            kind::XA_PREPARE => self.xa_prepare(event),
            kind::INCIDENT if self.is_behind_us() => Ok(()),
            kind::INCIDENT => Err(Halt::Stand {
                tables: self.shapes.followed(),
                ddl: None,
                message: "the server says that its log has a gap here (INCIDENT): changes are lost; reload all tables".into(),
            }),
            other => match Kind::of(other) {
                Some(kind) => self.rows(event, kind),
                None => self.other(event),
            },
        }
    }

    fn other(&mut self, event: &Event) -> Step {
        if kind::WITHOUT_CONTENT.contains(&event.kind) || event.flags & IGNORABLE != 0 || self.is_behind_us() {
            return Ok(());
        }
        Err(Halt::Stand {
            tables: self.shapes.followed(),
            ddl: None,
            message: format!("the log has an event of type {} that is not known", event.kind),
        })
    }

    fn rotate(&mut self, event: &Event) -> Step {
        let mut cursor = Cursor::new(&event.body, "a ROTATE event");
        let offset = cursor.u64()?;
        self.file = String::from_utf8_lossy(cursor.rest()).into_owned();
        self.offset = offset;
        self.maps.clear();
        let same_file = self.file == self.position.file && self.server.identity == self.position.server;
        self.resumed_at = (same_file && event.log_pos == 0 && self.again.is_none()).then_some(self.position.offset);
        if self.group.is_none() && event.log_pos != 0 && !self.is_behind_us() {
            self.position.server.clone_from(&self.server.identity);
            (self.position.file, self.position.offset) = (self.file.clone(), offset);
        }
        Ok(())
    }

    /// A file's own head (the one that is sent before the middle of a file has no place): a group that is open there has no end, for
    /// the server died while it wrote it, and took it back when it started again.
    fn new_file(&mut self, event: &Event) -> Step {
        let Some(group) = self.group.as_ref().filter(|_| event.log_pos != 0) else { return Ok(()) };
        let ts_ms = group.ts_ms;
        let tables = if group.passed_on { self.group_tables() } else { Vec::new() };
        if !tables.is_empty() {
            let message = format!(
                "the server died in the middle of a transaction with rows of {}, and took it back; a part of it was published: reload",
                names(&tables)
            );
            return Err(Halt::Stand { tables, ddl: None, message });
        }
        if let Some(group) = self.group.take() {
            group.rows.discard(&mut self.store);
        }
        self.advance(None);
        self.idle(ts_ms);
        Ok(())
    }

    /// Tells that the position moved without rows.
    fn idle(&mut self, ts_ms: i64) {
        if matches!(self.ready.back(), Some(Ready::Entry(Entry::Idle { .. }))) {
            self.ready.pop_back();
        }
        self.ready.push_back(Ready::Entry(Entry::Idle { position: self.position.clone(), ts_ms }));
    }

    /// Whether the place that is read was read before.
    fn is_behind_us(&self) -> bool {
        self.again.as_ref().is_some_and(|again| again.has_place(&self.file, self.offset))
            || self.group.as_ref().is_some_and(|group| group.again)
    }

    fn xa_prepare(&mut self, event: &Event) -> Step {
        let prepare = Prepare::read(&event.body)?;
        if prepare.one_phase {
            return self.commit_group();
        }
        self.prepare_group(prepare.xid)
    }

    /// Followed tables with rows in the open group.
    fn group_tables(&self) -> Vec<TableId> {
        let maps = self.group.iter().flat_map(|group| group.rows.maps());
        let mut tables: Vec<TableId> = maps.map(|map| map.table.clone()).filter(|table| self.shapes.follows(table)).collect();
        if self.group.as_ref().is_some_and(|group| group.passed_on) {
            tables = self.shapes.followed();
        }
        tables.sort();
        tables.dedup();
        tables
    }

    /// Moves the position behind a group.
    fn advance(&mut self, group: Option<&Group>) {
        if let Some(again) = &mut self.again {
            match group.map(|group| &group.identity) {
                Some(Identity::MySql(gtid)) => again.read_mysql(gtid),
                Some(Identity::MariaDb(gtid)) => again.read_mariadb(gtid.gtid),
                Some(Identity::Anonymous) | None => {}
            }
        }
        // Asked before it is forgotten: the place may be the last one of them.
        let behind_us = group.is_some_and(|group| group.again) || (group.is_none() && self.is_behind_us());
        if !behind_us {
            match (&mut self.position.gtids, group.map(|group| &group.identity)) {
                (Gtids::MySql(set), Some(Identity::MySql(gtid))) => set.add(gtid.origin.clone(), gtid.number),
                (Gtids::MariaDb(domains), Some(Identity::MariaDb(gtid))) => domains.add(gtid.gtid),
                (Gtids::None | Gtids::MySql(_) | Gtids::MariaDb(_), _) => {}
            }
            self.position.server.clone_from(&self.server.identity);
            (self.position.file, self.position.offset) = (self.file.clone(), self.offset);
            // Those of before are not all known until what is read again is read.
            if self.again.is_none() {
                self.position.open = self.prepared.oldest().cloned();
            }
        }
        self.again.take_if(|again| again.is_over(&self.file, self.offset));
        self.shapes.arrive(&self.position);
    }

    /// The group's rows are published, and it ends.
    fn commit_group(&mut self) -> Step {
        let mut group = self.group.take();
        let rows = group.as_mut().map(|group| std::mem::take(&mut group.rows)).unwrap_or_default();
        self.finish(group, rows);
        Ok(())
    }

    /// The group's rows are taken back, and it ends.
    fn roll_back_group(&mut self) {
        let mut group = self.group.take();
        if let Some(group) = &mut group {
            std::mem::take(&mut group.rows).discard(&mut self.store);
        }
        self.finish(group, Kept::default());
    }

    /// Ends a group with the rows that are published at its end.
    fn finish(&mut self, group: Option<Group>, mut rows: Kept) {
        let again = group.as_ref().is_some_and(|group| group.again);
        let ts_ms = group.as_ref().map_or(0, |group| group.ts_ms);
        let passed_on = group.as_ref().is_some_and(|group| group.passed_on);
        let transaction = group.as_ref().and_then(|group| group.transaction.clone());
        // Tables may have been skipped or released while the stream stood inside the group.
        let tables = rows.maps().iter().map(|map| &map.table).filter(|table| self.shapes.follows(table));
        let tables: BTreeSet<TableId> = tables.cloned().collect();
        rows.only(&tables, &mut self.store);
        if again {
            std::mem::take(&mut rows).discard(&mut self.store);
        }
        let touched = passed_on || !rows.is_empty();
        if !rows.is_empty() {
            self.ready.push_back(Ready::Rows(Decided { rows, tables, transaction, ts_ms }));
        }
        self.advance(group.as_ref());
        if again {
            return;
        }
        if touched {
            self.ready.push_back(Ready::Entry(Entry::Commit { position: self.position.clone(), ts_ms }));
        } else {
            self.idle(ts_ms);
        }
    }
}
