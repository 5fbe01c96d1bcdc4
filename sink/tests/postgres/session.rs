//! The decider's session: plans under intent and lock, against live tables.

use std::time::Duration;

use schemas::{
    native::{Native, postgres::Native as Pg},
    order::ledger::{LedgerChange, Outcome},
    plan::{Action, Step, reshape},
    table::{Column, ColumnId, Table, TableId},
    value::Value,
};
use sink::{
    error::SinkError,
    postgres::{PostgresSession, sql},
    target::{PlannedStatement, Session, Target},
};

use crate::support::{Database, create, database, int, message, text, version};

fn orders() -> Table {
    let columns = [("id", int(), Pg::Integer, false), ("note", text(), Pg::Text, true)];
    version("orders", &columns, &["id"]).target.clone()
}

async fn with_orders() -> Option<(Database, PostgresSession, Table)> {
    let database = database().await?;
    create(&database, &version("orders", &[("id", int(), Pg::Integer, false), ("note", text(), Pg::Text, true)], &["id"])).await;
    database.sql("INSERT INTO shop.orders VALUES (1, 'a'), (2, NULL)").await;
    let mut session = database.target.session().await.unwrap();
    session.lock().await.unwrap();
    Some((database, session, orders()))
}

fn applied(table: &Table) -> Vec<LedgerChange> {
    vec![LedgerChange::Outcome { epoch: 1, table: table.id.clone(), outcome: Outcome::Applied, reason: String::new(), target_ddl: vec![] }]
}

/// A plan of these actions, with the shapes that `change` gives.
type Change = fn(&mut Table);

fn plan(before: &Table, actions: Vec<(Action, Change)>) -> Vec<PlannedStatement> {
    let mut table = before.clone();
    let mut steps = Vec::new();
    for (action, change) in actions {
        let before = table.clone();
        change(&mut table);
        steps.push(Step { action, before: Some(before), after: Some(table.clone()) });
    }
    sql::statements(&steps).unwrap()
}

fn drop_note(before: &Table) -> Vec<PlannedStatement> {
    plan(before, vec![(Action::DropColumn { name: "note".into() }, |t| drop(t.columns.pop()))])
}

fn column(id: u32, name: &str, native: Pg) -> Column {
    Column::new(id, name, Native::Postgres(native))
}

const OUTCOMES: &str = "SELECT epoch, name, outcome FROM instar.outcomes";

#[tokio::test]
async fn a_plan_and_its_outcome_are_one_transaction() {
    let Some((database, mut session, before)) = with_orders().await else { return };
    let add = Action::AddColumn {
        column: column(2, "price", Pg::Numeric { size: Some((9, 2)) }).not_null(),
        fill: Some(Value::Decimal("1.50".into())),
    };
    let plan = plan(
        &before,
        vec![
            (Action::DropColumn { name: "note".into() }, |t| drop(t.columns.pop())),
            (add, |t| t.columns.push(column(2, "price", Pg::Numeric { size: Some((9, 2)) }).not_null())),
        ],
    );
    session.run(1, &before.id, &plan, &applied(&before)).await.unwrap();
    assert_eq!(database.rows("SELECT * FROM shop.orders ORDER BY id").await, ["1|1.50", "2|1.50"]);
    assert_eq!(database.rows(OUTCOMES).await, ["1|orders|applied"]);
    assert_eq!(database.one("SELECT count(*) FROM instar.intents").await, "0");
    let live = session.describe(&before.id, plan[1].after.as_ref()).await.unwrap().unwrap();
    assert_eq!(live.columns, plan[1].after.as_ref().unwrap().columns, "no default remains");
    // The same again finds the table in the shape "after", without an intent of its own: a stop.
    let mut again = applied(&before);
    if let LedgerChange::Outcome { epoch, .. } = &mut again[0] {
        *epoch = 2;
    }
    let (kind, text) = message(&session.run(2, &before.id, &plan, &again).await.unwrap_err());
    assert_eq!(kind, "stop");
    assert!(
        text.contains("table shop.orders") && text.contains("expected shape") && text.contains("column `note` text is missing"),
        "{text}"
    );
    assert_eq!(database.rows(OUTCOMES).await, ["1|orders|applied"]);
}

