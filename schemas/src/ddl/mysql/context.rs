//! The settings a statement was written under.

use std::{collections::BTreeMap, sync::Arc};

use crate::{charset::Charsets, table::TableId};

/// Bits of `sql_mode`, as the log's status variable carries them.
pub mod mode {
    pub const REAL_AS_FLOAT: u64 = 1;
    pub const ANSI_QUOTES: u64 = 1 << 2;
    pub const ORACLE: u64 = 1 << 9;
    pub const MAXDB: u64 = 1 << 12;
    pub const NO_BACKSLASH_ESCAPES: u64 = 1 << 20;
    pub const STRICT_TRANS_TABLES: u64 = 1 << 21;
    pub const STRICT_ALL_TABLES: u64 = 1 << 22;
    /// MySQL: fractions of seconds are cut.
    pub const TIME_TRUNCATE_FRACTIONAL: u64 = 1 << 32;
    /// MariaDB: an empty string is NULL. The same bit as MySQL's [`TIME_TRUNCATE_FRACTIONAL`].
    pub const EMPTY_STRING_IS_NULL: u64 = 1 << 32;
    /// MariaDB: fractions of seconds are rounded.
    pub const TIME_ROUND_FRACTIONAL: u64 = 1 << 34;
}

/// A session's time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Zone {
    /// Seconds east of UTC, always.
    Fixed(i32),
    /// As the server itself has it, day by day.
    Days(Arc<Days>),
    /// One whose instants are not known here.
    Unknown,
}

/// Seconds east of UTC of whole days by the local calendar. The days on which they change are not among them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Days {
    /// The first day of each run of days, counted from 1970-01-01, with its offset where it has one.
    runs: Vec<(i64, Option<i32>)>,
}

impl Days {
    /// Of the offsets at the midnights from the day `first` on.
    pub fn new(first: i64, midnights: &[Option<i32>]) -> Self {
        let mut runs: Vec<(i64, Option<i32>)> = Vec::new();
        let whole = midnights.windows(2).map(|pair| pair[0].filter(|_| pair[0] == pair[1]));
        for (day, offset) in (first..).zip(whole.chain([None])) {
            if runs.last().is_none_or(|(_, last)| *last != offset) {
                runs.push((day, offset));
            }
        }
        Self { runs }
    }

    fn offset(&self, day: i64) -> Option<i32> {
        let next = self.runs.partition_point(|(first, _)| *first <= day);
        self.runs[..next].last().and_then(|(_, offset)| *offset)
    }
}

impl Zone {
    /// Seconds east of UTC during the whole of a local day, counted from 1970-01-01.
    pub(super) fn offset(&self, day: i64) -> Option<i32> {
        match self {
            Zone::Fixed(seconds) => Some(*seconds),
            Zone::Days(days) => days.offset(day),
            Zone::Unknown => None,
        }
    }
}

/// What a statement's meaning depends on besides its text, as its event carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    pub mariadb: bool,
    /// The server's version as one number: 101119 is 10.11.19, 80035 is 8.0.35.
    pub version: u32,
    /// Bits of [`mode`].
    pub sql_mode: u64,
    /// `character_set_client`: what the statement's bytes are.
    pub charset: String,
    /// The character set of `collation_connection`: what string literals become.
    pub connection_charset: String,
    /// The server's character sets.
    pub charsets: Arc<Charsets>,
    /// What unqualified names belong to; empty where the session had none.
    pub default_database: String,
    pub server_collation: String,
    /// Default collation of the default database (status variable 8), where the event has it.
    pub database_collation: Option<String>,
    /// Default collations of other databases, where they are known.
    pub database_collations: BTreeMap<String, String>,
    /// Default collations of character sets where the session's own differ from the server's: `default_collation_for_utf8mb4`,
    /// `character_set_collations`.
    pub charset_collations: BTreeMap<String, String>,
    pub time_zone: Zone,
    /// What SYSTEM is on this server.
    pub system_zone: Zone,
    pub lower_case_table_names: u8,
    pub explicit_defaults_for_timestamp: bool,
}

impl Context {
    /// A session with the server's usual settings, in UTF-8 and UTC, without a default database.
    pub fn new(mariadb: bool, version: u32) -> Self {
        Self {
            mariadb,
            version,
            sql_mode: mode::STRICT_TRANS_TABLES,
            charset: "utf8mb4".into(),
            connection_charset: "utf8mb4".into(),
            charsets: Arc::default(),
            default_database: String::new(),
            server_collation: if mariadb { "utf8mb4_general_ci" } else { "utf8mb4_0900_ai_ci" }.into(),
            database_collation: None,
            database_collations: BTreeMap::new(),
            charset_collations: BTreeMap::new(),
            time_zone: Zone::Fixed(0),
            system_zone: Zone::Unknown,
            lower_case_table_names: 0,
            explicit_defaults_for_timestamp: true,
        }
    }

    pub(super) fn has(&self, bit: u64) -> bool {
        self.sql_mode & bit != 0
    }

    pub(super) fn strict(&self) -> bool {
        self.has(mode::STRICT_TRANS_TABLES | mode::STRICT_ALL_TABLES)
    }

    /// A table's identity from a name as written.
    pub(super) fn table(&self, database: Option<String>, name: String) -> TableId {
        let database = database.filter(|d| !d.is_empty()).unwrap_or_else(|| self.default_database.clone());
        if self.lower_case_table_names == 1 {
            TableId::new(database.to_lowercase(), name.to_lowercase())
        } else {
            TableId::new(database, name)
        }
    }

    /// The default collation of a database, where it is known.
    pub(super) fn collation_of(&self, database: &str) -> Option<&str> {
        let own = if database == self.default_database { self.database_collation.as_deref() } else { None };
        own.or_else(|| self.database_collations.get(database).map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_on_which_the_offset_changes_has_none() {
        let [winter, summer] = [Some(3600), Some(7200)];
        let days = Days::new(10, &[winter, winter, winter, summer, summer, winter]);
        let offsets: Vec<Option<i32>> = (9..17).map(|day| days.offset(day)).collect();
        assert_eq!(offsets, [None, winter, winter, None, summer, None, None, None]);
        assert_eq!(Days::new(0, &[]).offset(0), None);
    }
}
