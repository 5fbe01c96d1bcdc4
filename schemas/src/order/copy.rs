//! The copy of tables, as part of the source's progress: by key in chunks, or as one view where there is no key.

use std::fmt::{Debug, Display};

use super::{
    protection::Protection,
    source::{Draft, Source},
};
use crate::{
    event::{ChunkProgress, CopyProgress, EventKind, RereadProgress},
    table::{Table, TableId},
};

/// A part of a copy that is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// Exclusive below, inclusive above; None: open.
    Chunk { above: Option<Vec<String>>, up_to: Option<Vec<String>> },
    /// A single key.
    Key(Vec<String>),
}

impl<P: Clone + PartialEq + Debug + Display> Source<P> {
    // ---- copy by key

    /// Tables whose copy is not complete.
    pub fn copying(&self) -> impl Iterator<Item = (&TableId, &CopyProgress<P>)> {
        self.busy().filter(|t| !t.retired && t.begin.is_none()).filter_map(|t| t.copy.as_ref().map(|copy| (&t.id, copy)))
    }

    /// The sink that the table's unfinished copy is for; None: all of them, or no copy. All rows of the table say so beside
    /// `copying`: a copied row is for that sink only, and only there may an update find its row missing.
    pub fn copy_for(&self, table: &TableId) -> Option<&str> {
        self.copy(table).and_then(|copy| copy.for_sink.as_deref())
    }

    /// The table's copy, where it is not complete.
    pub fn copy(&self, table: &TableId) -> Option<&CopyProgress<P>> {
        self.table(table).filter(|t| !t.retired && t.begin.is_none()).and_then(|t| t.copy.as_ref())
    }

    fn copy_mut(&mut self, table: &TableId) -> Option<&mut CopyProgress<P>> {
        self.table_mut(table).and_then(|t| t.copy.as_mut())
    }

    /// Adds the chunk behind the last one planned; `up_to`: its inclusive upper bound, None: the rest of the table.
    pub fn planned(&mut self, table: &TableId, up_to: Option<Vec<String>>) {
        if let Some(copy) = self.copy_mut(table).filter(|copy| !copy.all_planned && !copy.view) {
            copy.chunks.push(ChunkProgress { above: copy.planned_to.clone(), up_to: up_to.clone(), read_at: None });
            copy.all_planned = up_to.is_none();
            copy.planned_to = up_to;
        }
    }

    /// Cuts a chunk that is not read in two, of which the first reaches up to `at`: it was larger than it was planned.
    pub fn cut(&mut self, table: &TableId, part: &Unread, at: Vec<String>) {
        let Unread::Chunk { above, up_to } = part else { return };
        let Some(copy) = self.copy_mut(table) else { return };
        let place = copy.chunks.iter().position(|c| c.above == *above && c.up_to == *up_to && c.read_at.is_none());
        if let Some(place) = place {
            copy.chunks[place].up_to = Some(at.clone());
            copy.chunks.insert(place + 1, ChunkProgress { above: Some(at), up_to: up_to.clone(), read_at: None });
        }
    }

    /// The rows that the copy has to bring, by the server's estimate.
    pub fn estimated(&mut self, table: &TableId, rows: u64) {
        if let Some(copy) = self.copy_mut(table) {
            copy.rows_estimated = rows;
        }
    }

    /// What is planned and not read yet (or has to be read again), in order; nothing within a group.
    pub fn unread(&self, table: &TableId) -> Vec<Unread> {
        let Some(copy) = self.copy(table).filter(|_| self.between_groups()) else { return Vec::new() };
        let chunk = |c: &ChunkProgress<P>| Unread::Chunk { above: c.above.clone(), up_to: c.up_to.clone() };
        let chunks = copy.chunks.iter().filter(|c| c.read_at.is_none()).map(chunk);
        chunks.chain(copy.reread.iter().filter(|r| r.read_at.is_none()).map(|r| Unread::Key(r.key.clone()))).collect()
    }

