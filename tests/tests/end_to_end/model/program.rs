//! Random programs: tables, and what sessions do to them, all made beforehand from a seed. A program can be run without some of its steps.

use std::fmt;

use tests::random::Random;

use super::column::{Dialect, Kind, NAMES};

const SESSIONS: usize = 3;

/// What one session does at one time.
#[derive(Debug, Clone)]
pub enum Action {
    /// One transaction.
    Rows {
        statements: Vec<String>,
        commit: bool,
    },
    /// A statement that changes one of the tables.
    Change {
        table: usize,
        statement: String,
        expected: Expected,
    },
    /// kill -9 of the pipeline, and its start.
    Kill,
    /// The pipeline ends in order, and is started at `Start`, or at the program's end.
    Stop,
    Start,
}

/// What the history has to say of a change. The tables may be otherwise than was thought, for the server refuses some statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Applied,
    Nothing,
    Either,
}

#[derive(Debug, Clone)]
pub struct Step {
    pub session: usize,
    pub action: Action,
}

#[derive(Debug, Clone)]
pub struct Program {
    pub setup: Vec<String>,
    pub tables: Vec<String>,
    /// What each session begins with.
    pub sessions: Vec<(Dialect, String)>,
    pub steps: Vec<Step>,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for statement in &self.setup {
            writeln!(f, "  {statement};")?;
        }
        for (number, (_, begin)) in self.sessions.iter().enumerate() {
            writeln!(f, "  session {number}: {begin};")?;
        }
        for step in &self.steps {
            let what = match &step.action {
                Action::Rows { statements, commit } => {
                    format!("BEGIN; {}; {}", statements.join("; "), if *commit { "COMMIT" } else { "ROLLBACK" })
                }
                Action::Change { statement, .. } => statement.clone(),
                Action::Kill => "(kill -9)".into(),
                Action::Stop => "(stop)".into(),
                Action::Start => "(start)".into(),
            };
            writeln!(f, "  {}: {what};", step.session)?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone)]
struct Column {
    name: String,
    kind: Kind,
    nullable: bool,
    /// An INSERT may leave it out.
    defaulted: bool,
}

/// A part of the key: its name, its type, and how values are made.
type Part = (&'static str, &'static str, fn(&mut Random) -> String);

/// Few values, so that keys are used again.
const KEYS: [&[Part]; 13] = [
    &[("id", "INT NOT NULL", |r| r.below(60).to_string())],
    &[("id", "BIGINT UNSIGNED NOT NULL", |r| (u64::MAX - r.below(60)).to_string())],
    &[("id", "VARCHAR(12) COLLATE utf8mb4_bin NOT NULL", |r| format!("'k{}'", r.below(60)))],
    &[("id", "VARCHAR(12) COLLATE utf8mb4_general_ci NOT NULL", |r| format!("'{}{}'", r.pick(&["k", "K", "é", "E"]), r.below(15)))],
    &[("id", "BINARY(4) NOT NULL", |r| format!("x'{:02x}00'", r.below(60)))],
    &[("id", "DATE NOT NULL", |r| format!("'2024-{:02}-{:02}'", 1 + r.below(6), 1 + r.below(9)))],
    &[("id", "DECIMAL(8,2) NOT NULL", |r| format!("-{}.{}5", r.below(6), r.below(10)))],
    &[("p", "INT NOT NULL", |r| r.below(12).to_string()), ("q", "SMALLINT NOT NULL", |r| format!("-{}", r.below(6)))],
    &[
        ("p", "VARCHAR(9) COLLATE utf8mb4_bin NOT NULL", |r| format!("'{}'", r.below(9))),
        ("q", "DATE NOT NULL", |r| format!("'2024-01-0{}'", 1 + r.below(8))),
    ],
    &[("id", "DATETIME(3) NOT NULL", |r| format!("'2024-01-01 00:00:{:02}.5'", r.below(60)))],
    &[("id", "CHAR(5) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL", |r| format!("'{}'", r.below(60)))],
    &[("id", "ENUM('one','two','three','four','five') NOT NULL", |r| r.pick(&["'one'", "'two'", "'three'", "'five'"]).to_string())],
    &[("id", "TIMESTAMP NOT NULL DEFAULT '2024-01-01 00:00:00'", |r| format!("'2024-01-01 00:01:{:02}'", r.below(60)))],
];

struct Table {
    name: &'static str,
    key: &'static [Part],
    /// Rows stand for themselves.
    keyless: bool,
    columns: Vec<Column>,
    changes: u64,
    indexes: u64,
}

