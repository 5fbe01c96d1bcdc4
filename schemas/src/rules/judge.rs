//! The rule of each kind of change, before any policy.

use super::{Context, Decision, Verdict, words};
use crate::{
    capability::{Can, DecimalRule},
    change::{Fill, Kind, SchemaChange},
    native::{Native, postgres},
    policy::Action,
    table::Column,
    types::Type,
    value::Value,
};

/// A rule's answer.
pub(super) struct Judged {
    pub decision: Decision,
    /// The change touches only columns that do not go to this sink.
    pub outside: bool,
}

/// An outcome, why, and what to do about it.
struct Answer {
    outcome: Verdict,
    why: String,
    remedy: &'static str,
}

impl Answer {
    fn new(outcome: Verdict, why: impl Into<String>, remedy: &'static str) -> Self {
        Self { outcome, why: why.into(), remedy }
    }

    fn applied() -> Self {
        Self::new(Verdict::Applied, "", "")
    }

    fn nothing(why: &str) -> Self {
        Self::new(Verdict::NothingToApply, why, "")
    }

    fn held(why: impl Into<String>) -> Self {
        Self::new(Verdict::Held, why, words::HELD)
    }

    fn stopped(why: impl Into<String>) -> Self {
        Self::new(Verdict::Stopped, why, words::STOPPED)
    }

    fn of(can: Can) -> Self {
        match can {
            Can::Exact => Self::applied(),
            Can::Nothing(why) => Self::nothing(why),
            Can::Held(why) => Self::held(why),
            Can::Stopped(why) => Self::stopped(why),
        }
    }
}

/// Judges one change of a statement. `allowed`: the policy asks for `apply`, which opens what is only held by caution.
pub(super) fn judge(change: &SchemaChange, all: &[SchemaChange], allowed: bool, context: &Context<'_>) -> Judged {
    let (answer, outside) = match outside(change, context) {
        Some(answer) => (answer, true),
        None => (answer(change, all, allowed, context), false),
    };
    let reason = if answer.why.is_empty() { change.to_string() } else { format!("{change}: {}", answer.why) };
    Judged { decision: Decision { outcome: answer.outcome, why: answer.why, reason, remedy: answer.remedy.to_owned() }, outside }
}

/// The answer for a column that does not go to this sink.
fn outside(change: &SchemaChange, context: &Context<'_>) -> Option<Answer> {
    let view = context.view;
    let out = match change {
        // A rename is outside if the column was, and stays so under its new name.
        SchemaChange::RenameColumn { from, column, .. } => !view.carries(from) && !view.carries(&column.name),
        _ => change.column().is_some_and(|name| !view.carries(name)),
    };
    out.then(|| Answer::nothing("the column does not go to this sink"))
}

