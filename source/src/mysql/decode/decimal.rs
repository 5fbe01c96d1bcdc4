//! Decimals: the log's packed digits and the server's text, to Avro's two's complement.

use schemas::wire::codec::{put_decimal_i128, put_twos_complement};

use super::{Malformed, Unfit};

/// Bytes that hold 0 to 9 digits.
const BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
const POWERS: [u32; 10] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
/// Digits that fit 128 bits, sign included.
const SMALL: usize = 38;

/// Length in bytes of a packed DECIMAL.
pub fn length(precision: u8, scale: u8) -> usize {
    let (whole, part) = (usize::from(precision.saturating_sub(scale)), usize::from(scale));
    whole / 9 * 4 + BYTES[whole % 9] + part / 9 * 4 + BYTES[part % 9]
}

/// What both servers allow at most.
const MOST_DIGITS: u8 = 65;

/// Calls `group` with the number of digits and the value of each group of a packed DECIMAL, from the left; returns the sign.
fn groups(bytes: &[u8], precision: u8, scale: u8, mut group: impl FnMut(usize, u32)) -> Result<bool, Malformed> {
    if precision > MOST_DIGITS || scale > precision {
        return Err(Malformed::Unreadable { what: "a decimal", problem: format!("{precision} digits, {scale} behind the point") });
    }
    let first = *bytes.first().ok_or(Malformed::Truncated("a decimal"))?;
    let negative = first & 0x80 == 0;
    let mask = if negative { 0xff } else { 0 };
    let mut at = 0;
    let mut next = |digits: usize| -> Result<(), Malformed> {
        let n = if digits == 9 { 4 } else { BYTES[digits] };
        let packed = bytes.get(at..at + n).ok_or(Malformed::Truncated("a decimal"))?;
        let value = packed.iter().enumerate().fold(0u32, |value, (i, byte)| {
            let byte = if at + i == 0 { byte ^ 0x80 } else { *byte };
            (value << 8) | u32::from(byte ^ mask)
        });
        at += n;
        if value >= POWERS[digits] {
            return Err(Malformed::Unreadable { what: "a decimal", problem: format!("{value} in a group of {digits} digits") });
        }
        group(digits, value);
        Ok(())
    };
    let (whole, part) = (usize::from(precision.saturating_sub(scale)), usize::from(scale));
    if whole % 9 > 0 {
        next(whole % 9)?;
    }
    for _ in 0..whole / 9 + part / 9 {
        next(9)?;
    }
    if part % 9 > 0 {
        next(part % 9)?;
    }
    Ok(negative)
}

/// A packed DECIMAL as an Avro decimal of the same scale.
pub fn put_packed(out: &mut Vec<u8>, bytes: &[u8], precision: u8, scale: u8) -> Result<(), Unfit> {
    if usize::from(precision) <= SMALL {
        let mut value = 0i128;
        let negative = groups(bytes, precision, scale, |digits, group| {
            value = value.wrapping_mul(i128::from(POWERS[digits])).wrapping_add(i128::from(group));
        })?;
        put_decimal_i128(out, if negative { -value } else { value });
        return Ok(());
    }
    let mut value = Wide::default();
    let negative = groups(bytes, precision, scale, |digits, group| value.push(POWERS[digits], group))?;
    value.put(out, negative);
    Ok(())
}

/// A packed DECIMAL as the server prints it.
pub fn packed_text(out: &mut Vec<u8>, bytes: &[u8], precision: u8, scale: u8) -> Result<(), Malformed> {
    let mut digits = [0u8; 96];
    let mut n = 0;
    let negative = groups(bytes, precision, scale, |count, mut group| {
        for slot in digits[n..n + count].iter_mut().rev() {
            *slot = b'0' + (group % 10) as u8;
            group /= 10;
        }
        n += count;
    })?;
    let digits = &digits[..n];
    let (whole, part) = digits.split_at(n - usize::from(scale).min(n));
    if negative && digits.iter().any(|d| *d != b'0') {
        out.push(b'-');
    }
    let whole = &whole[whole.iter().take_while(|d| **d == b'0').count()..];
    out.extend_from_slice(if whole.is_empty() { b"0" } else { whole });
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(part);
    }
    Ok(())
}

