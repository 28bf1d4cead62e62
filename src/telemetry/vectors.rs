//! Counters, gauges and histograms whose number of labels is part of their type.
//!
//! The `prometheus` crate checks the number of label values when a sample is taken; here the compiler does, so no call can fail. Made by
//! [`Exposition`](super::Exposition), used by everyone who counts.

use prometheus::{CounterVec, GaugeVec, HistogramVec};

/// A family of counters with `N` labels.
#[derive(Debug, Clone)]
pub struct Counters<const N: usize>(pub(super) CounterVec);

impl<const N: usize> Counters<N> {
    /// Adds one.
    pub fn increment(&self, labels: [&str; N]) {
        self.add(labels, 1.0);
    }

    /// Adds `amount`; what is negative or not a number is left out, since a counter only grows.
    pub fn add(&self, labels: [&str; N], amount: f64) {
        if amount >= 0.0
            && let Ok(counter) = self.0.get_metric_with_label_values(&labels)
        {
            counter.inc_by(amount);
        }
    }

    /// Makes the series appear with its present value, at first 0.
    pub fn touch(&self, labels: [&str; N]) {
        self.add(labels, 0.0);
    }

    /// The present value, 0 for a series that was never touched.
    pub fn get(&self, labels: [&str; N]) -> f64 {
        self.0
            .get_metric_with_label_values(&labels)
            .map_or(0.0, |counter| counter.get())
    }
}

/// A family of gauges with `N` labels, for label sets that are few. Those that describe objects belong into a [`SeriesStore`](super::SeriesStore).
#[derive(Debug, Clone)]
pub struct Gauges<const N: usize>(pub(super) GaugeVec);

impl<const N: usize> Gauges<N> {
    /// Sets the value.
    pub fn set(&self, labels: [&str; N], value: f64) {
        if let Ok(gauge) = self.0.get_metric_with_label_values(&labels) {
            gauge.set(value);
        }
    }

    /// Moves the value by `delta`.
    pub fn add(&self, labels: [&str; N], delta: f64) {
        if let Ok(gauge) = self.0.get_metric_with_label_values(&labels) {
            gauge.add(delta);
        }
    }

    /// Removes the series; one that is not there is already removed.
    pub fn remove(&self, labels: [&str; N]) {
        let _ = self.0.remove_label_values(&labels);
    }

    /// The present value, 0 for a series that was never set.
    pub fn get(&self, labels: [&str; N]) -> f64 {
        self.0
            .get_metric_with_label_values(&labels)
            .map_or(0.0, |gauge| gauge.get())
    }
}

/// A family of histograms with `N` labels.
#[derive(Debug, Clone)]
pub struct Histograms<const N: usize>(pub(super) HistogramVec);

impl<const N: usize> Histograms<N> {
    /// Counts one value.
    pub fn observe(&self, labels: [&str; N], value: f64) {
        if let Ok(histogram) = self.0.get_metric_with_label_values(&labels) {
            histogram.observe(value);
        }
    }

    /// How many values were counted.
    pub fn count(&self, labels: [&str; N]) -> u64 {
        self.0
            .get_metric_with_label_values(&labels)
            .map_or(0, |histogram| histogram.get_sample_count())
    }
}
