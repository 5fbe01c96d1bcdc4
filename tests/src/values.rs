//! Random tables of MySQL and MariaDB: columns of random types, and literals of random values for them, the extreme ones often.

use crate::random::Random;

/// The servers that types differ between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    MariaDb,
    /// From 11.7 on, which has VECTOR.
    MariaDb11,
    MySql,
}

#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    /// Type, character set and nullability, as CREATE TABLE takes them.
    pub declaration: String,
    pub nullable: bool,
    /// A date whose values may be zero, partial or impossible: it is to be published as text.
    pub zeros: bool,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Integer {
        bits: u32,
        unsigned: bool,
    },
    Decimal {
        precision: u64,
        scale: u64,
        unsigned: bool,
    },
    Float {
        digits: Option<(u64, u64)>,
        unsigned: bool,
    },
    Double {
        unsigned: bool,
    },
    Bit {
        length: u64,
    },
    Year,
    Date,
    Time {
        precision: u64,
    },
    DateTime {
        precision: u64,
    },
    /// Of the greatest year.
    Timestamp {
        precision: u64,
        last: u64,
    },
    Text {
        characters: u64,
        charset: &'static str,
    },
    Bytes {
        length: u64,
    },
    Enum {
        labels: u64,
    },
    Set {
        labels: u64,
    },
    Json,
    Uuid,
    Inet4,
    Inet6,
    Geometry {
        of: &'static str,
    },
    Vector {
        dimensions: u64,
        mysql: bool,
    },
}

/// What a session may be set to without another meaning of the literals here.
pub const SQL_MODES: [&str; 7] = [
    "",
    "NO_BACKSLASH_ESCAPES",
    "ANSI_QUOTES",
    "PAD_CHAR_TO_FULL_LENGTH",
    "NO_ZERO_DATE,NO_ZERO_IN_DATE",
    "ALLOW_INVALID_DATES",
    "PIPES_AS_CONCAT,IGNORE_SPACE",
];
const ZEROS: [&str; 5] = ["'0000-00-00'", "'2020-00-15'", "'2020-02-00'", "'2023-02-31'", "'0000-01-01'"];
pub const TIME_ZONES: [&str; 4] = ["+00:00", "SYSTEM", "-11:30", "+05:45"];

/// Character sets, each with texts that it has. What a set lacks the server makes a question mark.
const CHARSETS: [(&str, &[&str]); 39] = [
    ("armscii8", &["Ա", "և", "ֆ", "»"]),
    ("ascii", &["~", "`"]),
    ("big5", &["中", "文", "，", "龍", "碁"]),
    ("cp1250", &["Ł", "€", "ß", "ť"]),
    ("cp1251", &["Ж", "ё", "№", "€"]),
    ("cp1256", &["ش", "پ", "‌", "œ"]),
    ("cp1257", &["Ā", "ž", "Ø"]),
    ("cp850", &["ü", "╬", "ð", "¢"]),
    ("cp852", &["Ő", "░", "ź"]),
    ("cp866", &["Я", "█", "є"]),
    ("cp932", &["日", "①", "∪", "髙", "ｱ", "～", "¬", "表"]),
    ("dec8", &["œ", "¥", "ÿ", "Ÿ"]),
    ("eucjpms", &["日", "①", "丂", "～", "ｱ", "髙"]),
    ("euckr", &["한", "똠", "힝", "（"]),
    ("gb2312", &["你", "好", "⒈", "·"]),
    ("gb18030", &["你", "😀", "\u{e5e5}", "㐀", "ḿ", "€"]),
    ("gbk", &["你", "镕", "€", "㐀", "·"]),
    ("geostd8", &["ა", "ჰ", "…"]),
    ("greek", &["Ω", "ώ", "‘", "ͺ"]),
    ("hebrew", &["א", "ת", "‗", "÷"]),
    ("hp8", &["Š", "ü", "£", "ý"]),
    ("keybcs2", &["č", "╬", "Ŕ"]),
    ("koi8r", &["Ж", "█", "ё"]),
    ("koi8u", &["Ґ", "є", "░"]),
    ("latin1", &["é", "€", "\u{81}", "Ÿ", "ž"]),
    ("latin2", &["Ł", "ź", "\u{9f}"]),
    ("latin5", &["ğ", "İ", "\u{80}"]),
    ("latin7", &["ž", "Ą", "„"]),
    ("macce", &["č", "≠", "Ż"]),
    ("macroman", &["é", "∞", "ﬁ", "€"]),
    ("sjis", &["日", "＼", "ｱ", "表", "―"]),
    ("swe7", &["Å", "ö", "É", "ü"]),
    ("tis620", &["ก", "๛", "€"]),
    ("ucs2", &["你", "\u{ffff}", "é"]),
    ("ujis", &["日", "丂", "〜", "ｱ", "表"]),
    ("utf16", &["😀", "é", "\u{feff}"]),
    ("utf16le", &["😀", "é"]),
    ("utf32", &["😀", "é", "\u{10ffff}"]),
    ("utf8mb3", &["你", "\u{fffd}", "é"]),
];

