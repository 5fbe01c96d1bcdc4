//! Column definitions: a name, a type and its attributes.

use super::{
    cursor::Cursor,
    declared::{charset_value, charset_words, collation_value, declared},
    key::{cascades, reference},
    statement::{ColumnDefinition, Constraint, DefaultClause, Literal, Position},
    token::{Fault, Kind},
};
use crate::table::Generated;

/// A column's definition after its name, and the foreign keys that stand inside it.
pub(super) fn definition(cursor: &mut Cursor<'_>, name: String) -> Result<(ColumnDefinition, Vec<Constraint>), Fault> {
    let (declared, extra) = declared(cursor)?;
    let mut column = ColumnDefinition {
        name,
        declared,
        charset: extra.charset,
        nullable: extra.serial.then_some(false),
        default: None,
        on_update_now: false,
        identity: extra.serial,
        generated: None,
        comment: String::new(),
        invisible: false,
        compressed: false,
        primary: false,
        unique: extra.serial,
        check: false,
        srid: None,
    };
    let mut constraints = Vec::new();
    while attribute(cursor, &mut column, &mut constraints)? {}
    Ok((column, constraints))
}

/// FIRST or AFTER.
pub(super) fn position(cursor: &mut Cursor<'_>) -> Result<Option<Position>, Fault> {
    if cursor.eat(&["first"]) {
        return Ok(Some(Position::First));
    }
    if cursor.eat(&["after"]) {
        return Ok(Some(Position::After(cursor.column()?)));
    }
    Ok(None)
}

/// One attribute. False: what follows is none.
fn attribute(cursor: &mut Cursor<'_>, column: &mut ColumnDefinition, constraints: &mut Vec<Constraint>) -> Result<bool, Fault> {
    if value_attribute(cursor, column)? || key_attribute(cursor, column, constraints)? || storage_attribute(cursor, column)? {
        return Ok(true);
    }
    Ok(false)
}

