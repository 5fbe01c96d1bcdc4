//! Numbers as literals write them, rounded as the server rounds.

use super::token::Fault;

/// A decimal number: digits before and after the point, no exponent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Exact {
    negative: bool,
    whole: String,
    fraction: String,
}

fn odd() -> Fault {
    "a default is not understood as a number".into()
}

fn exact(text: &str) -> Result<Exact, Fault> {
    let text = text.trim();
    let (negative, rest) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => (false, text),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| odd())?),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) || exponent.abs() > 400 {
        return Err(odd());
    }
    let (mut whole, mut fraction) = (whole.to_owned(), fraction.to_owned());
    for _ in 0..exponent.max(0) {
        whole.push(if fraction.is_empty() { '0' } else { fraction.remove(0) });
    }
    for _ in 0..(-exponent).max(0) {
        fraction.insert(0, whole.pop().unwrap_or('0'));
    }
    let whole = whole.trim_start_matches('0').to_owned();
    Ok(Exact { negative, whole, fraction })
}

/// Half away from zero to `scale` digits after the point: (digits before, digits after).
fn round(number: &Exact, scale: usize) -> (String, String) {
    let up = number.fraction.as_bytes().get(scale).is_some_and(|digit| *digit >= b'5');
    let kept: String = number.fraction.chars().chain(std::iter::repeat('0')).take(scale).collect();
    let mut digits: Vec<u8> = number.whole.bytes().chain(kept.bytes()).collect();
    let mut carry = up;
    for digit in digits.iter_mut().rev() {
        if !carry {
            break;
        }
        carry = *digit == b'9';
        *digit = if carry { b'0' } else { *digit + 1 };
    }
    if carry {
        digits.insert(0, b'1');
    }
    let digits: String = digits.into_iter().map(char::from).collect();
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    (whole.to_owned(), fraction.to_owned())
}

fn is_float(text: &str) -> bool {
    text.contains(['e', 'E'])
}

/// A literal as a whole number of so many bits. A floating point literal rounds half to even, all else half away from zero.
pub(super) fn integer(text: &str, bits: u8, unsigned: bool, literal: bool) -> Result<i128, Fault> {
    let mut number = exact(text)?;
    if literal && is_float(text) {
        let rounded = text.parse::<f64>().map_err(|_| odd())?.round_ties_even();
        number = exact(&format!("{rounded:.0}"))?;
    }
    let (whole, _) = round(&number, 0);
    let magnitude: i128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| odd())? };
    let value = if number.negative { -magnitude } else { magnitude };
    let bits = u32::from(bits);
    let (least, most) = if unsigned { (0, (1_i128 << bits) - 1) } else { (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1) };
    if (least..=most).contains(&value) { Ok(value) } else { Err("a default is out of its column's range".into()) }
}

/// A literal as a decimal in plain notation with its full scale.
pub(super) fn decimal(text: &str, precision: u8, scale: u8, unsigned: bool) -> Result<String, Fault> {
    let number = exact(text)?;
    let (whole, fraction) = round(&number, usize::from(scale));
    if whole.len() + fraction.len() > usize::from(precision) {
        return Err("a default is out of its column's range".into());
    }
    let zero = whole.bytes().chain(fraction.bytes()).all(|digit| digit == b'0');
    if number.negative && !zero && unsigned {
        return Err("a default is out of its column's range".into());
    }
    let sign = if number.negative && !zero { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { &whole };
    Ok(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}

/// A literal as a binary floating point number; `single` is FLOAT.
pub(super) fn float(text: &str, digits: Option<(u8, u8)>, unsigned: bool, single: bool) -> Result<f64, Fault> {
    exact(text)?;
    let mut value: f64 = text.trim().parse().map_err(|_| odd())?;
    if let Some((_, scale)) = digits {
        let unit = 10_f64.powi(i32::from(scale));
        let whole = value.floor();
        value = whole + ((value - whole) * unit).round_ties_even() / unit;
    }
    if unsigned && value < 0.0 {
        return Err("a default is out of its column's range".into());
    }
    #[expect(clippy::cast_possible_truncation, reason = "a FLOAT keeps 32 bits; what does not fit becomes infinite and is refused")]
    let value = if single { f64::from(value as f32) } else { value };
    if value.is_finite() { Ok(value) } else { Err("a default is out of its column's range".into()) }
}

/// A literal as a year: one and two digits mean 1970 to 2069.
pub(super) fn year(text: &str, quoted: bool) -> Result<i128, Fault> {
    let number: i128 = integer(text, 32, false, !quoted)?;
    match number {
        0 if quoted && text.trim().len() != 4 => Ok(2000),
        0 | 1901..=2155 => Ok(number),
        1..=69 => Ok(2000 + number),
        70..=99 => Ok(1900 + number),
        _ => Err("a default is not understood as a year".into()),
    }
}

/// A number as the text that a text column gets.
pub(super) fn as_text(digits: &str) -> Result<String, Fault> {
    let number = exact(digits)?;
    if is_float(digits) {
        let value: f64 = digits.parse().map_err(|_| odd())?;
        if value.fract() == 0.0 && value.abs() < 1e15 {
            return Ok(format!("{value:.0}"));
        }
        return Err("a floating point default of a text column is not understood".into());
    }
    let whole = if number.whole.is_empty() { "0" } else { &number.whole };
    let zero = number.whole.is_empty() && number.fraction.bytes().all(|b| b == b'0');
    let sign = if number.negative && !zero { "-" } else { "" };
    Ok(if number.fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{}", number.fraction) })
}
