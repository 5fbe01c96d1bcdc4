//! What must be right at the server before anything is created: settings, rights, tables. Changes nothing.

use std::collections::BTreeSet;

use mysql_async::{Conn, Error, Row, ServerError, prelude::Queryable};
use runtime::config::RowMetadata;
use schemas::{
    table::{Table, TableId},
    wire::row::RowSchema,
};

use super::{
    catalog::{self, Created},
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
/// A week.
const ENOUGH: &str = "604800";

/// Everything that is wrong, with its remedy.
///
/// # Errors
/// Where the server cannot be asked at all.
pub async fn preflight(config: &Config) -> Result<Vec<Problem>, CaptureError> {
    Ok(look(config).await?.0)
}

/// The statements that give the account of `source.url` what it needs, and no more.
///
/// # Errors
/// Where the server cannot be asked.
pub async fn grants(config: &Config) -> Result<Vec<String>, CaptureError> {
    Ok(look(config).await?.1)
}

/// What is wrong, and the rights that are needed.
async fn look(config: &Config) -> Result<(Vec<Problem>, Vec<String>), CaptureError> {
    let mut conn = connect(config, Purpose::Catalog).await?;
    let server = inspect(config, &mut conn, None).await?;
    let rights = |error| failed(config, "reading the rights", &error);
    let account = account(&mut conn).await.map_err(rights)?;
    let mut check = Check { config, server: &server, account, locked: BTreeSet::new(), problems: Vec::new() };
    check.version();
    check.log(&mut conn).await.map_err(|error| failed(config, "reading the server's settings", &error))?;
    for id in &config.tables {
        check.table(&mut conn, id).await?;
    }
    check.rights(&mut conn).await.map_err(rights)?;
    let mut grants = vec![format!("GRANT REPLICATION SLAVE, {} ON *.* TO {};", monitor(&server), check.account)];
    grants.extend(config.tables.iter().map(|id| check.select(id)));
    grants.extend(check.locked.iter().map(|database| check.lock_tables(database)));
    Ok((check.problems, grants))
}

/// The right to ask where the log ends.
fn monitor(server: &Server) -> &'static str {
    if server.mariadb { "BINLOG MONITOR" } else { "REPLICATION CLIENT" }
}

/// Gives a table a key of its own that no SELECT * shows.
pub fn add_key(id: &TableId) -> String {
    format!("ALTER TABLE {} ADD COLUMN row_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY;", catalog::quoted_table(id))
}

