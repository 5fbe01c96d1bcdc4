//! QUERY events: a statement and the settings it ran under.

use schemas::{
    charset::Charsets,
    ddl::mysql::{Context, Zone},
};

use super::{Malformed, compressed, cursor::Cursor};

/// MariaDB's flag for `explicit_defaults_for_timestamp`, and since when it is written: a session may have set its own.
const EXPLICIT: u32 = 1 << 24;
const EXPLICIT_IN_FLAGS: u32 = 100_609;

/// A statement as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub thread: u32,
    /// Not 0: the statement failed on the server, wholly or in part.
    pub error_code: u16,
    pub schema: String,
    pub text: Vec<u8>,
    /// The text's character set, once the settings are known.
    pub charset: String,
    pub status: Status,
}

/// The settings that the event carries; what it does not carry is as the server has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    pub sql_mode: Option<u64>,
    /// Collation ids: of the client's character set, of the connection, of the server.
    pub charset: Option<(u16, u16, u16)>,
    pub time_zone: Option<String>,
    /// Collation id of the default database.
    pub database_collation: Option<u16>,
    /// Collation id of utf8mb4's default.
    pub utf8mb4_collation: Option<u16>,
    pub explicit_defaults_for_timestamp: Option<bool>,
    /// Bits of the session's options.
    pub flags: Option<u32>,
    /// MariaDB: character set id and collation id pairs that differ from the server's.
    pub character_set_collations: Vec<(u16, u16)>,
}

/// Bytes between the head and the status variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Plain,
    /// MariaDB's QUERY_COMPRESSED.
    Compressed,
    /// EXECUTE_LOAD_QUERY.
    Load,
}

impl Query {
    pub fn read(body: &[u8], form: Form, mariadb: bool) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(body, "a QUERY event");
        let thread = cursor.u32()?;
        cursor.skip(4)?;
        let schema_length = usize::from(cursor.u8()?);
        let error_code = cursor.u16()?;
        let status_length = usize::from(cursor.u16()?);
        if form == Form::Load {
            cursor.skip(13)?;
        }
        let status = Status::read(cursor.take(status_length)?, mariadb)?;
        let schema = String::from_utf8_lossy(cursor.take(schema_length)?).into_owned();
        cursor.skip(1)?;
        let mut text = match form {
            Form::Plain | Form::Load => cursor.rest().to_vec(),
            Form::Compressed => compressed::event_part(cursor.rest())?,
        };
        while text.last() == Some(&0) {
            text.pop();
        }
        Ok(Self { thread, error_code, schema, text, charset: "utf8mb4".into(), status })
    }

    /// The statement's text for people, exact where it is valid in the client's character set.
    pub fn printed(&self, charsets: &Charsets) -> String {
        let text = charsets.decode(&self.charset, &self.text).unwrap_or_else(|| String::from_utf8_lossy(&self.text));
        text.into_owned()
    }

    /// `base` with what the event says, names of collations given by `collation` as (name, character set).
    pub fn context<'a>(&self, base: &Context, collation: impl Fn(u16) -> Option<(&'a str, &'a str)>) -> Context {
        let mut context = base.clone();
        context.default_database.clone_from(&self.schema);
        let status = &self.status;
        if let Some(mode) = status.sql_mode {
            context.sql_mode = mode;
        }
        if let Some((client, connection, server)) = status.charset {
            if let Some((_, charset)) = collation(client) {
                context.charset = charset.into();
            }
            if let Some((_, charset)) = collation(connection) {
                context.connection_charset = charset.into();
            }
            if let Some((name, _)) = collation(server) {
                context.server_collation = name.into();
            }
        }
        context.database_collation = status.database_collation.and_then(&collation).map(|(name, _)| name.into());
        if let Some((name, _)) = status.utf8mb4_collation.and_then(&collation) {
            context.charset_collations.insert("utf8mb4".into(), name.into());
        }
        for (_, id) in &status.character_set_collations {
            if let Some((name, charset)) = collation(*id) {
                context.charset_collations.insert(charset.into(), name.into());
            }
        }
        context.time_zone = match status.time_zone.as_deref() {
            Some("SYSTEM") => base.system_zone.clone(),
            Some(zone) => offset(zone).map_or(Zone::Unknown, Zone::Fixed),
            None => Zone::Unknown,
        };
        if let Some(flags) = status.flags.filter(|_| base.mariadb && base.version >= EXPLICIT_IN_FLAGS) {
            context.explicit_defaults_for_timestamp = flags & EXPLICIT != 0;
        }
        if let Some(explicit) = status.explicit_defaults_for_timestamp {
            context.explicit_defaults_for_timestamp = explicit;
        }
        context
    }
}

