//! What both ends of a pipeline must agree on: tables, types, changes, rules, wire format and the order protocol.
//!
//! Pure: no I/O, no clock, no environment, no async runtime, no driver.

pub mod capability;
pub mod change;
pub mod charset;
pub mod classify;
pub mod command;
pub mod ddl;
pub mod diff;
pub mod event;
pub mod matrix;
pub mod native;
pub mod order;
pub mod plan;
pub mod policy;
pub mod rules;
pub mod table;
pub mod types;
pub mod value;
pub mod view;
pub mod wire;
