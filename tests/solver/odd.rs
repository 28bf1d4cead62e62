//! Small clusters with a bit of everything: taints, daemons, ports, rules over zones, hosts and a label that only machines have, limits,
//! preferences, pods that wait, machines that are being deleted.

use k8s_openapi::api::core::v1 as core;
use karpenter::resources::{Quantity, ResourceList};
use karpenter::scheduling::{
    Fate, Node, NodeObject, Operator, Ownership, Pod, Pool, Problem, Readiness, Requirement, Requirements, Taint,
    labels,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const ZONES: [&str; 3] = ["test-zone-1", "test-zone-2", "test-zone-3"];
const RACK: &str = "example.com/rack";

/// A small generator of draws; the same seed gives the same cluster.
pub struct Draws(u64);

impl Draws {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub fn below(&mut self, most: usize) -> usize {
        // Splitmix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        usize::try_from(z % most as u64).unwrap()
    }

    fn number(&mut self, most: usize) -> i64 {
        i64::try_from(self.below(most)).unwrap()
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn sometimes(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

/// A cluster.
pub fn cluster(draws: &mut Draws) -> Problem {
    let mut number = 0;
    let nodes = 2 + draws.below(9);
    let mut problem = Problem {
        pools: pools(draws),
        nodes: (0..nodes).map(|at| Arc::new(node(at, &mut number, draws))).collect(),
        ..Problem::default()
    };
    problem.pods = (0..draws.below(4)).map(|_| pod(None, &mut number, draws)).collect();
    let deleted = problem.nodes.iter().filter(|node| node.fate == Fate::Leaves);
    let waiting: Vec<Arc<Pod>> = deleted.flat_map(|node| node.pods.iter().cloned()).collect();
    problem.pods.extend(waiting);
    if draws.sometimes(2) {
        problem.daemons.push(read(&json!({
            "metadata": {"name": "daemon", "namespace": "system", "uid": "daemon"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}], "tolerations": [{"operator": "Exists"}]},
        })));
    }
    problem
}

fn pools(draws: &mut Draws) -> Vec<Pool> {
    let types = crate::catalog::fake(6);
    let mut pools = vec![Pool {
        name: "default".to_owned(),
        instance_types: Arc::clone(&types),
        ..Pool::default()
    }];
    if draws.sometimes(2) {
        pools[0].limits = ResourceList::new().with("cpu", Quantity::units(4 * draws.number(10)));
    }
    if draws.sometimes(2) {
        pools[0].limits.set("nodes", Quantity::units(draws.number(12)));
    }
    if draws.sometimes(3) {
        pools[0].requirements = Requirements::from_iter([Requirement::new(
            labels::ZONE,
            Operator::In,
            [ZONES[0], ZONES[draws.below(3)]],
        )]);
    }
    if draws.sometimes(3) {
        let effect = draws.of(&["NoSchedule", "PreferNoSchedule"]);
        pools.push(Pool {
            name: "tainted".to_owned(),
            weight: draws.of(&[0, 1, 2]),
            taints: vec![Taint::new("team", "a", effect)],
            instance_types: types,
            ..Pool::default()
        });
    }
    pools
}

fn node(at: usize, number: &mut usize, draws: &mut Draws) -> Node {
    let name = format!("node-{at:02}");
    let cores = 1 + draws.number(6);
    let mut own: BTreeMap<String, String> = [
        (labels::HOSTNAME, name.clone()),
        (labels::ZONE, draws.of(&ZONES).to_owned()),
        (labels::INSTANCE_TYPE, format!("fake-it-{}", cores - 1)),
        (labels::CAPACITY_TYPE, draws.of(&["spot", "on-demand"]).to_owned()),
        (labels::NODE_POOL, "default".to_owned()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    if draws.sometimes(2) {
        own.insert(RACK.to_owned(), draws.of(&["r1", "r2", "r3"]).to_owned());
    }
    let own = Arc::new(own);
    let capacity = ResourceList::new()
        .with("cpu", Quantity::units(cores))
        .with("memory", Quantity::bytes((2 * cores) << 30))
        .with("pods", Quantity::units(10))
        .with("nodes", Quantity::units(1));
    let taints = if draws.sometimes(5) {
        vec![Taint::new("team", "a", "NoSchedule")]
    } else {
        Vec::new()
    };
    let coming = draws.sometimes(6);
    Node {
        name: name.clone(),
        labels: Arc::clone(&own),
        taints: taints.clone(),
        ownership: draws.of(&[Ownership::Managed, Ownership::Managed, Ownership::Foreign]),
        readiness: if coming {
            Readiness::ComingUp
        } else {
            Readiness::Initialized
        },
        fate: if draws.sometimes(8) { Fate::Leaves } else { Fate::Stays },
        allocatable: capacity.clone(),
        capacity,
        object: (!coming || draws.sometimes(2)).then(|| NodeObject {
            name: name.clone(),
            labels: own,
            taints,
        }),
        pods: (0..draws.below(5)).map(|_| pod(Some(&name), number, draws)).collect(),
        ..Node::default()
    }
}

fn read(pod: &Value) -> Arc<Pod> {
    let pod: core::Pod = serde_json::from_value(pod.clone()).unwrap();
    Arc::new(Pod::from_api(&pod))
}

fn pod(node: Option<&str>, number: &mut usize, draws: &mut Draws) -> Arc<Pod> {
    *number += 1;
    let uid = format!("u-{number:03}");
    let app = draws.of(&["a", "b", "c"]);
    let mut spec = json!({
        "containers": [{"name": "c", "resources": {"requests": {"cpu": draws.of(&["250m", "500m", "1000m"]), "memory": "256Mi"}}}],
    });
    if draws.sometimes(8) {
        spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
    }
    if draws.sometimes(4) {
        spec["tolerations"] = json!([{"key": "team", "operator": "Exists"}]);
    }
    if draws.sometimes(6) {
        spec["nodeSelector"] = json!({draws.of(&[labels::ZONE, RACK]): draws.of(&["test-zone-1", "r1"])});
    }
    rules(&mut spec, draws);
    let mut owner = json!([]);
    if node.is_some() && draws.sometimes(8) {
        owner =
            json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "daemon", "uid": "d", "controller": true}]);
    }
    if let Some(node) = node {
        spec["nodeName"] = json!(node);
    }
    let phase = if node.is_some() { "Running" } else { "Pending" };
    read(&json!({
        "metadata": {"name": uid, "namespace": "default", "uid": uid, "labels": {"app": app}, "ownerReferences": owner},
        "spec": spec, "status": {"phase": phase},
    }))
}

fn rules(spec: &mut Value, draws: &mut Draws) {
    let key = draws.of(&[labels::ZONE, labels::HOSTNAME, labels::CAPACITY_TYPE, RACK]);
    let selector = json!({"matchLabels": {"app": draws.of(&["a", "b", "c"])}});
    let term = json!({"topologyKey": key, "labelSelector": selector});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    match draws.below(10) {
        0..=2 => {
            let spread = json!({
                "maxSkew": 1 + draws.below(2), "topologyKey": key, "labelSelector": selector,
                "whenUnsatisfiable": draws.of(&["DoNotSchedule", "ScheduleAnyway"]),
                "nodeTaintsPolicy": draws.of(&["Honor", "Ignore"]),
            });
            spec["topologySpreadConstraints"] = json!([spread]);
        }
        3 => spec["affinity"] = json!({"podAffinity": {required: [term]}}),
        4 => spec["affinity"] = json!({"podAntiAffinity": {required: [term]}}),
        5 => spec["affinity"] = json!({"podAntiAffinity": {preferred: [{"weight": 1, "podAffinityTerm": term}]}}),
        6 => {
            let preference =
                json!({"matchExpressions": [{"key": labels::ZONE, "operator": "In", "values": [draws.of(&ZONES)]}]});
            spec["affinity"] = json!({"nodeAffinity": {preferred: [{"weight": 1, "preference": preference}]}});
        }
        _ => {}
    }
}
