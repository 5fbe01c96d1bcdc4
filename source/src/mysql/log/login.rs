//! The way in to the server: greeting, TLS, and the exchange by which the account proves itself, as the library does it on the other
//! connections.

use std::sync::Arc;

use mysql_async::{DriverError, Error};
use mysql_common::{
    constants::{CapabilityFlags, UTF8MB4_GENERAL_CI},
    crypto,
    io::ParseBuf,
    packets::{AuthPlugin, AuthSwitchRequest, HandshakePacket, HandshakeResponse, SslRequest},
    proto::MySerialize,
};
use rustls::ClientConfig;
use tokio::net::{TcpStream, UnixStream};

use super::packet::{Packets, Wire, failed, unexpected};
use crate::mysql::config::{Address, PACKET};

/// Of a greeting the scramble has so many bytes.
const NONCE: usize = 20;
/// So many have those of MariaDB's own logins.
const RANDOM: usize = 32;

/// Who comes in, and how.
pub struct Login<'a> {
    pub address: Address<'a>,
    pub tls: Option<Arc<ClientConfig>>,
    pub user: &'a str,
    pub password: Option<&'a str>,
}

impl Login<'_> {
    /// Connects and logs in.
    pub async fn connect(&self) -> Result<Packets, Error> {
        let mut packets = Packets::new(match &self.address {
            Address::Tcp(host, port) => {
                let wire = TcpStream::connect((*host, *port)).await.map_err(failed)?;
                wire.set_nodelay(true).map_err(failed)?;
                Wire::Tcp(wire)
            }
            Address::Socket(path) => Wire::Socket(UnixStream::connect(path).await.map_err(failed)?),
        });
        let greeting = packets.answer(false).await?;
        let greeting: HandshakePacket<'_> = ParseBuf(&greeting).parse(()).map_err(failed)?;
        let mut capabilities = CapabilityFlags::CLIENT_PROTOCOL_41
            | CapabilityFlags::CLIENT_SECURE_CONNECTION
            | CapabilityFlags::CLIENT_LONG_PASSWORD
            | CapabilityFlags::CLIENT_PLUGIN_AUTH;
        if let (Some(tls), Address::Tcp(host, _)) = (&self.tls, &self.address) {
            if !greeting.capabilities().contains(CapabilityFlags::CLIENT_SSL) {
                return Err(Error::Driver(DriverError::NoClientSslFlagFromServer));
            }
            capabilities |= CapabilityFlags::CLIENT_SSL;
            let mut request = Vec::new();
            SslRequest::new(capabilities, PACKET as u32, UTF8MB4_GENERAL_CI as u8).serialize(&mut request);
            packets.send(&request).await?;
            packets = packets.encrypted(tls, host).await?;
        }
        let mut nonce = [greeting.scramble_1_ref(), greeting.scramble_2_ref().unwrap_or_default()].concat();
        nonce.resize(NONCE, 0);
        let plugin = match greeting.auth_plugin() {
            Some(AuthPlugin::CachingSha2Password) => AuthPlugin::CachingSha2Password,
            // Any other is asked for by a switch.
            _ => AuthPlugin::MysqlNativePassword,
        };
        let mut proof = Vec::new();
        self.prove(&plugin, &nonce, &mut proof);
        let version = greeting.server_version_parsed().unwrap_or_default();
        let (user, none) = (Some(self.user.as_bytes()), None::<&[u8]>);
        let mut response = Vec::new();
        HandshakeResponse::new(Some(proof), version, user, none, Some(plugin.borrow()), capabilities, None, PACKET as u32)
            .serialize(&mut response);
        packets.send(&response).await?;
        self.exchange(&mut packets, plugin, nonce).await?;
        Ok(packets)
    }

    fn prove(&self, plugin: &AuthPlugin<'_>, nonce: &[u8], out: &mut Vec<u8>) {
        if let Some(proof) = plugin.gen_data(self.password, nonce) {
            proof.serialize(out);
        }
    }

    /// Answers what the server asks until it lets us in.
    async fn exchange(&self, packets: &mut Packets, mut plugin: AuthPlugin<'static>, mut nonce: Vec<u8>) -> Result<(), Error> {
        let mut switched = false;
        loop {
            let packet = packets.answer(true).await?;
            match (&*packet, &mut plugin) {
                ([0, ..], _) => return Ok(()),
                ([0xfe, ..], _) if !switched => {
                    switched = true;
                    (plugin, nonce) = switch(&packet)?;
                    let mut proof = Vec::new();
                    // Its salt comes first.
                    if !matches!(plugin, AuthPlugin::MariadbParsec { .. }) {
                        self.prove(&plugin, &nonce, &mut proof);
                    }
                    packets.send(&proof).await?;
                }
                // The server's cache has the password: what follows says that we are in.
                ([1, 3], AuthPlugin::CachingSha2Password) => {}
                ([1, 4], AuthPlugin::CachingSha2Password) => self.tell(packets, &nonce).await?,
                ([1, salt @ ..] | salt, parsec @ AuthPlugin::MariadbParsec { .. }) => {
                    parsec.read_add_data(salt).ok_or(Error::Driver(DriverError::InvalidParsecSalt))?;
                    let mut proof = Vec::new();
                    self.prove(parsec, &nonce, &mut proof);
                    packets.send(&proof).await?;
                }
                (other, _) => return Err(unexpected(other)),
            }
        }
    }

    /// The password itself, where nobody can read along; else under the server's key.
    async fn tell(&self, packets: &mut Packets, nonce: &[u8]) -> Result<(), Error> {
        let mut password = [self.password.unwrap_or_default().as_bytes(), &[0]].concat();
        if packets.is_secret() {
            return packets.send(&password).await;
        }
        packets.send(&[2]).await?;
        let key = packets.answer(true).await?;
        for (byte, mask) in password.iter_mut().zip(nonce.iter().cycle()) {
            *byte ^= mask;
        }
        packets.send(&crypto::encrypt(&password, key.get(1..).unwrap_or_default())).await
    }
}

/// The login that the server asks for instead.
fn switch(packet: &[u8]) -> Result<(AuthPlugin<'static>, Vec<u8>), Error> {
    let old = Err(Error::Driver(DriverError::MysqlOldPasswordDisabled));
    if packet.len() == 1 {
        return old;
    }
    let request: AuthSwitchRequest<'_> = ParseBuf(packet).parse(()).map_err(failed)?;
    match request.auth_plugin() {
        AuthPlugin::MysqlOldPassword => return old,
        AuthPlugin::MysqlClearPassword => return Err(Error::Driver(DriverError::CleartextPluginDisabled)),
        AuthPlugin::Other(name) => {
            return Err(Error::Driver(DriverError::UnknownAuthPlugin { name: String::from_utf8_lossy(&name).into_owned() }));
        }
        AuthPlugin::MysqlNativePassword | AuthPlugin::CachingSha2Password | AuthPlugin::Ed25519 | AuthPlugin::MariadbParsec { .. } => {}
    }
    let mut nonce = request.plugin_data().to_vec();
    if matches!(request.auth_plugin(), AuthPlugin::Ed25519 | AuthPlugin::MariadbParsec { .. }) {
        // A zero at the end is one of its random bytes, where the library takes it for the end of a text.
        nonce.resize(RANDOM, 0);
    }
    Ok((request.auth_plugin().clone().into_owned(), nonce))
}
