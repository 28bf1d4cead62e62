//! Summaries with quantiles over a sliding window (surface T8): the `prometheus` crate has none, and the dashboards ask for the `quantile` label.
//!
//! The window is ten minutes in five age buckets of two minutes. Each age bucket is a histogram whose bounds grow by 2 %, with the exact smallest and
//! largest value: a quantile is within 1 % of a value that was observed, the extremes and single values are exact, and the memory does not grow with
//! the number of observations. `_sum` and `_count` are lifetime totals. Time is handed in.

use super::exposition::Family;
use super::text;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The quantiles that every summary shows.
pub(super) const QUANTILES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];

/// The window: this many buckets, of this many seconds each.
const AGES: i64 = 5;
const AGE_SECONDS: i64 = 120;

/// Neighbouring bounds differ by this factor.
const GROWTH: f64 = 1.02;
/// What is smaller counts as this.
const SMALLEST: f64 = 1e-9;

/// A family of summaries with `N` labels.
#[derive(Debug, Clone)]
pub struct Summaries<const N: usize> {
    name: Arc<str>,
    help: Arc<str>,
    labels: [&'static str; N],
    series: Arc<Mutex<BTreeMap<Vec<String>, Summary>>>,
}

impl<const N: usize> Summaries<N> {
    pub(super) fn new(name: &str, help: &str, labels: [&'static str; N]) -> Self {
        Self {
            name: name.into(),
            help: help.into(),
            labels,
            series: Arc::default(),
        }
    }

    /// Counts one value at `now`. What is not a finite number is left out.
    pub fn observe(&self, labels: [&str; N], value: f64, now: DateTime<Utc>) {
        if !value.is_finite() {
            return;
        }
        let key = labels.map(escaped).to_vec();
        self.lock().entry(key).or_default().observe(value, now);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<String>, Summary>> {
        // Counts may miss what a panicking thread was adding; nothing else can be wrong.
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    text::escape(&mut out, value);
    out
}

impl<const N: usize> Family for Summaries<N> {
    fn write(&self, out: &mut String, now: DateTime<Utc>) {
        let series = self.lock();
        if series.is_empty() {
            return;
        }
        text::header(out, &self.name, &self.help, "summary");
        for (values, summary) in series.iter() {
            let labels = || self.labels.iter().copied().zip(values.iter().map(String::as_str));
            let window = summary.window(now);
            for quantile in QUANTILES {
                let name = quantile.to_string();
                text::sample(
                    out,
                    &self.name,
                    labels().chain([("quantile", name.as_str())]),
                    window.quantile(quantile),
                );
            }
            text::sample(out, &format!("{}_sum", self.name), labels(), summary.sum);
            #[allow(clippy::cast_precision_loss)] // a count, far below 2^52
            text::sample(out, &format!("{}_count", self.name), labels(), summary.count as f64);
        }
    }
}

#[derive(Debug, Default)]
struct Summary {
    sum: f64,
    count: u64,
    /// Oldest first, each with the number of its two-minute span.
    ages: VecDeque<(i64, Values)>,
}

impl Summary {
    fn observe(&mut self, value: f64, now: DateTime<Utc>) {
        self.sum += value;
        self.count += 1;
        let span = now.timestamp().div_euclid(AGE_SECONDS);
        match self.ages.back_mut() {
            // A clock that was set back adds to the newest span, so that spans stay in order.
            Some((newest, values)) if *newest >= span => values.add(value),
            _ => {
                let mut values = Values::default();
                values.add(value);
                self.ages.push_back((span, values));
            }
        }
        while self.ages.len() > usize::try_from(AGES).unwrap_or(1) {
            self.ages.pop_front();
        }
    }

    fn window(&self, now: DateTime<Utc>) -> Values {
        let newest = now.timestamp().div_euclid(AGE_SECONDS);
        let mut all = Values::default();
        for (span, values) in &self.ages {
            if newest - span < AGES {
                all.merge(values);
            }
        }
        all
    }
}

/// Values by magnitude.
#[derive(Debug, Default)]
struct Values {
    count: u64,
    smallest: f64,
    largest: f64,
    by_magnitude: BTreeMap<i32, u64>,
}

impl Values {
    fn add(&mut self, value: f64) {
        self.extend(value, value, 1);
        #[allow(clippy::cast_possible_truncation)] // the logarithm of a finite number to base 1.02 is within ±36,000
        let magnitude = (value.max(SMALLEST).ln() / GROWTH.ln()).ceil() as i32;
        *self.by_magnitude.entry(magnitude).or_default() += 1;
    }

    fn merge(&mut self, other: &Self) {
        if other.count > 0 {
            self.extend(other.smallest, other.largest, other.count);
        }
        for (magnitude, count) in &other.by_magnitude {
            *self.by_magnitude.entry(*magnitude).or_default() += count;
        }
    }

    fn extend(&mut self, smallest: f64, largest: f64, count: u64) {
        self.smallest = if self.count == 0 {
            smallest
        } else {
            self.smallest.min(smallest)
        };
        self.largest = if self.count == 0 {
            largest
        } else {
            self.largest.max(largest)
        };
        self.count += count;
    }

    /// NaN when nothing was observed, as upstream shows it.
    fn quantile(&self, quantile: f64) -> f64 {
        if self.count == 0 {
            return f64::NAN;
        }
        if quantile <= 0.0 {
            return self.smallest;
        }
        if quantile >= 1.0 {
            return self.largest;
        }
        #[allow(clippy::cast_precision_loss)] // counts of ten minutes
        let rank = quantile * self.count as f64;
        let mut seen = 0.0;
        for (magnitude, count) in &self.by_magnitude {
            #[allow(clippy::cast_precision_loss)] // as above
            {
                seen += *count as f64;
            }
            if seen >= rank {
                // The middle of the bucket, in the logarithm.
                let value = GROWTH.powf(f64::from(*magnitude) - 0.5);
                return value.clamp(self.smallest, self.largest);
            }
        }
        self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_700_000_000 + seconds, 0).unwrap()
    }

    fn line(summaries: &Summaries<1>, now: DateTime<Utc>, start: &str) -> f64 {
        let mut out = String::new();
        summaries.write(&mut out, now);
        let found = out
            .lines()
            .find(|line| line.starts_with(start))
            .unwrap_or_else(|| panic!("no {start} in {out}"));
        found.rsplit(' ').next().unwrap().parse().unwrap()
    }

    #[test]
    fn quantiles_are_within_one_percent_and_the_extremes_are_exact() {
        let summaries = Summaries::new("m", "Help.", ["nodepool"]);
        for value in 1..=1000 {
            summaries.observe(["a"], f64::from(value), at(0));
        }
        assert!((line(&summaries, at(1), "m{nodepool=\"a\",quantile=\"0\"}") - 1.0).abs() < f64::EPSILON);
        assert!((line(&summaries, at(1), "m{nodepool=\"a\",quantile=\"1\"}") - 1000.0).abs() < f64::EPSILON);
        for (quantile, expected) in [("0.5", 500.0), ("0.9", 900.0), ("0.99", 990.0)] {
            let found = line(
                &summaries,
                at(1),
                &format!("m{{nodepool=\"a\",quantile=\"{quantile}\"}}"),
            );
            assert!((found - expected).abs() <= expected * 0.011, "{quantile}: {found}");
        }
    }

    #[test]
    fn a_single_value_is_every_quantile() {
        let summaries = Summaries::new("m", "Help.", ["nodepool"]);
        summaries.observe(["a"], 42.125, at(0));
        for quantile in QUANTILES {
            let found = line(
                &summaries,
                at(0),
                &format!("m{{nodepool=\"a\",quantile=\"{quantile}\"}}"),
            );
            assert!((found - 42.125).abs() < f64::EPSILON, "{quantile}: {found}");
        }
    }

    #[test]
    fn after_ten_minutes_the_quantiles_are_nan_and_the_totals_stay() {
        let summaries = Summaries::new("m", "Help.", ["nodepool"]);
        summaries.observe(["a"], 3.0, at(0));
        assert!((line(&summaries, at(470), "m{nodepool=\"a\",quantile=\"0.5\"}") - 3.0).abs() < f64::EPSILON);
        assert!(line(&summaries, at(600), "m{nodepool=\"a\",quantile=\"0.5\"}").is_nan());
        assert!((line(&summaries, at(600), "m_count") - 1.0).abs() < f64::EPSILON);
        assert!((line(&summaries, at(600), "m_sum") - 3.0).abs() < f64::EPSILON);
    }

    #[test]
    fn values_that_are_no_numbers_are_left_out() {
        let summaries = Summaries::new("m", "Help.", ["nodepool"]);
        summaries.observe(["a"], f64::NAN, at(0));
        summaries.observe(["a"], f64::INFINITY, at(0));
        let mut out = String::new();
        summaries.write(&mut out, at(0));
        assert_eq!(out, "");
    }

    #[test]
    fn zero_and_negative_values_are_counted_and_shown_as_they_are() {
        let summaries = Summaries::new("m", "Help.", ["nodepool"]);
        summaries.observe(["a"], 0.0, at(0));
        summaries.observe(["a"], -1.0, at(0));
        assert!((line(&summaries, at(0), "m{nodepool=\"a\",quantile=\"0\"}") + 1.0).abs() < f64::EPSILON);
        assert!(line(&summaries, at(0), "m{nodepool=\"a\",quantile=\"1\"}").abs() < f64::EPSILON);
    }
}
