//! Schema ids, as a schema registry gives them: one id per schema, whatever its subject.

use serde_json::Value as Json;

use redb::{Database, Durability, ReadableTable};

use super::{
    Log, LogError, guard,
    store::{self, SCHEMA_IDS, SCHEMAS, SUBJECTS},
};

impl Log {
    /// Registers a schema under a subject and returns its id, from 1; the same schema gives the same id. On disk with the next
    /// commit: nothing that names the id can be there before.
    pub fn register(&self, subject: &str, schema: &Json) -> Result<u32, LogError> {
        let text = schema.to_string();
        let _writer = guard(self.0.writer.lock());
        let registered = {
            let store = self.store()?;
            register(store.database(&self.0.directory)?, subject, &text)
        };
        registered.map_err(|error| {
            let error = store::trouble(&self.0.directory, "writing", error);
            self.reopen();
            error
        })
    }

    /// The schema with this id.
    pub fn schema(&self, id: u32) -> Result<Json, LogError> {
        let transaction = self.store()?.begin_read(&self.0.directory)?;
        let trouble = |e: redb::Error| store::trouble(&self.0.directory, "reading", e);
        let table = transaction.open_table(SCHEMAS).map_err(|e| trouble(e.into()))?;
        let text = table.get(id).map_err(|e| trouble(e.into()))?;
        let text =
            text.ok_or_else(|| LogError::Broken(format!("{}: schema id {id} is not known to this log", self.0.directory.display())))?;
        serde_json::from_str(text.value())
            .map_err(|e| LogError::Broken(format!("{}: schema id {id} does not parse: {e}", self.0.directory.display())))
    }
}

fn register(database: &Database, subject: &str, text: &str) -> Result<u32, redb::Error> {
    let mut transaction = database.begin_write()?;
    // Records that name the id come in a later transaction, whose sync is this one's too.
    transaction.set_durability(Durability::None)?;
    let id = {
        let mut ids = transaction.open_table(SCHEMA_IDS)?;
        let known = ids.get(text)?.map(|id| id.value());
        let mut subjects = transaction.open_table(SUBJECTS)?;
        if let Some(id) = known
            && subjects.get((subject, id))?.is_some()
        {
            return Ok(id);
        }
        let mut schemas = transaction.open_table(SCHEMAS)?;
        let id = match known {
            Some(id) => id,
            None => schemas.last()?.map_or(0, |(id, _)| id.value()) + 1,
        };
        ids.insert(text, id)?;
        schemas.insert(id, text)?;
        subjects.insert((subject, id), ())?;
        id
    };
    transaction.commit()?;
    Ok(id)
}
