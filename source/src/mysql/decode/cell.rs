//! One column's values: from the log's bytes to Avro.

use std::{fmt::Display, net::Ipv4Addr};

use schemas::{
    charset::{Charsets, Decoder},
    native::mysql::{Inet6, Native, zerofill_width},
    types::Repr,
    wire::codec::{put_bytes, put_decimal_i128, put_double, put_float, put_long},
};

use super::{
    Malformed, Unfit, charset, compressed,
    cursor::{big, little},
    decimal, json,
    layout::{Physical, code},
    network,
    temporal::{self, DateTime, put_printed},
};

/// How a column's values are written, whichever way they come.
#[derive(Debug, Clone, PartialEq)]
pub enum Codec {
    Integer {
        unsigned: bool,
    },
    /// BIGINT UNSIGNED: a decimal of 20 digits.
    UnsignedLong,
    Float,
    Double,
    Decimal {
        precision: u8,
        scale: u8,
    },
    Year,
    Date,
    Time,
    DateTime {
        precision: u8,
    },
    Timestamp {
        precision: u8,
    },
    Text {
        decoder: Decoder,
        compressed: bool,
    },
    /// Padded with zero bytes to this length.
    Binary {
        length: usize,
    },
    Bytes {
        compressed: bool,
    },
    Enum {
        labels: Vec<String>,
        decoder: Decoder,
    },
    Set {
        labels: Vec<String>,
        decoder: Decoder,
    },
    Json,
    Uuid,
    Inet4,
    Inet6,
    /// Published as the server's text (`type_map: string`).
    Printed(Printed),
}

/// Types that may be published as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Printed {
    Integer { unsigned: bool, zerofill: Option<u8> },
    Decimal { precision: u8, scale: u8 },
    Date,
    Time { precision: u8 },
    DateTime { precision: u8 },
    Timestamp { precision: u8 },
}

/// Room for values that must be rebuilt before they are written.
#[derive(Debug, Default)]
pub struct Scratch {
    bytes: Vec<u8>,
}

impl Codec {
    /// The codec of a column that is published in this form.
    ///
    /// # Errors
    /// Why the column cannot be published so.
    pub fn new(native: &Native, repr: &Repr, charsets: &Charsets) -> Result<Self, String> {
        if *repr != native.logical().repr() {
            return printed(native, repr);
        }
        let decoder = |name: &str| {
            charsets
                .decoder(name)
                .ok_or_else(|| format!("its character set {name} cannot be read exactly; exclude the column, or convert it to utf8mb4"))
        };
        Ok(match native {
            Native::Integer { bits: 64, unsigned: true, .. } => Codec::UnsignedLong,
            Native::Integer { unsigned, .. } => Codec::Integer { unsigned: *unsigned },
            Native::Decimal { precision, scale, .. } => Codec::Decimal { precision: *precision, scale: *scale },
            Native::Float { .. } => Codec::Float,
            Native::Double { .. } => Codec::Double,
            Native::Bit { length } => Codec::Binary { length: usize::from(*length).div_ceil(8) },
            Native::Year => Codec::Year,
            Native::Date => Codec::Date,
            Native::Time { .. } => Codec::Time,
            Native::DateTime { precision } => Codec::DateTime { precision: *precision },
            Native::Timestamp { precision } => Codec::Timestamp { precision: *precision },
            Native::Char { charset, .. } => Codec::Text { decoder: decoder(&charset.charset)?, compressed: false },
            Native::VarChar { charset, compressed, .. } | Native::Text { charset, compressed, .. } => {
                Codec::Text { decoder: decoder(&charset.charset)?, compressed: *compressed }
            }
            Native::Binary { length } => Codec::Binary { length: usize::from(*length) },
            Native::VarBinary { compressed, .. } | Native::Blob { compressed, .. } => Codec::Bytes { compressed: *compressed },
            Native::Enum { labels, charset } => Codec::Enum { labels: labels.clone(), decoder: decoder(&charset.charset)? },
            Native::Set { labels, charset } => Codec::Set { labels: labels.clone(), decoder: decoder(&charset.charset)? },
            Native::Json => Codec::Json,
            Native::Geometry { .. } | Native::Vector { .. } => Codec::Bytes { compressed: false },
            Native::Uuid => Codec::Uuid,
            Native::Inet4 => Codec::Inet4,
            Native::Inet6 => Codec::Inet6,
        })
    }

