//! The Avro contract: the committed schemas are what is generated, and a plain Avro reader reads what `wire` writes.

#![expect(clippy::unwrap_used, reason = "a test that panics says where")]

use std::{collections::BTreeMap, path::PathBuf};

use apache_avro::{Schema, reader::datum::GenericDatumReader, types::Value as Avro, writer::datum::GenericDatumWriter};
use schemas::{
    change::{Fill, SchemaChange},
    event::{
        ChunkProgress, CopyProgress, EventKind, Progress, RereadProgress, SchemaEvent, SkippedStatement, SourceState, TableEvent,
        TableProgress,
    },
    matrix::mysql_examples,
    native::{Native, mysql},
    table::{Column, Table, TableId},
    types::Repr,
    value::Value,
    wire::{
        avro, codec,
        codec::FRAME,
        envelope::{self, Head, Op, Source, Tail},
        event, names,
        row::{Field, RowSchema},
    },
};
use serde_json::Value as Json;

const TOPIC: &str = "shop.shop.every-type";

/// A table with every type of MySQL and MariaDB, nullable and not, a key of two columns and names that Avro refuses.
fn every_type() -> Table {
    let examples = mysql_examples();
    let int = Native::MySql(mysql::Native::Integer { bits: 32, unsigned: false, zerofill: false, width: None });
    let mut columns = vec![Column::new(0, "id", int.clone()).not_null(), Column::new(1, "order id", int).not_null()];
    for (name, native) in examples {
        let id = columns.len() as u32;
        columns.push(Column::new(id, format!("{name} null"), Native::MySql(native.clone())));
        columns.push(Column::new(id + 1, format!("{name} not null"), Native::MySql(native)).not_null());
    }
    Table::new(TableId::new("shop", "every-type"), columns, &["order id", "id"])
}

/// Compares with a committed file; `INSTAR_UPDATE_SNAPSHOTS=1` writes it anew.
fn compare(file: &str, schema: &Json) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("contract").join(file);
    if std::env::var_os("INSTAR_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, format!("{}\n", serde_json::to_string_pretty(schema).unwrap())).unwrap();
    }
    let committed: Json = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert!(committed == *schema, "{} is not what is generated now; INSTAR_UPDATE_SNAPSHOTS=1 writes it anew", path.display());
}

#[test]
fn the_committed_schemas_are_what_is_generated() {
    let table = every_type();
    compare("envelope.avsc", &avro::value_schema(TOPIC, &table));
    compare("key.avsc", &avro::key_schema(TOPIC, &table).unwrap());
    compare("schema-version.avsc", &avro::event_schema());
    compare("progress.avsc", &avro::progress_schema());
}

fn schema(json: &Json) -> Schema {
    Schema::parse(json).unwrap()
}

/// What a plain reader makes of a framed record, and that writing it again gives the same bytes.
fn read(schema: &Schema, record: &[u8]) -> Avro {
    let mut body = &record[FRAME..];
    let value = GenericDatumReader::builder(schema).build().unwrap().read_value(&mut body).unwrap();
    assert!(body.is_empty(), "{} bytes are left", body.len());
    let again = GenericDatumWriter::builder(schema).build().unwrap().write_value_to_vec(value.clone()).unwrap();
    assert!(again == record[FRAME..], "written again it has other bytes");
    value
}

fn field<'a>(record: &'a Avro, name: &str) -> &'a Avro {
    let Avro::Record(fields) = record else { panic!("{record:?} is no record") };
    let found = fields.iter().find(|(field, _)| field == name);
    &found.unwrap_or_else(|| panic!("no field {name}")).1
}

/// The value of a union's branch.
fn branch(value: &Avro) -> &Avro {
    let Avro::Union(_, inner) = value else { panic!("{value:?} is no union") };
    inner
}

