//! The ledger's tables, in the schema `instar` of the target database.

use std::collections::BTreeMap;

use schemas::{
    event::{Epoch, Version},
    order::ledger::{Approval, Hold, Lane, LanePosition, Ledger, LedgerChange, Outcome, RowStop},
    table::{Table, TableId},
};
use serde::Deserialize;
use tokio_postgres::{Row, types::ToSql};

use super::connection::Connection;
use crate::{
    error::SinkError,
    target::{HoldText, Journal, OutcomeText},
};

/// Version of the tables below.
const FORMAT: i32 = 1;
const TABLES: &str = include_str!("store.sql");
const LEDGER: &str = include_str!("ledger.sql");
/// First key of every advisory lock of ours: "inst".
pub const LOCK_CLASS: i32 = 0x696e_7374;

/// A sink's row in `instar.sinks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkId(pub i32);

/// Creates the tables if they are not there, checks their format and finds this sink's row, or makes it.
pub async fn prepare(connection: &Connection, pipeline: &str, sink: &str) -> Result<SinkId, SinkError> {
    let doing = "create the schema instar";
    if !exists(connection).await? {
        // CREATE SCHEMA IF NOT EXISTS would need a right even where the schema is there.
        let sql = format!(
            "BEGIN; SELECT pg_catalog.pg_advisory_xact_lock({LOCK_CLASS}, 0);
             DO $instar$ BEGIN
             IF pg_catalog.to_regnamespace('instar') IS NULL THEN CREATE SCHEMA instar; END IF;
             IF pg_catalog.to_regclass('instar.format') IS NULL THEN {TABLES} END IF;
             END $instar$; COMMIT"
        );
        if let Err(error) = connection.client.batch_execute(&sql).await {
            let sorted = connection.sorted(&error, doing);
            connection.rollback().await;
            return Err(match sorted {
                SinkError::Refused(message) => SinkError::Refused(format!(
                    "{message}; Instar keeps its progress in the schema instar: GRANT CREATE ON DATABASE to this role, or let the \
                     database's owner run `CREATE SCHEMA instar AUTHORIZATION <role>` once"
                )),
                other => other,
            });
        }
    }
    find(connection, pipeline, sink).await?.ok_or_else(|| SinkError::Transient("the sink's row vanished while it was made".into()))
}

async fn exists(connection: &Connection) -> Result<bool, SinkError> {
    let sql = "SELECT pg_catalog.to_regclass('instar.format') IS NOT NULL";
    let row = connection.client.query_one(sql, &[]).await.map_err(|e| connection.sorted(&e, "look for the schema instar"))?;
    Ok(row.get(0))
}

async fn check_format(connection: &Connection) -> Result<(), SinkError> {
    let sql = "SELECT version FROM instar.format";
    let rows = connection.client.query(sql, &[]).await.map_err(|e| connection.sorted(&e, "read instar.format"))?;
    match rows.as_slice() {
        [row] if row.get::<_, i32>(0) == FORMAT => Ok(()),
        [row] => Err(SinkError::Refused(format!(
            "the schema instar of {} has format {}, this program knows {FORMAT}: use the program that wrote it",
            connection.server,
            row.get::<_, i32>(0)
        ))),
        rows => Err(SinkError::Refused(format!(
            "instar.format of {} has {} rows instead of one: it was changed by hand",
            connection.server,
            rows.len()
        ))),
    }
}

async fn find(connection: &Connection, pipeline: &str, sink: &str) -> Result<Option<SinkId>, SinkError> {
    check_format(connection).await?;
    let insert = "INSERT INTO instar.sinks (pipeline, name) VALUES ($1, $2) ON CONFLICT (pipeline, name) DO NOTHING";
    if look_up(connection, pipeline, sink).await?.is_none() {
        connection.client.execute(insert, &[&pipeline, &sink]).await.map_err(|e| connection.sorted(&e, "write instar.sinks"))?;
    }
    look_up(connection, pipeline, sink).await
}

