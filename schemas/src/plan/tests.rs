use super::*;
use crate::{
    capability::POSTGRES,
    change::SchemaChange,
    diff::{diff, shape_difference},
    native::{mysql, postgres},
    policy::Policy,
    rules::{Context, decide_set},
    table::{Default, RowKey, TableId},
    view::View,
};

fn int(id: u32, name: &str) -> Column {
    Column::new(id, name, Native::MySql(mysql::Native::Integer { bits: 32, unsigned: false, zerofill: false, width: None }))
}

fn varchar(id: u32, name: &str, length: u32) -> Column {
    let charset = mysql::Charset { charset: "utf8mb4".into(), collation: "utf8mb4_bin".into() };
    Column::new(id, name, Native::MySql(mysql::Native::VarChar { length, charset, compressed: false }))
}

fn table(columns: Vec<Column>) -> Table {
    let mut all = vec![int(0, "id").not_null()];
    all.extend(columns);
    Table::new(TableId::new("shop", "cup"), all, &["id"])
}

fn view() -> View {
    View::plain(TableId::new("warehouse", "cup"))
}

/// A statement's steps on the target table that its first shape has, in short words.
fn planned(before: &Table, after: &Table, policy: &Policy) -> Vec<Step> {
    let view = view();
    let target = target_table(before, &view, &POSTGRES).unwrap();
    let context = Context { before, after, target: Some(&target), view: &view, capabilities: &POSTGRES, policy };
    let changes = diff(before, after);
    let steps = plan(&changes, &decide_set(&changes, &context), &context).unwrap();
    chained(&target, &steps);
    steps
}

/// Every step begins where the one before ended, and changes something.
fn chained(target: &Table, steps: &[Step]) {
    let mut shape = target.clone();
    for step in steps {
        assert_eq!(step.before.as_ref(), Some(&shape), "{:?}", step.action);
        let after = step.after.clone().unwrap();
        assert!(after != shape || step.action == Action::Truncate, "{:?} changes nothing", step.action);
        shape = after;
    }
}

fn words(steps: &[Step]) -> Vec<String> {
    steps
        .iter()
        .map(|step| match &step.action {
            Action::CreateTable => "create".into(),
            Action::DropTable => "drop table".into(),
            Action::AddColumn { column, fill } => {
                let null = if column.nullable { "" } else { " not null" };
                let fill = fill.as_ref().map_or_else(String::new, |value| format!(" filled {value:?}"));
                format!("add {} {}{null}{fill}", column.name, column.native)
            }
            Action::DropColumn { name } => format!("drop {name}"),
            Action::RenameColumn { from, to } => format!("rename {from} {to}"),
            Action::AlterType { name, from, to, convert } => format!("type {name} {from} {to} {convert}"),
            Action::SetNotNull { name } => format!("not null {name}"),
            Action::DropNotNull { name } => format!("null {name}"),
            Action::DropKey => "drop key".into(),
            Action::AddKey { columns } => format!("add key {}", columns.join(",")),
            Action::Truncate => "truncate".into(),
        })
        .collect()
}

fn default_policy() -> Policy {
    Policy::default()
}

/// The target that the last step leaves has what a target table made from the new shape would have.
fn ends_at(steps: &[Step], after: &Table) {
    let last = steps.last().and_then(|step| step.after.clone()).unwrap();
    let expected = target_table(after, &view(), &POSTGRES).unwrap();
    assert_eq!(shape_difference(&expected, &last), [""; 0]);
}

#[test]
fn the_first_target_table_has_the_row_key_and_the_targets_types() {
    let target = target_table(&table(vec![varchar(1, "a", 9)]), &view(), &POSTGRES).unwrap();
    assert_eq!(target.id, TableId::new("warehouse", "cup"));
    let shown: Vec<String> = target.columns.iter().map(|c| format!("{} {} {}", c.name, c.native, c.nullable)).collect();
    assert_eq!(shown, ["id integer false", "a character varying(9) true"]);
    assert_eq!(target.primary.map(|key| key.columns), Some(vec![crate::table::ColumnId(0)]));
}

