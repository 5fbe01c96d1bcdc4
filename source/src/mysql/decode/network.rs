//! MariaDB's UUID: the text of its stored bytes.

use std::io::Write;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_turned_back_by_version() {
        let mut out = Vec::new();
        // A version 1 value as the server keeps it: the node first, the low bits of the time last.
        uuid_text(&mut out, *b"\x42\x66\x55\x44\x00\x00\xa4\x56\x12\xd3\xe8\x9b\x12\x3e\x45\x67");
        assert_eq!(String::from_utf8(out).unwrap(), "123e4567-e89b-12d3-a456-426655440000");
    }
}