struct Check<'a> {
    config: &'a Config,
    server: &'a Server,
    /// As SQL text.
    account: String,
    /// Databases with tables whose copy asks by a short lock what a SELECT can see.
    locked: BTreeSet<String>,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn report(&mut self, fatal: bool, what: impl Into<String>, remedy: impl Into<String>, sql: Vec<String>) {
        self.problems.push(Problem { fatal, what: format!("{}: {}", self.config.server(), what.into()), remedy: remedy.into(), sql });
    }

    fn select(&self, id: &TableId) -> String {
        format!("GRANT SELECT ON {} TO {};", catalog::quoted_table(id), self.account)
    }

    fn lock_tables(&self, database: &str) -> String {
        format!("GRANT LOCK TABLES ON {}.* TO {};", catalog::quoted(database), self.account)
    }

    fn version(&mut self) {
        let oldest = if self.server.mariadb { OLDEST.0 } else { OLDEST.1 };
        if self.server.version < oldest {
            let product = if self.server.mariadb { "MariaDB" } else { "MySQL" };
            let what = format!("{product} {} is too old", self.server.version);
            self.report(true, what, "Use MariaDB 10.6 or MySQL 8.0, or a later one.", Vec::new());
        }
    }

    /// The statement that sets a global variable; MySQL keeps it over a restart.
    fn set(&self, name: &str, value: &str) -> String {
        format!("SET {} {name} = {value};", if self.server.mariadb { "GLOBAL" } else { "PERSIST" })
    }

    /// A variable that is not what it should be.
    fn setting(&mut self, fatal: bool, what: String, (name, value): (&str, &str)) {
        let sql = self.set(name, value);
        let lasts = if self.server.mariadb { format!(", and write {name} into the server's configuration") } else { String::new() };
        self.report(fatal, what, format!("Set {name}{lasts}; sessions that are open keep what they have."), vec![sql]);
    }

    async fn log(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let value = |text: Option<String>| text.unwrap_or_default().to_uppercase();
        if value(variable(conn, "log_bin").await?) != "ON" {
            let remedy = "Write log_bin = binlog into the server's configuration and restart it.";
            self.report(true, "the binary log is off (log_bin)", remedy, Vec::new());
        }
        let format = value(variable(conn, "binlog_format").await?);
        if format != "ROW" && !format.is_empty() {
            self.setting(true, format!("binlog_format is {format}"), ("binlog_format", "'ROW'"));
        }
        let image = value(variable(conn, "binlog_row_image").await?);
        if image != "FULL" {
            self.setting(true, format!("binlog_row_image is {image}: rows lack columns"), ("binlog_row_image", "'FULL'"));
        }
        if !self.server.full_metadata {
            let fatal = self.config.row_metadata == RowMetadata::Require;
            let what =
                "binlog_row_metadata is not FULL: the log does not name columns, and a statement that moves columns stops the source";
            self.setting(fatal, what.into(), ("binlog_row_metadata", "'FULL'"));
        }
        self.filters(conn).await?;
        self.identity(conn).await?;
        self.gtids(conn).await?;
        self.replica(conn).await?;
        self.retention(conn).await?;
        self.strictness(conn).await
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
                    Vec::new(),
                );
            }
        }
        Ok(())
    }

    async fn identity(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let id: u32 = variable(conn, "server_id").await?.and_then(|text| text.parse().ok()).unwrap_or_default();
        if id == 0 {
            self.setting(true, "server_id is 0: the server gives its log to nobody".into(), ("server_id", "1"));
        }
        if id == self.config.server_id {
            self.report(
                true,
                format!("source.server_id {id} is the server's own"),
                "Give source.server_id a number that no server and no replica uses.",
                Vec::new(),
            );
        }
        Ok(())
    }

    /// MySQL without GTIDs: its places in the log hold on this server alone.
    async fn gtids(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let mode = variable(conn, "gtid_mode").await?.unwrap_or_default().to_uppercase();
        let steps: &[&str] = match mode.as_str() {
            _ if self.server.mariadb => return Ok(()),
            "OFF" => &["OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"],
            "OFF_PERMISSIVE" => &["ON_PERMISSIVE", "ON"],
            "ON_PERMISSIVE" => &["ON"],
            _ => return Ok(()),
        };
        let mut sql = vec![self.set("enforce_gtid_consistency", "ON")];
        sql.extend(steps.iter().map(|step| self.set("gtid_mode", step)));
        let what =
            format!("gtid_mode is {mode}: the source knows its place in the log of this server only, and after a failover copies anew");
        self.report(false, what, "Turn GTIDs on; a pipeline that has run is reloaded then.", sql);
        Ok(())
    }

    /// A replica that does not log what it replicates.
    async fn replica(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let logged = if self.server.mariadb { "log_slave_updates" } else { "log_replica_updates" };
        if !variable(conn, logged).await?.is_some_and(|value| value.eq_ignore_ascii_case("OFF")) {
            return Ok(());
        }
        let replicates = if self.server.mariadb {
            let running: Option<(String, String)> = conn.query_first("SHOW GLOBAL STATUS LIKE 'Slaves_running'").await?;
            running.is_some_and(|(_, value)| value != "0")
        } else {
            match conn.query_first::<Row, _>("SHOW REPLICA STATUS").await {
                Ok(row) => row.is_some(),
                // A missing right is reported with the rights.
                Err(Error::Server(ServerError { code: 1227, .. })) => false,
                Err(error) => return Err(error),
            }
        };
        if replicates {
            let what = format!("the server is a replica and {logged} is OFF: what it replicates is not in its log");
            self.report(true, what, format!("Write {logged} = ON into the server's configuration and restart it."), Vec::new());
        }
        Ok(())
    }

    async fn retention(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let seconds: Option<f64> = variable(conn, "binlog_expire_logs_seconds").await?.and_then(|text| text.parse().ok());
        let days: Option<f64> = variable(conn, "expire_logs_days").await?.and_then(|text| text.parse().ok());
        let kept = [seconds.unwrap_or_default(), days.unwrap_or_default() * 86_400.0].into_iter().fold(0.0, f64::max);
        if kept > 0.0 && kept < RETENTION as f64 {
            let what = format!("the log is kept for {kept:.0} seconds only: a source that is down longer must copy all tables again");
            self.setting(false, what, ("binlog_expire_logs_seconds", ENOUGH));
        }
        Ok(())
    }

    /// Without strict mode the server stores what a value was cut to, zero dates among it.
    async fn strictness(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let mode = variable(conn, "sql_mode").await?.unwrap_or_default().to_uppercase();
        if !mode.split(',').any(|word| matches!(word, "STRICT_TRANS_TABLES" | "STRICT_ALL_TABLES" | "TRADITIONAL")) {
            let what =
                "sql_mode is not strict: a bad value is stored as what is left of it, a bad date as a zero date, which stops the source";
            let value = "CONCAT_WS(',', NULLIF(@@GLOBAL.sql_mode, ''), 'STRICT_TRANS_TABLES')";
            self.setting(false, what.into(), ("sql_mode", value));
        }
        Ok(())
    }

    async fn rights(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let grants: Vec<String> = conn.query("SHOW GRANTS").await?;
        // A role's rights are not listed here: what it lacks shows when it is used.
        if grants.iter().any(|grant| !grant.contains(" ON ")) {
            return Ok(());
        }
        let has = |right: &str, on: &str| grants.iter().any(|grant| gives(grant, right, on));
        let monitor = monitor(self.server);
        let mut missing = Vec::new();
        for (right, others) in [("REPLICATION SLAVE", &[][..]), (monitor, &["REPLICATION CLIENT", "SUPER"][..])] {
            if ![right].iter().chain(others).any(|right| has(right, "*.*")) {
                missing.push((right.to_owned(), format!("GRANT {right} ON *.* TO {};", self.account)));
            }
        }
        for database in &self.locked {
            let there = |on: &str| has("LOCK TABLES", on);
            if !there("*.*") && !there(&format!("{}.*", catalog::quoted(database))) {
                missing.push((format!("LOCK TABLES on {database}"), self.lock_tables(database)));
            }
        }
        for (right, sql) in missing {
            let what = format!("user `{}` lacks the right {right}", self.config.user);
            self.report(true, what, "Grant it.", vec![sql]);
        }
        Ok(())
    }

    async fn table(&mut self, conn: &mut Conn, id: &TableId) -> Result<(), CaptureError> {
        let selected = catalog::pin(conn, id).await;
        match selected {
            Ok(()) => {}
            Err(Error::Server(ServerError { code: 1142 | 1044 | 1143, .. })) => {
                let what = format!("user `{}` may not read {id}", self.config.user);
                self.report(true, what, "Grant it.", vec![self.select(id)]);
                return Ok(());
            }
            Err(Error::Server(ServerError { code: 1146 | 1049, .. })) => {
                let remedy = "Create it, or take it out of source.tables.";
                self.report(true, format!("table {id} does not exist"), remedy, Vec::new());
                return Ok(());
            }
            Err(error) => return Err(failed(self.config, &format!("opening {id}"), &error)),
        }
        match catalog::shape(self.config, self.server, conn, id).await {
            Ok(table) => self.shape(&table),
            Err(CaptureError::Refused(what)) => {
                self.problems.push(Problem { fatal: true, what, remedy: format!("Take {id} out of source.tables."), sql: Vec::new() })
            }
            Err(error) => return Err(error),
        }
        self.cascades(conn, id).await.map_err(|error| failed(self.config, "reading foreign keys", &error))
    }

    fn shape(&mut self, table: &Table) {
        let id = &table.id;
        let key = table.key_columns();
        if !self.server.mariadb && (!self.server.gtids || key.is_empty()) {
            self.locked.insert(id.namespace.clone());
        }
        if key.is_empty() {
            self.report(
                false,
                format!("{id} has no row key: neither a primary key nor a unique index over NOT NULL columns"),
                "Add a primary key, or set sinks.<name>.keyless to append or full_row.",
                vec![add_key(id)],
            );
        }
        for problem in key.iter().filter_map(|column| literal::expression(column).err()) {
            self.report(true, format!("{id}: {problem}"), "Give the table a key over other columns.", Vec::new());
        }
        for entry in self.config.mapping.unknown(table) {
            let remedy = format!("Correct the entry; the columns of {id} are {}.", names(table));
            self.report(true, format!("source.type_map names {entry}, which is not there"), remedy, Vec::new());
        }
        let rows = RowSchema::new(table);
        for field in &rows.fields {
            let one = RowSchema { fields: vec![field.clone()], key: Vec::new() };
            if let Err(problem) = Fields::new(table, &one, &self.server.charsets) {
                self.report(
                    true,
                    format!("{id}, {problem}"),
                    "Take the column's entry out of source.type_map where it has one; else change its type, or take the table out.",
                    Vec::new(),
                );
            }
        }
    }

    /// Rows that a foreign key changes in a captured table, where the server does not log them.
    async fn cascades(&mut self, conn: &mut Conn, id: &TableId) -> Result<(), Error> {
        let native = variable(conn, "innodb_native_foreign_keys").await?;
        if native.as_ref().is_some_and(|value| value.eq_ignore_ascii_case("OFF")) {
            return Ok(());
        }
        let Created::Table(text) = catalog::show_create(conn, id).await? else { return Ok(()) };
        let logs = if native.is_some() { "; or start the server with innodb_native_foreign_keys = OFF" } else { "" };
        for name in catalog::cascading(&text, &self.server.catalog_context(&id.namespace)) {
            self.report(
                true,
                format!("{id}: foreign key `{name}` changes its rows when those of its parent change (CASCADE, SET NULL), and the server does not log that"),
                format!("Drop it, and make it anew without CASCADE and SET NULL{logs}."),
                vec![format!("ALTER TABLE {} DROP FOREIGN KEY {};", catalog::quoted_table(id), catalog::quoted(&name))],
            );
        }
        Ok(())
    }
}

/// Whether a line of SHOW GRANTS gives a right, as a whole word of its list, on this.
fn gives(grant: &str, right: &str, on: &str) -> bool {
    let listed = grant.strip_prefix("GRANT ").and_then(|rest| rest.split_once(" ON "));
    listed.is_some_and(|(rights, rest)| {
        let given = rights.split(", ").any(|given| given.eq_ignore_ascii_case(right) || given.eq_ignore_ascii_case("ALL PRIVILEGES"));
        given && rest.strip_prefix(on).is_some_and(|rest| rest.starts_with(" TO "))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_is_a_whole_word_of_its_list() {
        let admin = "GRANT SELECT, REPLICATION SLAVE ADMIN ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD '*2'";
        assert!(gives(admin, "SELECT", "*.*"));
        assert!(!gives(admin, "REPLICATION SLAVE", "*.*"));
        assert!(gives(admin, "REPLICATION SLAVE ADMIN", "*.*"));
        let all = "GRANT ALL PRIVILEGES ON `shop`.* TO `a`@`%`";
        assert!(gives(all, "LOCK TABLES", "`shop`.*"));
        assert!(!gives(all, "LOCK TABLES", "*.*"));
    }
}
