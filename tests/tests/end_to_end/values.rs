//! Random tables of random types on every source server: rows that are copied and rows that are streamed, with the same values, are
//! equal on the target, and what the source prints.

use tests::{
    random::Random,
    source,
    values::{self, Column, SQL_MODES, Server, TIME_ZONES},
};

use crate::world::{Options, World};

const TABLES: usize = 6;
const COLUMNS: usize = 12;
const ROWS: usize = 10;
/// From a copied row's key to that of the streamed one.
const STREAMED: usize = 1000;

/// Creates a table of random columns, after however many that the server refuses (too wide a row).
async fn create(session: &mut source::Session, random: &mut Random, server: Server, name: &str) -> Vec<Column> {
    loop {
        let columns = values::columns(random, server, COLUMNS);
        let declared: Vec<String> = columns.iter().map(|column| format!("`{}` {}", column.name, column.declaration)).collect();
        let statement = format!("CREATE TABLE {name} (id INT PRIMARY KEY, {})", declared.join(", "));
        match session.try_run(statement.as_bytes()).await {
            Ok(()) => return columns,
            Err(error) => assert!(error.to_lowercase().contains("row size"), "{statement}: {error}"),
        }
    }
}

async fn random_values(name: &str, flavour: &str, server: Server, seed: u64) {
    let mut random = Random::seeded(name, seed);
    let names: Vec<String> = (0..TABLES).map(|number| format!("t{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut options = Options { source_url: Some(source::url(flavour)), ..Options::default() };
    let mut world = World::with(name, "", &names, options.clone()).await;
    let mut rows = Vec::new();
    let mut as_text = Vec::new();
    for table in &names {
        world.source.run("SET SESSION sql_mode = ''").await;
        let columns = create(&mut world.source, &mut random, server, table).await;
        as_text.extend(columns.iter().filter(|column| column.zeros).map(|column| format!("{name}.{table}.{}: string", column.name)));
        for row in 0..ROWS {
            let settings = format!("SET SESSION sql_mode = '{}', time_zone = '{}'", random.pick(&SQL_MODES), random.pick(&TIME_ZONES));
            let values: Vec<String> = columns.iter().map(|column| column.value(&mut random)).collect();
            rows.push((settings, table, row, values.join(", ")));
        }
    }
    let type_map = format!("  type_map: {{ {} }}\n", as_text.join(", "));
    options.source = &type_map;
    world.configure(&options);
    write(&mut world, &rows, 0).await;
    world.start();
    write(&mut world, &rows, STREAMED).await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    for table in names {
        assert_eq!(world.count(table).await, 2 * ROWS as u64, "{table}");
        let list = |side: &str| (0..COLUMNS).map(|column| format!("{side}.c{column}::text")).collect::<Vec<_>>().join(", ");
        let (copied, streamed) = (list("a"), list("b"));
        let differ = format!(
            "SELECT string_agg(a.id::text, ', ') FROM {table} a JOIN {table} b ON b.id = a.id + {STREAMED} WHERE ({copied}) IS DISTINCT FROM ({streamed})"
        );
        assert_eq!(world.target.value(&differ).await, None, "rows of {table} that differ by copy and stream");
    }
}

async fn write(world: &mut World, rows: &[(String, &&str, usize, String)], from: usize) {
    for (settings, table, row, values) in rows {
        world.source.run(settings).await;
        world.source.run(&format!("INSERT INTO {table} VALUES ({}, {values})", from + row)).await;
    }
    world.source.run("SET SESSION sql_mode = '', time_zone = '+00:00'").await;
}

#[tokio::test]
async fn random_values_of_mariadb_are_the_same_by_copy_and_stream_and_on_the_source() {
    random_values("values_mariadb", "mariadb", Server::MariaDb, 11).await;
}

#[tokio::test]
async fn random_values_of_mariadb_11_are_the_same_by_copy_and_stream_and_on_the_source() {
    random_values("values_mariadb_11", "mariadb_11", Server::MariaDb11, 12).await;
}

#[tokio::test]
async fn random_values_of_mysql_are_the_same_by_copy_and_stream_and_on_the_source() {
    random_values("values_mysql", "mysql", Server::MySql, 13).await;
}
