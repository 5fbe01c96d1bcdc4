//! PostgreSQL as a target, on a real server: `INSTAR_TEST_POSTGRES=postgres://user:password@host:port/database`.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "postgres/effects.rs"]
mod effects;
#[path = "postgres/ledger.rs"]
mod ledger;
#[path = "postgres/preflight.rs"]
mod preflight;
#[path = "postgres/session.rs"]
mod session;
#[path = "postgres/support.rs"]
mod support;
#[path = "postgres/values.rs"]
mod values;
