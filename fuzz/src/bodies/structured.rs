//! Whole clusters made of bytes: every byte is a choice, and the choices are those that users have, the absurd ones among them.
//!
//! Where `placing` finds what strange JSON does to the way into the solver, this one goes straight into it: any combination of constraints, numbers at
//! their ends, keys that mean something, labels that contradict each other.

use karpenter::resources::{Quantity, ResourceList, names};
use karpenter::scheduling::pod::{
    Constraints, Expression, NodePolicy, NodeTerm, PodTerm, Preferences, Spread, Weighted, WhenUnsatisfiable,
};
use karpenter::scheduling::ports::HostPort;
use karpenter::scheduling::{
    Availability, CapacityType, DeviceClaims, Fate, InstanceType, MinValuesPolicy, Node, NodeObject, Offering,
    Operator, Options, Overhead, Ownership, PersistentVolume, Pod, Pool, Problem, Readiness, Requirement, Requirements,
    Results, Selector, StorageClass, Taint, Ties, Toleration, VolumeClaim, Volumes, solve,
};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const KEYS: &[&str] = &[
    "topology.kubernetes.io/zone",
    "kubernetes.io/hostname",
    "karpenter.sh/capacity-type",
    "karpenter.sh/nodepool",
    "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/zone",
    "a",
    "b",
    "",
    "karpenter.sh/x",
];
const VALUES: &[&str] = &[
    "z1",
    "z2",
    "spot",
    "on-demand",
    "1",
    "5",
    "-1",
    "9223372036854775807",
    "",
    "x",
];
const OPERATORS: &[&str] = &[
    "In",
    "NotIn",
    "Exists",
    "DoesNotExist",
    "Gt",
    "Lt",
    "Gte",
    "Lte",
    "Bogus",
    "",
];
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute", ""];
const RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "pods",
    "nodes",
    "ephemeral-storage",
    "example.com/x",
    "hugepages-2Mi",
];
const NUMBERS: &[i32] = &[0, 1, 2, 3, -1, i32::MAX, i32::MIN, 100];

