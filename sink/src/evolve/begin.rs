//! How a new sink begins: with the first row, or where rows have expired already, at a base line with copies of its own.

use std::collections::BTreeSet;

use schemas::{
    command::Command,
    order::{events::Events, ledger::Ledger, sink::base_line},
};

use super::Decider;
use crate::{
    consumer::Consumer,
    error::SinkError,
    target::{Session, Target},
};

impl<T: Target, C: Consumer> Decider<T, C> {
    /// Looks, before any worker is told of a lane, whether every topic is whole; records the base line where one is not.
    pub(super) async fn begin(&mut self) -> Result<(), SinkError> {
        if self.whole || self.events.newest() == 0 {
            return Ok(());
        }
        if is_new(&self.read_ledger().await?)
            && let Some(topic) = expired(&self.consumer, &self.events).await?
        {
            self.session()?.lock().await?;
            if is_new(&self.read_ledger().await?) {
                tracing::warn!(sink = %self.sink.name, topic, "rows expired before this sink began: it asks for a copy of every table");
                // Asked first: where this process ends in between, the next one asks again, and the later copy counts.
                self.consumer.ask(&Command::Reload { table: None, sink: Some(self.sink.name.clone()) }).await?;
                let changes = base_line(&self.events);
                self.session()?.record(&changes).await?;
            }
            self.session()?.unlock().await?;
        }
        self.whole = true;
        Ok(())
    }
}

/// A topic whose first rows are gone.
async fn expired<C: Consumer>(consumer: &C, events: &Events) -> Result<Option<String>, SinkError> {
    let topics: BTreeSet<&str> = events.iter().flat_map(|(_, event)| &event.tables).map(|part| part.topic.as_str()).collect();
    for topic in topics {
        if consumer.starts(topic).await?.iter().any(|start| *start > 0) {
            return Ok(Some(topic.to_owned()));
        }
    }
    Ok(None)
}

fn is_new(ledger: &Ledger) -> bool {
    ledger.decided == 0 && ledger.outcomes.is_empty() && ledger.lanes.is_empty()
}
