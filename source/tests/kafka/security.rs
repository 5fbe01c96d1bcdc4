//! Every way to sign in, right and wrong: a wrong one is told within ten seconds, without the secret.

use std::{
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use runtime::config::{KafkaTopics, RegistryAuth, Sasl, SaslMechanism, TlsMode};
use serde_json::json;
use source::{
    error::CaptureError,
    publisher::{Publisher, kafka::KafkaPublisher},
};

use crate::world::{env, newest, prefix, progress, secret, tls, topics, url};

/// Signs in, starts and commits.
async fn works(settings: &KafkaTopics) {
    let prefix = prefix("secure");
    let mut publisher = KafkaPublisher::connect(settings, "p", &prefix).await.unwrap();
    assert_eq!(publisher.start().await.unwrap(), None);
    publisher.commit(&progress(5)).await.unwrap();
    assert_eq!(newest(&prefix), Some(progress(5)));
}

async fn refused(settings: &KafkaTopics, parts: &[&str]) {
    let began = Instant::now();
    let error = KafkaPublisher::connect(settings, "p", &prefix("refused")).await.err().unwrap();
    let took = began.elapsed();
    let CaptureError::Refused(text) = &error else { panic!("{error:?}") };
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    let problems = KafkaPublisher::preflight(settings, "p").await;
    assert!(problems.iter().any(|p| p.fatal && p.what == *text && !p.remedy.is_empty()), "{problems:?}");
}

fn password(mechanism: SaslMechanism, password: &str) -> Option<Sasl> {
    Some(Sasl::Password { mechanism, user: "cdc".into(), password: secret(password) })
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords() {
    for mechanism in [SaslMechanism::Plain, SaslMechanism::ScramSha256, SaslMechanism::ScramSha512] {
        let mut settings = topics();
        settings.brokers = env("INSTAR_TEST_KAFKA_SASL");
        settings.sasl = password(mechanism, "cdc");
        works(&settings).await;
        settings.sasl = password(mechanism, "hunter2");
        refused(&settings, &[&settings.brokers, "uthentication"]).await;
    }
}

fn token(claims: &serde_json::Value) -> String {
    let encode = |text: &str| {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut out = String::new();
        for chunk in text.as_bytes().chunks(3) {
            let bits = chunk.iter().fold(0u32, |bits, b| bits << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
            for place in 0..=chunk.len() {
                out.push(char::from(alphabet[(bits >> (18 - 6 * place) & 63) as usize]));
            }
        }
        out
    };
    format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode(&claims.to_string()))
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut settings = topics();
    settings.brokers = env("INSTAR_TEST_KAFKA_SASL");
    settings.sasl = Some(Sasl::Token(secret(&token(&json!({ "sub": "cdc", "iat": now - 10, "exp": now + 3600 })))));
    works(&settings).await;
    settings.sasl = Some(Sasl::Token(secret("hunter2")));
    refused(&settings, &[&settings.brokers]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_an_authority_of_its_own() {
    let folder = env("INSTAR_TEST_KAFKA_CERTIFICATES");
    let ca = format!("{folder}/ca.pem");
    let mut settings = topics();
    settings.brokers = env("INSTAR_TEST_KAFKA_TLS");
    settings.tls = Some(tls(TlsMode::VerifyFull, Some(ca.clone())));
    works(&settings).await;
    settings.tls = Some(tls(TlsMode::Require, None));
    works(&settings).await;
    // Not the authority that signed it.
    settings.tls = Some(tls(TlsMode::VerifyFull, Some(env("INSTAR_TEST_REGISTRY_SECURED_CA"))));
    refused(&settings, &[&settings.brokers, "ertificate"]).await;
    settings.brokers = env("INSTAR_TEST_KAFKA_SASL_TLS");
    settings.tls = Some(tls(TlsMode::VerifyFull, Some(ca)));
    settings.sasl = password(SaslMechanism::ScramSha512, "cdc");
    works(&settings).await;
    settings.sasl = password(SaslMechanism::ScramSha512, "hunter2");
    refused(&settings, &[&settings.brokers, "uthentication"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_the_client() {
    let folder = env("INSTAR_TEST_KAFKA_CERTIFICATES");
    let file = |name: &str| Some(Path::new(&folder).join(name));
    let mut settings = topics();
    settings.brokers = env("INSTAR_TEST_KAFKA_MTLS");
    let mut with = tls(TlsMode::VerifyFull, Some(format!("{folder}/ca.pem")));
    settings.tls = Some(with.clone());
    refused(&settings, &[&settings.brokers]).await;
    with.certificate = file("client.pem");
    with.key = file("client.key");
    settings.tls = Some(with);
    works(&settings).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_are_missing_are_named() {
    let mut settings = topics();
    settings.brokers = env("INSTAR_TEST_KAFKA_SASL");
    settings.sasl = Some(Sasl::Password { mechanism: SaslMechanism::Plain, user: "guest".into(), password: secret("guest") });
    let prefix = prefix("rights");
    let mut publisher = KafkaPublisher::connect(&settings, "p", &prefix).await.unwrap();
    let error = publisher.start().await.unwrap_err();
    assert!(matches!(&error, CaptureError::Refused(text) if text.contains(&prefix)), "{error:?}");
    let problems = KafkaPublisher::preflight(&settings, &prefix).await;
    assert!(problems.iter().any(|p| p.what.contains(&prefix)), "{problems:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_not_there_is_waited_for() {
    let mut settings = topics();
    settings.brokers = "127.0.0.1:9".into();
    let error = KafkaPublisher::connect(&settings, "p", &prefix("away")).await.err().unwrap();
    assert!(matches!(&error, CaptureError::Transient(text) if text.contains("127.0.0.1:9") && text.contains("refused")), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_registry_with_password_token_and_tls() {
    let token = env("INSTAR_TEST_REGISTRY_SECURED_TOKEN");
    let basic = |password: &str| RegistryAuth::Basic { user: "cdc".into(), password: secret(password) };
    let mut settings = topics();
    settings.registry = url(&env("INSTAR_TEST_REGISTRY_SECURED"));
    for auth in [basic("cdc"), RegistryAuth::Bearer(secret(&token))] {
        settings.registry_auth = auth;
        works(&settings).await;
    }
    for auth in [basic("hunter2"), RegistryAuth::Bearer(secret("hunter2")), RegistryAuth::None] {
        settings.registry_auth = auth;
        refused(&settings, &[&env("INSTAR_TEST_REGISTRY_SECURED"), "registry_auth"]).await;
    }
    // User and password in the URL itself.
    settings.registry.user = Some("cdc".into());
    settings.registry.password = Some(secret("cdc"));
    works(&settings).await;
    settings.registry = url(&env("INSTAR_TEST_REGISTRY_SECURED_TLS"));
    settings.registry_auth = basic("cdc");
    settings.registry_tls = tls(TlsMode::VerifyFull, Some(env("INSTAR_TEST_REGISTRY_SECURED_CA")));
    works(&settings).await;
    settings.registry_tls = tls(TlsMode::VerifyFull, None);
    refused(&settings, &[&env("INSTAR_TEST_REGISTRY_SECURED_TLS"), "ertificate"]).await;
}
