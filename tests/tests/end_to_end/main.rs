//! End to end on real servers: MariaDB → local topics → PostgreSQL, in processes that are killed, stopped and altered under.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod accept;
mod apart;
mod bad_input;
mod broker;
mod change;
mod change_list;
mod command;
mod connection;
mod copy;
mod crash;
mod load;
mod log;
mod many;
mod model;
mod mysql;
mod order;
mod outage;
mod readers;
mod restart;
mod right;
mod setting;
mod terminal;
mod two_phase;
mod values;
mod way_out;
mod world;
