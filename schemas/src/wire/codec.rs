//! Avro's binary primitives. Writers append to a buffer; the reader borrows from the record.

use super::WireError;

/// Bytes of a frame before the Avro body: the magic byte and the schema id.
pub const FRAME: usize = 5;

pub fn put_frame(out: &mut Vec<u8>, schema: u32) {
    out.push(0);
    out.extend_from_slice(&schema.to_be_bytes());
}

#[inline]
pub fn put_long(out: &mut Vec<u8>, value: i64) {
    let mut zigzag = (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned();
    while zigzag >= 0x80 {
        out.push((zigzag as u8) | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag as u8);
}

#[inline]
pub fn put_int(out: &mut Vec<u8>, value: i32) {
    put_long(out, i64::from(value));
}

#[inline]
pub fn put_boolean(out: &mut Vec<u8>, value: bool) {
    out.push(u8::from(value));
}

#[inline]
pub fn put_float(out: &mut Vec<u8>, value: f32) {
    out.extend_from_slice(&value.to_le_bytes());
}

#[inline]
pub fn put_double(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Avro `bytes` and `string` alike.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, value: &[u8]) {
    put_long(out, value.len() as i64);
    out.extend_from_slice(value);
}

/// The null branch of a nullable field.
#[inline]
pub fn put_null(out: &mut Vec<u8>) {
    out.push(0);
}

/// The value branch of a nullable field; the value follows.
#[inline]
pub fn put_some(out: &mut Vec<u8>) {
    out.push(2);
}

/// Avro decimal from 128 bits: the shortest big-endian two's complement, with its length.
pub fn put_decimal_i128(out: &mut Vec<u8>, unscaled: i128) {
    put_twos_complement(out, &unscaled.to_be_bytes());
}

/// Avro decimal from big-endian two's complement of any width: superfluous sign bytes are left out.
pub fn put_twos_complement(out: &mut Vec<u8>, bytes: &[u8]) {
    put_bytes(out, shortest(bytes));
}

fn shortest(mut bytes: &[u8]) -> &[u8] {
    while let [first, second, ..] = *bytes {
        let superfluous = (first == 0 && second < 0x80) || (first == 0xff && second >= 0x80);
        if !superfluous {
            break;
        }
        bytes = &bytes[1..];
    }
    bytes
}

/// Reads Avro's primitives from a record, from front to back.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What is not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The schema id of a framed record.
    pub fn frame(&mut self) -> Result<u32, WireError> {
        let head = self.take(FRAME)?;
        match *head {
            [0, a, b, c, d] => Ok(u32::from_be_bytes([a, b, c, d])),
            [magic, ..] => Err(WireError::Magic(magic)),
            [] => Err(WireError::Truncated),
        }
    }

    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        match self.rest.split_at_checked(n) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(WireError::Truncated),
        }
    }

    #[inline]
    pub fn long(&mut self) -> Result<i64, WireError> {
        let mut value = 0u64;
        for (i, byte) in self.rest.iter().enumerate() {
            if i == 9 && *byte > 1 {
                return Err(WireError::Overflow);
            }
            value |= u64::from(byte & 0x7f) << (7 * i);
            if *byte < 0x80 {
                self.rest = &self.rest[i + 1..];
                return Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()));
            }
        }
        Err(WireError::Truncated)
    }

    #[inline]
    pub fn int(&mut self) -> Result<i32, WireError> {
        i32::try_from(self.long()?).map_err(|_| WireError::Overflow)
    }

    #[inline]
    pub fn boolean(&mut self) -> Result<bool, WireError> {
        Ok(self.take(1)?[0] != 0)
    }

    #[inline]
    pub fn float(&mut self) -> Result<f32, WireError> {
        let bytes = self.take(4)?;
        Ok(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    #[inline]
    pub fn double(&mut self) -> Result<f64, WireError> {
        let b = self.take(8)?;
        Ok(f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
    }

    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = usize::try_from(self.long()?).map_err(|_| WireError::Overflow)?;
        self.take(length)
    }

    pub fn string(&mut self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WireError::Utf8)
    }

    /// Whether the value branch of `["null", T]` follows.
    #[inline]
    pub fn some(&mut self) -> Result<bool, WireError> {
        match self.take(1)?[0] {
            0 => Ok(false),
            2 => Ok(true),
            other => Err(WireError::Branch(i64::from(other))),
        }
    }

    pub fn optional_string(&mut self) -> Result<Option<&'a str>, WireError> {
        if self.some()? { self.string().map(Some) } else { Ok(None) }
    }

    /// Calls `item` once for each element of an Avro array.
    pub fn array<E: From<WireError>>(&mut self, mut item: impl FnMut(&mut Self) -> Result<(), E>) -> Result<(), E> {
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                item(self)?;
            }
        }
    }
}

/// An Avro array of `items`, as one block.
pub fn put_array<T>(out: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    if !items.is_empty() {
        put_long(out, items.len() as i64);
        for item in items {
            put(out, item);
        }
    }
    out.push(0);
}

pub fn put_optional_string(out: &mut Vec<u8>, value: Option<&str>) {
    match value {
        None => put_null(out),
        Some(text) => {
            put_some(out);
            put_bytes(out, text.as_bytes());
        }
    }
}
