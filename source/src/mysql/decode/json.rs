//! MySQL's binary JSON, printed as the server prints it.

use std::io::Write;

use super::{Malformed, cursor::little, decimal, number::double_text, temporal};

const WHAT: &str = "a JSON value";
/// The server refuses deeper documents.
const DEPTH: usize = 101;

/// Prints a JSON column's bytes. No bytes at all are JSON's null.
pub fn text(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Malformed> {
    match bytes.split_first() {
        None => {
            out.extend_from_slice(b"null");
            Ok(())
        }
        Some((kind, rest)) => Printer { out, left: rest.len() }.value(*kind, rest, 0),
    }
}

fn at(bytes: &[u8], from: usize, length: usize) -> Result<&[u8], Malformed> {
    let end = from.checked_add(length).ok_or(Malformed::Truncated(WHAT))?;
    bytes.get(from..end).ok_or(Malformed::Truncated(WHAT))
}

fn unknown(problem: String) -> Malformed {
    Malformed::Unreadable { what: WHAT, problem }
}

#[derive(Debug, Clone, Copy)]
struct Form {
    object: bool,
    /// Offsets of four bytes, not two.
    wide: bool,
}

struct Printer<'o> {
    out: &'o mut Vec<u8>,
    /// How many of the document's bytes are not read yet. Its parts lie beside each other: offsets that lead to one of them again
    /// could print without end.
    left: usize,
}

