//! The server at the other end: connections to it, and what does not change while we are connected.

use std::{collections::BTreeMap, error::Error as _, io::ErrorKind, sync::Arc, time::Duration};

use mysql_async::{Conn, DriverError, Error, IoError, Row, ServerError, prelude::Queryable};
use runtime::config::TlsMode;
use rustls::{CertificateError, Error as TlsError};
use schemas::ddl::mysql::Context;

use super::{
    config::Config,
    decode::{charset::Charsets, collation::Collations, query::Query},
};
use crate::error::CaptureError;

/// What is known of the server.
#[derive(Debug, Clone)]
pub struct Server {
    pub mariadb: bool,
    /// 101119 is 10.11.19.
    pub version: u32,
    /// `server_uuid` on MySQL, `server_id` on MariaDB.
    pub identity: String,
    /// GTIDs name the places in the log.
    pub gtids: bool,
    pub full_metadata: bool,
    pub collations: Collations,
    pub charsets: Charsets,
    pub context: Context,
}

impl Server {
    /// The settings a statement of the log ran under.
    pub fn context(&self, query: &Query) -> Context {
        query.context(&self.context, |id| self.collations.get(u64::from(id)))
    }

    /// Settings for texts that the catalog prints for us.
    pub fn catalog_context(&self, database: &str) -> Context {
        let mut context = self.context.clone();
        context.default_database = database.into();
        // What SHOW CREATE TABLE prints says every default itself.
        context.explicit_defaults_for_timestamp = true;
        context
    }
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Catalog, positions, the lock: text in UTF-8.
    Catalog,
    /// Rows: text in each column's own character set, so that nothing is replaced on the way.
    Rows,
}

fn setup(purpose: Purpose) -> Vec<String> {
    let results = match purpose {
        Purpose::Catalog => "utf8mb4",
        Purpose::Rows => "NULL",
    };
    let mut statements = vec![format!(
        "SET NAMES utf8mb4, character_set_results = {results}, SESSION time_zone = '+00:00', SESSION sql_mode = '', SESSION wait_timeout = 28800, SESSION net_write_timeout = 600, SESSION sql_quote_show_create = 1"
    )];
    if purpose == Purpose::Rows {
        // At any other level WITH CONSISTENT SNAPSHOT is passed over without an error.
        statements.push("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ".into());
    }
    statements
}

/// A server that has not let us in by then is not there.
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens a connection.
///
/// # Errors
/// Names server and user, and says what to do.
pub async fn connect(config: &Config, purpose: Purpose) -> Result<Conn, CaptureError> {
    config.check_tls()?;
    let mut last = None;
    for encrypted in config.attempts() {
        match tokio::time::timeout(PATIENCE, Conn::new(config.options(*encrypted, setup(purpose)))).await {
            Ok(Ok(conn)) => return Ok(conn),
            Ok(Err(Error::Driver(DriverError::NoClientSslFlagFromServer))) => {
                last = Some(CaptureError::Refused(format!(
                    "{}: the server has no TLS; enable it there, or set source.tls.mode: prefer",
                    config.server()
                )));
            }
            Ok(Err(error)) => return Err(failed(config, "connecting", &error)),
            Err(_) => {
                return Err(CaptureError::Transient(format!(
                    "{}: connecting: the server does not answer within {PATIENCE:?}; check that it runs, source.url and the firewall",
                    config.server()
                )));
            }
        }
    }
    Err(last.unwrap_or_else(|| CaptureError::Refused(format!("{}: no kind of connection is allowed", config.server()))))
}

/// A driver's error with server, user and remedy; `doing` says what was tried.
pub fn failed(config: &Config, doing: &str, error: &Error) -> CaptureError {
    let server = config.server();
    match error {
        Error::Server(error) => refused_by_server(config, doing, error),
        Error::Io(_) if let Some(problem) = tls_problem(error) => tls_failed(&server, doing, problem),
        Error::Io(IoError::Io(error)) if error.kind() == ErrorKind::UnexpectedEof => closed(&server, doing),
        Error::Io(error) => CaptureError::Transient(format!(
            "{server}: {doing}: the server cannot be reached ({error}); check that it runs, source.url and the firewall"
        )),
        Error::Driver(DriverError::ConnectionClosed) => closed(&server, doing),
        Error::Driver(DriverError::UnknownAuthPlugin { name }) => no_such_login(config, name),
        Error::Driver(DriverError::CleartextPluginDisabled) => no_such_login(config, "mysql_clear_password"),
        Error::Driver(DriverError::MysqlOldPasswordDisabled) => no_such_login(config, "mysql_old_password"),
        Error::Driver(_) | Error::Other(_) | Error::Url(_) => CaptureError::Transient(format!("{server}: {doing}: {error}")),
    }
}

fn closed(server: &str, doing: &str) -> CaptureError {
    CaptureError::Transient(format!("{server}: {doing}: the connection was closed; check that the server runs, and the network"))
}

