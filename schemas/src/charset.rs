//! Character sets of the MySQL family: bytes as text.
//!
//! What Unicode's own encodings and ASCII say is known here, and latin1. All others are tables that were read from the server itself:
//! no two lists of a character set of the same name agree in every character.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// How one character set's bytes become text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoder {
    Utf8,
    Ascii,
    /// UTF-16 without surrogates.
    Ucs2,
    Utf16 {
        big_endian: bool,
    },
    Utf32,
    Table(Arc<Table>),
}

/// The first byte that begins no character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invalid {
    pub at: usize,
}

/// A character set whose ASCII bytes begin characters of one byte only. A character is one to four bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    single: [Option<char>; 256],
    /// By both bytes, NUL where there is none; empty where the set has no characters of two bytes.
    pairs: Vec<char>,
    /// Characters of three and four bytes, sorted by these as a big-endian number.
    wide: Vec<(u32, char)>,
    /// The characters above U+FFFF are counted through from 0x90308130 on, as in gb18030.
    planes: bool,
}

/// The character sets that are known, by the server's names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Charsets {
    tables: BTreeMap<String, Arc<Table>>,
}

/// What latin1 has at 0x80 to 0x9f: cp1252, whose five open places are control characters.
const LATIN1: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}', '‘', '’', '“', '”', '•', '–',
    '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

fn latin1() -> Table {
    let single = |byte: u8| match byte {
        0x80..=0x9f => LATIN1[usize::from(byte - 0x80)],
        other => char::from(other),
    };
    Table::new((0..=u8::MAX).map(|byte| (vec![byte], single(byte))))
}

impl Charsets {
    /// Adds a set as the server maps it.
    pub fn add(&mut self, charset: &str, table: Table) {
        self.tables.insert(charset.to_owned(), Arc::new(table));
    }

    /// The decoder of a character set; None: it has no table here.
    pub fn decoder(&self, charset: &str) -> Option<Decoder> {
        Some(match charset {
            "utf8mb4" | "utf8mb3" | "utf8" => Decoder::Utf8,
            "ascii" => Decoder::Ascii,
            "ucs2" => Decoder::Ucs2,
            "utf16" => Decoder::Utf16 { big_endian: true },
            "utf16le" => Decoder::Utf16 { big_endian: false },
            "utf32" => Decoder::Utf32,
            other => match self.tables.get(other) {
                Some(table) => Decoder::Table(Arc::clone(table)),
                None if other == "latin1" => Decoder::Table(Arc::new(latin1())),
                None => return None,
            },
        })
    }

    /// Bytes of a character set as text. None: not valid there, or a set that has no table here.
    pub fn decode<'a>(&self, charset: &str, bytes: &'a [u8]) -> Option<Cow<'a, str>> {
        self.decoder(charset)?.decode(bytes).ok()
    }
}

impl Decoder {
    /// The bytes as text.
    ///
    /// # Errors
    /// The place of the first byte that begins no character.
    pub fn decode<'a>(&self, bytes: &'a [u8]) -> Result<Cow<'a, str>, Invalid> {
        match self {
            Decoder::Utf8 => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|error| Invalid { at: error.valid_up_to() }),
            Decoder::Ascii | Decoder::Ucs2 | Decoder::Utf16 { .. } | Decoder::Utf32 | Decoder::Table(_) => {
                let mut text = String::with_capacity(bytes.len());
                self.each(bytes, |c| text.push(c))?;
                Ok(Cow::Owned(text))
            }
        }
    }

    /// Calls `take` with each character.
    ///
    /// # Errors
    /// The place of the first byte that begins no character.
    #[inline]
    pub fn each(&self, bytes: &[u8], mut take: impl FnMut(char)) -> Result<(), Invalid> {
        let mut at = 0;
        while at < bytes.len() {
            let (c, length) = self.first(&bytes[at..]).ok_or(Invalid { at })?;
            take(c);
            at += length;
        }
        Ok(())
    }

    /// The first character and its bytes.
    #[inline]
    fn first(&self, bytes: &[u8]) -> Option<(char, usize)> {
        match self {
            Decoder::Utf8 => bytes.utf8_chunks().next()?.valid().chars().next().map(|c| (c, c.len_utf8())),
            Decoder::Ascii => bytes.first().filter(|byte| byte.is_ascii()).map(|byte| (char::from(*byte), 1)),
            Decoder::Ucs2 => char::from_u32(u16::from_be_bytes(*bytes.first_chunk()?).into()).map(|c| (c, 2)),
            Decoder::Utf16 { big_endian } => utf16(bytes, *big_endian),
            Decoder::Utf32 => char::from_u32(u32::from_be_bytes(*bytes.first_chunk()?)).map(|c| (c, 4)),
            Decoder::Table(table) => table.first(bytes),
        }
    }

    /// Whether the set has all characters of a text.
    pub fn has(&self, text: &str) -> bool {
        match self {
            Decoder::Utf8 | Decoder::Utf16 { .. } | Decoder::Utf32 => true,
            Decoder::Ascii => text.is_ascii(),
            Decoder::Ucs2 => text.chars().all(|c| c <= '\u{ffff}'),
            Decoder::Table(table) => text.chars().all(|c| !table.bytes_of(c).is_empty()),
        }
    }

    /// Text as the set's bytes. None: it has not all of these characters, or has one of them twice.
    pub fn encode(&self, text: &str) -> Option<Vec<u8>> {
        if !self.has(text) {
            return None;
        }
        Some(match self {
            Decoder::Utf8 | Decoder::Ascii => text.as_bytes().to_vec(),
            Decoder::Ucs2 | Decoder::Utf16 { big_endian: true } => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            Decoder::Utf16 { big_endian: false } => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Decoder::Utf32 => text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
            Decoder::Table(table) => {
                let mut bytes = Vec::with_capacity(text.len());
                for c in text.chars() {
                    let [only] = table.bytes_of(c).try_into().ok()?;
                    bytes.extend::<Vec<u8>>(only);
                }
                bytes
            }
        })
    }
}

