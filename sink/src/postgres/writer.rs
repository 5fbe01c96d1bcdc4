//! A worker's connection: batches of rows, each one transaction with its progress.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use futures_util::{SinkExt, future, pin_mut};
use runtime::config::Sink;
use schemas::{
    event::Version,
    order::ledger::{Lane, LanePosition, Ledger},
    table::TableId,
};
use tokio_postgres::{Statement, types::ToSql};

use super::{
    arrays::{self, Ready},
    connection::Connection,
    effects::{self, Encoded, Partial, Rows, Run},
    encode::COPY_TAIL,
    loader::{Loader, Wanted},
    mark,
    store::{self, SinkId},
};
use crate::{
    consumer::Proof,
    error::SinkError,
    target::{Batch, LaneMove, TableBatch, TableVersion, Writer, Written},
};

/// Up to this many rows go as parameter arrays; more by COPY into a stage.
const FEW: usize = 256;
/// Bytes of one COPY message.
const CHUNK: usize = 256 * 1024;
/// Tables with a stage on one connection; every commit that used one empties all of them.
const STAGES: usize = 64;

/// How often a batch looks again at tables that are altered under it.
const LOOKS: u32 = 5;

const MOVE: &str = "\
UPDATE instar.lanes AS l SET position = v.position, seq = v.seq, epoch = v.epoch, moved_at = now() \
FROM unnest($2::text[], $3::text[], $4::int4[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[]) \
AS v(namespace, name, lane, stored, stored_epoch, position, seq, epoch) \
WHERE l.sink = $1 AND l.namespace = v.namespace AND l.name = v.name AND l.lane = v.lane AND l.position = v.stored \
AND l.epoch = v.stored_epoch";
/// Lanes that are not stored yet stand at 0.
const BEGIN_LANES: &str = "\
INSERT INTO instar.lanes (sink, namespace, name, lane, position, seq, epoch) \
SELECT $1, v.namespace, v.name, v.lane, 0, 0, 0 FROM unnest($2::text[], $3::text[], $4::int4[]) AS v(namespace, name, lane) \
ON CONFLICT (sink, namespace, name, lane) DO NOTHING";

pub struct PostgresWriter {
    pub(super) connection: Connection,
    pub(super) sink: SinkId,
    config: Arc<Sink>,
    move_lanes: Statement,
    begin_lanes: Statement,
    /// Whether the target tables are still those that were looked at.
    unchanged: Statement,
    /// By target table and source version; the versions of the newest batch only.
    loaders: HashMap<(TableId, Version), Loader>,
    stages_made: u32,
}

impl PostgresWriter {
    pub(super) async fn new(connection: Connection, sink: SinkId, config: Arc<Sink>) -> Result<Self, SinkError> {
        let prepare = |sql| connection.client.prepare(sql);
        let prepared = future::try_join3(prepare(MOVE), prepare(BEGIN_LANES), mark::prepare(&connection)).await;
        let (move_lanes, begin_lanes, unchanged) = prepared.map_err(|e| connection.sorted(&e, "prepare the statements of a batch"))?;
        Ok(Self { connection, sink, config, move_lanes, begin_lanes, unchanged, loaders: HashMap::new(), stages_made: 0 })
    }

    /// Makes the loader of this version, if it is not there.
    async fn load(&mut self, version: &Arc<TableVersion>) -> Result<(), SinkError> {
        let known = self.loaders.get(&place(version)).is_some_and(|l| Arc::ptr_eq(&l.version, version) || *l.version == **version);
        if known {
            return Ok(());
        }
        self.unload(|_, loader| place(&loader.version) == place(version)).await?;
        let cut = self.config.table(&version.id).allow_truncation;
        let loader = Loader::new(&self.connection, version, cut).await?;
        self.loaders.insert(place(version), loader);
        Ok(())
    }

    /// Forgets loaders, with their stages: statements of an older shape never run against a newer one.
    async fn unload(&mut self, which: impl Fn(&(TableId, Version), &Loader) -> bool) -> Result<(), SinkError> {
        let old: Vec<_> = self.loaders.iter().filter(|(at, loader)| which(at, loader)).map(|(at, _)| at.clone()).collect();
        for at in old {
            if let Some(mut loader) = self.loaders.remove(&at) {
                loader.drop_stages(&self.connection).await?;
            }
        }
        Ok(())
    }

    /// Makes the loaders of a batch; other versions of its tables are done with.
    async fn load_all(&mut self, batch: &Batch<'_>) -> Result<(), SinkError> {
        let wanted: Vec<_> = batch.tables.iter().map(|t| place(&t.version)).collect();
        self.unload(|at, _| wanted.iter().any(|w| w.0 == at.0) && !wanted.contains(at)).await?;
        for table in &batch.tables {
            self.load(&table.version).await?;
        }
        Ok(())
    }

