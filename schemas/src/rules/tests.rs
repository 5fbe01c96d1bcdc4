use super::*;
use crate::{
    capability::{CLICKHOUSE, FABRIC, MYSQL, POSTGRES},
    change::Fill,
    native::{Native, mysql, postgres},
    table::{Column, RowKey, TableId},
    value::Value,
};

fn charset() -> mysql::Charset {
    mysql::Charset { charset: "utf8mb4".into(), collation: "utf8mb4_bin".into() }
}

fn int(id: u32, name: &str) -> Column {
    Column::new(id, name, Native::MySql(mysql::Native::Integer { bits: 32, unsigned: false, zerofill: false, width: None }))
}

fn varchar(id: u32, name: &str, length: u32) -> Column {
    Column::new(id, name, Native::MySql(mysql::Native::VarChar { length, charset: charset(), compressed: false }))
}

fn text(id: u32, name: &str, size: mysql::LobSize) -> Column {
    Column::new(id, name, Native::MySql(mysql::Native::Text { size, charset: charset(), compressed: false }))
}

fn table(columns: Vec<Column>) -> Table {
    let mut all = vec![int(0, "id").not_null()];
    all.extend(columns);
    Table::new(TableId::new("shop", "cup"), all, &["id"])
}

/// A statement, judged on PostgreSQL unless said otherwise.
struct Statement {
    before: Table,
    after: Table,
    target: Option<Table>,
    view: View,
    capabilities: &'static Capabilities,
    policy: Policy,
}

impl Statement {
    fn new(before: Vec<Column>, after: Vec<Column>) -> Self {
        Self {
            before: table(before),
            after: table(after),
            target: None,
            view: View::plain(TableId::new("shop", "cup")),
            capabilities: &POSTGRES,
            policy: Policy::default(),
        }
    }

    fn policy(mut self, name: &str, action: &str) -> Self {
        self.policy = Policy::parse([(name, action)]).unwrap();
        self
    }

    fn on(mut self, capabilities: &'static Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    fn decide(&self, changes: &[SchemaChange]) -> SetDecision {
        decide_set(
            changes,
            &Context {
                before: &self.before,
                after: &self.after,
                target: self.target.as_ref(),
                view: &self.view,
                capabilities: self.capabilities,
                policy: &self.policy,
            },
        )
    }

    /// The statement's difference, decided.
    fn difference(&self) -> Decision {
        self.decide(&crate::diff::diff(&self.before, &self.after)).decision
    }
}

fn add(column: Column, fill: Fill) -> (Statement, SchemaChange) {
    (Statement::new(Vec::new(), vec![column.clone()]), SchemaChange::AddColumn { column, fill })
}

#[test]
fn an_expression_default_stops_and_is_named_as_the_server_prints_it() {
    let (statement, change) = add(varchar(1, "u", 36), Fill::Volatile("(UUID())".into()));
    let decision = statement.decide(&[change]).decision;
    assert_eq!(decision.outcome, Verdict::Stopped);
    assert_eq!(decision.message().matches("shop.cup").count(), 1);
    assert!(decision.reason.contains("`u`") && decision.reason.contains("uuid()"), "{}", decision.reason);
    assert!(decision.remedy.starts_with("Reload the table"));
}

#[test]
fn a_zero_date_stops_wherever_it_comes_from() {
    let date = Column::new(1, "d", Native::MySql(mysql::Native::Date)).not_null();
    for fill in [Fill::Implicit(Value::Text("0000-00-00".into())), Fill::Constant(Value::Text("2024-00-10".into()))] {
        let (statement, change) = add(date.clone(), fill);
        assert_eq!(statement.decide(&[change]).decision.outcome, Verdict::Stopped);
    }
    let (statement, change) = add(date, Fill::Implicit(Value::Text("0000-00-00".into())));
    assert!(statement.decide(&[change]).decision.reason.contains("'0000-00-00'"));
}

