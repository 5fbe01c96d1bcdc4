//! The engines' own types, one file each: what a declaration means, and how an engine declares a meaning.

pub mod mysql;
pub mod postgres;

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::types::Type;

/// A source type that an engine has no type for which holds every value exactly.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("type {declaration} has no exact counterpart: {why}")]
pub struct Unsupported {
    pub declaration: String,
    pub why: String,
}

/// A column's declaration as its engine knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Native {
    MySql(mysql::Native),
    Postgres(postgres::Native),
}

impl Native {
    /// What the values of such a column are.
    pub fn logical(&self) -> Type {
        match self {
            Native::MySql(native) => native.logical(),
            Native::Postgres(native) => native.logical(),
        }
    }

    /// The collation that a column's values are sorted by, where the column has one of its own.
    pub fn collation(&self) -> Option<&str> {
        match self {
            Native::MySql(native) => native.collation(),
            // Its declaration is not part of the type.
            Native::Postgres(_) => None,
        }
    }

    /// Whether two values that the engine calls equal always have the same bytes on the wire.
    pub fn equal_means_same_bytes(&self) -> bool {
        match self {
            Native::MySql(native) => native.equal_means_same_bytes(),
            Native::Postgres(native) => native.equal_means_same_bytes(),
        }
    }
}

impl fmt::Display for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Native::MySql(native) => native.fmt(f),
            Native::Postgres(native) => native.fmt(f),
        }
    }
}
