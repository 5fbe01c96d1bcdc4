//! A scripted source: tables of BIGINT columns, a log that is ahead of what a SELECT sees, statements that nobody understands.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use schemas::{
    change::{Fill, SchemaChange},
    native::{Native, mysql},
    table::{Column, Default as ColumnDefault, Table, TableId},
    value::Value,
    wire::{codec::put_long, envelope::Op},
};

use crate::{
    engine::{Bounds, Chunk, ChunkReader, Engine, Entry, Position, Problem, Published, Row, RowSink, Statement, StatementTable, Stream},
    error::CaptureError,
};

pub type Values = Vec<i64>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub usize);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fake:{}", self.0)
    }
}

impl Position for Place {
    fn parse(text: &str) -> Result<Self, CaptureError> {
        let number = text.strip_prefix("fake:").and_then(|n| n.parse().ok());
        number.map(Place).ok_or_else(|| CaptureError::Transport(format!("no position: {text:?}")))
    }

    fn reached(&self, other: &Self) -> bool {
        self >= other
    }
}

#[derive(Debug, Clone)]
pub struct Change {
    pub table: TableId,
    pub op: Op,
    pub before: Option<Values>,
    pub after: Option<Values>,
}

#[derive(Debug, Clone)]
enum Logged {
    Group(Vec<Change>),
    Foreign,
    Ddl { ddl: String, tables: Vec<StatementTable> },
    Unknown { ddl: String, tables: Vec<TableId> },
}

#[derive(Debug, Clone)]
struct Stored {
    shape: Table,
    rows: Vec<Values>,
}

#[derive(Debug, Default)]
struct World {
    tables: BTreeMap<TableId, Stored>,
    log: Vec<Logged>,
    /// The tables as they were behind each entry of the log.
    history: Vec<BTreeMap<TableId, Stored>>,
    visible: usize,
    /// `(table, value)`: a row whose second column has this value cannot be read.
    bad: Option<(TableId, i64)>,
    faults: usize,
    /// What lies before this place of the log is gone.
    lost: usize,
    /// How often the stream was opened.
    opened: usize,
}

/// The server; clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Server(Arc<Mutex<World>>);

pub fn id(name: &str) -> TableId {
    TableId::new("shop", name)
}

fn bigint(number: u32, name: &str) -> Column {
    let native = mysql::Native::Integer { bits: 64, unsigned: false, zerofill: false, width: None };
    Column::new(number, name, Native::MySql(native)).not_null()
}

