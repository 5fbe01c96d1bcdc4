//! One YAML file as it is checked: values with their key paths, and every problem met on the way.

use std::{
    cell::RefCell,
    fmt,
    path::{Path, PathBuf},
};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_yaml_ng::Value;

use super::problem::{ConfigErrors, ConfigProblem, Step, path_text};

pub(super) struct Document {
    pub file: PathBuf,
    text: String,
    pub root: Value,
    problems: RefCell<Vec<(Vec<Step>, String)>>,
}

impl Document {
    pub fn load(file: &Path) -> Result<Self, ConfigErrors> {
        let text = std::fs::read_to_string(file).map_err(|e| ConfigErrors::of_file(file, None, format!("cannot be read: {e}")))?;
        Self::parse(file, text)
    }

    pub fn parse(file: &Path, text: String) -> Result<Self, ConfigErrors> {
        match serde_yaml_ng::from_str(&text) {
            Ok(root) => Ok(Self { file: file.to_owned(), text, root, problems: RefCell::default() }),
            Err(error) => {
                let line = error.location().map(|l| l.line());
                Err(ConfigErrors::of_file(file, line, format!("is not YAML that is whole: {error}")))
            }
        }
    }

    /// Notes a problem; a second one at the same place says nothing new.
    pub fn problem(&self, path: &[Step], message: String) {
        let mut problems = self.problems.borrow_mut();
        if !problems.iter().any(|(p, _)| p == path) {
            problems.push((path.to_owned(), message));
        }
    }

    /// The problems, in the order of the file.
    pub fn finish(self) -> Result<(), ConfigErrors> {
        let mut problems: Vec<ConfigProblem> = self
            .problems
            .take()
            .into_iter()
            .map(|(path, message)| ConfigProblem { line: Some(self.line(&path)), key: path_text(&path), message })
            .collect();
        problems.sort_by_key(|p| p.line);
        if problems.is_empty() { Ok(()) } else { Err(ConfigErrors { file: self.file, problems }) }
    }

    /// The line of a key, or of the nearest key above it that is there.
    fn line(&self, path: &[Step]) -> usize {
        (1..=path.len()).rev().find_map(|length| locate(&self.text, &path[..length])).unwrap_or(1)
    }
}

/// The line at which a path's last step stands: the parser is led there and made to fail, for its errors alone tell the line.
fn locate(text: &str, path: &[Step]) -> Option<usize> {
    let deserializer = serde_yaml_ng::Deserializer::from_str(text);
    match (Finder { path }).deserialize(deserializer) {
        Ok(()) => None,
        Err(error) => error.to_string().contains(FOUND).then(|| error.location().map(|l| l.line())).flatten(),
    }
}

const FOUND: &str = "instar: found";

#[derive(Clone, Copy)]
struct Finder<'a> {
    path: &'a [Step],
}

impl<'de> DeserializeSeed<'de> for Finder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Finder<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((Step::Key(wanted), rest)) = self.path.split_first() else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(());
        };
        while let Some(here) = map.next_key_seed(KeyFinder { wanted, last: rest.is_empty() })? {
            if here {
                map.next_value_seed(Finder { path: rest })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Some((Step::Index(wanted), rest)) = self.path.split_first() else {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        };
        for _ in 0..*wanted {
            seq.next_element::<IgnoredAny>()?;
        }
        if rest.is_empty() {
            seq.next_element_seed(Here)?;
        } else {
            seq.next_element_seed(Finder { path: rest })?;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Fails at whatever stands there.
struct Here;

impl<'de> DeserializeSeed<'de> for Here {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Here {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FOUND)
    }
}

struct KeyFinder<'a> {
    wanted: &'a str,
    last: bool,
}

impl<'de> DeserializeSeed<'de> for KeyFinder<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeyFinder<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<bool, E> {
        match (key == self.wanted, self.last) {
            (true, true) => Err(E::custom(FOUND)),
            (same, _) => Ok(same),
        }
    }
}
