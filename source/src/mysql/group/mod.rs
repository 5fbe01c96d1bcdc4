//! Puts the log's events together to groups: what is published is known to be committed. Pure.

mod statement;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use schemas::table::{Table, TableId};

use super::{
    decode::{
        Malformed,
        cursor::Cursor,
        gtid::{MariaDbGtid, MySqlGtid},
        query::Form,
        referee::Referee,
        rows::{self, Kind, Rows},
        table_map::TableMap,
    },
    event::{Event, IGNORABLE, behind, kind},
    mapping::Mapping,
    position::{Gtids, Position},
    server::Server,
    shapes::{Shapes, names},
};
use crate::{engine::Entry, error::CaptureError};

/// A group up to this many bytes is kept back until its end is known; a larger one is passed on while it is read.
const KEPT_BACK: usize = 8 << 20;

#[derive(Debug, Clone)]
enum Identity {
    Anonymous,
    MySql(MySqlGtid),
    MariaDb(MariaDbGtid),
}

#[derive(Debug)]
struct Group {
    identity: Identity,
    transaction: Option<String>,
    ts_ms: i64,
    /// BEGIN or XA START was read: the group has an end of its own.
    begun: bool,
    xa: bool,
    entries: Vec<Entry<Position, Rows>>,
    bytes: usize,
    /// Parts of it were passed on before its end.
    passed_on: bool,
    /// Entries at each savepoint.
    savepoints: bool,
}

/// A table as the log writes its rows.
#[derive(Debug)]
struct Mapped {
    /// The TABLE_MAP event's body.
    body: Vec<u8>,
    map: Arc<TableMap>,
    /// The shapes' generation that it was found to agree with.
    agrees: Option<u64>,
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
    maps: HashMap<u64, Mapped>,
    group: Option<Group>,
    ready: VecDeque<Entry<Position, Rows>>,
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
    pub fn new(server: Arc<Server>, require_metadata: bool, from: Position, tables: Vec<Table>, mapping: Mapping) -> Self {
        let mut shapes = Shapes::new(server.full_metadata, mapping);
        shapes.capture(tables);
        let (file, offset) = (from.file.clone(), from.offset);
        Self {
            server,
            require_metadata,
            shapes,
            position: from,
            file,
            offset,
            maps: HashMap::new(),
            group: None,
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
    pub fn pop(&mut self) -> Option<Entry<Position, Rows>> {
        self.ready.pop_front()
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
                self.ready.push_back(Entry::Stand { position: self.position.clone(), ddl, tables, message });
                Ok(())
            }
        }
    }

    /// Where an event begins, for people.
    fn place(&self, event: &Event) -> String {
        let size = if event.unpacked || event.log_pos == 0 { 0 } else { u64::from(event.size) };
        format!("{}:{}", self.file, self.offset.saturating_sub(size))
    }

