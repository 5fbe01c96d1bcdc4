//! The loop against a scripted source and the real local log.

mod fake;
mod order;
mod stand;
mod topics;
mod world;