impl Server {
    pub fn new() -> Self {
        let server = Self::default();
        server.world().history.push(BTreeMap::new());
        server
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn create(&self, name: &str, keyed: bool) {
        let shape = Table::new(id(name), vec![bigint(0, "id"), bigint(1, "v")], if keyed { &["id"] } else { &[] });
        let mut world = self.world();
        world.tables.insert(id(name), Stored { shape, rows: Vec::new() });
        world.append(Logged::Foreign);
    }

    /// One transaction of rows `(table, id, v)` inserted.
    pub fn insert(&self, rows: &[(&str, i64, i64)]) {
        let mut world = self.world();
        let changes = rows
            .iter()
            .map(|(name, key, v)| {
                let table = world.tables.get_mut(&id(name)).expect("table");
                let mut values = vec![*key, *v];
                values.resize(table.shape.columns.len(), 7);
                table.rows.push(values.clone());
                Change { table: id(name), op: Op::Create, before: None, after: Some(values) }
            })
            .collect();
        world.append(Logged::Group(changes));
    }

    pub fn update(&self, name: &str, key: i64, new_key: i64, v: i64) -> bool {
        let mut world = self.world();
        let table = world.tables.get_mut(&id(name)).expect("table");
        if key != new_key && table.rows.iter().any(|r| r[0] == new_key) {
            return false;
        }
        let Some(row) = table.rows.iter_mut().find(|r| r[0] == key) else { return false };
        let before = row.clone();
        row[0] = new_key;
        row[1] = v;
        let after = row.clone();
        world.append(Logged::Group(vec![Change { table: id(name), op: Op::Update, before: Some(before), after: Some(after) }]));
        true
    }

    pub fn delete(&self, name: &str, key: i64) -> bool {
        let mut world = self.world();
        let table = world.tables.get_mut(&id(name)).expect("table");
        let Some(at) = table.rows.iter().position(|r| r[0] == key) else { return false };
        let before = table.rows.remove(at);
        world.append(Logged::Group(vec![Change { table: id(name), op: Op::Delete, before: Some(before), after: None }]));
        true
    }

    /// A transaction of a table that is not captured.
    pub fn foreign(&self) {
        self.world().append(Logged::Foreign);
    }

    fn grow(world: &mut World, name: &str, column: &str, fill: i64) -> SchemaChange {
        let table = world.tables.get_mut(&id(name)).expect("table");
        let mut added = bigint(table.shape.next_column, column);
        added.default = Some(ColumnDefault::Constant(Value::Integer(fill.into())));
        table.shape.next_column += 1;
        table.shape.columns.push(added.clone());
        table.rows.iter_mut().for_each(|row| row.push(fill));
        SchemaChange::AddColumn { column: added, fill: Fill::Constant(Value::Integer(fill.into())) }
    }

    pub fn add_column(&self, names: &[&str], column: &str, fill: i64) {
        let mut world = self.world();
        let tables = names
            .iter()
            .map(|name| {
                let change = Self::grow(&mut world, name, column, fill);
                StatementTable { id: id(name), shape: world.tables[&id(name)].shape.clone(), changes: vec![change] }
            })
            .collect();
        world.statement(Logged::Ddl { ddl: format!("ALTER TABLE … ADD {column}"), tables });
    }

    pub fn truncate(&self, name: &str) {
        let mut world = self.world();
        let table = world.tables.get_mut(&id(name)).expect("table");
        table.rows.clear();
        let shape = table.shape.clone();
        let tables = vec![StatementTable { id: id(name), shape, changes: vec![SchemaChange::TruncateTable] }];
        world.statement(Logged::Ddl { ddl: format!("TRUNCATE {name}"), tables });
    }

    /// A statement with nothing to apply anywhere; moves the column `v` to the front of the others in the physical shape.
    pub fn comment(&self, name: &str) {
        let mut world = self.world();
        let table = world.tables.get_mut(&id(name)).expect("table");
        table.shape.columns[1].comment.push('!');
        let shape = table.shape.clone();
        let tables = vec![StatementTable { id: id(name), shape, changes: vec![SchemaChange::ChangeComment { column: Some("v".into()) }] }];
        world.statement(Logged::Ddl { ddl: format!("ALTER TABLE {name} COMMENT"), tables });
    }

    /// A statement that the stream does not understand: it adds a column where `grows`, else it does nothing.
    pub fn unknown(&self, names: &[&str], column: &str, grows: bool) {
        let mut world = self.world();
        if grows {
            for name in names {
                Self::grow(&mut world, name, column, 3);
            }
        }
        world.statement(Logged::Unknown { ddl: format!("ALTER TABLE … {column}"), tables: names.iter().map(|n| id(n)).collect() });
    }

    pub fn bad_row(&self, name: &str, v: i64) {
        self.world().bad = Some((id(name), v));
    }

    /// The next `n` calls of the stream or a reader fail as a cut connection does.
    pub fn cut(&self, n: usize) {
        self.world().faults = n;
    }

    /// The log so far is gone.
    pub fn lose_log(&self) {
        let mut world = self.world();
        world.lost = world.log.len();
        world.opened = 0;
    }

    pub fn opened(&self) -> usize {
        self.world().opened
    }

    pub fn drop_table(&self, name: &str) {
        let mut world = self.world();
        world.tables.remove(&id(name));
        world.append(Logged::Foreign);
    }

    pub fn end(&self) -> Place {
        Place(self.world().log.len())
    }

    /// A table's rows, sorted.
    pub fn rows(&self, name: &str) -> Vec<Values> {
        let mut rows = self.world().tables[&id(name)].rows.clone();
        rows.sort_unstable();
        rows
    }

    pub fn engine(&self) -> Fake {
        Fake(self.clone())
    }

    fn fault(&self) -> Result<(), CaptureError> {
        let mut world = self.world();
        if world.faults == 0 {
            return Ok(());
        }
        world.faults -= 1;
        Err(CaptureError::Transient("the connection to fake:1 was cut".into()))
    }
}

impl World {
    fn append(&mut self, entry: Logged) {
        self.log.push(entry);
        self.history.push(self.tables.clone());
    }