/// A right that is not there, as the server says it.
pub fn lacks(config: &Config, right: &str, message: &str) -> CaptureError {
    CaptureError::Refused(format!(
        "{}: user `{}` lacks the right {right} ({message}); `instar check` prints the GRANT statements",
        config.server(),
        config.user
    ))
}

fn no_such_login(config: &Config, plugin: &str) -> CaptureError {
    let user = &config.user;
    CaptureError::Refused(format!(
        "{}: the server asks user `{user}` to log in by {plugin}, which is not supported; on MySQL: ALTER USER `{user}` IDENTIFIED WITH \
         caching_sha2_password BY '…' (it asks so for users that do not exist, too); on MariaDB: ALTER USER `{user}` IDENTIFIED VIA ed25519 \
         USING PASSWORD('…')",
        config.server()
    ))
}

/// What TLS itself says, however deep the driver has it.
fn tls_problem(error: &Error) -> Option<&TlsError> {
    let mut next = error.source();
    while let Some(error) = next {
        let inner = error.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref()?.downcast_ref());
        if let Some(problem) = inner.or_else(|| error.downcast_ref()) {
            return Some(problem);
        }
        next = error.source();
    }
    None
}

fn tls_failed(server: &str, doing: &str, problem: &TlsError) -> CaptureError {
    let remedy = match problem {
        TlsError::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }) => {
            "give source.url a name that the server's certificate has, or set source.tls.mode: verify-ca"
        }
        TlsError::InvalidCertificate(_) => "set source.tls.ca to the authority that signed the server's certificate, and look at its dates",
        TlsError::AlertReceived(_) => "set source.tls.certificate and source.tls.key to what the server asks of its clients",
        // Cut off, or no TLS at all.
        _ => return CaptureError::Transient(format!("{server}: {doing}: TLS fails ({problem})")),
    };
    CaptureError::Refused(format!("{server}: {doing}: TLS fails ({problem}); {remedy}"))
}

fn refused_by_server(config: &Config, doing: &str, error: &ServerError) -> CaptureError {
    let (server, user) = (config.server(), &config.user);
    let ServerError { code, message, .. } = error;
    match code {
        // The server does not say which of these it is.
        1045 | 1698 => CaptureError::Refused(format!(
            "{server}: user `{user}` is refused ({message}); correct user and password in source.url, or create the user on the server{}",
            match config.tls_mode() {
                TlsMode::Disable =>
                    "; an account that REQUIREs SSL or X509, or a server with require_secure_transport, needs source.tls.mode: require",
                TlsMode::Prefer | TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull =>
                    "; an account that REQUIREs X509 needs source.tls.certificate and source.tls.key",
            }
        )),
        3159 => {
            CaptureError::Refused(format!("{server}: the server takes connections with TLS only ({message}); set source.tls.mode: require"))
        }
        1130 => CaptureError::Refused(format!("{server}: this host may not connect ({message}); create user `{user}` for this host")),
        1044 | 1142 | 1143 | 1227 | 1370 => lacks(config, &format!("for {doing}"), message),
        1236 if message.contains("same server_uuid/server_id") => CaptureError::Stop {
            message: format!(
                "{server}: another reader of the log presents itself as server {} too ({message}); give source.server_id a number that no \
                 server and no replica uses",
                config.server_id
            ),
        },
        1236 => CaptureError::Stop {
            message: format!(
                "{server}: the log cannot be read from the stored position ({message}); where its files are purged, reload all tables and keep the log longer (binlog_expire_logs_seconds)"
            ),
        },
        // Too many connections, shutdown, lock waits, deadlock, killed, read-only while failing over.
        1040 | 1053 | 1203 | 1205 | 1213 | 1226 | 1290 | 1317 | 3024 | 3169 => {
            CaptureError::Transient(format!("{server}: {doing}: {message}"))
        }
        1049 | 1146 => CaptureError::Refused(format!("{server}: {doing}: {message}; correct source.tables")),
        _ => CaptureError::Refused(format!("{server}: {doing}: ERROR {code}: {message}")),
    }
}