#[test]
fn every_column_that_a_target_cannot_have_is_named() {
    let long = "x".repeat(64);
    let mut view = view();
    view.columns.insert("b".into(), "a".into());
    let errors = target_table(&table(vec![int(1, &long), int(2, "a"), int(3, "b")]), &view, &POSTGRES).unwrap_err();
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2);
    assert!(texts[0].contains(&long) && texts[0].contains("63 bytes") && texts[0].contains("shop.cup"), "{}", texts[0]);
    assert!(texts[1].contains("collides"), "{}", texts[1]);
}

#[test]
fn a_table_name_that_the_server_would_cut_is_refused() {
    let view = View::plain(TableId::new("warehouse", "t".repeat(64)));
    let errors = target_table(&table(Vec::new()), &view, &POSTGRES).unwrap_err();
    assert!(errors[0].to_string().contains("63 bytes"), "{}", errors[0]);
}

#[test]
fn an_excluded_key_column_is_refused() {
    let mut view = view();
    view.excluded.insert("id".into());
    let errors = target_table(&table(vec![int(1, "a")]), &view, &POSTGRES).unwrap_err();
    assert!(errors[0].to_string().contains("row key"), "{}", errors[0]);
}

#[test]
fn a_mixed_statement_drops_first_and_adds_last() {
    let before = table(vec![int(1, "a"), int(2, "b"), int(3, "c")]);
    let mut z = int(4, "z").not_null();
    z.default = Some(Default::Constant(Value::Integer(5)));
    let after = table(vec![z, int(3, "c").not_null(), int(1, "a")]);
    let steps = planned(&before, &after, &default_policy());
    assert_eq!(words(&steps), ["drop b", "not null c", "add z integer not null filled Integer(5)"]);
    ends_at(&steps, &after);
}

#[test]
fn exchanged_names_take_a_detour() {
    let before = table(vec![int(1, "near"), int(2, "far")]);
    let after = table(vec![int(1, "far"), int(2, "near")]);
    let steps = planned(&before, &after, &default_policy());
    assert_eq!(words(&steps), ["rename far instar_rename_1", "rename near far", "rename instar_rename_1 near"]);
    ends_at(&steps, &after);
}

#[test]
fn a_rename_frees_its_name_for_an_added_column() {
    let before = table(vec![int(1, "code")]);
    let after = table(vec![int(1, "legacy_code"), int(2, "code")]);
    let steps = planned(&before, &after, &default_policy());
    assert_eq!(words(&steps), ["rename code legacy_code", "add code integer"]);
    ends_at(&steps, &after);
}

#[test]
fn a_chain_of_renames_goes_from_its_free_end() {
    let before = table(vec![int(1, "a"), int(2, "b"), int(3, "c")]);
    let after = table(vec![int(1, "b"), int(2, "c"), int(3, "d")]);
    assert_eq!(words(&planned(&before, &after, &default_policy())), ["rename c d", "rename b c", "rename a b"]);
}

#[test]
fn a_column_dropped_and_added_again_loses_its_values() {
    let steps = planned(&table(vec![int(1, "memo")]), &table(vec![int(2, "memo")]), &default_policy());
    assert_eq!(words(&steps), ["drop memo", "add memo integer"]);
}

#[test]
fn rename_and_type_of_one_column_are_two_steps() {
    let before = table(vec![varchar(1, "route", 10)]);
    let after = table(vec![varchar(1, "itinerary", 800)]);
    let steps = planned(&before, &after, &default_policy());
    let retype = "type itinerary character varying(10) character varying(800) true";
    assert_eq!(words(&steps), ["rename route itinerary", retype]);
    ends_at(&steps, &after);
}

#[test]
fn a_kept_dropped_column_takes_null_from_then_on() {
    let before = table(vec![int(1, "a").not_null(), int(2, "b")]);
    let after = table(Vec::new());
    let keep = Policy::parse([("drop_column", "keep")]).unwrap();
    assert_eq!(words(&planned(&before, &after, &keep)), ["null a"]);
}

#[test]
fn a_kept_rename_leaves_the_old_name() {
    let keep = Policy::parse([("rename_column", "keep")]).unwrap();
    assert_eq!(words(&planned(&table(vec![int(1, "a")]), &table(vec![int(1, "b"), int(2, "c")]), &keep)), ["add c integer"]);
}

