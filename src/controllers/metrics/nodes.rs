//! `metrics.node`: what every node offers, what its pods ask for, how old it is (surface §5.1).
//!
//! Of every Node, managed or not. Its labels are the Node's own, so what the platform overwrote shows (surface T18); `phase` is `status.phase`, which
//! kubelets leave empty.

use super::differences::{Follower, amount, resource_type};
use crate::api::labels;
use crate::cluster::{MachineId, Snapshot, StateNode};
use crate::resources::ResourceList;
use crate::telemetry::{NODE_LABELS, NodeAmounts, NodeGauges};
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

type Machines = Arc<BTreeMap<MachineId, Arc<StateNode>>>;

/// The controller.
#[derive(Debug)]
pub struct NodeFollower {
    gauges: NodeGauges,
    shown: Mutex<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    machines: Machines,
    /// Names of resources as labels, shared by all nodes.
    resources: BTreeMap<String, Arc<str>>,
}

impl NodeFollower {
    /// The controller.
    pub fn new(gauges: NodeGauges) -> Self {
        Self {
            gauges,
            shown: Mutex::default(),
        }
    }

    fn show(&self, machine: &StateNode, resources: &mut BTreeMap<String, Arc<str>>) {
        let Some(node) = &machine.node else { return };
        let label = |key: &str| node.label(key).unwrap_or_default();
        let values: [&str; NODE_LABELS.len()] = [
            label(labels::NODEPOOL),
            label(labels::ZONE),
            label(labels::REGION),
            label(labels::INSTANCE_TYPE),
            label(labels::ARCH),
            label(labels::OS),
            label(labels::CAPACITY_TYPE),
            label(labels::WINDOWS_BUILD),
            node.name(),
            node.phase.as_deref().unwrap_or_default(),
        ];
        let amounts = amounts(machine).into_iter().map(|(name, amounts)| {
            let shared = resources.get(&name).map(Arc::clone);
            let shared = shared.unwrap_or_else(|| {
                let label: Arc<str> = resource_type(&name).into();
                resources.insert(name, Arc::clone(&label));
                label
            });
            (shared, amounts)
        });
        self.gauges.show(node.name(), values, node.meta.created, amounts);
    }
}

impl Follower for NodeFollower {
    fn follow(&self, snapshot: &Snapshot, _now: DateTime<Utc>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = &mut *shown;
        if Arc::ptr_eq(&shown.machines, &snapshot.machines) {
            return;
        }
        let name = |machine: &StateNode| machine.node.as_ref().map(|node| node.name().to_owned());
        // Machines are made anew when anything about them changes. A Node that joins its claim changes its identity: the name tells what stays.
        let mut left: BTreeSet<String> = BTreeSet::new();
        for (id, machine) in shown.machines.iter() {
            let same = snapshot.machines.get(id).is_some_and(|now| Arc::ptr_eq(now, machine));
            if !same {
                left.extend(name(machine));
            }
        }
        for (id, machine) in snapshot.machines.iter() {
            let same = shown.machines.get(id).is_some_and(|was| Arc::ptr_eq(was, machine));
            if !same {
                self.show(machine, &mut shown.resources);
                if let Some(name) = name(machine) {
                    left.remove(&name);
                }
            }
        }
        for name in left {
            self.gauges.remove(&name);
        }
        shown.machines = Arc::clone(&snapshot.machines);
    }
}

/// The amounts of each resource that the node has or that a pod on it asks for.
fn amounts(machine: &StateNode) -> BTreeMap<String, NodeAmounts> {
    let sums = Sums::of(machine);
    let allocatable = machine.allocatable();
    let capacity = machine.capacity();
    let mut all: BTreeMap<String, NodeAmounts> = BTreeMap::new();
    let mut put = |list: &ResourceList, field: fn(&mut NodeAmounts) -> &mut Option<f64>| {
        for (name, quantity) in list.iter() {
            *field(all.entry(name.to_owned()).or_default()) = Some(amount(name, quantity));
        }
    };
    put(&allocatable, |amounts| &mut amounts.allocatable);
    put(&sums.pod_requests, |amounts| &mut amounts.pod_requests);
    put(&sums.pod_limits, |amounts| &mut amounts.pod_limits);
    put(&sums.daemon_requests, |amounts| &mut amounts.daemon_requests);
    put(&sums.daemon_limits, |amounts| &mut amounts.daemon_limits);
    let mut overhead = ResourceList::new();
    for (name, quantity) in allocatable.iter() {
        if let Some(total) = capacity.get(name) {
            overhead.set(name, total - quantity);
        }
    }
    put(&overhead, |amounts| &mut amounts.overhead);
    all
}

#[derive(Default)]
struct Sums {
    pod_requests: ResourceList,
    pod_limits: ResourceList,
    daemon_requests: ResourceList,
    daemon_limits: ResourceList,
}

