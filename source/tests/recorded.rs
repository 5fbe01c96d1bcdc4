//! Log files as the servers wrote them: the pure part of the engine reads them, whole, cut and bent.
//!
//! The statements behind both files: CREATE TABLE t; one transaction of two inserts and an update; ALTER TABLE; an insert; a delete;
//! an XA transaction that is prepared and rolled back.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use schemas::{
    charset::Charsets,
    ddl::mysql::Context,
    table::TableId,
    wire::{codec::put_long, envelope::Op, row::RowSchema},
};
use source::{
    engine::{Entry, Position as _, Row, RowSink},
    error::CaptureError,
    mysql::{
        decode::{
            collation::Collations,
            plan::{Fields, Plan},
            rows::Encoder,
        },
        event::Event,
        group::Groups,
        mapping::Mapping,
        position::Position,
        server::Server,
    },
};

const MARIADB: &[u8] = include_bytes!("data/mariadb-10.11.binlog");
const MYSQL: &[u8] = include_bytes!("data/mysql-9.7.binlog");

fn events(file: &[u8]) -> Vec<Event> {
    assert_eq!(&file[..4], b"\xfebin");
    let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut events) = (4, Vec::new());
    while at < file.len() {
        let size = number(at + 9);
        events.push(Event {
            kind: file[at + 4],
            flags: u16::from_le_bytes(file[at + 17..at + 19].try_into().unwrap()),
            timestamp: number(at),
            server_id: number(at + 5),
            log_pos: number(at + 13),
            size,
            unpacked: false,
            // Without header and checksum.
            body: file[at + 19..at + size as usize - 4].to_vec(),
            tagged: None,
        });
        at += size as usize;
    }
    events
}

fn groups(mariadb: bool) -> Groups {
    let from = if mariadb { "mariadb gtid= server=1 file=binlog.000006:4" } else { "mysql gtid= server=1 file=binlog.000005:4" };
    groups_from(mariadb, from)
}

fn groups_from(mariadb: bool, from: &str) -> Groups {
    groups_of(mariadb, from, true)
}

fn groups_of(mariadb: bool, from: &str, full_metadata: bool) -> Groups {
    let mut collations = Collations::default();
    for (id, name, charset) in [
        (8, "latin1_swedish_ci", "latin1"),
        (33, "utf8mb3_general_ci", "utf8mb3"),
        (45, "utf8mb4_general_ci", "utf8mb4"),
        (255, "utf8mb4_0900_ai_ci", "utf8mb4"),
        (63, "binary", "binary"),
    ] {
        collations.add(id, name, charset);
    }
    let mut context = Context::new(mariadb, if mariadb { 101_119 } else { 90_704 });
    // The event names the database's collation only where the session had set another one.
    context.database_collations.insert("recorded".into(), "utf8mb4_general_ci".into());
    let server = Server {
        mariadb,
        version: if mariadb { 101_119 } else { 90_704 },
        identity: "1".into(),
        gtids: true,
        full_metadata,
        collations,
        charsets: Arc::default(),
        context,
    };
    Groups::new(Arc::new(server), full_metadata, Position::parse(from).unwrap(), Vec::new(), Mapping::default(), std::env::temp_dir())
}

#[derive(Debug, Default)]
struct Seen(Vec<(Op, Vec<u8>, Option<Vec<u8>>)>);

impl RowSink for Seen {
    fn row(&mut self, row: Row<'_>) -> Result<(), CaptureError> {
        self.0.push((row.op, row.key.to_vec(), row.after.map(<[u8]>::to_vec)));
        Ok(())
    }
}

/// What a log says: rows and statements in order, the last position, where it stands.
#[derive(Debug, Default)]
struct Told {
    rows: Seen,
    statements: Vec<String>,
    position: String,
    stand: Option<String>,
}

/// Feeds events; `t` is captured as soon as it exists.
fn feed(mariadb: bool, events: &[Event]) -> Result<Told, CaptureError> {
    feed_to(groups(mariadb), events)
}

