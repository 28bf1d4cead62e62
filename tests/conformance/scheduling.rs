//! Whole clusters: upstream's answer for a pass, and ours.

use crate::answer::Answer;
use crate::compare::{Level, differences};
use crate::feasibility;
use crate::folder;
use crate::phrases;
use crate::predicates;
use crate::report::{Outcome, Report};
use crate::scenario::{Catalogs, Scenario};
use karpenter::scheduling::{Problem, Results, Ties, solve};
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
            if let Some(outcome) = reasons(scenario, &catalogs) {
                report.note("scheduling, reasons in words", id, outcome);
            }
            report.note(
                &format!("scheduling/{family} (product)"),
                id,
                product(scenario, &catalogs),
            );
        }
    }
}

fn answer(scenario: &Value, field: &str) -> Answer {
    Answer::deserialize(&scenario[field]).unwrap()
}

/// Why pods were not placed, where upstream always says it in the same words and nothing else differs.
fn reasons(scenario: &Value, catalogs: &Catalogs) -> Option<Outcome> {
    let stable = scenario["stability"]["messagesStable"].as_bool() == Some(true);
    let same = scenario.get("deterministicSame").and_then(Value::as_bool) == Some(true);
    if !stable || !same || scenario["options"]["reservedCapacity"].as_bool() == Some(true) {
        return None;
    }
    let made = Scenario::read(scenario, catalogs, Ties::ByName);
    let (expected, ours) = (answer(scenario, "expect"), ours(&made));
    if expected.pod_errors.is_empty() || !differences(&expected, &ours, Level::Exact).is_empty() {
        return None;
    }
    let found = phrases::differences(&expected, &ours);
    if !found.is_empty() && phrases::about_shared_ports(&expected) {
        return Some(Outcome::DiffersBy("9-5"));
    }
    Some(Outcome::of(found))
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

/// As the product answers: equal on the recorded level, or different by a written rule; never infeasible, and no worse than both answers.
fn product(scenario: &Value, catalogs: &Catalogs) -> Outcome {
    if scenario["options"]["reservedCapacity"].as_bool() == Some(true) {
        return Outcome::NotYet;
    }
    let made = Scenario::read(scenario, catalogs, Ties::Product);
    let results = results(&made);
    let ours = Answer::of(&results, &made);
    let expected = answer(scenario, "expect");
    let level = Level::named(scenario["compare"].as_str().unwrap());
    let found = differences(&expected, &ours, level);
    let complaints = if made.problem.pools.is_empty() {
        Vec::new()
    } else {
        feasibility::complaints(&made.problem, &results)
    };
    if !complaints.is_empty() {
        return Outcome::Failed(format!("not feasible: {}", complaints.join("; ")));
    }
    let backwards = Answer::of(&results_of(&backwards(&made.problem), &made), &made);
    let by_order = differences(&ours, &backwards, Level::Exact);
    if !by_order.is_empty() {
        return Outcome::Failed(format!("the order of the input matters: {}", by_order.join("; ")));
    }
    if found.is_empty() {
        return Outcome::Passed;
    }
    let Some(rule) = predicates::in_both_modes(&made).or_else(|| predicates::in_product(&made)) else {
        return Outcome::Failed(found.join("; "));
    };
    let other = scenario.get("deterministic").map(|_| answer(scenario, "deterministic"));
    let both = [Some(&expected), other.as_ref()];
    let worth = |answer: &&Answer| answer.placed() - predicates::broken_spreads(answer, &made);
    let least = both.iter().flatten().map(worth).min().unwrap_or(0);
    let most = both
        .iter()
        .flatten()
        .map(|answer| answer.node_claims.len())
        .max()
        .unwrap_or(0);
    if ours.placed() < least || ours.node_claims.len() > most {
        let (placed, nodes) = (ours.placed(), ours.node_claims.len());
        return Outcome::Failed(format!(
            "by {rule} {placed} pods placed of {least}, on {nodes} new nodes of {most}: {}",
            found.join("; ")
        ));
    }
    Outcome::DiffersBy(rule)
}

fn ours(made: &Scenario) -> Answer {
    Answer::of(&results(made), made)
}

/// The same problem with every list the other way round.
fn backwards(problem: &Problem) -> Problem {
    let mut result = problem.clone();
    result.pods.reverse();
    result.nodes.reverse();
    result.daemons.reverse();
    result.pools.reverse();
    for pool in &mut result.pools {
        pool.instance_types = pool.instance_types.iter().rev().cloned().collect();
    }
    result
}

fn results(made: &Scenario) -> Results {
    results_of(&made.problem, made)
}

/// Our results. Without any usable pool nothing is tried, as in provisioning (scheduling 2-2).
fn results_of(problem: &Problem, made: &Scenario) -> Results {
    if problem.pools.is_empty() {
        Results::default()
    } else {
        solve(problem, &made.options, &|| true)
    }
}
