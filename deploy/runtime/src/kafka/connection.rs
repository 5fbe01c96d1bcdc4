//! How the client library connects, and what it says on the way.

use std::{
    error::Error,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rdkafka::{
    ClientConfig, ClientContext, Message as _,
    client::OAuthToken,
    config::RDKafkaLogLevel,
    consumer::ConsumerContext,
    error::{KafkaError as LibraryError, RDKafkaErrorCode},
    producer::{DeliveryResult, NoCustomPartitioner, ProducerContext},
};

use crate::config::{KafkaTopics, Sasl, SaslMechanism, Secret, TlsMode};

/// How long a token counts whose own end cannot be read.
const TOKEN_LIFE: Duration = Duration::from_secs(3600);

/// The connection settings of a configuration, for any kind of client. `client` names it in the broker's log.
pub fn client_config(topics: &KafkaTopics, client: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &topics.brokers).set("client.id", client);
    // A broker that restarts is found again soon, not after the library's ten seconds.
    config.set("reconnect.backoff.ms", "50").set("reconnect.backoff.max.ms", "1000");
    config.set("retry.backoff.ms", "50").set("retry.backoff.max.ms", "500");
    config.set("topic.metadata.refresh.interval.ms", "30000").set("allow.auto.create.topics", "false");
    config.set("socket.keepalive.enable", "true").set("socket.nagle.disable", "true");
    let protocol = match (&topics.tls, &topics.sasl) {
        (None, None) => "plaintext",
        (Some(_), None) => "ssl",
        (None, Some(_)) => "sasl_plaintext",
        (Some(_), Some(_)) => "sasl_ssl",
    };
    config.set("security.protocol", protocol);
    if let Some(tls) = &topics.tls {
        let file = |config: &mut ClientConfig, key: &str, path: Option<&Path>| {
            if let Some(path) = path {
                config.set(key, path.to_string_lossy());
            }
        };
        file(&mut config, "ssl.ca.location", tls.ca.as_deref());
        file(&mut config, "ssl.certificate.location", tls.certificate.as_deref());
        file(&mut config, "ssl.key.location", tls.key.as_deref());
        let (verify, name) = match tls.mode {
            TlsMode::Disable | TlsMode::Prefer | TlsMode::Require => ("false", "none"),
            TlsMode::VerifyCa => ("true", "none"),
            TlsMode::VerifyFull => ("true", "https"),
        };
        config.set("enable.ssl.certificate.verification", verify).set("ssl.endpoint.identification.algorithm", name);
    }
    match &topics.sasl {
        None => {}
        Some(Sasl::Token(_)) => drop(config.set("sasl.mechanism", "OAUTHBEARER")),
        Some(Sasl::Password { mechanism, user, password }) => {
            let mechanism = match mechanism {
                SaslMechanism::Plain => "PLAIN",
                SaslMechanism::ScramSha256 => "SCRAM-SHA-256",
                SaslMechanism::ScramSha512 => "SCRAM-SHA-512",
                SaslMechanism::OAuthBearer => "OAUTHBEARER",
            };
            config.set("sasl.mechanism", mechanism).set("sasl.username", user).set("sasl.password", password.reveal());
        }
    }
    for (name, value) in &topics.properties {
        config.set(name, value.reveal());
    }
    config.set_log_level(RDKafkaLogLevel::Info);
    config
}

/// Hears the library's log and errors, and gives it its token.
pub struct Context {
    token: Option<Secret>,
    heard: Mutex<Heard>,
}

/// What was heard last.
#[derive(Debug, Clone, Default)]
struct Heard {
    /// The broker will not have us: trying again does not help.
    refused: Option<String>,
    /// Why brokers cannot be reached just now.
    unreachable: Option<String>,
    /// The first record that was not delivered: why, and its topic.
    undelivered: Option<(RDKafkaErrorCode, String)>,
}

