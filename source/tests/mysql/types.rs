//! Every type through copy and stream: equal bytes, and the values that the server shows.

use source::engine::Engine;

use crate::world::{Flavour, World, by_table, copy, hear, published, show};

/// Column, declaration, and (SQL literal, expected text) of two rows.
type Case = (&'static str, &'static str, [(&'static str, &'static str); 2]);

const COMMON: &[Case] = &[
    ("t", "TINYINT", [("-128", "-128"), ("127", "127")]),
    ("tu", "TINYINT UNSIGNED", [("0", "0"), ("255", "255")]),
    ("b", "BOOL NOT NULL", [("1", "1"), ("0", "0")]),
    ("s", "SMALLINT", [("-32768", "-32768"), ("32767", "32767")]),
    ("su", "SMALLINT UNSIGNED", [("65535", "65535"), ("NULL", "NULL")]),
    ("m", "MEDIUMINT", [("-1", "-1"), ("-8388608", "-8388608")]),
    ("mu", "MEDIUMINT UNSIGNED", [("16777215", "16777215"), ("0", "0")]),
    ("i", "INT", [("-2147483648", "-2147483648"), ("2147483647", "2147483647")]),
    ("iu", "INT UNSIGNED ZEROFILL", [("4294967295", "4294967295"), ("7", "7")]),
    ("l", "BIGINT", [("-9223372036854775808", "-9223372036854775808"), ("9223372036854775807", "9223372036854775807")]),
    ("lu", "BIGINT UNSIGNED", [("18446744073709551615", "18446744073709551615"), ("0", "0")]),
    ("d1", "DECIMAL(10,2)", [("-99999999.99", "-99999999.99"), ("0.01", "0.01")]),
    (
        "d2",
        "DECIMAL(38,10)",
        [("-1.0000000001", "-1.0000000001"), ("9999999999999999999999999999.9999999999", "9999999999999999999999999999.9999999999")],
    ),
    (
        "d3",
        "DECIMAL(65,30)",
        [
            (
                "-99999999999999999999999999999999999.999999999999999999999999999999",
                "-99999999999999999999999999999999999.999999999999999999999999999999",
            ),
            ("0.000000000000000000000000000001", "0.000000000000000000000000000001"),
        ],
    ),
    ("d4", "DECIMAL(9,0) UNSIGNED", [("999999999", "999999999"), ("0", "0")]),
    ("f", "FLOAT", [("0.1", "0.1"), ("-3.4028235e38", "-3.4028235e38")]),
    ("g", "DOUBLE", [("1.7976931348623157e308", "1.7976931348623157e308"), ("-2.2250738585072014e-308", "-2.2250738585072014e-308")]),
    ("bit1", "BIT(1)", [("1", "01"), ("0", "00")]),
    ("bit17", "BIT(17)", [("65537", "010001"), ("b'11111111111111111'", "01ffff")]),
    ("bit64", "BIT(64)", [("18446744073709551615", "ffffffffffffffff"), ("1", "0000000000000001")]),
    ("y", "YEAR", [("0", "0"), ("2155", "2155")]),
    ("y2", "YEAR", [("1901", "1901"), ("NULL", "NULL")]),
    ("iu2", "INT UNSIGNED", [("4000000000", "4000000000"), ("1", "1")]),
    ("da", "DATE", [("'1000-01-01'", "1000-01-01"), ("'9999-12-31'", "9999-12-31")]),
    ("dt0", "DATETIME", [("'1000-01-01 00:00:00'", "1000-01-01 00:00:00.000000"), ("'9999-12-31 23:59:59'", "9999-12-31 23:59:59.000000")]),
    ("dt3", "DATETIME(3)", [("'2024-02-29 12:34:56.789'", "2024-02-29 12:34:56.789000"), ("NULL", "NULL")]),
    (
        "dt6",
        "DATETIME(6)",
        [("'2024-02-29 12:34:56.000001'", "2024-02-29 12:34:56.000001"), ("'1969-12-31 23:59:59.999999'", "1969-12-31 23:59:59.999999")],
    ),
    (
        "ts0",
        "TIMESTAMP NULL",
        [("'1970-01-01 00:00:01'", "1970-01-01 00:00:01.000000"), ("'2038-01-19 03:14:07'", "2038-01-19 03:14:07.000000")],
    ),
    ("ts2", "TIMESTAMP(2) NULL", [("'2000-01-01 00:00:00.99'", "2000-01-01 00:00:00.990000"), ("NULL", "NULL")]),
    ("ts6", "TIMESTAMP(6) NULL", [("'2000-01-01 00:00:00.999999'", "2000-01-01 00:00:00.999999"), ("NULL", "NULL")]),
    ("ti0", "TIME", [("'-838:59:59'", "-3020399000000"), ("'838:59:59'", "3020399000000")]),
    ("ti1", "TIME(1)", [("'-00:00:00.1'", "-100000"), ("'23:59:59.9'", "86399900000")]),
    ("ti4", "TIME(4)", [("'-00:00:01.9999'", "-1999900"), ("'00:00:00.0001'", "100")]),
    ("ti6", "TIME(6)", [("'-12:00:00.000001'", "-43200000001"), ("'838:59:58.999999'", "3020398999999")]),
    ("c", "CHAR(10)", [("'abc  '", "abc"), ("''", "")]),
    ("cl", "CHAR(255)", [("'ü€😀'", "ü€😀"), ("NULL", "NULL")]),
    ("v", "VARCHAR(20)", [("'trailing  '", "trailing  "), ("''", "")]),
    ("vl", "VARCHAR(300)", [("REPEAT('ü', 300)", "ü*300"), ("'x'", "x")]),
    ("la", "VARCHAR(20) CHARACTER SET latin1", [("'café €'", "café €"), ("_latin1 X'819D'", "\u{81}\u{9d}")]),
    ("cp", "CHAR(8) CHARACTER SET cp1251", [("'Привет'", "Привет"), ("''", "")]),
    ("l2", "TEXT CHARACTER SET latin2", [("'Łódź'", "Łódź"), ("NULL", "NULL")]),
    ("gb", "VARCHAR(9) CHARACTER SET gbk", [("'你好'", "你好"), ("NULL", "NULL")]),
    ("u2", "VARCHAR(9) CHARACTER SET utf16", [("'a😀'", "a😀"), ("''", "")]),
    ("asc1", "VARCHAR(9) CHARACTER SET ascii", [("'~'", "~"), ("''", "")]),
    ("tt", "TINYTEXT", [("'tiny'", "tiny"), ("''", "")]),
    ("tx", "TEXT", [("REPEAT('y', 300)", "y*300"), ("NULL", "NULL")]),
    ("tm", "MEDIUMTEXT", [("'medium'", "medium"), ("NULL", "NULL")]),
    ("tl", "LONGTEXT", [("'long'", "long"), ("NULL", "NULL")]),
    ("bi", "BINARY(5)", [("X'0102000000'", "0102000000"), ("X'00'", "0000000000")]),
    ("vb", "VARBINARY(9)", [("X'00FF00'", "00ff00"), ("''", "")]),
    ("bl", "BLOB", [("X'00FF'", "00ff"), ("NULL", "NULL")]),
    ("lb", "LONGBLOB", [("X'AB'", "ab"), ("NULL", "NULL")]),
    ("en", "ENUM('a','b','it''s') CHARACTER SET latin1", [("'it''s'", "it's"), ("'nonsense'", "")]),
    ("se", "SET('x','y','z') NOT NULL", [("'x,z'", "x,z"), ("''", "")]),
    ("pt", "POINT", [("ST_GeomFromText('POINT(1 2)')", "000000000101000000000000000000f03f0000000000000040"), ("NULL", "NULL")]),
    ("after_pt", "VARCHAR(5) CHARACTER SET latin1", [("'é'", "é"), ("'a'", "a")]),
];

