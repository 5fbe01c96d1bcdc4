//! Character sets: their default collations and their widest character.

use std::borrow::Cow;

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

/// The bytes of a literal in a set whose characters have two or four at least: the server fills the first one up with zeros.
pub(super) fn filled<'a>(bytes: &'a [u8], charset: &str) -> Cow<'a, [u8]> {
    let narrowest = match charset {
        "ucs2" | "utf16" | "utf16le" => 2,
        "utf32" => 4,
        _ => 1,
    };
    match bytes.len() % narrowest {
        0 => Cow::Borrowed(bytes),
        more => [&[0; 4][..narrowest - more], bytes].concat().into(),
    }
}

/// What the bytes of a statement are while it is read: [`super::token`] makes a text UTF-8 where its own bytes could look like quotes.
pub(super) fn of_text(context: &Context) -> &str {
    if ascii_bytes_are_ascii(&context.charset) { &context.charset } else { "utf8mb4" }
}