/// A program of so many steps.
pub fn program(seed: u64, mariadb: bool, database: &str, length: usize) -> Program {
    let mut random = Random::new(seed);
    let plain = Dialect { mariadb, ansi: false, backslashes: false, latin1: false };
    let mut tables: Vec<Table> = ["x", "y", "Z table"].into_iter().map(|name| Table::new(name, plain, &mut random)).collect();
    let setup = tables.iter_mut().map(|table| table.create(plain, &mut random)).collect();
    let dialects = [
        (plain, "SET time_zone = '+00:00'"),
        (Dialect { ansi: true, ..plain }, "SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES'), time_zone = '+05:30'"),
        (
            Dialect { backslashes: true, latin1: true, ..plain },
            "SET NAMES latin1, sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES'), time_zone = '-08:00'",
        ),
    ];
    let mut steps = Vec::new();
    let mut down = false;
    while steps.len() < length {
        let session = usize::try_from(random.below(SESSIONS as u64)).unwrap();
        let dialect = dialects[session].0;
        let action = match random.below(60) {
            0 if !down => Action::Kill,
            1 if !down => {
                down = true;
                Action::Stop
            }
            2..6 if down => {
                down = false;
                Action::Start
            }
            6..22 => {
                let table = usize::try_from(random.below(tables.len() as u64)).unwrap();
                let (statement, expected) = tables[table].change(dialect, database, &mut random);
                Action::Change { table, statement, expected }
            }
            _ => Action::Rows {
                statements: (0..=random.below(4)).map(|_| random.pick(&tables).write(dialect, &mut random)).collect(),
                commit: !random.one_in(10),
            },
        };
        steps.push(Step { session, action });
    }
    let sessions = dialects.into_iter().map(|(dialect, begin)| (dialect, begin.to_owned())).collect();
    Program { setup, tables: tables.iter().map(|table| table.name.to_owned()).collect(), sessions, steps }
}

impl Table {
    fn new(name: &'static str, dialect: Dialect, random: &mut Random) -> Self {
        let mut table = Table { name, key: *random.pick(&KEYS), keyless: random.one_in(10), columns: Vec::new(), changes: 0, indexes: 0 };
        for _ in 0..random.below(7) {
            if let Some(column) = table.new_column(dialect, random) {
                table.columns.push(column);
            }
        }
        table
    }

    fn new_column(&self, dialect: Dialect, random: &mut Random) -> Option<Column> {
        let name = (*random.pick(&NAMES)).to_owned();
        let free = self.columns.iter().all(|c| c.name != name);
        let kind = Kind::any(dialect, random);
        let nullable = kind.nullable_only() || !random.one_in(3);
        free.then_some(Column { name, kind, nullable, defaulted: false })
    }

    fn create(&mut self, dialect: Dialect, random: &mut Random) -> String {
        let mut parts: Vec<String> = Vec::new();
        for column in &self.columns {
            let null = if column.nullable { "NULL" } else { "NOT NULL" };
            parts.push(format!("{} {} {null}", dialect.name(&column.name, random), column.kind.declared(dialect)));
        }
        for column in &mut self.columns {
            column.defaulted = column.nullable;
        }
        for (name, declared, _) in self.key {
            let at = usize::try_from(random.below(parts.len() as u64 + 1)).unwrap();
            parts.insert(at, format!("{name} {declared}"));
        }
        // Also in another order than the columns'.
        let mut key: Vec<&str> = self.key.iter().map(|(name, ..)| *name).collect();
        if random.one_in(2) {
            key.reverse();
        }
        if !self.keyless {
            let kind = if random.one_in(5) { "UNIQUE KEY u" } else { "PRIMARY KEY" };
            parts.push(format!("{kind} ({})", key.join(", ")));
        }
        format!("CREATE TABLE `{}` ({})", self.name, parts.join(", "))
    }

    /// A statement that writes rows.
    fn write(&self, dialect: Dialect, random: &mut Random) -> String {
        let name = dialect.name(self.name, random);
        let set =
            |column: &Column, random: &mut Random| format!("{} = {}", dialect.name(&column.name, random), value(column, dialect, random));
        match random.below(12) {
            0..6 => self.insert(&name, dialect, random),
            6..9 if !self.columns.is_empty() => {
                let columns: Vec<String> = (0..=random.below(3)).map(|_| set(random.pick(&self.columns), random)).collect();
                let rows = if random.one_in(6) { "1 = 1 LIMIT 20".to_owned() } else { self.is_row(random) };
                format!("UPDATE {name} SET {} WHERE {rows}", columns.join(", "))
            }
            9 => format!("UPDATE {name} SET {} WHERE {}", self.is_row(random).replace(" AND ", ", "), self.is_row(random)),
            10 if random.one_in(5) => format!("DELETE FROM {name}"),
            _ => format!("DELETE FROM {name} WHERE {}", self.is_row(random)),
        }
    }

