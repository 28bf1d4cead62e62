//! Whether two answers are equal on a level of the README, and where not.

use crate::answer::{Answer, Claim};
use karpenter::resources::Quantity;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

const ZONE: &str = "topology.kubernetes.io/zone";

/// How closely answers must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Exact,
    Zones,
    Shape,
    Counts,
    Invariants,
}

impl Level {
    pub fn named(name: &str) -> Self {
        match name {
            "exact" => Self::Exact,
            "zones" => Self::Zones,
            "shape" => Self::Shape,
            "counts" => Self::Counts,
            "invariants" => Self::Invariants,
            other => panic!("unknown level {other}"),
        }
    }
}

struct Differences(Vec<String>);

impl Differences {
    fn equal<T: PartialEq + Debug>(&mut self, what: &str, expected: &T, ours: &T) {
        if expected != ours {
            self.0.push(format!("{what}: expected {expected:?}, ours {ours:?}"));
        }
    }
}

/// The differences between an expected answer and ours.
pub fn differences(expected: &Answer, ours: &Answer, level: Level) -> Vec<String> {
    let mut found = Differences(Vec::new());
    found.equal("rejected", &keys(&expected.rejected_pods), &keys(&ours.rejected_pods));
    match level {
        Level::Exact | Level::Zones => {
            found.equal("errors", &keys(&expected.pod_errors), &keys(&ours.pod_errors));
            found.equal("existing", &expected.existing_nodes, &ours.existing_nodes);
            claims(&mut found, expected, ours, level);
        }
        Level::Shape => {
            found.equal("errors", &keys(&expected.pod_errors), &keys(&ours.pod_errors));
            found.equal("existing", &per_node(expected), &per_node(ours));
            found.equal("claims", &shapes(expected), &shapes(ours));
        }
        Level::Counts => {
            found.equal("errors", &expected.pod_errors.len(), &ours.pod_errors.len());
            let on_existing = |answer: &Answer| answer.existing_nodes.values().map(Vec::len).sum::<usize>();
            found.equal("on existing", &on_existing(expected), &on_existing(ours));
            found.equal("claims", &per_pool(expected), &per_pool(ours));
        }
        Level::Invariants => {}
    }
    found.0
}

fn keys(map: &BTreeMap<String, String>) -> BTreeSet<String> {
    map.keys().cloned().collect()
}

fn per_node(answer: &Answer) -> BTreeMap<String, usize> {
    answer
        .existing_nodes
        .iter()
        .map(|(node, pods)| (node.clone(), pods.len()))
        .collect()
}

fn per_pool(answer: &Answer) -> BTreeMap<String, usize> {
    let mut result = BTreeMap::new();
    for claim in &answer.node_claims {
        *result.entry(claim.node_pool.clone()).or_default() += 1;
    }
    result
}

type Shape = (String, usize, Vec<(String, Quantity)>);

fn shapes(answer: &Answer) -> Vec<Shape> {
    let shape = |claim: &Claim| {
        let requests = claim.requests.iter().filter(|(_, q)| !q.is_zero());
        (
            claim.node_pool.clone(),
            claim.pods.len(),
            requests.map(|(name, q)| (name.clone(), *q)).collect(),
        )
    };
    let mut result: Vec<Shape> = answer.node_claims.iter().map(shape).collect();
    result.sort();
    result
}

fn claims(found: &mut Differences, expected: &Answer, ours: &Answer, level: Level) {
    let pods = |answer: &Answer| {
        answer
            .node_claims
            .iter()
            .map(|c| (c.node_pool.clone(), c.pods.clone()))
            .collect::<Vec<_>>()
    };
    found.equal("claims", &pods(expected), &pods(ours));
    if pods(expected) != pods(ours) {
        return;
    }
    for (expected, ours) in expected.node_claims.iter().zip(&ours.node_claims) {
        claim(found, expected, ours, level);
    }
}

fn claim(found: &mut Differences, expected: &Claim, ours: &Claim, level: Level) {
    let (mut theirs, mut mine) = (expected.clone(), ours.clone());
    for label in &expected.free_labels {
        if ours.labels.contains_key(label) {
            mine.labels.remove(label);
            theirs.labels.remove(label);
        }
    }
    if level == Level::Zones {
        blur_zones(&mut theirs);
        blur_zones(&mut mine);
    }
    let nonzero = |claim: &Claim| claim.requests.clone();
    found.equal("requirements", &theirs.requirements, &mine.requirements);
    found.equal("instance types", &rounded(&theirs), &rounded(&mine));
    found.equal(
        "minValues of types",
        &theirs.instance_type_min_values,
        &mine.instance_type_min_values,
    );
    found.equal("requests", &nonzero(&theirs), &nonzero(&mine));
    found.equal("labels", &theirs.labels, &mine.labels);
    found.equal("annotations", &theirs.annotations, &mine.annotations);
    found.equal("taints", &theirs.taints, &mine.taints);
    found.equal("startup taints", &theirs.startup_taints, &mine.startup_taints);
}

/// Prices are sums in floating point; nine decimals are enough to tell them apart.
fn rounded(claim: &Claim) -> Vec<(Option<String>, Vec<String>)> {
    let groups = claim.instance_types.iter();
    groups
        .map(|group| (group.price.map(|price| format!("{price:.9}")), group.names.clone()))
        .collect()
}

fn blur_zones(claim: &mut Claim) {
    claim.labels.remove(ZONE);
    for entry in claim.requirements.iter_mut().filter(|entry| entry.key == ZONE) {
        entry.values = vec![entry.values.len().to_string()];
    }
    let mut names: Vec<String> = claim
        .instance_types
        .iter()
        .flat_map(|group| group.names.clone())
        .collect();
    names.sort();
    claim.instance_types = vec![crate::answer::PriceGroup { price: None, names }];
}
