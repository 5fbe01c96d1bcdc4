//! The rules as a table of source × change × target, made by asking [`crate::rules::decide_set`]. Its print is a committed snapshot.

mod sample;
mod types;

use std::{collections::BTreeMap, fmt::Write};

use serde::Serialize;

use crate::{
    capability::Capabilities,
    change::Kind,
    policy::Policy,
    rules::{Context, Decision, Verdict, decide_set},
    table::TableId,
    view::View,
};
use sample::{Sample, samples};

pub use types::{mysql_examples, types};

/// A source engine of the mission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    MySql,
    Postgres,
    SqlServer,
    Odbc,
}

impl Source {
    pub const ALL: [Source; 4] = [Source::MySql, Source::Postgres, Source::SqlServer, Source::Odbc];

    pub fn name(self) -> &'static str {
        match self {
            Source::MySql => "mysql",
            Source::Postgres => "postgres",
            Source::SqlServer => "sqlserver",
            Source::Odbc => "odbc",
        }
    }

    /// What a reader must know of a kind on this source, besides the rule.
    fn remark(self, kind: Kind) -> Option<&'static str> {
        match (self, kind) {
            (Source::Odbc, Kind::TruncateTable) => Some("a poll sees deleted rows"),
            (Source::Odbc, Kind::RenameColumn | Kind::RenameKeyColumn) => Some("a poll compares names and cannot tell a rename"),
            (Source::Postgres | Source::SqlServer | Source::Odbc, Kind::ChangeSignedness) => Some("does not occur on this source"),
            (Source::SqlServer | Source::Odbc, Kind::AppendEnumLabels | Kind::ChangeEnumLabels) => Some("does not occur on this source"),
            (Source::Postgres | Source::SqlServer | Source::Odbc, Kind::AddColumnImplicitDefault) => {
                Some("these sources refuse it unless the table is empty")
            }
            (Source::Odbc, Kind::AddColumnVolatileDefault | Kind::AddColumnGenerated) => Some("a poll reads the rows anew"),
            _other => None,
        }
    }

    /// What a poll makes of a change that it cannot see as such.
    fn outcome(self, kind: Kind, ruled: Verdict) -> Verdict {
        match (self, kind) {
            (Source::Odbc, Kind::TruncateTable) => Verdict::NothingToApply,
            (Source::Odbc, Kind::RenameColumn | Kind::RenameKeyColumn) => ruled.max(Verdict::Held),
            _other => ruled,
        }
    }
}

/// A line of the matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub source: &'static str,
    pub kind: &'static str,
    pub target: &'static str,
    pub outcome: &'static str,
    pub note: String,
}

/// Every source × kind × target, under no policy.
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for source in Source::ALL {
        for kind in Kind::ALL {
            let samples = samples(source, kind);
            rows.extend(Capabilities::ALL.into_iter().map(|capabilities| row(source, kind, &samples, capabilities)));
        }
    }
    rows
}

fn row(source: Source, kind: Kind, samples: &[Sample], capabilities: &'static Capabilities) -> Row {
    let mut notes: Vec<String> = Vec::new();
    let mut outcome = Verdict::Stopped;
    for (index, sample) in samples.iter().enumerate() {
        let decision = judged(sample, capabilities);
        let decided = source.outcome(kind, decision.outcome);
        if index == 0 {
            outcome = decided;
            let why = if decision.why.is_empty() { effect(kind).to_owned() } else { decision.why };
            notes.extend(source.remark(kind).map(str::to_owned).or(Some(why)).filter(|note| !note.is_empty()));
        } else if decided != outcome {
            let why = if decision.why.is_empty() { String::new() } else { format!(" ({})", decision.why) };
            notes.push(format!("{}: {}{why}", sample.label, decided.name()));
        }
    }
    Row { source: source.name(), kind: kind.name(), target: capabilities.target, outcome: outcome.name(), note: notes.join("; ") }
}

fn judged(sample: &Sample, capabilities: &Capabilities) -> Decision {
    let view = View::plain(TableId::new("shop", "sample"));
    let policy = Policy::default();
    let context = Context { before: &sample.before, after: &sample.after, target: None, view: &view, capabilities, policy: &policy };
    let set = decide_set(std::slice::from_ref(&sample.change), &context);
    set.parts.into_iter().next().unwrap_or(set.decision)
}

