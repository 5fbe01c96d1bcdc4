use super::*;
use crate::{
    change::Kind,
    native::{mysql, postgres},
    table::{Default, TableId, UniqueIndex},
    value::Value,
};

fn int(id: u32, name: &str) -> Column {
    Column::new(id, name, Native::MySql(mysql::Native::Integer { bits: 32, unsigned: false, zerofill: false, width: None }))
}

fn varchar(id: u32, name: &str, length: u32, charset: &str) -> Column {
    let charset = mysql::Charset { charset: charset.into(), collation: format!("{charset}_bin") };
    Column::new(id, name, Native::MySql(mysql::Native::VarChar { length, charset, compressed: false }))
}

fn table(columns: Vec<Column>) -> Table {
    Table::new(TableId::new("shop", "lens"), columns, &["id"])
}

fn kinds(changes: &[SchemaChange]) -> Vec<Kind> {
    changes.iter().map(SchemaChange::kind).collect()
}

#[test]
fn equal_shapes_differ_in_nothing() {
    let shape = table(vec![int(0, "id").not_null(), varchar(1, "a", 9, "utf8mb4")]);
    assert_eq!(diff(&shape, &shape), []);
}

#[test]
fn two_columns_that_exchange_names_are_two_renames() {
    let before = table(vec![int(0, "id").not_null(), int(1, "near"), int(2, "far")]);
    let after = table(vec![int(0, "id").not_null(), int(1, "far"), int(2, "near")]);
    let changes = diff(&before, &after);
    assert_eq!(kinds(&changes), [Kind::RenameColumn, Kind::RenameColumn]);
    assert_eq!(changes[0].column(), Some("near"));
}

#[test]
fn a_column_dropped_and_added_again_is_two_columns() {
    let before = table(vec![int(0, "id").not_null(), int(1, "memo")]);
    let after = table(vec![int(0, "id").not_null(), int(2, "memo")]);
    assert_eq!(kinds(&diff(&before, &after)), [Kind::AddColumnNullable, Kind::DropColumn]);
}

#[test]
fn one_column_that_moves_is_one_change() {
    let before = table(vec![int(0, "id").not_null(), int(1, "a"), int(2, "b"), int(3, "c")]);
    let after = table(vec![int(0, "id").not_null(), int(3, "c"), int(1, "a"), int(2, "b")]);
    assert_eq!(diff(&before, &after), [SchemaChange::ReorderColumn { column: "c".into() }]);
}

#[test]
fn an_added_column_between_two_moves_nothing() {
    let before = table(vec![int(0, "id").not_null(), int(1, "a")]);
    let after = table(vec![int(0, "id").not_null(), int(2, "z"), int(1, "a")]);
    assert_eq!(kinds(&diff(&before, &after)), [Kind::AddColumnNullable]);
}

#[test]
fn every_property_of_a_column_is_a_change_of_its_own() {
    let old = varchar(1, "a", 9, "latin1");
    let mut new = varchar(1, "b", 12, "utf8mb4").not_null();
    new.default = Some(Default::Constant(Value::Text("x".into())));
    new.comment = "was a".into();
    let changes = diff(&table(vec![int(0, "id").not_null(), old]), &table(vec![int(0, "id").not_null(), new]));
    assert_eq!(
        kinds(&changes),
        [
            Kind::RenameColumn,
            Kind::Lengthen,
            Kind::ChangeCharset,
            Kind::ChangeCollation,
            Kind::SetNotNull,
            Kind::ChangeDefault,
            Kind::ChangeComment
        ]
    );
}

#[test]
fn a_key_change_names_both_keys() {
    let columns = || vec![int(0, "id").not_null(), int(1, "seat").not_null()];
    let mut after = table(columns());
    if let Some(key) = &mut after.primary {
        key.columns.push(ColumnId(1));
    }
    let changes = diff(&table(columns()), &after);
    assert!(
        matches!(&changes[..], [SchemaChange::ChangeKey { before_names, after_names, .. }]
            if before_names == &["id"] && after_names == &["id", "seat"]),
        "{changes:?}"
    );
}