#[test]
fn a_constant_fill_is_applied_and_a_valid_date_too() {
    let (statement, change) = add(int(1, "size").not_null(), Fill::Constant(Value::Integer(5)));
    assert_eq!(statement.decide(&[change]).decision.outcome, Verdict::Applied);
    let date = Column::new(1, "d", Native::MySql(mysql::Native::Date)).not_null();
    let (statement, change) = add(date, Fill::Constant(Value::Date(19_000)));
    assert_eq!(statement.decide(&[change]).decision.outcome, Verdict::Applied);
}

#[test]
fn the_strictest_clause_governs_and_every_reason_is_told() {
    // The row key moves to an auto_increment column, and another column becomes wider.
    let rid = Column { identity: true, ..int(2, "rid").not_null() };
    let mut statement = Statement::new(vec![int(1, "km")], vec![int(1, "km"), rid.clone()]);
    let key = RowKey { name: "PRIMARY".into(), primary: true, columns: vec![rid.id] };
    statement.after.primary = Some(key.clone());
    let changes = [
        SchemaChange::AddColumn { column: rid, fill: Fill::Volatile("AUTO_INCREMENT".into()) },
        SchemaChange::ChangeKey {
            before: statement.before.primary.clone(),
            after: Some(key),
            before_names: vec!["id".into()],
            after_names: vec!["rid".into()],
        },
    ];
    let set = statement.decide(&changes);
    assert_eq!(set.decision.outcome, Verdict::Stopped);
    assert_eq!(set.parts.iter().map(|p| p.outcome).collect::<Vec<_>>(), [Verdict::Stopped, Verdict::Held]);
    for part in ["shop.cup", "rid", "auto_increment", "primary key", "id"] {
        assert!(set.decision.reason.contains(part), "{part}: {}", set.decision.reason);
    }
}

#[test]
fn a_changed_key_is_held_with_its_own_remedy() {
    let mut statement = Statement::new(vec![int(1, "seat").not_null()], vec![int(1, "seat").not_null()]);
    if let Some(key) = &mut statement.after.primary {
        key.columns.push(crate::table::ColumnId(1));
    }
    let decision = statement.difference();
    assert_eq!(decision.outcome, Verdict::Held);
    assert_eq!(decision.remedy, "Restore the row key on the source, then reload the table.");
    assert!(decision.reason.contains("primary key changes from (id) to (id, seat)"), "{}", decision.reason);
}

#[test]
fn a_policy_applies_a_key_change_only_where_the_target_makes_it() {
    let make = || {
        let mut statement = Statement::new(vec![int(1, "seat").not_null()], vec![int(1, "seat").not_null()]);
        if let Some(key) = &mut statement.after.primary {
            key.columns.push(crate::table::ColumnId(1));
        }
        statement.policy("key_changes", "apply")
    };
    assert_eq!(make().difference().outcome, Verdict::Applied);
    assert_eq!(make().on(&CLICKHOUSE).difference().outcome, Verdict::Held);
    let mut none_left = make();
    none_left.after.primary = None;
    assert_eq!(none_left.difference().outcome, Verdict::Held);
}

#[test]
fn text_grows_without_a_change_on_a_target_whose_type_has_no_length() {
    use mysql::LobSize;
    let grown = Statement::new(vec![text(1, "i", LobSize::Normal)], vec![text(1, "i", LobSize::Medium)]);
    assert_eq!(grown.difference().outcome, Verdict::NothingToApply);
    let shrunk = Statement::new(vec![text(1, "i", LobSize::Medium)], vec![text(1, "i", LobSize::Normal)]);
    assert_eq!(shrunk.difference().outcome, Verdict::Held);
    assert_eq!(Statement::new(vec![varchar(1, "a", 10)], vec![varchar(1, "a", 20)]).difference().outcome, Verdict::Applied);
}

#[test]
fn a_type_change_names_column_and_both_types() {
    let decision = Statement::new(vec![int(1, "level")], vec![varchar(1, "level", 9)]).difference();
    assert_eq!(decision.outcome, Verdict::Stopped);
    let (old, new) = (int(1, "level").native.to_string(), varchar(1, "level", 9).native.to_string());
    assert!(decision.reason.contains(&format!("column `level` changes from {old} to {new}")), "{}", decision.reason);
}

