//! The log as the server sends it, one event at a time.
//!
//! On a connection of our own, for the library unpacks a compressed transaction as a whole, and breaks off at an event that is damaged.

mod login;
mod packet;
#[cfg(test)]
mod tests;

use mysql_async::Error;
use mysql_common::{
    binlog::{
        BinlogCtx,
        consts::BinlogVersion,
        events::{FormatDescriptionEvent, GtidEvent},
    },
    io::ParseBuf,
    packets::{ComRegisterSlave, binlog_request::BinlogRequest},
};

pub use self::login::Login;
use self::packet::{Packets, unexpected};
use super::{
    decode::{
        Malformed,
        gtid::{MySqlGtid, uuid_text},
        payload::Payload,
    },
    event::{Event, HEADER, Header, kind},
    position::mysql::Origin,
};

/// The flag of a file that is written to, and its place in a header; checksums are computed without it.
const IN_USE: u8 = 1;
const FLAGS: usize = 17;
/// Bytes of a checksum.
const CHECKSUM: usize = 4;

/// What the server sends next.
#[derive(Debug)]
pub enum Next {
    Event(Event),
    /// It ended the stream.
    End,
    /// An event whose header says where it is, and what is wrong with it.
    Damaged(Header, String),
}

/// The stream of events.
pub struct Log {
    packets: Packets,
    /// Whether events end with a checksum; None: no event has said it yet.
    checksums: Option<bool>,
    payload: Option<(Header, Payload)>,
}

impl Log {
    /// Logs in and runs these statements.
    pub async fn open(login: Login<'_>, statements: &[String]) -> Result<Self, Error> {
        let mut packets = login.connect().await?;
        for statement in statements {
            packets.run(statement).await?;
        }
        Ok(Self { packets, checksums: None, payload: None })
    }

    /// Asks for the log: [`Self::next`] gives it.
    pub async fn ask(&mut self, request: &BinlogRequest<'_>) -> Result<(), Error> {
        // Events may have a checksum of any kind.
        self.packets.run("SET @master_binlog_checksum = 'ALL'").await?;
        self.packets.command(&ComRegisterSlave::new(request.server_id())).await?;
        self.packets.done().await?;
        self.packets.command(&request.as_cmd()).await
    }

    /// What comes next. Cancel safe.
    pub async fn next(&mut self) -> Result<Next, Error> {
        if let Some((header, payload)) = &mut self.payload {
            match payload.next() {
                Ok(Some(event)) => return Ok(Next::Event(event)),
                Ok(None) => self.payload = None,
                Err(problem) => return Ok(Next::Damaged(*header, unreadable(&problem))),
            }
        }
        let packet = self.packets.answer(true).await?;
        match *packet {
            [0, ref event @ ..] => match event.split_first_chunk() {
                Some((header, body)) => Ok(self.event(header, body)),
                None => Err(unexpected(&packet)),
            },
            [0xfe, ..] if packet.len() < 9 => Ok(Next::End),
            _ => Err(unexpected(&packet)),
        }
    }

    fn event(&mut self, head: &[u8; HEADER], body: &[u8]) -> Next {
        let header = Header::read(head);
        let body = self.checked(&header, head, body);
        match body.and_then(|body| self.opened(header, body).map_err(|problem| unreadable(&problem))) {
            Ok(event) => Next::Event(event),
            Err(problem) => Next::Damaged(header, problem),
        }
    }

    /// The body without the checksum at its end.
    fn checked<'b>(&mut self, header: &Header, head: &[u8; HEADER], body: &'b [u8]) -> Result<&'b [u8], String> {
        let short = || "is longer than what came of it".to_owned();
        let wrong = || "has a wrong checksum".to_owned();
        let size = (header.size as usize).checked_sub(HEADER);
        let body = size.and_then(|size| body.get(..size)).ok_or_else(short)?;
        if header.kind == kind::FORMAT_DESCRIPTION {
            // It ends with the kind of checksums, and has one of its own in any case.
            let sum = body.len().checked_sub(CHECKSUM + 1).ok_or_else(short)?;
            self.checksums = match body[sum] {
                0 => Some(false),
                1 => Some(true),
                other => return Err(format!("announces checksums of kind {other}, which is not known")),
            };
            let whole = self.checksums == Some(false) || verified(head, body).is_some();
            return whole.then_some(&body[..sum]).ok_or_else(wrong);
        }
        match self.checksums {
            Some(false) => Ok(body),
            Some(true) => verified(head, body).ok_or_else(wrong),
            // The first event, which the server makes up, comes before it is said.
            None => Ok(verified(head, body).unwrap_or(body)),
        }
    }

    /// The event; of a compressed transaction its shell, behind which come the events that are in it.
    fn opened(&mut self, header: Header, body: &[u8]) -> Result<Event, Malformed> {
        match header.kind {
            kind::TRANSACTION_PAYLOAD => {
                self.payload = Some((header, Payload::open(body.to_vec())?));
                Ok(header.event(Vec::new()))
            }
            kind::GTID_TAGGED => Ok(Event { tagged: Some(tagged(&header, body)?), ..header.event(Vec::new()) }),
            _ => Ok(header.event(body.to_vec())),
        }
    }
}

fn unreadable(problem: &Malformed) -> String {
    format!("cannot be read ({problem})")
}

/// What stands before a checksum that is right.
fn verified<'b>(head: &[u8; HEADER], body: &'b [u8]) -> Option<&'b [u8]> {
    let (body, sum) = body.split_last_chunk::<CHECKSUM>()?;
    let mut head = *head;
    // Of a file that is still written to.
    head[FLAGS] &= !IN_USE;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&head);
    hasher.update(body);
    (hasher.finalize().to_le_bytes() == *sum).then_some(body)
}

fn tagged(header: &Header, body: &[u8]) -> Result<MySqlGtid, Malformed> {
    let format = FormatDescriptionEvent::new(BinlogVersion::Version4);
    let context = BinlogCtx::new(HEADER + body.len(), &format, header.kind);
    let gtid: Result<GtidEvent, _> = ParseBuf(body).parse(context);
    let gtid = gtid.map_err(|error| Malformed::Unreadable { what: "a tagged GTID event", problem: error.to_string() })?;
    let tag = gtid.tag().map(ToString::to_string).unwrap_or_default();
    let commit = gtid.immediate_commit_timestamp();
    Ok(MySqlGtid {
        origin: Origin { uuid: uuid_text(&gtid.sid()), tag },
        number: gtid.gno(),
        commit_micros: (commit > 0).then_some(commit),
    })
}
