//! Everything outside the processes, and what a schedule is made of.

use std::{
    cell::{Cell, RefCell, RefMut},
    collections::BTreeSet,
    rc::Rc,
};

use schemas::{
    event::{Epoch, EventKind, SchemaEvent},
    order::{
        protection::{Protection, Protections},
        source::Command,
    },
    table::TableId,
};

use crate::{
    aims::Aim,
    database::{Database, Kind},
    random::Random,
    target::Target,
    transport::Transport,
};

pub type Shared = Rc<World>;

/// The sink whose instances are simulated.
pub const SINK: &str = "warehouse";

/// What the newest source says of itself.
#[derive(Debug, Default, Clone)]
pub struct Status {
    pub position: usize,
    pub copying: bool,
    pub command: u64,
    pub standing: BTreeSet<usize>,
    pub open: bool,
    /// The configuration is carried out.
    pub configured: bool,
    pub paused: bool,
}

pub struct World {
    pub protections: Protections,
    trace: bool,
    random: RefCell<Random>,
    pub step: Cell<u32>,
    pub ids: Vec<TableId>,
    pub keyless: Vec<bool>,
    pub lanes: Vec<u32>,
    /// Table and lane of each row partition; behind them the schema versions and the progress.
    pub partitions: Vec<(usize, u32)>,
    pub partial: f64,
    pub transactional: bool,
    pub kinds: Vec<Kind>,
    pub faults: f64,
    pub operator: bool,
    pub bad: f64,
    pub hold_bad: bool,
    pub database: RefCell<Database>,
    pub transport: RefCell<Transport>,
    pub target: RefCell<Target>,
    pub commands: RefCell<Vec<Command>>,
    pub wanted: RefCell<Vec<bool>>,
    pub status: RefCell<Status>,
    /// The number of the newest source.
    pub newest_source: Cell<usize>,
    violation: RefCell<Option<String>>,
}

impl World {
    pub fn new(seed: u64, aim: &Aim, protections: Protections, trace: bool) -> Self {
        let mut r = Random::new(seed);
        let tables = r.between(aim.tables.0, aim.tables.1);
        let keyless: Vec<bool> = (0..tables).map(|t| t > 0 && r.chance(aim.keyless)).collect();
        let lanes: Vec<u32> = keyless.iter().map(|k| if *k { 1 } else { r.between(aim.lanes.0, aim.lanes.1) as u32 }).collect();
        let partitions: Vec<(usize, u32)> = (0..tables).flat_map(|t| (0..lanes[t]).map(move |l| (t, l))).collect();
        let kinds: &[Kind] = aim.kinds.unwrap_or_else(|| r.pick(&KINDS));
        let ids: Vec<TableId> = ["a", "b", "c"].into_iter().take(tables).map(|name| TableId::new("s", name)).collect();
        let database = Database::new(&mut r, &keyless);
        let bad = if r.chance(0.3) { aim.bad } else { 0.0 };
        let world = Self {
            protections,
            trace,
            step: Cell::new(0),
            partial: aim.partial.unwrap_or_else(|| r.pick(&[0.0, 0.0, 0.5])),
            transactional: aim.transactional.unwrap_or_else(|| r.chance(0.5)),
            kinds: kinds.to_vec(),
            faults: aim.faults.unwrap_or_else(|| r.pick(&[0.0, 0.05, 0.15])),
            operator: r.chance(aim.operator),
            bad,
            hold_bad: r.chance(0.5),
            database: RefCell::new(database),
            transport: RefCell::new(Transport::new(partitions.len() + 2, protections)),
            target: RefCell::new(Target::new(tables)),
            commands: RefCell::default(),
            wanted: RefCell::new(vec![true; tables]),
            status: RefCell::default(),
            newest_source: Cell::new(0),
            violation: RefCell::default(),
            random: RefCell::new(r),
            ids,
            keyless,
            lanes,
            partitions,
        };
        world.log(|| {
            format!("lanes {:?} keyless {:?} transactional {} partial {}", world.lanes, world.keyless, world.transactional, world.partial)
        });
        world
    }

    pub fn has(&self, protection: Protection) -> bool {
        self.protections.has(protection)
    }

    pub fn random(&self) -> RefMut<'_, Random> {
        self.random.borrow_mut()
    }

    pub fn chance(&self, p: f64) -> bool {
        self.random().chance(p)
    }

    pub fn unit(&self) -> f64 {
        self.random().unit()
    }

    pub fn below(&self, n: usize) -> usize {
        self.random().below(n)
    }

    pub fn between(&self, low: usize, high: usize) -> usize {
        self.random().between(low, high)
    }

    pub fn pick<T: Copy>(&self, from: &[T]) -> T {
        self.random().pick(from)
    }

    pub fn log(&self, message: impl FnOnce() -> String) {
        if self.trace {
            println!("{:5} {}", self.step.get(), message());
        }
    }

    /// The first breach counts.
    pub fn violated(&self, what: String) {
        self.log(|| format!("VIOLATION {what}"));
        self.violation.borrow_mut().get_or_insert(what);
    }

    pub fn violation(&self) -> Option<String> {
        self.violation.borrow().clone()
    }

    pub fn broken(&self) -> bool {
        self.violation.borrow().is_some()
    }

    pub fn versions(&self) -> usize {
        self.partitions.len()
    }

    pub fn progress(&self) -> usize {
        self.partitions.len() + 1
    }

    pub fn partition(&self, table: usize, lane: u32) -> usize {
        let first: u32 = self.lanes[..table].iter().sum();
        (first + lane) as usize
    }

    pub fn index(&self, id: &TableId) -> usize {
        self.ids.iter().position(|i| i == id).unwrap_or(usize::MAX)
    }

    /// Whether the event is a reload or removal for our sink.
    pub fn begins_anew(&self, event: &SchemaEvent) -> bool {
        match event.kind {
            EventKind::Reload => event.for_sink.as_deref().is_none_or(|sink| sink == SINK),
            EventKind::Retire => true,
            EventKind::Initial | EventKind::Ddl => false,
        }
    }

    /// The newest event in the topic.
    pub fn newest_epoch(&self) -> Epoch {
        self.transport.borrow().events(self.versions(), 0).filter_map(|(_, e)| e.epoch).max().unwrap_or(0)
    }
}

const KINDS: [&[Kind]; 6] = [
    &[Kind::Ok, Kind::Swap, Kind::Truncate],
    &[Kind::Ok, Kind::Truncate, Kind::Hold, Kind::None],
    &[Kind::Hold, Kind::Ok, Kind::Hold, Kind::Fail],
    &[Kind::Ok, Kind::Hold, Kind::Stop, Kind::Truncate, Kind::Swap],
    &[Kind::Ok, Kind::Swap, Kind::Hold, Kind::Stop, Kind::Fail, Kind::Unknown, Kind::Truncate, Kind::Comment],
    &[Kind::Ok, Kind::Unknown, Kind::Hold, Kind::None, Kind::Comment],
];