    /// Makes the stages that a batch of many rows needs.
    async fn stage(&mut self, at: &(TableId, Version)) -> Result<(), SinkError> {
        let staged = self.loaders.values().filter(|l| l.has_stages()).count();
        if staged >= STAGES && self.loaders.get(at).is_some_and(|l| !l.has_stages()) {
            for loader in self.loaders.values_mut() {
                loader.drop_stages(&self.connection).await?;
            }
        }
        if let Some(loader) = self.loaders.get_mut(at)
            && loader.make_stages(&self.connection, self.stages_made).await?
        {
            self.stages_made = self.stages_made.wrapping_add(1);
        }
        Ok(())
    }

    /// None: one of the target tables was altered since it was looked at, and nothing was written.
    async fn write_encoded(
        &mut self,
        batch: &Batch<'_>,
        encoded: &mut [Encoded<'_>],
        proof: &impl Proof,
    ) -> Result<Option<Written>, SinkError> {
        if !self.begin(&batch.lanes).await? {
            self.connection.rollback().await;
            return Ok(Some(Written::Moved));
        }
        for (table, encoded) in batch.tables.iter().zip(encoded) {
            let loader = self.loaders.get_mut(&place(&table.version)).ok_or_else(|| not_loaded(&table.version))?;
            TableWriter { connection: &self.connection, loader }.write(table, encoded).await?;
        }
        if !proof.holds().await? {
            self.connection.rollback().await;
            return Ok(Some(Written::Moved));
        }
        let tables = batch.tables.iter().filter_map(|table| Some((self.loaders.get(&place(&table.version))?, table)));
        Ok(mark::commit(&self.connection, &self.unchanged, tables).await?.then_some(Written::Committed))
    }

    /// Looks at the target tables where that is not done, and writes; None: as [`Self::write_encoded`].
    async fn attempt(&mut self, batch: &Batch<'_>, proof: &impl Proof) -> Result<Option<Written>, SinkError> {
        self.load_all(batch).await?;
        let mut encoded = Vec::with_capacity(batch.tables.len());
        for table in &batch.tables {
            let at = place(&table.version);
            let loader = self.loaders.get(&at).ok_or_else(|| not_loaded(&table.version))?;
            let part = effects::encode(loader, table)?;
            if needs_stage(loader, table, &part) {
                self.stage(&at).await?;
            }
            encoded.push(part);
        }
        let written = self.write_encoded(batch, &mut encoded, proof).await;
        if written.is_err() {
            self.connection.rollback().await;
        }
        if matches!(written, Ok(None) | Err(SinkError::Stop { .. })) {
            // A table may have been altered by hand: the next attempt looks at it again, and says what is wrong with it.
            self.unload(|_, _| true).await?;
        }
        written
    }

    /// Begins the transaction with the compare-and-set of every lane; false: one of them stands elsewhere.
    async fn begin(&self, lanes: &[LaneMove]) -> Result<bool, SinkError> {
        let columns = LaneColumns::new(lanes.iter())?;
        let sink = self.sink.0;
        let client = &self.connection.client;
        let begin = client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED");
        let moved: [&(dyn ToSql + Sync); 9] = [
            &sink,
            &columns.namespaces,
            &columns.names,
            &columns.lanes,
            &columns.stored,
            &columns.stored_epochs,
            &columns.positions,
            &columns.seqs,
            &columns.epochs,
        ];
        let moving = client.execute(&self.move_lanes, &moved);
        // Sent together, in this order: one round trip.
        let done = if columns.stored.contains(&0) {
            let first = LaneColumns::new(lanes.iter().filter(|l| l.from == 0))?;
            let parameters: [&(dyn ToSql + Sync); 4] = [&sink, &first.namespaces, &first.names, &first.lanes];
            let beginning = client.execute(&self.begin_lanes, &parameters);
            future::try_join3(begin, beginning, moving).await.map(|(_, _, moved)| moved)
        } else {
            future::try_join(begin, moving).await.map(|(_, moved)| moved)
        };
        let moved = done.map_err(|e| self.connection.sorted(&e, "move the lanes in instar.lanes"))?;
        Ok(moved == lanes.len() as u64)
    }
}

/// Lanes as parameter arrays.
struct LaneColumns<'a> {
    namespaces: Vec<&'a str>,
    names: Vec<&'a str>,
    lanes: Vec<i32>,
    stored: Vec<i64>,
    stored_epochs: Vec<i64>,
    positions: Vec<i64>,
    seqs: Vec<i64>,
    epochs: Vec<i64>,
}