/// The sink's row; None: [`prepare`] has never run here.
pub async fn recorded(connection: &Connection, pipeline: &str, sink: &str) -> Result<Option<SinkId>, SinkError> {
    if exists(connection).await? { look_up(connection, pipeline, sink).await } else { Ok(None) }
}

/// The sink's row, where the schema is there.
pub async fn look_up(connection: &Connection, pipeline: &str, sink: &str) -> Result<Option<SinkId>, SinkError> {
    if !exists(connection).await? {
        return Ok(None);
    }
    let sql = "SELECT id FROM instar.sinks WHERE pipeline = $1 AND name = $2";
    let row = connection.client.query_opt(sql, &[&pipeline, &sink]).await.map_err(|e| connection.sorted(&e, "read instar.sinks"))?;
    Ok(row.map(|r| SinkId(r.get(0))))
}

/// What [`LEDGER`] gives.
#[derive(Deserialize)]
struct Image {
    decided: Epoch,
    stop: Option<(String, String, Epoch)>,
    outcomes: Vec<(Epoch, String, String, Outcome)>,
    held: Vec<(String, String, String, Epoch)>,
    queued: Vec<(String, String, Epoch)>,
    blocked: Vec<(String, String, Epoch)>,
    retired: Vec<(String, String)>,
    approved: Vec<(String, String, String)>,
    lanes: Vec<(String, String, u32, u64, u64, Epoch)>,
}

/// The ledger in one statement, hence in one snapshot. Final outcomes of decided epochs are history and left out: they may be very many.
pub async fn ledger(connection: &Connection, sink: SinkId) -> Result<Ledger, SinkError> {
    image(connection, sink, true).await
}

/// As much of the ledger as says whether these changes fit it: where no epoch is decided, no lanes, and final outcomes only where a
/// change is about them.
pub async fn concerned(connection: &Connection, sink: SinkId, changes: &[LedgerChange]) -> Result<Ledger, SinkError> {
    let decides = changes.iter().any(|change| matches!(change, LedgerChange::Decided(_)));
    let mut ledger = image(connection, sink, decides).await?;
    let sql = "SELECT outcome FROM instar.outcomes WHERE sink = $1 AND namespace = $2 AND name = $3 AND epoch = $4";
    for change in changes {
        let LedgerChange::Outcome { epoch, table, .. } = change else { continue };
        let row = connection.query_opt(sql, &[&sink.0, &table.namespace, &table.name, &signed(*epoch)?]).await;
        if let Some(row) = row.map_err(|e| connection.sorted(&e, "read the schema instar"))? {
            ledger.outcomes.insert((*epoch, table.clone()), known_outcome(connection, row.get(0))?);
        }
    }
    Ok(ledger)
}

fn known_outcome(connection: &Connection, name: String) -> Result<Outcome, SinkError> {
    serde_json::from_value(serde_json::Value::String(name))
        .map_err(|e| SinkError::Stop { message: format!("{}: instar.outcomes was changed by hand: {e}", connection.server) })
}

async fn image(connection: &Connection, sink: SinkId, whole: bool) -> Result<Ledger, SinkError> {
    let rows = connection.query(LEDGER, &[&sink.0, &whole]).await.map_err(|e| connection.sorted(&e, "read the schema instar"))?;
    let Some(row) = rows.first() else {
        return Err(SinkError::Stop { message: format!("{}: the row of this sink in instar.sinks is gone", connection.server) });
    };
    let broken = |why: String| SinkError::Stop { message: format!("{}: the schema instar was changed by hand: {why}", connection.server) };
    let image: Image = serde_json::from_str(row.get::<_, &str>(0)).map_err(|e| broken(e.to_string()))?;
    image.ledger().map_err(broken)
}

