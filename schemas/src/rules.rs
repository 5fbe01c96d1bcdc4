//! The rules: what becomes of a schema change on a target. Pure, and total over kind, target and policy.
//!
//! This is the only place that judges. [`crate::matrix`] prints what it says.

mod judge;
mod words;

use std::cmp::Reverse;

use crate::{
    capability::Capabilities,
    change::{Kind, SchemaChange},
    diff::diff,
    order::ledger::Outcome,
    policy::{Action, Policy},
    table::{ColumnId, Table},
    view::View,
};

/// What is to be done with a change. In the order of strictness: the greatest of a statement governs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    NothingToApply,
    /// The policy says `keep`: the target stays as it is while rows still fit.
    Kept,
    Applied,
    Held,
    Stopped,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        self.outcome().name()
    }

    /// The outcome that is recorded once the verdict is carried out.
    pub fn outcome(self) -> Outcome {
        match self {
            Verdict::NothingToApply => Outcome::NothingToApply,
            Verdict::Kept => Outcome::Kept,
            Verdict::Applied => Outcome::Applied,
            Verdict::Held => Outcome::Held,
            Verdict::Stopped => Outcome::Stopped,
        }
    }
}

/// A verdict in words. `reason` names table, column, old and new type, and holds `why`; `remedy` names the ways out (empty: none
/// is needed).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub outcome: Verdict,
    /// The rule alone; empty where the change is simply applied.
    pub why: String,
    pub reason: String,
    pub remedy: String,
}

impl Decision {
    /// Reason and remedy as one message.
    pub fn message(&self) -> String {
        if self.remedy.is_empty() { self.reason.clone() } else { format!("{}. {}", self.reason, self.remedy) }
    }
}

/// What is decided about all changes of one table in one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetDecision {
    /// The strictest, which governs the whole.
    pub decision: Decision,
    /// Each change's own, in the order of [`complete`]: the statement's changes first.
    pub parts: Vec<Decision>,
}

impl SetDecision {
    /// Whether the change at this place is left out of a plan: kept, or nothing to apply.
    pub fn leaves(&self, index: usize) -> bool {
        self.parts.get(index).is_some_and(|part| part.outcome < Verdict::Applied)
    }
}

/// What a change is judged by besides itself.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The source's shape before the statement and behind it.
    pub before: &'a Table,
    pub after: &'a Table,
    /// The target table as it is expected before the statement; None where there is none to look at (dry runs, the matrix).
    pub target: Option<&'a Table>,
    pub view: &'a View,
    pub capabilities: &'a Capabilities,
    pub policy: &'a Policy,
}

/// What becomes of one change by itself.
pub fn decide(change: &SchemaChange, context: &Context<'_>) -> Decision {
    let part = decide_part(change, std::slice::from_ref(change), context);
    combine(vec![part], context).decision
}

/// What becomes of all changes of one table in one statement: the strictest outcome governs the whole, and its reason holds
/// that of every change that is held or stops. The changes are made whole first, see [`complete`].
pub fn decide_set(changes: &[SchemaChange], context: &Context<'_>) -> SetDecision {
    let changes = complete(changes, context);
    combine(changes.iter().map(|change| decide_part(change, &changes, context)).collect(), context)
}

/// The changes of a statement, and behind them those that its two shapes show and no clause said: a key that went with a column,
/// NOT NULL that came with a key. No difference between the shapes is left unjudged.
pub fn complete(changes: &[SchemaChange], context: &Context<'_>) -> Vec<SchemaChange> {
    // Where the table itself goes, what stands under its name then is another one.
    if changes.iter().any(|change| matches!(change, SchemaChange::DropTable | SchemaChange::RenameTable { .. })) {
        return changes.to_vec();
    }
    let said: Vec<_> = changes.iter().map(|change| subject(change, context)).collect();
    let shown = diff(context.before, context.after).into_iter().filter(SchemaChange::needs_epoch);
    let unsaid = shown.filter(|change| !said.contains(&subject(change, context)));
    changes.iter().cloned().chain(unsaid).collect()
}