fn value_attribute(cursor: &mut Cursor<'_>, column: &mut ColumnDefinition) -> Result<bool, Fault> {
    if cursor.eat(&["not", "null"]) {
        column.nullable = Some(false);
    } else if cursor.eat(&["null"]) {
        column.nullable = Some(true);
    } else if cursor.eat(&["default"]) {
        column.default = Some(default_value(cursor)?);
    } else if cursor.eat(&["on", "update"]) {
        let now = default_value(cursor)?;
        if !matches!(&now, DefaultClause::Expression(text) if text.starts_with("current_timestamp(")) {
            return Err("ON UPDATE has another value than the current time".into());
        }
        column.on_update_now = true;
    } else if cursor.eat(&["auto_increment"]) {
        column.identity = true;
    } else if cursor.eat(&["serial", "default", "value"]) {
        column.identity = true;
        column.nullable = Some(false);
        column.unique = true;
    } else if cursor.eat(&["comment"]) {
        column.comment = cursor.string()?;
    } else if cursor.eat(&["collate"]) {
        column.charset.collation = Some(collation_value(cursor)?);
    } else if charset_words(cursor) {
        column.charset.charset = Some(charset_value(cursor)?);
    } else if cursor.eat(&["generated", "always", "as"]) || cursor.eat(&["as"]) {
        generated(cursor, column)?;
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn key_attribute(cursor: &mut Cursor<'_>, column: &mut ColumnDefinition, constraints: &mut Vec<Constraint>) -> Result<bool, Fault> {
    let check = cursor.is(0, "check") || (cursor.is(0, "constraint") && (cursor.is(1, "check") || cursor.is(2, "check")));
    if cursor.eat(&["primary", "key"]) || cursor.eat(&["primary"]) {
        column.primary = true;
    } else if cursor.eat(&["unique"]) {
        cursor.eat(&["key"]);
        column.unique = true;
    } else if cursor.eat(&["key"]) {
        column.primary = true;
    } else if check {
        if cursor.eat(&["constraint"]) && !cursor.is(0, "check") {
            cursor.name()?;
        }
        cursor.expect(&["check"])?;
        cursor.bracketed()?;
        enforced(cursor);
        column.check = true;
    } else if cursor.is(0, "references") {
        let actions = reference(cursor)?;
        // MySQL before 9.0 reads inline references and forgets them; MariaDB keeps them.
        if cursor.context.mariadb || cursor.context.version >= 90_000 {
            constraints.push(Constraint::ForeignKey {
                name: None,
                index: None,
                columns: vec![column.name.clone()],
                cascades: cascades(&actions),
            });
        }
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// ENFORCED and NOT ENFORCED.
pub(super) fn enforced(cursor: &mut Cursor<'_>) {
    if !cursor.eat(&["not", "enforced"]) {
        cursor.eat(&["enforced"]);
    }
}

fn storage_attribute(cursor: &mut Cursor<'_>, column: &mut ColumnDefinition) -> Result<bool, Fault> {
    if cursor.eat(&["invisible"]) {
        column.invisible = true;
    } else if cursor.eat(&["visible"]) {
        column.invisible = false;
    } else if cursor.eat(&["compressed"]) {
        column.compressed = true;
        if cursor.eat_punct(b'=') {
            cursor.name()?;
        }
    } else if cursor.eat(&["srid"]) {
        column.srid = Some(cursor.integer()?);
    } else if cursor.eat(&["ref_system_id"]) {
        cursor.eat_punct(b'=');
        column.srid = Some(cursor.integer()?);
    } else if cursor.eat(&["column_format"]) || cursor.eat(&["storage"]) {
        cursor.name()?;
    } else if cursor.eat(&["engine_attribute"]) || cursor.eat(&["secondary_engine_attribute"]) {
        cursor.eat_punct(b'=');
        cursor.string()?;
    } else if cursor.eat(&["without", "system", "versioning"])
        || cursor.eat(&["with", "system", "versioning"])
        || cursor.eat(&["not", "secondary"])
    {
        // Says something only in a table with system versioning or a secondary engine, and nothing about values.
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn generated(cursor: &mut Cursor<'_>, column: &mut ColumnDefinition) -> Result<(), Fault> {
    if cursor.is(0, "row") || cursor.is(0, "identity") {
        return Err("a column of system versioning is not followed".into());
    }
    let range = cursor.bracketed()?;
    let expression = cursor.expression(range);
    let stored = cursor.eat(&["stored"]) || cursor.eat(&["persistent"]);
    if !stored {
        cursor.eat(&["virtual"]);
    }
    column.generated = Some(Generated { expression, stored });
    Ok(())
}

/// What stands after DEFAULT.
pub(super) fn default_value(cursor: &mut Cursor<'_>) -> Result<DefaultClause, Fault> {
    if cursor.is_punct(0, b'(') {
        let range = cursor.bracketed()?;
        return Ok(bracketed_default(cursor, range));
    }
    let default = match literal(cursor)? {
        Some(literal) => DefaultClause::Literal(literal),
        None => DefaultClause::Expression(call(cursor)?),
    };
    if matches!(cursor.peek(), Some(Kind::Punct(b'+' | b'-' | b'*' | b'/' | b'%' | b'|' | b'&' | b'<' | b'>' | b'='))) {
        return Err(cursor.unknown("a default"));
    }
    Ok(default)
}

/// A bracketed default: a literal if nothing else stands there.
fn bracketed_default(cursor: &Cursor<'_>, range: std::ops::Range<usize>) -> DefaultClause {
    let mut inner = Cursor::new(&cursor.tokens[range.clone()], cursor.context);
    let mut depth = 0;
    while inner.eat_punct(b'(') {
        depth += 1;
    }
    if let Ok(Some(literal)) = literal(&mut inner) {
        while depth > 0 && inner.eat_punct(b')') {
            depth -= 1;
        }
        if inner.done() && depth == 0 {
            return DefaultClause::Literal(literal);
        }
    }
    DefaultClause::Expression(cursor.expression(range))
}

/// A literal, with a sign or a type's name before it.
fn literal(cursor: &mut Cursor<'_>) -> Result<Option<Literal>, Fault> {
    let minus = cursor.is_punct(0, b'-');
    if minus || cursor.is_punct(0, b'+') {
        let Some(Kind::Number(digits)) = cursor.ahead(1) else { return Err(cursor.unknown("a default")) };
        cursor.at += 2;
        return Ok(Some(Literal::Number(if minus { format!("-{digits}") } else { digits.clone() })));
    }
    let temporal = cursor.any(&["date", "time", "timestamp"]) && matches!(cursor.ahead(1), Some(Kind::Text { .. }));
    cursor.at += usize::from(temporal);
    let literal = match cursor.peek() {
        Some(Kind::Text { .. }) => return cursor.text().map(Some),
        Some(Kind::Hex { bytes, introducer }) => Literal::Hex { bytes: bytes.clone(), introducer: introducer.clone() },
        Some(Kind::Bits(digits)) => Literal::Bits(digits.clone()),
        Some(Kind::Number(digits)) => Literal::Number(digits.clone()),
        Some(Kind::Word(word)) if !matches!(cursor.ahead(1), Some(Kind::Punct(b'(' | b'.'))) => match word.to_ascii_lowercase().as_str() {
            "null" => Literal::Null,
            "true" => Literal::Boolean(true),
            "false" => Literal::Boolean(false),
            _ => return Ok(None),
        },
        Some(Kind::Word(_) | Kind::Quoted(_) | Kind::Punct(_)) | None => return Ok(None),
    };
    cursor.at += 1;
    Ok(Some(literal))
}

/// A function call or a word that stands for one, in normal form.
fn call(cursor: &mut Cursor<'_>) -> Result<String, Fault> {
    let start = cursor.at;
    if cursor.eat(&["next", "value", "for"]) {
        cursor.name()?;
        if cursor.eat_punct(b'.') {
            cursor.name()?;
        }
    } else {
        if !matches!(cursor.peek(), Some(Kind::Word(_) | Kind::Quoted(_))) || cursor.is(0, "case") {
            return Err(cursor.unknown("a default"));
        }
        cursor.name()?;
        while cursor.eat_punct(b'.') {
            cursor.name()?;
        }
        if cursor.is_punct(0, b'(') {
            cursor.bracketed()?;
        }
    }
    Ok(cursor.expression(start..cursor.at))
}
