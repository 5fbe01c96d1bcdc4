//! Avro schemas as JSON: key and envelope of a table version, the schema-version event, the progress record.

use serde_json::{Value as Json, json};

use super::{
    names,
    row::{Field, RowSchema},
};
use crate::{table::Table, types::Repr};

/// The schema of a topic's keys; None for a table without a row key.
pub fn key_schema(topic: &str, table: &Table) -> Option<Json> {
    let rows = RowSchema::new(table);
    if rows.key.is_empty() {
        return None;
    }
    Some(json!({
        "type": "record", "name": "Key", "namespace": names::namespace(topic),
        "fields": fields(&rows.key, table),
    }))
}

/// The schema of a topic's values: the envelope around this version's row.
pub fn value_schema(topic: &str, table: &Table) -> Json {
    let namespace = names::namespace(topic);
    let row = json!({
        "type": "record", "name": "Value", "namespace": namespace,
        "fields": fields(&RowSchema::new(table).fields, table),
    });
    let optional = |ty: &str| json!(["null", ty]);
    json!({
        "type": "record", "name": "Envelope", "namespace": namespace,
        "fields": [
            { "name": "epoch", "type": "long" },
            { "name": "seq", "type": "long" },
            { "name": "before", "type": ["null", row], "default": null },
            { "name": "after", "type": ["null", format!("{namespace}.Value")], "default": null },
            { "name": "op", "type": "string" },
            { "name": "source", "type": {
                "type": "record", "name": "Source", "namespace": "instar",
                "fields": [
                    { "name": "engine", "type": "string" },
                    { "name": "database", "type": optional("string"), "default": null },
                    { "name": "schema", "type": optional("string"), "default": null },
                    { "name": "table", "type": "string" },
                    { "name": "position", "type": "string" },
                    { "name": "transaction", "type": optional("string"), "default": null },
                    { "name": "ts_ms", "type": "long" },
                    { "name": "schema_version", "type": "long" },
                    { "name": "snapshot", "type": "boolean" },
                    { "name": "copying", "type": "boolean" },
                    { "name": "for_sink", "type": optional("string"), "default": null },
                    { "name": "absent_before", "type": { "type": "array", "items": "string" } },
                    { "name": "absent_after", "type": { "type": "array", "items": "string" } },
                ],
            } },
            { "name": "ts_ms", "type": "long" },
        ],
    })
}

fn fields(fields: &[Field], table: &Table) -> Vec<Json> {
    fields.iter().map(|f| field(f, table)).collect()
}

fn field(field: &Field, table: &Table) -> Json {
    let name = names::avro(&field.name);
    let mut json = json!({ "name": name, "type": ty(&field.repr) });
    if field.nullable {
        json["type"] = json!(["null", json["type"]]);
        json["default"] = Json::Null;
    }
    if let Some(column) = table.by_id(field.column) {
        json["instar.type"] = json!(column.native);
    }
    if name != field.name {
        json["instar.name"] = json!(field.name);
    }
    json
}

fn ty(repr: &Repr) -> Json {
    match repr {
        Repr::Boolean => json!("boolean"),
        Repr::Int => json!("int"),
        Repr::Long => json!("long"),
        Repr::Float => json!("float"),
        Repr::Double => json!("double"),
        Repr::Bytes => json!("bytes"),
        Repr::String => json!("string"),
        Repr::Decimal { precision, scale } => {
            json!({ "type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale })
        }
        Repr::Date => json!({ "type": "int", "logicalType": "date" }),
        Repr::TimeMicros => json!({ "type": "long", "logicalType": "time-micros" }),
        Repr::LocalTimestampMicros => json!({ "type": "long", "logicalType": "local-timestamp-micros" }),
        Repr::TimestampMicros => json!({ "type": "long", "logicalType": "timestamp-micros" }),
        Repr::Uuid => json!({ "type": "string", "logicalType": "uuid" }),
        Repr::Array(element) => json!({ "type": "array", "items": ["null", ty(element)] }),
    }
}

/// The schema of the schema-versions topic.
pub fn event_schema() -> Json {
    json!({
        "type": "record", "name": "SchemaVersion", "namespace": "instar",
        "fields": [
            { "name": "epoch", "type": ["null", "long"], "default": null },
            { "name": "kind", "type": "string" },
            { "name": "position", "type": "string" },
            { "name": "ts_ms", "type": "long" },
            { "name": "ddl", "type": ["null", "string"], "default": null },
            { "name": "for_sink", "type": ["null", "string"], "default": null },
            { "name": "tables", "type": { "type": "array", "items": {
                "type": "record", "name": "TableVersion",
                "fields": [
                    { "name": "namespace", "type": "string" },
                    { "name": "table", "type": "string" },
                    { "name": "version", "type": "long" },
                    { "name": "topic", "type": "string" },
                    { "name": "lanes", "type": "long" },
                    { "name": "boundaries", "type": { "type": "array", "items": "long" } },
                    { "name": "key_schema", "type": ["null", "long"], "default": null },
                    { "name": "value_schema", "type": "long" },
                    { "name": "shape", "type": "string", "doc": "JSON: the table's full shape" },
                    { "name": "changes", "type": "string", "doc": "JSON: the typed changes, in the order of their clauses" },
                    { "name": "superseded", "type": { "type": "array", "items": {
                        "type": "record", "name": "SkippedStatement",
                        "fields": [{ "name": "position", "type": "string" }, { "name": "ddl", "type": "string" }],
                    } } },
                    { "name": "topic_id", "type": ["null", "string"], "default": null },
                ],
            } } },
        ],
    })
}

/// The schema of the progress topic.
pub fn progress_schema() -> Json {
    json!({
        "type": "record", "name": "Progress", "namespace": "instar",
        "fields": [
            { "name": "pipeline_id", "type": "string" },
            { "name": "position", "type": "string" },
            { "name": "rows_done", "type": "long" },
            { "name": "seq", "type": "long" },
            { "name": "epoch", "type": "long" },
            { "name": "command", "type": "long" },
            { "name": "state", "type": "string" },
            { "name": "message", "type": "string" },
            { "name": "ts_ms", "type": "long" },
            { "name": "commit_ts_ms", "type": "long" },
            { "name": "due_ms", "type": "long", "doc": "when the next progress is written at the latest; 0: the source has ended" },
            { "name": "tables", "type": "string", "doc": "JSON by topic: tables with a copy or a reload under way; null: one whose copy has not begun. The others stand as the newest schema version left them" },
        ],
    })
}
