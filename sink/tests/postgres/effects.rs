//! What batches do to tables: folded effects, compare-and-set, and tables that are no ordinary ones.

use std::sync::Arc;

use schemas::{
    native::{Native, mysql::Native as My, postgres::Native as Pg},
    wire::codec::{put_bytes, put_double, put_int, put_null, put_some},
};
use sink::{
    consumer::Proof,
    error::SinkError,
    postgres::PostgresTarget,
    target::{Batch, Effect, TableBatch, TableVersion, Target, Writer, Written},
};

use crate::support::{Database, connect, create, database, int, lane, message, step, text, upsert, version, write, write_as};

fn key(id: i32) -> Vec<u8> {
    let mut out = Vec::new();
    put_int(&mut out, id);
    out
}

/// `id int, name text, note text`.
fn people() -> Arc<TableVersion> {
    version("people", &[("id", int(), Pg::Integer, false), ("name", text(), Pg::Text, true), ("note", text(), Pg::Text, true)], &["id"])
}

fn person(id: i32, name: &str, note: Option<&str>) -> Vec<u8> {
    let mut out = key(id);
    put_some(&mut out);
    put_bytes(&mut out, name.as_bytes());
    match note {
        None => put_null(&mut out),
        Some(note) => {
            put_some(&mut out);
            put_bytes(&mut out, note.as_bytes());
        }
    }
    out
}

async fn with_people() -> Option<(Database, Arc<TableVersion>)> {
    let database = database().await?;
    let version = people();
    create(&database, &version).await;
    Some((database, version))
}

const PEOPLE: &str = "SELECT id, name, note FROM shop.people ORDER BY id";

#[tokio::test]
async fn a_connection_keeps_so_many_tables_ready_and_no_more() {
    let Some(database) = database().await else { return };
    let mut writer = database.target.writer().await.unwrap();
    let tables: Vec<_> = (0..300).map(|n| version(&format!("t{n}"), &[("id", int(), Pg::Integer, false)], &["id"])).collect();
    let all: Vec<String> = (0..300).map(|n| format!("CREATE TABLE shop.t{n} (id int PRIMARY KEY)")).collect();
    database.sql(&format!("CREATE SCHEMA IF NOT EXISTS shop; {}", all.join(";"))).await;
    for (n, table) in tables.iter().enumerate() {
        let row = key(n as i32);
        write(&mut writer, table, 0, vec![upsert(&row, &row)]).await.unwrap();
        assert_eq!(writer.ready(), (n + 1).min(256));
    }
    // One that was forgotten is looked at again.
    let row = key(7);
    write(&mut writer, &tables[0], 1, vec![upsert(&row, &row)]).await.unwrap();
    assert_eq!(writer.ready(), 256);
    let union: Vec<String> = (0..300).map(|n| format!("SELECT id FROM shop.t{n}")).collect();
    let sum = format!("SELECT count(*), sum(id) FROM ({}) all_rows", union.join(" UNION ALL "));
    assert_eq!(database.rows(&sum).await, [format!("301|{}", 299 * 300 / 2 + 7)]);
}

#[tokio::test]
async fn rows_are_inserted_overwritten_and_deleted() {
    let Some((database, version)) = with_people().await else { return };
    let mut writer = database.target.writer().await.unwrap();
    let (a, b, c) = (person(1, "ann", None), person(2, "bob", Some("x")), person(2, "bert", None));
    let (one, two) = (key(1), key(2));
    write(&mut writer, &version, 0, vec![upsert(&one, &a), upsert(&two, &b)]).await.unwrap();
    assert_eq!(database.rows(PEOPLE).await, ["1|ann|NULL", "2|bob|x"]);
    write(&mut writer, &version, 1, vec![Effect::Delete { key: &one }, upsert(&two, &c)]).await.unwrap();
    assert_eq!(database.rows(PEOPLE).await, ["2|bert|NULL"]);
    assert_eq!(database.rows("SELECT namespace, name, lane, position, seq, epoch FROM instar.lanes").await, ["shop|people|0|2|2|1"]);
}

