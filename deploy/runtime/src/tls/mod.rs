//! TLS of one connection: `tls:` of the configuration as settings of the client.

use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as RustlsError, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use thiserror::Error;

use crate::config::{Tls, TlsMode};

#[cfg(test)]
mod tests;

/// Certificates of public authorities, where systems keep them.
const SYSTEM: [&str; 3] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

#[derive(Debug, Error)]
pub enum TlsError {
    #[error("{file}: {problem}")]
    File { file: PathBuf, problem: String },
    #[error("there are no certificates of public authorities on this system ({}); name the server's with tls.ca", SYSTEM.join(", "))]
    NoSystemRoots,
    #[error("{0}")]
    Refused(String),
}

/// What a client asks of its server; None where TLS is off. Whether TLS is insisted on is for the connection to say
/// ([`TlsMode::Prefer`] goes on without).
pub fn client_config(tls: &Tls) -> Result<Option<ClientConfig>, TlsError> {
    client_config_trusting(tls, None)
}

/// [`client_config`] with these public authorities instead of the system's.
pub fn client_config_trusting(tls: &Tls, public: Option<RootCertStore>) -> Result<Option<ClientConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match tls.mode {
        TlsMode::Disable => return Ok(None),
        TlsMode::Prefer | TlsMode::Require => Arc::new(AnyServer(provider.clone())),
        TlsMode::VerifyCa => Arc::new(AnyName(authority(tls, public, &provider)?)),
        TlsMode::VerifyFull => authority(tls, public, &provider)?,
    };
    let refused = |e: RustlsError| TlsError::Refused(e.to_string());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match (&tls.certificate, &tls.key) {
        (Some(certificate), Some(key)) => {
            let key = PrivateKeyDer::from_pem_file(key).map_err(|e| file(key, &e))?;
            builder.with_client_auth_cert(certificates(certificate)?, key).map_err(refused)?
        }
        (None, None) => builder.with_no_client_auth(),
        (Some(_), None) | (None, Some(_)) => return Err(TlsError::Refused("certificate and key belong together; give both".into())),
    };
    Ok(Some(config))
}

/// What TLS itself says of a connection that failed, however deep the client has it.
pub fn problem<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e RustlsError> {
    let inner = error.downcast_ref::<io::Error>().and_then(|error| error.get_ref()?.downcast_ref());
    inner.or_else(|| error.downcast_ref()).or_else(|| problem(error.source()?))
}

/// What to change in the configuration, of which `place` holds `url` and `tls`; None: another try may do, as the connection was cut.
pub fn remedy(problem: &RustlsError, place: &str) -> Option<String> {
    match problem {
        RustlsError::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }) => {
            Some(format!("give {place}.url a name that the server's certificate has, or set {place}.tls.mode: verify-ca"))
        }
        RustlsError::InvalidCertificate(_) => {
            Some(format!("set {place}.tls.ca to the authority that signed the server's certificate, and look at its dates"))
        }
        RustlsError::AlertReceived(_) => {
            Some(format!("set {place}.tls.certificate and {place}.tls.key to what the server asks of its clients"))
        }
        _ => None,
    }
}

fn file(path: &Path, error: &impl ToString) -> TlsError {
    TlsError::File { file: path.to_owned(), problem: error.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(|e| file(path, &e))?;
    if found.is_empty() { Err(file(path, &"there is no certificate in it")) } else { Ok(found) }
}

/// Verifies chain and name against the configured authority, else those given, else the system's.
fn authority(tls: &Tls, public: Option<RootCertStore>, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    let place = match (&tls.ca, public) {
        (Some(ca), _) => {
            for certificate in certificates(ca)? {
                roots.add(certificate).map_err(|e| file(ca, &e))?;
            }
            ca.clone()
        }
        (None, Some(public)) => {
            roots = public;
            PathBuf::new()
        }
        (None, None) => {
            let place = SYSTEM.iter().map(Path::new).find(|path| path.exists()).ok_or(TlsError::NoSystemRoots)?;
            roots.add_parsable_certificates(certificates(place)?);
            place.to_owned()
        }
    };
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().map_err(|e| file(&place, &e))
}

/// Any server at all: the connection is secret, but to whom is not known.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Any server with a certificate of the authority, whatever its name (`verify-ca`).
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        // The chain is verified before the name is looked at.
        match self.0.verify_server_cert(certificate, chain, name, ocsp, now) {
            Err(RustlsError::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