fn utf16(bytes: &[u8], big_endian: bool) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let pair = *bytes.get(at..)?.first_chunk()?;
        Some(if big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) })
    };
    let first = unit(0)?;
    let second = if (0xd800..0xdc00).contains(&first) { Some(unit(2)?) } else { None };
    let c = char::decode_utf16([first].into_iter().chain(second)).next()?.ok()?;
    Some((c, c.len_utf16() * 2))
}

const PLANES: u32 = 0x1_0000;

/// The four bytes of gb18030 that stand for a character above U+FFFF, and back.
fn plane_bytes(c: char) -> Option<[u8; 4]> {
    let rest = u32::from(c).checked_sub(PLANES)?;
    Some([0x90 + (rest / 12_600) as u8, 0x30 + (rest / 1260 % 10) as u8, 0x81 + (rest / 10 % 126) as u8, 0x30 + (rest % 10) as u8])
}

fn plane_character([a, b, c, d]: [u8; 4]) -> Option<char> {
    let digit = |byte: u8, from: u8, count: u8| byte.checked_sub(from).filter(|n| *n < count).map(u32::from);
    let number = ((digit(a, 0x90, 0x54)? * 10 + digit(b, 0x30, 10)?) * 126 + digit(c, 0x81, 126)?) * 10 + digit(d, 0x30, 10)?;
    char::from_u32(PLANES + number)
}

