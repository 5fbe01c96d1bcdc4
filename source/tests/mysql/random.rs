//! Random tables: each row comes the same by copy and by stream, and its texts are the server's; a default that the log's statement
//! gives is what the server gave to the rows that were there. A failing run says its seed; INSTAR_TEST_SEED=… runs it again.

use mysql_async::{Row, prelude::Queryable};
use schemas::{
    change::{Fill, SchemaChange},
    types::Repr,
    value::Value,
};
use source::{
    engine::Engine,
    mysql::{MySql, decode::temporal::civil_from_days},
};
use tests::{
    random::Random,
    values::{self, Column, SQL_MODES, Server, TIME_ZONES},
};

use crate::world::{Flavour, World, by_table, copy, hear, published, show};

const TABLES: usize = 10;
const COLUMNS: usize = 12;
const ROWS: usize = 12;
const STATEMENTS: usize = 15;

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

/// The engine for these tables, with every column that may hold zero dates published as text.
fn engine(world: &World, tables: &[(String, Vec<Column>)]) -> MySql {
    let names: Vec<&str> = tables.iter().map(|(name, _)| name.as_str()).collect();
    let mut source = world.source(&names);
    for (table, columns) in tables {
        let zeros = columns.iter().filter(|column| column.zeros);
        source.type_map.extend(zeros.map(|column| (format!("{}.{}", world.table(table), column.name), "string".to_owned())));
    }
    MySql::new(&source).unwrap()
}