impl Printer<'_> {
    fn part<'b>(&mut self, bytes: &'b [u8], from: usize, length: usize) -> Result<&'b [u8], Malformed> {
        let part = at(bytes, from, length)?;
        self.left = self.left.checked_sub(length).ok_or_else(|| unknown("its parts overlap".into()))?;
        Ok(part)
    }

    fn value(&mut self, kind: u8, bytes: &[u8], depth: usize) -> Result<(), Malformed> {
        if depth > DEPTH {
            return Err(unknown(format!("nested deeper than {DEPTH} levels")));
        }
        let width = match kind {
            0 => return self.container(bytes, Form { object: true, wide: false }, depth),
            1 => return self.container(bytes, Form { object: true, wide: true }, depth),
            2 => return self.container(bytes, Form { object: false, wide: false }, depth),
            3 => return self.container(bytes, Form { object: false, wide: true }, depth),
            12 => {
                let text = self.counted(bytes)?;
                return self.quoted(text);
            }
            15 => return self.opaque(bytes),
            4 => 1,
            5 | 6 => 2,
            7 | 8 => 4,
            9..=11 => 8,
            other => return Err(unknown(format!("unknown type {other}"))),
        };
        let bytes = self.part(bytes, 0, width)?;
        self.scalar(kind, bytes)
    }

    /// A value of fixed width.
    fn scalar(&mut self, kind: u8, bytes: &[u8]) -> Result<(), Malformed> {
        match kind {
            4 => self.literal(at(bytes, 0, 1)?[0]),
            5 => self.print(format_args!("{}", little(at(bytes, 0, 2)?) as i16)),
            6 => self.print(format_args!("{}", little(at(bytes, 0, 2)?))),
            7 => self.print(format_args!("{}", little(at(bytes, 0, 4)?) as i32)),
            8 => self.print(format_args!("{}", little(at(bytes, 0, 4)?))),
            9 => self.print(format_args!("{}", little(at(bytes, 0, 8)?).cast_signed())),
            10 => self.print(format_args!("{}", little(at(bytes, 0, 8)?))),
            11 => self.double(f64::from_bits(little(at(bytes, 0, 8)?))),
            other => Err(unknown(format!("unknown type {other}"))),
        }
    }

    fn print(&mut self, text: std::fmt::Arguments<'_>) -> Result<(), Malformed> {
        self.out.write_fmt(text).map_err(|error| unknown(error.to_string()))
    }

    fn literal(&mut self, byte: u8) -> Result<(), Malformed> {
        self.out.extend_from_slice(match byte {
            0 => b"null",
            1 => b"true",
            2 => b"false",
            other => return Err(unknown(format!("unknown literal {other}"))),
        });
        Ok(())
    }

    /// A double in JSON always shows that it is one.
    fn double(&mut self, value: f64) -> Result<(), Malformed> {
        if !value.is_finite() {
            return Err(unknown(format!("{value} is not a number of JSON")));
        }
        let begin = self.out.len();
        double_text(self.out, value);
        if !self.out[begin..].iter().any(|b| matches!(b, b'.' | b'e')) {
            self.out.extend_from_slice(b".0");
        }
        Ok(())
    }

    fn container(&mut self, bytes: &[u8], form: Form, depth: usize) -> Result<(), Malformed> {
        let width = if form.wide { 4 } else { 2 };
        let count = little(at(bytes, 0, width)?) as usize;
        let keys = 2 * width;
        let key_entry = if form.object { width + 2 } else { 0 };
        let value_entry = width + 1;
        let overflow = || Malformed::Truncated(WHAT);
        let values = count.checked_mul(key_entry).and_then(|n| n.checked_add(keys)).ok_or_else(overflow)?;
        let end = count.checked_mul(value_entry).and_then(|n| n.checked_add(values)).ok_or_else(overflow)?;
        self.part(bytes, 0, end)?;
        self.out.push(if form.object { b'{' } else { b'[' });
        for i in 0..count {
            if i > 0 {
                self.out.extend_from_slice(b", ");
            }
            if form.object {
                let entry = at(bytes, keys + i * key_entry, key_entry)?;
                let (from, length) = (little(&entry[..width]) as usize, little(&entry[width..]) as usize);
                let key = self.part(bytes, from, length)?;
                self.quoted(key)?;
                self.out.extend_from_slice(b": ");
            }
            let entry = at(bytes, values + i * value_entry, value_entry)?;
            let (kind, place) = (entry[0], &entry[1..]);
            let inline = matches!(kind, 4..=6) || (form.wide && matches!(kind, 7 | 8));
            if inline {
                self.scalar(kind, place)?;
            } else {
                let from = little(place) as usize;
                self.value(kind, bytes.get(from..).ok_or_else(overflow)?, depth + 1)?;
            }
        }
        self.out.push(if form.object { b'}' } else { b']' });
        Ok(())
    }

    /// Bytes behind their length, which is in groups of seven bits, the lowest first.
    fn counted<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], Malformed> {
        let mut length = 0usize;
        for (i, byte) in bytes.iter().take(5).enumerate() {
            length |= usize::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                self.part(bytes, 0, i + 1)?;
                return self.part(bytes, i + 1, length);
            }
        }
        Err(Malformed::Truncated(WHAT))
    }

    fn quoted(&mut self, text: &[u8]) -> Result<(), Malformed> {
        if let Err(error) = std::str::from_utf8(text) {
            return Err(unknown(format!("a text is not UTF-8 at its byte {}", error.valid_up_to())));
        }
        self.out.push(b'"');
        for byte in text {
            match byte {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                8 => self.out.extend_from_slice(b"\\b"),
                9 => self.out.extend_from_slice(b"\\t"),
                10 => self.out.extend_from_slice(b"\\n"),
                12 => self.out.extend_from_slice(b"\\f"),
                13 => self.out.extend_from_slice(b"\\r"),
                0..0x20 => self.print(format_args!("\\u{byte:04x}"))?,
                other => self.out.push(*other),
            }
        }
        self.out.push(b'"');
        Ok(())
    }

    /// Values of SQL types inside JSON: decimals as numbers, times as strings, all else as base64.
    fn opaque(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        const DATE: u8 = 10;
        const TIME: u8 = 11;
        const DATETIME: u8 = 12;
        const TIMESTAMP: u8 = 7;
        const NEWDECIMAL: u8 = 246;
        let kind = self.part(bytes, 0, 1)?[0];
        let data = self.counted(&bytes[1..])?;
        match kind {
            NEWDECIMAL => {
                let (precision, scale) = (at(data, 0, 1)?[0], at(data, 1, 1)?[0]);
                decimal::packed_text(self.out, &data[2..], precision, scale)
            }
            DATE | TIME | DATETIME | TIMESTAMP => {
                let packed = little(at(data, 0, 8)?).cast_signed();
                self.out.push(b'"');
                match kind {
                    TIME => temporal::time_text(self.out, packed_time(packed), 6),
                    DATE => packed_datetime(packed).date_text(self.out),
                    _ => packed_datetime(packed).text(self.out, 6),
                }
                self.out.push(b'"');
                Ok(())
            }
            other => {
                self.print(format_args!("\"base64:type{other}:"))?;
                base64(self.out, data);
                self.out.push(b'"');
                Ok(())
            }
        }
    }
}