    fn statement(&mut self, entry: Logged) {
        self.append(entry);
        self.visible = self.log.len();
    }
}

pub struct Fake(Server);

impl Engine for Fake {
    const NAME: &'static str = "fake";
    type Position = Place;
    type Stream = FakeStream;
    type Reader = FakeReader;

    async fn lock(&mut self, _pipeline: &str) -> Result<(), CaptureError> {
        tokio::task::yield_now().await;
        self.0.fault()
    }

    async fn preflight(&mut self) -> Result<Vec<Problem>, CaptureError> {
        Ok(Vec::new())
    }

    async fn pinned(&mut self, tables: &[TableId]) -> Result<(Place, Vec<Table>), CaptureError> {
        tokio::task::yield_now().await;
        let world = self.0.world();
        let shapes = tables.iter().map(|t| world.tables[t].shape.clone()).collect();
        Ok((Place(world.log.len()), shapes))
    }

    async fn end(&mut self) -> Result<(Place, i64), CaptureError> {
        Ok((self.0.end(), 0))
    }

    async fn stream(&self, from: &Place, tables: Vec<Table>) -> Result<FakeStream, CaptureError> {
        tokio::task::yield_now().await;
        let mut world = self.0.world();
        world.opened += 1;
        if from.0 < world.lost {
            return Err(CaptureError::Stop { message: format!("the log begins behind {from}") });
        }
        let captured = tables.into_iter().map(|t| (t.id, Place(0))).collect();
        Ok(FakeStream { server: self.0.clone(), at: *from, captured, passed: Vec::new(), queue: VecDeque::new() })
    }

    async fn reader(&self) -> Result<FakeReader, CaptureError> {
        tokio::task::yield_now().await;
        Ok(FakeReader { server: self.0.clone(), view: VecDeque::new() })
    }
}

pub struct FakeStream {
    server: Server,
    at: Place,
    /// The captured tables, each with the place up to which it is skipped.
    captured: HashMap<TableId, Place>,
    /// Tables for which the statement at `at` is passed over.
    passed: Vec<TableId>,
    queue: VecDeque<Entry<Place, Vec<Change>>>,
}

impl FakeStream {
    fn takes(&self, table: &TableId) -> bool {
        self.captured.get(table).is_some_and(|until| self.at >= *until)
    }