async fn random_tables(flavour: Flavour, server: Server, name: &str, seed: u64) {
    let Some(mut world) = World::new(flavour, name).await else { return };
    let mut random = Random::seeded(name, seed);
    let mut all = Vec::new();
    for number in 0..TABLES {
        let name = format!("t{number}");
        let columns = create(&mut world, &mut random, server, &name).await;
        all.push((name, columns));
    }
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let mut engine = engine(&world, &all);
    let (from, tables) = engine.pinned(&world.ids(&names)).await.unwrap();
    let mut stream = engine.stream(&from, tables.clone()).await.unwrap();
    for (name, columns) in &all {
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
    for ((table, (_, columns)), streamed) in tables.iter().zip(&all).zip(heard.rows.chunks(ROWS)) {
        let published = published(table);
        let fields = &published.rows.fields;
        let copied = copy(&engine, &published, &end).await.unwrap();
        assert_eq!(copied.len(), ROWS);
        for (row, (streamed, copied)) in streamed.iter().zip(&copied).enumerate() {
            let (by_stream, by_copy) = (show(fields, streamed.after.as_ref().unwrap()), show(fields, copied.after.as_ref().unwrap()));
            for column in columns {
                let name = &column.name;
                assert_eq!(by_copy[name], by_stream[name], "{}.{name} {}, row {row}: copied and streamed", table.id, column.declaration);
            }
            assert_eq!((&streamed.key, &streamed.after), (&copied.key, &copied.after));
            let texts: Vec<&str> =
                fields.iter().filter(|field| matches!(field.repr, Repr::String | Repr::Uuid)).map(|field| field.name.as_str()).collect();
            let list: Vec<String> = texts.iter().map(|name| format!("CONVERT(`{name}` USING utf8mb4)")).collect();
            let sql = format!("SELECT id, {} FROM {} WHERE id = {row}", list.join(", "), table.id);
            let server: Row = world.conn.query_first(sql.replace("id,  FROM", "id FROM")).await.unwrap().unwrap();
            for (i, name) in texts.iter().enumerate() {
                let server: Option<String> = server.get(i + 1).unwrap();
                assert_eq!(by_stream[*name], server.unwrap_or_else(|| "NULL".into()), "{}.{name}, row {row}", table.id);
            }
        }
    }
    drop(stream);
}

/// The clients' character sets in which statements are sent.
const CLIENTS: [&str; 7] = ["utf8mb4", "utf8mb3", "latin1", "cp932", "gbk", "cp850", "koi8r"];

/// A constant as [`show`] prints a field of this form.
fn shown(value: &Value, repr: &Repr) -> String {
    let date = |days: i64| {
        let (y, m, d) = civil_from_days(days);
        format!("{y:04}-{m:02}-{d:02}")
    };
    match (value, repr) {
        (Value::Null, _) => "NULL".into(),
        (Value::Integer(number), _) => number.to_string(),
        (Value::Float(float), Repr::Float) => format!("{:?}", *float as f32),
        (Value::Float(float), _) => format!("{float:?}"),
        (Value::Decimal(text) | Value::Text(text), _) => text.clone(),
        (Value::Bytes(bytes), _) => bytes.iter().map(|b| format!("{b:02x}")).collect(),
        (Value::Date(days), _) => date(i64::from(*days)),
        (Value::Micros(micros), Repr::Long) => micros.to_string(),
        (Value::Micros(micros), _) => {
            let (day, rest) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
            let seconds = rest / 1_000_000;
            format!("{} {:02}:{:02}:{:02}.{:06}", date(day), seconds / 3600, seconds / 60 % 60, seconds % 60, rest % 1_000_000)
        }
        (Value::Boolean(_) | Value::Array(_), _) => panic!("no such constants here: {value:?}"),
    }
}

/// Columns that are added with random defaults under random settings of the session.
async fn random_defaults(flavour: Flavour, server: Server, name: &str, seed: u64) {
    let Some(mut world) = World::new(flavour, name).await else { return };
    let mut random = Random::seeded(name, seed);
    let (mut constants, mut others, mut refused) = (0, Vec::new(), Vec::new());
    while constants < STATEMENTS {
        world.run("SET NAMES utf8mb4, sql_mode = '', time_zone = '+00:00'").await;
        world.run("DROP TABLE IF EXISTS t").await;
        world.run("CREATE TABLE t (id INT PRIMARY KEY)").await;
        world.run("INSERT INTO t VALUES (1)").await;
        let mode = format!("{},{}", random.pick(&SQL_MODES), random.pick(&["", "STRICT_TRANS_TABLES"]));
        let column = values::columns(&mut random, server, 1).remove(0);
        let Some(default) = column.default(&mut random, &mode) else { continue };
        let mut engine = engine(&world, &[("t".into(), vec![column.clone()])]);
        let (from, tables) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let statement = format!("ALTER TABLE t ADD COLUMN `{}` {} DEFAULT {default}", column.name, column.declaration);
        let (client, zone) = (random.pick(&CLIENTS), random.pick(&TIME_ZONES));
        let hex: String = statement.bytes().map(|byte| format!("{byte:02X}")).collect();
        let sql = format!("SELECT CAST(CONVERT(CONVERT(X'{hex}' USING utf8mb4) USING {client}) AS BINARY)");
        let bytes: Vec<u8> = world.conn.query_first(sql).await.unwrap().unwrap();
        world.run(&format!("SET SESSION time_zone = '{zone}', sql_mode = '{mode}'")).await;
        world.run(&format!("SET NAMES {client}")).await;
        let told = format!("{statement} (sql_mode {mode}, time_zone {zone}, {client})");
        if let Err(error) = world.conn.query_drop(bytes).await {
            refused.push(format!("{told}: {error}"));
            assert!(refused.len() < 10 * STATEMENTS, "{refused:#?}");
            continue;
        }
        let (end, _) = engine.end().await.unwrap();
        let mut stream = engine.stream(&from, tables.clone()).await.unwrap();
        let heard = hear(&mut stream, &mut by_table(&tables), &end).await.unwrap();
        drop(stream);
        let Some(statement) = heard.statements.first() else {
            others.push(format!("{told}: {:?}", heard.stands));
            assert!(others.len() < 3 * STATEMENTS, "{others:#?}");
            continue;
        };
        let [SchemaChange::AddColumn { fill: Fill::Constant(constant), .. }] = &statement.tables[0].changes[..] else {
            others.push(format!("{told}: {:?}", statement.tables[0].changes));
            assert!(others.len() < 3 * STATEMENTS, "{others:#?}");
            continue;
        };
        let published = published(&statement.tables[0].shape);
        let row = match copy(&engine, &published, &end).await {
            Ok(rows) => rows[0].after.clone().unwrap(),
            // A date of year 0, or none at all: the rows stop as well.
            Err(error) => {
                assert!(error.to_string().contains("is not a date"), "{told}: {error}");
                continue;
            }
        };
        let field = published.rows.fields.iter().find(|field| field.name == column.name).unwrap();
        let server = show(&published.rows.fields, &row)[&column.name].clone();
        assert_eq!(shown(constant, &field.repr), server, "{told}");
        constants += 1;
    }
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

#[tokio::test]
async fn random_defaults_of_mariadb_are_what_the_server_gives() {
    random_defaults(Flavour::MariaDb, Server::MariaDb, "defaults_mariadb", 2).await;
}

#[tokio::test]
async fn random_defaults_of_mariadb_11_are_what_the_server_gives() {
    random_defaults(Flavour::MariaDb11, Server::MariaDb11, "defaults_mariadb_11", 2).await;
}

#[tokio::test]
async fn random_defaults_of_mysql_are_what_the_server_gives() {
    random_defaults(Flavour::MySql, Server::MySql, "defaults_mysql", 2).await;
}