/// The least, the greatest and special values of an Avro form.
fn extremes(repr: &Repr) -> Vec<Value> {
    let micros = |values: &[i64]| values.iter().map(|v| Value::Micros(*v)).collect();
    match repr {
        Repr::Boolean => vec![Value::Boolean(false), Value::Boolean(true)],
        Repr::Int => [i32::MIN, -1, 0, i32::MAX].map(|v| Value::Integer(i128::from(v))).to_vec(),
        Repr::Long => [i64::MIN, -1, 0, i64::MAX].map(|v| Value::Integer(i128::from(v))).to_vec(),
        Repr::Float => [f32::MIN, -0.0, f32::MIN_POSITIVE, f32::INFINITY, 0.1].map(|v| Value::Float(f64::from(v))).to_vec(),
        Repr::Double => [f64::MIN, -0.0, 5e-324, f64::NEG_INFINITY, 0.1].map(Value::Float).to_vec(),
        Repr::Bytes => vec![Value::Bytes(Vec::new()), Value::Bytes(vec![0, 0xff, 0]), Value::Bytes(vec![7; 70_000])],
        Repr::String | Repr::Uuid => [String::new(), "a\0b".into(), "naïve 🙂".into(), "x".repeat(70_000)].map(Value::Text).to_vec(),
        Repr::Decimal { .. } => [0, -1, 127, 128, -128, -129, i128::MAX, i128::MIN].map(Value::Integer).to_vec(),
        Repr::Date => [i32::MIN, -719_162, 0, 2_932_896].map(Value::Date).to_vec(),
        Repr::TimeMicros => micros(&[0, 1, 86_400_000_000]),
        Repr::LocalTimestampMicros | Repr::TimestampMicros => micros(&[-30_610_224_000_000_000, -1, 0, 253_402_300_799_999_999]),
        Repr::Array(_) => vec![Value::Array(Vec::new())],
    }
}

/// The values that column `index` takes in turn; uuids must be uuids.
fn value(field: &Field, turn: usize) -> Value {
    if field.repr == Repr::Uuid {
        return Value::Text("6ccd780c-baba-1026-9564-0040f4311e29".into());
    }
    let values = extremes(&field.repr);
    values[turn % values.len()].clone()
}

fn put(out: &mut Vec<u8>, value: &Value, repr: &Repr) {
    match value {
        Value::Boolean(v) => codec::put_boolean(out, *v),
        Value::Integer(v) => match repr {
            Repr::Decimal { .. } => codec::put_decimal_i128(out, *v),
            Repr::Int => codec::put_int(out, i32::try_from(*v).unwrap()),
            _long => codec::put_long(out, i64::try_from(*v).unwrap()),
        },
        Value::Float(v) => match repr {
            #[expect(clippy::cast_possible_truncation, reason = "the value was made of a 32-bit float")]
            Repr::Float => codec::put_float(out, *v as f32),
            _double => codec::put_double(out, *v),
        },
        Value::Text(v) => codec::put_bytes(out, v.as_bytes()),
        Value::Bytes(v) => codec::put_bytes(out, v),
        Value::Date(v) => codec::put_int(out, *v),
        Value::Micros(v) => codec::put_long(out, *v),
        Value::Array(_) | Value::Null | Value::Decimal(_) => panic!("no such value in these tests: {value:?}"),
    }
}

/// Whether a plain reader's value is the one that was written.
fn same(written: &Value, read: &Avro) -> bool {
    match (written, read) {
        (Value::Boolean(a), Avro::Boolean(b)) => a == b,
        (Value::Integer(a), Avro::Int(b)) => *a == i128::from(*b),
        (Value::Integer(a), Avro::Long(b)) => *a == i128::from(*b),
        (Value::Integer(a), Avro::Decimal(b)) => {
            let bytes: Vec<u8> = b.try_into().unwrap();
            let sign = if bytes[0] >= 0x80 { -1 } else { 0 };
            *a == bytes.iter().fold(sign, |value: i128, byte| (value << 8) | i128::from(*byte))
        }
        (Value::Float(a), Avro::Float(b)) => a.to_bits() == f64::from(*b).to_bits(),
        (Value::Float(a), Avro::Double(b)) => a.to_bits() == b.to_bits(),
        (Value::Text(a), Avro::String(b)) => a == b,
        (Value::Text(a), Avro::Uuid(b)) => *a == b.to_string(),
        (Value::Bytes(a), Avro::Bytes(b)) => a == b,
        (Value::Date(a), Avro::Date(b)) => a == b,
        (Value::Micros(a), Avro::Long(b) | Avro::TimeMicros(b) | Avro::TimestampMicros(b) | Avro::LocalTimestampMicros(b)) => a == b,
        (_, _) => false,
    }
}

fn source() -> Source<'static> {
    Source {
        engine: "mysql",
        database: Some("shop"),
        schema: None,
        table: "every-type",
        position: "mariadb-bin.000001:328",
        transaction: Some("0-1-7"),
        ts_ms: 1_700_000_000_123,
        schema_version: 3,
        snapshot: false,
        copying: true,
        for_sink: None,
    }
}

/// A row of the `turn`-th values; nullable columns are NULL where `nulls`.
fn row(schema: &RowSchema, turn: usize, nulls: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for field in &schema.fields {
        if field.nullable {
            if nulls {
                codec::put_null(&mut out);
                continue;
            }
            codec::put_some(&mut out);
        }
        put(&mut out, &value(field, turn), &field.repr);
    }
    out
}

