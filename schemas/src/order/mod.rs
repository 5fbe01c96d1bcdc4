//! The order protocol as a pure state machine: what a source does at a boundary, and when a sink may apply what.
//!
//! The product and the simulation run the same functions; a driver only carries out what they ask for.
//!
//! `ledger` is what a target remembers, `events` what a sink has read of the schema versions, `sink` decides over both,
//! `cursor` is a lane's place, `source` (with `copy`) is the source's progress, `boundary` the sequence around an event.

pub mod boundary;
mod copy;
pub mod cursor;
pub mod events;
pub mod ledger;
pub mod protection;
pub mod sink;
pub mod source;
mod transition;