/// Choices, one a byte; zeros when the bytes have run out.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn byte(&mut self) -> usize {
        self.0.next().copied().map_or(0, usize::from)
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        let at = self.byte() % all.len().max(1);
        all[at]
    }

    fn text(&mut self, all: &[&str]) -> String {
        self.pick(all).to_owned()
    }

    fn likely(&mut self) -> bool {
        self.byte().is_multiple_of(3)
    }

    fn several<T>(&mut self, most: usize, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let many = self.byte() % (most + 1);
        (0..many).map(|_| one(self)).collect()
    }

    fn maybe<T>(&mut self, one: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.likely().then(|| one(self))
    }

    fn quantity(&mut self) -> Quantity {
        match self.byte() % 8 {
            0 => Quantity::ZERO,
            1 => Quantity::units(i64::MAX),
            2 => Quantity::units(-1),
            3 => Quantity::units(i64::MIN),
            4 => Quantity::millis(1),
            _ => Quantity::units(i64::try_from(self.byte()).unwrap_or(1) / 16),
        }
    }

    fn amounts(&mut self) -> ResourceList {
        let all = self.several(3, |own| (own.pick(RESOURCES), own.quantity()));
        all.into_iter()
            .fold(ResourceList::new(), |list, (name, amount)| list.with(name, amount))
    }

    fn labels(&mut self) -> BTreeMap<String, String> {
        self.several(3, |own| (own.text(KEYS), own.text(VALUES)))
            .into_iter()
            .collect()
    }

    fn expression(&mut self) -> Expression {
        Expression {
            key: self.text(KEYS),
            operator: self.text(OPERATORS),
            values: self.several(3, |own| own.text(VALUES)),
        }
    }

    fn term(&mut self) -> NodeTerm {
        NodeTerm {
            expressions: self.several(3, Self::expression),
            match_fields: false,
        }
    }

    fn requirements(&mut self) -> Requirements {
        let all = self.several(4, |own| {
            let expression = own.expression();
            let operator: Operator = expression.operator.parse().unwrap_or(Operator::Exists);
            let least = own.maybe(|own| u32::try_from(own.byte()).unwrap_or(0) * 10_000_000);
            Requirement::new(&expression.key, operator, expression.values.iter().map(String::as_str))
                .with_min_values(least)
        });
        all.into_iter().collect()
    }

    fn selector(&mut self) -> Option<Selector> {
        self.maybe(|own| {
            let labels = own.labels();
            labels.iter().fold(Selector::everything(), |selector, (key, value)| {
                selector.with_label(key, value)
            })
        })
    }

    fn pod_term(&mut self) -> PodTerm {
        PodTerm {
            topology_key: self.text(KEYS),
            selector: self.selector(),
            namespaces: self.several(2, |own| own.text(&["n", "m", ""])),
            namespace_selector: self.selector(),
        }
    }

    fn weighted<T>(&mut self, one: impl FnOnce(&mut Self) -> T) -> Weighted<T> {
        Weighted {
            weight: self.pick(NUMBERS),
            term: one(self),
        }
    }

    fn policy(&mut self) -> NodePolicy {
        self.pick(&[NodePolicy::Honor, NodePolicy::Ignore])
    }

    fn spread(&mut self) -> Spread {
        Spread {
            topology_key: self.text(KEYS),
            max_skew: self.pick(NUMBERS),
            min_domains: self.maybe(|own| own.pick(NUMBERS)),
            when_unsatisfiable: self.pick(&[WhenUnsatisfiable::DoNotSchedule, WhenUnsatisfiable::ScheduleAnyway]),
            selector: self.selector(),
            node_affinity: self.policy(),
            node_taints: self.policy(),
            match_label_keys: self.several(2, |own| own.text(KEYS)),
        }
    }

    fn toleration(&mut self) -> Toleration {
        Toleration {
            key: self.text(KEYS),
            operator: self.text(&["", "Equal", "Exists", "Lt", "Gt", "Bogus"]),
            value: self.text(VALUES),
            effect: self.text(EFFECTS),
        }
    }

    fn taint(&mut self) -> Taint {
        Taint::new(self.text(KEYS), self.text(VALUES), self.text(EFFECTS))
    }

    fn constraints(&mut self) -> Constraints {
        Constraints {
            selects_nothing: false,
            node_selector: self.maybe(Self::labels).unwrap_or_default(),
            required_terms: self.several(3, Self::term),
            preferred_terms: self.several(3, |own| own.weighted(Self::term)),
            affinity: self.several(2, Self::pod_term),
            preferred_affinity: self.several(2, |own| own.weighted(Self::pod_term)),
            anti_affinity: self.several(2, Self::pod_term),
            preferred_anti_affinity: self.several(2, |own| own.weighted(Self::pod_term)),
            spread: self.several(3, Self::spread),
            tolerations: self.several(3, Self::toleration),
            ports: self.several(2, |own| HostPort {
                ip: own.text(&["", "::", "0.0.0.0", "10.0.0.1"]),
                port: own.pick(NUMBERS),
                protocol: own.text(&["TCP", "UDP", ""]),
            }),
            volume_claims: self.several(3, |own| own.text(&["c0", "c1", "c2", "missing"])),
            resource_claims: self.byte() == 7,
        }
    }

    fn pod(&mut self, name: String) -> Arc<Pod> {
        Arc::new(Pod {
            uid: name.as_str().into(),
            namespace: self.text(&["n", "m"]).into(),
            name: name.into(),
            labels: Arc::new(self.labels()),
            requests: Arc::new(self.amounts().with(names::PODS, Quantity::units(1))),
            constraints: Arc::new(self.constraints()),
            ..Pod::default()
        })
    }

    fn instance_type(&mut self, name: &str) -> Arc<InstanceType> {
        let mut requirements = self.requirements();
        requirements.add(Requirement::is("node.kubernetes.io/instance-type", name));
        let offerings = self.several(3, |own| {
            let kind = own.pick(&[CapacityType::Spot, CapacityType::OnDemand, CapacityType::Reserved]);
            let price = own.pick(&[0.0, 1.0, f64::MAX, -1.0]);
            let mut offering = Offering::new(own.pick(&["z1", "z2", ""]), kind, price);
            if own.byte() == 3 {
                offering.availability = Availability::Unavailable { reason: String::new() };
            }
            offering
        });
        let capacity = self
            .amounts()
            .with(names::PODS, Quantity::units(3))
            .with(names::CPU, Quantity::units(8));
        let overhead = Overhead {
            kube_reserved: self.amounts(),
            ..Overhead::default()
        };
        Arc::new(InstanceType::new(name, requirements, offerings, capacity, overhead))
    }

    fn pool(&mut self, name: String) -> Pool {
        Pool {
            name,
            weight: self.pick(NUMBERS),
            limits: self.amounts(),
            labels: self.labels(),
            taints: self.several(2, Self::taint),
            startup_taints: self.several(1, Self::taint),
            requirements: self.requirements(),
            instance_types: ["t0", "t1", "t2"].map(|name| self.instance_type(name)).into(),
            ..Pool::default()
        }
    }

    fn node(&mut self, at: usize) -> Arc<Node> {
        let name = format!("node{at}");
        let labels = Arc::new(self.labels());
        let taints = self.several(2, Self::taint);
        let object = NodeObject {
            name: name.clone(),
            labels: Arc::clone(&labels),
            taints: taints.clone(),
        };
        let pods = self.several(2, |own| own.pod(format!("bound{at}-{}", own.0.len())));
        Arc::new(Node {
            name,
            labels,
            taints,
            ownership: self.pick(&[Ownership::Managed, Ownership::Foreign]),
            readiness: self.pick(&[Readiness::Initialized, Readiness::ComingUp]),
            fate: self.pick(&[Fate::Stays, Fate::Leaves]),
            capacity: self.amounts(),
            allocatable: self.amounts().with(names::PODS, Quantity::units(5)),
            object: self.maybe(|_| object),
            pods,
            volume_limits: self
                .several(1, |own| ("d".to_owned(), own.byte() as u64 % 3))
                .into_iter()
                .collect(),
        })
    }

    fn volumes(&mut self) -> Volumes {
        let mut volumes = Volumes::default();
        for at in 0..3 {
            let claim = VolumeClaim {
                volume: self.maybe(|own| own.text(&["v0", "v1", "missing"])),
                class: self.maybe(|own| own.text(&["s0", "s1", "missing"])),
                ..VolumeClaim::default()
            };
            volumes.claims.insert(format!("n/c{at}"), claim.clone());
            volumes.claims.insert(format!("m/c{at}"), claim);
            let volume = PersistentVolume {
                terms: self.maybe(|own| own.several(3, Self::term)),
                local: self.likely(),
                driver: self.maybe(|_| "d".to_owned()),
                ..PersistentVolume::default()
            };
            volumes.volumes.insert(format!("v{at}"), volume);
            let class = StorageClass {
                provisioner: "d".to_owned(),
                immediate: false,
                topologies: self.several(3, Self::term),
            };
            volumes.classes.insert(format!("s{at}"), class);
        }
        volumes
    }

    fn problem(&mut self) -> Problem {
        Problem {
            pools: (0..=self.byte() % 3).map(|at| self.pool(format!("p{at}"))).collect(),
            nodes: (0..self.byte() % 4).map(|at| self.node(at)).collect(),
            pods: (0..=self.byte() % 8).map(|at| self.pod(format!("pod{at}"))).collect(),
            daemons: (0..self.byte() % 3).map(|at| self.pod(format!("daemon{at}"))).collect(),
            namespaces: ["n", "m"].map(|name| (name.to_owned(), self.labels())).into(),
            volumes: Arc::new(self.volumes()),
            well_known: Arc::default(),
        }
    }

    fn options(&mut self) -> Options {
        Options {
            preferences: self.pick(&[Preferences::Respect, Preferences::Ignore]),
            min_values: self.pick(&[MinValuesPolicy::Strict, MinValuesPolicy::BestEffort]),
            device_claims: self.pick(&[DeviceClaims::Refuse, DeviceClaims::Overlook]),
            ties: self.pick(&[Ties::Product, Ties::ByName]),
            max_instance_types: self.pick(&[600, 1, 2]),
        }
    }
}

