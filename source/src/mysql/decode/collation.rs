//! Collations by the ids that the log carries.

use std::collections::BTreeMap;

/// The server's collations: id to name and character set, as `information_schema` has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Collations(BTreeMap<u64, (String, String)>);

/// The id of `binary`, on every server.
pub const BINARY: u64 = 63;

impl Collations {
    pub fn add(&mut self, id: u64, name: &str, charset: &str) {
        self.0.insert(id, (name.to_lowercase(), charset.to_lowercase()));
    }

    /// Name and character set of an id.
    pub fn get(&self, id: u64) -> Option<(&str, &str)> {
        self.0.get(&id).map(|(name, charset)| (name.as_str(), charset.as_str()))
    }
}
