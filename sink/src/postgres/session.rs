//! The decider's session: the lock, the ledger, plans under intent. One connection, never opened again.

use std::{collections::BTreeMap, time::Duration};

use schemas::{
    event::{Epoch, Version},
    order::ledger::{Ledger, LedgerChange},
    table::{Table, TableId},
};

use super::{
    catalog::{self, Live},
    connection::{Connection, lock_not_had},
    sql,
    store::{self, SinkId},
};
use crate::{
    error::SinkError,
    target::{Journal, PlannedStatement, Session},
};

/// How often the lock is asked for, at first and at last.
const POLL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

pub struct PostgresSession {
    pub(super) connection: Connection,
    pub(super) sink: SinkId,
    pub(super) lock_timeout: Duration,
}

/// How an attempt at a plan ended.
enum Attempt {
    Done,
    /// Other sessions hold the table: nothing was changed, try again.
    Locked,
}

impl PostgresSession {
    /// A connection that is gone takes the lock with it: the session is lost, whatever the error was.
    fn lost(&self, error: SinkError) -> SinkError {
        if self.connection.client.is_closed() { SinkError::SessionLost(error.to_string()) } else { error }
    }

    fn sorted(&self, error: &tokio_postgres::Error, doing: &str) -> SinkError {
        self.connection.sorted(error, doing)
    }

    async fn batch(&self, sql: &str, doing: &str) -> Result<(), SinkError> {
        self.connection.client.batch_execute(sql).await.map_err(|e| self.sorted(&e, doing))
    }

    /// Rolls back after a failure, and says whether the session is still there.
    async fn undo<T>(&self, result: Result<T, SinkError>) -> Result<T, SinkError> {
        match result {
            Ok(done) => Ok(done),
            Err(error) => {
                self.connection.rollback().await;
                Err(self.lost(error))
            }
        }
    }

    async fn record_all(&self, changes: &[LedgerChange]) -> Result<(), SinkError> {
        self.batch("BEGIN", "write the schema instar").await?;
        self.carry_out(changes).await?;
        self.batch("COMMIT", "write the schema instar").await
    }

    /// Writers record too (a stop at a row): changes of one sink go one after the other.
    async fn carry_out(&self, changes: &[LedgerChange]) -> Result<(), SinkError> {
        let sql = "SELECT 1 FROM instar.sinks WHERE id = $1 FOR NO KEY UPDATE";
        self.connection.execute(sql, &[&self.sink.0]).await.map_err(|e| self.sorted(&e, "lock the ledger"))?;
        let mut ledger = store::concerned(&self.connection, self.sink, changes).await?;
        for change in changes {
            ledger.apply(change).map_err(|broken| SinkError::Stop {
                message: format!("the ledger in the schema instar of {} refuses a change: {broken}", self.connection.server),
            })?;
            store::carry_out(&self.connection, self.sink, change).await?;
        }
        Ok(())
    }

    async fn intend(&self, epoch: Epoch, table: &TableId, plan: &[PlannedStatement]) -> Result<(), SinkError> {
        let steps: Vec<_> = plan.iter().map(|s| serde_json::json!({ "sql": s.sql, "before": s.before, "after": s.after })).collect();
        let sql = "INSERT INTO instar.intents (sink, namespace, name, epoch, plan) VALUES ($1, $2, $3, $4, $5) \
                   ON CONFLICT (sink, namespace, name) DO UPDATE SET epoch = EXCLUDED.epoch, plan = EXCLUDED.plan, begun_at = now()";
        let (epoch, plan) = (store::signed(epoch)?, store::json(&steps)?);
        let done = self.connection.execute(sql, &[&self.sink.0, &table.namespace, &table.name, &epoch, &plan]).await;
        done.map(drop).map_err(|e| self.sorted(&e, "write instar.intents"))
    }

    async fn end_intent(&self, table: &TableId) -> Result<(), SinkError> {
        let sql = "DELETE FROM instar.intents WHERE sink = $1 AND namespace = $2 AND name = $3";
        let done = self.connection.execute(sql, &[&self.sink.0, &table.namespace, &table.name]).await;
        done.map(drop).map_err(|e| self.sorted(&e, "write instar.intents"))
    }

