//! How a node is prepared for its end, and how long its drain takes at least (lifecycle 13.5, 13.7).
//!
//! Called by the node termination controller and, for the taint, by the disruption controller.

use crate::api::{Condition, labels};
use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::api::core::v1::Taint;

/// A drain takes at least this long: a pod may have been bound just before the taint took effect (lifecycle 13.7).
pub const LEAST_DRAIN: TimeDelta = TimeDelta::seconds(5);

/// The node's taints with the mark of disruption, if it does not have it; one of that key with another effect is replaced (lifecycle 13.5).
pub fn tainted(taints: &[Taint]) -> Option<Vec<Taint>> {
    let mark = labels::disrupted_taint();
    if taints.iter().any(|taint| labels::same_taint(taint, &mark)) {
        return None;
    }
    let others = taints.iter().filter(|taint| taint.key != labels::DISRUPTED_TAINT_KEY);
    Some(others.cloned().chain([mark]).collect())
}

/// Whether a node whose pods have left may go on. `drained` is the claim's condition; a node without claim has no least time.
pub fn may_go_on(drained: Option<&Condition>, now: DateTime<Utc>) -> bool {
    drained.is_none_or(|condition| {
        !condition.is_unknown() || now.signed_duration_since(condition.last_transition_time) >= LEAST_DRAIN
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ConditionStatus;

    fn taint(key: &str, effect: &str) -> Taint {
        Taint {
            key: key.to_owned(),
            effect: effect.to_owned(),
            ..Taint::default()
        }
    }

    #[test]
    fn the_mark_is_put_once_and_replaces_one_of_another_effect() {
        let own = taint("own", "NoSchedule");
        let marked = tainted(std::slice::from_ref(&own)).unwrap();
        assert_eq!(marked, vec![own.clone(), labels::disrupted_taint()]);
        assert_eq!(tainted(&marked), None);
        let other = taint(labels::DISRUPTED_TAINT_KEY, "NoExecute");
        assert_eq!(tainted(&[other]), Some(vec![labels::disrupted_taint()]));
    }

    #[test]
    fn a_drain_takes_five_seconds_at_least() {
        let at = |second: i64| DateTime::from_timestamp(second, 0).unwrap();
        let mut condition = Condition {
            type_: "Drained".into(),
            status: ConditionStatus::Unknown,
            last_transition_time: at(0),
            reason: "Draining".into(),
            message: String::new(),
            observed_generation: None,
        };
        assert!(!may_go_on(Some(&condition), at(4)));
        assert!(may_go_on(Some(&condition), at(5)));
        condition.status = ConditionStatus::True;
        assert!(may_go_on(Some(&condition), at(0)));
        assert!(may_go_on(None, at(0)));
    }
}
