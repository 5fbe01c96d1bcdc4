//! The schema registry, by the REST interface that Confluent's has and others speak too.

use std::{
    collections::HashMap,
    error::Error,
    io,
    time::{Duration, Instant},
};

use reqwest::{Client, Method, StatusCode, redirect::Policy};
use runtime::{
    config::{KafkaTopics, RegistryAuth, Tls, TlsMode, Url},
    tls,
};
use serde_json::{Value as Json, json};

use crate::error::CaptureError;

const CONNECT: Duration = Duration::from_secs(5);
/// One request; a wrong password is to be known within ten seconds.
const REQUEST: Duration = Duration::from_secs(8);
const MEDIA_TYPE: &str = "application/vnd.schemaregistry.v1+json";
/// How long one that is busy is asked again whether it is there, and how soon.
const PATIENCE: Duration = Duration::from_secs(4);
const AGAIN: Duration = Duration::from_millis(100);
/// As much of a registry's own words as a message takes, in characters.
const WORDS: usize = 600;

/// Registers schemas; remembers their ids.
pub struct Registry {
    client: Client,
    /// Without secrets and without a slash at the end.
    url: String,
    auth: RegistryAuth,
    /// By subject and schema text.
    ids: HashMap<(String, String), u32>,
}

/// What a registry answered, with its status.
struct Answer {
    status: StatusCode,
    body: Json,
}

impl Registry {
    /// Nothing is asked yet.
    ///
    /// # Errors
    ///
    /// `Refused`: certificates that cannot be read.
    pub fn new(topics: &KafkaTopics) -> Result<Self, CaptureError> {
        let url = address(&topics.registry);
        let refused = |problem: String| CaptureError::Refused(format!("registry {url}: {problem}"));
        // The HTTP client wants a TLS configuration also where it will speak in the clear, as it does to the end: it follows nobody.
        let in_the_clear = Tls { mode: TlsMode::Require, ca: None, certificate: None, key: None };
        let settings = if topics.registry.scheme == "https" { &topics.registry_tls } else { &in_the_clear };
        let config = tls::client_config(settings).map_err(|e| refused(e.to_string()))?;
        let config = config.ok_or_else(|| refused("topics.kafka.registry_tls has mode: disable, and the URL is https".into()))?;
        let builder = Client::builder().connect_timeout(CONNECT).timeout(REQUEST).pool_max_idle_per_host(1).redirect(Policy::none());
        let client = builder.tls_backend_preconfigured(config).build().map_err(|e| refused(reason(&e)))?;
        let auth = match (&topics.registry_auth, &topics.registry.user) {
            (RegistryAuth::None, Some(user)) => {
                let password = topics.registry.password.clone().unwrap_or_else(|| runtime::config::Secret::new(""));
                RegistryAuth::Basic { user: user.clone(), password }
            }
            (auth, _) => auth.clone(),
        };
        Ok(Self { client, url, auth, ids: HashMap::new() })
    }

