//! Binary log files: events, groups, statements, table maps, rows.
#![no_main]

use fuzz::{log, memory};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

/// Deflate makes at most some thousand bytes of one.
const PER_BYTE: usize = 4096;

fuzz_target!(|input: &[u8]| {
    let told = memory::bounded(input, PER_BYTE, || log::read(input));
    // The same again; not always, for it takes as long.
    if input.len().is_multiple_of(8) {
        assert_eq!(log::read(input), told);
    }
});

// An event's size is kept right where its body changes: otherwise nearly every change would only cut the log.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let places = log::places(&data[..size]);
    if seed.is_multiple_of(4) || places.is_empty() {
        return fuzzer_mutate(data, size, max_size);
    }
    let (begin, end) = places[(seed / 4) as usize % places.len()];
    let rest = data[end..size].to_vec();
    match seed / 4 % 16 {
        // Once more, or not at all.
        0 => return put(data, end, &[data[begin..end].to_vec(), rest].concat(), max_size),
        1 => return put(data, begin, &rest, max_size),
        // Its head.
        2 => {
            fuzzer_mutate(&mut data[begin..begin + 9], 9, 9);
            return size;
        }
        _ => {}
    }
    let body = end - begin - log::HEAD;
    // Nothing can be made of no room at all.
    let room = (max_size.saturating_sub(size) + body).max(1);
    let mut bytes = data[begin + log::HEAD..end].to_vec();
    bytes.resize(room, 0);
    let changed = fuzzer_mutate(&mut bytes, body, room);
    data[begin + 9..begin + 13].copy_from_slice(&((log::HEAD + changed) as u32).to_le_bytes());
    put(data, begin + log::HEAD, &[&bytes[..changed], &rest].concat(), max_size)
});

/// Puts bytes at a place and ends there; returns the new size.
fn put(data: &mut [u8], at: usize, bytes: &[u8], max_size: usize) -> usize {
    let room = max_size.min(data.len()).saturating_sub(at).min(bytes.len());
    data[at..at + room].copy_from_slice(&bytes[..room]);
    at + room
}
