//! The log as the servers' files have it: one byte of settings, then events with their heads.

use std::sync::{Arc, OnceLock};

use schemas::{
    charset::{Charsets, Table},
    ddl::mysql::{Context, Parsed, parse},
    table::TableId,
    wire::row::RowSchema,
};

use crate::{
    engine::{Entry, Position as _, Row, RowSink},
    error::CaptureError,
    mysql::{
        decode::{
            collation::Collations,
            plan::{Fields, Plan},
            query::{Form, Query},
            rows::Encoder,
        },
        event::{Event, kind},
        group::Groups,
        mapping::Mapping,
        position::Position,
        server::Server,
    },
    row,
};

/// Bytes of an event's head.
pub const HEAD: usize = 19;
/// Bits of the first byte.
const MARIADB: u8 = 1;
const CHECKSUMS: u8 = 2;
const AS_TEXT: u8 = 4;
const MAGIC: &[u8] = b"\xfebin";

/// Where each event begins and ends. The last one may be cut.
pub fn places(input: &[u8]) -> Vec<(usize, usize)> {
    let mut at = 1 + if input.get(1..).is_some_and(|rest| rest.starts_with(MAGIC)) { MAGIC.len() } else { 0 };
    let mut places = Vec::new();
    while let Some(head) = input.get(at..at + HEAD) {
        let size = u32::from_le_bytes([head[9], head[10], head[11], head[12]]) as usize;
        let end = at.saturating_add(size.max(HEAD)).min(input.len());
        places.push((at, end));
        at = end;
    }
    places
}

fn event(bytes: &[u8], checksum: usize) -> Event {
    let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let body = &bytes[HEAD..];
    Event {
        kind: bytes[4],
        flags: u16::from_le_bytes([bytes[17], bytes[18]]),
        timestamp: number(0),
        server_id: number(5),
        log_pos: number(13),
        size: number(9),
        unpacked: false,
        body: body[..body.len().saturating_sub(checksum)].to_vec(),
        tagged: None,
    }
}

fn server(mariadb: bool) -> Server {
    let mut collations = Collations::default();
    for (id, name, charset) in [
        (8, "latin1_swedish_ci", "latin1"),
        (9, "latin2_general_ci", "latin2"),
        (11, "ascii_general_ci", "ascii"),
        (28, "gbk_chinese_ci", "gbk"),
        (33, "utf8mb3_general_ci", "utf8mb3"),
        (45, "utf8mb4_general_ci", "utf8mb4"),
        (46, "utf8mb4_bin", "utf8mb4"),
        (51, "cp1251_general_ci", "cp1251"),
        (54, "utf16_general_ci", "utf16"),
        (63, "binary", "binary"),
        (255, "utf8mb4_0900_ai_ci", "utf8mb4"),
    ] {
        collations.add(id, name, charset);
    }
    let mut charsets = Charsets::default();
    for (name, last) in [("latin1", 0xff), ("latin2", 0x7f), ("cp1251", 0x7f)] {
        charsets.add(name, Table::new((0..=last).map(|byte| (vec![byte], char::from(byte)))));
    }
    let version = if mariadb { 101_119 } else { 90_704 };
    let mut context = Context::new(mariadb, version);
    context.database_collations.insert("fuzz".into(), "utf8mb4_general_ci".into());
    context.database_collations.insert("recorded".into(), "utf8mb4_general_ci".into());
    Server { mariadb, version, identity: "1".into(), gtids: true, full_metadata: true, collations, charsets: Arc::new(charsets), context }
}

/// Checks every row that it is given.
struct Checked<'a> {
    rows: &'a RowSchema,
    seen: u64,
    /// Of all that was given, so that two readings can be compared.
    digest: u64,
}

impl Checked<'_> {
    fn digest(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl RowSink for Checked<'_> {
    fn row(&mut self, row: Row<'_>) -> Result<(), CaptureError> {
        row::check(&row::fields(&self.rows.key), row.key);
        self.digest(row.key);
        for image in [row.before, row.after].into_iter().flatten() {
            row::check(&row::fields(&self.rows.fields), image);
            self.digest(image);
        }
        Ok(())
    }

    fn end(&mut self) {
        self.seen += 1;
    }
}

