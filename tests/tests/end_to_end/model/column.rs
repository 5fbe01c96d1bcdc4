//! Columns of random tables: types, and values and defaults as a session writes them.

use tests::random::Random;

/// How a session's SQL is read.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    pub mariadb: bool,
    /// ANSI_QUOTES: double quotes are names.
    pub ansi: bool,
    /// NO_BACKSLASH_ESCAPES.
    pub backslashes: bool,
    /// Its statements are sent in latin1.
    pub latin1: bool,
}

impl Dialect {
    /// A name, in quotes where it needs them and sometimes where not.
    pub fn name(self, name: &str, random: &mut Random) -> String {
        let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) && !RESERVED.contains(&name);
        if plain && !random.one_in(4) {
            return name.to_owned();
        }
        let quote = if self.ansi && random.one_in(2) { '"' } else { '`' };
        format!("{quote}{}{quote}", name.replace(quote, &format!("{quote}{quote}")))
    }

    pub fn text(self, text: &str) -> String {
        let text = if self.backslashes { text.to_owned() } else { text.replace('\\', "\\\\") };
        format!("'{}'", text.replace('\'', "''"))
    }
}

/// Names of columns; a name is used again after it was dropped.
pub const NAMES: [&str; 14] = ["a", "b", "c", "d1", "order", "rank", "Größe", "x y", "point", "date", "select", "t`q", "instar", "comment"];
const RESERVED: [&str; 3] = ["order", "rank", "select"];
const LABELS: [&str; 8] = ["red", "Grün", "it's", "a b", "x", "y", "z", "back\\slash"];
const WORDS: [&str; 10] = ["", "a", "north ", " lead", "é ü ß", "it's", "back\\slash", "two\nlines", "tab\t;--", "NULL"];