    /// Plan and outcome in one transaction: all of it or nothing.
    async fn attempt(&self, table: &TableId, plan: &[PlannedStatement], outcome: &[LedgerChange]) -> Result<Attempt, SinkError> {
        let timeout = self.lock_timeout.as_millis();
        self.batch(&format!("BEGIN; SET LOCAL lock_timeout = {timeout}"), "begin a plan").await?;
        let (Some(first), Some(last)) = (plan.first(), plan.last()) else { return Err(empty_plan(table)) };
        if let Some(before) = &first.before
            && self.live(&before.id, None).await?.is_some()
        {
            let lock = format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", sql::table(&before.id));
            if let Err(error) = self.connection.client.batch_execute(&lock).await {
                return self.locked_or_stopped(&error, table, &lock);
            }
        }
        self.must_be(table, first.before.as_ref(), first.after.as_ref(), "before the change").await?;
        if let (None, Some(made)) = (&first.before, &first.after) {
            self.make_schema(&made.id.namespace).await?;
        }
        for step in plan {
            tracing::info!(%table, sql = step.sql, "run on the target");
            if let Err(error) = self.connection.client.batch_execute(&step.sql).await {
                return self.locked_or_stopped(&error, table, &step.sql);
            }
        }
        self.must_be(table, last.after.as_ref(), last.before.as_ref(), "after the change").await?;
        self.carry_out(outcome).await?;
        self.end_intent(table).await?;
        self.batch("COMMIT", "commit a plan").await?;
        Ok(Attempt::Done)
    }

    /// Asks first: CREATE SCHEMA IF NOT EXISTS needs a right even where there is nothing to do.
    async fn make_schema(&self, name: &str) -> Result<(), SinkError> {
        let doing = format!("create the schema {name}");
        let there = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)";
        let row = self.connection.query_one(there, &[&name]).await.map_err(|e| self.sorted(&e, &doing))?;
        if row.get(0) { Ok(()) } else { self.batch(&format!("CREATE SCHEMA {}", sql::quote(name)), &doing).await }
    }

    /// A lock not had is tried again; what the server refuses stops, with nothing changed.
    fn locked_or_stopped(&self, error: &tokio_postgres::Error, table: &TableId, statement: &str) -> Result<Attempt, SinkError> {
        if lock_not_had(error) {
            return Ok(Attempt::Locked);
        }
        Err(match self.sorted(error, &format!("table {table}: the target refuses `{statement}`, nothing was changed")) {
            SinkError::Refused(message) => SinkError::Stop { message },
            other => other,
        })
    }

    /// Stops where the live table is not `shape`. `names`: where else the columns' ids are known from.
    async fn must_be(&self, table: &TableId, shape: Option<&Table>, other: Option<&Table>, when: &str) -> Result<(), SinkError> {
        let Some(id) = shape.or(other).map(|t| &t.id) else { return Err(empty_plan(table)) };
        let live = self.live(id, shape).await?.map(|l| l.table);
        match catalog::difference(id, shape, live.as_ref()) {
            None => Ok(()),
            Some(difference) => Err(SinkError::Stop {
                message: format!(
                    "table {table}: the target table {id} on {} is not the expected shape {when}: {difference}. Nothing was changed. \
                     Put the target table back into the expected shape, or reload {table}",
                    self.connection.server
                ),
            }),
        }
    }

    pub(super) async fn live(&self, id: &TableId, expected: Option<&Table>) -> Result<Option<Live>, SinkError> {
        live(&self.connection, id, expected).await
    }
}

fn empty_plan(table: &TableId) -> SinkError {
    SinkError::Stop { message: format!("table {table}: a plan without a shape before or after its statements") }
}

