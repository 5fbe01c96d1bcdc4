//! Which statement it is, by its first words.

use super::{
    alter::{alter, wait},
    context::Context,
    create::{create, create_index, drop_index},
    cursor::Cursor,
    option::charset_option,
    statement::{Control, KeyKind, Parsed, Statement},
    token::{Fault, Kind, Token, tokenize},
};
use crate::table::TableId;

/// Statements that touch no table's shape and no row, by their first word.
const HARMLESS: [&str; 34] = [
    "analyze",
    "binlog",
    "cache",
    "call",
    "change",
    "check",
    "checksum",
    "clone",
    "deallocate",
    "describe",
    "desc",
    "do",
    "explain",
    "flush",
    "get",
    "grant",
    "handler",
    "help",
    "install",
    "kill",
    "lock",
    "optimize",
    "prepare",
    "purge",
    "reset",
    "revoke",
    "set",
    "show",
    "signal",
    "start",
    "stop",
    "uninstall",
    "unlock",
    "use",
];

/// Objects whose CREATE, ALTER, DROP and RENAME are not about tables.
const OTHER_OBJECTS: [&str; 19] = [
    "aggregate",
    "event",
    "function",
    "instance",
    "library",
    "logfile",
    "package",
    "procedure",
    "resource",
    "role",
    "sequence",
    "server",
    "spatial",
    "tablespace",
    "trigger",
    "undo",
    "user",
    "view",
    "masking",
];

/// Words after CREATE or ALTER that say how, not what.
const MANNERS: [&str; 3] = ["temporary", "ignore", "online"];

pub(super) fn parse(text: &[u8], context: &Context) -> Parsed {
    let (tokens, fault) = tokenize(text, context);
    let mut tokens = tokens.as_slice();
    while let Some((_, rest)) = tokens.split_last().filter(|(last, _)| last.kind == Kind::Punct(b';')) {
        tokens = rest;
    }
    let mut cursor = Cursor::new(tokens, context);
    match head(&mut cursor, text) {
        Ok(_) if cursor.tokens[cursor.at.min(tokens.len())..].iter().any(|token| token.kind == Kind::Punct(b';')) => {
            unknown(&cursor, "a second statement follows".into())
        }
        // What cannot be read to its end may still be known by its beginning not to be about tables.
        Ok(Parsed::Nothing) if fault.is_none() || !tokens.is_empty() => Parsed::Nothing,
        Ok(parsed) => match fault {
            None => parsed,
            Some(why) => unknown(&cursor, why),
        },
        Err(why) => unknown(&cursor, fault.unwrap_or(why)),
    }
}

/// What it may touch: the tables read so far, and every name behind a word that introduces one.
fn unknown(cursor: &Cursor<'_>, why: Fault) -> Parsed {
    let mut tables = cursor.tables.clone();
    let mut rest = Cursor::new(cursor.tokens, cursor.context);
    rest.at = cursor.at.min(cursor.tokens.len());
    while !rest.done() {
        if rest.eat(&["rename", "as"]) || rest.eat_any(&["table", "to", "rename", "like", "from", "into"]) {
            // What is no name there is no table either.
            drop(rest.table());
        } else {
            rest.at += 1;
        }
    }
    tables.extend(rest.tables);
    tables.sort();
    tables.dedup();
    Parsed::Unknown { tables, why }
}

/// Every name of the rest as a table's: for statements that are not known at all.
fn every_name(cursor: &mut Cursor<'_>) -> Vec<TableId> {
    let mut rest = Cursor::new(cursor.tokens, cursor.context);
    rest.at = cursor.at;
    while !rest.done() {
        if !matches!(rest.peek(), Some(Kind::Word(_) | Kind::Quoted(_))) || rest.table().is_err() {
            rest.at += 1;
        }
    }
    let mut tables = rest.tables;
    tables.sort();
    tables.dedup();
    tables
}

