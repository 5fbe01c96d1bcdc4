//! Statements of MySQL and MariaDB: the parser, and what they do to known shapes.
//!
//! The input is two bytes of settings and statements with `\n;\n` between them.
#![no_main]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
};

use fuzz::memory;
use libfuzzer_sys::fuzz_target;
use schemas::{
    change::SchemaChange,
    ddl::mysql::{Context, Effect, Parsed, Zone, apply, mode, parse, table_from_create},
    diff,
    native::Native,
    table::{Table, TableId},
};

/// A shape takes some hundred bytes for each column, and a column two bytes of text.
const PER_BYTE: usize = 4096;

const KNOWN: [&str; 5] = [
    "CREATE TABLE orders (id int NOT NULL, a int, b varchar(20), c int, d int, region int NOT NULL, status varchar(20), total int, `old name` int, PRIMARY KEY (id), KEY idx_a (a), UNIQUE KEY idx_b (b))",
    "CREATE TABLE t (id int PRIMARY KEY, v varchar(9) NOT NULL UNIQUE, ts timestamp NULL, e enum('a','b'), s set('x','y'), n decimal(10,2) DEFAULT 1.5)",
    "CREATE TABLE a (id int)",
    "CREATE TABLE b.c (id int, x text)",
    "CREATE TABLE `we``ird`.`ta``ble` (id int)",
];

fuzz_target!(|input: &[u8]| {
    let [server, session, text @ ..] = input else { return };
    let context = context(*server, *session);
    static TABLES: OnceLock<BTreeMap<TableId, Table>> = OnceLock::new();
    let mut known = TABLES.get_or_init(tables).clone();
    for statement in split(text) {
        let parsed = memory::bounded(statement, PER_BYTE, || parse(statement, &context));
        assert_eq!(parse(statement, &context), parsed);
        let Parsed::Tables(parsed) = parsed else { continue };
        let Ok(effects) = memory::bounded(input, PER_BYTE, || apply(&parsed, &context, &known)) else { continue };
        assert_eq!(apply(&parsed, &context, &known).as_ref(), Ok(&effects));
        for effect in effects {
            check(&effect, known.get(&effect.id));
            known.remove(&effect.id);
            if let Some(shape) = effect.shape {
                let id = effect.renamed_to.unwrap_or(effect.id);
                known.insert(id.clone(), Table { id, ..shape });
            }
        }
    }
});

fn tables() -> BTreeMap<TableId, Table> {
    let plain = Context { default_database: "shop".into(), ..Context::new(true, 101_119) };
    let table = |text: &str| table_from_create(format!("{text} CHARSET=utf8mb4").as_bytes(), &plain);
    KNOWN.map(|text| table(text).unwrap_or_else(|refusal| panic!("{refusal}"))).map(|table| (table.id.clone(), table)).into()
}

fn split(mut text: &[u8]) -> Vec<&[u8]> {
    const END: &[u8] = b"\n;\n";
    let mut statements = Vec::new();
    while let Some(at) = text.windows(END.len()).position(|window| window == END) {
        statements.push(&text[..at]);
        text = &text[at + END.len()..];
    }
    statements.push(text);
    statements
}

fn context(server: u8, session: u8) -> Context {
    let versions = [(false, 80_035), (true, 101_119), (false, 50_744), (true, 110_400), (false, 90_704), (true, 100_300)];
    let (mariadb, version) = versions[usize::from(server) % versions.len()];
    let mut context = Context::new(mariadb, version);
    context.default_database = "shop".into();
    let charsets = ["utf8mb4", "latin1", "sjis", "gbk", "utf8mb3", "binary", "koi8r", "ascii"];
    context.charset = charsets[usize::from(session >> 5)].into();
    let bits = [mode::ANSI_QUOTES, mode::NO_BACKSLASH_ESCAPES, mode::STRICT_TRANS_TABLES, mode::ORACLE];
    context.sql_mode = bits.iter().enumerate().map(|(i, bit)| if session & (1 << i) == 0 { 0 } else { *bit }).sum();
    context.explicit_defaults_for_timestamp = session & 16 == 0;
    context.time_zone = if server & 64 == 0 { Zone::Fixed(3600) } else { Zone::Unknown };
    context.lower_case_table_names = server >> 7;
    context.database_collations.insert("shop".into(), "utf8mb4_general_ci".into());
    context
}

/// What every reader of a shape rests on, whatever the statement was.
fn check(effect: &Effect, before: Option<&Table>) {
    let changes = serde_json::to_string(&effect.changes).unwrap_or_else(|error| panic!("{error}"));
    let again: Vec<SchemaChange> = serde_json::from_str(&changes).unwrap_or_else(|error| panic!("{error}: {changes}"));
    assert_eq!(again, effect.changes);
    let printed: Vec<String> = effect.changes.iter().map(|change| format!("{}: {change}", change.kind())).collect();
    let Some(shape) = &effect.shape else { return };
    let names: BTreeSet<String> = shape.columns.iter().map(|column| column.name.to_lowercase()).collect();
    assert_eq!(names.len(), shape.columns.len(), "a name stands twice in {shape:?}");
    let ids: BTreeSet<u32> = shape.columns.iter().map(|column| column.id.0).collect();
    assert_eq!(ids.len(), shape.columns.len(), "an identity stands twice in {shape:?}");
    assert!(ids.iter().all(|id| *id < shape.next_column), "{shape:?}");
    assert!(!shape.columns.is_empty(), "{printed:?}");
    let keys = shape.primary.iter().map(|key| &key.columns).chain(shape.unique.iter().map(|index| &index.columns));
    for id in keys.chain(shape.indexes.iter().map(|index| &index.columns)).flatten() {
        assert!(shape.by_id(*id).is_some(), "an index over a column that is not there: {shape:?}");
    }
    if let Some(key) = &shape.primary {
        let whole = |id| shape.by_id(id).is_some_and(|column| !column.nullable);
        assert!(!key.columns.is_empty() && key.columns.iter().all(|id| whole(*id)), "a primary key that may be NULL: {shape:?}");
    }
    let text = serde_json::to_string(shape).unwrap_or_else(|error| panic!("{error}"));
    let again: Table = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(again, *shape);
    if let Some(before) = before.filter(|_| !effect.temporary && effect.renamed_to.is_none()) {
        // Column by column: what differs between both shapes is what the changes say.
        let kept =
            |table: &Table| table.columns.iter().map(|column| (column.id, column.native.clone(), column.nullable)).collect::<Vec<_>>();
        assert!(!effect.changes.is_empty() || kept(before) == kept(shape), "{before:?} becomes {shape:?} without a change");
        let _ = diff::diff(before, shape);
    }
    declarations(shape);
}

/// A declaration as it is printed is read as itself.
fn declarations(shape: &Table) {
    let context = Context { default_database: "shop".into(), ..Context::new(true, 110_400) };
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    for column in &shape.columns {
        let Native::MySql(_) = &column.native else { panic!("{:?} is not of this engine", column.native) };
        let printed = column.native.to_string();
        // What MySQL alone has, or MariaDB reads otherwise.
        if printed == "json" || printed.starts_with("vector") || column.name.is_empty() {
            continue;
        }
        let text = format!("CREATE TABLE x ({} {printed}) CHARSET=utf8mb4", quoted(&column.name));
        let read = table_from_create(text.as_bytes(), &context).unwrap_or_else(|refusal| panic!("{refusal}: {text}"));
        assert_eq!((&read.columns[0].name, read.columns[0].native.to_string()), (&column.name, printed), "{text}");
    }
}
