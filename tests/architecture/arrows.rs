//! The one way down between modules, and the purity of what decides.

use crate::sources::{Source, assert_none, rust_files};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// A module uses what is in its own stage or a later one.
const STAGES: &[&[&str]] = &[
    &["operator"],
    &["webhook", "controllers"],
    &["k8s", "cloud"],
    &["disruption", "lifecycle", "cluster", "pricing", "capacity"],
    &["scheduling"],
    &["resources", "api"],
    &["clock", "telemetry"],
];

/// Modules that decide: no I/O, no time, no chance.
const PURE: &[&str] = &[
    "disruption",
    "lifecycle",
    "cluster",
    "pricing",
    "capacity",
    "scheduling",
    "resources",
    "api",
];

/// What has no place in a pure module, and why.
const IMPURE: &[(&str, &str)] = &[
    (r"\basync\s+(fn|move|\{)|\.await\b", "it waits"),
    (r"\btokio(_util)?::", "it uses the runtime"),
    (
        r"\bkube::(Client|Api|client|runtime|Config)\b",
        "it talks to the API server",
    ),
    (r"\b(reqwest|axum|hyper)::", "it talks to the network"),
    (
        r"\bcrate::clock\b|\bSharedClock\b|\b(Utc|Instant|SystemTime|Timestamp)::now\b",
        "it reads a clock: take `now`",
    ),
    (r"\brand(_chacha)?::", "it takes chances"),
    (r"\bstd::(fs|env|process|thread)\b|\b(Tcp|Udp)[A-Z]", "it looks outside"),
    (r"\b(tracing::)?(debug|info|warn|error)!\s*\(", "it logs above trace"),
];

fn stage(module: &str) -> Option<usize> {
    STAGES.iter().position(|stage| stage.contains(&module))
}

/// Top-level modules that a file uses, with the line of each use.
fn uses(source: &Source) -> Vec<(usize, String)> {
    let single = Regex::new(r"\bcrate::([a-z_0-9]+)").unwrap();
    let group = Regex::new(r"\bcrate::\{([^;]*)\}").unwrap();
    let mut found = Vec::new();
    for (index, line) in source.code.iter().enumerate() {
        found.extend(single.captures_iter(line).map(|m| (index, m[1].to_owned())));
        found.extend(
            group
                .captures_iter(line)
                .flat_map(|m| first_names(&m[1]))
                .map(|name| (index, name)),
        );
    }
    found
}

/// The first segments of the paths in a `{…}` list.
fn first_names(list: &str) -> Vec<String> {
    let (mut depth, mut names, mut name) = (0, Vec::new(), String::new());
    for character in list.chars().chain([',']) {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(name.trim().split("::").next().unwrap_or_default().to_owned());
                name.clear();
            }
            other if depth == 0 => name.push(other),
            _ => {}
        }
    }
    names
}

#[test]
fn modules_use_only_what_is_to_the_right_of_them() {
    let mut broken = Vec::new();
    for source in rust_files(&["src"]) {
        let Some(from) = source.module().map(str::to_owned) else {
            continue;
        };
        let Some(here) = stage(&from) else {
            broken.push(format!("{}: module {from} has no place in the order", source.path));
            continue;
        };
        for (index, target) in uses(&source) {
            if stage(&target).is_some_and(|there| there < here) {
                broken.push(format!("{}: {from} uses {target}", source.at(index)));
            }
        }
    }
    assert_none(&broken, "a module uses what is left of it:");
}

#[test]
fn modules_of_one_stage_do_not_use_each_other_in_a_circle() {
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in rust_files(&["src"]) {
        if let Some(from) = source.module() {
            let targets = uses(&source).into_iter().map(|(_, target)| target);
            let known = targets.filter(|target| target != from && stage(target).is_some());
            edges.entry(from.to_owned()).or_default().extend(known);
        }
    }
    let reaches = |from: &str, goal: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(module) = open.pop() {
            for next in edges.get(&module).into_iter().flatten() {
                if next == goal {
                    return true;
                }
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        false
    };
    let circles: Vec<String> = edges.keys().filter(|module| reaches(module, module)).cloned().collect();
    assert_none(&circles, "modules that use each other in a circle:");
}

#[test]
fn what_decides_neither_waits_nor_looks_outside() {
    let rules: Vec<(Regex, &str)> = IMPURE
        .iter()
        .map(|(rule, why)| (Regex::new(rule).unwrap(), *why))
        .collect();
    let mut impure = Vec::new();
    for source in rust_files(&["src"]) {
        if !source.module().is_some_and(|module| PURE.contains(&module)) {
            continue;
        }
        for (index, line) in source.product() {
            for (rule, why) in &rules {
                if rule.is_match(line) {
                    impure.push(format!("{}: {why}: {}", source.at(index), line.trim()));
                }
            }
        }
    }
    assert_none(&impure, "a pure module does what only the borders may do:");
}

#[test]
fn every_module_of_the_library_has_its_place_in_the_order() {
    let modules: BTreeSet<String> = rust_files(&["src"])
        .iter()
        .filter_map(|source| source.module().map(str::to_owned))
        .collect();
    let lost: Vec<String> = modules.into_iter().filter(|module| stage(module).is_none()).collect();
    assert_none(&lost, "modules without a stage:");
}

#[test]
fn groups_of_imports_are_taken_apart() {
    assert_eq!(
        first_names("api::{a, b}, clock, k8s::x::{y, z}"),
        ["api", "clock", "k8s"]
    );
}