/// Characters of every set but swe7, which lacks some.
const EVERYWHERE: [&str; 12] = ["a", "Z", "0", " ", "\\", "\"", "'", "%", "\t", "\n", "?", ","];

/// A table's columns, without its key.
pub fn columns(random: &mut Random, server: Server, count: usize) -> Vec<Column> {
    (0..count).map(|number| column(random, server, number)).collect()
}

fn column(random: &mut Random, server: Server, number: usize) -> Column {
    let (kind, declared) = kind(random, server);
    let nullable = !random.one_in(4);
    // A TIMESTAMP without a word on it is NOT NULL on some servers.
    let declaration = format!("{declared} {}", if nullable { "NULL" } else { "NOT NULL" });
    let zeros = matches!(kind, Kind::Date | Kind::DateTime { .. } | Kind::Timestamp { .. }) && random.one_in(3);
    Column { name: format!("c{number}"), declaration, nullable, zeros, kind }
}

fn kind(random: &mut Random, server: Server) -> (Kind, String) {
    match random.below(24) {
        0 | 1 => integer(random),
        2 | 3 => decimal(random),
        4 => float(random),
        5 => {
            let unsigned = random.one_in(4);
            (Kind::Double { unsigned }, format!("DOUBLE{}", sign(unsigned)))
        }
        6 => {
            let length = *random.pick(&[1, 7, 8, 9, 17, 33, 63, 64]);
            (Kind::Bit { length }, format!("BIT({length})"))
        }
        7 => (Kind::Year, "YEAR".into()),
        8 => (Kind::Date, "DATE".into()),
        9..=12 => clock(random, server),
        13 | 14 => bytes(random, server),
        15 => labels(random),
        16 => special(random, server),
        17 => (Kind::Json, "JSON".into()),
        18 => {
            let of = *random.pick(&["POINT", "LINESTRING", "GEOMETRY", "MULTIPOINT"]);
            (Kind::Geometry { of }, of.into())
        }
        _ => text(random, server),
    }
}

fn word(random: &mut Random, words: &[&'static str]) -> &'static str {
    *random.pick(words)
}

fn sign(unsigned: bool) -> &'static str {
    if unsigned { " UNSIGNED" } else { "" }
}

fn integer(random: &mut Random) -> (Kind, String) {
    let (bits, name) = *random.pick(&[(8, "TINYINT"), (16, "SMALLINT"), (24, "MEDIUMINT"), (32, "INT"), (64, "BIGINT")]);
    let (unsigned, zerofill) = (random.one_in(2), random.one_in(6));
    let declared = format!("{name}{}{}", sign(unsigned), if zerofill { " ZEROFILL" } else { "" });
    (Kind::Integer { bits, unsigned: unsigned || zerofill }, declared)
}

fn decimal(random: &mut Random) -> (Kind, String) {
    let precision = *random.pick(&[1, 5, 9, 10, 18, 19, 28, 38, 39, 64, 65]);
    let scale = random.below(precision.min(30) + 1);
    let unsigned = random.one_in(4);
    (Kind::Decimal { precision, scale, unsigned }, format!("DECIMAL({precision},{scale}){}", sign(unsigned)))
}

fn float(random: &mut Random) -> (Kind, String) {
    let unsigned = random.one_in(4);
    let digits = if random.one_in(4) { Some((7, 3)) } else { None };
    let size = digits.map(|(m, d)| format!("({m},{d})")).unwrap_or_default();
    (Kind::Float { digits, unsigned }, format!("FLOAT{size}{}", sign(unsigned)))
}

fn clock(random: &mut Random, server: Server) -> (Kind, String) {
    let precision = random.below(7);
    match random.below(3) {
        0 => (Kind::Time { precision }, format!("TIME({precision})")),
        1 => (Kind::DateTime { precision }, format!("DATETIME({precision})")),
        _ => {
            let last = if server == Server::MariaDb11 { 2106 } else { 2038 };
            (Kind::Timestamp { precision, last }, format!("TIMESTAMP({precision})"))
        }
    }
}

fn charset(random: &mut Random, server: Server) -> &'static str {
    loop {
        let charset = if random.one_in(4) { "utf8mb4" } else { random.pick(&CHARSETS).0 };
        if charset != "gb18030" || server == Server::MySql {
            return charset;
        }
    }
}

