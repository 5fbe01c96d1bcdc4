//! The rules, asked for one target: verdicts and plans. Pure over what the decider has read.

use std::collections::BTreeMap;

use runtime::config::Sink;
use schemas::{
    change::Kind,
    event::{Epoch, SchemaEvent, TableEvent, Version},
    order::{
        events::{Asked, Events},
        sink::{Judge, Verdict},
    },
    plan::{self, PlanError, Proposed, Step, held_proposal},
    policy::{Action, Policy},
    rules::{self, Context, SetDecision, decide_set},
    table::{Table, TableId},
    view::View,
};

use crate::{
    error::SinkError,
    target::{PlannedStatement, Target},
};

/// What the rules need of the world: the events, and what the target tables are expected to be.
pub(super) struct Rules<'a, T> {
    pub target: &'a T,
    pub sink: &'a Sink,
    pub events: &'a Events,
    pub expected: &'a BTreeMap<TableId, (Version, Table)>,
}

/// A plan with its statements, and the target table's shape behind it.
#[derive(Debug, PartialEq)]
pub(super) struct Planned {
    pub statements: Vec<PlannedStatement>,
    /// As `target_ddl` shows it.
    pub sql: Vec<String>,
    pub shape: Table,
    pub reason: String,
    /// Nothing was left to do because the policy keeps the target as it is.
    pub kept: bool,
}

/// One table's part of an event, with its surroundings.
struct Case<'a> {
    before: &'a Table,
    part: &'a TableEvent,
    /// The expected target table, where it stands right before this part.
    target: Option<&'a Table>,
    view: View,
}

impl<'a> Case<'a> {
    fn context<'c>(&'c self, rules: &'c Rules<'_, impl Target>, policy: &'c Policy) -> Context<'c> {
        let (capabilities, view) = (rules.target.capabilities(), &self.view);
        Context { before: self.before, after: &self.part.table, target: self.target, view, capabilities, policy }
    }
}