fn feed_to(mut groups: Groups, events: &[Event]) -> Result<Told, CaptureError> {
    let id = TableId::new("recorded", "t");
    let mut told = Told::default();
    let mut encoder = Encoder::default();
    let mut shape = None;
    for event in events {
        groups.event(event.clone(), 0)?;
        while let Some(entry) = groups.pop()? {
            match entry {
                Entry::Rows { rows, .. } => {
                    let Some(shape) = &shape else { continue };
                    let fields = Fields::new(shape, &RowSchema::new(shape), &Charsets::default()).map_err(CaptureError::Transport)?;
                    if fields.columns == rows.map.columns.len() {
                        let plan = Plan::new(fields, rows.map.columns.iter().map(|column| column.physical));
                        encoder.encode(&rows, 0, &plan, &mut told.rows)?;
                    }
                }
                Entry::Statement(statement) => {
                    shape = Some(statement.tables[0].shape.clone());
                    told.statements.push(statement.ddl);
                }
                Entry::Commit { position, .. } | Entry::Idle { position, .. } => told.position = position.to_string(),
                Entry::Stand { message, .. } => {
                    told.stand = Some(message);
                    return Ok(told);
                }
            }
        }
        if shape.is_none()
            && let Some(known) = groups.shapes.shape(&id).cloned()
        {
            groups.shapes.capture(vec![known.clone()]);
            shape = Some(known);
        }
    }
    Ok(told)
}

#[test]
fn recorded_logs_give_their_rows_and_statements_in_order() {
    for (mariadb, file) in [(true, MARIADB), (false, MYSQL)] {
        let told = feed(mariadb, &events(file)).unwrap();
        let ops: Vec<(Op, u8)> = told.rows.0.iter().map(|(op, key, _)| (*op, key[0] / 2)).collect();
        assert_eq!(ops, [(Op::Create, 1), (Op::Create, 2), (Op::Update, 1), (Op::Create, 3), (Op::Delete, 2)]);
        // 1, 'één', 1.50, 2024-02-29 12:34:56.789, 'b'.
        let mut first = [&[2, 2, 10][..], "één".as_bytes(), &[4, 0, 150, 2]].concat();
        put_long(&mut first, 1_709_210_096_789_000);
        first.extend([2, 2, b'b']);
        assert_eq!(told.rows.0[0].2.as_deref(), Some(&first[..]));
        // 2, NULL, -0.01, NULL, NULL.
        assert_eq!(told.rows.0[1].2.as_deref(), Some(&[4, 0, 2, 255, 0, 0][..]));
        assert_eq!(told.statements, ["ALTER TABLE t ADD COLUMN note TEXT"]);
        // The rows of the XA transaction were rolled back.
        assert_eq!(told.stand, None);
        let gtid = if mariadb { "mariadb gtid=0-1-" } else { "mysql gtid=" };
        assert!(told.position.starts_with(gtid), "{}", told.position);
    }
}

/// Whatever the bytes are, the answer is an entry or an error: never a panic.
#[test]
fn cut_and_bent_events_are_errors_or_stands() {
    for (mariadb, file) in [(true, MARIADB), (false, MYSQL)] {
        let whole = events(file);
        for i in 0..whole.len() {
            let mut some = whole[..=i].to_vec();
            let body = whole[i].body.clone();
            for at in 0..body.len() {
                some[i].body = body[..at].to_vec();
                let _ = feed(mariadb, &some);
                for bent in [0xff, 0, body[at] ^ 0x80, body[at].wrapping_add(1)] {
                    some[i].body.clone_from(&body);
                    some[i].body[at] = bent;
                    let _ = feed(mariadb, &some);
                }
            }
        }
    }
}

/// A group whose end is missing, as after a compressed transaction that could not be unpacked, is not passed over.
#[test]
fn a_group_without_an_end_stops() {
    for (mariadb, file, xid) in [(true, MARIADB, 16), (false, MYSQL, 16)] {
        let mut some = events(file);
        let end = some.iter().position(|event| event.kind == xid).unwrap();
        some.remove(end);
        let error = feed(mariadb, &some).unwrap_err().to_string();
        assert!(error.contains("a group of the log does not end before the next begins"), "{error}");
    }
}

fn without_end(file: &[u8]) -> (Vec<Event>, usize) {
    let mut some = events(file);
    let end = some.iter().position(|event| event.kind == 16).unwrap();
    some.remove(end);
    (some, end)
}

/// The server died while it wrote a group: the next file begins, and the group was taken back.
#[test]
fn a_group_that_ends_with_its_file_was_taken_back() {
    for (mariadb, file) in [(true, MARIADB), (false, MYSQL)] {
        let (mut some, end) = without_end(file);
        let head = some[0].clone();
        assert_eq!((head.kind, head.log_pos == 0), (15, false));
        // The head that is sent before the middle of a file says nothing.
        some.insert(end, Event { log_pos: 0, ..head.clone() });
        assert!(feed(mariadb, &some).is_err());
        some[end] = head;
        let told = feed(mariadb, &some).unwrap();
        let ops: Vec<(Op, u8)> = told.rows.0.iter().map(|(op, key, _)| (*op, key[0] / 2)).collect();
        assert_eq!(ops, [(Op::Create, 3), (Op::Delete, 2)]);
    }
}

