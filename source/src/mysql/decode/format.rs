//! FORMAT_DESCRIPTION events: how the events of a file are laid out.

use super::{Malformed, cursor::Cursor};
use crate::mysql::event::kind;

/// The only version since MySQL 5.0.
const VERSION: u16 = 4;
const HEADER: u8 = 19;
/// Bytes of the fixed part of events that we read, by type.
const FIXED: [(u8, u8); 6] = [(kind::QUERY, 13), (kind::ROTATE, 8), (kind::TABLE_MAP, 8), (30, 10), (31, 10), (32, 10)];

/// Whether the events of the file are laid out as they are read here.
///
/// # Errors
/// What is different.
pub fn check(body: &[u8]) -> Result<(), Malformed> {
    const WHAT: &str = "a FORMAT_DESCRIPTION event";
    let unreadable = |problem: String| Malformed::Unreadable { what: WHAT, problem };
    let mut cursor = Cursor::new(body, WHAT);
    let version = cursor.u16()?;
    let server = String::from_utf8_lossy(cursor.take(50)?).trim_end_matches('\0').to_owned();
    cursor.skip(4)?;
    let header = cursor.u8()?;
    if version != VERSION || header != HEADER {
        return Err(unreadable(format!(
            "the log of {server} is of version {version} with headers of {header} bytes; version {VERSION} and {HEADER} bytes are understood"
        )));
    }
    let fixed = cursor.rest();
    for (kind, expected) in FIXED {
        // A server that does not know a type does not list it.
        let Some(found) = fixed.get(usize::from(kind) - 1).filter(|found| **found != 0) else { continue };
        if *found != expected {
            return Err(unreadable(format!(
                "events of type {kind} have a fixed part of {found} bytes in the log of {server}; {expected} are understood"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the documentation lays the event out: version, the server's name, time, length of a header, of each type's fixed part.
    fn body(server: &str, fixed: &[u8]) -> Vec<u8> {
        let mut body = vec![4, 0];
        body.extend(server.as_bytes());
        body.resize(52, 0);
        body.extend([0, 0, 0, 0, 19]);
        body.extend(fixed);
        // The checksum's kind.
        body.push(1);
        body
    }

    /// Fixed parts of types 1 to 41, as MySQL 8.0 has them; 8.4 has one type more.
    const MYSQL_80: [u8; 41] = [
        0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 98, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0, 0, 0, 10, 10, 10, 42, 42, 0, 18, 52, 0, 10, 40,
        0,
    ];

    #[test]
    fn logs_of_each_supported_version_are_understood() {
        assert_eq!(check(&body("8.0.36", &MYSQL_80)), Ok(()));
        assert_eq!(check(&body("8.4.0-log", &[&MYSQL_80[..], &[42]].concat())), Ok(()));
        // MariaDB's table goes on to type 171; its events 30 to 32 are the same.
        let mut mariadb = MYSQL_80.to_vec();
        mariadb.resize(171, 0);
        assert_eq!(check(&body("10.6.16-MariaDB-log", &mariadb)), Ok(()));
    }

    #[test]
    fn another_layout_is_an_error_that_says_what_differs() {
        let mut other = MYSQL_80;
        other[18] = 6;
        let error = check(&body("8.0.36", &other)).unwrap_err().to_string();
        assert!(error.contains("type 19 have a fixed part of 6 bytes in the log of 8.0.36; 8 are"), "{error}");
        let mut version = body("5.0", &MYSQL_80);
        version[0] = 3;
        assert!(check(&version).unwrap_err().to_string().contains("version 3 with headers of 19"));
        assert!(check(&version[..40]).is_err());
    }
}
