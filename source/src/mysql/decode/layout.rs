//! How many bytes a value takes in a row image, from the column's type code and metadata alone.

use super::{Malformed, cursor::little, decimal};

/// Type codes of the log.
pub mod code {
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    pub const NEWDATE: u8 = 14;
    pub const VARCHAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const TIMESTAMP2: u8 = 17;
    pub const DATETIME2: u8 = 18;
    pub const TIME2: u8 = 19;
    /// MariaDB.
    pub const BLOB_COMPRESSED: u8 = 140;
    /// MariaDB.
    pub const VARCHAR_COMPRESSED: u8 = 141;
    /// MySQL 9.
    pub const VECTOR: u8 = 242;
    pub const JSON: u8 = 245;
    pub const NEWDECIMAL: u8 = 246;
    pub const ENUM: u8 = 247;
    pub const SET: u8 = 248;
    pub const BLOB: u8 = 252;
    pub const VAR_STRING: u8 = 253;
    pub const STRING: u8 = 254;
    pub const GEOMETRY: u8 = 255;
}

/// A column's physical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Physical {
    /// The type code; of ENUM and SET their own, not STRING.
    pub code: u8,
    /// BLOB and its like: length bytes; VARCHAR and STRING: bytes at most; ENUM and SET: bytes; times: precision;
    /// BIT: bits; DECIMAL: precision × 256 + scale.
    pub meta: u16,
}

/// Where a value ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Fixed(usize),
    /// This many length bytes come first.
    Prefixed(usize),
}

impl Physical {
    /// Reads the metadata of a type code from a TABLE_MAP's field; returns what it takes of it.
    pub fn read(code: u8, meta: &[u8]) -> Result<(Self, usize), Malformed> {
        let byte = |i: usize| meta.get(i).copied().ok_or(Malformed::Truncated("TABLE_MAP metadata"));
        let physical = |code, meta, used| Ok((Self { code, meta }, used));
        match code {
            code::FLOAT
            | code::DOUBLE
            | code::BLOB
            | code::BLOB_COMPRESSED
            | code::JSON
            | code::GEOMETRY
            | code::VECTOR
            | code::TIMESTAMP2
            | code::DATETIME2
            | code::TIME2 => physical(code, u16::from(byte(0)?), 1),
            code::VARCHAR | code::VARCHAR_COMPRESSED | code::VAR_STRING => physical(code, u16::from_le_bytes([byte(0)?, byte(1)?]), 2),
            code::NEWDECIMAL => physical(code, u16::from_be_bytes([byte(0)?, byte(1)?]), 2),
            code::BIT => physical(code, u16::from(byte(1)?) * 8 + u16::from(byte(0)?), 2),
            code::STRING | code::ENUM | code::SET => {
                let (real, length) = (byte(0)?, u16::from(byte(1)?));
                if matches!(real, code::ENUM | code::SET) {
                    return physical(real, length, 2);
                }
                // Lengths over 255 borrow two bits of the type.
                let high = u16::from((real & 0x30) ^ 0x30) << 4;
                physical(code::STRING, length | high, 2)
            }
            code::TINY
            | code::SHORT
            | code::LONG
            | code::TIMESTAMP
            | code::LONGLONG
            | code::INT24
            | code::DATE
            | code::TIME
            | code::DATETIME
            | code::YEAR
            | code::NEWDATE => physical(code, 0, 0),
            other => Err(Malformed::Unreadable { what: "TABLE_MAP", problem: format!("unknown type code {other}") }),
        }
    }

    pub fn extent(&self) -> Extent {
        let part = usize::from(self.meta.min(6)).div_ceil(2);
        match self.code {
            code::TINY | code::YEAR => Extent::Fixed(1),
            code::SHORT => Extent::Fixed(2),
            code::INT24 | code::DATE | code::NEWDATE | code::TIME => Extent::Fixed(3),
            code::LONG | code::FLOAT | code::TIMESTAMP => Extent::Fixed(4),
            code::LONGLONG | code::DOUBLE | code::DATETIME => Extent::Fixed(8),
            code::TIMESTAMP2 => Extent::Fixed(4 + part),
            code::DATETIME2 => Extent::Fixed(5 + part),
            code::TIME2 => Extent::Fixed(3 + part),
            code::BIT => Extent::Fixed(usize::from(self.meta).div_ceil(8)),
            code::NEWDECIMAL => Extent::Fixed(decimal::length((self.meta >> 8) as u8, (self.meta & 0xff) as u8)),
            code::ENUM | code::SET => Extent::Fixed(usize::from(self.meta)),
            code::VARCHAR | code::VARCHAR_COMPRESSED | code::VAR_STRING | code::STRING => {
                Extent::Prefixed(if self.meta > 255 { 2 } else { 1 })
            }
            // BLOB, JSON, GEOMETRY, VECTOR: the metadata is the number of length bytes.
            _ => Extent::Prefixed(usize::from(self.meta)),
        }
    }

    /// Counted in TABLE_MAP's signedness bits.
    pub fn is_numeric(&self) -> bool {
        matches!(
            self.code,
            code::TINY
                | code::SHORT
                | code::INT24
                | code::LONG
                | code::LONGLONG
                | code::NEWDECIMAL
                | code::FLOAT
                | code::DOUBLE
                | code::YEAR
        )
    }

    /// Counted in TABLE_MAP's list of collations. MariaDB counts GEOMETRY too, MySQL VECTOR, whose collation is binary.
    pub fn is_character(&self, mariadb: bool) -> bool {
        match self.code {
            code::STRING | code::VAR_STRING | code::VARCHAR | code::VARCHAR_COMPRESSED | code::BLOB | code::BLOB_COMPRESSED => true,
            code::GEOMETRY => mariadb,
            code::VECTOR => !mariadb,
            _ => false,
        }
    }
}

impl Extent {
    /// Where a value that begins at `at` has its bytes, and where the next one begins.
    #[inline]
    pub fn locate(self, data: &[u8], at: usize) -> Result<(usize, usize), Malformed> {
        let (begin, length) = match self {
            Extent::Fixed(n) => (at, n),
            Extent::Prefixed(1) => (at + 1, usize::from(*data.get(at).ok_or(Malformed::Truncated("a row"))?)),
            Extent::Prefixed(n) => {
                let prefix = data.get(at..at + n).filter(|_| n <= 8).ok_or(Malformed::Truncated("a row"))?;
                (at + n, little(prefix) as usize)
            }
        };
        match begin.checked_add(length) {
            Some(end) if end <= data.len() => Ok((begin, end)),
            Some(_) | None => Err(Malformed::Truncated("a row")),
        }
    }
}
