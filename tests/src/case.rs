//! Case files: a small script on a source, steps of a pipeline, and what must come of it.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_yaml_ng::Value as Yaml;

/// One case, as its file has it.
#[derive(Debug, Deserialize)]
pub struct Case {
    pub id: Yaml,
    pub title: String,
    pub source: Vec<String>,
    pub target: Vec<String>,
    pub sql_dialect: String,
    #[serde(default)]
    pub config: Option<String>,
    #[serde(default)]
    pub needs: Option<String>,
    /// The databases whose tables are captured, each into a schema of its own name; without it `shop` into `public`.
    #[serde(default)]
    pub databases: Vec<String>,
    pub setup: String,
    pub steps: Vec<Step>,
    pub expected: Expected,
    #[serde(skip)]
    pub path: PathBuf,
}

#[derive(Debug, Deserialize)]
pub struct Step {
    #[serde(default)]
    pub pipeline: Option<String>,
    #[serde(default)]
    pub source_sql: Option<String>,
    #[serde(default)]
    pub target_sql: Option<String>,
    /// A second connection, by name.
    #[serde(default)]
    pub session: Option<String>,
    #[serde(default)]
    pub expect_source_error: Option<Yaml>,
    #[serde(default)]
    pub note: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Expected {
    pub outcome: String,
    #[serde(default)]
    pub accept_also: Option<String>,
    /// Narrower, in words that begin with the outcome.
    #[serde(default)]
    pub by_source: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    pub by_target: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    pub second_change: Option<Yaml>,
    #[serde(default)]
    pub second_part: Option<Yaml>,
    #[serde(default)]
    pub held_tables: Vec<String>,
    #[serde(default)]
    pub message_must_name: Vec<Yaml>,
    #[serde(default)]
    pub final_rows: Option<Rows>,
    #[serde(default)]
    pub source_rows: Option<Rows>,
    #[serde(default)]
    pub target_rows_before_stop: Option<Yaml>,
}

/// `rows` of a `query`.
#[derive(Debug, Deserialize)]
pub struct Rows {
    pub query: String,
    pub rows: Vec<Vec<Yaml>>,
}

impl Case {
    pub fn read(path: &Path) -> Result<Case, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut case: Case = serde_yaml_ng::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        case.path = path.to_owned();
        Ok(case)
    }

    /// The id as three digits.
    pub fn id(&self) -> String {
        match &self.id {
            Yaml::Number(n) => format!("{n:0>3}", n = n.to_string()),
            other => other.as_str().unwrap_or("?").to_owned(),
        }
    }
}

/// All case files of these files and folders, in order.
pub fn find(paths: &[PathBuf]) -> Result<Vec<Case>, String> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(|e| format!("{}: {e}", path.display()))?;
            files.extend(entries.filter_map(Result::ok).map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "yaml")));
        } else if path.exists() {
            files.push(path.clone());
        } else {
            return Err(format!("{}: no such file or folder", path.display()));
        }
    }
    files.sort();
    files.iter().map(|p| Case::read(p)).collect()
}

/// A cell of a case's rows, as a server would print it; None is NULL.
pub fn cell(value: &Yaml) -> Option<String> {
    match value {
        Yaml::Null => None,
        Yaml::Bool(b) => Some(u8::from(*b).to_string()),
        Yaml::Number(n) => Some(n.to_string()),
        Yaml::String(s) => Some(s.clone()),
        other => Some(format!("{other:?}")),
    }
}

/// Whether two cells say the same: as text, as numbers, or as times whose fraction one side cuts.
pub fn same(expected: Option<&str>, found: Option<&str>) -> bool {
    let (Some(a), Some(b)) = (expected, found) else { return expected.is_none() && found.is_none() };
    if a == b {
        return true;
    }
    if let (Ok(x), Ok(y)) = (a.parse::<f64>(), b.parse::<f64>()) {
        return x == y && a.bytes().filter(u8::is_ascii_digit).count().max(b.bytes().filter(u8::is_ascii_digit).count()) <= 17;
    }
    match (a, b) {
        ("1", "t") | ("0", "f") => true,
        _ => clock(a).is_some_and(|x| clock(b).is_some_and(|y| x == y)),
    }
}

/// A date with time, or a time, without a superfluous fraction or UTC offset.
fn clock(text: &str) -> Option<String> {
    let text = text.strip_suffix("+00").unwrap_or(text);
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    if digits < 5 || !text.contains(':') || !text.bytes().all(|b| b.is_ascii_digit() || b"-: .".contains(&b)) {
        return None;
    }
    Some(if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() })
}
