//! The docs: generated tables are up to date, and the runbook has its paragraph for every condition, Event and alert.

use karpenter::operator::reference::{
    CONDITIONS, EVENTS, conditions_table, events_table, metrics, metrics_table, settings_table,
};
use regex::Regex;
use std::collections::BTreeSet;
use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_generated_tables_are_up_to_date() {
    for (path, wanted) in [
        ("docs/reference/metrics.md", metrics_table().unwrap()),
        ("docs/reference/settings.md", settings_table()),
        ("docs/reference/events.md", events_table()),
        ("docs/reference/conditions.md", conditions_table()),
    ] {
        assert!(
            read(path) == wanted,
            "{path} is not what the code says: run `make generate`"
        );
    }
}

/// The headings of the runbook's paragraphs, each with what stands under it.
fn paragraphs() -> Vec<(String, String)> {
    let text = read("docs/runbook.md");
    let mut all: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            all.push((heading.to_owned(), String::new()));
        } else if line.starts_with('#') {
            all.push((String::new(), String::new()));
        } else if let Some((_, body)) = all.last_mut() {
            body.push_str(line);
            body.push('\n');
        }
    }
    all
}

/// What the headings are about: the words between backticks.
fn subjects() -> BTreeSet<String> {
    let quoted = Regex::new("`([^`]+)`").unwrap();
    let mut all = BTreeSet::new();
    for (heading, body) in paragraphs() {
        for found in quoted.captures_iter(&heading) {
            assert!(body.trim().len() > 60, "{heading:?} says nothing");
            assert!(all.insert(found[1].to_owned()), "{} has two paragraphs", &found[1]);
        }
    }
    all
}

#[test]
fn every_condition_event_and_alert_has_its_paragraph_and_every_paragraph_its_subject() {
    let conditions = CONDITIONS
        .iter()
        .map(|row| format!("{} {}={} {}", row.kind, row.type_, row.status, row.reason));
    let events = EVENTS.iter().map(|row| row.reason.to_owned());
    let alerts = alerts().into_iter().map(|alert| alert.name);
    let wanted: BTreeSet<String> = conditions.chain(events).chain(alerts).collect();
    let present = subjects();
    let missing: Vec<_> = wanted.difference(&present).collect();
    let idle: Vec<_> = present.difference(&wanted).collect();
    assert!(
        missing.is_empty() && idle.is_empty(),
        "no paragraph: {missing:#?}\nno subject: {idle:#?}"
    );
}

#[derive(serde::Deserialize)]
struct Alert {
    #[serde(rename = "alert")]
    name: String,
    expr: String,
    annotations: std::collections::BTreeMap<String, String>,
}

fn alerts() -> Vec<Alert> {
    serde_saphyr::from_str(&read("charts/karpenter/files/alerts.yaml")).unwrap()
}

#[test]
fn alerts_ask_for_families_and_labels_that_exist() {
    let families = metrics().unwrap();
    let word = Regex::new(r"\b(?:karpenter|operator|controller_runtime|leader_election)_[a-z_]+\b").unwrap();
    let matcher = Regex::new("([a-z_]+)=").unwrap();
    for alert in alerts() {
        assert!(alert.annotations["summary"].ends_with('.'), "{}", alert.name);
        let mut found = 0;
        for name in word.find_iter(&alert.expr).map(|found| found.as_str()) {
            let family = families.iter().find(|family| family.name == name);
            let family = family.unwrap_or_else(|| panic!("{} asks for {name}, which nobody shows", alert.name));
            found += 1;
            for label in matcher.captures_iter(&alert.expr) {
                assert!(
                    family.labels.contains(&label[1].to_owned()),
                    "{name} has no label {}",
                    &label[1]
                );
            }
        }
        assert!(found > 0, "{} asks for nothing", alert.name);
    }
}
