//! Shapes that MySQL statements lead to: identity of columns, row keys, and the catalog's text against the log's.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeMap, sync::Arc};

use schemas::{
    change::{Fill, Kind, SchemaChange},
    charset::{Charsets, Table as Characters},
    ddl::mysql::{Context, Effect, Parsed, Refusal, apply, parse, table_from_create},
    native::{Native, mysql},
    table::{ColumnId, Default, Table, TableId},
    value::Value,
};

fn context(mariadb: bool) -> Context {
    let mut context = Context::new(mariadb, if mariadb { 101_119 } else { 80_035 });
    context.default_database = "shop".into();
    context
}

fn table(text: &str) -> Table {
    table_from_create(text.as_bytes(), &context(true)).unwrap()
}

fn run_in(context: &Context, tables: &[Table], text: &str) -> Result<Vec<Effect>, Refusal> {
    let known: BTreeMap<TableId, Table> = tables.iter().map(|table| (table.id.clone(), table.clone())).collect();
    match parse(text.as_bytes(), context) {
        Parsed::Tables(statement) => apply(&statement, context, &known),
        other => panic!("{text} is {other:?}"),
    }
}

fn altered(before: &Table, text: &str) -> Effect {
    run_in(&context(true), std::slice::from_ref(before), text).unwrap().remove(0)
}

fn named_ids(table: &Table) -> Vec<(&str, u32)> {
    table.columns.iter().map(|column| (column.name.as_str(), column.id.0)).collect()
}

fn kinds(effect: &Effect) -> Vec<Kind> {
    effect.changes.iter().map(SchemaChange::kind).collect()
}

#[test]
fn two_columns_that_exchange_names_keep_their_identity() {
    let lens = table("CREATE TABLE lens (id INT PRIMARY KEY, near INT, far INT)");
    for text in [
        "ALTER TABLE lens CHANGE near far INT, CHANGE far near INT",
        "ALTER TABLE lens RENAME COLUMN near TO far, RENAME COLUMN far TO near",
    ] {
        let effect = altered(&lens, text);
        assert_eq!(named_ids(effect.shape.as_ref().unwrap()), [("id", 0), ("far", 1), ("near", 2)]);
        assert_eq!(kinds(&effect), [Kind::RenameColumn, Kind::RenameColumn]);
    }
}

#[test]
fn a_column_dropped_and_added_again_is_another_one() {
    let before = table("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)");
    let effect = altered(&before, "ALTER TABLE t DROP COLUMN a, ADD COLUMN a INT AFTER id");
    let shape = effect.shape.as_ref().unwrap();
    assert_eq!(named_ids(shape), [("id", 0), ("a", 3), ("b", 2)]);
    assert_eq!(shape.next_column, 4);
    assert_eq!(kinds(&effect), [Kind::DropColumn, Kind::AddColumnNullable]);
}

#[test]
fn a_statement_gives_a_type_change_the_class_that_two_shapes_give_it() {
    let mut before = table("CREATE TABLE t (id INT PRIMARY KEY, d DATETIME(3), z INT UNSIGNED ZEROFILL, v VARCHAR(20), b VARBINARY(300))");
    let class = |before: &Table, text: &str| kinds(&altered(before, text));
    for (clause, kind) in [
        ("MODIFY d DATETIME(6)", Kind::Lengthen),
        // One server rounds the digits that go, another cuts them.
        ("MODIFY d DATETIME", Kind::ChangeType),
        ("MODIFY z BIGINT UNSIGNED", Kind::WidenInteger),
        ("MODIFY v TEXT", Kind::Lengthen),
        ("MODIFY v VARCHAR(9)", Kind::Shorten),
        ("MODIFY b TINYBLOB", Kind::ChangeType),
        ("MODIFY b BLOB", Kind::Lengthen),
    ] {
        assert_eq!(class(&before, &format!("ALTER TABLE t {clause}")), [kind], "{clause}");
    }
    // Published as text: what prints the values that are there otherwise is another type.
    before.columns.iter_mut().for_each(|column| column.as_text = true);
    for clause in ["MODIFY d DATETIME(6)", "MODIFY z INT UNSIGNED"] {
        assert_eq!(class(&before, &format!("ALTER TABLE t {clause}")), [Kind::ChangeType], "{clause}");
    }
}

