//! The effects of a batch on one table → rows and keys in COPY's binary form, each proved to fit, before anything is sent.

use super::{encode::COPY_HEAD, loader::Loader};
use crate::{
    error::SinkError,
    target::{Effect, TableBatch},
};

/// Rows in COPY's binary form, behind its header.
#[derive(Debug)]
pub struct Rows {
    pub bytes: Vec<u8>,
    pub count: usize,
}

impl Rows {
    fn new() -> Self {
        Self { bytes: Vec::new(), count: 0 }
    }

    fn open(&mut self) -> &mut Vec<u8> {
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(COPY_HEAD);
        }
        self.count += 1;
        &mut self.bytes
    }

    /// The rows without the header.
    pub fn body(&self) -> &[u8] {
        self.bytes.get(COPY_HEAD.len()..).unwrap_or_default()
    }
}

/// Updates that carry the same columns.
#[derive(Debug)]
pub struct Partial<'a> {
    pub absent: &'a [usize],
    pub rows: Rows,
    /// The Avro rows, for messages, and whether a missing one is passed over.
    pub origin: Vec<(&'a [u8], bool)>,
}

/// What happens to a table without a key, in order.
#[derive(Debug)]
pub enum Run<'a> {
    Append(Rows),
    Remove(Rows, Vec<&'a [u8]>),
}

#[derive(Debug)]
pub struct Encoded<'a> {
    pub deletes: Rows,
    pub upserts: Rows,
    pub partial: Vec<Partial<'a>>,
    pub keyless: Vec<Run<'a>>,
}

/// Encodes a table's part of a batch. A value that does not fit ends it, before any byte has left.
pub fn encode<'a>(loader: &Loader, batch: &'a TableBatch<'a>) -> Result<Encoded<'a>, SinkError> {
    let mut out = Encoded { deletes: Rows::new(), upserts: Rows::new(), partial: Vec::new(), keyless: Vec::new() };
    for effect in &batch.effects {
        match effect {
            Effect::Upsert { row, absent, .. } if absent.is_empty() => put_row(loader, row, &mut out.upserts)?,
            Effect::Upsert { row, absent, skip_missing, .. } => put_partial(loader, row, absent, *skip_missing, &mut out.partial)?,
            Effect::Delete { key } => {
                loader.encoder.key(key, out.deletes.open()).map_err(|misfit| loader.misfit(&misfit, key, true))?;
            }
            Effect::Append { row } => {
                if !matches!(out.keyless.last(), Some(Run::Append(_))) {
                    out.keyless.push(Run::Append(Rows::new()));
                }
                if let Some(Run::Append(rows)) = out.keyless.last_mut() {
                    put_row(loader, row, rows)?;
                }
            }
            Effect::Remove { row } => {
                if !matches!(out.keyless.last(), Some(Run::Remove(..))) {
                    out.keyless.push(Run::Remove(Rows::new(), Vec::new()));
                }
                if let Some(Run::Remove(rows, origin)) = out.keyless.last_mut() {
                    put_row(loader, row, rows)?;
                    origin.push(row);
                }
            }
        }
    }
    let keyed = out.deletes.count + out.upserts.count + out.partial.len() > 0;
    if keyed && loader.keyless() && !batch.fresh_copy {
        return Err(SinkError::Stop { message: format!("table {} has no key, but rows came by key: reload it", loader.version.id) });
    }
    Ok(out)
}

fn put_row(loader: &Loader, row: &[u8], rows: &mut Rows) -> Result<(), SinkError> {
    loader.encoder.row(row, rows.open()).map_err(|misfit| loader.misfit(&misfit, row, false))
}

fn put_partial<'a>(
    loader: &Loader,
    row: &'a [u8],
    absent: &'a [usize],
    skip_missing: bool,
    partial: &mut Vec<Partial<'a>>,
) -> Result<(), SinkError> {
    let at = match partial.iter().position(|p| p.absent == absent) {
        Some(at) => at,
        None => {
            partial.push(Partial { absent, rows: Rows::new(), origin: Vec::new() });
            partial.len() - 1
        }
    };
    let group = &mut partial[at];
    loader.encoder.partial_row(row, absent, group.rows.open()).map_err(|misfit| loader.misfit(&misfit, row, false))?;
    group.origin.push((row, skip_missing));
    Ok(())
}
