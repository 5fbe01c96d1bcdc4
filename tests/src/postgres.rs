//! The PostgreSQL server of a test, spoken to in the simple protocol: every value as the server prints it.

use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

pub type Texts = Vec<Vec<Option<String>>>;

/// One session, in UTC.
pub struct Session {
    client: Client,
}

/// The server's address, from INSTAR_TEST_POSTGRES.
pub fn url() -> String {
    std::env::var("INSTAR_TEST_POSTGRES").expect("INSTAR_TEST_POSTGRES is not set: tests/run starts the servers and sets it")
}

/// The same server, another database.
pub fn database_url(database: &str) -> String {
    database_at(&url(), database)
}

/// Another database of a server whose address has one.
pub fn database_at(url: &str, database: &str) -> String {
    let (server, _) = url.rsplit_once('/').expect("an address with a database");
    format!("{server}/{database}")
}

impl Session {
    pub async fn connect(url: &str) -> Session {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap_or_else(|e| panic!("PostgreSQL: {e}"));
        tokio::spawn(connection);
        let session = Session { client };
        session.run("SET TimeZone = 'UTC'; SET IntervalStyle = 'postgres'; SET bytea_output = 'hex'").await;
        session
    }

    /// A session in a database made anew.
    pub async fn fresh_database(name: &str) -> Session {
        Session::fresh_database_at(&url(), name).await
    }

    pub async fn fresh_database_at(url: &str, name: &str) -> Session {
        let admin = Session::connect(url).await;
        admin.run(&format!("DROP DATABASE IF EXISTS \"{name}\" WITH (FORCE)")).await;
        admin.run(&format!("CREATE DATABASE \"{name}\"")).await;
        Session::connect(&database_at(url, name)).await
    }

    pub async fn run(&self, sql: &str) {
        if let Err(e) = self.client.batch_execute(sql).await {
            panic!("{sql}: {e:?}");
        }
    }

    pub async fn query(&self, sql: &str) -> Result<Texts, String> {
        let messages = self.client.simple_query(sql).await.map_err(|e| format!("{e:?}"))?;
        Ok(messages
            .into_iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|i| row.get(i).map(str::to_owned)).collect()),
                _ => None,
            })
            .collect())
    }

    /// The only value of a query.
    pub async fn value(&self, sql: &str) -> Option<String> {
        self.query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}")).into_iter().next().and_then(|mut row| row.swap_remove(0))
    }
}
