//! What the fuzz targets share.
//!
//! The pure half of `source` and the configuration are compiled here from their own files: the whole crates would bring drivers,
//! TLS and a C library, and minutes of building.

#![allow(dead_code, reason = "modules are taken whole")]

#[path = "../../../deploy/runtime/src/config/mod.rs"]
pub mod config;
#[path = "../../../source/src/engine.rs"]
pub mod engine;
#[path = "../../../source/src/error.rs"]
pub mod error;
#[path = "../../../source/src/key.rs"]
pub mod key;
pub mod log;
pub mod memory;
pub mod mysql;
pub mod row;

/// Stands where the product names its configuration's own crate.
pub mod runtime {
    pub use crate::config;
}
