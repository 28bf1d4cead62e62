//! Disruption budgets as far as they decide which pods of a leaving machine are placed anew (scheduling 3-5, 3-7).

use super::pod::{Pod, Selector};
use super::taints::{Taint, tolerates_all};
use chrono::{DateTime, Utc};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Whether a budget ever lets a pod go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Eviction {
    /// Never.
    Blocked,
    /// At times.
    Possible,
}

/// Which unhealthy pods a budget protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unhealthy {
    /// Those within budget.
    Protected,
    /// None.
    MayGo,
}

/// A PodDisruptionBudget, reduced to whether it can ever let go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    namespace: String,
    selector: Option<Selector>,
    eviction: Eviction,
    unhealthy: Unhealthy,
}

impl From<&PodDisruptionBudget> for Budget {
    fn from(budget: &PodDisruptionBudget) -> Self {
        let spec = budget.spec.as_ref();
        let none_may_go = match spec.and_then(|s| s.max_unavailable.as_ref()) {
            Some(IntOrString::Int(value)) => *value == 0,
            Some(IntOrString::String(text)) => text == "0%",
            None => false,
        };
        let all_must_stay =
            matches!(spec.and_then(|s| s.min_available.as_ref()), Some(IntOrString::String(text)) if text == "100%");
        let always = spec.and_then(|s| s.unhealthy_pod_eviction_policy.as_deref()) == Some("AlwaysAllow");
        Self {
            namespace: budget.metadata.namespace.clone().unwrap_or_default(),
            selector: spec.and_then(|s| s.selector.as_ref()).map(Selector::from_api),
            eviction: if none_may_go || all_must_stay {
                Eviction::Blocked
            } else {
                Eviction::Possible
            },
            unhealthy: if always { Unhealthy::MayGo } else { Unhealthy::Protected },
        }
    }
}

impl Budget {
    fn covers(&self, pod: &Pod) -> bool {
        *self.namespace == *pod.namespace
            && self
                .selector
                .as_ref()
                .is_some_and(|selector| selector.matches(&pod.labels))
    }

    fn lets_go(&self, pod: &Pod) -> bool {
        self.unhealthy == Unhealthy::MayGo && pod.standing.ready == Some(false)
    }
}

/// Whether eviction of the pod is what would be tried (scheduling 3-7).
pub fn is_evictable(pod: &Pod, now: DateTime<Utc>) -> bool {
    let disrupted = Taint::new("karpenter.sh/disrupted", "", "NoSchedule");
    pod.standing.is_active()
        && !pod.standing.mirror
        && !tolerates_all(&[disrupted], &pod.constraints.tolerations)
        && !pod.standing.do_not_disrupt(now).protects()
}

/// Whether no eviction of the pod can ever succeed: one budget that lets nobody go, or several budgets, which the eviction API refuses
/// (scheduling 3-7).
pub fn is_blocked(pod: &Pod, budgets: &[Budget], now: DateTime<Utc>) -> bool {
    if !is_evictable(pod, now) {
        return false;
    }
    let covering: Vec<&Budget> = budgets.iter().filter(|budget| budget.covers(pod)).collect();
    covering.len() > 1
        || covering
            .iter()
            .any(|budget| budget.eviction == Eviction::Blocked && !budget.lets_go(pod))
}

/// Whether the pod of a leaving machine is placed anew (scheduling 3-5).
pub fn is_currently_reschedulable(pod: &Pod, budgets: &[Budget], now: DateTime<Utc>) -> bool {
    pod.standing.is_reschedulable() && pod.standing.is_disruptable(now) && !is_blocked(pod, budgets, now)
}