#[test]
fn an_index_over_beginnings_goes_with_its_column_and_is_not_taken_for_a_whole_one() {
    let before = table("CREATE TABLE t (id INT, v VARCHAR(20) NOT NULL, b BLOB NOT NULL, UNIQUE pv (v(5)), UNIQUE pb (b(10)))");
    let after = altered(&before, "ALTER TABLE t DROP b").shape.unwrap();
    assert_eq!(after.unique.iter().map(|index| index.name.as_str()).collect::<Vec<_>>(), ["pv"]);
    assert_eq!(altered(&after, "ALTER TABLE t ADD UNIQUE pb (id)").shape.unwrap().unique.len(), 2);
    // The server has a whole index over v then, and rows are told apart by it.
    let refused = run_in(&context(true), std::slice::from_ref(&before), "ALTER TABLE t MODIFY v VARCHAR(5) NOT NULL").unwrap_err();
    assert!(refused.why.contains("unique index pv is over the beginning of a column whose type changes"), "{}", refused.why);
    let keyed = altered(&before, "ALTER TABLE t ADD PRIMARY KEY (id)").shape.unwrap();
    assert_eq!(kinds(&altered(&keyed, "ALTER TABLE t MODIFY v VARCHAR(5) NOT NULL")), [Kind::Shorten]);
}

#[test]
fn columns_are_put_one_clause_after_another_each_behind_what_stands_there_then() {
    let before = table("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c INT, d INT)");
    for (clauses, order) in [
        ("MODIFY a BIGINT AFTER bb, CHANGE b bb INT FIRST", ["bb", "id", "a", "c", "d"]),
        ("MODIFY a INT AFTER d, MODIFY d INT FIRST", ["d", "id", "b", "c", "a"]),
        ("MODIFY a INT AFTER d, MODIFY d INT AFTER c, MODIFY c INT FIRST", ["c", "id", "b", "d", "a"]),
        ("MODIFY d INT AFTER c, MODIFY c INT AFTER d", ["id", "a", "b", "d", "c"]),
        ("ADD z INT AFTER a, MODIFY a INT FIRST, DROP d", ["a", "id", "z", "b", "c"]),
    ] {
        let shape = altered(&before, &format!("ALTER TABLE t {clauses}")).shape.unwrap();
        assert_eq!(shape.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), order, "{clauses}");
    }
}

#[test]
fn a_key_goes_over_to_an_added_column_of_the_old_name() {
    let before = table("CREATE TABLE t (a INT NOT NULL, b INT, PRIMARY KEY (b), UNIQUE u (a))");
    let effect = altered(&before, "ALTER TABLE t DROP COLUMN b, ADD b INT");
    let shape = effect.shape.as_ref().unwrap();
    assert_eq!(shape.row_key().unwrap().columns, [ColumnId(2)]);
    assert!(!shape.column("b").unwrap().nullable);
    assert_eq!(kinds(&effect), [Kind::DropKeyColumn, Kind::AddColumnImplicitDefault, Kind::ChangeKey]);
    let effect = altered(&before, "ALTER TABLE t RENAME COLUMN a TO c, ADD a INT FIRST");
    assert_eq!(effect.shape.unwrap().unique[0].columns, [ColumnId(2)]);
}

