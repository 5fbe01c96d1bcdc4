//! Single values of the log: JSON documents, decimals, compressed columns, and a QUERY event's own fields.
#![no_main]

use fuzz::{
    memory,
    mysql::decode::{
        compressed, decimal,
        gtid::{MariaDbGtid, MySqlGtid},
        json,
        query::{Form, Query},
        table_map::TableMap,
    },
};
use libfuzzer_sys::fuzz_target;
use schemas::{ddl::mysql::Context, wire::codec::Reader};

fuzz_target!(|input: &[u8]| {
    let Some((what, bytes)) = input.split_first() else { return };
    memory::bounded(input, 4096, || match what % 8 {
        0 => document(bytes),
        1 => number(bytes),
        2 => {
            let mut scratch = Vec::new();
            let _ = compressed::column(bytes, &mut scratch);
        }
        3 => {
            let _ = compressed::event_part(bytes);
        }
        4 => {
            let _ = TableMap::read(bytes, what & 8 != 0);
        }
        5 => {
            let _ = (MySqlGtid::read(bytes), MariaDbGtid::read(bytes, 1));
        }
        6 => statement(bytes, Form::Plain, what & 8 != 0),
        _ => statement(bytes, Form::Load, what & 8 != 0),
    });
});

/// A document that is printed is JSON, and no larger than its escapes make it.
fn document(bytes: &[u8]) {
    let mut out = Vec::new();
    if json::text(&mut out, bytes).is_ok() {
        let text = std::str::from_utf8(&out).unwrap_or_else(|error| panic!("{error} in {out:?}"));
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(text);
        // The library's own bounds: its depth, and doubles out of its range.
        if let Err(error) = parsed
            && !error.to_string().contains("recursion limit")
            && !error.to_string().contains("number out of range")
        {
            panic!("{error}: {text}");
        }
        assert!(out.len() <= 64 + 32 * bytes.len(), "{} bytes printed of {}", out.len(), bytes.len());
    }
}

/// Packed digits and their text give the same Avro decimal.
fn number(bytes: &[u8]) {
    let [precision, scale, packed @ ..] = bytes else { return };
    let (precision, scale) = (precision % 65 + 1, scale % 39);
    if scale > precision {
        return;
    }
    let (mut avro, mut text, mut again) = (Vec::new(), Vec::new(), Vec::new());
    let result = decimal::put_packed(&mut avro, packed, precision, scale);
    assert_eq!(decimal::packed_text(&mut text, packed, precision, scale).is_ok(), result.is_ok());
    if result.is_ok() {
        decimal::put_text(&mut again, &text, scale).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(avro, again, "{}", String::from_utf8_lossy(&text));
        assert!(Reader::new(&avro).bytes().is_ok());
    }
}

fn statement(bytes: &[u8], form: Form, mariadb: bool) {
    if let Ok(query) = Query::read(bytes, form, mariadb) {
        let context = query.context(&Context::new(mariadb, 101_119), |_| Some(("utf8mb4_bin", "utf8mb4")));
        assert_eq!(context.default_database, query.schema);
    }
}
