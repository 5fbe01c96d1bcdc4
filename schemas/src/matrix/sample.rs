//! One or more examples of every kind of change, for the matrix.

use super::Source;
use crate::{
    change::{Fill, Kind, SchemaChange},
    native::{Native, mysql, postgres},
    table::{Column, Generated, RowKey, Table, TableId},
    value::Value,
};

/// An example: the change, with the table before and behind it. The first of a kind gives its outcome, the others notes.
pub(super) struct Sample {
    /// What is special about it; empty for the first.
    pub label: &'static str,
    pub change: SchemaChange,
    pub before: Table,
    pub after: Table,
}

/// The types of an example column, in the source's own declarations.
struct Types {
    id: Native,
    wide_id: Native,
    /// An integer, a larger one, and an unsigned one of the same size.
    small: Native,
    large: Native,
    other_sign: Native,
    short: Native,
    long: Native,
    /// A long text type and a longer one, without a length of their own on most targets.
    text: Native,
    long_text: Native,
    decimal: Native,
    rounded: Native,
    more_digits: Native,
    labels: Native,
    more_labels: Native,
    other_labels: Native,
}

fn labels(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn mysql_types() -> Types {
    use mysql::{LobSize, Native as N};
    let charset = || mysql::Charset { charset: "utf8mb4".into(), collation: "utf8mb4_bin".into() };
    let int = |bits, unsigned| Native::MySql(N::Integer { bits, unsigned, zerofill: false, width: None });
    let varchar = |length| Native::MySql(N::VarChar { length, charset: charset(), compressed: false });
    let text = |size| Native::MySql(N::Text { size, charset: charset(), compressed: false });
    let decimal = |precision, scale| Native::MySql(N::Decimal { precision, scale, unsigned: false });
    let enumeration = |names: &[&str]| Native::MySql(N::Enum { labels: labels(names), charset: charset() });
    Types {
        id: int(32, false),
        wide_id: int(64, false),
        small: int(32, false),
        large: int(64, false),
        other_sign: int(32, true),
        short: varchar(10),
        long: varchar(20),
        text: text(LobSize::Normal),
        long_text: text(LobSize::Medium),
        decimal: decimal(10, 4),
        rounded: decimal(10, 2),
        more_digits: decimal(12, 4),
        labels: enumeration(&["off", "on"]),
        more_labels: enumeration(&["off", "on", "dim"]),
        other_labels: enumeration(&["on", "off"]),
    }
}

/// PostgreSQL's, which stand for the standard's in sources whose type tables are not built yet.
fn standard_types() -> Types {
    use postgres::Native as N;
    let pg = Native::Postgres;
    let decimal = |precision, scale| pg(N::Numeric { size: Some((precision, scale)) });
    let enumeration = |names: &[&str]| pg(N::Enum { name: "state".into(), labels: labels(names) });
    Types {
        id: pg(N::Integer),
        wide_id: pg(N::BigInt),
        small: pg(N::Integer),
        large: pg(N::BigInt),
        other_sign: pg(N::Oid),
        short: pg(N::VarChar { length: Some(10) }),
        long: pg(N::VarChar { length: Some(20) }),
        text: pg(N::VarChar { length: Some(20) }),
        long_text: pg(N::Text),
        decimal: decimal(10, 4),
        rounded: decimal(10, 2),
        more_digits: decimal(12, 4),
        labels: enumeration(&["off", "on"]),
        more_labels: enumeration(&["off", "on", "dim"]),
        other_labels: enumeration(&["on", "off"]),
    }
}

/// The examples of a kind.
pub(super) fn samples(source: Source, kind: Kind) -> Vec<Sample> {
    let types = match source {
        Source::MySql => mysql_types(),
        Source::Postgres | Source::SqlServer | Source::Odbc => standard_types(),
    };
    Maker { types, kind }.make()
}

struct Maker {
    types: Types,
    kind: Kind,
}

const COLUMN: u32 = 1;

impl Maker {
    fn table(&self, columns: Vec<Column>) -> Table {
        let id = Column::new(0, "id", self.types.id.clone()).not_null();
        Table::new(TableId::new("shop", "sample"), std::iter::once(id).chain(columns).collect(), &["id"])
    }

    fn column(&self, native: &Native) -> Column {
        Column::new(COLUMN, "a", native.clone())
    }

    fn one(label: &'static str, change: SchemaChange, before: Table, after: Table) -> Sample {
        Sample { label, change, before, after }
    }

    /// A change that leaves columns and key alone.
    fn same_shape(&self, change: SchemaChange) -> Vec<Sample> {
        let table = self.table(vec![self.column(&self.types.small)]);
        vec![Self::one("", change, table.clone(), table)]
    }

    fn added(&self, fill: Fill, change: impl Fn(Column) -> Column) -> Vec<Sample> {
        let column = change(self.column(&self.types.small));
        let after = self.table(vec![column.clone()]);
        vec![Self::one("", SchemaChange::AddColumn { column, fill }, self.table(Vec::new()), after)]
    }

    fn retyped(&self, label: &'static str, from: &Native, to: &Native) -> Sample {
        let (before, after) = (self.column(from), self.column(to));
        let change = SchemaChange::ChangeType { kind: self.kind, before: before.clone(), after: after.clone(), in_key: false };
        Self::one(label, change, self.table(vec![before]), self.table(vec![after]))
    }

    /// A change of type of the key column.
    fn retyped_key(&self, label: &'static str, from: &Native, to: &Native) -> Sample {
        let key = |native: &Native| Column::new(0, "id", native.clone()).not_null();
        let table = |native: &Native| Table::new(TableId::new("shop", "sample"), vec![key(native)], &["id"]);
        let change = SchemaChange::ChangeType { kind: self.kind, before: key(from), after: key(to), in_key: true };
        Self::one(label, change, table(from), table(to))
    }

    /// A change of a property of the column that is no type.
    fn property(&self, change: impl Fn(Column, Column) -> SchemaChange, edit: impl Fn(&mut Column)) -> Vec<Sample> {
        let before = self.column(&self.types.small);
        let mut after = before.clone();
        edit(&mut after);
        let tables = (self.table(vec![before.clone()]), self.table(vec![after.clone()]));
        vec![Self::one("", change(before, after), tables.0, tables.1)]
    }

    fn renamed(&self) -> Vec<Sample> {
        let before = self.column(&self.types.small);
        let after = Column { name: "b".into(), ..before.clone() };
        let change = SchemaChange::RenameColumn { from: "a".into(), column: after.clone(), in_key: false };
        let swapped = |first: &str, second: &str| {
            let column = |id, name: &str| Column::new(id, name, self.types.small.clone());
            self.table(vec![column(1, first), column(2, second)])
        };
        vec![Self::one("", change, self.table(vec![before]), self.table(vec![after])), {
            let after = swapped("b", "a");
            let column = after.columns[1].clone();
            Self::one(
                "two columns exchange names",
                SchemaChange::RenameColumn { from: "a".into(), column, in_key: false },
                swapped("a", "b"),
                after,
            )
        }]
    }

    fn renamed_key(&self) -> Vec<Sample> {
        let after =
            Table::new(TableId::new("shop", "sample"), vec![Column::new(0, "new_id", self.types.id.clone()).not_null()], &["new_id"]);
        let change = SchemaChange::RenameColumn { from: "id".into(), column: after.columns[0].clone(), in_key: true };
        vec![Self::one("", change, self.table(Vec::new()), after)]
    }

    fn dropped_key(&self) -> Vec<Sample> {
        let before = self.table(vec![self.column(&self.types.small)]);
        let after = Table::new(before.id.clone(), vec![self.column(&self.types.small)], &[]);
        let change = SchemaChange::DropColumn { column: before.columns[0].clone(), in_key: true };
        vec![Self::one("", change, before, after)]
    }

    fn changed_key(&self) -> Vec<Sample> {
        let before = self.table(vec![self.column(&self.types.small).not_null()]);
        let mut after = before.clone();
        let key = RowKey { name: "PRIMARY".into(), primary: true, columns: before.columns.iter().map(|c| c.id).collect() };
        after.primary = Some(key.clone());
        let change = SchemaChange::ChangeKey {
            before: before.primary.clone(),
            after: Some(key),
            before_names: vec!["id".into()],
            after_names: vec!["id".into(), "a".into()],
        };
        vec![Self::one("", change, before, after)]
    }

    fn make(&self) -> Vec<Sample> {
        let t = &self.types;
        let name = || Some("a".to_owned());
        match self.kind {
            Kind::AddColumnNullable => self.added(Fill::Null, |c| c),
            Kind::AddColumnConstantDefault => self.added(Fill::Constant(Value::Integer(5)), Column::not_null),
            Kind::AddColumnImplicitDefault => self.added(Fill::Implicit(Value::Integer(0)), Column::not_null),
            Kind::AddColumnVolatileDefault => self.added(Fill::Volatile("now()".into()), |c| c),
            Kind::AddColumnGenerated => self.added(Fill::Generated("id * 2".into()), |c| c),
            Kind::DropColumn => {
                let column = self.column(&t.small);
                let before = self.table(vec![column.clone()]);
                vec![Self::one("", SchemaChange::DropColumn { column, in_key: false }, before, self.table(Vec::new()))]
            }
            Kind::DropKeyColumn => self.dropped_key(),
            Kind::RenameColumn => self.renamed(),
            Kind::RenameKeyColumn => self.renamed_key(),
            Kind::Lengthen => vec![self.retyped("", &t.short, &t.long), self.retyped("a long text type", &t.text, &t.long_text)],
            Kind::Shorten => vec![self.retyped("", &t.long, &t.short), self.retyped("a long text type", &t.long_text, &t.text)],
            Kind::WidenInteger => vec![self.retyped("", &t.small, &t.large), self.retyped_key("in the row key", &t.id, &t.wide_id)],
            Kind::ChangeDecimal => {
                vec![self.retyped("", &t.decimal, &t.rounded), self.retyped("more digits before the point", &t.decimal, &t.more_digits)]
            }
            Kind::ChangeKeyDecimal => vec![self.retyped_key("", &t.decimal, &t.more_digits)],
            Kind::AppendEnumLabels => vec![self.retyped("", &t.labels, &t.more_labels)],
            Kind::ChangeEnumLabels => vec![self.retyped("", &t.labels, &t.other_labels)],
            Kind::ChangeSignedness => vec![self.retyped("", &t.small, &t.other_sign)],
            Kind::ChangeType => vec![self.retyped("", &t.small, &t.short)],
            Kind::SetNotNull => self.property(|_, column| SchemaChange::SetNotNull { column }, |c| c.nullable = false),
            Kind::DropNotNull => self.property(|_, column| SchemaChange::DropNotNull { column }, |_| {}),
            Kind::ChangeDefault => self.property(|before, after| SchemaChange::ChangeDefault { before, after }, |_| {}),
            Kind::ChangeComment => self.same_shape(SchemaChange::ChangeComment { column: name() }),
            Kind::ReorderColumn => self.same_shape(SchemaChange::ReorderColumn { column: "a".into() }),
            Kind::ChangeCharset => {
                self.same_shape(SchemaChange::ChangeCharset { column: name(), from: "latin1".into(), to: "utf8mb4".into() })
            }
            Kind::ChangeCollation => self.same_shape(SchemaChange::ChangeCollation {
                column: name(),
                from: "utf8mb4_bin".into(),
                to: "utf8mb4_general_ci".into(),
            }),
            Kind::ChangeIdentity => self.property(|before, after| SchemaChange::ChangeIdentity { before, after }, |c| c.identity = true),
            Kind::ChangeGenerated => self.property(
                |before, after| SchemaChange::ChangeGenerated { before, after },
                |c| c.generated = Some(Generated { expression: "id * 3".into(), stored: true }),
            ),
            Kind::ChangeStorage => self.same_shape(SchemaChange::ChangeStorage { column: name(), what: "compressed".into() }),
            Kind::ChangeKey => self.changed_key(),
            Kind::ChangeIndex => self.same_shape(SchemaChange::ChangeIndex { name: "by_a".into() }),
            Kind::ChangeConstraint => {
                let constraint = |cascades| self.same_shape(SchemaChange::ChangeConstraint { name: "fk".into(), cascades });
                let unseen = constraint(true).into_iter().map(|s| Sample { label: "a cascade that the source does not log", ..s });
                constraint(false).into_iter().chain(unseen).collect()
            }
            Kind::CreateTable => self.same_shape(SchemaChange::CreateTable),
            Kind::DropTable => self.same_shape(SchemaChange::DropTable),
            Kind::RenameTable => self.same_shape(SchemaChange::RenameTable { to: TableId::new("shop", "other") }),
            Kind::MovePartition => self.same_shape(SchemaChange::MovePartition { what: "exchange of p0".into() }),
            Kind::TruncatePartition => self.same_shape(SchemaChange::TruncatePartition { what: "p0".into() }),
            Kind::TruncateTable => self.same_shape(SchemaChange::TruncateTable),
            Kind::ReplaceRows => self.same_shape(SchemaChange::ReplaceRows { what: "import of a tablespace".into() }),
            Kind::Unknown => self.same_shape(SchemaChange::Unknown { why: "a clause that is not known".into() }),
        }
    }
}
