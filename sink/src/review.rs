//! Review cards: what a held table waits for, and what a person may do about it.

use std::fmt::Write;

use schemas::{
    event::SchemaEvent,
    order::ledger::{Approval, Hold, Ledger, LedgerChange},
    table::TableId,
};
use serde_json::{Value as Json, json};

use crate::{
    error::SinkError,
    status::{SinkSnapshot, Snapshot, captured, history::change, history::time},
    target::{Session, Target},
};

/// The cards of one sink, in the order of its tables.
pub fn cards(snapshot: &Snapshot<'_>, sink: &str) -> Vec<Json> {
    let Some(state) = snapshot.sinks.get(sink) else { return Vec::new() };
    let Some(ledger) = &state.ledger else { return Vec::new() };
    ledger.held.iter().map(|(table, hold)| card(snapshot, sink, state, ledger, table, hold)).collect()
}

fn card(snapshot: &Snapshot<'_>, sink: &str, state: &SinkSnapshot, ledger: &Ledger, table: &TableId, hold: &Hold) -> Json {
    let event = event_of(snapshot.events, hold);
    let part = event.and_then(|event| event.table(table));
    let text = state.journal.holds.get(table).cloned().unwrap_or_default();
    let queued = ledger.queued.get(table).into_iter().flatten().map(|epoch| {
        let ddl = snapshot.events.iter().find(|e| e.epoch == Some(*epoch)).and_then(|e| e.ddl.clone());
        json!({ "epoch": epoch, "ddl": ddl })
    });
    let (kind, actions): (&str, &[&str]) = match hold {
        Hold::Change { .. } if by_hand(&text.proposed).is_some() => ("change", &["keep", "reload"]),
        Hold::Change { .. } => ("change", &["approve", "keep", "reload"]),
        Hold::Value { .. } => ("value", &["reload"]),
    };
    json!({
        "sink": sink,
        "table": table.to_string(),
        "held_at": kind,
        "epoch": hold.epoch(),
        "reason": text.reason,
        "ddl": event.and_then(|e| e.ddl.clone()),
        "position": event.map(|e| e.position.clone()),
        "time": event.map(|e| time(e.ts_ms)),
        "changes": part.map(|p| p.changes.iter().map(change).collect::<Vec<_>>()),
        "proposed": text.proposed,
        "queued": queued.collect::<Vec<_>>(),
        "rows_waiting": waiting(snapshot, ledger, table),
        "actions": actions,
    })
}

/// The first line of a proposal that is no statement but says what a person must do.
fn by_hand(proposed: &[String]) -> Option<&str> {
    proposed.iter().find_map(|line| line.strip_prefix("-- "))
}

fn event_of<'e>(events: &'e [SchemaEvent], hold: &Hold) -> Option<&'e SchemaEvent> {
    events.iter().find(|event| event.epoch == Some(hold.epoch()))
}

fn waiting(snapshot: &Snapshot<'_>, ledger: &Ledger, table: &TableId) -> u64 {
    let topics = captured(snapshot.events);
    let ends = topics.get(table).and_then(|t| snapshot.ends.get(&t.last.topic));
    let lanes = (0u32..).zip(ends.into_iter().flatten());
    lanes.map(|(lane, end)| end.saturating_sub(ledger.position(table, lane).position)).fold(0, u64::saturating_add)
}

/// Cards for people.
pub fn cards_text(cards: &[Json]) -> String {
    let mut out = String::new();
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    for card in cards {
        let _ = writeln!(
            out,
            "{} on {}: held at epoch {}, {} rows wait",
            text(&card["table"]),
            text(&card["sink"]),
            card["epoch"],
            card["rows_waiting"]
        );
        let _ = writeln!(out, "  {}", text(&card["reason"]));
        if let Some(ddl) = card["ddl"].as_str() {
            let _ = writeln!(out, "  source:   {}  ({}, position {})", ddl.trim(), text(&card["time"]), text(&card["position"]));
        }
        for sql in card["proposed"].as_array().into_iter().flatten() {
            let _ = writeln!(out, "  proposed: {}", text(sql));
        }
        for queued in card["queued"].as_array().into_iter().flatten() {
            let _ = writeln!(out, "  queued:   epoch {}  {}", queued["epoch"], text(&queued["ddl"]));
        }
    }
    out
}

/// Records what a person wants done with the held change of a table; the sink's process carries it out. Under the sink's lock,
/// so that no reload comes between.
///
/// # Errors
///
/// [`SinkError::Refused`] where the table is not held at a change, the proposal is none that runs, or the statements are edited
/// (which is not built).
pub async fn approve<T: Target>(target: &T, table: &TableId, approval: Approval, by: &str) -> Result<(), SinkError> {
    let what = match &approval {
        Approval::Approve { ddl: None } => "approved the proposed statements for",
        Approval::Approve { ddl: Some(_) } => {
            return Err(SinkError::Refused(format!(
                "{table}: edited statements cannot be run yet: approve the proposal as it is, keep, or reload the table"
            )));
        }
        Approval::Keep => "kept the target table of",
    };
    let mut session = target.session().await?;
    session.lock().await?;
    let ledger = session.ledger().await?;
    match ledger.held.get(table) {
        Some(Hold::Change { epoch }) => {
            let journal = session.journal().await?;
            let proposed = journal.holds.get(table).map(|text| text.proposed.as_slice()).unwrap_or_default();
            if let (Approval::Approve { .. }, Some(line)) = (&approval, by_hand(proposed)) {
                return Err(SinkError::Refused(format!(
                    "{table}: the proposal cannot be run as it is: {line} Keep the target table as it is, or reload it."
                )));
            }
            let audit = LedgerChange::Audit { what: format!("{what} {table}, epoch {epoch}"), by: by.to_owned() };
            let approve = LedgerChange::Approve { table: table.clone(), approval, by: by.to_owned() };
            session.record(&[approve, audit]).await?;
        }
        Some(Hold::Value { .. }) => {
            return Err(SinkError::Refused(format!(
                "{table} is held at a row, not at a change: reload it, or remove it from the configuration"
            )));
        }
        None => return Err(SinkError::Refused(format!("{table} is not held: there is nothing to approve or keep"))),
    }
    session.unlock().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::tests::{held_snapshot, with_snapshot};

    #[test]
    fn a_card_tells_what_is_held_and_what_waits() {
        with_snapshot(held_snapshot(), |snapshot| {
            let cards = cards(snapshot, "warehouse");
            let expected = json!([{
                "sink": "warehouse", "table": "shop.orders", "held_at": "change", "epoch": 2,
                "reason": "`note` is dropped. Reload the table.", "ddl": "ALTER TABLE orders DROP note", "position": "log:2",
                "time": "2023-11-14T22:13:22.000Z", "changes": [{ "kind": "drop_column", "column": "note", "from": "integer" }],
                "proposed": ["ALTER TABLE orders DROP COLUMN note"], "queued": [{ "epoch": 3, "ddl": "ALTER TABLE orders ADD more INT" }],
                "rows_waiting": 7, "actions": ["approve", "keep", "reload"],
            }]);
            assert_eq!(Json::Array(cards.clone()), expected);
            let printed = cards_text(&cards);
            assert!(printed.starts_with("shop.orders on warehouse: held at epoch 2, 7 rows wait\n"), "{printed}");
            assert!(printed.contains("proposed: ALTER TABLE orders DROP COLUMN note"), "{printed}");
        });
    }
}
