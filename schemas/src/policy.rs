//! What a person wants done with each kind of change, per sink and per table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::change::Kind;

/// What to do with a kind of change where the rules' own answer is not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Apply,
    Hold,
    Stop,
    /// The target stays as it is while rows still fit.
    Keep,
}

/// The configured actions of one table on one sink, groups already spread over their kinds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    pub actions: BTreeMap<Kind, Action>,
}