fn text(random: &mut Random, server: Server) -> (Kind, String) {
    let charset = charset(random, server);
    let compressed = if server != Server::MySql && random.one_in(8) { " COMPRESSED" } else { "" };
    let (characters, declared) = match random.below(6) {
        0 | 1 => {
            let length = *random.pick(&[1, 9, 85, 255]);
            (length, format!("CHAR({length})"))
        }
        2 | 3 => {
            let length = *random.pick(&[1, 20, 255, 300]);
            (length, format!("VARCHAR({length}){compressed}"))
        }
        4 => (40, "TINYTEXT".into()),
        _ => (5000, format!("{}{compressed}", word(random, &["TEXT", "MEDIUMTEXT", "LONGTEXT"]))),
    };
    let bin = if random.one_in(3) && charset != "binary" { format!(" COLLATE {charset}_bin") } else { String::new() };
    (Kind::Text { characters, charset }, format!("{declared} CHARACTER SET {charset}{bin}"))
}

fn bytes(random: &mut Random, server: Server) -> (Kind, String) {
    let compressed = if server != Server::MySql && random.one_in(6) { " COMPRESSED" } else { "" };
    let length = *random.pick(&[1, 5, 64, 255]);
    match random.below(4) {
        0 => (Kind::Bytes { length }, format!("BINARY({length})")),
        1 => (Kind::Bytes { length }, format!("VARBINARY({length}){compressed}")),
        2 => (Kind::Bytes { length }, format!("CHAR({length}) CHARACTER SET binary")),
        _ => (Kind::Bytes { length: 255 }, format!("{}{compressed}", word(random, &["BLOB", "MEDIUMBLOB", "LONGBLOB"]))),
    }
}

fn labels(random: &mut Random) -> (Kind, String) {
    let count = *random.pick(&[1, 2, 8, 9, 63, 64]);
    // Labels of utf8mb4 and latin1 in the sets that have these letters.
    let charset = *random.pick(&["utf8mb4", "latin1", "utf16", "cp850", "ucs2", "utf8mb3"]);
    let mut all: Vec<String> = (0..count).map(|n| format!("'l{n}'")).collect();
    for (label, own) in all.iter_mut().zip(["'it''s é'", "' ü'", "'%\"'"]) {
        *label = own.into();
    }
    let listed = all.join(",");
    if random.one_in(2) {
        (Kind::Enum { labels: count }, format!("ENUM({listed}) CHARACTER SET {charset}"))
    } else {
        (Kind::Set { labels: count }, format!("SET({listed}) CHARACTER SET {charset}"))
    }
}

fn special(random: &mut Random, server: Server) -> (Kind, String) {
    let dimensions = *random.pick(&[1, 3, 100]);
    let vector = (Kind::Vector { dimensions, mysql: server == Server::MySql }, format!("VECTOR({dimensions})"));
    let own = [(Kind::Uuid, "UUID".into()), (Kind::Inet4, "INET4".into()), (Kind::Inet6, "INET6".into())];
    match server {
        Server::MySql => vector,
        Server::MariaDb11 if random.one_in(3) => vector,
        Server::MariaDb | Server::MariaDb11 => random.pick(&own).clone(),
    }
}

