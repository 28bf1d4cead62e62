//! Whether what is counted in a long life levels off, and which series should have gone with their objects.
//!
//! Pure; called by [`soak`](super::soak).

use super::soak::Sample;
use std::collections::BTreeSet;

/// How much may grow between the last third of the days and the third before, in parts of a hundred.
const TOLERATED: u64 = 10;

/// The lines of a scrape that are series.
pub(super) fn series(scrape: &str) -> impl Iterator<Item = &str> {
    scrape.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The sum of a family of gauges that are counts.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small count, written as a float by Prometheus"
)]
pub(super) fn sum(scrape: &str, family: &str) -> u64 {
    let of_family = series(scrape).filter(|line| line.split(['{', ' ']).next() == Some(family));
    let values = of_family.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum::<f64>() as u64
}

/// Series that name an object which is gone: each has to go with its object.
pub(super) fn about_gone<'s>(scrape: &'s str, gone: &'s BTreeSet<&str>) -> impl Iterator<Item = String> + 's {
    let about = series(scrape).filter(|line| line.split('"').skip(1).step_by(2).any(|value| gone.contains(value)));
    about.map(|line| format!("a series is about an object that is gone: {line}"))
}

/// What of a sample is looked at.
type Measure = fn(&Sample) -> u64;

/// What is larger at its most in the last third of the days than in the third before it.
pub(super) fn growth(samples: &[Sample]) -> Vec<String> {
    let third = (samples.len() / 3).max(1);
    let (before, last) = samples.split_at(samples.len().saturating_sub(third));
    let before = before.get(before.len().saturating_sub(third)..).unwrap_or_default();
    if before.is_empty() || last.is_empty() {
        return Vec::new();
    }
    let counts: [(&str, Measure, Allowance); 5] = [
        ("allocated bytes", |sample| sample.bytes, BYTES),
        // new ones are combinations of words: those that name objects are judged each day, one by one
        (
            "metric series",
            |sample| sample.series,
            Allowance { parts: 2, slack: 20 },
        ),
        ("queued keys", |sample| sample.queued, tolerated(5)),
        ("delayed keys", |sample| sample.delayed, tolerated(5)),
        ("objects", |sample| sample.objects, tolerated(20)),
    ];
    let most = |samples: &[Sample], of: Measure| samples.iter().map(of).max().unwrap_or_default();
    let grown = counts.into_iter().filter_map(|(what, of, allowance)| {
        let (then, now) = (most(before, of), most(last, of));
        (now > allowance.over(then))
            .then(|| format!("{what} do not level off: {then} at most before, {now} in the end"))
    });
    grown.collect()
}

/// How much more there may be than before.
#[derive(Debug, Clone, Copy)]
struct Allowance {
    /// In parts of a hundred.
    parts: u64,
    /// And so much that is not looked at.
    slack: u64,
}

/// Of bytes.
const BYTES: Allowance = tolerated(256 << 10);

const fn tolerated(slack: u64) -> Allowance {
    Allowance {
        parts: TOLERATED,
        slack,
    }
}

impl Allowance {
    /// What may be there where so much was before.
    fn over(self, before: u64) -> u64 {
        before
            .saturating_add(before / 100 * self.parts)
            .saturating_add(self.slack)
    }
}

/// Whether an operator holds more after many days than a fresh one after one.
pub(super) fn heavier(old: u64, fresh: u64) -> Option<String> {
    let words = format!("the operator held {old} bytes in the end, and a fresh one {fresh} after a day");
    (old > BYTES.over(fresh)).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(day: u32, bytes: u64, series: u64) -> Sample {
        Sample {
            day,
            bytes,
            series,
            queued: 0,
            delayed: 0,
            objects: 100,
            pools: 0,
            bought: 0,
        }
    }

    #[test]
    fn what_levels_off_is_well_and_what_grows_is_told() {
        let level: Vec<Sample> = (1..=9)
            .map(|n| day(n, 50_000_000 + u64::from(n % 2) * 1_000_000, 800))
            .collect();
        assert_eq!(growth(&level), Vec::<String>::new());
        let leak: Vec<Sample> = (1..=9).map(|n| day(n, u64::from(n) * 10_000_000, 800)).collect();
        assert_eq!(growth(&leak).len(), 1, "{:?}", growth(&leak));
        let series: Vec<Sample> = (1..=9).map(|n| day(n, 50_000_000, u64::from(n) * 100)).collect();
        assert!(growth(&series)[0].contains("series"));
    }

    #[test]
    fn an_operator_that_holds_much_more_than_a_fresh_one_is_told() {
        assert_eq!(heavier(1_700_000, 1_600_000), None);
        assert!(heavier(2_600_000, 1_600_000).unwrap().contains("2600000"));
    }

    #[test]
    fn a_series_about_an_object_that_is_gone_is_told() {
        let scrape = "# HELP a A.\na{name=\"general-1\",x=\"y\"} 1\na{name=\"general-2\"} 1\nb 3\nworkqueue_depth{name=\"q\"} 2\n";
        let gone = BTreeSet::from(["general-2"]);
        let told: Vec<String> = about_gone(scrape, &gone).collect();
        assert!(told.len() == 1 && told[0].contains("general-2"), "{told:?}");
        assert_eq!((series(scrape).count(), sum(scrape, "workqueue_depth")), (4, 2));
    }
}
