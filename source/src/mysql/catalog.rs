//! The live catalog: shapes from SHOW CREATE TABLE, and the end of the log.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use mysql_async::{Conn, Error, Row, ServerError, prelude::Queryable};
use schemas::{
    ddl::mysql::{Body, Constraint, Context, Parsed, Statement, parse as parse_statement, table_from_create},
    table::{Table, TableId},
};

use super::{
    config::Config,
    decode::xid::Xid,
    position::{Gtids, Position, mariadb::Domains},
    server::{Server, failed},
};
use crate::error::CaptureError;

/// How long a transaction between its PREPARE and its end is waited for before it is told.
const ENDS_SOON: Duration = Duration::from_secs(5);

/// A name as SQL text.
pub fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A table's name as SQL text.
pub fn quoted_table(id: &TableId) -> String {
    format!("{}.{}", quoted(&id.namespace), quoted(&id.name))
}

/// What SHOW CREATE TABLE says.
#[derive(Debug)]
pub enum Created {
    Table(Vec<u8>),
    /// A view or a sequence.
    Other,
    Missing,
}

/// Reads SHOW CREATE TABLE.
pub async fn show_create(conn: &mut Conn, id: &TableId) -> Result<Created, Error> {
    let row: Option<Row> = match conn.query_first(format!("SHOW CREATE TABLE {}", quoted_table(id))).await {
        Ok(row) => row,
        Err(Error::Server(error)) if matches!(error.code, 1146 | 1049 | 1051) => return Ok(Created::Missing),
        Err(error) => return Err(error),
    };
    let Some(row) = row else { return Ok(Created::Missing) };
    let is_table = row.columns_ref().first().is_some_and(|column| column.name_str() == "Table");
    match row.get::<Vec<u8>, _>(1) {
        Some(text) if is_table && text.starts_with(b"CREATE TABLE") => Ok(Created::Table(text)),
        Some(_) | None => Ok(Created::Other),
    }
}

/// A table's shape now.
///
/// # Errors
/// Names the table that is missing, is no base table, or whose text is not understood.
pub async fn shape(config: &Config, server: &Server, conn: &mut Conn, id: &TableId) -> Result<Table, CaptureError> {
    let created = show_create(conn, id).await.map_err(|error| failed(config, &format!("reading the shape of {id}"), &error))?;
    match created {
        Created::Table(text) => table_from_create(&text, &server.catalog_context(&id.namespace))
            .map(|table| config.mapping.mark(table))
            .map_err(|refusal| CaptureError::Refused(format!("{}: the shape of {id} is not understood: {}", config.server(), refusal.why))),
        Created::Other => {
            Err(CaptureError::Refused(format!("{}: {id} is not a base table; take it out of source.tables", config.server())))
        }
        Created::Missing => Err(CaptureError::Refused(format!(
            "{}: table {id} does not exist; create it, or take it out of source.tables",
            config.server()
        ))),
    }
}

/// Names of the foreign keys by which the table's rows change with those of another, from the text of SHOW CREATE TABLE: the
/// information schema shows them only to who may do more than read.
pub fn cascading(text: &[u8], context: &Context) -> Vec<String> {
    let Parsed::Tables(Statement::Create(create)) = parse_statement(text, context) else { return Vec::new() };
    let Body::Columns { constraints, .. } = create.body else { return Vec::new() };
    let cascading = |constraint| match constraint {
        Constraint::ForeignKey { name, cascades: true, .. } => name,
        Constraint::ForeignKey { cascades: false, .. } | Constraint::Check { .. } => None,
    };
    constraints.into_iter().filter_map(cascading).collect()
}

/// Opens a table in the running transaction: until its end no statement can change the table's shape.
pub async fn pin(conn: &mut Conn, id: &TableId) -> Result<(), Error> {
    conn.query_drop(format!("SELECT 1 FROM {} LIMIT 0", quoted_table(id))).await
}

