//! Spread, affinity and anti-affinity (scheduling §17).
//!
//! A [`Group`](group::Group) is one rule with a count of pods per domain. Groups are shared by all pods with an equal rule. For each attempt
//! the groups of a pod choose the domains it may go to ([`choose`]); each placement is recorded in the groups that count the pod
//! ([`group`]). Where domains come from is in [`universe`], who is counted before the pass begins in [`population`].

pub(super) mod choose;
pub(super) mod group;
pub(super) mod population;
mod registry;
pub(super) mod rules;
pub(super) mod universe;

pub(super) use registry::Registry;