#[tokio::test]
async fn many_rows_go_through_a_stage_with_the_same_effect() {
    let Some((database, version)) = with_people().await else { return };
    let mut writer = database.target.writer().await.unwrap();
    let keys: Vec<_> = (0..3_000).map(key).collect();
    let first: Vec<_> = (0..3_000).map(|i| person(i, "first", Some("n"))).collect();
    let second: Vec<_> = (0..3_000).map(|i| person(i, "second", None)).collect();
    write(&mut writer, &version, 0, (0..2_000).map(|i| upsert(&keys[i], &first[i])).collect()).await.unwrap();
    assert_eq!(database.one("SELECT count(*), min(name), max(name) FROM shop.people").await, "2000|first|first");
    let effects = (0..1_000).map(|i| Effect::Delete { key: &keys[i] }).chain((1_000..3_000).map(|i| upsert(&keys[i], &second[i])));
    write(&mut writer, &version, 1, effects.collect()).await.unwrap();
    assert_eq!(database.one("SELECT count(*), min(id), max(id), min(name), count(note) FROM shop.people").await, "2000|1000|2999|second|0");
    // The stages are empty again: nothing comes back.
    write(&mut writer, &version, 2, (0..300).map(|i| Effect::Delete { key: &keys[i + 1_000] }).collect()).await.unwrap();
    assert_eq!(database.one("SELECT count(*) FROM shop.people").await, "1700");
}

#[tokio::test]
async fn a_fresh_copy_goes_straight_into_the_table() {
    let Some((database, version)) = with_people().await else { return };
    let mut writer = database.target.writer().await.unwrap();
    let rows: Vec<_> = (0..1_000).map(|i| (key(i), person(i, "p", None))).collect();
    write_as(&mut writer, &version, 0, rows.iter().map(|(k, r)| upsert(k, r)).collect(), true).await.unwrap();
    assert_eq!(database.one("SELECT count(*), sum(id) FROM shop.people").await, "1000|499500");
}

#[tokio::test]
async fn only_one_of_two_owners_of_a_lane_applies() {
    let Some((database, version)) = with_people().await else { return };
    let mut one = database.target.writer().await.unwrap();
    let mut two = database.target.writer().await.unwrap();
    let (k, a, b) = (key(1), person(1, "one", None), person(1, "two", None));
    let (first, second) =
        tokio::join!(write(&mut one, &version, 0, vec![upsert(&k, &a)]), write(&mut two, &version, 0, vec![upsert(&k, &b)]));
    let mut outcomes = [first.unwrap(), second.unwrap()];
    let winner = if outcomes[0] == Written::Committed { "one" } else { "two" };
    outcomes.sort_by_key(|w| *w == Written::Moved);
    assert_eq!(outcomes, [Written::Committed, Written::Moved]);
    assert_eq!(database.rows(PEOPLE).await, [format!("1|{winner}|NULL")]);
    assert_eq!(
        two.positions(&[lane("people", 0), lane("people", 1)]).await.unwrap().iter().map(|p| p.position).collect::<Vec<_>>(),
        [1, 0]
    );
    // A stale batch that comes late, and one from the future, change nothing.
    for from in [0, 7] {
        assert_eq!(write(&mut two, &version, from, vec![upsert(&k, &b)]).await.unwrap(), Written::Moved);
    }
    assert_eq!(database.one("SELECT position FROM instar.lanes").await, "1");
}

#[tokio::test]
async fn a_batch_of_several_lanes_moves_all_of_them_or_none() {
    let Some((database, version)) = with_people().await else { return };
    let mut writer = database.target.writer().await.unwrap();
    let (k, a) = (key(1), person(1, "a", None));
    let batch =
        |lanes| Batch { lanes, tables: vec![TableBatch { version: version.clone(), effects: vec![upsert(&k, &a)], fresh_copy: false }] };
    let both = batch(vec![step(lane("people", 0), 0, 5), step(lane("people", 1), 0, 9)]);
    assert_eq!(writer.write(&both, &()).await.unwrap(), Written::Committed);
    database.sql("DELETE FROM shop.people").await;
    let torn = batch(vec![step(lane("people", 0), 5, 6), step(lane("people", 1), 8, 10)]);
    assert_eq!(writer.write(&torn, &()).await.unwrap(), Written::Moved);
    assert_eq!(database.rows("SELECT lane, position FROM instar.lanes ORDER BY lane").await, ["0|5", "1|9"]);
    assert_eq!(database.one("SELECT count(*) FROM shop.people").await, "0");
}

struct Unproved;

impl Proof for Unproved {
    async fn holds(&self) -> Result<bool, SinkError> {
        Ok(false)
    }
}

