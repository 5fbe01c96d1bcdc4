//! Where the rows of running tables go, against where the configuration puts them now. A table that runs stays where it is until
//! a reload makes its target table anew: a name that was changed in the file would be without effect, and nobody would be told.

use std::{collections::BTreeSet, sync::Arc};

use runtime::config::Sink;
use schemas::{
    event::{SchemaEvent, Version},
    order::{
        events::{Asked, Events},
        ledger::Ledger,
    },
    table::{Table, TableId},
    view::View,
};

use crate::{
    error::SinkError,
    target::{Session, Target},
};

/// Names of running tables and columns that the configuration has changed: each with its key, the old name, the new one and the way
/// out. `reloading`: tables of which a reload is asked for already.
///
/// # Errors
///
/// Where the target cannot be asked.
pub async fn changed<T: Target>(
    target: &T,
    sink: &Sink,
    events: &[SchemaEvent],
    tables: &[TableId],
    reloading: &BTreeSet<TableId>,
) -> Result<Vec<String>, SinkError> {
    let mut known = Events::new(&sink.name);
    for event in events {
        known.add(Arc::new(event.clone()));
    }
    let mut session = target.session().await?;
    let ledger = session.ledger().await?;
    let mut found = Vec::new();
    for id in tables.iter().filter(|id| !reloading.contains(*id) && !is_reloaded(&known, &ledger, id)) {
        if let Some((version, expected)) = session.expected(id).await? {
            let waits = ledger.held.contains_key(id) || ledger.queued.contains_key(id);
            found.extend(of_table(sink, &target.view(id)?, &known, id, (version, &expected), waits));
        }
    }
    Ok(found)
}

/// Whether a reload of the table is on its way to this sink.
fn is_reloaded(events: &Events, ledger: &Ledger, id: &TableId) -> bool {
    let undecided = events.iter().filter(|(epoch, event)| *epoch > ledger.decided && event.table(id).is_some());
    undecided.into_iter().any(|(_, event)| match events.asked(event) {
        Asked::Create | Asked::Reload => true,
        Asked::Change | Asked::Retire | Asked::Elsewhere => false,
    })
}

/// `waits`: the table is held, where a corrected column name is a way out.
fn of_table(sink: &Sink, view: &View, events: &Events, id: &TableId, (version, expected): (Version, &Table), waits: bool) -> Vec<String> {
    let way_out = |old: &str| {
        format!(
            "A table that runs gets it by a reload: `instar reload FILE {id} --sink {}`, then start again; or put {old} back",
            sink.name
        )
    };
    let (now, old) = (&view.table, &expected.id);
    if now != old {
        let key = if now.namespace == old.namespace { format!("tables.{id}.rename") } else { "schema".to_owned() };
        let stays = format!("; the table {old} stays as it is then");
        return vec![format!(
            "sinks.{}.{key}: rows of {id} go to {old}, and the file says {now}. {}{stays}",
            sink.name,
            way_out(&old.name)
        )];
    }
    let Some((_, part)) = events.version(id, version).filter(|_| !waits) else { return Vec::new() };
    let mut found = Vec::new();
    for column in &part.table.columns {
        let (Some(there), name) = (expected.by_id(column.id), view.name(&column.name)) else { continue };
        // A rename at the source that a policy or a person kept from the target is no change of the file.
        let kept = || !view.columns.contains_key(&column.name) && was_called(events, id, column.id, &there.name);
        if there.name != name && !kept() {
            found.push(format!(
                "sinks.{}.tables.{id}.columns: the column {} of {id} goes to the column {} of {old}, and the file says {name}. {}",
                sink.name,
                column.name,
                there.name,
                way_out(&there.name)
            ));
        }
    }
    found
}

/// Whether a column had this name at the source.
fn was_called(events: &Events, id: &TableId, column: schemas::table::ColumnId, name: &str) -> bool {
    let shapes = events.iter().filter_map(|(_, event)| event.table(id));
    shapes.filter_map(|part| part.table.by_id(column)).any(|c| c.name == name)
}
