//! Metrics of status conditions, one set of families per kind (surface §5.6).
//!
//! Counted by the three condition controllers, which `DISABLE_CLUSTER_STATE_OBSERVABILITY` turns off (surface T28). The label that names the node class
//! depends on the provider and comes from the wiring. [`LegacyConditionMetrics`] are the older families, still shown for NodeClaims and NodePools.

use super::buckets::{DEFAULT, exponential};
use super::{Counters, DeclareError, Exposition, Histograms, Sample, SeriesStore};

/// Condition families of a kind with `E` extra labels; `A`, `B`, `C` are `E` plus 2, 3 and 5, since the language cannot add them.
#[derive(Debug, Clone)]
pub struct ConditionMetrics<const E: usize, const A: usize, const B: usize, const C: usize> {
    transition_seconds: Histograms<A>,
    transitions: Counters<B>,
    count: SeriesStore<C>,
    current_seconds: SeriesStore<C>,
    terminating_seconds: SeriesStore<A>,
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

/// A present condition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConditionSample<'a> {
    /// Its type.
    pub condition: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// Its reason.
    pub reason: &'a str,
    /// Seconds since its last transition.
    pub seconds: f64,
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

impl<const E: usize, const A: usize, const B: usize, const C: usize> ConditionMetrics<E, A, B, C> {
    /// The sums that the language cannot make; a wrong type argument does not compile.
    const SUMS: () = assert!(
        A == E + 2 && B == E + 3 && C == E + 5,
        "A, B and C are E plus 2, 3 and 5"
    );

