//! Configuration files.
#![no_main]

use fuzz::{config::Pipeline, memory};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // Files of this machine are no part of the input.
    if text.contains("${") {
        return;
    }
    let read = || Pipeline::parse("fuzz.yaml", text.to_owned());
    let first = memory::bounded(input, 4096, read);
    match (&first, read()) {
        (Ok(pipeline), Ok(again)) => assert_eq!(*pipeline, again),
        (Err(problems), Err(again)) => {
            let printed = problems.to_string();
            assert_eq!(printed, again.to_string());
            assert!(printed.lines().count() > 0 && !printed.contains("is not complete"), "{printed}");
        }
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => panic!("one of two readings fails: {first:?}"),
    }
});