impl<T: Target> Rules<'_, T> {
    fn case<'c>(&'c self, part: &'c TableEvent) -> Result<Case<'c>, SinkError> {
        let id = &part.table.id;
        let earlier = part.version.checked_sub(1);
        let before = earlier.and_then(|version| self.events.version(id, version)).map_or(&part.table, |(_, earlier)| &earlier.table);
        let target = self.expected.get(id).filter(|(version, _)| Some(*version) == earlier).map(|(_, table)| table);
        Ok(Case { before, part, target, view: self.target.view(id)? })
    }

    /// The decision and the steps of a statement's part, under a policy.
    fn change(&self, case: &Case<'_>, policy: &Policy) -> (SetDecision, Result<Vec<Step>, PlanError>) {
        let context = case.context(self, policy);
        let set = decide_set(&case.part.changes, &context);
        let steps = plan::plan(&case.part.changes, &set, &context);
        (set, steps)
    }

    /// The plan of a statement's part that the rules let run, or that a person keeps.
    pub fn planned(&self, part: &TableEvent, keep: bool) -> Result<Planned, String> {
        let case = self.case(part).map_err(|e| e.to_string())?;
        let kept = Policy { actions: Kind::ALL.into_iter().map(|kind| (kind, Action::Keep)).collect() };
        let policy = if keep { &kept } else { &self.sink.table(&part.table.id).evolution };
        let (set, steps) = self.change(&case, policy);
        if set.decision.outcome >= rules::Verdict::Held {
            return Err(set.decision.message());
        }
        let steps = steps.map_err(|e| e.to_string())?;
        let mut planned = self.statements(part, steps, || case.target.cloned())?;
        planned.reason = set.decision.reason;
        planned.kept = set.decision.outcome == rules::Verdict::Kept;
        Ok(planned)
    }

    /// No statement: the target table stays, and fits the next version's rows.
    pub fn untouched(&self, event: &SchemaEvent, part: &TableEvent) -> Result<Planned, String> {
        let case = self.case(part).map_err(|e| e.to_string())?;
        let reason = match self.events.asked(event) {
            Asked::Elsewhere => "a reload of another sink".to_owned(),
            Asked::Create | Asked::Change | Asked::Reload | Asked::Retire => {
                self.change(&case, &self.sink.table(&part.table.id).evolution).0.decision.reason
            }
        };
        let mut planned = self.statements(part, Vec::new(), || case.target.cloned())?;
        planned.reason = reason;
        Ok(planned)
    }

    /// The steps that were proposed for a held change, to be run as they are.
    pub fn approved(&self, part: &TableEvent) -> Result<Planned, String> {
        let case = self.case(part).map_err(|e| e.to_string())?;
        let policy = Policy::default();
        let mut steps = Vec::new();
        for line in held_proposal(&part.changes, &case.context(self, &policy)) {
            match line {
                Proposed::Step(step) => steps.push(*step),
                Proposed::Comment(text) => return Err(format!("the proposal cannot be run as it is: {text} Reload the table instead.")),
            }
        }
        self.statements(part, steps, || case.target.cloned())
    }

    /// Steps as statements. `unchanged`: the shape where there are none.
    pub fn statements(&self, part: &TableEvent, steps: Vec<Step>, unchanged: impl FnOnce() -> Option<Table>) -> Result<Planned, String> {
        let shape = match steps.last() {
            Some(last) => last.after.clone(),
            None => unchanged(),
        };
        let shape = shape.ok_or_else(|| no_shape(part))?;
        let (mut statements, mut sql) = (Vec::new(), Vec::new());
        for step in steps {
            let rendered = self.target.render(&step)?;
            statements.push(PlannedStatement { sql: rendered.join(";\n"), before: step.before, after: step.after });
            sql.extend(rendered);
        }
        Ok(Planned { statements, sql, shape, reason: String::new(), kept: false })
    }

    fn proposal(&self, case: &Case<'_>, policy: &Policy) -> Vec<String> {
        let lines = held_proposal(&case.part.changes, &case.context(self, policy));
        let text = |line| match line {
            Proposed::Step(step) => self.target.render(&step).unwrap_or_else(|why| comment(&why)),
            Proposed::Comment(text) => comment(&text),
        };
        lines.into_iter().flat_map(text).collect()
    }
}

impl<T: Target> Judge for Rules<'_, T> {
    fn judge(&self, event: &SchemaEvent, part: &TableEvent) -> Verdict {
        let stop = |reason: String| Verdict::Stop { reason: at(event, &reason) };
        let case = match self.case(part) {
            Ok(case) => case,
            Err(error) => return stop(error.to_string()),
        };
        let policy = &self.sink.table(&part.table.id).evolution;
        let (set, steps) = self.change(&case, policy);
        match set.decision.outcome {
            rules::Verdict::NothingToApply => Verdict::Nothing,
            rules::Verdict::Kept | rules::Verdict::Applied => match steps {
                // Behind a hold the target does not stand right before the change yet: the plan is made when it does.
                Err(error) if case.target.is_some() => stop(format!("{error}. {RESHAPE}")),
                Ok(_) | Err(_) => Verdict::Run,
            },
            rules::Verdict::Held => Verdict::Hold { reason: at(event, &set.decision.message()), proposed: self.proposal(&case, policy) },
            rules::Verdict::Stopped => stop(set.decision.message()),
        }
    }
}

fn comment(text: &str) -> Vec<String> {
    text.lines().map(|line| format!("-- {line}")).collect()
}

/// Ways out where the target table is not as it should be.
const RESHAPE: &str = "Reload the table, or remove it from the configuration.";

fn no_shape(part: &TableEvent) -> String {
    format!("table {}: no expected shape of the target table is recorded. {RESHAPE}", part.table.id)
}

/// A message with the place and the statement that it is about.
pub(super) fn at(event: &SchemaEvent, message: &str) -> String {
    let epoch = event.epoch.map_or_else(String::new, |e: Epoch| format!("epoch {e}, "));
    let statement = event.ddl.as_ref().map_or_else(String::new, |ddl| format!(", statement: {}", ddl.trim()));
    format!("{message} ({epoch}position {}{statement})", event.position)
}
