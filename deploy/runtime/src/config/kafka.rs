//! `topics.kafka`: brokers, registry, and how to reach them.

use super::{
    KafkaTopics, RegistryAuth, Sasl, SaslMechanism, Secret, Tls, TlsMode, Url,
    section::{Node, Section},
    source::tls,
};

const BROKER_PORT: u16 = 9092;

/// What Instar's own order and safety rest on; each with what is there instead.
const OURS: [(&str, &str); 18] = [
    ("bootstrap.servers", "topics.kafka.brokers"),
    ("metadata.broker.list", "topics.kafka.brokers"),
    ("transactional.id", "the pipeline's name"),
    ("enable.idempotence", "always true"),
    ("acks", "always all"),
    ("request.required.acks", "always all"),
    ("isolation.level", "always read_committed"),
    ("group.id", "the pipeline's and the sink's name"),
    ("group.protocol", "always classic"),
    ("partition.assignment.strategy", "always cooperative-sticky"),
    ("auto.offset.reset", "always error"),
    ("enable.auto.commit", "always false: positions are kept in the target"),
    ("enable.auto.offset.store", "always false: positions are kept in the target"),
    ("enable.partition.eof", "always true"),
    ("partitioner", "always murmur2 of the key"),
    ("check.crcs", "always true"),
    ("allow.auto.create.topics", "always false"),
    ("message.max.bytes", "the topic's max.message.bytes"),
];

pub(super) fn kafka(section: &Section<'_>) -> Option<KafkaTopics> {
    let brokers = section.required("brokers", "\"127.0.0.1:9092\"").map(brokers);
    let registry = section.required("registry", "\"http://127.0.0.1:8081\"").and_then(registry);
    let tls = broker_tls(section);
    let sasl = section.section("sasl").and_then(|s| sasl(&s));
    let registry_auth = section.section("registry_auth").map_or(RegistryAuth::None, |s| registry_auth(&s));
    let registry_tls = section.get("registry_tls").map(|_| tls_of(section, "registry_tls"));
    let properties = section.get("properties").map(Node::entries).unwrap_or_default();
    let properties = properties.into_iter().filter_map(|(name, node)| Some((allowed(name, &node)?, node.secret()?))).collect();
    let topics = KafkaTopics {
        partitions: u32::try_from(section.integer("partitions", 1..=1024, 1)).unwrap_or(1),
        replication: u16::try_from(section.integer("replication", 1..=32, 1)).unwrap_or(1),
        properties,
        registry_tls: registry_tls.or_else(|| tls.clone()).unwrap_or_default(),
        tls,
        sasl,
        registry_auth,
        brokers: brokers?,
        registry: registry?,
    };
    Some(topics)
}

/// One text with commas, or a list.
fn brokers(node: &Node<'_>) -> String {
    let texts = if node.value.is_sequence() { node.texts() } else { node.text().into_iter().collect() };
    let addresses: Vec<String> = texts.iter().flat_map(|t| t.split(',')).map(str::trim).filter(|a| !a.is_empty()).map(with_port).collect();
    for address in &addresses {
        let port = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        if port.is_none_or(|(host, _)| host.is_empty() || host.contains('/')) {
            node.problem(format!("{address:?} is not a broker's address; write host:port, several with commas between them"));
        }
    }
    addresses.join(",")
}

fn with_port(address: &str) -> String {
    let bare = address.starts_with('[') && address.ends_with(']') || !address.contains(':');
    if bare { format!("{address}:{BROKER_PORT}") } else { address.to_owned() }
}

fn registry(node: &Node<'_>) -> Option<Url> {
    let url = node.url()?;
    if !matches!(url.scheme.as_str(), "http" | "https") {
        node.problem(format!("{}:// is no registry; write http://host:8081 or https://host", url.scheme));
        return None;
    }
    Some(url)
}

/// A broker speaks TLS at an address or does not: there is nothing to prefer.
fn broker_tls(kafka: &Section<'_>) -> Option<Tls> {
    kafka.get("tls")?;
    let tls = tls_of(kafka, "tls");
    (tls.mode != TlsMode::Disable).then_some(tls)
}

fn tls_of(kafka: &Section<'_>, key: &'static str) -> Tls {
    let mode_given = kafka.get(key).is_some_and(|node| node.value.get("mode").is_some());
    let mut tls = tls(kafka, key);
    match tls.mode {
        TlsMode::Prefer if mode_given => {
            if let Some(node) = kafka.get(key) {
                node.problem("has mode: prefer, which a broker cannot be asked for; write disable, require, verify-ca or verify-full");
            }
        }
        TlsMode::Prefer => tls.mode = TlsMode::VerifyFull,
        TlsMode::Disable | TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => {}
    }
    tls
}

fn user(section: &Section<'_>) -> Option<String> {
    let (user, username) = (section.get("user"), section.get("username"));
    user.or(username).and_then(Node::text)
}

fn sasl(section: &Section<'_>) -> Option<Sasl> {
    let mechanisms = [
        ("PLAIN", SaslMechanism::Plain),
        ("SCRAM-SHA-256", SaslMechanism::ScramSha256),
        ("SCRAM-SHA-512", SaslMechanism::ScramSha512),
        ("OAUTHBEARER", SaslMechanism::OAuthBearer),
    ];
    let mechanism = section.required("mechanism", "SCRAM-SHA-512").and_then(|node| node.choice(&mechanisms));
    let (user, password) = (user(section), section.get("password").and_then(Node::secret));
    let token = section.get("token").and_then(Node::secret);
    let needs = |what: &str| section.node.problem(format!("needs {what} for this mechanism"));
    match (mechanism?, user, password, token) {
        (SaslMechanism::OAuthBearer, _, _, Some(token)) => Some(Sasl::Token(token)),
        (SaslMechanism::OAuthBearer, _, _, None) => {
            needs("a token: ${file:PATH}");
            None
        }
        (mechanism, Some(user), Some(password), _) => Some(Sasl::Password { mechanism, user, password }),
        (SaslMechanism::Plain | SaslMechanism::ScramSha256 | SaslMechanism::ScramSha512, _, _, _) => {
            needs("user and password");
            None
        }
    }
}

fn registry_auth(section: &Section<'_>) -> RegistryAuth {
    let (user, password) = (user(section), section.get("password").and_then(Node::secret));
    match (user, password, section.get("token").and_then(Node::secret)) {
        (Some(user), password, None) => RegistryAuth::Basic { user, password: password.unwrap_or_else(|| Secret::new(String::new())) },
        (None, None, Some(token)) => RegistryAuth::Bearer(token),
        (Some(_) | None, _, _) => {
            section.node.problem("takes user and password, or a token");
            RegistryAuth::None
        }
    }
}

fn allowed(name: String, node: &Node<'_>) -> Option<String> {
    match OURS.iter().find(|(ours, _)| *ours == name) {
        Some((_, instead)) => {
            node.problem(format!("is not for the configuration to set ({instead})"));
            None
        }
        None => Some(name),
    }
}