/// A decimal's text, as the server prints it, as an Avro decimal of this scale.
pub fn put_text(out: &mut Vec<u8>, text: &[u8], scale: u8) -> Result<(), Unfit> {
    let bad = || Unfit::value(format!("{:?} is not a decimal of scale {scale}", String::from_utf8_lossy(text)));
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut value = Wide::default();
    let (mut point, mut part) = (false, 0usize);
    for byte in digits {
        match byte {
            b'0'..=b'9' => {
                value.push(10, u32::from(byte - b'0'));
                part += usize::from(point);
            }
            b'.' if !point => point = true,
            _ => return Err(bad()),
        }
    }
    if part > usize::from(scale) || digits.is_empty() || digits.len() > 80 {
        return Err(bad());
    }
    for _ in part..usize::from(scale) {
        value.push(10, 0);
    }
    value.put(out, negative);
    Ok(())
}

/// 256 bits: 65 digits and room for a sign. The least significant limb is first.
#[derive(Debug, Default)]
struct Wide([u32; 8]);

impl Wide {
    fn push(&mut self, power: u32, digits: u32) {
        let mut carry = u64::from(digits);
        for limb in &mut self.0 {
            let next = u64::from(*limb) * u64::from(power) + carry;
            *limb = next as u32;
            carry = next >> 32;
        }
    }

    fn put(mut self, out: &mut Vec<u8>, negative: bool) {
        if negative {
            let mut carry = true;
            for limb in &mut self.0 {
                (*limb, carry) = (!*limb).overflowing_add(u32::from(carry));
            }
        }
        let mut bytes = [0u8; 32];
        for (i, limb) in self.0.iter().rev().enumerate() {
            bytes[4 * i..4 * i + 4].copy_from_slice(&limb.to_be_bytes());
        }
        put_twos_complement(out, &bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], precision: u8, scale: u8) -> String {
        let mut out = Vec::new();
        packed_text(&mut out, bytes, precision, scale).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_manuals_example_is_read() {
        // 1234567890.1234 as DECIMAL(14,4), and its negative.
        let plus = [0x81, 0x0D, 0xFB, 0x38, 0xD2, 0x04, 0xD2];
        let minus: Vec<u8> = plus.iter().map(|b| !b).collect();
        assert_eq!((length(14, 4), text(&plus, 14, 4)), (7, "1234567890.1234".into()));
        assert_eq!(text(&minus, 14, 4), "-1234567890.1234");
        let (mut packed, mut printed) = (Vec::new(), Vec::new());
        put_packed(&mut packed, &minus, 14, 4).unwrap();
        put_text(&mut printed, b"-1234567890.1234", 4).unwrap();
        put_decimal_i128(&mut printed, -12_345_678_901_234);
        assert_eq!([packed.clone(), packed].concat(), printed);
    }

    #[test]
    fn sixty_five_digits_keep_every_digit() {
        let mut bytes = vec![0xff; length(65, 30)];
        let nines = 999_999_999u32.to_be_bytes();
        bytes[..4].copy_from_slice(&99_999_999u32.to_be_bytes());
        for group in 1..4 {
            bytes[4 * group..4 * group + 4].copy_from_slice(&nines);
        }
        for group in 4..7 {
            bytes[4 * group..4 * group + 4].copy_from_slice(&nines);
        }
        bytes[28..30].copy_from_slice(&999u16.to_be_bytes());
        bytes[0] |= 0x80;
        let expected = format!("{}.{}", "9".repeat(35), "9".repeat(30));
        assert_eq!(text(&bytes, 65, 30), expected);
        let (mut packed, mut printed) = (Vec::new(), Vec::new());
        put_packed(&mut packed, &bytes, 65, 30).unwrap();
        put_text(&mut printed, expected.as_bytes(), 30).unwrap();
        assert_eq!(packed, printed);
        assert_eq!(packed.len(), 28 + 1);
    }

    #[test]
    fn sizes_that_no_server_has_are_refused() {
        for (precision, scale) in [(66, 0), (255, 255), (5, 6)] {
            let error = packed_text(&mut Vec::new(), &[0x80; 200], precision, scale).unwrap_err().to_string();
            assert!(error.contains(&format!("{precision} digits, {scale} behind the point")), "{error}");
            assert!(put_packed(&mut Vec::new(), &[0x80; 200], precision, scale).is_err());
        }
        let zero: Vec<u8> = std::iter::once(0x80).chain(std::iter::repeat_n(0, 28)).collect();
        assert_eq!(text(&zero, 65, 0), "0");
    }

    #[test]
    fn groups_that_no_server_writes_are_refused() {
        let error = put_packed(&mut Vec::new(), &[0xff, 0xff, 0xff, 0xff], 9, 0).unwrap_err().to_string();
        assert!(error.contains("in a group of 9 digits"), "{error}");
    }
}
