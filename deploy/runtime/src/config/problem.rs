//! What is wrong with a configuration: everything at once, each with its place.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// One step of a key path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// `sinks.warehouse.tables[2].key`.
pub(super) fn path_text(path: &[Step]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Key(key) if out.is_empty() => out.push_str(key),
            Step::Key(key) => {
                out.push('.');
                out.push_str(key);
            }
            Step::Index(index) => {
                out.push('[');
                out.push_str(&index.to_string());
                out.push(']');
            }
        }
    }
    out
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Line in the file, from 1; None where the file itself is the problem.
    pub line: Option<usize>,
    /// The full key path; empty for the file as a whole.
    pub key: String,
    pub message: String,
}

/// All that is wrong with one file, in the order of its lines. `Display` is a line for each.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct ConfigErrors {
    pub file: PathBuf,
    pub problems: Vec<ConfigProblem>,
}

impl ConfigErrors {
    pub(super) fn of_file(file: &Path, line: Option<usize>, message: String) -> Self {
        Self { file: file.to_owned(), problems: vec![ConfigProblem { line, key: String::new(), message }] }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{}: ", self.file.display())?;
            if let Some(line) = problem.line {
                write!(f, "line {line}: ")?;
            }
            if !problem.key.is_empty() {
                write!(f, "{}: ", problem.key)?;
            }
            f.write_str(&problem.message)?;
        }
        Ok(())
    }
}
