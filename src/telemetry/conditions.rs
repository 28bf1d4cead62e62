//! Metrics of status conditions, one set of families per kind (surface §5.6).
//!
//! Counted by the condition controllers, which `DISABLE_CLUSTER_STATE_OBSERVABILITY` turns off (surface T28). The label that names the node class
//! depends on the provider and comes from the wiring. [`LegacyConditionMetrics`] are the older families, still shown for NodeClaims and NodePools.

use super::buckets::{DEFAULT, exponential};
use super::condition_gauges::{ConditionFamily, Objects, What};
use super::{ConditionSample, Counters, DeclareError, Exposition, Histograms};
use chrono::{DateTime, Utc};
use std::sync::Arc;

/// Condition families of a kind with `E` extra labels; `A` and `B` are `E` plus 2 and 3, since the language cannot add them.
#[derive(Debug, Clone)]
pub struct ConditionMetrics<const E: usize, const A: usize, const B: usize> {
    transition_seconds: Histograms<A>,
    transitions: Counters<B>,
    objects: Objects,
    termination_seconds: Histograms<E>,
}

/// A kind of object whose conditions are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionKind<'a, const E: usize> {
    /// The kind in lower case, part of the families' names.
    pub kind: &'a str,
    /// The extra labels.
    pub extras: [&'a str; E],
}

/// A condition that changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConditionTransition<'a> {
    /// Its type.
    pub condition: &'a str,
    /// The status that ended, and how long it lasted in seconds; nothing if the condition is new.
    pub previous: Option<(&'a str, f64)>,
    /// The status that began.
    pub status: &'a str,
    /// Its reason.
    pub reason: &'a str,
}

impl<const E: usize, const A: usize, const B: usize> ConditionMetrics<E, A, B> {
    /// The sums that the language cannot make; a wrong type argument does not compile.
    const SUMS: () = assert!(A == E + 2 && B == E + 3, "A and B are E plus 2 and 3");

    /// Declares the families of `kind`.
    pub fn new(exposition: &Exposition, kind: ConditionKind<'_, E>) -> Result<Self, DeclareError> {
        let () = Self::SUMS;
        let name = |suffix: &str| format!("operator_{}_{suffix}", kind.kind);
        let buckets = exponential(0.5, 2.0, 15);
        let objects = Objects::default();
        for (suffix, help, what) in GAUGES {
            let family = ConditionFamily {
                name: name(suffix),
                help,
                what,
                kinds: vec![(Vec::new(), objects.clone())],
                extras: kind.extras.map(str::to_owned).to_vec(),
            };
            declare(exposition, family);
        }
        Ok(Self {
            transition_seconds: exposition.histograms(
                &name("status_condition_transition_seconds"),
                "How long the status before a transition lasted.",
                join(["type", "status"], kind.extras),
                &buckets,
            )?,
            transitions: exposition.counters(
                &name("status_condition_transitions_total"),
                "Transitions of conditions.",
                join(["type", "status", "reason"], kind.extras),
            )?,
            objects,
            termination_seconds: exposition.histograms(
                &name("termination_duration_seconds"),
                "Time from the deletion of an object to its end.",
                kind.extras,
                &buckets,
            )?,
        })
    }