#[test]
fn a_unique_index_that_becomes_the_primary_key_leaves_the_row_key_alone() {
    let columns = || vec![int(0, "id").not_null()];
    let mut before = Table::new(TableId::new("shop", "lens"), columns(), &[]);
    before.unique = vec![UniqueIndex { name: "uk".into(), columns: vec![ColumnId(0)], partial: false }];
    let mut after = table(columns());
    after.unique = before.unique.clone();
    assert_eq!(diff(&before, &after), [SchemaChange::ChangeIndex { name: "PRIMARY".into() }]);
}

#[test]
fn an_added_column_is_filled_as_its_declaration_says() {
    let mut constant = int(1, "a");
    constant.default = Some(Default::Constant(Value::Integer(5)));
    assert_eq!(fill(&constant), crate::change::Fill::Constant(Value::Integer(5)));
    assert_eq!(fill(&int(1, "a")), crate::change::Fill::Null);
    assert_eq!(fill(&int(1, "a").not_null()), crate::change::Fill::Implicit(Value::Integer(0)));
    let date = Column::new(1, "d", Native::MySql(mysql::Native::Date)).not_null();
    assert_eq!(fill(&date), crate::change::Fill::Implicit(Value::Text("0000-00-00".into())));
}

/// As a MariaDB 10.11 shows them in a row that was there.
#[test]
fn not_null_without_a_default_is_filled_as_the_server_fills_it() {
    use mysql::{LobSize, Native as N};
    let charset = || mysql::Charset { charset: "utf8mb4".into(), collation: "utf8mb4_bin".into() };
    let labels = || vec!["x".to_owned(), "y".to_owned()];
    let text = |text: &str| Value::Text(text.into());
    for (native, value) in [
        (N::Integer { bits: 8, unsigned: false, zerofill: false, width: None }, Value::Integer(0)),
        (N::Decimal { precision: 5, scale: 2, unsigned: false }, Value::Decimal("0.00".into())),
        (N::Float { unsigned: false, digits: None }, Value::Float(0.0)),
        (N::Bit { length: 9 }, Value::Bytes(vec![0, 0])),
        (N::Time { precision: 3 }, Value::Micros(0)),
        (N::Year, Value::Integer(0)),
        (N::Char { length: 3, charset: charset() }, text("")),
        (N::Text { size: LobSize::Normal, charset: charset(), compressed: false }, text("")),
        (N::Binary { length: 3 }, Value::Bytes(vec![0, 0, 0])),
        (N::VarBinary { length: 3, compressed: false }, Value::Bytes(Vec::new())),
        (N::Enum { labels: labels(), charset: charset() }, text("x")),
        (N::Set { labels: labels(), charset: charset() }, text("")),
        (N::Uuid, text("00000000-0000-0000-0000-000000000000")),
        (N::Inet6, text("::")),
        (N::Inet4, text("0.0.0.0")),
    ] {
        let column = Column::new(1, "a", Native::MySql(native.clone())).not_null();
        assert_eq!(fill(&column), crate::change::Fill::Implicit(value), "{native:?}");
    }
}

#[test]
fn a_target_table_altered_by_hand_is_described_in_words() {
    let pg = |id, name: &str, native| Column::new(id, name, Native::Postgres(native));
    let id = || pg(0, "id", postgres::Native::Integer).not_null();
    let expected = Table::new(
        TableId::new("shop", "part"),
        vec![id(), pg(1, "b", postgres::Native::Integer), pg(2, "c", postgres::Native::Text)],
        &["id"],
    );
    let live = Table::new(
        TableId::new("shop", "part"),
        vec![pg(1, "b", postgres::Native::VarChar { length: Some(5) }), id(), pg(3, "d", postgres::Native::Date)],
        &[],
    );
    assert_eq!(
        shape_difference(&expected, &live),
        [
            "column `b` is character varying(5), expected integer",
            "column `c` text is missing",
            "column `d` date is there, and is not expected",
            "the primary key is none, expected (id)",
        ]
    );
    assert!(shape_message(&expected, &live).contains("expected shape"));
    assert_eq!(shape_difference(&expected, &expected), [""; 0]);
}
