//! Row events taken apart without decoding a value: where the images lie, and what the envelope says of them.

use schemas::{
    event::Version,
    types::Repr,
    wire::{
        WireError,
        codec::Reader,
        envelope::{Op, Tail},
        row::RowSchema,
    },
};

/// Walks over the fields of one row schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    fields: Vec<Field>,
    names: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Field {
    nullable: bool,
    step: Step,
}

/// How many bytes a value takes.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Fixed(usize),
    Varint,
    Counted,
    /// Elements that may each be null.
    Array(Box<Step>),
}

impl Step {
    fn new(repr: &Repr) -> Self {
        match repr {
            Repr::Boolean => Step::Fixed(1),
            Repr::Float => Step::Fixed(4),
            Repr::Double => Step::Fixed(8),
            Repr::Int | Repr::Long | Repr::Date | Repr::TimeMicros | Repr::LocalTimestampMicros | Repr::TimestampMicros => Step::Varint,
            Repr::Bytes | Repr::String | Repr::Decimal { .. } | Repr::Uuid => Step::Counted,
            Repr::Array(element) => Step::Array(Box::new(Step::new(element))),
        }
    }

    #[inline]
    fn skip(&self, reader: &mut Reader<'_>) -> Result<(), WireError> {
        match self {
            Step::Fixed(n) => reader.take(*n).map(drop),
            Step::Varint => reader.long().map(drop),
            Step::Counted => reader.bytes().map(drop),
            Step::Array(element) => reader.array(|r| if r.some()? { element.skip(r) } else { Ok(()) }),
        }
    }
}

impl Field {
    #[inline]
    fn skip(&self, reader: &mut Reader<'_>) -> Result<(), WireError> {
        if self.nullable && !reader.some()? { Ok(()) } else { self.step.skip(reader) }
    }
}

impl Layout {
    pub fn new(rows: &RowSchema) -> Self {
        let fields = rows.fields.iter().map(|f| Field { nullable: f.nullable, step: Step::new(&f.repr) }).collect();
        Self { fields, names: rows.fields.iter().map(|f| f.name.clone()).collect() }
    }

    /// The bytes of one row; the reader stands behind it afterwards.
    pub fn row<'a>(&self, reader: &mut Reader<'a>) -> Result<&'a [u8], WireError> {
        let start = reader.rest();
        for field in &self.fields {
            field.skip(reader)?;
        }
        Ok(&start[..start.len() - reader.rest().len()])
    }

    /// `newer` with the fields `absent` taken from `older`.
    pub fn complete(&self, older: &[u8], newer: &[u8], absent: &[usize]) -> Result<Vec<u8>, WireError> {
        let (mut old, mut new) = (Reader::new(older), Reader::new(newer));
        let mut out = Vec::with_capacity(older.len().max(newer.len()));
        for (i, field) in self.fields.iter().enumerate() {
            let (old_rest, new_rest) = (old.rest(), new.rest());
            field.skip(&mut old)?;
            field.skip(&mut new)?;
            if absent.contains(&i) {
                out.extend_from_slice(&old_rest[..old_rest.len() - old.rest().len()]);
            } else {
                out.extend_from_slice(&new_rest[..new_rest.len() - new.rest().len()]);
            }
        }
        Ok(out)
    }

    /// The indexes of these columns, ascending.
    fn indexes(&self, names: &[&str]) -> Result<Vec<usize>, WireError> {
        let mut indexes = names
            .iter()
            .map(|name| {
                let unknown = || WireError::Unknown { what: "column not carried", value: (*name).to_owned() };
                self.names.iter().position(|n| n == name).ok_or_else(unknown)
            })
            .collect::<Result<Vec<_>, _>>()?;
        indexes.sort_unstable();
        indexes.dedup();
        Ok(indexes)
    }
}

/// What an envelope says besides its images; the same for many rows in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub op: Op,
    pub version: Version,
    /// The table's copy is not complete.
    pub copying: bool,
    /// For this sink; a row of a copy that another sink asked for only moves the position.
    pub addressed: bool,
    pub absent_before: Vec<usize>,
    pub absent_after: Vec<usize>,
    /// Commit time at the source, milliseconds since 1970 UTC.
    pub ts_ms: i64,
}

/// One row event.
#[derive(Debug)]
pub struct RowEvent<'a, 'f> {
    pub before: Option<&'a [u8]>,
    pub after: Option<&'a [u8]>,
    pub facts: &'f Facts,
}

/// Takes row events apart. Remembers the last tail: within a transaction it is the same bytes for every row.
#[derive(Debug)]
pub struct Decoder {
    sink: String,
    tail: Vec<u8>,
    facts: Option<Facts>,
}

impl Decoder {
    pub fn new(sink: impl Into<String>) -> Self {
        Self { sink: sink.into(), tail: Vec::new(), facts: None }
    }

