//! Rows events: which rows of which table, and their encoding.

use std::sync::Arc;

use schemas::wire::envelope::Op;

use super::{
    Malformed,
    cell::Scratch,
    compressed,
    cursor::Cursor,
    json_diff,
    plan::{Cell, Data, Misfit, Plan, Planned},
    table_map::TableMap,
};
use crate::{
    engine::{Row, RowSink},
    error::CaptureError,
};

/// What happened to the rows of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Write,
    Update,
    Delete,
}

/// A rows event's type code taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    pub action: Action,
    /// Version 2 has extra data behind the head.
    pub version2: bool,
    /// MariaDB's compressed form.
    pub compressed: bool,
    /// MySQL's updates with differences of JSON documents (`binlog_row_value_options=PARTIAL_JSON`).
    pub partial: bool,
}

impl Kind {
    /// The kind of an event type; None: not a rows event that is understood.
    pub fn of(event_type: u8) -> Option<Self> {
        let kind = |action, version2, compressed| Some(Self { action, version2, compressed, partial: false });
        match event_type {
            39 => Some(Self { action: Action::Update, version2: true, compressed: false, partial: true }),
            23 => kind(Action::Write, false, false),
            24 => kind(Action::Update, false, false),
            25 => kind(Action::Delete, false, false),
            30 => kind(Action::Write, true, false),
            31 => kind(Action::Update, true, false),
            32 => kind(Action::Delete, true, false),
            166 => kind(Action::Write, false, true),
            167 => kind(Action::Update, false, true),
            168 => kind(Action::Delete, false, true),
            169 => kind(Action::Write, true, true),
            170 => kind(Action::Update, true, true),
            171 => kind(Action::Delete, true, true),
            _ => None,
        }
    }
}

/// The table id of a rows event.
pub fn table_id(body: &[u8]) -> Result<u64, Malformed> {
    Cursor::new(body, "a rows event").uint(6)
}

/// Rows of one event, not decoded.
#[derive(Debug)]
pub struct Rows {
    pub map: Arc<TableMap>,
    action: Action,
    /// Columns of the before image (of deletes and updates) and of the after image.
    before: Vec<u8>,
    after: Vec<u8>,
    /// After images may hold differences of JSON documents.
    partial: bool,
    data: Vec<u8>,
    /// For messages.
    pub position: String,
}

impl Rows {
    pub fn read(body: &[u8], kind: Kind, map: Arc<TableMap>, position: String) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(body, "a rows event");
        cursor.skip(8)?;
        if kind.version2 {
            let extra = usize::from(cursor.u16()?);
            cursor.skip(extra.saturating_sub(2))?;
        }
        let columns = cursor.count()?;
        if columns != map.columns.len() {
            let problem = format!("{columns} columns, its TABLE_MAP has {}", map.columns.len());
            return Err(Malformed::Unreadable { what: "a rows event", problem });
        }
        let bitmap = columns.div_ceil(8);
        let first = cursor.take(bitmap)?.to_vec();
        let (before, after) = match kind.action {
            Action::Write => (Vec::new(), first),
            Action::Delete => (first, Vec::new()),
            Action::Update => (first, cursor.take(bitmap)?.to_vec()),
        };
        let data = if kind.compressed { compressed::event_part(cursor.rest())? } else { cursor.rest().to_vec() };
        Ok(Self { map, action: kind.action, before, after, partial: kind.partial, data, position })
    }

    /// Writes all of it, its table by number.
    pub fn store(&self, map: u32, out: &mut Vec<u8>) {
        out.extend(map.to_le_bytes());
        out.push(match self.action {
            Action::Write => 0,
            Action::Update => 1,
            Action::Delete => 2,
        });
        out.push(u8::from(self.partial));
        for part in [&self.before, &self.after, self.position.as_bytes(), &self.data] {
            out.extend((part.len() as u64).to_le_bytes());
            out.extend_from_slice(part);
        }
    }

    /// Reads what [`Self::store`] wrote.
    pub fn restore(bytes: &[u8], maps: &[Arc<TableMap>]) -> Result<Self, Malformed> {
        const WHAT: &str = "kept rows";
        let unknown = |problem: &str| Malformed::Unreadable { what: WHAT, problem: problem.into() };
        let mut cursor = Cursor::new(bytes, WHAT);
        let map = maps.get(cursor.u32()? as usize).ok_or_else(|| unknown("of no table"))?;
        let action = match cursor.u8()? {
            0 => Action::Write,
            1 => Action::Update,
            2 => Action::Delete,
            _ => return Err(unknown("of no known action")),
        };
        let partial = cursor.u8()? != 0;
        let mut part = || {
            let length = usize::try_from(cursor.u64()?).map_err(|_| Malformed::Truncated(WHAT))?;
            cursor.take(length).map(<[u8]>::to_vec)
        };
        let (before, after, position, data) = (part()?, part()?, part()?, part()?);
        let position = String::from_utf8(position).map_err(|_| unknown("without a place"))?;
        Ok(Self { map: Arc::clone(map), action, before, after, partial, data, position })
    }

    /// Bytes held.
    pub fn size(&self) -> usize {
        self.data.len()
    }

    /// The row data.
    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    fn all(&self, bitmap: &[u8]) -> bool {
        !bitmap.is_empty() && (0..self.map.columns.len()).all(|i| super::cursor::bit(bitmap, i))
    }
}