impl Image {
    fn ledger(self) -> Result<Ledger, String> {
        let mut ledger = Ledger { decided: self.decided, ..Ledger::default() };
        ledger.stop_at_row = self.stop.map(|(namespace, name, epoch)| RowStop { table: TableId { namespace, name }, epoch });
        ledger.outcomes = self.outcomes.into_iter().map(|(epoch, ns, name, outcome)| ((epoch, TableId::new(ns, name)), outcome)).collect();
        for (namespace, name, kind, epoch) in self.held {
            let hold = match kind.as_str() {
                "change" => Hold::Change { epoch },
                "value" => Hold::Value { epoch },
                other => return Err(format!("a hold of the unknown kind {other:?}")),
            };
            ledger.held.insert(TableId { namespace, name }, hold);
        }
        for (namespace, name, epoch) in self.queued {
            ledger.queued.entry(TableId { namespace, name }).or_default().push(epoch);
        }
        ledger.blocked = self.blocked.into_iter().map(|(ns, name, epoch)| (TableId::new(ns, name), epoch)).collect();
        ledger.retired = self.retired.into_iter().map(|(ns, name)| TableId::new(ns, name)).collect();
        for (namespace, name, approval) in self.approved {
            let approval: Approval = serde_json::from_str(&approval).map_err(|e| format!("an approval of {namespace}.{name}: {e}"))?;
            ledger.approved.insert(TableId { namespace, name }, approval);
        }
        ledger.lanes = self
            .lanes
            .into_iter()
            .map(|(ns, name, lane, position, seq, epoch)| {
                (Lane { table: TableId::new(ns, name), lane }, LanePosition { position, seq, epoch })
            })
            .collect();
        Ok(ledger)
    }
}

/// Reasons, statements and messages beside the ledger.
pub async fn journal(connection: &Connection, sink: SinkId) -> Result<Journal, SinkError> {
    let outcomes = "SELECT namespace, name, epoch, reason, target_ddl, outcome FROM instar.outcomes WHERE sink = $1";
    let holds = "SELECT namespace, name, epoch, reason, proposed FROM instar.holds WHERE sink = $1";
    let mut journal = Journal { outcomes: BTreeMap::new(), holds: BTreeMap::new(), stop_at_row: None };
    for row in rows(connection, outcomes, sink).await? {
        let epoch = row.get::<_, i64>(2).cast_unsigned();
        let outcome = known_outcome(connection, row.get(5))?;
        journal.outcomes.insert((epoch, table_id(&row)), OutcomeText { outcome, reason: row.get(3), target_ddl: row.get(4) });
    }
    for row in rows(connection, holds, sink).await? {
        journal.holds.insert(table_id(&row), HoldText { reason: row.get(3), proposed: row.get(4) });
    }
    for row in rows(connection, "SELECT stop_message FROM instar.sinks WHERE id = $1", sink).await? {
        journal.stop_at_row = row.get(0);
    }
    Ok(journal)
}

fn table_id(row: &Row) -> TableId {
    TableId { namespace: row.get(0), name: row.get(1) }
}

async fn rows(connection: &Connection, sql: &str, sink: SinkId) -> Result<Vec<Row>, SinkError> {
    connection.query(sql, &[&sink.0]).await.map_err(|e| connection.sorted(&e, "read the schema instar"))
}

/// The expected version and shape of a table's target.
pub async fn expected(connection: &Connection, sink: SinkId, table: &TableId) -> Result<Option<(Version, Table)>, SinkError> {
    let sql = "SELECT namespace, name, version, shape FROM instar.tables WHERE sink = $1 AND namespace = $2 AND name = $3";
    let row = connection
        .query_opt(sql, &[&sink.0, &table.namespace, &table.name])
        .await
        .map_err(|e| connection.sorted(&e, "read instar.tables"))?;
    row.as_ref().map(shape).transpose()
}

/// The expected versions and shapes of all tables.
pub async fn all_expected(connection: &Connection, sink: SinkId) -> Result<BTreeMap<TableId, (Version, Table)>, SinkError> {
    let rows = rows(connection, "SELECT namespace, name, version, shape FROM instar.tables WHERE sink = $1", sink).await?;
    rows.iter().map(|row| Ok((table_id(row), shape(row)?))).collect()
}

fn shape(row: &Row) -> Result<(Version, Table), SinkError> {
    let broken = |why: String| SinkError::Stop { message: format!("instar.tables, {}: {why}: it was changed by hand", table_id(row)) };
    let version = Version::try_from(row.get::<_, i64>(2)).map_err(|e| broken(e.to_string()))?;
    let shape = serde_json::from_str(row.get::<_, &str>(3)).map_err(|e| broken(e.to_string()))?;
    Ok((version, shape))
}

