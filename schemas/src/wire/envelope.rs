//! The row event's envelope: `epoch, seq, before, after, op, source, ts_ms`.
//!
//! `epoch` and `seq` come first, so that a reader finds them behind the frame without decoding the row.

use super::{
    WireError,
    codec::{Reader, put_array, put_boolean, put_bytes, put_long, put_null, put_optional_string, put_some},
};
use crate::event::{Epoch, Seq, Version};

/// What happened to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    Create,
    Update,
    Delete,
    /// Read by a copy.
    Read,
    /// The table was emptied; for other readers only.
    Truncate,
}

impl Op {
    pub fn code(self) -> &'static str {
        match self {
            Op::Create => "c",
            Op::Update => "u",
            Op::Delete => "d",
            Op::Read => "r",
            Op::Truncate => "t",
        }
    }

    pub fn parse(code: &[u8]) -> Result<Op, WireError> {
        match code {
            b"c" => Ok(Op::Create),
            b"u" => Ok(Op::Update),
            b"d" => Ok(Op::Delete),
            b"r" => Ok(Op::Read),
            b"t" => Ok(Op::Truncate),
            other => Err(WireError::Unknown { what: "op", value: String::from_utf8_lossy(other).into_owned() }),
        }
    }
}

/// Where a row event comes from. All but the absent lists is the same for a whole batch of rows: encode it once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source<'a> {
    pub engine: &'a str,
    pub database: Option<&'a str>,
    pub schema: Option<&'a str>,
    pub table: &'a str,
    pub position: &'a str,
    pub transaction: Option<&'a str>,
    /// Commit time at the source, milliseconds since 1970 UTC.
    pub ts_ms: i64,
    pub schema_version: Version,
    /// Read by a copy.
    pub snapshot: bool,
    /// The table's copy is not complete: an update of a row that is not there yet is skipped.
    pub copying: bool,
    /// The sink that asked for this copy; None: all sinks.
    pub for_sink: Option<&'a str>,
}

/// The part of `source` before its absent lists.
pub fn put_source(out: &mut Vec<u8>, source: &Source<'_>) {
    put_bytes(out, source.engine.as_bytes());
    put_optional_string(out, source.database);
    put_optional_string(out, source.schema);
    put_bytes(out, source.table.as_bytes());
    put_bytes(out, source.position.as_bytes());
    put_optional_string(out, source.transaction);
    put_long(out, source.ts_ms);
    put_long(out, i64::from(source.schema_version));
    put_boolean(out, source.snapshot);
    put_boolean(out, source.copying);
    put_optional_string(out, source.for_sink);
}

/// Writes everything before the images. The caller then writes `before` and `after`, each by [`put_null`], or [`put_some`] and
/// the row's fields, and ends with [`put_tail`].
pub fn put_head(out: &mut Vec<u8>, schema: u32, epoch: Epoch, seq: Seq) {
    super::codec::put_frame(out, schema);
    put_long(out, epoch.cast_signed());
    put_long(out, seq.cast_signed());
}

/// Writes everything behind the images. `source` is what [`put_source`] made; the absent lists name columns not carried.
pub fn put_tail(out: &mut Vec<u8>, op: Op, source: &[u8], absent_before: &[&str], absent_after: &[&str], ts_ms: i64) {
    put_bytes(out, op.code().as_bytes());
    out.extend_from_slice(source);
    put_array(out, absent_before, |out, name| put_bytes(out, name.as_bytes()));
    put_array(out, absent_after, |out, name| put_bytes(out, name.as_bytes()));
    put_long(out, ts_ms);
}

/// An event without images: `op: t`.
pub fn put_truncate(out: &mut Vec<u8>, schema: u32, epoch: Epoch, seq: Seq, source: &[u8], ts_ms: i64) {
    put_head(out, schema, epoch, seq);
    put_null(out);
    put_null(out);
    put_tail(out, Op::Truncate, source, &[], &[], ts_ms);
}

/// An image's marker: the fields follow where it returns true.
pub fn put_image(out: &mut Vec<u8>, present: bool) {
    if present { put_some(out) } else { put_null(out) }
}

/// What a reader needs before it looks at a row: found without decoding it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub schema: u32,
    pub epoch: Epoch,
    pub seq: Seq,
}

impl Head {
    /// The head of a framed row event, and a reader that stands at `before`.
    pub fn read(record: &[u8]) -> Result<(Head, Reader<'_>), WireError> {
        let mut reader = Reader::new(record);
        let schema = reader.frame()?;
        let epoch = reader.long()?.cast_unsigned();
        let seq = reader.long()?.cast_unsigned();
        Ok((Head { schema, epoch, seq }, reader))
    }
}

/// What stands behind the images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail<'a> {
    pub op: Op,
    pub source: Source<'a>,
    pub absent_before: Vec<&'a str>,
    pub absent_after: Vec<&'a str>,
    pub ts_ms: i64,
}

impl<'a> Tail<'a> {
    /// Reads to the record's end; `reader` stands behind `after`.
    pub fn read(reader: &mut Reader<'a>) -> Result<Tail<'a>, WireError> {
        let op = Op::parse(reader.bytes()?)?;
        let source = Source {
            engine: reader.string()?,
            database: reader.optional_string()?,
            schema: reader.optional_string()?,
            table: reader.string()?,
            position: reader.string()?,
            transaction: reader.optional_string()?,
            ts_ms: reader.long()?,
            schema_version: u32::try_from(reader.long()?).map_err(|_| WireError::Overflow)?,
            snapshot: reader.boolean()?,
            copying: reader.boolean()?,
            for_sink: reader.optional_string()?,
        };
        let (mut absent_before, mut absent_after) = (Vec::new(), Vec::new());
        reader.array(|r| r.string().map(|name| absent_before.push(name)))?;
        reader.array(|r| r.string().map(|name| absent_after.push(name)))?;
        let ts_ms = reader.long()?;
        match reader.rest().len() {
            0 => Ok(Tail { op, source, absent_before, absent_after, ts_ms }),
            left => Err(WireError::Trailing(left)),
        }
    }
}
