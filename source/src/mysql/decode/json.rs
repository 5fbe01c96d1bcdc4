//! MySQL's binary JSON, printed as the server prints it.

use std::{borrow::Cow, io::Write};

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
        Some((kind, rest)) => value(out, *kind, rest, 0, &mut Left(rest.len())),
    }
}

/// How many of a document's bytes are not read yet. Its parts lie beside each other: offsets that lead to one of them again could print
/// without end.
struct Left(usize);

impl Left {
    fn take(&mut self, length: usize) -> Result<(), Malformed> {
        self.0 = self.0.checked_sub(length).ok_or_else(|| unknown("its parts overlap".into()))?;
        Ok(())
    }
}

fn at(bytes: &[u8], from: usize, length: usize) -> Result<&[u8], Malformed> {
    let end = from.checked_add(length).ok_or(Malformed::Truncated(WHAT))?;
    bytes.get(from..end).ok_or(Malformed::Truncated(WHAT))
}

fn unknown(problem: String) -> Malformed {
    Malformed::Unreadable { what: WHAT, problem }
}

fn deeper(depth: usize) -> Result<usize, Malformed> {
    if depth > DEPTH {
        return Err(unknown(format!("nested deeper than {DEPTH} levels")));
    }
    Ok(depth + 1)
}

fn value(out: &mut Vec<u8>, kind: u8, bytes: &[u8], depth: usize, left: &mut Left) -> Result<(), Malformed> {
    let depth = deeper(depth)?;
    if let Some(form) = Form::of(kind) {
        return container(out, bytes, form, depth, left);
    }
    left.take(extent(kind, bytes)?)?;
    scalar(out, kind, bytes)
}

/// How many bytes a value takes that is no container.
fn extent(kind: u8, bytes: &[u8]) -> Result<usize, Malformed> {
    let counted = |bytes| variable_length(bytes).map(|(length, used)| used.saturating_add(length));
    match kind {
        4 => Ok(1),
        5 | 6 => Ok(2),
        7 | 8 => Ok(4),
        9..=11 => Ok(8),
        12 => counted(bytes),
        15 => counted(bytes.get(1..).unwrap_or_default()).map(|length| length.saturating_add(1)),
        other => Err(unknown(format!("unknown type {other}"))),
    }
}

/// Prints a value that is no container.
fn scalar(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) -> Result<(), Malformed> {
    match kind {
        4 => literal(out, at(bytes, 0, 1)?[0]),
        5 => print(out, format_args!("{}", little(at(bytes, 0, 2)?) as i16)),
        6 => print(out, format_args!("{}", little(at(bytes, 0, 2)?))),
        7 => print(out, format_args!("{}", little(at(bytes, 0, 4)?) as i32)),
        8 => print(out, format_args!("{}", little(at(bytes, 0, 4)?))),
        9 => print(out, format_args!("{}", little(at(bytes, 0, 8)?).cast_signed())),
        10 => print(out, format_args!("{}", little(at(bytes, 0, 8)?))),
        11 => double(out, f64::from_bits(little(at(bytes, 0, 8)?))),
        12 => {
            let (length, used) = variable_length(bytes)?;
            quoted(out, at(bytes, used, length)?)
        }
        15 => opaque(out, bytes),
        other => Err(unknown(format!("unknown type {other}"))),
    }
}

fn print(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) -> Result<(), Malformed> {
    out.write_fmt(text).map_err(|error| unknown(error.to_string()))
}

fn literal(out: &mut Vec<u8>, byte: u8) -> Result<(), Malformed> {
    out.extend_from_slice(match byte {
        0 => b"null",
        1 => b"true",
        2 => b"false",
        other => return Err(unknown(format!("unknown literal {other}"))),
    });
    Ok(())
}

/// A double in JSON always shows that it is one.
fn double(out: &mut Vec<u8>, value: f64) -> Result<(), Malformed> {
    if !value.is_finite() {
        return Err(unknown(format!("{value} is not a number of JSON")));
    }
    let begin = out.len();
    double_text(out, value);
    if !out[begin..].iter().any(|b| matches!(b, b'.' | b'e')) {
        out.extend_from_slice(b".0");
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
struct Form {
    object: bool,
    /// Offsets of four bytes, not two.
    wide: bool,
}

/// A document taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node<'b> {
    /// Members in the server's order.
    Object(Vec<(Cow<'b, [u8]>, Node<'b>)>),
    Array(Vec<Node<'b>>),
    /// Type of what is neither, and the bytes from it on.
    Scalar(u8, &'b [u8]),
}

/// Takes a JSON column's bytes apart.
pub(super) fn tree(bytes: &[u8]) -> Result<Node<'_>, Malformed> {
    match bytes.split_first() {
        None => Ok(Node::Scalar(4, &[0])),
        Some((kind, rest)) => node(*kind, rest, 0, &mut Left(rest.len())),
    }
}

fn node<'b>(kind: u8, bytes: &'b [u8], depth: usize, left: &mut Left) -> Result<Node<'b>, Malformed> {
    let depth = deeper(depth)?;
    let Some(form) = Form::of(kind) else {
        left.take(extent(kind, bytes)?)?;
        return Ok(Node::Scalar(kind, bytes));
    };
    let (mut members, mut cells) = (Vec::new(), Vec::new());
    entries(bytes, form, left, |key, kind, bytes, left| {
        let value = node(kind, bytes, depth, left)?;
        match key {
            Some(key) => members.push((Cow::Borrowed(key), value)),
            None => cells.push(value),
        }
        Ok(())
    })?;
    Ok(if form.object { Node::Object(members) } else { Node::Array(cells) })
}

