//! Exact decimals → PostgreSQL's binary numeric: groups of four decimal digits around the point.

/// Base-10000 groups of the widest value taken: 1000 digits before and behind the point.
const GROUPS: usize = 520;
const LIMBS: usize = 128;
const SIGN_NEGATIVE: u16 = 0x4000;
const SIGN_NAN: u16 = 0xC000;
const SIGN_INFINITY: u16 = 0xD000;
const SIGN_MINUS_INFINITY: u16 = 0xF000;

const POWERS: [u64; 20] = powers();

const fn powers() -> [u64; 20] {
    let mut table = [1u64; 20];
    let mut i = 1;
    while i < 20 {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
}

/// What a numeric column takes: `precision` digits, `scale` of them behind the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub precision: u16,
    pub scale: i16,
}

/// Why a decimal does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumericMisfit {
    /// More digits before the point than the column has.
    Digits { allowed: i32 },
    /// Digits behind the point that the column would round away.
    Fraction { allowed: i16 },
    /// Wider than this program reads.
    Width,
    /// Not a decimal number.
    Syntax,
}

/// A number as groups of four digits, most significant first; the first group stands for 10000^weight.
struct Groups {
    digits: [u16; GROUPS],
    start: usize,
    end: usize,
    weight: i32,
}

impl Groups {
    /// `digits` filled in `start..end`; zeros at both ends fall away.
    fn trim(mut self) -> Self {
        while self.start < self.end && self.digits[self.start] == 0 {
            self.start += 1;
            self.weight -= 1;
        }
        while self.end > self.start && self.digits[self.end - 1] == 0 {
            self.end -= 1;
        }
        self
    }

    fn check(&self, size: Size) -> Result<(), NumericMisfit> {
        let used = &self.digits[self.start..self.end];
        let (Some(first), Some(last)) = (used.first(), used.last()) else { return Ok(()) };
        let leading = first.checked_ilog10().map_or(0, |log| log.cast_signed() + 1);
        let before = self.weight * 4 + leading;
        let allowed = i32::from(size.precision) - i32::from(size.scale);
        if before > allowed {
            return Err(NumericMisfit::Digits { allowed });
        }
        let groups_behind = i32::try_from(used.len()).unwrap_or(i32::MAX) - self.weight - 1;
        let trailing = if last % 1000 == 0 {
            3
        } else if last % 100 == 0 {
            2
        } else {
            i32::from(last % 10 == 0)
        };
        if groups_behind * 4 - trailing > i32::from(size.scale) {
            return Err(NumericMisfit::Fraction { allowed: size.scale });
        }
        Ok(())
    }

    fn put(&self, out: &mut Vec<u8>, negative: bool, dscale: u16) {
        let used = &self.digits[self.start..self.end];
        let count = used.len() as u16;
        let sign = if negative && count > 0 { SIGN_NEGATIVE } else { 0 };
        let weight = if count == 0 { 0 } else { self.weight as i16 };
        put_head(out, count, weight, sign, dscale);
        for digit in used {
            out.extend_from_slice(&digit.to_be_bytes());
        }
    }
}

fn put_head(out: &mut Vec<u8>, count: u16, weight: i16, sign: u16, dscale: u16) {
    out.extend_from_slice(&(8 + 2 * u32::from(count)).to_be_bytes());
    out.extend_from_slice(&count.to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&dscale.to_be_bytes());
}

/// Writes a whole number as a numeric field, its length first.
pub fn put_integer(out: &mut Vec<u8>, value: i64, size: Option<Size>) -> Result<(), NumericMisfit> {
    small(out, value < 0, value.unsigned_abs(), 0, size)
}

/// Writes an Avro decimal (big-endian two's complement, `scale` digits behind the point) as a numeric field, its length first.
/// `size` is given only where the column is narrower than the source.
pub fn put_decimal(out: &mut Vec<u8>, bytes: &[u8], scale: u16, size: Option<Size>) -> Result<(), NumericMisfit> {
    match narrow(bytes) {
        Some(value) => {
            let magnitude = value.unsigned_abs();
            match u64::try_from(magnitude) {
                Ok(magnitude) if scale <= 16 => small(out, value < 0, magnitude, scale, size),
                _ if scale <= 32 => medium(out, value < 0, magnitude, scale, size),
                _ => wide(out, bytes, scale, size),
            }
        }
        None => wide(out, bytes, scale, size),
    }
}

