//! Network addresses as MariaDB prints them.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
    ops::Range,
};

/// An INET6 value: the first of the longest runs of zeros is left out, even a single one, and IPv4-compatible and -mapped addresses
/// end in dotted form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inet6(pub Ipv6Addr);

impl fmt::Display for Inet6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.0.segments();
        let gap = longest_zeros(&words);
        let dotted = gap.start == 0 && (gap.len() == 6 || (gap.len() == 5 && words[5] == 0xffff));
        let mut i = 0;
        while i < 8 {
            if i == gap.start && !gap.is_empty() {
                f.write_str(if i == 0 { "::" } else { ":" })?;
                i = gap.end;
            } else if i == 6 && dotted {
                let [.., a, b, c, d] = self.0.octets();
                return write!(f, "{}", Ipv4Addr::new(a, b, c, d));
            } else {
                write!(f, "{:x}{}", words[i], if i < 7 { ":" } else { "" })?;
                i += 1;
            }
        }
        Ok(())
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
            assert_eq!(Inet6(text.parse().unwrap()).to_string(), printed);
        }
    }
}
