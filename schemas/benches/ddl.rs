//! Statements per second of the parser, over the statements of its tests: `cargo bench -p schemas`.

#![expect(clippy::expect_used, reason = "a bench")]

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use schemas::ddl::mysql::{Context, parse, table_from_create};

const FILE: &str = include_str!("../tests/data/mysql-ddl.txt");

fn ddl(criterion: &mut Criterion) {
    let context = Context { default_database: "shop".into(), ..Context::new(true, 101_119) };
    let texts = |kind: &str| -> Vec<&'static str> { FILE.lines().filter_map(|line| line.strip_prefix(kind)).collect() };
    let statements = texts("statement: ");
    let mut group = criterion.benchmark_group("ddl");
    group.throughput(Throughput::Elements(statements.len() as u64));
    group.bench_function("parse", |bencher| {
        bencher.iter(|| statements.iter().for_each(|text| drop(black_box(parse(text.as_bytes(), &context)))));
    });
    let columns: Vec<String> = (0..900).map(|i| format!("`column {i}` varchar(60) NOT NULL DEFAULT 'x' COMMENT 'number {i}'")).collect();
    let wide = format!("CREATE TABLE t (id int PRIMARY KEY, {}) CHARSET=utf8mb4", columns.join(", "));
    group.throughput(Throughput::Elements(1));
    group.bench_function("create_900", |bencher| {
        bencher.iter(|| table_from_create(wide.as_bytes(), &context).expect("a shape"));
    });
    // What begins every transaction: it must cost next to nothing.
    group.bench_function("savepoint", |bencher| {
        bencher.iter(|| black_box(parse(b"SAVEPOINT `sp_1`", &context)));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = ddl
}
criterion_main!(benches);