fn update(schema: &RowSchema, turn: usize) -> Vec<u8> {
    let (mut record, mut position) = (Vec::new(), Vec::new());
    envelope::put_head(&mut record, 7, 12, u64::MAX >> 1);
    envelope::put_image(&mut record, true);
    record.extend(row(schema, turn, true));
    envelope::put_image(&mut record, true);
    record.extend(row(schema, turn, false));
    envelope::put_source(&mut position, &source());
    envelope::put_tail(&mut record, Op::Update, &position, &["year null"], &[], 1_700_000_000_456);
    record
}

#[test]
fn a_plain_reader_reads_every_value_of_every_type() {
    let table = every_type();
    let (rows, schema) = (RowSchema::new(&table), schema(&avro::value_schema(TOPIC, &table)));
    for turn in 0..8 {
        let envelope = read(&schema, &update(&rows, turn));
        let (before, after) = (branch(field(&envelope, "before")), branch(field(&envelope, "after")));
        for column in &rows.fields {
            let (name, written) = (names::avro(&column.name), value(column, turn));
            let (old, new) = (field(before, &name), field(after, &name));
            let (old, new) = if column.nullable { (branch(old), branch(new)) } else { (old, new) };
            assert!(same(&written, new), "{}: {written:?} came as {new:?}", column.name);
            assert!(if column.nullable { *old == Avro::Null } else { same(&written, old) }, "{}: {old:?}", column.name);
        }
    }
}

#[test]
fn a_plain_reader_reads_the_envelope_and_so_do_we() {
    let table = every_type();
    let rows = RowSchema::new(&table);
    let record = update(&rows, 0);
    let value = read(&schema(&avro::value_schema(TOPIC, &table)), &record);
    assert_eq!((field(&value, "epoch"), field(&value, "seq")), (&Avro::Long(12), &Avro::Long(i64::MAX)));
    assert_eq!(field(&value, "op"), &Avro::String("u".into()));
    assert_eq!(field(field(&value, "source"), "schema_version"), &Avro::Long(3));
    assert_eq!(field(field(&value, "source"), "absent_before"), &Avro::Array(vec![Avro::String("year null".into())]));
    assert_eq!(field(&value, "ts_ms"), &Avro::Long(1_700_000_000_456));

    let (head, mut reader) = Head::read(&record).unwrap();
    assert_eq!(head, Head { schema: 7, epoch: 12, seq: u64::MAX >> 1 });
    for nulls in [true, false] {
        assert!(reader.some().unwrap());
        let image = row(&rows, 0, nulls);
        assert!(reader.take(image.len()).unwrap() == image);
    }
    let tail = Tail::read(&mut reader).unwrap();
    assert_eq!((tail.op, tail.source, tail.ts_ms), (Op::Update, source(), 1_700_000_000_456));
    assert_eq!((tail.absent_before, tail.absent_after), (vec!["year null"], Vec::new()));
}

#[test]
fn a_plain_reader_reads_a_truncate() {
    let (mut record, mut position) = (Vec::new(), Vec::new());
    envelope::put_source(&mut position, &source());
    envelope::put_truncate(&mut record, 7, 1, 2, &position, 3);
    let value = read(&schema(&avro::value_schema(TOPIC, &every_type())), &record);
    assert_eq!((branch(field(&value, "before")), branch(field(&value, "after"))), (&Avro::Null, &Avro::Null));
    assert_eq!(field(&value, "op"), &Avro::String("t".into()));
}

#[test]
fn the_key_is_the_keys_columns_in_its_own_order() {
    let table = every_type();
    let mut record = Vec::new();
    codec::put_frame(&mut record, 8);
    for number in [41, -5] {
        codec::put_int(&mut record, number);
    }
    let value = read(&schema(&avro::key_schema(TOPIC, &table).unwrap()), &record);
    let Avro::Record(fields) = &value else { panic!("{value:?}") };
    assert_eq!(fields[..], [(names::avro("order id"), Avro::Int(41)), ("id".to_owned(), Avro::Int(-5))]);
    assert_eq!(avro::key_schema(TOPIC, &Table::new(table.id.clone(), table.columns.clone(), &[])), None);
}

#[test]
fn every_field_carries_its_declaration_and_its_true_name() {
    let table = every_type();
    let schema = avro::value_schema(TOPIC, &table);
    let fields = schema["fields"][2]["type"][1]["fields"].as_array().unwrap();
    assert_eq!(fields.len(), table.columns.len());
    for (json, column) in fields.iter().zip(&table.columns) {
        let native: Native = serde_json::from_value(json["instar.type"].clone()).unwrap();
        assert_eq!(native, column.native);
        let name = json["instar.name"].as_str().or(json["name"].as_str()).unwrap();
        assert_eq!(name, column.name);
    }
}

