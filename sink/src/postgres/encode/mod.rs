//! Avro row bytes → PostgreSQL's binary COPY bytes, by a transcoder compiled per (schema version, target columns).
//!
//! Every value is proved to fit before its bytes count: what PostgreSQL would round, cut or refuse is found here, and named.

mod codec;
pub mod moment;
pub mod numeric;
mod put;

use std::fmt;

use schemas::{
    table::{Column, Table},
    types::Repr,
    wire::{
        WireError,
        codec::Reader,
        row::{Field, RowSchema},
    },
};

use codec::Codec;
pub use put::Problem;

/// The bytes before the first row and behind the last one of a binary COPY.
pub const COPY_HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
pub const COPY_TAIL: &[u8] = b"\xff\xff";

/// What one field of a row becomes.
#[derive(Debug, Clone, PartialEq)]
struct Step {
    /// Stands as `["null", T]`.
    nullable: bool,
    into: Into,
}

#[derive(Debug, Clone, PartialEq)]
enum Into {
    /// The target has no such column: read over.
    Nothing(Repr),
    Column {
        codec: Codec,
        null_allowed: bool,
    },
}

/// A value that does not fit, or bytes that are not what the schema says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The field's index in the row's (or key's) schema.
    pub field: usize,
    pub problem: Problem,
}

/// Turns the rows and keys of one table version into fields of one target table.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoder {
    row: Vec<Step>,
    key: Vec<Step>,
    /// Target columns that rows fill, in the rows' order; then those that get NULL.
    columns: Vec<String>,
    /// By field: its index in `columns`.
    field_columns: Vec<Option<usize>>,
    key_columns: Vec<String>,
    nulls: usize,
}

impl Encoder {
    /// `source` is the version's shape, `target` the target table's, whose column ids are the source's. `cut`: text that is too
    /// long may be cut. Fails, naming the column, where a type has no way into its target column.
    pub fn new(source: &Table, rows: &RowSchema, target: &Table, cut: bool) -> Result<Encoder, String> {
        let mut encoder =
            Encoder { row: Vec::new(), key: Vec::new(), columns: Vec::new(), field_columns: Vec::new(), key_columns: Vec::new(), nulls: 0 };
        for field in &rows.fields {
            let column = target.by_id(field.column).filter(|c| c.generated.is_none());
            // A key that is cut would be another row's.
            let in_key = rows.key.iter().any(|key| key.column == field.column);
            encoder.row.push(step(source, field, column, cut && !in_key)?);
            encoder.field_columns.push(column.map(|_| encoder.columns.len()));
            encoder.columns.extend(column.map(|c| c.name.clone()));
        }
        for field in &rows.key {
            let column = target.by_id(field.column).ok_or_else(|| format!("key column {} is not on the target", field.name))?;
            encoder.key.push(step(source, field, Some(column), false)?);
            encoder.key_columns.push(column.name.clone());
        }
        for column in &target.columns {
            let filled = rows.fields.iter().any(|f| f.column == column.id);
            if !filled && column.generated.is_none() && !column.identity {
                if !column.nullable {
                    return Err(format!("column {} of the target is NOT NULL, but the source has no such column", column.name));
                }
                encoder.columns.push(column.name.clone());
                encoder.nulls += 1;
            }
        }
        Ok(encoder)
    }

    /// The target's columns in the order of a written row.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    pub fn key_columns(&self) -> &[String] {
        &self.key_columns
    }

    /// The columns that rows without these fields carry, in order.
    pub fn carried(&self, absent: &[usize]) -> Vec<&str> {
        let carried = self.field_columns.iter().enumerate().filter(|(i, _)| !absent.contains(i));
        carried.filter_map(|(_, column)| column.map(|at| self.columns[at].as_str())).collect()
    }

    /// Appends one row: the count of its fields, then each with its length. On failure `out` is as it was.
    pub fn row(&self, row: &[u8], out: &mut Vec<u8>) -> Result<(), Misfit> {
        self.some_of_row(row, &[], self.nulls, out)
    }

    /// Appends one row without the absent fields and without the columns that only get NULL.
    pub fn partial_row(&self, row: &[u8], absent: &[usize], out: &mut Vec<u8>) -> Result<(), Misfit> {
        self.some_of_row(row, absent, 0, out)
    }

    fn some_of_row(&self, row: &[u8], absent: &[usize], nulls: usize, out: &mut Vec<u8>) -> Result<(), Misfit> {
        let start = out.len();
        let done = put_record(&self.row, row, absent, nulls, out);
        if done.is_err() {
            out.truncate(start);
        }
        done
    }

    /// Appends one key, as [`Encoder::row`] does.
    pub fn key(&self, key: &[u8], out: &mut Vec<u8>) -> Result<(), Misfit> {
        let start = out.len();
        let done = put_record(&self.key, key, &[], 0, out);
        if done.is_err() {
            out.truncate(start);
        }
        done
    }
}

fn step(source: &Table, field: &Field, column: Option<&Column>, cut: bool) -> Result<Step, String> {
    let into = match column {
        None => Into::Nothing(field.repr.clone()),
        Some(column) => {
            let from = source.by_id(field.column).ok_or_else(|| format!("column {} is not in its table's shape", field.name))?;
            Into::Column { codec: codec::choose(field, from, column, cut)?, null_allowed: column.nullable }
        }
    };
    Ok(Step { nullable: field.nullable, into })
}