#[test]
fn a_primary_key_keeps_its_columns_not_null_as_long_as_it_stays() {
    let before = table("CREATE TABLE t (id INT PRIMARY KEY, a INT)");
    assert!(!altered(&before, "ALTER TABLE t MODIFY id BIGINT").shape.unwrap().column("id").unwrap().nullable);
    let effect = altered(&before, "ALTER TABLE t DROP PRIMARY KEY, MODIFY id BIGINT");
    assert!(effect.shape.unwrap().column("id").unwrap().nullable);
    let effect = altered(&before, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a)");
    let shape = effect.shape.as_ref().unwrap();
    assert_eq!((shape.column("id").unwrap().nullable, shape.column("a").unwrap().nullable), (false, false));
    assert_eq!(kinds(&effect), [Kind::SetNotNull, Kind::ChangeKey]);
}

#[test]
fn the_row_key_is_the_first_unique_index_without_nullable_columns() {
    let shape = table("CREATE TABLE t (a INT, b INT NOT NULL, c INT NOT NULL, UNIQUE ua (a), UNIQUE pb (b), UNIQUE pc (c))");
    let key = shape.row_key().unwrap();
    assert_eq!((key.name.as_str(), key.primary, key.columns), ("pb", false, vec![ColumnId(1)]));
    let shape = table("CREATE TABLE t (a VARCHAR(20) NOT NULL, UNIQUE part (a(5)))");
    assert_eq!(shape.row_key(), None);
    let whole = table("CREATE TABLE t (a VARCHAR(20) NOT NULL, UNIQUE part (a(20)))");
    assert_eq!(whole.row_key().unwrap().name, "part");
    let effect = altered(&table("CREATE TABLE t (a INT, UNIQUE (a))"), "ALTER TABLE t MODIFY a INT NOT NULL");
    assert_eq!(kinds(&effect), [Kind::SetNotNull, Kind::ChangeKey]);
}

#[test]
fn indexes_without_a_name_get_the_servers() {
    let shape =
        table("CREATE TABLE t (a INT KEY, b INT UNIQUE, c INT UNIQUE KEY, d INT NOT NULL UNIQUE, UNIQUE (c), KEY (c), UNIQUE e2 (c))");
    let unique: Vec<&str> = shape.unique.iter().map(|index| index.name.as_str()).collect();
    assert_eq!(unique, ["d", "b", "c", "c_2", "e2"]);
    assert_eq!(shape.indexes[0].name, "c_3");
    let effect = altered(&shape, "ALTER TABLE t DROP INDEX c_2, ADD UNIQUE INDEX IF NOT EXISTS c_3 (b)");
    assert_eq!(effect.shape.unwrap().unique.len(), 4);
}

#[test]
fn both_servers_catalog_text_and_the_users_statement_give_one_shape() {
    let user = "CREATE TABLE syn (id INTEGER PRIMARY KEY, a INTEGER UNSIGNED, b INT4, c MIDDLEINT, d REAL, e DOUBLE PRECISION, f DEC(6,2), g FIXED(6,2), \
        h NATIONAL VARCHAR(10), i NCHAR(3), j CHARACTER VARYING(9), k BOOL, l LONG VARCHAR, m VARCHAR(9) DEFAULT 5, n DATETIME DEFAULT NOW()) CHARSET latin1";
    let mariadb = "CREATE TABLE `syn` (\n  `id` int(11) NOT NULL,\n  `a` int(10) unsigned DEFAULT NULL,\n  `b` int(11) DEFAULT NULL,\n  `c` mediumint(9) DEFAULT NULL,\n  \
        `d` double DEFAULT NULL,\n  `e` double DEFAULT NULL,\n  `f` decimal(6,2) DEFAULT NULL,\n  `g` decimal(6,2) DEFAULT NULL,\n  \
        `h` varchar(10) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci DEFAULT NULL,\n  `i` char(3) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci DEFAULT NULL,\n  \
        `j` varchar(9) DEFAULT NULL,\n  `k` tinyint(1) DEFAULT NULL,\n  `l` mediumtext DEFAULT NULL,\n  `m` varchar(9) DEFAULT '5',\n  \
        `n` datetime DEFAULT current_timestamp(),\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci";
    let mysql = "CREATE TABLE `syn` (\n  `id` int NOT NULL,\n  `a` int unsigned DEFAULT NULL,\n  `b` int DEFAULT NULL,\n  `c` mediumint DEFAULT NULL,\n  \
        `d` double DEFAULT NULL,\n  `e` double DEFAULT NULL,\n  `f` decimal(6,2) DEFAULT NULL,\n  `g` decimal(6,2) DEFAULT NULL,\n  \
        `h` varchar(10) CHARACTER SET utf8mb3 DEFAULT NULL,\n  `i` char(3) CHARACTER SET utf8mb3 DEFAULT NULL,\n  \
        `j` varchar(9) DEFAULT NULL,\n  `k` tinyint(1) DEFAULT NULL,\n  `l` mediumtext,\n  `m` varchar(9) DEFAULT '5',\n  \
        `n` datetime DEFAULT CURRENT_TIMESTAMP,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB DEFAULT CHARSET=latin1";
    let shape = table(user);
    assert_eq!(table(mariadb), shape);
    assert_eq!(table_from_create(user.as_bytes(), &context(false)).unwrap(), shape);
    assert_eq!(table_from_create(mysql.as_bytes(), &context(false)).unwrap(), shape);
    assert_eq!(shape.column("m").unwrap().default, Some(Default::Constant(Value::Text("5".into()))));
    assert_eq!(
        shape.column("k").unwrap().native,
        Native::MySql(mysql::Native::Integer { bits: 8, unsigned: false, zerofill: false, width: Some(1) })
    );
}

