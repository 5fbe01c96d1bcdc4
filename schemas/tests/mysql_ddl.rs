//! MySQL and MariaDB statements with what they mean, from a data file; and properties of the parser.
//!
//! The file's lines: `context:` sets the server and its settings, `known:` a table that is there before each statement of the
//! section, `statement:` the text (`\n`, `\0` stand for those bytes), and indented what it means. A blank line and `#` end nothing.
//! `BLESS=1 cargo test -p schemas --test mysql_ddl` writes the meanings anew; they are then read by a person.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeMap, fmt::Write as _};

use proptest::prelude::*;
use schemas::{
    ddl::mysql::{Context, Parsed, Statement, Zone, apply, mode, parse, table_from_create},
    table::{Table, TableId},
};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mysql-ddl.txt");

fn context(line: &str) -> Context {
    let mut words = line.split_whitespace();
    let mariadb = words.next() == Some("mariadb");
    let mut context = Context::new(mariadb, words.next().unwrap().parse().unwrap());
    context.default_database = "shop".into();
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("ansi_quotes", _) => context.sql_mode |= mode::ANSI_QUOTES,
            ("no_backslash_escapes", _) => context.sql_mode |= mode::NO_BACKSLASH_ESCAPES,
            ("lax", _) => context.sql_mode = 0,
            ("implicit_timestamps", _) => context.explicit_defaults_for_timestamp = false,
            ("charset", name) => context.charset = name.into(),
            ("database", name) => context.default_database = name.into(),
            ("offset", "system") => context.time_zone = Zone::Unknown,
            ("offset", seconds) => context.time_zone = Zone::Fixed(seconds.parse().unwrap()),
            (other, _) => panic!("{other} is no setting of a context"),
        }
    }
    context
}

fn ids(tables: &[TableId]) -> String {
    tables.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn names(table: &Table) -> String {
    table.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>().join(" ")
}

/// What a statement means, a line for each fact.
fn meaning(text: &[u8], context: &Context, known: &BTreeMap<TableId, Table>) -> String {
    let mut out = String::new();
    let statement = match parse(text, context) {
        Parsed::Nothing => return "  nothing\n".into(),
        Parsed::Transaction(control) => return format!("  transaction {control:?}\n"),
        Parsed::RowChange { tables } => return format!("  rows of {}\n", ids(&tables)),
        Parsed::Unknown { tables, why } => return format!("  unknown [{}]: {why}\n", ids(&tables)),
        Parsed::Tables(statement) => statement,
    };
    if let Statement::Database { name, .. } = &statement {
        return format!("  database {name} {:?}\n", schemas::ddl::mysql::database_default(&statement, context).unwrap());
    }
    match apply(&statement, context, known) {
        Err(refusal) => writeln!(out, "  refused [{}]: {}", ids(&refusal.tables), refusal.why).unwrap(),
        Ok(effects) if effects.is_empty() => out.push_str("  no effect\n"),
        Ok(effects) => {
            for effect in effects {
                let temporary = if effect.temporary { " (temporary)" } else { "" };
                writeln!(out, "  {}{temporary}", effect.id).unwrap();
                for change in &effect.changes {
                    writeln!(out, "    {}: {change}", change.kind()).unwrap();
                }
                let before = known.get(&effect.id).map(names);
                let after = effect.shape.as_ref().map(names);
                if let Some(after) = after.filter(|after| before.as_ref() != Some(after)) {
                    writeln!(out, "    columns {after}").unwrap();
                }
            }
        }
    }
    out
}

#[test]
fn every_statement_of_the_file_means_what_stands_there() {
    let file = std::fs::read_to_string(FILE).unwrap();
    let mut now = Context::new(true, 101_119);
    let mut known = BTreeMap::new();
    let mut written = String::new();
    let mut statements = 0;
    for line in file.lines() {
        if line.starts_with("  ") {
            continue;
        }
        writeln!(written, "{line}").unwrap();
        if let Some(rest) = line.strip_prefix("context: ") {
            now = context(rest);
            known.clear();
        } else if let Some(rest) = line.strip_prefix("known: ") {
            let table = table_from_create(rest.as_bytes(), &now).unwrap();
            known.insert(table.id.clone(), table);
        } else if let Some(rest) = line.strip_prefix("statement: ") {
            statements += 1;
            let text = rest.replace("\\0", "\0").replace("\\n", "\n");
            written.push_str(&meaning(text.as_bytes(), &now, &known));
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "{line} is no line of this file");
        }
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(FILE, &written).unwrap();
        return;
    }
    assert!(statements > 150, "the file has lost statements: {statements}");
    for (number, (expected, found)) in file.lines().zip(written.lines()).enumerate() {
        assert_eq!(found, expected, "line {} of {FILE}", number + 1);
    }
    assert_eq!(written.lines().count(), file.lines().count());
}

/// The text that SHOW CREATE TABLE could give for a shape.
fn printed(table: &Table) -> String {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let mut lines: Vec<String> = table
        .columns
        .iter()
        .map(|column| {
            let null = if column.nullable { "NULL" } else { "NOT NULL" };
            format!("{} {} {null}", quoted(&column.name), column.native)
        })
        .collect();
    if let Some(key) = &table.primary {
        let names: Vec<String> = key.columns.iter().map(|id| quoted(&table.by_id(*id).unwrap().name)).collect();
        lines.push(format!("PRIMARY KEY ({})", names.join(", ")));
    }
    format!("CREATE TABLE {}.{} ({}) DEFAULT CHARSET=utf8mb4", quoted(&table.id.namespace), quoted(&table.id.name), lines.join(", "))
}