    /// Whether the registry is there and has us. One that is busy is asked again for a few seconds.
    ///
    /// # Errors
    ///
    /// `Refused`: it does not let us in, or is none. `Transient`: it does not answer as it should now.
    pub async fn reach(&self) -> Result<(), CaptureError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.reach_once().await {
                Err(CaptureError::Transient(_)) if Instant::now() < deadline => tokio::time::sleep(AGAIN).await,
                reached => return reached,
            }
        }
    }

    async fn reach_once(&self) -> Result<(), CaptureError> {
        let answer = self.ask(Method::GET, "config", None).await?;
        if answer.status.is_success() { Ok(()) } else { Err(self.unexpected("its configuration cannot be read", &answer)) }
    }

    /// Registers a schema under a subject and returns its id; the same schema gives the same id.
    ///
    /// # Errors
    ///
    /// `Blocked`: the registry refuses the schema by the subject's compatibility, or as no schema.
    pub async fn register(&mut self, subject: &str, schema: &Json) -> Result<u32, CaptureError> {
        let known = (subject.to_owned(), schema.to_string());
        if let Some(id) = self.ids.get(&known) {
            return Ok(*id);
        }
        // A subject that has had a schema of ours is there.
        let begun = if self.ids.keys().any(|(known, _)| known == subject) { Begun::Ready } else { self.begin(subject).await? };
        let path = format!("subjects/{}/versions", encoded(subject));
        let body = json!({ "schema": known.1, "schemaType": "AVRO" });
        let answer = self.ask(Method::POST, &path, Some(&body)).await?;
        match answer.status {
            status if status.is_success() => {}
            StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY => return Err(self.refusal(subject, &answer).await),
            _ => return Err(self.unexpected(&format!("the schema of subject {subject} cannot be registered"), &answer)),
        }
        let id = answer.body["id"].as_u64().and_then(|id| u32::try_from(id).ok());
        let id = id.ok_or_else(|| self.unexpected(&format!("the schema of subject {subject} has been given no id"), &answer))?;
        if begun == Begun::LevelLater && !self.set_level(subject).await? {
            tracing::warn!(subject, registry = self.url, "the registry does not let the subject's compatibility be set to NONE");
        }
        self.ids.insert(known, id);
        Ok(id)
    }

    /// A subject that is not there yet gets compatibility NONE, unless somebody gave it a level of its own before.
    async fn begin(&self, subject: &str) -> Result<Begun, CaptureError> {
        let versions = self.ask(Method::GET, &format!("subjects/{}/versions", encoded(subject)), None).await?;
        let there = match versions.status {
            StatusCode::NOT_FOUND => false,
            status if status.is_success() => versions.body.as_array().is_some_and(|versions| !versions.is_empty()),
            _ => return Err(self.unexpected(&format!("the versions of subject {subject} cannot be read"), &versions)),
        };
        if there || self.level(subject, false).await?.is_some() || self.set_level(subject).await? {
            return Ok(Begun::Ready);
        }
        Ok(Begun::LevelLater)
    }

    /// The compatibility of a subject: its own, or with `whole` the registry's where it has none.
    async fn level(&self, subject: &str, whole: bool) -> Result<Option<String>, CaptureError> {
        let answer = self.ask(Method::GET, &format!("config/{}?defaultToGlobal={whole}", encoded(subject)), None).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(answer.body["compatibilityLevel"].as_str().map(str::to_owned)),
            _ => Err(self.unexpected(&format!("the compatibility of subject {subject} cannot be read"), &answer)),
        }
    }

    /// Whether the registry took it.
    async fn set_level(&self, subject: &str) -> Result<bool, CaptureError> {
        let body = json!({ "compatibility": "NONE" });
        let answer = self.ask(Method::PUT, &format!("config/{}", encoded(subject)), Some(&body)).await?;
        match answer.status {
            status if status.is_success() => Ok(true),
            StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED => Ok(false),
            _ => Err(self.unexpected(&format!("the compatibility of subject {subject} cannot be set"), &answer)),
        }
    }

    async fn refusal(&self, subject: &str, answer: &Answer) -> CaptureError {
        let level = match self.level(subject, false).await {
            Ok(Some(level)) => Some(level),
            Ok(None) => self.level(subject, true).await.ok().flatten(),
            Err(_) => None,
        };
        let level = level.unwrap_or_else(|| "not known".into());
        let url = &self.url;
        CaptureError::Blocked {
            message: format!(
                "registry {url} refuses the new schema of subject {subject}, whose compatibility is {level}: {}. Nothing of the change is \
                 published. Way out: set the subject's compatibility to NONE (PUT {url}/config/{} with {{\"compatibility\":\"NONE\"}}); the \
                 source tries again by itself",
                words(&answer.body),
                encoded(subject)
            ),
        }
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Json>) -> Result<Answer, CaptureError> {
        let request = self.client.request(method, format!("{}/{path}", self.url)).header("Accept", MEDIA_TYPE);
        let request = match &self.auth {
            RegistryAuth::None => request,
            RegistryAuth::Basic { user, password } => request.basic_auth(user, Some(password.reveal())),
            RegistryAuth::Bearer(token) => request.bearer_auth(token.reveal()),
        };
        let request = match body {
            Some(body) => request.header("Content-Type", MEDIA_TYPE).body(body.to_string()),
            None => request,
        };
        let failed = |e: reqwest::Error| {
            let text = format!("registry {}: {}", self.url, reason(&e));
            if is_tls(&e) { CaptureError::Refused(text) } else { CaptureError::Transient(text) }
        };
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        let text = response.text().await.map_err(failed)?;
        let body = match serde_json::from_str(&text) {
            Ok(body) => body,
            // Cut short, or of something before the registry that speaks for it.
            Err(_) if status.is_success() => {
                let words = words(&Json::String(text));
                return Err(CaptureError::Transient(format!("registry {}: an answer to {path} that is no JSON: {words}", self.url)));
            }
            Err(_) => Json::String(text),
        };
        Ok(Answer { status, body })
    }

    fn unexpected(&self, what: &str, answer: &Answer) -> CaptureError {
        let text = format!("registry {}: {what}: status {}: {}", self.url, answer.status.as_u16(), words(&answer.body));
        match answer.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                CaptureError::Refused(format!("{text}; look at topics.kafka.registry_auth and the account's rights"))
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                CaptureError::Refused(format!("{text}; topics.kafka.registry must be the root of the registry's interface"))
            }
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::REQUEST_TIMEOUT => {
                CaptureError::Transient(text)
            }
            _ => CaptureError::Refused(text),
        }
    }
}