#[test]
fn the_default_collation_of_utf8mb4_is_the_servers_own() {
    let text = b"CREATE TABLE t (s VARCHAR(9)) CHARSET utf8mb4";
    let collation = |context: &Context| table_from_create(text, context).unwrap().collation.unwrap();
    assert_eq!(collation(&context(true)), "utf8mb4_general_ci");
    assert_eq!(collation(&context(false)), "utf8mb4_0900_ai_ci");
    assert_eq!(collation(&Context { version: 110_802, ..context(true) }), "utf8mb4_uca1400_ai_ci");
    let own = BTreeMap::from([("utf8mb4".to_owned(), "utf8mb4_bin".to_owned())]);
    assert_eq!(collation(&Context { charset_collations: own, ..context(false) }), "utf8mb4_bin");
}

#[test]
fn a_literal_with_fewer_bytes_than_a_character_begins_with_zeros() {
    for (column, text) in [
        ("VARCHAR(9) CHARACTER SET ucs2 DEFAULT x'41'", "A"),
        ("VARCHAR(9) CHARACTER SET ucs2 DEFAULT x'014142'", "\u{1}\u{4142}"),
        ("VARCHAR(9) CHARACTER SET ucs2 DEFAULT b'1000001'", "A"),
        ("VARCHAR(9) CHARACTER SET utf16le DEFAULT x'41'", "\u{4100}"),
        ("VARCHAR(9) CHARACTER SET utf32 DEFAULT x'4142'", "\u{4142}"),
        ("VARCHAR(9) CHARACTER SET utf8mb4 DEFAULT _ucs2 x'41'", "A"),
        ("VARCHAR(9) CHARACTER SET utf8mb4 DEFAULT _utf32'A'", "A"),
        ("ENUM(x'41','B') CHARACTER SET ucs2 DEFAULT 'A'", "A"),
    ] {
        let shape = table(&format!("CREATE TABLE t (c {column})"));
        assert_eq!(shape.column("c").unwrap().default, Some(Default::Constant(Value::Text(text.into()))), "{column}");
    }
}

