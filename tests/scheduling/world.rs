//! A cluster that passes are made in: what a pass plans is launched, becomes machines, and the pods are bound to them.
//!
//! The catalogues are those of docs/scenarios/scheduling.md: "F" has six kinds that differ in size, architecture and extras, "N" grows by one core
//! per kind, "A" has every combination.

use karpenter::resources::{Quantity, ResourceList, names};
use karpenter::scheduling::validation::validate_pod;
use karpenter::scheduling::{
    CapacityType, InstanceType, NewClaim, Node, NodeObject, Offering, Operator, Options, Overhead, Ownership, Pod,
    Pool, Problem, Readiness, Requirement, Requirements, Results, WellKnownLabels, labels, solve,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub const ZONE: &str = labels::ZONE;
pub const HOST: &str = labels::HOSTNAME;
pub const PAID: &str = labels::CAPACITY_TYPE;
pub const ARCH: &str = labels::ARCH;
pub const OS: &str = labels::OS;
pub const TYPE: &str = labels::INSTANCE_TYPE;
pub const POOL: &str = labels::NODE_POOL;

/// What a kind of machine is made of.
pub struct Kind<'a> {
    pub name: &'a str,
    pub millicores: i64,
    pub mebibytes: i64,
    pub pods: i64,
    pub arch: &'a str,
    pub systems: &'a [&'a str],
    pub extra: &'a [(&'a str, i64)],
    pub offerings: Vec<(CapacityType, &'a str, f64)>,
}

const SYSTEMS: &[&str] = &["linux", "windows", "darwin"];

/// The price of catalogues F and N.
fn price(millicores: i64, mebibytes: i64, extras: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    let (cores, bytes, extras) = (
        millicores as f64 / 1000.0,
        (mebibytes << 20) as f64 / 1e9,
        extras as f64,
    );
    0.1 * cores + 0.1 * bytes + extras
}

impl<'a> Kind<'a> {
    /// A kind with the five usual offerings at one price, on amd64.
    pub fn of(name: &'a str, cores: i64, gibibytes: i64) -> Self {
        Self {
            name,
            millicores: cores * 1000,
            mebibytes: gibibytes << 10,
            pods: 5,
            arch: "amd64",
            systems: SYSTEMS,
            extra: &[],
            offerings: Vec::new(),
        }
    }