/// Buffers that are used again from event to event.
#[derive(Debug, Default)]
pub struct Encoder {
    scratch: Scratch,
    cells: [Vec<Cell>; 2],
    /// JSON documents that a difference was applied to, as text.
    patched: Vec<u8>,
    /// Columns whose after image is a difference.
    differences: Vec<bool>,
    keys: [Vec<u8>; 2],
    images: [Vec<u8>; 2],
}

const BEFORE: usize = 0;
const AFTER: usize = 1;

impl Encoder {
    /// Encodes the rows behind the first `skip` into `out`; returns how many there are in all.
    ///
    /// # Errors
    /// A stop that names table, column, key and position where a value does not fit, and whatever `out` returns.
    pub fn encode(&mut self, rows: &Rows, skip: u64, plan: &Plan, out: &mut impl RowSink) -> Result<u64, CaptureError> {
        let whole = [self.whole(rows, BEFORE), self.whole(rows, AFTER)];
        let (mut at, mut count) = (0, 0u64);
        while at < rows.data.len() {
            at = self.locate(rows, plan, at, whole).map_err(|problem| broken(rows, &problem.to_string()))?;
            if count >= skip {
                self.row(rows, plan, out)?;
                out.end();
            }
            count += 1;
        }
        Ok(count)
    }

    fn whole(&self, rows: &Rows, side: usize) -> bool {
        rows.all_of(side)
    }

    fn locate(&mut self, rows: &Rows, plan: &Plan, mut at: usize, whole: [bool; 2]) -> Result<usize, Malformed> {
        let begin = at;
        if rows.action != Action::Write {
            at = plan.locate(&rows.data, at, &rows.before, whole[BEFORE], &mut self.cells[BEFORE])?;
        }
        if rows.action != Action::Delete {
            if rows.partial {
                at = json_diff::differences(rows, at, &mut self.differences)?;
            }
            at = plan.locate(&rows.data, at, &rows.after, whole[AFTER], &mut self.cells[AFTER])?;
        }
        if rows.action == Action::Update && !whole[AFTER] {
            // A column that the after image leaves out was not changed.
            let [before, after] = &mut self.cells;
            for (after, before) in after.iter_mut().zip(before.iter()) {
                if *after == Cell::Absent {
                    *after = *before;
                }
            }
        }
        if at == begin { Err(Malformed::Truncated("a row")) } else { Ok(at) }
    }