/// Shapes and a position at which they hold.
pub async fn pinned(config: &Config, server: &Server, conn: &mut Conn, tables: &[TableId]) -> Result<(Position, Vec<Table>), CaptureError> {
    let fail = |error| failed(config, "reading the shapes", &error);
    conn.query_drop("START TRANSACTION").await.map_err(fail)?;
    let result = async {
        let mut shapes = Vec::with_capacity(tables.len());
        for id in tables {
            pin(conn, id).await.map_err(|error| failed(config, &format!("opening {id}"), &error))?;
            shapes.push(shape(config, server, conn, id).await?);
        }
        Ok((end(config, server, conn).await?, shapes))
    }
    .await;
    conn.query_drop("COMMIT").await.map_err(fail)?;
    result
}

/// Shapes and a position at which they hold, and which knows from where on the log has to be read for XA transactions that are
/// prepared there: those of before have ended.
///
/// # Errors
/// Names the transaction that is prepared and does not end.
pub async fn beginning(
    config: &Config,
    server: &Server,
    conn: &mut Conn,
    tables: &[TableId],
) -> Result<(Position, Vec<Table>), CaptureError> {
    let first = pinned(config, server, conn, tables).await?;
    let older = prepared(config, conn).await?;
    if older.is_empty() {
        return Ok(first);
    }
    let begin = Instant::now();
    loop {
        let now = prepared(config, conn).await?;
        let Some(open) = older.iter().find(|xid| now.contains(xid)) else { break };
        if begin.elapsed() > ENDS_SOON {
            return Err(CaptureError::Transient(format!(
                "{}: the XA transaction {open} was prepared before the pipeline begins, and its rows would be missing: XA COMMIT or XA \
                 ROLLBACK it; the pipeline then begins by itself",
                config.server()
            )));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (position, shapes) = pinned(config, server, conn, tables).await?;
    Ok((Position { open: Some(first.0.start()), ..position }, shapes))
}

/// Those that are prepared now; none where the account may not ask.
async fn prepared(config: &Config, conn: &mut Conn) -> Result<Vec<Xid>, CaptureError> {
    let rows: Vec<(u32, usize, usize, Vec<u8>)> = match conn.query("XA RECOVER").await {
        Ok(rows) => rows,
        Err(Error::Server(ServerError { code: 1401 | 1227, .. })) => return Ok(Vec::new()),
        Err(error) => return Err(failed(config, "asking for XA transactions", &error)),
    };
    let xid = |(format, global, _, mut bytes): (u32, usize, usize, Vec<u8>)| {
        let branch = bytes.split_off(global.min(bytes.len()));
        Xid { format, global: bytes, branch }
    };
    Ok(rows.into_iter().map(xid).collect())
}

/// The end of the log: everything that is committed lies before it. The log can be read from here.
pub async fn end(config: &Config, server: &Server, conn: &mut Conn) -> Result<Position, CaptureError> {
    for _ in 0..20 {
        let known = bound(config, server, conn).await?;
        if !server.mariadb {
            return Ok(known);
        }
        // On MariaDB the server reads its log file up to there: that takes long where the file is long.
        if let Some(domains) = read_domains(config, conn, at_place(&known.file, known.offset)).await? {
            return Ok(Position { gtids: Gtids::MariaDb(domains), ..known });
        }
        // It cannot look past an event longer than max_allowed_packet. The GTIDs of the end hold for it where it has not moved.
        let again = bound(config, server, conn).await?;
        if (&again.file, again.offset) == (&known.file, known.offset) {
            return Ok(known);
        }
    }
    Err(CaptureError::Transient(format!("{}: the end of the log moves on faster than it can be read", config.server())))
}

/// A place before which everything lies that is committed or visible now. Only for comparing: on MariaDB its GTIDs may name a group
/// that is being written behind its offset.
pub async fn bound(config: &Config, server: &Server, conn: &mut Conn) -> Result<Position, CaptureError> {
    let fail = |error| failed(config, "reading the end of the log", &error);
    let sql = if !server.mariadb && server.version >= 80_200 { "SHOW BINARY LOG STATUS" } else { "SHOW MASTER STATUS" };
    let row: Option<Row> = conn.query_first(sql).await.map_err(fail)?;
    let place = row.and_then(|row| Some((row.get::<String, _>(0)?, row.get::<u64, _>(1)?)));
    let (file, offset) = place
        .ok_or_else(|| CaptureError::Refused(format!("{}: the server writes no binary log; start it with log_bin", config.server())))?;
    let gtids = if server.mariadb {
        let written = read_domains(config, conn, "SELECT @@GLOBAL.gtid_binlog_pos".to_owned()).await?;
        Gtids::MariaDb(written.unwrap_or_default())
    } else if server.gtids {
        let set: Option<String> = conn.query_first("SELECT @@GLOBAL.gtid_executed").await.map_err(fail)?;
        Gtids::MySql(parse(config, &set.unwrap_or_default())?)
    } else {
        Gtids::None
    };
    Ok(Position { gtids, open: None, server: server.identity.clone(), file, offset })
}

/// What MariaDB had committed at a place of its log; empty where there was nothing yet. None where it does not say: its file was removed
/// meanwhile, or an event before it is longer than max_allowed_packet.
pub async fn domains(config: &Config, conn: &mut Conn, file: &str, offset: u64) -> Result<Option<Domains>, CaptureError> {
    read_domains(config, conn, at_place(file, offset)).await
}

fn at_place(file: &str, offset: u64) -> String {
    format!("SELECT BINLOG_GTID_POS('{}', {offset})", file.replace('\'', "''"))
}

async fn read_domains(config: &Config, conn: &mut Conn, sql: String) -> Result<Option<Domains>, CaptureError> {
    let text: Option<Option<String>> =
        conn.query_first(sql).await.map_err(|error| failed(config, "reading the place in the log", &error))?;
    text.flatten().map(|text| parse(config, &text)).transpose()
}

/// GTIDs from the server's text.
pub fn parse<T: std::str::FromStr<Err = String>>(config: &Config, text: &str) -> Result<T, CaptureError> {
    text.parse().map_err(|error| CaptureError::Refused(format!("{}: {error}", config.server())))
}

/// Shapes of the other base tables in the databases of the captured ones, and the position at which they hold. One whose text is
/// not understood is left out: a statement that needs it stops then.
pub async fn others(
    config: &Config,
    server: &Server,
    conn: &mut Conn,
    captured: &[TableId],
) -> Result<(Position, Vec<Table>), CaptureError> {
    let fail = |error| failed(config, "reading the shapes of other tables", &error);
    let names = other_tables(conn, captured).await.map_err(fail)?;
    // Nobody's statement waits long for these locks, and we wait for nobody's.
    conn.query_drop("SET SESSION lock_wait_timeout = 1").await.map_err(fail)?;
    conn.query_drop("START TRANSACTION").await.map_err(fail)?;
    let mut tables = Vec::with_capacity(names.len());
    for id in names {
        // A table that we may not read, or that is dropped meanwhile, is one that is not known.
        if pin(conn, &id).await.is_ok()
            && let Ok(Created::Table(text)) = show_create(conn, &id).await
            && let Ok(table) = table_from_create(&text, &server.catalog_context(&id.namespace))
        {
            tables.push(table);
        }
    }
    let at = end(config, server, conn).await?;
    conn.query_drop("COMMIT").await.map_err(fail)?;
    conn.query_drop("SET SESSION lock_wait_timeout = DEFAULT").await.map_err(fail)?;
    Ok((at, tables))
}

/// Names of the base tables in these databases, without those listed.
async fn other_tables(conn: &mut Conn, captured: &[TableId]) -> Result<Vec<TableId>, Error> {
    let mut databases: Vec<&str> = captured.iter().map(|id| id.namespace.as_str()).collect();
    databases.sort_unstable();
    databases.dedup();
    let captured: HashSet<&TableId> = captured.iter().collect();
    let mut tables = Vec::new();
    for database in databases {
        let names: Vec<String> = conn
            .exec("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_TYPE = 'BASE TABLE'", (database,))
            .await?;
        tables.extend(names.into_iter().map(|name| TableId::new(database, name)).filter(|id| !captured.contains(id)));
    }
    Ok(tables)
}
