//! The MySQL engine against real servers. Their addresses: INSTAR_TEST_MARIADB, INSTAR_TEST_MARIADB_11 and INSTAR_TEST_MYSQL, `mysql://root:…@host:port`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod change;
mod chunk;
mod preflight;
mod random;
mod types;
mod world;
