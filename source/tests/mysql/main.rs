//! The MySQL engine against real servers. Their addresses: INSTAR_TEST_MARIADB and INSTAR_TEST_MYSQL, `mysql://root:…@host:port`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod change;
mod chunk;
mod preflight;
mod statement;
mod types;
mod world;