    /// Writes a value as the log has it.
    #[inline]
    pub fn put(&self, out: &mut Vec<u8>, bytes: &[u8], physical: Physical, scratch: &mut Scratch) -> Result<(), Unfit> {
        match self {
            Codec::Integer { unsigned } => put_long(out, integer(bytes, *unsigned)),
            Codec::UnsignedLong => put_decimal_i128(out, i128::from(little(bytes))),
            Codec::Float => put_float(out, f32::from_bits(little(bytes) as u32)),
            Codec::Double => put_double(out, f64::from_bits(little(bytes))),
            Codec::Decimal { precision, scale } => decimal::put_packed(out, bytes, *precision, *scale)?,
            Codec::Year => put_long(out, year(bytes)),
            Codec::Date => DateTime::from_date(bytes).put_days(out)?,
            Codec::Time => put_long(out, time(bytes, physical)),
            Codec::DateTime { precision } => datetime(bytes, physical).put_micros(out, *precision)?,
            Codec::Timestamp { precision } => match instant(bytes, physical) {
                (0, 0) => DateTime::default().put_micros(out, *precision)?,
                (seconds, micros) if micros < 1_000_000 => put_long(out, i64::from(seconds) * 1_000_000 + i64::from(micros)),
                (_, micros) => return Err(Unfit::value(format!("{micros} microseconds in a second"))),
            },
            Codec::Text { decoder, compressed: false } => charset::put(out, decoder, bytes)?,
            Codec::Text { decoder, compressed: true } => charset::put(out, decoder, compressed::column(bytes, &mut scratch.bytes)?)?,
            Codec::Binary { length } => put_padded(out, bytes, *length),
            Codec::Bytes { compressed: false } => put_bytes(out, bytes),
            Codec::Bytes { compressed: true } => put_bytes(out, compressed::column(bytes, &mut scratch.bytes)?),
            Codec::Enum { labels, .. } => put_label(out, labels, little(bytes) as usize)?,
            Codec::Set { labels, .. } => put_labels(out, labels, little(bytes))?,
            Codec::Json => {
                scratch.bytes.clear();
                json::text(&mut scratch.bytes, bytes)?;
                put_bytes(out, &scratch.bytes);
            }
            Codec::Uuid => put_printed(out, &mut scratch.bytes, |out| network::uuid_text(out, padded(bytes))),
            Codec::Inet4 => put_address(out, &mut scratch.bytes, Ipv4Addr::from(padded::<4>(bytes))),
            Codec::Inet6 => put_address(out, &mut scratch.bytes, Inet6(padded::<16>(bytes).into())),
            Codec::Printed(printed) => printed.put(out, bytes, physical, &mut scratch.bytes)?,
        }
        Ok(())
    }
}

fn printed(native: &Native, repr: &Repr) -> Result<Codec, String> {
    let refused = || Err(format!("{native} cannot be published as text; take it out of source.type_map"));
    if *repr != Repr::String {
        return refused();
    }
    Ok(Codec::Printed(match native {
        Native::Integer { unsigned, zerofill, width, bits } => {
            let width = width.unwrap_or_else(|| zerofill_width(*bits));
            Printed::Integer { unsigned: *unsigned, zerofill: zerofill.then_some(width) }
        }
        Native::Year => Printed::Integer { unsigned: true, zerofill: Some(4) },
        Native::Decimal { precision, scale, .. } => Printed::Decimal { precision: *precision, scale: *scale },
        Native::Date => Printed::Date,
        Native::Time { precision } => Printed::Time { precision: *precision },
        Native::DateTime { precision } => Printed::DateTime { precision: *precision },
        Native::Timestamp { precision } => Printed::Timestamp { precision: *precision },
        Native::Uuid => return Ok(Codec::Uuid),
        Native::Float { .. }
        | Native::Double { .. }
        | Native::Bit { .. }
        | Native::Char { .. }
        | Native::VarChar { .. }
        | Native::Text { .. }
        | Native::Binary { .. }
        | Native::VarBinary { .. }
        | Native::Blob { .. }
        | Native::Enum { .. }
        | Native::Set { .. }
        | Native::Json
        | Native::Geometry { .. }
        | Native::Inet4
        | Native::Inet6
        | Native::Vector { .. } => return refused(),
    }))
}