impl<'a> LaneColumns<'a> {
    fn new(moves: impl Iterator<Item = &'a LaneMove> + Clone) -> Result<Self, SinkError> {
        let numbers = |pick: fn(&LaneMove) -> u64| moves.clone().map(|m| store::signed(pick(m))).collect::<Result<Vec<_>, _>>();
        Ok(Self {
            namespaces: moves.clone().map(|m| m.lane.table.namespace.as_str()).collect(),
            names: moves.clone().map(|m| m.lane.table.name.as_str()).collect(),
            lanes: moves.clone().map(|m| store::lane_number(&m.lane)).collect::<Result<_, _>>()?,
            stored: numbers(|m| m.from)?,
            stored_epochs: numbers(|m| m.from_epoch)?,
            positions: numbers(|m| m.to.position)?,
            seqs: numbers(|m| m.to.seq)?,
            epochs: numbers(|m| m.to.epoch)?,
        })
    }
}

/// Writes one table's part of an open transaction.
struct TableWriter<'w> {
    connection: &'w Connection,
    loader: &'w mut Loader,
}

impl TableWriter<'_> {
    async fn write(&mut self, batch: &TableBatch<'_>, encoded: &mut Encoded<'_>) -> Result<(), SinkError> {
        self.delete(&mut encoded.deletes).await?;
        if batch.fresh_copy {
            self.copy(Wanted::CopyTable, &mut encoded.upserts).await?;
        } else {
            self.upsert(&mut encoded.upserts).await?;
        }
        for partial in &encoded.partial {
            self.update(partial).await?;
        }
        for run in &mut encoded.keyless {
            match run {
                Run::Append(rows) if batch.fresh_copy || rows.count > FEW => self.copy(Wanted::CopyTable, rows).await?,
                Run::Append(rows) => self.arrays(Wanted::InsertArrays, rows).await?,
                Run::Remove(rows, origin) => self.remove(rows, origin).await?,
            }
        }
        Ok(())
    }

    async fn delete(&mut self, keys: &mut Rows) -> Result<(), SinkError> {
        if keys.count > FEW {
            self.copy(Wanted::CopyKeys, keys).await?;
            self.delete_staged(&Wanted::DeleteKeys(keys.count)).await
        } else {
            self.arrays(Wanted::DeleteArrays, keys).await
        }
    }

    async fn upsert(&mut self, rows: &mut Rows) -> Result<(), SinkError> {
        if rows.count == 0 {
            return Ok(());
        }
        // Rows that exchange values of another unique constraint: the old ones must all go before the first new one comes.
        if self.loader.replaces || rows.count > FEW {
            self.copy(Wanted::CopyStage, rows).await?;
            if self.loader.replaces {
                self.delete_staged(&Wanted::DeleteStage(rows.count)).await?;
                return self.execute(Wanted::InsertStage).await;
            }
            return self.execute(Wanted::UpsertStage).await;
        }
        self.arrays(Wanted::UpsertArrays, rows).await
    }

    /// Updates rows that are there; one that is not is passed over, or is an error.
    async fn update(&mut self, partial: &Partial<'_>) -> Result<(), SinkError> {
        let statement = self.loader.statement(self.connection, Wanted::UpdateCarried(partial.absent.to_vec())).await?;
        let mut rest = partial.rows.body();
        for origin in partial.origin.chunks(FEW) {
            let (parameters, behind) = arrays::columns(rest, origin.len(), &statement).ok_or_else(|| self.torn())?;
            rest = behind;
            let parameters = parameters_of(&parameters);
            let rows = self.connection.planned_anew(self.connection.client.query(&statement, &parameters)).await;
            let hit: Vec<i64> = rows.map_err(|e| self.sorted(&e, "update rows"))?.iter().map(|r| r.get(0)).collect();
            let missing = (1..).zip(origin).find(|(number, (_, skip))| !skip && !hit.contains(number));
            if let Some((_, (row, _))) = missing {
                return Err(self.loader.incomplete(row, partial.absent));
            }
        }
        Ok(())
    }

    /// Removes exactly one row equal to each of these.
    async fn remove(&mut self, rows: &Rows, origin: &[&[u8]]) -> Result<(), SinkError> {
        let statement = self.loader.statement(self.connection, Wanted::RemoveOne).await?;
        let mut rest = rows.body();
        for _ in origin {
            let (parameters, behind) = arrays::fields(rest).ok_or_else(|| self.torn())?;
            rest = behind;
            let removed = self.connection.client.execute(&statement, &parameters_of(&parameters)).await;
            let removed = removed.map_err(|e| self.sorted(&e, "remove a row"))?;
            if removed != 1 {
                let table = &self.loader.version.id;
                return Err(SinkError::Stop {
                    message: format!(
                        "table {table} (without a key): a row that the source removed is not on the target {}, which was changed by \
                         hand; reload {table}",
                        self.loader.target()
                    ),
                });
            }
        }
        Ok(())
    }

    async fn arrays(&mut self, wanted: Wanted, rows: &Rows) -> Result<(), SinkError> {
        if rows.count == 0 {
            return Ok(());
        }
        let joins = wanted == Wanted::DeleteArrays;
        let statement = self.loader.statement(self.connection, wanted).await?;
        let (parameters, _) = arrays::columns(rows.body(), rows.count, &statement).ok_or_else(|| self.torn())?;
        let parameters = parameters_of(&parameters);
        let writing = self.connection.client.execute(&statement, &parameters);
        let done = if joins { self.connection.planned_anew(writing).await } else { writing.await };
        done.map(drop).map_err(|e| self.sorted(&e, "write rows"))
    }

    /// A statement without parameters keeps its first plan whatever the mode: this one is planned anew each time, since it joins.
    async fn delete_staged(&mut self, wanted: &Wanted) -> Result<(), SinkError> {
        let sql = self.loader.sql(wanted)?;
        self.connection.client.batch_execute(&sql).await.map_err(|e| self.sorted(&e, "merge rows"))
    }

    async fn execute(&mut self, wanted: Wanted) -> Result<(), SinkError> {
        let statement = self.loader.statement(self.connection, wanted).await?;
        let done = self.connection.client.execute(&statement, &[]).await;
        done.map(drop).map_err(|e| self.sorted(&e, "merge rows"))
    }

    async fn copy(&mut self, wanted: Wanted, rows: &mut Rows) -> Result<(), SinkError> {
        if rows.count == 0 {
            return Ok(());
        }
        let statement = self.loader.statement(self.connection, wanted).await?;
        let mut bytes = std::mem::take(&mut rows.bytes);
        bytes.extend_from_slice(COPY_TAIL);
        let mut bytes = Bytes::from(bytes);
        let sending = async {
            let sink = self.connection.client.copy_in::<_, Bytes>(&statement).await?;
            pin_mut!(sink);
            while bytes.len() > CHUNK {
                sink.as_mut().feed(bytes.split_to(CHUNK)).await?;
            }
            sink.as_mut().feed(bytes).await?;
            sink.finish().await
        };
        let copied = sending.await.map_err(|e| self.sorted(&e, "copy rows"))?;
        if copied == rows.count as u64 { Ok(()) } else { Err(self.torn()) }
    }

    fn sorted(&self, error: &tokio_postgres::Error, doing: &str) -> SinkError {
        self.connection.sorted(error, &format!("table {}: {doing}", self.loader.version.id))
    }

    fn torn(&self) -> SinkError {
        SinkError::Stop {
            message: format!("table {}: the rows made for the target are not whole; this is a fault of Instar", self.loader.version.id),
        }
    }
}

