//! The pods that are solved: upstream's diverse mix in fifths, and pods with preferences that cannot be satisfied.

use crate::catalog::Types;
use k8s_openapi::api::core::v1 as core;
use karpenter::resources::{Quantity, ResourceList};
use karpenter::scheduling::{Pod, Pool, Problem};
use serde_json::{Value, json};
use std::sync::Arc;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// A small generator of draws; the same seed gives the same pods.
struct Draws(u64);

impl Draws {
    fn next(&mut self, below: usize) -> usize {
        // Splitmix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        usize::try_from(z % below as u64).unwrap_or(0)
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.next(choices.len())]
    }

    fn letter(&mut self) -> &'static str {
        self.of(&["a", "b", "c", "d", "e", "f", "g"])
    }

    fn requests(&mut self) -> Value {
        let cpu = self.of(&["100m", "250m", "500m", "1000m", "1500m"]);
        let memory = self.of(&["100Mi", "256Mi", "512Mi", "1024Mi", "2048Mi", "4096Mi"]);
        json!({"cpu": cpu, "memory": memory})
    }
}

/// One NodePool without requirements, limits far away, an empty cluster.
pub fn problem(types: Types, pods: Vec<Arc<Pod>>) -> Problem {
    let pool = Pool {
        name: "default".to_owned(),
        limits: ResourceList::new()
            .with("cpu", Quantity::units(10_000_000))
            .with("memory", Quantity::bytes(10_000_000 << 30)),
        instance_types: types,
        ..Pool::default()
    };
    Problem {
        pools: vec![pool],
        pods,
        ..Problem::default()
    }
}

fn pod(at: usize, labels: &Value, mut spec: Value, requests: &Value) -> Arc<Pod> {
    spec["containers"] = json!([{"name": "c", "resources": {"requests": requests}}]);
    let pod = json!({
        "metadata": {"name": format!("p-{at:05}"), "namespace": "default", "uid": format!("u-{at:05}"), "labels": labels},
        "spec": spec,
    });
    let pod: core::Pod = serde_json::from_value(pod).expect("a pod");
    Arc::new(Pod::from_api(&pod))
}

/// Five kinds of pods in equal parts; the remainder is generic.
pub fn diverse(count: usize) -> Vec<Arc<Pod>> {
    let mut draws = Draws(42);
    let fifth = count / 5;
    (0..count)
        .map(|at| diverse_pod(at, at.checked_div(fifth).unwrap_or(0), &mut draws))
        .collect()
}

fn diverse_pod(at: usize, kind: usize, draws: &mut Draws) -> Arc<Pod> {
    let requests = draws.requests();
    match kind {
        1 | 2 => {
            let key = if kind == 1 { ZONE } else { HOSTNAME };
            let labels = json!({"my-label": draws.letter()});
            let spread = json!([{
                "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"my-label": draws.letter()}},
            }]);
            pod(at, &labels, json!({"topologySpreadConstraints": spread}), &requests)
        }
        3 => {
            let labels = json!({"my-affininity": draws.letter()});
            let term = json!([{"topologyKey": ZONE, "labelSelector": {"matchLabels": labels}}]);
            let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}});
            pod(at, &labels, json!({"affinity": affinity}), &requests)
        }
        4 => {
            let labels = json!({"app": "nginx"});
            let term = json!([{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}]);
            let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}});
            pod(at, &labels, json!({"affinity": affinity}), &requests)
        }
        _ => pod(at, &json!({"my-label": draws.letter()}), json!({}), &requests),
    }
}

/// Identical pods that prefer one zone and would like to be apart by zone and by hostname.
pub fn preferring(count: usize) -> Vec<Arc<Pod>> {
    let requests = Draws(42).requests();
    let labels = json!({"app": "nginx"});
    let apart = |key: &str, weight: i32| json!({"weight": weight, "podAffinityTerm": {"topologyKey": key, "labelSelector": {"matchLabels": labels}}});
    let affinity = json!({
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["test-zone-1"]}]}},
        ]},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart(ZONE, 10), apart(HOSTNAME, 1)]},
    });
    (0..count)
        .map(|at| pod(at, &labels, json!({"affinity": affinity}), &requests))
        .collect()
}

/// Pods of which no two go together, each a bit larger than the one before: each asks every claim that is there.
pub fn apart(count: usize) -> Vec<Arc<Pod>> {
    let labels = json!({"app": "nginx"});
    let term = json!([{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}]);
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}});
    (0..count)
        .map(|at| {
            let requests = json!({"cpu": format!("{}m", 100 + at), "memory": "100Mi"});
            pod(at, &labels, json!({"affinity": affinity}), &requests)
        })
        .collect()
}
