//! Each kind of schema change, through to the target, and every type of a MySQL-family source.

use std::time::Duration;

use crate::world::{Options, World};

/// Runs one ALTER between rows and says how it ended.
async fn outcome(name: &str, columns: &str, row: &str, alter: &str, later: &str) -> (String, String) {
    let mut world =
        World::new(name, &format!("CREATE TABLE t (id INT PRIMARY KEY, {columns});\nINSERT INTO t VALUES (1, {row});"), &["t"]).await;
    world.start();
    world.source.run(alter).await;
    if !later.is_empty() {
        world.source.run(later).await;
    }
    let (code, printed) = world.pipeline.wait("settled", 60);
    let (outcome, reason) = world.last_outcome("t");
    if code == 0 {
        world.assert_equal().await;
    }
    assert_eq!(
        code,
        match outcome.as_str() {
            "stopped" => 3,
            "held" => 4,
            _ => 0,
        },
        "{outcome}: {printed}"
    );
    (outcome, reason)
}

macro_rules! changes {
    ($($name:ident: $columns:literal, $row:literal, $alter:literal, $later:literal => $outcome:literal [$($word:literal),*];)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                let (outcome, reason) = outcome(stringify!($name), $columns, $row, $alter, $later).await;
                assert_eq!(outcome, $outcome, "{reason}");
                $(assert!(reason.to_lowercase().contains($word), "{} is not in: {reason}", $word);)*
            }
        )*
    };
}

changes! {
    a_nullable_column_is_added: "v INT", "1", "ALTER TABLE t ADD COLUMN n VARCHAR(9) NULL FIRST", "INSERT INTO t (id, v, n) VALUES (2, 2, 'x')" => "applied" [];
    a_default_reaches_the_old_rows: "v INT", "1", "ALTER TABLE t ADD COLUMN n INT DEFAULT 7", "INSERT INTO t (id, v, n) VALUES (2, 2, NULL)" => "applied" [];
    a_quoted_default_reaches_the_old_rows: "v INT", "1", "ALTER TABLE t ADD COLUMN n VARCHAR(20) NOT NULL DEFAULT 'it''s \\\\ \"x\"'", "" => "applied" [];
    an_implicit_zero_reaches_the_old_rows: "v INT", "1", "ALTER TABLE t ADD COLUMN n DECIMAL(6,2) NOT NULL, ADD COLUMN s VARCHAR(5) NOT NULL", "" => "applied" [];
    a_default_that_is_an_expression_stops: "v INT", "1", "ALTER TABLE t ADD COLUMN u CHAR(36) DEFAULT (UUID())", "" => "stopped" ["t", "`u`", "uuid()"];
    a_default_of_the_clock_stops: "v INT", "1", "ALTER TABLE t ADD COLUMN d DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP", "" => "stopped" ["`d`", "current_timestamp"];
    a_generated_column_stops: "v INT", "1", "ALTER TABLE t ADD COLUMN g INT AS (v * 2) STORED", "" => "stopped" ["`g`"];
    a_column_is_dropped: "v INT, w INT NOT NULL", "1, 2", "ALTER TABLE t DROP COLUMN v", "INSERT INTO t VALUES (2, 3)" => "applied" [];
    two_names_are_exchanged: "a INT, b INT", "1, 2", "ALTER TABLE t CHANGE a b INT, CHANGE b a INT", "INSERT INTO t (id, a, b) VALUES (2, 10, 20)" => "applied" [];
    a_name_is_dropped_and_used_again: "v INT", "1", "ALTER TABLE t DROP COLUMN v, ADD COLUMN v VARCHAR(9) DEFAULT 'new'", "" => "applied" [];
    a_text_grows: "v VARCHAR(9)", "'x'", "ALTER TABLE t MODIFY v VARCHAR(300)", "INSERT INTO t VALUES (2, REPEAT('y', 300))" => "applied" [];
    a_text_shrinks_where_it_fits: "v VARCHAR(30)", "'x'", "ALTER TABLE t MODIFY v VARCHAR(5)", "" => "applied" [];
    an_integer_grows: "v SMALLINT", "1", "ALTER TABLE t MODIFY v BIGINT", "INSERT INTO t VALUES (2, -9223372036854775808)" => "applied" [];
    a_key_integer_grows: "v INT", "1", "ALTER TABLE t MODIFY id BIGINT", "INSERT INTO t VALUES (9223372036854775807, 2)" => "applied" [];
    a_decimal_grows: "v DECIMAL(6,2)", "1.25", "ALTER TABLE t MODIFY v DECIMAL(12,4)", "INSERT INTO t VALUES (2, 12345678.0001)" => "applied" [];
    an_enum_label_is_appended: "v ENUM('a','b')", "'a'", "ALTER TABLE t MODIFY v ENUM('a','b','c')", "INSERT INTO t VALUES (2, 'c')" => "nothing_to_apply" [];
    an_integer_that_becomes_text_stops: "v INT", "1", "ALTER TABLE t MODIFY v VARCHAR(12)", "" => "stopped" ["`v`", "int", "varchar(12)"];
    signedness_stops: "v INT", "1", "ALTER TABLE t MODIFY v INT UNSIGNED", "" => "stopped" ["`v`", "unsigned"];
    not_null_is_set: "v INT", "1", "ALTER TABLE t MODIFY v INT NOT NULL", "INSERT INTO t VALUES (2, 2)" => "applied" [];
    not_null_is_dropped: "v INT NOT NULL", "1", "ALTER TABLE t MODIFY v INT NULL", "INSERT INTO t VALUES (2, NULL)" => "applied" [];
    a_key_change_is_held: "v INT NOT NULL", "1", "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)", "INSERT INTO t VALUES (1, 2)" => "held" ["restore the row key", "id", "v"];
    a_key_rename_is_held: "v INT", "1", "ALTER TABLE t RENAME COLUMN id TO nr", "INSERT INTO t VALUES (2, 2)" => "held" ["id", "nr"];
    an_index_is_nothing_to_apply: "v INT", "1", "ALTER TABLE t ADD INDEX i (v), COMMENT = 'x', ALTER COLUMN v SET DEFAULT 3", "INSERT INTO t (id) VALUES (2)" => "nothing_to_apply" [];
    a_reorder_is_nothing_to_apply: "a INT, b INT", "1, 2", "ALTER TABLE t MODIFY b INT FIRST", "INSERT INTO t (id, a, b) VALUES (2, 10, 20)" => "nothing_to_apply" [];
    the_strictest_clause_governs: "v INT", "1", "ALTER TABLE t ADD COLUMN n INT NULL, MODIFY v VARCHAR(9)", "" => "stopped" ["`v`"];
}

