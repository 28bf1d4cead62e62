//! For how long repetitions of an Event are dropped: the table that users read, upstream's windows, and the code (surface §4.1, §4.2).

use crate::events::product_sources;
use karpenter::operator::reference::EVENTS;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// What two minutes are where nothing is said.
const USUAL: &str = "2 min";
/// Each one is told.
const EACH: &str = "each";

/// Upstream's windows other than the usual one; the rest has two minutes.
const UPSTREAM: &[(&str, &[&str])] = &[
    ("<ConditionType>", &[EACH]),
    ("DisruptionBlocked", &[USUAL, "1 min"]),
    ("FailedScheduling", &["5 min"]),
    ("Finalized", &[EACH]),
    ("LeaderElection", &[EACH]),
    ("NoCompatibleInstanceTypes", &["1 min"]),
    ("Unconsolidatable", &["15 min"]),
];

/// Reasons that upstream does not have, and their windows if they are not the usual one.
const OURS: &[(&str, &[&str])] = &[("UnclaimedMachine", &["1 h"])];

type Windows = BTreeMap<String, BTreeSet<String>>;

/// The windows that the table names, by reason.
fn told() -> Windows {
    let time = Regex::new(r"\d+ (?:min|h)\b").unwrap();
    let row = |row: &karpenter::operator::reference::EventRow| {
        let named: BTreeSet<String> = time
            .find_iter(row.repeats)
            .map(|found| found.as_str().to_owned())
            .collect();
        let windows = if row.repeats.starts_with("each") && row.repeats.ends_with("is told") {
            BTreeSet::from([EACH.to_owned()])
        } else if row.reason == "NoPrice" {
            // what it remembers by itself lasts longer than any window
            assert!(named.is_empty() && row.repeats.starts_with("once"), "{row:?}");
            BTreeSet::from([USUAL.to_owned()])
        } else {
            assert!(!named.is_empty(), "no time in {row:?}");
            named
        };
        (row.reason.to_owned(), windows)
    };
    EVENTS.iter().map(row).collect()
}

/// The windows that the code gives, by reason: whatever is said between one Event and the next, or the end of the function.
fn given() -> (Windows, BTreeSet<String>) {
    let made =
        Regex::new(r#"Event::new\(\s*EventType::(?:Normal|Warning),\s*(?:"([A-Za-z]+)"|condition\.to_owned\(\))"#)
            .unwrap();
    let within = Regex::new(r"\.within\(\s*(?:Window::For\((\w+)\)|Window::(None)|(\w+))\s*\)").unwrap();
    let mut windows = Windows::new();
    let mut limited = BTreeSet::new();
    for source in product_sources() {
        let found: Vec<_> = made.captures_iter(&source).collect();
        for (at, one) in found.iter().enumerate() {
            let whole = one.get(0).unwrap();
            let next = found
                .get(at + 1)
                .map_or(source.len(), |next| next.get(0).unwrap().start());
            let part = &source[whole.end()..next];
            let part = part.split("\n}\n").next().unwrap();
            let reason = one.get(1).map_or("<ConditionType>", |reason| reason.as_str());
            let window = match within.captures(part) {
                None => USUAL.to_owned(),
                Some(said) if said.get(2).is_some() => EACH.to_owned(),
                Some(said) => constant(&source, said.get(1).or(said.get(3)).unwrap().as_str()),
            };
            windows.entry(reason.to_owned()).or_default().insert(window);
            if part.contains(".limited(Limit::NOMINATION)") {
                limited.insert(reason.to_owned());
            }
        }
    }
    (windows, limited)
}

/// The time that a constant of a source stands for.
fn constant(source: &str, name: &str) -> String {
    let value = Regex::new(&format!(
        r"const {name}: (?:Duration|Window) = .*Duration::from_(mins|hours)\((\d+)\)"
    ))
    .unwrap();
    let found = value
        .captures(source)
        .unwrap_or_else(|| panic!("{name} is no constant of the same file"));
    format!("{} {}", &found[2], if &found[1] == "mins" { "min" } else { "h" })
}

#[test]
fn the_table_tells_the_windows_that_the_code_gives() {
    let (mut code, limited) = given();
    // the lease's Event is written past the recorder, so nothing drops it
    assert!(!code.contains_key("LeaderElection"));
    code.insert("LeaderElection".to_owned(), BTreeSet::from([EACH.to_owned()]));
    assert_eq!(told(), code);
    let told_limited = EVENTS
        .iter()
        .filter(|row| row.repeats.contains("5 a second in all, 10 at once"));
    assert_eq!(
        told_limited.map(|row| row.reason.to_owned()).collect::<BTreeSet<_>>(),
        limited
    );
}

#[test]
fn the_windows_are_upstreams() {
    let known: BTreeMap<&str, &[&str]> = UPSTREAM.iter().chain(OURS).copied().collect();
    let table = told();
    for reason in known.keys() {
        assert!(table.contains_key(*reason), "{reason} is not told at all");
    }
    for (reason, windows) in table {
        let wanted = known.get(reason.as_str()).copied().unwrap_or(&[USUAL]);
        let wanted: BTreeSet<String> = wanted.iter().map(|&text| text.to_owned()).collect();
        assert_eq!(windows, wanted, "{reason}");
    }
}