    /// Replaces what is shown of a cluster-scoped object. `deleting` is when it was asked to go, if it was.
    pub fn show(
        &self,
        name: &str,
        extras: [&str; E],
        conditions: &[ConditionSample<'_>],
        deleting: Option<DateTime<Utc>>,
    ) {
        self.objects.show(name, extras, conditions, deleting);
    }

    /// Counts a transition.
    pub fn changed(&self, extras: [&str; E], transition: &ConditionTransition<'_>) {
        if let Some((status, seconds)) = transition.previous {
            self.transition_seconds
                .observe(join([transition.condition, status], extras), seconds);
        }
        let labels = join([transition.condition, transition.status, transition.reason], extras);
        self.transitions.increment(labels);
    }

    /// Removes what is shown of an object that is gone, and counts its removal if it was being deleted for so many seconds.
    pub fn gone(&self, name: &str, extras: [&str; E], deleting_for: Option<f64>) {
        self.objects.remove(name);
        if let Some(seconds) = deleting_for {
            self.termination_seconds.observe(extras, seconds);
        }
    }
}

/// Suffix and meaning of the gauges.
const GAUGES: [(&str, &str, What); 3] = [
    ("status_condition_count", "Conditions present.", What::Present),
    (
        "status_condition_current_status_seconds",
        "Time since the last transition of a condition.",
        What::Ages,
    ),
    (
        "termination_current_time_seconds",
        "Time since the deletion of an object that is still there.",
        What::Deleting,
    ),
];

fn declare(exposition: &Exposition, family: ConditionFamily) {
    let first = family
        .kinds
        .first()
        .map(|(first, _)| first.iter().map(|(label, _)| *label));
    let labels: Vec<&str> = first
        .into_iter()
        .flatten()
        .chain(family.what.labels().iter().copied())
        .chain(family.extras.iter().map(String::as_str))
        .collect();
    let (name, help) = (family.name.clone(), family.help);
    let labels: Vec<String> = labels.into_iter().map(str::to_owned).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    exposition.written(&name, help, &labels, Arc::new(family));
}

/// The families without a kind in their name, shown for NodeClaims and NodePools only (surface §5.6). What objects have now comes from the
/// kinds' own metrics.
#[derive(Debug, Clone)]
pub struct LegacyConditionMetrics {
    transition_seconds: Histograms<4>,
    transitions: Counters<5>,
    termination_seconds: Histograms<2>,
}

impl LegacyConditionMetrics {
    /// Declares the families, over the objects of both kinds.
    pub fn new(
        exposition: &Exposition,
        claims: &ConditionMetrics<2, 4, 5>,
        pools: &ConditionMetrics<0, 2, 3>,
    ) -> Result<Self, DeclareError> {
        let of = |kind: &str| vec![("group", GROUP.to_owned()), ("kind", kind.to_owned())];
        for (suffix, _, what) in GAUGES {
            let family = ConditionFamily {
                name: format!("operator_{suffix}"),
                help: DEPRECATED,
                what,
                kinds: vec![
                    (of("NodeClaim"), claims.objects.clone()),
                    (of("NodePool"), pools.objects.clone()),
                ],
                extras: Vec::new(),
            };
            declare(exposition, family);
        }
        Ok(Self {
            transition_seconds: exposition.histograms(
                "operator_status_condition_transition_seconds",
                DEPRECATED,
                ["group", "kind", "type", "status"],
                DEFAULT,
            )?,
            transitions: exposition.counters(
                "operator_status_condition_transitions_total",
                DEPRECATED,
                ["group", "kind", "type", "status", "reason"],
            )?,
            termination_seconds: exposition.histograms(
                "operator_termination_duration_seconds",
                DEPRECATED,
                ["group", "kind"],
                DEFAULT,
            )?,
        })
    }

    /// Counts a transition.
    pub fn changed(&self, kind: &str, transition: &ConditionTransition<'_>) {
        if let Some((status, seconds)) = transition.previous {
            self.transition_seconds
                .observe([GROUP, kind, transition.condition, status], seconds);
        }
        self.transitions
            .increment([GROUP, kind, transition.condition, transition.status, transition.reason]);
    }

