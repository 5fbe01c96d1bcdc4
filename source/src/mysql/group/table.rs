//! Tables as the log describes them, and their rows.

use std::{collections::BTreeSet, sync::Arc};

use super::{Decided, Groups, Halt, KEPT_BACK, Ready, Step};
use crate::mysql::{
    decode::{
        Malformed,
        referee::Referee,
        rows::{self, Kind, Rows},
        table_map::TableMap,
    },
    event::Event,
};

/// A table as the log writes its rows.
#[derive(Debug)]
pub struct Mapped {
    /// The TABLE_MAP event's body.
    body: Vec<u8>,
    map: Arc<TableMap>,
    /// The shapes' generation that it was found to agree with.
    agrees: Option<u64>,
}

impl Groups {
    pub(super) fn table_map(&mut self, event: &Event) -> Step {
        let id = rows::table_id(&event.body)?;
        let known = self.maps.get(&id).filter(|mapped| mapped.body == event.body);
        let generation = Some(self.shapes.generation());
        if known.is_some_and(|mapped| mapped.agrees == generation || !self.shapes.follows(&mapped.map.table)) {
            return Ok(());
        }
        let map = match known {
            Some(mapped) => Arc::clone(&mapped.map),
            None => Arc::new(TableMap::read(&event.body, self.server.mariadb)?),
        };
        // What is read again is judged when the transaction is committed.
        let judged = self.shapes.follows(&map.table) && self.group.as_ref().is_none_or(|group| !group.again);
        if judged {
            self.judge(&map)?;
            if self.shapes.named(map.is_full()) {
                let (table, named) = (map.table.to_string(), map.is_full());
                tracing::warn!(table, named, "binlog_row_metadata was changed on the source: whether the log names columns");
            }
        }
        self.maps.insert(id, Mapped { body: event.body.clone(), map, agrees: generation.filter(|_| judged) });
        Ok(())
    }

    pub(super) fn judge(&self, map: &TableMap) -> Step {
        let stand = |message: String| Halt::Stand { tables: vec![map.table.clone()], ddl: None, message };
        let shape = self.shapes.shape(&map.table).ok_or_else(|| stand(format!("{}: its shape is not known here; reload it", map.table)))?;
        if self.require_metadata && !map.is_full() {
            return Err(stand(format!(
                "{}: the log lacks column names, which source.row_metadata: require asks for; SET GLOBAL binlog_row_metadata = 'FULL' on the source, then reload the table",
                map.table
            )));
        }
        let referee = Referee { charsets: &self.server.charsets, collations: &self.server.collations };
        referee.judge(map, shape).map_err(|problem| {
            stand(format!("{}: the log's metadata does not agree with the tracked shape ({problem}); reload the table", map.table))
        })
    }

    pub(super) fn rows(&mut self, event: &Event, kind: Kind) -> Step {
        let id = rows::table_id(&event.body)?;
        let Some(Mapped { map, .. }) = self.maps.get(&id) else {
            // The dummy that only ends a statement.
            if id == 0xff_ffff {
                return Ok(());
            }
            return Err(
                Malformed::Unreadable { what: "a rows event", problem: format!("no TABLE_MAP of table {id} stands before it") }.into()
            );
        };
        let xa = self.group.as_ref().is_some_and(|group| group.xa);
        if !self.shapes.keeps(&map.table, xa) {
            if let Some(group) = self.group.as_mut().filter(|group| group.xa) {
                group.others.insert(map.table.clone());
            }
            return Ok(());
        }
        let (map, place) = (Arc::clone(map), self.place(event));
        let Some(group) = self.group.as_mut() else {
            return Err(Malformed::Unreadable { what: "a rows event", problem: "it stands outside of any group".into() }.into());
        };
        if group.again && !group.xa {
            return Ok(());
        }
        let rows = Rows::read(&event.body, kind, map, place)?;
        if !group.may_pass_on() {
            return group.rows.push(rows, &mut self.store).map_err(Halt::Failed);
        }
        group.rows.push_in_memory(rows, &mut self.store);
        if group.rows.bytes() > KEPT_BACK {
            group.passed_on = true;
            let rows = std::mem::take(&mut group.rows);
            let (transaction, ts_ms) = (group.transaction.clone(), group.ts_ms);
            let tables = BTreeSet::from_iter(self.shapes.followed());
            self.ready.push_back(Ready::Rows(Decided { rows, tables, transaction, ts_ms }));
        }
        Ok(())
    }
}
