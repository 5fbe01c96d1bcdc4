//! Keys, indexes, foreign keys and other constraints.

use super::{
    column::enforced,
    cursor::Cursor,
    statement::{Clause, Constraint, Key, KeyKind, KeyPart},
    token::{Fault, Kind},
};

/// Whether a key or a constraint follows, in ADD and in the list of CREATE TABLE.
pub(super) fn key_follows(cursor: &Cursor<'_>) -> bool {
    let vector = cursor.is(0, "vector") && (cursor.is(1, "index") || cursor.is(1, "key"));
    vector || cursor.any(&["constraint", "primary", "unique", "index", "key", "fulltext", "spatial", "foreign", "check"])
}

/// A key, an index or a constraint, as a clause that adds it.
pub(super) fn key(cursor: &mut Cursor<'_>) -> Result<Clause, Fault> {
    let mut name = None;
    if cursor.eat(&["constraint"]) && !cursor.any(&["primary", "unique", "foreign", "check"]) {
        cursor.eat(&["if", "not", "exists"]);
        if !cursor.any(&["primary", "unique", "foreign", "check"])
            || matches!(cursor.ahead(1), Some(Kind::Word(_))) && !cursor.is(1, "key") && !cursor.is(1, "index")
        {
            name = Some(cursor.name()?);
        }
    }
    if cursor.eat(&["check"]) {
        cursor.bracketed()?;
        enforced(cursor);
        return Ok(Clause::AddConstraint(Constraint::Check { name }));
    }
    if cursor.eat(&["foreign", "key"]) {
        return foreign(cursor, name).map(Clause::AddConstraint);
    }
    let kind = if cursor.eat(&["primary", "key"]) {
        KeyKind::Primary
    } else if cursor.eat(&["unique"]) {
        cursor.eat_any(&["index", "key"]);
        KeyKind::Unique
    } else if cursor.eat_any(&["fulltext", "spatial", "vector"]) {
        cursor.eat_any(&["index", "key"]);
        KeyKind::Plain
    } else if cursor.eat_any(&["index", "key"]) {
        KeyKind::Plain
    } else {
        return Err(cursor.unexpected("a key"));
    };
    let if_not_exists = cursor.eat(&["if", "not", "exists"]);
    let mut index = None;
    if !cursor.is_punct(0, b'(') && !index_type(cursor)? {
        index = Some(cursor.name()?);
    }
    index_type(cursor)?;
    let parts = parts(cursor)?;
    index_options(cursor)?;
    let name = if kind == KeyKind::Primary { None } else { index.or(name) };
    Ok(Clause::AddKey { key: Key { kind, name, parts }, if_not_exists })
}

/// USING BTREE, TYPE HASH.
pub(super) fn index_type(cursor: &mut Cursor<'_>) -> Result<bool, Fault> {
    let kinds = ["btree", "hash", "rtree"];
    let typed = (cursor.is(0, "using") || cursor.is(0, "type")) && kinds.iter().any(|kind| cursor.is(1, kind));
    cursor.at += if typed { 2 } else { 0 };
    Ok(typed)
}

/// The columns of a key.
pub(super) fn parts(cursor: &mut Cursor<'_>) -> Result<Vec<KeyPart>, Fault> {
    cursor.expect_punct(b'(')?;
    let mut parts = Vec::new();
    loop {
        if cursor.is_punct(0, b'(') {
            cursor.bracketed()?;
            parts.push(KeyPart::Expression);
        } else {
            let name = cursor.column()?;
            let prefix = if cursor.eat_punct(b'(') {
                let length = cursor.integer()?;
                cursor.expect_punct(b')')?;
                Some(length)
            } else {
                None
            };
            if cursor.eat(&["without", "overlaps"]) {
                return Err("a key over a period (WITHOUT OVERLAPS) is not followed".into());
            }
            parts.push(KeyPart::Column { name, prefix });
        }
        cursor.eat_any(&["asc", "desc"]);
        if !cursor.eat_punct(b',') {
            break;
        }
    }
    cursor.expect_punct(b')')?;
    Ok(parts)
}

/// What stands after a key's columns and says nothing about rows.
pub(super) fn index_options(cursor: &mut Cursor<'_>) -> Result<(), Fault> {
    loop {
        if index_type(cursor)? || cursor.eat_any(&["visible", "invisible", "ignored"]) || cursor.eat(&["not", "ignored"]) {
            continue;
        }
        if cursor.eat(&["with", "parser"]) {
            cursor.name()?;
        } else if cursor.eat(&["comment"]) {
            cursor.string()?;
        } else if cursor.eat_any(&["key_block_size", "engine_attribute", "secondary_engine_attribute", "clustering", "m", "distance"]) {
            cursor.eat_punct(b'=');
            cursor.at += 1;
        } else {
            return Ok(());
        }
    }
}

fn foreign(cursor: &mut Cursor<'_>, name: Option<String>) -> Result<Constraint, Fault> {
    cursor.eat(&["if", "not", "exists"]);
    let index = if cursor.is_punct(0, b'(') { None } else { Some(cursor.name()?) };
    let columns = parts(cursor)?
        .into_iter()
        .filter_map(|part| match part {
            KeyPart::Column { name, .. } => Some(name),
            KeyPart::Expression => None,
        })
        .collect();
    let actions = reference(cursor)?;
    Ok(Constraint::ForeignKey { name, index, columns, cascades: cascades(&actions) })
}

/// REFERENCES and its actions.
pub(super) fn reference(cursor: &mut Cursor<'_>) -> Result<Vec<String>, Fault> {
    cursor.expect(&["references"])?;
    // The parent is named, but nothing is done to it.
    let named = cursor.tables.len();
    cursor.table()?;
    cursor.tables.truncate(named);
    if cursor.is_punct(0, b'(') {
        cursor.bracketed()?;
    }
    if cursor.eat(&["match"]) {
        cursor.name()?;
    }
    let mut actions = Vec::new();
    while cursor.is(0, "on") && (cursor.is(1, "delete") || cursor.is(1, "update")) {
        cursor.at += 2;
        let mut action = cursor.name()?.to_ascii_lowercase();
        if matches!(action.as_str(), "set" | "no") {
            action = format!("{action} {}", cursor.name()?.to_ascii_lowercase());
        }
        actions.push(action);
    }
    Ok(actions)
}

/// Whether the child's rows change with the parent's.
pub(super) fn cascades(actions: &[String]) -> bool {
    actions.iter().any(|action| matches!(action.as_str(), "cascade" | "set null" | "set default"))
}
