//! Whether a target table is still the one that rows were made for: someone may narrow a column while rows flow, and the server
//! would round what comes.
//!
//! The mark of a table is which rows of the catalog describe its columns: every ALTER of a column writes them anew. A batch looks at
//! it after its rows and before its COMMIT: until then its own writes keep every ALTER out, and one that came before them is seen.

use tokio_postgres::{Statement, error::SqlState};

use super::{connection::Connection, loader::Loader, sql};
use crate::{error::SinkError, target::TableBatch};

/// The mark of the table `$1`, a quoted name; NULL: there is none.
const MARK: &str = "SELECT pg_catalog.string_agg(a.attrelid || ' ' || a.xmin::text, ',' ORDER BY a.attnum) \
FROM pg_catalog.pg_attribute a WHERE a.attrelid = pg_catalog.to_regclass($1) AND a.attnum > 0";

/// Fails by a division by zero where one of the tables `$1` has not its mark in `$2`: a COMMIT that was sent right behind it then
/// rolls back, without a wait for an answer between the two.
const UNCHANGED: &str = "SELECT 1 / (pg_catalog.bool_and(m.mark IS NOT DISTINCT FROM w.mark))::int \
FROM ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) AS w(name, mark) LEFT JOIN LATERAL (\
SELECT pg_catalog.string_agg(a.attrelid || ' ' || a.xmin::text, ',' ORDER BY a.attnum) AS mark \
FROM pg_catalog.pg_attribute a WHERE a.attrelid = pg_catalog.to_regclass(w.name) AND a.attnum > 0) m ON true";

/// The mark of a table as it is now.
pub async fn of(connection: &Connection, table: &schemas::table::TableId) -> Result<Option<String>, SinkError> {
    let row = connection.query_one(MARK, &[&sql::table(table)]).await;
    row.map(|row| row.get(0)).map_err(|e| connection.sorted(&e, &format!("look at the columns of {table}")))
}

pub async fn prepare(connection: &Connection) -> Result<Statement, tokio_postgres::Error> {
    connection.client.prepare(UNCHANGED).await
}

/// Commits the open transaction if every table of the batch still has the mark that it had when its loader was made. False: one has
/// not, and nothing was committed.
pub async fn commit<'l>(
    connection: &Connection,
    unchanged: &Statement,
    loaders: impl Iterator<Item = (&'l Loader, &'l TableBatch<'l>)>,
) -> Result<bool, SinkError> {
    let written = loaders.filter(|(_, batch)| !batch.effects.is_empty());
    let (names, marks): (Vec<String>, Vec<Option<&str>>) = written.map(|(l, _)| (sql::table(l.target()), l.mark.as_deref())).unzip();
    let committing = connection.client.batch_execute("COMMIT");
    if names.is_empty() {
        return committing.await.map(|()| true).map_err(|e| connection.sorted(&e, "commit a batch"));
    }
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&names, &marks];
    // Sent together, in this order: one round trip.
    let (looked, committed) = futures_util::future::join(connection.client.execute(unchanged, &parameters), committing).await;
    match looked {
        Ok(_) => committed.map(|()| true).map_err(|e| connection.sorted(&e, "commit a batch")),
        Err(error) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => Ok(false),
        Err(error) => Err(connection.sorted(&error, "look at the columns of the target tables")),
    }
}
