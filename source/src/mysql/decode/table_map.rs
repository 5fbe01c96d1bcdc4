//! TABLE_MAP events: what the log says of a table's columns.

use std::collections::BTreeMap;

use schemas::table::TableId;

use super::{Malformed, cursor::Cursor, layout::Physical, layout::code};

/// A table as its rows are written. What the server did not log is None.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMap {
    pub table_id: u64,
    pub table: TableId,
    pub columns: Vec<MapColumn>,
    /// Columns of the primary key in their order, each with its prefix length (0: whole).
    pub primary: Option<Vec<(usize, u64)>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapColumn {
    pub physical: Physical,
    pub nullable: bool,
    pub unsigned: Option<bool>,
    /// Collation id.
    pub collation: Option<u64>,
    pub name: Option<String>,
    /// Labels of ENUM and SET, in the column's character set.
    pub labels: Option<Vec<Vec<u8>>>,
}

impl TableMap {
    pub fn read(body: &[u8], mariadb: bool) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(body, "a TABLE_MAP event");
        let table_id = cursor.uint(6)?;
        cursor.skip(2)?;
        let namespace = name(&mut cursor)?;
        let table = name(&mut cursor)?;
        let count = cursor.count()?;
        let codes = cursor.take(count)?;
        let mut meta = cursor.packed_bytes()?;
        let nullable = cursor.take(count.div_ceil(8))?;
        let mut columns = Vec::with_capacity(count);
        for (i, code) in codes.iter().enumerate() {
            let (physical, used) = Physical::read(*code, meta)?;
            meta = &meta[used..];
            let nullable = super::cursor::bit(nullable, i);
            columns.push(MapColumn { physical, nullable, unsigned: None, collation: None, name: None, labels: None });
        }
        let mut map = Self { table_id, table: TableId::new(namespace, table), columns, primary: None };
        while !cursor.is_empty() {
            let field = cursor.u8()?;
            let bytes = cursor.packed_bytes()?;
            map.optional(field, bytes, mariadb)?;
        }
        Ok(map)
    }

    fn optional(&mut self, field: u8, bytes: &[u8], mariadb: bool) -> Result<(), Malformed> {
        let mut cursor = Cursor::new(bytes, "TABLE_MAP's optional metadata");
        let labelled = |c: &MapColumn| matches!(c.physical.code, code::ENUM | code::SET);
        let character = |c: &MapColumn| c.physical.is_character(mariadb);
        match field {
            1 => {
                for (i, column) in self.columns.iter_mut().filter(|c| c.physical.is_numeric()).enumerate() {
                    let byte = bytes.get(i / 8).ok_or(Malformed::Truncated("TABLE_MAP's signedness"))?;
                    column.unsigned = Some(byte & (0x80 >> (i % 8)) != 0);
                }
            }
            2 => default_collations(self.columns.iter_mut().filter(|c| character(c)), &mut cursor)?,
            10 => default_collations(self.columns.iter_mut().filter(|c| labelled(c)), &mut cursor)?,
            3 => collations(self.columns.iter_mut().filter(|c| character(c)), &mut cursor)?,
            11 => collations(self.columns.iter_mut().filter(|c| labelled(c)), &mut cursor)?,
            4 => {
                for column in &mut self.columns {
                    column.name = Some(String::from_utf8_lossy(cursor.packed_bytes()?).into_owned());
                }
            }
            5 => labels(self.columns.iter_mut().filter(|c| c.physical.code == code::SET), &mut cursor)?,
            6 => labels(self.columns.iter_mut().filter(|c| c.physical.code == code::ENUM), &mut cursor)?,
            8 | 9 => {
                let mut columns = Vec::new();
                while !cursor.is_empty() {
                    let column = cursor.count()?;
                    columns.push((column, if field == 9 { cursor.packed()? } else { 0 }));
                }
                self.primary = Some(columns);
            }
            // Geometry types, visibility, vector dimensions and what is not known yet say nothing about a row's bytes.
            _ => {}
        }
        Ok(())
    }

    /// Whether the server logged the columns' names (`binlog_row_metadata=FULL`).
    pub fn is_full(&self) -> bool {
        self.columns.iter().all(|c| c.name.is_some())
    }
}

fn name(cursor: &mut Cursor<'_>) -> Result<String, Malformed> {
    let length = usize::from(cursor.u8()?);
    let text = String::from_utf8_lossy(cursor.take(length)?).into_owned();
    cursor.skip(1)?;
    Ok(text)
}

fn default_collations<'a>(columns: impl Iterator<Item = &'a mut MapColumn>, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
    let default = cursor.packed()?;
    let mut own = BTreeMap::new();
    while !cursor.is_empty() {
        own.insert(cursor.count()?, cursor.packed()?);
    }
    for (i, column) in columns.enumerate() {
        column.collation = Some(own.get(&i).copied().unwrap_or(default));
    }
    Ok(())
}

fn collations<'a>(columns: impl Iterator<Item = &'a mut MapColumn>, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
    for column in columns {
        column.collation = Some(cursor.packed()?);
    }
    Ok(())
}

fn labels<'a>(columns: impl Iterator<Item = &'a mut MapColumn>, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
    for column in columns {
        let count = cursor.count()?;
        // A label takes a byte at least.
        let mut labels = Vec::with_capacity(count.min(cursor.rest().len()));
        for _ in 0..count {
            labels.push(cursor.packed_bytes()?.to_vec());
        }
        column.labels = Some(labels);
    }
    Ok(())
}
