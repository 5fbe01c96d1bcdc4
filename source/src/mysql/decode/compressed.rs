//! MariaDB's compressed columns and events.

use std::io::Read;

use flate2::read::{DeflateDecoder, ZlibDecoder};

use super::{Malformed, cursor::big};

/// The longest event that a server writes: what its `max_allowed_packet` can be at most.
pub const LARGEST: usize = 1 << 30;

fn inflate(mut reader: impl Read, length: usize, out: &mut Vec<u8>, what: &'static str) -> Result<(), Malformed> {
    out.clear();
    let problem = |problem: String| Malformed::Unreadable { what, problem };
    reader.by_ref().take(length as u64 + 1).read_to_end(out).map_err(|error| problem(format!("cannot be inflated: {error}")))?;
    if out.len() == length { Ok(()) } else { Err(problem(format!("{length} bytes expected, {} inflated", out.len()))) }
}

/// The value of a COMPRESSED column; `scratch` holds it where it had to be inflated.
pub fn column<'a>(stored: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8], Malformed> {
    const WHAT: &str = "a compressed column";
    let Some((head, rest)) = stored.split_first() else { return Ok(stored) };
    if *head == 0 {
        return Ok(rest);
    }
    let (algorithm, raw, length_bytes) = (head >> 4, head & 8 != 0, usize::from(head & 7));
    if algorithm != 8 || length_bytes > 4 || rest.len() < length_bytes {
        return Err(Malformed::Unreadable { what: WHAT, problem: format!("unknown head 0x{head:02x}") });
    }
    let (length, stream) = rest.split_at(length_bytes);
    let length = big(length) as usize;
    if raw {
        inflate(DeflateDecoder::new(stream), length, scratch, WHAT)?;
    } else {
        inflate(ZlibDecoder::new(stream), length, scratch, WHAT)?;
    }
    Ok(scratch)
}

/// The compressed part of an event: a head byte, the big-endian length, a zlib stream.
pub fn event_part(part: &[u8]) -> Result<Vec<u8>, Malformed> {
    const WHAT: &str = "a compressed event";
    let (head, rest) = part.split_first().ok_or(Malformed::Truncated(WHAT))?;
    let length_bytes = usize::from(head & 7);
    if head & 0x80 == 0 || (head >> 4) & 7 != 0 || length_bytes > 4 || rest.len() < length_bytes {
        return Err(Malformed::Unreadable { what: WHAT, problem: format!("unknown head 0x{head:02x}") });
    }
    let (length, stream) = rest.split_at(length_bytes);
    let length = big(length) as usize;
    if length > LARGEST {
        return Err(Malformed::Unreadable { what: WHAT, problem: format!("{length} bytes inflated, a server writes {LARGEST} at most") });
    }
    let mut out = Vec::new();
    inflate(ZlibDecoder::new(stream), length, &mut out, WHAT)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn columns_are_inflated_to_their_stated_length_or_refused() {
        let text = b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        let mut scratch = Vec::new();
        let stored = [&[0x81, 32][..], &zlib(text)].concat();
        assert_eq!(column(&stored, &mut scratch).unwrap(), text);
        assert_eq!(column(b"\0short", &mut scratch).unwrap(), b"short");
        assert_eq!(column(b"", &mut scratch).unwrap(), b"");
        let longer = [&[0x81, 31][..], &zlib(text)].concat();
        assert!(column(&longer, &mut scratch).unwrap_err().to_string().contains("31 bytes expected"));
        assert!(column(b"\x11a", &mut scratch).unwrap_err().to_string().contains("unknown head 0x11"));
    }

    #[test]
    fn a_corrupt_event_is_an_error_and_never_empty() {
        let good = [&[0x81, 3][..], &zlib(b"abc")].concat();
        assert_eq!(event_part(&good).unwrap(), b"abc");
        assert!(event_part(&good[..good.len() - 6]).is_err());
        assert!(event_part(&[0x91, 3]).is_err());
        // What is said to be larger than any event is not even begun.
        let large = [&[0x84, 0x40, 0, 0, 1][..], &zlib(b"abc")].concat();
        assert!(event_part(&large).unwrap_err().to_string().contains("1073741825 bytes inflated"));
    }
}