fn head(cursor: &mut Cursor<'_>, text: &[u8]) -> Result<Parsed, Fault> {
    while cursor.is(0, "set") && cursor.is(1, "statement") {
        while !cursor.done() && !cursor.eat(&["for"]) {
            cursor.at += 1;
        }
    }
    if cursor.done() {
        return Ok(Parsed::Nothing);
    }
    if let Some(control) = control(cursor, text)? {
        return Ok(Parsed::Transaction(control));
    }
    if let Some(parsed) = row_change(cursor)? {
        return Ok(parsed);
    }
    if HARMLESS.iter().any(|word| cursor.is(0, word)) {
        cursor.at = cursor.tokens.len();
        return Ok(Parsed::Nothing);
    }
    let parsed = about_objects(cursor)?;
    if let Parsed::Tables(_) = parsed
        && !cursor.done()
        && !cursor.is_punct(0, b';')
    {
        return Err(cursor.unexpected("the end"));
    }
    Ok(parsed)
}

fn about_objects(cursor: &mut Cursor<'_>) -> Result<Parsed, Fault> {
    let start = cursor.at;
    if cursor.eat(&["create"]) {
        return create_object(cursor);
    }
    if cursor.eat(&["alter"]) {
        return alter_object(cursor);
    }
    if cursor.eat(&["drop"]) {
        return drop_object(cursor);
    }
    if cursor.eat(&["rename", "table"]) || cursor.eat(&["rename", "tables"]) {
        return rename(cursor).map(Parsed::Tables);
    }
    if cursor.eat(&["rename"]) {
        return other_object(cursor);
    }
    if cursor.eat(&["truncate"]) {
        cursor.eat_any(&["table"]);
        let table = cursor.table()?;
        wait(cursor)?;
        return Ok(Parsed::Tables(Statement::Truncate(table)));
    }
    if cursor.eat(&["repair"]) {
        cursor.eat_any(&["no_write_to_binlog", "local"]);
        cursor.eat_any(&["table", "tables"]);
        let tables = every_name(cursor);
        cursor.at = cursor.tokens.len();
        return Ok(Parsed::Tables(Statement::ReplaceRows { tables, what: "REPAIR TABLE".into() }));
    }
    cursor.at = start;
    let tables = every_name(cursor);
    Ok(Parsed::Unknown { tables, why: format!("the statement begins with what is not known: {}", cursor.unknown("a statement")) })
}

fn create_object(cursor: &mut Cursor<'_>) -> Result<Parsed, Fault> {
    let or_replace = cursor.eat(&["or", "replace"]);
    let temporary = cursor.eat(&["temporary"]);
    if cursor.eat(&["table"]) {
        return create(cursor, or_replace, temporary).map(|create| Parsed::Tables(Statement::Create(Box::new(create))));
    }
    if cursor.eat_any(&["database", "schema"]) {
        cursor.eat(&["if", "not", "exists"]);
        return database(cursor);
    }
    cursor.eat_any(&["online", "offline"]);
    let kind = if cursor.eat(&["unique"]) { Some(KeyKind::Unique) } else { None };
    if kind.is_none() && cursor.is(1, "index") {
        cursor.eat_any(&["fulltext", "spatial", "vector"]);
    }
    if cursor.is(0, "index") {
        let kind = kind.unwrap_or(KeyKind::Plain);
        return create_index(cursor, kind, or_replace).map(|alter| Parsed::Tables(Statement::Alter(alter)));
    }
    other_object(cursor)
}

fn alter_object(cursor: &mut Cursor<'_>) -> Result<Parsed, Fault> {
    let mut ignore = false;
    while MANNERS.iter().any(|word| cursor.is(0, word)) || cursor.is(0, "offline") {
        ignore |= cursor.is(0, "ignore");
        cursor.at += 1;
    }
    if cursor.eat(&["table"]) {
        return alter(cursor, ignore).map(|alter| Parsed::Tables(Statement::Alter(alter)));
    }
    if cursor.eat_any(&["database", "schema"]) {
        return database(cursor);
    }
    other_object(cursor)
}

