//! What is known of the server. Pure.

use std::sync::Arc;

use schemas::{charset::Charsets, ddl::mysql::Context};

use crate::mysql::decode::{collation::Collations, query::Query};

/// What does not change while we are connected.
#[derive(Debug, Clone)]
pub struct Server {
    pub mariadb: bool,
    /// 101119 is 10.11.19.
    pub version: u32,
    /// `server_uuid` on MySQL, `server_id` on MariaDB.
    pub identity: String,
    /// GTIDs name the places in the log.
    pub gtids: bool,
    pub full_metadata: bool,
    pub collations: Collations,
    pub charsets: Arc<Charsets>,
    pub context: Context,
}

impl Server {
    /// The settings a statement of the log ran under.
    pub fn context(&self, query: &Query) -> Context {
        query.context(&self.context, |id| self.collations.get(u64::from(id)))
    }

    /// Settings for texts that the catalog prints for us.
    pub fn catalog_context(&self, database: &str) -> Context {
        let mut context = self.context.clone();
        context.default_database = database.into();
        // What SHOW CREATE TABLE prints says every default itself.
        context.explicit_defaults_for_timestamp = true;
        context
    }
}
