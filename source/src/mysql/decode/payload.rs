//! TRANSACTION_PAYLOAD events of MySQL: the events of a transaction, compressed together. They are unpacked one after another: memory
//! holds one of them and the decoder's window, however large the transaction is.

use std::{
    fmt,
    io::{self, Cursor as Bytes, Read},
};

use zstd::stream::read::Decoder;

use super::{Malformed, compressed::LARGEST, cursor::Cursor};
use crate::mysql::event::{Event, HEADER, Header, kind};

const WHAT: &str = "a compressed transaction";

/// The events of one transaction that are not unpacked yet.
pub struct Payload {
    events: Events,
    /// Bytes that are still to come, unpacked; None: the event does not say it.
    left: Option<u64>,
}

enum Events {
    Plain(Bytes<Vec<u8>>),
    Zstd(Box<Decoder<'static, Bytes<Vec<u8>>>>),
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payload").field("left", &self.left).finish_non_exhaustive()
    }
}

fn unreadable(problem: impl Into<String>) -> Malformed {
    Malformed::Unreadable { what: WHAT, problem: problem.into() }
}

fn failed(error: &io::Error) -> Malformed {
    unreadable(format!("cannot be unpacked: {error}"))
}

impl Payload {
    /// Begins the payload of an event's body.
    ///
    /// # Errors
    /// A kind of compression that is not known, or a body that ends early.
    pub fn open(mut body: Vec<u8>) -> Result<Self, Malformed> {
        let (mut size, mut compression, mut left) = (None, None, None);
        let mut cursor = Cursor::new(&body, WHAT);
        loop {
            let field = cursor.packed()?;
            if field == 0 {
                break;
            }
            let mut value = Cursor::new(cursor.packed_bytes()?, WHAT);
            match field {
                1 => size = Some(value.count()?),
                2 => compression = Some(value.packed()?),
                3 => left = Some(value.packed()?),
                // Later servers may say more.
                _ => {}
            }
        }
        let begin = body.len() - cursor.rest().len();
        let size = size.unwrap_or(cursor.rest().len());
        if size > cursor.rest().len() {
            return Err(Malformed::Truncated(WHAT));
        }
        body.truncate(begin + size);
        let mut payload = Bytes::new(body);
        payload.set_position(begin as u64);
        let events = match compression {
            Some(0) => Events::Zstd(Box::new(Decoder::with_buffer(payload).map_err(|error| failed(&error))?)),
            Some(255) => Events::Plain(payload),
            other => return Err(unreadable(format!("its kind of compression is not known ({other:?})"))),
        };
        Ok(Self { events, left })
    }

    /// The next event; None behind the last one.
    ///
    /// # Errors
    /// Bytes that are not those of whole events.
    pub fn next(&mut self) -> Result<Option<Event>, Malformed> {
        let mut header = Vec::with_capacity(HEADER);
        self.read(HEADER, &mut header)?;
        if header.is_empty() {
            return match self.left {
                None | Some(0) => Ok(None),
                Some(left) => Err(unreadable(format!("{left} bytes are missing at its end"))),
            };
        }
        let header = header.as_slice().try_into().map_err(|_| Malformed::Truncated(WHAT))?;
        let header = Header::read(header);
        let size = (header.size as usize).checked_sub(HEADER).filter(|size| *size <= LARGEST);
        let size = size.ok_or_else(|| unreadable(format!("an event of {} bytes is in it", header.size)))?;
        if header.kind == kind::TRANSACTION_PAYLOAD {
            return Err(unreadable("another one is in it"));
        }
        let mut body = Vec::new();
        self.read(size, &mut body)?;
        if body.len() < size {
            return Err(Malformed::Truncated(WHAT));
        }
        Ok(Some(Event { unpacked: true, ..header.event(body) }))
    }

    /// Reads so many bytes, or fewer at the end.
    fn read(&mut self, size: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let read = match &mut self.events {
            Events::Plain(reader) => reader.take(size as u64).read_to_end(out),
            Events::Zstd(reader) => reader.take(size as u64).read_to_end(out),
        };
        let read = read.map_err(|error| failed(&error))?;
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(read as u64).ok_or_else(|| unreadable("it is longer than it says"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u8, body: &[u8]) -> Vec<u8> {
        let size = u32::try_from(HEADER + body.len()).unwrap().to_le_bytes();
        [&[1, 0, 0, 0, kind, 7, 0, 0, 0], &size[..], &[0; 6], body].concat()
    }

    fn field(number: u8, value: &[u8]) -> Vec<u8> {
        [&[number, u8::try_from(value.len()).unwrap()], value].concat()
    }

    /// As the documentation lays the event out.
    fn body(compression: u8, events: &[u8], length: u32) -> Vec<u8> {
        let packed = if compression == 0 { zstd::encode_all(events, 3).unwrap() } else { events.to_vec() };
        let size = [&[0xfd][..], &u32::try_from(packed.len()).unwrap().to_le_bytes()[..3]].concat();
        let length = [&[0xfe][..], &u64::from(length).to_le_bytes()].concat();
        let compression = if compression < 251 { vec![compression] } else { vec![0xfc, compression, 0] };
        [field(2, &compression), field(1, &size), field(9, b"later"), field(3, &length), vec![0], packed].concat()
    }

    fn all(body: Vec<u8>) -> Result<Vec<Event>, Malformed> {
        let mut payload = Payload::open(body)?;
        std::iter::from_fn(|| payload.next().transpose()).collect()
    }

    #[test]
    fn events_come_as_they_were_packed() {
        let events = [event(kind::QUERY, b"BEGIN"), event(kind::TABLE_MAP, &[7; 70_000]), event(kind::XID, b"")].concat();
        let length = u32::try_from(events.len()).unwrap();
        for compression in [0, 255] {
            let found = all(body(compression, &events, length)).unwrap();
            let found: Vec<_> = found.iter().map(|e| (e.kind, e.server_id, e.unpacked, e.body.len())).collect();
            assert_eq!(found, [(kind::QUERY, 7, true, 5), (kind::TABLE_MAP, 7, true, 70_000), (kind::XID, 7, true, 0)]);
        }
    }

    #[test]
    fn what_is_not_whole_is_an_error_and_never_the_end() {
        let events = [event(kind::QUERY, b"BEGIN"), event(kind::XID, b"12345678")].concat();
        let length = u32::try_from(events.len()).unwrap();
        let problem = |body: Vec<u8>| all(body).unwrap_err().to_string();
        let whole = body(0, &events, length);
        for cut in 1..whole.len() {
            assert!(all(whole[..cut].to_vec()).is_err(), "cut at {cut}");
        }
        assert!(problem(body(0, &events, length + 1)).contains("1 bytes are missing"));
        assert!(problem(body(0, &events, length - 1)).contains("longer than it says"));
        assert!(problem(body(0, &events[..events.len() - 1], length)).contains("ends in the middle"));
        assert!(problem(body(7, &events, length)).contains("Some(7)"));
        assert!(problem(body(0, &event(kind::TRANSACTION_PAYLOAD, b""), 19)).contains("another one"));
        let mut small = event(kind::XID, b"");
        small[9] = 3;
        assert!(problem(body(255, &small, 19)).contains("an event of 3 bytes"));
        let mut large = event(kind::XID, b"");
        large[9..13].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(problem(body(255, &large, 19)).contains("an event of 4294967295 bytes"));
    }
}
