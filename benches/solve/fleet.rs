//! A cluster that stands: machines of two sizes in three zones, each with fifteen pods of forty Deployments, some of them with rules.

use crate::catalog::Types;
use k8s_openapi::api::core::v1 as core;
use karpenter::resources::{Quantity, ResourceList};
use karpenter::scheduling::{Node, NodeObject, Ownership, Phase, Pod, Pool, Problem, Standing, labels};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pods on each machine.
pub const PODS_PER_NODE: usize = 15;

const DEPLOYMENTS: usize = 40;
const ZONES: [&str; 3] = ["test-zone-1", "test-zone-2", "test-zone-3"];

/// A cluster of so many machines; the first machines and their pods are the same whatever their number.
pub fn fleet(types: Types, nodes: usize) -> Problem {
    let templates: Vec<Pod> = (0..DEPLOYMENTS).map(template).collect();
    let pool = Pool {
        name: "default".to_owned(),
        limits: ResourceList::new().with("cpu", Quantity::units(10_000_000)),
        instance_types: types,
        ..Pool::default()
    };
    Problem {
        pools: vec![pool],
        nodes: (0..nodes).map(|at| Arc::new(node(at, &templates))).collect(),
        ..Problem::default()
    }
}

/// The pods of a Deployment: generic ones, some spread over zones or hosts, some near or far from each other.
fn template(at: usize) -> Pod {
    let cpu = ["250m", "500m", "500m", "1000m", "1000m"][at % 5];
    let memory = ["512Mi", "1024Mi", "2048Mi", "1024Mi"][at % 4];
    let labels = json!({"app": format!("app-{at:02}")});
    let selector = json!({"matchLabels": labels});
    let term = |key: &str| json!([{"topologyKey": key, "labelSelector": selector}]);
    let spread = |key: &str, skew: i32| {
        json!({"topologySpreadConstraints": [{
            "maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
        }]})
    };
    let mut spec: Value = match at % 8 {
        1 => spread(labels::ZONE, 1),
        3 => spread(labels::HOSTNAME, 2),
        5 => {
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term(labels::HOSTNAME)}}})
        }
        7 => {
            json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term(labels::ZONE)}}})
        }
        _ => json!({}),
    };
    spec["containers"] = json!([{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]);
    let pod = json!({"metadata": {"namespace": "default", "labels": labels}, "spec": spec});
    let pod: core::Pod = serde_json::from_value(pod).expect("a pod");
    Pod::from_api(&pod)
}

fn node(at: usize, templates: &[Pod]) -> Node {
    let name = format!("node-{at:05}");
    let (kind, cores) = if at.is_multiple_of(3) {
        ("fake-it-15", 16)
    } else {
        ("fake-it-11", 12)
    };
    let labels: BTreeMap<String, String> = [
        (labels::HOSTNAME, name.as_str()),
        (labels::ZONE, ZONES[at % 3]),
        (labels::INSTANCE_TYPE, kind),
        (labels::CAPACITY_TYPE, "spot"),
        (labels::ARCH, "amd64"),
        (labels::OS, "linux"),
        (labels::NODE_POOL, "default"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    let labels = Arc::new(labels);
    let capacity = ResourceList::new()
        .with("cpu", Quantity::units(cores))
        .with("memory", Quantity::bytes((2 * cores) << 30))
        .with("pods", Quantity::units(110))
        .with("nodes", Quantity::units(1));
    let pods = (0..PODS_PER_NODE).map(|slot| at * PODS_PER_NODE + slot);
    Node {
        name: name.clone(),
        labels: Arc::clone(&labels),
        ownership: Ownership::Managed,
        allocatable: capacity.clone(),
        capacity,
        object: Some(NodeObject {
            name: name.clone(),
            labels,
            taints: Vec::new(),
        }),
        pods: pods
            .map(|number| bound(number, &templates[number % DEPLOYMENTS], &name))
            .collect(),
        ..Node::default()
    }
}

fn bound(number: usize, template: &Pod, node: &str) -> Arc<Pod> {
    Arc::new(Pod {
        uid: format!("u-{number:06}").into(),
        name: format!("p-{number:06}").into(),
        standing: Standing {
            phase: Phase::Running,
            node: Some(node.into()),
            ..Standing::default()
        },
        ..template.clone()
    })
}