fn place(version: &TableVersion) -> (TableId, Version) {
    (version.target.id.clone(), version.version)
}

fn not_loaded(version: &TableVersion) -> SinkError {
    SinkError::Stop { message: format!("table {}: its target table is another table's too; give each its own name", version.id) }
}

fn needs_stage(loader: &Loader, batch: &TableBatch<'_>, part: &Encoded<'_>) -> bool {
    let merged = !batch.fresh_copy && part.upserts.count > 0;
    part.deletes.count > FEW || (merged && (loader.replaces || part.upserts.count > FEW))
}

fn parameters_of(ready: &[Ready]) -> Vec<&(dyn ToSql + Sync)> {
    ready.iter().map(|r| r as &(dyn ToSql + Sync)).collect()
}

impl Writer for PostgresWriter {
    async fn positions(&mut self, lanes: &[Lane]) -> Result<Vec<LanePosition>, SinkError> {
        let sql = "SELECT namespace, name, lane, position, seq, epoch FROM instar.lanes WHERE sink = $1";
        let rows = self.connection.query(sql, &[&self.sink.0]).await;
        let rows = rows.map_err(|e| self.connection.sorted(&e, "read instar.lanes"))?;
        let mut stored = HashMap::new();
        for row in rows {
            let lane =
                Lane { table: TableId::new(row.get::<_, String>(0), row.get::<_, String>(1)), lane: row.get::<_, i32>(2).cast_unsigned() };
            let number = |i| row.get::<_, i64>(i).cast_unsigned();
            stored.insert(lane, LanePosition { position: number(3), seq: number(4), epoch: number(5) });
        }
        Ok(lanes.iter().map(|lane| stored.get(lane).copied().unwrap_or_default()).collect())
    }

    async fn write(&mut self, batch: &Batch<'_>, proof: &impl Proof) -> Result<Written, SinkError> {
        for _ in 0..LOOKS {
            if let Some(written) = self.attempt(batch, proof).await? {
                return Ok(written);
            }
        }
        Err(SinkError::Transient(format!("{}: target tables are altered again and again", self.connection.server)))
    }

    async fn ledger(&mut self) -> Result<Ledger, SinkError> {
        store::ledger(&self.connection, self.sink).await
    }
}
