//! `history`: every schema change in source order, with its outcome on each sink.

use std::fmt::Write;

use schemas::{
    change::SchemaChange,
    event::{EventKind, SchemaEvent, SkippedStatement, TableEvent},
    order::ledger::Outcome,
    table::TableId,
};
use serde_json::{Value as Json, json};

use super::{SinkSnapshot, Snapshot};

/// `instar history --json`: one entry per statement and table. `table`: that table's only.
pub fn history(snapshot: &Snapshot<'_>, table: Option<&TableId>) -> Json {
    let mut entries = Vec::new();
    for event in snapshot.events {
        match event.kind {
            // The pipeline's first shapes change nothing.
            EventKind::Initial => continue,
            EventKind::Ddl | EventKind::Reload | EventKind::Retire => {}
        }
        for part in event.tables.iter().filter(|t| table.is_none_or(|id| *id == t.table.id)) {
            entries.extend(part.superseded.iter().map(|skipped| skipped_entry(snapshot, event, part, skipped)));
            entries.push(entry(snapshot, event, part));
        }
    }
    Json::Array(entries)
}

fn entry(snapshot: &Snapshot<'_>, event: &SchemaEvent, part: &TableEvent) -> Json {
    let addressed = |name: &&String| event.for_sink.as_ref().is_none_or(|only| only == *name);
    let outcomes: serde_json::Map<String, Json> =
        snapshot.sinks.iter().filter(|(name, _)| addressed(name)).map(|(name, sink)| (name.clone(), outcome(sink, event, part))).collect();
    json!({
        "epoch": event.epoch,
        "table": part.table.id.to_string(),
        "position": event.position,
        "time": time(event.ts_ms),
        "kind": event.kind.name(),
        "ddl": event.ddl,
        "changes": part.changes.iter().map(change).collect::<Vec<_>>(),
        "outcomes": outcomes,
    })
}

fn outcome(sink: &SinkSnapshot, event: &SchemaEvent, part: &TableEvent) -> Json {
    let Some(epoch) = event.epoch else {
        // Without an epoch only what was accepted is not known.
        let accepted = part.changes.iter().find_map(|change| if let SchemaChange::Unknown { why } = change { Some(why) } else { None });
        let outcome = if accepted.is_some() { Outcome::Accepted } else { Outcome::NothingToApply };
        return json!({ "outcome": outcome.name(), "reason": accepted.map_or("", String::as_str), "target_ddl": [] });
    };
    let key = (epoch, part.table.id.clone());
    match sink.journal.outcomes.get(&key) {
        Some(text) => json!({ "outcome": text.outcome.name(), "reason": text.reason, "target_ddl": text.target_ddl }),
        // Where the target cannot be asked, that is why no more is known.
        None => json!({ "outcome": Outcome::Pending.name(), "reason": sink.unreachable.as_deref().unwrap_or_default(), "target_ddl": [] }),
    }
}

/// A statement that a reload of a source that stood passed over.
fn skipped_entry(snapshot: &Snapshot<'_>, event: &SchemaEvent, part: &TableEvent, skipped: &SkippedStatement) -> Json {
    let reason = "a reload of the table passed over this statement at the source";
    let superseded = json!({ "outcome": Outcome::Superseded.name(), "reason": reason, "target_ddl": [] });
    let outcomes: serde_json::Map<String, Json> = snapshot.sinks.keys().map(|name| (name.clone(), superseded.clone())).collect();
    json!({
        "epoch": null,
        "table": part.table.id.to_string(),
        "position": skipped.position,
        "time": time(event.ts_ms),
        "kind": EventKind::Ddl.name(),
        "ddl": skipped.ddl,
        "changes": [],
        "outcomes": outcomes,
    })
}

/// A change as JSON: its kind, its column, and what it was and became where that is a name or a type.
pub fn change(change: &SchemaChange) -> Json {
    let mut json = json!({ "kind": change.kind().name(), "column": change.column() });
    match change {
        SchemaChange::RenameColumn { from, column, .. } => {
            json["from"] = json!(from);
            json["to"] = json!(column.name);
        }
        SchemaChange::ChangeType { before, after, .. } => {
            json["from"] = json!(before.native.to_string());
            json["to"] = json!(after.native.to_string());
        }
        SchemaChange::AddColumn { column, .. } => json["to"] = json!(column.native.to_string()),
        SchemaChange::DropColumn { column, .. } => json["from"] = json!(column.native.to_string()),
        SchemaChange::ChangeCharset { from, to, .. } | SchemaChange::ChangeCollation { from, to, .. } => {
            json["from"] = json!(from);
            json["to"] = json!(to);
        }
        SchemaChange::ChangeKey { before_names, after_names, .. } => {
            json["from"] = json!(before_names);
            json["to"] = json!(after_names);
        }
        SchemaChange::RenameTable { to } => json["to"] = json!(to.to_string()),
        SchemaChange::ChangeIndex { name } | SchemaChange::ChangeConstraint { name, .. } => json["name"] = json!(name),
        SchemaChange::ChangeStorage { what, .. }
        | SchemaChange::MovePartition { what }
        | SchemaChange::TruncatePartition { what }
        | SchemaChange::ReplaceRows { what } => json["what"] = json!(what),
        SchemaChange::Unknown { why } => json["why"] = json!(why),
        SchemaChange::SetNotNull { .. }
        | SchemaChange::DropNotNull { .. }
        | SchemaChange::ChangeDefault { .. }
        | SchemaChange::ChangeComment { .. }
        | SchemaChange::ReorderColumn { .. }
        | SchemaChange::ChangeIdentity { .. }
        | SchemaChange::ChangeGenerated { .. }
        | SchemaChange::CreateTable
        | SchemaChange::DropTable
        | SchemaChange::TruncateTable => {}
    }
    json
}

/// Milliseconds since 1970 UTC as RFC 3339.
pub fn time(ms: i64) -> String {
    let (days, of_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    // Days to a civil date, counted in eras of 400 years that begin on 1 March.
    let z = days.saturating_add(719_468);
    let (era, doe) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    let (h, m, s, milli) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60, of_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{milli:03}Z")
}

/// `history` for people.
pub fn history_text(history: &Json) -> String {
    let mut out = String::new();
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    for entry in history.as_array().into_iter().flatten() {
        let epoch = entry["epoch"].as_u64().map_or_else(|| "-".to_owned(), |e| e.to_string());
        let what = entry["ddl"].as_str().map_or_else(|| text(&entry["kind"]), |ddl| ddl.trim().to_owned());
        let _ = writeln!(out, "{epoch:>5}  {}  {}  {what}", text(&entry["time"]), text(&entry["table"]));
        for (sink, result) in entry["outcomes"].as_object().into_iter().flatten() {
            let _ = writeln!(out, "       {sink}: {}  {}", text(&result["outcome"]), text(&result["reason"]));
            for sql in result["target_ddl"].as_array().into_iter().flatten() {
                let _ = writeln!(out, "         {}", text(sql));
            }
        }
    }
    out
}
