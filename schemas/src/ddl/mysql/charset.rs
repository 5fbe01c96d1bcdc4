//! Character sets: their default collations, their widest character, and their bytes as text.

use std::borrow::Cow;

use encoding_rs::Encoding;

use super::context::Context;

/// Name, default collation, bytes of the widest character.
const CHARSETS: [(&str, &str, u32); 42] = [
    ("armscii8", "armscii8_general_ci", 1),
    ("ascii", "ascii_general_ci", 1),
    ("big5", "big5_chinese_ci", 2),
    ("binary", "binary", 1),
    ("cp1250", "cp1250_general_ci", 1),
    ("cp1251", "cp1251_general_ci", 1),
    ("cp1256", "cp1256_general_ci", 1),
    ("cp1257", "cp1257_general_ci", 1),
    ("cp850", "cp850_general_ci", 1),
    ("cp852", "cp852_general_ci", 1),
    ("cp866", "cp866_general_ci", 1),
    ("cp932", "cp932_japanese_ci", 2),
    ("dec8", "dec8_swedish_ci", 1),
    ("eucjpms", "eucjpms_japanese_ci", 3),
    ("euckr", "euckr_korean_ci", 2),
    ("gb18030", "gb18030_chinese_ci", 4),
    ("gb2312", "gb2312_chinese_ci", 2),
    ("gbk", "gbk_chinese_ci", 2),
    ("geostd8", "geostd8_general_ci", 1),
    ("greek", "greek_general_ci", 1),
    ("hebrew", "hebrew_general_ci", 1),
    ("hp8", "hp8_english_ci", 1),
    ("keybcs2", "keybcs2_general_ci", 1),
    ("koi8r", "koi8r_general_ci", 1),
    ("koi8u", "koi8u_general_ci", 1),
    ("latin1", "latin1_swedish_ci", 1),
    ("latin2", "latin2_general_ci", 1),
    ("latin5", "latin5_turkish_ci", 1),
    ("latin7", "latin7_general_ci", 1),
    ("macce", "macce_general_ci", 1),
    ("macroman", "macroman_general_ci", 1),
    ("sjis", "sjis_japanese_ci", 2),
    ("swe7", "swe7_swedish_ci", 1),
    ("tis620", "tis620_thai_ci", 1),
    ("ucs2", "ucs2_general_ci", 2),
    ("ujis", "ujis_japanese_ci", 3),
    ("utf16", "utf16_general_ci", 4),
    ("utf16le", "utf16le_general_ci", 4),
    ("utf32", "utf32_general_ci", 4),
    ("utf8mb3", "utf8mb3_general_ci", 3),
    ("utf8mb4", "utf8mb4_general_ci", 4),
    ("filename", "filename", 5),
];

/// Sets whose default is a UCA 14.0.0 collation from MariaDB 11.5 on.
const UNICODE: [&str; 5] = ["ucs2", "utf16", "utf32", "utf8mb3", "utf8mb4"];

/// A character set's own name, lower case: `utf8` is `utf8mb3`.
pub(super) fn charset_name(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let name = if name == "utf8" { "utf8mb3".to_owned() } else { name };
    CHARSETS.iter().any(|(known, _, _)| *known == name).then_some(name)
}

/// A collation's own name, lower case, and its character set.
pub(super) fn collation_name(name: &str) -> Option<(String, String)> {
    let name = name.to_ascii_lowercase();
    let name = match name.strip_prefix("utf8_") {
        Some(rest) => format!("utf8mb3_{rest}"),
        None => name,
    };
    let charset = charset_name(name.split('_').next()?)?;
    (charset == "binary" || name.len() > charset.len()).then_some((name, charset))
}

/// A character set's default collation on this server, in this session.
pub(super) fn default_collation(charset: &str, context: &Context) -> String {
    if let Some(own) = context.charset_collations.get(charset) {
        return own.clone();
    }
    if context.mariadb && context.version >= 110_500 && UNICODE.contains(&charset) {
        return format!("{charset}_uca1400_ai_ci");
    }
    if !context.mariadb && context.version >= 80_000 && charset == "utf8mb4" {
        return "utf8mb4_0900_ai_ci".into();
    }
    CHARSETS.iter().find(|(name, _, _)| *name == charset).map_or_else(|| charset.to_owned(), |(_, collation, _)| (*collation).into())
}

