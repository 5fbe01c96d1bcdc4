//! What is wrong with a target before anything runs: all of it, each with its remedy.

use runtime::config::{Keyless, Sink};
use schemas::{
    order::ledger::Ledger,
    table::{Table, TableId},
};

use super::{
    PostgresTarget,
    catalog::{self, Live},
    connection::Connection,
    session, sql, store,
};
use crate::error::SinkError;

/// A table as the sink means to write it.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The source's table.
    pub id: TableId,
    /// The target table that the configuration and the type table make of it.
    pub target: Table,
    pub lanes: u32,
}

/// Everything that keeps this sink from writing these tables; empty: nothing. An error: the server could not be asked.
pub async fn problems(target: &PostgresTarget, tables: &[Wanted]) -> Result<Vec<String>, SinkError> {
    let connection = Connection::open(&target.settings).await?;
    let sink = &target.sink;
    let mut problems = Vec::new();
    let stored = stored(target, &connection, &mut problems).await?;
    let replica = connection.replicate().await?;
    for wanted in tables {
        let ours = match &stored {
            Some((id, ledger)) => {
                ledger.lanes.keys().any(|l| l.table == wanted.id) || store::expected(&connection, *id, &wanted.id).await?.is_some()
            }
            None => false,
        };
        problems.extend(of_shape(sink, wanted));
        match session::live(&connection, &wanted.target.id, Some(&wanted.target)).await {
            Ok(None) => problems.extend(of_missing(sink, &connection, wanted).await?),
            Ok(Some(live)) => {
                problems.extend(of_live(wanted, &live, replica));
                if !ours {
                    let filled = live.rights.select && has_rows(&connection, &wanted.target.id).await?;
                    problems.extend(of_foreign(sink, wanted, &live, filled));
                }
            }
            Err(SinkError::Stop { message }) => problems.push(message),
            Err(other) => return Err(other),
        }
    }
    Ok(problems)
}

/// This sink's progress, where it has some; what keeps it from being stored goes to `problems`.
async fn stored(
    target: &PostgresTarget,
    connection: &Connection,
    problems: &mut Vec<String>,
) -> Result<Option<(store::SinkId, Ledger)>, SinkError> {
    let sql = "SELECT pg_catalog.to_regclass('instar.format') IS NOT NULL, \
               CASE WHEN pg_catalog.to_regnamespace('instar') IS NULL THEN has_database_privilege(current_database(), 'CREATE') \
               ELSE has_schema_privilege('instar', 'CREATE') END, current_database()::text, current_user::text";
    let row = connection.client.query_one(sql, &[]).await.map_err(|e| connection.sorted(&e, "look for the schema instar"))?;
    let (there, may_create): (bool, bool) = (row.get(0), row.get(1));
    if !there {
        if !may_create {
            let (database, role): (String, String) = (row.get(2), row.get(3));
            problems.push(format!(
                "the role {role} may not create the schema instar, where progress is kept; run GRANT CREATE ON DATABASE {} TO {}",
                sql::quote(&database),
                sql::quote(&role)
            ));
        }
        return Ok(None);
    }
    match store::look_up(connection, &target.pipeline, &target.sink.name).await? {
        None => Ok(None),
        Some(id) => Ok(Some((id, store::ledger(connection, id).await?))),
    }
}

async fn has_rows(connection: &Connection, id: &TableId) -> Result<bool, SinkError> {
    let sql = format!("SELECT EXISTS (SELECT FROM {})", sql::table(id));
    let row = connection.client.query_one(&sql, &[]).await.map_err(|e| connection.sorted(&e, &format!("look into {id}")))?;
    Ok(row.get(0))
}

/// What the wanted table itself is no good for.
fn of_shape(sink: &Sink, wanted: &Wanted) -> Vec<String> {
    let (id, target) = (&wanted.id, &wanted.target);
    let mut problems = Vec::new();
    let names = [("schema", &target.id.namespace), ("table", &target.id.name)].into_iter();
    for (what, name) in names.chain(target.columns.iter().map(|c| ("column", &c.name))) {
        if name.len() > sql::NAME_BYTES {
            problems.push(format!(
                "table {id}: the {what} name {name} has {} bytes; PostgreSQL keeps {}; give it another name under sinks.{}.tables",
                name.len(),
                sql::NAME_BYTES,
                sink.name
            ));
        }
    }
    if target.row_key().is_none() && sink.table(id).keyless == Keyless::Refuse {
        problems.push(format!(
            "table {id} has no row key: give it one at the source, or set keyless: append or full_row under sinks.{}.tables.{id}",
            sink.name
        ));
    }
    problems
}

