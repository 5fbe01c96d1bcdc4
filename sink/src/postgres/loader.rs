//! What one connection keeps for the rows of one table version: the transcoder, statements and stages.

use std::{collections::HashMap, sync::Arc};

use schemas::{native::postgres::Native as Pg, table::TableId};
use tokio_postgres::Statement;

use super::{
    connection::Connection,
    encode::{Encoder, KeyText, Misfit, Problem},
    mark, session, sql,
};
use crate::{error::SinkError, target::TableVersion};

/// Statements are prepared when they are first needed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Wanted {
    UpsertArrays,
    InsertArrays,
    DeleteArrays,
    UpdateCarried(Vec<usize>),
    RemoveOne,
    CopyTable,
    CopyStage,
    CopyKeys,
    UpsertStage,
    InsertStage,
    /// Deletes the keys of the stage of rows, of which there are so many.
    DeleteStage(usize),
    /// Deletes the keys of their own stage.
    DeleteKeys(usize),
}

pub struct Loader {
    pub version: Arc<TableVersion>,
    pub encoder: Encoder,
    /// The target has a unique constraint besides the key: its rows are deleted and inserted, not overwritten.
    pub replaces: bool,
    /// Of the target table as it was looked at; see [`mark`].
    pub mark: Option<String>,
    /// The names of this table's stages, once they are made.
    stages: Option<Stages>,
    statements: HashMap<Wanted, Statement>,
    /// The batch that it was used for last.
    pub used: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stages {
    pub rows: String,
    pub keys: String,
}

impl Loader {
    /// Looks at the live table: rows are written only into the shape they were meant for.
    pub async fn new(connection: &Connection, version: &Arc<TableVersion>, cut: bool) -> Result<Loader, SinkError> {
        let target = &version.target;
        // Before the look: what is altered in between is found by the first batch.
        let mark = mark::of(connection, &target.id).await?;
        let live = session::live(connection, &target.id, Some(target)).await?;
        if let Some(difference) = super::catalog::difference(&target.id, Some(target), live.as_ref().map(|l| &l.table)) {
            return Err(SinkError::Stop {
                message: format!(
                    "table {}: the target table {} on {} is not the expected shape for rows of version {}: {difference}. Put the \
                     target table back into the expected shape, or reload {}",
                    version.id, target.id, connection.server, version.version, version.id
                ),
            });
        }
        let encoder = Encoder::new(&version.table, &version.rows, target, cut).map_err(|why| SinkError::Stop {
            message: format!("table {}: {why}; map the column to text or reload the table", version.id),
        })?;
        let key: Vec<_> = encoder.key_columns().to_vec();
        let replaces = live.is_some_and(|live| {
            live.indexes.iter().any(|index| {
                let same = index.columns.len() == key.len() && index.columns.iter().flatten().all(|c| key.contains(c));
                index.partial || !same
            })
        });
        Ok(Loader { version: version.clone(), encoder, replaces, mark, stages: None, statements: HashMap::new(), used: 0 })
    }

    pub fn target(&self) -> &TableId {
        &self.version.target.id
    }

    pub fn keyless(&self) -> bool {
        self.encoder.key_columns().is_empty()
    }

    /// A prepared statement; it lives as long as this version on this connection.
    pub async fn statement(&mut self, connection: &Connection, wanted: Wanted) -> Result<Statement, SinkError> {
        if let Some(statement) = self.statements.get(&wanted) {
            return Ok(statement.clone());
        }
        let sql = self.sql(&wanted)?;
        let prepared = connection.client.prepare(&sql).await;
        let statement = prepared.map_err(|e| connection.sorted(&e, &format!("table {}: prepare `{sql}`", self.version.id)))?;
        self.statements.insert(wanted, statement.clone());
        Ok(statement)
    }

    /// The text of a statement.
    pub fn sql(&self, wanted: &Wanted) -> Result<String, SinkError> {
        self.text(wanted).map_err(|why| SinkError::Stop { message: format!("table {}: {why}", self.version.id) })
    }