/// Reads what does not change.
pub async fn inspect(config: &Config, conn: &mut Conn) -> Result<Arc<Server>, CaptureError> {
    let fail = |error: Error| failed(config, "reading the server's settings", &error);
    let version: String = first(conn, "SELECT VERSION()").await.map_err(fail)?.unwrap_or_default();
    let mariadb = version.to_lowercase().contains("mariadb");
    let number = version_number(&version);
    let (identity, gtids) = if mariadb {
        (first::<u64>(conn, "SELECT @@server_id").await.map_err(fail)?.unwrap_or_default().to_string(), true)
    } else {
        let mode: String = first(conn, "SELECT @@gtid_mode").await.map_err(fail)?.unwrap_or_default();
        (first(conn, "SELECT @@server_uuid").await.map_err(fail)?.unwrap_or_default(), mode.eq_ignore_ascii_case("ON"))
    };
    let metadata: String = variable(conn, "binlog_row_metadata").await.map_err(fail)?.unwrap_or_default();
    let collations = collations(conn, mariadb).await.map_err(fail)?;
    let charsets = single_byte_tables(conn).await.map_err(fail)?;
    let databases: Vec<(String, String)> =
        conn.query("SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA").await.map_err(fail)?;
    let databases: BTreeMap<String, String> = databases.into_iter().collect();
    let mut context = Context::new(mariadb, number);
    context.server_collation = first(conn, "SELECT @@GLOBAL.collation_server").await.map_err(fail)?.unwrap_or(context.server_collation);
    context.lower_case_table_names = first::<u8>(conn, "SELECT @@lower_case_table_names").await.map_err(fail)?.unwrap_or_default();
    context.database_collations = databases;
    let explicit: Option<String> = variable(conn, "explicit_defaults_for_timestamp").await.map_err(fail)?;
    context.explicit_defaults_for_timestamp = explicit.is_none_or(|value| value.eq_ignore_ascii_case("ON"));
    let full_metadata = metadata.eq_ignore_ascii_case("FULL");
    Ok(Arc::new(Server { mariadb, version: number, identity, gtids, full_metadata, collations, charsets, context }))
}

async fn first<T: mysql_async::prelude::FromRow + Send + 'static>(conn: &mut Conn, sql: &str) -> Result<Option<T>, Error> {
    conn.query_first(sql).await
}

/// A global variable's value; None where the server does not have it.
pub async fn variable(conn: &mut Conn, name: &str) -> Result<Option<String>, Error> {
    let row: Option<(String, Option<String>)> = conn.query_first(format!("SHOW GLOBAL VARIABLES LIKE '{name}'")).await?;
    Ok(row.and_then(|(_, value)| value))
}

/// `10.11.19-MariaDB-…` is 101119.
fn version_number(text: &str) -> u32 {
    let text = text.strip_prefix("5.5.5-").unwrap_or(text);
    let mut parts = text.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor, patch) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    major * 10_000 + minor * 100 + patch
}

async fn collations(conn: &mut Conn, mariadb: bool) -> Result<Collations, Error> {
    const NAMED: &str = "SELECT ID, COLLATION_NAME, CHARACTER_SET_NAME FROM information_schema.COLLATIONS WHERE ID IS NOT NULL";
    // Since 10.10 one collation serves several character sets, each with an id and a full name of its own.
    const FULL: &str = "SELECT ID, FULL_COLLATION_NAME, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY WHERE ID IS NOT NULL";
    let mut collations = Collations::default();
    let mut rows: Vec<(u64, String, Option<String>)> = conn.query(NAMED).await?;
    if mariadb {
        match conn.query::<(u64, String, Option<String>), _>(FULL).await {
            Ok(full) => rows.extend(full),
            // Unknown column: an older server, whose COLLATIONS has them all.
            Err(Error::Server(ServerError { code: 1054, .. })) => {}
            Err(error) => return Err(error),
        }
    }
    for (id, name, charset) in rows {
        collations.add(id, &name, charset.as_deref().unwrap_or_default());
    }
    Ok(collations)
}

/// What each byte is in each single-byte character set, as the server itself converts it.
async fn single_byte_tables(conn: &mut Conn) -> Result<Charsets, Error> {
    let names: Vec<String> = conn
        .query("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS WHERE MAXLEN = 1 AND CHARACTER_SET_NAME NOT IN ('binary', 'ascii')")
        .await?;
    let mut charsets = Charsets::default();
    for name in names {
        let columns: Vec<String> = (0..256).map(|byte| format!("HEX(CONVERT(_{name} X'{byte:02X}' USING utf8mb4))")).collect();
        let row: Option<Row> = conn.query_first(format!("SELECT {}", columns.join(", "))).await?;
        let mut table = [None; 256];
        if let Some(row) = row {
            for (byte, slot) in table.iter_mut().enumerate() {
                *slot = row.get::<Option<String>, _>(byte).flatten().and_then(|hex| character(&hex, byte));
            }
        }
        charsets.add_table(&name, table);
    }
    Ok(charsets)
}

/// One character from the hexadecimal form of its UTF-8. The server gives '?' for bytes that are no character.
fn character(hex: &str, byte: usize) -> Option<char> {
    let bytes: Vec<u8> = (0..hex.len() / 2).filter_map(|i| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()).collect();
    let text = String::from_utf8(bytes).ok()?;
    let mut chars = text.chars();
    let first = chars.next()?;
    let replaced = first == '?' && byte != usize::from(b'?');
    (chars.next().is_none() && !replaced).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_become_numbers() {
        assert_eq!(version_number("10.11.19-MariaDB-0+deb12u1-log"), 101_119);
        assert_eq!(version_number("5.5.5-10.6.2-MariaDB"), 100_602);
        assert_eq!(version_number("9.7.4-2"), 90_704);
    }
}