impl Table {
    /// Of characters and the one to four bytes that each is. What is not among them is no character; no character of several bytes is
    /// NUL.
    pub fn new(characters: impl IntoIterator<Item = (Vec<u8>, char)>) -> Self {
        let mut table = Self { single: [None; 256], pairs: Vec::new(), wide: Vec::new(), planes: false };
        for (bytes, c) in characters {
            match bytes[..] {
                [byte] => table.single[usize::from(byte)] = Some(c),
                [lead, trail] => {
                    if table.pairs.is_empty() {
                        table.pairs = vec!['\0'; 1 << 16];
                    }
                    table.pairs[usize::from(u16::from_be_bytes([lead, trail]))] = c;
                }
                _ => table.wide.push((bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)), c)),
            }
        }
        table.wide.sort_unstable();
        table
    }

    /// The same, with the characters above U+FFFF where gb18030 has them.
    #[must_use]
    pub fn with_planes(self) -> Self {
        Self { planes: true, ..self }
    }

    /// The bytes that [`Table::with_planes`] takes for a character.
    pub fn plane_bytes(c: char) -> Option<[u8; 4]> {
        plane_bytes(c)
    }

    #[inline]
    fn first(&self, bytes: &[u8]) -> Option<(char, usize)> {
        if let Some(c) = self.single[usize::from(*bytes.first()?)] {
            return Some((c, 1));
        }
        let pair = usize::from(u16::from_be_bytes(*bytes.first_chunk()?));
        if let Some(c) = self.pairs.get(pair).filter(|c| **c != '\0') {
            return Some((*c, 2));
        }
        let [a, b, c] = *bytes.first_chunk()?;
        if let Some(c) = self.wide(u32::from_be_bytes([0, a, b, c])) {
            return Some((c, 3));
        }
        let four = *bytes.first_chunk()?;
        let wide = self.wide(u32::from_be_bytes(four));
        wide.or_else(|| plane_character(four).filter(|_| self.planes)).map(|c| (c, 4))
    }

    fn wide(&self, bytes: u32) -> Option<char> {
        self.wide.binary_search_by_key(&bytes, |(bytes, _)| *bytes).ok().map(|at| self.wide[at].1)
    }

    /// All that stands for a character. A search through the table: for literals, not for rows.
    fn bytes_of(&self, c: char) -> Vec<Vec<u8>> {
        let single = (0..=u8::MAX).filter(|byte| self.single[usize::from(*byte)] == Some(c)).map(|byte| vec![byte]);
        let pair = |(at, _): (usize, &char)| u16::try_from(at).ok().map(|pair| pair.to_be_bytes().to_vec());
        let pairs = self.pairs.iter().enumerate().filter(|(_, other)| c != '\0' && **other == c).filter_map(pair);
        let bytes = |number: u32| number.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
        let wide = self.wide.iter().filter(|(_, other)| *other == c).map(|(number, _)| bytes(*number));
        let plane = plane_bytes(c).filter(|_| self.planes).map(|bytes| bytes.to_vec());
        single.chain(pairs).chain(wide).chain(plane).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charsets() -> Charsets {
        let ascii = || (0..0x80).map(|byte| (vec![byte], char::from(byte)));
        let mut charsets = Charsets::default();
        let sjis = [(vec![0xb1], 'ｱ'), (vec![0x95, 0x5c], '表'), (vec![0x81, 0xbe], '∪'), (vec![0x87, 0x9b], '∪')];
        charsets.add("sjis", Table::new(ascii().chain(sjis)));
        let ujis = [(vec![0xc9, 0xbd], '表'), (vec![0x8f, 0xb0, 0xa1], '丂')];
        charsets.add("ujis", Table::new(ascii().chain(ujis)));
        let gb18030 = [(vec![0xc4, 0xe3], '你'), (vec![0x81, 0x30, 0x81, 0x30], '\u{80}')];
        charsets.add("gb18030", Table::new(ascii().chain(gb18030)).with_planes());
        charsets
    }

    #[test]
    fn text_becomes_characters_and_bytes_again() {
        for (charset, bytes, text) in [
            ("latin1", &b"caf\xe9 \x80\x81\x9d"[..], "café €\u{81}\u{9d}"),
            ("utf16", b"\x00a\xd8\x3d\xde\x00", "a😀"),
            ("utf16le", b"a\x00\x3d\xd8\x00\xde", "a😀"),
            ("utf32", b"\x00\x01\xf6\x00", "😀"),
            ("ucs2", b"\x4f\x60\xff\xff", "你\u{ffff}"),
            ("utf8mb4", "a😀".as_bytes(), "a😀"),
            ("sjis", b"a\xb1\x95\x5cb", "aｱ表b"),
            ("ujis", b"\xc9\xbd\x8f\xb0\xa1-", "表丂-"),
            ("gb18030", b"\xc4\xe3\x81\x30\x81\x30\x90\x30\x81\x30\xe3\x32\x9a\x35", "你\u{80}\u{10000}\u{10ffff}"),
        ] {
            let decoder = charsets().decoder(charset).unwrap();
            assert_eq!(decoder.decode(bytes).as_deref(), Ok(text), "{charset}");
            assert_eq!(decoder.encode(text).as_deref(), Some(bytes), "{charset}");
        }
    }

    #[test]
    fn bytes_that_are_no_character_are_named_by_their_place() {
        for (charset, bytes, at) in [
            ("utf8mb4", &b"a\xff"[..], 1),
            ("utf8mb3", b"ab\xed\xa0\x80", 2),
            ("ascii", b"a\xe9", 1),
            ("utf16", b"\x00a\xd8\x3d", 2),
            ("utf16", b"\xde\x00\x00a", 0),
            ("ucs2", b"\x00a\xd8\x3d\xde\x00", 2),
            ("ucs2", b"\x00aa", 2),
            ("utf32", b"\x00\x00\x00a\x00\x11\x00\x00", 4),
            ("sjis", b"a\x95", 1),
            ("sjis", b"\x95\x5d", 0),
            ("ujis", b"\x8f\xb0", 0),
            ("gb18030", b"a\xe3\x32\x9a\x36", 1),
            ("gb18030", b"\x8f\x30\x81\x30", 0),
        ] {
            assert_eq!(charsets().decoder(charset).unwrap().decode(bytes), Err(Invalid { at }), "{charset}");
        }
    }

    #[test]
    fn a_set_has_its_own_characters_alone_and_is_never_guessed() {
        let sjis = charsets().decoder("sjis").unwrap();
        assert!(sjis.has("a表∪") && !sjis.has("丂"));
        assert_eq!(sjis.encode("∪"), None, "which of the two bytes the server takes is not known");
        assert_eq!(charsets().decoder("swe7"), None);
        assert!(!charsets().decoder("ucs2").unwrap().has("😀"));
    }
}