fn drop_object(cursor: &mut Cursor<'_>) -> Result<Parsed, Fault> {
    let temporary = cursor.eat(&["temporary"]);
    if cursor.eat_any(&["table", "tables"]) {
        let if_exists = cursor.eat(&["if", "exists"]);
        let mut tables = vec![cursor.table()?];
        while cursor.eat_punct(b',') {
            tables.push(cursor.table()?);
        }
        wait(cursor)?;
        cursor.eat_any(&["restrict", "cascade"]);
        return Ok(Parsed::Tables(Statement::Drop { tables, temporary, if_exists }));
    }
    if cursor.eat_any(&["database", "schema"]) {
        cursor.eat(&["if", "exists"]);
        let name = cursor.name()?;
        return Ok(Parsed::Tables(Statement::DropDatabase { name: lowered(cursor, name) }));
    }
    cursor.eat_any(&["online", "offline"]);
    if cursor.eat(&["index"]) {
        return drop_index(cursor).map(|alter| Parsed::Tables(Statement::Alter(alter)));
    }
    other_object(cursor)
}

/// Procedures, triggers, users, views … Their bodies are not read: nothing in them is done now.
fn other_object(cursor: &mut Cursor<'_>) -> Result<Parsed, Fault> {
    let start = cursor.at;
    // DEFINER, ALGORITHM and SQL SECURITY may stand before the object's kind.
    for by in 0..24 {
        if OTHER_OBJECTS.iter().any(|object| cursor.is(by, object)) {
            cursor.at = cursor.tokens.len();
            return Ok(Parsed::Nothing);
        }
        if cursor.ahead(by).is_none() || cursor.is(by, "table") || cursor.is_punct(by, b'(') {
            break;
        }
    }
    cursor.at = start;
    let tables = every_name(cursor);
    Ok(Parsed::Unknown { tables, why: cursor.unknown("a statement about an object") })
}

fn lowered(cursor: &Cursor<'_>, name: String) -> String {
    if cursor.context.lower_case_table_names == 1 { name.to_lowercase() } else { name }
}

fn database(cursor: &mut Cursor<'_>) -> Result<Parsed, Fault> {
    let words = ["character", "charset", "default", "collate", "comment", "encryption", "read", "upgrade"];
    let named = matches!(cursor.peek(), Some(Kind::Quoted(_)))
        || (matches!(cursor.peek(), Some(Kind::Word(_)))
            && !(cursor.any(&words) && !matches!(cursor.ahead(1), None | Some(Kind::Punct(b';')))));
    let name = if named { cursor.name()? } else { cursor.context.default_database.clone() };
    let mut collation = None;
    while !cursor.done() && !cursor.is_punct(0, b';') {
        if let Some(clause) = charset_option(cursor)? {
            collation = Some(clause);
        } else {
            cursor.at += 1;
        }
    }
    Ok(Parsed::Tables(Statement::Database { name: lowered(cursor, name), collation }))
}

fn rename(cursor: &mut Cursor<'_>) -> Result<Statement, Fault> {
    let if_exists = cursor.eat(&["if", "exists"]);
    let mut pairs = Vec::new();
    loop {
        let from = cursor.table()?;
        wait(cursor)?;
        cursor.expect(&["to"])?;
        pairs.push((from, cursor.table()?));
        if !cursor.eat_punct(b',') {
            return Ok(Statement::Rename { pairs, if_exists });
        }
    }
}

fn control(cursor: &mut Cursor<'_>, text: &[u8]) -> Result<Option<Control>, Fault> {
    let control = if cursor.eat(&["begin"]) {
        cursor.eat(&["work"]);
        Control::Begin
    } else if cursor.eat(&["start", "transaction"]) {
        cursor.at = cursor.tokens.len();
        Control::Begin
    } else if cursor.eat(&["commit"]) {
        Control::Commit
    } else if cursor.eat(&["rollback"]) {
        cursor.eat(&["work"]);
        if cursor.eat(&["to"]) {
            cursor.eat(&["savepoint"]);
            Control::RollbackTo(cursor.name()?)
        } else {
            Control::Rollback
        }
    } else if cursor.eat(&["savepoint"]) {
        Control::Savepoint(cursor.name()?)
    } else if cursor.eat(&["release", "savepoint"]) {
        Control::Release(cursor.name()?)
    } else if cursor.eat(&["xa"]) {
        return xa(cursor, text).map(Some);
    } else {
        return Ok(None);
    };
    for word in ["work", "and", "no", "chain", "no", "release"] {
        cursor.eat(&[word]);
    }
    if cursor.done() || cursor.is_punct(0, b';') { Ok(Some(control)) } else { Err(cursor.unexpected("the end")) }
}

