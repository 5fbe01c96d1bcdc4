//! What commands print: results on standard output, complaints on standard error.

use std::io::{self, Write};

use serde::Serialize;

use crate::exit::Failure;

/// Prints a result. A reader that has gone (`| head`) is no error.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{end}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::error(format!("standard output: {error}"))),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Prints a result as JSON.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(&serde_json::to_string_pretty(value).map_err(|e| Failure::error(e.to_string()))?)
}

pub fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}
