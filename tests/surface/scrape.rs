//! The text of a scrape, taken apart and linted: what Prometheus would refuse, and what promtool would say, as far as upstream's names (surface §5)
//! can follow it: some of its gauges end with `_total` or `_count`.
//!
//! Written for this test, so that it shares nothing with the writer. [`lint`] names faults one by one; its own tests show each of them.

#[path = "exposition.rs"]
mod exposition;

use exposition::{Block, Sample, read};
use std::collections::{BTreeMap, BTreeSet};

/// One family as a scrape shows it.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Family {
    pub kind: &'static str,
    pub help: String,
    pub labels: BTreeSet<String>,
    pub bounds: Vec<f64>,
    /// Label values of each series.
    pub series: Vec<BTreeMap<String, String>>,
}

/// Reads a scrape in which nothing is wrong.
pub fn families(text: &str) -> BTreeMap<String, Family> {
    let (blocks, mut faults) = read(text);
    faults.extend(lint(&blocks));
    assert!(faults.is_empty(), "{faults:#?}\n{text}");
    blocks.iter().map(|block| (block.name.clone(), family(block))).collect()
}

/// The label that tells the parts of one series apart.
fn own_label(kind: &str) -> Option<&'static str> {
    match kind {
        "histogram" => Some("le"),
        "summary" => Some("quantile"),
        _ => None,
    }
}

fn family(block: &Block) -> Family {
    let own = own_label(block.kind);
    let mut family = Family {
        kind: block.kind,
        help: block.help.clone(),
        ..Family::default()
    };
    let mut bounds = Vec::new();
    for sample in &block.samples {
        let mut labels: BTreeMap<String, String> = sample.labels.iter().cloned().collect();
        let bound = own.and_then(|own| labels.remove(own));
        family.labels.extend(labels.keys().cloned());
        if !family.series.contains(&labels) {
            family.series.push(labels);
        }
        bounds.extend(bound.and_then(|bound| bound.parse::<f64>().ok()));
    }
    bounds.retain(|bound| bound.is_finite());
    bounds.sort_by(f64::total_cmp);
    bounds.dedup();
    family.bounds = bounds;
    family
}

/// Everything that is wrong with families that could be read.
fn lint(blocks: &[Block]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for block in blocks {
        let name = &block.name;
        let mut fault = |words: &str| faults.push(format!("{name} {words}"));
        if !seen.insert(name) {
            fault("begins twice");
        }
        if block.help.is_empty() {
            fault("has no help");
        }
        if !["counter", "gauge", "histogram", "summary"].contains(&block.kind) {
            fault("has no type");
        }
        if block.samples.is_empty() {
            fault("has no series");
        }
        if name.contains(':') || *name != name.to_lowercase() {
            fault("is no name of a metric");
        }
        if block.kind == "counter" && !name.ends_with("_total") {
            fault("is a counter and does not end with _total");
        }
        if [
            "_milliseconds",
            "_minutes",
            "_hours",
            "_days",
            "_kilobytes",
            "_megabytes",
            "_ms",
        ]
        .iter()
        .any(|unit| name.trim_end_matches("_total").ends_with(unit))
        {
            fault("is not in a base unit");
        }
        faults.extend(series(block));
        if block.kind == "histogram" {
            faults.extend(histogram(block));
        }
    }
    faults
}

/// What is wrong with the labels of a family, and series that are there twice.
fn series(block: &Block) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    let own = own_label(block.kind);
    let names = |sample: &Sample| -> Vec<String> {
        let all = sample.labels.iter().map(|(label, _)| label.clone());
        all.filter(|label| Some(label.as_str()) != own).collect()
    };
    let first = block.samples.first().map(names).unwrap_or_default();
    for sample in &block.samples {
        let name = &sample.name;
        let mut labels = sample.labels.clone();
        labels.sort();
        if labels.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b)) {
            faults.push(format!("{name} has a label twice: {:?}", sample.labels));
        }
        if !seen.insert((name.clone(), labels)) {
            faults.push(format!("{name} has a series twice: {:?}", sample.labels));
        }
        if names(sample) != first {
            faults.push(format!(
                "{name} has other labels, or in another order: {:?}",
                sample.labels
            ));
        }
        for reserved in ["le", "quantile", "__name__"] {
            if Some(reserved) != own && sample.labels.iter().any(|(label, _)| label == reserved) {
                faults.push(format!("{name} has the label {reserved}"));
            }
        }
    }
    faults
}

