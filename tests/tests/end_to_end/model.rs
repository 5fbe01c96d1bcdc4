//! Random rows and random changes from three sessions on three tables, while the process is killed; at the end the values agree.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tests::{random::Random, source};

use crate::world::{Options, World};

const KILLS: u64 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int,
    BigInt,
    /// With this length.
    Text(u64),
    Decimal,
    Moment,
}

#[derive(Debug, Clone)]
struct Column {
    name: String,
    kind: Kind,
    nullable: bool,
}

/// A table as the sessions believe it to be. A statement that comes too late is refused by the server, and nothing is logged.
struct Table {
    name: &'static str,
    key: &'static [&'static str],
    columns: Mutex<Vec<Column>>,
    /// Held while a session alters the table: two sessions never alter it at once.
    altering: tokio::sync::Mutex<u64>,
}

const SETUP: &str = "CREATE TABLE x (id INT PRIMARY KEY, a INT);\n\
    CREATE TABLE y (id VARCHAR(12) COLLATE utf8mb4_bin PRIMARY KEY, a INT);\n\
    CREATE TABLE z (p INT, q SMALLINT, a INT, PRIMARY KEY (p, q));";

impl Table {
    fn new(name: &'static str, key: &'static [&'static str]) -> Self {
        Table {
            name,
            key,
            columns: Mutex::new(vec![Column { name: "a".into(), kind: Kind::Int, nullable: true }]),
            altering: tokio::sync::Mutex::new(0),
        }
    }

    fn columns(&self) -> Vec<Column> {
        self.columns.lock().unwrap().clone()
    }

    /// Values of the key: few enough that keys are used again.
    fn key_values(&self, random: &mut Random) -> Vec<String> {
        match self.name {
            "x" => vec![random.below(400).to_string()],
            "y" => vec![format!("'k{}'", random.below(400))],
            _ => vec![random.below(40).to_string(), random.below(10).to_string()],
        }
    }

    fn is_row(&self, random: &mut Random) -> String {
        let values = self.key_values(random);
        self.key.iter().zip(values).map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(" AND ")
    }

    /// A statement that writes rows.
    fn write(&self, random: &mut Random) -> String {
        let columns = self.columns();
        let name = self.name;
        match random.below(10) {
            0..5 => {
                let names: Vec<&str> = self.key.iter().copied().chain(columns.iter().map(|c| c.name.as_str())).collect();
                let rows: Vec<String> = (0..=random.below(12))
                    .map(|_| {
                        let values: Vec<String> =
                            self.key_values(random).into_iter().chain(columns.iter().map(|c| value(c, random))).collect();
                        format!("({})", values.join(", "))
                    })
                    .collect();
                let rows = format!("INTO {name} ({}) VALUES {}", names.join(", "), rows.join(", "));
                let last = names[names.len() - 1];
                if random.one_in(2) {
                    format!("REPLACE {rows}")
                } else {
                    format!("INSERT {rows} ON DUPLICATE KEY UPDATE {last} = VALUES({last})")
                }
            }
            5..8 if !columns.is_empty() => {
                let column = random.pick(&columns).clone();
                let rows = if random.one_in(6) { "1 = 1 LIMIT 60".to_owned() } else { self.is_row(random) };
                format!("UPDATE {name} SET {} = {} WHERE {rows}", column.name, value(&column, random))
            }
            8 => {
                let set = self.is_row(random).replace(" AND ", ", ");
                format!("UPDATE {name} SET {set} WHERE {}", self.is_row(random))
            }
            _ => format!("DELETE FROM {name} WHERE {}", self.is_row(random)),
        }
    }

    /// Alters or empties the table.
    async fn alter(&self, session: &mut source::Session, random: &mut Random) -> bool {
        let mut made = self.altering.lock().await;
        *made += 1;
        let mut columns = self.columns();
        let statement = self.change(&mut columns, *made, random);
        let done = session.try_run(statement.as_bytes()).await;
        match &done {
            Ok(()) => *self.columns.lock().unwrap() = columns,
            Err(error) => assert!(late(error), "{statement}: {error}"),
        }
        done.is_ok()
    }

    fn change(&self, columns: &mut Vec<Column>, number: u64, random: &mut Random) -> String {
        let name = self.name;
        if random.one_in(8) {
            return format!("TRUNCATE TABLE {name}");
        }
        if columns.len() < 3 || (columns.len() < 12 && random.one_in(2)) {
            let kind = *random.pick(&[Kind::Int, Kind::BigInt, Kind::Text(10), Kind::Decimal, Kind::Moment]);
            // A name is used again after it was dropped.
            let form = random.below(3);
            let column = Column { name: format!("c{}", number % 9), kind, nullable: form != 1 };
            if columns.iter().any(|c| c.name == column.name) {
                return format!("ALTER TABLE {name} ADD INDEX i{number} ({}), COMMENT = '{number}'", self.key[0]);
            }
            let rest = match form {
                0 => "NULL".to_owned(),
                1 => format!("NOT NULL DEFAULT {}", not_null(kind, random)),
                _ => format!("NULL DEFAULT {}", not_null(kind, random)),
            };
            let place = *random.pick(&["", " FIRST", " AFTER a"]);
            let place = if columns.iter().any(|c| c.name == "a") { place } else { "" };
            let statement = format!("ALTER TABLE {name} ADD COLUMN {} {} {rest}{place}", column.name, kind.declared());
            columns.push(column);
            return statement;
        }
        let at = usize::try_from(random.below(columns.len() as u64)).unwrap();
        match random.below(4) {
            0 => {
                let column = columns.remove(at);
                format!("ALTER TABLE {name} DROP COLUMN {}", column.name)
            }
            1 => {
                let old = std::mem::replace(&mut columns[at].name, format!("r{number}"));
                format!("ALTER TABLE {name} RENAME COLUMN {old} TO {}", columns[at].name)
            }
            2 => {
                let other = (at + 1) % columns.len();
                let (a, b) = (columns[at].clone(), columns[other].clone());
                if at == other {
                    return format!("TRUNCATE TABLE {name}");
                }
                columns[at].name.clone_from(&b.name);
                columns[other].name.clone_from(&a.name);
                format!("ALTER TABLE {name} RENAME COLUMN {} TO {}, RENAME COLUMN {} TO {}", a.name, b.name, b.name, a.name)
            }
            _ => {
                columns[at].kind = match columns[at].kind {
                    Kind::Int => Kind::BigInt,
                    Kind::Text(length) => Kind::Text(length + 7),
                    same @ (Kind::BigInt | Kind::Decimal | Kind::Moment) => same,
                };
                columns[at].nullable = true;
                format!("ALTER TABLE {name} MODIFY COLUMN {} {} NULL", columns[at].name, columns[at].kind.declared())
            }
        }
    }
}

impl Kind {
    fn declared(self) -> String {
        match self {
            Kind::Int => "INT".into(),
            Kind::BigInt => "BIGINT".into(),
            Kind::Text(length) => format!("VARCHAR({length})"),
            Kind::Decimal => "DECIMAL(12,3)".into(),
            Kind::Moment => "DATETIME(6)".into(),
        }
    }
}

fn not_null(kind: Kind, random: &mut Random) -> String {
    let n = random.below(1_000_000);
    match kind {
        Kind::Int => format!("-{n}"),
        Kind::BigInt => format!("{n}000000"),
        Kind::Text(_) => format!("'é{n} '"),
        Kind::Decimal => format!("{n}.{:03}", n % 1000),
        Kind::Moment => format!("'2024-02-29 12:34:{:02}.{n:06}'", n % 60),
    }
}

fn value(column: &Column, random: &mut Random) -> String {
    if column.nullable && random.one_in(8) { "NULL".into() } else { not_null(column.kind, random) }
}

/// Refusals that come from other sessions' work: a column that is gone, NULL where it is refused now, a lock that another has.
fn late(error: &str) -> bool {
    // Unknown column; NULL or a key that is there already; a value of the column's older type; deadlock; lock time-out; changed definition; column there or not there.
    [
        "(42S22)",
        "(23000)",
        "(40001)",
        "(22001)",
        "(22003)",
        "(22007)",
        "ERROR 1205",
        "ERROR 1265",
        "ERROR 1366",
        "ERROR 1412",
        "ERROR 1060",
        "ERROR 1091",
    ]
    .iter()
    .any(|code| error.contains(code))
}

struct Session {
    session: source::Session,
    tables: Arc<Vec<Table>>,
    random: Random,
    until: Instant,
}

impl Session {
    /// Transactions over one to three tables, some of them rolled back, and changes in between. Returns (rows' statements, changes).
    async fn work(mut self) -> (u64, u64) {
        let (mut writes, mut changes) = (0, 0);
        self.session.run("SET SESSION innodb_lock_wait_timeout = 1").await;
        while Instant::now() < self.until {
            let tables = self.tables.clone();
            if self.random.one_in(25) {
                let table = self.random.pick(&tables);
                changes += u64::from(table.alter(&mut self.session, &mut self.random).await);
                continue;
            }
            self.session.run("BEGIN").await;
            let mut fine = true;
            for _ in 0..=self.random.below(4) {
                let statement = self.random.pick(&tables).write(&mut self.random);
                if let Err(error) = self.session.try_run(statement.as_bytes()).await {
                    assert!(late(&error), "{statement}: {error}");
                    fine = false;
                    break;
                }
                writes += 1;
            }
            let end = if fine && !self.random.one_in(10) { "COMMIT" } else { "ROLLBACK" };
            self.session.run(end).await;
        }
        (writes, changes)
    }
}

/// Works for so long on three tables with kills in between, then compares.
pub async fn run(name: &str, seed: u64, options: Options<'_>, length: Duration) {
    let mut world = World::with(name, SETUP, &["x", "y", "z"], options).await;
    let mut random = Random::seeded(name, seed);
    world.start();
    let tables = Arc::new(vec![Table::new("x", &["id"]), Table::new("y", &["id"]), Table::new("z", &["p", "q"])]);
    let until = Instant::now() + length;
    let mut writers = Vec::new();
    for _ in 0..3 {
        let session =
            Session { session: world.session().await, tables: tables.clone(), random: Random::new(random.below(u64::MAX >> 12)), until };
        writers.push(tokio::spawn(session.work()));
    }
    for kill in 0..KILLS {
        let pause = length.as_millis() as u64 / (KILLS + 1);
        tokio::time::sleep(Duration::from_millis(pause / 2 + random.below(pause))).await;
        println!("{name}: kill {kill}");
        world.pipeline.kill();
        world.pipeline.start();
    }
    let (mut writes, mut changes) = (0, 0);
    for writer in writers {
        let (w, c) = writer.await.unwrap();
        (writes, changes) = (writes + w, changes + c);
    }
    println!("{name}: {writes} statements that write rows, {changes} that change a table");
    assert!(writes > 100 && changes > 10, "{writes} {changes}");
    world.pipeline.caught_up();
    world.assert_equal().await;
    for table in ["x", "y", "z"] {
        for entry in world.history(table) {
            let outcome = entry["outcomes"]["target"]["outcome"].as_str().unwrap_or_default();
            assert!(["applied", "nothing_to_apply", "reloaded"].contains(&outcome), "{entry}");
        }
    }
}

macro_rules! seeds {
    ($($name:ident: $seed:literal;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                run(concat!("model_", $seed), $seed, Options::default(), Duration::from_secs(7)).await;
            }
        )*
    };
}

seeds! {
    random_changes_and_rows_with_kills_end_equal_1: 1;
    random_changes_and_rows_with_kills_end_equal_2: 2;
    random_changes_and_rows_with_kills_end_equal_3: 3;
}
