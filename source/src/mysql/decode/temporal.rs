//! Dates and times: the log's packed forms to days and microseconds, and the text that the server prints.

use std::io::Write;

use schemas::wire::codec::{put_bytes, put_long};

use super::{
    Unfit,
    cursor::{big, little},
};

/// A date and time as the server keeps it: zero and partial dates included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DateTime {
    pub year: u32,
    pub month: u32,
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    pub micros: u32,
}

/// What both servers' calendars end with.
const LAST_YEAR: u32 = 9999;

/// Days since 1970-01-01 in the proleptic Gregorian calendar.
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let month = i64::from(month);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date that lies `days` after 1970-01-01.
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as u32, day as u32)
}

fn days_in_month(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

impl DateTime {
    /// DATE: three bytes.
    pub fn from_date(bytes: &[u8]) -> Self {
        let packed = little(bytes) as u32;
        Self { year: packed >> 9, month: (packed >> 5) & 15, day: packed & 31, ..Self::default() }
    }

    /// DATETIME since 5.6: five bytes and a fraction.
    pub fn from_datetime2(bytes: &[u8]) -> Self {
        let packed = big(&bytes[..5]).wrapping_sub(0x80_0000_0000);
        let (date, time) = (packed >> 17, packed & 0x1_ffff);
        let months = date >> 5;
        Self {
            year: (months / 13) as u32,
            month: (months % 13) as u32,
            day: (date & 31) as u32,
            hour: (time >> 12) as u32,
            minute: ((time >> 6) & 63) as u32,
            second: (time & 63) as u32,
            micros: fraction(&bytes[5..]),
        }
    }

    /// DATETIME before 5.6: YYYYMMDDHHMMSS as a number of eight bytes.
    pub fn from_datetime(bytes: &[u8]) -> Self {
        let number = little(bytes);
        let (date, time) = (number / 1_000_000, number % 1_000_000);
        Self {
            year: (date / 10_000) as u32,
            month: (date / 100 % 100) as u32,
            day: (date % 100) as u32,
            hour: (time / 10_000) as u32,
            minute: (time / 100 % 100) as u32,
            second: (time % 100) as u32,
            micros: 0,
        }
    }

    /// An instant of TIMESTAMP as its date and time in UTC; second 0 is the zero timestamp.
    pub fn from_instant(seconds: u32, micros: u32) -> Self {
        if seconds == 0 && micros == 0 {
            return Self::default();
        }
        let (days, rest) = (i64::from(seconds / 86_400), seconds % 86_400);
        let (year, month, day) = civil_from_days(days);
        Self { year: year as u32, month, day, hour: rest / 3600, minute: rest / 60 % 60, second: rest % 60, micros }
    }

    fn days(&self) -> Option<i64> {
        let real =
            self.year <= LAST_YEAR && (1..=12).contains(&self.month) && self.day >= 1 && self.day <= days_in_month(self.year, self.month);
        real.then(|| days_from_civil(i64::from(self.year), self.month, self.day))
    }

    /// Microseconds since midnight.
    fn time_of_day(&self) -> Option<i64> {
        let real = self.hour < 24 && self.minute < 60 && self.second < 60 && self.micros < 1_000_000;
        real.then(|| i64::from(self.hour * 3600 + self.minute * 60 + self.second) * 1_000_000 + i64::from(self.micros))
    }

    /// Days since 1970-01-01, as Avro int.
    pub fn put_days(&self, out: &mut Vec<u8>) -> Result<(), Unfit> {
        put_long(out, self.days().ok_or_else(|| self.not_a_date(None))?);
        Ok(())
    }

    /// Microseconds since 1970-01-01 00:00:00, as Avro long. `precision` is for the message.
    pub fn put_micros(&self, out: &mut Vec<u8>, precision: u8) -> Result<(), Unfit> {
        let (days, time) = self.days().zip(self.time_of_day()).ok_or_else(|| self.not_a_date(Some(precision)))?;
        put_long(out, days * 86_400_000_000 + time);
        Ok(())
    }

    fn not_a_date(&self, precision: Option<u8>) -> Unfit {
        let mut text = Vec::new();
        match precision {
            None => self.date_text(&mut text),
            Some(precision) => self.text(&mut text, precision),
        }
        Unfit::value(format!(
            "'{}' is not a date; publish the column as text (source.type_map: {{ <database.table.column>: string }}), or correct the row; then reload the table",
            String::from_utf8_lossy(&text)
        ))
    }

    /// `YYYY-MM-DD`, as the server prints it.
    pub fn date_text(&self, out: &mut Vec<u8>) {
        let _ = write!(out, "{:04}-{:02}-{:02}", self.year, self.month, self.day);
    }

    /// `YYYY-MM-DD HH:MM:SS[.ffffff]`, as the server prints it.
    pub fn text(&self, out: &mut Vec<u8>, precision: u8) {
        self.date_text(out);
        let _ = write!(out, " {:02}:{:02}:{:02}", self.hour, self.minute, self.second);
        fraction_text(out, self.micros, precision);
    }
}

/// A fraction of a second in 0 to 3 big-endian bytes, in microseconds.
pub fn fraction(bytes: &[u8]) -> u32 {
    let value = big(bytes) as u32;
    match bytes.len() {
        0 => 0,
        1 => value.wrapping_mul(10_000),
        2 => value.wrapping_mul(100),
        _ => value,
    }
}

fn fraction_text(out: &mut Vec<u8>, micros: u32, precision: u8) {
    if precision > 0 {
        let digits = usize::from(precision.min(6));
        let cut = micros / 10u32.pow(6 - digits as u32);
        let _ = write!(out, ".{cut:0digits$}");
    }
}

/// TIME since 5.6, three bytes and a fraction, in signed microseconds.
pub fn micros_from_time2(bytes: &[u8]) -> i64 {
    let mut whole = big(&bytes[..3]) as i64 - 0x80_0000;
    let mut part = big(&bytes[3..]) as i64;
    let (unit, span) = match bytes.len() - 3 {
        0 => (0, 0),
        1 => (10_000, 1 << 8),
        2 => (100, 1 << 16),
        _ => (1, 1 << 24),
    };
    // The number is kept as one two's complement: a negative time's fraction counts down.
    if whole < 0 && part != 0 {
        whole += 1;
        part -= span;
    }
    let magnitude = whole.abs();
    let seconds = ((magnitude >> 12) & 0x3ff) * 3600 + ((magnitude >> 6) & 63) * 60 + (magnitude & 63);
    let micros = seconds * 1_000_000 + part.abs() * unit;
    if whole < 0 || part < 0 { -micros } else { micros }
}

/// TIME before 5.6: HHMMSS as a signed number of three bytes.
pub fn micros_from_time(bytes: &[u8]) -> i64 {
    let number = ((little(bytes) as i64) << 40) >> 40;
    let magnitude = number.abs();
    let seconds = magnitude / 10_000 * 3600 + magnitude / 100 % 100 * 60 + magnitude % 100;
    number.signum() * seconds * 1_000_000
}

/// `[-]HH:MM:SS[.ffffff]`, as the server prints it.
pub fn time_text(out: &mut Vec<u8>, micros: i64, precision: u8) {
    if micros < 0 {
        out.push(b'-');
    }
    let magnitude = micros.unsigned_abs();
    let seconds = magnitude / 1_000_000;
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    fraction_text(out, (magnitude % 1_000_000) as u32, precision);
}

/// Writes what `print` prints as an Avro string.
pub fn put_printed(out: &mut Vec<u8>, scratch: &mut Vec<u8>, print: impl FnOnce(&mut Vec<u8>)) {
    scratch.clear();
    print(scratch);
    put_bytes(out, scratch);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_count_from_1970_both_ways() {
        for (date, days) in
            [((1970, 1, 1), 0), ((2000, 2, 29), 11_016), ((9999, 12, 31), 2_932_896), ((0, 1, 1), -719_528), ((1, 1, 1), -719_162)]
        {
            assert_eq!(days_from_civil(date.0, date.1, date.2), days);
            assert_eq!(civil_from_days(days), date);
        }
    }

    #[test]
    fn time_is_signed_and_exact_in_every_precision() {
        // As the servers write them: -838:59:59.000000, -00:00:00.01, -00:00:01.9999, 838:59:59.
        assert_eq!(micros_from_time2(&[0x4b, 0x91, 0x05, 0, 0, 0]), -3_020_399_000_000);
        assert_eq!(micros_from_time2(&[0x7f, 0xff, 0xff, 0xff]), -10_000);
        assert_eq!(micros_from_time2(&[0x7f, 0xff, 0xfe, 0xd8, 0xf1]), -1_999_900);
        assert_eq!(micros_from_time2(&[0xb4, 0x6e, 0xfb]), 3_020_399_000_000);
        assert_eq!(micros_from_time2(&[0x80, 0, 0]), 0);
    }

    #[test]
    fn old_times_and_datetimes_are_read() {
        assert_eq!(micros_from_time(&(-235_959i32).to_le_bytes()[..3]), -86_399_000_000);
        let old = DateTime::from_datetime(&20_240_229_235_958u64.to_le_bytes());
        assert_eq!(old, DateTime { year: 2024, month: 2, day: 29, hour: 23, minute: 59, second: 58, micros: 0 });
    }

    #[test]
    fn impossible_dates_are_named_as_the_server_prints_them() {
        let mut out = Vec::new();
        for (date, text) in [
            (DateTime::default(), "'0000-00-00'"),
            (DateTime { year: 2020, day: 15, ..DateTime::default() }, "'2020-00-15'"),
            (DateTime { year: 2023, month: 2, day: 29, ..DateTime::default() }, "'2023-02-29'"),
        ] {
            assert!(date.put_days(&mut out).unwrap_err().to_string().starts_with(text));
        }
        assert!(out.is_empty());
        // No server writes these; a DATETIME of before 5.6 could hold them.
        let far = DateTime::from_datetime(&u64::MAX.to_le_bytes());
        assert!(far.put_days(&mut out).is_err() && far.put_micros(&mut out, 0).is_err());
        let noon = DateTime { year: 2024, month: 2, day: 29, hour: 12, ..DateTime::default() };
        for time in [
            DateTime { hour: 24, ..noon },
            DateTime { minute: 60, ..noon },
            DateTime { second: 60, ..noon },
            DateTime { micros: 1_000_000, ..noon },
        ] {
            assert!(time.put_micros(&mut out, 6).unwrap_err().to_string().contains("is not a date"), "{time:?}");
        }
        assert!(out.is_empty());
        let error = DateTime::default().put_micros(&mut out, 3).unwrap_err().to_string();
        assert!(error.starts_with("'0000-00-00 00:00:00.000' is not a date"), "{error}");
    }

    #[test]
    fn texts_are_the_servers() {
        let mut out = Vec::new();
        time_text(&mut out, -3_020_399_000_001, 6);
        out.push(b' ');
        time_text(&mut out, 1_500_000, 1);
        out.push(b' ');
        DateTime::from_instant(1, 120_000).text(&mut out, 2);
        assert_eq!(String::from_utf8(out).unwrap(), "-838:59:59.000001 00:00:01.5 1970-01-01 00:00:01.12");
    }
}
