//! A row's key as people read it, for messages that stop at a row.

use std::fmt::Write;

use schemas::{
    types::Repr,
    wire::{WireError, codec::Reader},
};

const MICROS_A_DAY: i64 = 86_400_000_000;

/// `id=1, code='x'`, from the key's Avro bytes. A field is its column's name, its form and whether it may be NULL.
pub fn text<'a>(fields: impl Iterator<Item = (&'a str, &'a Repr, bool)>, key: &[u8]) -> String {
    let mut reader = Reader::new(key);
    let mut text = String::new();
    for (name, repr, nullable) in fields {
        let comma = if text.is_empty() { "" } else { ", " };
        let value = value_text(&mut reader, repr, nullable).unwrap_or_else(|_| "?".into());
        let _ = write!(text, "{comma}{name}={value}");
    }
    if text.is_empty() { "without a key".into() } else { text }
}

fn value_text(reader: &mut Reader<'_>, repr: &Repr, nullable: bool) -> Result<String, WireError> {
    if nullable && !reader.some()? {
        return Ok("NULL".into());
    }
    Ok(match repr {
        Repr::Boolean => reader.boolean()?.to_string(),
        Repr::Int | Repr::Long | Repr::TimeMicros => reader.long()?.to_string(),
        Repr::Float => reader.float()?.to_string(),
        Repr::Double => reader.double()?.to_string(),
        Repr::String | Repr::Uuid => format!("'{}'", reader.string()?),
        Repr::Bytes => hex(reader.bytes()?),
        Repr::Decimal { scale, .. } => {
            let bytes = reader.bytes()?;
            if bytes.len() > 16 { hex(bytes) } else { decimal_text(bytes, *scale) }
        }
        Repr::Date => format!("'{}'", date_text(reader.long()?)),
        Repr::LocalTimestampMicros | Repr::TimestampMicros => {
            let micros = reader.long()?;
            let (date, time) = (date_text(micros.div_euclid(MICROS_A_DAY)), micros.rem_euclid(MICROS_A_DAY));
            let (seconds, part) = (time / 1_000_000, time % 1_000_000);
            format!("'{date} {:02}:{:02}:{:02}.{part:06}'", seconds / 3600, seconds / 60 % 60, seconds % 60)
        }
        Repr::Array(_) => "…".into(),
    })
}

/// Year, month and day of a day counted from 1970-01-01, in eras of 400 years that begin with March.
fn date_text(days: i64) -> String {
    let shifted = days.saturating_add(719_468);
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn decimal_text(bytes: &[u8], scale: u16) -> String {
    let sign = if bytes.first().is_some_and(|b| *b >= 0x80) { -1 } else { 0 };
    let value = bytes.iter().fold(sign, |value: i128, byte| (value << 8) | i128::from(*byte));
    if scale == 0 {
        return value.to_string();
    }
    let digits = format!("{:0width$}", value.unsigned_abs(), width = usize::from(scale) + 1);
    let (whole, part) = digits.split_at(digits.len() - usize::from(scale));
    format!("{}{whole}.{part}", if value < 0 { "-" } else { "" })
}

#[cfg(test)]
mod tests {
    use schemas::wire::codec::{put_bytes, put_long, put_null};

    use super::*;

    #[test]
    fn a_key_reads_as_its_columns() {
        let mut key = Vec::new();
        put_long(&mut key, -7);
        put_bytes(&mut key, b"x");
        put_null(&mut key);
        put_long(&mut key, 11_016);
        put_long(&mut key, -1);
        put_bytes(&mut key, &[0xff, 0x38]);
        let decimal = Repr::Decimal { precision: 5, scale: 2 };
        let fields = [
            ("id", &Repr::Long, false),
            ("code", &Repr::String, false),
            ("none", &Repr::String, true),
            ("day", &Repr::Date, false),
            ("at", &Repr::TimestampMicros, false),
            ("price", &decimal, false),
        ];
        let expected = "id=-7, code='x', none=NULL, day='2000-02-29', at='1969-12-31 23:59:59.999999', price=-2.00";
        assert_eq!(text(fields.into_iter(), &key), expected);
        assert_eq!(text([].into_iter(), &[]), "without a key");
    }
}
