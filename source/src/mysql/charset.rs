//! The server's character sets, read from it once: what it makes of every character's bytes is what rows are decoded by.

use std::{fmt::Write, ops::RangeInclusive};

use mysql_async::{Conn, Error, Row, prelude::Queryable};
use schemas::charset::{Charsets, Table};

/// Between two characters in a text that the server converts. It is a byte of no wider character, and itself in every set.
const BETWEEN: u8 = b'\n';

type Range = RangeInclusive<u8>;

/// Bytes of the characters of a set, by places: every byte of the first range with every one of the next.
type Form = &'static [&'static [Range]];

/// Which bytes are characters of two and more bytes. Where the server knows fewer, it says so.
fn forms(charset: &str) -> &'static [Form] {
    const HIGH: &[Range] = &[0xa1..=0xfe];
    match charset {
        "big5" => &[&[&[0xa1..=0xf9], &[0x40..=0x7e, 0xa1..=0xfe]]],
        "gbk" => &[&[&[0x81..=0xfe], &[0x40..=0x7e, 0x80..=0xfe]]],
        "gb2312" => &[&[&[0xa1..=0xf7], HIGH]],
        "euckr" => &[&[&[0x81..=0xfe], &[0x41..=0x5a, 0x61..=0x7a, 0x81..=0xfe]]],
        "sjis" | "cp932" => &[&[&[0x81..=0x9f, 0xe0..=0xfc], &[0x40..=0x7e, 0x80..=0xfc]]],
        "ujis" | "eucjpms" => &[&[&[0x8e..=0x8e], &[0xa1..=0xdf]], &[HIGH, HIGH], &[&[0x8f..=0x8f], HIGH, HIGH]],
        "gb18030" => &[&[&[0x81..=0xfe], &[0x40..=0x7e, 0x80..=0xfe]], &[&[0x81..=0x84], &[0x30..=0x39], &[0x81..=0xfe], &[0x30..=0x39]]],
        _ => &[],
    }
}

/// All bytes of a form; each group has its own bytes before the last one or two, and is converted by itself.
fn groups(form: Form) -> Vec<Vec<Vec<u8>>> {
    let own = form.len() - if form.len() == 4 { 2 } else { 1 };
    let product = |so_far: Vec<Vec<u8>>, place: &&[Range]| {
        let bytes: Vec<u8> = place.iter().cloned().flatten().collect();
        so_far.iter().flat_map(|begin| bytes.iter().map(move |byte| [begin.as_slice(), &[*byte]].concat())).collect()
    };
    let heads = form[..own].iter().fold(vec![Vec::new()], product);
    heads.into_iter().map(|head| form[own..].iter().fold(vec![head], product)).collect()
}

const NAMES: &str = "SELECT CHARACTER_SET_NAME, MAXLEN FROM information_schema.CHARACTER_SETS \
     WHERE CHARACTER_SET_NAME NOT IN ('binary', 'ascii', 'utf8', 'utf8mb3', 'utf8mb4', 'ucs2', 'utf16', 'utf16le', 'utf32')";

/// Bytes of a statement at most, well below any server's max_allowed_packet.
const STATEMENT: usize = 1 << 18;

/// Reads all of the server's sets that are not Unicode's own. One whose characters are not known here, or that the server does not
/// convert, is left out.
pub async fn read(conn: &mut Conn) -> Result<Charsets, Error> {
    let names: Vec<(String, u32)> = conn.query(NAMES).await?;
    let singles: Vec<Vec<u8>> = (0..=u8::MAX).filter(|byte| *byte != BETWEEN).map(|byte| vec![byte]).collect();
    let (narrow, wide): (Vec<_>, Vec<_>) = names.into_iter().partition(|(_, widest)| *widest == 1);
    let mut charsets = Charsets::default();
    let columns: Vec<String> = narrow.iter().map(|(name, _)| conversion(name, &singles)).collect();
    for ((name, _), text) in narrow.iter().zip(texts(conn, &columns).await?) {
        if let Some(found) = text.and_then(|text| characters(&singles, &text)) {
            charsets.add(name, Table::new(found.into_iter().chain([(vec![BETWEEN], char::from(BETWEEN))])));
        }
    }
    for (name, _) in wide.iter().filter(|(name, _)| !forms(name).is_empty()) {
        let table = read_wide(conn, name, &singles).await?;
        let table = if name == "gb18030" && has_planes(conn, name).await? { table.with_planes() } else { table };
        charsets.add(name, table);
    }
    Ok(charsets)
}