/// The value of at most 16 bytes of two's complement.
#[inline]
pub fn narrow(bytes: &[u8]) -> Option<i128> {
    if bytes.len() > 16 {
        return None;
    }
    let fill = if bytes.first().is_some_and(|b| *b >= 0x80) { 0xff } else { 0 };
    let mut buffer = [fill; 16];
    buffer[16 - bytes.len()..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(buffer))
}

/// At most 64 bits with at most 16 digits behind the point.
#[inline]
fn small(out: &mut Vec<u8>, negative: bool, magnitude: u64, scale: u16, size: Option<Size>) -> Result<(), NumericMisfit> {
    let scale_us = usize::from(scale);
    let unit = POWERS[scale_us];
    let (mut whole, fraction) = (magnitude / unit, magnitude % unit);
    let behind = scale_us.div_ceil(4);
    let mut fraction = fraction * POWERS[behind * 4 - scale_us];
    let mut digits = [0u16; 10];
    let mut at = 10;
    for _ in 0..behind {
        at -= 1;
        digits[at] = (fraction % 10_000) as u16;
        fraction /= 10_000;
    }
    while whole > 0 {
        at -= 1;
        digits[at] = (whole % 10_000) as u16;
        whole /= 10_000;
    }
    // At most 5 whole groups and 4 behind the point.
    let mut weight = (10 - at) as i32 - behind as i32 - 1;
    let (mut start, mut end) = (at, 10);
    while start < end && digits[start] == 0 {
        start += 1;
        weight -= 1;
    }
    while end > start && digits[end - 1] == 0 {
        end -= 1;
    }
    if let Some(size) = size {
        let mut groups = Groups { digits: [0; GROUPS], start: 0, end: end - start, weight };
        groups.digits[..end - start].copy_from_slice(&digits[start..end]);
        groups.check(size)?;
    }
    let count = (end - start) as u16;
    let sign = if negative && count > 0 { SIGN_NEGATIVE } else { 0 };
    put_head(out, count, if count == 0 { 0 } else { weight as i16 }, sign, scale);
    for digit in &digits[start..end] {
        out.extend_from_slice(&digit.to_be_bytes());
    }
    Ok(())
}

/// At most 128 bits with at most 32 digits behind the point.
fn medium(out: &mut Vec<u8>, negative: bool, magnitude: u128, scale: u16, size: Option<Size>) -> Result<(), NumericMisfit> {
    let scale_us = usize::from(scale);
    let unit = 10u128.pow(u32::from(scale));
    let behind = scale_us.div_ceil(4);
    let mut whole = magnitude / unit;
    // Below 10^32 × 10^3.
    let mut fraction = (magnitude % unit) * u128::from(POWERS[behind * 4 - scale_us]);
    let mut groups = Groups { digits: [0; GROUPS], start: 24, end: 24, weight: -1 };
    let mut at = 24;
    for _ in 0..behind {
        at -= 1;
        groups.digits[at] = (fraction % 10_000) as u16;
        fraction /= 10_000;
    }
    while whole > 0 {
        at -= 1;
        groups.digits[at] = (whole % 10_000) as u16;
        whole /= 10_000;
        groups.weight += 1;
    }
    groups.start = at;
    finish(out, groups.trim(), negative, scale, size)
}

/// Any width up to [`LIMBS`] × 32 bits.
fn wide(out: &mut Vec<u8>, bytes: &[u8], scale: u16, size: Option<Size>) -> Result<(), NumericMisfit> {
    if bytes.len() > (LIMBS - 1) * 4 || usize::from(scale) > 1000 {
        return Err(NumericMisfit::Width);
    }
    let negative = bytes.first().is_some_and(|b| *b >= 0x80);
    let mut limbs = [0u32; LIMBS];
    for (i, byte) in bytes.iter().rev().enumerate() {
        let byte = if negative { !*byte } else { *byte };
        limbs[i / 4] |= u32::from(byte) << (8 * (i % 4));
    }
    let pad = usize::from(scale).div_ceil(4) * 4 - usize::from(scale);
    multiply_add(&mut limbs, 1, u32::from(negative));
    multiply_add(&mut limbs, POWERS[pad] as u32, 0);
    let mut groups = Groups { digits: [0; GROUPS], start: GROUPS, end: GROUPS, weight: 0 };
    let behind = usize::from(scale).div_ceil(4);
    let mut top = LIMBS;
    while top > 0 {
        if limbs[top - 1] == 0 {
            top -= 1;
            continue;
        }
        if groups.start == 0 {
            return Err(NumericMisfit::Width);
        }
        groups.start -= 1;
        groups.digits[groups.start] = divide(&mut limbs[..top]) as u16;
    }
    groups.weight = (GROUPS - groups.start) as i32 - behind as i32 - 1;
    finish(out, groups.trim(), negative, scale, size)
}

