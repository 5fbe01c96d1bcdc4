//! The source's configuration, as this engine needs it.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use mysql_async::{ClientIdentity, Opts, OptsBuilder, SslOpts};
use runtime::{
    config::{RowMetadata, Secret, Source, Tls, TlsMode, Url},
    tls::client_config_trusting,
};
use rustls::{ClientConfig, RootCertStore};
use schemas::table::TableId;

use super::{log::Login, mapping::Mapping};
use crate::error::CaptureError;

/// Where MySQL and MariaDB listen unless told otherwise.
const PORT: u16 = 3306;
/// The log may hold rows as long as the protocol allows.
pub const PACKET: usize = 1 << 30;

/// A connection on which nothing comes for this long is asked whether its other end is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// What the driver takes for the server's name where any will do: the refusal of a name must say `NotValidForName` for it to go on,
/// and says the name.
const ANY_NAME: &str = "NotValidForName.invalid";

/// Where the server listens.
#[derive(Debug, Clone, Copy)]
pub enum Address<'a> {
    Tcp(&'a str, u16),
    Socket(&'a str),
}

/// A checked configuration: every option decided.
#[derive(Debug, Clone)]
pub struct Config {
    pub host: String,
    pub port: u16,
    /// The server's socket file on this machine, instead of host and port.
    socket: Option<String>,
    pub user: String,
    password: Option<Secret>,
    tls: Tls,
    /// How this reader presents itself to the server; no other replica may use it.
    pub server_id: u32,
    /// Whether the configuration says it.
    given_id: bool,
    pub heartbeat: Duration,
    /// How many times as long silence is borne: a large event comes without a heartbeat in it.
    pub patience: Arc<AtomicU32>,
    pub row_metadata: RowMetadata,
    pub tables: Vec<TableId>,
    pub mapping: Mapping,
    /// Takes rows of transactions whose end is not read yet, where they are too many for the memory.
    pub folder: PathBuf,
}

impl Config {
    /// # Errors
    /// [`CaptureError::Refused`] with the key that is missing.
    pub fn new(source: &Source) -> Result<Self, CaptureError> {
        let url = &source.url;
        let user = url
            .user
            .clone()
            .ok_or_else(|| CaptureError::Refused("source.url: a user is missing; write mysql://user:password@host/".into()))?;
        let socket = socket(url)?;
        if socket.is_some() && !matches!(source.tls.mode, TlsMode::Disable | TlsMode::Prefer) {
            return Err(CaptureError::Refused("source.tls: over a socket there is no TLS; take source.tls or the socket away".into()));
        }
        Ok(Self {
            host: url.host.clone(),
            port: url.port.unwrap_or(PORT),
            socket,
            server_id: source.server_id.unwrap_or_else(|| own_server_id("", &url.host, url.port.unwrap_or(PORT))),
            given_id: source.server_id.is_some(),
            user,
            password: url.password.clone(),
            tls: source.tls.clone(),
            heartbeat: source.heartbeat,
            patience: Arc::new(AtomicU32::new(1)),
            row_metadata: source.row_metadata,
            tables: source.tables.iter().map(|t| t.table.clone()).collect(),
            mapping: Mapping::new(&source.type_map),
            folder: std::env::temp_dir(),
        })
    }

    /// Takes the number of this pipeline, where the configuration gives none: two that read one server have two.
    pub(super) fn read_for(&mut self, pipeline: &str) {
        if !self.given_id {
            self.server_id = own_server_id(pipeline, &self.host, self.port);
        }
    }

    /// The server, for messages.
    pub fn server(&self) -> String {
        self.socket.as_ref().map_or_else(|| format!("{}:{}", self.host, self.port), |path| format!("socket {path}"))
    }

    pub fn tls_mode(&self) -> TlsMode {
        self.tls.mode
    }

    /// # Errors
    /// [`CaptureError::Refused`] with the file of `source.tls` that cannot be read, and why.
    pub(super) fn tls(&self) -> Result<Option<Arc<ClientConfig>>, CaptureError> {
        // Those that the driver trusts.
        let public = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        let config = client_config_trusting(&self.tls, Some(public));
        Ok(config.map_err(|problem| CaptureError::Refused(format!("source.tls: {problem}")))?.map(Arc::new))
    }

    /// What the log's own connection is opened with; `tls`: where it is encrypted.
    pub(super) fn login(&self, tls: Option<Arc<ClientConfig>>) -> Login<'_> {
        let address = self.socket.as_deref().map_or(Address::Tcp(&self.host, self.port), Address::Socket);
        Login { address, tls, user: &self.user, password: self.password.as_ref().map(Secret::reveal) }
    }

    /// Connection options, with TLS or without it. Statements run under settings that do not depend on the server's own.
    pub(super) fn options(&self, encrypted: bool, setup: Vec<String>) -> Opts {
        let tls = encrypted.then(|| tls_options(&self.tls)).flatten();
        OptsBuilder::default()
            .ip_or_hostname(self.host.clone())
            .tcp_port(self.port)
            .user(Some(self.user.clone()))
            .pass(self.password.as_ref().map(|password| password.reveal().to_owned()))
            .prefer_socket(false)
            .socket(self.socket.clone())
            .tcp_nodelay(true)
            .tcp_keepalive(Some(KEEPALIVE))
            .max_allowed_packet(Some(PACKET))
            .ssl_opts(tls)
            .setup(setup)
            .into()
    }

    /// The kinds of connection to try, in this order: encrypted or not.
    pub(super) fn attempts(&self) -> &'static [bool] {
        match self.tls.mode {
            TlsMode::Disable => &[false],
            TlsMode::Prefer if self.socket.is_some() => &[false],
            TlsMode::Prefer => &[true, false],
            TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => &[true],
        }
    }
}