/// Carries out one change inside the open transaction.
pub async fn carry_out(connection: &Connection, sink: SinkId, change: &LedgerChange) -> Result<(), SinkError> {
    match change {
        LedgerChange::Outcome { epoch, table, outcome, reason, target_ddl } => {
            let sql = "INSERT INTO instar.outcomes (sink, namespace, name, epoch, outcome, reason, target_ddl) \
                       VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (sink, epoch, namespace, name) \
                       DO UPDATE SET outcome = EXCLUDED.outcome, reason = EXCLUDED.reason, target_ddl = EXCLUDED.target_ddl, \
                       recorded_at = now()";
            run(connection, sink, sql, Some(table), &[&signed(*epoch)?, &outcome.name(), reason, target_ddl]).await
        }
        LedgerChange::Decided(epoch) => {
            run(connection, sink, "UPDATE instar.sinks SET decided = $2 WHERE id = $1", None, &[&signed(*epoch)?]).await
        }
        LedgerChange::Hold { table, hold, reason, proposed } => {
            let (kind, epoch) = match hold {
                Hold::Change { epoch } => ("change", epoch),
                Hold::Value { epoch } => ("value", epoch),
            };
            // A table that is held already stays held at what it is held at; why its approved change failed is the newer reason.
            let sql = "INSERT INTO instar.holds (sink, namespace, name, kind, epoch, reason, proposed) \
                       VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (sink, namespace, name) \
                       DO UPDATE SET reason = EXCLUDED.reason \
                       WHERE (holds.kind, EXCLUDED.kind, holds.epoch) = ('change', 'change', EXCLUDED.epoch)";
            run(connection, sink, sql, Some(table), &[&kind, &signed(*epoch)?, reason, proposed]).await
        }
        LedgerChange::Unhold(table) => delete(connection, sink, "holds", table).await,
        LedgerChange::Queue { table, epoch } => {
            let sql = "INSERT INTO instar.queue (sink, namespace, name, epoch) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
            run(connection, sink, sql, Some(table), &[&signed(*epoch)?]).await
        }
        LedgerChange::Unqueue { table, epoch } => {
            let sql = "DELETE FROM instar.queue WHERE sink = $1 AND namespace = $2 AND name = $3 AND epoch = $4";
            run(connection, sink, sql, Some(table), &[&signed(*epoch)?]).await
        }
        LedgerChange::Block { table, epoch } => {
            let sql = "INSERT INTO instar.blocks (sink, namespace, name, epoch) VALUES ($1, $2, $3, $4) \
                       ON CONFLICT (sink, namespace, name) DO UPDATE SET epoch = least(blocks.epoch, EXCLUDED.epoch)";
            run(connection, sink, sql, Some(table), &[&signed(*epoch)?]).await
        }
        LedgerChange::Unblock(table) => delete(connection, sink, "blocks", table).await,
        LedgerChange::Retire(table) => {
            let sql = "INSERT INTO instar.retired (sink, namespace, name) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
            run(connection, sink, sql, Some(table), &[]).await
        }
        LedgerChange::Unretire(table) => delete(connection, sink, "retired", table).await,
        LedgerChange::Approve { table, approval, by } => {
            let text = json(approval)?;
            let sql = "INSERT INTO instar.approvals (sink, namespace, name, approval, approved_by) VALUES ($1, $2, $3, $4, $5) \
                       ON CONFLICT (sink, namespace, name) DO UPDATE SET approval = EXCLUDED.approval, \
                       approved_by = EXCLUDED.approved_by, approved_at = now()";
            run(connection, sink, sql, Some(table), &[&text, by]).await
        }
        LedgerChange::Unapprove(table) => delete(connection, sink, "approvals", table).await,
        LedgerChange::StopAtRow { table, epoch, message } => {
            // The first stop stays.
            let sql = "UPDATE instar.sinks SET stop_namespace = $2, stop_table = $3, stop_epoch = $4, stop_message = $5 \
                       WHERE id = $1 AND stop_epoch IS NULL";
            run(connection, sink, sql, Some(table), &[&signed(*epoch)?, message]).await
        }
        LedgerChange::Resume => {
            let sql = "UPDATE instar.sinks SET stop_namespace = NULL, stop_table = NULL, stop_epoch = NULL, stop_message = NULL \
                       WHERE id = $1";
            run(connection, sink, sql, None, &[]).await
        }
        LedgerChange::MoveLanes(moves) => {
            for (lane, to) in moves {
                move_lane(connection, sink, lane, *to, "lanes.position < EXCLUDED.position").await?;
            }
            Ok(())
        }
        LedgerChange::ResetLanes(moves) => {
            for (lane, to) in moves {
                move_lane(connection, sink, lane, *to, "lanes.epoch < EXCLUDED.epoch").await?;
            }
            Ok(())
        }
        LedgerChange::Shape { table, version, target } => {
            let sql = "INSERT INTO instar.tables (sink, namespace, name, version, shape) VALUES ($1, $2, $3, $4, $5) \
                       ON CONFLICT (sink, namespace, name) DO UPDATE SET version = EXCLUDED.version, shape = EXCLUDED.shape, since = now()";
            run(connection, sink, sql, Some(table), &[&i64::from(*version), &json(target)?]).await
        }
        LedgerChange::Forget(table) => {
            for what in ["holds", "queue", "blocks", "approvals", "retired", "lanes", "tables", "intents"] {
                delete(connection, sink, what, table).await?;
            }
            Ok(())
        }
        LedgerChange::Audit { what, by } => {
            run(connection, sink, "INSERT INTO instar.audit (sink, who, what) VALUES ($1, $2, $3)", None, &[by, what]).await
        }
    }
}

