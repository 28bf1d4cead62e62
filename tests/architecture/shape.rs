//! Sizes and habits: files, `mod.rs`, names, exceptions from lints.

use crate::sources::{assert_none, rust_files};
use regex::Regex;

const OURS: &[&str] = &["src", "sandbox", "xtask", "tests", "benches"];

#[test]
fn no_file_is_longer_than_600_lines() {
    let long: Vec<String> = rust_files(OURS)
        .iter()
        .filter(|source| source.lines.len() > 600)
        .map(|source| format!("{}: {} lines", source.path, source.lines.len()))
        .collect();
    assert_none(&long, "files to split:");
}

#[test]
fn a_mod_file_documents_and_re_exports_and_nothing_else() {
    let logic = Regex::new(r"^\s*(pub(\([a-z]+\))?\s+)?(unsafe |const |async )*(fn|struct|enum|union|trait|impl|static|const|macro_rules!)\b").unwrap();
    let mut found = Vec::new();
    // Test files of tests/ are crates: their mod.rs are the vocabulary's entry, under the same rule.
    for source in rust_files(OURS)
        .iter()
        .filter(|source| source.path.ends_with("/mod.rs"))
    {
        for (index, line) in source.code.iter().enumerate().filter(|(_, line)| logic.is_match(line)) {
            found.push(format!("{}: {}", source.at(index), line.trim()));
        }
    }
    assert_none(&found, "logic in mod.rs:");
}

#[test]
fn no_file_is_named_after_nothing() {
    let vague = ["util", "utils", "helper", "helpers", "common", "manager", "misc"];
    let named: Vec<String> = rust_files(&["src", "sandbox", "xtask"])
        .iter()
        .filter(|source| {
            source
                .path
                .trim_end_matches(".rs")
                .split('/')
                .any(|part| vague.contains(&part))
        })
        .map(|source| source.path.clone())
        .collect();
    assert_none(&named, "a module is a noun of the domain:");
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    let silent: Vec<String> = rust_files(OURS)
        .iter()
        // Unit tests in a file of their own are told by their names.
        .filter(|source| source.product().next().is_some())
        .filter(|source| {
            !source
                .lines
                .iter()
                .find(|line| !line.trim().is_empty())
                .is_some_and(|line| line.starts_with("//!"))
        })
        .map(|source| source.path.clone())
        .collect();
    assert_none(&silent, "files that do not say what they are for:");
}

#[test]
fn every_exception_from_a_lint_has_its_reason() {
    let exception = Regex::new(r"#!?\[(cfg_attr\([^\]]*)?(allow|expect)\(").unwrap();
    let mut bare = Vec::new();
    for source in rust_files(OURS) {
        for index in 0..source.lines.len() {
            if !exception.is_match(&source.code[index]) {
                continue;
            }
            let end = (index..source.lines.len())
                .find(|at| source.code[*at].contains(']'))
                .unwrap_or(index);
            let explained = source.lines[index..=end]
                .iter()
                .any(|line| line.contains("//") || line.contains("reason ="));
            let above = index
                .checked_sub(1)
                .is_some_and(|before| source.lines[before].trim_start().starts_with("//"));
            if !explained && !above {
                bare.push(source.at(index));
            }
        }
    }
    assert_none(&bare, "exceptions without a reason:");
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest = std::fs::read_to_string(crate::sources::root().join("Cargo.toml")).unwrap();
    let reasons = std::fs::read_to_string(crate::sources::root().join("docs/adr/0002-dependencies.md")).unwrap();
    let list = manifest
        .split("[workspace.dependencies]")
        .nth(1)
        .and_then(|rest| rest.split("\n[").next())
        .unwrap();
    let name = Regex::new(r"(?m)^([a-z0-9_-]+) = ").unwrap();
    let ours = ["karpenter-provider-rackspace-spot", "sandbox"];
    let names = name
        .captures_iter(list)
        .map(|found| found[1].to_owned())
        .filter(|name| !ours.contains(&name.as_str()));
    let bare: Vec<String> = names.filter(|name| !reasons.contains(&format!("| {name} |"))).collect();
    assert_none(&bare, "dependencies without a row in docs/adr/0002-dependencies.md:");
}
