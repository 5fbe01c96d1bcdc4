//! MariaDB's UUID and INET types: the text of their stored bytes.

use std::{io::Write, net::Ipv4Addr, ops::Range};

/// Bytes of a stored UUID. Versions 1 to 5 are kept with their segments in reverse order, so that version 1 sorts by time.
fn uuid_bytes(stored: [u8; 16]) -> [u8; 16] {
    // In the reversed form the variant's byte is at 6 and the version's at 8.
    let reversed = stored[6] & 0x80 != 0 && (stored[8] >> 4) > 0 && (stored[8] >> 4) < 6;
    if !reversed {
        return stored;
    }
    let mut bytes = [0; 16];
    bytes[10..16].copy_from_slice(&stored[0..6]);
    bytes[8..10].copy_from_slice(&stored[6..8]);
    bytes[6..8].copy_from_slice(&stored[8..10]);
    bytes[4..6].copy_from_slice(&stored[10..12]);
    bytes[0..4].copy_from_slice(&stored[12..16]);
    bytes
}

/// A stored UUID's text, lower case with dashes.
pub fn uuid_text(out: &mut Vec<u8>, stored: [u8; 16]) {
    for (i, byte) in uuid_bytes(stored).iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        let _ = write!(out, "{byte:02x}");
    }
}

pub fn inet4_text(out: &mut Vec<u8>, bytes: [u8; 4]) {
    let _ = write!(out, "{}", Ipv4Addr::from(bytes));
}

/// As MariaDB prints it: the first of the longest runs of zeros is left out, even a single one, and IPv4-compatible and -mapped
/// addresses end in dotted form.
pub fn inet6_text(out: &mut Vec<u8>, bytes: [u8; 16]) {
    let mut words = [0u16; 8];
    for (word, pair) in words.iter_mut().zip(bytes.chunks_exact(2)) {
        *word = u16::from_be_bytes([pair[0], pair[1]]);
    }
    let gap = longest_zeros(&words);
    let dotted = gap.start == 0 && (gap.len() == 6 || (gap.len() == 5 && words[5] == 0xffff));
    let mut i = 0;
    while i < 8 {
        if i == gap.start && !gap.is_empty() {
            out.extend_from_slice(if i == 0 { b"::" } else { b":" });
            i = gap.end;
        } else if i == 6 && dotted {
            return inet4_text(out, [bytes[12], bytes[13], bytes[14], bytes[15]]);
        } else {
            let _ = write!(out, "{:x}", words[i]);
            if i < 7 {
                out.push(b':');
            }
            i += 1;
        }
    }
}

fn longest_zeros(words: &[u16; 8]) -> Range<usize> {
    let mut longest = 8..8;
    let mut begin = 0;
    for end in 1..=8 {
        if words[end - 1] != 0 {
            begin = end;
        } else if end - begin > longest.len() {
            longest = begin..end;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn addresses_are_printed_as_the_server_does() {
        for (text, printed) in [
            ("::", "::"),
            ("::1", "::1"),
            ("1::", "1::"),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
            ("::192.0.2.1", "::192.0.2.1"),
            ("2001:db8:0:1:1:1:1:1", "2001:db8::1:1:1:1:1"),
            ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
            ("1:0:0:2:3:0:0:4", "1::2:3:0:0:4"),
        ] {
            let mut out = Vec::new();
            inet6_text(&mut out, text.parse::<Ipv6Addr>().unwrap().octets());
            assert_eq!(String::from_utf8(out).unwrap(), printed);
        }
    }

    #[test]
    fn uuids_are_turned_back_by_version() {
        let mut out = Vec::new();
        // A version 1 value as the server keeps it: the node first, the low bits of the time last.
        uuid_text(&mut out, *b"\x42\x66\x55\x44\x00\x00\xa4\x56\x12\xd3\xe8\x9b\x12\x3e\x45\x67");
        assert_eq!(String::from_utf8(out).unwrap(), "123e4567-e89b-12d3-a456-426655440000");
    }
}