impl Column {
    /// An expression that gives a value, NULL now and then.
    pub fn value(&self, random: &mut Random) -> String {
        if self.nullable && random.one_in(8) {
            return "NULL".into();
        }
        match &self.kind {
            _ if self.zeros && random.one_in(3) => word(random, &ZEROS).to_owned(),
            Kind::Integer { bits, unsigned } => integer_value(random, *bits, *unsigned),
            Kind::Decimal { precision, scale, unsigned } => decimal_value(random, *precision, *scale, *unsigned),
            Kind::Float { digits: Some((m, d)), unsigned } => decimal_value(random, *m, *d, *unsigned),
            Kind::Float { digits: None, unsigned } => float_value(random, *unsigned),
            Kind::Double { unsigned } => double_value(random, *unsigned),
            Kind::Bit { length } => bit_value(random, *length),
            Kind::Year => word(random, &["0", "1901", "2155", "2024", "1970"]).to_owned(),
            Kind::Date => format!("'{}'", date(random, 1, 9999)),
            Kind::Time { precision } => time_value(random, *precision),
            Kind::DateTime { precision } => format!("'{} {}'", date(random, 1, 9999), time_of_day(random, *precision)),
            Kind::Timestamp { precision, last } => timestamp_value(random, *precision, *last),
            Kind::Text { characters, charset } => text_value(random, *characters, charset),
            Kind::Bytes { length } => bytes_value(random, *length),
            // By number, 0 among them: the value that is no label.
            Kind::Enum { labels } => random.below(labels + 1).to_string(),
            Kind::Set { labels } => (random_u64(random) & (u64::MAX >> (64 - labels))).to_string(),
            Kind::Json => json_value(random),
            Kind::Uuid => format!("'{}'", uuid(random)),
            Kind::Inet4 => format!("'{}'", std::net::Ipv4Addr::from(random_u64(random) as u32)),
            Kind::Inet6 => format!("'{}'", inet6(random)),
            Kind::Geometry { of } => geometry_value(random, of),
            Kind::Vector { dimensions, mysql } => vector_value(random, *dimensions, *mysql),
        }
    }
}

impl Column {
    /// A literal as a default, for a session of this mode. None: the type takes none.
    pub fn default(&self, random: &mut Random, mode: &str) -> Option<String> {
        let quoted = |text: &str| {
            let text = text.replace('\'', "''");
            format!("'{}'", if mode.contains("NO_BACKSLASH_ESCAPES") { text } else { text.replace('\\', "\\\\") })
        };
        Some(match &self.kind {
            Kind::Text { characters: 256.., .. } | Kind::Json | Kind::Geometry { .. } | Kind::Vector { .. } => return None,
            Kind::Text { characters, charset } => match random.below(4) {
                0 => word(random, &["_latin1 X'E980'", "_utf8mb4 X'C3A9'", "_latin1'a'", "X'41'", "_binary'b'", "5"]).to_owned(),
                _ => quoted(&characters_of(random, (*characters).min(9), charset)),
            },
            Kind::Enum { labels } => quoted(&format!("l{}", labels - 1)),
            Kind::Set { labels } => quoted(&format!("l{},l{}", labels - 1, labels - 1)),
            Kind::Integer { .. } | Kind::Decimal { .. } if random.one_in(3) => {
                word(random, &["TRUE", "0x0a", "b'11'", "' 7'", "1.4e0", "'1.5'", "-0"]).to_owned()
            }
            Kind::Integer { .. }
            | Kind::Decimal { .. }
            | Kind::Float { .. }
            | Kind::Double { .. }
            | Kind::Bit { .. }
            | Kind::Year
            | Kind::Date
            | Kind::Time { .. }
            | Kind::DateTime { .. }
            | Kind::Timestamp { .. }
            | Kind::Bytes { .. }
            | Kind::Uuid
            | Kind::Inet4
            | Kind::Inet6 => self.value(random),
        })
    }
}

fn random_u64(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => 0,
        1 => u64::MAX,
        _ => random.below(1 << 32) << 32 | random.below(1 << 32),
    }
}

fn integer_value(random: &mut Random, bits: u32, unsigned: bool) -> String {
    let (least, greatest) = if unsigned { (0, (1_i128 << bits) - 1) } else { (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1) };
    match random.below(6) {
        0 => least.to_string(),
        1 => greatest.to_string(),
        2 => "0".into(),
        3 => random.below(100).to_string(),
        _ => (least + i128::from(random_u64(random)).rem_euclid(greatest - least + 1)).to_string(),
    }
}

fn digits(random: &mut Random, count: u64) -> String {
    let nines = random.one_in(3);
    (0..count).map(|_| if nines { '9' } else { char::from(b'0' + random.below(10) as u8) }).collect()
}

fn decimal_value(random: &mut Random, precision: u64, scale: u64, unsigned: bool) -> String {
    let sign = if unsigned || random.one_in(2) { "" } else { "-" };
    match random.below(5) {
        0 => "0".into(),
        1 => format!("{sign}0.{}1", "0".repeat(usize::try_from(scale.saturating_sub(1)).unwrap_or_default())),
        _ => format!("{sign}0{}.{}", digits(random, precision - scale), digits(random, scale)),
    }
}