impl Printed {
    fn put(self, out: &mut Vec<u8>, bytes: &[u8], physical: Physical, scratch: &mut Vec<u8>) -> Result<(), Unfit> {
        scratch.clear();
        match self {
            Printed::Integer { unsigned, zerofill } => {
                let value = match physical.code {
                    code::YEAR => i128::from(year(bytes)),
                    code::LONGLONG if unsigned => i128::from(little(bytes)),
                    _ => i128::from(integer(bytes, unsigned)),
                };
                integer_text(scratch, value, zerofill);
            }
            Printed::Decimal { precision, scale } => decimal::packed_text(scratch, bytes, precision, scale)?,
            Printed::Date => DateTime::from_date(bytes).date_text(scratch),
            Printed::Time { precision } => temporal::time_text(scratch, time(bytes, physical), precision),
            Printed::DateTime { precision } => datetime(bytes, physical).text(scratch, precision),
            Printed::Timestamp { precision } => {
                let (seconds, micros) = instant(bytes, physical);
                DateTime::from_instant(seconds, micros).text(scratch, precision);
            }
        }
        put_bytes(out, scratch);
        Ok(())
    }
}

/// An integer's text; zero-filled columns are padded to their display width.
pub fn integer_text(out: &mut Vec<u8>, value: i128, zerofill: Option<u8>) {
    use std::io::Write;
    let _ = match zerofill {
        Some(width) => write!(out, "{value:0width$}", width = usize::from(width)),
        None => write!(out, "{value}"),
    };
}

#[inline]
fn integer(bytes: &[u8], unsigned: bool) -> i64 {
    let value = little(bytes).cast_signed();
    if unsigned {
        return value;
    }
    let unused = 64 - 8 * bytes.len() as u32;
    (value << unused) >> unused
}

/// The log counts from 1900; 0 is the year 0.
fn year(bytes: &[u8]) -> i64 {
    match little(bytes) as i64 {
        0 => 0,
        value => 1900 + value,
    }
}

fn time(bytes: &[u8], physical: Physical) -> i64 {
    if physical.code == code::TIME2 { temporal::micros_from_time2(bytes) } else { temporal::micros_from_time(bytes) }
}

#[inline]
fn datetime(bytes: &[u8], physical: Physical) -> DateTime {
    if physical.code == code::DATETIME2 { DateTime::from_datetime2(bytes) } else { DateTime::from_datetime(bytes) }
}

/// Seconds and microseconds since 1970 UTC.
#[inline]
fn instant(bytes: &[u8], physical: Physical) -> (u32, u32) {
    if physical.code == code::TIMESTAMP2 { (big(&bytes[..4]) as u32, temporal::fraction(&bytes[4..])) } else { (little(bytes) as u32, 0) }
}

fn put_address(out: &mut Vec<u8>, scratch: &mut Vec<u8>, address: impl Display) {
    use std::io::Write;
    put_printed(out, scratch, |out| {
        let _ = write!(out, "{address}");
    });
}

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut whole = [0; N];
    let n = bytes.len().min(N);
    whole[..n].copy_from_slice(&bytes[..n]);
    whole
}

/// BINARY(n): the log leaves trailing zero bytes out.
pub fn put_padded(out: &mut Vec<u8>, bytes: &[u8], length: usize) {
    put_long(out, length.max(bytes.len()) as i64);
    out.extend_from_slice(bytes);
    out.extend(std::iter::repeat_n(0, length.saturating_sub(bytes.len())));
}

fn put_label(out: &mut Vec<u8>, labels: &[String], index: usize) -> Result<(), Unfit> {
    match index.checked_sub(1) {
        // MySQL's invalid value.
        None => put_bytes(out, b""),
        Some(i) => match labels.get(i) {
            Some(label) => put_bytes(out, label.as_bytes()),
            None => return Err(Unfit::value(format!("label {index} of an ENUM of {} labels", labels.len()))),
        },
    }
    Ok(())
}

fn put_labels(out: &mut Vec<u8>, labels: &[String], mask: u64) -> Result<(), Unfit> {
    if labels.len() < 64 && mask >> labels.len() != 0 {
        return Err(Unfit::value(format!("members {mask:#x} of a SET of {} labels", labels.len())));
    }
    let chosen = || labels.iter().enumerate().filter(|(i, _)| mask & (1 << i) != 0);
    let length: usize = chosen().map(|(_, label)| label.len() + 1).sum();
    put_long(out, length.saturating_sub(1) as i64);
    for (n, (_, label)) in chosen().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        out.extend_from_slice(label.as_bytes());
    }
    Ok(())
}