#[tokio::test]
async fn the_source_stands_before_a_statement_it_does_not_know() {
    let mut world =
        World::new("unknown_statement", "CREATE TABLE t (id INT PRIMARY KEY);\nCREATE TABLE shadow (id INT PRIMARY KEY, v INT);", &["t"])
            .await;
    world.start();
    world.source.run("INSERT INTO t VALUES (1)").await;
    world.source.run("RENAME TABLE t TO t_old, shadow TO t").await;
    world.source.run("INSERT INTO t VALUES (2, 2)").await;
    assert_eq!(world.pipeline.exit(Duration::from_secs(30)), 3, "{}", world.pipeline.log());
    assert_eq!(world.target.query("SELECT id FROM t").await.unwrap(), [[Some("1".to_owned())]]);
    let status = world.pipeline.status();
    assert_eq!(status["source"]["state"], "stopped");
    let message = status["source"]["message"].as_str().unwrap();
    for word in ["unknown_statement.t", "shadow", "reload"] {
        assert!(message.contains(word), "{word} is not in: {message}");
    }
    // The table under the name is another one now: a reload takes it as it is.
    let output = world.pipeline.command(&["reload"], &["unknown_statement.t"]);
    assert!(output.status.success(), "{}", tests::pipeline::text(&output));
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    world.source.run("INSERT INTO t VALUES (3, 3)").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
}

pub const TYPES: &str = "CREATE TABLE every (id INT PRIMARY KEY,
 t TINYINT, tu TINYINT UNSIGNED, s SMALLINT, su SMALLINT UNSIGNED, m MEDIUMINT, mu MEDIUMINT UNSIGNED, i INT, iu INT UNSIGNED, b BIGINT, bu BIGINT UNSIGNED,
 d DECIMAL(65,30), d2 DECIMAL(10,0), f FLOAT, df DOUBLE, b1 BIT(1), b9 BIT(9), b64 BIT(64), y YEAR,
 da DATE, ti TIME, ti6 TIME(6), dt DATETIME, dt3 DATETIME(3), dt6 DATETIME(6), ts TIMESTAMP NULL, ts6 TIMESTAMP(6) NULL,
 c CHAR(5), v VARCHAR(50), l1 VARCHAR(9) CHARACTER SET latin1, u3 VARCHAR(9) CHARACTER SET utf8mb3, tx TEXT, lt LONGTEXT,
 bi BINARY(4), vb VARBINARY(20), bl BLOB, lb LONGBLOB, e ENUM('a,b','c''d','é'), st SET('x','y','z'), j JSON, g GEOMETRY, u UUID, n6 INET6, n4 INET4);";

