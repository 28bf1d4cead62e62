//! How many pods each ReplicaSet of a Deployment may have next. Pure arithmetic.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// One ReplicaSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Share {
    /// What it is told.
    pub(crate) wished: i32,
    /// How many of its pods are available.
    pub(crate) available: i32,
    /// How many of its pods exist, ending ones included.
    pub(crate) existing: i32,
}

/// How one set is replaced by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// All old pods end before the first new one starts.
    Recreate,
    /// So many more than wished, so many fewer than wished.
    Rolling { surge: i32, unavailable: i32 },
}

/// Rounding of a percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    Up,
    Down,
}

/// A number, or a percentage of the wished number.
pub(crate) fn share(value: Option<&IntOrString>, total: i32, round: Round) -> i32 {
    match value {
        Some(IntOrString::Int(number)) => (*number).max(0),
        Some(IntOrString::String(text)) => percent(text.trim_end_matches('%').parse().unwrap_or(0), total, round),
        None => percent(25, total, round),
    }
}

fn percent(percent: i64, total: i32, round: Round) -> i32 {
    let hundredfold = percent.max(0).saturating_mul(i64::from(total));
    let extra = if round == Round::Up { 99 } else { 0 };
    i32::try_from(hundredfold.saturating_add(extra) / 100).unwrap_or(i32::MAX)
}

impl Strategy {
    /// A rolling update that can move at all.
    pub(crate) fn rolling(surge: i32, unavailable: i32) -> Self {
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        Self::Rolling { surge, unavailable }
    }
}

/// The next numbers: of the newest set, and of the old ones, oldest first.
pub(crate) fn next(strategy: Strategy, wished: i32, newest: &Share, old: &[Share]) -> (i32, Vec<i32>) {
    match strategy {
        Strategy::Recreate => {
            let over = old.iter().all(|s| s.existing == 0 && s.wished == 0);
            (
                if over { wished } else { newest.wished.min(wished) },
                vec![0; old.len()],
            )
        }
        Strategy::Rolling { surge, unavailable } => {
            let up = grown(wished, surge, newest, old);
            (up, shrunk(wished, unavailable, newest, old))
        }
    }
}

fn sum(values: impl Iterator<Item = i32>) -> i32 {
    values.fold(0, i32::saturating_add)
}

fn grown(wished: i32, surge: i32, newest: &Share, old: &[Share]) -> i32 {
    if newest.wished >= wished {
        return wished;
    }
    let total = newest.wished.saturating_add(sum(old.iter().map(|s| s.wished)));
    let room = wished.saturating_add(surge).saturating_sub(total).max(0);
    newest
        .wished
        .saturating_add(room.min(wished.saturating_sub(newest.wished)))
}

fn shrunk(wished: i32, unavailable: i32, newest: &Share, old: &[Share]) -> Vec<i32> {
    let least = wished.saturating_sub(unavailable).max(0);
    let all = newest.wished.saturating_add(sum(old.iter().map(|s| s.wished)));
    let not_up = newest.wished.saturating_sub(newest.available).max(0);
    let mut budget = all.saturating_sub(least).saturating_sub(not_up).max(0);
    let mut next: Vec<i32> = old.iter().map(|s| s.wished).collect();
    // Pods that do not work go first: nobody misses them.
    for (number, share) in next.iter_mut().zip(old) {
        let broken = number.saturating_sub(share.available).max(0).min(budget);
        *number = number.saturating_sub(broken);
        budget = budget.saturating_sub(broken);
    }
    let available = newest.available.saturating_add(sum(old.iter().map(|s| s.available)));
    let mut spare = available.saturating_sub(least).max(0).min(budget);
    for number in &mut next {
        let going = (*number).min(spare);
        *number = number.saturating_sub(going);
        spare = spare.saturating_sub(going);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share_of(wished: i32, available: i32) -> Share {
        Share {
            wished,
            available,
            existing: wished,
        }
    }

    #[test]
    fn percentages_round_up_for_surge_and_down_for_unavailable() {
        let quarter = IntOrString::String("25%".into());
        assert_eq!(
            (
                share(Some(&quarter), 10, Round::Up),
                share(Some(&quarter), 10, Round::Down)
            ),
            (3, 2)
        );
        assert_eq!((share(None, 1, Round::Up), share(None, 1, Round::Down)), (1, 0));
        assert_eq!(share(Some(&IntOrString::Int(4)), 10, Round::Up), 4);
        assert_eq!(
            Strategy::rolling(0, 0),
            Strategy::Rolling {
                surge: 0,
                unavailable: 1
            }
        );
    }

    #[test]
    fn a_rolling_update_stays_within_surge_and_unavailable_and_ends() {
        let strategy = Strategy::rolling(1, 0);
        let (mut newest, mut old) = (share_of(0, 0), share_of(4, 4));
        for _ in 0..40 {
            let (up, down) = next(strategy, 4, &newest, std::slice::from_ref(&old));
            let before = (newest.wished, old.wished);
            (newest.wished, old.wished) = (up, down[0]);
            old.available = old.available.min(old.wished);
            assert!(newest.wished + old.wished <= 5, "surge");
            assert!(newest.available + old.available >= 4, "unavailable");
            if before == (newest.wished, old.wished) {
                newest.available = newest.wished;
            }
        }
        assert_eq!((newest.wished, old.wished), (4, 0));
    }

    #[test]
    fn recreate_waits_for_the_last_old_pod() {
        let mut old = share_of(3, 3);
        assert_eq!(
            next(Strategy::Recreate, 3, &share_of(0, 0), std::slice::from_ref(&old)),
            (0, vec![0])
        );
        old.wished = 0;
        assert_eq!(
            next(Strategy::Recreate, 3, &share_of(0, 0), std::slice::from_ref(&old)),
            (0, vec![0])
        );
        old.existing = 0;
        assert_eq!(
            next(Strategy::Recreate, 3, &share_of(0, 0), std::slice::from_ref(&old)),
            (3, vec![0])
        );
    }
}
