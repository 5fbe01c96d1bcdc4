//! MySQL and MariaDB: what reads the log, without what fetches it.

#[path = "../../../source/src/mysql/decode/mod.rs"]
pub mod decode;
#[path = "../../../source/src/mysql/event.rs"]
pub mod event;
#[path = "../../../source/src/mysql/group/mod.rs"]
pub mod group;
#[path = "../../../source/src/mysql/mapping.rs"]
pub mod mapping;
#[path = "../../../source/src/mysql/position/mod.rs"]
pub mod position;
#[path = "../../../source/src/mysql/server/facts.rs"]
pub mod server;
#[path = "../../../source/src/mysql/shapes.rs"]
pub mod shapes;
