//! What is compiled once per (table as the log writes it, table as it is published).

use schemas::{
    charset::Charsets,
    native::Native,
    table::{ColumnId, Table},
    types::Repr,
    wire::{
        codec::{put_bytes, put_null, put_some},
        row::{Field, RowSchema},
    },
};

use super::{
    Unfit,
    cell::{Codec, Scratch, put_filler},
    layout::{Extent, Physical},
};

/// One field of the published row.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Place of its column in the physical row.
    pub column: usize,
    pub name: String,
    pub nullable: bool,
    pub repr: Repr,
    pub codec: Codec,
}

/// The fields of image and key, without regard to how values come in.
#[derive(Debug, Clone)]
pub struct Fields {
    pub image: Vec<Planned>,
    pub key: Vec<Planned>,
    pub columns: usize,
}

impl Fields {
    /// Matches the published fields to the physical columns.
    ///
    /// # Errors
    /// The column that cannot be published, and why.
    pub fn new(shape: &Table, rows: &RowSchema, charsets: &Charsets) -> Result<Self, String> {
        let plan = |field: &Field| planned(shape, field, charsets).map_err(|problem| format!("column `{}`: {problem}", field.name));
        let image = rows.fields.iter().map(plan).collect::<Result<_, _>>()?;
        let key = rows.key.iter().map(plan).collect::<Result<_, _>>()?;
        Ok(Self { image, key, columns: shape.columns.len() })
    }
}

fn planned(shape: &Table, field: &Field, charsets: &Charsets) -> Result<Planned, String> {
    let place = |id: ColumnId| shape.columns.iter().position(|c| c.id == id);
    let column = place(field.column).ok_or("the table has no such column any more")?;
    let Native::MySql(native) = &shape.columns[column].native else {
        return Err(format!("{} is not a type of this engine", shape.columns[column].native));
    };
    let codec = Codec::new(native, &field.repr, charsets)?;
    Ok(Planned { column, name: field.name.clone(), nullable: field.nullable, repr: field.repr.clone(), codec })
}

/// A row image's value of one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// The image does not have the column.
    Absent,
    Null,
    /// From and to, in the event's row data.
    At(usize, usize),
    /// From and to, in the JSON documents that differences led to.
    Patched(usize, usize),
}

/// What cells point into.
#[derive(Debug, Clone, Copy)]
pub struct Data<'a> {
    pub rows: &'a [u8],
    /// JSON as text.
    pub patched: &'a [u8],
}

/// Decodes rows of one table as the log writes it.
#[derive(Debug, Clone)]
pub struct Plan {
    pub fields: Fields,
    physical: Vec<(Physical, Extent)>,
}

/// A value that cannot be published, and its column.
#[derive(Debug)]
pub struct Misfit {
    pub column: String,
    pub unfit: Unfit,
}

impl Plan {
    /// `physical` are the columns of the table map, as many as the shape has.
    pub fn new(fields: Fields, physical: impl Iterator<Item = Physical>) -> Self {
        Self { fields, physical: physical.map(|p| (p, p.extent())).collect() }
    }

    /// Finds the values of one image that begins at `at`; returns where it ends.
    #[inline]
    pub fn locate(&self, data: &[u8], at: usize, present: &[u8], all: bool, cells: &mut Vec<Cell>) -> Result<usize, super::Malformed> {
        const CUT: super::Malformed = super::Malformed::Truncated("a row");
        cells.clear();
        let columns = self.physical.len();
        let carried = if all { columns } else { (0..columns).filter(|i| super::cursor::bit(present, *i)).count() };
        let nulls = data.get(at..at + carried.div_ceil(8)).ok_or(CUT)?;
        let mut at = at + nulls.len();
        let mut carried = 0;
        for (i, (_, extent)) in self.physical.iter().enumerate() {
            if !all && !super::cursor::bit(present, i) {
                cells.push(Cell::Absent);
                continue;
            }
            let null = super::cursor::bit(nulls, carried);
            carried += 1;
            if null {
                cells.push(Cell::Null);
                continue;
            }
            let (begin, end) = extent.locate(data, at)?;
            cells.push(Cell::At(begin, end));
            at = end;
        }
        Ok(at)
    }

    /// Writes fields from located values, a filler where a column is absent; its name is given to `absent`.
    #[inline]
    pub fn put<'p>(
        &self,
        fields: &'p [Planned],
        data: Data<'_>,
        cells: &[Cell],
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
        mut absent: impl FnMut(&'p str),
    ) -> Result<(), Misfit> {
        for field in fields {
            let misfit = |unfit| Misfit { column: field.name.clone(), unfit };
            match cells[field.column] {
                Cell::At(begin, end) => {
                    if field.nullable {
                        put_some(out);
                    }
                    field.codec.put(out, &data.rows[begin..end], self.physical[field.column].0, scratch).map_err(misfit)?;
                }
                Cell::Patched(begin, end) => {
                    if field.nullable {
                        put_some(out);
                    }
                    put_bytes(out, &data.patched[begin..end]);
                }
                Cell::Null if field.nullable => put_null(out),
                Cell::Null => return Err(misfit(Unfit::value("NULL in a column that is NOT NULL"))),
                Cell::Absent => {
                    if field.nullable {
                        put_null(out)
                    } else {
                        put_filler(out, &field.repr)
                    }
                    absent(&field.name);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use schemas::ddl::mysql::{Context, table_from_create};

    use super::*;

    #[test]
    fn a_character_set_that_has_no_table_is_refused_by_name() {
        let table = table_from_create(b"CREATE TABLE s.t (id INT, c TEXT CHARACTER SET swe7)", &Context::new(true, 101_119)).unwrap();
        let refused = Fields::new(&table, &RowSchema::new(&table), &Charsets::default()).unwrap_err();
        assert!(refused.starts_with("column `c`: its character set swe7 cannot be read exactly"), "{refused}");
    }
}