/// What is left to do for a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    Ready,
    /// Some registries know a subject's compatibility only once it has a version.
    LevelLater,
}

/// As a configuration names it, without user and password.
fn address(url: &Url) -> String {
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    let port = url.port.map(|port| format!(":{port}")).unwrap_or_default();
    let path = url.database.as_deref().unwrap_or_default().trim_matches('/');
    let path = path.split('/').filter(|s| !s.is_empty()).map(|segment| format!("/{}", encoded(segment))).collect::<String>();
    format!("{}://{host}{port}{path}", url.scheme)
}

/// A path's segment.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

/// The registry's own words.
fn words(body: &Json) -> String {
    let message = body["message"].as_str().map(str::to_owned).or_else(|| body.as_str().map(str::to_owned));
    let message = message.unwrap_or_else(|| body.to_string());
    match message.char_indices().nth(WORDS) {
        Some((end, _)) => format!("{} …", &message[..end]),
        None if message.is_empty() => "no reason is given".into(),
        None => message,
    }
}

/// The innermost reason of a request's failure.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".into();
    }
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Whether TLS itself failed, which trying again does not mend.
fn is_tls(error: &(dyn Error + 'static)) -> bool {
    // An I/O error's source is that of the error in it: itself it has to be looked at apart.
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    error.is::<rustls::Error>() || inner.is_some_and(|inner| is_tls(inner)) || error.source().is_some_and(is_tls)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        thread::JoinHandle,
    };

    use super::*;

    /// One that gives these answers, each on a connection of its own, and is gone then. Gives the requests' first lines.
    fn scripted(answers: Vec<String>) -> (Registry, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let answered = answers.into_iter().map(|answer| {
                let (mut stream, _) = listener.accept().unwrap();
                let request = request(&mut stream);
                stream.write_all(answer.as_bytes()).unwrap();
                request
            });
            answered.collect()
        });
        let url = Url {
            scheme: "http".into(),
            user: None,
            password: None,
            host: "127.0.0.1".into(),
            port: Some(port),
            database: None,
            parameters: std::collections::BTreeMap::new(),
        };
        let topics = KafkaTopics {
            brokers: String::new(),
            registry: url,
            partitions: 1,
            replication: 1,
            properties: std::collections::BTreeMap::new(),
            tls: None,
            sasl: None,
            registry_auth: RegistryAuth::None,
            registry_tls: Tls { mode: TlsMode::Disable, ca: None, certificate: None, key: None },
        };
        (Registry::new(&topics).unwrap(), server)
    }

    /// Reads a whole request; its first line.
    fn request(stream: &mut impl Read) -> String {
        let mut text = String::new();
        let whole = |text: &str| {
            let (head, body) = text.split_once("\r\n\r\n")?;
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
            (body.len() >= length).then_some(())
        };
        while whole(&text).is_none() {
            let mut part = [0; 4096];
            let read = stream.read(&mut part).unwrap();
            assert!(read > 0, "half a request: {text}");
            text.push_str(std::str::from_utf8(&part[..read]).unwrap());
        }
        text.lines().next().unwrap_or_default().to_owned()
    }

    fn answer(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
    }

    /// What a busy registry, or what stands before it, does to a request; with what is said of it.
    fn faults() -> [(String, &'static str); 9] {
        [
            (String::new(), "connection closed"),
            ("HTTP/1.1 200 OK\r\nContent-Le".into(), "connection closed"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{\"id\":".into(), "end of file"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{\"id\":".into(), "end of file"),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"id\":".into(), "no JSON: {\"id\":"),
            (answer("500 Internal Server Error", "{\"error_code\":50001,\"message\":\"the store is away\"}"), "500: the store is away"),
            (answer("502 Bad Gateway", "<html>bad gateway</html>"), "502: <html>bad gateway"),
            (answer("503 Service Unavailable", ""), "503: no reason is given"),
            (answer("429 Too Many Requests", "slower"), "429: slower"),
        ]
    }

    #[tokio::test]
    async fn a_busy_registry_is_asked_again_and_the_reason_is_shown() {
        let (fine, found) = (answer("200 OK", "{\"compatibilityLevel\":\"NONE\"}"), answer("200 OK", "[1]"));
        let faulty: Vec<String> = faults().into_iter().map(|(fault, _)| fault).chain([fine.clone()]).collect();
        let (registry, server) = scripted(faulty.clone());
        registry.reach().await.unwrap();
        assert_eq!(server.join().unwrap(), vec!["GET /config HTTP/1.1"; faulty.len()]);
        for (fault, said) in faults() {
            // Where its versions are asked for, where its level is, where the level is set, and where its schema is registered.
            let missing = answer("404 Not Found", "{\"message\":\"none\"}");
            for before in [vec![], vec![missing.clone()], vec![missing.clone(), missing], vec![found.clone()]] {
                let (mut registry, server) = scripted([before, vec![fault.clone()]].concat());
                let error = registry.register("s-value", &json!("string")).await.unwrap_err();
                let text = error.to_string();
                assert!(matches!(error, CaptureError::Transient(_)), "{error:?}");
                assert!(text.contains(&registry.url) && text.contains(said), "{said}: {text}");
                server.join().unwrap();
            }
        }
        let (mut registry, server) = scripted(vec![found, answer("200 OK", "{\"id\":7}")]);
        assert_eq!(registry.register("s-value", &json!("string")).await.unwrap(), 7);
        server.join().unwrap();
    }

    #[tokio::test]
    async fn what_a_registry_means_is_not_asked_again() {
        let refusals = [("401 Unauthorized", "registry_auth"), ("403 Forbidden", "registry_auth"), ("404 Not Found", "the root")];
        for (status, said) in refusals {
            let (registry, server) = scripted(vec![answer(status, "{\"message\":\"no\"}")]);
            let error = registry.reach().await.unwrap_err();
            assert!(matches!(&error, CaptureError::Refused(text) if text.contains(said)), "{error:?}");
            assert_eq!(server.join().unwrap().len(), 1);
        }
        for status in ["409 Conflict", "422 Unprocessable Entity"] {
            let level = answer("200 OK", "{\"compatibilityLevel\":\"FULL\"}");
            let refusal = answer(status, "{\"message\":\"not like that\"}");
            let (mut registry, server) = scripted(vec![answer("200 OK", "[1]"), refusal, level]);
            let error = registry.register("s-value", &json!("string")).await.unwrap_err();
            assert!(
                matches!(&error, CaptureError::Blocked { message } if message.contains("not like that") && message.contains("FULL")),
                "{error:?}"
            );
            server.join().unwrap();
        }
    }

    #[test]
    fn a_path_is_kept_and_escaped() {
        let url = Url {
            scheme: "http".into(),
            user: Some("u".into()),
            password: Some(runtime::config::Secret::new("secret")),
            host: "::1".into(),
            port: Some(8081),
            database: Some("apis/cc ompat/v7/".into()),
            parameters: std::collections::BTreeMap::new(),
        };
        assert_eq!(address(&url), "http://[::1]:8081/apis/cc%20ompat/v7");
        assert_eq!(encoded("a/b.c-value"), "a%2Fb.c-value");
    }
}
