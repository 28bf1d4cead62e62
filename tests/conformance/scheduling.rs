//! Whole clusters: upstream's answer for a pass, and ours.

use crate::answer::Answer;
use crate::compare::{Level, differences};
use crate::folder;
use crate::predicates;
use crate::report::{Outcome, Report};
use crate::scenario::{Catalogs, Scenario};
use karpenter::scheduling::{Results, Ties, solve};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// Runs every scenario of the folder in both modes.
pub fn run(folder: &Path, report: &mut Report) {
    let families = folder::families(folder);
    if families.is_empty() {
        return;
    }
    let catalogs: Catalogs = serde_json::from_str(&folder::text(&folder.join("catalogs.json.gz"))).unwrap();
    for (family, scenarios) in families {
        for scenario in &scenarios {
            let id = scenario["id"].as_str().unwrap();
            report.note(
                &format!("scheduling/{family} (upstream's ties)"),
                id,
                by_name(scenario, &catalogs),
            );
        }
    }
}

fn answer(scenario: &Value, field: &str) -> Answer {
    Answer::deserialize(&scenario[field]).unwrap()
}

/// With ties by name the answer must be the deterministic one, exactly.
fn by_name(scenario: &Value, catalogs: &Catalogs) -> Outcome {
    if scenario["options"]["reservedCapacity"].as_bool() == Some(true) {
        return Outcome::NotYet;
    }
    let made = Scenario::read(scenario, catalogs, Ties::ByName);
    let ours = ours(&made);
    let same = scenario.get("deterministicSame").and_then(Value::as_bool) == Some(true);
    let expected = answer(scenario, if same { "expect" } else { "deterministic" });
    let found = differences(&expected, &ours, Level::Exact);
    match predicates::in_both_modes(&made) {
        Some(rule) if !found.is_empty() => Outcome::DiffersBy(rule),
        _ => Outcome::of(found),
    }
}

/// Our answer. Without any usable pool nothing is tried, as in provisioning (scheduling 2-2).
fn ours(made: &Scenario) -> Answer {
    if made.problem.pools.is_empty() {
        return Answer::of(&Results::default(), made);
    }
    Answer::of(&solve(&made.problem, &made.options, &|| true), made)
}
