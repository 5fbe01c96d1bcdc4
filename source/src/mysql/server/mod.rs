//! The server at the other end: connections to it, and what does not change while we are connected.

mod facts;

use std::{collections::BTreeMap, io::ErrorKind, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use mysql_async::{Conn, DriverError, Error, IoError, ServerError, prelude::Queryable};
use runtime::{config::TlsMode, tls};
use rustls::{ClientConfig, Error as TlsError};
use schemas::ddl::mysql::{Context, Days, Zone};

pub use self::facts::Server;
use super::{charset, config::Config, decode::collation::Collations, log::Log};
use crate::error::CaptureError;

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
const PATIENCE: Duration = Duration::from_secs(8);

/// Opens a connection.
///
/// # Errors
/// Names server and user, and says what to do.
pub async fn connect(config: &Config, purpose: Purpose) -> Result<Conn, CaptureError> {
    attempt(config, |tls| Conn::new(config.options(tls.is_some(), setup(purpose)))).await
}

/// Opens the connection that the log is read on, on which these statements have run. Errors as of [`connect`].
pub async fn open_log(config: &Config, statements: &[String]) -> Result<Log, CaptureError> {
    let statements = [&setup(Purpose::Catalog), statements].concat();
    attempt(config, |tls| Log::open(config.login(tls), &statements)).await
}

async fn attempt<T, F>(config: &Config, connect: impl Fn(Option<Arc<ClientConfig>>) -> F) -> Result<T, CaptureError>
where
    F: Future<Output = Result<T, Error>>,
{
    let tls = config.tls()?;
    let mut last = None;
    for encrypted in config.attempts() {
        let once = async || {
            let opened = AssertUnwindSafe(connect(tls.clone().filter(|_| *encrypted))).catch_unwind();
            opened.await.unwrap_or_else(|_| Err(Error::Other(Box::new(BrokeOff))))
        };
        let opened = async {
            match once().await {
                Err(error) if may_be_unlucky(&error) => once().await,
                opened => opened,
            }
        };
        match tokio::time::timeout(PATIENCE, opened).await {
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

/// The driver takes a zero at the end of the server's random bytes for no part of them: one login in 256 by `ed25519` is refused then, and
/// by `parsec` it breaks off. The next one has other bytes.
fn may_be_unlucky(error: &Error) -> bool {
    match error {
        Error::Server(error) => error.code == 1045,
        Error::Other(error) => error.is::<BrokeOff>(),
        Error::Driver(_) | Error::Io(_) | Error::Url(_) => false,
    }
}

/// The driver breaks off where a login has a step that it does not know, and at `parsec` without a password.
#[derive(Debug, thiserror::Error)]
#[error("the driver broke off")]
struct BrokeOff;

/// A driver's error with server, user and remedy; `doing` says what was tried.
pub fn failed(config: &Config, doing: &str, error: &Error) -> CaptureError {
    let server = config.server();
    match error {
        Error::Server(error) => refused_by_server(config, doing, error),
        Error::Io(_) if let Some(problem) = tls::problem(error) => tls_failed(&server, doing, problem),
        Error::Io(IoError::Io(error)) if error.kind() == ErrorKind::UnexpectedEof => closed(&server, doing),
        Error::Io(error) => CaptureError::Transient(format!(
            "{server}: {doing}: the server cannot be reached ({error}); check that it runs, source.url and the firewall"
        )),
        Error::Driver(DriverError::ConnectionClosed) => closed(&server, doing),
        Error::Driver(DriverError::UnknownAuthPlugin { name }) => no_such_login(config, name),
        Error::Driver(DriverError::CleartextPluginDisabled) => no_such_login(config, "mysql_clear_password"),
        Error::Driver(DriverError::MysqlOldPasswordDisabled) => no_such_login(config, "mysql_old_password"),
        Error::Driver(DriverError::InvalidParsecSalt) => no_such_login(config, "parsec with settings that are not known"),
        Error::Other(error) if error.is::<BrokeOff>() => CaptureError::Refused(format!(
            "{server}: {doing}: the server asks user `{}` to log in in a way that cannot be followed; where the account has a password \
             (MariaDB's parsec), give it in source.url",
            config.user
        )),
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

fn tls_failed(server: &str, doing: &str, problem: &TlsError) -> CaptureError {
    let failed = format!("{server}: {doing}: TLS fails ({problem})");
    match tls::remedy(problem, "source") {
        Some(remedy) => CaptureError::Refused(format!("{failed}; {remedy}")),
        None => CaptureError::Transient(failed),
    }
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

/// Reads what does not change. What is `known` of the same server is not read again where it takes long.
pub async fn inspect(config: &Config, conn: &mut Conn, known: Option<&Server>) -> Result<Arc<Server>, CaptureError> {
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
    let same = known.filter(|known| known.version == number && known.mariadb == mariadb && known.identity == identity);
    let charsets = match same {
        Some(known) => Arc::clone(&known.charsets),
        None => Arc::new(charset::read(conn).await.map_err(fail)?),
    };
    let databases: Vec<(String, String)> =
        conn.query("SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA").await.map_err(fail)?;
    let databases: BTreeMap<String, String> = databases.into_iter().collect();
    let mut context = Context::new(mariadb, number);
    context.charsets = Arc::clone(&charsets);
    context.server_collation = first(conn, "SELECT @@GLOBAL.collation_server").await.map_err(fail)?.unwrap_or(context.server_collation);
    context.lower_case_table_names = first::<u8>(conn, "SELECT @@lower_case_table_names").await.map_err(fail)?.unwrap_or_default();
    context.database_collations = databases;
    context.system_zone = system_zone(conn).await.map_err(fail)?;
    let explicit: Option<String> = variable(conn, "explicit_defaults_for_timestamp").await.map_err(fail)?;
    context.explicit_defaults_for_timestamp = explicit.is_none_or(|value| value.eq_ignore_ascii_case("ON"));
    let full_metadata = metadata.eq_ignore_ascii_case("FULL");
    Ok(Arc::new(Server { mariadb, version: number, identity, gtids, full_metadata, collations, charsets, context }))
}

async fn first<T: mysql_async::prelude::FromRow + Send + 'static>(conn: &mut Conn, sql: &str) -> Result<Option<T>, Error> {
    conn.query_first(sql).await
}

/// The first day that is looked at in the server's zone, and how many there are: those of a TIMESTAMP of 32 bits.
const FIRST_DAY: i64 = 1;
const DAYS: u32 = 24_850;

/// What `time_zone = SYSTEM` is: the server's own offset of each day.
async fn system_zone(conn: &mut Conn) -> Result<Zone, Error> {
    if first::<String>(conn, "SELECT @@system_time_zone").await?.is_some_and(|name| name == "UTC") {
        return Ok(Zone::Fixed(0));
    }
    const DIGIT: &str = "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 \
         UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
    let number = "a.n * 10000 + b.n * 1000 + c.n * 100 + d.n * 10 + e.n";
    let days = format!(
        "SELECT {number} AS day, UNIX_TIMESTAMP(DATE'1970-01-01' + INTERVAL {FIRST_DAY} + {number} DAY) AS midnight \
         FROM {DIGIT} a, {DIGIT} b, {DIGIT} c, {DIGIT} d, {DIGIT} e WHERE {number} < {DAYS}"
    );
    conn.query_drop("SET SESSION time_zone = 'SYSTEM', SESSION group_concat_max_len = 16777216").await?;
    let text: Option<String> = first(conn, &format!("SELECT GROUP_CONCAT(midnight ORDER BY day) FROM ({days}) AS days")).await?;
    conn.query_drop("SET SESSION time_zone = '+00:00', SESSION group_concat_max_len = DEFAULT").await?;
    let offset = |(day, midnight): (i64, &str)| i32::try_from(day * 86_400 - midnight.parse::<i64>().ok()?).ok();
    let midnights: Vec<Option<i32>> = (FIRST_DAY..).zip(text.as_deref().unwrap_or_default().split(',')).map(offset).collect();
    // A day that is missing would move all that follow.
    let whole = midnights.len() == DAYS as usize;
    Ok(if whole { Zone::Days(Arc::new(Days::new(FIRST_DAY, &midnights))) } else { Zone::Unknown })
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
