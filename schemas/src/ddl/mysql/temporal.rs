//! Dates and times as literals write them.

use super::{
    context::{Context, mode},
    token::Fault,
};
use crate::value::Value;

/// A date and time, not yet known to exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Moment {
    year: i64,
    month: i64,
    day: i64,
    /// Since midnight.
    nanos: i128,
}

const DAY_MICROS: i64 = 86_400_000_000;

/// Days since 1970-01-01 in the proleptic Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn odd(text: &str) -> Fault {
    format!("the default {text} is not understood as a date or time")
}

/// A literal as DATE.
pub(super) fn date(text: &str, context: &Context) -> Result<Value, Fault> {
    let moment = moment(text)?;
    match existing(moment, text, context)? {
        None => Ok(Value::Text(format!("{:04}-{:02}-{:02}", moment.year, moment.month, moment.day))),
        Some(days) => i32::try_from(days).map(Value::Date).map_err(|_| odd(text)),
    }
}

/// A literal as DATETIME, or as the local time of a TIMESTAMP.
pub(super) fn date_time(text: &str, precision: u8, context: &Context) -> Result<Value, Fault> {
    let moment = moment(text)?;
    let clock = rounded(moment.nanos, precision, context);
    let Some(days) = existing(moment, text, context)? else {
        return Ok(Value::Text(zero_form(moment, clock, precision)));
    };
    let micros = days.checked_mul(DAY_MICROS).and_then(|day| day.checked_add(clock)).ok_or_else(|| odd(text))?;
    Ok(Value::Micros(micros))
}

fn zero_form(moment: Moment, clock: i64, precision: u8) -> String {
    let seconds = clock / 1_000_000;
    let fraction = format!("{:06}", clock % 1_000_000);
    let fraction = if precision == 0 { String::new() } else { format!(".{}", &fraction[..usize::from(precision.min(6))]) };
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}{fraction}",
        moment.year,
        moment.month,
        moment.day,
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// The days of a moment that exists; none for zero, partial and impossible dates that the server keeps as written.
fn existing(moment: Moment, text: &str, context: &Context) -> Result<Option<i64>, Fault> {
    let Moment { year, month, day, .. } = moment;
    if month > 12 || day > 31 || year > 9999 {
        return Err(odd(text));
    }
    if month == 0 || day == 0 {
        return Ok(None);
    }
    if day > month_length(year, month) {
        const ALLOW_INVALID_DATES: u64 = 1 << 25;
        return if context.has(ALLOW_INVALID_DATES) { Ok(None) } else { Err(odd(text)) };
    }
    Ok(Some(days(year, month, day)))
}

/// Nanoseconds to microseconds of a precision: MySQL rounds, MariaDB cuts, each unless told otherwise.
fn rounded(nanos: i128, precision: u8, context: &Context) -> i64 {
    let unit = 10_i128.pow(9 - u32::from(precision.min(6)));
    let rounds = if context.mariadb { context.has(mode::TIME_ROUND_FRACTIONAL) } else { !context.has(mode::TIME_TRUNCATE_FRACTIONAL) };
    let half = if rounds { unit / 2 * nanos.signum() } else { 0 };
    i64::try_from((nanos + half) / unit * unit / 1000).unwrap_or(i64::MAX)
}

fn moment(text: &str) -> Result<Moment, Fault> {
    let text = text.trim();
    let (whole, fraction) = split_fraction(text);
    if !whole.is_empty() && whole.bytes().all(|b| b.is_ascii_digit()) {
        return packed(whole, fraction, text);
    }
    let (day_part, clock_part) = match whole.split_once([' ', 'T']) {
        Some((day, clock)) => (day, Some(clock.trim())),
        None => (whole, None),
    };
    let groups = groups(day_part).filter(|g| g.len() == 3).ok_or_else(|| odd(text))?;
    let clock = match clock_part {
        Some(clock) => groups_of_clock(clock, text)?,
        None => [0; 3],
    };
    let [year, month, day] = [groups[0], groups[1], groups[2]].map(|g| g.parse::<i64>().unwrap_or(i64::MAX));
    let year = if groups[0].len() <= 2 { two_digits(year) } else { year };
    let year = if groups[0].len() <= 2 && year == 2000 && month == 0 && day == 0 { 0 } else { year };
    Ok(Moment { year, month, day, nanos: clock_nanos(clock, fraction, text)? })
}

