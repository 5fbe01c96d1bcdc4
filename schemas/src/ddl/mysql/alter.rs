//! The clauses of ALTER TABLE.

use super::{
    column::{default_value, definition, position},
    cursor::Cursor,
    key::{key, key_follows},
    option::{charset_option, option, partition_by},
    statement::{Alter, CharsetClause, Clause, Constraint, DefaultClause, Exchange},
    token::{Fault, Kind},
};
use crate::table::TableId;

/// ALTER TABLE from the table's name on.
pub(super) fn alter(cursor: &mut Cursor<'_>, ignore: bool) -> Result<Alter, Fault> {
    let if_exists = cursor.eat(&["if", "exists"]);
    let table = cursor.table()?;
    wait(cursor)?;
    let mut clauses = Vec::new();
    while !cursor.done() && !cursor.is_punct(0, b';') {
        if partition_by(cursor)? {
            clauses.push(Clause::Nothing);
        } else {
            clause(cursor, &mut clauses)?;
        }
        // Options may follow one another without a comma, and PARTITION BY follows without one.
        if !cursor.eat_punct(b',') && !cursor.done() && !cursor.is_punct(0, b';') && !follows_without_comma(cursor, clauses.last()) {
            return Err(cursor.unknown("ALTER TABLE"));
        }
    }
    Ok(Alter { table, if_exists, ignore, clauses })
}

fn follows_without_comma(cursor: &Cursor<'_>, last: Option<&Clause>) -> bool {
    let option =
        matches!(last, Some(Clause::Engine(_) | Clause::Comment(_) | Clause::TableCharset(_) | Clause::Nothing | Clause::ReplaceRows(_)));
    option || cursor.is(0, "partition") || cursor.is(0, "remove")
}

/// WAIT n, NOWAIT.
pub(super) fn wait(cursor: &mut Cursor<'_>) -> Result<(), Fault> {
    if cursor.eat(&["wait"]) {
        cursor.at += 1;
    } else {
        cursor.eat(&["nowait"]);
    }
    Ok(())
}

fn clause(cursor: &mut Cursor<'_>, clauses: &mut Vec<Clause>) -> Result<(), Fault> {
    if cursor.eat(&["add"]) {
        return add(cursor, clauses);
    }
    let clause = if cursor.eat(&["drop"]) {
        drop(cursor)?
    } else if cursor.eat(&["change"]) {
        return change(cursor, clauses);
    } else if cursor.eat(&["modify"]) {
        return modify(cursor, clauses);
    } else if cursor.eat(&["alter"]) {
        alter_column(cursor)?
    } else if cursor.eat(&["rename"]) {
        rename(cursor)?
    } else if cursor.eat(&["convert", "to"]) {
        Clause::Convert(convert(cursor)?)
    } else if let Some(clause) = partition(cursor)? {
        clause
    } else if let Some(clause) = bare(cursor)? {
        clause
    } else if let Some(clause) = option(cursor)? {
        clause
    } else {
        return Err(cursor.unknown("ALTER TABLE"));
    };
    clauses.push(clause);
    Ok(())
}

/// Clauses of few words.
fn bare(cursor: &mut Cursor<'_>) -> Result<Option<Clause>, Fault> {
    if cursor.eat(&["algorithm"]) || cursor.eat(&["lock"]) {
        cursor.eat_punct(b'=');
        cursor.name()?;
    } else if cursor.eat(&["order", "by"]) {
        loop {
            cursor.column()?;
            cursor.eat_any(&["asc", "desc"]);
            if !cursor.is_punct(0, b',') || !matches!(cursor.ahead(1), Some(Kind::Word(_) | Kind::Quoted(_))) {
                break;
            }
            cursor.at += 1;
        }
    } else if cursor.eat(&["discard", "tablespace"]) {
        return Ok(Some(Clause::ReplaceRows("DISCARD TABLESPACE".into())));
    } else if cursor.eat(&["import", "tablespace"]) {
        return Ok(Some(Clause::ReplaceRows("IMPORT TABLESPACE".into())));
    } else if !(cursor.eat(&["force"])
        || cursor.eat(&["disable", "keys"])
        || cursor.eat(&["enable", "keys"])
        || cursor.eat(&["with", "validation"])
        || cursor.eat(&["without", "validation"])
        || cursor.eat(&["upgrade", "partitioning"])
        || cursor.eat(&["remove", "partitioning"])
        || cursor.eat(&["secondary_load"])
        || cursor.eat(&["secondary_unload"]))
    {
        return Ok(None);
    }
    Ok(Some(Clause::Nothing))
}