#[test]
fn an_allowed_key_change_drops_the_key_first_and_makes_it_last() {
    let before = table(vec![int(1, "seat")]);
    let mut after = table(vec![int(1, "seat").not_null()]);
    if let Some(key) = &mut after.primary {
        key.columns.push(crate::table::ColumnId(1));
    }
    let apply = Policy::parse([("key_changes", "apply")]).unwrap();
    let steps = planned(&before, &after, &apply);
    assert_eq!(words(&steps), ["drop key", "not null seat", "add key id,seat"]);
    ends_at(&steps, &after);
}

#[test]
fn a_truncate_is_one_step() {
    let shape = table(Vec::new());
    let (view, policy) = (view(), default_policy());
    let target = target_table(&shape, &view, &POSTGRES).unwrap();
    let context = Context { before: &shape, after: &shape, target: Some(&target), view: &view, capabilities: &POSTGRES, policy: &policy };
    let changes = [SchemaChange::TruncateTable];
    let steps = plan(&changes, &decide_set(&changes, &context), &context).unwrap();
    assert_eq!(words(&steps), ["truncate"]);
}

#[test]
fn a_dropped_key_column_is_proposed_behind_a_comment() {
    let before = Table::new(TableId::new("shop", "slot"), vec![int(0, "num").not_null(), int(1, "qty")], &["num"]);
    let after = Table::new(TableId::new("shop", "slot"), vec![int(1, "qty")], &[]);
    let (view, policy) = (view(), default_policy());
    let target = target_table(&before, &view, &POSTGRES).unwrap();
    let context = Context { before: &before, after: &after, target: Some(&target), view: &view, capabilities: &POSTGRES, policy: &policy };
    let lines = held_proposal(&diff(&before, &after), &context);
    assert!(matches!(&lines[0], Proposed::Comment(text) if text.contains("key (num)") && text.contains("dropped")), "{lines:?}");
    assert!(matches!(&lines[1], Proposed::Step(step) if step.action == Action::DropColumn { name: "num".into() }), "{lines:?}");
}

#[test]
fn a_target_column_that_is_not_as_expected_is_no_place_for_a_type_change() {
    let (before, after) = (table(vec![varchar(1, "a", 9)]), table(vec![varchar(1, "a", 20)]));
    let (view, policy) = (view(), default_policy());
    let mut target = target_table(&before, &view, &POSTGRES).unwrap();
    target.columns[1].native = Native::Postgres(postgres::Native::Date);
    let context = Context { before: &before, after: &after, target: Some(&target), view: &view, capabilities: &POSTGRES, policy: &policy };
    let changes = diff(&before, &after);
    let error = plan(&changes, &decide_set(&changes, &context), &context).unwrap_err();
    assert!(error.to_string().contains("expected shape"), "{error}");
}

#[test]
fn a_reload_alters_what_is_there_and_makes_what_is_not() {
    let pg = |id, name: &str, native| Column::new(id, name, Native::Postgres(native));
    let wanted = target_table(&table(vec![varchar(1, "a", 9), int(2, "b")]), &view(), &POSTGRES).unwrap();
    assert_eq!(words(&reshape(None, &wanted)), ["create"]);
    let live = Table::new(
        wanted.id.clone(),
        vec![
            pg(7, "old", postgres::Native::Text),
            pg(8, "a", postgres::Native::Integer).not_null(),
            pg(9, "id", postgres::Native::Integer).not_null(),
        ],
        &["old"],
    );
    let steps = reshape(Some(&live), &wanted);
    let retype = "type a integer character varying(9) false";
    assert_eq!(words(&steps), ["truncate", "drop key", "drop old", retype, "null a", "add b integer", "add key id"]);
    let last = steps.last().and_then(|step| step.after.clone()).unwrap();
    assert_eq!(shape_difference(&wanted, &last), [""; 0]);
    assert_eq!(last.primary, Some(RowKey { name: "PRIMARY".into(), primary: true, columns: vec![crate::table::ColumnId(0)] }));
    assert_eq!(words(&reshape(Some(&wanted), &wanted)), ["truncate"]);
}