    /// Puts what the log says at `at` into the queue; false where it ends.
    fn read(&mut self) -> bool {
        let Some(entry) = self.server.world().log.get(self.at.0).cloned() else { return false };
        let behind = Place(self.at.0 + 1);
        match entry {
            Logged::Group(changes) => {
                let taken: Vec<Change> = changes.into_iter().filter(|c| self.takes(&c.table)).collect();
                for part in taken.chunk_by(|a, b| a.table == b.table).flat_map(|p| p.chunks(2)) {
                    let (table, position) = (part[0].table.clone(), format!("{}", self.at));
                    self.queue.push_back(Entry::Rows { table, rows: part.to_vec(), position, transaction: Some("t".into()), ts_ms: 1 });
                }
                self.queue.push_back(Entry::Commit { position: behind, ts_ms: 1 });
            }
            Logged::Foreign => self.queue.push_back(Entry::Idle { position: behind, ts_ms: 1 }),
            Logged::Ddl { ddl, mut tables } => {
                tables.retain(|t| self.takes(&t.id));
                if tables.is_empty() {
                    self.queue.push_back(Entry::Idle { position: behind, ts_ms: 1 });
                } else {
                    self.queue.push_back(Entry::Statement(Statement { position: behind, ts_ms: 1, ddl, tables }));
                }
            }
            Logged::Unknown { ddl, tables } => {
                let tables: Vec<TableId> = tables.into_iter().filter(|t| self.takes(t) && !self.passed.contains(t)).collect();
                if !tables.is_empty() {
                    let message = format!("{ddl} is not understood");
                    self.queue.push_back(Entry::Stand { position: self.at, ddl: Some(ddl), tables, message });
                    return true;
                }
                self.queue.push_back(Entry::Idle { position: behind, ts_ms: 1 });
            }
        }
        self.passed.clear();
        self.at = behind;
        true
    }
}

impl Stream for FakeStream {
    type Position = Place;
    type Rows = Vec<Change>;

    async fn next(&mut self) -> Result<Entry<Place, Vec<Change>>, CaptureError> {
        loop {
            self.server.fault()?;
            if let Some(entry) = self.queue.pop_front() {
                return Ok(entry);
            }
            if !self.read() {
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        }
    }

    fn has_next(&self) -> bool {
        !self.queue.is_empty() || self.at < self.server.end()
    }

    fn rows(&mut self, rows: Vec<Change>, skip: u64, table: &Published, out: &mut impl RowSink) -> Result<u64, CaptureError> {
        let bad = self.server.world().bad.clone();
        for change in rows.iter().skip(usize::try_from(skip).unwrap_or(usize::MAX)) {
            let values = change.after.as_ref().or(change.before.as_ref()).expect("image");
            if bad.as_ref().is_some_and(|(table, v)| *table == change.table && values[1] == *v) {
                return Err(CaptureError::Stop { message: format!("{}: row {} cannot be read", change.table, values[0]) });
            }
            write(change, table, out)?;
            out.end();
        }
        Ok(rows.len() as u64)
    }

    fn capture(&mut self, tables: Vec<Table>) {
        self.captured.extend(tables.into_iter().map(|t| (t.id, Place(0))));
    }

    fn release(&mut self, table: &TableId) {
        self.captured.remove(table);
    }

    fn skip(&mut self, table: Table, until: Place) {
        self.queue.retain(|entry| !matches!(entry, Entry::Stand { .. }));
        if until == self.at {
            self.passed.push(table.id.clone());
        }
        self.captured.insert(table.id, until);
    }
}

fn write(change: &Change, table: &Published, out: &mut impl RowSink) -> Result<(), CaptureError> {
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    let encode = |values: Option<&Values>| values.map(|v| image(v, table)).transpose();
    let (before_image, after_image) = (encode(before)?, encode(after)?);
    let keyed = !table.rows.key.is_empty();
    let key = |values: Option<&Values>| {
        let mut out = Vec::new();
        if let Some(values) = values.filter(|_| keyed) {
            put_long(&mut out, values[0]);
        }
        out
    };
    let (old, new) = (key(before), key(after.or(before)));
    let mut put = |op, key: &[u8], before: Option<&[u8]>, after: Option<&[u8]>| {
        out.row(Row { op, key, before, after, absent_before: &[], absent_after: &[] })
    };
    if change.op == Op::Update && old != new {
        put(Op::Delete, &old, before_image.as_deref(), None)?;
        return put(Op::Create, &new, None, after_image.as_deref());
    }
    put(change.op, &new, before_image.as_deref(), after_image.as_deref())
}

/// The published fields of a row of the physical shape.
fn image(values: &Values, table: &Published) -> Result<Vec<u8>, CaptureError> {
    if values.len() != table.shape.columns.len() {
        let (has, shape) = (values.len(), table.shape.columns.len());
        return Err(CaptureError::Refused(format!("a row of {has} columns is read with a shape of {shape}")));
    }
    let mut out = Vec::new();
    for field in &table.rows.fields {
        let at = table.shape.columns.iter().position(|c| c.id == field.column);
        put_long(&mut out, at.map_or(0, |i| values[i]));
    }
    Ok(out)
}

pub struct FakeReader {
    server: Server,
    view: VecDeque<Values>,
}

impl FakeReader {
    /// The rows of the visible state and whether they have the expected shape, now and then.
    fn select(&self, table: &Table) -> Option<Vec<Values>> {
        let world = self.server.world();
        let seen = world.history[world.visible].get(&table.id)?;
        (world.tables[&table.id].shape == *table && seen.shape == *table).then(|| seen.rows.clone())
    }
}

fn literal(bound: Option<&Vec<String>>) -> Option<i64> {
    bound.map(|b| b[0].parse().expect("literal"))
}

impl ChunkReader for FakeReader {
    type Position = Place;

