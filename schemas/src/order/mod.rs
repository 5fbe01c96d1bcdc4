//! The order protocol as a pure state machine: what a source does at a boundary, and when a sink may apply what.
//!
//! The product and the simulation run the same functions; a driver only carries out what they ask for.

pub mod ledger;