#[tokio::test]
async fn a_batch_whose_rows_are_not_proved_leaves_nothing() {
    let Some((database, version)) = with_people().await else { return };
    let mut writer = database.target.writer().await.unwrap();
    let (k, a) = (key(1), person(1, "a", None));
    let tables = vec![TableBatch { version: version.clone(), effects: vec![upsert(&k, &a)], fresh_copy: false }];
    let batch = Batch { lanes: vec![step(lane("people", 0), 0, 5)], tables };
    assert_eq!(writer.write(&batch, &Unproved).await.unwrap(), Written::Moved);
    assert_eq!(database.one("SELECT count(*) FROM instar.lanes").await, "0");
    assert_eq!(database.one("SELECT count(*) FROM shop.people").await, "0");
    assert_eq!(writer.write(&batch, &()).await.unwrap(), Written::Committed);
    assert_eq!(database.rows(PEOPLE).await, ["1|a|NULL"]);
}

#[tokio::test]
async fn progress_moves_without_rows() {
    let Some((database, _)) = with_people().await else { return };
    let mut writer = database.target.writer().await.unwrap();
    let batch = Batch { lanes: vec![step(lane("people", 3), 0, 8)], tables: Vec::new() };
    assert_eq!(writer.write(&batch, &()).await.unwrap(), Written::Committed);
    assert_eq!(database.one("SELECT lane, position FROM instar.lanes").await, "3|8");
}

#[tokio::test]
async fn unique_values_are_exchanged_within_a_batch() {
    let Some((database, version)) = with_people().await else { return };
    database.sql("ALTER TABLE shop.people ADD UNIQUE (name)").await;
    let mut writer = database.target.writer().await.unwrap();
    let rows = [person(1, "a", None), person(2, "b", None), person(1, "b", None), person(2, "a", None)];
    let keys = [key(1), key(2)];
    write(&mut writer, &version, 0, vec![upsert(&keys[0], &rows[0]), upsert(&keys[1], &rows[1])]).await.unwrap();
    write(&mut writer, &version, 1, vec![upsert(&keys[0], &rows[2]), upsert(&keys[1], &rows[3])]).await.unwrap();
    assert_eq!(database.rows(PEOPLE).await, ["1|b|NULL", "2|a|NULL"]);
}

fn part<'a>(key: &'a [u8], row: &'a [u8], skip_missing: bool) -> Effect<'a> {
    Effect::Upsert { key, row, absent: vec![1], skip_missing }
}

#[tokio::test]
async fn columns_that_are_not_carried_keep_the_targets_value() {
    let Some((database, version)) = with_people().await else { return };
    let mut writer = database.target.writer().await.unwrap();
    let (k1, k2, k3) = (key(1), key(2), key(3));
    let (full, changed) = (person(1, "ann", Some("old")), person(1, "", Some("new")));
    write(&mut writer, &version, 0, vec![upsert(&k1, &full)]).await.unwrap();
    write(&mut writer, &version, 1, vec![part(&k1, &changed, false)]).await.unwrap();
    assert_eq!(database.rows(PEOPLE).await, ["1|ann|new"]);
    // A row that is not there: passed over while its copy is to come, else an error that names it and changes nothing.
    let (gone, also) = (person(2, "", Some("x")), person(3, "", Some("y")));
    write(&mut writer, &version, 2, vec![part(&k2, &gone, true), part(&k1, &full, true)]).await.unwrap();
    assert_eq!(database.rows(PEOPLE).await, ["1|ann|old"]);
    let error = write(&mut writer, &version, 3, vec![part(&k2, &gone, true), part(&k3, &also, false)]).await.unwrap_err();
    let (kind, text) = message(&error);
    assert_eq!(kind, "incomplete");
    assert!(text.contains("table shop.people, key id=3: the source did not carry the columns name"), "{text}");
    assert_eq!(database.one("SELECT position FROM instar.lanes").await, "3");
}

/// `n int, f double` without a key.
fn keyless() -> Arc<TableVersion> {
    let double = Native::MySql(My::Double { unsigned: false, digits: None });
    let columns = [("n", int(), Pg::Integer, true), ("f", double, Pg::Double, true), ("t", Native::MySql(My::Json), Pg::Json, true)];
    version("log", &columns, &[])
}

