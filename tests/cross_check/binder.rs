//! The plan held against the filters of the in-process world, which know nothing of the solver.

use crate::case::Case;
use crate::known;
use crate::plan::{Plan, Step};
use crate::volumes::{bind, claim_names, volume};
use crate::workloads::daemon_pod;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use karpenter::scheduling::labels;
use sandbox::Name;
use sandbox::binder::{Cluster, NodeFacts, PodFacts, feasible};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whether a pod of a DaemonSet runs on a machine, the machine's other pods aside.
pub fn suits(pod: &Pod, node: &Node) -> bool {
    let mut cluster = Cluster::default();
    let facts = NodeFacts::of(node);
    let name = facts.name().to_owned();
    cluster.set_node(facts);
    feasible(&cluster, &name, &PodFacts::of(pod)).is_ok()
}

/// The daemons that come up on the plan's machines and have not yet on the case's, as bound pods.
pub fn daemons(case: &Case, plan: &Plan) -> Vec<Pod> {
    let old = case.machines.iter().map(|machine| &machine.node);
    let mut pods = Vec::new();
    for node in old.chain(&plan.nodes) {
        let name = node.metadata.name.as_deref().unwrap();
        for set in &case.daemon_sets {
            let pod = daemon_pod(set, name);
            let there = case.bound.iter().any(|bound| bound.metadata.name == pod.metadata.name);
            if !there && suits(&pod, node) {
                pods.push(pod);
            }
        }
    }
    pods
}

/// The cluster as it is once all machines of the plan are there.
pub struct World {
    cluster: Cluster,
    nodes: BTreeMap<String, Node>,
    claims: BTreeMap<Name, PersistentVolumeClaim>,
    made: usize,
}

impl World {
    /// The world before the first planned pod is placed.
    pub fn of(case: &Case, plan: &Plan) -> Self {
        let mut world = Self {
            cluster: Cluster::default(),
            nodes: BTreeMap::new(),
            claims: BTreeMap::new(),
            made: 0,
        };
        let cluster = &mut world.cluster;
        case.namespaces.iter().for_each(|one| cluster.set_namespace(one));
        for class in &case.classes {
            let name = class.metadata.name.clone().unwrap();
            cluster.set_class(&name, Some(Arc::new(class.clone())));
        }
        for one in &case.volumes {
            let name = one.metadata.name.clone().unwrap();
            cluster.set_volume(&name, Some(Arc::new(one.clone())));
        }
        for claim in &case.claims {
            let name = Name::of(claim);
            cluster.set_claim(&name, Some(Arc::new(claim.clone())));
            world.claims.insert(name, claim.clone());
        }
        let old = case.machines.iter().map(|machine| &machine.node);
        for node in old.chain(&plan.nodes) {
            let name = node.metadata.name.clone().unwrap();
            cluster.set_node(NodeFacts::of(node));
            cluster.set_csi_node(&name, case.csi_node(&name).map(Arc::new));
            world.nodes.insert(name, node.clone());
        }
        for pod in case.bound.iter().chain(&daemons(case, plan)) {
            let node = pod.spec.as_ref().unwrap().node_name.clone().unwrap();
            world.cluster.place(Arc::new(PodFacts::of(pod)), &node);
        }
        world
    }

    /// Places a pod where it is planned, and says why Kubernetes would not.
    pub fn place(&mut self, pod: &Pod, node: &str) -> Result<(), String> {
        let facts = PodFacts::of(pod);
        let verdict = feasible(&self.cluster, node, &facts).map_err(|reason| reason.to_string());
        self.cluster.place(Arc::new(facts), node);
        self.bind_volumes(pod, node);
        verdict
    }

    /// Everything about a placement, for whoever looks into it.
    fn shown(&self, case: &Case, step: &Step, plan: &Plan) -> String {
        let spec = serde_json::to_string(&step.pod.spec).unwrap();
        let mut lines = vec![format!("  pod {:?} {spec}", step.pod.metadata.labels)];
        for node in self.nodes.values() {
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
            lines.push(format!(
                "  node {:?} {:?} {taints:?}",
                node.metadata.name, node.metadata.labels
            ));
        }
        for other in &case.bound {
            let meta = &other.metadata;
            let node = other.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            let going = meta.deletion_timestamp.is_some();
            let phase = other.status.as_ref().and_then(|status| status.phase.as_deref());
            lines.push(format!(
                "  bound {} {:?} on {node:?} {phase:?} going: {going}",
                Name::of(other),
                meta.labels
            ));
        }
        for other in &plan.steps {
            lines.push(format!(
                "  {} {:?} -> {}",
                Name::of(&other.pod),
                other.pod.metadata.labels,
                other.node
            ));
        }
        lines.join("\n")
    }

    /// What the pretended CSI provisioner does when a pod's claims wait for it: a volume in the zone of its machine.
    fn bind_volumes(&mut self, pod: &Pod, node: &str) {
        let namespace = pod.metadata.namespace.clone().unwrap();
        let zone = self.nodes[node]
            .metadata
            .labels
            .as_ref()
            .and_then(|own| own.get(labels::ZONE))
            .cloned();
        for claim_name in claim_names(pod) {
            let name = Name::new(&namespace, &claim_name);
            let Some(claim) = self
                .claims
                .get_mut(&name)
                .filter(|claim| claim.spec.as_ref().unwrap().volume_name.is_none())
            else {
                continue;
            };
            self.made += 1;
            let volume_name = format!("made-{}", self.made);
            let class = claim.spec.as_ref().unwrap().storage_class_name.clone().unwrap();
            let zones: Vec<Vec<&str>> = zone.iter().map(|zone| vec![zone.as_str()]).collect();
            let made = volume(&volume_name, &zones, (&namespace, &claim_name), &class);
            bind(claim, &volume_name);
            self.cluster.set_volume(&volume_name, Some(Arc::new(made)));
            self.cluster.set_claim(&name, Some(Arc::new(claim.clone())));
        }
    }
}

/// What a case brought.
#[derive(Default)]
pub struct Findings {
    /// Placements that the filters refuse, and nobody knows why.
    pub defects: Vec<String>,
    /// How often a placement was refused by a rule that is known.
    pub known: BTreeMap<&'static str, usize>,
}

/// Everything in the plan that the filters refuse, in the order of placing. A case ends with its first refusal that is known: what comes after it
/// is judged on a cluster that will not be.
pub fn judge(case: &Case, plan: &Plan, findings: &mut Findings) {
    let mut world = World::of(case, plan);
    for step in &plan.steps {
        let Err(reason) = world.place(&step.pod, &step.node) else {
            continue;
        };
        if let Some(rule) = known::rule(case, plan, step, &reason) {
            *findings.known.entry(rule).or_default() += 1;
            return;
        }
        let name = step.pod.metadata.name.as_deref().unwrap();
        let mut text = format!("seed {}: {name} on {}: {reason}", case.seed, step.node);
        if std::env::var_os("SHOW").is_some() {
            text = format!("{text}\n{}", world.shown(case, step, plan));
        }
        findings.defects.push(text);
    }
}