#[tokio::test]
async fn a_table_altered_by_hand_stops_before_the_first_statement() {
    let Some((database, mut session, before)) = with_orders().await else { return };
    database.sql("ALTER TABLE shop.orders ADD COLUMN extra integer, ALTER COLUMN note SET DEFAULT 'x'").await;
    let (kind, text) = message(&session.run(1, &before.id, &drop_note(&before), &applied(&before)).await.unwrap_err());
    assert_eq!(kind, "stop");
    assert!(text.contains("column `extra` integer is there, and is not expected") && text.contains("reload shop.orders"), "{text}");
    assert_eq!(database.rows("SELECT * FROM shop.orders ORDER BY id").await, ["1|a|NULL", "2|NULL|NULL"]);
    assert_eq!(database.rows(OUTCOMES).await, Vec::<String>::new());
    assert_eq!(database.one("SELECT count(*) FROM instar.intents").await, "0");
    database.sql("DROP TABLE shop.orders").await;
    let (_, text) = message(&session.run(1, &before.id, &drop_note(&before), &applied(&before)).await.unwrap_err());
    assert!(text.contains("the table shop.orders is not there"), "{text}");
}

#[tokio::test]
async fn what_the_server_refuses_stops_with_its_words_and_changes_nothing() {
    let Some((database, mut session, before)) = with_orders().await else { return };
    database.sql("CREATE VIEW shop.notes AS SELECT note FROM shop.orders").await;
    let (kind, text) = message(&session.run(1, &before.id, &drop_note(&before), &applied(&before)).await.unwrap_err());
    assert_eq!(kind, "stop");
    assert!(text.contains("cannot drop column note of table shop.orders because other objects depend on it"), "{text}");
    // The second step fails: the first is undone.
    let rename = |t: &mut Table| t.columns[1].name = "remark".into();
    let failing = plan(
        &before,
        vec![
            (Action::RenameColumn { from: "note".into(), to: "remark".into() }, rename),
            (Action::SetNotNull { name: "remark".into() }, |t| t.columns[1].nullable = false),
        ],
    );
    let (kind, text) = message(&session.run(1, &before.id, &failing, &applied(&before)).await.unwrap_err());
    assert_eq!(kind, "stop");
    assert!(text.contains("contains null values"), "{text}");
    assert_eq!(session.describe(&before.id, Some(&before)).await.unwrap().unwrap().columns, before.columns);
    assert_eq!(database.rows(OUTCOMES).await, Vec::<String>::new());
    // A value that does not fit the shorter type.
    let shorter = plan(
        &before,
        vec![(
            Action::AlterType {
                name: "note".into(),
                from: before.columns[1].native.clone(),
                to: Native::Postgres(Pg::VarChar { length: Some(1) }),
                convert: true,
            },
            |t| t.columns[1].native = Native::Postgres(Pg::VarChar { length: Some(1) }),
        )],
    );
    database.sql("DROP VIEW shop.notes; UPDATE shop.orders SET note = 'too long'").await;
    let (kind, text) = message(&session.run(1, &before.id, &shorter, &applied(&before)).await.unwrap_err());
    assert_eq!(kind, "stop");
    assert!(text.contains("value too long for type character varying(1)"), "{text}");
}

