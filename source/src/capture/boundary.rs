//! Publishes an event by the protocol's boundary sequence, and carries what it changes into the tables that rows are written under.

use std::sync::Arc;

use metrics::counter;
use schemas::{
    change::SchemaChange,
    event::{EventKind, SchemaEvent, TableEvent},
    order::{
        boundary::{Act, Boundary},
        source::{Draft, Source},
    },
    table::{ColumnId, Table},
    types::Type,
    wire::envelope::put_truncate,
};

use super::{
    metric,
    record::{Origin, now_ms},
    session::Session,
    shape::{Captured, Schemas, Shapes},
};
use crate::{
    engine::{Engine, Stream},
    error::CaptureError,
    publisher::{LiveTopic, Publisher, TopicHandle},
};

/// Carries an event's sequence out up to the point where everything is known; the caller publishes it with what belongs to it.
pub(super) async fn prepare<P, Q>(
    boundary: &mut Boundary<P>,
    source: &Source<P>,
    publisher: &mut Q,
    shapes: &Shapes,
) -> Result<Vec<TopicHandle>, CaptureError>
where
    P: Clone + PartialEq + std::fmt::Debug + std::fmt::Display,
    Q: Publisher,
{
    let mut topics = Vec::new();
    loop {
        match boundary.act() {
            Act::Commit => {
                // Without an older row in the open transaction there is only what was handed over already. Either is written while
                // schemas are registered; the ends are asked for behind it.
                if publisher.pending().0 > 0 {
                    publisher.commit_soon(&source.progress(now_ms())).await?;
                }
                boundary.committed();
            }
            Act::Register(index) => {
                let table = of(boundary, index)?;
                let live = publisher.topic(&table.topic, Some(table.lanes)).await?;
                topics.push(live.handle);
                let captured = shapes.get(&table.table.id);
                boundary.in_topic(index, identity(boundary.kind(), captured, live)?);
                let known = captured.filter(|_| boundary.recorded_only());
                let schemas = match known {
                    Some(captured) => Schemas { key: captured.key_schema, value: captured.value_schema },
                    None => Schemas::register(&table.topic, &table.table, publisher).await?,
                };
                boundary.registered(index, schemas.key, schemas.value);
            }
            Act::Ends(index) => {
                let topic = topics.get(index).copied().ok_or_else(incomplete)?;
                boundary.ends(index, publisher.ends(topic).await?);
            }
            Act::Publish => return Ok(topics),
        }
    }
}

/// The identity of its topic that an event names. In a topic that was made anew only what begins the table anew goes on.
fn identity(kind: EventKind, captured: Option<&Arc<Captured>>, live: LiveTopic) -> Result<Option<String>, CaptureError> {
    match (kind, captured) {
        (EventKind::Initial | EventKind::Reload | EventKind::Retire, _) | (EventKind::Ddl, None) => Ok(live.id),
        (EventKind::Ddl, Some(captured)) if captured.lost => Ok(captured.topic_id.clone()),
        (EventKind::Ddl, Some(captured)) => match &captured.topic_id {
            Some(recorded) if live.id.as_ref() != Some(recorded) => Err(made_anew([captured])),
            Some(_) | None => Ok(live.id),
        },
    }
}

/// The stop before tables whose topics were made anew.
pub(super) fn made_anew<'a>(tables: impl IntoIterator<Item = &'a Arc<Captured>>) -> CaptureError {
    let topics: Vec<String> = tables.into_iter().map(|t| format!("topic {} (table {})", t.topic_name, t.id())).collect();
    CaptureError::Stop {
        message: format!(
            "{} was made anew: rows are gone for its readers. Way out: load the table anew: `instar reload FILE TABLE`; or take it out of the \
             configuration",
            topics.join(", ")
        ),
    }
}

fn of<P: Clone + PartialEq + std::fmt::Debug + std::fmt::Display>(
    boundary: &Boundary<P>,
    index: usize,
) -> Result<TableEvent, CaptureError> {
    boundary.table(index).cloned().ok_or_else(incomplete)
}

pub(super) fn incomplete() -> CaptureError {
    CaptureError::Transport("an event was to be published before its sequence was complete".into())
}

/// What the order of a table's keys depends on: by it the chunks of a copy have their bounds.
fn key_order(table: &Table) -> Vec<(ColumnId, Type, Option<String>)> {
    table.key_columns().into_iter().map(|c| (c.id, c.ty(), c.native.collation().map(str::to_owned))).collect()
}