/// Every pod is placed once, refused with a reason, or undecided.
pub(super) fn accounted(problem: &Problem, results: &Results) {
    let placed = results.new_claims.iter().flat_map(|claim| &claim.pods);
    let existing = results.existing.iter().flat_map(|place| &place.pods);
    let failed = results.errors.iter().map(|error| &error.pod);
    let all: Vec<_> = placed
        .chain(existing)
        .chain(failed)
        .chain(&results.undecided)
        .map(Arc::as_ptr)
        .collect();
    let once: BTreeSet<_> = all.iter().copied().collect();
    let wanted: BTreeSet<_> = problem.pods.iter().map(Arc::as_ptr).collect();
    assert_eq!(all.len(), once.len(), "a pod was decided on twice");
    assert_eq!(once, wanted, "a pod got lost");
    for error in &results.errors {
        assert!(
            !error.reason.to_string().is_empty(),
            "a pod was refused without a reason"
        );
    }
    for claim in &results.new_claims {
        assert!(!claim.instance_types.is_empty(), "a claim can become nothing");
    }
}

/// Whatever the cluster, the solver ends, loses no pod and gives the same answer twice; stopped anywhere, it has an answer too.
pub(super) fn structured(data: &[u8]) {
    let mut choices = Choices(data.iter());
    let options = choices.options();
    let stop_after = choices.byte();
    let problem = choices.problem();
    let results = solve(&problem, &options, &|| true);
    accounted(&problem, &results);
    assert!(results.undecided.is_empty(), "nobody said stop");
    let again = solve(&problem, &options, &|| true);
    let reasons =
        |results: &Results| -> Vec<String> { results.errors.iter().map(|error| error.reason.to_string()).collect() };
    assert_eq!(reasons(&results), reasons(&again));
    assert_eq!(results.new_claims.len(), again.new_claims.len());
    let asked = Cell::new(0);
    let cut = solve(&problem, &options, &|| {
        asked.set(asked.get() + 1);
        asked.get() <= stop_after
    });
    accounted(&problem, &cut);
}