#[test]
fn a_name_that_the_target_cuts_is_held_with_its_limit() {
    let long = "é".repeat(35);
    let (statement, change) = add(int(1, &long), Fill::Null);
    let decision = statement.decide(&[change]).decision;
    assert_eq!(decision.outcome, Verdict::Held);
    assert!(decision.reason.contains(&long) && decision.reason.contains("63 bytes"), "{}", decision.reason);
}

#[test]
fn names_collide_as_the_target_compares_them() {
    let change = |s: &Statement| s.decide(&[SchemaChange::AddColumn { column: int(2, "Note"), fill: Fill::Null }]).decision;
    let statement = || Statement::new(vec![varchar(1, "note", 9)], vec![varchar(1, "note", 9), int(2, "Note")]);
    assert_eq!(change(&statement()).outcome, Verdict::Applied);
    assert_eq!(change(&statement().on(&MYSQL)).outcome, Verdict::Held);
    assert_eq!(change(&statement().on(&FABRIC)).outcome, Verdict::Held);
    let (statement, change) = add(int(1, "xmin"), Fill::Null);
    assert_eq!(statement.decide(&[change]).decision.outcome, Verdict::Held);
}

#[test]
fn a_column_that_was_kept_on_the_target_keeps_its_name() {
    let mut statement = Statement::new(Vec::new(), vec![int(5, "memo")]);
    let pg = |id, name: &str| Column::new(id, name, Native::Postgres(postgres::Native::Integer));
    statement.target = Some(Table::new(TableId::new("shop", "cup"), vec![pg(0, "id").not_null(), pg(3, "memo")], &["id"]));
    let decision = statement.difference();
    assert_eq!(decision.outcome, Verdict::Held);
    assert!(decision.reason.contains("kept on the target"), "{}", decision.reason);
}

#[test]
fn exchanged_names_are_applied_only_where_one_step_does_it() {
    let make = || Statement::new(vec![int(1, "near"), int(2, "far")], vec![int(1, "far"), int(2, "near")]);
    assert_eq!(make().difference().outcome, Verdict::Applied);
    assert_eq!(make().on(&CLICKHOUSE).difference().outcome, Verdict::Held);
    let chain = Statement::new(vec![int(1, "a"), int(2, "b")], vec![int(1, "b"), int(2, "c")]).on(&CLICKHOUSE);
    assert_eq!(chain.difference().outcome, Verdict::Applied);
}

#[test]
fn columns_outside_the_list_are_nothing_whatever_their_kind() {
    let mut statement = Statement::new(vec![int(1, "a")], vec![varchar(1, "a", 9)]).policy("type_changes", "stop");
    statement.view.excluded.insert("a".into());
    assert_eq!(statement.difference().outcome, Verdict::NothingToApply);
}

#[test]
fn a_column_that_the_configuration_names_holds_when_it_goes() {
    let mut dropped = Statement::new(vec![int(1, "a")], Vec::new());
    dropped.view.columns.insert("a".into(), "b".into());
    assert_eq!(dropped.difference().outcome, Verdict::Held);
    let mut renamed = Statement::new(vec![int(1, "secret")], vec![int(1, "hidden")]);
    renamed.view.excluded.insert("secret".into());
    assert_eq!(renamed.difference().outcome, Verdict::Held);
}

#[test]
fn policies_make_rules_stricter_and_never_looser() {
    let dropped = || Statement::new(vec![int(1, "a")], Vec::new());
    for (action, outcome) in [("apply", Verdict::Applied), ("hold", Verdict::Held), ("stop", Verdict::Stopped), ("keep", Verdict::Kept)] {
        assert_eq!(dropped().policy("drop_column", action).difference().outcome, outcome, "{action}");
    }
    let retyped = || Statement::new(vec![int(1, "a")], vec![varchar(1, "a", 9)]);
    assert_eq!(retyped().policy("change_type", "apply").difference().outcome, Verdict::Stopped);
    assert_eq!(retyped().policy("change_type", "hold").difference().outcome, Verdict::Held);
    let unknown = SchemaChange::Unknown { why: "a clause that is not known".into() };
    for action in ["apply", "hold", "keep"] {
        assert_eq!(
            dropped().policy("unknown", action).decide(std::slice::from_ref(&unknown)).decision.outcome,
            Verdict::Stopped,
            "{action}"
        );
    }
}

