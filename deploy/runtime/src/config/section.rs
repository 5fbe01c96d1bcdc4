//! Reading keys: each accessor gives the checked value, or notes the problem and gives none.

use std::{cell::RefCell, collections::BTreeMap, ops::RangeInclusive, path::PathBuf, time::Duration};

use serde_yaml_ng::Value;

use super::{Secret, Url, document::Document, nearest::nearest, problem::Step, secret::substitute, unit, url};

/// A value at its place.
#[derive(Clone)]
pub(super) struct Node<'d> {
    pub document: &'d Document,
    pub path: Vec<Step>,
    pub value: &'d Value,
}

impl<'d> Node<'d> {
    pub fn problem(&self, message: impl Into<String>) {
        self.document.problem(&self.path, message.into());
    }

    fn below(&self, step: Step, value: &'d Value) -> Node<'d> {
        let mut path = self.path.clone();
        path.push(step);
        Node { document: self.document, path, value }
    }

    /// What is written, before references are replaced.
    pub fn written(&self) -> Option<String> {
        match self.value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            Value::Null => {
                self.problem("has no value");
                None
            }
            Value::Sequence(_) | Value::Mapping(_) | Value::Tagged(_) => {
                self.problem("takes one value, not a list or keys");
                None
            }
        }
    }

    pub fn text(&self) -> Option<String> {
        self.read(|text| if text.is_empty() { Err("is empty".into()) } else { Ok(text.to_owned()) })
    }

    /// Reads what is written, its references replaced.
    fn read<T>(&self, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let written = self.written()?;
        let read = substitute(&written, |_, value| value.to_owned()).and_then(|text| read(&text));
        read.map_err(|message| self.problem(message)).ok()
    }

    pub fn secret(&self) -> Option<Secret> {
        self.text().map(Secret::new)
    }

    pub fn url(&self) -> Option<Url> {
        url::parse(&self.written()?).map_err(|message| self.problem(message)).ok()
    }

    pub fn duration(&self) -> Option<Duration> {
        self.read(unit::duration)
    }

    pub fn size(&self) -> Option<usize> {
        self.read(unit::size)
    }

    pub fn flag(&self) -> Option<bool> {
        self.choice(&[("true", true), ("false", false)])
    }

    pub fn integer(&self, range: RangeInclusive<u64>) -> Option<u64> {
        self.read(|text| match text.parse() {
            Ok(number) if range.contains(&number) => Ok(number),
            _ if *range.end() == u64::MAX => Err(format!("{text:?} is not a whole number from {}", range.start())),
            _ => Err(format!("{text:?} is not a whole number from {} to {}", range.start(), range.end())),
        })
    }

    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        self.read(|text| {
            let found = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            found.ok_or_else(|| {
                let meant = nearest(text, names.iter().copied()).map_or(String::new(), |name| format!("; did you mean {name}?"));
                format!("{text:?} is not one of {}{meant}", names.join(", "))
            })
        })
    }

    /// The elements of a list.
    pub fn list(&self) -> Vec<Node<'d>> {
        match self.value {
            Value::Sequence(values) => values.iter().enumerate().map(|(i, v)| self.below(Step::Index(i), v)).collect(),
            Value::Null => Vec::new(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Mapping(_) | Value::Tagged(_) => {
                self.problem("takes a list: [a, b]");
                Vec::new()
            }
        }
    }

    pub fn texts(&self) -> Vec<String> {
        self.list().iter().filter_map(Node::text).collect()
    }

    /// Keys that the user chose, with their values. An empty mapping may be left out behind its colon.
    pub fn entries(&self) -> Vec<(String, Node<'d>)> {
        match self.value {
            Value::Mapping(entries) => entries.iter().filter_map(|(key, value)| self.entry(key, value)).collect(),
            Value::Null => Vec::new(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Sequence(_) | Value::Tagged(_) => {
                self.problem("takes keys with values, not a value");
                Vec::new()
            }
        }
    }

    fn entry(&self, key: &Value, value: &'d Value) -> Option<(String, Node<'d>)> {
        let key = match key {
            Value::String(key) => key.clone(),
            Value::Number(key) => key.to_string(),
            Value::Bool(key) => key.to_string(),
            Value::Null | Value::Sequence(_) | Value::Mapping(_) | Value::Tagged(_) => {
                self.problem("has a key that is not text");
                return None;
            }
        };
        let node = self.below(Step::Key(key.clone()), value);
        Some((key, node))
    }

    pub fn section(&self) -> Section<'d> {
        Section { node: self.clone(), entries: self.entries().into_iter().collect(), known: RefCell::default() }
    }
}

/// Keys that are known by the time it is dropped; the others are problems then.
pub(super) struct Section<'d> {
    pub node: Node<'d>,
    entries: BTreeMap<String, Node<'d>>,
    known: RefCell<Vec<&'static str>>,
}

impl<'d> Section<'d> {
    pub fn get(&self, key: &'static str) -> Option<&Node<'d>> {
        self.know(&[key]);
        self.entries.get(key)
    }

    /// Keys of what is not built, or read elsewhere.
    pub fn know(&self, keys: &[&'static str]) {
        self.known.borrow_mut().extend_from_slice(keys);
    }

    pub fn required(&self, key: &'static str, example: &str) -> Option<&Node<'d>> {
        let found = self.get(key);
        if found.is_none() {
            let mut path = self.node.path.clone();
            path.push(Step::Key(key.to_owned()));
            self.node.document.problem(&path, format!("is missing; write for example {key}: {example}"));
        }
        found
    }

    /// The keys below `key`; none where it is not there.
    pub fn section(&self, key: &'static str) -> Option<Section<'d>> {
        self.get(key).map(Node::section)
    }

    pub fn duration(&self, key: &'static str, default: Duration) -> Duration {
        self.get(key).and_then(Node::duration).unwrap_or(default)
    }

    pub fn size(&self, key: &'static str, default: usize) -> usize {
        self.get(key).and_then(Node::size).unwrap_or(default)
    }

    pub fn flag(&self, key: &'static str, default: bool) -> bool {
        self.get(key).and_then(Node::flag).unwrap_or(default)
    }

    pub fn integer(&self, key: &'static str, range: RangeInclusive<u64>, default: u64) -> u64 {
        self.get(key).and_then(|n| n.integer(range)).unwrap_or(default)
    }

    pub fn choice<T: Copy>(&self, key: &'static str, choices: &[(&str, T)], default: T) -> T {
        self.get(key).and_then(|n| n.choice(choices)).unwrap_or(default)
    }

    pub fn path(&self, key: &'static str) -> Option<PathBuf> {
        self.get(key).and_then(Node::text).map(PathBuf::from)
    }

    pub fn texts(&self, key: &'static str) -> Vec<String> {
        self.get(key).map(Node::texts).unwrap_or_default()
    }

    /// A mapping of names to texts.
    pub fn names(&self, key: &'static str) -> BTreeMap<String, String> {
        let entries = self.get(key).map(Node::entries).unwrap_or_default();
        entries.into_iter().filter_map(|(name, node)| Some((name, node.text()?))).collect()
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        let known = self.known.take();
        for (key, node) in &self.entries {
            if !known.contains(&key.as_str()) {
                match nearest(key, known.iter().copied()) {
                    Some(meant) => node.problem(format!("unknown key; did you mean {meant}?")),
                    None => node.problem(format!("unknown key; known here are {}", known.join(", "))),
                }
            }
        }
    }
}
