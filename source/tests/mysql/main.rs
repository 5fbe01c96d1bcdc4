//! The MySQL engine against real servers. Their addresses: INSTAR_TEST_MARIADB, INSTAR_TEST_MARIADB_11 and INSTAR_TEST_MYSQL, `mysql://root:…@host:port`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod change;
mod chunk;
mod partial_json;
mod preflight;
mod random;
mod spelling;
mod statements;
mod types;
mod undecided;
mod wire;
mod world;
