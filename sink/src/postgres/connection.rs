//! One connection, and what its errors mean.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use futures_util::future;
use runtime::tls;
use tokio::task::JoinHandle;
use tokio_postgres::{
    Client, Config, Error, NoTls, Row, Socket, Statement,
    error::SqlState,
    tls::{MakeTlsConnect, TlsConnect},
    types::ToSql,
};

use super::config::{PATIENCE, Settings};
use crate::error::SinkError;

/// An open connection. Dropping it closes it; what it had begun is rolled back by the server.
pub struct Connection {
    pub client: Client,
    /// `host:port/database`, for messages.
    pub server: String,
    driver: JoinHandle<()>,
    /// Statements on the schema `instar` and the catalog, by their text: parsed and planned once a connection.
    prepared: Mutex<HashMap<String, Statement>>,
}

/// A client, and the task that moves its bytes.
async fn driven<T>(config: &Config, tls: T) -> Result<(Client, JoinHandle<()>), Error>
where
    T: MakeTlsConnect<Socket, Stream: Send + 'static>,
    T::TlsConnect: TlsConnect<Socket, Future: Send>,
{
    let (client, connection) = config.connect(tls).await?;
    let driver = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection to the target ended");
        }
    });
    Ok((client, driver))
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The socket goes at once, not when a statement of ours answers.
        self.driver.abort();
    }
}

impl Connection {
    pub async fn open(settings: &Settings) -> Result<Connection, SinkError> {
        let server = settings.server.clone();
        let connecting = async {
            match &settings.tls {
                Some(tls) => driven(&settings.client, tls.clone()).await,
                None => driven(&settings.client, NoTls).await,
            }
        };
        // The library's own limit ends with the TCP connection: a server may take that and say nothing.
        let patience = settings.client.get_connect_timeout().copied().unwrap_or(PATIENCE);
        let (client, driver) = match tokio::time::timeout(patience, connecting).await {
            Ok(connected) => connected.map_err(|e| unconnected(&e, settings))?,
            Err(_) => {
                let message = format!("connect to the target: {server}: the server does not answer within {patience:?}");
                return Err(SinkError::Transient(message));
            }
        };
        let connection = Connection { client, server, driver, prepared: Mutex::default() };
        let encoding = connection.one_text("SHOW server_encoding").await?;
        if encoding != "UTF8" {
            return Err(SinkError::Refused(format!(
                "the database {} has the encoding {encoding}: text would be changed on its way; use a database with the encoding UTF8",
                connection.server
            )));
        }
        Ok(connection)
    }

    /// Rows of a statement whose text is one of a few: it is parsed and planned when it is first asked for.
    pub async fn query(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        self.client.query(&self.prepared(sql).await?, parameters).await
    }

