//! What a statement would do on a target, with nothing touched.

use std::{collections::BTreeMap, sync::Arc};

use runtime::config::Sink;
use schemas::{
    change::SchemaChange,
    event::{EventKind, SchemaEvent, TableEvent},
    order::{
        events::Events,
        sink::{Judge, Verdict},
    },
    plan::target_table,
    table::Table,
};

use super::verdict::Rules;
use crate::{
    error::SinkError,
    target::{Session, Target},
};

/// A statement that was not run.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    pub ddl: String,
    /// The table's shape before and after it.
    pub before: Table,
    pub after: Table,
    pub changes: Vec<SchemaChange>,
}

/// What the rules say to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// `applied`, `nothing_to_apply`, `kept`, `held` or `stopped`.
    pub outcome: &'static str,
    pub reason: String,
    /// The statements that would run; of a held change, those that are proposed.
    pub target_ddl: Vec<String>,
}

/// Asks the rules for this sink. The target table is the one that is recorded, else the one that would be made.
///
/// # Errors
/// Where the target cannot be asked, or the table has no place on it.
pub async fn dry_run<T: Target>(target: &T, sink: &Sink, statement: &Statement) -> Result<Answer, SinkError> {
    let id = &statement.before.id;
    let recorded = match target.session().await {
        Ok(mut session) => session.expected(id).await?.map(|(_, table)| table),
        // Nothing has run here yet.
        Err(SinkError::Refused(_)) => None,
        Err(error) => return Err(error),
    };
    let made = || {
        target_table(&statement.before, &target.view(id)?, target.capabilities())
            .map_err(|errors| SinkError::Refused(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))
    };
    let expected = match recorded {
        Some(table) => table,
        None => made()?,
    };
    let mut events = Events::new(&sink.name);
    events.add(Arc::new(event(statement, 1, EventKind::Initial)));
    let asked = event(statement, 2, EventKind::Ddl);
    events.add(Arc::new(asked.clone()));
    let rules = Rules { target, sink, events: &events, expected: &BTreeMap::from([(id.clone(), (1, expected))]) };
    let part = &asked.tables[0];
    Ok(match rules.judge(&asked, part) {
        Verdict::Nothing => Answer { outcome: "nothing_to_apply", reason: reason(rules.untouched(&asked, part)), target_ddl: Vec::new() },
        Verdict::Hold { reason, proposed } => Answer { outcome: "held", reason, target_ddl: proposed },
        Verdict::Stop { reason } => Answer { outcome: "stopped", reason, target_ddl: Vec::new() },
        Verdict::Run => match rules.planned(part, false) {
            Ok(planned) => {
                let outcome = if planned.kept { "kept" } else { "applied" };
                Answer { outcome, reason: planned.reason, target_ddl: planned.sql }
            }
            Err(reason) => Answer { outcome: "stopped", reason, target_ddl: Vec::new() },
        },
    })
}

fn reason(planned: Result<super::verdict::Planned, String>) -> String {
    planned.map_or_else(|why| why, |planned| planned.reason)
}

fn event(statement: &Statement, epoch: u64, kind: EventKind) -> SchemaEvent {
    let (table, changes, version) = match kind {
        EventKind::Initial => (statement.before.clone(), Vec::new(), 1),
        EventKind::Ddl | EventKind::Reload | EventKind::Retire => (statement.after.clone(), statement.changes.clone(), 2),
    };
    SchemaEvent {
        epoch: Some(epoch),
        kind,
        position: "not run".into(),
        ts_ms: 0,
        ddl: Some(statement.ddl.clone()),
        for_sink: None,
        tables: vec![TableEvent {
            table,
            version,
            changes,
            topic: String::new(),
            topic_id: None,
            lanes: 1,
            boundaries: vec![0],
            key_schema: None,
            value_schema: 0,
            superseded: Vec::new(),
        }],
    }
}
