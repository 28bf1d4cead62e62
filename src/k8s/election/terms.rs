//! How long a lease, a renewal and a write may take; all follow from the lease's own length.

use std::time::Duration;

/// The terms of a lease. A write begun at the last moment is over before anybody else may hold the lease: renew deadline + write time-out < lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How long others leave the lease alone after they saw it renewed.
    pub lease: Duration,
    /// How long the holder may write after it sent its last renewal that was answered.
    pub renew_deadline: Duration,
    /// How often the holder renews.
    pub retry: Duration,
    /// How long a write may wait for its answer.
    pub write_timeout: Duration,
}

impl Terms {
    /// The terms of a lease of this length: the usual ones (15 s, 10 s, 2 s, 4 s) in proportion.
    pub fn of(lease: Duration) -> Self {
        let share = |of_fifteen: u32| lease.saturating_mul(of_fifteen).checked_div(15).unwrap_or_default();
        Self {
            lease,
            renew_deadline: share(10),
            retry: share(2),
            // longer than this is long enough, whatever the lease
            write_timeout: share(4).min(Duration::from_secs(4)),
        }
    }

    /// How often a candidate looks whether the lease is free. Differs: four times as often as upstream, so that a successor is there within the time
    /// of the lease after the holder's last renewal, and not up to a whole retry period later; it is one small read.
    pub fn look_every(&self) -> Duration {
        self.retry.checked_div(4).unwrap_or_default()
    }
}

impl Default for Terms {
    /// surface §6.4
    fn default() -> Self {
        Self::of(Duration::from_secs(15))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // surface §6.4, architecture §3.5
    #[test]
    fn the_usual_terms_are_upstreams_and_a_late_write_ends_before_the_lease() {
        let seconds = Duration::from_secs;
        let terms = Terms::default();
        let all = (terms.lease, terms.renew_deadline, terms.retry, terms.write_timeout);
        assert_eq!(all, (seconds(15), seconds(10), seconds(2), seconds(4)));
        for lease in [1, 2, 3, 15, 60, 600] {
            let terms = Terms::of(seconds(lease));
            assert!(terms.renew_deadline + terms.write_timeout < terms.lease, "{terms:?}");
            assert!(terms.retry * 3 < terms.renew_deadline, "{terms:?}");
        }
    }
}