    /// The instance type.
    pub fn made(mut self) -> Arc<InstanceType> {
        if self.offerings.is_empty() {
            let price = price(self.millicores, self.mebibytes, self.extra.len());
            for (kind, zones) in [
                (CapacityType::Spot, &["z1", "z2"][..]),
                (CapacityType::OnDemand, &["z1", "z2", "z3"]),
            ] {
                self.offerings.extend(zones.iter().map(|zone| (kind, *zone, price)));
            }
        }
        let several = |of: fn(&(CapacityType, &'a str, f64)) -> &'a str| -> BTreeSet<&str> {
            self.offerings.iter().map(of).collect()
        };
        let large = self.millicores > 4000 && self.mebibytes > 8 << 10;
        let mut requirements: Requirements = [
            Requirement::is(TYPE, self.name),
            Requirement::is(ARCH, self.arch),
            Requirement::is("size", if large { "large" } else { "small" }),
            Requirement::is("integer", (self.millicores / 1000).to_string()),
            if large {
                Requirement::is("special", "optional")
            } else {
                Requirement::does_not_exist("special")
            },
        ]
        .into_iter()
        .collect();
        requirements.add(Requirement::new(OS, Operator::In, self.systems.iter().copied()));
        requirements.add(Requirement::new(ZONE, Operator::In, several(|o| o.1)));
        requirements.add(Requirement::new(PAID, Operator::In, several(|o| o.0.as_str())));
        let mut capacity = ResourceList::new()
            .with(names::CPU, Quantity::millis(self.millicores))
            .with(names::MEMORY, Quantity::bytes(self.mebibytes << 20))
            .with(names::PODS, Quantity::units(self.pods));
        for (name, amount) in self.extra {
            capacity.set(*name, Quantity::units(*amount));
        }
        let overhead = Overhead {
            kube_reserved: ResourceList::new()
                .with(names::CPU, Quantity::millis(100))
                .with(names::MEMORY, Quantity::bytes(10 << 20)),
            ..Overhead::default()
        };
        let offerings = self
            .offerings
            .iter()
            .map(|(kind, zone, price)| Offering::new(zone, *kind, *price));
        Arc::new(InstanceType::new(
            self.name,
            requirements,
            offerings.collect(),
            capacity,
            overhead,
        ))
    }
}

/// Catalogue F.
pub fn cloud_f() -> Vec<Arc<InstanceType>> {
    vec![
        Kind::of("default-instance-type", 4, 4).made(),
        Kind::of("small-instance-type", 2, 2).made(),
        Kind {
            extra: &[("gpu-A", 2)],
            ..Kind::of("gpu-vendor-instance-type", 4, 4)
        }
        .made(),
        Kind {
            extra: &[("gpu-B", 2)],
            ..Kind::of("gpu-vendor-b-instance-type", 4, 4)
        }
        .made(),
        Kind {
            arch: "arm64",
            systems: &["linux", "windows", "darwin", "ios"],
            ..Kind::of("arm-instance-type", 16, 128)
        }
        .made(),
        Kind {
            pods: 1,
            ..Kind::of("single-pod-instance-type", 4, 4)
        }
        .made(),
    ]
}

/// Catalogue N of so many kinds.
pub fn cloud_n(many: i64) -> Vec<Arc<InstanceType>> {
    let kinds = (0..many).map(|at| {
        let name = format!("fake-it-{at}");
        Kind {
            pods: 10 * (at + 1),
            ..Kind::of(&name, at + 1, 2 * (at + 1))
        }
        .made()
    });
    kinds.collect()
}

/// Catalogue A.
pub fn cloud_a() -> Vec<Arc<InstanceType>> {
    let mut kinds = Vec::new();
    for cores in [1, 2, 4, 8, 16, 32, 64] {
        for memory in [1, 2, 4, 8, 16, 32, 64, 128] {
            for zone in ["z1", "z2", "z3"] {
                for paid in [CapacityType::Spot, CapacityType::OnDemand] {
                    for (system, arch) in [
                        ("linux", "amd64"),
                        ("windows", "amd64"),
                        ("linux", "arm64"),
                        ("windows", "arm64"),
                    ] {
                        let name = format!("{cores}-cpu-{memory}-mem-{arch}-{system}-{zone}-{paid}");
                        let kind = Kind {
                            arch,
                            systems: &[system],
                            offerings: vec![(paid, zone, price(cores * 1000, memory << 10, 0))],
                            ..Kind::of(&name, cores, memory)
                        };
                        kinds.push(kind.made());
                    }
                }
            }
        }
    }
    kinds
}

/// A pool of these types, with the usual limit of 2,000 cores.
pub fn pool(name: &str, types: Vec<Arc<InstanceType>>) -> Pool {
    Pool {
        name: name.to_owned(),
        limits: ResourceList::new().with(names::CPU, Quantity::units(2000)),
        instance_types: types.into(),
        ..Pool::default()
    }
}

/// A requirement.
pub fn requirement(key: &str, operator: &str, values: &[&str]) -> Requirement {
    Requirement::new(key, operator.parse().unwrap(), values.iter().copied())
}

/// How launched machines come up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joining {
    /// Registered and initialised, the pods bound.
    Ready,
    /// Only the claim is known; the pods stay pending.
    InFlight,
}

/// The cluster.
pub struct World {
    pub problem: Problem,
    pub options: Options,
    pub joining: Joining,
    launched: usize,
}

/// What came of a pass.
pub struct Outcome {
    pub results: Results,
    /// For each placed pod the place of its machine in [`Problem::nodes`].
    pub on: BTreeMap<String, usize>,
}

impl Outcome {
    /// Why a pod was not placed.
    pub fn reason(&self, pod: &str) -> String {
        let errors = self.results.errors.iter();
        errors
            .filter(|error| &*error.pod.name == pod)
            .map(|error| error.reason.to_string())
            .collect()
    }

    /// How many machines the pods of this pass went to.
    pub fn machines(&self) -> usize {
        self.on.values().collect::<BTreeSet<_>>().len()
    }
}

impl World {
    /// A cluster with one pool "default" of these types.
    pub fn of(types: Vec<Arc<InstanceType>>) -> Self {
        let namespaces = ["default", "other"].map(|name| (name.to_owned(), BTreeMap::new()));
        Self {
            problem: Problem {
                pools: vec![pool("default", types)],
                namespaces: namespaces.into(),
                well_known: Arc::new(WellKnownLabels::with(["size", "special", "integer"])),
                ..Problem::default()
            },
            options: Options {
                max_instance_types: 60,
                ..Options::default()
            },
            joining: Joining::Ready,
            launched: 0,
        }
    }

    /// A cluster with catalogue F.
    pub fn f() -> Self {
        Self::of(cloud_f())
    }

    /// The first pool.
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.problem.pools[0]
    }

    /// The same cluster whose first pool also requires this.
    pub fn requiring(mut self, key: &str, operator: &str, values: &[&str]) -> Self {
        self.require(key, operator, values);
        self
    }

    /// Lets the first pool also require this.
    pub fn require(&mut self, key: &str, operator: &str, values: &[&str]) {
        self.pool().requirements.add(requirement(key, operator, values));
    }