fn schema_event() -> SchemaEvent {
    let table = every_type();
    let (column, constant) = (table.columns[2].clone(), table.columns[3].clone());
    SchemaEvent {
        epoch: Some(9),
        kind: EventKind::Ddl,
        position: "mariadb-bin.000001:900".into(),
        ts_ms: -1,
        ddl: Some("ALTER TABLE `every-type` ADD \"naïve\" INT /* 🙂 */".into()),
        tables: vec![TableEvent {
            version: 2,
            changes: vec![
                SchemaChange::AddColumn { column, fill: Fill::Constant(Value::Integer(i128::from(u64::MAX))) },
                // 0.1 and its neighbour, and numbers that JSON has not: constants keep their bits.
                SchemaChange::AddColumn { column: constant.clone(), fill: Fill::Constant(Value::Float(0.100_000_000_000_000_02)) },
                SchemaChange::AddColumn { column: constant, fill: Fill::Constant(Value::Float(f64::NEG_INFINITY)) },
                SchemaChange::TruncateTable,
            ],
            topic: TOPIC.into(),
            lanes: 4,
            boundaries: vec![0, 17, u64::MAX >> 1, 3],
            key_schema: Some(8),
            value_schema: 7,
            topic_id: Some("Rg5aV0C3QAmG1x2c4hJ0yQ".into()),
            superseded: vec![SkippedStatement { position: "p".into(), ddl: "ALTER".into() }],
            table,
        }],
        for_sink: Some("warehouse".into()),
    }
}

#[test]
fn a_plain_reader_reads_a_schema_version_event_and_so_do_we() {
    let schema = schema(&avro::event_schema());
    let plain = SchemaEvent { epoch: None, ddl: None, for_sink: None, tables: Vec::new(), kind: EventKind::Initial, ..schema_event() };
    for written in [schema_event(), plain] {
        let mut record = Vec::new();
        event::put_event(&mut record, 1, &written);
        assert_eq!(event::read_event(&record).unwrap(), written);
        let value = read(&schema, &record);
        let epoch = written.epoch.map_or(Avro::Null, |epoch| Avro::Long(epoch.cast_signed()));
        assert_eq!(branch(field(&value, "epoch")), &epoch);
        let Avro::Array(tables) = field(&value, "tables") else { panic!("{value:?}") };
        assert_eq!(tables.len(), written.tables.len());
        for (read, written) in tables.iter().zip(&written.tables) {
            let boundaries = written.boundaries.iter().map(|offset| Avro::Long(offset.cast_signed())).collect();
            assert_eq!(field(read, "boundaries"), &Avro::Array(boundaries));
            let Avro::String(shape) = field(read, "shape") else { panic!("{read:?}") };
            assert_eq!(serde_json::from_str::<Table>(shape).unwrap(), written.table);
        }
    }
}

#[test]
fn a_plain_reader_reads_progress_and_so_do_we() {
    let chunk = ChunkProgress { above: None, up_to: Some(vec!["7".into()]), read_at: Some("b:4".to_owned()) };
    let copy = CopyProgress {
        for_sink: Some("warehouse".into()),
        view: false,
        chunks: vec![chunk],
        planned_to: Some(vec!["9".into()]),
        all_planned: false,
        reread: vec![RereadProgress { key: vec!["3".into()], read_at: None }],
        rows_done: 5,
        rows_estimated: 100,
    };
    let table = TableProgress {
        id: TableId::new("shop", "every-type"),
        version: 2,
        topic: TOPIC.into(),
        lanes: 4,
        retired: false,
        copy: Some(copy),
        begin: None,
    };
    let written = Progress {
        pipeline_id: "6ccd780c".into(),
        position: "b:4".into(),
        rows_done: 3,
        seq: u64::MAX >> 1,
        epoch: 9,
        command: 1,
        tables: BTreeMap::from([("shop.every-type".to_owned(), table)]),
        waiting: Default::default(),
        state: SourceState::Stopped,
        message: "a statement that is not understood".into(),
        ts_ms: 1,
        commit_ts_ms: 2,
        due_ms: 3,
    };
    let mut record = Vec::new();
    event::put_progress(&mut record, 2, &written);
    assert_eq!(event::read_progress(&record).unwrap(), written);
    let value = read(&schema(&avro::progress_schema()), &record);
    assert_eq!(field(&value, "seq"), &Avro::Long(i64::MAX));
    assert_eq!(field(&value, "state"), &Avro::String("stopped".into()));
}