    /// Declares the families of `kind`.
    pub fn new(exposition: &Exposition, kind: ConditionKind<'_, E>) -> Result<Self, DeclareError> {
        let () = Self::SUMS;
        let name = |suffix: &str| format!("operator_{}_{suffix}", kind.kind);
        let buckets = exponential(0.5, 2.0, 15);
        let series = ["namespace", "name", "type", "status", "reason"];
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
            count: exposition.series(
                &name("status_condition_count"),
                "Conditions present.",
                join(series, kind.extras),
            ),
            current_seconds: exposition.series(
                &name("status_condition_current_status_seconds"),
                "Time since the last transition of a condition.",
                join(series, kind.extras),
            ),
            terminating_seconds: exposition.series(
                &name("termination_current_time_seconds"),
                "Time since the deletion of an object that is still there.",
                join(["namespace", "name"], kind.extras),
            ),
            termination_seconds: exposition.histograms(
                &name("termination_duration_seconds"),
                "Time from the deletion of an object to its end.",
                kind.extras,
                &buckets,
            )?,
        })
    }

    /// Replaces what is shown of a cluster-scoped object. `deleting_for` is the time since its deletion in seconds, if it is being deleted.
    pub fn show<'a>(
        &self,
        name: &'a str,
        extras: [&'a str; E],
        conditions: &[ConditionSample<'a>],
        deleting_for: Option<f64>,
    ) {
        let labels = |c: &ConditionSample<'a>| join(["", name, c.condition, c.status, c.reason], extras);
        let present = conditions.iter();
        self.count.replace(
            name,
            present.clone().map(|c| Sample {
                labels: labels(c),
                value: 1.0,
            }),
        );
        self.current_seconds.replace(
            name,
            present.map(|c| Sample {
                labels: labels(c),
                value: c.seconds,
            }),
        );
        match deleting_for {
            Some(seconds) => self.terminating_seconds.set(name, join(["", name], extras), seconds),
            None => self.terminating_seconds.remove(name),
        }
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

    /// Removes what is shown of an object that is gone, and counts its removal if it was being deleted.
    pub fn gone(&self, name: &str, extras: [&str; E], deleting_for: Option<f64>) {
        self.count.remove(name);
        self.current_seconds.remove(name);
        self.terminating_seconds.remove(name);
        if let Some(seconds) = deleting_for {
            self.termination_seconds.observe(extras, seconds);
        }
    }
}

/// The families without a kind in their name, shown for NodeClaims and NodePools only (surface §5.6).
#[derive(Debug, Clone)]
pub struct LegacyConditionMetrics {
    transition_seconds: Histograms<4>,
    transitions: Counters<5>,
    count: SeriesStore<7>,
    current_seconds: SeriesStore<7>,
    terminating_seconds: SeriesStore<4>,
    termination_seconds: Histograms<2>,
}

impl LegacyConditionMetrics {
    /// Declares the families.
    pub fn new(exposition: &Exposition) -> Result<Self, DeclareError> {
        let series = ["group", "kind", "namespace", "name", "type", "status", "reason"];
        Ok(Self {
            transition_seconds: exposition.histograms(
                "operator_status_condition_transition_seconds",
                "Deprecated: see the family of the kind.",
                ["group", "kind", "type", "status"],
                DEFAULT,
            )?,
            transitions: exposition.counters(
                "operator_status_condition_transitions_total",
                "Deprecated: see the family of the kind.",
                ["group", "kind", "type", "status", "reason"],
            )?,
            count: exposition.series(
                "operator_status_condition_count",
                "Deprecated: see the family of the kind.",
                series,
            ),
            current_seconds: exposition.series(
                "operator_status_condition_current_status_seconds",
                "Deprecated: see the family of the kind.",
                series,
            ),
            terminating_seconds: exposition.series(
                "operator_termination_current_time_seconds",
                "Deprecated: see the family of the kind.",
                ["group", "kind", "namespace", "name"],
            ),
            termination_seconds: exposition.histograms(
                "operator_termination_duration_seconds",
                "Deprecated: see the family of the kind.",
                ["group", "kind"],
                DEFAULT,
            )?,
        })
    }

    /// Replaces what is shown of a cluster-scoped object of group `karpenter.sh`.
    pub fn show<'a>(
        &self,
        kind: &'a str,
        name: &'a str,
        conditions: &[ConditionSample<'a>],
        deleting_for: Option<f64>,
    ) {
        let object = format!("{kind}/{name}");
        let labels = |c: &ConditionSample<'a>| [GROUP, kind, "", name, c.condition, c.status, c.reason];
        let present = conditions.iter();
        self.count.replace(
            &object,
            present.clone().map(|c| Sample {
                labels: labels(c),
                value: 1.0,
            }),
        );
        self.current_seconds.replace(
            &object,
            present.map(|c| Sample {
                labels: labels(c),
                value: c.seconds,
            }),
        );
        match deleting_for {
            Some(seconds) => self.terminating_seconds.set(&object, [GROUP, kind, "", name], seconds),
            None => self.terminating_seconds.remove(&object),
        }
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

    /// Removes what is shown of an object that is gone, and counts its removal if it was being deleted.
    pub fn gone(&self, kind: &str, name: &str, deleting_for: Option<f64>) {
        let object = format!("{kind}/{name}");
        self.count.remove(&object);
        self.current_seconds.remove(&object);
        self.terminating_seconds.remove(&object);
        if let Some(seconds) = deleting_for {
            self.termination_seconds.observe([GROUP, kind], seconds);
        }
    }
}

const GROUP: &str = "karpenter.sh";

/// The labels of both, in this order. `N` is the sum of the lengths.
fn join<'a, const A: usize, const B: usize, const N: usize>(first: [&'a str; A], second: [&'a str; B]) -> [&'a str; N] {
    let mut all = first.into_iter().chain(second);
    std::array::from_fn(|_| all.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;

    type Claims = ConditionMetrics<1, 3, 4, 6>;

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
            seconds: 3.0,
        };
        claims.show("default-abcde", ["default"], &[ready], Some(1.0));
        let shown = exposition.render(DateTime::UNIX_EPOCH).unwrap();
        assert!(shown.contains("operator_nodeclaim_status_condition_current_status_seconds{namespace=\"\",name=\"default-abcde\",type=\"Ready\",status=\"True\",reason=\"Ready\",karpenter_sh_nodepool=\"default\"} 3"), "{shown}");
        claims.gone("default-abcde", ["default"], Some(2.0));
        let text = exposition.render(DateTime::UNIX_EPOCH).unwrap();
        assert!(!text.contains("default-abcde"), "{text}");
        assert!(
            text.contains("operator_nodeclaim_termination_duration_seconds_sum{karpenter_sh_nodepool=\"default\"} 2"),
            "{text}"
        );
    }
}