/// Writes the value that stands where a column is not carried.
pub fn put_filler(out: &mut Vec<u8>, repr: &Repr) {
    match repr {
        Repr::Boolean
        | Repr::Int
        | Repr::Long
        | Repr::Date
        | Repr::TimeMicros
        | Repr::LocalTimestampMicros
        | Repr::TimestampMicros
        | Repr::Bytes
        | Repr::String
        | Repr::Uuid
        | Repr::Array(_) => out.push(0),
        Repr::Float => put_float(out, 0.0),
        Repr::Double => put_double(out, 0.0),
        Repr::Decimal { .. } => put_decimal_i128(out, 0),
    }
}

/// What the log must have for a column of this type; None: it has.
pub fn disagreement(native: &Native, physical: Physical) -> Option<String> {
    let found =
        |expected: &str| Some(format!("the log has type code {} (metadata {}), {expected} was expected", physical.code, physical.meta));
    let characters = |length: u32, charset: &str| u64::from(length) * u64::from(charset::bytes_per_character(charset));
    let is = |codes: &[u8]| codes.contains(&physical.code);
    let meta = u64::from(physical.meta);
    let agrees = match native {
        Native::Integer { bits, .. } => is(&[match bits {
            8 => code::TINY,
            16 => code::SHORT,
            24 => code::INT24,
            32 => code::LONG,
            _ => code::LONGLONG,
        }]),
        Native::Decimal { precision, scale, .. } => {
            is(&[code::NEWDECIMAL]) && physical.meta == u16::from(*precision) * 256 + u16::from(*scale)
        }
        Native::Float { .. } => is(&[code::FLOAT]),
        Native::Double { .. } => is(&[code::DOUBLE]),
        Native::Bit { length } => is(&[code::BIT]) && meta == u64::from(*length),
        Native::Year => is(&[code::YEAR]),
        Native::Date => is(&[code::DATE, code::NEWDATE]),
        Native::Time { precision } => temporal_agrees(physical, code::TIME2, code::TIME, *precision),
        Native::DateTime { precision } => temporal_agrees(physical, code::DATETIME2, code::DATETIME, *precision),
        Native::Timestamp { precision } => temporal_agrees(physical, code::TIMESTAMP2, code::TIMESTAMP, *precision),
        Native::Char { length, charset } => is(&[code::STRING]) && meta == characters(u32::from(*length), &charset.charset),
        Native::VarChar { length, charset, compressed } => {
            // A compressed column's head byte counts.
            let bytes = characters(*length, &charset.charset);
            if *compressed {
                is(&[code::VARCHAR_COMPRESSED]) && meta.abs_diff(bytes) <= 1
            } else {
                is(&[code::VARCHAR, code::VAR_STRING]) && meta == bytes
            }
        }
        Native::VarBinary { length, compressed } => {
            let bytes = u64::from(*length);
            if *compressed {
                is(&[code::VARCHAR_COMPRESSED]) && meta.abs_diff(bytes) <= 1
            } else {
                is(&[code::VARCHAR, code::VAR_STRING]) && meta == bytes
            }
        }
        Native::Text { size, compressed, .. } | Native::Blob { size, compressed } => {
            let code = if *compressed { code::BLOB_COMPRESSED } else { code::BLOB };
            is(&[code]) && meta == *size as u64 + 1
        }
        Native::Binary { length } => is(&[code::STRING]) && meta == u64::from(*length),
        Native::Enum { labels, .. } => is(&[code::ENUM]) && meta == if labels.len() > 255 { 2 } else { 1 },
        Native::Set { labels, .. } => is(&[code::SET]) && meta <= 8 && meta >= labels.len().div_ceil(8) as u64,
        Native::Json => is(&[code::JSON]),
        Native::Geometry { .. } => is(&[code::GEOMETRY]),
        Native::Uuid | Native::Inet6 => is(&[code::STRING]) && meta == 16,
        Native::Inet4 => is(&[code::STRING]) && meta == 4,
        Native::Vector { .. } => is(&[code::VECTOR, code::VARCHAR, code::VAR_STRING, code::STRING]),
    };
    if agrees { None } else { found(&native.to_string()) }
}

/// Before 5.6 (and under MariaDB's `mysql56_temporal_format=OFF`) fractions have no form of their own in the log.
fn temporal_agrees(physical: Physical, new: u8, old: u8, precision: u8) -> bool {
    (physical.code == new && physical.meta == u16::from(precision)) || (physical.code == old && precision == 0)
}

impl From<Malformed> for String {
    fn from(malformed: Malformed) -> Self {
        malformed.to_string()
    }
}
