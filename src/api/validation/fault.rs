//! What can be wrong with an object, in words for its author.
//!
//! Relies on the grammar's errors; called by the validation. Users search for some of these words, so they are close to upstream's.

use super::GrammarError;
use crate::api::Operator;
use std::fmt;

/// One thing that is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A label key is not a qualified name.
    #[error("invalid key {key:?} in {place}: {fault}")]
    Key {
        /// Where it is.
        place: Place,
        /// The key.
        key: String,
        /// What is wrong with it.
        fault: GrammarError,
    },
    /// A value is not what its place takes.
    #[error("invalid value {value:?} for {key} in {place}: {fault}")]
    Value {
        /// Where it is.
        place: Place,
        /// The key that it belongs to.
        key: String,
        /// The value.
        value: String,
        /// What is wrong with it.
        fault: GrammarError,
    },
    /// The label belongs to Karpenter.
    #[error(
        "label {key} in {place} is restricted; use one of the well-known labels, or one outside the domain karpenter.sh"
    )]
    Restricted {
        /// Where it is.
        place: Place,
        /// The key.
        key: String,
    },
    /// A taint's effect is none of Kubernetes' three.
    #[error(
        "invalid effect {effect:?} of taint {key} in {place}: one of NoSchedule, PreferNoSchedule, NoExecute is expected"
    )]
    Effect {
        /// Where it is.
        place: Place,
        /// The taint's key.
        key: String,
        /// The effect.
        effect: String,
    },
    /// The same taint is there twice, perhaps once in each of the two lists.
    #[error("duplicate taint {key} with effect {effect:?} in taints and startupTaints")]
    DuplicateTaint {
        /// The taint's key.
        key: String,
        /// The taint's effect.
        effect: String,
    },
    /// The operator is none of the eight.
    #[error(
        "unknown operator {operator:?} for {key} in requirements: one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte is expected"
    )]
    Operator {
        /// The requirement's key.
        key: String,
        /// The operator.
        operator: String,
    },
    /// An operator that needs values has none.
    #[error("requirement {key} with operator {operator} must have a value defined")]
    NoValues {
        /// The requirement's key.
        key: String,
        /// The operator.
        operator: Operator,
    },
    /// A comparison needs one whole number that is not negative.
    #[error("requirement {key} with operator {operator} must have a single positive integer value, not {values:?}")]
    NotANumber {
        /// The requirement's key.
        key: String,
        /// The operator.
        operator: Operator,
        /// The values.
        values: Vec<String>,
    },
    /// Fewer values than `minValues` demands.
    #[error("requirement {key} lists {count} values, which is fewer than its minValues {min_values}")]
    TooFewValues {
        /// The requirement's key.
        key: String,
        /// How many there are.
        count: usize,
        /// How many there must be.
        min_values: i64,
    },
    /// None of the values is one that the label can have.
    #[error("none of the values {values:?} of requirement {key} is known: {known:?} are")]
    NoKnownValue {
        /// The requirement's key.
        key: String,
        /// The values.
        values: Vec<String>,
        /// What the label can have.
        known: &'static [&'static str],
    },
    /// Too few of the values are ones that the label can have.
    #[error(
        "only {count} of the values of requirement {key} are known ({known:?}), which is fewer than its minValues {min_values}"
    )]
    TooFewKnownValues {
        /// The requirement's key.
        key: String,
        /// How many of them are known.
        count: usize,
        /// How many there must be.
        min_values: i64,
        /// What the label can have.
        known: &'static [&'static str],
    },
    /// A limit that cannot be read would be no limit.
    #[error("invalid limit {value:?} for {resource}: a quantity such as 500m, 2 or 4Gi is expected")]
    Limit {
        /// The resource.
        resource: String,
        /// What was written.
        value: String,
    },
    /// An overlay names a resource that every node has.
    #[error("invalid capacity: resource {resource} is restricted")]
    StandardResource {
        /// The resource.
        resource: String,
    },
}

/// A part of an object, as faults name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The template's labels.
    Labels,
    /// Taints.
    Taints,
    /// Startup taints.
    StartupTaints,
    /// Requirements.
    Requirements,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Labels => "labels",
            Self::Taints => "taints",
            Self::StartupTaints => "startupTaints",
            Self::Requirements => "requirements",
        })
    }
}

/// A value that a well-known label can never have, beside ones that it can: the object is valid, and its author should know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("values {values:?} of requirement {key} are not known and will never match; {known:?} are known")]
pub struct UnknownValues {
    /// The requirement's key.
    pub key: String,
    /// The values that are not known.
    pub values: Vec<String>,
    /// The values beside them that are.
    pub valid: Vec<String>,
    /// What the label can have.
    pub known: &'static [&'static str],
}

/// What validation found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// What makes the object invalid.
    pub faults: Vec<Fault>,
    /// What its author should be told all the same.
    pub warnings: Vec<UnknownValues>,
}

impl Findings {
    /// Whether nothing makes the object invalid.
    pub fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }

    /// All faults in one text, as a condition's message shows them.
    pub fn message(&self) -> String {
        self.faults
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ")
    }
}