fn entry(n: i32, f: f64, json: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    put_some(&mut out);
    put_int(&mut out, n);
    put_some(&mut out);
    put_double(&mut out, f);
    match json {
        None => put_null(&mut out),
        Some(text) => {
            put_some(&mut out);
            put_bytes(&mut out, text.as_bytes());
        }
    }
    out
}

const LOG: &str = "SELECT n, f, t FROM shop.log ORDER BY n, f::text, t::text";

#[tokio::test]
async fn without_a_key_rows_are_counted() {
    let Some(database) = database().await else { return };
    let version = keyless();
    create(&database, &version).await;
    let mut writer = database.target.writer().await.unwrap();
    let (zero, minus, nan, json, spaced) = (
        entry(1, 0.0, None),
        entry(1, -0.0, None),
        entry(2, f64::NAN, None),
        entry(3, 1.5, Some("{\"a\":1}")),
        entry(3, 1.5, Some("{\"a\": 1}")),
    );
    let rows = [&zero, &zero, &zero, &minus, &nan, &json, &spaced];
    write(&mut writer, &version, 0, rows.iter().map(|row| Effect::Append { row }).collect()).await.unwrap();
    assert_eq!(
        database.rows(LOG).await,
        ["1|-0|NULL", "1|0|NULL", "1|0|NULL", "1|0|NULL", "2|NaN|NULL", "3|1.5|{\"a\": 1}", "3|1.5|{\"a\":1}"]
    );
    // Exactly one of each, equal by bits and by text; and a row that comes and goes within the batch.
    let extra = entry(9, 9.0, None);
    let removed = [&zero, &nan, &json].map(|row| Effect::Remove { row });
    let effects = [Effect::Append { row: &extra }, Effect::Remove { row: &extra }].into_iter().chain(removed);
    write(&mut writer, &version, 1, effects.collect()).await.unwrap();
    assert_eq!(database.rows(LOG).await, ["1|-0|NULL", "1|0|NULL", "1|0|NULL", "3|1.5|{\"a\": 1}"]);
    let error = write(&mut writer, &version, 2, vec![Effect::Remove { row: &minus }, Effect::Remove { row: &minus }]).await.unwrap_err();
    let (kind, text) = message(&error);
    assert_eq!(kind, "stop");
    assert!(text.contains("table shop.log (without a key): a row that the source removed is not on the target"), "{text}");
    assert_eq!(database.one("SELECT count(*) FROM shop.log").await, "4");
    let many: Vec<_> = (0..500).map(|_| Effect::Append { row: &minus }).collect();
    write(&mut writer, &version, 2, many).await.unwrap();
    assert_eq!(database.one("SELECT count(*) FROM shop.log").await, "504");
}

