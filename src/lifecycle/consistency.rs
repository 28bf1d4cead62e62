//! Decides whether a node is what its claim says it is (lifecycle 8.2): a machine much smaller than what was paid for is told of.
//!
//! Called by the consistency controller for initialized claims.

use crate::resources::{Quantity, ResourceList};
use chrono::{DateTime, TimeDelta, Utc};
use std::fmt;

/// A claim is looked at once in this time (lifecycle 8.1).
pub const PERIOD: TimeDelta = TimeDelta::minutes(10);
/// A node with less than this share of what is expected is not what was asked for (lifecycle 8.2).
const LEAST_SHARE: f64 = 0.90;

/// A resource of which the node has too little.
#[derive(Debug, Clone, PartialEq)]
pub struct Shortfall {
    /// The resource.
    pub resource: String,
    /// What the claim says.
    pub expected: Quantity,
    /// What the node has.
    pub found: Quantity,
    share: f64,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (expected, found) = (&self.expected, &self.found);
        let percent = self.share * 100.0;
        write!(
            f,
            "expected {expected} of resource {}, but found {found} ({percent:.1}% of expected)",
            self.resource
        )
    }
}

/// The resources that were asked for and of which the node has too little, by name.
pub fn shortfalls(requests: &ResourceList, claim: &ResourceList, node: &ResourceList) -> Vec<Shortfall> {
    let asked = requests.iter().filter(|(_, quantity)| !quantity.is_zero());
    let short = asked.filter_map(|(name, _)| {
        let expected = claim.get(name).filter(|quantity| !quantity.is_zero())?;
        let found = node.amount(name);
        let share = found.approximate() / expected.approximate();
        (share < LEAST_SHARE).then(|| Shortfall {
            resource: name.to_owned(),
            expected,
            found,
            share,
        })
    });
    short.collect()
}

/// When the claim is to be looked at next, if it was looked at too lately to do so now.
pub fn not_before(last: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let next = last?.checked_add_signed(PERIOD)?;
    (now < next).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(cpu: i64, mebibytes: i64) -> ResourceList {
        ResourceList::new()
            .with("cpu", Quantity::units(cpu))
            .with("memory", Quantity::bytes(mebibytes << 20))
    }

    fn texts(requests: &ResourceList, claim: &ResourceList, node: &ResourceList) -> Vec<String> {
        shortfalls(requests, claim, node)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_node_may_lack_a_tenth_of_what_is_expected_and_no_more() {
        let asked = list(1, 1);
        assert!(texts(&asked, &list(4, 1000), &list(4, 900)).is_empty());
        assert_eq!(
            texts(&asked, &list(4, 1000), &list(2, 899)),
            [
                "expected 4 of resource cpu, but found 2 (50.0% of expected)",
                "expected 1000Mi of resource memory, but found 899Mi (89.9% of expected)"
            ]
        );
    }

    #[test]
    fn only_what_was_asked_for_and_is_expected_counts() {
        let asked = ResourceList::new()
            .with("cpu", Quantity::ZERO)
            .with("example.com/gpu", Quantity::units(1));
        assert!(texts(&asked, &list(4, 1000), &list(1, 1)).is_empty());
    }

    #[test]
    fn a_claim_is_looked_at_every_ten_minutes() {
        let at = |second: i64| DateTime::from_timestamp(second, 0).unwrap();
        assert_eq!(not_before(None, at(5)), None);
        assert_eq!(not_before(Some(at(0)), at(599)), Some(at(600)));
        assert_eq!(not_before(Some(at(0)), at(600)), None);
    }
}
