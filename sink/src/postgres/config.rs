//! Where the target is: the sink's checked configuration → a connection's settings and its TLS.

use std::time::Duration;

use runtime::{
    config::{Sink, Tls, TlsMode},
    tls::client_config,
};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::SinkError;

/// A server that has not let us in by then is not there.
pub const PATIENCE: Duration = Duration::from_secs(8);

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
    /// None: in the clear.
    pub tls: Option<MakeRustlsConnect>,
    /// `host:port/database`, for messages.
    pub server: String,
    /// Where the configuration has them: `sinks.warehouse`.
    pub place: String,
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
        let place = format!("sinks.{}", sink.name);
        let tls = client_config(&tls).map_err(|problem| SinkError::Refused(format!("{place}.tls: {problem}")))?;
        Ok(Settings { client, tls: tls.map(MakeRustlsConnect::new), server: format!("{}:{port}/{database}", url.host), place })
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