pub const VALUES: [&str; 3] = [
    "-128, 0, -32768, 0, -8388608, 0, -2147483648, 0, -9223372036854775808, 0, -99999999999999999999999999999999999.999999999999999999999999999999, -9999999999, -3.4028234e38, -1.7976931348623157e308, b'0', b'0', b'0', 0, '1000-01-01', '-838:59:59', '-00:00:00.000001', '1000-01-01 00:00:00', '1969-12-31 23:59:59.999', '1000-01-01 00:00:00.000001', '1970-01-01 00:00:01', '1970-01-01 00:00:01.000001', '', '', '', '', '', '', x'00000000', x'', x'', x'', 'a,b', '', '{}', ST_GeomFromText('POINT(0 0)'), '00000000-0000-0000-0000-000000000000', '::', '0.0.0.0'",
    "127, 255, 32767, 65535, 8388607, 16777215, 2147483647, 4294967295, 9223372036854775807, 18446744073709551615, 99999999999999999999999999999999999.999999999999999999999999999999, 9999999999, 3.4028234e38, 1.7976931348623157e308, b'1', b'111111111', 18446744073709551615, 2155, '9999-12-31', '838:59:59', '838:59:58.999999', '9999-12-31 23:59:59', '9999-12-31 23:59:59.999', '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07', '2038-01-19 03:14:07.999999', 'ab  ', 'tab\\tnewline\\nbackslash\\\\ quote'' ', 'é€ü', 'Жж', '漢字😀', REPEAT('long ', 5000), x'01000000', x'00ff00', x'deadbeef00', REPEAT(x'00ff', 40000), 'é', 'x,y,z', '{\"b\": 1.0, \"a\": [null, 1e2, \"é\"]}', ST_GeomFromText('POLYGON((0 0,4 0,4 4,0 0))', 4326), 'ffffffff-ffff-ffff-ffff-ffffffffffff', '::ffff:10.0.0.1', '255.255.255.255'",
    "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
];

#[tokio::test]
async fn every_type_is_exact_through_copy_and_stream() {
    let mut world = World::new("every_type", TYPES, &["every"]).await;
    world.source.run("SET time_zone = '+00:00'").await;
    for (id, values) in VALUES.iter().enumerate() {
        world.source.run(&format!("INSERT INTO every VALUES ({id}, {values})")).await;
    }
    world.start();
    world.assert_equal().await;
    for (id, values) in VALUES.iter().enumerate() {
        world.source.run(&format!("INSERT INTO every VALUES ({}, {values})", id + 10)).await;
    }
    world.source.run("UPDATE every SET v = CONCAT(COALESCE(v, ''), '!') WHERE id >= 10").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    // The two paths agree in every column.
    let columns = world.target.value("SELECT string_agg(quote_ident(column_name) || '::text', ', ') FROM information_schema.columns WHERE table_name = 'every' AND column_name NOT IN ('id', 'v')").await.unwrap();
    let copied = world.target.query(&format!("SELECT {columns} FROM every WHERE id < 10 ORDER BY id")).await.unwrap();
    let streamed = world.target.query(&format!("SELECT {columns} FROM every WHERE id >= 10 ORDER BY id")).await.unwrap();
    assert_eq!(copied, streamed);
}

#[tokio::test]
async fn rows_of_a_source_that_was_down_are_read_under_their_own_shape() {
    let mut world = World::new("old_shapes", "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT);", &["t"]).await;
    world.start();
    world.pipeline.stop();
    world.source.run("INSERT INTO t VALUES (1, 10, 20)").await;
    world.source.run("ALTER TABLE t CHANGE a b INT, CHANGE b a INT").await;
    world.source.run("INSERT INTO t (id, a, b) VALUES (2, 10, 20)").await;
    world.source.run("ALTER TABLE t DROP COLUMN a, ADD COLUMN c INT NOT NULL DEFAULT 5 FIRST").await;
    world.source.run("INSERT INTO t (id, b, c) VALUES (3, 30, 6)").await;
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(
        world.target.value("SELECT string_agg(id || ':' || b || ':' || c, ' ' ORDER BY id) FROM t").await.as_deref(),
        Some("1:10:5 2:20:5 3:30:6")
    );
}

#[tokio::test]
async fn a_table_is_added_to_the_configuration_and_copied() {
    let setup = "CREATE TABLE one (id INT PRIMARY KEY);\nCREATE TABLE two (id INT PRIMARY KEY, v INT);\nINSERT INTO one VALUES (1);\nINSERT INTO two SELECT seq, seq FROM seq_1_to_1000;";
    let mut world = World::new("table_added", setup, &["one"]).await;
    world.start();
    world.pipeline.stop();
    world.tables.push("two".into());
    world.configure(&Options::default());
    world.source.run("UPDATE two SET v = -v WHERE id < 10").await;
    world.pipeline.start();
    world.pipeline.caught_up();
    world.assert_equal().await;
}
