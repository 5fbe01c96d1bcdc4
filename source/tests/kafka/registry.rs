//! Subjects: compatibility, refusals, outages.

use reqwest::Method;
use serde_json::json;
use source::{
    error::CaptureError,
    publisher::{Publisher, kafka::KafkaPublisher, registry::Registry},
};

use crate::world::{env, prefix, publisher, registry, topics, url};

fn schema(name: &str, fields: &serde_json::Value) -> serde_json::Value {
    json!({ "type": "record", "name": name, "namespace": "t", "fields": fields })
}

fn wide() -> serde_json::Value {
    schema("Value", &json!([{ "name": "a", "type": "long" }, { "name": "b", "type": "string" }]))
}

fn narrow() -> serde_json::Value {
    schema("Value", &json!([{ "name": "a", "type": "string" }, { "name": "c", "type": "long" }]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subject_of_ours_takes_any_change() {
    let subject = format!("{}-value", prefix("none"));
    let mut client = Registry::new(&topics()).unwrap();
    let first = client.register(&subject, &wide()).await.unwrap();
    let second = client.register(&subject, &narrow()).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(client.register(&subject, &wide()).await.unwrap(), first);
    assert_eq!(Registry::new(&topics()).unwrap().register(&subject, &wide()).await.unwrap(), first);
    let (status, level) = registry(Method::GET, &format!("config/{subject}"), None).await;
    assert_eq!((status, level), (200, json!({ "compatibilityLevel": "NONE" })));
    let (_, stored) = registry(Method::GET, &format!("schemas/ids/{second}"), None).await;
    let stored: serde_json::Value = serde_json::from_str(stored["schema"].as_str().unwrap()).unwrap();
    assert_eq!(stored, narrow());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_level_that_somebody_set_is_respected_and_a_refusal_names_it() {
    for level in ["BACKWARD", "FULL"] {
        let subject = format!("{}-value", prefix("level"));
        let mut client = Registry::new(&topics()).unwrap();
        client.register(&subject, &wide()).await.unwrap();
        let config = format!("config/{subject}");
        assert_eq!(registry(Method::PUT, &config, Some(json!({ "compatibility": level }))).await.0, 200);
        let error = client.register(&subject, &narrow()).await.unwrap_err();
        let CaptureError::Blocked { message } = &error else { panic!("{error:?}") };
        for part in [subject.as_str(), level, "refuses the new schema", "Way out", &env("INSTAR_TEST_REGISTRY")] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(registry(Method::GET, &config, None).await.1, json!({ "compatibilityLevel": level }));
        assert_eq!(registry(Method::PUT, &config, Some(json!({ "compatibility": "NONE" }))).await.0, 200);
        client.register(&subject, &narrow()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_schema_is_refused() {
    let subject = format!("{}-value", prefix("invalid"));
    let mut client = Registry::new(&topics()).unwrap();
    let error = client.register(&subject, &json!({ "type": "nothing" })).await.unwrap_err();
    assert!(matches!(&error, CaptureError::Blocked { message } if message.contains(&subject)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_down_is_waited_out() {
    let mut settings = topics();
    settings.registry = url("http://127.0.0.1:9/apis/ccompat/v7");
    let mut publisher = KafkaPublisher::connect(&settings, "p", &prefix("down")).await.unwrap();
    let error = publisher.start().await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, CaptureError::Transient(_)), "{error:?}");
    assert!(text.contains("registry http://127.0.0.1:9/apis/ccompat/v7") && text.contains("refused"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_at_another_path_is_named() {
    let mut settings = topics();
    settings.registry.database = Some("nowhere".into());
    let error = KafkaPublisher::connect(&settings, "p", &prefix("path")).await.err().unwrap();
    assert!(matches!(&error, CaptureError::Refused(text) if text.contains("/nowhere") && text.contains("root")), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_publisher_registers_its_own_topics() {
    let prefix = prefix("own");
    let mut publisher = publisher(&prefix).await;
    publisher.start().await.unwrap();
    for topic in ["schema-versions", "progress"] {
        let (status, versions) = registry(Method::GET, &format!("subjects/{prefix}.{topic}-value/versions"), None).await;
        assert_eq!((status, versions), (200, json!([1])));
    }
}