    fn text(&self, wanted: &Wanted) -> Result<String, String> {
        let (target, columns, keys) = (self.target(), self.encoder.columns(), self.encoder.key_columns());
        let natives = |columns: &[String]| -> Result<Vec<&Pg>, String> { sql::natives(&self.version.target, columns) };
        let stages = || self.stages.as_ref().ok_or("its stage is not there");
        Ok(match wanted {
            Wanted::UpsertArrays => sql::upsert(target, columns, keys, &sql::From::Arrays(&natives(columns)?)),
            Wanted::InsertArrays => sql::insert(target, columns, &sql::From::Arrays(&natives(columns)?)),
            Wanted::DeleteArrays => sql::delete(target, keys, keys, &sql::From::Arrays(&natives(keys)?)),
            Wanted::UpdateCarried(absent) => {
                let carried: Vec<String> = self.encoder.carried(absent).into_iter().map(str::to_owned).collect();
                sql::update_carried(target, &carried, keys, &natives(&carried)?)
            }
            Wanted::RemoveOne => {
                let pairs: Vec<_> = columns.iter().cloned().zip(natives(columns)?).collect();
                sql::remove_one(target, &pairs)
            }
            Wanted::CopyTable => sql::copy(&sql::table(target), columns),
            Wanted::CopyStage => sql::copy(&sql::quote(&stages()?.rows), columns),
            Wanted::CopyKeys => sql::copy(&sql::quote(&stages()?.keys), keys),
            Wanted::UpsertStage => sql::upsert(target, columns, keys, &sql::From::Stage(&stages()?.rows)),
            Wanted::InsertStage => sql::insert(target, columns, &sql::From::Stage(&stages()?.rows)),
            Wanted::DeleteStage(rows) => sql::delete(target, columns, keys, &sql::From::StageOf(&stages()?.rows, *rows)),
            Wanted::DeleteKeys(rows) => sql::delete(target, keys, keys, &sql::From::StageOf(&stages()?.keys, *rows)),
        })
    }

    /// Makes the stages, outside of any transaction. Returns whether they are new.
    pub async fn make_stages(&mut self, connection: &Connection, number: u32) -> Result<bool, SinkError> {
        if self.stages.is_some() {
            return Ok(false);
        }
        let stages = Stages { rows: format!("instar_rows_{number}"), keys: format!("instar_keys_{number}") };
        let mut text = sql::create_stage(&stages.rows, self.target(), self.encoder.columns());
        if !self.keyless() {
            text.push_str("; ");
            text.push_str(&sql::create_stage(&stages.keys, self.target(), self.encoder.key_columns()));
        }
        let made = connection.client.batch_execute(&text).await;
        made.map_err(|e| connection.sorted(&e, &format!("table {}: make a stage", self.version.id)))?;
        self.stages = Some(stages);
        Ok(true)
    }

    /// Removes the stages and the statements that use them.
    pub async fn drop_stages(&mut self, connection: &Connection) -> Result<(), SinkError> {
        let Some(stages) = self.stages.take() else { return Ok(()) };
        self.statements.clear();
        let text = format!("DROP TABLE IF EXISTS pg_temp.{}, pg_temp.{}", sql::quote(&stages.rows), sql::quote(&stages.keys));
        connection.client.batch_execute(&text).await.map_err(|e| connection.sorted(&e, "drop a stage"))
    }

    pub fn has_stages(&self) -> bool {
        self.stages.is_some()
    }

    /// The error for a value that does not fit: table, key, column and problem; never the value.
    pub fn misfit(&self, misfit: &Misfit, record: &[u8], is_key: bool) -> SinkError {
        let table = &self.version.id;
        let rows = &self.version.rows;
        let fields = if is_key { &rows.key } else { &rows.fields };
        let column = fields.get(misfit.field).map_or("", |f| f.name.as_str());
        let key = KeyText { rows, record, is_key };
        let message = format!(
            "table {table}, key {key}, column {column}: {}. Nothing of this row has been written. Correct the row at the source and \
             reload {table}, or let `bad_value: hold` put the table aside",
            misfit.problem
        );
        match misfit.problem {
            Problem::Wire(_) => SinkError::Stop { message },
            _ => SinkError::BadValue { table: table.clone(), message },
        }
    }

    /// The error for an update without all columns whose row is not there.
    pub fn incomplete(&self, row: &[u8], absent: &[usize]) -> SinkError {
        let rows = &self.version.rows;
        let names: Vec<_> = absent.iter().filter_map(|i| rows.fields.get(*i)).map(|f| f.name.as_str()).collect();
        let key = KeyText { rows, record: row, is_key: false };
        let table = self.version.id.clone();
        let message = format!(
            "table {table}, key {key}: the source did not carry the columns {} and the row is not on the target; have it log whole rows (MySQL, MariaDB: binlog_row_image = FULL in every session), then reload {table}",
            names.join(", ")
        );
        SinkError::Incomplete { table, message }
    }
}
