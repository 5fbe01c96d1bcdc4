//! Dates and times: PostgreSQL's ranges and epochs, and their text.

use std::io::Write;

/// Days from 1970-01-01 to 2000-01-01, PostgreSQL's epoch.
pub const EPOCH_DAYS: i32 = 10_957;
pub const EPOCH_MICROS: i64 = 946_684_800_000_000;
pub const DAY_MICROS: i64 = 86_400_000_000;
/// PostgreSQL's first and last day, from 1970 (4713-11-24 BC, 5874898-06-02).
pub const FIRST_DAY: i32 = -2_440_588;
pub const LAST_DAY: i32 = 2_145_042_905;
/// PostgreSQL's first timestamp, from 1970: 4713-11-24 BC. Its last one lies beyond 64 bits counted from 1970.
pub const FIRST_MICROS: i64 = -210_866_803_200_000_000;
/// 0001-01-01, from 1970.
pub const YEAR_ONE_DAY: i32 = -719_162;
pub const YEAR_ONE_MICROS: i64 = YEAR_ONE_DAY as i64 * DAY_MICROS;

/// Year (0 is 1 BC), month and day of a day counted from 1970-01-01, in the proleptic Gregorian calendar.
pub fn civil(days: i64) -> (i64, u8, u8) {
    // Hinnant's algorithm: eras of 400 years that begin on 0000-03-01.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as u8, day as u8)
}

/// Appends `2024-02-29`, or `0044-03-15 BC`.
pub fn put_date(out: &mut Vec<u8>, days: i32) {
    let before_christ = put_day(out, i64::from(days));
    put_era(out, before_christ);
}

/// Appends `2024-02-29 12:00:00.5` of microseconds since 1970.
pub fn put_timestamp(out: &mut Vec<u8>, micros: i64, zone: &str) {
    let before_christ = put_day(out, micros.div_euclid(DAY_MICROS));
    out.push(b' ');
    put_time(out, micros.rem_euclid(DAY_MICROS));
    out.extend_from_slice(zone.as_bytes());
    put_era(out, before_christ);
}

/// Appends `-838:59:59.000001` of a span of microseconds.
pub fn put_time(out: &mut Vec<u8>, micros: i64) {
    if micros < 0 {
        out.push(b'-');
    }
    let (seconds, fraction) = (micros.unsigned_abs() / 1_000_000, micros.unsigned_abs() % 1_000_000);
    put(out, format_args!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60));
    if fraction > 0 {
        let mut digits = 6;
        let mut fraction = fraction;
        while fraction.is_multiple_of(10) {
            fraction /= 10;
            digits -= 1;
        }
        put(out, format_args!(".{fraction:0digits$}"));
    }
}

fn put_day(out: &mut Vec<u8>, days: i64) -> bool {
    let (year, month, day) = civil(days);
    let (year, before_christ) = if year < 1 { (1 - year, true) } else { (year, false) };
    put(out, format_args!("{year:04}-{month:02}-{day:02}"));
    before_christ
}

fn put_era(out: &mut Vec<u8>, before_christ: bool) {
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to memory cannot fail.
    let _ = out.write_fmt(text);
}
