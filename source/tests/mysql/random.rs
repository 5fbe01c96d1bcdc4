//! Random tables: each row comes the same by copy and by stream, and its texts are the server's.

use mysql_async::prelude::Queryable;
use schemas::types::Repr;
use source::engine::Engine;
use tests::{
    random::Random,
    values::{self, Column, SQL_MODES, Server, TIME_ZONES},
};

use crate::world::{Flavour, World, by_table, copy, hear, published, show};

const TABLES: usize = 10;
const COLUMNS: usize = 12;
const ROWS: usize = 12;

/// Creates a table of random columns, after however many that the server refuses (too wide a row).
async fn create(world: &mut World, random: &mut Random, server: Server, name: &str) -> Vec<Column> {
    loop {
        let columns = values::columns(random, server, COLUMNS);
        let declared: Vec<String> = columns.iter().map(|column| format!("`{}` {}", column.name, column.declaration)).collect();
        let created = world.conn.query_drop(format!("CREATE TABLE {name} (id INT PRIMARY KEY, {})", declared.join(", "))).await;
        match created {
            Ok(()) => return columns,
            Err(error) => assert!(error.to_string().to_lowercase().contains("row size"), "{declared:#?}: {error}"),
        }
    }
}

async fn random_tables(flavour: Flavour, server: Server, name: &str, seed: u64) {
    let Some(mut world) = World::new(flavour, name).await else { return };
    let mut random = Random::seeded(name, seed);
    let names: Vec<String> = (0..TABLES).map(|number| format!("t{number}")).collect();
    let mut all = Vec::new();
    for name in &names {
        world.run(&format!("SET SESSION sql_mode = '{}'", random.pick(&SQL_MODES))).await;
        all.push(create(&mut world, &mut random, server, name).await);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut engine = world.engine(&names);
    let (from, tables) = engine.pinned(&world.ids(&names)).await.unwrap();
    let mut stream = engine.stream(&from, tables.clone()).await.unwrap();
    for (name, columns) in names.iter().zip(&all) {
        for row in 0..ROWS {
            let (mode, zone) = (random.pick(&SQL_MODES), random.pick(&TIME_ZONES));
            world.run(&format!("SET SESSION sql_mode = '{mode}', time_zone = '{zone}'")).await;
            let values: Vec<String> = columns.iter().map(|column| column.value(&mut random)).collect();
            world.run(&format!("INSERT INTO {name} VALUES ({row}, {})", values.join(", "))).await;
        }
    }
    world.run("SET SESSION sql_mode = '', time_zone = '+00:00'").await;
    let (end, _) = engine.end().await.unwrap();
    let heard = hear(&mut stream, &mut by_table(&tables), &end).await.unwrap();
    assert_eq!(heard.stands, Vec::<String>::new());
    assert_eq!(heard.rows.len(), TABLES * ROWS);
    for ((table, columns), streamed) in tables.iter().zip(&all).zip(heard.rows.chunks(ROWS)) {
        let published = published(table);
        let copied = copy(&engine, &published, &end).await.unwrap();
        for (row, (streamed, copied)) in streamed.iter().zip(&copied).enumerate() {
            let (by_stream, by_copy) = (
                show(&published.rows.fields, streamed.after.as_ref().unwrap()),
                show(&published.rows.fields, copied.after.as_ref().unwrap()),
            );
            for column in columns {
                let name = &column.name;
                assert_eq!(by_copy[name], by_stream[name], "{}.{name} {}, row {row}: copied and streamed", table.id, column.declaration);
            }
            assert_eq!((&streamed.key, &streamed.after), (&copied.key, &copied.after));
            for field in published.rows.fields.iter().filter(|field| matches!(field.repr, Repr::String | Repr::Uuid)) {
                let sql = format!("SELECT CONVERT(`{}` USING utf8mb4) FROM {} WHERE id = {row}", field.name, table.id);
                let server: Option<String> = world.conn.query_first(sql).await.unwrap().unwrap();
                assert_eq!(by_stream[&field.name], server.unwrap_or_else(|| "NULL".into()), "{}.{}, row {row}", table.id, field.name);
            }
        }
    }
    drop(stream);
}

#[tokio::test]
async fn random_tables_of_mariadb_are_the_same_in_copy_and_stream() {
    random_tables(Flavour::MariaDb, Server::MariaDb, "random_mariadb", 1).await;
}

#[tokio::test]
async fn random_tables_of_mariadb_11_are_the_same_in_copy_and_stream() {
    random_tables(Flavour::MariaDb11, Server::MariaDb11, "random_mariadb_11", 1).await;
}

#[tokio::test]
async fn random_tables_of_mysql_are_the_same_in_copy_and_stream() {
    random_tables(Flavour::MySql, Server::MySql, "random_mysql", 1).await;
}
