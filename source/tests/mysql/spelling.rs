//! What statements of many spellings make of a table, against the catalog of a real server.

use std::collections::BTreeMap;

use mysql_async::prelude::Queryable;
use schemas::{
    ddl::mysql::{Context, Parsed, apply, parse, table_from_create},
    table::{Table, TableId},
};

use crate::world::{Flavour, World};

const STATEMENTS: &str = include_str!("../data/statements.sql");

/// A shape without what the catalog cannot tell: ids of columns, and names of plain indexes that foreign keys brought.
fn plain(table: &Table) -> Vec<String> {
    let names = |ids: &[schemas::table::ColumnId]| {
        ids.iter().map(|id| table.by_id(*id).map_or("?", |c| c.name.as_str())).collect::<Vec<_>>().join(", ")
    };
    let mut lines: Vec<String> = table
        .columns
        .iter()
        .map(|c| {
            format!(
                "{} {:?} null={} default={:?} generated={:?} identity={} invisible={} comment={:?}",
                c.name,
                c.native,
                c.nullable,
                c.default,
                c.generated.is_some(),
                c.identity,
                c.invisible,
                c.comment
            )
        })
        .collect();
    lines.push(format!("primary {:?}", table.primary.as_ref().map(|key| names(&key.columns))));
    lines.extend(table.unique.iter().map(|u| format!("unique {} ({}) partial={}", u.name, names(&u.columns), u.partial)));
    lines.push(format!("collation {:?}", table.collation));
    lines
}

async fn catalog(world: &mut World, context: &Context) -> Option<Table> {
    let created: Option<(String, Vec<u8>)> = world.conn.query_first("SHOW CREATE TABLE t").await.unwrap_or_default();
    created.map(|(_, text)| table_from_create(&text, context).unwrap_or_else(|why| panic!("{}: {why:?}", String::from_utf8_lossy(&text))))
}

async fn every_statement(flavour: Flavour, database: &str, own: &str) {
    let Some(mut world) = World::new(flavour, database).await else { return };
    let (version, collation): (String, String) = world.conn.query_first("SELECT VERSION(), @@collation_server").await.unwrap().unwrap();
    let number =
        |text: &str| text.split(|c: char| !c.is_ascii_digit()).take(3).fold(0, |sum, part| sum * 100 + part.parse::<u32>().unwrap());
    let mut context = Context::new(flavour == Flavour::MariaDb, number(&version));
    context.default_database.clone_from(&world.database);
    context.server_collation = collation;
    context.database_collation = Some("utf8mb4_general_ci".into());
    // The server's sessions of these tests are not strict.
    context.sql_mode = 0;
    world.run("CREATE TABLE other (id INT, n INT, PRIMARY KEY (id), UNIQUE (id, n))").await;
    let (mut run, mut taken, mut wrong) = (true, 0, Vec::new());
    for line in STATEMENTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(section) = line.strip_prefix('[') {
            run = section == "both]" || section.strip_suffix(']') == Some(own);
            continue;
        }
        if !run {
            continue;
        }
        let before = catalog(&mut world, &context).await;
        if line.starts_with("CREATE TABLE t ") || line.starts_with("CREATE OR REPLACE TABLE t ") {
            world.run("DROP TABLE IF EXISTS t").await;
        }
        let known: BTreeMap<TableId, Table> = before.iter().map(|table| (table.id.clone(), table.clone())).collect();
        if world.conn.query_drop(line).await.is_err() {
            continue;
        }
        taken += 1;
        let known = if line.contains(" TABLE t (") && !line.contains("IF NOT EXISTS") { BTreeMap::new() } else { known };
        let text = line.replace("shop.", &format!("{}.", world.database));
        let shape = match parse(text.as_bytes(), &context) {
            Parsed::Tables(statement) => match apply(&statement, &context, &known) {
                Ok(effects) => effects.into_iter().find(|effect| effect.id.name == "t").and_then(|effect| effect.shape).or(before),
                Err(refusal) => {
                    wrong.push(format!("{line}\n  is refused: {}", refusal.why));
                    continue;
                }
            },
            other => {
                wrong.push(format!("{line}\n  is {other:?}"));
                continue;
            }
        };
        let (found, wanted) =
            (shape.as_ref().map(plain).unwrap_or_default(), catalog(&mut world, &context).await.as_ref().map(plain).unwrap_or_default());
        if found != wanted {
            let differ: Vec<String> = found.iter().filter(|l| !wanted.contains(l)).map(|l| format!("  read:    {l}")).collect();
            let catalog: Vec<String> = wanted.iter().filter(|l| !found.contains(l)).map(|l| format!("  catalog: {l}")).collect();
            wrong.push(format!("{line}\n{}\n{}", differ.join("\n"), catalog.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(taken > 60, "{taken} statements were taken by the server");
}

#[tokio::test]
async fn every_statement_leads_to_the_shape_of_mariadbs_catalog() {
    every_statement(Flavour::MariaDb, "statements", "mariadb").await;
}

#[tokio::test]
async fn every_statement_leads_to_the_shape_of_mysqls_catalog() {
    every_statement(Flavour::MySql, "statements", "mysql").await;
}