/// What a reading of a log came to.
#[derive(Debug, Default, PartialEq)]
pub struct Told {
    pub rows: u64,
    pub digest: u64,
    pub entries: u64,
    pub position: String,
    pub ended: Option<String>,
}

/// Reads a log as the stream does, capturing every table of its statements, until it fails or stands.
pub fn read(input: &[u8]) -> Told {
    let settings = input.first().copied().unwrap_or_default();
    let mariadb = settings & MARIADB != 0;
    let checksum = if settings & CHECKSUMS != 0 { 4 } else { 0 };
    static SERVERS: [OnceLock<Arc<Server>>; 2] = [OnceLock::new(), OnceLock::new()];
    let server = SERVERS[usize::from(mariadb)].get_or_init(|| Arc::new(server(mariadb)));
    let mapping = if settings & AS_TEXT == 0 {
        Mapping::default()
    } else {
        let types = ["int", "bigint", "mediumint", "decimal", "date", "time", "datetime", "timestamp", "year", "uuid"];
        Mapping::new(&types.iter().map(|name| ((*name).to_owned(), "string".to_owned())).collect())
    };
    let from = if mariadb { "mariadb gtid= server=1 file=binlog.000001:4" } else { "mysql gtid= server=1 file=binlog.000001:4" };
    let from = Position::parse(from).unwrap_or_else(|error| panic!("{error}"));
    let mut groups = Groups::new(Arc::clone(server), false, from, Vec::new(), mapping, std::env::temp_dir());
    let mut told = Told::default();
    for (begin, end) in places(input) {
        let event = event(&input[begin..end], checksum);
        let made = tables(&event, server);
        if let Err(error) = groups.event(event, 0) {
            told.ended = Some(error.to_string());
            break;
        }
        if let Err(error) = take(&mut groups, &server.charsets, &mut told) {
            told.ended = Some(error.to_string());
            break;
        }
        if groups.resume().is_some() {
            told.ended = Some("stands".into());
            break;
        }
        let fresh = made.into_iter().filter(|id| !groups.shapes.follows(id));
        let fresh = fresh.filter_map(|id| groups.shapes.shape(&id).cloned()).collect();
        groups.shapes.capture(fresh);
    }
    told.position = groups.position().to_string();
    let again = Position::parse(&told.position).unwrap_or_else(|error| panic!("{} is not read back: {error}", told.position));
    assert_eq!(again, *groups.position());
    told
}

/// Tables that a statement names.
fn tables(event: &Event, server: &Server) -> Vec<TableId> {
    let form = match event.kind {
        kind::QUERY => Form::Plain,
        kind::QUERY_COMPRESSED => Form::Compressed,
        _ => return Vec::new(),
    };
    let Ok(query) = Query::read(&event.body, form, server.mariadb) else { return Vec::new() };
    match parse(&query.text, &server.context(&query)) {
        Parsed::Tables(statement) => statement.tables(),
        Parsed::Nothing | Parsed::Transaction(_) | Parsed::RowChange { .. } | Parsed::Unknown { .. } => Vec::new(),
    }
}

fn take(groups: &mut Groups, charsets: &Charsets, told: &mut Told) -> Result<(), CaptureError> {
    while let Some(entry) = groups.pop()? {
        told.entries += 1;
        let Entry::Rows { rows, .. } = entry else { continue };
        // A statement behind rows of the same group may have moved the shape on: the stream would have stood.
        let Some(shape) = groups.shapes.shape(&rows.map.table).cloned() else { continue };
        if shape.columns.len() != rows.map.columns.len() {
            continue;
        }
        let schema = RowSchema::new(&shape);
        let Ok(fields) = Fields::new(&shape, &schema, charsets) else { continue };
        let plan = Plan::new(fields, rows.map.columns.iter().map(|column| column.physical));
        let mut sink = Checked { rows: &schema, seen: 0, digest: told.digest };
        let count = Encoder::default().encode(&rows, 0, &plan, &mut sink)?;
        assert_eq!(sink.seen, count);
        (told.rows, told.digest) = (told.rows + count, sink.digest);
        // Beginning behind the first row gives the others.
        let mut later = Checked { rows: &schema, seen: 0, digest: 0 };
        assert_eq!(Encoder::default().encode(&rows, 1, &plan, &mut later)?, count);
        assert_eq!(later.seen, count.saturating_sub(1));
    }
    Ok(())
}
