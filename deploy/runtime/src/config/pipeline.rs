//! The whole file: pipeline, topics, admin; and what is refused since it is not built.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use serde_yaml_ng::Value;

use super::{
    Admin, ConfigErrors, LocalTopics, Pipeline, Topics, Transport, TruncateEvents,
    document::Document,
    kafka,
    problem::Step,
    section::{Node, Section},
    sink, source,
    unbuilt::NOT_BUILT,
};

const DAY: u64 = 24 * 3600;
/// Where a process serves its status unless told otherwise.
const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8710);

pub(super) fn load(document: Document) -> Result<Pipeline, ConfigErrors> {
    if document.root.is_null() {
        return Err(ConfigErrors::of_file(&document.file, None, "is empty; pipeline, source and sinks are needed".into()));
    }
    refuse_unbuilt(&document);
    let built = build(&document);
    let file = document.file.clone();
    document.finish()?;
    // Whatever gives nothing has noted a problem; this is for the day when something forgets to.
    built.ok_or_else(|| ConfigErrors::of_file(&file, None, "is not complete".into()))
}

fn build(document: &Document) -> Option<Pipeline> {
    let root = Node { document, path: Vec::new(), value: &document.root }.section();
    let name = root.required("pipeline", "shop").and_then(name);
    let topics = topics(&root, name.as_deref().unwrap_or_default());
    let source = root.required("source", "{ engine: mysql, url: …, tables: […] }").and_then(source::source);
    let sinks = root.required("sinks", "{ warehouse: { target: postgres, url: … } }").map(|sinks| sink::sinks(sinks, source.as_ref()));
    let admin = admin(&root);
    Some(Pipeline { name: name?, file: document.file.clone(), topics: topics?, source: source?, sinks: sinks??, admin })
}

/// Names that become part of locks, topics and metrics.
fn name(node: &Node<'_>) -> Option<String> {
    let name = node.text()?;
    if name.len() > 40 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')) {
        node.problem(format!("{name:?} is no name; use at most 40 letters, digits, _, - and ."));
        return None;
    }
    Some(name)
}

/// The names of sinks.
pub(super) fn sink_name(name: &str, node: &Node<'_>) -> bool {
    let good = !name.is_empty() && name.len() <= 40 && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    if !good {
        node.problem(format!("{name:?} is no name of a sink; use at most 40 letters, digits, _, - and ."));
    }
    good
}

fn topics(root: &Section<'_>, pipeline: &str) -> Option<Topics> {
    let Some(section) = root.section("topics") else {
        return Some(Topics { prefix: pipeline.to_owned(), transport: Transport::Local(local(None)), truncate: TruncateEvents::Publish });
    };
    section.know(&["pubsub", "tombstones"]);
    let named =
        section.choice("transport", &[("local", Some(Named::Local)), ("kafka", Some(Named::Kafka)), ("pubsub", None)], Some(Named::Local));
    let prefix = match section.get("prefix") {
        Some(node) => name(node),
        None => Some(pipeline.to_owned()),
    };
    // All is read before a problem ends this, so that no key is called unknown because another one is wrong.
    let local = local(section.section("local").as_ref());
    let kafka = section.section("kafka").map(|kafka| kafka::kafka(&kafka));
    let transport = match (named, kafka) {
        (Some(Named::Local), _) => Some(Transport::Local(local)),
        (Some(Named::Kafka), Some(kafka)) => kafka.map(Transport::Kafka),
        (Some(Named::Kafka), None) => {
            section.required("kafka", "{ brokers: \"127.0.0.1:9092\", registry: \"http://127.0.0.1:8081\" }");
            None
        }
        (None, _) => None,
    };
    let truncate =
        section.choice("truncate", &[("publish", TruncateEvents::Publish), ("stop", TruncateEvents::Stop)], TruncateEvents::Publish);
    Some(Topics { prefix: prefix?, transport: transport?, truncate })
}

/// Transports by name; one that is not built has none.
#[derive(Debug, Clone, Copy)]
enum Named {
    Local,
    Kafka,
}

fn local(section: Option<&Section<'_>>) -> LocalTopics {
    let default = LocalTopics { path: PathBuf::from("./instar-data"), partitions: 1, retention: Duration::from_secs(7 * DAY) };
    let Some(section) = section else { return default };
    LocalTopics {
        path: section.path("path").unwrap_or(default.path),
        partitions: u32::try_from(section.integer("partitions", 1..=1024, 1)).unwrap_or(default.partitions),
        retention: section.duration("retention", default.retention),
    }
}

fn admin(root: &Section<'_>) -> Admin {
    let section = root.section("admin");
    let listen = section.as_ref().and_then(|s| s.get("listen").cloned()).and_then(|node| {
        let text = node.text()?;
        let parsed = text.parse();
        parsed.map_err(|_| node.problem(format!("{text:?} is not an address with a port; write for example 127.0.0.1:8710"))).ok()
    });
    let token = section.as_ref().and_then(|s| s.get("token")).and_then(Node::secret);
    Admin { listen: listen.unwrap_or(ADMIN), token }
}

/// Notes every key and value that is known but not built.
fn refuse_unbuilt(document: &Document) {
    for unbuilt in NOT_BUILT {
        let steps: Vec<&str> = unbuilt.key.split('.').collect();
        visit(&document.root, &steps, &mut Vec::new(), &mut |path, value| {
            let refused = match unbuilt.value {
                Some(name) => value.as_str() == Some(name),
                None => !matches!(value, Value::Bool(false)) && !value.as_sequence().is_some_and(Vec::is_empty),
            };
            if refused {
                let value = unbuilt.value.map_or(String::new(), |name| format!("{name}: "));
                document.problem(path, format!("{value}{} is not built yet", unbuilt.what));
            }
        });
    }
}

fn visit(value: &Value, steps: &[&str], path: &mut Vec<Step>, found: &mut impl FnMut(&[Step], &Value)) {
    let Some((step, rest)) = steps.split_first() else { return found(path, value) };
    match value {
        Value::Mapping(entries) => {
            for (key, value) in entries {
                let Some(key) = key.as_str().filter(|key| *step == "*" || step == key) else { continue };
                path.push(Step::Key(key.to_owned()));
                visit(value, rest, path, found);
                path.pop();
            }
        }
        Value::Sequence(values) if *step == "*" => {
            for (i, value) in values.iter().enumerate() {
                path.push(Step::Index(i));
                visit(value, rest, path, found);
                path.pop();
            }
        }
        Value::Sequence(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Tagged(_) => {}
    }
}
