//! What answers cost when they were last looked at: `recorded.json` beside this file. Neither nodes nor price may rise.

use karpenter::scheduling::{Problem, Results};
use serde_json::Value;

/// What is recorded of a case.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    /// Claims to create.
    pub nodes: usize,
    /// Dollars per hour of all of them.
    pub price_per_h: f64,
}

/// What is recorded of a case.
pub fn of(case: &str) -> Option<Record> {
    let all: Value = serde_json::from_str(include_str!("recorded.json")).expect("JSON");
    let record = all.get(case)?;
    Some(Record {
        nodes: usize::try_from(record["nodes"].as_u64()?).ok()?,
        price_per_h: record["price_per_h"].as_f64()?,
    })
}

/// Dollars per hour of all claims.
pub fn price(results: &Results, problem: &Problem) -> f64 {
    let prices = results
        .new_claims
        .iter()
        .filter_map(|claim| claim.price(&problem.well_known));
    prices.sum()
}

impl Record {
    /// What is worse than recorded.
    pub fn complaint(&self, results: &Results, problem: &Problem) -> Option<String> {
        let (nodes, price) = (results.new_claims.len(), price(results, problem));
        // Sums of prices differ in the last digits with the order of claims.
        let dearer = price > self.price_per_h * (1.0 + 1e-9);
        (nodes > self.nodes || dearer).then(|| {
            format!(
                "{nodes} nodes for {price} an hour; recorded: {} for {}",
                self.nodes, self.price_per_h
            )
        })
    }
}