/// Prints a document that was taken apart.
pub(super) fn print_tree(out: &mut Vec<u8>, node: &Node<'_>) -> Result<(), Malformed> {
    match node {
        Node::Scalar(kind, bytes) => scalar(out, *kind, bytes)?,
        Node::Object(members) => {
            out.push(b'{');
            for (i, (key, member)) in members.iter().enumerate() {
                out.extend_from_slice(if i > 0 { b", " } else { b"" });
                quoted(out, key)?;
                out.extend_from_slice(b": ");
                print_tree(out, member)?;
            }
            out.push(b'}');
        }
        Node::Array(cells) => {
            out.push(b'[');
            for (i, cell) in cells.iter().enumerate() {
                out.extend_from_slice(if i > 0 { b", " } else { b"" });
                print_tree(out, cell)?;
            }
            out.push(b']');
        }
    }
    Ok(())
}

impl Form {
    /// Of a type; None: it is no container.
    fn of(kind: u8) -> Option<Self> {
        (kind < 4).then_some(Self { object: kind < 2, wide: kind % 2 == 1 })
    }
}

/// Gives each entry of a container: its key in an object, its type and bytes, and what is left of the document for its value.
fn entries<'b>(
    bytes: &'b [u8],
    form: Form,
    left: &mut Left,
    mut entry: impl FnMut(Option<&'b [u8]>, u8, &'b [u8], &mut Left) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let width = if form.wide { 4 } else { 2 };
    let count = little(at(bytes, 0, width)?) as usize;
    let keys = 2 * width;
    let key_entry = if form.object { width + 2 } else { 0 };
    let overflow = || Malformed::Truncated(WHAT);
    let values = count.checked_mul(key_entry).and_then(|n| n.checked_add(keys)).ok_or_else(overflow)?;
    let value_entry = width + 1;
    let end = count.checked_mul(value_entry).and_then(|n| n.checked_add(values)).ok_or_else(overflow)?;
    at(bytes, 0, end)?;
    left.take(values)?;
    for i in 0..count {
        let key = if form.object {
            let entry = at(bytes, keys + i * key_entry, key_entry)?;
            let (from, length) = (little(&entry[..width]) as usize, little(&entry[width..]) as usize);
            left.take(length)?;
            Some(at(bytes, from, length)?)
        } else {
            None
        };
        let found = at(bytes, values + i * value_entry, value_entry)?;
        let (kind, place) = (found[0], &found[1..]);
        let inline = matches!(kind, 4..=6) || (form.wide && matches!(kind, 7 | 8));
        let value = if inline { place } else { bytes.get(little(place) as usize..).ok_or_else(overflow)? };
        // A value that stands in its entry is taken by who reads it.
        left.take(if inline { value_entry - extent(kind, place)? } else { value_entry })?;
        entry(key, kind, value, left)?;
    }
    Ok(())
}

fn container(out: &mut Vec<u8>, bytes: &[u8], form: Form, depth: usize, left: &mut Left) -> Result<(), Malformed> {
    out.push(if form.object { b'{' } else { b'[' });
    let mut first = true;
    entries(bytes, form, left, |key, kind, bytes, left| {
        if !std::mem::take(&mut first) {
            out.extend_from_slice(b", ");
        }
        if let Some(key) = key {
            quoted(out, key)?;
            out.extend_from_slice(b": ");
        }
        value(out, kind, bytes, depth, left)
    })?;
    out.push(if form.object { b'}' } else { b']' });
    Ok(())
}

/// A length in groups of seven bits, the lowest first, and the bytes it took.
fn variable_length(bytes: &[u8]) -> Result<(usize, usize), Malformed> {
    let mut length = 0usize;
    for (i, byte) in bytes.iter().take(5).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Ok((length, i + 1));
        }
    }
    Err(Malformed::Truncated(WHAT))
}

fn quoted(out: &mut Vec<u8>, text: &[u8]) -> Result<(), Malformed> {
    if let Err(error) = std::str::from_utf8(text) {
        return Err(unknown(format!("a text is not UTF-8 at its byte {}", error.valid_up_to())));
    }
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            8 => out.extend_from_slice(b"\\b"),
            9 => out.extend_from_slice(b"\\t"),
            10 => out.extend_from_slice(b"\\n"),
            12 => out.extend_from_slice(b"\\f"),
            13 => out.extend_from_slice(b"\\r"),
            0..0x20 => print(out, format_args!("\\u{byte:04x}"))?,
            other => out.push(*other),
        }
    }
    out.push(b'"');
    Ok(())
}

/// Values of SQL types inside JSON: decimals as numbers, times as strings, all else as base64.
fn opaque(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Malformed> {
    const DATE: u8 = 10;
    const TIME: u8 = 11;
    const DATETIME: u8 = 12;
    const TIMESTAMP: u8 = 7;
    const NEWDECIMAL: u8 = 246;
    let kind = at(bytes, 0, 1)?[0];
    let (length, used) = variable_length(&bytes[1..])?;
    let data = at(bytes, 1 + used, length)?;
    match kind {
        NEWDECIMAL => {
            let (precision, scale) = (at(data, 0, 1)?[0], at(data, 1, 1)?[0]);
            decimal::packed_text(out, &data[2..], precision, scale)
        }
        DATE | TIME | DATETIME | TIMESTAMP => {
            let packed = little(at(data, 0, 8)?).cast_signed();
            out.push(b'"');
            match kind {
                TIME => temporal::time_text(out, packed_time(packed), 6),
                DATE => packed_datetime(packed).date_text(out),
                _ => packed_datetime(packed).text(out, 6),
            }
            out.push(b'"');
            Ok(())
        }
        other => {
            print(out, format_args!("\"base64:type{other}:"))?;
            base64(out, data);
            out.push(b'"');
            Ok(())
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
