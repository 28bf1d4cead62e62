//! The bucket lists of surface §5.
//!
//! Relied on by the declarations of this module; dashboards aggregate over `le`, so every number is part of the interface.

/// The list "D": durations from milliseconds to ten minutes.
pub(super) const DURATIONS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 120.0,
    150.0, 300.0, 450.0, 600.0,
];

/// What Prometheus' libraries use when nothing is said.
pub(super) const DEFAULT: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Node lifetimes, 15 minutes to 30 days (surface §5.1).
pub(super) const LIFETIMES: &[f64] = &[
    900.0,
    1800.0,
    2700.0,
    3600.0,
    7200.0,
    14400.0,
    21600.0,
    28800.0,
    36000.0,
    43200.0,
    57600.0,
    72000.0,
    86400.0,
    172_800.0,
    259_200.0,
    432_000.0,
    864_000.0,
    1_296_000.0,
    1_728_000.0,
    2_160_000.0,
    2_592_000.0,
];

/// `count` bounds, each `factor` times the one before.
pub(super) fn exponential(start: f64, factor: f64, count: usize) -> Vec<f64> {
    std::iter::successors(Some(start), |bound| Some(bound * factor))
        .take(count)
        .collect()
}