fn float_value(random: &mut Random, unsigned: bool) -> String {
    let float = match random.below(5) {
        0 => 0.0,
        1 => f32::MAX,
        2 => f32::MIN_POSITIVE,
        3 => (random.below(2_000_000) as f32) / 1000.0,
        _ => f32::from_bits(random_u64(random) as u32 & 0x7f00_ffff),
    };
    format!("{}{float:e}", if unsigned || random.one_in(2) { "" } else { "-" })
}

fn double_value(random: &mut Random, unsigned: bool) -> String {
    let double = match random.below(5) {
        0 => 0.0,
        1 => f64::MAX,
        2 => f64::MIN_POSITIVE,
        3 => (random.below(2_000_000_000) as f64) / 1000.0,
        _ => f64::from_bits(random_u64(random) & 0x7fe0_ffff_ffff_ffff),
    };
    format!("{}{double:e}", if unsigned || random.one_in(2) { "" } else { "-" })
}

fn bit_value(random: &mut Random, length: u64) -> String {
    format!("b'{:b}'", random_u64(random) & (u64::MAX >> (64 - length)))
}

fn date(random: &mut Random, first: u64, last: u64) -> String {
    let year = match random.below(4) {
        0 => first,
        1 => last,
        _ => first + random.below(last - first + 1),
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month = 1 + random.below(12);
    let length = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let day = if random.one_in(3) { length } else { 1 + random.below(length) };
    format!("{year:04}-{month:02}-{day:02}")
}

fn fraction(random: &mut Random, precision: u64) -> String {
    if precision == 0 || random.one_in(4) { String::new() } else { format!(".{}", digits(random, precision)) }
}

fn time_of_day(random: &mut Random, precision: u64) -> String {
    match random.below(4) {
        0 => "00:00:00".into(),
        1 => format!("23:59:59{}", fraction(random, precision)),
        _ => format!("{:02}:{:02}:{:02}{}", random.below(24), random.below(60), random.below(60), fraction(random, precision)),
    }
}

fn time_value(random: &mut Random, precision: u64) -> String {
    let sign = if random.one_in(2) { "-" } else { "" };
    match random.below(4) {
        0 => format!("'{sign}838:59:59'"),
        1 => format!("'{sign}00:00:00{}'", fraction(random, precision)),
        _ => format!("'{sign}{:02}:{:02}:{:02}{}'", random.below(838), random.below(60), random.below(60), fraction(random, precision)),
    }
}

/// A day away from both ends in every zone.
fn timestamp_value(random: &mut Random, precision: u64, last: u64) -> String {
    format!("'{} {}'", date(random, 1971, last - 1), time_of_day(random, precision))
}

fn text_value(random: &mut Random, characters: u64, charset: &str) -> String {
    let length = match random.below(6) {
        0 => 0,
        1 => characters,
        _ => random.below(characters.min(30) + 1),
    };
    let length = if characters > 255 && length == characters { 4000.min(characters) } else { length };
    literal(&characters_of(random, length, charset))
}

fn characters_of(random: &mut Random, count: u64, charset: &str) -> String {
    let own: &[&str] = CHARSETS.iter().find(|(name, _)| *name == charset).map_or(&["😀", "é", "你"], |(_, own)| own);
    (0..count).map(|_| if random.one_in(2) { *random.pick(own) } else { *random.pick(&EVERYWHERE) }).collect()
}

/// Text as a literal that no mode reads otherwise.
fn literal(text: &str) -> String {
    let hex: String = text.bytes().map(|byte| format!("{byte:02X}")).collect();
    format!("CONVERT(X'{hex}' USING utf8mb4)")
}

fn bytes_value(random: &mut Random, length: u64) -> String {
    let count = match random.below(4) {
        0 => 0,
        1 => length,
        _ => random.below(length + 1),
    };
    let zeros = random.one_in(3);
    let hex: String = (0..count).map(|n| format!("{:02X}", if zeros && n > 0 { 0 } else { random.below(256) })).collect();
    format!("X'{hex}'")
}

fn uuid(random: &mut Random) -> String {
    let hex = match random.below(5) {
        0 => "0".repeat(32),
        1 => "f".repeat(32),
        _ => format!(
            "{:016x}{:016x}",
            random.below(1 << 53) << 11 | random.below(1 << 11),
            random.below(1 << 53) << 11 | random.below(1 << 11)
        ),
    };
    // Any version and variant: the server keeps some of them in another order.
    let version = *random.pick(&["1", "4", "5", "6", "7", "8", "0"]);
    let variant = *random.pick(&["8", "b", "0", "c"]);
    format!("{}-{}-{version}{}-{variant}{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

fn inet6(random: &mut Random) -> std::net::Ipv6Addr {
    let words: Vec<u16> = (0..8).map(|_| if random.one_in(2) { 0 } else { random.below(65_536) as u16 }).collect();
    match random.below(5) {
        0 => std::net::Ipv4Addr::from(random_u64(random) as u32).to_ipv6_mapped(),
        1 => std::net::Ipv4Addr::from(random_u64(random) as u32).to_ipv6_compatible(),
        _ => <[u16; 8]>::try_from(words).expect("eight words").into(),
    }
}

fn point(random: &mut Random) -> String {
    format!("{}.{} -{}.5", random.below(180), random.below(1000), random.below(90))
}

fn geometry_value(random: &mut Random, of: &str) -> String {
    let of = if of == "GEOMETRY" { *random.pick(&["POINT", "LINESTRING", "MULTIPOINT", "GEOMETRYCOLLECTION"]) } else { of };
    let count = 2 + random.below(4);
    let points: Vec<String> = (0..count).map(|_| point(random)).collect();
    let text = match of {
        "POINT" => format!("POINT({})", points[0]),
        "GEOMETRYCOLLECTION" => format!("GEOMETRYCOLLECTION(POINT({}),LINESTRING({}))", points[0], points.join(",")),
        other => format!("{other}({})", points.join(",")),
    };
    let srid = if random.one_in(2) { ", 3857" } else { "" };
    format!("ST_GeomFromText('{text}'{srid})")
}

fn vector_value(random: &mut Random, dimensions: u64, mysql: bool) -> String {
    let values: Vec<String> = (0..dimensions).map(|_| format!("{}.25", random.below(1000))).collect();
    format!("{}('[{}]')", if mysql { "STRING_TO_VECTOR" } else { "VEC_FromText" }, values.join(","))
}

fn json_value(random: &mut Random) -> String {
    let mut text = String::new();
    if random.one_in(8) {
        let depth = 1 + random.below(30);
        for _ in 0..depth {
            text.push('[');
        }
        json(random, &mut text, 0);
        for _ in 0..depth {
            text.push(']');
        }
    } else {
        json(random, &mut text, 3);
    }
    literal(&text)
}

fn json(random: &mut Random, out: &mut String, depth: u64) {
    match random.below(if depth == 0 { 8 } else { 11 }) {
        0 => out.push_str("null"),
        1 => out.push_str(word(random, &["true", "false"])),
        2 => out.push_str(word(
            random,
            &["0", "-1", "32767", "-32768", "65535", "70000", "2147483648", "-9223372036854775808", "18446744073709551615"],
        )),
        3 => out.push_str(word(
            random,
            &["1e2", "-0.0", "1.0", "0.1", "1e-7", "1.7976931348623157e308", "1e15", "1e16", "123456789.123456789", "99999999999999999999"],
        )),
        4 => out.push_str(&double_value(random, false)),
        5 => json_string(random, out),
        6 => out.push_str("\"\""),
        7 => out.push_str(&random.below(1 << 40).to_string()),
        8 | 9 => {
            let wide = random.one_in(12);
            let count = if wide { 3000 } else { random.below(5) };
            out.push('[');
            for n in 0..count {
                out.push_str(if n > 0 { ", " } else { "" });
                if wide { json_string(random, out) } else { json(random, out, depth - 1) }
            }
            out.push(']');
        }
        _ => {
            out.push('{');
            for n in 0..random.below(5) {
                out.push_str(if n > 0 { ", " } else { "" });
                json_string(random, out);
                out.push_str(": ");
                json(random, out, depth - 1);
            }
            out.push('}');
        }
    }
}

fn json_string(random: &mut Random, out: &mut String) {
    out.push('"');
    for _ in 0..random.below(12) {
        out.push_str(word(
            random,
            &["a", "b", "\\\"", "\\\\", "\\/", "\\n", "\\u0001", "\\u001f", "\\u00e9", "\\ud83d\\ude00", "é", "😀", " ", "\u{7f}"],
        ));
    }
    out.push('"');
}