fn multiply_add(limbs: &mut [u32], factor: u32, add: u32) {
    let mut carry = u64::from(add);
    for limb in limbs {
        let product = u64::from(*limb) * u64::from(factor) + carry;
        *limb = product as u32;
        carry = product >> 32;
    }
}

/// Divides by 10000 in place; returns the remainder.
fn divide(limbs: &mut [u32]) -> u32 {
    let mut remainder = 0u64;
    for limb in limbs.iter_mut().rev() {
        let value = (remainder << 32) | u64::from(*limb);
        *limb = (value / 10_000) as u32;
        remainder = value % 10_000;
    }
    remainder as u32
}

fn finish(out: &mut Vec<u8>, groups: Groups, negative: bool, dscale: u16, size: Option<Size>) -> Result<(), NumericMisfit> {
    if let Some(size) = size {
        groups.check(size)?;
    }
    groups.put(out, negative, dscale);
    Ok(())
}

/// Writes a number in plain notation, NaN or an infinity as a numeric field, its length first.
pub fn put_text(out: &mut Vec<u8>, text: &[u8], size: Option<Size>) -> Result<(), NumericMisfit> {
    match text {
        b"NaN" => return special(out, SIGN_NAN),
        b"Infinity" if size.is_none() => return special(out, SIGN_INFINITY),
        b"-Infinity" if size.is_none() => return special(out, SIGN_MINUS_INFINITY),
        _ => {}
    }
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (whole, fraction) = match digits.iter().position(|b| *b == b'.') {
        Some(point) => (&digits[..point], &digits[point + 1..]),
        None => (digits, &digits[..0]),
    };
    if whole.len() + fraction.len() == 0 || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return Err(NumericMisfit::Syntax);
    }
    let zeros = whole.iter().take_while(|b| **b == b'0').count();
    let whole = &whole[zeros..];
    let (before, behind) = (whole.len().div_ceil(4), fraction.len().div_ceil(4));
    if before + behind > GROUPS {
        return Err(NumericMisfit::Width);
    }
    let mut groups = Groups { digits: [0; GROUPS], start: 0, end: before + behind, weight: before as i32 - 1 };
    let lead = before * 4 - whole.len();
    for (i, byte) in whole.iter().enumerate() {
        let group = &mut groups.digits[(i + lead) / 4];
        *group = *group * 10 + u16::from(byte - b'0');
    }
    for i in 0..behind * 4 {
        let digit = fraction.get(i).map_or(0, |b| u16::from(b - b'0'));
        let group = &mut groups.digits[before + i / 4];
        *group = *group * 10 + digit;
    }
    let dscale = u16::try_from(fraction.len()).map_err(|_| NumericMisfit::Width)?;
    finish(out, groups.trim(), negative, dscale, size)
}

fn special(out: &mut Vec<u8>, sign: u16) -> Result<(), NumericMisfit> {
    put_head(out, 0, 0, sign, 0);
    Ok(())
}

/// Appends an Avro decimal in plain notation.
pub fn put_plain(out: &mut Vec<u8>, bytes: &[u8], scale: u16) -> Result<(), NumericMisfit> {
    let value = narrow(bytes).ok_or(NumericMisfit::Width)?;
    // 39 digits, or as many zeros as the scale asks for.
    let mut buffer = [b'0'; 80];
    let scale = usize::from(scale);
    if scale > 76 {
        return Err(NumericMisfit::Width);
    }
    let mut rest = value.unsigned_abs();
    let mut at = buffer.len();
    while rest > 0 || buffer.len() - at <= scale {
        at -= 1;
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    if value < 0 {
        out.push(b'-');
    }
    let point = buffer.len() - scale;
    out.extend_from_slice(&buffer[at..point]);
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(&buffer[point..]);
    }
    Ok(())
}
