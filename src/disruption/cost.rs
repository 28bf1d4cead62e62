//! What it costs, in Karpenter's measure, to take a node away from its pods.
//!
//! Candidates are tried cheapest first. Called when candidates are built.

use chrono::TimeDelta;

/// 2^27: what a deletion cost is divided by (disruption 2.5).
const DELETION_COST_SCALE: f64 = 134_217_728.0;
/// 2^25: what a priority is divided by (disruption 2.5).
const PRIORITY_SCALE: f64 = 33_554_432.0;

/// Reads the annotation `controller.kubernetes.io/pod-deletion-cost`; a text that is no number is as good as none (disruption 2.5).
pub fn deletion_cost(annotation: Option<&str>) -> Option<f64> {
    annotation?.parse().ok()
}

/// What it costs to evict one pod: 1, moved by its deletion cost and priority, between −10 and 10 (disruption 2.5).
pub fn eviction_cost(deletion_cost: Option<f64>, priority: Option<i32>) -> f64 {
    let cost =
        1.0 + deletion_cost.unwrap_or(0.0) / DELETION_COST_SCALE + f64::from(priority.unwrap_or(0)) / PRIORITY_SCALE;
    // a deletion cost of NaN says nothing
    if cost.is_nan() { 1.0 } else { cost.clamp(-10.0, 10.0) }
}

/// The share of its life that a claim has left, 0 to 1; `expire_after` is `None` for Never (disruption 2.6).
#[allow(clippy::cast_precision_loss)] // lives are far below 2^52 milliseconds
pub fn lifetime_remaining(expire_after: Option<TimeDelta>, age: TimeDelta) -> f64 {
    let Some(life) = expire_after else { return 1.0 };
    let life = life.num_milliseconds() as f64;
    if life <= 0.0 {
        return 0.0;
    }
    ((life - age.num_milliseconds() as f64) / life).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_pod_costs_one() {
        assert!((eviction_cost(None, None) - 1.0).abs() < f64::EPSILON);
        assert!((eviction_cost(deletion_cost(Some("many")), Some(0)) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn costs_are_bounded_whatever_is_written() {
        assert!((eviction_cost(Some(f64::MAX), Some(i32::MAX)) - 10.0).abs() < f64::EPSILON);
        assert!((eviction_cost(Some(f64::MIN), Some(i32::MIN)) + 10.0).abs() < f64::EPSILON);
        assert!((eviction_cost(deletion_cost(Some("NaN")), None) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_claim_that_never_expires_keeps_its_whole_life() {
        assert!((lifetime_remaining(None, TimeDelta::MAX) - 1.0).abs() < f64::EPSILON);
        assert!(lifetime_remaining(Some(TimeDelta::hours(1)), TimeDelta::hours(2)).abs() < f64::EPSILON);
        assert!((lifetime_remaining(Some(TimeDelta::hours(4)), TimeDelta::hours(1)) - 0.75).abs() < f64::EPSILON);
        assert!(lifetime_remaining(Some(TimeDelta::zero()), TimeDelta::zero()).abs() < f64::EPSILON);
    }
}
