//! Every rule that code or tests cite is found in `docs/rules/`. The grammar is in `docs/rules/README.md`.

use crate::sources::{assert_none, root, rust_files};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const DOCUMENTS: &[&str] = &[
    "architecture",
    "disruption",
    "lifecycle",
    "rackspace-spot",
    "scheduling",
    "surface",
];

fn citation() -> Regex {
    // A letter before the name would make it another word: "consolidation disruption", but not "predisruption".
    Regex::new(r"(?:^|[^\w-])(architecture|disruption|lifecycle|rackspace-spot|scheduling|surface) (?:§?([0-9]+(?:[.-][0-9]+)*)|(T[0-9]+))\b").unwrap()
}

/// Document and number, the sign § left out.
type Rule = (String, String);

fn entries() -> BTreeMap<String, Vec<Rule>> {
    let heading = Regex::new(r"^### ([a-z-]+) §?(\S+)$").unwrap();
    let mut all = BTreeMap::new();
    for document in DOCUMENTS {
        let Ok(text) = fs::read_to_string(root().join(format!("docs/rules/{document}.md"))) else {
            continue;
        };
        let rules = text
            .lines()
            .filter_map(|line| heading.captures(line))
            .map(|m| (m[1].to_owned(), m[2].to_owned()));
        all.insert((*document).to_owned(), rules.collect());
    }
    all
}

#[test]
fn every_cited_rule_is_found_in_docs_rules() {
    let known: BTreeSet<Rule> = entries().into_values().flatten().collect();
    let citation = citation();
    let mut lost: BTreeMap<Rule, String> = BTreeMap::new();
    for source in rust_files(&["src", "sandbox", "xtask", "tests", "benches"]) {
        if source.path.starts_with("tests/architecture/") {
            continue;
        }
        for (index, line) in source.lines.iter().enumerate() {
            for found in citation.captures_iter(line) {
                let number = found.get(2).or(found.get(3)).map_or("", |number| number.as_str());
                let rule = (found[1].to_owned(), number.to_owned());
                if !known.contains(&rule) {
                    lost.entry(rule).or_insert_with(|| source.at(index));
                }
            }
        }
    }
    let findings: Vec<String> = lost
        .iter()
        .map(|((document, number), place)| format!("{document} {number}, first cited in {place}"))
        .collect();
    assert_none(&findings, "rules without an entry in docs/rules/<document>.md:");
}

#[test]
fn entries_are_sorted_unique_and_in_their_own_document() {
    let mut wrong = Vec::new();
    for (document, rules) in entries() {
        for (of, number) in &rules {
            if *of != document {
                wrong.push(format!("{document}.md holds {of} {number}"));
            }
        }
        for pair in rules.windows(2) {
            if order(&pair[0].1) >= order(&pair[1].1) {
                wrong.push(format!("{document}.md: {} stands before {}", pair[0].1, pair[1].1));
            }
        }
    }
    assert_none(&wrong, "entries in the wrong place:");
}

/// Traps first, then sections, each by number.
fn order(number: &str) -> (bool, Vec<u32>) {
    let digits = number.trim_start_matches('T');
    (
        digits.len() == number.len(),
        digits
            .split(['.', '-'])
            .map(|part| part.parse().unwrap_or(u32::MAX))
            .collect(),
    )
}

#[test]
fn every_entry_says_something() {
    let mut empty = Vec::new();
    for document in entries().keys() {
        let text = fs::read_to_string(root().join(format!("docs/rules/{document}.md"))).unwrap();
        for entry in text.split("\n### ").skip(1) {
            let (title, body) = entry.split_once('\n').unwrap_or((entry, ""));
            if body.trim().len() < 20 {
                empty.push(title.to_owned());
            }
        }
    }
    assert_none(&empty, "entries without words:");
}

#[test]
fn the_grammar_finds_what_it_should_and_nothing_else() {
    let citation = citation();
    let found = |text: &str| {
        citation
            .captures_iter(text)
            .map(|m| m[0].trim_matches([' ', '(', '`']).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found("// lifecycle 6.2, (scheduling 17-3) and `surface T21`"),
        ["lifecycle 6.2", "scheduling 17-3", "surface T21"]
    );
    assert_eq!(
        found("architecture §7.7, rackspace-spot §3.8"),
        ["architecture §7.7", "rackspace-spot §3.8"]
    );
    assert!(found("the lifecycle is 6 steps; disruption budgets; src/scheduling/x.rs 17").is_empty());
}
