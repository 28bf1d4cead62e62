//! The ways of choosing nodes to disrupt, in the order in which they are tried (disruption 1.5).
//!
//! A new way is a variant here, its place in [`ORDER`], and a file with its filter and its choice. Called by the disruption loop and by validation.

use super::allowance::Allowances;
use super::candidate::Candidate;
use super::emptiness;
use crate::api::nodepool::DisruptionReason;

/// A way of choosing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Nodes without pods that matter.
    Emptiness,
}

/// In this order; the first that starts a command ends the pass.
pub const ORDER: &[Method] = &[Method::Emptiness];

/// What a method does about pods that must not be moved (disruption 1.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Such a pod protects its node.
    Graceful,
    /// It protects its node only if nothing bounds the node's draining.
    Eventual,
}

/// What a method's own filter says of a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fit {
    /// It is one.
    Eligible,
    /// It is none.
    No,
    /// It is none, and the owner of node and pool should know why.
    Unconsolidatable(String),
}

/// What a method chose.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The nodes that shall go, cheapest first; none: nothing to do.
    pub candidates: Vec<Candidate>,
    /// Some were left out only because a budget allows no more.
    pub constrained: bool,
}

impl Method {
    /// The reason that conditions, budgets and users know.
    pub const fn reason(self) -> DisruptionReason {
        match self {
            Self::Emptiness => DisruptionReason::Empty,
        }
    }

    /// The label `consolidation_type` of metrics.
    pub const fn consolidation_type(self) -> &'static str {
        match self {
            Self::Emptiness => "empty",
        }
    }

    /// What it does about pods that must not be moved.
    pub const fn class(self) -> Class {
        match self {
            Self::Emptiness => Class::Graceful,
        }
    }

    /// The method's own filter (disruption 2.7).
    pub fn fit(self, candidate: &Candidate) -> Fit {
        match self {
            Self::Emptiness => emptiness::fit(candidate),
        }
    }

    /// Chooses among candidates that pass the filter; takes from the allowances what it uses.
    pub fn choose(self, candidates: Vec<Candidate>, allowances: &mut Allowances) -> Choice {
        match self {
            Self::Emptiness => emptiness::choose(candidates, allowances),
        }
    }
}
