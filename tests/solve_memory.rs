//! What a solve takes of memory grows with its input and not faster, whatever users write (architecture §8). A test binary of its own, since it
//! counts every allocation of its process.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

use karpenter::resources::{Quantity, ResourceList, names};
use karpenter::scheduling::pod::{Expression, NodeTerm, PodTerm, Spread, Weighted, WhenUnsatisfiable};
use karpenter::scheduling::{
    CapacityType, Constraints, InstanceType, Offering, Operator, Options, Overhead, Pod, Pool, Problem, Requirement,
    Selector, StorageClass, VolumeClaim, Volumes, labels, solve,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn instance_type() -> Arc<InstanceType> {
    let zones = Requirement::new(labels::ZONE, Operator::In, ["z1", "z2", "z3"]);
    let requirements = [Requirement::is(labels::INSTANCE_TYPE, "t"), zones];
    let offerings = vec![Offering::new("z1", CapacityType::Spot, 1.0)];
    let capacity = ResourceList::new()
        .with(names::CPU, Quantity::units(64))
        .with(names::PODS, Quantity::units(100));
    let requirements = requirements.into_iter().collect();
    Arc::new(InstanceType::new(
        "t",
        requirements,
        offerings,
        capacity,
        Overhead::default(),
    ))
}

fn pod(at: usize, requests: ResourceList, constraints: Constraints) -> Arc<Pod> {
    let name = format!("pod-{at:05}");
    Arc::new(Pod {
        uid: name.as_str().into(),
        namespace: "n".into(),
        labels: Arc::new([("app".to_owned(), name.clone())].into()),
        name: name.into(),
        requests: Arc::new(requests.with(names::PODS, Quantity::units(1))),
        constraints: Arc::new(constraints),
        ..Pod::default()
    })
}

/// How many bytes a solve of these pods allocates, those that it gives back included.
fn allocated(pods: Vec<Arc<Pod>>, volumes: Volumes) -> usize {
    let problem = Problem {
        pools: vec![Pool {
            name: "p".to_owned(),
            instance_types: Arc::new([instance_type()]),
            ..Pool::default()
        }],
        pods,
        volumes: Arc::new(volumes),
        ..Problem::default()
    };
    let region = Region::new(ALLOCATOR);
    let results = solve(&problem, &Options::default(), &|| true);
    drop(results);
    region.change().bytes_allocated
}

fn term(key: &str, value: &str) -> NodeTerm {
    NodeTerm {
        expressions: vec![Expression {
            key: key.to_owned(),
            operator: "In".to_owned(),
            values: vec![value.to_owned()],
        }],
        match_fields: false,
    }
}

fn one(constraints: Constraints) -> Vec<Arc<Pod>> {
    vec![pod(0, ResourceList::new(), constraints)]
}

fn preferences(many: usize) -> usize {
    let preferred = (0..many).map(|at| Weighted {
        weight: 1,
        term: term("a", &at.to_string()),
    });
    let constraints = Constraints {
        preferred_terms: preferred.collect(),
        ..Constraints::default()
    };
    allocated(one(constraints), Volumes::default())
}

fn alternatives(many: usize) -> usize {
    let constraints = Constraints {
        required_terms: (0..many).map(|at| term("a", &at.to_string())).collect(),
        ..Constraints::default()
    };
    allocated(one(constraints), Volumes::default())
}

fn neighbours(many: usize) -> usize {
    let preferred = (0..many).map(|at| Weighted {
        weight: 1,
        term: PodTerm {
            topology_key: labels::ZONE.to_owned(),
            selector: Some(Selector::everything().with_label("app", &at.to_string())),
            ..PodTerm::default()
        },
    });
    let constraints = Constraints {
        preferred_affinity: preferred.collect(),
        ..Constraints::default()
    };
    allocated(one(constraints), Volumes::default())
}

fn claims(many: usize) -> usize {
    let class = |zones: [&str; 2]| StorageClass {
        topologies: zones.iter().map(|zone| term(labels::ZONE, zone)).collect(),
        ..StorageClass::default()
    };
    let mut volumes = Volumes::default();
    volumes.classes.insert("a".to_owned(), class(["z1", "z2"]));
    volumes.classes.insert("b".to_owned(), class(["z3", "z4"]));
    let mut constraints = Constraints::default();
    for at in 0..many {
        let claim = VolumeClaim {
            class: Some(if at % 2 == 0 { "a" } else { "b" }.to_owned()),
            ..VolumeClaim::default()
        };
        volumes.claims.insert(format!("n/c{at}"), claim);
        constraints.volume_claims.push(format!("c{at}"));
    }
    allocated(one(constraints), volumes)
}

fn resources(many: usize) -> usize {
    let own = |at: usize| ResourceList::new().with(format!("example.com/r{at}"), Quantity::units(1));
    let pods = (0..many).map(|at| pod(at, own(at), Constraints::default()));
    allocated(pods.collect(), Volumes::default())
}

fn spreads(many: usize) -> usize {
    let pods = (0..many).map(|at| {
        let spread = Spread {
            topology_key: labels::ZONE.to_owned(),
            max_skew: 1,
            min_domains: None,
            when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
            selector: Some(Selector::everything().with_label("app", &format!("pod-{at:05}"))),
            node_affinity: karpenter::scheduling::pod::NodePolicy::Honor,
            node_taints: karpenter::scheduling::pod::NodePolicy::Ignore,
            match_label_keys: Vec::new(),
        };
        let constraints = Constraints {
            spread: vec![spread],
            ..Constraints::default()
        };
        pod(at, ResourceList::new(), constraints)
    });
    allocated(pods.collect(), Volumes::default())
}

/// One test, since the allocator counts for the whole process.
#[test]
fn four_times_the_input_takes_little_more_than_four_times_the_memory() {
    type Case = (&'static str, fn(usize) -> usize, usize);
    let cases: [Case; 6] = [
        ("preferences of one pod", preferences, 500),
        ("required terms of one pod", alternatives, 500),
        ("preferred neighbours of one pod", neighbours, 300),
        ("volume claims of one pod", claims, 15),
        ("resources that nobody has", resources, 500),
        ("pods with a spread of their own", spreads, 300),
    ];
    let mut wrong = Vec::new();
    for (what, case, small) in cases {
        case(small / 2);
        let (once, fourfold) = (case(small), case(4 * small));
        #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio = fourfold as f64 / once as f64;
        println!("{what}: {once} bytes for {small}, {ratio:.1} times that for four times as many");
        if ratio > 6.0 {
            wrong.push(what);
        }
    }
    assert!(wrong.is_empty(), "grows faster than its input: {wrong:?}");
}