fn add(cursor: &mut Cursor<'_>, clauses: &mut Vec<Clause>) -> Result<(), Fault> {
    if cursor.is(0, "system") && cursor.is(1, "versioning") {
        cursor.at += 2;
        clauses.push(Clause::Storage(
            "ADD SYSTEM VERSIONING: the log gets hidden columns row_start and row_end, and row_end joins the primary key".into(),
        ));
        return Ok(());
    }
    if cursor.eat(&["period", "for"]) {
        let name = cursor.name()?;
        cursor.bracketed()?;
        clauses.push(Clause::Storage(format!(
            "ADD PERIOD FOR {name}: its columns become NOT NULL, and UPDATE or DELETE of a portion writes rows of its own"
        )));
        return Ok(());
    }
    if cursor.eat(&["partition"]) {
        cursor.eat(&["if", "not", "exists"]);
        cursor.skip_clause()?;
        clauses.push(Clause::Nothing);
        return Ok(());
    }
    if key_follows(cursor) {
        clauses.push(key(cursor)?);
        return Ok(());
    }
    cursor.eat(&["column"]);
    let if_not_exists = cursor.eat(&["if", "not", "exists"]);
    if !cursor.eat_punct(b'(') {
        return add_column(cursor, if_not_exists, clauses);
    }
    loop {
        if key_follows(cursor) {
            clauses.push(key(cursor)?);
        } else {
            add_column(cursor, if_not_exists, clauses)?;
        }
        if !cursor.eat_punct(b',') {
            return cursor.expect_punct(b')');
        }
    }
}

fn add_column(cursor: &mut Cursor<'_>, if_not_exists: bool, clauses: &mut Vec<Clause>) -> Result<(), Fault> {
    let name = cursor.column()?;
    let (definition, constraints) = definition(cursor, name)?;
    let position = position(cursor)?;
    clauses.push(Clause::AddColumn { definition: Box::new(definition), position, if_not_exists });
    clauses.extend(constraints.into_iter().map(Clause::AddConstraint));
    Ok(())
}

fn drop(cursor: &mut Cursor<'_>) -> Result<Clause, Fault> {
    if cursor.eat(&["primary", "key"]) {
        return Ok(Clause::DropPrimaryKey);
    }
    if cursor.eat(&["system", "versioning"]) {
        return Ok(Clause::Storage("DROP SYSTEM VERSIONING: hidden columns and the rows of the past go".into()));
    }
    if cursor.eat(&["period", "for"]) {
        return Ok(Clause::Storage(format!("DROP PERIOD FOR {}", cursor.name()?)));
    }
    if cursor.eat(&["partition"]) {
        cursor.eat(&["if", "exists"]);
        return Ok(Clause::DropPartition(format!("DROP PARTITION {}", names(cursor)?)));
    }
    if cursor.eat_any(&["index", "key"]) {
        let if_exists = cursor.eat(&["if", "exists"]);
        return Ok(Clause::DropIndex { name: cursor.column()?, if_exists });
    }
    if cursor.eat(&["foreign", "key"]) || (cursor.is(0, "check") && !cursor.eat(&["check", "constraint"]) && cursor.eat(&["check"])) {
        cursor.eat(&["if", "exists"]);
        return Ok(Clause::DropConstraint { name: cursor.column()?, any: false });
    }
    if cursor.eat(&["constraint"]) {
        cursor.eat(&["if", "exists"]);
        return Ok(Clause::DropConstraint { name: cursor.column()?, any: true });
    }
    cursor.eat(&["column"]);
    let if_exists = cursor.eat(&["if", "exists"]);
    let name = cursor.column()?;
    cursor.eat_any(&["restrict", "cascade"]);
    Ok(Clause::DropColumn { name, if_exists })
}

fn change(cursor: &mut Cursor<'_>, clauses: &mut Vec<Clause>) -> Result<(), Fault> {
    cursor.eat(&["column"]);
    let if_exists = cursor.eat(&["if", "exists"]);
    let from = cursor.column()?;
    let to = cursor.column()?;
    changed(cursor, from, to, if_exists, clauses)
}

fn modify(cursor: &mut Cursor<'_>, clauses: &mut Vec<Clause>) -> Result<(), Fault> {
    cursor.eat(&["column"]);
    let if_exists = cursor.eat(&["if", "exists"]);
    let name = cursor.column()?;
    changed(cursor, name.clone(), name, if_exists, clauses)
}

fn changed(cursor: &mut Cursor<'_>, from: String, to: String, if_exists: bool, clauses: &mut Vec<Clause>) -> Result<(), Fault> {
    let (definition, constraints) = definition(cursor, to)?;
    let position = position(cursor)?;
    clauses.push(Clause::ChangeColumn { from, definition: Box::new(definition), position, if_exists });
    clauses.extend(constraints.into_iter().map(Clause::AddConstraint));
    Ok(())
}

