//! What a pod gives up, in which order, when it fits nowhere (scheduling §16).

use super::pod::{Constraints, Weighted, WhenUnsatisfiable};
use super::taints::Toleration;

/// Whether a pod may come to tolerate PreferNoSchedule taints; only when some pool has one (scheduling 13-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SoftTaints {
    Exist,
    None,
}

/// The constraints after one more step of relaxation; none when nothing is left to give up (scheduling 16-3).
pub(super) fn relaxed(constraints: &Constraints, soft_taints: SoftTaints) -> Option<Constraints> {
    let mut result = constraints.clone();
    let done = drop_required_term(&mut result)
        || drop_heaviest(&mut result.preferred_affinity)
        || drop_heaviest(&mut result.preferred_anti_affinity)
        || drop_heaviest(&mut result.preferred_terms)
        || drop_soft_spread(&mut result)
        || (soft_taints == SoftTaints::Exist && tolerate_soft_taints(&mut result));
    done.then_some(result)
}

/// The last term is never dropped.
fn drop_required_term(constraints: &mut Constraints) -> bool {
    let more = constraints.required_terms.len() > 1;
    if more {
        constraints.required_terms.remove(0);
    }
    more
}

fn drop_heaviest<T>(preferences: &mut Vec<Weighted<T>>) -> bool {
    let weights = preferences.iter().map(|preference| preference.weight);
    let heaviest = weights
        .enumerate()
        .reduce(|best, next| if next.1 > best.1 { next } else { best });
    if let Some((at, _)) = heaviest {
        preferences.remove(at);
    }
    heaviest.is_some()
}

/// The first soft constraint is overwritten with the last of the list (scheduling 16-3.5).
fn drop_soft_spread(constraints: &mut Constraints) -> bool {
    let soft = constraints
        .spread
        .iter()
        .position(|s| s.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway);
    if let Some(at) = soft {
        constraints.spread.swap_remove(at);
    }
    soft.is_some()
}

fn tolerate_soft_taints(constraints: &mut Constraints) -> bool {
    let toleration = Toleration::prefer_no_schedule();
    let new = !constraints.tolerations.contains(&toleration);
    if new {
        constraints.tolerations.push(toleration);
    }
    new
}
