//! What a pod gives up, in which order, when it fits nowhere (scheduling §16).

use super::pod::{Constraints, Weighted, WhenUnsatisfiable};
use super::taints::Toleration;

/// So many terms or preferences of one kind are given up one by one.
const MANY: usize = 100;

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
///
/// Differs: of more terms than anybody writes by hand only the first are tried, since each step keeps what is left of them.
fn drop_required_term(constraints: &mut Constraints) -> bool {
    constraints.required_terms.truncate(MANY);
    let more = constraints.required_terms.len() > 1;
    if more {
        constraints.required_terms.remove(0);
    }
    more
}

/// Drops the heaviest preference.
///
/// Differs: of more preferences than anybody writes by hand several are dropped in one step, so that neither steps nor memory grow with the square
/// of their number.
fn drop_heaviest<T>(preferences: &mut Vec<Weighted<T>>) -> bool {
    let any = !preferences.is_empty();
    for _ in 0..preferences.len().div_ceil(MANY) {
        let weights = preferences.iter().map(|preference| preference.weight);
        let heaviest = weights
            .enumerate()
            .reduce(|best, next| if next.1 > best.1 { next } else { best });
        if let Some((at, _)) = heaviest {
            preferences.remove(at);
        }
    }
    any
}

/// The first soft constraint is overwritten with the last of the list (scheduling 16-3.5).
fn drop_soft_spread(constraints: &mut Constraints) -> bool {
    let mut any = false;
    for _ in 0..constraints.spread.len().div_ceil(MANY) {
        let soft = constraints
            .spread
            .iter()
            .position(|s| s.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway);
        if let Some(at) = soft {
            constraints.spread.swap_remove(at);
            any = true;
        }
    }
    any
}

fn tolerate_soft_taints(constraints: &mut Constraints) -> bool {
    let toleration = Toleration::prefer_no_schedule();
    let new = !constraints.tolerations.contains(&toleration);
    if new {
        constraints.tolerations.push(toleration);
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::pod::NodeTerm;

    fn preferring(many: usize) -> Constraints {
        let preferred = (0..many).map(|_| Weighted {
            weight: 1,
            term: NodeTerm::default(),
        });
        Constraints {
            preferred_terms: preferred.collect(),
            ..Constraints::default()
        }
    }

    fn steps(constraints: &Constraints) -> usize {
        let first = relaxed(constraints, SoftTaints::None);
        std::iter::successors(first, |last| relaxed(last, SoftTaints::None)).count()
    }

    #[test]
    fn preferences_go_one_by_one_as_long_as_there_are_not_absurdly_many() {
        assert_eq!(steps(&preferring(100)), 100);
        let absurd = steps(&preferring(20_000));
        assert!((200..1000).contains(&absurd), "{absurd} steps");
    }

    #[test]
    fn of_absurdly_many_required_terms_the_first_are_tried() {
        let constraints = Constraints {
            required_terms: vec![NodeTerm::default(); 20_000],
            ..Constraints::default()
        };
        assert_eq!(steps(&constraints), MANY - 1);
    }
}
