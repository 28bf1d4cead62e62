//! Every scenario of the catalogue is in docs/scenarios/scheduling.md once, and the test that it names is there and names it.

use crate::sources::{assert_none, root};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The ids in a text; "A-1 to A-3" are three.
fn ids(text: &str) -> Vec<String> {
    let id = Regex::new(r"\b([A-Z]+-R?)(\d+|U)\b(?:\s+to\s+([A-Z]+-R?)(\d+)\b)?").unwrap();
    let mut all = Vec::new();
    for found in id.captures_iter(text) {
        let (prefix, first) = (&found[1], &found[2]);
        match (first.parse::<u32>(), found.get(3), found.get(4)) {
            (Ok(first), Some(same), Some(last)) if same.as_str() == prefix => {
                let last: u32 = last.as_str().parse().unwrap();
                all.extend((first..=last).map(|number| format!("{prefix}{number}")));
            }
            _ => all.push(format!("{prefix}{first}")),
        }
    }
    all
}

/// A row of the page: ids, words, place.
struct Row {
    ids: Vec<String>,
    words: String,
    place: String,
}

fn section<'a>(page: &'a str, title: &str) -> &'a str {
    let after = page.split(&format!("\n## {title}\n")).nth(1);
    after.unwrap_or_default().split("\n## ").next().unwrap_or_default()
}

fn rows(section: &str) -> Vec<Row> {
    let cells = |line: &str| -> Option<Row> {
        let cells: Vec<&str> = line
            .strip_prefix('|')?
            .strip_suffix('|')?
            .split('|')
            .map(str::trim)
            .collect();
        let [listed, words, place] = cells.try_into().ok()?;
        let listed = ids(listed);
        (!listed.is_empty()).then(|| Row {
            ids: listed,
            words: words.to_owned(),
            place: place.to_owned(),
        })
    };
    section.lines().filter_map(cells).collect()
}

fn page() -> String {
    fs::read_to_string(root().join("docs/scenarios/scheduling.md")).unwrap()
}

#[test]
fn every_scenario_is_in_one_row() {
    let page = page();
    let all: BTreeSet<String> = ids(section(&page, "All ids")).into_iter().collect();
    assert!(all.len() > 800, "only {} ids", all.len());
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows(section(&page, "Covered"))
        .into_iter()
        .chain(rows(section(&page, "Not of the scheduling core")))
    {
        for id in row.ids {
            *times.entry(id).or_default() += 1;
        }
    }
    let listed: BTreeSet<String> = times.keys().cloned().collect();
    let mut wrong: Vec<String> = all.symmetric_difference(&listed).cloned().collect();
    wrong.extend(
        times
            .into_iter()
            .filter(|(_, times)| *times != 1)
            .map(|(id, times)| format!("{id}, {times} times")),
    );
    assert_none(
        &wrong,
        "scenarios that are not in exactly one row of docs/scenarios/scheduling.md:",
    );
}

#[test]
fn every_row_names_a_test_that_names_its_scenarios() {
    let mut wrong = Vec::new();
    for row in rows(section(&page(), "Covered")) {
        let text = fs::read_to_string(root().join(&row.place)).unwrap_or_default();
        let name = row.words.replace(' ', "_");
        let Some(body) = text.split(&format!("fn {name}(")).nth(1) else {
            wrong.push(format!("{} has no test {name}", row.place));
            continue;
        };
        let body = body.split("#[test]").next().unwrap_or_default();
        let named: BTreeSet<String> = ids(body).into_iter().collect();
        for id in row.ids.iter().filter(|id| !named.contains(*id)) {
            wrong.push(format!("{name} does not name {id}"));
        }
    }
    assert_none(&wrong, "rows of docs/scenarios/scheduling.md that say what is not so:");
}

#[test]
fn what_is_elsewhere_is_there() {
    let mut wrong = Vec::new();
    for row in rows(section(&page(), "Not of the scheduling core")) {
        let reason = ["not offered", "not yet"].contains(&row.place.as_str());
        if !reason && !root().join(&row.place).exists() {
            wrong.push(row.place);
        }
    }
    assert_none(&wrong, "places that do not exist:");
}

#[test]
fn ranges_are_read_as_people_mean_them() {
    assert_eq!(
        ids("A-1, B-2 to B-4, NPR-R1 and ERR-U"),
        ["A-1", "B-2", "B-3", "B-4", "NPR-R1", "ERR-U"]
    );
    assert!(ids("scheduling 17-3, x86-64").is_empty());
}
