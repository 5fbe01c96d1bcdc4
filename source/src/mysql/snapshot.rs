//! The copy: reads a table by key in views that cover a place of the log.

use std::{sync::Arc, time::Duration};

use mysql_async::{Conn, Error, Row as Values, ServerError, prelude::Queryable};
use schemas::{table::Table, wire::envelope::Op};

use tokio::sync::mpsc;

use super::{
    catalog::{self, Created, quoted, quoted_table, show_create},
    config::Config,
    decode::{
        plan::{Fields, Planned},
        rows::key_text,
    },
    literal::{self, Side},
    position::{Gtids, Position},
    server::{Purpose, Server, connect, failed},
    value,
};
use crate::{
    engine::{Bounds, Chunk, ChunkReader, Position as _, Published, Row, RowSink},
    error::CaptureError,
};

/// How long to wait before looking again whether the server shows a view that is recent enough.
const PAUSE: Duration = Duration::from_millis(2);
/// The table was changed between the view and its first use.
const CHANGED: u16 = 1412;

/// Reads chunks over a connection of its own.
#[derive(Debug)]
pub struct Reader {
    config: Config,
    server: Arc<Server>,
    /// For texts; its transaction pins the shape.
    conn: Conn,
    view: Option<View>,
    buffers: Buffers,
}

#[derive(Debug, Default)]
struct Buffers {
    key: Vec<u8>,
    image: Vec<u8>,
    text: Vec<u8>,
}

/// A consistent view of a table without a key.
#[derive(Debug)]
enum View {
    /// The connection's transaction is the view.
    Opened,
    /// Its rows come from a connection of their own, in one pass.
    Reading { batches: mpsc::Receiver<Result<Vec<Values>, Error>>, left: std::vec::IntoIter<Values> },
}

/// Rows handed over at once, or so many bytes of them, and how many such batches may wait.
const BATCH: usize = 512;
const BATCH_BYTES: usize = 1 << 20;
const BATCHES: usize = 4;

/// Bytes of a row's texts and blobs.
fn size(row: &Values) -> usize {
    let texts = (0..row.len()).filter_map(|i| row.as_ref(i));
    texts.map(|value| if let mysql_async::Value::Bytes(bytes) = value { bytes.len() } else { 8 }).sum()
}

/// Reads the rows of an open view to their end.
async fn read_view(mut conn: Conn, sql: String, batches: mpsc::Sender<Result<Vec<Values>, Error>>) {
    let mut result = match conn.exec_iter(sql, ()).await {
        Ok(result) => result,
        Err(error) => {
            // A closed channel means that nobody waits for the rows any more.
            let _ = batches.send(Err(error)).await;
            return;
        }
    };
    let (mut batch, mut bytes) = (Vec::with_capacity(BATCH), 0);
    loop {
        let (send, end) = match result.next().await {
            Ok(Some(row)) => {
                bytes += size(&row);
                batch.push(row);
                if batch.len() < BATCH && bytes < BATCH_BYTES {
                    continue;
                }
                bytes = 0;
                (Ok(std::mem::take(&mut batch)), false)
            }
            Ok(None) => (Ok(std::mem::take(&mut batch)), true),
            Err(error) => (Err(error), true),
        };
        if batches.send(send).await.is_err() || end {
            return;
        }
    }
}

/// How far a SELECT was read.
enum Selected {
    Whole(u64),
    /// Nobody takes more than these rows.
    Full(u64),
}

/// The bounds of a chunk as a WHERE.
fn filter(shape: &Table, bounds: &Bounds) -> String {
    let above = bounds.above.iter().map(|bound| format!("({})", literal::condition(shape, bound, Side::Above)));
    let up_to = bounds.up_to.iter().map(|bound| format!("({})", literal::condition(shape, bound, Side::UpTo)));
    let conditions: Vec<String> = above.chain(up_to).collect();
    if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) }
}

