//! `${env:NAME}` and `${file:PATH}` in configured text, and secrets that are never printed.

use std::{env, fmt, fs};

/// A password or token: never printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the connection alone.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Text with its references replaced. `put` writes one replacement: what was written before it in the template, and its value.
///
/// # Errors
///
/// The reference that cannot be replaced, and why; never a value.
pub(super) fn substitute(template: &str, put: impl Fn(&str, &str) -> String) -> Result<String, String> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(begin) = rest.find("${") {
        out.push_str(&rest[..begin]);
        let reference = &rest[begin + 2..];
        let end = reference.find('}').ok_or_else(|| format!("{} has no closing brace", &rest[begin..]))?;
        let after = &reference[end + 1..];
        out.push_str(&put(after, &lookup(&reference[..end])?));
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn lookup(reference: &str) -> Result<String, String> {
    match reference.split_once(':') {
        Some(("env", name)) => match env::var(name) {
            Ok(value) => Ok(value),
            Err(env::VarError::NotPresent) => Err(format!("the environment variable {name} is not set")),
            Err(env::VarError::NotUnicode(_)) => Err(format!("the environment variable {name} is not UTF-8")),
        },
        // The line's end that editors and `echo` leave is no part of a secret.
        Some(("file", path)) => match fs::read_to_string(path) {
            Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
            Err(error) => Err(format!("the file {path} cannot be read: {error}")),
        },
        Some(_) | None => Err(format!("${{{reference}}} is neither ${{env:NAME}} nor ${{file:PATH}}")),
    }
}
