//! Text in the server's character sets, to UTF-8.

use std::{collections::BTreeMap, sync::Arc};

use encoding_rs::Encoding;
use schemas::wire::codec::{put_bytes, put_long};

use super::Unfit;

/// How one character set's bytes become UTF-8.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoder {
    Utf8,
    Ascii,
    /// Single bytes, as the server itself maps them.
    Table(Arc<[Option<char>; 256]>),
    Utf16 {
        big_endian: bool,
    },
    Utf32,
    Encoding(&'static Encoding),
}

/// The decoders that are known, by character set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Charsets {
    tables: BTreeMap<String, Arc<[Option<char>; 256]>>,
}

impl Charsets {
    /// Adds a single-byte set as the server maps it.
    pub fn add_table(&mut self, charset: &str, table: [Option<char>; 256]) {
        self.tables.insert(charset.to_owned(), Arc::new(table));
    }

    /// The decoder of a character set; None: it cannot be read exactly.
    pub fn decoder(&self, charset: &str) -> Option<Decoder> {
        Some(match charset {
            "utf8mb4" | "utf8mb3" | "utf8" => Decoder::Utf8,
            "ascii" => Decoder::Ascii,
            "ucs2" | "utf16" => Decoder::Utf16 { big_endian: true },
            "utf16le" => Decoder::Utf16 { big_endian: false },
            "utf32" => Decoder::Utf32,
            "gbk" | "gb2312" => Decoder::Encoding(encoding_rs::GBK),
            "gb18030" => Decoder::Encoding(encoding_rs::GB18030),
            "big5" => Decoder::Encoding(encoding_rs::BIG5),
            "sjis" | "cp932" => Decoder::Encoding(encoding_rs::SHIFT_JIS),
            "euckr" => Decoder::Encoding(encoding_rs::EUC_KR),
            "ujis" | "eucjpms" => Decoder::Encoding(encoding_rs::EUC_JP),
            other => match self.tables.get(other) {
                Some(table) => Decoder::Table(Arc::clone(table)),
                // The five bytes that cp1252 leaves open are C1 controls in MySQL's latin1, as in the Encoding Standard.
                None if other == "latin1" => Decoder::Encoding(encoding_rs::WINDOWS_1252),
                None => return None,
            },
        })
    }
}

impl Decoder {
    /// The bytes as an Avro string.
    #[inline]
    pub fn put(&self, out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Unfit> {
        match self {
            Decoder::Utf8 => match std::str::from_utf8(bytes) {
                Ok(text) => put_bytes(out, text.as_bytes()),
                Err(error) => return Err(invalid(bytes, error.valid_up_to(), "UTF-8")),
            },
            Decoder::Ascii => match bytes.iter().position(|b| !b.is_ascii()) {
                None => put_bytes(out, bytes),
                Some(at) => return Err(invalid(bytes, at, "ASCII")),
            },
            Decoder::Table(table) => return put_table(out, table, bytes),
            Decoder::Utf16 { big_endian } => put_chars(out, utf16(bytes, *big_endian), bytes)?,
            Decoder::Utf32 => put_chars(out, utf32(bytes), bytes)?,
            Decoder::Encoding(encoding) => match encoding.decode_without_bom_handling_and_without_replacement(bytes) {
                Some(text) => put_bytes(out, text.as_bytes()),
                None => return Err(invalid(bytes, 0, encoding.name())),
            },
        }
        Ok(())
    }

    /// The bytes as text, outside the row path.
    pub fn text(&self, bytes: &[u8]) -> Result<String, Unfit> {
        let mut avro = Vec::new();
        self.put(&mut avro, bytes)?;
        schemas::wire::codec::Reader::new(&avro)
            .string()
            .map(str::to_owned)
            .map_err(|error| Unfit::value(format!("text of {} bytes: {error}", bytes.len())))
    }
}

fn invalid(bytes: &[u8], at: usize, charset: &str) -> Unfit {
    let byte = bytes.get(at).copied().unwrap_or_default();
    Unfit::value(format!("its bytes are not {charset} (0x{byte:02x} at byte {at}); correct the row on the source"))
}

fn put_table(out: &mut Vec<u8>, table: &[Option<char>; 256], bytes: &[u8]) -> Result<(), Unfit> {
    let mut length = 0;
    for (at, byte) in bytes.iter().enumerate() {
        length += table[usize::from(*byte)].ok_or_else(|| invalid(bytes, at, "in its character set"))?.len_utf8();
    }
    put_long(out, length as i64);
    for c in bytes.iter().filter_map(|byte| table[usize::from(*byte)]) {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(())
}

fn utf16(bytes: &[u8], big_endian: bool) -> impl Iterator<Item = Option<char>> + Clone + '_ {
    let units = bytes.chunks_exact(2).map(move |pair| {
        let pair = [pair[0], pair[1]];
        if big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    });
    let odd = (!bytes.len().is_multiple_of(2)).then_some(None);
    char::decode_utf16(units).map(Result::ok).chain(odd)
}

fn utf32(bytes: &[u8]) -> impl Iterator<Item = Option<char>> + Clone + '_ {
    let odd = (!bytes.len().is_multiple_of(4)).then_some(None);
    bytes.chunks_exact(4).map(|unit| char::from_u32(u32::from_be_bytes([unit[0], unit[1], unit[2], unit[3]]))).chain(odd)
}