#[test]
fn a_kept_change_does_not_weaken_the_statement() {
    let statement = Statement::new(vec![int(1, "a")], vec![int(2, "b")]).policy("drop_column", "keep");
    let set = statement.decide(&crate::diff::diff(&statement.before, &statement.after));
    assert_eq!(set.decision.outcome, Verdict::Applied);
    assert!(!set.leaves(0) && set.leaves(1));
}

#[test]
fn rules_are_total_over_kind_target_and_policy() {
    use crate::policy::Action;
    let statement = Statement::new(vec![int(1, "a")], vec![int(1, "a")]);
    let column = || int(1, "a");
    let mut seen = 0;
    for capabilities in Capabilities::ALL {
        for kind in Kind::ALL {
            for action in Action::ALL {
                let mut policy = Policy::default();
                policy.actions.insert(kind, action);
                let context = Context {
                    before: &statement.before,
                    after: &statement.after,
                    target: None,
                    view: &statement.view,
                    capabilities,
                    policy: &policy,
                };
                let change = SchemaChange::ChangeType { kind, before: column(), after: column(), in_key: false };
                assert!(!decide(&change, &context).reason.is_empty());
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 14 * 39 * 4);
}

#[test]
fn what_is_nowhere_applied_needs_no_epoch() {
    assert!(!SchemaChange::ChangeComment { column: None }.needs_epoch());
    assert!(!SchemaChange::ChangeConstraint { name: "c".into(), cascades: false }.needs_epoch());
    assert!(SchemaChange::ChangeConstraint { name: "c".into(), cascades: true }.needs_epoch());
    let charset = |column| SchemaChange::ChangeCharset { column, from: "latin1".into(), to: "utf8mb4".into() };
    assert!(!charset(None).needs_epoch());
    assert!(charset(Some("a".into())).needs_epoch());
}

#[test]
fn what_the_shapes_show_is_judged_though_no_clause_says_it() {
    // A unique key that stops being a row key because its column may be NULL.
    let unique = |column: Column| {
        let mut table = Table::new(TableId::new("shop", "cup"), vec![column], &[]);
        table.unique = vec![crate::table::UniqueIndex { name: "uk".into(), columns: vec![crate::table::ColumnId(0)], partial: false }];
        table
    };
    let mut statement = Statement::new(Vec::new(), Vec::new());
    (statement.before, statement.after) = (unique(int(0, "code").not_null()), unique(int(0, "code")));
    let said = [SchemaChange::DropNotNull { column: int(0, "code") }];
    let set = statement.decide(&said);
    assert_eq!(set.parts.iter().map(|p| p.outcome).collect::<Vec<_>>(), [Verdict::Applied, Verdict::Held]);
    assert_eq!(set.decision.outcome, Verdict::Held);
    assert!(set.decision.reason.contains("row key changes from (code) to none"), "{}", set.decision.reason);

    let silent = Statement::new(vec![int(1, "a")], vec![varchar(1, "a", 9)]);
    assert_eq!(silent.decide(&[]).decision.outcome, Verdict::Stopped);
}

#[test]
fn a_clause_that_was_said_is_not_judged_twice() {
    let statement = Statement::new(vec![int(1, "a"), int(2, "b")], vec![int(1, "c"), int(3, "d").not_null()]);
    let changes = crate::diff::diff(&statement.before, &statement.after);
    assert_eq!(statement.decide(&changes).parts.len(), changes.len());
}

#[test]
fn the_name_of_a_column_that_the_policy_keeps_is_taken() {
    let replaced = |policy: &str| {
        let mut statement = Statement::new(vec![int(1, "a")], vec![varchar(2, "a", 5)]).policy(policy, "keep");
        statement.target = Some(table(vec![int(1, "a")]));
        statement.difference()
    };
    let kept = replaced("dropped_columns");
    assert_eq!(kept.outcome, Verdict::Held, "{kept:?}");
    assert!(kept.reason.contains("collides with column `a` that was kept on the target"), "{kept:?}");
    // Under another policy the name is free behind the drop.
    assert_eq!(replaced("nullability_changes").outcome, Verdict::Applied);
}
