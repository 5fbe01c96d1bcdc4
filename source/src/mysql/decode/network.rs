//! MariaDB's UUID and INET types: the text of their stored bytes.

use std::{
    io::Write,
    net::{Ipv4Addr, Ipv6Addr},
};

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

/// As MariaDB prints it: IPv4-compatible and -mapped addresses end in dotted form.
pub fn inet6_text(out: &mut Vec<u8>, bytes: [u8; 16]) {
    let address = Ipv6Addr::from(bytes);
    let compatible = bytes[..12] == [0; 12] && (bytes[12] != 0 || bytes[13] != 0);
    let _ = if compatible { write!(out, "::{}.{}.{}.{}", bytes[12], bytes[13], bytes[14], bytes[15]) } else { write!(out, "{address}") };
}