async fn until(database: &Database, sql: &str, wanted: &str) {
    for _ in 0..2_000 {
        if database.one(sql).await == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never {wanted}: {sql}");
}

#[tokio::test]
async fn a_table_in_use_is_waited_for_without_blocking_its_readers() {
    let Some((database, mut session, before)) = with_orders().await else { return };
    let user = crate::support::connect(&database.url).await;
    user.batch_execute("BEGIN; SELECT * FROM shop.orders").await.unwrap();
    let (plan, outcome, id) = (drop_note(&before), applied(&before), before.id.clone());
    let running = tokio::spawn(async move { session.run(1, &id, &plan, &outcome).await });
    until(&database, "SELECT count(*) FROM instar.intents", "1").await;
    until(&database, "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'shop.orders'::regclass AND NOT granted", "t").await;
    // Gives way after its time-out, so that this read comes through, and comes again.
    let other = crate::support::connect(&database.url).await;
    assert_eq!(other.query_one("SELECT count(*) FROM shop.orders", &[]).await.unwrap().get::<_, i64>(0), 2);
    assert!(!running.is_finished());
    user.batch_execute("COMMIT").await.unwrap();
    running.await.unwrap().unwrap();
    assert_eq!(database.rows("SELECT * FROM shop.orders ORDER BY id").await, ["1", "2"]);
    assert_eq!(database.rows(OUTCOMES).await, ["1|orders|applied"]);
}

#[tokio::test]
async fn the_lock_of_a_killed_client_is_kept_until_its_statement_ends() {
    let Some((database, mut session, before)) = with_orders().await else { return };
    let mut plan = drop_note(&before);
    plan[0].sql = format!("{}; SELECT pg_sleep(2)", plan[0].sql);
    let (slow, outcome, id) = (plan, applied(&before), before.id.clone());
    let running = tokio::spawn(async move { session.run(1, &id, &slow, &outcome).await });
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_sleep(2)' AND state = 'active' \
                    AND pid <> pg_backend_pid()";
    until(&database, sleeping, "1").await;
    // The client dies: its socket closes, its statement goes on.
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = \
                 (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert_eq!(database.one(sleeping).await, "1");
    assert_eq!(database.one(locks).await, "1");
    let mut successor = database.target.session().await.unwrap();
    successor.lock().await.unwrap();
    assert_eq!(database.one(sleeping).await, "0", "the lock was had while the dead session's statement ran");
    // Neither the change nor its outcome is there; the intent says what was begun.
    assert_eq!(successor.describe(&before.id, Some(&before)).await.unwrap().unwrap().columns, before.columns);
    assert_eq!(database.rows(OUTCOMES).await, Vec::<String>::new());
    assert_eq!(database.one("SELECT name, epoch FROM instar.intents").await, "orders|1");
    successor.run(1, &before.id, &drop_note(&before), &applied(&before)).await.unwrap();
    assert_eq!(database.rows(OUTCOMES).await, ["1|orders|applied"]);
    assert_eq!(database.one("SELECT count(*) FROM instar.intents").await, "0");
}

#[tokio::test]
async fn a_session_whose_connection_is_gone_is_lost() {
    let Some((database, mut session, before)) = with_orders().await else { return };
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    database.sql(others).await;
    let error = loop {
        // The first statement may still find the socket open.
        match session.run(1, &before.id, &drop_note(&before), &applied(&before)).await {
            Err(SinkError::Transient(_)) => tokio::task::yield_now().await,
            other => break other.unwrap_err(),
        }
    };
    assert_eq!(message(&error).0, "session lost");
    assert_eq!(message(&session.lock().await.unwrap_err()).0, "session lost");
    let mut successor = database.target.session().await.unwrap();
    successor.lock().await.unwrap();
}

#[tokio::test]
async fn an_added_column_gives_old_rows_exactly_its_constant() {
    let Some((database, mut session, before)) = with_orders().await else { return };
    let cases: Vec<(Pg, Value, &str)> = vec![
        (Pg::SmallInt, Value::Integer(-7), "-7"),
        (Pg::Boolean, Value::Integer(1), "true"),
        (Pg::Numeric { size: Some((20, 0)) }, Value::Integer(18_446_744_073_709_551_615), "18446744073709551615"),
        (Pg::Numeric { size: Some((9, 3)) }, Value::Decimal("-1.500".into()), "-1.500"),
        (Pg::Real, Value::Float(f64::from(0.1f32)), "0.1"),
        (Pg::Double, Value::Float(-1e-300), "-1e-300"),
        (Pg::Text, Value::Text("it's \\ \"quoted\"\n漢".into()), "it's \\ \"quoted\"\n漢"),
        (Pg::VarChar { length: Some(3) }, Value::Text(String::new()), ""),
        (Pg::Json, Value::Text("{\"a\": '}".replace('\'', "1")), "{\"a\": 1}"),
        (Pg::Bytea, Value::Bytes(vec![0, 255]), "\\x00ff"),
        (Pg::Bit { length: 10 }, Value::Bytes(vec![2, 1]), "1000000001"),
        (Pg::Bit { length: 3 }, Value::Integer(5), "101"),
        (Pg::Date, Value::Date(19_000), "2022-01-08"),
        (Pg::Time { precision: 3 }, Value::Micros(3_600_500_000), "01:00:00.5"),
        (Pg::Interval { precision: 6 }, Value::Micros(-3_020_399_000_001), "-838:59:59.000001"),
        (Pg::Timestamp { precision: 6 }, Value::Micros(1_500_000), "1970-01-01 00:00:01.5"),
        (Pg::TimestampTz { precision: 6 }, Value::Micros(1_500_000), "1970-01-01 00:00:01.5+00"),
        (Pg::Uuid, Value::Text("123e4567-e89b-12d3-a456-426614174000".into()), "123e4567-e89b-12d3-a456-426614174000"),
        (Pg::Inet, Value::Text("::1".into()), "::1/128"),
    ];
    let mut table = before.clone();
    for (i, (native, value, expected)) in cases.into_iter().enumerate() {
        let name = format!("c{i}");
        let added = column(10 + i as u32, &name, native.clone()).not_null();
        let after = {
            let mut t = table.clone();
            t.columns.push(added.clone());
            t
        };
        let step = Step { action: Action::AddColumn { column: added, fill: Some(value) }, before: Some(table), after: Some(after.clone()) };
        session.run(1, &before.id, &sql::statements(&[step]).unwrap(), &[]).await.unwrap_or_else(|e| panic!("{native}: {e}"));
        let found = database.rows(&format!("SELECT {name}::text FROM shop.orders")).await;
        assert_eq!(found, [expected, expected], "{native}");
        table = after;
    }
    assert_eq!(database.one("SELECT count(*) FROM pg_attrdef WHERE adrelid = 'shop.orders'::regclass").await, "0", "no default remains");
    for (value, target, problem) in [
        (Value::Text("a\0b".into()), Pg::Text, "NUL byte"),
        (Value::Integer(8), Pg::Bit { length: 3 }, "more than 3 bits"),
        (Value::Integer(2), Pg::Boolean, "not a boolean"),
    ] {
        assert!(sql::literal(&value, &target).unwrap_err().contains(problem));
    }
}

#[tokio::test]
async fn every_action_of_a_plan_has_its_statement() {
    let Some((database, mut session, before)) = with_orders().await else { return };
    let note = |native: Pg| Native::Postgres(native);
    let all = plan(
        &before,
        vec![
            (Action::AlterType { name: "id".into(), from: note(Pg::Integer), to: note(Pg::BigInt), convert: true }, |t| {
                t.columns[0].native = Native::Postgres(Pg::BigInt)
            }),
            (
                Action::AlterType { name: "note".into(), from: note(Pg::Text), to: note(Pg::VarChar { length: Some(5) }), convert: true },
                |t| t.columns[1].native = Native::Postgres(Pg::VarChar { length: Some(5) }),
            ),
            (Action::RenameColumn { from: "note".into(), to: "a \"b\"".into() }, |t| t.columns[1].name = "a \"b\"".into()),
            (Action::AddColumn { column: column(2, "n", Pg::Integer), fill: None }, |t| t.columns.push(column(2, "n", Pg::Integer))),
            (Action::DropKey, |t| t.primary = None),
            (Action::AddKey { columns: vec!["id".into()] }, |t| t.primary = orders().primary),
            (Action::DropNotNull { name: "n".into() }, |_| {}),
        ],
    );
    session.run(1, &before.id, &all, &applied(&before)).await.unwrap();
    assert_eq!(database.rows("SELECT * FROM shop.orders ORDER BY id").await, ["1|a|NULL", "2|NULL|NULL"]);
    let altered = all.last().unwrap().after.clone().unwrap();
    let truncate = plan(&altered, vec![(Action::Truncate, |_| {})]);
    session.run(2, &before.id, &truncate, &[]).await.unwrap();
    assert_eq!(database.one("SELECT count(*) FROM shop.orders").await, "0");
    // A reload: whatever it was, it gets the wanted shape, empty.
    let columns = [("id", int(), Pg::Uuid, false), ("n", int(), Pg::Text, false), ("extra", int(), Pg::Date, true)];
    let wanted = version("orders", &columns, &["n"]).target.clone();
    database.sql("INSERT INTO shop.orders VALUES (1, 'x', 2); ALTER TABLE shop.orders ALTER n SET DEFAULT 7").await;
    let live = session.describe(&before.id, Some(&wanted)).await.unwrap();
    let steps = reshape(live.as_ref(), &wanted);
    session.run(3, &before.id, &sql::statements(&steps).unwrap(), &[]).await.unwrap();
    assert_eq!(session.describe(&before.id, Some(&wanted)).await.unwrap().unwrap().primary.unwrap().columns, [ColumnId(1)]);
    // Made anew, in a schema that is not there yet; and dropped.
    let mut elsewhere = wanted.clone();
    elsewhere.id = TableId::new("new \"schema\"", "orders");
    session.run(4, &before.id, &sql::statements(&reshape(None, &elsewhere)).unwrap(), &[]).await.unwrap();
    assert!(session.describe(&elsewhere.id, None).await.unwrap().is_some());
    let gone = Step { action: Action::DropTable, before: Some(elsewhere.clone()), after: None };
    session.run(5, &before.id, &sql::statements(&[gone]).unwrap(), &[]).await.unwrap();
    assert!(session.describe(&elsewhere.id, None).await.unwrap().is_none());
}

#[tokio::test]
async fn live_tables_are_described_by_the_type_table() {
    let Some((database, mut session, _)) = with_orders().await else { return };
    let declared = [
        "boolean",
        "smallint",
        "integer",
        "bigint",
        "real",
        "double precision",
        "numeric",
        "numeric(9,2)",
        "numeric(3,-2)",
        "money",
        "text",
        "character varying",
        "character varying(7)",
        "character(7)",
        "\"char\"",
        "name",
        "bytea",
        "bit(3)",
        "bit varying(3)",
        "date",
        "time(3) without time zone",
        "time with time zone",
        "timestamp(0) without time zone",
        "timestamp with time zone",
        "interval(2)",
        "uuid",
        "json",
        "jsonb",
        "xml",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        "oid",
        "integer[]",
        "character varying(7)[]",
        "point",
        "int4range",
        "tsvector",
    ];
    let columns: Vec<_> = declared.iter().enumerate().map(|(i, ty)| format!("c{i} {ty}")).collect();
    database.sql("CREATE DOMAIN shop.price AS numeric(9,2) CHECK (VALUE > 0); CREATE TYPE shop.size AS ENUM ('s', 'l')").await;
    database.sql(&format!("CREATE TABLE shop.all_types ({}, d shop.price, e shop.size)", columns.join(", "))).await;
    let live = session.describe(&TableId::new("shop", "all_types"), None).await.unwrap().unwrap();
    for (column, expected) in live.columns.iter().zip(declared) {
        assert_eq!(column.native.to_string(), expected);
    }
    let [.., domain, labels] = &live.columns[..] else { panic!("no columns") };
    assert_eq!(domain.native, Native::Postgres(Pg::Numeric { size: Some((9, 2)) }));
    assert_eq!(labels.native, Native::Postgres(Pg::Enum { name: "shop.size".into(), labels: vec!["s".into(), "l".into()] }));
    for (ty, reason) in
        [("shop.all_types", "composite type"), ("interval day", "interval of chosen fields"), ("bpchar", "bpchar without a length")]
    {
        database.sql(&format!("DROP TABLE IF EXISTS shop.odd; CREATE TABLE shop.odd (c {ty})")).await;
        let (_, text) = message(&session.describe(&TableId::new("shop", "odd"), None).await.unwrap_err());
        assert!(text.contains("shop.odd, column c") && text.contains(reason), "{text}");
    }
}

#[tokio::test]
async fn columns_keep_the_identity_that_the_expected_shape_gives_them() {
    let Some((database, mut session, _)) = with_orders().await else { return };
    let mut expected = orders();
    expected.columns[1].id = ColumnId(9);
    expected.next_column = 10;
    database.sql("ALTER TABLE shop.orders ADD COLUMN extra integer").await;
    let live = session.describe(&expected.id, Some(&expected)).await.unwrap().unwrap();
    assert_eq!(live.columns.iter().map(|c| c.id.0).collect::<Vec<_>>(), [0, 9, 10]);
    assert_eq!(live.next_column, 11);
}
