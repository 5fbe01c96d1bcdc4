//! What the configuration may say one day and is refused today. To lift a refusal, take its line out.

/// A key, or one value of it, whose effect is not built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotBuilt {
    /// Key path; `*` is any key or index.
    pub key: &'static str,
    /// This value only; None: any but `false` and an empty one.
    pub value: Option<&'static str>,
    pub what: &'static str,
}

const fn value(key: &'static str, value: &'static str, what: &'static str) -> NotBuilt {
    NotBuilt { key, value: Some(value), what }
}

const fn key(key: &'static str, what: &'static str) -> NotBuilt {
    NotBuilt { key, value: None, what }
}

pub(super) const NOT_BUILT: &[NotBuilt] = &[
    value("topics.transport", "pubsub", "the Pub/Sub transport"),
    key("topics.pubsub", "the Pub/Sub transport"),
    key("topics.tombstones", "a record without a value behind each delete"),
    value("source.engine", "postgres", "the PostgreSQL source"),
    value("source.engine", "sqlserver", "the SQL Server source"),
    value("source.engine", "odbc", "the ODBC source"),
    value("source.new_tables", "capture", "capturing tables as they are created"),
    key("source.tables.*.columns", "a column list"),
    key("source.tables.*.exclude_columns", "a column list"),
    key("source.tables.*.key", "a row key of the configuration's own"),
    key("source.tables.*.filter", "a row filter"),
    value("sinks.*.target", "mysql", "the MySQL sink"),
    value("sinks.*.target", "sqlserver", "the SQL Server sink"),
    value("sinks.*.target", "odbc", "the ODBC sink"),
    value("sinks.*.target", "clickhouse", "the ClickHouse sink"),
    value("sinks.*.target", "fabric", "the Fabric sink"),
];
