//! The type table for reading: source type, logical type, Avro, target type.

use std::fmt::Write;

use crate::{
    capability::POSTGRES,
    native::{Native, mysql},
    table::Column,
    types::Repr,
};

/// The Avro form in words.
fn avro(repr: &Repr) -> String {
    match repr {
        Repr::Boolean => "boolean".into(),
        Repr::Int => "int".into(),
        Repr::Long => "long".into(),
        Repr::Float => "float".into(),
        Repr::Double => "double".into(),
        Repr::Bytes => "bytes".into(),
        Repr::String => "string".into(),
        Repr::Decimal { precision, scale } => format!("bytes decimal({precision},{scale})"),
        Repr::Date => "int date".into(),
        Repr::TimeMicros => "long time-micros".into(),
        Repr::LocalTimestampMicros => "long local-timestamp-micros".into(),
        Repr::TimestampMicros => "long timestamp-micros".into(),
        Repr::Uuid => "string uuid".into(),
        Repr::Array(element) => format!("array of {}", avro(element)),
    }
}

/// An example of every type of MySQL and MariaDB, with the name that this table gives it.
pub fn mysql_examples() -> Vec<(&'static str, mysql::Native)> {
    use mysql::{Geometry, LobSize, Native as N};
    let charset = || mysql::Charset { charset: "utf8mb4".into(), collation: "utf8mb4_bin".into() };
    let int = |bits, unsigned| N::Integer { bits, unsigned, zerofill: false, width: None };
    let labels = || vec!["a".to_owned(), "b".to_owned()];
    let text = |size| N::Text { size, charset: charset(), compressed: false };
    let blob = |size| N::Blob { size, compressed: false };
    vec![
        ("tinyint", int(8, false)),
        ("tinyint unsigned", int(8, true)),
        ("smallint", int(16, false)),
        ("smallint unsigned", int(16, true)),
        ("mediumint", int(24, false)),
        ("mediumint unsigned", int(24, true)),
        ("int", int(32, false)),
        ("int unsigned", int(32, true)),
        ("bigint", int(64, false)),
        ("bigint unsigned", int(64, true)),
        ("decimal(10,2)", N::Decimal { precision: 10, scale: 2, unsigned: false }),
        ("decimal(65,30)", N::Decimal { precision: 65, scale: 30, unsigned: false }),
        ("float", N::Float { unsigned: false, digits: None }),
        ("double", N::Double { unsigned: false, digits: None }),
        ("bit(10)", N::Bit { length: 10 }),
        ("year", N::Year),
        ("date", N::Date),
        ("time(3)", N::Time { precision: 3 }),
        ("datetime(6)", N::DateTime { precision: 6 }),
        ("timestamp(0)", N::Timestamp { precision: 0 }),
        ("char(5)", N::Char { length: 5, charset: charset() }),
        ("varchar(20)", N::VarChar { length: 20, charset: charset(), compressed: false }),
        ("tinytext", text(LobSize::Tiny)),
        ("text", text(LobSize::Normal)),
        ("mediumtext", text(LobSize::Medium)),
        ("longtext", text(LobSize::Long)),
        ("binary(4)", N::Binary { length: 4 }),
        ("varbinary(20)", N::VarBinary { length: 20, compressed: false }),
        ("tinyblob", blob(LobSize::Tiny)),
        ("blob", blob(LobSize::Normal)),
        ("mediumblob", blob(LobSize::Medium)),
        ("longblob", blob(LobSize::Long)),
        ("enum('a','b')", N::Enum { labels: labels(), charset: charset() }),
        ("set('a','b')", N::Set { labels: labels(), charset: charset() }),
        ("json", N::Json),
        ("geometry", N::Geometry { kind: Geometry::Geometry, srid: None }),
        ("uuid", N::Uuid),
        ("inet4", N::Inet4),
        ("inet6", N::Inet6),
        ("vector(3)", N::Vector { dimensions: 3 }),
    ]
}

/// The type table as text.
pub fn types() -> String {
    let mut out = String::from("Types of MySQL and MariaDB, and what they become.\n\n");
    let _ = writeln!(out, "{:<20} {:<22} {:<30} PostgreSQL", "MySQL, MariaDB", "value", "Avro");
    for (name, native) in mysql_examples() {
        let column = Column::new(0, "c", Native::MySql(native));
        let target = POSTGRES.declare.map(|declare| declare(&column));
        let target = match target {
            Some(Ok(native)) => native.to_string(),
            Some(Err(error)) => error.to_string(),
            None => "not built yet".into(),
        };
        let _ = writeln!(out, "{name:<20} {:<22} {:<30} {target}", column.ty().describe(), avro(&column.ty().repr()));
    }
    out.push_str(
        "\nTIME reaches from -838:59:59 to 838:59:59 and becomes an interval on PostgreSQL: a span, not a time of day.\n\
         CHAR comes without its trailing blanks, as the server gives it. Spatial values keep their SRID: four bytes, little-endian,\n\
         then the WKB. Labels and JSON are text; jsonb would reorder keys and rewrite numbers. MariaDB's JSON is LONGTEXT.\n\
         Text columns on PostgreSQL have the database's own collation, whatever the source's.\n",
    );
    out
}
