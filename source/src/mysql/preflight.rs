//! What must be right at the server before anything is created: settings, rights, tables. Changes nothing.

use mysql_async::{Conn, Error, Row, ServerError, prelude::Queryable};
use runtime::config::RowMetadata;
use schemas::{
    table::{Table, TableId},
    wire::row::RowSchema,
};

use super::{
    catalog,
    config::Config,
    decode::plan::Fields,
    literal,
    server::{Purpose, Server, connect, failed, inspect, variable},
};
use crate::{engine::Problem, error::CaptureError};

/// The oldest versions whose logs are read: MariaDB 10.6, MySQL 8.0.
const OLDEST: (u32, u32) = (100_600, 80_000);
/// A log kept shorter than this is gone after a weekend.
const RETENTION: u64 = 86_400;

/// Everything that is wrong, with its remedy.
///
/// # Errors
/// Where the server cannot be asked at all.
pub async fn preflight(config: &Config) -> Result<Vec<Problem>, CaptureError> {
    let mut conn = connect(config, Purpose::Catalog).await?;
    let server = inspect(config, &mut conn, None).await?;
    let mut check = Check { config, server: &server, problems: Vec::new() };
    check.version();
    check.log(&mut conn).await.map_err(|error| failed(config, "reading the server's settings", &error))?;
    check.rights(&mut conn).await.map_err(|error| failed(config, "reading the rights", &error))?;
    for id in &config.tables {
        check.table(&mut conn, id).await?;
    }
    check.cascades(&mut conn).await.map_err(|error| failed(config, "reading foreign keys", &error))?;
    Ok(check.problems)
}