/// The live table of this name, or None.
pub(super) async fn live(connection: &Connection, id: &TableId, expected: Option<&Table>) -> Result<Option<Live>, SinkError> {
    let doing = format!("describe the target table {id}");
    let row = connection.query_opt(catalog::DESCRIBE, &[&id.namespace, &id.name]).await;
    let row = row.map_err(|e| connection.sorted(&e, &doing))?;
    let Some(row) = row else { return Ok(None) };
    let json = row.try_get(0).map_err(|e| connection.sorted(&e, &doing))?;
    catalog::parse(id, json, expected).map(Some).map_err(|why| SinkError::Stop { message: format!("{}: {why}", connection.server) })
}

impl Session for PostgresSession {
    async fn lock(&mut self) -> Result<(), SinkError> {
        let mut wait = POLL.0;
        loop {
            let sql = "SELECT pg_catalog.pg_try_advisory_lock($1, $2)";
            let row = self.connection.query_one(sql, &[&store::LOCK_CLASS, &self.sink.0]).await;
            let row = row.map_err(|e| self.lost(self.sorted(&e, "take the sink's lock")))?;
            if row.get(0) {
                return Ok(());
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(POLL.1);
        }
    }

    async fn unlock(&mut self) -> Result<(), SinkError> {
        let sql = "SELECT pg_catalog.pg_advisory_unlock($1, $2)";
        let row = self.connection.query_one(sql, &[&store::LOCK_CLASS, &self.sink.0]).await;
        let row = row.map_err(|e| self.lost(self.sorted(&e, "release the sink's lock")))?;
        if row.get(0) { Ok(()) } else { Err(SinkError::SessionLost("the sink's lock was not held by this session".into())) }
    }

    async fn ledger(&mut self) -> Result<Ledger, SinkError> {
        store::ledger(&self.connection, self.sink).await.map_err(|e| self.lost(e))
    }

    async fn journal(&mut self) -> Result<Journal, SinkError> {
        store::journal(&self.connection, self.sink).await.map_err(|e| self.lost(e))
    }

    async fn expected(&mut self, table: &TableId) -> Result<Option<(Version, Table)>, SinkError> {
        store::expected(&self.connection, self.sink, table).await.map_err(|e| self.lost(e))
    }

    async fn all_expected(&mut self) -> Result<BTreeMap<TableId, (Version, Table)>, SinkError> {
        store::all_expected(&self.connection, self.sink).await.map_err(|e| self.lost(e))
    }

    async fn describe(&mut self, table: &TableId, expected: Option<&Table>) -> Result<Option<Table>, SinkError> {
        self.live(table, expected).await.map(|live| live.map(|l| l.table)).map_err(|e| self.lost(e))
    }

    async fn is_empty(&mut self, table: &TableId) -> Result<bool, SinkError> {
        let doing = format!("look whether the target table {table} is empty");
        let sql = format!("SELECT NOT EXISTS (SELECT FROM {})", sql::table(table));
        let row = self.connection.client.query_one(&sql, &[]).await.map_err(|e| self.lost(self.sorted(&e, &doing)))?;
        Ok(row.get(0))
    }

    async fn record(&mut self, changes: &[LedgerChange]) -> Result<(), SinkError> {
        let done = self.record_all(changes).await;
        self.undo(done).await
    }

    async fn run(&mut self, epoch: Epoch, table: &TableId, plan: &[PlannedStatement], outcome: &[LedgerChange]) -> Result<(), SinkError> {
        if plan.is_empty() {
            return self.record(outcome).await;
        }
        self.intend(epoch, table, plan).await.map_err(|e| self.lost(e))?;
        let mut wait = POLL.0;
        loop {
            let attempt = self.attempt(table, plan, outcome).await;
            match self.undo(attempt).await {
                Ok(Attempt::Done) => return Ok(()),
                Ok(Attempt::Locked) => {
                    self.connection.rollback().await;
                    tracing::warn!(%table, epoch, "other sessions hold the target table: the change is tried again");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(POLL.1);
                }
                Err(error) => {
                    if !self.connection.client.is_closed() {
                        self.end_intent(table).await.map_err(|e| self.lost(e))?;
                    }
                    return Err(error);
                }
            }
        }
    }
}
