//! Whether two sets of requirements go together, and in words why not.

use super::operator::Operator;
use super::requirement::Requirement;
use super::set::Requirements;
use crate::scheduling::labels::WellKnownLabels;
use thiserror::Error;

/// Which labels the incoming side may ask for although the other side does not define them (scheduling 5-13).
#[derive(Debug, Clone, Copy)]
pub enum Undefined<'a> {
    /// None: existing machines, whose labels are all known.
    Strict,
    /// The well-known ones: their values come with the instance type.
    Allow(&'a WellKnownLabels),
}

impl Undefined<'_> {
    fn allows(self, key: &str) -> bool {
        match self {
            Self::Strict => false,
            Self::Allow(labels) => labels.contains(key),
        }
    }
}

/// Why two sets of requirements do not go together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Incompatibility {
    /// The incoming side asks for a label that the other side does not define.
    #[error("label \"{key}\" does not have known values{}", typo(.hint.as_deref()))]
    UndefinedLabel {
        /// The label asked for.
        key: String,
        /// A label that may have been meant.
        hint: Option<String>,
    },
    /// No value satisfies both sides; one text for each label.
    #[error("{}", .0.join("; "))]
    NoCommonValue(Vec<String>),
}

fn typo(hint: Option<&str>) -> String {
    hint.map(|label| format!(" (typo of \"{label}\"?)")).unwrap_or_default()
}

impl Requirements {
    /// Whether `incoming` (a pod) can be satisfied by this side (a machine, claim or pool), scheduling 5-13.
    pub fn compatible(&self, incoming: &Self, undefined: Undefined<'_>) -> Result<(), Incompatibility> {
        for requirement in incoming.iter() {
            let key = requirement.key();
            if !undefined.allows(key) && !self.contains(key) && !requirement.allows_absence() {
                return Err(Incompatibility::UndefinedLabel {
                    key: key.to_owned(),
                    hint: self.hint(key, undefined),
                });
            }
        }
        self.intersects(incoming)
    }

    /// Whether [`compatible`](Self::compatible) finds nothing, without words.
    pub fn is_compatible(&self, incoming: &Self, undefined: Undefined<'_>) -> bool {
        incoming.iter().all(|theirs| match self.get(theirs.key()) {
            Some(ours) => meets(ours, theirs),
            None => theirs.allows_absence() || undefined.allows(theirs.key()),
        })
    }

    /// Whether every label that both sides mention has a value that satisfies both, or may be absent on both (scheduling 5-14).
    pub fn intersects(&self, incoming: &Self) -> Result<(), Incompatibility> {
        let clashes: Vec<String> = incoming
            .iter()
            .filter_map(|theirs| Some((self.get(theirs.key())?, theirs)))
            .filter(|(ours, theirs)| !meets(ours, theirs))
            .map(|(ours, theirs)| format!("key {}, {theirs} not in {ours}", theirs.key()))
            .collect();
        if clashes.is_empty() {
            Ok(())
        } else {
            Err(Incompatibility::NoCommonValue(clashes))
        }
    }

    fn hint(&self, key: &str, undefined: Undefined<'_>) -> Option<String> {
        let suffix = key.split_once('/').map_or(key, |(_, name)| name);
        let similar = |label: &&str| label.contains(key) || label.ends_with(suffix);
        let known = match undefined {
            Undefined::Strict => None,
            Undefined::Allow(labels) => labels.iter().find(similar),
        };
        known.or_else(|| self.keys().find(similar)).map(str::to_owned)
    }
}

/// Whether two requirements on one label can both hold.
fn meets(a: &Requirement, b: &Requirement) -> bool {
    a.has_intersection(b) || (a.allows_absence() && b.allows_absence())
}

impl Requirement {
    /// Whether this and `other` can hold of one label, an absent label included (scheduling 5-14).
    pub fn meets(&self, other: &Self) -> bool {
        meets(self, other)
    }

    /// Whether the label is required to exist.
    pub fn demands_presence(&self) -> bool {
        matches!(self.operator(), Operator::In | Operator::Exists)
    }
}
