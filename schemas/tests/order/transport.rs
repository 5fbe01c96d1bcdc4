//! A transport as Kafka: partitions with transactions, markers that come late, fencing. The local log is the easy case of it.

use std::{rc::Rc, sync::Arc};

use schemas::{
    event::{Progress, SchemaEvent},
    order::protection::{Protection, Protections},
};

use crate::{database::Value, random::Random};

/// How a row is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOp {
    Create,
    Update,
    Delete,
    Read,
    PartialUpdate,
    /// The new half of a key change, without `q`.
    PartialCreate,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub epoch: u64,
    pub seq: u64,
    pub op: RowOp,
    pub key: u8,
    pub value: Option<Value>,
    pub version: u32,
    pub copying: bool,
    /// The sink that the copy is for.
    pub for_sink: Option<String>,
}

#[derive(Debug, Clone)]
pub enum Payload {
    Row(Rc<Row>),
    Event(Arc<SchemaEvent>),
    Progress(Rc<Progress>),
}

pub type Tx = usize;

#[derive(Default)]
pub struct Partition {
    /// None: a marker.
    pub records: Vec<(Tx, Option<Payload>)>,
    open: Vec<(Tx, u64)>,
}

impl Partition {
    pub fn end(&self) -> u64 {
        self.records.len() as u64
    }

    /// The last stable offset: nothing at or above it may be read committed.
    pub fn stable(&self) -> u64 {
        self.open.iter().map(|(_, first)| *first).min().unwrap_or(self.end())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Committed,
    Aborted,
}

struct Transaction {
    state: State,
    owner: u64,
    touched: Vec<usize>,
    /// In the client's queue.
    queue: Vec<(usize, Payload)>,
}

pub struct Fenced;

pub struct Transport {
    protections: Protections,
    pub partitions: Vec<Partition>,
    transactions: Vec<Transaction>,
    /// Markers that are to be written.
    pub late: Vec<(Tx, usize)>,
    producer: u64,
}

impl Transport {
    pub fn new(partitions: usize, protections: Protections) -> Self {
        let partitions = (0..partitions).map(|_| Partition::default()).collect();
        Self { protections, partitions, transactions: Vec::new(), late: Vec::new(), producer: 0 }
    }

    fn check(&self, producer: u64) -> Result<(), Fenced> {
        if producer != self.producer && self.protections.has(Protection::Fence) { Err(Fenced) } else { Ok(()) }
    }

    /// Whether markers of this producer are still to be written.
    pub fn busy(&self, producer: u64) -> bool {
        self.late.iter().any(|(tx, _)| self.transactions[*tx].owner == producer)
    }

    /// A new producer: older ones are fenced off and their open transactions aborted.
    pub fn init(&mut self) -> u64 {
        self.producer += 1;
        if self.protections.has(Protection::Fence) {
            for tx in 0..self.transactions.len() {
                if self.transactions[tx].state == State::Open {
                    self.finish(tx, State::Aborted);
                }
            }
        }
        self.producer
    }

    pub fn begin(&mut self, producer: u64) -> Result<Tx, Fenced> {
        self.check(producer)?;
        self.transactions.push(Transaction { state: State::Open, owner: producer, touched: Vec::new(), queue: Vec::new() });
        Ok(self.transactions.len() - 1)
    }

    pub fn produce(&mut self, random: &mut Random, producer: u64, tx: Tx, partition: usize, payload: Payload) -> Result<(), Fenced> {
        self.check(producer)?;
        self.transactions[tx].queue.push((partition, payload));
        if random.chance(0.4) {
            self.flush(tx);
        }
        Ok(())
    }

    fn flush(&mut self, tx: Tx) {
        for (partition, payload) in std::mem::take(&mut self.transactions[tx].queue) {
            let p = &mut self.partitions[partition];
            if !self.transactions[tx].touched.contains(&partition) {
                self.transactions[tx].touched.push(partition);
                p.open.push((tx, p.end()));
            }
            p.records.push((tx, Some(payload)));
        }
    }

    fn finish(&mut self, tx: Tx, state: State) {
        self.transactions[tx].state = state;
        self.late.extend(self.transactions[tx].touched.iter().map(|p| (tx, *p)));
    }

    pub fn commit(&mut self, producer: u64, tx: Tx) -> Result<(), Fenced> {
        self.check(producer)?;
        self.flush(tx);
        self.finish(tx, State::Committed);
        Ok(())
    }

    /// The broker writes a marker.
    pub fn marker(&mut self, random: &mut Random) {
        if !self.late.is_empty() {
            let (tx, partition) = self.late.swap_remove(random.below(self.late.len()));
            let p = &mut self.partitions[partition];
            p.records.push((tx, None));
            p.open.retain(|(open, _)| *open != tx);
        }
    }

    /// Up to where a reader of this partition gets.
    pub fn readable(&self, partition: usize) -> u64 {
        let p = &self.partitions[partition];
        if self.protections.has(Protection::ReadCommitted) { p.stable() } else { p.end() }
    }

    /// The record at an offset, if a reader is given it (not a marker, not aborted).
    pub fn record(&self, partition: usize, offset: u64) -> Option<&Payload> {
        let (tx, payload) = &self.partitions[partition].records[offset as usize];
        let given = self.transactions[*tx].state == State::Committed || !self.protections.has(Protection::ReadCommitted);
        payload.as_ref().filter(|_| given)
    }

    /// Every record that a reader is given from an offset on.
    pub fn read(&self, partition: usize, from: u64) -> impl DoubleEndedIterator<Item = (u64, &Payload)> {
        (from..self.readable(partition)).filter_map(move |offset| self.record(partition, offset).map(|payload| (offset, payload)))
    }

    pub fn rows(&self, partition: usize, from: u64) -> impl Iterator<Item = (u64, &Rc<Row>)> {
        self.read(partition, from).filter_map(|(offset, payload)| match payload {
            Payload::Row(row) => Some((offset, row)),
            Payload::Event(_) | Payload::Progress(_) => None,
        })
    }

    pub fn events(&self, partition: usize, from: u64) -> impl Iterator<Item = (u64, &Arc<SchemaEvent>)> {
        self.read(partition, from).filter_map(|(offset, payload)| match payload {
            Payload::Event(event) => Some((offset, event)),
            Payload::Row(_) | Payload::Progress(_) => None,
        })
    }

    pub fn progress(&self, partition: usize) -> Option<&Rc<Progress>> {
        self.read(partition, 0).rev().find_map(|(_, payload)| match payload {
            Payload::Progress(progress) => Some(progress),
            Payload::Row(_) | Payload::Event(_) => None,
        })
    }
}
