//! MySQL and MariaDB: row binlog, by GTID where it is on, else by file and position.

pub mod decode;
pub mod position;
