//! Steps of a plan as statements.

use schemas::{
    native::{Native, postgres::Native as Pg},
    plan::{Action, Proposed, Step},
    table::{Column, RowKey, Table},
};

use super::{bare_type, declaration, list, literal, native, quote, table, text};
use crate::target::PlannedStatement;

/// The statements of a plan, each with the shape it needs and gives.
///
/// # Errors
///
/// A step that PostgreSQL has no exact statement for, with the reason.
pub fn statements(steps: &[Step]) -> Result<Vec<PlannedStatement>, String> {
    steps
        .iter()
        .map(|step| Ok(PlannedStatement { sql: statement(step)?, before: step.before.clone(), after: step.after.clone() }))
        .collect()
}

/// A line of a proposal: a statement, or a comment.
pub fn render(line: &Proposed) -> String {
    let comment = |why: &str| why.lines().map(|line| format!("-- {line}")).collect::<Vec<_>>().join("\n");
    match line {
        Proposed::Comment(why) => comment(why),
        Proposed::Step(step) => statement(step).unwrap_or_else(|why| comment(&why)),
    }
}

/// One step as SQL; where it takes two statements they are one text.
pub fn statement(step: &Step) -> Result<String, String> {
    let shape = step.before.as_ref().or(step.after.as_ref()).ok_or("a step without a shape")?;
    let name = table(&shape.id);
    let alter = |clause: &str| Ok(format!("ALTER TABLE {name} {clause}"));
    match &step.action {
        Action::CreateTable => create(shape),
        Action::DropTable => Ok(format!("DROP TABLE {name}")),
        Action::AddColumn { column, fill } => {
            let add = format!("ALTER TABLE {name} ADD COLUMN {}", column_declaration(column)?);
            match fill {
                None => Ok(add),
                Some(value) => {
                    let value = literal(value, native(column)?).map_err(|why| format!("column {}: {why}", column.name))?;
                    let drop = format!("ALTER TABLE {name} ALTER COLUMN {} DROP DEFAULT", quote(&column.name));
                    Ok(format!("{add} DEFAULT {value}; {drop}"))
                }
            }
        }
        Action::DropColumn { name } => alter(&format!("DROP COLUMN {}", quote(name))),
        Action::RenameColumn { from, to } => alter(&format!("RENAME COLUMN {} TO {}", quote(from), quote(to))),
        Action::AlterType { name: column, from: _, to, convert } => {
            let Native::Postgres(to) = to else { return Err(format!("column {column}: {to} is not PostgreSQL's type")) };
            Ok(alter_type(&name, column, to, *convert))
        }
        Action::SetNotNull { name } => alter(&format!("ALTER COLUMN {} SET NOT NULL", quote(name))),
        Action::DropNotNull { name } => alter(&format!("ALTER COLUMN {} DROP NOT NULL", quote(name))),
        Action::DropKey => Ok(drop_key(shape)),
        Action::AddKey { columns } => alter(&format!("ADD PRIMARY KEY ({})", list(columns))),
        Action::Truncate => Ok(format!("TRUNCATE TABLE {name}")),
    }
}

fn create(shape: &Table) -> Result<String, String> {
    let mut parts = shape.columns.iter().map(column_declaration).collect::<Result<Vec<_>, _>>()?;
    let columns = |key: &[schemas::table::ColumnId]| key.iter().filter_map(|id| shape.by_id(*id)).map(|c| &c.name).collect::<Vec<_>>();
    if let Some(RowKey { columns: key, .. }) = &shape.primary {
        parts.push(format!("PRIMARY KEY ({})", list(&columns(key))));
    }
    for index in shape.unique.iter().filter(|index| !index.partial) {
        parts.push(format!("UNIQUE ({})", list(&columns(&index.columns))));
    }
    Ok(format!("CREATE TABLE {} ({})", table(&shape.id), parts.join(", ")))
}

fn column_declaration(column: &Column) -> Result<String, String> {
    let not_null = if column.nullable { "" } else { " NOT NULL" };
    Ok(format!("{} {}{not_null}", quote(&column.name), declaration(native(column)?)))
}

fn alter_type(name: &str, column: &str, to: &Pg, convert: bool) -> String {
    let (column, wanted) = (quote(column), declaration(to));
    if !convert {
        // The table is empty; a default of the old type would be in the way.
        return format!("ALTER TABLE {name} ALTER COLUMN {column} DROP DEFAULT, ALTER COLUMN {column} TYPE {wanted} USING NULL::{wanted}");
    }
    let using = match to {
        // An explicit cast to these would cut what is too long; without one the statement fails whole.
        Pg::VarChar { .. } | Pg::Char { .. } | Pg::Bit { .. } | Pg::VarBit { .. } => String::new(),
        _ => format!(" USING {column}::{}", bare_type(to)),
    };
    format!("ALTER TABLE {name} ALTER COLUMN {column} TYPE {wanted}{using}")
}

/// A primary key is dropped by the name of its constraint, which only the server knows.
fn drop_key(shape: &Table) -> String {
    let name = table(&shape.id);
    format!(
        "DO $instar$ BEGIN EXECUTE (SELECT pg_catalog.format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::pg_catalog.regclass, conname) \
         FROM pg_catalog.pg_constraint WHERE conrelid = {}::pg_catalog.regclass AND contype = 'p'); END $instar$",
        text(&name)
    )
}