fn answer(change: &SchemaChange, all: &[SchemaChange], allowed: bool, context: &Context<'_>) -> Answer {
    let can = context.capabilities;
    match change {
        SchemaChange::AddColumn { column, fill } => added(column, fill, context),
        SchemaChange::DropColumn { column, in_key } => dropped(column, *in_key, allowed, context),
        SchemaChange::RenameColumn { from, column, in_key } => renamed(from, column, *in_key, all, allowed, context),
        SchemaChange::ChangeType { kind, before, after, in_key } => retyped(*kind, before, after, *in_key, allowed, context),
        SchemaChange::SetNotNull { .. } => Answer::of(can.set_not_null),
        SchemaChange::DropNotNull { .. } => Answer::of(can.drop_not_null),
        SchemaChange::ChangeDefault { .. } => Answer::nothing("the target keeps no defaults: every row comes whole"),
        SchemaChange::ChangeComment { .. } => Answer::nothing("comments stay on the source"),
        SchemaChange::ReorderColumn { .. } => Answer::nothing("columns are told apart by identity, their order does not matter"),
        SchemaChange::ChangeIndex { .. } => Answer::nothing("the target's indexes are its own"),
        SchemaChange::ChangeConstraint { cascades: false, .. } => Answer::nothing("the target's constraints are its own"),
        SchemaChange::ChangeConstraint { cascades: true, .. } => {
            Answer::stopped("rows change by the cascade without being in the source's log")
        }
        SchemaChange::ChangeCharset { column: None, .. } | SchemaChange::ChangeCollation { column: None, .. } => {
            Answer::nothing("it is the default of columns that are added later")
        }
        SchemaChange::ChangeCharset { .. } | SchemaChange::ChangeCollation { .. } => {
            Answer::stopped("stored values and their comparison may have changed without rows in the log")
        }
        SchemaChange::ChangeIdentity { .. } => Answer::stopped("rows may have got numbers that are not in the log"),
        SchemaChange::ChangeGenerated { .. } => Answer::stopped("the values of existing rows are computed anew and are not in the log"),
        SchemaChange::ChangeStorage { .. } => Answer::stopped("how values are kept changes, and what became of them is not in the log"),
        SchemaChange::ChangeKey { .. } => key_changed(allowed, context),
        SchemaChange::CreateTable => Answer::nothing("a new table is not captured until it is configured"),
        SchemaChange::DropTable => Answer::new(Verdict::Stopped, "the source has no such table any more", words::GONE),
        SchemaChange::RenameTable { .. } => {
            Answer::new(Verdict::Stopped, "the source has no table of the captured name any more", words::GONE)
        }
        SchemaChange::MovePartition { .. } | SchemaChange::TruncatePartition { .. } | SchemaChange::ReplaceRows { .. } => {
            Answer::stopped("rows come and go that are not in the log")
        }
        SchemaChange::TruncateTable => Answer::of(can.truncate),
        SchemaChange::Unknown { .. } => Answer::new(Verdict::Stopped, "nothing is guessed", words::UNKNOWN),
    }
}

fn added(column: &Column, fill: &Fill, context: &Context<'_>) -> Answer {
    let can = context.capabilities;
    let rule = match fill {
        Fill::Volatile(_) => return Answer::stopped("the values that existing rows got are not in the log"),
        Fill::Generated(_) => return Answer::stopped("the values that the source computed for existing rows are not in the log"),
        Fill::Null => can.add_column,
        Fill::Constant(value) | Fill::Implicit(value) => {
            if is_zero_date(&column.ty(), value) {
                return Answer::stopped("no target has such a date");
            }
            if *value == Value::Null { can.add_column } else { can.add_constant }
        }
    };
    match (name_refused(column, context), type_refused(column, context)) {
        (Some(why), _) => Answer::new(Verdict::Held, why, words::NAME),
        (None, Some(why)) => Answer::new(Verdict::Held, why, words::TYPE),
        (None, None) => Answer::of(rule),
    }
}

/// Whether a date type's value is no date: MySQL's zero and partial dates have no number of days and come as text.
fn is_zero_date(ty: &Type, value: &Value) -> bool {
    matches!(ty, Type::Date | Type::DateTime { .. } | Type::Timestamp { .. })
        && !matches!(value, Value::Date(_) | Value::Micros(_) | Value::Null)
}

/// Why the target cannot have the column under its name: its own rule, or another column of that name.
fn name_refused(column: &Column, context: &Context<'_>) -> Option<String> {
    let rule = &context.capabilities.names;
    let name = context.view.name(&column.name);
    if let Some(why) = rule.refuse(name) {
        return Some(why);
    }
    let other =
        |other: &&Column| other.id != column.id && context.view.carries(&other.name) && rule.same(context.view.name(&other.name), name);
    if let Some(other) = context.after.columns.iter().find(other) {
        return Some(format!("the name `{name}` collides with column `{}` on the target", other.name));
    }
    // What stands on the target under another name than the source's, or without a source column: kept columns.
    let stays = |c: &&Column| c.id != column.id && rule.same(&c.name, name) && !leaves(c, context);
    let kept = context.target.and_then(|target| target.columns.iter().find(stays))?;
    Some(format!("the name `{name}` collides with column `{}` that was kept on the target", kept.name))
}

