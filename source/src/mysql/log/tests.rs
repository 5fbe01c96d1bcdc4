//! Logins and events against a server that follows a script.

use mysql_async::{DriverError, Error};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, UnixListener},
};

use super::{Log, Login, Next, kind, packet::error};
use crate::mysql::{config::Address, event::Header};

/// Any RSA key.
const KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA4f+wljTFt8oyRlZIPVp0\n\
iHv5j/DRDN2VDXD3th1ETD+PN8Q+wMTv40dUyHbVIFIW8jobMC91MGzORdWnZW/J\n\
gthU+D/+yRE3t+6yt9ZDfYLZLlm2WDCcBXXtD3zYKydlGv+Vp9a1+gAPsiodIppU\n\
ePQey4CsNG1wlBDx4h/z/ygri79CLvqdrD8yKCrSA3Lq/pCbjO/bUStwX1dX3MrZ\n\
OQXPdPeQ/B+zelVew0RqRFk9OR0BfBDP1/n3yjYe7495O3Yj1oBqWC/WY0E1mj9b\n\
3xF8FqX4UdsJDdXzJbUkIvVsEWPEDRmEl2cHfhWBRCAEzMPqZJOS4ZGeW08cxO8w\n\
XQIDAQAB\n\
-----END PUBLIC KEY-----";

/// Sends a packet.
async fn tell(wire: &mut (impl AsyncWrite + Unpin), number: u8, body: &[u8]) {
    let length = u32::try_from(body.len()).unwrap().to_le_bytes();
    wire.write_all(&[&length[..3], &[number], body].concat()).await.unwrap();
}

async fn heard(wire: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut head = [0; 4];
    wire.read_exact(&mut head).await.unwrap();
    let mut body = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
    wire.read_exact(&mut body).await.unwrap();
    body
}

/// As the documentation lays it out, of a server without TLS that logs in by caching_sha2_password.
fn greeting() -> Vec<u8> {
    let capabilities = [0xff, 0xf7, 0x21, 2, 0, 0xff, 0xff, 21];
    [&[10][..], b"9.7.4\0", &[7, 0, 0, 0], b"scramble", &[0], &capabilities, &[0; 10], b"the-rest-12b\0", b"caching_sha2_password\0"]
        .concat()
}

/// What the server tells in turn, each after it has heard something; what it heard.
async fn script(mut wire: impl AsyncRead + AsyncWrite + Unpin, told: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    tell(&mut wire, 0, &greeting()).await;
    let (mut all, mut number) = (Vec::new(), 0);
    for body in told {
        all.push(heard(&mut wire).await);
        number += 2;
        tell(&mut wire, number, &body).await;
    }
    all
}

/// Logs in over TCP while the server follows the script.
async fn over_tcp(told: Vec<Vec<u8>>) -> (Result<Log, Error>, Vec<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::Tcp("127.0.0.1", listener.local_addr().unwrap().port());
    let server = async { script(listener.accept().await.unwrap().0, told).await };
    tokio::join!(Log::open(Login { address, tls: None, user: "cdc", password: Some("s3cret") }, &[]), server)
}

const IN: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