/// What an applied change does, where its name does not say all of it.
fn effect(kind: Kind) -> &'static str {
    match kind {
        Kind::AddColumnNullable => "existing rows are NULL; an added column goes last",
        Kind::AddColumnConstantDefault => "existing rows get the constant; no default remains on the target; a zero date stops",
        Kind::AddColumnImplicitDefault => "existing rows get the server's own value; a zero date stops",
        Kind::Shorten => "a value that does not fit makes it fail whole, and stops",
        Kind::ChangeDecimal => "values are rounded as the source rounds; one that does not fit makes it fail whole, and stops",
        Kind::SetNotNull => "a NULL on the target makes it fail whole, and stops",
        Kind::TruncateTable => "in order with the rows, whatever the row filter",
        Kind::AddColumnVolatileDefault
        | Kind::AddColumnGenerated
        | Kind::DropColumn
        | Kind::DropKeyColumn
        | Kind::RenameColumn
        | Kind::RenameKeyColumn
        | Kind::Lengthen
        | Kind::WidenInteger
        | Kind::ChangeKeyDecimal
        | Kind::AppendEnumLabels
        | Kind::ChangeEnumLabels
        | Kind::ChangeSignedness
        | Kind::ChangeType
        | Kind::DropNotNull
        | Kind::ChangeDefault
        | Kind::ChangeComment
        | Kind::ReorderColumn
        | Kind::ChangeCharset
        | Kind::ChangeCollation
        | Kind::ChangeIdentity
        | Kind::ChangeGenerated
        | Kind::ChangeStorage
        | Kind::ChangeKey
        | Kind::ChangeIndex
        | Kind::ChangeConstraint
        | Kind::CreateTable
        | Kind::DropTable
        | Kind::RenameTable
        | Kind::MovePartition
        | Kind::TruncatePartition
        | Kind::ReplaceRows
        | Kind::Unknown => "",
    }
}

/// The matrix as JSON: an array of rows.
pub fn json() -> serde_json::Value {
    serde_json::json!(rows())
}

/// The matrix for reading: a grid for each source, with notes below it.
pub fn text() -> String {
    let mut out = String::from(
        "What becomes of each schema change of a source on each target, where no policy says otherwise.\n\
         applied: the same change with the same effect · nothing: nothing to apply · held: the table waits for a person ·\n\
         stopped: nothing behind it is applied. A target that stands at `held` goes on with its other tables.\n",
    );
    let rows = rows();
    for source in Source::ALL {
        let of_source: Vec<&Row> = rows.iter().filter(|row| row.source == source.name()).collect();
        grid(&mut out, source, &of_source);
    }
    out.push('\n');
    out.push_str(&types());
    out
}

/// The targets' names as columns of a grid: `odbc-` goes without saying.
fn short(target: &str) -> &str {
    target.strip_prefix("odbc-").unwrap_or(target)
}

fn cell(outcome: &str) -> &str {
    if outcome == Verdict::NothingToApply.name() { "nothing" } else { outcome }
}

fn grid(out: &mut String, source: Source, rows: &[&Row]) {
    let _ = write!(out, "\nsource {}\n\n{:<29}", source.name(), "");
    for capabilities in Capabilities::ALL {
        let _ = write!(out, "{:<11}", short(capabilities.target));
    }
    end_line(out);
    for kind in Kind::ALL {
        let _ = write!(out, "{:<29}", kind.name());
        for row in rows.iter().filter(|row| row.kind == kind.name()) {
            let _ = write!(out, "{:<11}", cell(row.outcome));
        }
        end_line(out);
    }
    out.push('\n');
    for kind in Kind::ALL {
        // Targets that share a note share a line.
        let mut notes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.kind == kind.name() && !row.note.is_empty()) {
            notes.entry(&row.note).or_default().push(short(row.target));
        }
        for (note, targets) in notes {
            let all = targets.len() == Capabilities::ALL.len();
            let whom = if all { String::new() } else { format!(" [{}]", targets.join(" ")) };
            let _ = writeln!(out, "{}{whom}: {note}", kind.name());
        }
    }
}

fn end_line(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

#[cfg(test)]
mod tests;
