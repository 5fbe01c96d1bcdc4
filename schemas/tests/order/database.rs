//! The source's server: tables, and a log that is ahead of what a SELECT sees.

use std::collections::BTreeMap;

use schemas::{
    change::SchemaChange,
    native::{Native, mysql},
    table::{Column, Table, TableId},
};

use crate::random::Random;

pub const KEYS: u8 = 4;

/// What a row holds: two columns, and a mark of every shape change that found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value {
    pub p: u32,
    /// Not carried by partial updates; None: lost on the way.
    pub q: Option<u32>,
    pub marks: u64,
    /// The target column cannot hold it.
    pub bad: bool,
}

/// The rows of a table, with a key or without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    Keyed(BTreeMap<u8, Value>),
    Bag(BTreeMap<Value, u32>),
}

impl Rows {
    pub fn empty(keyless: bool) -> Self {
        if keyless { Rows::Bag(BTreeMap::new()) } else { Rows::Keyed(BTreeMap::new()) }
    }

    pub fn change(&mut self, kind: Kind, mark: u64) {
        let marked = |v: Value| match kind {
            Kind::Swap => Value { marks: v.marks ^ mark, ..v },
            Kind::None | Kind::Comment => v,
            Kind::Ok | Kind::Hold | Kind::Stop | Kind::Fail | Kind::Unknown | Kind::Truncate => Value { marks: v.marks | mark, ..v },
        };
        match self {
            Rows::Keyed(rows) if kind == Kind::Truncate => rows.clear(),
            Rows::Bag(rows) if kind == Kind::Truncate => rows.clear(),
            Rows::Keyed(rows) => rows.values_mut().for_each(|v| *v = marked(*v)),
            Rows::Bag(rows) => {
                let mut after = BTreeMap::new();
                for (v, n) in rows.iter() {
                    *after.entry(marked(*v)).or_insert(0) += n;
                }
                *rows = after;
            }
        }
    }

    /// Takes one such row out of a bag; false: there is none.
    pub fn remove(rows: &mut BTreeMap<Value, u32>, value: &Value) -> bool {
        match rows.get_mut(value) {
            Some(1) => rows.remove(value).is_some(),
            Some(n) => {
                *n -= 1;
                true
            }
            None => false,
        }
    }
}

/// What a statement is to the rules and the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Ok,
    /// Two columns exchange their names: the same set of names and types, another order.
    Swap,
    Truncate,
    Hold,
    Stop,
    /// The target's server refuses it.
    Fail,
    /// The source does not understand it.
    Unknown,
    /// Nothing to apply on this sink.
    None,
    /// Nothing to apply anywhere: no epoch.
    Comment,
}

/// One table's part of a statement.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub table: usize,
    pub kind: Kind,
    pub version: u32,
    pub shape: u32,
    pub mark: u64,
}

/// What happened to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Create,
    Update,
    Delete,
    /// The key changes.
    Move(u8),
    /// Without `q`.
    PartialUpdate,
    PartialMove(u8),
}

/// One row's change.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    pub table: usize,
    pub op: Op,
    pub key: u8,
    pub value: Value,
    pub version: u32,
}

#[derive(Debug, Clone)]
pub enum Entry {
    /// A transaction.
    Rows(Vec<Change>),
    Statement(Vec<Part>),
}

pub struct Database {
    pub log: Vec<Entry>,
    pub rows: Vec<Rows>,
    pub version: Vec<u32>,
    pub shape: Vec<u32>,
    /// The tables behind each length of the log.
    history: Vec<Vec<Rows>>,
    /// How much of the log a SELECT sees.
    pub seen: usize,
    unique: u32,
    statements: u32,
}

impl Database {
    pub fn new(random: &mut Random, keyless: &[bool]) -> Self {
        let mut db = Self {
            log: Vec::new(),
            rows: keyless.iter().map(|k| Rows::empty(*k)).collect(),
            version: vec![0; keyless.len()],
            shape: vec![0; keyless.len()],
            history: Vec::new(),
            seen: 0,
            unique: 0,
            statements: 0,
        };
        for table in 0..keyless.len() {
            for key in 0..KEYS {
                if random.chance(0.5) {
                    let value = db.fresh();
                    match &mut db.rows[table] {
                        Rows::Keyed(rows) => drop(rows.insert(key, value)),
                        Rows::Bag(rows) => drop(rows.insert(value, 1)),
                    }
                }
            }
        }
        db.history.push(db.rows.clone());
        db
    }

    fn fresh(&mut self) -> Value {
        self.unique += 1;
        Value { p: self.unique, q: Some(self.unique), marks: 0, bad: false }
    }

    fn append(&mut self, entry: Entry) {
        self.log.push(entry);
        self.history.push(self.rows.clone());
    }

    /// A SELECT sees one more entry.
    pub fn reveal(&mut self) {
        self.seen = (self.seen + 1).min(self.log.len());
    }

    /// What a SELECT of this table sees.
    pub fn select(&self, table: usize) -> &Rows {
        &self.history[self.seen][table]
    }

    /// A transaction of up to three rows, of one table or of several.
    pub fn write(&mut self, random: &mut Random, partial: f64, bad: f64) {
        let count = random.pick(&[1, 1, 1, 2, 3]);
        let mut group = Vec::new();
        for _ in 0..count {
            let table = random.below(self.rows.len());
            group.extend(self.change(random, table, partial, bad));
        }
        if !group.is_empty() {
            self.append(Entry::Rows(group));
        }
    }