    fn insert(&self, name: &str, dialect: Dialect, random: &mut Random) -> String {
        let named: Vec<&Column> = self.columns.iter().filter(|column| !column.defaulted || !random.one_in(4)).collect();
        let keys = self.key.iter().map(|(name, ..)| (*name).to_owned());
        let names: Vec<String> = keys.chain(named.iter().map(|c| dialect.name(&c.name, random)).collect::<Vec<_>>()).collect();
        let rows: Vec<String> = (0..=random.below(6))
            .map(|_| {
                let key: Vec<String> = self.key.iter().map(|(.., value)| value(random)).collect();
                let values: Vec<String> =
                    key.into_iter().chain(named.iter().map(|c| value(c, dialect, random)).collect::<Vec<_>>()).collect();
                format!("({})", values.join(", "))
            })
            .collect();
        let rows = format!("INTO {name} ({}) VALUES {}", names.join(", "), rows.join(", "));
        let last = &names[names.len() - 1];
        match random.below(2) {
            0 => format!("REPLACE {rows}"),
            _ => format!("INSERT {rows} ON DUPLICATE KEY UPDATE {last} = VALUES({last})"),
        }
    }

    fn is_row(&self, random: &mut Random) -> String {
        self.key.iter().map(|(name, _, value)| format!("{name} = {}", value(random))).collect::<Vec<_>>().join(" AND ")
    }

    /// A statement that changes the table's shape, or empties it.
    fn change(&mut self, dialect: Dialect, database: &str, random: &mut Random) -> (String, Expected) {
        self.changes += 1;
        let name = match random.below(4) {
            0 => format!("`{database}`.{}", dialect.name(self.name, random)),
            1 => format!("{}/* {} */", dialect.name(self.name, random), self.changes),
            _ => dialect.name(self.name, random),
        };
        match random.below(24) {
            0 | 1 => return (format!("TRUNCATE{} {name}", random.pick(&["", " TABLE"])), Expected::Applied),
            2 => {
                self.indexes += 1;
                let unique = if self.keyless { "" } else { *random.pick(&["", "UNIQUE "]) };
                let columns: Vec<&str> = self.key.iter().map(|(name, ..)| *name).collect();
                return (format!("CREATE {unique}INDEX i{} ON {name} ({})", self.indexes, columns.join(", ")), Expected::Either);
            }
            3 => {
                return (
                    format!("ALTER TABLE {name} {}", random.pick(&["FORCE", "ENGINE=InnoDB", "COMMENT = 'of ; it'"])),
                    Expected::Nothing,
                );
            }
            _ => {}
        }
        // Clauses about different columns, so that their order means nothing.
        let mut clauses = Vec::new();
        let mut touched: Vec<String> = Vec::new();
        let mut expected = Expected::Nothing;
        for _ in 0..=random.below(3) {
            let mut columns = self.columns.clone();
            if let Some((clause, of_it)) = clause(&mut columns, &mut touched, dialect, random) {
                self.columns = columns;
                clauses.push(clause);
                expected = match (expected, of_it) {
                    (Expected::Applied, _) | (_, Expected::Applied) => Expected::Applied,
                    (Expected::Nothing, Expected::Nothing) => Expected::Nothing,
                    _ => Expected::Either,
                };
            }
        }
        if clauses.is_empty() {
            return (format!("TRUNCATE TABLE {name}"), Expected::Applied);
        }
        if random.one_in(6) {
            clauses.push("ALGORITHM=COPY".into());
        }
        let mut clauses = clauses.join(*random.pick(&[", ", " ,\n  ", ",/* , */ "]));
        if random.one_in(8) {
            clauses = format!("/*!50000 {clauses} */");
        }
        (format!("ALTER TABLE {name} {clauses}{}", random.pick(&["", "", " -- it", " # it"])), expected)
    }
}