#[tokio::test]
async fn the_password_goes_in_the_clear_only_where_nobody_reads_along() {
    let (log, heard) = over_tcp(vec![vec![1, 4], [b"\x01", KEY.as_bytes()].concat(), IN.to_vec()]).await;
    assert!(log.is_ok());
    assert_eq!(heard[1], [2], "the key is asked for");
    assert_eq!(heard[2].len(), 256, "one block of the key");

    let path = std::env::temp_dir().join(format!("instar-login-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let address = Address::Socket(path.to_str().unwrap());
    let server = async { script(listener.accept().await.unwrap().0, vec![vec![1, 4], IN.to_vec()]).await };
    let (log, heard) = tokio::join!(Log::open(Login { address, tls: None, user: "cdc", password: Some("s3cret") }, &[]), server);
    std::fs::remove_file(&path).unwrap();
    assert!(log.is_ok());
    assert_eq!(heard[1], b"s3cret\0");
}

#[tokio::test]
async fn what_is_asked_for_and_not_known_is_named() {
    let refused = async |told: &[u8]| over_tcp(vec![told.to_vec()]).await.0.err().unwrap();
    assert!(matches!(refused(b"\xfe").await, Error::Driver(DriverError::MysqlOldPasswordDisabled)));
    assert!(matches!(refused(b"\xfemysql_old_password\0x").await, Error::Driver(DriverError::MysqlOldPasswordDisabled)));
    assert!(matches!(refused(b"\xfemysql_clear_password\0x").await, Error::Driver(DriverError::CleartextPluginDisabled)));
    let other = refused(b"\xfesha256_password\0x").await;
    assert!(matches!(&other, Error::Driver(DriverError::UnknownAuthPlugin { name }) if name == "sha256_password"), "{other}");
    let denied = refused(b"\xff\x15\x04#28000Access denied").await;
    assert!(
        matches!(&denied, Error::Server(e) if (e.code, e.state.as_str(), e.message.as_str()) == (1045, "28000", "Access denied")),
        "{denied}"
    );
    // Before it knows who is there a server says no kind.
    assert!(matches!(error(b"\xff\x10\x04Too many", false), Error::Server(e) if e.code == 1040 && e.message == "Too many"));
    let salt = over_tcp(vec![b"\xfeparsec\0scramble-of-thirty-two-bytes-----".to_vec(), b"\x01?too short".to_vec()]).await.0;
    assert!(matches!(salt.err().unwrap(), Error::Driver(DriverError::InvalidParsecSalt)));
}

#[tokio::test]
async fn random_bytes_that_end_with_a_zero_are_all_of_them() {
    let switch = [&b"\xfeparsec\0"[..], &[7; 31], &[0]].concat();
    let (log, heard) = over_tcp(vec![switch, [&b"\x01P\0"[..], &[9; 18]].concat(), IN.to_vec()]).await;
    assert!(log.is_ok());
    assert_eq!((heard[1].len(), heard[2].len()), (0, 96), "nothing, and behind the salt the proof");
}

/// An event as it is on the wire: its body, with this size in its header.
fn event(kind: u8, body: &[u8], size: u32) -> Vec<u8> {
    [&[0, 1, 0, 0, 0, kind, 7, 0, 0, 0], &size.to_le_bytes()[..], &[0; 6], body].concat()
}

/// What the log gives where the server sends this.
async fn first(sent: Vec<u8>) -> Next {
    let (mut log, mut server) = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::Tcp("127.0.0.1", listener.local_addr().unwrap().port());
        let login = Login { address, tls: None, user: "cdc", password: None };
        let server = async {
            let mut wire = listener.accept().await.unwrap().0;
            tell(&mut wire, 0, &greeting()).await;
            heard(&mut wire).await;
            tell(&mut wire, 2, IN).await;
            wire
        };
        let (log, server) = tokio::join!(Log::open(login, &[]), server);
        (log.unwrap(), server)
    };
    tell(&mut server, 3, &sent).await;
    log.next().await.unwrap()
}

#[tokio::test]
async fn an_event_that_is_not_whole_is_damaged_and_not_read() {
    let problem = async |sent| match first(sent).await {
        Next::Damaged(Header { log_pos: 0, .. }, problem) => problem,
        other => panic!("{other:?}"),
    };
    assert!(problem(event(kind::XID, &[0; 8], 28)).await.contains("longer than what came of it"));
    assert!(problem(event(kind::XID, &[0; 8], 3)).await.contains("longer than what came of it"));
    assert!(problem(event(kind::FORMAT_DESCRIPTION, &[0, 0, 9, 1, 2, 3, 4], 26)).await.contains("checksums of kind 9"));
    assert!(problem(event(kind::FORMAT_DESCRIPTION, &[0, 0, 1, 1, 2, 3, 4], 26)).await.contains("wrong checksum"));
    assert!(problem(event(kind::TRANSACTION_PAYLOAD, &[2, 1, 9, 0], 23)).await.contains("kind of compression"));
    let Next::Event(whole) = first(event(kind::XID, &[5; 8], 27)).await else { panic!("it is whole") };
    assert_eq!((whole.kind, whole.body), (kind::XID, vec![5; 8]));
    assert!(matches!(first(vec![0xfe, 0, 0, 0, 0]).await, Next::End));
}
