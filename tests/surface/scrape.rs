//! The text of a scrape, taken apart by a library: what it refuses, Prometheus would refuse too.

use openmetrics_parser::prometheus::parse_prometheus;
use openmetrics_parser::{PrometheusType, PrometheusValue};
use std::collections::{BTreeMap, BTreeSet};

/// One family as a scrape shows it.
#[derive(Debug, Default, PartialEq)]
pub struct Family {
    pub kind: &'static str,
    pub help: String,
    pub labels: BTreeSet<String>,
    pub bounds: Vec<f64>,
    /// Label values of each series.
    pub series: Vec<BTreeMap<String, String>>,
}

/// Parses it, and lints what a parser lets through.
pub fn families(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'), "a scrape ends with a line feed");
    let exposition = parse_prometheus(text).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    let mut all = BTreeMap::new();
    for (name, parsed) in &exposition.families {
        let mut family = Family {
            kind: word(&parsed.family_type),
            help: parsed.help.clone(),
            labels: parsed.get_label_names().iter().cloned().collect(),
            ..Family::default()
        };
        for sample in parsed.iter_samples() {
            let labels = sample.get_labelset().unwrap();
            let series = labels
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            family.series.push(series);
            family.bounds = bounds(&sample.value);
        }
        lint(name, &family);
        all.insert(name.clone(), family);
    }
    headers(text);
    all
}

fn word(kind: &PrometheusType) -> &'static str {
    match kind {
        PrometheusType::Counter => "counter",
        PrometheusType::Gauge => "gauge",
        PrometheusType::Histogram => "histogram",
        PrometheusType::Summary => "summary",
        PrometheusType::Unknown => "unknown",
    }
}

fn bounds(value: &PrometheusValue) -> Vec<f64> {
    match value {
        PrometheusValue::Histogram(histogram) => {
            let counts: Vec<f64> = histogram.buckets.iter().map(|bucket| bucket.count.as_f64()).collect();
            assert!(counts.is_sorted(), "buckets are cumulative: {counts:?}");
            histogram
                .buckets
                .iter()
                .map(|bucket| bucket.upper_bound)
                .filter(|bound| bound.is_finite())
                .collect()
        }
        PrometheusValue::Summary(summary) => summary.quantiles.iter().map(|quantile| quantile.quantile).collect(),
        _ => Vec::new(),
    }
}

/// What promtool says of names and texts, as far as upstream's names (surface §5) can follow it: some of its gauges end with `_total` or `_count`.
fn lint(name: &str, family: &Family) {
    assert_ne!(family.kind, "unknown", "{name} has no type");
    assert!(!family.help.is_empty(), "{name} has no help");
    assert!(
        !name.contains(':') && name == name.to_lowercase(),
        "{name} is no metric name"
    );
    if family.kind == "counter" {
        assert!(name.ends_with("_total"), "the counter {name} does not end with _total");
    }
    for reserved in ["le", "quantile", "__name__"] {
        assert!(!family.labels.contains(reserved), "{name} has the label {reserved}");
    }
    let distinct: BTreeSet<&BTreeMap<String, String>> = family.series.iter().collect();
    assert_eq!(distinct.len(), family.series.len(), "{name} has a series twice");
}

/// Each family has its two comment lines once, and its samples follow them without a gap.
fn headers(text: &str) {
    let mut closed: BTreeSet<String> = BTreeSet::new();
    let mut open = String::new();
    for line in text.lines() {
        let name = match line.strip_prefix("# ") {
            Some(rest) => rest.split(' ').nth(1).unwrap().to_owned(),
            None => line.split(['{', ' ']).next().unwrap().to_owned(),
        };
        let belongs = name == open
            || ["_bucket", "_sum", "_count"]
                .iter()
                .any(|suffix| name.strip_suffix(suffix) == Some(open.as_str()));
        if !belongs {
            assert!(closed.insert(std::mem::replace(&mut open, name.clone())) || open.is_empty());
            assert!(!closed.contains(&name), "{name} begins twice");
        }
    }
}