#[test]
fn a_text_in_another_client_charset_is_read_in_it() {
    let before = table("CREATE TABLE t (id INT)");
    let known = BTreeMap::from([(before.id.clone(), before)]);
    let mut charsets = Charsets::default();
    let ascii = (0..0x80).map(|byte| (vec![byte], char::from(byte)));
    // The second byte of this character is a backslash.
    charsets.add("sjis", Characters::new(ascii.chain([(b"\x95\x5c".to_vec(), '表')])));
    let charsets = Arc::new(charsets);
    let context = |charset: &str| Context {
        charset: charset.into(),
        connection_charset: charset.into(),
        charsets: Arc::clone(&charsets),
        ..context(true)
    };
    let fill = |charset: &str, text: &[u8]| {
        let context = context(charset);
        let Parsed::Tables(statement) = parse(text, &context) else { panic!("not read") };
        match apply(&statement, &context, &known).unwrap().remove(0).changes.remove(0) {
            SchemaChange::AddColumn { column, fill: Fill::Constant(value) } => (column.name, value),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(fill("latin1", b"ALTER TABLE t ADD \xe4 VARCHAR(9) NOT NULL DEFAULT '\xe9'"), ("ä".into(), Value::Text("é".into())));
    assert_eq!(fill("sjis", b"ALTER TABLE t ADD a VARCHAR(9) NOT NULL DEFAULT '\x95\x5c'"), ("a".into(), Value::Text("表".into())));
    assert_eq!(
        fill("utf8mb4", b"ALTER TABLE t ADD a VARBINARY(9) NOT NULL DEFAULT _binary'\xff\\0'"),
        ("a".into(), Value::Bytes(vec![255, 0]))
    );
    assert_eq!(fill("latin1", b"ALTER TABLE t ADD a VARBINARY(9) NOT NULL DEFAULT '\xe9'"), ("a".into(), Value::Bytes(vec![0xe9])));
    assert_eq!(
        fill("sjis", b"ALTER TABLE t ADD a VARCHAR(9) NOT NULL DEFAULT '\x95\x5c' COMMENT '\x95\x5c'"),
        ("a".into(), Value::Text("表".into()))
    );
    for (charset, text) in [
        ("sjis", &b"ALTER TABLE t ADD a INT COMMENT '\x95\x5d'"[..]),
        // The text is made UTF-8, and the bytes of the string are not kept.
        ("sjis", b"ALTER TABLE t ADD a VARBINARY(9) NOT NULL DEFAULT _binary'\x95\x5c'"),
        ("big5", b"ALTER TABLE t ADD a INT COMMENT '\xa4\xa4'"),
    ] {
        let parsed = parse(text, &context(charset));
        assert!(matches!(parsed, Parsed::Unknown { .. }), "{parsed:?}");
    }
}

#[test]
fn what_is_not_understood_names_every_table_it_may_touch() {
    let unknown = |text: &str| match parse(text.as_bytes(), &context(true)) {
        Parsed::Unknown { tables, .. } => tables.iter().map(ToString::to_string).collect::<Vec<_>>(),
        other => panic!("{text} is {other:?}"),
    };
    assert_eq!(unknown("ALTER TABLE a FLY, RENAME TO b"), ["shop.a", "shop.b"]);
    assert!(unknown("SHUFFLE ROWS OF x.y, z").iter().any(|table| table == "x.y"));
    assert!(unknown("ALTER TABLE a ADD b INT; DROP TABLE c").contains(&"shop.c".to_owned()));
    let refusal = run_in(&context(true), &[], "RENAME TABLE a TO b, c TO d").unwrap_err();
    assert_eq!(refusal.tables.len(), 4);
}

#[test]
fn names_compare_as_the_server_compares_them() {
    let before = table("CREATE TABLE Crate (id INT PRIMARY KEY, Label VARCHAR(9))");
    let lower = Context { lower_case_table_names: 2, ..context(true) };
    assert_eq!(run_in(&lower, std::slice::from_ref(&before), "ALTER TABLE crate DROP label").unwrap()[0].id.name, "Crate");
    assert!(run_in(&context(true), std::slice::from_ref(&before), "ALTER TABLE crate DROP label").is_err());
    let folded = Context { lower_case_table_names: 1, ..context(true) };
    assert_eq!(table_from_create(b"CREATE TABLE SHOP.Crate (id INT)", &folded).unwrap().id, TableId::new("shop", "crate"));
}