fn put_chars(out: &mut Vec<u8>, chars: impl Iterator<Item = Option<char>> + Clone, bytes: &[u8]) -> Result<(), Unfit> {
    let mut length = 0;
    for c in chars.clone() {
        length += c.ok_or_else(|| invalid(bytes, 0, "valid Unicode"))?.len_utf8();
    }
    put_long(out, length as i64);
    for c in chars.flatten() {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(())
}

/// Bytes of a character at most: CHAR(n) and VARCHAR(n) are this many times n bytes in the log.
pub fn bytes_per_character(charset: &str) -> u32 {
    match charset {
        "utf8mb4" | "utf16" | "utf16le" | "utf32" | "gb18030" => 4,
        "utf8mb3" | "utf8" | "ujis" | "eucjpms" => 3,
        "ucs2" | "gbk" | "gb2312" | "big5" | "sjis" | "cp932" | "euckr" => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(charset: &str, bytes: &[u8]) -> Result<String, String> {
        Charsets::default().decoder(charset).unwrap().text(bytes).map_err(|e| e.to_string())
    }

    #[test]
    fn text_becomes_utf8() {
        assert_eq!(text("latin1", b"caf\xe9 \x80\x81\x9d").unwrap(), "café €\u{81}\u{9d}");
        assert_eq!(text("utf16", b"\x00a\xd8\x3d\xde\x00").unwrap(), "a😀");
        assert_eq!(text("utf16le", b"a\x00\x3d\xd8\x00\xde").unwrap(), "a😀");
        assert_eq!(text("utf32", b"\x00\x01\xf6\x00").unwrap(), "😀");
        assert_eq!(text("gbk", b"\xc4\xe3").unwrap(), "你");
        assert_eq!(text("cp932", b"\x93\xfa").unwrap(), "日");
        assert_eq!(text("utf8mb4", "😀".as_bytes()).unwrap(), "😀");
    }

    #[test]
    fn invalid_bytes_are_refused_and_never_replaced() {
        for (charset, bytes) in
            [("utf8mb4", &b"a\xff"[..]), ("ascii", b"a\xe9"), ("utf16", b"\xd8\x3d"), ("utf32", b"\x00\x11\x00\x00"), ("ucs2", b"a")]
        {
            let error = text(charset, bytes).unwrap_err();
            assert!(error.contains("its bytes are not"), "{charset}: {error}");
        }
    }

    #[test]
    fn sets_without_a_table_are_not_guessed() {
        assert_eq!(Charsets::default().decoder("swe7"), None);
        let mut charsets = Charsets::default();
        let mut table = [None; 256];
        table[b'{' as usize] = Some('ä');
        charsets.add_table("swe7", table);
        let swe7 = charsets.decoder("swe7").unwrap();
        assert_eq!(swe7.text(b"{").unwrap(), "ä");
        assert!(swe7.text(b"x").is_err());
    }
}