    /// Puts the documents that differences lead to in their place.
    fn patch(&mut self, rows: &Rows, plan: &Plan) -> Result<(), CaptureError> {
        self.patched.clear();
        let Self { cells: [before, after], patched, differences, .. } = self;
        for (i, _) in differences.iter().enumerate().filter(|(_, differs)| **differs) {
            let Cell::At(from, to) = after[i] else { continue };
            let difference = &rows.data[from..to];
            after[i] = match before[i] {
                _ if difference.is_empty() => before[i],
                Cell::At(from, to) => {
                    let begin = patched.len();
                    json_diff::apply(patched, &rows.data[from..to], difference).map_err(|problem| broken(rows, &problem.to_string()))?;
                    Cell::Patched(begin, patched.len())
                }
                Cell::Absent | Cell::Null | Cell::Patched(..) => {
                    let name = plan.fields.image.iter().find(|field| field.column == i).map_or("?", |field| &field.name);
                    let problem = format!(
                        "the update carries a difference of the JSON document in column `{name}`, and its before image lacks the document: this \
                         partial JSON cannot be completed; set binlog_row_image=FULL or binlog_row_value_options='' on the source and reload the table"
                    );
                    return Err(broken(rows, &problem));
                }
            };
        }
        Ok(())
    }

    fn row(&mut self, rows: &Rows, plan: &Plan, out: &mut impl RowSink) -> Result<(), CaptureError> {
        if rows.partial {
            self.patch(rows, plan)?;
        }
        let mut absent: [Vec<&str>; 2] = [Vec::new(), Vec::new()];
        for side in [BEFORE, AFTER] {
            let there = if side == BEFORE { rows.action != Action::Write } else { rows.action != Action::Delete };
            if there {
                absent[side] = self.side(rows, plan, side)?;
            }
        }
        let [before_key, after_key] = &self.keys;
        let [before, after] = &self.images;
        let [absent_before, absent_after] = &absent;
        let create = Row { op: Op::Create, key: after_key, before: None, after: Some(after), absent_before: &[], absent_after };
        let delete = Row { op: Op::Delete, key: before_key, before: Some(before), after: None, absent_before, absent_after: &[] };
        match rows.action {
            Action::Write => out.row(create),
            Action::Delete => out.row(delete),
            Action::Update if before_key != after_key => {
                out.row(delete)?;
                out.row(create)
            }
            Action::Update => {
                out.row(Row { op: Op::Update, key: after_key, before: Some(before), after: Some(after), absent_before, absent_after })
            }
        }
    }

    /// Writes key and image of one side; returns the names of absent columns.
    fn side<'p>(&mut self, rows: &Rows, plan: &'p Plan, side: usize) -> Result<Vec<&'p str>, CaptureError> {
        let (key, image) = (&mut self.keys[side], &mut self.images[side]);
        key.clear();
        image.clear();
        let (mut absent, mut missing) = (Vec::new(), None);
        let cells = &self.cells[side];
        let data = Data { rows: &rows.data, patched: &self.patched };
        plan.put(&plan.fields.key, data, cells, key, &mut self.scratch, |name| missing = Some(name))
            .map_err(|misfit| stop(rows, &misfit, "a key that cannot be read"))?;
        if let Some(name) = missing {
            let problem = format!(
                "the row image lacks the key column `{name}`; SET GLOBAL binlog_row_image = 'FULL' on the source and in every session, then reload the table"
            );
            return Err(broken(rows, &problem));
        }
        plan.put(&plan.fields.image, data, cells, image, &mut self.scratch, |name| absent.push(name))
            .map_err(|misfit| stop(rows, &misfit, &key_text(&plan.fields.key, key)))?;
        Ok(absent)
    }
}

impl Rows {
    fn all_of(&self, side: usize) -> bool {
        self.all(if side == BEFORE { &self.before } else { &self.after })
    }
}

fn broken(rows: &Rows, problem: &str) -> CaptureError {
    CaptureError::Stop { message: format!("{} at {}: {problem}", rows.map.table, rows.position) }
}

fn stop(rows: &Rows, misfit: &Misfit, key: &str) -> CaptureError {
    CaptureError::Stop {
        message: format!("{}, column `{}`, row {key} at {}: {}", rows.map.table, misfit.column, rows.position, misfit.unfit),
    }
}

/// A row's key for messages: `id=1, code='x'`.
pub fn key_text(fields: &[Planned], key: &[u8]) -> String {
    crate::key::text(fields.iter().map(|field| (field.name.as_str(), &field.repr, field.nullable)), key)
}
