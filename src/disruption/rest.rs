//! When a disruption pass would find nothing that the last one did not (disruption 1.1).
//!
//! Differs: upstream looks at every node each ten seconds; here the verdict of a pass is remembered and holds until the cluster changes, or for a
//! minute, since budgets and protections also end by time alone.

use chrono::{DateTime, TimeDelta, Utc};

/// A verdict is believed for this long when nothing changes.
const BELIEVED_FOR: TimeDelta = TimeDelta::minutes(1);

/// What the last pass looked at, and that nothing was left to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The revision of the snapshot.
    pub revision: u64,
    /// When.
    pub at: DateTime<Utc>,
    /// Whether what it found may change without anything else changing.
    pub lasting: bool,
}

/// Whether the pass can be left out.
pub fn may_rest(last: Option<&Verdict>, revision: u64, now: DateTime<Utc>) -> bool {
    last.is_some_and(|last| {
        last.lasting && last.revision == revision && now.signed_duration_since(last.at) < BELIEVED_FOR
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_holds_until_something_changes_or_a_minute_has_passed() {
        let at = |second: i64| DateTime::from_timestamp(second, 0).unwrap();
        let last = Verdict {
            revision: 7,
            at: at(0),
            lasting: true,
        };
        assert!(!may_rest(None, 7, at(1)));
        assert!(may_rest(Some(&last), 7, at(59)));
        assert!(!may_rest(Some(&last), 7, at(60)));
        assert!(!may_rest(Some(&last), 8, at(1)));
        let passing = Verdict { lasting: false, ..last };
        assert!(!may_rest(Some(&passing), 7, at(1)));
    }
}
