//! The events that begin a group.

use super::{Malformed, cursor::Cursor};
use crate::mysql::position::{mariadb::Gtid, mysql::Origin};

/// What MariaDB's GTID event says of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MariaDbGtid {
    pub gtid: Gtid,
    /// The group is one statement without an end of its own.
    pub standalone: bool,
    pub transactional: bool,
    /// Rows that stand until XA COMMIT or XA ROLLBACK.
    pub xa_prepared: bool,
    pub xa_completed: bool,
    pub alter: AlterPhase,
}

/// MariaDB's ALTER in two groups (`binlog_alter_two_phase`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlterPhase {
    None,
    /// Announced: nothing changed yet.
    Start,
    Commit,
    /// Given up: nothing changed.
    Rollback,
}

impl MariaDbGtid {
    /// Reads the event's body; the server id stands in its header.
    pub fn read(body: &[u8], server: u32) -> Result<Self, Malformed> {
        const GROUP_COMMIT: u8 = 2;
        const XA: u8 = 64 | 128;
        let mut cursor = Cursor::new(body, "a MariaDB GTID event");
        let (sequence, domain, flags) = (cursor.u64()?, cursor.u32()?, cursor.u8()?);
        if flags & GROUP_COMMIT != 0 {
            cursor.skip(8)?;
        }
        if flags & XA != 0 {
            cursor.skip(4)?;
            let lengths = usize::from(cursor.u8()?) + usize::from(cursor.u8()?);
            cursor.skip(lengths)?;
        }
        let extra = if cursor.is_empty() { 0 } else { cursor.u8()? };
        let alter = match extra & 0x0e {
            0 => AlterPhase::None,
            2 => AlterPhase::Start,
            4 => AlterPhase::Commit,
            8 => AlterPhase::Rollback,
            other => {
                return Err(Malformed::Unreadable { what: "a MariaDB GTID event", problem: format!("unknown ALTER phase {other}") });
            }
        };
        Ok(Self {
            gtid: Gtid { domain, server, sequence },
            standalone: flags & 1 != 0,
            transactional: flags & 4 != 0,
            xa_prepared: flags & 64 != 0,
            xa_completed: flags & 128 != 0,
            alter,
        })
    }
}

/// What MySQL's GTID event says of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MySqlGtid {
    pub origin: Origin,
    pub number: u64,
    /// When the server committed it, where the event says so.
    pub commit_micros: Option<u64>,
}

impl MySqlGtid {
    /// Reads the body of an untagged GTID event; an anonymous one has the same form.
    pub fn read(body: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(body, "a GTID event");
        cursor.skip(1)?;
        let uuid = cursor.take(16)?;
        let number = cursor.u64()?;
        let mut commit_micros = None;
        if !cursor.is_empty() && cursor.u8()? == 2 {
            cursor.skip(16)?;
            if cursor.rest().len() >= 7 {
                commit_micros = Some(cursor.uint(7)? & ((1 << 55) - 1));
            }
        }
        Ok(Self { origin: Origin { uuid: uuid_text(uuid), tag: String::new() }, number, commit_micros })
    }
}

/// A server's UUID in its text form.
pub fn uuid_text(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mariadbs_flags_say_how_the_group_ends() {
        let mut body = [0u8; 19];
        body[0] = 7;
        body[8] = 3;
        body[12] = 1 | 4;
        let gtid = MariaDbGtid::read(&body, 11).unwrap();
        assert_eq!(gtid.gtid.to_string(), "3-11-7");
        assert!(gtid.standalone && gtid.transactional && !gtid.xa_prepared);
        assert_eq!(gtid.alter, AlterPhase::None);
        body[13] = 4;
        assert_eq!(MariaDbGtid::read(&body, 11).unwrap().alter, AlterPhase::Commit);
        // A commit id stands before the extra flags.
        let mut long = [0u8; 23];
        (long[12], long[13], long[21]) = (2, 9, 2);
        assert_eq!(MariaDbGtid::read(&long, 11).unwrap().alter, AlterPhase::Start);
    }
}
