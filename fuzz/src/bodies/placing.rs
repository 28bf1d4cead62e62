//! Hostile objects all the way through the solver.

use super::objects::{candidates, cluster, in_bytes, kinds, now};
use super::structured::accounted;
use karpenter::cluster::Delta;
use karpenter::cluster::entries::Reader;
use karpenter::resources::{Quantity, ResourceList, names};
use karpenter::scheduling::{
    CapacityType, InstanceType, Offering, Operator, Options, Overhead, Pool, Problem, Requirement, solve,
};
use serde_json::Value;
use std::sync::Arc;

/// More pods than this say nothing new and only cost time.
const MOST: usize = 12;

fn instance_type(name: &str, cores: i64, price: f64) -> Arc<InstanceType> {
    let label = |key: &str, value: &str| Requirement::is(key, value);
    let requirements = [
        label("node.kubernetes.io/instance-type", name),
        label("topology.kubernetes.io/zone", "r"),
        label("topology.kubernetes.io/region", "r"),
        label("kubernetes.io/arch", "amd64"),
        label("kubernetes.io/os", "linux"),
        Requirement::new("karpenter.sh/capacity-type", Operator::In, ["spot", "on-demand"]),
    ];
    let capacity = ResourceList::new()
        .with(names::CPU, Quantity::units(cores))
        .with(names::MEMORY, Quantity::bytes(cores << 32))
        .with(names::PODS, Quantity::units(110));
    let offerings = vec![
        Offering::new("r", CapacityType::Spot, price),
        Offering::new("r", CapacityType::OnDemand, price * 9.0),
    ];
    let requirements = requirements.into_iter().collect();
    Arc::new(InstanceType::new(
        name,
        requirements,
        offerings,
        capacity,
        Overhead::default(),
    ))
}

/// Whatever the pods, pools, nodes and volumes are: each pod is placed once, refused with a reason, or undecided, and none is lost.
#[allow(clippy::too_many_lines)] // one question, told in order
pub(super) fn placing(data: &[u8]) {
    let kinds = kinds();
    let mut state = cluster(&kinds);
    let mut reader = Reader::new();
    for (at, mut object) in in_bytes(data).into_iter().take(2 * MOST).enumerate() {
        // Each has a name of its own, so that none hides another.
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.entry("name").or_insert_with(|| format!("o{at}").into());
            metadata.entry("uid").or_insert_with(|| format!("u{at}").into());
        }
        for kind in candidates(&kinds, &object) {
            if let Ok(read) = kind.read(&mut reader, object.clone()) {
                state.observe(Delta::Applied(read), now());
            }
        }
    }
    let snapshot = state.snapshot();
    let types: Arc<[_]> = Arc::new([instance_type("small", 2, 0.01), instance_type("large", 16, 0.08)]);
    let mut pools: Vec<Pool> = snapshot
        .objects
        .pools
        .values()
        .map(|pool| Pool::from_api(&pool.facts, Arc::clone(&types)))
        .collect();
    pools.push(Pool {
        name: "plain".into(),
        instance_types: types,
        ..Pool::default()
    });
    let problem = Problem {
        pools,
        nodes: snapshot
            .machines
            .values()
            .map(|machine| Arc::clone(machine.for_scheduling()))
            .collect(),
        pods: snapshot
            .objects
            .pods
            .values()
            .map(|pod| Arc::clone(&pod.pod))
            .take(MOST)
            .collect(),
        daemons: snapshot.daemons_for_scheduling(),
        namespaces: snapshot.namespaces_for_scheduling(),
        volumes: snapshot.volumes_for_scheduling(),
        well_known: Arc::default(),
    };
    let results = solve(&problem, &Options::default(), &|| true);
    accounted(&problem, &results);
}
