//! Reads little-endian fields from front to back.

use super::Malformed;

#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    /// What is read, for errors.
    what: &'static str,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(Malformed::Truncated(self.what))?;
        self.rest = rest;
        Ok(head)
    }

    pub fn skip(&mut self, n: usize) -> Result<(), Malformed> {
        self.take(n).map(drop)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// An unsigned number of `n` bytes, at most 8.
    pub fn uint(&mut self, n: usize) -> Result<u64, Malformed> {
        Ok(little(self.take(n)?))
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        let b = self.take(2)?;
        Ok(u16::from_le_bytes([b[0], b[1]]))
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        let b = self.take(4)?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.uint(8)
    }

    /// A length-encoded integer.
    pub fn packed(&mut self) -> Result<u64, Malformed> {
        match self.u8()? {
            0xfc => self.uint(2),
            0xfd => self.uint(3),
            0xfe => self.uint(8),
            small => Ok(u64::from(small)),
        }
    }

    /// A length-encoded integer that counts something in memory.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        let what = self.what;
        usize::try_from(self.packed()?).map_err(|_| Malformed::Truncated(what))
    }

    /// Bytes with a length-encoded length.
    pub fn packed_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let n = self.count()?;
        self.take(n)
    }
}

/// A little-endian number of at most 8 bytes.
#[inline]
pub fn little(bytes: &[u8]) -> u64 {
    let mut wide = [0u8; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(wide)
}

/// A big-endian number of at most 8 bytes.
#[inline]
pub fn big(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

/// A bit of a bitmap whose first bit is the lowest of the first byte.
#[inline]
pub fn bit(bitmap: &[u8], i: usize) -> bool {
    bitmap[i / 8] & (1 << (i % 8)) != 0
}