#[tokio::test]
async fn a_table_of_key_columns_alone_takes_its_rows_twice() {
    let Some(database) = database().await else { return };
    let version = version("pairs", &[("a", int(), Pg::Integer, false), ("b", int(), Pg::Integer, false)], &["b", "a"]);
    create(&database, &version).await;
    let mut writer = database.target.writer().await.unwrap();
    let (row, record_key) = ([key(1), key(2)].concat(), [key(2), key(1)].concat());
    write(&mut writer, &version, 0, vec![upsert(&record_key, &row)]).await.unwrap();
    write(&mut writer, &version, 1, vec![upsert(&record_key, &row)]).await.unwrap();
    assert_eq!(database.rows("SELECT a, b FROM shop.pairs").await, ["1|2"]);
    // The key's order is its own, not the row's.
    write(&mut writer, &version, 2, vec![Effect::Delete { key: &record_key }]).await.unwrap();
    assert_eq!(database.rows("SELECT a, b FROM shop.pairs").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_column_that_the_source_dropped_and_the_target_kept_becomes_null() {
    let Some((database, old)) = with_people().await else { return };
    let mut writer = database.target.writer().await.unwrap();
    let (k, full) = (key(1), person(1, "ann", Some("old")));
    write(&mut writer, &old, 0, vec![upsert(&k, &full)]).await.unwrap();
    let mut table = old.table.clone();
    table.columns.pop();
    let rows = schemas::wire::row::RowSchema::new(&table);
    let new = Arc::new(TableVersion { id: old.id.clone(), version: 2, table, rows, target: old.target.clone() });
    let mut short = key(1);
    put_some(&mut short);
    put_bytes(&mut short, b"eve");
    // Rows of both versions in one batch, in their order.
    let lanes = vec![step(lane("people", 0), 1, 2)];
    let (k2, other) = (key(2), person(2, "bob", Some("kept")));
    let tables = vec![
        TableBatch { version: old.clone(), effects: vec![upsert(&k2, &other)], fresh_copy: false },
        TableBatch { version: new.clone(), effects: vec![upsert(&k, &short)], fresh_copy: false },
    ];
    assert_eq!(writer.write(&Batch { lanes, tables }, &()).await.unwrap(), Written::Committed);
    assert_eq!(database.rows(PEOPLE).await, ["1|eve|NULL", "2|bob|kept"]);
}

#[tokio::test]
async fn rows_of_a_new_version_follow_the_altered_table_on_the_same_connection() {
    let Some((database, old)) = with_people().await else { return };
    let mut writer = database.target.writer().await.unwrap();
    let rows: Vec<_> = (0..300).map(|i| (key(i), person(i, "ann", None))).collect();
    write(&mut writer, &old, 0, rows.iter().map(|(k, r)| upsert(k, r)).collect()).await.unwrap();
    database.sql("ALTER TABLE shop.people DROP COLUMN note; ALTER TABLE shop.people ADD COLUMN age integer").await;
    let error = write(&mut writer, &Arc::new(TableVersion { version: 9, ..people_again(&old) }), 1, Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("expected shape") && error.to_string().contains("column `note` text is missing"), "{error}");
    let new = version(
        "people",
        &[("id", int(), Pg::Integer, false), ("name", text(), Pg::Text, true), ("age", int(), Pg::Integer, true)],
        &["id"],
    );
    let new = Arc::new(TableVersion { version: 2, ..people_again(&new) });
    let aged: Vec<_> = (0..300)
        .map(|i| {
            let mut row = key(i);
            put_some(&mut row);
            put_bytes(&mut row, b"eve");
            put_some(&mut row);
            put_int(&mut row, 40 + i);
            (key(i), row)
        })
        .collect();
    write(&mut writer, &new, 1, aged.iter().map(|(k, r)| upsert(k, r)).collect()).await.unwrap();
    assert_eq!(database.one("SELECT count(*), min(name), sum(age) FROM shop.people").await, "300|eve|56850");
}

fn people_again(version: &TableVersion) -> TableVersion {
    TableVersion {
        id: version.id.clone(),
        version: version.version,
        table: version.table.clone(),
        rows: version.rows.clone(),
        target: version.target.clone(),
    }
}

#[tokio::test]
async fn a_refusal_by_the_server_names_the_table_and_rolls_all_back() {
    let Some((database, version)) = with_people().await else { return };
    database.sql("ALTER TABLE shop.people ADD CHECK (name <> 'eve')").await;
    let mut writer = database.target.writer().await.unwrap();
    let (k, good, bad) = (key(1), person(1, "ann", None), person(1, "eve", None));
    let error = write(&mut writer, &version, 0, vec![upsert(&k, &bad)]).await.unwrap_err();
    let (kind, text) = message(&error);
    assert_eq!(kind, "stop");
    assert!(text.contains("table shop.people") && text.contains("people_name_check") && !text.contains("eve"), "{text}");
    // The connection is good for the next batch.
    assert_eq!(write(&mut writer, &version, 0, vec![upsert(&k, &good)]).await.unwrap(), Written::Committed);
}

#[tokio::test]
async fn settings_of_the_role_do_not_reach_our_sessions() {
    let Some((database, version)) = with_people().await else { return };
    let name = database.url.database.clone().unwrap();
    database
        .sql(&format!(
            "ALTER DATABASE {name} SET default_transaction_read_only = on; ALTER DATABASE {name} SET statement_timeout = 1; \
             ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"
        ))
        .await;
    let mut writer = database.target.writer().await.unwrap();
    let rows: Vec<_> = (0..5_000).map(|i| (key(i), person(i, "p", None))).collect();
    write(&mut writer, &version, 0, rows.iter().map(|(k, r)| upsert(k, r)).collect()).await.unwrap();
    assert_eq!(database.one("SELECT count(*) FROM shop.people").await, "5000");
}

#[tokio::test]
async fn odd_names_are_quoted() {
    let Some(database) = database().await else { return };
    let name = "o\"dd 'ta.ble";
    let columns = [("select", int(), Pg::Integer, false), ("a\"b", text(), Pg::Text, true), ("Ünï", text(), Pg::Text, true)];
    let version = version(name, &columns, &["select"]);
    create(&database, &version).await;
    let mut writer = database.target.writer().await.unwrap();
    let rows: Vec<_> = (0..300).map(|i| (key(i), person(i, "x", None))).collect();
    write(&mut writer, &version, 0, rows.iter().map(|(k, r)| upsert(k, r)).collect()).await.unwrap();
    write(&mut writer, &version, 1, vec![Effect::Delete { key: &rows[0].0 }, upsert(&rows[1].0, &rows[1].1)]).await.unwrap();
    assert_eq!(database.one("SELECT count(*) FROM shop.\"o\"\"dd 'ta.ble\"").await, "299");
}

#[tokio::test]
async fn an_unreachable_server_and_a_wrong_password_are_told_apart() {
    let Some(database) = database().await else { return };
    let mut config = database.config.clone();
    config.url.port = Some(1);
    let error = PostgresTarget::new("shop", &config).unwrap().prepare().await.unwrap_err();
    let (kind, text) = message(&error);
    assert_eq!(kind, "transient");
    assert!(text.contains("127.0.0.1:1/"), "{text}");
    let mut config = database.config.clone();
    config.url.password = Some(runtime::config::Secret::new("wrong-password"));
    let error = PostgresTarget::new("shop", &config).unwrap().prepare().await.unwrap_err();
    let (kind, text) = message(&error);
    assert_eq!(kind, "refused");
    assert!(text.contains("password authentication failed") && !text.contains("wrong-password"), "{text}");
}

/// Rows are written into the shape that was looked at, whichever way they take: array, stage, delete and insert.
#[tokio::test]
async fn a_column_narrowed_by_hand_between_two_batches_stops_the_second() {
    let Some((database, version)) = with_people().await else { return };
    let mut writer = database.target.writer().await.unwrap();
    let keys: Vec<_> = (0..600).map(key).collect();
    let rows: Vec<_> = (0..600).map(|i| person(i, "ann ", Some("a note"))).collect();
    let batch = |count: usize| (0..count).map(|i| upsert(&keys[i], &rows[i])).collect::<Vec<_>>();
    write(&mut writer, &version, 0, batch(2)).await.unwrap();
    // `character(5)` would take the text, and pad it.
    for (count, narrow) in [(2, "ALTER name TYPE character(5)"), (600, "ALTER name TYPE character(5)"), (2, "DROP note")] {
        database.sql(&format!("BEGIN; CREATE TABLE shop.was AS SELECT * FROM shop.people; ALTER TABLE shop.people {narrow}; COMMIT")).await;
        let before = database.rows("SELECT * FROM shop.people ORDER BY id").await;
        for _ in 0..2 {
            let error = write(&mut writer, &version, 1, batch(count)).await.unwrap_err();
            let (variant, text) = message(&error);
            let column = if narrow.starts_with("DROP") { "note" } else { "name" };
            assert!(variant == "stop" && text.contains("is not the expected shape") && text.contains(column), "{text}");
        }
        assert_eq!(database.rows("SELECT * FROM shop.people ORDER BY id").await, before, "{narrow}");
        assert_eq!(database.one("SELECT position FROM instar.lanes").await, "1");
        database.sql("DROP TABLE shop.people; ALTER TABLE shop.was RENAME TO people; ALTER TABLE shop.people ALTER id SET NOT NULL, ADD PRIMARY KEY (id)").await;
    }
    write(&mut writer, &version, 1, batch(600)).await.unwrap();
    assert_eq!(database.one("SELECT count(*), min(length(name)) FROM shop.people").await, "600|4");
}

#[tokio::test]
async fn what_does_not_change_the_shape_by_hand_stops_nothing() {
    let Some((database, version)) = with_people().await else { return };
    let mut writer = database.target.writer().await.unwrap();
    let harmless = [
        "ALTER TABLE shop.people ALTER name SET STATISTICS 500",
        "ALTER TABLE shop.people ALTER note SET DEFAULT 'x'",
        "CREATE INDEX ON shop.people (note)",
        "ANALYZE shop.people; VACUUM FULL shop.people",
        "BEGIN; CREATE TABLE shop.again (LIKE shop.people INCLUDING ALL); INSERT INTO shop.again SELECT * FROM shop.people; \
         ALTER TABLE shop.people RENAME TO older; ALTER TABLE shop.again RENAME TO people; COMMIT",
    ];
    for (number, statement) in harmless.iter().enumerate() {
        let (one, two) = (person(1, "ann", None), person(2, &number.to_string(), Some("n")));
        write(&mut writer, &version, 2 * number as u64, vec![upsert(&key(1), &one)]).await.unwrap();
        database.sql(statement.split(';').next().unwrap_or_default()).await;
        for rest in statement.split(';').skip(1) {
            database.sql(rest).await;
        }
        write(&mut writer, &version, 2 * number as u64 + 1, vec![upsert(&key(2), &two)]).await.unwrap();
        assert_eq!(database.rows(PEOPLE).await, ["1|ann|NULL".to_owned(), format!("2|{number}|n")], "{statement}");
    }
}

/// An ALTER that waits for a batch, and a batch that waits for an ALTER: the one that is first is seen by the other.
#[tokio::test]
async fn a_batch_that_waited_for_an_alter_by_hand_writes_nothing_into_it() {
    let Some((database, version)) = with_people().await else { return };
    let mut writer = database.target.writer().await.unwrap();
    let (a, b) = (person(1, "ann", None), person(2, "a long name", None));
    write(&mut writer, &version, 0, vec![upsert(&key(1), &a)]).await.unwrap();
    database.sql("BEGIN; ALTER TABLE shop.people ALTER name TYPE character(15)").await;
    let other = connect(&database.url).await;
    let effects_key = key(2);
    let writing = write(&mut writer, &version, 1, vec![upsert(&effects_key, &b)]);
    let altering = async {
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = (SELECT oid FROM pg_class WHERE relname = 'people')";
        loop {
            let waiting: i64 = other.query_one(waits, &[]).await.unwrap().get(0);
            if waiting > 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        database.sql("COMMIT").await;
    };
    let (written, ()) = tokio::join!(writing, altering);
    let (variant, text) = message(&written.unwrap_err());
    assert!(variant == "stop" && text.contains("column `name`"), "{text}");
    assert_eq!(database.one("SELECT count(*) FROM shop.people").await, "1");
}

/// A plan that was made while the table was small would read all of it with every batch.
#[tokio::test]
async fn deletes_and_partial_updates_of_a_table_that_has_grown_use_its_key() {
    const ROWS: i32 = 100_000;
    let Some((database, version)) = with_people().await else { return };
    // Nothing tells the server that the table grew.
    database.sql("ALTER TABLE shop.people SET (autovacuum_enabled = off)").await;
    let mut writer = database.target.writer().await.unwrap();
    let keys: Vec<_> = (0..ROWS).map(key).collect();
    let row = person(0, "new", None);
    let mut at = 0;
    let mut batches = async |first: usize| {
        for i in 0..7 {
            let few = keys[first + i * 400..][..3].iter().map(|key| Effect::Delete { key });
            write(&mut writer, &version, at, few.collect()).await.unwrap();
            let many = keys[first + i * 400 + 3..][..300].iter().map(|key| Effect::Delete { key });
            write(&mut writer, &version, at + 1, many.collect()).await.unwrap();
            let partial = vec![Effect::Upsert { key: &keys[0], row: &row, absent: vec![2], skip_missing: true }];
            write(&mut writer, &version, at + 2, partial).await.unwrap();
            at += 3;
        }
    };
    batches(1).await;
    database.sql(&format!("INSERT INTO shop.people SELECT g, 'old', 'note' FROM generate_series(0, {}) g", ROWS - 1)).await;
    batches(10_000).await;
    let deleted = "SELECT n_tup_del, seq_tup_read < 1000 FROM pg_stat_user_tables WHERE relname = 'people'";
    drop(writer);
    // The server tells it some moments later.
    let mut told = String::new();
    for _ in 0..500 {
        told = database.one(deleted).await;
        if told.starts_with("2121|") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(told, "2121|t", "rows deleted, and whether few were read to find them");
    assert_eq!(
        database.rows("SELECT id, name, note FROM shop.people WHERE id IN (0, 9999) ORDER BY id").await,
        ["0|new|note", "9999|old|note"]
    );
    assert_eq!(database.one("SELECT count(*) FROM shop.people").await, (ROWS - 2121).to_string());
}