fn tls_options(tls: &Tls) -> Option<SslOpts> {
    let (verify_certificate, verify_name) = match tls.mode {
        TlsMode::Disable => return None,
        TlsMode::Prefer | TlsMode::Require => (false, false),
        TlsMode::VerifyCa => (true, false),
        TlsMode::VerifyFull => (true, true),
    };
    let path = |path: &PathBuf| path.clone().into();
    let identity =
        tls.certificate.as_ref().zip(tls.key.as_ref()).map(|(certificate, key)| ClientIdentity::new(path(certificate), path(key)));
    Some(
        SslOpts::default()
            .with_client_identity(identity)
            .with_root_certs(tls.ca.iter().filter(|_| verify_certificate).map(path).collect())
            .with_disable_built_in_roots(verify_certificate && tls.ca.is_some())
            .with_danger_accept_invalid_certs(!verify_certificate)
            .with_danger_skip_domain_validation(!verify_name)
            // The chain is verified before the name is looked at.
            .with_danger_tls_hostname_override((verify_certificate && !verify_name).then_some(ANY_NAME)),
    )
}

/// The socket file that a URL names. Nothing else is said by its parameters.
fn socket(url: &Url) -> Result<Option<String>, CaptureError> {
    match url.parameters.keys().find(|name| *name != "socket") {
        Some(other) => Err(CaptureError::Refused(format!(
            "source.url: unknown parameter {other:?}; known is socket (TLS is set by source.tls, the rest by the keys of source)"
        ))),
        None => Ok(url.parameters.get("socket").cloned()),
    }
}

/// A server id that is the same at every start and differs from pipeline to pipeline: above what people assign by hand.
fn own_server_id(pipeline: &str, host: &str, port: u16) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(format!("{pipeline}\0{host}\0{port}").as_bytes());
    0x4000_0000 | (hasher.finalize() >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_pipelines_of_one_server_present_themselves_apart() {
        assert_ne!(own_server_id("a", "h", 3306), own_server_id("b", "h", 3306));
        assert_ne!(own_server_id("a", "h", 3306), own_server_id("a", "h", 3307));
        assert_eq!(own_server_id("a", "h", 3306), own_server_id("a", "h", 3306));
    }
}