/// `+05:30` in seconds; None for names.
fn offset(zone: &str) -> Option<i32> {
    let (sign, rest) = match zone.as_bytes().first()? {
        b'+' => (1, &zone[1..]),
        b'-' => (-1, &zone[1..]),
        _ => return (zone == "UTC").then_some(0),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    Some(sign * (i32::from(hours) * 3600 + i32::from(minutes) * 60))
}

impl Status {
    /// Reads the variables in their order. An unknown one has no known length: those behind it are not read.
    fn read(bytes: &[u8], mariadb: bool) -> Result<Self, Malformed> {
        let mut status = Self::default();
        let mut cursor = Cursor::new(bytes, "a QUERY event's status variables");
        while !cursor.is_empty() {
            let code = cursor.u8()?;
            match code {
                0 => status.flags = Some(cursor.u32()?),
                1 => status.sql_mode = Some(cursor.u64()?),
                2 => {
                    let n = usize::from(cursor.u8()?);
                    cursor.skip(n + 1)?;
                }
                3 => cursor.skip(4)?,
                4 => status.charset = Some((cursor.u16()?, cursor.u16()?, cursor.u16()?)),
                5 => {
                    let n = usize::from(cursor.u8()?);
                    status.time_zone = Some(String::from_utf8_lossy(cursor.take(n)?).into_owned());
                }
                6 => {
                    let n = usize::from(cursor.u8()?);
                    cursor.skip(n)?;
                }
                7 => cursor.skip(2)?,
                8 => status.database_collation = Some(cursor.u16()?),
                9 | 14 => cursor.skip(8)?,
                10 => cursor.skip(4)?,
                11 => {
                    for _ in 0..2 {
                        let n = usize::from(cursor.u8()?);
                        cursor.skip(n)?;
                    }
                }
                12 => skip_databases(&mut cursor)?,
                13 => cursor.skip(3)?,
                16 => status.explicit_defaults_for_timestamp = Some(cursor.u8()? != 0),
                17 => cursor.skip(8)?,
                18 => status.utf8mb4_collation = Some(cursor.u16()?),
                19 => cursor.skip(1)?,
                20 => cursor.skip(1)?,
                // MariaDB's own: microseconds, transaction id, phases of ALTER, character_set_collations.
                128 if mariadb => cursor.skip(3)?,
                129 if mariadb => cursor.skip(8)?,
                130 if mariadb => {
                    if cursor.u8()? & 0x0c != 0 {
                        cursor.skip(8)?;
                    }
                }
                131 if mariadb => {
                    for _ in 0..cursor.u8()? {
                        status.character_set_collations.push((cursor.u16()?, cursor.u16()?));
                    }
                }
                _ => break,
            }
        }
        Ok(status)
    }
}

/// Names of the databases a statement updated; 254: too many to list.
fn skip_databases(cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
    let count = cursor.u8()?;
    if count == 254 {
        return Ok(());
    }
    for _ in 0..count {
        while cursor.u8()? != 0 {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use schemas::charset::Table;

    use super::*;

    fn body(status: &[u8], schema: &str, text: &[u8]) -> Vec<u8> {
        let mut body = vec![9, 0, 0, 0, 0, 0, 0, 0, schema.len() as u8, 0, 0];
        body.extend((status.len() as u16).to_le_bytes());
        body.extend(status);
        body.extend(schema.as_bytes());
        body.push(0);
        body.extend(text);
        body
    }

    #[test]
    fn a_statement_is_printed_in_the_clients_character_set() {
        let ascii = (0..0x80_u8).map(|byte| (vec![byte], char::from(byte)));
        let mut charsets = Charsets::default();
        charsets.add("sjis", Table::new(ascii.chain([(vec![0x83, b'e'], 'テ'), (vec![0x83, b'X'], 'ス')])));
        let text = |bytes: &[u8], charset: &str| {
            let mut query = Query::read(&body(&[], "shop", bytes), Form::Plain, false).unwrap();
            query.charset = charset.into();
            query.printed(&charsets)
        };
        assert_eq!(text("ALTER TABLE t ADD `Größe` INT".as_bytes(), "utf8mb4"), "ALTER TABLE t ADD `Größe` INT");
        assert_eq!(text(b"ALTER TABLE t ADD `Gr\xf6\xdfe` INT", "latin1"), "ALTER TABLE t ADD `Größe` INT");
        assert_eq!(text(b"ALTER TABLE t ADD `\x83e\x83X` INT", "sjis"), "ALTER TABLE t ADD `テス` INT");
        // What is not valid there is shown as it can be.
        assert_eq!(text(b"SET @a = '\xff'", "utf8mb4"), "SET @a = '\u{fffd}'");
    }

    #[test]
    fn a_statement_carries_its_own_settings() {
        let status = [
            &[0, 0, 0, 0, 1, 1, 4, 0, 0, 0, 0, 0, 0, 0, 6, 3, b's', b't', b'd', 4, 8, 0, 8, 0, 45, 0, 5, 6][..],
            b"+05:30",
            &[8, 8, 0, 200, 1],
        ]
        .concat();
        let query = Query::read(&body(&status, "shop", b"ALTER TABLE t ADD x INT\0"), Form::Plain, true).unwrap();
        assert_eq!((query.thread, query.printed(&Charsets::default())), (9, "ALTER TABLE t ADD x INT".into()));
        let context = query.context(&Context::new(true, 101_119), |id| match id {
            8 => Some(("latin1_swedish_ci", "latin1")),
            45 => Some(("utf8mb4_general_ci", "utf8mb4")),
            _ => None,
        });
        assert_eq!(context.sql_mode, 4);
        assert_eq!((context.charset.as_str(), context.server_collation.as_str()), ("latin1", "utf8mb4_general_ci"));
        assert_eq!(context.database_collation.as_deref(), Some("latin1_swedish_ci"));
        assert_eq!((context.time_zone, context.default_database.as_str()), (Zone::Fixed(19_800), "shop"));
        assert!(context.explicit_defaults_for_timestamp);
    }

    #[test]
    fn mariadb_says_in_a_flag_how_timestamps_are_meant() {
        let context = |flags: u8, base: Context| {
            let query = Query::read(&body(&[0, 0, 0, 0, flags], "shop", b"ALTER TABLE t ADD x TIMESTAMP"), Form::Plain, true).unwrap();
            query.context(&base, |_| None).explicit_defaults_for_timestamp
        };
        assert!(context(1, Context::new(true, 101_119)));
        assert!(!context(0, Context::new(true, 101_119)));
        // Before it was a session's own, the server's setting counts; MySQL has a variable of its own.
        assert!(context(0, Context::new(true, 100_600)));
        assert!(context(0, Context::new(false, 80_035)));
    }

    #[test]
    fn a_named_time_zone_gives_no_offset() {
        assert_eq!((offset("Europe/Vienna"), offset("-03:00"), offset("UTC")), (None, Some(-10_800), Some(0)));
        assert_eq!((offset("+2147483647:00"), offset("+00:2147483647"), offset("+-5:00")), (None, None, None));
    }

    #[test]
    fn a_cut_event_is_an_error() {
        let whole = body(&[1, 4], "", b"X");
        assert!(Query::read(&whole, Form::Plain, false).is_err());
    }
}
