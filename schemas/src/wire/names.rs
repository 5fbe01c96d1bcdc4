//! Names that Avro, Kafka and the registry accept, made reversibly from any name.
//!
//! A character that is not allowed becomes `_xHEX_` (its code point); an underscore that would read as such an escape
//! is escaped itself. So different names stay different, and ordinary names stay as they are.

use std::fmt::Write;

use crate::table::TableId;

/// Length that Kafka allows for a topic's name.
pub const TOPIC_LENGTH: usize = 249;

/// What stands for an empty name, which neither Avro nor Kafka has. No escape yields it.
const EMPTY: &str = "_x_";

/// An Avro name for `name`: letters, digits and underscores, not beginning with a digit.
pub fn avro(name: &str) -> String {
    if name.is_empty() {
        return EMPTY.into();
    }
    escape(name, |i, c| c.is_ascii_alphabetic() || c == '_' || (i > 0 && c.is_ascii_digit()))
}

/// The name that [`avro`] or a topic's segment was made of.
pub fn unescape(escaped: &str) -> String {
    if escaped == EMPTY {
        return String::new();
    }
    let mut out = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(c) = rest.chars().next() {
        if let Some((original, length)) = escape_at(rest) {
            out.push(original);
            rest = &rest[length..];
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// `<prefix>.<database or schema>.<table>`.
pub fn topic(prefix: &str, table: &TableId) -> String {
    format!("{prefix}.{}.{}", segment(&table.namespace), segment(&table.name))
}

/// The Avro namespace of a topic's records.
pub fn namespace(topic: &str) -> String {
    topic.split('.').map(avro).collect::<Vec<_>>().join(".")
}

fn segment(name: &str) -> String {
    if name.is_empty() {
        return EMPTY.into();
    }
    escape(name, |_, c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

fn escape(name: &str, allowed: impl Fn(usize, char) -> bool) -> String {
    let mut out = String::with_capacity(name.len());
    for (i, c) in name.char_indices() {
        if allowed(i, c) && !(c == '_' && reads_as_escape(name, i, &allowed)) {
            out.push(c);
        } else {
            let _ = write!(out, "_x{:x}_", u32::from(c));
        }
    }
    out
}

/// Whether the underscore at `at` would be read as the begin of an escape: `_x`, hexadecimal digits, and behind them an
/// underscore, its own or that of the next character's escape.
fn reads_as_escape(name: &str, at: usize, allowed: impl Fn(usize, char) -> bool) -> bool {
    let Some(digits) = name[at..].strip_prefix("_x") else { return false };
    let end = digits.find(|c| !is_digit(c)).unwrap_or(digits.len());
    digits[end..].chars().next().is_some_and(|next| next == '_' || !allowed(at + 2 + end, next))
}

fn is_digit(c: char) -> bool {
    matches!(c, '0'..='9' | 'a'..='f')
}

/// The escape that `text` begins with, and its length.
fn escape_at(text: &str) -> Option<(char, usize)> {
    let digits = text.strip_prefix("_x")?;
    let end = digits.find('_')?;
    let hex = &digits[..end];
    if hex.is_empty() || hex.len() > 6 || !hex.chars().all(is_digit) {
        return None;
    }
    let original = char::from_u32(u32::from_str_radix(hex, 16).ok()?)?;
    Some((original, end + 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_stay() {
        assert_eq!(avro("order_id"), "order_id");
        assert_eq!(topic("shop", &TableId::new("shop", "order-lines")), "shop.shop.order-lines");
    }

    #[test]
    fn every_name_comes_back() {
        for name in ["order id", "1st", "é", "a.b", "_x41_", "_x5f_x41_", "__x41__", "naïve_xe9_", "", "_", "x_x_", "漢😀"] {
            assert_eq!(unescape(&avro(name)), name, "{name}");
        }
    }

    #[test]
    fn an_escape_completes_no_other() {
        for name in ["_x4é", "_x", "_x_", "_x4", "a_x4\u{1F642}_", "__x", "_x_x_", "_xd800_", "_x1234567_"] {
            assert_eq!(unescape(&avro(name)), name, "{name}");
        }
        assert_eq!(avro("pos_x"), "pos_x");
        assert_ne!(avro(""), avro("_x_"));
    }

    #[test]
    fn dots_keep_tables_apart() {
        assert_ne!(topic("p", &TableId::new("a.b", "c")), topic("p", &TableId::new("a", "b.c")));
    }
}
