//! An answer in the form the vectors record it.

use crate::scenario::{Scenario, pod_name};
use karpenter::resources::Quantity;
use karpenter::scheduling::{NewClaim, Pool, Results, labels};
use serde::Deserialize;
use std::collections::BTreeMap;

/// One recorded answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Answer {
    pub node_claims: Vec<Claim>,
    pub existing_nodes: BTreeMap<String, Vec<String>>,
    pub pod_errors: BTreeMap<String, String>,
    pub rejected_pods: BTreeMap<String, String>,
}

/// One new claim.
#[derive(Debug, Clone, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Claim {
    pub node_pool: String,
    pub pods: Vec<String>,
    pub requirements: Vec<Entry>,
    pub instance_types: Vec<PriceGroup>,
    pub instance_type_min_values: Option<u32>,
    pub requests: BTreeMap<String, Quantity>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub free_labels: Vec<String>,
    pub taints: Vec<String>,
    pub startup_taints: Vec<String>,
}

/// One requirement of a claim.
#[derive(Debug, Clone, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase", default)]
pub struct Entry {
    pub key: String,
    pub operator: String,
    pub values: Vec<String>,
    pub min_values: Option<u32>,
}

/// Instance types of one price.
#[derive(Debug, Clone, Default, Deserialize, PartialEq)]
pub struct PriceGroup {
    pub price: Option<f64>,
    pub names: Vec<String>,
}

impl Answer {
    /// How many pods have a place.
    pub fn placed(&self) -> usize {
        self.node_claims.iter().map(|claim| claim.pods.len()).sum::<usize>()
            + self.existing_nodes.values().map(Vec::len).sum::<usize>()
    }

    /// What we answer.
    pub fn of(results: &Results, scenario: &Scenario) -> Self {
        let mut node_claims: Vec<Claim> = results
            .new_claims
            .iter()
            .map(|claim| Claim::of(claim, scenario))
            .collect();
        node_claims.sort_by(|a, b| (&a.node_pool, &a.pods).cmp(&(&b.node_pool, &b.pods)));
        let names = |pods: &[std::sync::Arc<karpenter::scheduling::Pod>]| {
            let mut names: Vec<String> = pods.iter().map(|pod| pod_name(pod)).collect();
            names.sort();
            names
        };
        Self {
            node_claims,
            existing_nodes: results
                .existing
                .iter()
                .map(|at| (at.name.clone(), names(&at.pods)))
                .collect(),
            pod_errors: results
                .errors
                .iter()
                .map(|e| (pod_name(&e.pod), e.reason.to_string()))
                .collect(),
            rejected_pods: scenario
                .rejected
                .iter()
                .map(|(pod, findings)| (pod.clone(), karpenter::scheduling::validation::joined(findings)))
                .collect(),
        }
    }
}

impl Claim {
    fn of(claim: &NewClaim, scenario: &Scenario) -> Self {
        let problem = &scenario.problem;
        let pool = claim.pool_in(&problem.pools).unwrap();
        let mut pods: Vec<String> = claim.pods.iter().map(|pod| pod_name(pod)).collect();
        pods.sort();
        let specs = claim.requirements.to_specs();
        let (types, others): (Vec<_>, Vec<_>) = specs.into_iter().partition(|spec| spec.key == labels::INSTANCE_TYPE);
        let entry = |spec: karpenter::scheduling::Spec| Entry {
            key: spec.key,
            operator: spec.operator.as_str().to_owned(),
            values: spec.values,
            min_values: spec.min_values,
        };
        Self {
            node_pool: claim.pool.clone(),
            pods,
            requirements: others.into_iter().map(entry).collect(),
            instance_types: price_groups(claim, scenario),
            instance_type_min_values: types.first().and_then(|spec| spec.min_values),
            requests: claim
                .requests
                .iter()
                .map(|(name, quantity)| (name.to_owned(), quantity))
                .collect(),
            labels: claim.labels.clone(),
            annotations: annotations(claim),
            free_labels: Vec::new(),
            taints: taints(pool, |pool| &pool.taints),
            startup_taints: taints(pool, |pool| &pool.startup_taints),
        }
    }
}

fn annotations(claim: &NewClaim) -> BTreeMap<String, String> {
    let hidden = |key: &str, value: &str| {
        key.starts_with("karpenter.sh/nodepool-hash")
            || (key == "karpenter.sh/nodeclaim-min-values-relaxed" && value != "true")
    };
    let shown = claim.annotations.iter().filter(|(key, value)| !hidden(key, value));
    shown.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn taints(pool: &Pool, of: impl Fn(&Pool) -> &Vec<karpenter::scheduling::Taint>) -> Vec<String> {
    of(pool)
        .iter()
        .map(|taint| format!("{}={}:{}", taint.key, taint.value, taint.effect))
        .collect()
}

fn price_groups(claim: &NewClaim, scenario: &Scenario) -> Vec<PriceGroup> {
    let mut groups: Vec<PriceGroup> = Vec::new();
    for kind in claim.instance_types.iter() {
        let price = kind.price(&claim.requirements, &scenario.problem.well_known);
        match groups.last_mut() {
            Some(last) if last.price == price => last.names.push(kind.name.clone()),
            _ => groups.push(PriceGroup {
                price,
                names: vec![kind.name.clone()],
            }),
        }
    }
    for group in &mut groups {
        group.names.sort();
    }
    groups
}
