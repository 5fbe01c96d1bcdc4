//! Rows per second of one core, from rows events to Avro images: `cargo bench -p source`.

#![expect(clippy::expect_used, reason = "a bench")]

use std::{hint::black_box, sync::Arc, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use schemas::{
    charset::Charsets,
    ddl::mysql::{Context, table_from_create},
    wire::row::RowSchema,
};
use source::{
    engine::{Row, RowSink},
    error::CaptureError,
    mysql::decode::{
        plan::{Fields, Plan},
        rows::{Encoder, Kind, Rows},
        table_map::TableMap,
    },
};

/// A column: its declaration, its type code and metadata in the log, and the bytes of a value.
struct Column {
    declared: String,
    code: u8,
    meta: Vec<u8>,
    value: Vec<u8>,
}

fn column(declared: &str, code: u8, meta: &[u8], value: &[u8]) -> Column {
    Column { declared: declared.into(), code, meta: meta.to_vec(), value: value.to_vec() }
}

fn int(value: i32) -> Column {
    column("INT", 3, &[], &value.to_le_bytes())
}

fn bigint(value: i64) -> Column {
    column("BIGINT", 8, &[], &value.to_le_bytes())
}

fn text(value: &str) -> Column {
    // VARCHAR(60) of utf8mb4: 240 bytes, one length byte.
    column("VARCHAR(60)", 15, &240u16.to_le_bytes(), &[&[value.len() as u8], value.as_bytes()].concat())
}

/// DECIMAL(18,4): 14 digits before the point, 4 behind it.
fn decimal() -> Column {
    column("DECIMAL(18,4)", 246, &[18, 4], &[0x80, 0, 0x01, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2])
}

fn narrow() -> Vec<Column> {
    vec![int(77), int(-5), text("customer number 77"), bigint(1 << 40)]
}

fn twelve() -> Vec<Column> {
    vec![
        bigint(1_000_077),
        int(4_077),
        column("TINYINT", 1, &[], &[3]),
        text("customer number 1000077"),
        text("Berlin"),
        decimal(),
        // 2024-02-29 12:34:56.789000
        column("DATETIME(6)", 18, &[6], &[0x99, 0xb2, 0x7a, 0xc8, 0xb8, 0x0c, 0x0a, 0x08]),
        column("TIMESTAMP(3) NULL", 17, &[3], &[0x65, 0xe0, 0x7a, 0x30, 0x13, 0x88]),
        column("DOUBLE", 5, &[8], &333.25f64.to_le_bytes()),
        column("TINYINT(1)", 1, &[], &[1]),
        column("TEXT", 252, &[2], &[&[22, 0][..], b"note of row 1000077 ..."].concat()[..24]),
        column("INT UNSIGNED", 3, &[], &3_000_231u32.to_le_bytes()),
    ]
}

fn wide() -> Vec<Column> {
    let third = |i| match i % 3 {
        0 => int(i),
        1 => text("a word or two"),
        _ => decimal(),
    };
    (0..900).map(third).collect()
}

fn blob() -> Vec<Column> {
    let size = 64 << 10;
    let bytes: Vec<u8> = (0..size).map(|i: u32| (i * 31 % 251) as u8).collect();
    vec![int(77), column("MEDIUMBLOB", 252, &[3], &[&size.to_le_bytes()[..3], &bytes].concat())]
}

fn packed(n: usize) -> Vec<u8> {
    if n < 251 { vec![n as u8] } else { [&[0xfc][..], &(n as u16).to_le_bytes()].concat() }
}

fn table_map(columns: &[Column]) -> TableMap {
    let meta: Vec<u8> = columns.iter().flat_map(|c| c.meta.clone()).collect();
    let mut body = vec![1, 0, 0, 0, 0, 0, 1, 0, 4];
    body.extend(b"shop\0\x01t\0");
    body.extend(packed(columns.len()));
    body.extend(columns.iter().map(|c| c.code));
    body.extend(packed(meta.len()));
    body.extend(meta);
    // All but the first may be NULL.
    let nullable = columns.iter().enumerate().fold(vec![0u8; columns.len().div_ceil(8)], |mut bits, (i, _)| {
        if i > 0 {
            bits[i / 8] |= 1 << (i % 8);
        }
        bits
    });
    body.extend(nullable);
    TableMap::read(&body, true).expect("a table map")
}

fn rows_event(columns: &[Column], rows: u64) -> Vec<u8> {
    let bitmap = columns.len().div_ceil(8);
    let mut body = vec![1, 0, 0, 0, 0, 0, 1, 0];
    body.extend(packed(columns.len()));
    body.extend(vec![0xff; bitmap]);
    for _ in 0..rows {
        body.extend(vec![0; bitmap]);
        body.extend(columns.iter().flat_map(|c| c.value.clone()));
    }
    body
}

fn plan(columns: &[Column], map: &TableMap) -> Plan {
    let list: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(i, c)| format!("c{i} {}{}", c.declared, if i == 0 { " NOT NULL PRIMARY KEY" } else { "" }))
        .collect();
    let context = Context { default_database: "shop".into(), ..Context::new(true, 101_119) };
    let text = format!("CREATE TABLE t ({}) CHARSET=utf8mb4", list.join(", "));
    let shape = table_from_create(text.as_bytes(), &context).expect("a shape");
    let fields = Fields::new(&shape, &RowSchema::new(&shape), &Charsets::default()).expect("fields");
    Plan::new(fields, map.columns.iter().map(|column| column.physical))
}

/// Takes every row and keeps nothing.
struct Taken(u64);

impl RowSink for Taken {
    fn row(&mut self, row: Row<'_>) -> Result<(), CaptureError> {
        black_box((row.key, row.after));
        Ok(())
    }

    fn end(&mut self) {
        self.0 += 1;
    }
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    for (name, columns, rows) in
        [("narrow_4", narrow(), 400), ("columns_12", twelve(), 100), ("wide_900", wide(), 4), ("blob_64k", blob(), 1)]
    {
        let map = Arc::new(table_map(&columns));
        let (plan, body) = (plan(&columns, &map), rows_event(&columns, rows));
        let kind = Kind::of(23).expect("WRITE_ROWS of version 1");
        let mut encoder = Encoder::default();
        group.throughput(Throughput::Elements(rows));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let event = Rows::read(&body, kind, Arc::clone(&map), String::new()).expect("an event");
                let mut out = Taken(0);
                encoder.encode(&event, 0, &plan, &mut out).expect("rows");
                assert_eq!(out.0, rows);
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = decode
}
criterion_main!(benches);
