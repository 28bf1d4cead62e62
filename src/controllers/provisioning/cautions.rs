//! Warns of pods whose preferences may keep nodes from being consolidated: they are treated as requirements as long as they can be met (surface §8.2).
//!
//! Called once a pass with its pending pods; each pod is told of once.

use super::create::some_of;
use super::record::{SHOWN, name_of};
use crate::scheduling::pod::WhenUnsatisfiable;
use crate::scheduling::{Pod, PreferencePolicy};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The pods that were told of, by UID, as long as they are pending.
#[derive(Debug, Default)]
pub(super) struct Cautions(Mutex<BTreeSet<Arc<str>>>);

/// Pods of one pass that were not there before.
struct New<'p> {
    anti_affinity: Vec<&'p Pod>,
    spread: Vec<&'p Pod>,
}

impl Cautions {
    /// Writes a line for each kind of preference that pods have which are new to it. Where preferences are ignored there is nothing to warn of.
    pub(super) fn tell(&self, pending: &[Arc<Pod>], preferences: PreferencePolicy) {
        if preferences == PreferencePolicy::Ignore {
            return;
        }
        let new = self.new_of(pending);
        if !new.anti_affinity.is_empty() {
            let pods = listed(&new.anti_affinity);
            tracing::info!(
                pods,
                "pod(s) have a preferred Anti-Affinity which can prevent consolidation"
            );
        }
        if !new.spread.is_empty() {
            let pods = listed(&new.spread);
            tracing::info!(
                pods,
                "pod(s) have a preferred TopologySpreadConstraint which can prevent consolidation"
            );
        }
    }

    fn new_of<'p>(&self, pending: &'p [Arc<Pod>]) -> New<'p> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = pending.iter().filter(|pod| !told.contains(&pod.uid));
        let fresh: Vec<&Pod> = fresh.map(Arc::as_ref).collect();
        *told = pending.iter().map(|pod| Arc::clone(&pod.uid)).collect();
        let with = |prefers: fn(&Pod) -> bool| fresh.iter().copied().filter(|pod| prefers(pod)).collect();
        New {
            anti_affinity: with(|pod| !pod.constraints.preferred_anti_affinity.is_empty()),
            spread: with(|pod| {
                let mut spread = pod.constraints.spread.iter();
                spread.any(|spread| spread.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway)
            }),
        }
    }
}

fn listed(pods: &[&Pod]) -> String {
    let names: Vec<String> = pods.iter().map(|pod| name_of(pod)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    some_of(&names, SHOWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::pod::{Constraints, PodTerm, Weighted};

    fn pod(uid: &str, prefers: bool) -> Arc<Pod> {
        let mut constraints = Constraints::default();
        if prefers {
            let term = PodTerm::default();
            constraints.preferred_anti_affinity = vec![Weighted { weight: 1, term }];
        }
        Arc::new(Pod {
            uid: uid.into(),
            constraints: Arc::new(constraints),
            ..Pod::default()
        })
    }

    fn uids(new: &New<'_>) -> Vec<String> {
        assert!(new.spread.is_empty());
        new.anti_affinity.iter().map(|pod| pod.uid.to_string()).collect()
    }

    #[test]
    fn a_pod_is_told_of_once_as_long_as_it_waits() {
        let cautions = Cautions::default();
        let (first, second, plain) = (pod("1", true), pod("2", true), pod("3", false));
        assert_eq!(uids(&cautions.new_of(&[Arc::clone(&first), plain])), ["1"]);
        assert_eq!(uids(&cautions.new_of(&[first, second])), ["2"]);
        assert!(uids(&cautions.new_of(&[])).is_empty());
        assert!(
            cautions.0.lock().unwrap().is_empty(),
            "pods that are gone are forgotten"
        );
    }
}