    fn step(&mut self, event: &Event, now_ms: i64) -> Step {
        match event.kind {
            kind::ROTATE => self.rotate(event),
            kind::FORMAT_DESCRIPTION => self.new_file(event),
            kind::HEARTBEAT | kind::HEARTBEAT_V2 => {
                if self.group.is_none() {
                    // What came since the last group, a new file's head, is behind us too.
                    self.advance(None);
                    self.ready.push_back(Entry::Idle { position: self.position.clone(), ts_ms: now_ms });
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
            kind::XID => {
                self.end_group();
                Ok(())
            }
            kind::XA_PREPARE => self.xa_prepare(event),
            kind::PARTIAL_UPDATE_ROWS => self.partial_rows(event),
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
        if kind::WITHOUT_CONTENT.contains(&event.kind) || event.flags & IGNORABLE != 0 {
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
        if self.group.is_none() && event.log_pos != 0 {
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
        self.group = None;
        self.advance(None);
        self.ready.push_back(Entry::Idle { position: self.position.clone(), ts_ms });
        Ok(())
    }

    fn open(&mut self, group: Group) -> Step {
        if self.group.is_some() {
            let message = "a group of the log does not end before the next begins: a part of it could not be read".into();
            return Err(Halt::Failed(CaptureError::Stop { message }));
        }
        self.group = Some(group);
        Ok(())
    }

    fn begin_mysql(&mut self, event: &Event, gtid: MySqlGtid) -> Step {
        let ts_ms = gtid.commit_micros.map_or(i64::from(event.timestamp) * 1000, |micros| (micros / 1000).cast_signed());
        let anonymous = event.kind == kind::ANONYMOUS_GTID;
        if !anonymous && gtid.number == 0 {
            return Err(Malformed::Unreadable { what: "a GTID event", problem: "its transaction has no number".into() }.into());
        }
        let mut text = gtid.origin.uuid.clone();
        if !gtid.origin.tag.is_empty() {
            text = format!("{text}:{}", gtid.origin.tag);
        }
        let transaction = (!anonymous).then(|| format!("{text}:{}", gtid.number));
        let identity = if anonymous { Identity::Anonymous } else { Identity::MySql(gtid) };
        self.open(Group::new(identity, transaction, ts_ms))
    }

    fn begin_mariadb(&mut self, event: &Event) -> Step {
        let gtid = MariaDbGtid::read(&event.body, event.server_id)?;
        let mut group = Group::new(Identity::MariaDb(gtid), Some(gtid.gtid.to_string()), i64::from(event.timestamp) * 1000);
        // MariaDB leaves BEGIN out: its GTID event stands for it.
        group.begun = !gtid.standalone;
        group.xa = gtid.xa_prepared;
        self.open(group)
    }

    fn table_map(&mut self, event: &Event) -> Step {
        let id = rows::table_id(&event.body)?;
        let known = self.maps.get(&id).filter(|mapped| mapped.body == event.body);
        let generation = Some(self.shapes.generation());
        if known.is_some_and(|mapped| mapped.agrees == generation || !self.shapes.follows(&mapped.map.table)) {
            return Ok(());
        }
        let map = match known {
            Some(mapped) => Arc::clone(&mapped.map),
            None => Arc::new(TableMap::read(&event.body, self.server.mariadb)?),
        };
        let followed = self.shapes.follows(&map.table);
        if followed {
            self.judge(&map)?;
        }
        self.maps.insert(id, Mapped { body: event.body.clone(), map, agrees: generation.filter(|_| followed) });
        Ok(())
    }

    fn judge(&self, map: &TableMap) -> Step {
        let stand = |message: String| Halt::Stand { tables: vec![map.table.clone()], ddl: None, message };
        let shape = self.shapes.shape(&map.table).ok_or_else(|| stand(format!("{}: its shape is not known here; reload it", map.table)))?;
        if self.require_metadata && !map.is_full() {
            return Err(stand(format!(
                "{}: the log lacks column names, which source.row_metadata: require asks for; SET GLOBAL binlog_row_metadata = FULL",
                map.table
            )));
        }
        let referee = Referee { charsets: &self.server.charsets, collations: &self.server.collations };
        referee.judge(map, shape).map_err(|problem| {
            stand(format!("{}: the log's metadata does not agree with the tracked shape ({problem}); reload the table", map.table))
        })
    }

    fn rows(&mut self, event: &Event, kind: Kind) -> Step {
        let id = rows::table_id(&event.body)?;
        let Some(Mapped { map, .. }) = self.maps.get(&id) else {
            // The dummy that only ends a statement.
            if id == 0xff_ffff {
                return Ok(());
            }
            return Err(
                Malformed::Unreadable { what: "a rows event", problem: format!("no TABLE_MAP of table {id} stands before it") }.into()
            );
        };
        if !self.shapes.follows(&map.table) {
            return Ok(());
        }
        let (map, place) = (Arc::clone(map), self.place(event));
        let Some(group) = self.group.as_mut() else {
            return Err(Malformed::Unreadable { what: "a rows event", problem: "it stands outside of any group".into() }.into());
        };
        let table = map.table.clone();
        let rows = Rows::read(&event.body, kind, map, place.clone())?;
        let bytes = group.bytes + rows.size();
        if bytes > KEPT_BACK && !group.may_pass_on() {
            let message = format!(
                "{table}: a group of more than {KEPT_BACK} bytes whose changes may be rolled back in parts (XA, savepoints or non-transactional tables) cannot be followed yet; reload the table"
            );
            return Err(Halt::Stand { tables: vec![table], ddl: None, message });
        }
        group.bytes = bytes;
        group.entries.push(Entry::Rows { table, rows, position: place, transaction: group.transaction.clone(), ts_ms: group.ts_ms });
        if bytes > KEPT_BACK {
            group.passed_on = true;
            group.bytes = 0;
            self.ready.extend(group.entries.drain(..));
        }
        Ok(())
    }

    fn partial_rows(&mut self, event: &Event) -> Step {
        let id = rows::table_id(&event.body)?;
        match self.maps.get(&id) {
            Some(Mapped { map, .. }) if !self.shapes.follows(&map.table) => Ok(()),
            Some(Mapped { map, .. }) => Err(Halt::Stand {
                tables: vec![map.table.clone()],
                ddl: None,
                message: format!(
                    "{}: an update carries differences of JSON documents, not rows; SET GLOBAL binlog_row_value_options = '' and reload the table",
                    map.table
                ),
            }),
            None => {
                Err(Malformed::Unreadable { what: "a rows event", problem: format!("no TABLE_MAP of table {id} stands before it") }.into())
            }
        }
    }

    fn xa_prepare(&mut self, event: &Event) -> Step {
        let one_phase = event.body.first().is_some_and(|byte| *byte != 0);
        let tables = self.group_tables();
        if one_phase || tables.is_empty() {
            self.end_group();
            return Ok(());
        }
        let message = format!(
            "an XA transaction with rows of {} is prepared, and whether it is committed stands far behind; it cannot be followed yet: reload",
            names(&tables)
        );
        Err(Halt::Stand { tables, ddl: None, message })
    }

    /// Followed tables with rows in the open group.
    fn group_tables(&self) -> Vec<TableId> {
        let mut tables: Vec<TableId> = self
            .group
            .iter()
            .flat_map(|group| &group.entries)
            .filter_map(|entry| match entry {
                Entry::Rows { table, .. } if self.shapes.follows(table) => Some(table.clone()),
                Entry::Rows { .. } | Entry::Commit { .. } | Entry::Idle { .. } | Entry::Statement(_) | Entry::Stand { .. } => None,
            })
            .collect();
        if self.group.as_ref().is_some_and(|group| group.passed_on) {
            tables = self.shapes.followed();
        }
        tables.sort();
        tables.dedup();
        tables
    }

    /// Moves the position behind a group.
    fn advance(&mut self, group: Option<&Group>) {
        match (&mut self.position.gtids, group.map(|group| &group.identity)) {
            (Gtids::MySql(set), Some(Identity::MySql(gtid))) => set.add(gtid.origin.clone(), gtid.number),
            (Gtids::MariaDb(domains), Some(Identity::MariaDb(gtid))) => domains.add(gtid.gtid),
            (Gtids::None | Gtids::MySql(_) | Gtids::MariaDb(_), _) => {}
        }
        (self.position.file, self.position.offset) = (self.file.clone(), self.offset);
        self.shapes.arrive(&self.position);
    }

    fn end_group(&mut self) {
        let mut group = self.group.take();
        let (ts_ms, passed_on) = group.as_ref().map_or((0, false), |group| (group.ts_ms, group.passed_on));
        let mut entries = group.as_mut().map(|group| std::mem::take(&mut group.entries)).unwrap_or_default();
        // Tables may have been skipped or released while the stream stood inside the group.
        entries.retain(|entry| match entry {
            Entry::Rows { table, .. } => self.shapes.follows(table),
            Entry::Commit { .. } | Entry::Idle { .. } | Entry::Statement(_) | Entry::Stand { .. } => true,
        });
        let touched = passed_on || !entries.is_empty();
        self.ready.extend(entries);
        self.advance(group.as_ref());
        let position = self.position.clone();
        if touched {
            self.ready.push_back(Entry::Commit { position, ts_ms });
        } else {
            if matches!(self.ready.back(), Some(Entry::Idle { .. })) {
                self.ready.pop_back();
            }
            self.ready.push_back(Entry::Idle { position, ts_ms });
        }
    }
}

impl Group {
    fn new(identity: Identity, transaction: Option<String>, ts_ms: i64) -> Self {
        Self { identity, transaction, ts_ms, begun: false, xa: false, entries: Vec::new(), bytes: 0, passed_on: false, savepoints: false }
    }

    /// Whether its rows may be published before its end is read.
    fn may_pass_on(&self) -> bool {
        let transactional = match &self.identity {
            Identity::MariaDb(gtid) => gtid.transactional,
            Identity::Anonymous | Identity::MySql(_) => true,
        };
        transactional && !self.xa && !self.savepoints
    }
}
