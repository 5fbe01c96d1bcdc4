//! Text in the server's character sets, to Avro.

use schemas::{
    charset::{Decoder, Invalid},
    wire::codec::{put_bytes, put_long},
};

use super::Unfit;

/// Writes bytes of this character set as an Avro string.
#[inline]
pub fn put(out: &mut Vec<u8>, decoder: &Decoder, bytes: &[u8]) -> Result<(), Unfit> {
    let invalid = |Invalid { at }| invalid(decoder, bytes, at);
    match decoder {
        Decoder::Utf8 => put_bytes(out, decoder.decode(bytes).map_err(invalid)?.as_bytes()),
        Decoder::Ascii | Decoder::Ucs2 | Decoder::Utf16 { .. } | Decoder::Utf32 | Decoder::Table(_) => {
            let mut length = 0;
            decoder.each(bytes, |c| length += c.len_utf8()).map_err(invalid)?;
            put_long(out, length as i64);
            decoder.each(bytes, |c| out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes())).map_err(invalid)?;
        }
    }
    Ok(())
}

fn invalid(decoder: &Decoder, bytes: &[u8], at: usize) -> Unfit {
    let charset = match decoder {
        Decoder::Utf8 => "valid UTF-8",
        Decoder::Ascii => "ASCII",
        Decoder::Ucs2 | Decoder::Utf16 { .. } | Decoder::Utf32 => "valid Unicode",
        Decoder::Table(_) => "characters that the server's table of its character set has",
    };
    let byte = bytes.get(at).copied().unwrap_or_default();
    Unfit::value(format!("its bytes are not {charset} (0x{byte:02x} at byte {at}); correct the row on the source"))
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
    use schemas::{charset::Charsets, wire::codec::Reader};

    use super::*;

    #[test]
    fn text_becomes_an_avro_string_or_is_refused_with_its_place() {
        let charsets = Charsets::default();
        for (charset, bytes, text) in [
            ("utf8mb4", "a😀".as_bytes(), "a😀"),
            ("latin1", b"\x80\xe9", "€é"),
            ("utf16", b"\xd8\x3d\xde\x00", "😀"),
            ("ascii", b"a", "a"),
        ] {
            let mut avro = Vec::new();
            put(&mut avro, &charsets.decoder(charset).unwrap(), bytes).unwrap();
            assert_eq!(Reader::new(&avro).string().unwrap(), text);
        }
        for (charset, bytes, refused) in [
            ("utf8mb4", &b"a\xff"[..], "its bytes are not valid UTF-8 (0xff at byte 1)"),
            ("ascii", b"a\xe9", "its bytes are not ASCII (0xe9 at byte 1)"),
            ("utf32", b"\0\0\0a\0\0\xd8\x3d", "its bytes are not valid Unicode (0x00 at byte 4)"),
        ] {
            let mut avro = Vec::new();
            let error = put(&mut avro, &charsets.decoder(charset).unwrap(), bytes).unwrap_err().to_string();
            assert!(error.starts_with(refused) && avro.is_empty(), "{error}");
        }
    }
}