/// Whether the statement takes this target column away, or its name.
fn leaves(target: &Column, context: &Context<'_>) -> bool {
    let kept = |kind| context.policy.action(kind) == Some(Action::Keep);
    match (context.before.by_id(target.id), context.after.by_id(target.id)) {
        (Some(before), Some(after)) => before.name != after.name && !kept(Kind::RenameColumn),
        (Some(_), None) => !kept(Kind::DropColumn),
        (None, Some(_) | None) => false,
    }
}

fn type_refused(column: &Column, context: &Context<'_>) -> Option<String> {
    let declare = context.capabilities.declare?;
    context.view.declare(column, declare).err().map(|e| e.to_string())
}

fn key_changed(allowed: bool, context: &Context<'_>) -> Answer {
    if !allowed {
        return Answer::new(Verdict::Held, "rows are written by the key that the target has", words::KEY);
    }
    if context.after.row_key().is_none() {
        return Answer::new(Verdict::Held, "no key is left that identifies a row", words::KEY);
    }
    match context.capabilities.change_key {
        Can::Exact => Answer::applied(),
        Can::Nothing(why) => Answer::nothing(why),
        Can::Held(why) | Can::Stopped(why) => Answer::new(Verdict::Held, why, words::KEY),
    }
}

fn dropped(column: &Column, in_key: bool, allowed: bool, context: &Context<'_>) -> Answer {
    if in_key {
        let answer = key_changed(allowed, context);
        return match answer.outcome {
            Verdict::Applied => Answer::of(context.capabilities.drop_column),
            Verdict::NothingToApply | Verdict::Kept | Verdict::Held | Verdict::Stopped => answer,
        };
    }
    if context.view.names_it(&column.name) {
        return Answer::new(Verdict::Held, "the configuration names this column", words::MAPPING);
    }
    Answer::of(context.capabilities.drop_column)
}

fn renamed(from: &str, column: &Column, in_key: bool, all: &[SchemaChange], allowed: bool, context: &Context<'_>) -> Answer {
    let (view, can) = (context.view, context.capabilities);
    if view.names_it(from) || view.carries(from) != view.carries(&column.name) {
        return Answer::new(Verdict::Held, format!("the configuration names `{from}`, not `{}`", column.name), words::MAPPING);
    }
    if view.name(from) == view.name(&column.name) {
        return Answer::nothing("its name on the target stays");
    }
    if in_key && !allowed {
        return Answer::new(Verdict::Held, "rows are written by the key that the target has", words::KEY);
    }
    if let Some(why) = name_refused(column, context) {
        return Answer::new(Verdict::Held, why, words::NAME);
    }
    Answer::of(if circle(from, all, context) { can.swap_names } else { can.rename_column })
}

/// Whether the renames of a statement lead from `start` back to `start`.
fn circle(start: &str, all: &[SchemaChange], context: &Context<'_>) -> bool {
    let rule = &context.capabilities.names;
    let next = |name: &str| {
        all.iter().find_map(|change| match change {
            SchemaChange::RenameColumn { from, column, .. } if rule.same(from, name) => Some(column.name.as_str()),
            _other => None,
        })
    };
    let mut name = start;
    for _ in 0..all.len() {
        match next(name) {
            Some(to) if rule.same(to, start) => return true,
            Some(to) => name = to,
            None => return false,
        }
    }
    false
}