/// One clause about columns that no other clause of the statement touches.
fn clause(columns: &mut Vec<Column>, touched: &mut Vec<String>, dialect: Dialect, random: &mut Random) -> Option<(String, Expected)> {
    let place = place(columns, touched, dialect, random);
    let free = |columns: &[Column], touched: &[String], random: &mut Random| -> Option<String> {
        let name = (*random.pick(&NAMES)).to_owned();
        (!touched.contains(&name) && columns.iter().all(|c| c.name != name)).then_some(name)
    };
    if columns.len() < 3 || (columns.len() < 14 && random.one_in(3)) {
        let name = free(columns, touched, random)?;
        let column = Column { name, kind: Kind::any(dialect, random), nullable: true, defaulted: true };
        return Some(add(column, columns, touched, &place, dialect, random));
    }
    let at = usize::try_from(random.below(columns.len() as u64)).unwrap();
    if touched.contains(&columns[at].name) {
        return None;
    }
    let old = columns[at].clone();
    let quoted = dialect.name(&old.name, random);
    let word = *random.pick(&["", "COLUMN "]);
    touched.push(old.name.clone());
    let null = |column: &Column| if column.nullable { "NULL" } else { "NOT NULL" };
    match random.below(9) {
        0 => {
            columns.remove(at);
            Some((format!("DROP {word}{quoted}"), Expected::Applied))
        }
        1 => {
            let to = free(columns, touched, random)?;
            touched.push(to.clone());
            let new = dialect.name(&to, random);
            columns[at].name = to;
            if random.one_in(2) {
                return Some((format!("RENAME COLUMN {quoted} TO {new}"), Expected::Applied));
            }
            columns[at].defaulted = old.nullable;
            Some((format!("CHANGE {word}{quoted} {new} {} {}{place}", old.kind.declared(dialect), null(&old)), Expected::Applied))
        }
        2 => {
            let other = (at + 1) % columns.len();
            if touched.contains(&columns[other].name) || at == other {
                return None;
            }
            let with = columns[other].name.clone();
            touched.push(with.clone());
            let (a, b) = (dialect.name(&old.name, random), dialect.name(&with, random));
            columns[at].name.clone_from(&with);
            columns[other].name.clone_from(&old.name);
            Some((format!("RENAME COLUMN {a} TO {b}, RENAME COLUMN {b} TO {a}"), Expected::Applied))
        }
        3 => {
            // The name stays, the column is another one.
            columns.remove(at);
            let column = Column { name: old.name.clone(), kind: Kind::any(dialect, random), nullable: true, defaulted: true };
            let (clause, _) = add(column, columns, touched, "", dialect, random);
            Some((format!("DROP COLUMN {quoted}, {clause}"), Expected::Applied))
        }
        4 => {
            let Some(default) = old.kind.default(dialect, random).filter(|_| !random.one_in(3)) else {
                columns[at].defaulted = false;
                return Some((format!("ALTER {word}{quoted} DROP DEFAULT"), Expected::Nothing));
            };
            columns[at].defaulted = true;
            Some((format!("ALTER {word}{quoted} SET DEFAULT {default}"), Expected::Nothing))
        }
        5 if !old.kind.nullable_only() => {
            columns[at].nullable = !old.nullable;
            columns[at].defaulted = columns[at].nullable;
            Some((format!("MODIFY {word}{quoted} {} {}{place}", old.kind.declared(dialect), null(&columns[at])), Expected::Either))
        }
        6 => {
            columns[at].defaulted = old.nullable;
            let comment = random.pick(&["", " COMMENT 'it''s ; ('"]);
            Some((format!("MODIFY {word}{quoted} {} {}{comment}{place}", old.kind.declared(dialect), null(&old)), Expected::Either))
        }
        _ => {
            columns[at].kind = old.kind.larger(random)?;
            columns[at].defaulted = old.nullable;
            Some((format!("MODIFY {word}{quoted} {} {}{place}", columns[at].kind.declared(dialect), null(&old)), Expected::Either))
        }
    }
}

/// Where a column goes: behind one that no clause touches.
fn place(columns: &[Column], touched: &[String], dialect: Dialect, random: &mut Random) -> String {
    let still: Vec<&Column> = columns.iter().filter(|c| !touched.contains(&c.name)).collect();
    match random.below(4) {
        0 => " FIRST".into(),
        1 if !still.is_empty() => {
            // It may be the clause's own column; then the server refuses the statement.
            format!(" AFTER {}", dialect.name(&random.pick(&still).name, random))
        }
        _ => String::new(),
    }
}

fn add(
    mut column: Column,
    columns: &mut Vec<Column>,
    touched: &mut Vec<String>,
    place: &str,
    dialect: Dialect,
    random: &mut Random,
) -> (String, Expected) {
    let default = column.kind.default(dialect, random);
    let rest = match (random.below(4), default) {
        (0, Some(default)) if !column.kind.nullable_only() => {
            column.nullable = false;
            format!("NOT NULL DEFAULT {default}")
        }
        (1, Some(default)) => format!("{}DEFAULT {default}", random.pick(&["NULL ", ""])),
        (2, _) if column.kind.has_implicit() => {
            column.nullable = false;
            column.defaulted = false;
            "NOT NULL".into()
        }
        _ => "NULL".into(),
    };
    let word = random.pick(&["", "COLUMN "]);
    let name = dialect.name(&column.name, random);
    let clause = if place.is_empty() && random.one_in(6) {
        format!("ADD {word}({name} {} {rest})", column.kind.declared(dialect))
    } else {
        format!("ADD {word}{name} {} {rest}{place}", column.kind.declared(dialect))
    };
    touched.push(column.name.clone());
    columns.push(column);
    (clause, Expected::Applied)
}

fn value(column: &Column, dialect: Dialect, random: &mut Random) -> String {
    if column.nullable && random.one_in(8) { "NULL".into() } else { column.kind.value(dialect, random) }
}