    /// `reader` stands at `before`, as [`schemas::wire::envelope::Head::read`] leaves it.
    pub fn read<'a>(&mut self, layout: &Layout, mut reader: Reader<'a>) -> Result<RowEvent<'a, '_>, WireError> {
        let before = if reader.some()? { Some(layout.row(&mut reader)?) } else { None };
        let after = if reader.some()? { Some(layout.row(&mut reader)?) } else { None };
        if self.facts.is_none() || self.tail != reader.rest() {
            self.facts = None;
            self.tail.clear();
            self.tail.extend_from_slice(reader.rest());
            let tail = Tail::read(&mut reader)?;
            let mine = tail.source.for_sink.is_none_or(|name| name == self.sink);
            self.facts = Some(Facts {
                op: tail.op,
                version: tail.source.schema_version,
                // A copy for another sink is none here: the row that an update needs must be there.
                copying: tail.source.copying && mine,
                addressed: mine || !tail.source.snapshot,
                absent_before: layout.indexes(&tail.absent_before)?,
                absent_after: layout.indexes(&tail.absent_after)?,
                ts_ms: tail.source.ts_ms,
            });
        }
        match &self.facts {
            Some(facts) => Ok(RowEvent { before, after, facts }),
            None => Err(WireError::Truncated),
        }
    }
}

#[cfg(test)]
mod tests {
    use schemas::{
        native::{Native, postgres},
        table::{Column, Table, TableId},
        wire::{
            codec::{put_bytes, put_int, put_null, put_some},
            envelope::{Head, Source, put_head, put_image, put_source, put_tail},
        },
    };

    use super::*;

    fn table() -> Table {
        let text = || Native::Postgres(postgres::Native::Text);
        let int = Native::Postgres(postgres::Native::Integer);
        Table::new(
            TableId::new("shop", "t"),
            vec![Column::new(0, "id", int).not_null(), Column::new(1, "a", text()), Column::new(2, "b", text())],
            &["id"],
        )
    }

    fn row(id: i32, a: Option<&str>, b: Option<&str>) -> Vec<u8> {
        let mut out = Vec::new();
        put_int(&mut out, id);
        for value in [a, b] {
            match value {
                Some(text) => {
                    put_some(&mut out);
                    put_bytes(&mut out, text.as_bytes());
                }
                None => put_null(&mut out),
            }
        }
        out
    }

    #[test]
    fn images_and_facts_are_found() {
        let layout = Layout::new(&RowSchema::new(&table()));
        let facts = |snapshot| Source {
            engine: "mysql",
            database: Some("shop"),
            schema: None,
            table: "t",
            position: "p",
            transaction: None,
            ts_ms: 5,
            schema_version: 3,
            snapshot,
            copying: true,
            for_sink: Some("other"),
        };
        let (before, after) = (row(1, Some("x"), None), row(1, None, Some("y")));
        let record = |snapshot| {
            let (mut source, mut record) = (Vec::new(), Vec::new());
            put_source(&mut source, &facts(snapshot));
            put_head(&mut record, 9, 2, 77);
            for image in [&before, &after] {
                put_image(&mut record, true);
                record.extend_from_slice(image);
            }
            put_tail(&mut record, Op::Update, &source, &[], &["b"], 6);
            record
        };
        let mut decoder = Decoder::new("warehouse");
        // A copy for another sink: its rows are not for this one, those of the stream are, and find their row here.
        for (snapshot, addressed) in [(false, true), (false, true), (true, false)] {
            let record = record(snapshot);
            let (head, reader) = Head::read(&record).unwrap();
            assert_eq!((head.schema, head.epoch, head.seq), (9, 2, 77));
            let event = decoder.read(&layout, reader.clone()).unwrap();
            assert_eq!((event.before, event.after), (Some(&before[..]), Some(&after[..])));
            let expected =
                Facts { op: Op::Update, version: 3, copying: false, addressed, absent_before: vec![], absent_after: vec![2], ts_ms: 5 };
            assert_eq!(*event.facts, expected);
        }
    }

    #[test]
    fn absent_fields_come_from_the_older_row() {
        let layout = Layout::new(&RowSchema::new(&table()));
        let whole = layout.complete(&row(1, Some("old"), Some("kept")), &row(1, Some("new"), None), &[2]).unwrap();
        assert_eq!(whole, row(1, Some("new"), Some("kept")));
    }

    #[test]
    fn a_cut_row_is_an_error() {
        let layout = Layout::new(&RowSchema::new(&table()));
        let whole = row(1, Some("abc"), Some("d"));
        for n in 0..whole.len() {
            assert_eq!(layout.row(&mut Reader::new(&whole[..n])), Err(WireError::Truncated), "{n}");
        }
    }
}