fn xa(cursor: &mut Cursor<'_>, text: &[u8]) -> Result<Control, Fault> {
    let verb = cursor.name()?.to_ascii_lowercase();
    let rest = &cursor.tokens[cursor.at..];
    let one_phase = rest.len() > 2 && cursor.is(rest.len() - 2, "one") && cursor.is(rest.len() - 1, "phase");
    let rest = if one_phase { &rest[..rest.len() - 2] } else { rest };
    let xid = xid(rest, text);
    cursor.at = cursor.tokens.len();
    Ok(match verb.as_str() {
        "start" | "begin" => Control::XaStart(xid),
        "end" => Control::XaEnd(xid),
        "prepare" => Control::XaPrepare(xid),
        "commit" => Control::XaCommit { xid, one_phase },
        "rollback" => Control::XaRollback(xid),
        other => return Err(format!("XA {other} is not understood")),
    })
}

fn xid(tokens: &[Token], text: &[u8]) -> String {
    let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else { return String::new() };
    String::from_utf8_lossy(text.get(first.start..last.end).unwrap_or_default()).into_owned()
}

/// INSERT, UPDATE, DELETE, REPLACE, LOAD, and SELECT (a function that changes rows is logged so).
fn row_change(cursor: &mut Cursor<'_>) -> Result<Option<Parsed>, Fault> {
    if cursor.is(0, "delete") && cursor.is(1, "history") {
        cursor.at += 2;
        cursor.expect(&["from"])?;
        let tables = vec![cursor.table()?];
        cursor.at = cursor.tokens.len();
        return Ok(Some(Parsed::Tables(Statement::ReplaceRows { tables, what: "DELETE HISTORY".into() })));
    }
    if cursor.any(&["select", "values"]) {
        cursor.at = cursor.tokens.len();
        let why = "a SELECT in the log stands for a function that changed rows by statement".into();
        return Ok(Some(Parsed::Unknown { tables: Vec::new(), why }));
    }
    if !cursor.any(&["insert", "update", "delete", "replace", "load", "with"]) {
        return Ok(None);
    }
    let tables = if cursor.eat_any(&["insert", "replace", "load"]) {
        target(cursor)?
    } else if cursor.eat_any(&["update", "delete"]) {
        joined(cursor)
    } else {
        every_name(cursor)
    };
    cursor.at = cursor.tokens.len();
    Ok(Some(Parsed::RowChange { tables }))
}

/// The tables of an UPDATE or DELETE: those at its beginning, and behind FROM, USING, JOIN and commas up to the first condition.
fn joined(cursor: &mut Cursor<'_>) -> Vec<TableId> {
    while cursor.eat_any(&["low_priority", "quick", "ignore"]) {}
    let mut wanted = true;
    while !cursor.done() && !cursor.any(&["set", "where", "order", "limit", "returning"]) {
        if cursor.is_punct(0, b'(') {
            if cursor.bracketed().is_err() {
                break;
            }
            wanted = false;
        } else if cursor.eat_any(&["from", "using", "join", "straight_join"]) || cursor.eat_punct(b',') {
            wanted = true;
        } else if wanted && cursor.table().is_ok() {
            wanted = false;
        } else {
            wanted = false;
            cursor.at += 1;
        }
    }
    cursor.tables.clone()
}

fn target(cursor: &mut Cursor<'_>) -> Result<Vec<TableId>, Fault> {
    if cursor.eat_any(&["data", "xml"]) {
        while !cursor.done() && !cursor.eat(&["into", "table"]) {
            cursor.at += 1;
        }
    } else {
        while cursor.eat_any(&["low_priority", "high_priority", "delayed", "ignore", "into"]) {}
    }
    Ok(vec![cursor.table()?])
}