fn packed_time(packed: i64) -> i64 {
    let magnitude = packed.unsigned_abs();
    let (whole, micros) = (magnitude >> 24, magnitude & 0xff_ffff);
    let seconds = ((whole >> 12) & 0x3ff) * 3600 + ((whole >> 6) & 63) * 60 + (whole & 63);
    let micros = (seconds * 1_000_000 + micros).cast_signed();
    if packed < 0 { -micros } else { micros }
}

fn packed_datetime(packed: i64) -> temporal::DateTime {
    let magnitude = packed.unsigned_abs();
    let (whole, micros) = (magnitude >> 24, magnitude & 0xff_ffff);
    let (date, time) = (whole >> 17, whole & 0x1_ffff);
    let months = date >> 5;
    temporal::DateTime {
        year: (months / 13) as u32,
        month: (months % 13) as u32,
        day: (date & 31) as u32,
        hour: (time >> 12) as u32,
        minute: ((time >> 6) & 63) as u32,
        second: (time & 63) as u32,
        micros: micros as u32,
    }
}

fn base64(out: &mut Vec<u8>, data: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in data.chunks(3) {
        let group = chunk.iter().enumerate().fold(0u32, |group, (i, byte)| group | u32::from(*byte) << (16 - 8 * i));
        for i in 0..4 {
            let digit = DIGITS[(group >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= chunk.len() { digit } else { b'=' });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        text(&mut out, bytes).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nothing_is_null_and_a_cut_document_is_an_error() {
        assert_eq!(printed(b""), "null");
        assert_eq!(printed(&[12, 3, b'a', b'"', 1]), "\"a\\\"\\u0001\"");
        assert!(text(&mut Vec::new(), &[12, 5, b'a']).is_err());
        assert!(text(&mut Vec::new(), &[0, 255, 255, 1, 0]).is_err());
        assert!(text(&mut Vec::new(), &[14]).is_err());
    }

    fn refused(bytes: &[u8]) -> String {
        text(&mut Vec::new(), bytes).unwrap_err().to_string()
    }

    #[test]
    fn a_part_is_printed_once() {
        // An array of 40 arrays, each of them the same one: itself.
        let mut itself = vec![2, 40, 0, 124, 0];
        itself.extend([2, 0, 0].repeat(40));
        assert!(refused(&itself).contains("its parts overlap"), "{}", refused(&itself));
        // Two keys in one place.
        let twice = [0, 2, 0, 23, 0, 18, 0, 3, 0, 18, 0, 3, 0, 4, 0, 0, 4, 0, 0, b'k', b'e', b'y', b'.', b'.'];
        assert!(refused(&twice).contains("its parts overlap"), "{}", refused(&twice));
        let beside = [0, 2, 0, 20, 0, 18, 0, 1, 0, 19, 0, 1, 0, 4, 0, 0, 4, 1, 0, b'a', b'b'];
        assert_eq!(printed(&beside), r#"{"a": null, "b": true}"#);
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        assert!(refused(&[12, 2, b'a', 0xff]).contains("not UTF-8 at its byte 1"));
        let infinite = [&[11][..], &f64::INFINITY.to_le_bytes()].concat();
        assert!(refused(&infinite).contains("inf is not a number of JSON"));
        let wide = [&[15, 246, 122, 200, 0, 0x80][..], &[0; 119]].concat();
        assert!(refused(&wide).contains("200 digits, 0 behind the point"), "{}", refused(&wide));
        assert_eq!(printed(&[15, 246, 4, 4, 2, 0x81, 5]), "1.05");
    }

    #[test]
    fn base64_is_padded() {
        let mut out = Vec::new();
        for data in [&b"f"[..], b"fo", b"foo"] {
            base64(&mut out, data);
            out.push(b' ');
        }
        assert_eq!(out, b"Zg== Zm8= Zm9v ");
    }
}