fn put_record(steps: &[Step], record: &[u8], absent: &[usize], nulls: usize, out: &mut Vec<u8>) -> Result<(), Misfit> {
    let count_at = out.len();
    out.extend_from_slice(&[0, 0]);
    let mut count = 0u16;
    let mut reader = Reader::new(record);
    for (field, step) in steps.iter().enumerate() {
        let fail = |problem| Misfit { field, problem };
        let some = if step.nullable { reader.some().map_err(|e| fail(e.into()))? } else { true };
        match &step.into {
            Into::Nothing(repr) => {
                if some {
                    skip(&mut reader, repr).map_err(|e| fail(e.into()))?;
                }
            }
            Into::Column { codec, null_allowed } => {
                let left_out = !absent.is_empty() && absent.contains(&field);
                let at = out.len();
                if some {
                    // A filler is read over, whatever it is.
                    let put = put::value(codec, &mut reader, out);
                    match put {
                        Err(problem) if !left_out || matches!(problem, Problem::Wire(_)) => return Err(fail(problem)),
                        Ok(()) | Err(_) => {}
                    }
                } else if *null_allowed || left_out {
                    out.extend_from_slice(&(-1i32).to_be_bytes());
                } else {
                    return Err(fail(Problem::Null));
                }
                if left_out {
                    out.truncate(at);
                } else {
                    count += 1;
                }
            }
        }
    }
    if !reader.rest().is_empty() {
        return Err(Misfit { field: steps.len(), problem: WireError::Trailing(reader.rest().len()).into() });
    }
    for _ in 0..nulls {
        out.extend_from_slice(&(-1i32).to_be_bytes());
        count += 1;
    }
    out[count_at..count_at + 2].copy_from_slice(&count.to_be_bytes());
    Ok(())
}

fn skip(reader: &mut Reader<'_>, repr: &Repr) -> Result<(), WireError> {
    match repr {
        Repr::Boolean => reader.boolean().map(drop),
        Repr::Int | Repr::Long | Repr::Date | Repr::TimeMicros | Repr::LocalTimestampMicros | Repr::TimestampMicros => {
            reader.long().map(drop)
        }
        Repr::Float => reader.float().map(drop),
        Repr::Double => reader.double().map(drop),
        Repr::Bytes | Repr::String | Repr::Decimal { .. } | Repr::Uuid => reader.bytes().map(drop),
        Repr::Array(element) => reader.array(|r| if r.some()? { skip(r, element) } else { Ok(()) }),
    }
}

/// The key of a row or key record as `id=1, code=A7`: its key columns only. For messages.
pub struct KeyText<'a> {
    pub rows: &'a RowSchema,
    /// A row with the fields of `rows`, or a key.
    pub record: &'a [u8],
    pub is_key: bool,
}

impl fmt::Display for KeyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = if self.is_key { &self.rows.key } else { &self.rows.fields };
        if self.rows.key.is_empty() {
            return f.write_str("none");
        }
        let mut reader = Reader::new(self.record);
        let mut first = true;
        for field in fields {
            let in_key = self.rows.key.iter().any(|k| k.column == field.column);
            let Ok(text) = printed(&mut reader, field) else { return f.write_str("…") };
            if in_key {
                write!(f, "{}{}={text}", if first { "" } else { ", " }, field.name)?;
                first = false;
            }
        }
        Ok(())
    }
}

fn printed(reader: &mut Reader<'_>, field: &Field) -> Result<String, WireError> {
    if field.nullable && !reader.some()? {
        return Ok("NULL".into());
    }
    let mut out = Vec::new();
    match &field.repr {
        Repr::Boolean => return reader.boolean().map(|b| b.to_string()),
        Repr::Int | Repr::Long => return reader.long().map(|n| n.to_string()),
        Repr::Float => return reader.float().map(|n| n.to_string()),
        Repr::Double => return reader.double().map(|n| n.to_string()),
        Repr::Bytes => return reader.bytes().map(|b| b.iter().map(|b| format!("{b:02x}")).collect()),
        Repr::String | Repr::Uuid => out.extend_from_slice(reader.bytes()?),
        Repr::Decimal { scale, .. } => {
            let bytes = reader.bytes()?;
            if numeric::put_plain(&mut out, bytes, *scale).is_err() {
                out.extend_from_slice(b"a decimal of more than 38 digits");
            }
        }
        Repr::Date => moment::put_date(&mut out, reader.int()?),
        Repr::TimeMicros => moment::put_time(&mut out, reader.long()?),
        Repr::LocalTimestampMicros => moment::put_timestamp(&mut out, reader.long()?, ""),
        Repr::TimestampMicros => moment::put_timestamp(&mut out, reader.long()?, "+00"),
        Repr::Array(_) => {
            skip(reader, &field.repr)?;
            out.extend_from_slice(b"an array");
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use schemas::{
        native::{Native, postgres::Native as Pg},
        table::TableId,
        wire::codec::put_bytes,
    };

    use super::*;

    #[test]
    fn text_is_cut_where_it_may_be_but_never_a_key() {
        let of = |length| Native::Postgres(Pg::VarChar { length: Some(length) });
        let table = |length| {
            let columns = vec![Column::new(0, "code", of(length)).not_null(), Column::new(1, "note", of(length)).not_null()];
            Table::new(TableId::new("shop", "t"), columns, &["code"])
        };
        let (source, target) = (table(10), table(3));
        let encoder = Encoder::new(&source, &RowSchema::new(&source), &target, true).unwrap();
        let row = |code: &str, note: &str| {
            let (mut row, mut out) = (Vec::new(), Vec::new());
            put_bytes(&mut row, code.as_bytes());
            put_bytes(&mut row, note.as_bytes());
            encoder.row(&row, &mut out).map(|()| out)
        };
        assert_eq!(row("abc", "abcdef").unwrap(), b"\0\x02\0\0\0\x03abc\0\0\0\x03abc");
        assert_eq!(row("abcd", "x"), Err(Misfit { field: 0, problem: Problem::TooLong { characters: 3 } }));
    }
}