impl<E: Engine, P: Publisher> Session<'_, E, P> {
    /// Publishes an event; what it changes is durable when this returns.
    pub async fn publish_event(&mut self, draft: Draft<E::Position>) -> Result<(), CaptureError> {
        let mut boundary = Boundary::new(&mut self.source, draft);
        let topics = prepare(&mut boundary, &self.source, self.tools.publisher, &self.shapes).await?;
        let (event, mut after) = boundary.publish(&self.source).ok_or_else(incomplete)?;
        for (table, topic) in event.tables.iter().zip(&topics) {
            if table.changes.contains(&SchemaChange::TruncateTable) {
                self.produce_truncates(&event, table, *topic, &mut after)?;
            }
        }
        self.tools.publisher.commit_event(&event, &after.progress(now_ms())).await?;
        self.source = after;
        tracing::info!(epoch = event.epoch, kind = event.kind.name(), position = event.position, ddl = event.ddl, "event published");
        counter!(metric::EVENTS, "kind" => event.kind.name()).increment(1);
        for (table, topic) in event.tables.iter().zip(topics) {
            self.take_over(&event, table, topic);
        }
        if event.kind != EventKind::Ddl {
            self.tools.reporter.captured(self.source.state().tables.values());
        }
        self.committed();
        Ok(())
    }

    /// One `op: t` event per lane, behind the boundary, for readers other than sinks.
    fn produce_truncates(
        &mut self,
        event: &SchemaEvent,
        table: &TableEvent,
        topic: TopicHandle,
        after: &mut Source<E::Position>,
    ) -> Result<(), CaptureError> {
        let captured = Captured::of_event(table, topic, self.tools.publisher.largest(topic));
        let origin = Origin {
            engine: E::NAME,
            namespace: E::NAMESPACE,
            position: &event.position,
            transaction: None,
            ts_ms: event.ts_ms,
            snapshot: false,
            copying: false,
            for_sink: None,
        };
        let mut source = Vec::new();
        captured.put_source(&mut source, &origin);
        let name = table.table.id.name.as_bytes();
        let mut value = Vec::new();
        for lane in 0..table.lanes {
            value.clear();
            put_truncate(&mut value, table.value_schema, event.epoch.unwrap_or_default(), after.next_seq(), &source, now_ms());
            self.tools.publisher.produce(topic, lane, captured.keyless().then_some(name), &value)?;
        }
        Ok(())
    }

    /// The rows of a table are written by this event from here on.
    fn take_over(&mut self, event: &SchemaEvent, table: &TableEvent, topic: TopicHandle) {
        let id = &table.table.id;
        let introduced = Captured::of_event(table, topic, self.tools.publisher.largest(topic));
        match event.kind {
            EventKind::Retire => {
                self.shapes.remove(id);
                self.stream.release(id);
            }
            EventKind::Initial | EventKind::Reload => self.shapes.insert(introduced),
            EventKind::Ddl if event.epoch.is_none() => {
                if let Some(captured) = self.shapes.get(id) {
                    let reshaped = captured.reshaped(table.table.clone());
                    self.shapes.insert(reshaped);
                }
            }
            EventKind::Ddl => {
                let before = self.shapes.get(id).map(|captured| key_order(&captured.published.shape));
                if before.is_some_and(|before| before != key_order(&table.table)) && self.source.copy(id).is_some() {
                    // The bounds of its chunks are those of another key.
                    self.renewed.insert(id.clone());
                }
                let lost = self.shapes.get(id).is_some_and(|captured| captured.lost);
                self.shapes.insert(Captured { lost, ..introduced });
            }
        }
    }

    /// Publishes the reloads whose pinned place is reached.
    pub async fn publish_due(&mut self) -> Result<(), CaptureError> {
        while let Some(draft) = self.source.due() {
            self.publish_event(draft).await?;
        }
        Ok(())
    }

    /// Begins copies anew that cannot go on from where they are.
    pub async fn renew_copies(&mut self) -> Result<(), CaptureError> {
        while let Some(table) = self.renewed.pop_first() {
            let shape = self.shapes.get(&table).map(|captured| captured.published.shape.clone());
            if let Some(draft) = shape.and_then(|shape| self.source.view_event(shape)) {
                self.publish_event(draft).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod unit {
    use schemas::{
        native::{Native, mysql},
        table::{Column, TableId},
    };

    use super::*;

    #[test]
    fn keys_of_another_collation_have_another_order() {
        let table = |collation: &str| {
            let charset = mysql::Charset { charset: "utf8mb4".into(), collation: collation.into() };
            let code = Native::MySql(mysql::Native::VarChar { length: 9, charset, compressed: false });
            Table::new(TableId::new("shop", "t"), vec![Column::new(0, "code", code).not_null()], &["code"])
        };
        assert_ne!(key_order(&table("utf8mb4_bin")), key_order(&table("utf8mb4_general_ci")));
        assert_eq!(key_order(&table("utf8mb4_bin")), key_order(&table("utf8mb4_bin")));
    }
}
