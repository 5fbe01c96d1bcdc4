//! Where the target is: the sink's checked configuration → a connection's settings and its TLS.

use std::{fs::File, io::BufReader, path::Path, sync::Arc, time::Duration};

use runtime::config::{Sink, Tls, TlsMode};
use rustls::{
    ClientConfig, RootCertStore,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::SinkError;

/// A server that has not let us in by then is not there.
pub const PATIENCE: Duration = Duration::from_secs(8);

/// Certificates of public authorities, where the system keeps them.
const SYSTEM_ROOTS: [&str; 3] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// What a session of ours must never inherit from the settings of the server, the database or the role. The last ones are for
/// statements that reach rows by their keys: they are planned once, and a key's pages are taken for cached.
const OPTIONS: &str = "-c standard_conforming_strings=on -c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres \
-c extra_float_digits=1 -c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 \
-c default_transaction_isolation=read\\ committed -c default_transaction_read_only=off \
-c plan_cache_mode=force_generic_plan -c jit=off -c random_page_cost=1.1";

/// All that is needed to open a connection.
#[derive(Clone)]
pub struct Settings {
    pub client: tokio_postgres::Config,
    pub tls: MakeRustlsConnect,
    /// `host:port/database`, for messages.
    pub server: String,
}

impl Settings {
    /// The settings of a sink's connections. Fails where the URL has an unknown parameter or a TLS file cannot be read.
    pub fn new(sink: &Sink) -> Result<Settings, SinkError> {
        let url = &sink.url;
        let port = url.port.unwrap_or(5432);
        let user = url.user.as_deref().unwrap_or("postgres");
        let database = url.database.as_deref().unwrap_or(user);
        let mut client = tokio_postgres::Config::new();
        client.host(&url.host).port(port).user(user).dbname(database);
        client.application_name(format!("instar {}", sink.name));
        client.connect_timeout(PATIENCE).keepalives_idle(Duration::from_secs(30));
        client.tcp_user_timeout(Duration::from_secs(60));
        client.options(OPTIONS);
        if let Some(password) = &url.password {
            client.password(password.reveal());
        }
        let mut tls = sink.tls.clone();
        for (name, value) in &url.parameters {
            parameter(sink, &mut client, &mut tls, name, value)?;
        }
        client.ssl_mode(match tls.mode {
            TlsMode::Disable => SslMode::Disable,
            TlsMode::Prefer => SslMode::Prefer,
            TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => SslMode::Require,
        });
        let config = tls_config(&tls).map_err(|problem| SinkError::Refused(format!("sinks.{}.tls: {problem}", sink.name)))?;
        Ok(Settings { client, tls: MakeRustlsConnect::new(config), server: format!("{}:{port}/{database}", url.host) })
    }
}

fn parameter(sink: &Sink, client: &mut tokio_postgres::Config, tls: &mut Tls, name: &str, value: &str) -> Result<(), SinkError> {
    let refuse = |problem: String| Err(SinkError::Refused(format!("sinks.{}.url: {problem}", sink.name)));
    match name {
        "application_name" => {
            client.application_name(value);
        }
        "connect_timeout" => match value.parse() {
            Ok(seconds) => {
                client.connect_timeout(Duration::from_secs(seconds));
            }
            Err(_) => return refuse(format!("connect_timeout is a number of seconds, not {value:?}")),
        },
        "sslmode" => {
            tls.mode = match value {
                "disable" => TlsMode::Disable,
                "allow" | "prefer" => TlsMode::Prefer,
                "require" => TlsMode::Require,
                "verify-ca" => TlsMode::VerifyCa,
                "verify-full" => TlsMode::VerifyFull,
                other => {
                    return refuse(format!("sslmode is one of disable, allow, prefer, require, verify-ca, verify-full, not {other:?}"));
                }
            }
        }
        "sslrootcert" => tls.ca = Some(value.into()),
        "sslcert" => tls.certificate = Some(value.into()),
        "sslkey" => tls.key = Some(value.into()),
        other => {
            return refuse(format!(
                "unknown parameter {other:?}; known are application_name, connect_timeout, sslmode, sslrootcert, sslcert and sslkey"
            ));
        }
    }
    Ok(())
}

fn tls_config(tls: &Tls) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match tls.mode {
        TlsMode::Disable | TlsMode::Prefer | TlsMode::Require => Arc::new(AnyServer(provider.clone())),
        TlsMode::VerifyCa => Arc::new(AnyName { inner: web_pki(tls, &provider)?, provider: provider.clone() }),
        TlsMode::VerifyFull => web_pki(tls, &provider)?,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    match (&tls.certificate, &tls.key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(certificate), Some(key)) => {
            let key = PrivateKeyDer::from_pem_file(key).map_err(|e| format!("key {}: {e}", key.display()))?;
            builder.with_client_auth_cert(certificates(certificate)?, key).map_err(|e| format!("certificate and key: {e}"))
        }
        (Some(_), None) => Err("certificate is set but key is not; set both".into()),
        (None, Some(_)) => Err("key is set but certificate is not; set both".into()),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let file = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    CertificateDer::pem_reader_iter(BufReader::new(file)).collect::<Result<_, _>>().map_err(|e| format!("{}: {e}", path.display()))
}

fn web_pki(tls: &Tls, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, String> {
    let path = match &tls.ca {
        Some(path) => path.as_path(),
        None => SYSTEM_ROOTS.iter().map(Path::new).find(|p| p.exists()).ok_or("the system has no list of authorities: set ca")?,
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(path)?);
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|e| format!("ca {}: {e}", path.display()))
}

/// Takes any server: encryption without proof of who it is, as `sslmode=require` promises.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

/// Takes any name, if the certificate comes from a known authority: `sslmode=verify-ca`.
#[derive(Debug)]
struct AnyName {
    inner: Arc<WebPkiServerVerifier>,
    provider: Arc<CryptoProvider>,
}

macro_rules! signatures {
    (|$this:ident| $provider:expr) => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let $this = self;
            verify_tls12_signature(message, certificate, signature, &$provider.signature_verification_algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let $this = self;
            verify_tls13_signature(message, certificate, signature, &$provider.signature_verification_algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            let $this = self;
            $provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    signatures!(|this| this.0);
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.inner.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                rustls::CertificateError::NotValidForName | rustls::CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    signatures!(|this| this.provider);
}