impl Context {
    pub fn new(topics: &KafkaTopics) -> Self {
        let token = match &topics.sasl {
            Some(Sasl::Token(token)) => Some(token.clone()),
            Some(Sasl::Password { .. }) | None => None,
        };
        Self { token, heard: Mutex::default() }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the broker refuses this client, if it does.
    pub fn refusal(&self) -> Option<String> {
        self.heard().refused.clone()
    }

    /// Why the broker could not be reached the last time that it could not.
    pub fn unreachable(&self) -> Option<String> {
        self.heard().unreachable.clone()
    }

    /// Why the first record that failed was not delivered, and its topic.
    pub fn undelivered(&self) -> Option<(RDKafkaErrorCode, String)> {
        self.heard().undelivered.clone()
    }

    /// After something has worked.
    pub fn forget(&self) {
        *self.heard() = Heard::default();
    }
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                tracing::debug!(facility, message, "kafka client error");
            }
            RDKafkaLogLevel::Warning | RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => {
                tracing::trace!(facility, message, "kafka client");
            }
        }
    }

    fn error(&self, error: LibraryError, reason: &str) {
        tracing::debug!(%error, reason, "kafka client");
        let Some(code) = error.rdkafka_error_code() else { return };
        // How long it took says nothing.
        let reason = reason.split_once(" (after ").map_or(reason, |(reason, _)| reason);
        let mut heard = self.heard();
        match code {
            RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed | RDKafkaErrorCode::SSL => {
                heard.refused = Some(reason.to_owned());
            }
            // The broker's own refusal may come behind the handshake, where it is told as a connection that ended.
            _ if reason.contains("SSL alert number") => {
                heard.refused = Some(reason.to_owned());
            }
            RDKafkaErrorCode::AllBrokersDown => {
                heard.unreachable.get_or_insert_with(|| reason.to_owned());
            }
            _ => heard.unreachable = Some(reason.to_owned()),
        }
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        let token = self.token.as_ref().ok_or("topics.kafka.sasl.token is not given")?;
        let claims = claims(token.reveal());
        let end = claims.as_ref().and_then(|c| c["exp"].as_f64()).map(|seconds| seconds * 1000.0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let default = (now + TOKEN_LIFE).as_millis();
        let principal = claims.as_ref().and_then(|c| c["sub"].as_str()).unwrap_or("instar").to_owned();
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970 fit for long")]
        let lifetime_ms = end.map_or(i64::try_from(default).unwrap_or(i64::MAX), |end| end as i64);
        Ok(OAuthToken { token: token.reveal().to_owned(), principal_name: principal, lifetime_ms })
    }
}

impl ConsumerContext for Context {}

impl ProducerContext<NoCustomPartitioner> for Context {
    type DeliveryOpaque = ();

    /// Only failures are reported (`delivery.report.only.error`); the transaction's commit fails with them.
    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, record)) = result
            && let Some(code) = error.rdkafka_error_code()
        {
            tracing::debug!(%error, topic = record.topic(), "a record was not delivered");
            // Purging is how others end once the first has failed.
            if !matches!(code, RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight) {
                self.heard().undelivered.get_or_insert_with(|| (code, record.topic().to_owned()));
            }
        }
    }
}

/// The claims of a JWT, unverified: the broker is the judge of them.
fn claims(token: &str) -> Option<serde_json::Value> {
    let body = token.split('.').nth(1)?;
    serde_json::from_slice(&base64url(body)?).ok()
}

fn base64url(text: &str) -> Option<Vec<u8>> {
    let (mut out, mut bits, mut count) = (Vec::new(), 0u32, 0u32);
    for byte in text.bytes().filter(|b| *b != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 & 0xffff | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from(bits >> count & 0xff).unwrap_or_default());
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_of_a_token_are_read() {
        // {"alg":"none"}.{"sub":"cdc","exp":2000000000}.
        let claims = claims("eyJhbGciOiJub25lIn0.eyJzdWIiOiJjZGMiLCJleHAiOjIwMDAwMDAwMDB9.").unwrap();
        assert_eq!(claims["sub"], "cdc");
        assert_eq!(claims["exp"], 2_000_000_000_u64);
        assert_eq!(super::claims("opaque"), None);
    }
}