/// Whether each series of a histogram has rising, cumulative buckets up to all, and as many observations as it counts.
fn histogram(block: &Block) -> Vec<String> {
    let mut faults = Vec::new();
    let mut all: BTreeMap<Vec<(String, String)>, Buckets> = BTreeMap::new();
    for sample in &block.samples {
        let (own, mut rest): (Vec<_>, Vec<_>) = sample.labels.iter().cloned().partition(|(label, _)| label == "le");
        rest.sort();
        let buckets = all.entry(rest).or_default();
        match (sample.name.strip_prefix(block.name.as_str()), own.first()) {
            (Some("_bucket"), Some((_, bound))) => match bound.parse::<f64>() {
                Ok(bound) => buckets.counts.push((bound, sample.value)),
                Err(_) => faults.push(format!("{} has the bound {bound:?}", block.name)),
            },
            (Some("_count"), None) => buckets.count = Some(sample.value),
            (Some("_sum"), None) => buckets.sum = Some(sample.value),
            _ => faults.push(format!("{} is no part of the histogram {}", sample.name, block.name)),
        }
    }
    for (labels, buckets) in all {
        for fault in buckets.faults() {
            faults.push(format!("{}{labels:?} {fault}", block.name));
        }
    }
    faults
}

#[derive(Default)]
struct Buckets {
    counts: Vec<(f64, f64)>,
    count: Option<f64>,
    sum: Option<f64>,
}

