//! A whole cluster made from a seed: the objects of the Kubernetes API, and the question that the solver is asked about them.

use crate::dice::Dice;
use crate::{machines, volumes, workloads};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use karpenter::resources::ResourceList;
use karpenter::scheduling as solver;
use karpenter::scheduling::validation::validate_pod;
use karpenter::scheduling::{Fate, NodeObject, Options, Ownership, Pool, PreferencePolicy, Readiness, Taint};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Labels that the pretended provider registers.
pub const REGISTERED: [&str; 2] = ["example.com/size", "example.com/cpus"];
/// The driver of the pretended CSI provisioner.
pub const DRIVER: &str = "csi.cross.example.com";

/// What a case is about; the rest of its features stay out of it.
#[derive(Debug, Clone, Copy)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a feature that a case has or has not"
)]
pub struct Themes {
    pub taints: bool,
    pub node_affinity: bool,
    pub spread: bool,
    pub pod_affinity: bool,
    pub ports: bool,
    pub volumes: bool,
    pub preferences: bool,
    pub daemons: bool,
    pub machines: bool,
    pub odd_requests: bool,
    /// Pods that are bound and were asked to go.
    pub leaving: bool,
}

impl Themes {
    fn of(dice: &mut Dice) -> Self {
        Self {
            taints: dice.chance(50),
            node_affinity: dice.chance(50),
            spread: dice.chance(60),
            pod_affinity: dice.chance(50),
            ports: dice.chance(30),
            volumes: dice.chance(40),
            preferences: dice.chance(40),
            daemons: dice.chance(50),
            machines: dice.chance(70),
            odd_requests: dice.chance(40),
            leaving: dice.chance(40),
        }
    }
}

/// A machine that is there before the pass, or was asked for.
pub struct Machine {
    pub node: Node,
    /// The Node exists; else only the claim does, and the Node comes as promised.
    pub joined: bool,
    pub managed: bool,
    /// How many volumes of [`DRIVER`] it attaches.
    pub attaches: Option<i32>,
}

/// A case.
pub struct Case {
    pub seed: u64,
    pub namespaces: Vec<Namespace>,
    pub machines: Vec<Machine>,
    /// Pods that are bound before the pass.
    pub bound: Vec<Pod>,
    /// Pods to place.
    pub pods: Vec<Pod>,
    pub daemon_sets: Vec<DaemonSet>,
    pub classes: Vec<StorageClass>,
    pub claims: Vec<PersistentVolumeClaim>,
    pub volumes: Vec<PersistentVolume>,
    pub pools: Vec<Pool>,
    pub options: Options,
}

/// An object from its JSON form.
pub fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap_or_else(|error| panic!("an object of the API: {error}"))
}

impl Case {
    /// The case of a seed.
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed, 1);
        let themes = Themes::of(&mut dice);
        let pools = machines::pools(&mut dice, themes);
        let mut case = Self {
            seed,
            namespaces: workloads::namespaces(seed),
            machines: machines::machines(&mut dice, themes, seed, &pools),
            bound: Vec::new(),
            pods: Vec::new(),
            daemon_sets: Vec::new(),
            classes: volumes::classes(seed),
            claims: Vec::new(),
            volumes: Vec::new(),
            options: Options::default(),
            pools,
        };
        if themes.preferences && dice.chance(30) {
            case.options.preferences = PreferencePolicy::Ignore;
        }
        if themes.daemons {
            case.daemon_sets = workloads::daemon_sets(&mut dice, seed);
        }
        workloads::fill(&mut dice, themes, &mut case);
        case
    }

    /// What the solver is asked. Pods that are not in order are left out, as provisioning does.
    pub fn problem(&self) -> solver::Problem {
        let volumes = Arc::new(self.known_volumes());
        let well_known = Arc::new(solver::WellKnownLabels::with(REGISTERED));
        let all = self.pods.iter().map(|pod| Arc::new(solver::Pod::from_api(pod)));
        let pods = all.filter(|pod| validate_pod(pod, &volumes, &well_known).is_empty());
        let daemons = self
            .daemon_sets
            .iter()
            .filter_map(|set| solver::Pod::for_daemon_set(set, None));
        solver::Problem {
            pools: self.pools.clone(),
            nodes: self
                .machines
                .iter()
                .map(|machine| Arc::new(self.seen(machine)))
                .collect(),
            pods: pods.collect(),
            daemons: daemons.map(Arc::new).collect(),
            namespaces: self
                .namespaces
                .iter()
                .map(|n| {
                    (
                        n.metadata.name.clone().unwrap(),
                        n.metadata.labels.clone().unwrap_or_default(),
                    )
                })
                .collect(),
            volumes,
            well_known,
        }
    }

    fn known_volumes(&self) -> solver::Volumes {
        let name = |name: &Option<String>| name.clone().unwrap();
        let claim_key = |claim: &PersistentVolumeClaim| {
            format!("{}/{}", name(&claim.metadata.namespace), name(&claim.metadata.name))
        };
        solver::Volumes {
            claims: self
                .claims
                .iter()
                .map(|claim| (claim_key(claim), claim.into()))
                .collect(),
            volumes: self
                .volumes
                .iter()
                .map(|volume| (name(&volume.metadata.name), volume.into()))
                .collect(),
            classes: self
                .classes
                .iter()
                .map(|class| (name(&class.metadata.name), class.into()))
                .collect(),
        }
    }

    fn seen(&self, machine: &Machine) -> solver::Node {
        let node = &machine.node;
        let name = node.metadata.name.clone().unwrap();
        let labels = Arc::new(node.metadata.labels.clone().unwrap_or_default());
        let taints: Vec<Taint> = node
            .spec
            .iter()
            .flat_map(|spec| spec.taints.iter().flatten())
            .map(Taint::from)
            .collect();
        let status = node.status.clone().unwrap_or_default();
        let amounts = |map: Option<BTreeMap<_, _>>| ResourceList::from_api(&map.unwrap_or_default());
        let here = |pod: &&Pod| pod.spec.as_ref().and_then(|s| s.node_name.as_ref()) == Some(&name);
        let pods = self.bound.iter().filter(here).map(solver::Pod::from_api);
        solver::Node {
            taints: taints.clone(),
            ownership: if machine.managed {
                Ownership::Managed
            } else {
                Ownership::Foreign
            },
            readiness: if machine.joined {
                Readiness::Initialized
            } else {
                Readiness::ComingUp
            },
            fate: Fate::Stays,
            capacity: amounts(status.capacity).with("nodes", karpenter::resources::Quantity::units(1)),
            allocatable: amounts(status.allocatable),
            object: machine.joined.then(|| NodeObject {
                name: name.clone(),
                labels: Arc::clone(&labels),
                taints,
            }),
            pods: pods.filter(|pod| !pod.standing.is_terminal()).map(Arc::new).collect(),
            volume_limits: machine
                .attaches
                .into_iter()
                .map(|most| (DRIVER.to_owned(), u64::try_from(most).unwrap()))
                .collect(),
            labels,
            name,
        }
    }

    /// What kubelets say about volumes: machines of the case by their limit, new ones without any.
    pub fn csi_node(&self, name: &str) -> Option<CSINode> {
        let machine = self
            .machines
            .iter()
            .find(|machine| machine.node.metadata.name.as_deref() == Some(name));
        let most = machine?.attaches?;
        Some(object(serde_json::json!({
            "metadata": {"name": name},
            "spec": {"drivers": [{"name": DRIVER, "nodeID": name, "topologyKeys": [], "allocatable": {"count": most}}]},
        })))
    }
}