fn retyped(kind: Kind, before: &Column, after: &Column, in_key: bool, allowed: bool, context: &Context<'_>) -> Answer {
    let can = context.capabilities;
    if let Some(why) = type_refused(after, context) {
        return Answer::new(Verdict::Held, why, words::TYPE);
    }
    let same = same_on_target(before, after, context);
    match kind {
        Kind::Lengthen | Kind::AppendEnumLabels | Kind::WidenInteger if same => Answer::nothing("the target's type holds both"),
        Kind::Shorten if same => Answer::held("the target's type has no such length: values that the source cut would stay whole"),
        Kind::Lengthen => Answer::of(can.lengthen),
        Kind::Shorten => Answer::of(can.shorten),
        Kind::WidenInteger if in_key => Answer::of(can.widen_key_integer),
        Kind::WidenInteger => Answer::of(can.widen_integer),
        Kind::ChangeDecimal => decimal(before, after, can.decimal),
        Kind::ChangeKeyDecimal if allowed => decimal(before, after, can.decimal),
        Kind::ChangeKeyDecimal => Answer::stopped("a key that is rounded is another key"),
        Kind::AppendEnumLabels => Answer::of(can.append_labels),
        Kind::ChangeEnumLabels => {
            Answer::stopped("labels were taken away or put in another order, and what became of stored values is not in the log")
        }
        Kind::ChangeSignedness | Kind::ChangeType => {
            Answer::stopped("how the source converted the values that were there is not in the log")
        }
        // The kinds of a change of type end here; a change that calls itself otherwise is not understood.
        Kind::AddColumnNullable
        | Kind::AddColumnConstantDefault
        | Kind::AddColumnImplicitDefault
        | Kind::AddColumnVolatileDefault
        | Kind::AddColumnGenerated
        | Kind::DropColumn
        | Kind::DropKeyColumn
        | Kind::RenameColumn
        | Kind::RenameKeyColumn
        | Kind::SetNotNull
        | Kind::DropNotNull
        | Kind::ChangeDefault
        | Kind::ChangeComment
        | Kind::ReorderColumn
        | Kind::ChangeCharset
        | Kind::ChangeCollation
        | Kind::ChangeIdentity
        | Kind::ChangeGenerated
        | Kind::ChangeStorage
        | Kind::ChangeKey
        | Kind::ChangeIndex
        | Kind::ChangeConstraint
        | Kind::CreateTable
        | Kind::DropTable
        | Kind::RenameTable
        | Kind::MovePartition
        | Kind::TruncatePartition
        | Kind::TruncateTable
        | Kind::ReplaceRows
        | Kind::Unknown => Answer::new(Verdict::Stopped, "nothing is guessed", words::UNKNOWN),
    }
}

/// Whether the target's type for the column is the same before and after.
fn same_on_target(before: &Column, after: &Column, context: &Context<'_>) -> bool {
    let Some(declare) = context.capabilities.declare else { return false };
    match (context.view.declare(before, declare), context.view.declare(after, declare)) {
        (Ok(before), Ok(after)) => before == after,
        (Ok(_), Err(_)) | (Err(_), Ok(_) | Err(_)) => false,
    }
}

fn decimal(before: &Column, after: &Column, rule: DecimalRule) -> Answer {
    match (decimal_size(&before.ty()), decimal_size(&after.ty())) {
        (Some(before), Some(after)) => Answer::of(rule.judge(before, after)),
        (Some(_) | None, None) | (None, Some(_)) => Answer::held("one of the two types has no declared size"),
    }
}

fn decimal_size(ty: &Type) -> Option<(u16, i16)> {
    if let Type::Decimal { precision, scale } = ty { Some((*precision, *scale)) } else { None }
}

/// Why the target column, left as it is, could not take a single value of the new type.
pub(super) fn unfit(change: &SchemaChange, context: &Context<'_>) -> Option<&'static str> {
    let SchemaChange::ChangeType { after, .. } = change else { return None };
    let target = context.target?.by_id(after.id)?;
    match &target.native {
        Native::Postgres(native) => match postgres::fit_column(after, native) {
            postgres::Fit::Exact | postgres::Fit::Checked(_) => None,
            postgres::Fit::Never { .. } => Some("the target column's type takes no value of the new type"),
        },
        Native::MySql(_) => None,
    }
}
