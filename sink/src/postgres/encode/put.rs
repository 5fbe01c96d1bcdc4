//! One value: read from Avro, proved to fit, written with its length.

use std::{fmt, net::IpAddr};

use schemas::wire::{WireError, codec::Reader};

use super::{
    codec::{Codec, Limit, Printed, TextForm},
    moment,
    numeric::{self, NumericMisfit},
};

/// Why a value cannot be kept exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    Nul,
    Null,
    /// More characters than the column takes.
    TooLong {
        characters: u32,
    },
    /// A whole number outside the column's range.
    Range {
        bytes: u8,
    },
    NotBoolean,
    Numeric(NumericMisfit),
    /// More than the column's single precision holds.
    Inexact,
    /// Digits of a second that the column would round away.
    Fraction {
        step: i64,
    },
    /// Outside PostgreSQL's range of dates.
    DateRange,
    /// A date before the year 1, which MySQL counts otherwise.
    YearZero,
    /// Outside 00:00:00 to 24:00:00.
    TimeOfDay,
    /// Not in the form that its type has.
    Syntax {
        what: &'static str,
    },
    /// Not one of the target's labels.
    Label,
    /// A bit string of another length.
    BitLength {
        length: u32,
    },
    Wire(WireError),
}

impl From<WireError> for Problem {
    fn from(error: WireError) -> Self {
        Problem::Wire(error)
    }
}

impl From<NumericMisfit> for Problem {
    fn from(misfit: NumericMisfit) -> Self {
        Problem::Numeric(misfit)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Nul => f.write_str("the text holds a NUL byte, which PostgreSQL cannot keep"),
            Problem::Null => f.write_str("NULL, but the target column is NOT NULL"),
            Problem::TooLong { characters } => write!(f, "the text is longer than the target's {characters} characters"),
            Problem::Range { bytes } => write!(f, "the number is out of range for the target's {bytes}-byte integer"),
            Problem::NotBoolean => f.write_str("the number is neither 0 nor 1, the target column is boolean"),
            Problem::Numeric(NumericMisfit::Digits { allowed }) => {
                write!(f, "the number has more than the {allowed} digits before the point that the target column holds")
            }
            Problem::Numeric(NumericMisfit::Fraction { allowed }) => {
                write!(f, "the number has more than the {allowed} digits behind the point that the target column holds")
            }
            Problem::Numeric(NumericMisfit::Width) => f.write_str("the number has more digits than can be carried"),
            Problem::Numeric(NumericMisfit::Syntax) => f.write_str("not a number in plain notation"),
            Problem::Inexact => f.write_str("the number needs double precision, the target column is real"),
            Problem::Fraction { step } => {
                write!(f, "the seconds have a fraction finer than the target column's steps of {step} microseconds")
            }
            Problem::DateRange => f.write_str("the date lies outside PostgreSQL's range"),
            Problem::YearZero => f.write_str("a date before the year 1, which PostgreSQL does not have as the source means it"),
            Problem::TimeOfDay => f.write_str("outside 00:00:00 to 24:00:00, the target column is a time of day"),
            Problem::Syntax { what } => write!(f, "not a valid {what}"),
            Problem::Label => f.write_str("not a label of the target's enum type"),
            Problem::BitLength { length } => write!(f, "not a bit string of {length} bits"),
            Problem::Wire(error) => write!(f, "the row's bytes are not what its schema version says: {error}"),
        }
    }
}