/// What a change is about: the sort of change, and the column.
fn subject(change: &SchemaChange, context: &Context<'_>) -> (Sort, Option<ColumnId>) {
    let named = |name: &str| context.before.column(name).or_else(|| context.after.column(name)).map(|c| c.id);
    match change {
        SchemaChange::AddColumn { column, .. } => (Sort::Add, Some(column.id)),
        SchemaChange::DropColumn { column, .. } => (Sort::Drop, Some(column.id)),
        SchemaChange::RenameColumn { column, .. } => (Sort::Rename, Some(column.id)),
        SchemaChange::ChangeType { before, .. } => (Sort::Type, Some(before.id)),
        SchemaChange::SetNotNull { column } | SchemaChange::DropNotNull { column } => (Sort::Nullability, Some(column.id)),
        SchemaChange::ChangeCharset { column, .. } | SchemaChange::ChangeCollation { column, .. } => {
            (Sort::Charset, column.as_deref().and_then(named))
        }
        SchemaChange::ChangeIdentity { before, .. } => (Sort::Identity, Some(before.id)),
        SchemaChange::ChangeGenerated { before, .. } => (Sort::Generated, Some(before.id)),
        SchemaChange::ChangeStorage { column, .. } => (Sort::Storage, column.as_deref().and_then(named)),
        SchemaChange::ChangeKey { .. } => (Sort::Key, None),
        SchemaChange::RenameTable { .. } => (Sort::RenameTable, None),
        SchemaChange::ChangeDefault { .. }
        | SchemaChange::ChangeComment { .. }
        | SchemaChange::ReorderColumn { .. }
        | SchemaChange::ChangeIndex { .. }
        | SchemaChange::ChangeConstraint { .. }
        | SchemaChange::CreateTable
        | SchemaChange::DropTable
        | SchemaChange::MovePartition { .. }
        | SchemaChange::TruncatePartition { .. }
        | SchemaChange::TruncateTable
        | SchemaChange::ReplaceRows { .. }
        | SchemaChange::Unknown { .. } => (Sort::Unseen, None),
    }
}

/// The sorts of change that two shapes show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Add,
    Drop,
    Rename,
    Type,
    Nullability,
    Charset,
    Identity,
    Generated,
    Storage,
    Key,
    RenameTable,
    /// Not in the shapes, or without an effect anywhere.
    Unseen,
}

fn combine(parts: Vec<Decision>, context: &Context<'_>) -> SetDecision {
    let outcome = parts.iter().map(|part| part.outcome).max().unwrap_or(Verdict::NothingToApply);
    let least = match outcome {
        Verdict::Held | Verdict::Stopped => Verdict::Held,
        Verdict::Kept | Verdict::Applied => Verdict::Kept,
        Verdict::NothingToApply => Verdict::NothingToApply,
    };
    let mut told: Vec<&Decision> = parts.iter().filter(|part| part.outcome >= least).collect();
    told.sort_by_key(|part| Reverse(part.outcome));
    let reasons: Vec<&str> = told.iter().map(|part| part.reason.as_str()).collect();
    let mut remedies: Vec<&str> = Vec::new();
    for part in told.iter().filter(|part| part.outcome == outcome && !part.remedy.is_empty()) {
        if !remedies.contains(&part.remedy.as_str()) {
            remedies.push(&part.remedy);
        }
    }
    let reason = match reasons.is_empty() {
        true => format!("table {}: nothing changes", context.before.id),
        false => format!("table {}: {}", context.before.id, reasons.join("; ")),
    };
    let why = told.iter().map(|part| part.why.as_str()).filter(|why| !why.is_empty()).collect::<Vec<_>>().join("; ");
    SetDecision { decision: Decision { outcome, why, reason, remedy: remedies.join(" ") }, parts }
}

/// The rule's answer, with the policy over it.
fn decide_part(change: &SchemaChange, all: &[SchemaChange], context: &Context<'_>) -> Decision {
    let kind = change.kind();
    let action = context.policy.action(kind);
    let judged = judge::judge(change, all, action == Some(Action::Apply), context);
    // Outside the column list, and where nothing travels to the target, there is nothing that a policy could change.
    if judged.outside || !change.needs_epoch() {
        return judged.decision;
    }
    match action {
        None | Some(Action::Apply) => judged.decision,
        Some(Action::Hold) => hold(kind, judged.decision),
        Some(Action::Stop) => told_to(Verdict::Stopped, kind, Action::Stop, judged.decision),
        Some(Action::Keep) => keep(change, judged.decision, context),
    }
}

