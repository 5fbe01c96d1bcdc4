//! The live target table: one query's JSON → the table model, with what `check` wants to know beside it.

use schemas::{
    diff::shape_difference,
    native::{Native, postgres::Native as Pg},
    table::{Column, ColumnId, Default, Generated, RowKey, Table, TableId, UniqueIndex},
};
use serde::Deserialize;

/// One row, one column: the table as JSON, or no row. Parameters: schema and name.
pub const DESCRIBE: &str = include_str!("describe.sql");

/// A live table and what stands around it.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    pub table: Table,
    /// `r` for an ordinary table, `p` for a partitioned one, else what `pg_class.relkind` says.
    pub kind: String,
    pub indexes: Vec<Index>,
    pub row_security: bool,
    pub rules: Vec<String>,
    pub triggers: Vec<String>,
    pub foreign_keys: Vec<ForeignKey>,
    /// Columns that are GENERATED ALWAYS AS IDENTITY.
    pub always_identity: Vec<String>,
    /// Whether this session may read, insert, update, delete, truncate; and alter (it owns the table).
    pub rights: Rights,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Index {
    pub name: String,
    pub primary: bool,
    pub columns: Vec<Option<String>>,
    /// Has a WHERE, an expression, or is not valid yet.
    pub partial: bool,
    pub deferrable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ForeignKey {
    pub name: String,
    /// The table that the constraint stands on.
    pub of: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "one privilege each")]
pub struct Rights {
    pub select: bool,
    pub insert: bool,
    pub update: bool,
    pub delete: bool,
    pub truncate: bool,
    pub owner: bool,
}

#[derive(Deserialize)]
struct RawTable {
    kind: String,
    columns: Vec<RawColumn>,
    indexes: Vec<Index>,
    row_security: bool,
    rules: Vec<String>,
    triggers: Vec<String>,
    foreign_keys: Vec<ForeignKey>,
    rights: Rights,
}

#[derive(Deserialize)]
struct RawColumn {
    name: String,
    not_null: bool,
    type_name: String,
    type_schema: String,
    type_kind: String,
    modifier: i32,
    dimensions: u8,
    labels: Option<Vec<String>>,
    generated: String,
    identity: String,
    default: Option<String>,
}

/// Reads what [`DESCRIBE`] gave. Columns get the ids of `expected` where the names agree. Fails with a reason that names the
/// column where a type is one that no value can be kept in.
pub fn parse(id: &TableId, json: &str, expected: Option<&Table>) -> Result<Live, String> {
    let raw: RawTable = serde_json::from_str(json).map_err(|e| format!("the description of {id}: {e}"))?;
    let mut next = expected.map_or(0, |t| t.next_column);
    let mut columns = Vec::with_capacity(raw.columns.len());
    for column in &raw.columns {
        let known = expected.and_then(|t| t.column(&column.name)).map(|c| c.id);
        let column_id = known.unwrap_or_else(|| {
            next += 1;
            ColumnId(next - 1)
        });
        columns.push(model(column, column_id).map_err(|why| format!("table {id}, column {}: {why}", column.name))?);
    }
    let mut table =
        Table { id: id.clone(), columns, primary: None, unique: Vec::new(), indexes: Vec::new(), collation: None, next_column: next };
    for index in &raw.indexes {
        let ids = index.columns.iter().map(|name| name.as_deref().and_then(|n| table.column(n)).map(|c| c.id)).collect::<Option<Vec<_>>>();
        if index.primary {
            table.primary = Some(RowKey { name: index.name.clone(), primary: true, columns: ids.unwrap_or_default() });
        } else {
            let partial = index.partial || ids.is_none();
            table.unique.push(UniqueIndex { name: index.name.clone(), columns: ids.unwrap_or_default(), partial });
        }
    }
    let always = raw.columns.iter().filter(|c| c.identity == "a").map(|c| c.name.clone()).collect();
    Ok(Live {
        table,
        kind: raw.kind,
        indexes: raw.indexes,
        row_security: raw.row_security,
        rules: raw.rules,
        triggers: raw.triggers,
        foreign_keys: raw.foreign_keys,
        always_identity: always,
        rights: raw.rights,
    })
}

fn model(raw: &RawColumn, id: ColumnId) -> Result<Column, String> {
    let mut column = Column::new(id.0, raw.name.clone(), Native::Postgres(native(raw)?));
    column.nullable = !raw.not_null;
    column.identity = !raw.identity.is_empty();
    match (&raw.default, raw.generated.is_empty()) {
        (Some(expression), false) => column.generated = Some(Generated { expression: expression.clone(), stored: true }),
        (Some(expression), true) => column.default = Some(Default::Expression(expression.clone())),
        (None, _) => {}
    }
    Ok(column)
}

fn native(raw: &RawColumn) -> Result<Pg, String> {
    match raw.type_kind.as_str() {
        // Base types, enums, ranges and multiranges; domains are resolved already.
        "b" | "e" | "r" | "m" => {}
        "c" => return Err(format!("the composite type {} has no counterpart; use a column of a base type", raw.type_name)),
        "p" => return Err(format!("the pseudo-type {} holds no values", raw.type_name)),
        other => return Err(format!("the type {} is of the unknown kind {other:?}", raw.type_name)),
    }
    if raw.type_name == "interval" && raw.modifier >= 0 && (raw.modifier >> 16) & 0x7fff != 0x7fff {
        return Err("an interval of chosen fields would cut values; use interval".into());
    }
    if raw.type_name == "bpchar" && raw.modifier < 0 {
        return Err("bpchar without a length has no counterpart; use text".into());
    }
    let qualified = if raw.type_schema == "pg_catalog" { raw.type_name.clone() } else { format!("{}.{}", raw.type_schema, raw.type_name) };
    // A user's type may have a built-in one's name: only the catalog's own are taken for it.
    let name = if raw.type_kind == "e" || raw.type_schema == "pg_catalog" { &qualified } else { return Ok(Pg::Other { name: qualified }) };
    Ok(Pg::from_catalog(name, raw.modifier, raw.labels.clone(), raw.dimensions))
}

/// In words, what is not as expected; None: the shapes agree. Columns are compared by name, type, nullability and key.
pub fn difference(id: &TableId, expected: Option<&Table>, live: Option<&Table>) -> Option<String> {
    match (expected, live) {
        (None, None) => None,
        (Some(_), None) => Some(format!("the table {id} is not there")),
        (None, Some(_)) => Some(format!("the table {id} is there already")),
        (Some(expected), Some(live)) => {
            let mut words = shape_difference(expected, live);
            let computed = live.columns.iter().filter(|c| c.generated.is_some());
            let unexpected = computed.filter(|c| expected.column(&c.name).is_some_and(|e| e.generated.is_none()));
            words.extend(unexpected.map(|c| format!("column `{}` is computed by the target", c.name)));
            (!words.is_empty()).then(|| words.join("; "))
        }
    }
}