fn alter_column(cursor: &mut Cursor<'_>) -> Result<Clause, Fault> {
    if cursor.eat_any(&["index", "key"]) {
        cursor.eat(&["if", "exists"]);
        cursor.name()?;
        return if cursor.eat_any(&["visible", "invisible", "ignored"]) || cursor.eat(&["not", "ignored"]) {
            Ok(Clause::Nothing)
        } else {
            Err(cursor.unknown("ALTER INDEX"))
        };
    }
    if cursor.eat(&["constraint"]) || cursor.eat(&["check"]) {
        let name = cursor.name()?;
        super::column::enforced(cursor);
        return Ok(Clause::AddConstraint(Constraint::Check { name: Some(name) }));
    }
    cursor.eat(&["column"]);
    let if_exists = cursor.eat(&["if", "exists"]);
    let column = cursor.column()?;
    if cursor.eat(&["drop", "default"]) {
        return Ok(Clause::SetDefault { column, default: None, if_exists });
    }
    cursor.expect(&["set"])?;
    if cursor.eat(&["default"]) {
        let default: DefaultClause = default_value(cursor)?;
        return Ok(Clause::SetDefault { column, default: Some(default), if_exists });
    }
    if cursor.eat(&["invisible"]) {
        return Ok(Clause::SetInvisible { column, invisible: true });
    }
    cursor.expect(&["visible"])?;
    Ok(Clause::SetInvisible { column, invisible: false })
}

fn rename(cursor: &mut Cursor<'_>) -> Result<Clause, Fault> {
    if cursor.eat(&["column"]) {
        let if_exists = cursor.eat(&["if", "exists"]);
        let from = cursor.column()?;
        cursor.expect(&["to"])?;
        return Ok(Clause::RenameColumn { from, to: cursor.column()?, if_exists });
    }
    if cursor.eat_any(&["index", "key"]) {
        let if_exists = cursor.eat(&["if", "exists"]);
        let from = cursor.column()?;
        cursor.expect(&["to"])?;
        return Ok(Clause::RenameIndex { from, to: cursor.column()?, if_exists });
    }
    if !cursor.eat_any(&["to", "as"]) {
        cursor.eat_punct(b'=');
    }
    Ok(Clause::RenameTable(cursor.table()?))
}

fn convert(cursor: &mut Cursor<'_>) -> Result<CharsetClause, Fault> {
    // CONVERT TO CHARACTER SET x COLLATE y: the option's own words.
    charset_option(cursor)?.ok_or_else(|| cursor.unexpected("CHARACTER SET"))
}

fn names(cursor: &mut Cursor<'_>) -> Result<String, Fault> {
    let mut names = vec![cursor.name()?];
    while cursor.is_punct(0, b',') && matches!(cursor.ahead(1), Some(Kind::Word(_) | Kind::Quoted(_))) {
        cursor.at += 1;
        names.push(cursor.name()?);
    }
    Ok(names.join(", "))
}

/// Clauses about partitions.
fn partition(cursor: &mut Cursor<'_>) -> Result<Option<Clause>, Fault> {
    if cursor.eat(&["exchange", "partition"]) {
        let name = cursor.name()?;
        cursor.expect(&["with", "table"])?;
        let with: TableId = cursor.table()?;
        let _either = cursor.eat(&["with", "validation"]) || cursor.eat(&["without", "validation"]);
        return Ok(Some(Clause::ExchangePartition {
            exchange: Exchange::Swap,
            what: format!("EXCHANGE PARTITION {name} WITH TABLE {with}"),
            with,
        }));
    }
    if cursor.eat(&["convert", "partition"]) {
        let name = cursor.name()?;
        cursor.expect(&["to", "table"])?;
        let with = cursor.table()?;
        return Ok(Some(Clause::ExchangePartition {
            exchange: Exchange::Made,
            what: format!("CONVERT PARTITION {name} TO TABLE {with}"),
            with,
        }));
    }
    if cursor.eat(&["convert", "table"]) {
        let with = cursor.table()?;
        cursor.skip_clause()?;
        return Ok(Some(Clause::ExchangePartition { exchange: Exchange::Taken, what: format!("CONVERT TABLE {with} TO PARTITION"), with }));
    }
    if cursor.eat(&["truncate", "partition"]) {
        return Ok(Some(Clause::TruncatePartition(format!("TRUNCATE PARTITION {}", names(cursor)?))));
    }
    for action in ["import", "discard"] {
        if cursor.eat(&[action, "partition"]) {
            let names = names(cursor)?;
            cursor.expect(&["tablespace"])?;
            return Ok(Some(Clause::ReplaceRows(format!("{} PARTITION {names} TABLESPACE", action.to_uppercase()))));
        }
    }
    if cursor.eat(&["repair", "partition"]) {
        return Ok(Some(Clause::ReplaceRows(format!("REPAIR PARTITION {}", names(cursor)?))));
    }
    if cursor.any(&["coalesce", "reorganize", "rebuild", "optimize", "analyze", "check"]) && cursor.is(1, "partition") {
        cursor.at += 2;
        while !cursor.done() && !cursor.is_punct(0, b';') {
            cursor.at += 1;
        }
        return Ok(Some(Clause::Nothing));
    }
    Ok(None)
}
