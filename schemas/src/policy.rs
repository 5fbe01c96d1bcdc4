//! What a person wants done with each kind of change, per sink and per table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::change::Kind;

/// What to do with a kind of change where the rules' own answer is not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Apply,
    Hold,
    Stop,
    /// The target stays as it is while rows still fit.
    Keep,
}

impl Action {
    pub const ALL: [Action; 4] = [Action::Apply, Action::Hold, Action::Stop, Action::Keep];

    pub fn name(self) -> &'static str {
        match self {
            Action::Apply => "apply",
            Action::Hold => "hold",
            Action::Stop => "stop",
            Action::Keep => "keep",
        }
    }

    pub fn parse(name: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// Kinds that one name of the configuration stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    pub name: &'static str,
    pub kinds: &'static [Kind],
}

pub const GROUPS: [Group; 6] = [
    Group {
        name: "added_columns",
        kinds: &[
            Kind::AddColumnNullable,
            Kind::AddColumnConstantDefault,
            Kind::AddColumnImplicitDefault,
            Kind::AddColumnVolatileDefault,
            Kind::AddColumnGenerated,
        ],
    },
    Group { name: "dropped_columns", kinds: &[Kind::DropColumn] },
    Group { name: "renamed_columns", kinds: &[Kind::RenameColumn] },
    Group {
        name: "type_changes",
        kinds: &[
            Kind::Lengthen,
            Kind::Shorten,
            Kind::WidenInteger,
            Kind::ChangeDecimal,
            Kind::AppendEnumLabels,
            Kind::ChangeEnumLabels,
            Kind::ChangeSignedness,
            Kind::ChangeType,
        ],
    },
    Group { name: "nullability_changes", kinds: &[Kind::SetNotNull, Kind::DropNotNull] },
    Group { name: "key_changes", kinds: &[Kind::DropKeyColumn, Kind::RenameKeyColumn, Kind::ChangeKeyDecimal, Kind::ChangeKey] },
];

/// The configured actions of one table on one sink, groups already spread over their kinds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    pub actions: BTreeMap<Kind, Action>,
}

/// A policy that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PolicyError {
    #[error("{name:?} is neither a kind of change nor a group of them")]
    Name { name: String },
    #[error("{name}: {action:?} is not an action; use apply, hold, stop or keep")]
    Action { name: String, action: String },
}

impl Policy {
    /// A policy from the configuration's names of kinds and groups. A kind's own entry goes before its group's.
    ///
    /// # Errors
    ///
    /// Every entry that is not understood.
    pub fn parse<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Policy, Vec<PolicyError>> {
        let (mut by_group, mut by_kind, mut errors) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (name, action) in entries {
            let Some(action) = Action::parse(action) else {
                errors.push(PolicyError::Action { name: name.to_owned(), action: action.to_owned() });
                continue;
            };
            if let Some(kind) = Kind::parse(name) {
                by_kind.insert(kind, action);
            } else if let Some(group) = GROUPS.iter().find(|group| group.name == name) {
                by_group.extend(group.kinds.iter().map(|kind| (*kind, action)));
            } else {
                errors.push(PolicyError::Name { name: name.to_owned() });
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        by_group.extend(by_kind);
        Ok(Policy { actions: by_group })
    }

    /// Every name that [`Policy::parse`] knows, for "did you mean".
    pub fn names() -> impl Iterator<Item = &'static str> {
        GROUPS.iter().map(|group| group.name).chain(Kind::ALL.into_iter().map(Kind::name))
    }

    pub fn action(&self, kind: Kind) -> Option<Action> {
        self.actions.get(&kind).copied()
    }

    /// This policy where it says something, else the other's: a table's own policy over its sink's.
    #[must_use]
    pub fn over(&self, other: &Policy) -> Policy {
        let mut actions = other.actions.clone();
        actions.extend(self.actions.iter().map(|(kind, action)| (*kind, *action)));
        Policy { actions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_goes_before_its_group_in_any_order() {
        for entries in [[("type_changes", "hold"), ("lengthen", "apply")], [("lengthen", "apply"), ("type_changes", "hold")]] {
            let policy = Policy::parse(entries).unwrap();
            assert_eq!(policy.action(Kind::Lengthen), Some(Action::Apply));
            assert_eq!(policy.action(Kind::Shorten), Some(Action::Hold));
            assert_eq!(policy.action(Kind::DropColumn), None);
        }
    }

    #[test]
    fn every_bad_entry_is_named() {
        let errors = Policy::parse([("drop_colum", "keep"), ("lengthen", "maybe"), ("shorten", "hold")]).unwrap_err();
        assert_eq!(
            errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "\"drop_colum\" is neither a kind of change nor a group of them",
                "lengthen: \"maybe\" is not an action; use apply, hold, stop or keep",
            ]
        );
    }

    #[test]
    fn no_kind_is_in_two_groups() {
        let mut kinds: Vec<Kind> = GROUPS.iter().flat_map(|g| g.kinds.iter().copied()).collect();
        let all = kinds.len();
        kinds.sort();
        kinds.dedup();
        assert_eq!(kinds.len(), all);
    }
}