/// The fraction of a second: after the last point, where a clock stands before it or digits alone.
fn split_fraction(text: &str) -> (&str, &str) {
    match text.rsplit_once('.') {
        Some((whole, fraction)) if whole.contains(':') || whole.len() >= 12 && whole.bytes().all(|b| b.is_ascii_digit()) => {
            (whole, fraction)
        }
        _ => (text, ""),
    }
}

fn groups(text: &str) -> Option<Vec<&str>> {
    let groups: Vec<&str> = text.split(|c: char| c.is_ascii_punctuation()).collect();
    groups.iter().all(|g| !g.is_empty() && g.len() <= 4 && g.bytes().all(|b| b.is_ascii_digit())).then_some(groups)
}

fn groups_of_clock(clock: &str, text: &str) -> Result<[i64; 3], Fault> {
    let mut parts = [0; 3];
    let groups = groups(clock).filter(|g| g.len() <= 3).ok_or_else(|| odd(text))?;
    for (part, group) in parts.iter_mut().zip(groups) {
        *part = group.parse().map_err(|_| odd(text))?;
    }
    if parts[0] > 23 || parts[1] > 59 || parts[2] > 59 { Err(odd(text)) } else { Ok(parts) }
}

fn two_digits(year: i64) -> i64 {
    if year < 70 { 2000 + year } else { 1900 + year }
}

fn fraction_nanos(fraction: &str, text: &str) -> Result<i128, Fault> {
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return Err(odd(text));
    }
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    digits.parse().map_err(|_| odd(text))
}

fn clock_nanos(clock: [i64; 3], fraction: &str, text: &str) -> Result<i128, Fault> {
    let seconds = i128::from(clock[0]) * 3600 + i128::from(clock[1]) * 60 + i128::from(clock[2]);
    Ok(seconds * 1_000_000_000 + fraction_nanos(fraction, text)?)
}

/// Digits alone: YYYYMMDD, YYMMDD, with hhmmss behind them or not.
fn packed(digits: &str, fraction: &str, text: &str) -> Result<Moment, Fault> {
    let digits = match digits.len() {
        0..=6 => format!("{digits:0>6}"),
        7 | 8 => format!("{digits:0>8}"),
        9..=12 => format!("{digits:0>12}"),
        13 | 14 => format!("{digits:0>14}"),
        _ => return Err(odd(text)),
    };
    let number = |range: std::ops::Range<usize>| digits.get(range).and_then(|d| d.parse::<i64>().ok()).ok_or_else(|| odd(text));
    let long_year = matches!(digits.len(), 8 | 14);
    let at = if long_year { 4 } else { 2 };
    let (year, month, day) = (number(0..at)?, number(at..at + 2)?, number(at + 2..at + 4)?);
    let clock = if digits.len() > at + 4 { [number(at + 4..at + 6)?, number(at + 6..at + 8)?, number(at + 8..at + 10)?] } else { [0; 3] };
    if clock[0] > 23 || clock[1] > 59 || clock[2] > 59 {
        return Err(odd(text));
    }
    let zero = month == 0 && day == 0 && year == 0;
    let year = if long_year || zero { year } else { two_digits(year) };
    Ok(Moment { year, month, day, nanos: clock_nanos(clock, fraction, text)? })
}

/// A literal as TIME.
pub(super) fn time(text: &str, precision: u8, context: &Context) -> Result<Value, Fault> {
    let trimmed = text.trim();
    let (negative, rest) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed),
    };
    let (days, clock) = match rest.split_once(' ') {
        Some((days, clock)) => (days.parse::<i64>().map_err(|_| odd(text))?, clock.trim()),
        None => (0, rest),
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let parts = if clock.contains(':') {
        let mut parts = [0; 3];
        let groups: Vec<&str> = clock.split(':').collect();
        if groups.len() > 3 {
            return Err(odd(text));
        }
        for (part, group) in parts.iter_mut().zip(groups) {
            *part = group.parse::<i64>().map_err(|_| odd(text))?;
        }
        parts
    } else {
        let number: i64 = clock.parse().map_err(|_| odd(text))?;
        [number / 10_000, number / 100 % 100, number % 100]
    };
    let hours = days.checked_mul(24).and_then(|h| h.checked_add(parts[0])).ok_or_else(|| odd(text))?;
    if !(0..=838).contains(&hours) || !(0..60).contains(&parts[1]) || !(0..60).contains(&parts[2]) {
        return Err(odd(text));
    }
    let micros = rounded(clock_nanos([hours, parts[1], parts[2]], fraction, text)?, precision, context);
    Ok(Value::Micros(if negative { -micros } else { micros }))
}
