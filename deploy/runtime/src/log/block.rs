//! Blocks: the records of one lane that were written together.
//!
//! A block is its time (u64, milliseconds since 1970), its first offset (u64), its count of records (u32), all little-endian, and the
//! records: length of the key plus one (0: no key), key, length of the value, value; lengths as LEB128.

use std::ops::Range;

use schemas::event::Offset;

/// Length of what stands before the records.
pub(super) const HEADER: usize = 20;
/// A block is closed before it grows over this.
pub(super) const TARGET: usize = 256 * 1024;

/// The records of a block under construction.
#[derive(Debug, Default)]
pub(super) struct Builder {
    bytes: Vec<u8>,
    count: u32,
}

impl Builder {
    pub fn new(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        bytes.resize(HEADER, 0);
        Self { bytes, count: 0 }
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether a record of this size would make the block larger than the target.
    pub fn is_full_for(&self, key: Option<&[u8]>, value: &[u8]) -> bool {
        self.count > 0 && self.bytes.len() + key.map_or(0, <[u8]>::len) + value.len() + 10 > TARGET
    }

    pub fn push(&mut self, key: Option<&[u8]>, value: &[u8]) {
        match key {
            Some(key) => {
                put_length(&mut self.bytes, key.len() as u64 + 1);
                self.bytes.extend_from_slice(key);
            }
            None => self.bytes.push(0),
        }
        put_length(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(value);
        self.count += 1;
    }

    /// Whether the records of a block go in.
    pub fn has_room_for(&self, block: &[u8]) -> bool {
        self.bytes.len() + block.len() <= TARGET
    }

    /// Adds the records of a block.
    pub fn extend(&mut self, header: Header, block: &[u8]) {
        self.bytes.extend_from_slice(&block[HEADER..]);
        self.count += header.count;
    }

    /// The block, whole.
    pub fn finish(&mut self, time: u64, first: Offset) -> &[u8] {
        self.bytes[..8].copy_from_slice(&time.to_le_bytes());
        self.bytes[8..16].copy_from_slice(&first.to_le_bytes());
        self.bytes[16..HEADER].copy_from_slice(&self.count.to_le_bytes());
        &self.bytes
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

fn put_length(out: &mut Vec<u8>, mut length: u64) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// A length and how many bytes it took; None where the bytes end.
fn length(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0u64;
    for (i, byte) in bytes.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(value).ok()?, i + 1));
        }
    }
    None
}

/// One record; key and value are as they were appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub offset: Offset,
    pub key: Option<&'a [u8]>,
    pub value: &'a [u8],
}

/// What a block's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub time: u64,
    pub first: Offset,
    pub count: u32,
}

impl Header {
    pub fn read(block: &[u8]) -> Option<Self> {
        let number = |range: Range<usize>| Some(u64::from_le_bytes(block.get(range)?.try_into().ok()?));
        let count = u32::from_le_bytes(block.get(16..HEADER)?.try_into().ok()?);
        Some(Self { time: number(0..8)?, first: number(8..16)?, count })
    }
}

/// Why a block could not be taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pushed<E> {
    Read(E),
    Broken(&'static str),
}

/// A stretch of records in [`Records::bytes`].
#[derive(Debug, Clone)]
struct Span {
    first: Offset,
    range: Range<usize>,
}

/// Records of one lane, in order; owned, so that nothing in the log waits for their reader.
#[derive(Debug, Clone, Default)]
pub struct Records {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    next: Offset,
}

impl Records {
    pub(super) fn at(next: Offset) -> Self {
        Self { next, ..Self::default() }
    }

    /// Adds a block of this length, which `read` puts into place, and takes its records from `from` up to (not including) `until`. The
    /// block is walked whole, so that reading it cannot fail later.
    pub(super) fn push<E>(
        &mut self,
        length: usize,
        (from, until): (Offset, Offset),
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), Pushed<E>> {
        let start = self.bytes.len();
        self.bytes.resize(start + length, 0);
        read(&mut self.bytes[start..]).map_err(Pushed::Read)?;
        let block = &self.bytes[start..];
        let header = Header::read(block).ok_or(Pushed::Broken("its header is cut"))?;
        let (mut at, mut offset) = (HEADER, header.first);
        let (mut begin, mut end) = (HEADER, None);
        for _ in 0..header.count {
            if offset == from {
                begin = at;
            }
            if offset == until {
                end = Some(at);
            }
            let (_, size) = record(&block[at..], offset).ok_or(Pushed::Broken("a record is cut"))?;
            at += size;
            offset = offset.wrapping_add(1);
        }
        if at != block.len() {
            return Err(Pushed::Broken("bytes are left behind its records"));
        }
        self.spans.push(Span { first: header.first.max(from), range: start + begin..start + end.unwrap_or(length) });
        self.next = offset.min(until);
        Ok(())
    }

    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    pub fn iter(&self) -> RecordIter<'_> {
        RecordIter { records: self, span: 0, at: 0, offset: 0 }
    }

    /// The offset to read from next.
    pub fn next(&self) -> Offset {
        self.next
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
}