impl Reader {
    pub(super) async fn open(config: Config, server: Arc<Server>) -> Result<Self, CaptureError> {
        let conn = connect(&config, Purpose::Rows).await?;
        Ok(Self { config, server, conn, view: None, buffers: Buffers::default() })
    }

    fn fail(&self, table: &Table, error: &Error) -> CaptureError {
        failed(&self.config, &format!("copying {}", table.id), error)
    }

    async fn run(&mut self, table: &Table, sql: &str) -> Result<(), CaptureError> {
        let result = self.conn.query_drop(sql).await;
        result.map_err(|error| self.fail(table, &error))
    }

    /// Opens a transaction whose statements see everything up to `at`, with the table's shape pinned.
    async fn begin(&mut self, table: &Table, at: &Position) -> Result<(), CaptureError> {
        loop {
            if self.begin_once(table, at).await? {
                return Ok(());
            }
            self.run(table, "ROLLBACK").await?;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn begin_once(&mut self, table: &Table, at: &Position) -> Result<bool, CaptureError> {
        if self.server.mariadb {
            // Only this says what the view covers: the log and gtid_binlog_pos are ahead of SELECT.
            self.run(table, "START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
            let (file, offset) = self.snapshot_offset(table).await?;
            let view = Position { gtids: Gtids::None, open: None, server: self.server.identity.clone(), file, offset };
            // GTIDs are asked for where the files cannot tell: the server reads its log file to find them.
            return Ok(view.at_or_behind_in_files(at) || at.server != view.server && self.with_gtids(view).await?.reached(at));
        }
        match &at.gtids {
            Gtids::MySql(set) => {
                let executed: Option<String> = self
                    .conn
                    .query_first("SELECT @@GLOBAL.gtid_executed")
                    .await
                    .map_err(|error| failed(&self.config, "copying", &error))?;
                let executed: super::position::mysql::GtidSet = catalog::parse(&self.config, &executed.unwrap_or_default())?;
                if !executed.contains(set) {
                    return Ok(false);
                }
            }
            Gtids::None | Gtids::MariaDb(_) => {
                // The lock waits for every transaction that stands in the log already.
                self.run(table, &format!("LOCK TABLES {} READ", quoted_table(&table.id))).await?;
                self.run(table, "UNLOCK TABLES").await?;
            }
        }
        self.run(table, "START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
        Ok(true)
    }

    /// Where the open view of MariaDB stands.
    async fn snapshot_place(&mut self, table: &Table) -> Result<Position, CaptureError> {
        let (file, offset) = self.snapshot_offset(table).await?;
        self.with_gtids(Position { gtids: Gtids::None, open: None, server: self.server.identity.clone(), file, offset }).await
    }

    /// File and offset of the open view of MariaDB.
    async fn snapshot_offset(&mut self, table: &Table) -> Result<(String, u64), CaptureError> {
        let rows: Vec<(String, String)> =
            self.conn.query("SHOW STATUS LIKE 'binlog_snapshot_%'").await.map_err(|error| failed(&self.config, "copying", &error))?;
        let value = |name: &str| rows.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone());
        let file = value("binlog_snapshot_file").unwrap_or_default();
        let offset = value("binlog_snapshot_position").and_then(|text| text.parse().ok());
        let (Some(offset), false) = (offset, file.is_empty()) else {
            return Err(CaptureError::Refused(format!(
                "{}: copying {}: the server does not say where a view stands in its log",
                self.config.server(),
                table.id
            )));
        };
        Ok((file, offset))
    }

    /// The same place, with MariaDB's GTIDs where it says them; file and offset alone say it on this server.
    async fn with_gtids(&mut self, place: Position) -> Result<Position, CaptureError> {
        let domains = catalog::domains(&self.config, &mut self.conn, &place.file, place.offset).await?;
        Ok(Position { gtids: domains.map_or(Gtids::None, Gtids::MariaDb), ..place })
    }

    /// Pins the table's shape in the open transaction and compares it.
    async fn has_shape(&mut self, table: &Table) -> Result<bool, CaptureError> {
        match catalog::pin(&mut self.conn, &table.id).await {
            Ok(()) => {}
            Err(Error::Server(ServerError { code: 1146, .. })) => return Ok(false),
            Err(error) => return Err(self.fail(table, &error)),
        }
        // The text in UTF-8, while rows come in each column's own character set.
        self.run(table, "SET character_set_results = utf8mb4").await?;
        let created = show_create(&mut self.conn, &table.id).await;
        self.run(table, "SET character_set_results = NULL").await?;
        match created.map_err(|error| self.fail(table, &error))? {
            Created::Table(text) => {
                let now = schemas::ddl::mysql::table_from_create(&text, &self.server.catalog_context(&table.id.namespace));
                Ok(now.is_ok_and(|now| same_shape(&now, table)))
            }
            Created::Other | Created::Missing => Ok(false),
        }
    }

    /// Reads the rows of one SELECT; None: the table changed under the view.
    async fn select(&mut self, sql: &str, table: &Published, out: &mut (impl RowSink + Send)) -> Result<Option<Selected>, CaptureError> {
        let fields = self.fields(table)?;
        let columns = selected(&fields);
        let config = &self.config;
        let fail = |error: Error| failed(config, &format!("copying {}", table.shape.id), &error);
        let mut result = match self.conn.exec_iter(sql, ()).await {
            Ok(result) => result,
            Err(Error::Server(ServerError { code: CHANGED, .. })) => return Ok(None),
            Err(error) => return Err(fail(error)),
        };
        let mut rows = 0;
        loop {
            match result.next().await {
                Ok(Some(_)) if rows > 0 && out.full() => return Ok(Some(Selected::Full(rows))),
                Ok(Some(row)) => {
                    publish(&mut self.buffers, &fields, &columns, table, &row, out)?;
                    rows += 1;
                }
                Ok(None) => return Ok(Some(Selected::Whole(rows))),
                Err(Error::Server(ServerError { code: CHANGED, .. })) => return Ok(None),
                Err(error) => return Err(fail(error)),
            }
        }
    }
}

/// Physical places of the columns that are selected, in the order of the SELECT.
fn selected(fields: &Fields) -> Vec<usize> {
    let mut columns: Vec<usize> = fields.image.iter().chain(&fields.key).map(|field| field.column).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

fn select_list(table: &Published) -> Result<String, CaptureError> {
    let shape = &table.shape;
    let wanted = |id| table.rows.fields.iter().chain(&table.rows.key).any(|field| field.column == id);
    let names: Vec<String> = shape.columns.iter().filter(|column| wanted(column.id)).map(|column| quoted(&column.name)).collect();
    if names.is_empty() {
        return Err(CaptureError::Stop { message: format!("{}: no column is published", shape.id) });
    }
    Ok(names.join(", "))
}

fn publish(
    buffers: &mut Buffers,
    fields: &Fields,
    columns: &[usize],
    table: &Published,
    row: &Values,
    out: &mut impl RowSink,
) -> Result<(), CaptureError> {
    buffers.key.clear();
    buffers.image.clear();
    let Buffers { key, image, text } = buffers;
    let misfit = |field: &Planned, key: &str, problem: &dyn std::fmt::Display| CaptureError::Stop {
        message: format!("{}, column `{}`, row {key}, while copying: {problem}", table.shape.id, field.name),
    };
    for field in &fields.key {
        value::put(field, cell(columns, field, row), key, text).map_err(|problem| misfit(field, "a key that cannot be read", &problem))?;
    }
    for field in &fields.image {
        value::put(field, cell(columns, field, row), image, text)
            .map_err(|problem| misfit(field, &key_text(&fields.key, key), &problem))?;
    }
    out.row(Row { op: Op::Read, key, before: None, after: Some(image), absent_before: &[], absent_after: &[] })
}

fn cell<'r>(columns: &[usize], field: &Planned, row: &'r Values) -> Option<&'r mysql_async::Value> {
    columns.binary_search(&field.column).ok().and_then(|place| row.as_ref(place))
}

/// Whether two shapes decode alike: names, types, nullability and key; identities and comments are not compared.
fn same_shape(now: &Table, expected: &Table) -> bool {
    let key = |table: &Table| table.key_columns().iter().map(|c| c.name.clone()).collect::<Vec<_>>();
    now.columns.len() == expected.columns.len()
        && now.columns.iter().zip(&expected.columns).all(|(a, b)| a.name == b.name && a.native == b.native && a.nullable == b.nullable)
        && key(now) == key(expected)
}

impl ChunkReader for Reader {
    type Position = Position;

    async fn estimate(&mut self, table: &Table) -> Result<u64, CaptureError> {
        let rows: Option<Option<u64>> = self
            .conn
            .exec_first(
                "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?",
                (&table.id.namespace, &table.id.name),
            )
            .await
            .map_err(|error| self.fail(table, &error))?;
        Ok(rows.flatten().unwrap_or_default())
    }

    async fn bound(&mut self, table: &Table, within: &Bounds, rows: u64) -> Result<Option<Vec<String>>, CaptureError> {
        let stop = |problem: String| CaptureError::Stop { message: format!("{}: {problem}", table.id) };
        let key = table.key_columns();
        let expressions = key.iter().map(|column| literal::expression(column)).collect::<Result<Vec<_>, _>>().map_err(stop)?;
        let filter = filter(table, within);
        // The bound is found over the bare key columns, so that the index alone is read.
        let names = literal::order(table);
        let sql = format!(
            "SELECT {} FROM (SELECT {names} FROM {}{filter} ORDER BY {names} LIMIT {}, 1) AS bound",
            expressions.join(", "),
            quoted_table(&table.id),
            rows.saturating_sub(1)
        );
        let row: Option<Values> = match self.conn.query_first(sql).await {
            Ok(row) => row,
            // The table or a column of its key is gone: the stream meets the statement.
            Err(Error::Server(ServerError { code: 1146 | 1054, .. })) => None,
            Err(error) => return Err(self.fail(table, &error)),
        };
        Ok(row.and_then(|row| (0..key.len()).map(|i| row.get::<Option<String>, _>(i).flatten()).collect()))
    }

    async fn read(
        &mut self,
        table: &Published,
        bounds: &Bounds,
        at: &Position,
        out: &mut (impl RowSink + Send),
    ) -> Result<Chunk<Position>, CaptureError> {
        let shape = &table.shape;
        let sql = format!("SELECT {} FROM {}{}", select_list(table)?, quoted_table(&shape.id), filter(shape, bounds));
        loop {
            self.begin(shape, at).await?;
            if !self.has_shape(shape).await? {
                self.run(shape, "ROLLBACK").await?;
                return Ok(Chunk::OtherShape);
            }
            match self.select(&sql, table, out).await? {
                Some(Selected::Whole(rows)) => {
                    let read_at = catalog::bound(&self.config, &self.server, &mut self.conn).await?;
                    self.run(shape, "COMMIT").await?;
                    return Ok(Chunk::Read { rows, read_at });
                }
                Some(Selected::Full(rows)) => {
                    self.leave().await?;
                    return Ok(Chunk::Full { rows });
                }
                // A statement between view and pin rebuilt the table without another shape.
                None => self.run(shape, "ROLLBACK").await?,
            }
        }
    }

    async fn view(&mut self, table: &Table) -> Result<Option<Position>, CaptureError> {
        self.view = None;
        self.run(table, "ROLLBACK").await?;
        if self.server.mariadb {
            self.run(table, "START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
            let place = self.snapshot_place(table).await?;
            return self.viewed(table, place).await;
        }
        // No transaction on the table can end between the lock and the view: the end of the log is the view's place.
        self.run(table, &format!("LOCK TABLES {} READ", quoted_table(&table.id))).await?;
        let place = catalog::end(&self.config, &self.server, &mut self.conn).await?;
        let mut holder = std::mem::replace(&mut self.conn, connect(&self.config, Purpose::Rows).await?);
        let viewed = async {
            self.run(table, "START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
            self.viewed(table, place).await
        }
        .await;
        holder.query_drop("UNLOCK TABLES").await.map_err(|error| self.fail(table, &error))?;
        viewed
    }

    async fn view_rows(&mut self, table: &Published, limit: u64, out: &mut (impl RowSink + Send)) -> Result<bool, CaptureError> {
        let shape = &table.shape;
        let mut batches = match self.view.take() {
            None => return Err(CaptureError::Transient(format!("{}: no view is open; the copy begins again", shape.id))),
            Some(View::Opened) => self.start_view(table).await?,
            Some(reading) => reading,
        };
        let fields = self.fields(table)?;
        let columns = selected(&fields);
        for read in 0..limit {
            if read > 0 && out.full() {
                break;
            }
            let Some(row) = self.next_of_view(shape, &mut batches).await? else { return Ok(false) };
            publish(&mut self.buffers, &fields, &columns, table, &row, out)?;
        }
        self.view = Some(batches);
        Ok(true)
    }
}

impl Reader {
    async fn viewed(&mut self, table: &Table, place: Position) -> Result<Option<Position>, CaptureError> {
        if !self.has_shape(table).await? {
            self.run(table, "ROLLBACK").await?;
            return Ok(None);
        }
        self.view = Some(View::Opened);
        Ok(Some(place))
    }

    /// Goes on over a new connection: on the old one the rest of a result is on its way, which nobody takes.
    async fn leave(&mut self) -> Result<(), CaptureError> {
        let new = connect(&self.config, Purpose::Rows).await?;
        let old = std::mem::replace(&mut self.conn, new);
        // Dropped as it is, the driver would read it to its end. One that is gone is as well.
        if let Err(error) = self.conn.query_drop(format!("KILL {}", old.id())).await {
            tracing::debug!(%error, "leave a connection");
        }
        Ok(())
    }

    fn fields(&self, table: &Published) -> Result<Fields, CaptureError> {
        Fields::new(&table.shape, &table.rows, &self.server.charsets)
            .map_err(|problem| CaptureError::Stop { message: format!("{}: {problem}", table.shape.id) })
    }

    /// Gives the view's connection to a task that reads it in one pass.
    async fn start_view(&mut self, table: &Published) -> Result<View, CaptureError> {
        let sql = format!("SELECT {} FROM {}", select_list(table)?, quoted_table(&table.shape.id));
        let conn = std::mem::replace(&mut self.conn, connect(&self.config, Purpose::Rows).await?);
        let (sender, batches) = mpsc::channel(BATCHES);
        tokio::spawn(read_view(conn, sql, sender));
        Ok(View::Reading { batches, left: Vec::new().into_iter() })
    }

    async fn next_of_view(&self, table: &Table, view: &mut View) -> Result<Option<Values>, CaptureError> {
        let View::Reading { batches, left } = view else { return Ok(None) };
        loop {
            if let Some(row) = left.next() {
                return Ok(Some(row));
            }
            match batches.recv().await {
                Some(Ok(batch)) if batch.is_empty() => return Ok(None),
                Some(Ok(batch)) => *left = batch.into_iter(),
                Some(Err(Error::Server(ServerError { code: CHANGED, .. }))) => {
                    return Err(CaptureError::Transient(format!("{}: the table changed under the view; the copy begins again", table.id)));
                }
                Some(Err(error)) => return Err(self.fail(table, &error)),
                None => return Ok(None),
            }
        }
    }
}
