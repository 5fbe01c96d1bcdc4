//! One event of the log, as the stream takes it from the wire.

use super::decode::gtid::MySqlGtid;

/// One event of the log.
#[derive(Debug, Clone)]
pub struct Event {
    pub kind: u8,
    pub flags: u16,
    pub timestamp: u32,
    pub server_id: u32,
    /// Of the header: where the next event begins, the lower 32 bits; 0 for artificial events.
    pub log_pos: u32,
    /// With the header.
    pub size: u32,
    /// Out of a compressed transaction: its positions say nothing.
    pub unpacked: bool,
    pub body: Vec<u8>,
    /// Of tagged GTID events, which the library reads.
    pub tagged: Option<MySqlGtid>,
}

/// Bytes of a header.
pub const HEADER: usize = 19;

/// What stands before the body of every event.
#[derive(Debug, Clone, Copy)]
pub struct Header {
    pub timestamp: u32,
    pub kind: u8,
    pub server_id: u32,
    pub size: u32,
    pub log_pos: u32,
    pub flags: u16,
}

impl Header {
    pub fn read(bytes: &[u8; HEADER]) -> Self {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self {
            timestamp: number(0),
            kind: bytes[4],
            server_id: number(5),
            size: number(9),
            log_pos: number(13),
            flags: u16::from_le_bytes([bytes[17], bytes[18]]),
        }
    }

    /// The event with this body.
    pub fn event(self, body: Vec<u8>) -> Event {
        let Self { timestamp, kind, server_id, size, log_pos, flags } = self;
        Event { kind, flags, timestamp, server_id, log_pos, size, unpacked: false, body, tagged: None }
    }
}

/// The header's flag for events that may be passed over where they are not known.
pub const IGNORABLE: u16 = 0x80;

/// The offset in full whose lower 32 bits the header has.
pub fn behind(offset: u64, log_pos: u32) -> u64 {
    let candidate = (offset & !0xffff_ffff) | u64::from(log_pos);
    if candidate < offset && offset - candidate > 1 << 31 { candidate.saturating_add(1 << 32) } else { candidate }
}

/// Event types of the log.
pub mod kind {
    pub const QUERY: u8 = 2;
    pub const ROTATE: u8 = 4;
    pub const FORMAT_DESCRIPTION: u8 = 15;
    pub const XID: u8 = 16;
    pub const EXECUTE_LOAD_QUERY: u8 = 18;
    pub const TABLE_MAP: u8 = 19;
    pub const INCIDENT: u8 = 26;
    pub const HEARTBEAT: u8 = 27;
    pub const GTID: u8 = 33;
    pub const ANONYMOUS_GTID: u8 = 34;
    pub const XA_PREPARE: u8 = 38;
    pub const TRANSACTION_PAYLOAD: u8 = 40;
    pub const HEARTBEAT_V2: u8 = 41;
    pub const GTID_TAGGED: u8 = 42;
    pub const MARIADB_GTID: u8 = 162;
    pub const QUERY_COMPRESSED: u8 = 165;

    /// Types that say nothing about rows or shapes: stop, the parts of statement-format loads and variables (their statement
    /// follows), queries as text, previous GTIDs, group replication's own, annotations, checkpoints, lists of GTIDs, encryption,
    /// and the shell of a compressed transaction, whose events come one by one.
    pub const WITHOUT_CONTENT: [u8; 18] =
        [3, 5, 9, 11, 13, 14, FORMAT_DESCRIPTION, 17, 28, 29, 35, 36, 37, TRANSACTION_PAYLOAD, 160, 161, 163, 164];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_go_on_where_the_header_wraps() {
        assert_eq!(behind(100, 200), 200);
        assert_eq!(behind(0xffff_fff0, 16), 0x1_0000_0010);
        assert_eq!(behind(0x1_0000_0010, 32), 0x1_0000_0020);
    }
}