impl<'a> IntoIterator for &'a Records {
    type Item = Record<'a>;
    type IntoIter = RecordIter<'a>;

    fn into_iter(self) -> RecordIter<'a> {
        self.iter()
    }
}

/// Walks [`Records`] without copying.
#[derive(Debug, Clone)]
pub struct RecordIter<'a> {
    records: &'a Records,
    span: usize,
    at: usize,
    offset: Offset,
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let span = self.records.spans.get(self.span)?;
        if self.at == 0 {
            self.offset = span.first;
        }
        let bytes = &self.records.bytes[span.range.start + self.at..span.range.end];
        let (record, size) = record(bytes, self.offset)?;
        self.at += size;
        self.offset += 1;
        if self.at == span.range.len() {
            self.span += 1;
            self.at = 0;
        }
        Some(record)
    }
}

/// The record that `bytes` begin with, and its size.
#[inline]
fn record(bytes: &[u8], offset: Offset) -> Option<(Record<'_>, usize)> {
    let (key_length, at) = length(bytes)?;
    let (key, at) = match key_length.checked_sub(1) {
        Some(length) => (Some(bytes.get(at..at.checked_add(length)?)?), at + length),
        None => (None, at),
    };
    let (value_length, size) = length(&bytes[at..])?;
    let at = at + size;
    let value = bytes.get(at..at.checked_add(value_length)?)?;
    Some((Record { offset, key, value }, at + value_length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(records: &mut Records, block: &[u8], from: Offset, until: Offset) -> Result<(), Pushed<()>> {
        records.push(block.len(), (from, until), |out| {
            out.copy_from_slice(block);
            Ok(())
        })
    }

    #[test]
    fn a_block_gives_its_records_back_from_any_offset() {
        let rows: Vec<(Option<Vec<u8>>, Vec<u8>)> = vec![
            (Some(b"k".to_vec()), b"v".to_vec()),
            (None, Vec::new()),
            (Some(Vec::new()), vec![7; 300]),
            (Some(vec![1; 127]), vec![2; 128]),
            (None, vec![3; 20_000]),
        ];
        let mut builder = Builder::new(Vec::new());
        for (key, value) in &rows {
            builder.push(key.as_deref(), value);
        }
        let block = builder.finish(42, 100).to_vec();
        assert_eq!(Header::read(&block), Some(Header { time: 42, first: 100, count: 5 }));
        for skip in 0..rows.len() {
            let mut records = Records::default();
            push(&mut records, &block, 100 + skip as u64, u64::MAX).unwrap();
            let got: Vec<_> = records.iter().map(|r| (r.offset, r.key.map(<[u8]>::to_vec), r.value.to_vec())).collect();
            let want: Vec<_> = rows.iter().enumerate().skip(skip).map(|(i, (k, v))| (100 + i as u64, k.clone(), v.clone())).collect();
            assert_eq!(got, want);
            assert_eq!(records.next(), 105);
            let mut cut = Records::default();
            push(&mut cut, &block, 100 + skip as u64, 101 + skip as u64).unwrap();
            let got: Vec<_> = cut.iter().map(|r| (r.offset, r.value)).collect();
            assert_eq!((got, cut.next()), (vec![(100 + skip as u64, rows[skip].1.as_slice())], 101 + skip as u64));
        }
    }

    #[test]
    fn a_cut_block_is_an_error_at_every_length() {
        let mut builder = Builder::new(Vec::new());
        builder.push(Some(b"key"), &[5; 200]);
        builder.push(None, b"x");
        let block = builder.finish(1, 0).to_vec();
        for length in 0..block.len() {
            assert!(push(&mut Records::default(), &block[..length], 0, u64::MAX).is_err(), "{length}");
        }
        let mut long = block.clone();
        long.push(0);
        assert_eq!(push(&mut Records::default(), &long, 0, u64::MAX), Err(Pushed::Broken("bytes are left behind its records")));
    }
}