#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Integer {
        name: &'static str,
        bits: u32,
        unsigned: bool,
    },
    Decimal {
        precision: u64,
        scale: u64,
    },
    Float,
    Double,
    Bit(u64),
    Year,
    Date,
    Time(u64),
    DateTime(u64),
    Timestamp(u64),
    Char(u64),
    VarChar {
        length: u64,
        charset: &'static str,
    },
    Text(&'static str),
    Binary(u64),
    VarBinary(u64),
    Blob(&'static str),
    /// So many of the labels.
    Enum(usize),
    Set(usize),
    Json,
    Uuid,
    Inet6,
}

const INTEGERS: [(&str, u32); 5] = [("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)];

impl Kind {
    pub fn any(dialect: Dialect, random: &mut Random) -> Kind {
        match random.below(if dialect.mariadb { 23 } else { 21 }) {
            0..4 => {
                let (name, bits) = *random.pick(&INTEGERS);
                Kind::Integer { name, bits, unsigned: random.one_in(3) }
            }
            4 => Kind::Decimal { precision: 4 + random.below(10), scale: random.below(4) },
            5 => Kind::Float,
            6 => Kind::Double,
            7 => Kind::Bit(1 + random.below(64)),
            8 => Kind::Year,
            9 => Kind::Date,
            10 => Kind::Time(random.below(7)),
            11 => Kind::DateTime(random.below(7)),
            12 => Kind::Timestamp(random.below(7)),
            13 => Kind::Char(1 + random.below(20)),
            14 | 15 => Kind::VarChar { length: 12 + random.below(300), charset: *random.pick(&["utf8mb4", "latin1", "utf8mb3", "ucs2"]) },
            16 => Kind::Text(*random.pick(&["TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"])),
            17 => Kind::Binary(1 + random.below(12)),
            18 => {
                if random.one_in(2) {
                    Kind::VarBinary(12 + random.below(40))
                } else {
                    Kind::Blob(*random.pick(&["TINYBLOB", "BLOB", "LONGBLOB"]))
                }
            }
            19 => {
                if random.one_in(2) {
                    Kind::Enum(1 + usize::try_from(random.below(6)).unwrap())
                } else {
                    Kind::Set(1 + usize::try_from(random.below(6)).unwrap())
                }
            }
            20 => Kind::Json,
            21 => Kind::Uuid,
            _ => Kind::Inet6,
        }
    }

    pub fn declared(&self, dialect: Dialect) -> String {
        let labels = |count: usize| LABELS[..count].iter().map(|label| dialect.text(label)).collect::<Vec<_>>().join(", ");
        let fraction = |digits: u64| if digits == 0 { String::new() } else { format!("({digits})") };
        match self {
            Kind::Integer { name, unsigned, .. } => format!("{name}{}", if *unsigned { " UNSIGNED" } else { "" }),
            Kind::Decimal { precision, scale } => format!("DECIMAL({precision},{scale})"),
            Kind::Float => "FLOAT".into(),
            Kind::Double => "DOUBLE".into(),
            Kind::Bit(length) => format!("BIT({length})"),
            Kind::Year => "YEAR".into(),
            Kind::Date => "DATE".into(),
            Kind::Time(digits) => format!("TIME{}", fraction(*digits)),
            Kind::DateTime(digits) => format!("DATETIME{}", fraction(*digits)),
            Kind::Timestamp(digits) => format!("TIMESTAMP{}", fraction(*digits)),
            Kind::Char(length) => format!("CHAR({length})"),
            Kind::VarChar { length, charset } => format!("VARCHAR({length}) CHARACTER SET {charset}"),
            Kind::Text(name) | Kind::Blob(name) => (*name).to_owned(),
            Kind::Binary(length) => format!("BINARY({length})"),
            Kind::VarBinary(length) => format!("VARBINARY({length})"),
            Kind::Enum(count) => format!("ENUM({})", labels(*count)),
            Kind::Set(count) => format!("SET({})", labels(*count)),
            Kind::Json => "JSON".into(),
            Kind::Uuid => "UUID".into(),
            Kind::Inet6 => "INET6".into(),
        }
    }

    /// A value that the column takes in a strict session.
    pub fn value(&self, dialect: Dialect, random: &mut Random) -> String {
        let fraction = |digits: u64, random: &mut Random| {
            if digits == 0 {
                String::new()
            } else {
                format!(".{}", &format!("{:06}", random.below(1_000_000))[..usize::try_from(digits).unwrap()])
            }
        };
        match self {
            Kind::Integer { bits, unsigned, .. } => integer(*bits, *unsigned, random),
            Kind::Decimal { precision, scale } => {
                let whole = random.below(10_u64.pow(u32::try_from(precision - scale).unwrap()));
                let digits = format!("{:04}", random.below(10_000));
                let point = if *scale == 0 { String::new() } else { format!(".{}", &digits[..usize::try_from(*scale).unwrap()]) };
                format!("{}{whole}{point}", if random.one_in(3) { "-" } else { "" })
            }
            Kind::Float => random.pick(&["0", "0.1", "-2.5", "16777216", "3.4e38", "1e-30", "123456.789"]).to_string(),
            Kind::Double => random
                .pick(&["0", "0.1", "-2.5", "9007199254740993", "1.7976931348623157e308", "1e-300", "0.30000000000000004"])
                .to_string(),
            Kind::Bit(length) => {
                let digits: String = (0..*length).map(|_| if random.one_in(2) { '1' } else { '0' }).collect();
                format!("b'{digits}'")
            }
            Kind::Year => random.pick(&["1901", "2024", "'2155'", "0"]).to_string(),
            Kind::Date => format!("'{}'", date(random)),
            Kind::Time(digits) => {
                let sign = if random.one_in(4) { "-" } else { "" };
                format!("'{sign}{}:{:02}:{:02}{}'", random.below(838), random.below(60), random.below(60), fraction(*digits, random))
            }
            Kind::DateTime(digits) => format!("'{} {}{}'", date(random), clock(random), fraction(*digits, random)),
            Kind::Timestamp(digits) => {
                format!("'{}-03-{:02} {}{}'", 1971 + random.below(66), 1 + random.below(28), clock(random), fraction(*digits, random))
            }
            Kind::Char(length) => dialect.text(&text(*length, dialect, random)),
            Kind::VarChar { length, charset } => {
                let wide = *charset == "utf8mb4" && !dialect.latin1 && random.one_in(4);
                dialect.text(&if wide { "🦋 ∑".to_owned() } else { text(*length, dialect, random) })
            }
            Kind::Text(_) => dialect.text(&text(60, dialect, random)),
            Kind::Binary(length) | Kind::VarBinary(length) => bytes(*length, random),
            Kind::Blob(_) => bytes(40, random),
            Kind::Enum(count) => dialect.text(random.pick::<&str>(&LABELS[..*count])),
            Kind::Set(count) => {
                let labels: Vec<&str> = LABELS[..*count].iter().copied().filter(|_| random.one_in(2)).collect();
                dialect.text(&labels.join(","))
            }
            Kind::Json => dialect.text(random.pick::<&str>(&[
                "null",
                "[]",
                "{\"a\": 1, \"é\": [true, null]}",
                "\"text\"",
                "-0.5",
                "12345678901234567890",
            ])),
            Kind::Uuid => format!("'00112233-4455-6677-8899-{:012x}'", random.below(1 << 40)),
            Kind::Inet6 => random.pick(&["'::'", "'::1'", "'2001:db8::ff'"]).to_string(),
        }
    }

    /// A literal after DEFAULT, in one of its forms. None: the server takes none for this type.
    pub fn default(&self, dialect: Dialect, random: &mut Random) -> Option<String> {
        let value = match self {
            Kind::Text(_) | Kind::Blob(_) | Kind::Json if !dialect.mariadb => return None,
            Kind::Integer { .. } | Kind::Decimal { .. } | Kind::Double if random.one_in(3) => format!("'{}'", self.value(dialect, random)),
            Kind::Integer { .. } if random.one_in(4) => random.pick(&["TRUE", "FALSE", "0x1F", "b'101'", "+7", "2.5", "1e1"]).to_string(),
            Kind::Decimal { .. } if random.one_in(4) => random.pick(&["1.005", "-0.5", "5e-1", "'0.25'"]).to_string(),
            Kind::Char(length) | Kind::VarChar { length, .. } if *length > 5 && random.one_in(3) => {
                random.pick(&["0x4142", "x'41'", "_latin1'abc'", "N'n'", "12", "1.50", "TRUE"]).to_string()
            }
            Kind::Binary(length) | Kind::VarBinary(length) if *length > 5 && random.one_in(3) => {
                random.pick(&["'ab'", "0x00FF00", "12"]).to_string()
            }
            Kind::Date if random.one_in(3) => random.pick(&["20240229", "'24-02-09'", "'2024.2.9'", "'20240209'"]).to_string(),
            Kind::DateTime(_) if random.one_in(3) => {
                random.pick(&["20240229010203", "'2024-02-09'", "'2024-02-09T01:02:03.123456'", "'24-2-9 1:2:3.5'"]).to_string()
            }
            Kind::Time(_) if random.one_in(3) => random.pick(&["101112", "'2 03:04:05'", "'-10:00'", "'1:2:3.987654'"]).to_string(),
            other => other.value(dialect, random),
        };
        // Brackets around a literal change nothing.
        Some(if random.one_in(6) { format!("({value})") } else { value })
    }

    /// Whether rows get a value that exists where the column is added NOT NULL without a default.
    pub fn has_implicit(&self) -> bool {
        !matches!(self, Kind::Date | Kind::DateTime(_) | Kind::Timestamp(_))
    }

    /// Whether the server itself gives rows another value where the column becomes NOT NULL: MariaDB writes its clock over NULL.
    pub fn nullable_only(&self) -> bool {
        matches!(self, Kind::Timestamp(_))
    }

    /// A type that the target changes to exactly.
    pub fn larger(&self, random: &mut Random) -> Option<Kind> {
        Some(match self {
            Kind::Integer { bits, unsigned, .. } => {
                let larger: Vec<&(&str, u32)> = INTEGERS.iter().filter(|(_, b)| b > bits).collect();
                if larger.is_empty() {
                    return None;
                }
                let (name, bits) = **random.pick(&larger);
                Kind::Integer { name, bits, unsigned: *unsigned }
            }
            // Also fewer digits behind the point: both sides round half away from zero.
            Kind::Decimal { precision, scale } => {
                let scale = if *scale > 0 && random.one_in(3) { scale - 1 } else { *scale };
                Kind::Decimal { precision: precision + 1 + random.below(3), scale }
            }
            Kind::Time(digits) if *digits < 6 => Kind::Time(digits + 1),
            Kind::DateTime(digits) if *digits < 6 => Kind::DateTime(6),
            Kind::Timestamp(digits) if *digits < 6 => Kind::Timestamp(digits + 1),
            Kind::Char(length) => Kind::Char(length + 1 + random.below(30)),
            Kind::VarChar { length, charset } => {
                Kind::VarChar { length: if random.one_in(4) { 12 } else { length + 1 + random.below(300) }, charset }
            }
            Kind::Text("TINYTEXT") => Kind::Text("TEXT"),
            Kind::Text("TEXT") => Kind::Text("LONGTEXT"),
            Kind::Blob("TINYBLOB") => Kind::Blob("MEDIUMBLOB"),
            Kind::VarBinary(length) => Kind::VarBinary(length + 1 + random.below(300)),
            Kind::Enum(count) if *count < LABELS.len() => Kind::Enum(count + 1),
            Kind::Set(count) if *count < LABELS.len() => Kind::Set(count + 1),
            _ => return None,
        })
    }
}

fn integer(bits: u32, unsigned: bool, random: &mut Random) -> String {
    let most = if unsigned { u64::MAX >> (64 - bits) } else { u64::MAX >> (65 - bits) };
    match random.below(6) {
        0 => most.to_string(),
        1 if !unsigned => format!("-{}", u128::from(most) + 1),
        2 if !unsigned => "-1".into(),
        _ => random.below(most.min(1000)).to_string(),
    }
}

fn date(random: &mut Random) -> String {
    match random.below(8) {
        0 => "9999-12-31".into(),
        1 => "1000-01-01".into(),
        2 => "2024-02-29".into(),
        _ => format!("{}-{:02}-{:02}", 1890 + random.below(200), 1 + random.below(12), 1 + random.below(28)),
    }
}

fn clock(random: &mut Random) -> String {
    format!("{:02}:{:02}:{:02}", random.below(24), random.below(60), random.below(60))
}

fn text(length: u64, dialect: Dialect, random: &mut Random) -> String {
    let word = random.pick(&WORDS);
    let word = if dialect.latin1 && !word.is_ascii() { "é" } else { word };
    word.chars().take(usize::try_from(length).unwrap()).collect()
}

fn bytes(length: u64, random: &mut Random) -> String {
    let count = random.below(length + 1);
    format!("x'{}'", (0..count).map(|_| format!("{:02X}", random.pick(&[0_u8, 0x20, 0x41, 0x80, 0xff]))).collect::<String>())
}
