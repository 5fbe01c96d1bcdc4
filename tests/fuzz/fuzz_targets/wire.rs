//! Records of the topics: schema-version events, progress, and what stands around a row.
#![no_main]

use fuzz::{memory, row};
use libfuzzer_sys::fuzz_target;
use schemas::{
    native::{Native, mysql},
    table::{Column, Table, TableId},
    wire::{
        codec::{Reader, put_frame},
        envelope::{Head, Tail, put_head, put_source, put_tail},
        event::{put_event, put_progress, read_event, read_progress},
        names,
        row::RowSchema,
    },
};

fuzz_target!(|input: &[u8]| {
    let Some((what, bytes)) = input.split_first() else { return };
    memory::bounded(input, 512, || match what % 4 {
        0 => event(bytes),
        1 => progress(bytes),
        2 => tail(bytes),
        _ => name(bytes),
    });
});

/// What is read is written so that the same is read again.
fn event(bytes: &[u8]) {
    let Ok(event) = read_event(bytes) else { return };
    let mut out = Vec::new();
    put_event(&mut out, 7, &event);
    assert_eq!(read_event(&out).as_ref(), Ok(&event));
    for table in &event.tables {
        // Whoever reads rows of this version asks for these.
        let _ = (RowSchema::new(&table.table), table.table.row_key(), table.table.spreads());
    }
}

fn progress(bytes: &[u8]) {
    let Ok(progress) = read_progress(bytes) else { return };
    let mut out = Vec::new();
    put_progress(&mut out, 7, &progress);
    assert_eq!(read_progress(&out), Ok(progress));
}

fn tail(bytes: &[u8]) {
    let Ok((head, mut reader)) = Head::read(bytes) else { return };
    let Ok(tail) = Tail::read(&mut reader) else { return };
    let (mut source, mut out) = (Vec::new(), Vec::new());
    put_source(&mut source, &tail.source);
    put_head(&mut out, head.schema, head.epoch, head.seq);
    put_tail(&mut out, tail.op, &source, &tail.absent_before, &tail.absent_after, tail.ts_ms);
    let (again, mut reader) = Head::read(&out).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((again, Tail::read(&mut reader).as_ref()), (head, Ok(&tail)));
}

/// A name's Avro form is one that Avro takes, and another name has another.
fn name(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let avro = names::avro(text);
    let good = |c: char, first: bool| c == '_' || c.is_ascii_alphabetic() || (!first && c.is_ascii_digit());
    assert!(!avro.is_empty() && avro.chars().enumerate().all(|(i, c)| good(c, i == 0)), "{text:?} is {avro:?}");
    assert_eq!(names::unescape(&avro), text);
    if let Some((a, b)) = text.split_once('\n') {
        assert_eq!(names::avro(a) == names::avro(b), a == b, "{a:?}, {b:?}");
        let topic = |a: &str, b: &str| names::topic("p", &TableId::new(a, b));
        assert_eq!(topic(a, b) == topic(b, a), a == b);
    }
    let native = Native::MySql(mysql::Native::Year);
    let table = Table::new(TableId::new("a", "b"), vec![Column::new(0, text, native).not_null()], &[text]);
    let rows = RowSchema::new(&table);
    let mut record = Vec::new();
    put_frame(&mut record, 1);
    assert_eq!(Reader::new(&record).frame(), Ok(1));
    row::check(&row::fields(&rows.fields), &[0]);
}