impl Sums {
    fn of(machine: &StateNode) -> Self {
        let mut sums = Self::default();
        for pod in machine.pods.iter() {
            sums.pod_requests.add(&pod.pod.requests);
            sums.pod_limits.add(&pod.pod.limits);
            if pod.pod.standing.daemon {
                sums.daemon_requests.add(&pod.pod.requests);
                sums.daemon_limits.add(&pod.pod.limits);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::entries::{NodeEntry, Reader};
    use crate::cluster::{Cluster, Delta, Key, Kind, Object, Version};
    use crate::telemetry::{BuildInfo, Exposition, Metrics};
    use serde_json::json;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_750_000_000 + second, 0).unwrap()
    }

    fn node(cpu: &str, phase: Option<&str>, version: u64) -> Delta {
        let node = json!({
            "metadata": { "name": "n", "uid": "n", "resourceVersion": version.to_string(), "creationTimestamp": "2025-06-15T15:06:40Z",
                "labels": { "karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": "sku" } },
            "spec": { "providerID": "x:///n" },
            "status": { "phase": phase, "capacity": { "cpu": cpu, "memory": "8Gi" }, "allocatable": { "cpu": "3500m", "memory": "7Gi" } },
        });
        let entry = NodeEntry::read(serde_json::from_value(node).unwrap());
        Delta::Applied(Object::Node(Arc::new(entry)))
    }

    fn pod(name: &str, owner: &str, reader: &mut Reader) -> Delta {
        let pod = json!({
            "metadata": { "name": name, "namespace": "ns", "uid": name, "resourceVersion": "5",
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": true }] },
            "spec": { "nodeName": "n", "containers": [{ "name": "c", "resources": { "requests": { "cpu": "250m" }, "limits": { "memory": "1Gi" } } }] },
        });
        Delta::Applied(Object::Pod(Arc::new(reader.pod(&serde_json::from_value(pod).unwrap()))))
    }

    #[test]
    fn a_node_shows_what_it_offers_and_bears_and_goes_with_its_series() {
        let exposition = Exposition::new();
        let metrics = Metrics::new(&exposition, BuildInfo::unknown()).unwrap();
        let follower = NodeFollower::new(metrics.nodes.gauges.clone());
        let mut cluster = Cluster::new([], Arc::new(|_: &_| None), at(0));
        let mut reader = Reader::new();
        cluster.observe(node("4", None, 1), at(0));
        cluster.observe(pod("web", "ReplicaSet", &mut reader), at(0));
        cluster.observe(pod("daemon", "DaemonSet", &mut reader), at(0));
        follower.follow(&cluster.snapshot(), at(0));
        let text = exposition.render(at(60)).unwrap();
        let node_labels = "{nodepool=\"default\",zone=\"\",region=\"\",instance_type=\"sku\",arch=\"\",os=\"\",capacity_type=\"\",windows_build=\"\",node_name=\"n\",phase=\"\"";
        for (family, resource, value) in [
            ("allocatable", "cpu", "3.5"),
            ("total_pod_requests", "cpu", "0.5"),
            ("total_pod_requests", "pods", "2"),
            ("total_daemon_requests", "cpu", "0.25"),
            ("total_pod_limits", "memory", "2147483648"),
            ("total_daemon_limits", "memory", "1073741824"),
            ("system_overhead", "cpu", "0.5"),
        ] {
            let expected = format!("karpenter_nodes_{family}{node_labels},resource_type=\"{resource}\"}} {value}\n");
            assert!(text.contains(&expected), "{expected} is not in\n{text}");
        }
        assert!(
            text.contains(&format!("karpenter_nodes_current_lifetime_seconds{node_labels}}} 60\n")),
            "{text}"
        );

        // as upstream's own pretended kubelet has it (tests/data/observed)
        cluster.observe(node("8", Some("Running"), 10), at(0));
        follower.follow(&cluster.snapshot(), at(0));
        let text = exposition.render(at(60)).unwrap();
        let node_labels = node_labels.replace("phase=\"\"", "phase=\"Running\"");
        assert!(
            text.contains(&format!("system_overhead{node_labels},resource_type=\"cpu\"}} 4.5\n")),
            "{text}"
        );
        assert!(!text.contains("phase=\"\""), "{text}");

        let gone = Delta::Deleted {
            kind: Kind::Node,
            key: Key::cluster("n"),
            uid: "n".into(),
            version: Version::of(11),
        };
        cluster.observe(gone, at(0));
        follower.follow(&cluster.snapshot(), at(0));
        let text = exposition.render(at(60)).unwrap();
        assert!(
            !text.contains("karpenter_nodes_") && !text.contains("utilization"),
            "{text}"
        );
    }
}