fn declaration() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "int",
            "INTEGER UNSIGNED",
            "bigint(20)",
            "tinyint(1)",
            "smallint(3) zerofill",
            "bool",
            "serial",
            "float",
            "float(30)",
            "double(9,3)",
            "real",
            "date",
            "year(4)",
            "text",
            "TEXT(100)",
            "longblob",
            "long varchar",
            "bit",
            "national char(3)",
            "nvarchar(8)",
            "point",
            "mediumtext binary",
            "enum('a','b,c','d''e',')')",
            "set('x','y')",
            "char",
            "binary(16)",
            "varbinary(70)",
        ])
        .prop_map(str::to_owned),
        (1_u32..16_000).prop_map(|length| format!("varchar({length})")),
        (1_u32..=65).prop_map(|digits| format!("decimal({digits},{})", digits.min(38) / 2)),
        (0_u32..=6).prop_map(|precision| format!("datetime({precision})")),
        (0_u32..=6).prop_map(|precision| format!("time({precision})")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_the_parser_fail_otherwise_than_by_saying_so(bytes in proptest::collection::vec(any::<u8>(), 0..200), ansi in any::<bool>(), sjis in any::<bool>()) {
        let mut context = Context::new(true, 101_119);
        context.default_database = "shop".into();
        context.sql_mode = if ansi { mode::ANSI_QUOTES } else { 0 };
        context.charset = if sjis { "sjis".into() } else { "utf8mb4".into() };
        if let Parsed::Tables(statement) = parse(&bytes, &context) {
            let _either = apply(&statement, &context, &BTreeMap::new());
        }
    }

    #[test]
    fn no_mixture_of_words_makes_it_fail(words in proptest::collection::vec(prop::sample::select(vec![
        "alter", "table", "create", "add", "column", "(", ")", ",", "a", "`b`", "int", "varchar(3)", "default", "'x'", "1.5e3", "-", "drop", "primary", "key", "modify",
        "change", "first", "after", "unique", "references", "constraint", "check", "/*!50000", "*/", "rename", "to", "=", "engine", "partition", "by", "enum('a')", "x'4", "0x1",
        "null", "not", "as", ".", ";", "set", "statement", "for", "decimal(99,99)", "bit(0)", "_utf8", "b'1'", "time", "year", "like", "select", "convert", "99999999999",
    ]), 0..40)) {
        let mut context = Context::new(false, 80_035);
        context.default_database = "shop".into();
        let mut known = BTreeMap::new();
        let table = table_from_create(b"create table a (a int primary key, b varchar(3) not null unique, c timestamp null)", &context).unwrap();
        known.insert(table.id.clone(), table);
        for start in ["", "alter table a "] {
            if let Parsed::Tables(statement) = parse(format!("{start}{}", words.join(" ")).as_bytes(), &context) {
                let _either = apply(&statement, &context, &known);
            }
        }
    }

    #[test]
    fn a_shape_printed_and_read_again_is_the_same(columns in proptest::collection::vec((declaration(), any::<bool>(), "[a-zA-Z`é ._-]{0,6}"), 1..9), mariadb in any::<bool>()) {
        let mut context = Context::new(mariadb, if mariadb { 101_119 } else { 80_035 });
        context.default_database = "shop".into();
        let list: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(at, (declared, not_null, name))| format!("`c{at}{}` {declared}{}", name.replace('`', "``"), if *not_null { " not null" } else { "" }))
            .collect();
        let text = format!("create table t ({}) charset=utf8mb4", list.join(", "));
        let table = table_from_create(text.as_bytes(), &context).unwrap();
        let mut plain = table.clone();
        // What the print leaves out is not compared.
        plain.unique.clear();
        for column in &mut plain.columns {
            column.identity = false;
        }
        let again = table_from_create(printed(&table).as_bytes(), &context).unwrap();
        let charsets_apart = |table: &Table| -> Vec<String> { table.columns.iter().map(|c| format!("{} {} {}", c.name, c.native, c.nullable)).collect() };
        prop_assert_eq!(charsets_apart(&again), charsets_apart(&plain));
        prop_assert_eq!(again.primary, plain.primary);
    }

    #[test]
    fn clauses_are_split_where_they_end_whatever_stands_in_their_strings(texts in proptest::collection::vec("[a-z,;()`#/*-]{0,8}", 1..6)) {
        let mut context = Context::new(true, 101_119);
        context.default_database = "shop".into();
        let table = table_from_create(b"create table t (id int primary key)", &context).unwrap();
        let known = BTreeMap::from([(table.id.clone(), table)]);
        let clauses: Vec<String> = texts.iter().enumerate().map(|(at, text)| format!("ADD c{at} varchar(20) NOT NULL DEFAULT '{text}'")).collect();
        let Parsed::Tables(statement) = parse(format!("ALTER TABLE t {}", clauses.join(", ")).as_bytes(), &context) else { panic!("not read") };
        let effects = apply(&statement, &context, &known).unwrap();
        prop_assert_eq!(effects[0].changes.len(), texts.len());
        for (change, text) in effects[0].changes.iter().zip(&texts) {
            let wanted = format!("is added with default '{text}'");
            let found = change.to_string();
            prop_assert!(found.ends_with(&wanted), "{} has not {}", found, wanted);
        }
    }
}