    /// A part was read and its rows were published behind everything else, while the stream stood; `read_at` was read after it.
    pub fn read(&mut self, table: &TableId, part: &Unread, read_at: P, rows: u64) {
        let Some(copy) = self.copy_mut(table) else { return };
        let place = match part {
            Unread::Chunk { above, up_to } => {
                copy.rows_done += rows;
                copy.chunks.iter_mut().find(|c| c.above == *above && c.up_to == *up_to).map(|c| &mut c.read_at)
            }
            Unread::Key(key) => copy.reread.iter_mut().find(|r| r.key == *key).map(|r| &mut r.read_at),
        };
        if let Some(place) = place {
            *place = Some(read_at);
        }
        self.pass_chunks();
    }

    /// A key change whose new row was not carried whole, during a copy: the new key is read as a chunk of its own.
    pub fn reread(&mut self, table: &TableId, key: Vec<String>) {
        if !self.protections.has(Protection::Reread) {
            return;
        }
        if let Some(copy) = self.copy_mut(table) {
            copy.reread.retain(|r| r.key != key);
            copy.reread.push(RereadProgress { key, read_at: None });
        }
    }

    /// What the stream has passed counts: it is taken out. A copy of which nothing is left is complete.
    pub(super) fn pass_chunks(&mut self) {
        let (reached, position) = (self.reached, &self.state.position);
        let waits = |read_at: &Option<P>| read_at.as_ref().is_none_or(|at| !reached(position, at));
        let tables = &mut self.state.tables;
        self.busy.retain(|topic| {
            let Some(table) = tables.get_mut(topic) else { return false };
            if let Some(copy) = table.copy.as_mut().filter(|copy| !copy.view) {
                copy.chunks.retain(|chunk| waits(&chunk.read_at));
                copy.reread.retain(|reread| waits(&reread.read_at));
                if copy.all_planned && copy.chunks.is_empty() && copy.reread.is_empty() {
                    table.copy = None;
                }
            }
            table.copy.is_some() || table.begin.is_some()
        });
    }

    // ---- copy without a key

    /// A view of a table without a key was opened, at this place: the stream goes on to it without the table's rows. False:
    /// the stream is past that place already (the log is ahead of what a view shows); open another.
    pub fn view_opened(&mut self, table: &TableId, at: P) -> bool {
        // Within a group, rows behind `position` were passed over already.
        let here = self.between_groups() && at == self.state.position;
        let usable = here || !(self.reached)(&self.state.position, &at);
        if usable {
            self.views.insert(table.clone(), at);
        }
        usable
    }

    /// Where the open view of a table stands.
    pub fn view(&self, table: &TableId) -> Option<&P> {
        self.views.get(table)
    }

    /// The view was lost (its connection ended): it has to be opened again.
    pub fn view_lost(&mut self, table: &TableId) {
        self.views.remove(table);
    }

    /// A table whose view stands where the stream stands: publish [`Source::view_event`], then the view's rows.
    pub fn due_view(&self) -> Option<TableId> {
        self.views.iter().find(|(_, at)| self.between_groups() && (self.reached)(&self.state.position, at)).map(|(table, _)| table.clone())
    }

    /// The emptying event before a view's rows; `shape`: the table's at this place.
    pub fn view_event(&self, shape: Table) -> Option<Draft<P>> {
        let copy = self.copy(&shape.id)?;
        if copy.rows_done > 0 && !self.protections.has(Protection::ViewEmpties) {
            return None;
        }
        let for_sink = copy.for_sink.clone();
        Some(Draft { for_sink, ..self.draft(EventKind::Reload, vec![(shape, Vec::new(), Vec::new())]) })
    }

    /// Rows of the view were published; `end`: the last of them, the copy is complete with the next commit.
    pub fn view_rows(&mut self, table: &TableId, rows: u64, end: bool) {
        if let Some(copy) = self.copy_mut(table) {
            copy.rows_done += rows;
        }
        if end {
            self.views.remove(table);
            if let Some(known) = self.table_mut(table) {
                known.copy = None;
            }
        }
    }
}
