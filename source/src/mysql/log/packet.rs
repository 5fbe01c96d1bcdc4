//! Packets of the protocol, over TCP, TLS or the server's socket file.

use std::{io, sync::Arc};

use bytes::{Buf, Bytes, BytesMut};
use mysql_async::{DriverError, Error, IoError, ServerError};
use mysql_common::proto::MySerialize;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::mysql::decode::compressed::LARGEST;

/// A packet of this length goes on in the next one.
const FULL: usize = 0xff_ffff;
/// Bytes that are asked for at a time.
const PART: usize = 64 << 10;

pub enum Wire {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Socket(UnixStream),
}

pub struct Packets {
    wire: Wire,
    buffer: BytesMut,
    /// The full packets before the last one.
    begun: Vec<u8>,
    /// The next packet's number in its exchange.
    number: u8,
}

pub fn failed(error: io::Error) -> Error {
    Error::Io(IoError::Io(error))
}

pub fn unexpected(packet: &[u8]) -> Error {
    Error::Driver(DriverError::UnexpectedPacket { payload: packet.to_vec() })
}

impl Packets {
    pub fn new(wire: Wire) -> Self {
        Self { wire, buffer: BytesMut::new(), begun: Vec::new(), number: 0 }
    }

    /// The same connection, behind TLS from here on.
    pub async fn encrypted(self, tls: &Arc<ClientConfig>, host: &str) -> Result<Self, Error> {
        let name = ServerName::try_from(host.to_owned()).map_err(|e| failed(io::Error::other(e)))?;
        match self.wire {
            // What came in the clear must not pass for what comes encrypted.
            Wire::Tcp(wire) if self.buffer.is_empty() => {
                let wire = TlsConnector::from(tls.clone()).connect(name, wire).await.map_err(failed)?;
                Ok(Self { wire: Wire::Tls(Box::new(wire)), ..self })
            }
            Wire::Tcp(_) | Wire::Tls(_) | Wire::Socket(_) => Err(unexpected(&self.buffer)),
        }
    }

    /// Whether nobody on the way can read along.
    pub fn is_secret(&self) -> bool {
        match &self.wire {
            Wire::Tcp(_) => false,
            Wire::Tls(_) | Wire::Socket(_) => true,
        }
    }

    /// The next packet, whole. Cancel safe.
    pub async fn next(&mut self) -> Result<Bytes, Error> {
        loop {
            if let Some(packet) = self.take()? {
                return Ok(packet);
            }
            self.buffer.reserve(PART);
            let read = match &mut self.wire {
                Wire::Tcp(wire) => wire.read_buf(&mut self.buffer).await,
                Wire::Tls(wire) => wire.read_buf(&mut self.buffer).await,
                Wire::Socket(wire) => wire.read_buf(&mut self.buffer).await,
            };
            if read.map_err(failed)? == 0 {
                return Err(failed(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    fn take(&mut self) -> Result<Option<Bytes>, Error> {
        while let [a, b, c, number, rest @ ..] = &*self.buffer {
            let length = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
            if rest.len() < length {
                return Ok(None);
            }
            if *number != self.number {
                return Err(Error::Driver(DriverError::PacketOutOfOrder));
            }
            self.number = self.number.wrapping_add(1);
            self.buffer.advance(4);
            let part = self.buffer.split_to(length).freeze();
            if self.begun.is_empty() && length < FULL {
                return Ok(Some(part));
            }
            if self.begun.len() + length > LARGEST + PART {
                return Err(Error::Driver(DriverError::PacketTooLarge));
            }
            self.begun.extend_from_slice(&part);
            if length < FULL {
                return Ok(Some(std::mem::take(&mut self.begun).into()));
            }
        }
        Ok(None)
    }

    /// The next packet, where it is no error of the server. `state`: the server says the kind of an error too, as it does once it
    /// knows who is there.
    pub async fn answer(&mut self, state: bool) -> Result<Bytes, Error> {
        let packet = self.next().await?;
        if packet.first() == Some(&0xff) { Err(error(&packet, state)) } else { Ok(packet) }
    }

    /// Sends a packet of an exchange.
    pub async fn send(&mut self, body: &[u8]) -> Result<(), Error> {
        let length = u32::try_from(body.len()).ok().filter(|length| (*length as usize) < FULL);
        let length = length.ok_or(Error::Driver(DriverError::PacketTooLarge))?.to_le_bytes();
        let packet = [&length[..3], &[self.number], body].concat();
        self.number = self.number.wrapping_add(1);
        let sent = async {
            match &mut self.wire {
                Wire::Tcp(wire) => wire.write_all(&packet).await,
                Wire::Tls(wire) => {
                    wire.write_all(&packet).await?;
                    wire.flush().await
                }
                Wire::Socket(wire) => wire.write_all(&packet).await,
            }
        };
        sent.await.map_err(failed)
    }

    /// Begins an exchange with a command.
    pub async fn command(&mut self, command: &impl MySerialize) -> Result<(), Error> {
        let mut body = Vec::new();
        command.serialize(&mut body);
        self.number = 0;
        self.send(&body).await
    }

    /// Runs a statement without a result.
    pub async fn run(&mut self, statement: &str) -> Result<(), Error> {
        self.number = 0;
        self.send(&[&[3], statement.as_bytes()].concat()).await?;
        self.done().await
    }

    /// Waits until the server has done what it was told.
    pub async fn done(&mut self) -> Result<(), Error> {
        let packet = self.answer(true).await?;
        if packet.first() == Some(&0) { Ok(()) } else { Err(unexpected(&packet)) }
    }
}

/// An error as the server says it.
pub fn error(packet: &[u8], state: bool) -> Error {
    let [0xff, low, high, rest @ ..] = packet else { return unexpected(packet) };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (state, message) = match rest {
        [b'#', rest @ ..] if state && rest.len() >= 5 => (text(&rest[..5]), text(&rest[5..])),
        rest => (String::new(), text(rest)),
    };
    Error::Server(ServerError { code: u16::from_le_bytes([*low, *high]), message, state })
}