async fn of_missing(sink: &Sink, connection: &Connection, wanted: &Wanted) -> Result<Vec<String>, SinkError> {
    let (id, name) = (&wanted.id, &wanted.target.id);
    if !sink.create {
        return Ok(vec![format!("table {id}: the target table {name} is not there; create it, or set sinks.{}.create: true", sink.name)]);
    }
    let sql = "SELECT CASE WHEN pg_catalog.to_regnamespace(pg_catalog.quote_ident($1)) IS NULL \
               THEN has_database_privilege(current_database(), 'CREATE') ELSE has_schema_privilege($1, 'CREATE') END";
    let row = connection.client.query_one(sql, &[&name.namespace]).await;
    let may: bool = row.map_err(|e| connection.sorted(&e, "read privileges"))?.get(0);
    if may {
        return Ok(Vec::new());
    }
    Ok(vec![format!(
        "table {id}: this role may not create {name}; let the schema's owner run GRANT CREATE ON SCHEMA {}, or create the schema first",
        sql::quote(&name.namespace)
    )])
}

/// What stands in the way on a table that is there.
fn of_live(wanted: &Wanted, live: &Live, replica: bool) -> Vec<String> {
    let (id, name) = (&wanted.id, &live.table.id);
    let mut problems = Vec::new();
    let mut say = |problem: String| problems.push(format!("table {id}: the target table {name} {problem}"));
    if !matches!(live.kind.as_str(), "r" | "p") {
        say("is not an ordinary table; name another one, or replace it by a table".into());
    }
    for key in &live.foreign_keys {
        if !replica {
            say(format!(
                "has or is meant by the foreign key {} of {}: rows of several tables arrive in no common order; drop it",
                key.name, key.of
            ));
        }
    }
    if !live.triggers.is_empty() && !replica {
        say(format!("has the triggers {}, which would change or refuse rows; drop or disable them", live.triggers.join(", ")));
    }
    for rule in &live.rules {
        say(format!("has the rule {rule}, which would rewrite statements; drop it"));
    }
    if live.row_security {
        say("has row security, which may hide rows from updates; disable it or let the table's owner load".into());
    }
    for column in live.table.columns.iter().filter(|c| c.generated.is_some() && wanted.target.column(&c.name).is_some()) {
        say(format!("computes the column {}, which the source gives too; drop its expression", column.name));
    }
    for column in &live.always_identity {
        say(format!(
            "gives the column {column} itself (GENERATED ALWAYS); run ALTER COLUMN {} SET GENERATED BY DEFAULT",
            sql::quote(column)
        ));
    }
    let key: Vec<_> = wanted.target.key_columns().iter().map(|c| c.name.clone()).collect();
    for index in &live.indexes {
        let names: Vec<_> = index.columns.iter().flatten().cloned().collect();
        let is_key = !index.partial && names.len() == key.len() && names.iter().all(|n| key.contains(n));
        if is_key && index.deferrable {
            say(format!("has the deferrable key {}, which an upsert cannot use; make it NOT DEFERRABLE", index.name));
        }
        if !is_key && wanted.lanes > 1 {
            say(format!(
                "has the unique constraint {} besides the key and {} lanes, which exchange its values in no common order; use one lane \
                 or drop it",
                index.name, wanted.lanes
            ));
        }
    }
    let rights = live.rights;
    let granted = [
        (rights.select, "SELECT"),
        (rights.insert, "INSERT"),
        (rights.update, "UPDATE"),
        (rights.delete, "DELETE"),
        (rights.truncate, "TRUNCATE"),
    ];
    let missing: Vec<_> = granted.iter().filter(|(has, _)| !has).map(|(_, right)| *right).collect();
    if !missing.is_empty() {
        say(format!("cannot be written by this role; run GRANT {} ON {}", missing.join(", "), sql::table(name)));
    }
    if !rights.owner {
        say("belongs to another role: only its owner may follow schema changes; run ALTER TABLE … OWNER TO, or grant that role".into());
    }
    problems
}

/// A table that is there and has no progress of ours.
fn of_foreign(sink: &Sink, wanted: &Wanted, live: &Live, filled: bool) -> Vec<String> {
    let (id, name) = (&wanted.id, &live.table.id);
    let mut problems = Vec::new();
    if filled && !sink.adopt && !sink.recreate {
        problems.push(format!(
            "table {id}: the target table {name} holds rows and has no progress of this sink; empty or rename it, or set \
             sinks.{0}.adopt: true (keep the rows) or sinks.{0}.recreate: true (empty it)",
            sink.name
        ));
    }
    if let Some(difference) = catalog::difference(name, Some(&wanted.target), Some(&live.table)).filter(|_| !sink.recreate) {
        problems.push(format!(
            "table {id}: the target table {name} is not the expected shape: {difference}; alter it, or set sinks.{}.recreate: true",
            sink.name
        ));
    }
    problems
}