    /// One row changes, unless what was drawn cannot be.
    fn change(&mut self, random: &mut Random, table: usize, partial: f64, bad: f64) -> Option<Change> {
        let mut value = self.fresh();
        value.bad = matches!(self.rows[table], Rows::Keyed(_)) && random.chance(bad);
        let version = self.version[table];
        let entry = |op, key, value| Change { table, op, key, value, version };
        let new = match &mut self.rows[table] {
            Rows::Bag(rows) => {
                if !rows.is_empty() && random.chance(0.3) {
                    let all: Vec<Value> = rows.keys().copied().collect();
                    let old = random.pick(&all);
                    Rows::remove(rows, &old);
                    entry(Op::Delete, 0, old)
                } else {
                    *rows.entry(value).or_insert(0) += 1;
                    entry(Op::Create, 0, value)
                }
            }
            Rows::Keyed(rows) => {
                let key = random.below(KEYS as usize) as u8;
                match rows.get(&key).copied() {
                    None => {
                        rows.insert(key, value);
                        entry(Op::Create, key, value)
                    }
                    Some(old) => {
                        let kept = Value { q: old.q, marks: old.marks, ..value };
                        let x = random.unit();
                        if x < 0.25 {
                            rows.remove(&key);
                            entry(Op::Delete, key, old)
                        } else if x < 0.45 {
                            let to = random.below(KEYS as usize) as u8;
                            if rows.contains_key(&to) {
                                return None;
                            }
                            rows.remove(&key);
                            rows.insert(to, kept);
                            entry(if random.chance(partial) { Op::PartialMove(to) } else { Op::Move(to) }, key, kept)
                        } else if x < 0.7 {
                            rows.insert(key, kept);
                            entry(Op::PartialUpdate, key, kept)
                        } else {
                            rows.insert(key, value);
                            entry(Op::Update, key, value)
                        }
                    }
                }
            }
        };
        Some(new)
    }

    /// The user mends every value that the target cannot hold.
    pub fn mend(&mut self) {
        for table in 0..self.rows.len() {
            let version = self.version[table];
            if let Rows::Keyed(rows) = self.rows[table].clone() {
                for key in rows.iter().filter(|(_, v)| v.bad).map(|(k, _)| k) {
                    let value = self.fresh();
                    if let Rows::Keyed(rows) = &mut self.rows[table] {
                        rows.insert(*key, value);
                    }
                    self.append(Entry::Rows(vec![Change { table, op: Op::Update, key: *key, value, version }]));
                }
            }
        }
    }

    /// One statement over one or more tables. What was committed before it is visible then.
    pub fn statement(&mut self, parts: &[(usize, Kind)]) {
        let mut done = Vec::new();
        for (table, kind) in parts.iter().copied() {
            self.statements += 1;
            let mark = 1u64 << (self.statements % 64);
            if kind != Kind::Comment {
                self.version[table] += 1;
            }
            match kind {
                Kind::Truncate | Kind::Swap | Kind::None | Kind::Comment => {}
                Kind::Ok | Kind::Hold | Kind::Stop | Kind::Fail | Kind::Unknown => self.shape[table] = self.statements,
            }
            self.rows[table].change(kind, mark);
            done.push(Part { table, kind, version: self.version[table], shape: self.shape[table], mark });
        }
        self.append(Entry::Statement(done));
        self.seen = self.log.len();
    }

    /// The table's shape now, as the catalog has it.
    pub fn table(&self, id: &TableId, table: usize) -> Table {
        let keyless = matches!(self.rows[table], Rows::Bag(_));
        shape(id, keyless, self.version[table], self.shape[table])
    }
}

/// A shape of the simulation: its source version and shape number stand in `next_column`.
pub fn shape(id: &TableId, keyless: bool, version: u32, shape: u32) -> Table {
    let columns = if keyless { Vec::new() } else { vec![Column::new(0, "k", Native::MySql(mysql::Native::Date)).not_null()] };
    let mut table = Table::new(id.clone(), columns, if keyless { &[] } else { &["k"] });
    table.next_column = version * 1000 + shape;
    table
}

pub fn version_of(table: &Table) -> u32 {
    table.next_column / 1000
}

pub fn shape_of(table: &Table) -> u32 {
    table.next_column % 1000
}

/// A statement's part as a typed change: the simulation keeps kind and mark in its text.
pub fn as_change(part: &Part) -> SchemaChange {
    SchemaChange::Unknown { why: format!("{:?} {}", part.kind, part.mark) }
}

/// What [`as_change`] wrote.
pub fn of_change(changes: &[SchemaChange]) -> (Kind, u64) {
    let Some(SchemaChange::Unknown { why }) = changes.first() else { return (Kind::None, 0) };
    let (kind, mark) = why.split_once(' ').unwrap_or(("", "0"));
    let all = [Kind::Ok, Kind::Swap, Kind::Truncate, Kind::Hold, Kind::Stop, Kind::Fail, Kind::Unknown, Kind::None, Kind::Comment];
    let kind = all.into_iter().find(|k| format!("{k:?}") == kind).unwrap_or(Kind::None);
    (kind, mark.parse().unwrap_or(0))
}
