//! What stands where a target table begins: none, ours, or someone else's.

use schemas::{
    event::TableEvent,
    plan::{Action, Step, reshape, target_table},
    table::{Column, Table, TableId},
};

use super::verdict::{Planned, Rules};
use crate::{
    error::SinkError,
    target::{Session, Target},
};
use runtime::config::Keyless;

impl<T: Target> Rules<'_, T> {
    /// The plan that gives this table its event's shape, empty. `again`: a reload.
    ///
    /// # Errors
    ///
    /// [`SinkError::Refused`] where the configuration does not allow it: nothing was touched.
    pub async fn begin(&self, session: &mut T::Session, part: &TableEvent, again: bool) -> Result<Planned, SinkError> {
        let id = &part.table.id;
        let wanted = self.wanted(part)?;
        let expected = self.expected.get(id).map(|(_, table)| table);
        // A rename in the configuration makes another table of it, which is not ours yet.
        let ours = expected.filter(|table| table.id == wanted.id);
        let live = session.describe(&wanted.id, ours.or(Some(&wanted))).await?;
        let mut unchanged = wanted.clone();
        let (steps, reason) = match live {
            None if self.sink.create || ours.is_some() => (reshape(None, &wanted), "the table was created".to_owned()),
            None => {
                return Err(SinkError::Refused(format!(
                    "sink {}: target table {} does not exist; create it, or set `create: true`",
                    self.sink.name, wanted.id
                )));
            }
            Some(live) if ours.is_some() => {
                let steps = reshape(Some(&live), &wanted);
                let reason = begun(&steps);
                (steps, reason)
            }
            Some(live) => {
                unchanged = live.clone();
                self.foreign(session, id, live, &wanted, again).await?
            }
        };
        let mut planned = self
            .statements(part, steps, || Some(unchanged))
            .map_err(|why| SinkError::Refused(format!("sink {}: table {id}: {why}", self.sink.name)))?;
        planned.reason = reason;
        Ok(planned)
    }

    fn wanted(&self, part: &TableEvent) -> Result<Table, SinkError> {
        let id = &part.table.id;
        let keyless = self.sink.table(id).keyless;
        if part.table.row_key().is_none() && keyless == Keyless::Refuse {
            return Err(SinkError::Refused(format!(
                "sink {}: table {id} has no row key: give it a primary key, or set `sinks.{}.tables.{id}.keyless` to full_row or append",
                self.sink.name, self.sink.name
            )));
        }
        target_table(&part.table, &self.target.view(id)?, self.target.capabilities()).map_err(|errors| {
            let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
            SinkError::Refused(format!("sink {}: {}; map the column with `type_map` or `columns`", self.sink.name, all.join("; ")))
        })
    }

    /// A table that we did not make. `source`: the table whose rows are to go there.
    async fn foreign(
        &self,
        session: &mut T::Session,
        source: &TableId,
        live: Table,
        wanted: &Table,
        again: bool,
    ) -> Result<(Vec<Step>, String), SinkError> {
        let id = &wanted.id;
        // Where a table was never ours, this is its first load, also by the event of a table that was added later.
        if self.sink.recreate && (!again || !self.expected.contains_key(source)) {
            let mut steps = vec![Step { action: Action::DropTable, before: Some(live), after: None }];
            steps.extend(reshape(None, wanted));
            return Ok((steps, "the table that was there was dropped and created anew (recreate: true)".into()));
        }
        if !self.sink.adopt && !session.is_empty(id).await? {
            return Err(SinkError::Refused(format!(
                "sink {}: target table {id} exists, holds rows and is not ours: empty or rename it, or set `adopt: true` to take it over, or `recreate: true` to drop it",
                self.sink.name
            )));
        }
        let differences = differences(&live, wanted);
        if !differences.is_empty() {
            return Err(SinkError::Refused(format!(
                "sink {}: target table {id} exists, is not ours and has another shape: {}. Alter it, or set `recreate: true` to drop it.",
                self.sink.name,
                differences.join("; ")
            )));
        }
        // A reload empties what it takes over.
        let steps = if again { reshape(Some(&live), wanted) } else { Vec::new() };
        Ok((steps, "the table that was there was taken over".into()))
    }
}

/// What a reload did to the table that was there.
fn begun(steps: &[Step]) -> String {
    let gone: Vec<&str> =
        steps.iter().filter_map(|step| if let Action::DropColumn { name } = &step.action { Some(name.as_str()) } else { None }).collect();
    match gone.is_empty() {
        true => "the table was emptied".into(),
        false => format!("the table was emptied; columns that went: {}", gone.join(", ")),
    }
}

/// How a table differs from the wanted one. Column order does not count.
fn differences(live: &Table, wanted: &Table) -> Vec<String> {
    let mut found = Vec::new();
    let declared = |c: &Column| format!("{}{}", c.native, if c.nullable { "" } else { " NOT NULL" });
    for column in &wanted.columns {
        match live.column(&column.name) {
            None => found.push(format!("column `{}` {} is missing", column.name, declared(column))),
            Some(there) if there.generated.is_some() => found.push(format!("column `{}` is computed by the target", column.name)),
            Some(there) if there.native != column.native || there.nullable != column.nullable => {
                found.push(format!("column `{}` is {} and should be {}", column.name, declared(there), declared(column)));
            }
            Some(_) => {}
        }
    }
    for column in live.columns.iter().filter(|c| wanted.column(&c.name).is_none()) {
        found.push(format!("column `{}` {} is not at the source", column.name, declared(column)));
    }
    let key = |table: &Table| {
        let ids = table.primary.iter().flat_map(|key| &key.columns);
        ids.filter_map(|id| table.by_id(*id)).map(|c| c.name.clone()).collect::<Vec<_>>()
    };
    if key(live) != key(wanted) {
        found.push(format!("the primary key is ({}) and should be ({})", key(live).join(", "), key(wanted).join(", ")));
    }
    found
}