    /// The same cluster whose first pool's template has a label.
    pub fn labelled(mut self, key: &str, value: &str) -> Self {
        self.pool().labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Only the answer; pods that are not in order are left out.
    pub fn plan(&self, pods: &[Pod]) -> Results {
        let mut problem = self.problem.clone();
        let valid = pods
            .iter()
            .filter(|pod| validate_pod(pod, &problem.volumes, &problem.well_known).is_empty());
        problem.pods = valid.cloned().map(Arc::new).collect();
        solve(&problem, &self.options, &|| true)
    }

    /// A pass whose plan is carried out.
    pub fn provision(&mut self, pods: &[Pod]) -> Outcome {
        let results = self.plan(pods);
        let mut on = BTreeMap::new();
        for place in &results.existing {
            for pod in &place.pods {
                self.bind(pod, place.node);
                on.insert(pod.name.to_string(), place.node);
            }
        }
        for claim in &results.new_claims {
            let node = self.launch(claim);
            self.problem.nodes.push(Arc::new(node));
            let at = self.problem.nodes.len() - 1;
            for pod in &claim.pods {
                self.bind(pod, at);
                on.insert(pod.name.to_string(), at);
            }
        }
        Outcome { results, on }
    }

    /// Whether one pod is placed by a pass of its own.
    pub fn places(&mut self, pod: &Pod) -> bool {
        !self.provision(std::slice::from_ref(pod)).on.is_empty()
    }

    /// The machine of a pod that a pass of its own places.
    pub fn machine(&mut self, pod: &Pod) -> Option<Arc<Node>> {
        let outcome = self.provision(std::slice::from_ref(pod));
        outcome
            .on
            .values()
            .next()
            .map(|at| Arc::clone(&self.problem.nodes[*at]))
    }

    fn bind(&mut self, pod: &Arc<Pod>, at: usize) {
        if self.joining == Joining::InFlight {
            return;
        }
        let node = Arc::make_mut(&mut self.problem.nodes[at]);
        let mut bound = Pod::clone(pod);
        bound.standing.node = Some(node.name.as_str().into());
        node.pods.push(Arc::new(bound));
    }

    /// Puts a pod on a machine, whatever the solver thinks of it.
    pub fn put(&mut self, pod: &Pod, at: usize) {
        self.bind(&Arc::new(pod.clone()), at);
    }

    /// The cheapest type that the claim lists, in its first offering that can be had.
    fn launch(&mut self, claim: &NewClaim) -> Node {
        let pool = self
            .problem
            .pools
            .iter()
            .find(|pool| pool.name == claim.pool)
            .unwrap()
            .clone();
        let well_known = &self.problem.well_known;
        let kind = &claim.instance_types[0];
        let offering = kind.available(&claim.requirements, well_known).next().unwrap();
        let mut own = claim.labels.clone();
        let known = kind.requirements.and(&claim.requirements).and(&offering.requirements);
        for requirement in known.iter() {
            if let Some(value) = requirement.single_value() {
                own.insert(requirement.key().to_owned(), value.to_owned());
            }
        }
        let name = format!("node-{}", self.launched);
        self.launched += 1;
        own.insert(HOST.to_owned(), name.clone());
        let own = Arc::new(own);
        let ready = self.joining == Joining::Ready;
        Node {
            name: name.clone(),
            labels: Arc::clone(&own),
            taints: pool.taints.clone(),
            ownership: Ownership::Managed,
            readiness: if ready {
                Readiness::Initialized
            } else {
                Readiness::ComingUp
            },
            capacity: kind.capacity.clone().with(names::NODES, Quantity::units(1)),
            allocatable: kind.allocatable().clone(),
            object: ready.then_some(NodeObject {
                name,
                labels: own,
                taints: pool.taints,
            }),
            ..Node::default()
        }
    }

    /// How many machines there are.
    pub fn machines(&self) -> usize {
        self.problem.nodes.len()
    }

    /// The label of a machine.
    pub fn label(&self, at: usize, key: &str) -> Option<&str> {
        self.problem.nodes[at].labels.get(key).map(String::as_str)
    }

    /// For each value of a label how many pods with `test=test` are there, sorted; values without any are left out.
    pub fn skew(&self, key: &str) -> Vec<usize> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for node in &self.problem.nodes {
            let pods = node
                .pods
                .iter()
                .filter(|pod| pod.labels.get("test").is_some_and(|v| v == "test"));
            let many = pods.count();
            if let Some(value) = node.labels.get(key).filter(|_| many > 0) {
                *counts.entry(value).or_default() += many;
            }
        }
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable();
        counts
    }

    /// Takes every machine and pod away.
    pub fn clear(&mut self) {
        self.problem.nodes.clear();
    }
}
