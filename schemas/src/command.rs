//! Operator commands, as the commands topic holds them: one JSON object a record.

use crate::table::TableId;
use serde::{Deserialize, Serialize};

/// What a person asks of the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Empties the table on the sinks and copies it anew.
    Reload {
        /// `database.table`; None: all captured tables.
        #[serde(default)]
        table: Option<String>,
        /// For this sink alone.
        #[serde(default)]
        sink: Option<String>,
    },
    Pause,
    Resume,
    /// The statement that the source stands at had no effect on this table.
    Accept {
        /// `database.table`; None: all tables that the statement may touch.
        #[serde(default)]
        table: Option<String>,
        /// The position that the source stands at: one that stands elsewhere by then passes the command over. None: wherever it is.
        #[serde(default)]
        at: Option<String>,
        /// Who says so.
        #[serde(default)]
        by: Option<String>,
    },
}

impl Command {
    /// Reads a record; the error says what is wrong with it.
    pub fn parse(record: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(record).map_err(|e| e.to_string())
    }

    /// Whether it asks for a reload of this table.
    pub fn reloads(&self, id: &TableId) -> bool {
        match self {
            Command::Reload { table, .. } => table.as_ref().is_none_or(|name| *name == id.to_string()),
            Command::Pause | Command::Resume | Command::Accept { .. } => false,
        }
    }

    /// The record's bytes.
    pub fn to_record(&self) -> Vec<u8> {
        // Strings only: cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_read_as_documented() {
        let reload = Command::parse(br#"{"command":"reload","table":"shop.orders","sink":null}"#);
        assert_eq!(reload, Ok(Command::Reload { table: Some("shop.orders".into()), sink: None }));
        assert_eq!(Command::parse(br#"{"command":"pause"}"#), Ok(Command::Pause));
        assert_eq!(Command::parse(br#"{"command":"accept"}"#), Ok(Command::Accept { table: None, at: None, by: None }));
        assert!(Command::parse(b"{}").is_err());
    }

    #[test]
    fn every_command_comes_back() {
        for command in [
            Command::Reload { table: None, sink: Some("warehouse".into()) },
            Command::Pause,
            Command::Resume,
            Command::Accept { table: Some("a.b".into()), at: Some("binlog.1:4".into()), by: Some("ann".into()) },
        ] {
            assert_eq!(Command::parse(&command.to_record()), Ok(command));
        }
    }
}