struct Check<'a> {
    config: &'a Config,
    server: &'a Server,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn report(&mut self, fatal: bool, what: impl Into<String>, remedy: impl Into<String>) {
        self.problems.push(Problem { fatal, what: format!("{}: {}", self.config.server(), what.into()), remedy: remedy.into() });
    }

    fn version(&mut self) {
        let oldest = if self.server.mariadb { OLDEST.0 } else { OLDEST.1 };
        if self.server.version < oldest {
            let product = if self.server.mariadb { "MariaDB" } else { "MySQL" };
            self.report(true, format!("{product} {} is too old", self.server.version), "Use MariaDB 10.6 or MySQL 8.0, or a later one.");
        }
    }

    async fn log(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let value = |text: Option<String>| text.unwrap_or_default().to_uppercase();
        if value(variable(conn, "log_bin").await?) != "ON" {
            self.report(true, "the binary log is off (log_bin)", "Set log_bin = binlog in the server's configuration and restart it.");
            return Ok(());
        }
        let format = value(variable(conn, "binlog_format").await?);
        if format != "ROW" && !format.is_empty() {
            self.report(
                true,
                format!("binlog_format is {format}"),
                "SET GLOBAL binlog_format = 'ROW'; sessions that are open keep the old one.",
            );
        }
        let image = value(variable(conn, "binlog_row_image").await?);
        if image != "FULL" {
            self.report(true, format!("binlog_row_image is {image}: rows lack columns"), "SET GLOBAL binlog_row_image = 'FULL';");
        }
        if !self.server.full_metadata {
            let fatal = self.config.row_metadata == RowMetadata::Require;
            self.report(
                fatal,
                "binlog_row_metadata is not FULL: the log does not name columns, and a statement that moves columns stops the source",
                "SET GLOBAL binlog_row_metadata = 'FULL';",
            );
        }
        let options = value(variable(conn, "binlog_row_value_options").await?);
        if !options.is_empty() {
            self.report(
                true,
                format!("binlog_row_value_options is {options}: updates of JSON come in parts"),
                "SET GLOBAL binlog_row_value_options = '';",
            );
        }
        self.filters(conn).await?;
        self.identity(conn).await?;
        self.retention(conn).await
    }

    async fn filters(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let sql = if !self.server.mariadb && self.server.version >= 80_200 { "SHOW BINARY LOG STATUS" } else { "SHOW MASTER STATUS" };
        let row: Option<Row> = match conn.query_first(sql).await {
            Ok(row) => row,
            // A missing right is reported with the rights.
            Err(Error::Server(ServerError { code: 1227, .. })) => return Ok(()),
            Err(error) => return Err(error),
        };
        for (column, name) in [(2, "binlog_do_db"), (3, "binlog_ignore_db")] {
            let filter = row.as_ref().and_then(|row| row.get::<String, _>(column)).unwrap_or_default();
            if !filter.is_empty() {
                self.report(
                    true,
                    format!("{name} is {filter}: statements that change tables can be missing in the log"),
                    format!("Take {name} out of the server's configuration and restart it."),
                );
            }
        }
        Ok(())
    }

    async fn identity(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let id: u32 = variable(conn, "server_id").await?.and_then(|text| text.parse().ok()).unwrap_or_default();
        if id == 0 {
            self.report(
                true,
                "server_id is 0: the server gives its log to nobody",
                "SET GLOBAL server_id = 1, and in the server's configuration.",
            );
        }
        if id == self.config.server_id {
            self.report(
                true,
                format!("source.server_id {id} is the server's own"),
                "Give source.server_id a number that no server and no replica uses.",
            );
        }
        Ok(())
    }

    async fn retention(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let seconds: Option<f64> = variable(conn, "binlog_expire_logs_seconds").await?.and_then(|text| text.parse().ok());
        let days: Option<f64> = variable(conn, "expire_logs_days").await?.and_then(|text| text.parse().ok());
        let kept = [seconds.unwrap_or_default(), days.unwrap_or_default() * 86_400.0].into_iter().fold(0.0, f64::max);
        if kept > 0.0 && kept < RETENTION as f64 {
            self.report(
                false,
                format!("the log is kept for {kept:.0} seconds only: a source that is down longer must copy all tables again"),
                "SET GLOBAL binlog_expire_logs_seconds = 604800;",
            );
        }
        Ok(())
    }

    async fn rights(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let grants: Vec<String> = conn.query("SHOW GRANTS").await?;
        let text = grants.join("\n").to_uppercase();
        // A role's rights are not listed here: what it lacks shows when it is used.
        let by_role = grants.iter().any(|grant| !grant.contains(" ON "));
        let global = |rights: &[&str]| {
            text.lines().any(|line| {
                line.contains(" ON *.* ") && (line.contains("ALL PRIVILEGES") || rights.iter().any(|right| line.contains(right)))
            })
        };
        let user = &self.config.user;
        let wanted = [
            ("REPLICATION SLAVE", global(&["REPLICATION SLAVE"])),
            ("REPLICATION CLIENT", global(&["REPLICATION CLIENT", "BINLOG MONITOR"])),
        ];
        let locks = self.server.mariadb || self.server.gtids || text.contains("LOCK TABLES") || global(&[]);
        // Without GTIDs a copy asks by a short lock what a SELECT can see.
        for (right, there) in wanted.into_iter().chain([("LOCK TABLES", locks)]) {
            if !there && !by_role {
                self.report(
                    true,
                    format!("user `{user}` lacks the right {right}"),
                    format!("GRANT {right} ON *.* TO {};", account(conn).await?),
                );
            }
        }
        Ok(())
    }

    async fn table(&mut self, conn: &mut Conn, id: &TableId) -> Result<(), CaptureError> {
        let selected = catalog::pin(conn, id).await;
        match selected {
            Ok(()) => {}
            Err(Error::Server(ServerError { code: 1142 | 1044 | 1143, .. })) => {
                let account = account(conn).await.map_err(|error| failed(self.config, "reading the rights", &error))?;
                let remedy = format!("GRANT SELECT ON {} TO {account};", catalog::quoted_table(id));
                self.report(true, format!("user `{}` may not read {id}", self.config.user), remedy);
                return Ok(());
            }
            Err(Error::Server(ServerError { code: 1146 | 1049, .. })) => {
                self.report(true, format!("table {id} does not exist"), "Create it, or take it out of source.tables.");
                return Ok(());
            }
            Err(error) => return Err(failed(self.config, &format!("opening {id}"), &error)),
        }
        match catalog::shape(self.config, self.server, conn, id).await {
            Ok(table) => self.shape(&table),
            Err(CaptureError::Refused(what)) => {
                self.problems.push(Problem { fatal: true, what, remedy: format!("Take {id} out of source.tables.") })
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn shape(&mut self, table: &Table) {
        let id = &table.id;
        let key = table.key_columns();
        if key.is_empty() {
            self.report(
                false,
                format!("{id} has no row key: neither a primary key nor a unique index over NOT NULL columns"),
                "Add a primary key, or set sinks.<name>.keyless to append or full_row.",
            );
        }
        for problem in key.iter().filter_map(|column| literal::expression(column).err()) {
            self.report(true, format!("{id}: {problem}"), "Give the table a key over other columns.");
        }
        for entry in self.config.mapping.unknown(table) {
            let remedy = format!("Correct the entry; the columns of {id} are {}.", names(table));
            self.report(true, format!("source.type_map names {entry}, which is not there"), remedy);
        }
        let rows = RowSchema::new(table);
        for field in &rows.fields {
            let one = RowSchema { fields: vec![field.clone()], key: Vec::new() };
            if let Err(problem) = Fields::new(table, &one, &self.server.charsets) {
                self.report(
                    true,
                    format!("{id}, {problem}"),
                    format!("Exclude the column (source.tables: exclude_columns: [{}]), or change its type.", field.name),
                );
            }
        }
    }

    /// Rows that a foreign key changes in a captured table, where the server does not log them.
    async fn cascades(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let native = variable(conn, "innodb_native_foreign_keys").await?;
        if native.is_some_and(|value| value.eq_ignore_ascii_case("OFF")) {
            return Ok(());
        }
        const SQL: &str = "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, REFERENCED_TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS \
             WHERE DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT') OR UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')";
        let keys: Vec<(String, String, String, String)> = conn.query(SQL).await?;
        for (namespace, table, name, parent) in keys {
            let id = TableId::new(namespace, table);
            if self.config.tables.contains(&id) {
                self.report(
                    true,
                    format!("{id}: foreign key `{name}` changes its rows when rows of {parent} change, and the server does not log that"),
                    format!(
                        "ALTER TABLE {} DROP FOREIGN KEY {}; and make it anew without CASCADE and SET NULL.",
                        catalog::quoted_table(&id),
                        catalog::quoted(&name)
                    ),
                );
            }
        }
        Ok(())
    }
}

fn names(table: &Table) -> String {
    table.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The account that we are to the server, as SQL text.
async fn account(conn: &mut Conn) -> Result<String, Error> {
    let user: Option<String> = conn.query_first("SELECT CURRENT_USER()").await?;
    let user = user.unwrap_or_default();
    Ok(user
        .rsplit_once('@')
        .map_or_else(|| catalog::quoted(&user), |(name, host)| format!("{}@{}", catalog::quoted(name), catalog::quoted(host))))
}