/// A character set's binary collation.
pub(super) fn binary_collation(charset: &str) -> String {
    if charset == "binary" { "binary".into() } else { format!("{charset}_bin") }
}

/// Bytes of the widest character.
pub(crate) fn widest(charset: &str) -> u32 {
    CHARSETS.iter().find(|(name, _, _)| *name == charset).map_or(4, |(_, _, widest)| *widest)
}

/// Whether a byte below 0x80 is always the ASCII character, also inside a wider one.
pub(super) fn ascii_bytes_are_ascii(charset: &str) -> bool {
    !matches!(charset, "big5" | "cp932" | "gbk" | "gb18030" | "sjis" | "ucs2" | "utf16" | "utf16le" | "utf32" | "swe7")
}

fn encoding(charset: &str) -> Option<&'static Encoding> {
    let label = match charset {
        "latin1" => "windows-1252",
        "latin2" => "iso-8859-2",
        "latin5" => "iso-8859-9",
        "greek" => "iso-8859-7",
        "hebrew" => "iso-8859-8",
        "cp1250" => "windows-1250",
        "cp1251" => "windows-1251",
        "cp1256" => "windows-1256",
        "cp866" => "ibm866",
        "koi8r" => "koi8-r",
        "koi8u" => "koi8-u",
        "tis620" => "windows-874",
        "big5" => "big5",
        "cp932" => "shift_jis",
        "sjis" => "shift_jis",
        "ujis" | "eucjpms" => "euc-jp",
        "euckr" => "euc-kr",
        "gbk" | "gb2312" => "gbk",
        "gb18030" => "gb18030",
        _ => return None,
    };
    Encoding::for_label(label.as_bytes())
}

/// Bytes of a character set as text. None: not valid there, or a set without a table here and bytes beyond ASCII.
pub(super) fn decode<'a>(charset: &str, bytes: &'a [u8]) -> Option<Cow<'a, str>> {
    match charset {
        "utf8mb4" | "utf8mb3" => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        "ucs2" | "utf16" => wide(bytes, u16::from_be_bytes),
        "utf16le" => wide(bytes, u16::from_le_bytes),
        "utf32" => {
            let (units, rest) = bytes.as_chunks::<4>();
            if !rest.is_empty() {
                return None;
            }
            units.iter().map(|unit| char::from_u32(u32::from_be_bytes(*unit))).collect::<Option<String>>().map(Cow::Owned)
        }
        "swe7" => None,
        _ if bytes.is_ascii() => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        _ => encoding(charset)?.decode_without_bom_handling_and_without_replacement(bytes),
    }
}

fn wide(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<Cow<'_, str>> {
    let (units, rest) = bytes.as_chunks::<2>();
    let units: Vec<u16> = units.iter().map(|bytes| unit(*bytes)).collect();
    if rest.is_empty() { String::from_utf16(&units).ok().map(Cow::Owned) } else { None }
}

/// Text as bytes of a character set. None: it has no such characters, or no table here.
pub(super) fn encode(charset: &str, text: &str) -> Option<Vec<u8>> {
    match charset {
        "utf8mb4" => Some(text.as_bytes().to_vec()),
        "utf8mb3" => text.chars().all(|c| c.len_utf8() < 4).then(|| text.as_bytes().to_vec()),
        "ucs2" | "utf16" => Some(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
        "utf16le" => Some(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
        "utf32" => Some(text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect()),
        "swe7" => None,
        _ if text.is_ascii() => Some(text.as_bytes().to_vec()),
        _ => {
            let (bytes, _, unmappable) = encoding(charset)?.encode(text);
            (!unmappable).then(|| bytes.into_owned())
        }
    }
}