/// Appends the next value of `reader`, its length first. What is appended on failure does not count.
#[inline]
pub fn value(codec: &Codec, reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    match codec {
        Codec::Boolean => field(out, [u8::from(reader.boolean()?)]),
        Codec::BooleanOfInteger => match reader.long()? {
            value @ (0 | 1) => field(out, [value as u8]),
            _ => return Err(Problem::NotBoolean),
        },
        Codec::Integer { width } => integer(out, *width, reader.long()?)?,
        Codec::IntegerOfDecimal { width, scale } => integer_of_decimal(out, *width, *scale, reader.bytes()?)?,
        Codec::NumericOfInteger { size } => numeric::put_integer(out, reader.long()?, *size)?,
        Codec::Numeric { scale, size } => numeric::put_decimal(out, reader.bytes()?, *scale, *size)?,
        Codec::NumericOfText { size } => numeric::put_text(out, reader.bytes()?, *size)?,
        Codec::Float => field(out, reader.float()?.to_be_bytes()),
        Codec::Double => field(out, reader.double()?.to_be_bytes()),
        Codec::DoubleOfFloat => field(out, f64::from(reader.float()?).to_be_bytes()),
        Codec::FloatOfDouble => field(out, narrow_float(reader.double()?)?.to_be_bytes()),
        Codec::Text { limit, form } => text(out, *limit, *form, reader.bytes()?)?,
        Codec::Bytes => bytes(out, reader.bytes()?),
        Codec::Bits { length } => bits(out, *length, reader.bytes()?)?,
        Codec::Date { first } => {
            let days = reader.int()?;
            date_fits(days, *first)?;
            field(out, (days - moment::EPOCH_DAYS).to_be_bytes());
        }
        Codec::Time { step } => {
            let micros = stepped(reader.long()?, *step)?;
            if !(0..=moment::DAY_MICROS).contains(&micros) {
                return Err(Problem::TimeOfDay);
            }
            field(out, micros.to_be_bytes());
        }
        Codec::Interval { step } => {
            let micros = stepped(reader.long()?, *step)?;
            out.extend_from_slice(&16u32.to_be_bytes());
            out.extend_from_slice(&micros.to_be_bytes());
            out.extend_from_slice(&[0; 8]);
        }
        Codec::Timestamp { first, step } => {
            let micros = stepped(reader.long()?, *step)?;
            moment_fits(micros, *first)?;
            field(out, (micros - moment::EPOCH_MICROS).to_be_bytes());
        }
        Codec::Uuid => field(out, uuid(reader.bytes()?).ok_or(Problem::Syntax { what: "UUID" })?),
        Codec::Inet { cidr } => inet(out, *cidr, reader.string()?).ok_or(Problem::Syntax { what: "network address" })?,
        Codec::Label { labels } => {
            let label = reader.bytes()?;
            if !labels.iter().any(|l| l.as_bytes() == label) {
                return Err(Problem::Label);
            }
            bytes(out, label);
        }
        Codec::TextOf { printed, limit } => text_of(out, *printed, *limit, reader)?,
    }
    Ok(())
}

#[inline]
fn field<const N: usize>(out: &mut Vec<u8>, value: [u8; N]) {
    out.extend_from_slice(&(N as u32).to_be_bytes());
    out.extend_from_slice(&value);
}

#[inline]
fn bytes(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
}

#[inline]
fn integer(out: &mut Vec<u8>, width: u8, value: i64) -> Result<(), Problem> {
    let range = |_| Problem::Range { bytes: width };
    match width {
        2 => field(out, i16::try_from(value).map_err(range)?.to_be_bytes()),
        4 => field(out, i32::try_from(value).map_err(range)?.to_be_bytes()),
        _ => field(out, value.to_be_bytes()),
    }
    Ok(())
}

fn integer_of_decimal(out: &mut Vec<u8>, width: u8, scale: u16, decimal: &[u8]) -> Result<(), Problem> {
    let range = Problem::Range { bytes: width };
    let value = numeric::narrow(decimal).ok_or_else(|| range.clone())?;
    let unit = 10i128.checked_pow(u32::from(scale)).ok_or_else(|| range.clone())?;
    if value % unit != 0 {
        return Err(NumericMisfit::Fraction { allowed: 0 }.into());
    }
    integer(out, width, i64::try_from(value / unit).map_err(|_| range)?)
}

fn narrow_float(value: f64) -> Result<f32, Problem> {
    let narrow = value as f32;
    if f64::from(narrow).to_bits() == value.to_bits() || (value.is_nan() && narrow.is_nan()) { Ok(narrow) } else { Err(Problem::Inexact) }
}

#[inline]
fn text(out: &mut Vec<u8>, limit: Limit, form: TextForm, value: &[u8]) -> Result<(), Problem> {
    if value.contains(&0) {
        return Err(Problem::Nul);
    }
    let mut checked = std::str::from_utf8(value).map_err(|_| WireError::Utf8)?;
    if let Some(most) = limit.characters
        && let Some((end, _)) = checked.char_indices().nth(most as usize)
    {
        if !limit.cut {
            return Err(Problem::TooLong { characters: most });
        }
        checked = &checked[..end];
    }
    match form {
        TextForm::Plain => bytes(out, checked.as_bytes()),
        TextForm::CheckedJson => {
            json(checked)?;
            bytes(out, checked.as_bytes());
        }
        TextForm::Jsonb => {
            json(checked)?;
            out.extend_from_slice(&(checked.len() as u32 + 1).to_be_bytes());
            out.push(1);
            out.extend_from_slice(checked.as_bytes());
        }
    }
    Ok(())
}