    async fn estimate(&mut self, table: &Table) -> Result<u64, CaptureError> {
        Ok(self.server.world().tables[&table.id].rows.len() as u64)
    }

    async fn bound(&mut self, table: &Table, within: &Bounds, rows: u64) -> Result<Option<Vec<String>>, CaptureError> {
        tokio::task::yield_now().await;
        let (above, up_to) = (literal(within.above.as_ref()), literal(within.up_to.as_ref()));
        let inside = |k: &i64| above.is_none_or(|a| *k > a) && up_to.is_none_or(|u| *k <= u);
        let mut keys: Vec<i64> = self.server.rows(&table.id.name).iter().map(|r| r[0]).filter(inside).collect();
        keys.sort_unstable();
        Ok(keys.get(rows as usize - 1).map(|k| vec![k.to_string()]))
    }

    async fn read(
        &mut self,
        table: &Published,
        bounds: &Bounds,
        at: &Place,
        out: &mut (impl RowSink + Send),
    ) -> Result<Chunk<Place>, CaptureError> {
        self.server.fault()?;
        loop {
            tokio::task::yield_now().await;
            let mut world = self.server.world();
            if world.visible >= at.0 {
                break;
            }
            world.visible += 1;
        }
        let Some(rows) = self.select(&table.shape) else { return Ok(Chunk::OtherShape) };
        tokio::task::yield_now().await;
        let (above, up_to) = (literal(bounds.above.as_ref()), literal(bounds.up_to.as_ref()));
        let mut read = 0;
        for values in rows {
            if above.is_some_and(|a| values[0] <= a) || up_to.is_some_and(|u| values[0] > u) {
                continue;
            }
            if read > 0 && out.full() {
                return Ok(Chunk::Full { rows: read });
            }
            read += 1;
            write(&Change { table: table.shape.id.clone(), op: Op::Read, before: None, after: Some(values) }, table, out)?;
        }
        Ok(Chunk::Read { rows: read, read_at: self.server.end() })
    }

    async fn view(&mut self, table: &Table) -> Result<Option<Place>, CaptureError> {
        tokio::task::yield_now().await;
        {
            let mut world = self.server.world();
            world.visible = (world.visible + 1).min(world.log.len());
        }
        let Some(rows) = self.select(table) else { return Ok(None) };
        self.view = rows.into();
        Ok(Some(Place(self.server.world().visible)))
    }

    async fn view_rows(&mut self, table: &Published, limit: u64, out: &mut (impl RowSink + Send)) -> Result<bool, CaptureError> {
        tokio::task::yield_now().await;
        for _ in 0..limit {
            let Some(values) = self.view.pop_front() else { return Ok(false) };
            write(&Change { table: table.shape.id.clone(), op: Op::Read, before: None, after: Some(values) }, table, out)?;
        }
        Ok(!self.view.is_empty())
    }
}
