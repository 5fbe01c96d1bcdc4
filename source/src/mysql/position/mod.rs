//! A place in a MySQL or MariaDB binary log.
//!
//! Text form: `mariadb gtid=0-1-5,1-2-9 server=1 file=binlog.000003:1234`; without GTIDs the `gtid=` part is missing. While XA
//! transactions are undecided, `open=` before `server=` names where the log has to be read from: `open=0-1-3`, and without GTIDs
//! `open=1234@binlog.000002`.

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

/// A place between two groups of the log: everything before it is behind us, except what `open` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    pub gtids: Gtids,
    /// Before the oldest XA transaction that is prepared and neither committed nor rolled back: its rows have to be read again.
    pub open: Option<Open>,
    /// Who wrote the files: `server_uuid` on MySQL, `server_id` on MariaDB. File and offset mean nothing on another server.
    pub server: String,
    pub file: String,
    /// Bytes from the file's begin; not cut to 32 bits.
    pub offset: u64,
}

/// Where the log has to be read from, before a [`Position`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    pub gtids: Gtids,
    /// Of the position's server; what counts where there are no GTIDs.
    pub file: String,
    pub offset: u64,
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.gtids {
            // A file's name may have blanks, which part the text.
            Gtids::None => write!(f, "{}@{}", self.offset, self.file.replace('%', "%25").replace(' ', "%20")),
            Gtids::MySql(set) => set.fmt(f),
            Gtids::MariaDb(domains) => domains.fmt(f),
        }
    }
}

impl Open {
    /// File and offset are kept only where they count.
    pub fn new(gtids: Gtids, file: String, offset: u64) -> Self {
        match gtids {
            Gtids::None => Self { gtids, file, offset },
            Gtids::MySql(_) | Gtids::MariaDb(_) => Self { gtids, file: String::new(), offset: 0 },
        }
    }

    fn read(text: &str, beside: &Gtids) -> Option<Self> {
        Some(match beside {
            Gtids::None => {
                let (offset, file) = text.split_once('@')?;
                Self { gtids: Gtids::None, file: file.replace("%20", " ").replace("%25", "%"), offset: offset.parse().ok()? }
            }
            Gtids::MySql(_) => Self::new(Gtids::MySql(text.parse().ok()?), String::new(), 0),
            Gtids::MariaDb(_) => Self::new(Gtids::MariaDb(text.parse().ok()?), String::new(), 0),
        })
    }
}

impl Position {
    /// Where the log has to be read from.
    pub fn start(&self) -> Open {
        let Self { gtids, file, offset, .. } = self;
        self.open.clone().unwrap_or_else(|| Open { gtids: gtids.clone(), file: file.clone(), offset: *offset })
    }

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
        if let Some(open) = &self.open {
            write!(f, "open={open} ")?;
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
    let (open, server) = match server.strip_prefix("open=") {
        Some(rest) => {
            let (open, server) = rest.split_once(' ')?;
            (Some(Open::read(open, &gtids)?), server)
        }
        None => (None, server),
    };
    let server = server.strip_prefix("server=")?;
    Some(Position { gtids, open, server: server.into(), file: file.into(), offset: offset.parse().ok()? })
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
            "mariadb gtid=0-1-5,1-2-9 open=0-1-3 server=1 file=binlog.000003:4",
            "mysql gtid=3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9 open=3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5 server=y file=binlog.000003:4",
            "binlog open=5000000000@a%20%25b.000002 server=y file=a %b.000003:4",
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