fn json(text: &str) -> Result<(), Problem> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).map(drop).map_err(|_| Problem::Syntax { what: "JSON text" })
}

/// Avro's bits are padded on the left, PostgreSQL's on the right.
fn bits(out: &mut Vec<u8>, length: u32, value: &[u8]) -> Result<(), Problem> {
    let misfit = Problem::BitLength { length };
    let size = length.div_ceil(8) as usize;
    let shift = (8 - length % 8) % 8;
    if value.len() != size || value.first().is_some_and(|first| shift > 0 && u32::from(*first) >> (8 - shift) != 0) {
        return Err(misfit);
    }
    out.extend_from_slice(&(size as u32 + 4).to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    for (i, byte) in value.iter().enumerate() {
        let next = value.get(i + 1).map_or(0, |b| u16::from(*b));
        out.push((((u16::from(*byte) << 8 | next) << shift) >> 8) as u8);
    }
    Ok(())
}

#[inline]
fn date_fits(days: i32, first: i32) -> Result<(), Problem> {
    if days < first {
        return Err(if first == moment::YEAR_ONE_DAY { Problem::YearZero } else { Problem::DateRange });
    }
    if days > moment::LAST_DAY { Err(Problem::DateRange) } else { Ok(()) }
}

#[inline]
fn moment_fits(micros: i64, first: i64) -> Result<(), Problem> {
    if micros >= first {
        return Ok(());
    }
    Err(if first == moment::YEAR_ONE_MICROS { Problem::YearZero } else { Problem::DateRange })
}

#[inline]
fn stepped(micros: i64, step: i64) -> Result<i64, Problem> {
    if step == 1 || micros % step == 0 { Ok(micros) } else { Err(Problem::Fraction { step }) }
}

fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    let mut out = [0u8; 16];
    let mut digits = text.iter().filter(|b| **b != b'-');
    for byte in &mut out {
        *byte = hex(*digits.next()?)? << 4 | hex(*digits.next()?)?;
    }
    digits.next().is_none().then_some(out)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|d| d as u8)
}

fn inet(out: &mut Vec<u8>, cidr: bool, text: &str) -> Option<()> {
    let (address, mask) = match text.split_once('/') {
        Some((address, mask)) => (address, Some(mask.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let mut head = |family: u8, most: u8| {
        let mask = mask.unwrap_or(most);
        out.extend_from_slice(&(4 + u32::from(most) / 8).to_be_bytes());
        out.extend_from_slice(&[family, mask, u8::from(cidr), most / 8]);
        (mask <= most).then_some(())
    };
    match address.parse().ok()? {
        IpAddr::V4(v4) => {
            head(2, 32)?;
            out.extend_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            head(3, 128)?;
            out.extend_from_slice(&v6.octets());
        }
    }
    Some(())
}

fn text_of(out: &mut Vec<u8>, printed: Printed, limit: Limit, reader: &mut Reader<'_>) -> Result<(), Problem> {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    match printed {
        Printed::Boolean => out.extend_from_slice(if reader.boolean()? { b"true" } else { b"false" }),
        Printed::Integer => numeric::put_plain(out, &reader.long()?.to_be_bytes(), 0)?,
        Printed::Decimal { scale } => numeric::put_plain(out, reader.bytes()?, scale)?,
        Printed::Date { first } => {
            let days = reader.int()?;
            date_fits(days, first)?;
            moment::put_date(out, days);
        }
        Printed::Time => moment::put_time(out, reader.long()?),
        Printed::Timestamp { first, zone } => {
            let micros = reader.long()?;
            moment_fits(micros, first)?;
            moment::put_timestamp(out, micros, zone);
        }
    }
    let length = (out.len() - at - 4) as u32;
    match limit.characters {
        // All of it is ASCII. A number that is cut would be another number.
        Some(characters) if length > characters => Err(Problem::TooLong { characters }),
        _ => {
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
            Ok(())
        }
    }
}