    /// Counts the removal of an object that was being deleted for so many seconds.
    pub fn gone(&self, kind: &str, deleting_for: f64) {
        self.termination_seconds.observe([GROUP, kind], deleting_for);
    }
}

const GROUP: &str = "karpenter.sh";
const DEPRECATED: &str = "Deprecated: see the family of the kind.";

/// The labels of both, in this order. `N` is the sum of the lengths.
fn join<'a, const A: usize, const B: usize, const N: usize>(first: [&'a str; A], second: [&'a str; B]) -> [&'a str; N] {
    let mut all = first.into_iter().chain(second);
    std::array::from_fn(|_| all.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;

    type Claims = ConditionMetrics<1, 3, 4>;

    fn claims() -> (Exposition, Claims) {
        let exposition = Exposition::new();
        let claims = Claims::new(
            &exposition,
            ConditionKind {
                kind: "nodeclaim",
                extras: ["karpenter_sh_nodepool"],
            },
        )
        .unwrap();
        (exposition, claims)
    }

    #[test]
    fn a_transition_counts_the_new_status_and_times_the_old_one() {
        let (exposition, claims) = claims();
        let previous = Some(("Unknown", 12.0));
        claims.changed(
            ["default"],
            &ConditionTransition {
                condition: "Launched",
                previous,
                status: "True",
                reason: "Launched",
            },
        );
        let text = exposition.render(DateTime::UNIX_EPOCH).unwrap();
        for expected in [
            "operator_nodeclaim_status_condition_transitions_total{karpenter_sh_nodepool=\"default\",reason=\"Launched\",status=\"True\",type=\"Launched\"} 1",
            "operator_nodeclaim_status_condition_transition_seconds_sum{karpenter_sh_nodepool=\"default\",status=\"Unknown\",type=\"Launched\"} 12",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
    }

    #[test]
    fn conditions_go_with_their_object() {
        let (exposition, claims) = claims();
        let ready = ConditionSample {
            condition: "Ready",
            status: "True",
            reason: "Ready",
            since: Some(DateTime::UNIX_EPOCH),
        };
        claims.show("default-abcde", ["default"], &[ready], Some(DateTime::UNIX_EPOCH));
        let later = DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(3);
        let shown = exposition.render(later).unwrap();
        assert!(
            shown.contains("operator_nodeclaim_termination_current_time_seconds{namespace=\"\",name=\"default-abcde\",karpenter_sh_nodepool=\"default\"} 3"),
            "{shown}"
        );
        assert!(shown.contains("operator_nodeclaim_status_condition_current_status_seconds{namespace=\"\",name=\"default-abcde\",type=\"Ready\",status=\"True\",reason=\"Ready\",karpenter_sh_nodepool=\"default\"} 3"), "{shown}");
        claims.gone("default-abcde", ["default"], Some(2.0));
        let text = exposition.render(DateTime::UNIX_EPOCH).unwrap();
        assert!(!text.contains("default-abcde"), "{text}");
        assert!(
            text.contains("operator_nodeclaim_termination_duration_seconds_sum{karpenter_sh_nodepool=\"default\"} 2"),
            "{text}"
        );
    }

    #[test]
    fn the_older_families_show_the_same_objects_of_both_kinds_without_extra_labels() {
        let exposition = Exposition::new();
        let claims = ConditionMetrics::new(
            &exposition,
            ConditionKind {
                kind: "nodeclaim",
                extras: ["class", "karpenter_sh_nodepool"],
            },
        )
        .unwrap();
        let pools = ConditionMetrics::new(
            &exposition,
            ConditionKind {
                kind: "nodepool",
                extras: [],
            },
        )
        .unwrap();
        LegacyConditionMetrics::new(&exposition, &claims, &pools).unwrap();
        let ready = ConditionSample {
            condition: "Ready",
            status: "True",
            reason: "Ready",
            since: None,
        };
        claims.show("c", ["k", "p"], &[ready], None);
        pools.show("p", [], &[ready], None);
        let text = exposition.render(DateTime::UNIX_EPOCH).unwrap();
        for (kind, name) in [("NodeClaim", "c"), ("NodePool", "p")] {
            let expected = format!(
                "operator_status_condition_count{{group=\"karpenter.sh\",kind=\"{kind}\",namespace=\"\",name=\"{name}\",type=\"Ready\",status=\"True\",reason=\"Ready\"}} 1"
            );
            assert!(text.contains(&expected), "{expected} is not in\n{text}");
        }
        assert!(!text.contains("current_status_seconds"), "{text}");
    }
}