/// The head of a new file lies behind a reader on a quiet server too.
#[test]
fn a_heartbeat_moves_the_place_behind_what_has_no_content() {
    let mut groups = groups_from(false, "binlog server=1 file=binlog.000005:4");
    let head: Vec<Event> = events(MYSQL).into_iter().take_while(|event| event.kind != 33).collect();
    let end = head.last().unwrap().log_pos;
    assert!(end > 4);
    for event in &head {
        groups.event(event.clone(), 0).unwrap();
    }
    assert!(groups.pop().unwrap().is_none());
    groups.event(Event { kind: 27, body: Vec::new(), log_pos: end, ..head[0].clone() }, 77).unwrap();
    match groups.pop().unwrap() {
        Some(Entry::Idle { position, ts_ms: 77 }) => assert_eq!(position.to_string(), format!("binlog server=1 file=binlog.000005:{end}")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_accepted_statement_is_passed_and_the_next_rows_must_agree() {
    for (mariadb, file) in [(true, MARIADB), (false, MYSQL)] {
        let mut some = events(file);
        let is_alter = |event: &Event| event.kind == 2 && event.body.windows(5).any(|w| w == b"ALTER");
        let alter = some.iter().position(is_alter).unwrap();
        let at = some[alter].body.windows(4).position(|w| w == b"ADD ").unwrap();
        some[alter].body[at..at + 3].copy_from_slice(b"ODD");
        let id = TableId::new("recorded", "t");
        let mut groups = groups(mariadb);
        for event in &some[..=alter] {
            groups.event(event.clone(), 0).unwrap();
            if let Some(known) = groups.shapes.shape(&id).cloned().filter(|_| !groups.shapes.follows(&id)) {
                groups.shapes.capture(vec![known]);
            }
        }
        let stands = |groups: &mut Groups| {
            let mut last = None;
            while let Some(entry) = groups.pop().unwrap() {
                last = Some(entry);
            }
            match last {
                Some(Entry::Stand { tables, .. }) => Ok(tables),
                other => Err(other.map(|entry| matches!(entry, Entry::Idle { .. }))),
            }
        };
        assert_eq!(stands(&mut groups).unwrap(), std::slice::from_ref(&id));
        // As `accept` does: skipped up to where the stream stands.
        let (shape, here) = (groups.shapes.shape(&id).cloned().unwrap(), groups.position().clone());
        groups.skip(shape, here.clone());
        assert!(groups.shapes.follows(&id), "rows are not passed over");
        let standing = groups.resume().unwrap();
        groups.event(standing, 0).unwrap();
        assert_eq!(stands(&mut groups).unwrap_err(), Some(true));
        assert!(groups.position().reached(&here) && !here.reached(groups.position()));
        // It did have an effect: the next rows have one column more.
        for event in &some[alter + 1..] {
            groups.event(event.clone(), 0).unwrap();
            if groups.resume().is_some() {
                break;
            }
        }
        let mut entries = std::iter::from_fn(|| groups.pop().unwrap());
        assert!(entries.any(|e| matches!(e, Entry::Stand { message, .. } if message.contains("does not agree"))));
    }
}

fn keys(told: &Told) -> Vec<(Op, u8)> {
    told.rows.0.iter().map(|(op, key, _)| (*op, key[0] / 2)).collect()
}

const ALL: [(Op, u8); 5] = [(Op::Create, 1), (Op::Create, 2), (Op::Update, 1), (Op::Create, 3), (Op::Delete, 2)];

/// One transaction can push a file past 4 GiB; the events' headers tell the lower 32 bits of their places.
#[test]
fn places_beyond_4_gib_are_told_in_full() {
    const BEFORE: u64 = 0xffff_fe00;
    const FAR: u64 = 5 << 32;
    for (mariadb, file, name) in [(true, MARIADB, "binlog.000006"), (false, MYSQL, "binlog.000005")] {
        let product = if mariadb { "mariadb" } else { "mysql" };
        let whole = events(file);
        // Behind the last group; a ROTATE ends the file.
        let end = u64::from(whole.iter().rfind(|event| event.kind != 4).unwrap().log_pos);
        // The wrap lies in the middle of what is read.
        let shifted: Vec<Event> =
            whole.iter().map(|event| Event { log_pos: (u64::from(event.log_pos) + BEFORE) as u32, ..event.clone() }).collect();
        let told = feed_to(groups_from(mariadb, &format!("{product} gtid= server=1 file={name}:{}", BEFORE + 4)), &shifted).unwrap();
        assert_eq!(keys(&told), ALL);
        assert!(told.position.ends_with(&format!("file={name}:{}", BEFORE + end)), "{}", told.position);
        // The server begins at the file's begin, and sends the groups behind the place only.
        let body = [&4u64.to_le_bytes()[..], name.as_bytes()].concat();
        let rotate = Event { kind: 4, log_pos: 0, flags: 0x20, body, ..whole[0].clone() };
        let again: Vec<Event> = std::iter::once(rotate).chain(whole).collect();
        let told = feed_to(groups_from(mariadb, &format!("{product} gtid= server=1 file={name}:{FAR}")), &again).unwrap();
        assert!(told.position.ends_with(&format!("file={name}:{}", FAR + end)), "{}", told.position);
    }
}

/// Types that no server had when this was written: passed over where they say that they may be.
#[test]
fn an_unknown_event_stands_by_type_and_place_unless_it_may_be_passed_over() {
    for (mariadb, file, name) in [(true, MARIADB, "binlog.000006"), (false, MYSQL, "binlog.000005")] {
        let whole = events(file);
        let rows = whole.iter().rposition(|event| event.kind == 16).unwrap();
        // 172: a part of a rows event of MariaDB 12.
        for kind in [200, 172] {
            let mut some = whole.clone();
            let unknown = Event { kind, flags: 0, body: vec![1, 2, 3], ..whole[rows].clone() };
            some.insert(rows, unknown.clone());
            let stand = feed(mariadb, &some).unwrap().stand.unwrap();
            let place = format!("{name}:{}", whole[rows].log_pos - whole[rows].size);
            assert!(stand.contains(&format!("type {kind}")) && stand.contains(&place), "{stand}");
            some[rows] = Event { flags: 0x80, ..unknown };
            assert_eq!(keys(&feed(mariadb, &some).unwrap()), ALL);
        }
    }
}

/// A TABLE_MAP without its optional metadata, as `binlog_row_metadata=NO_LOG` writes it.
fn bare(event: &Event) -> Event {
    if event.kind != 19 {
        return event.clone();
    }
    let mut at = 8;
    for _ in 0..2 {
        at += usize::from(event.body[at]) + 2;
    }
    let columns = usize::from(event.body[at]);
    at += 1 + columns;
    at += 1 + usize::from(event.body[at]) + columns.div_ceil(8);
    Event { body: event.body[..at].to_vec(), ..event.clone() }
}

#[test]
fn without_the_logs_metadata_rows_are_read_by_place_and_columns_must_not_move() {
    for (mariadb, file) in [(true, MARIADB), (false, MYSQL)] {
        let from = if mariadb { "mariadb gtid= server=1 file=binlog.000006:4" } else { "mysql gtid= server=1 file=binlog.000005:4" };
        let mut some: Vec<Event> = events(file).iter().map(bare).collect();
        let told = feed_to(groups_of(mariadb, from, false), &some).unwrap();
        assert_eq!((keys(&told), told.stand), (ALL.to_vec(), None));
        // A type that the tracked shape does not have.
        let other: Vec<Event> = some
            .iter()
            .map(|event| {
                let mut event = event.clone();
                if event.kind == 19 {
                    let at = 8 + usize::from(event.body[8]) + 2;
                    let codes = at + usize::from(event.body[at]) + 2 + 1;
                    // INT is BIGINT now.
                    assert_eq!(event.body[codes], 3);
                    event.body[codes] = 8;
                }
                event
            })
            .collect();
        let stand = feed_to(groups_of(mariadb, from, false), &other).unwrap().stand.unwrap();
        assert!(stand.contains("recorded.t") && stand.contains("type code 8"), "{stand}");
        // Nobody would notice a column at another place than the statement says.
        let is_alter = |event: &Event| event.kind == 2 && event.body.windows(5).any(|w| w == b"ALTER");
        let alter = some.iter().position(is_alter).unwrap();
        some[alter].body.extend(b" FIRST");
        let stand = feed_to(groups_of(mariadb, from, false), &some).unwrap().stand.unwrap();
        assert!(stand.contains("moves columns of recorded.t") && stand.contains("binlog_row_metadata = 'FULL'"), "{stand}");
    }
}
