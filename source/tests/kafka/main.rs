//! The publisher on a real broker (INSTAR_TEST_KAFKA…) and a real registry (INSTAR_TEST_REGISTRY…).
#![expect(clippy::unwrap_used, reason = "tests")]

mod publisher;
mod registry;
mod security;
mod topic;
mod world;