    /// As [`Self::query`], for a statement that gives one row.
    pub async fn query_one(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Row, Error> {
        self.client.query_one(&self.prepared(sql).await?, parameters).await
    }

    /// As [`Self::query`], for a statement that gives one row or none.
    pub async fn query_opt(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Option<Row>, Error> {
        self.client.query_opt(&self.prepared(sql).await?, parameters).await
    }

    /// As [`Self::query`], for a statement that gives no rows; returns how many it touched.
    pub async fn execute(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        self.client.execute(&self.prepared(sql).await?, parameters).await
    }

    async fn prepared(&self, sql: &str) -> Result<Statement, Error> {
        let known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner).insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Silences foreign keys and row triggers for this session, where the role may: rows of several tables arrive in no common
    /// order. Returns whether it may.
    pub async fn replicate(&self) -> Result<bool, SinkError> {
        let sql = "SET session_replication_role = replica";
        match self.client.batch_execute(sql).await {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(false),
            Err(error) => Err(self.sorted(&error, sql)),
        }
    }

    /// Runs a prepared statement of the open transaction as it is planned best for the tables and parameters of now. Statements
    /// that join need it: a plan that was made while the target table was small reads all of it for ever.
    pub async fn planned_anew<T>(&self, run: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let anew = self.client.batch_execute("SET LOCAL plan_cache_mode = force_custom_plan");
        let back = self.client.batch_execute("SET LOCAL plan_cache_mode = force_generic_plan");
        // Sent together, in this order: one round trip.
        future::try_join3(anew, run, back).await.map(|((), done, ())| done)
    }

    async fn one_text(&self, sql: &str) -> Result<String, SinkError> {
        let row = self.client.query_one(sql, &[]).await.map_err(|e| self.sorted(&e, sql))?;
        row.try_get(0).map_err(|e| self.sorted(&e, sql))
    }

    /// What to do about `error`; `doing` says what was tried.
    pub fn sorted(&self, error: &tokio_postgres::Error, doing: &str) -> SinkError {
        sorted(error, &self.server, doing)
    }

    /// Ends an open transaction, for better or worse: where that fails too, the connection is closed.
    pub async fn rollback(&self) {
        if let Err(error) = self.client.batch_execute("ROLLBACK").await {
            tracing::debug!(%error, "roll back");
        }
    }
}

/// What to do about a connection that did not come about.
fn unconnected(error: &Error, settings: &Settings) -> SinkError {
    let doing = "connect to the target";
    let Some(problem) = tls::problem(error) else { return sorted(error, &settings.server, doing) };
    let failed = format!("{doing}: {}: TLS fails ({problem})", settings.server);
    match tls::remedy(problem, &settings.place) {
        Some(remedy) => SinkError::Refused(format!("{failed}; {remedy}")),
        None => SinkError::Transient(failed),
    }
}

/// Sorts an error of the server or of the connection by what must be done. The server's `detail` is left out: it quotes rows.
pub fn sorted(error: &tokio_postgres::Error, server: &str, doing: &str) -> SinkError {
    let Some(db) = error.as_db_error() else {
        let message = format!("{doing}: {server}: {}", with_causes(error));
        // Settings that cannot work, as against a server that does not answer.
        let never = ["password missing", "invalid configuration", "server does not support TLS"];
        let lasting = never.iter().any(|words| message.contains(words));
        return if lasting { SinkError::Refused(message) } else { SinkError::Transient(message) };
    };
    let mut message = format!("{doing}: {server}: {}", db.message());
    if let Some(table) = db.table() {
        message.push_str(&format!(" (table {}.{table}", db.schema().unwrap_or_default()));
        if let Some(column) = db.column() {
            message.push_str(&format!(", column {column}"));
        }
        if let Some(constraint) = db.constraint() {
            message.push_str(&format!(", constraint {constraint}"));
        }
        message.push(')');
    }
    if let Some(hint) = db.hint() {
        message.push_str(&format!("; {hint}"));
    }
    message.push_str(&format!(" [{}]", db.code().code()));
    match class(db.code()) {
        Class::Transient => SinkError::Transient(message),
        Class::Refused => SinkError::Refused(message),
        Class::Stop => SinkError::Stop { message },
    }
}

fn with_causes(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

enum Class {
    Transient,
    Refused,
    Stop,
}

fn class(code: &SqlState) -> Class {
    let code = code.code();
    // 57014 is a statement cancelled by hand or by statement_timeout; 25006 a server that has become a standby.
    if matches!(code, "55P03" | "57014" | "25006") {
        return Class::Transient;
    }
    match code.get(..2) {
        // Connection, rolled back to resolve a conflict, resources (disk full, too many connections), shutdown, I/O.
        Some("08" | "40" | "53" | "57" | "58") => Class::Transient,
        // Wrong password, unknown database, missing right.
        Some("28" | "3D") => Class::Refused,
        _ if code == "42501" => Class::Refused,
        _ => Class::Stop,
    }
}

/// Whether a statement waited for a lock in vain: 55P03 by `lock_timeout`, 40P01 a deadlock.
pub fn lock_not_had(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| *code == SqlState::LOCK_NOT_AVAILABLE || *code == SqlState::T_R_DEADLOCK_DETECTED)
}

#[cfg(test)]
mod tests {
    use runtime::config::{Tls, TlsMode};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };
    use tokio_postgres_rustls::MakeRustlsConnect;

    use super::*;

    /// What becomes of a connection with TLS to a server that gives this answer to the wish for it, and closes.
    async fn opened(answer: &'static [u8]) -> SinkError {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            stream.read_exact(&mut [0; 8]).await.expect("the wish for TLS");
            stream.write_all(answer).await.expect("the client reads");
        });
        let tls = tls::client_config(&Tls { mode: TlsMode::Require, ..Tls::default() }).expect("a configuration");
        let mut client = Config::new();
        client.host("127.0.0.1").port(port).user("loader").ssl_mode(tokio_postgres::config::SslMode::Require);
        let settings = Settings { client, tls: tls.map(MakeRustlsConnect::new), server: "here".into(), place: "sinks.warehouse".into() };
        Connection::open(&settings).await.err().expect("no connection")
    }

    #[tokio::test]
    async fn a_handshake_that_is_cut_is_tried_again() {
        let error = opened(b"S").await;
        assert!(matches!(&error, SinkError::Transient(message) if message.starts_with("connect to the target: here: ")), "{error:?}");
    }

    #[tokio::test]
    async fn a_server_without_tls_is_not_asked_again() {
        let error = opened(b"N").await;
        assert!(matches!(&error, SinkError::Refused(message) if message.contains("server does not support TLS")), "{error:?}");
    }
}