/// `hold` makes an applied change wait and a stop milder: the table is held there and the others go on. What is not understood
/// stays a stop, for nobody knows which tables it touches.
fn hold(kind: Kind, decision: Decision) -> Decision {
    if kind == Kind::Unknown { decision } else { told_to(Verdict::Held, kind, Action::Hold, decision) }
}

fn told_to(outcome: Verdict, kind: Kind, action: Action, decision: Decision) -> Decision {
    if decision.outcome == outcome {
        return decision;
    }
    let remedy = match outcome {
        Verdict::Held => words::HELD.to_owned(),
        Verdict::Stopped => words::STOPPED.to_owned(),
        Verdict::NothingToApply | Verdict::Kept | Verdict::Applied => String::new(),
    };
    let told = format!("policy {kind}: {}", action.name());
    Decision { outcome, reason: format!("{} ({told})", decision.reason), why: told, remedy }
}

/// `keep` leaves the target as it is. Not everything can be left: rows need the new key, and a table that is gone has none.
fn keep(change: &SchemaChange, decision: Decision, context: &Context<'_>) -> Decision {
    let kind = change.kind();
    let why_not = match kind {
        Kind::DropTable | Kind::RenameTable | Kind::CreateTable | Kind::Unknown => return decision,
        Kind::ChangeKey | Kind::DropKeyColumn => Some("rows that come by the new key cannot be written by the old one"),
        Kind::RenameColumn | Kind::RenameKeyColumn | Kind::DropColumn => None,
        Kind::Lengthen
        | Kind::Shorten
        | Kind::WidenInteger
        | Kind::ChangeDecimal
        | Kind::ChangeKeyDecimal
        | Kind::AppendEnumLabels
        | Kind::ChangeEnumLabels
        | Kind::ChangeSignedness
        | Kind::ChangeType => judge::unfit(change, context),
        Kind::AddColumnNullable
        | Kind::AddColumnConstantDefault
        | Kind::AddColumnImplicitDefault
        | Kind::AddColumnVolatileDefault
        | Kind::AddColumnGenerated
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
        | Kind::ChangeIndex
        | Kind::ChangeConstraint
        | Kind::MovePartition
        | Kind::TruncatePartition
        | Kind::TruncateTable
        | Kind::ReplaceRows => None,
    };
    match why_not {
        None => told_to(Verdict::Kept, kind, Action::Keep, decision),
        Some(why) => {
            let outcome = decision.outcome.max(Verdict::Held);
            let remedy = if outcome == Verdict::Held { words::HELD } else { words::STOPPED };
            let reason = format!("{}; it cannot be kept either: {why}", decision.reason);
            Decision { outcome, why: why.to_owned(), reason, remedy: remedy.to_owned() }
        }
    }
}

impl SchemaChange {
    /// Whether the change needs a place between the rows. Without one nothing is applied anywhere; it is only recorded.
    pub fn needs_epoch(&self) -> bool {
        match self {
            SchemaChange::ChangeComment { .. }
            | SchemaChange::ChangeDefault { .. }
            | SchemaChange::ChangeIndex { .. }
            | SchemaChange::ReorderColumn { .. }
            | SchemaChange::CreateTable
            | SchemaChange::ChangeConstraint { cascades: false, .. }
            | SchemaChange::ChangeCharset { column: None, .. }
            | SchemaChange::ChangeCollation { column: None, .. } => false,
            SchemaChange::AddColumn { .. }
            | SchemaChange::DropColumn { .. }
            | SchemaChange::RenameColumn { .. }
            | SchemaChange::ChangeType { .. }
            | SchemaChange::SetNotNull { .. }
            | SchemaChange::DropNotNull { .. }
            | SchemaChange::ChangeCharset { .. }
            | SchemaChange::ChangeCollation { .. }
            | SchemaChange::ChangeIdentity { .. }
            | SchemaChange::ChangeGenerated { .. }
            | SchemaChange::ChangeStorage { .. }
            | SchemaChange::ChangeKey { .. }
            | SchemaChange::ChangeConstraint { .. }
            | SchemaChange::DropTable
            | SchemaChange::RenameTable { .. }
            | SchemaChange::MovePartition { .. }
            | SchemaChange::TruncatePartition { .. }
            | SchemaChange::TruncateTable
            | SchemaChange::ReplaceRows { .. }
            | SchemaChange::Unknown { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests;