async fn read_wide(conn: &mut Conn, name: &str, singles: &[Vec<u8>]) -> Result<Table, Error> {
    // A lone byte that begins a wider character makes the whole text invalid: each is asked for by itself.
    let mut all: Vec<Vec<Vec<u8>>> = singles.iter().map(|single| vec![single.clone()]).collect();
    all.extend(forms(name).iter().flat_map(|form| groups(form)));
    let columns: Vec<String> = all.iter().map(|group| conversion(name, group)).collect();
    let mut found = vec![(vec![BETWEEN], char::from(BETWEEN))];
    for (group, text) in all.iter().zip(texts(conn, &columns).await?) {
        found.extend(text.and_then(|text| characters(group, &text)).unwrap_or_default());
    }
    Ok(Table::new(found))
}

/// Whether the characters above U+FFFF stand in gb18030 where [`Table::with_planes`] has them: one of each row is looked at.
async fn has_planes(conn: &mut Conn, name: &str) -> Result<bool, Error> {
    let samples = (0x1_0000..=0x10_ffff).step_by(1260).filter_map(char::from_u32);
    let (expected, bytes): (Vec<char>, Vec<Vec<u8>>) = samples.filter_map(|c| Some((c, Table::plane_bytes(c)?.to_vec()))).unzip();
    let text = texts(conn, &[conversion(name, &bytes)]).await?.pop().flatten();
    let found = text.and_then(|text| characters(&bytes, &text)).unwrap_or_default();
    Ok(found.into_iter().map(|(_, c)| c).eq(expected))
}

/// SQL that gives the text of these characters; NULL where the server takes one of them for no text.
fn conversion(charset: &str, characters: &[Vec<u8>]) -> String {
    let mut hex = String::new();
    for byte in characters.join(&BETWEEN) {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02X}");
    }
    format!("CONVERT(CONVERT(X'{hex}' USING {charset}) USING utf8mb4)")
}

/// The values of these columns, in as many statements as they need.
async fn texts(conn: &mut Conn, columns: &[String]) -> Result<Vec<Option<Vec<u8>>>, Error> {
    let mut texts = Vec::with_capacity(columns.len());
    let mut rest = columns;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fit = rest
            .iter()
            .take_while(|column| {
                bytes += column.len();
                bytes <= STATEMENT
            })
            .count()
            .max(1);
        let (now, later) = rest.split_at(fit);
        let row: Option<Row> = conn.query_first(format!("SELECT {}", now.join(", "))).await?;
        texts.extend((0..fit).map(|column| row.as_ref().and_then(|row| row.get::<Option<Vec<u8>>, _>(column)).flatten()));
        rest = later;
    }
    Ok(texts)
}

/// Each character's bytes with what the server made of them. None: its text is not made of as many parts.
fn characters(group: &[Vec<u8>], text: &[u8]) -> Option<Vec<(Vec<u8>, char)>> {
    let parts: Vec<&[u8]> = text.split(|byte| *byte == BETWEEN).collect();
    if parts.len() != group.len() {
        return None;
    }
    Some(group.iter().zip(parts).filter_map(|(bytes, part)| Some((bytes.clone(), character(bytes, part)?))).collect())
}

/// The one character of a text. The server gives '?' for bytes that are none.
fn character(bytes: &[u8], text: &[u8]) -> Option<char> {
    let mut characters = std::str::from_utf8(text).ok()?.chars();
    let first = characters.next()?;
    let replaced = first == '?' && bytes != b"?";
    (characters.next().is_none() && !replaced).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_does_not_convert_is_no_character() {
        let group = [b"A".to_vec(), vec![0x81], b"?".to_vec(), vec![0x82, 0xa0], vec![0x83, 0x40]];
        let found = characters(&group, "A\n?\n?\nあ\n? ".as_bytes()).unwrap();
        assert_eq!(found, [(b"A".to_vec(), 'A'), (b"?".to_vec(), '?'), (vec![0x82, 0xa0], 'あ')]);
        assert_eq!(characters(&group, b"A\nB"), None);
    }

    #[test]
    fn the_bytes_of_a_form_are_all_there_in_groups() {
        let count = |charset: &str| forms(charset).iter().flat_map(|form| groups(form)).map(|group| group.len()).collect::<Vec<_>>();
        assert_eq!(count("gb2312"), vec![94; 87]);
        assert_eq!(count("ujis").iter().sum::<usize>(), 63 + 94 * 94 * 2);
        assert_eq!(count("gb18030"), [vec![190; 126], vec![1260; 40]].concat());
    }
}
