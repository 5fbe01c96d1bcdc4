//! MySQL's and MariaDB's statements, from their text to the outcome, the message and the steps on PostgreSQL.
//!
//! The data file's lines: `known:` a table that is there (alone, in each section), `policy:` one entry of the evolution policy,
//! `statement:` the text, and indented what becomes of it. `INSTAR_UPDATE_SNAPSHOTS=1` writes the outcomes anew; they are then
//! read by a person.

#![expect(clippy::unwrap_used, reason = "a test that panics says where")]

use std::{collections::BTreeMap, fmt::Write};

use schemas::{
    capability::POSTGRES,
    ddl::mysql::{self, Parsed, apply, parse, table_from_create},
    diff::shape_difference,
    plan::{Action, Proposed, Step, held_proposal, plan, target_table},
    policy::Policy,
    rules::{Context, Verdict, decide_set},
    table::{Table, TableId},
    view::View,
};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mysql-decisions.txt");

fn action(action: &Action) -> String {
    match action {
        Action::CreateTable => "create table".into(),
        Action::DropTable => "drop table".into(),
        Action::AddColumn { column, fill } => {
            let null = if column.nullable { "" } else { " not null" };
            let fill = fill.as_ref().map_or_else(String::new, |value| format!(" filled with {value:?}"));
            format!("add {} {}{null}{fill}", column.name, column.native)
        }
        Action::DropColumn { name } => format!("drop {name}"),
        Action::RenameColumn { from, to } => format!("rename {from} to {to}"),
        Action::AlterType { name, from, to, convert: _ } => format!("type of {name} from {from} to {to}"),
        Action::SetNotNull { name } => format!("not null {name}"),
        Action::DropNotNull { name } => format!("null {name}"),
        Action::DropKey => "drop key".into(),
        Action::AddKey { columns } => format!("add key {}", columns.join(", ")),
        Action::Truncate => "truncate".into(),
    }
}

fn context() -> mysql::Context {
    let mut context = mysql::Context::new(true, 101_119);
    context.default_database = "shop".into();
    context
}

/// Outcome and message, and the steps of what is applied, or the proposal of what is held.
fn outcome(text: &str, before: &Table, policy: &Policy) -> String {
    let known = BTreeMap::from([(before.id.clone(), before.clone())]);
    let statement = match parse(text.as_bytes(), &context()) {
        Parsed::Tables(statement) => statement,
        other => return format!("  {other:?}\n"),
    };
    let effects = apply(&statement, &context(), &known).unwrap();
    let mut out = String::new();
    for effect in effects.iter().filter(|effect| effect.id == before.id) {
        let view = View::plain(before.id.clone());
        let target = target_table(before, &view, &POSTGRES).unwrap();
        let after = effect.shape.as_ref().unwrap_or(before);
        let context = Context { before, after, target: Some(&target), view: &view, capabilities: &POSTGRES, policy };
        let set = decide_set(&effect.changes, &context);
        writeln!(out, "  {}: {}", set.decision.outcome.name(), set.decision.message()).unwrap();
        match set.decision.outcome {
            Verdict::Applied | Verdict::Kept => {
                let steps = plan(&effect.changes, &set, &context).unwrap();
                if set.parts.iter().all(|part| part.outcome != Verdict::Kept) {
                    ends_at(&steps, &target_table(after, &view, &POSTGRES).unwrap());
                }
                steps.iter().for_each(|step| writeln!(out, "    {}", action(&step.action)).unwrap());
            }
            Verdict::Held => {
                for line in held_proposal(&effect.changes, &context) {
                    match line {
                        Proposed::Comment(text) => writeln!(out, "    -- {text}").unwrap(),
                        Proposed::Step(step) => writeln!(out, "    {}", action(&step.action)).unwrap(),
                    }
                }
            }
            Verdict::NothingToApply | Verdict::Stopped => {}
        }
    }
    out
}

/// The steps lead to the target table that the new shape would begin with.
fn ends_at(steps: &[Step], expected: &Table) {
    if let Some(last) = steps.last().and_then(|step| step.after.as_ref()) {
        assert_eq!(shape_difference(expected, last), [""; 0]);
    }
}

#[test]
fn every_statement_of_the_file_is_decided_as_it_says() {
    let file = std::fs::read_to_string(FILE).unwrap();
    let mut known = Table::new(TableId::new("shop", "none"), Vec::new(), &[]);
    let mut policy = Policy::default();
    let (mut written, mut statements) = (String::new(), 0);
    for line in file.lines().filter(|line| !line.starts_with("  ")) {
        writeln!(written, "{line}").unwrap();
        if let Some(text) = line.strip_prefix("known: ") {
            known = table_from_create(text.as_bytes(), &context()).unwrap();
            policy = Policy::default();
        } else if let Some(entry) = line.strip_prefix("policy: ") {
            policy = Policy::parse([entry.split_once(' ').unwrap()]).unwrap();
        } else if let Some(text) = line.strip_prefix("statement: ") {
            statements += 1;
            written.push_str(&outcome(text, &known, &policy));
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "{line} is no line of this file");
        }
    }
    if std::env::var_os("INSTAR_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(FILE, &written).unwrap();
    }
    assert!(statements > 50, "the file has lost statements: {statements}");
    let expected = std::fs::read_to_string(FILE).unwrap();
    for (number, (expected, found)) in expected.lines().zip(written.lines()).enumerate() {
        assert_eq!(found, expected, "line {} of {FILE}", number + 1);
    }
    assert_eq!(written.lines().count(), expected.lines().count());
}