const MARIADB: &[Case] = &[
    (
        "uu",
        "UUID",
        [
            ("'123e4567-e89b-12d3-a456-426655440000'", "123e4567-e89b-12d3-a456-426655440000"),
            ("'6ccd780c-baba-1026-9564-5b8c656024db'", "6ccd780c-baba-1026-9564-5b8c656024db"),
        ],
    ),
    (
        "uu4",
        "UUID",
        [
            ("'f47ac10b-58cc-4372-a567-0e02b2c3d479'", "f47ac10b-58cc-4372-a567-0e02b2c3d479"),
            ("'00000000-0000-0000-0000-000000000000'", "00000000-0000-0000-0000-000000000000"),
        ],
    ),
    (
        "uu7",
        "UUID",
        [
            ("'018f4e9c-1c2d-7abc-8def-0123456789ab'", "018f4e9c-1c2d-7abc-8def-0123456789ab"),
            ("'ffffffff-ffff-ffff-ffff-ffffffffffff'", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
        ],
    ),
    ("i4", "INET4", [("'192.0.2.255'", "192.0.2.255"), ("'0.0.0.0'", "0.0.0.0")]),
    ("i6", "INET6", [("'2001:db8::ff00:42:8329'", "2001:db8::ff00:42:8329"), ("'::ffff:192.0.2.1'", "::ffff:192.0.2.1")]),
    ("i6b", "INET6", [("'::'", "::"), ("'::1'", "::1")]),
    ("i6c", "INET6", [("'::192.0.2.1'", "::192.0.2.1"), ("'1:0:0:2::3'", "1:0:0:2::3")]),
    ("i6d", "INET6", [("'2001:db8:0:1:1:1:1:1'", "2001:db8::1:1:1:1:1"), ("'1::'", "1::")]),
    ("js", "JSON", [("'{\"b\":1, \"a\": 1e2}'", "{\"b\":1, \"a\": 1e2}"), ("NULL", "NULL")]),
    ("vc", "VARCHAR(500) COMPRESSED", [("REPEAT('ab', 200)", "ab*200"), ("'short'", "short")]),
    ("tc", "TEXT COMPRESSED CHARACTER SET latin1", [("REPEAT('é', 300)", "é*300"), ("''", "")]),
    ("bc", "BLOB COMPRESSED", [("X'00'", "00"), ("NULL", "NULL")]),
    ("gv", "INT AS (t + 1) VIRTUAL", [("DEFAULT", "-127"), ("DEFAULT", "128")]),
    ("gs", "INT AS (t + 2) PERSISTENT", [("DEFAULT", "-126"), ("DEFAULT", "129")]),
];

const MARIADB_11: &[Case] = &[
    ("ve", "VECTOR(2)", [("VEC_FromText('[1,-2]')", "0000803f000000c0"), ("NULL", "NULL")]),
    ("late", "TIMESTAMP NULL", [("'2106-02-07 06:28:15'", "2106-02-07 06:28:15.000000"), ("NULL", "NULL")]),
    ("uca", "VARCHAR(9) COLLATE uca1400_as_cs", [("'ü'", "ü"), ("''", "")]),
];

const MYSQL: &[Case] = &[
    (
        "js",
        "JSON",
        [
            (
                "'{\"b\": 1, \"a\": [1.0, 1e100, 1e-5, -0.0, \"\\\\u00e9\\\\n\\\\u0001\\\\\"\", null, true, {}], \"\": 18446744073709551615}'",
                "",
            ),
            ("'null'", "null"),
        ],
    ),
    (
        "jo",
        "JSON",
        [
            (
                "JSON_ARRAY(CAST(1.50 AS DECIMAL(5,2)), DATE'2024-02-29', TIME'-10:11:12.5', TIMESTAMP'2024-02-29 01:02:03.000004', X'00FF', 100000, -40000, 3000000000, -3000000000, 123456789.125, 1e15, 1e16, 0.00001)",
                "",
            ),
            ("'[]'", "[]"),
        ],
    ),
    ("jl", "JSON", [("JSON_OBJECT('long', REPEAT('x', 70000), 'n', 1)", ""), ("NULL", "NULL")]),
    ("gv", "INT AS (t + 1) VIRTUAL", [("DEFAULT", "-127"), ("DEFAULT", "128")]),
    ("gs", "INT AS (t + 2) STORED", [("DEFAULT", "-126"), ("DEFAULT", "129")]),
    ("ve", "VECTOR(2)", [("STRING_TO_VECTOR('[1,-2]')", "0000803f000000c0"), ("NULL", "NULL")]),
    ("after_ve", "VARCHAR(5) CHARACTER SET latin1", [("'é'", "é"), ("'a'", "a")]),
    ("inv", "INT INVISIBLE", [("7", "7"), ("NULL", "NULL")]),
];

/// `x*3` stands for xxx.
fn spread(text: &str) -> String {
    match text.split_once('*') {
        Some((unit, times)) => unit.repeat(times.parse().unwrap()),
        None => text.to_owned(),
    }
}

async fn every_type(flavour: Flavour, own: &[Case]) {
    let Some(mut world) = World::new(flavour, "types").await else { return };
    let cases: Vec<&Case> = COMMON.iter().chain(own).collect();
    let columns: Vec<String> = cases.iter().map(|(name, ty, _)| format!("`{name}` {ty}")).collect();
    world.run(&format!("CREATE TABLE t (id INT PRIMARY KEY, {}) ROW_FORMAT=DYNAMIC", columns.join(", "))).await;
    let mut engine = world.engine(&["t"]);
    let (from, tables) = engine.pinned(&world.ids(&["t"])).await.unwrap();
    let mut stream = engine.stream(&from, tables.clone()).await.unwrap();
    let names: Vec<String> = cases.iter().map(|(name, ..)| format!("`{name}`")).collect();
    for row in 0..2 {
        let values: Vec<&str> = cases.iter().map(|(_, _, values)| values[row].0).collect();
        world.run(&format!("INSERT INTO t (id, {}) VALUES ({row}, {})", names.join(", "), values.join(", "))).await;
    }
    let (end, _) = engine.end().await.unwrap();
    let heard = hear(&mut stream, &mut by_table(&tables), &end).await.unwrap();
    assert_eq!(heard.stands, Vec::<String>::new());
    let copied = copy(&engine, &published(&tables[0]), &end).await.unwrap();
    assert_eq!((heard.rows.len(), copied.len()), (2, 2));
    let fields = published(&tables[0]).rows.fields;
    for row in 0..2 {
        let (streamed, copied) = (&heard.rows[row], &copied[row]);
        let shown = show(&fields, streamed.after.as_ref().unwrap());
        let from_copy = show(&fields, copied.after.as_ref().unwrap());
        for (name, _, values) in &cases {
            if !values[row].1.is_empty() || values[row].0 == "''" {
                assert_eq!(shown[*name], spread(values[row].1), "{name}, row {row}, streamed");
            }
            assert_eq!(from_copy[*name], shown[*name], "{name}, row {row}: copied and streamed");
        }
        assert_eq!(streamed.after, copied.after);
        assert_eq!(streamed.key, copied.key);
    }
    drop(stream);
}

#[tokio::test]
async fn every_type_of_mariadb_is_the_same_in_copy_and_stream() {
    every_type(Flavour::MariaDb, MARIADB).await;
}

#[tokio::test]
async fn every_type_of_mariadb_11_is_the_same_in_copy_and_stream() {
    let own = [MARIADB, MARIADB_11].concat();
    every_type(Flavour::MariaDb11, &own).await;
}

#[tokio::test]
async fn every_type_of_mysql_is_the_same_in_copy_and_stream() {
    every_type(Flavour::MySql, MYSQL).await;
}

const CHARSETS: &str = "SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS WHERE CHARACTER_SET_NAME <> 'binary' ORDER BY 1";

/// Every character that a set of the server has: as the server shows it, in copy and stream.
async fn charsets(flavour: Flavour) {
    use mysql_async::prelude::Queryable;
    let Some(mut world) = World::new(flavour, "charsets").await else { return };
    let sets: Vec<String> = world.conn.query(CHARSETS).await.unwrap();
    let columns: Vec<String> = sets.iter().map(|set| format!("c_{set} MEDIUMTEXT CHARACTER SET {set}")).collect();
    world.run(&format!("CREATE TABLE t (id INT PRIMARY KEY, {})", columns.join(", "))).await;
    let mut engine = world.engine(&["t"]);
    let (from, tables) = engine.pinned(&world.ids(&["t"])).await.unwrap();
    let mut stream = engine.stream(&from, tables.clone()).await.unwrap();
    // The server puts a question mark where a set lacks a character. Few sets have any above U+FFFF.
    let all: Vec<char> = (1..=0x1_0fff).filter_map(char::from_u32).chain(['\u{20000}', '\u{10ffff}']).collect();
    let texts: Vec<String> = all.chunks(8192).map(|part| part.iter().collect()).collect();
    for (row, text) in texts.iter().enumerate() {
        let columns = vec!["@text"; sets.len()].join(", ");
        let hex: String = text.bytes().map(|byte| format!("{byte:02X}")).collect();
        world.run(&format!("SET @text = CONVERT(X'{hex}' USING utf8mb4)")).await;
        world.run(&format!("INSERT INTO t VALUES ({row}, {columns})")).await;
    }
    let (end, _) = engine.end().await.unwrap();
    let heard = hear(&mut stream, &mut by_table(&tables), &end).await.unwrap();
    assert_eq!(heard.stands, Vec::<String>::new());
    let copied = copy(&engine, &published(&tables[0]), &end).await.unwrap();
    assert_eq!((heard.rows.len(), copied.len()), (texts.len(), texts.len()));
    let fields = published(&tables[0]).rows.fields;
    for (row, streamed) in heard.rows.iter().enumerate() {
        assert!(streamed.after == copied[row].after, "row {row}: copied and streamed differ");
        let shown = show(&fields, streamed.after.as_ref().unwrap());
        for set in &sets {
            let server: String =
                world.conn.query_first(format!("SELECT CONVERT(c_{set} USING utf8mb4) FROM t WHERE id = {row}")).await.unwrap().unwrap();
            let difference = shown[&format!("c_{set}")].chars().zip(server.chars()).find(|(ours, theirs)| ours != theirs);
            assert_eq!((difference, shown[&format!("c_{set}")].len()), (None, server.len()), "{set}, row {row}");
        }
    }
    drop(stream);
}

#[tokio::test]
async fn every_character_of_every_set_of_mariadb_is_what_the_server_shows() {
    charsets(Flavour::MariaDb).await;
}

#[tokio::test]
async fn every_character_of_every_set_of_mariadb_11_is_what_the_server_shows() {
    charsets(Flavour::MariaDb11).await;
}

#[tokio::test]
async fn every_character_of_every_set_of_mysql_is_what_the_server_shows() {
    charsets(Flavour::MySql).await;
}

/// Characters of which the set has two are carried; bytes that are none stop, though the server shows something for them.
async fn unusual_bytes(flavour: Flavour) {
    use mysql_async::prelude::Queryable;
    let Some(mut world) = World::new(flavour, "unusual_bytes").await else { return };
    world.run("CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(9) CHARACTER SET cp932, s VARCHAR(9) CHARACTER SET sjis)").await;
    let mut engine = world.engine(&["t"]);
    let (from, tables) = engine.pinned(&world.ids(&["t"])).await.unwrap();
    let mut stream = engine.stream(&from, tables.clone()).await.unwrap();
    // NEC's and IBM's places of one character.
    world.run("INSERT INTO t VALUES (1, _cp932 X'81CA879AEEF9FA54', _sjis X'815F5C')").await;
    let (end, _) = engine.end().await.unwrap();
    let heard = hear(&mut stream, &mut by_table(&tables), &end).await.unwrap();
    let shown = show(&published(&tables[0]).rows.fields, heard.rows[0].after.as_ref().unwrap());
    let (c, s): (String, String) = world.conn.query_first("SELECT c, s FROM t").await.unwrap().unwrap();
    assert_eq!((shown["c"].as_str(), shown["s"].as_str()), (c.as_str(), s.as_str()));
    assert_eq!(shown["c"].chars().count(), 4);
    drop(stream);
    // Each type, a value that is no text in Unicode, and the place of its first byte that is none.
    let all = [
        ("VARCHAR(9) CHARACTER SET sjis", "_sjis X'61EFFC'", "(0xef at byte 1)"),
        ("TEXT CHARACTER SET ucs2", "X'0061D83DDE00'", "(0xd8 at byte 2)"),
    ];
    let mariadb = [
        ("VARCHAR(9) CHARACTER SET utf8mb3", "CONVERT(X'61EDA080' USING utf8mb3)", "(0xed at byte 1)"),
        ("VARCHAR(9) CHARACTER SET utf32", "CONVERT(X'0000D83D' USING utf32)", "(0x00 at byte 0)"),
    ];
    for (declaration, value, place) in all.iter().chain(mariadb.iter().filter(|_| flavour != Flavour::MySql)) {
        world.run("DROP TABLE IF EXISTS u").await;
        world.run(&format!("CREATE TABLE u (id INT PRIMARY KEY, c {declaration})")).await;
        let mut engine = world.engine(&["u"]);
        let (from, tables) = engine.pinned(&world.ids(&["u"])).await.unwrap();
        let mut stream = engine.stream(&from, tables.clone()).await.unwrap();
        world.run(&format!("INSERT INTO u VALUES (2, {value})")).await;
        let (end, _) = engine.end().await.unwrap();
        let stopped = hear(&mut stream, &mut by_table(&tables), &end).await.unwrap_err().to_string();
        let copied = copy(&engine, &published(&tables[0]), &end).await.unwrap_err().to_string();
        for message in [stopped, copied] {
            assert!(message.contains("it_unusual_bytes.u, column `c`, row id=2") && message.contains(place), "{declaration}: {message}");
        }
        drop(stream);
    }
}

#[tokio::test]
async fn bytes_of_mariadb_that_are_no_character_stop_before_their_row() {
    unusual_bytes(Flavour::MariaDb).await;
}

#[tokio::test]
async fn bytes_of_mariadb_11_that_are_no_character_stop_before_their_row() {
    unusual_bytes(Flavour::MariaDb11).await;
}

#[tokio::test]
async fn bytes_of_mysql_that_are_no_character_stop_before_their_row() {
    unusual_bytes(Flavour::MySql).await;
}

/// JSON in the log is printed exactly as the server prints it.
#[tokio::test]
async fn json_of_mysql_is_printed_as_the_server_prints_it() {
    use mysql_async::prelude::Queryable;
    let Some(mut world) = World::new(Flavour::MySql, "json").await else { return };
    world.run("CREATE TABLE t (id INT PRIMARY KEY, j JSON)").await;
    let mut engine = world.engine(&["t"]);
    let (from, tables) = engine.pinned(&world.ids(&["t"])).await.unwrap();
    let mut stream = engine.stream(&from, tables.clone()).await.unwrap();
    let numbers = "0.1, 1e14, 1e15, 1e16, 123456789012345678, 1.5e300, 1e-4, 1e-5, 1e-15, 1e-16, 4.9e-324, -0.0, 0.3, 100.0, 12345.678, 1e22, 9007199254740993.0";
    for sql in [
        format!("'[{numbers}]'"),
        "'\"\\\\u0000\\\\u001f\\\\b\\\\f\\\\t\\\\/ü😀\\\\\\\\\"'".into(),
        "JSON_ARRAY(CAST(-0.5 AS DECIMAL(3,2)), CAST(12345678901234567890.123 AS DECIMAL(30,3)), DATE'2024-02-29', TIME'-800:11:12.5', TIMESTAMP'2024-02-29 01:02:03', X'00FF', b'101', 1.5e0)".into(),
        "JSON_OBJECT('k', REPEAT('v', 70000), 'a', JSON_ARRAY(1, 70000, -70000, 5000000000), 'b', JSON_OBJECT())".into(),
        "CAST(1 AS JSON)".into(),
        "'true'".into(),
    ] {
        world.run(&format!("INSERT INTO t SELECT COUNT(*), {sql} FROM t")).await;
    }
    let (end, _) = engine.end().await.unwrap();
    let heard = hear(&mut stream, &mut by_table(&tables), &end).await.unwrap();
    let fields = published(&tables[0]).rows.fields;
    let server: Vec<String> = world.conn.query("SELECT CAST(j AS CHAR) FROM t ORDER BY id").await.unwrap();
    let ours: Vec<String> = heard.rows.iter().map(|row| show(&fields, row.after.as_ref().unwrap())["j"].clone()).collect();
    for (ours, server) in ours.iter().zip(&server) {
        assert_eq!(ours, server);
    }
    assert_eq!(ours.len(), server.len());
    drop(stream);
}
