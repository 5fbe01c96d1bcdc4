//! Identifiers of XA transactions.

use std::fmt;

use super::{Malformed, cursor::Cursor};

/// An XA transaction's identifier, in the one form of its statements and its events.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Xid {
    pub format: u32,
    pub global: Vec<u8>,
    pub branch: Vec<u8>,
}

/// What an XA_PREPARE event says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepare {
    /// It is committed at once (XA COMMIT … ONE PHASE).
    pub one_phase: bool,
    pub xid: Xid,
}

impl Prepare {
    pub fn read(body: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(body, "an XA_PREPARE event");
        let one_phase = cursor.u8()? != 0;
        let (format, global, branch) = (cursor.u32()?, cursor.u32()? as usize, cursor.u32()? as usize);
        let xid = Xid { format, global: cursor.take(global)?.to_vec(), branch: cursor.take(branch)?.to_vec() };
        Ok(Self { one_phase, xid })
    }
}

impl Xid {
    /// Reads the form that servers log: `X'61',X'62',1`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(',').map(str::trim);
        let (global, branch, format) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        Some(Self { format: format.parse().ok()?, global: hex(global)?, branch: hex(branch)? })
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix(['X', 'x'])?.strip_prefix('\'')?.strip_suffix('\'')?;
    if digits.len() % 2 != 0 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    (0..digits.len() / 2).map(|i| u8::from_str_radix(digits.get(2 * i..2 * i + 2)?, 16).ok()).collect()
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.global, &self.branch] {
            f.write_str("X'")?;
            part.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            f.write_str("',")?;
        }
        write!(f, "{}", self.format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_and_events_name_the_same_transaction() {
        let body = [&[0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0][..], &[0, 0xff, 1]].concat();
        let prepare = Prepare::read(&body).unwrap();
        assert!(!prepare.one_phase);
        assert_eq!(Xid::parse("X'00ff',X'01',3"), Some(prepare.xid.clone()));
        assert_eq!(prepare.xid.to_string(), "X'00ff',X'01',3");
        assert_eq!(Xid::parse("X'61',X'',1").unwrap().to_string(), "X'61',X'',1");
        for text in ["", "X'6',X'',1", "X'61'", "'a','b',1", "X'61',X'',1,1", "X'+1',X'',1"] {
            assert_eq!(Xid::parse(text), None, "{text}");
        }
        assert!(Prepare::read(&body[..body.len() - 1]).is_err());
    }
}
