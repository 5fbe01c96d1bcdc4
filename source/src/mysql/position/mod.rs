//! A place in a MySQL or MariaDB binary log.
//!
//! Text form: `mariadb gtid=0-1-5,1-2-9 server=1 file=binlog.000003:1234`; without GTIDs the `gtid=` part is missing.

pub mod mariadb;
pub mod mysql;

use std::fmt;

use self::{mariadb::Domains, mysql::GtidSet};
use crate::{engine, error::CaptureError};

/// What was committed up to a place, by identity of transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gtids {
    /// `gtid_mode` is off: the place is known by file and offset alone.
    None,
    MySql(GtidSet),
    MariaDb(Domains),
}

/// A place between two groups of the log: everything before it is behind us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    pub gtids: Gtids,
    /// Who wrote the files: `server_uuid` on MySQL, `server_id` on MariaDB. File and offset mean nothing on another server.
    pub server: String,
    pub file: String,
    /// Bytes from the file's begin; not cut to 32 bits.
    pub offset: u64,
}

impl Position {
    /// The number at the end of a log file's name: files of one server are ordered by it.
    pub fn file_number(file: &str) -> Option<u64> {
        file.rsplit_once('.').and_then(|(_, digits)| digits.parse().ok())
    }

    /// Whether this place lies at or behind `other` in the files of one and the same server.
    pub fn at_or_behind_in_files(&self, other: &Self) -> bool {
        self.server == other.server && (Self::file_number(&self.file), self.offset) >= (Self::file_number(&other.file), other.offset)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.gtids {
            Gtids::None => f.write_str("binlog ")?,
            Gtids::MySql(set) => write!(f, "mysql gtid={set} ")?,
            Gtids::MariaDb(domains) => write!(f, "mariadb gtid={domains} ")?,
        }
        write!(f, "server={} file={}:{}", self.server, self.file, self.offset)
    }
}

impl engine::Position for Position {
    fn parse(text: &str) -> Result<Self, CaptureError> {
        read(text).ok_or_else(|| CaptureError::Refused(format!("the stored position {text:?} is not one of a MySQL or MariaDB log")))
    }

    fn reached(&self, other: &Self) -> bool {
        match (&self.gtids, &other.gtids) {
            (Gtids::MySql(here), Gtids::MySql(there)) => here.contains(there),
            (Gtids::MariaDb(here), Gtids::MariaDb(there)) => here.contains(there),
            (Gtids::None | Gtids::MySql(_) | Gtids::MariaDb(_), _) => self.at_or_behind_in_files(other),
        }
    }
}

fn read(text: &str) -> Option<Position> {
    let (head, file) = text.split_once(" file=")?;
    let (file, offset) = file.rsplit_once(':')?;
    let (gtids, server) = match head.split_once(' ')? {
        ("binlog", rest) => (Gtids::None, rest),
        ("mysql", rest) => {
            let (set, rest) = rest.strip_prefix("gtid=")?.split_once(' ')?;
            (Gtids::MySql(set.parse().ok()?), rest)
        }
        ("mariadb", rest) => {
            let (set, rest) = rest.strip_prefix("gtid=")?.split_once(' ')?;
            (Gtids::MariaDb(set.parse().ok()?), rest)
        }
        (_, _) => return None,
    };
    let server = server.strip_prefix("server=")?;
    Some(Position { gtids, server: server.into(), file: file.into(), offset: offset.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Position as _;

    fn at(text: &str) -> Position {
        Position::parse(text).unwrap()
    }

    #[test]
    fn text_forms_are_read_back() {
        for text in [
            "binlog server=3e11fa47-71ca-11e1-9e33-c80aa9429562 file=mysql-bin.000009:154",
            "mysql gtid=3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7 server=3e11fa47-71ca-11e1-9e33-c80aa9429562 file=binlog.000001:4",
            "mysql gtid= server=x file=binlog.000001:4",
            "mariadb gtid=0-1-5,1-2-9 server=1 file=a b.000003:5000000000",
            "mariadb gtid= server=1 file=binlog.000003:4",
        ] {
            assert_eq!(at(text).to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused_by_name() {
        for text in
            ["", "mysql", "mariadb gtid=0-1 server=1 file=b.000001:4", "oracle server=1 file=b.000001:4", "binlog server=1 file=b.000001"]
        {
            let error = Position::parse(text).unwrap_err().to_string();
            assert!(error.contains("is not one of a MySQL or MariaDB log"), "{error}");
        }
    }

    #[test]
    fn files_are_ordered_by_their_number_and_only_on_one_server() {
        let place = |file: &str, offset: u64, server: &str| at(&format!("binlog server={server} file={file}:{offset}"));
        assert!(place("b.1000000", 4, "a").reached(&place("b.999999", 900, "a")));
        assert!(!place("b.999999", 900, "a").reached(&place("b.1000000", 4, "a")));
        assert!(place("b.000001", 900, "a").reached(&place("b.000001", 900, "a")));
        assert!(!place("b.000001", 900, "a").reached(&place("b.000001", 4, "b")));
    }

    #[test]
    fn gtid_sets_decide_whatever_the_files_say() {
        let here = at("mariadb gtid=0-1-9,5-1-2 server=1 file=b.000001:4");
        assert!(here.reached(&at("mariadb gtid=0-7-9 server=7 file=x.000008:4")));
        assert!(!here.reached(&at("mariadb gtid=0-1-9,5-1-3 server=1 file=b.000001:4")));
        assert!(!here.reached(&at("mariadb gtid=6-1-1 server=1 file=b.000001:4")));
    }
}
