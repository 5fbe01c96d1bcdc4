//! CREATE TABLE and CREATE INDEX.

use super::{
    alter::wait,
    column::definition,
    cursor::Cursor,
    key::{index_options, index_type, key, key_follows, parts},
    option::{option, partition_by},
    statement::{Alter, Body, Clause, Create, Key, KeyKind},
    token::Fault,
};

/// CREATE TABLE after that word.
pub(super) fn create(cursor: &mut Cursor<'_>, or_replace: bool, temporary: bool) -> Result<Create, Fault> {
    let if_not_exists = cursor.eat(&["if", "not", "exists"]);
    let table = cursor.table()?;
    let bracketed_like = cursor.is_punct(0, b'(') && cursor.is(1, "like");
    if bracketed_like || cursor.is(0, "like") {
        cursor.eat_punct(b'(');
        cursor.expect(&["like"])?;
        let other = cursor.table()?;
        if bracketed_like {
            cursor.expect_punct(b')')?;
        }
        return Ok(Create { table, or_replace, if_not_exists, temporary, body: Body::Like(other) });
    }
    let (mut columns, mut keys, mut constraints, mut options) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let list = cursor.is_punct(0, b'(') && !cursor.is(1, "select");
    if list {
        cursor.expect_punct(b'(')?;
        loop {
            if key_follows(cursor) {
                match key(cursor)? {
                    Clause::AddKey { key, .. } => keys.push(key),
                    Clause::AddConstraint(constraint) => constraints.push(constraint),
                    _ => return Err("a key is not understood".into()),
                }
            } else if cursor.is(0, "period") && cursor.is(1, "for") {
                return Err("a table with a PERIOD is not followed".into());
            } else {
                let name = cursor.column()?;
                let (column, inline) = definition(cursor, name)?;
                let own = column_key(&column);
                columns.push(column);
                keys.extend(own);
                constraints.extend(inline);
            }
            if !cursor.eat_punct(b',') {
                break;
            }
        }
        cursor.expect_punct(b')')?;
    }
    while let Some(clause) = option(cursor)? {
        options.push(clause);
        cursor.eat_punct(b',');
    }
    partition_by(cursor)?;
    let select = cursor.any(&["select", "as", "ignore", "replace", "with", "values", "table"]) || cursor.is_punct(0, b'(');
    if select {
        cursor.at = cursor.tokens.len();
    } else if !list {
        return Err(cursor.unknown("CREATE TABLE"));
    }
    Ok(Create { table, or_replace, if_not_exists, temporary, body: Body::Columns { columns, keys, constraints, options, select } })
}

/// The key that a column's own words make.
pub(super) fn column_key(column: &super::statement::ColumnDefinition) -> Option<Key> {
    let parts = vec![super::statement::KeyPart::Column { name: column.name.clone(), prefix: None }];
    if column.primary {
        Some(Key { kind: KeyKind::Primary, name: None, parts })
    } else if column.unique {
        Some(Key { kind: KeyKind::Unique, name: None, parts })
    } else {
        None
    }
}

/// CREATE INDEX after its kind.
pub(super) fn create_index(cursor: &mut Cursor<'_>, kind: KeyKind, or_replace: bool) -> Result<Alter, Fault> {
    cursor.expect(&["index"])?;
    let if_not_exists = cursor.eat(&["if", "not", "exists"]);
    let name = cursor.name()?;
    index_type(cursor)?;
    cursor.expect(&["on"])?;
    let table = cursor.table()?;
    wait(cursor)?;
    let parts = parts(cursor)?;
    wait(cursor)?;
    index_options(cursor)?;
    algorithm_and_lock(cursor)?;
    index_options(cursor)?;
    wait(cursor)?;
    let mut clauses = Vec::new();
    if or_replace {
        clauses.push(Clause::DropIndex { name: name.clone(), if_exists: true });
    }
    clauses.push(Clause::AddKey { key: Key { kind, name: Some(name), parts }, if_not_exists });
    Ok(Alter { table, if_exists: false, ignore: false, clauses })
}

/// DROP INDEX after that word.
pub(super) fn drop_index(cursor: &mut Cursor<'_>) -> Result<Alter, Fault> {
    let if_exists = cursor.eat(&["if", "exists"]);
    let name = cursor.name()?;
    cursor.expect(&["on"])?;
    let table = cursor.table()?;
    wait(cursor)?;
    algorithm_and_lock(cursor)?;
    let clause = if name.eq_ignore_ascii_case("primary") { Clause::DropPrimaryKey } else { Clause::DropIndex { name, if_exists } };
    Ok(Alter { table, if_exists: false, ignore: false, clauses: vec![clause] })
}

fn algorithm_and_lock(cursor: &mut Cursor<'_>) -> Result<(), Fault> {
    while cursor.eat_any(&["algorithm", "lock"]) {
        cursor.eat_punct(b'=');
        cursor.name()?;
    }
    Ok(())
}
