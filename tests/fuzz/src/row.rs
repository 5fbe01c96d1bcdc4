//! Reads rows as any reader of the topic would: every field by its type, to the last byte.

use schemas::{
    types::Repr,
    wire::{codec::Reader, row::Field},
};

/// Fails where `bytes` are not exactly the values of these fields.
pub fn check(fields: &[(&str, &Repr, bool)], bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    for (name, repr, nullable) in fields {
        if !nullable || reader.some().unwrap_or_else(|error| panic!("{name}: {error}")) {
            value(name, repr, &mut reader);
        }
    }
    assert_eq!(reader.rest(), b"", "bytes behind the row");
}

pub fn fields(fields: &[Field]) -> Vec<(&str, &Repr, bool)> {
    fields.iter().map(|field| (field.name.as_str(), &field.repr, field.nullable)).collect()
}

fn value(name: &str, repr: &Repr, reader: &mut Reader<'_>) {
    let good = match repr {
        Repr::Boolean => reader.boolean().map(drop),
        Repr::Int => reader.int().map(drop),
        Repr::Long => reader.long().map(drop),
        Repr::Float => reader.float().map(drop),
        Repr::Double => reader.double().map(drop),
        Repr::Bytes => reader.bytes().map(drop),
        Repr::String | Repr::Uuid => reader.string().map(drop),
        Repr::Decimal { precision, .. } => reader.bytes().map(|bytes| decimal(name, bytes, usize::from(*precision))),
        // The calendar of both servers: the years 0 to 9999.
        Repr::Date => reader.int().map(|days| assert!((-719_528..=2_932_896).contains(&days), "{name}: day {days}")),
        Repr::TimeMicros => reader.long().map(|micros| assert!((0..=86_400_000_000).contains(&micros), "{name}: {micros}")),
        Repr::LocalTimestampMicros | Repr::TimestampMicros => reader.long().map(|micros| {
            assert!((-62_167_219_200_000_000..253_402_300_800_000_000).contains(&micros), "{name}: {micros}");
        }),
        Repr::Array(_) => panic!("{name}: an array"),
    };
    good.unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// Shortest form, and no more digits than the type has.
fn decimal(name: &str, bytes: &[u8], precision: usize) {
    let (first, second) = (bytes[0], bytes.get(1));
    assert!(!second.is_some_and(|second| (first == 0 && *second < 0x80) || (first == 0xff && *second >= 0x80)), "{name}: {bytes:?}");
    // 10^precision has this many bits.
    let bits = (precision as f64 * 10f64.log2()).ceil() as usize + 1;
    assert!(bytes.len() <= bits.div_ceil(8), "{name}: {} bytes for {precision} digits", bytes.len());
}
