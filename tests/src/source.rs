//! The source server of a test, spoken to in the text protocol.

use mysql_async::{Conn, Opts, OptsBuilder, Row, Value, prelude::Queryable};

/// Cells as the server prints them; None is NULL.
pub type Cells = Vec<Vec<Option<Vec<u8>>>>;

/// One session at the source server.
#[derive(Debug)]
pub struct Session {
    conn: Conn,
}

/// The source server's address: `mysql://user:password@host:port`, from INSTAR_TEST_MARIADB or INSTAR_TEST_MYSQL.
pub fn url(flavour: &str) -> String {
    let name = format!("INSTAR_TEST_{}", flavour.to_uppercase());
    std::env::var(&name).unwrap_or_else(|_| panic!("{name} is not set: tests/run starts the servers and sets it"))
}

impl Session {
    /// Connects as the address says, without a database.
    pub async fn connect(url: &str) -> Session {
        let opts = OptsBuilder::from_opts(Opts::from_url(url).expect("the server's address"))
            .prefer_socket(false)
            .max_allowed_packet(Some(1 << 30))
            .init(vec!["SET NAMES utf8mb4".to_owned()]);
        Session { conn: Conn::new(opts).await.expect("the source server answers") }
    }

    /// Runs one statement as these bytes and returns the server's error, if any.
    pub async fn try_run(&mut self, statement: &[u8]) -> Result<(), String> {
        self.conn.query_drop(statement.to_vec()).await.map_err(|e| e.to_string())
    }

    /// Runs one statement.
    pub async fn run(&mut self, statement: &str) {
        if let Err(e) = self.try_run(statement.as_bytes()).await {
            panic!("{statement}: {e}");
        }
    }

    /// Runs statements that end with `;` at a line's end.
    pub async fn script(&mut self, text: &str) {
        for statement in statements(text) {
            self.run(&statement).await;
        }
    }

    pub async fn query(&mut self, statement: &str) -> Result<Cells, String> {
        let rows: Vec<Row> = self.conn.query(statement).await.map_err(|e| e.to_string())?;
        Ok(rows.into_iter().map(|row| row.unwrap().into_iter().map(cell).collect()).collect())
    }

    /// An empty database.
    pub async fn fresh_database(&mut self, name: &str) {
        self.run(&format!("DROP DATABASE IF EXISTS `{name}`")).await;
        self.run(&format!("CREATE DATABASE `{name}` CHARACTER SET utf8mb4")).await;
        self.run(&format!("USE `{name}`")).await;
    }
}

fn cell(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(bytes),
        Value::Int(n) => Some(n.to_string().into_bytes()),
        Value::UInt(n) => Some(n.to_string().into_bytes()),
        Value::Float(f) => Some(f.to_string().into_bytes()),
        Value::Double(f) => Some(f.to_string().into_bytes()),
        Value::Date(..) | Value::Time(..) => unreachable!("the text protocol has no binary dates"),
    }
}

/// Splits at `;` at the end of a line. The last statement may lack it.
pub fn statements(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut current = String::new();
    for line in text.lines() {
        current.push_str(line);
        current.push('\n');
        if line.trim_end().ends_with(';') {
            all.push(current.trim().trim_end_matches(';').to_owned());
            current.clear();
        }
    }
    if !current.trim().is_empty() {
        all.push(current.trim_end_matches('\n').trim_start().to_owned());
    }
    all
}
