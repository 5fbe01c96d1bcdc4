//! What schedules are drawn from: all of it, or what makes a rare meeting likely.

use crate::database::Kind;

/// What a schedule is drawn from. [`RANDOM`] draws all of it; an aimed scenario narrows it.
#[derive(Debug, Clone, Copy)]
pub struct Aim {
    pub tables: (usize, usize),
    pub keyless: f64,
    pub lanes: (usize, usize),
    pub partial: Option<f64>,
    pub transactional: Option<bool>,
    pub kinds: Option<&'static [Kind]>,
    pub faults: Option<f64>,
    pub operator: f64,
    pub sinks: (usize, usize),
    pub bad: f64,
    /// How often the user writes rather than alters.
    pub writes: f64,
    /// How often a reload comes out of the blue, a step.
    pub reloads: f64,
    pub ops: (usize, usize),
    pub steps: (usize, usize),
}

pub const RANDOM: Aim = Aim {
    tables: (2, 3),
    keyless: 0.4,
    lanes: (1, 3),
    partial: None,
    transactional: None,
    kinds: None,
    faults: None,
    operator: 0.75,
    sinks: (1, 3),
    bad: 0.02,
    writes: 0.72,
    reloads: 0.0015,
    ops: (3, 14),
    steps: (60, 300),
};

/// The aimed scenarios.
pub const NAMES: [&str; 9] = ["reload", "order", "drain", "held", "reread", "keyless", "stand", "crashes", "values"];

/// A scenario by name; an unknown name is all of it.
pub fn named(name: &str) -> Aim {
    match name {
        // Reloads and removals among changes that stop, decided by several instances.
        "reload" => {
            Aim { kinds: Some(&[Kind::Stop, Kind::Ok, Kind::Hold]), reloads: 0.02, operator: 1.0, sinks: (2, 3), writes: 0.55, ..RANDOM }
        }
        // Statements without transactions that change nothing but the order of columns, their deciders dying.
        "order" => Aim {
            kinds: Some(&[Kind::Swap, Kind::Swap, Kind::Ok]),
            transactional: Some(false),
            faults: Some(0.3),
            sinks: (2, 3),
            keyless: 0.0,
            lanes: (1, 1),
            writes: 0.4,
            ops: (3, 8),
            steps: (150, 300),
            ..RANDOM
        },
        // A table held, altered, approved and altered again.
        "drain" => Aim {
            tables: (1, 2),
            kinds: Some(&[Kind::Hold, Kind::Ok, Kind::Ok]),
            operator: 1.0,
            lanes: (1, 2),
            writes: 0.4,
            ops: (8, 16),
            steps: (200, 400),
            ..RANDOM
        },
        // A table held for good, and altered while its rows wait.
        "held" => Aim { kinds: Some(&[Kind::Hold, Kind::Ok]), operator: 0.0, writes: 0.6, ..RANDOM },
        // Key changes without all columns while the table is copied.
        "reread" => Aim {
            kinds: Some(&[Kind::Ok, Kind::Truncate]),
            partial: Some(1.0),
            keyless: 0.0,
            writes: 0.95,
            reloads: 0.01,
            ops: (10, 20),
            ..RANDOM
        },
        // Tables without a key: views, begun again.
        "keyless" => Aim { keyless: 1.0, reloads: 0.01, faults: Some(0.15), ..RANDOM },
        // Statements that the source does not understand.
        "stand" => Aim {
            kinds: Some(&[Kind::Unknown, Kind::Ok, Kind::Swap, Kind::Comment]),
            operator: 1.0,
            writes: 0.5,
            faults: Some(0.15),
            ..RANDOM
        },
        "crashes" => Aim { faults: Some(0.6), steps: (150, 400), ..RANDOM },
        // Values that do not fit.
        "values" => Aim { bad: 0.3, operator: 1.0, partial: Some(0.5), writes: 0.8, ..RANDOM },
        _ => RANDOM,
    }
}
