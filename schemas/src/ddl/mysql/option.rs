//! Table options and partitioning.

use super::{
    cursor::Cursor,
    declared::{charset_value, charset_words, collation_value},
    statement::{CharsetClause, Clause},
    token::{Fault, Kind},
};

/// Options with one value that change nothing that is kept.
const PLAIN: [&str; 34] = [
    "auto_increment",
    "autoextend_size",
    "avg_row_length",
    "backup_lock",
    "checksum",
    "compression",
    "connection",
    "delay_key_write",
    "encrypted",
    "encryption",
    "encryption_key_id",
    "engine_attribute",
    "ietf_quotes",
    "insert_method",
    "itef_quotes",
    "key_block_size",
    "max_rows",
    "min_rows",
    "pack_keys",
    "page_checksum",
    "page_compressed",
    "page_compression_level",
    "password",
    "row_format",
    "secondary_engine",
    "secondary_engine_attribute",
    "sequence",
    "start",
    "stats_auto_recalc",
    "stats_persistent",
    "stats_sample_pages",
    "tablespace",
    "table_checksum",
    "transactional",
];

/// One table option. None: what follows is none.
pub(super) fn option(cursor: &mut Cursor<'_>) -> Result<Option<Clause>, Fault> {
    if cursor.any(&["engine", "type"]) {
        cursor.at += 1;
        cursor.eat_punct(b'=');
        let engine = if matches!(cursor.peek(), Some(Kind::Text { .. })) { cursor.string()? } else { cursor.name()? };
        return Ok(Some(Clause::Engine(engine.to_ascii_lowercase())));
    }
    if let Some(clause) = charset_option(cursor)? {
        return Ok(Some(Clause::TableCharset(clause)));
    }
    if cursor.eat(&["comment"]) {
        cursor.eat_punct(b'=');
        return Ok(Some(Clause::Comment(cursor.string()?)));
    }
    if cursor.eat(&["data", "directory"]) || cursor.eat(&["index", "directory"]) {
        cursor.eat_punct(b'=');
        cursor.string()?;
        return Ok(Some(Clause::Nothing));
    }
    if cursor.eat(&["union"]) {
        cursor.eat_punct(b'=');
        cursor.bracketed()?;
        return Ok(Some(Clause::ReplaceRows("UNION of a MERGE table".into())));
    }
    if cursor.is(0, "with") && cursor.is(1, "system") && cursor.is(2, "versioning") {
        return Err(
            "a table with system versioning is not followed: its log has hidden columns and the primary key holds one of them".into()
        );
    }
    if PLAIN.iter().any(|option| cursor.is(0, option)) {
        cursor.at += 1;
        cursor.eat_punct(b'=');
        value(cursor)?;
        if cursor.eat(&["storage"]) {
            cursor.name()?;
        }
        return Ok(Some(Clause::Nothing));
    }
    Ok(None)
}

fn value(cursor: &mut Cursor<'_>) -> Result<(), Fault> {
    match cursor.peek() {
        Some(Kind::Word(_) | Kind::Quoted(_) | Kind::Number(_) | Kind::Hex { .. }) => {
            cursor.at += 1;
            Ok(())
        }
        Some(Kind::Text { .. }) => cursor.text().map(|_| ()),
        Some(Kind::Bits(_) | Kind::Punct(_)) | None => Err(cursor.unexpected("a value")),
    }
}

/// `[DEFAULT] CHARACTER SET [=] x`, `[DEFAULT] COLLATE [=] x`, both in either order.
pub(super) fn charset_option(cursor: &mut Cursor<'_>) -> Result<Option<CharsetClause>, Fault> {
    let mut clause = CharsetClause::default();
    loop {
        let back = cursor.at;
        cursor.eat(&["default"]);
        if charset_words(cursor) {
            cursor.eat_punct(b'=');
            clause.charset = Some(charset_value(cursor)?);
        } else if cursor.eat(&["collate"]) {
            cursor.eat_punct(b'=');
            clause.collation = Some(collation_value(cursor)?);
        } else {
            cursor.at = back;
            return Ok((clause != CharsetClause::default()).then_some(clause));
        }
    }
}

/// `PARTITION BY …` to its end; nothing that is kept changes with it.
pub(super) fn partition_by(cursor: &mut Cursor<'_>) -> Result<bool, Fault> {
    if !cursor.eat(&["partition", "by"]) {
        return Ok(false);
    }
    if cursor.is(0, "system_time") {
        return Err("partitions by SYSTEM_TIME belong to system versioning, which is not followed".into());
    }
    while !cursor.done() {
        if cursor.is_punct(0, b'(') {
            cursor.bracketed()?;
        } else if cursor.any(&["select", "as", "ignore", "replace", "with"]) || cursor.is_punct(0, b',') || cursor.is_punct(0, b';') {
            break;
        } else {
            cursor.at += 1;
        }
    }
    Ok(true)
}

/// An engine that keeps rows elsewhere, not for ever or not at all.
pub(super) fn engine_replaces_rows(engine: &str) -> bool {
    matches!(
        engine,
        "blackhole"
            | "memory"
            | "heap"
            | "merge"
            | "mrg_myisam"
            | "federated"
            | "federatedx"
            | "connect"
            | "spider"
            | "s3"
            | "sphinx"
            | "oqgraph"
            | "sequence"
            | "performance_schema"
            | "ndbinfo"
    )
}
