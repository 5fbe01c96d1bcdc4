use std::sync::Arc;

use rustls::{
    ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    pki_types::ServerName,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

use super::*;

fn pem(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tls/test").join(name)
}

fn tls(mode: TlsMode, ca: Option<&str>) -> Tls {
    Tls { mode, ca: ca.map(pem), certificate: None, key: None }
}

/// A server with the certificate of `ca.pem` for db.example; where `asks`, it wants one from the client too.
fn server(asks: bool) -> ServerConnection {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificates(&pem("ca.pem")).unwrap().remove(0)).unwrap();
    let verifier: Arc<dyn ClientCertVerifier> = if asks {
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap()
    } else {
        WebPkiClientVerifier::no_client_auth()
    };
    let key = PrivateKeyDer::from_pem_file(pem("server.key")).unwrap();
    let config = builder.with_client_cert_verifier(verifier).with_single_cert(certificates(&pem("server.pem")).unwrap(), key).unwrap();
    ServerConnection::new(Arc::new(config)).unwrap()
}

/// Shakes hands in memory.
fn connect(tls: &Tls, name: &str, mut server: ServerConnection) -> Result<(), String> {
    let config = client_config(tls).map_err(|e| e.to_string())?.ok_or("no TLS")?;
    let mut client = ClientConnection::new(Arc::new(config), ServerName::try_from(name.to_owned()).unwrap()).unwrap();
    while client.is_handshaking() || server.is_handshaking() || client.wants_write() || server.wants_write() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut bytes.as_slice()).unwrap();
        server.process_new_packets().map_err(|e| format!("server: {e}"))?;
        let mut bytes = Vec::new();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut bytes.as_slice()).unwrap();
        client.process_new_packets().map_err(|e| format!("client: {e}"))?;
    }
    Ok(())
}

#[test]
fn each_mode_verifies_what_it_says() {
    let unknown = "client: invalid peer certificate: UnknownIssuer";
    for (mode, ca, name, wanted) in [
        (TlsMode::Prefer, None, "elsewhere.example", Ok(())),
        (TlsMode::Require, None, "elsewhere.example", Ok(())),
        (TlsMode::VerifyCa, Some("ca.pem"), "db.example", Ok(())),
        (TlsMode::VerifyCa, Some("ca.pem"), "elsewhere.example", Ok(())),
        (TlsMode::VerifyCa, Some("other-ca.pem"), "elsewhere.example", Err(unknown)),
        (TlsMode::VerifyCa, Some("other-ca.pem"), "db.example", Err(unknown)),
        (TlsMode::VerifyFull, Some("ca.pem"), "db.example", Ok(())),
        (TlsMode::VerifyFull, Some("other-ca.pem"), "db.example", Err(unknown)),
        (TlsMode::Disable, None, "db.example", Err("no TLS")),
    ] {
        let got = connect(&tls(mode, ca), name, server(false));
        assert_eq!(got, wanted.map_err(str::to_owned), "{mode:?} {ca:?} {name}");
    }
    let wrong_name = connect(&tls(TlsMode::VerifyFull, Some("ca.pem")), "elsewhere.example", server(false)).unwrap_err();
    assert!(wrong_name.contains("not valid for name \"elsewhere.example\""), "{wrong_name}");
}

#[test]
fn a_client_shows_its_certificate() {
    let anonymous = tls(TlsMode::VerifyFull, Some("ca.pem"));
    let named = Tls { certificate: Some(pem("client.pem")), key: Some(pem("client.key")), ..anonymous.clone() };
    connect(&named, "db.example", server(true)).unwrap();
    assert_eq!(connect(&anonymous, "db.example", server(true)), Err("server: peer sent no certificates".into()));
    let half = Tls { key: None, ..named };
    assert_eq!(client_config(&half).unwrap_err().to_string(), "certificate and key belong together; give both");
}

#[test]
fn a_file_that_is_not_good_is_named() {
    let missing = client_config(&Tls { mode: TlsMode::VerifyFull, ca: Some("/nowhere/ca.pem".into()), ..Tls::default() });
    assert!(missing.unwrap_err().to_string().starts_with("/nowhere/ca.pem: "));
    let key = client_config(&tls(TlsMode::VerifyFull, Some("server.key"))).unwrap_err().to_string();
    assert!(key.ends_with("server.key: there is no certificate in it"), "{key}");
}