impl Buckets {
    fn faults(&self) -> Vec<&'static str> {
        let mut faults = Vec::new();
        if !self.counts.is_sorted_by(|a, b| a.0 < b.0) {
            faults.push("has bounds that do not rise");
        }
        if !self.counts.is_sorted_by(|a, b| a.1 <= b.1) {
            faults.push("has buckets that are not cumulative");
        }
        let all = self.counts.last().filter(|(bound, _)| *bound == f64::INFINITY);
        match (all, self.count) {
            (None, _) => faults.push("has no bucket +Inf"),
            (_, None) => faults.push("has no _count"),
            (Some((_, all)), Some(count)) if (all - count).abs() > 0.0 => {
                faults.push("counts others than its bucket +Inf");
            }
            _ => {}
        }
        if self.sum.is_none() {
            faults.push("has no _sum");
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# HELP a_total What.\n# TYPE a_total counter\na_total{x=\"1\",y=\"2\"} 3\na_total{x=\"1\",y=\"3\"} 4\n\
        # HELP h_seconds How long.\n# TYPE h_seconds histogram\nh_seconds_bucket{x=\"1\",le=\"0.5\"} 1\nh_seconds_bucket{x=\"1\",le=\"+Inf\"} 2\n\
        h_seconds_sum{x=\"1\"} 3.5\nh_seconds_count{x=\"1\"} 2\n\
        # HELP s_seconds How long.\n# TYPE s_seconds summary\ns_seconds{quantile=\"0.5\"} NaN\ns_seconds_sum 0\ns_seconds_count 0\n";

    fn faults(text: &str) -> Vec<String> {
        let (blocks, mut faults) = read(text);
        faults.extend(lint(&blocks));
        faults
    }

    #[test]
    fn a_good_scrape_is_read_in_full() {
        let all = families(GOOD);
        assert_eq!(all.keys().collect::<Vec<_>>(), ["a_total", "h_seconds", "s_seconds"]);
        assert_eq!(all["a_total"].series.len(), 2);
        assert_eq!(all["h_seconds"].bounds, [0.5]);
        assert_eq!(all["h_seconds"].labels, BTreeSet::from(["x".to_owned()]));
        assert_eq!(all["s_seconds"].bounds, [0.5]);
        assert_eq!(all["s_seconds"].help, "How long.");
    }

    #[test]
    fn values_are_unescaped() {
        let text = "# HELP g A \\\\ in\\nit.\n# TYPE g gauge\ng{x=\"a\\\"b\\\\c\\nd, {}\"} -1.5e+09\n";
        let all = families(text);
        assert_eq!(all["g"].help, "A \\ in\nit.");
        assert_eq!(all["g"].series[0]["x"], "a\"b\\c\nd, {}");
    }

    #[test]
    fn each_fault_is_found() {
        let gauge = |rest: &str| format!("# HELP g What.\n# TYPE g gauge\n{rest}");
        let cases = [
            (GOOD.trim_end().to_owned(), "no line feed at the end"),
            (GOOD.replace("# HELP a_total What.\n", ""), "a_total has no help"),
            (GOOD.replace("# TYPE a_total counter\n", ""), "a_total has no type"),
            (
                GOOD.replace("a_total", "a"),
                "a is a counter and does not end with _total",
            ),
            (
                GOOD.replace("h_seconds", "h_milliseconds"),
                "h_milliseconds is not in a base unit",
            ),
            (GOOD.replace("a_total", "aB_total"), "aB_total is no name of a metric"),
            (GOOD.replace("y=\"3\"} 4", "y=\"2\"} 4"), "a_total has a series twice"),
            (GOOD.replace("x=\"1\",y=\"3\"", "y=\"3\",x=\"1\""), "in another order"),
            (GOOD.replace("x=\"1\",y=\"3\"", "x=\"1\""), "a_total has other labels"),
            (
                GOOD.replace("y=\"2\"", "x=\"2\"").replace("y=\"3\"", "x=\"3\""),
                "a_total has a label twice",
            ),
            (GOOD.replace("y=", "le="), "a_total has the label le"),
            (GOOD.replace("le=\"0.5\"} 1", "le=\"0.5\"} 7"), "not cumulative"),
            (
                GOOD.replace("le=\"+Inf\"} 2", "le=\"0.4\"} 2"),
                "bounds that do not rise",
            ),
            (GOOD.replace("le=\"+Inf\"} 2", "le=\"9\"} 2"), "has no bucket +Inf"),
            (GOOD.replace("le=\"0.5\"", "le=\"half\""), "has the bound \"half\""),
            (
                GOOD.replace("h_seconds_count{x=\"1\"} 2", "h_seconds_count{x=\"1\"} 3"),
                "counts others than its bucket +Inf",
            ),
            (GOOD.replace("h_seconds_count{x=\"1\"} 2\n", ""), "has no _count"),
            (GOOD.replace("h_seconds_sum{x=\"1\"} 3.5\n", ""), "has no _sum"),
            (format!("{GOOD}{GOOD}"), "a_total begins twice"),
            (format!("{GOOD}a_total{{x=\"9\",y=\"9\"}} 1\n"), "a_total begins twice"),
            (gauge(""), "g has no series"),
            (gauge("g{x=\"1} 1\n"), "cannot be read"),
            (gauge("g{x=1} 1\n"), "cannot be read"),
            (gauge("g{x=\"1\"} one\n"), "cannot be read"),
            (gauge("g{x=\"1\"}\n"), "cannot be read"),
            (gauge("g 1 2 3\n"), "cannot be read"),
            (gauge("g{x=\"a\\q\"} 1\n"), "cannot be read"),
            (gauge("9g 1\n"), "cannot be read"),
            (gauge("g 1\n\n"), "cannot be read"),
            (gauge("g 1\n").replace("gauge", "guage"), "cannot be read"),
            (
                "# TYPE g gauge\n# HELP g What.\ng 1\n".to_owned(),
                "g has its type before its help",
            ),
        ];
        assert_eq!(faults(GOOD), Vec::<String>::new());
        for (text, wanted) in cases {
            let found = faults(&text);
            assert!(
                found.iter().any(|fault| fault.contains(wanted)),
                "{wanted}: {found:?}\n{text}"
            );
        }
    }
}
