//! Floating-point numbers as MySQL prints them.

use std::io::Write;

/// The longest run of digits before the point, or zeros behind it, that is printed without an exponent.
const PLAIN: i32 = 15;

/// A double as MySQL's `my_gcvt` prints it: the shortest digits that give the same number back.
pub fn double_text(out: &mut Vec<u8>, value: f64) {
    let mut printed = [0u8; 40];
    let mut rest = &mut printed[..];
    let _ = write!(rest, "{:e}", value.abs());
    let used = 40 - rest.len();
    let text = std::str::from_utf8(&printed[..used]).unwrap_or("0e0");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: Vec<u8> = mantissa.bytes().filter(|b| *b != b'.').collect();
    if value.is_sign_negative() {
        out.push(b'-');
    }
    // The number is 0.DIGITS times ten to this power.
    let point = exponent + 1;
    if value != 0.0 && !(-PLAIN + 1..=PLAIN).contains(&point) {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        let _ = write!(out, "e{exponent}");
    } else if point <= 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', point.unsigned_abs() as usize));
        out.extend_from_slice(&digits);
    } else {
        let whole = point as usize;
        out.extend_from_slice(&digits[..whole.min(digits.len())]);
        out.extend(std::iter::repeat_n(b'0', whole.saturating_sub(digits.len())));
        if digits.len() > whole {
            out.push(b'.');
            out.extend_from_slice(&digits[whole..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_printed_as_the_server_does() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (100.25, "100.25"),
            (1e14, "100000000000000"),
            (1e15, "1e15"),
            (1.5e300, "1.5e300"),
            (1e-15, "0.000000000000001"),
            (1.25e-16, "1.25e-16"),
            (f64::MAX, "1.7976931348623157e308"),
        ] {
            let mut out = Vec::new();
            double_text(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
