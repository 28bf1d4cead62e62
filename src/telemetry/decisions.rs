//! When Karpenter first looked at a pod, first decided about it, and first found it a place (surface §5.3).
//!
//! Told by the provisioning controller, asked by the controller `metrics.pod` when the pod is bound or ready. Holds an entry for each pod that a pass
//! was about and that still exists; the wiring lets it forget pods that are gone.

use super::{Histograms, SeriesStore};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Entries at most; more pods are simply not measured.
const LIMIT: usize = 200_000;

/// What a pass found for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// A machine that exists or will.
    Placed,
    /// No machine would do.
    Refused,
}

/// The pods that passes were about; cheap to clone.
#[derive(Debug, Clone)]
pub struct PodDecisions {
    undecided: SeriesStore<2>,
    /// Whether single pods are shown.
    shows: Arc<AtomicBool>,
    durations: Histograms<0>,
    pods: Arc<Mutex<BTreeMap<Box<str>, Times>>>,
}

#[derive(Debug)]
struct Times {
    seen: DateTime<Utc>,
    decided: bool,
    placed: Option<DateTime<Utc>>,
}

impl PodDecisions {
    /// Counts into these families: the age of what is undecided, and how long decisions took.
    pub(super) fn new(undecided: SeriesStore<2>, durations: Histograms<0>) -> Self {
        Self {
            undecided,
            shows: Arc::default(),
            durations,
            pods: Arc::default(),
        }
    }

    /// From now on pods that are undecided are shown one by one; without the cluster observability nobody says so (surface T28).
    pub fn show_undecided(&self) {
        self.shows.store(true, Ordering::Relaxed);
    }

    /// A pass begins that is about this pod.
    pub fn seen(&self, namespace: &str, name: &str, uid: &str, now: DateTime<Utc>) {
        let mut pods = self.lock();
        if pods.contains_key(uid) || pods.len() >= LIMIT {
            return;
        }
        let times = Times {
            seen: now,
            decided: false,
            placed: None,
        };
        pods.insert(uid.into(), times);
        if self.shows.load(Ordering::Relaxed) {
            self.undecided.set_since(uid, [name, namespace], now);
        }
    }

    /// A pass has decided about this pod.
    pub fn decided(&self, uid: &str, decision: Decision, now: DateTime<Utc>) {
        let mut pods = self.lock();
        let Some(times) = pods.get_mut(uid) else { return };
        if !times.decided {
            times.decided = true;
            self.undecided.remove(uid);
            self.durations.observe([], seconds(times.seen, now));
        }
        if decision == Decision::Placed && times.placed.is_none() {
            times.placed = Some(now);
        }
    }

    /// When the pod was first found a place.
    pub fn placed(&self, uid: &str) -> Option<DateTime<Utc>> {
        self.lock().get(uid)?.placed
    }

    /// The pod is gone, or nobody asks for it any more.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
        self.undecided.remove(uid);
    }

    /// How many pods are remembered.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether no pod is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Times>> {
        // Each entry is right by itself, whatever a panicking thread was doing to another.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[allow(clippy::cast_precision_loss)] // milliseconds of a pod's life
fn seconds(from: DateTime<Utc>, to: DateTime<Utc>) -> f64 {
    to.signed_duration_since(from).num_milliseconds().max(0) as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::super::Exposition;
    use super::super::pods::PodMetrics;
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_750_000_000 + second, 0).unwrap()
    }

    #[test]
    fn the_first_decision_counts_and_the_first_place_is_remembered() {
        let metrics = PodMetrics::new(&Exposition::new()).unwrap();
        let decisions = metrics.decisions.clone();
        decisions.seen("ns", "p", "u", at(0));
        decisions.seen("ns", "p", "u", at(5));
        decisions.decided("u", Decision::Refused, at(7));
        assert_eq!(decisions.placed("u"), None);
        decisions.decided("u", Decision::Placed, at(9));
        decisions.decided("u", Decision::Placed, at(30));
        assert_eq!(decisions.placed("u"), Some(at(9)));
        assert_eq!(decisions.durations.count([]), 1);
        assert!(decisions.undecided.is_empty());
    }

    // surface T28
    #[test]
    fn no_single_pod_is_shown_where_nobody_wants_it() {
        let metrics = PodMetrics::new(&Exposition::new()).unwrap();
        metrics.decisions.seen("ns", "p", "u", at(0));
        assert!(metrics.decisions.undecided.is_empty());
        metrics.decisions.decided("u", Decision::Placed, at(1));
        assert_eq!(
            metrics.decisions.durations.count([]),
            1,
            "the histogram is no series of a pod"
        );
    }

    #[test]
    fn a_pod_that_goes_undecided_leaves_nothing() {
        let metrics = PodMetrics::new(&Exposition::new()).unwrap();
        metrics.decisions.show_undecided();
        metrics.decisions.seen("ns", "p", "u", at(0));
        assert_eq!(metrics.decisions.undecided.len(), 1);
        metrics.decisions.forget("u");
        assert!(metrics.decisions.is_empty() && metrics.decisions.undecided.is_empty());
        metrics.decisions.decided("u", Decision::Placed, at(1));
        assert!(
            metrics.decisions.is_empty(),
            "an unknown pod is not taken in by a decision"
        );
    }
}