async fn move_lane(connection: &Connection, sink: SinkId, lane: &Lane, to: LanePosition, only_where: &str) -> Result<(), SinkError> {
    let sql = format!(
        "INSERT INTO instar.lanes (sink, namespace, name, lane, position, seq, epoch) VALUES ($1, $2, $3, $4, $5, $6, $7) \
         ON CONFLICT (sink, namespace, name, lane) DO UPDATE SET position = EXCLUDED.position, seq = EXCLUDED.seq, \
         epoch = EXCLUDED.epoch, moved_at = now() WHERE {only_where}"
    );
    let parameters: [&(dyn ToSql + Sync); 4] = [&lane_number(lane)?, &signed(to.position)?, &signed(to.seq)?, &signed(to.epoch)?];
    run(connection, sink, &sql, Some(&lane.table), &parameters).await
}

pub fn lane_number(lane: &Lane) -> Result<i32, SinkError> {
    i32::try_from(lane.lane).map_err(|_| SinkError::Stop { message: format!("{} has a lane numbered {}", lane.table, lane.lane) })
}

async fn delete(connection: &Connection, sink: SinkId, what: &str, table: &TableId) -> Result<(), SinkError> {
    run(connection, sink, &format!("DELETE FROM instar.{what} WHERE sink = $1 AND namespace = $2 AND name = $3"), Some(table), &[]).await
}

/// Runs `sql` with the sink, then the table's two names where there is one, then `more`.
async fn run(
    connection: &Connection,
    sink: SinkId,
    sql: &str,
    table: Option<&TableId>,
    more: &[&(dyn ToSql + Sync)],
) -> Result<(), SinkError> {
    let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&sink.0];
    if let Some(table) = table {
        parameters.push(&table.namespace);
        parameters.push(&table.name);
    }
    parameters.extend_from_slice(more);
    connection.execute(sql, &parameters).await.map(drop).map_err(|e| connection.sorted(&e, "write the schema instar"))
}

pub fn signed(number: u64) -> Result<i64, SinkError> {
    i64::try_from(number).map_err(|_| SinkError::Stop { message: format!("the number {number} does not fit the schema instar") })
}

pub fn json<T: serde::Serialize>(value: &T) -> Result<String, SinkError> {
    serde_json::to_string(value).map_err(|e| SinkError::Stop { message: format!("write the schema instar: {e}") })
}
