//! Machines that exist or were asked for (scheduling §13, §15, §23).

use crate::pods::*;
use crate::world::*;
use karpenter::resources::{Quantity, ResourceList, names};
use karpenter::scheduling::taints::{Stage, effective};
use karpenter::scheduling::{Fate, Node, NodeObject, Pod, Readiness, Taint, what_if};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

fn world() -> World {
    World::f().requiring(PAID, "Exists", &[])
}

/// How many machines there are after a pass for each.
fn after(mut world: World, passes: &[&[Value]]) -> usize {
    for (at, fragments) in passes.iter().enumerate() {
        assert!(world.places(&pod(&format!("p{at}"), fragments)), "pass {at}");
    }
    world.machines()
}

#[test]
fn a_machine_is_used_again_by_what_fits_it() {
    // INF-1, INF-2, INF-3, INF-4, INF-5
    let small = [ask(&[("cpu", "10m")])];
    assert_eq!(after(world(), &[&small, &small]), 1);
    let zones = |zones: &[&str]| vec![must(ZONE, "In", zones)];
    assert_eq!(after(world(), &[&zones(&["z2"]), &zones(&["z1", "z2"])]), 1);
    assert_eq!(
        after(
            world(),
            &[&zones(&["z2"]), &zones(&["z1", "z2"]), &zones(&["z1", "z3"])]
        ),
        2
    );
    assert_eq!(
        after(world(), &[&[ask(&[("cpu", "1001m")])], &[ask(&[("cpu", "1")])]]),
        2
    );
    assert_eq!(after(world(), &[&[], &[sel(ARCH, "arm64")]]), 2);
    let mut gone = world();
    gone.places(&pod("a", &[]));
    gone.clear();
    assert!(gone.places(&pod("b", &[])));
    assert_eq!(gone.machines(), 1);
}

#[test]
fn spreads_go_on_over_machines_that_exist() {
    // INF-6, INF-7
    let mut zones = world();
    zones.provision(&pods("a", 4, &[test(), spread(ZONE, 1)]));
    assert_eq!(zones.skew(ZONE), [1, 1, 2]);
    let before = zones.machines();
    zones.provision(&pods("b", 5, &[test(), spread(ZONE, 1)]));
    assert_eq!((zones.skew(ZONE), zones.machines()), (vec![3, 3, 3], before));
    let mut hosts = world();
    hosts.provision(&pods("a", 4, &[test(), spread(HOST, 1)]));
    hosts.provision(&pods("b", 5, &[test(), spread(HOST, 1)]));
    assert_eq!(hosts.skew(HOST), [1; 9]);
}

/// One machine with these taints, and how far it has come.
fn tainted(taints: &[Taint], startup: &[Taint], readiness: Readiness) -> World {
    let mut world = world();
    world.places(&pod("first", &[]));
    let node: &mut Node = Arc::make_mut(&mut world.problem.nodes[0]);
    let stage = if readiness == Readiness::Initialized {
        Stage::Settled
    } else {
        Stage::ComingUp
    };
    node.readiness = readiness;
    node.taints = effective(taints, startup, stage);
    node.object.as_mut().unwrap().taints = taints.to_vec();
    world
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint::new(key, "", effect)
}

#[test]
fn taints_of_coming_up_do_not_count_until_the_machine_is_initialised() {
    // INF-8, INF-9, INF-10, INF-11, INF-12, INF-13, TS-1, TS-2, TS-3, TS-4
    let again = |mut world: World| {
        world.places(&pod("second", &[]));
        world.machines() == 1
    };
    let not_ready = taint("node.kubernetes.io/not-ready", "NoExecute");
    let own = taint("foo.com/taint", "NoSchedule");
    assert!(again(tainted(&[], &[], Readiness::Initialized)));
    assert!(again(tainted(
        std::slice::from_ref(&not_ready),
        &[],
        Readiness::ComingUp
    )));
    assert!(!again(tainted(
        std::slice::from_ref(&not_ready),
        &[],
        Readiness::Initialized
    )));
    assert!(!again(tainted(std::slice::from_ref(&own), &[], Readiness::Initialized)));
    let both = [own.clone(), not_ready];
    assert!(again(tainted(&both, std::slice::from_ref(&own), Readiness::ComingUp)));
    assert!(!again(tainted(
        std::slice::from_ref(&own),
        std::slice::from_ref(&own),
        Readiness::Initialized
    )));
    let passing = [
        taint("node.kubernetes.io/not-ready", "NoSchedule"),
        taint("node.kubernetes.io/unreachable", "NoSchedule"),
        Taint::new("node.cloudprovider.kubernetes.io/uninitialized", "true", "NoSchedule"),
    ];
    assert!(again(tainted(&passing, &[], Readiness::ComingUp)));
    assert!(!again(tainted(&passing, &[], Readiness::Initialized)));
}

/// A machine of somebody else.
fn foreign(cores: i64, gibibytes: i64, labels: &[(&str, &str)]) -> Arc<Node> {
    let name = "foreign".to_owned();
    let mut own: BTreeMap<String, String> = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    own.insert(HOST.to_owned(), name.clone());
    let own = Arc::new(own);
    let has = ResourceList::new()
        .with(names::CPU, Quantity::units(cores))
        .with(names::MEMORY, Quantity::bytes(gibibytes << 30))
        .with(names::PODS, Quantity::units(110));
    Arc::new(Node {
        name: name.clone(),
        labels: Arc::clone(&own),
        capacity: has.clone(),
        allocatable: has,
        object: Some(NodeObject {
            name,
            labels: own,
            taints: Vec::new(),
        }),
        ..Node::default()
    })
}

fn daemon(fragments: &[Value], node: Option<&str>) -> Pod {
    let mut daemon = pod("daemon", fragments);
    daemon.standing.daemon = true;
    daemon.standing.node = node.map(Into::into);
    daemon
}

#[test]
fn daemons_that_are_still_to_come_keep_their_room() {
    // INF-14, INF-15
    let huge = || {
        let mut world = World::of(vec![Kind::of("sixteen", 16, 64).made()]);
        world.problem.daemons = vec![Arc::new(daemon(&[size("1", "1Gi")], None))];
        world.places(&pod("first", &[]));
        world
    };
    let mut come = huge();
    come.put(&daemon(&[size("1", "1Gi")], Some("node-0")), 0);
    assert!(come.places(&pod("rest", &[ask(&[("cpu", "14900m")])])));
    assert_eq!(come.machines(), 1);
    let mut unexpected = World::of(vec![Kind::of("sixteen", 16, 64).made()]);
    let selecting = daemon(&[size("1", "1Gi"), sel("my-node-label", "x")], None);
    unexpected.problem.daemons = vec![
        Arc::new(selecting.clone()),
        Arc::new(daemon(&[ask(&[("cpu", "1m")])], None)),
    ];
    unexpected.places(&pod("first", &[]));
    unexpected.put(&selecting, 0);
    unexpected.places(&pod("rest", &[ask(&[("cpu", "15500m")])]));
    assert_eq!(unexpected.machines(), 2);
}

#[test]
fn many_small_passes_leave_at_most_one_machine_half_empty() {
    // INF-16
    let mut types = World::of(vec![
        Kind {
            millicores: 4250,
            pods: 4,
            ..Kind::of("t", 4, 16)
        }
        .made(),
    ]);
    for (pass, many) in [3, 9, 0, 4, 7, 1, 8, 2, 5, 6].into_iter().enumerate() {
        types.provision(&pods(&format!("p{pass}"), many, &[ask(&[("cpu", "1")])]));
    }
    let free = types.problem.nodes.iter().filter(|node| node.pods.len() < 4).count();
    assert!(free <= 1, "{free} machines with room");
}

#[test]
fn pods_that_are_not_bound_yet_do_not_bring_more_machines() {
    // INF-17, NB-1, NB-2
    let mut world = world();
    world.joining = Joining::InFlight;
    let waiting = [pod("a", &[ask(&[("cpu", "10m")])])];
    world.provision(&waiting);
    world.provision(&waiting);
    assert_eq!(world.machines(), 1);
    world.provision(&[waiting[0].clone(), pod("b", &[ask(&[("cpu", "10m")])])]);
    assert_eq!(world.machines(), 1);
    let mut accelerated = World::f();
    accelerated.joining = Joining::InFlight;
    for name in ["a", "b"] {
        accelerated.provision(&[pod(name, &[limit(&[("cpu", "10m"), ("gpu-A", "1")])])]);
    }
    assert_eq!(accelerated.machines(), 1);
}

#[test]
fn initialised_machines_are_tried_first() {
    // INF-18, INF-19
    for others_have_nodes in [false, true] {
        let mut world = World::f();
        world.places(&pod("first", &[]));
        let template = Node::clone(&world.problem.nodes[0]);
        world.clear();
        for at in 0..100 {
            let mut node = template.clone();
            node.name = format!("node-{at:03}");
            node.pods.clear();
            if at != 57 {
                node.readiness = Readiness::ComingUp;
                node.object = node.object.filter(|_| others_have_nodes);
            }
            world.problem.nodes.push(Arc::new(node));
        }
        let outcome = world.provision(&[pod("p", &[])]);
        assert_eq!(world.problem.nodes[outcome.on["p"]].name, "node-057");
    }
}

#[test]
fn machines_of_somebody_else_are_used_too() {
    // EX-1, EX-2
    let mut world = World::f();
    world.problem.nodes.push(foreign(10, 10, &[]));
    assert!(world.places(&pod("p", &[ask(&[("cpu", "10m")])])));
    let outcome = world.provision(&pods("q", 100, &[ask(&[("cpu", "10m")])]));
    assert_eq!((outcome.on.len(), world.machines()), (100, 1));
}

#[test]
fn a_label_that_a_machine_lacks_is_not_there() {
    // EX-3, EX-4
    let mut world = World::f();
    let pool = world.problem.pools.remove(0);
    world.problem.nodes.push(foreign(10, 10, &[]));
    let wants = pod("p", &[must(ZONE, "In", &["z1"])]);
    assert!(!world.places(&wants));
    world.problem.pools.push(pool);
    assert!(world.places(&wants));
    assert_eq!(world.machines(), 2);
    let mut with_daemon = World::f();
    with_daemon.problem.nodes.push(foreign(1, 1, &[]));
    with_daemon.problem.daemons = vec![Arc::new(daemon(
        &[size("100", "100Gi"), must(ZONE, "In", &["z1"])],
        None,
    ))];
    let one = |name: &str| pod(name, &[size("1", "1Gi")]);
    assert!(with_daemon.places(&one("a")));
    assert!(!with_daemon.places(&one("b")));
}

/// Two small machines, one of which leaves with a pod; how many machines there are after a pass for the pods that move.
#[test]
fn pods_of_leaving_machines_get_another_before_theirs_is_gone() {
    // DEL-1, PRV-16
    let mut world = World::f();
    let moved = pod("p", &[ask(&[("memory", "100M")])]);
    world.places(&moved);
    let answer = what_if(
        &world.problem,
        &[0],
        &[Arc::new(moved.clone())],
        &world.options,
        &|| true,
    );
    assert_eq!(answer.results.new_claims.len(), 1);
    assert_eq!(
        answer.results.new_claims[0].instance_types[0].name,
        "small-instance-type"
    );
    Arc::make_mut(&mut world.problem.nodes[0]).fate = Fate::Leaves;
    let all = [moved, pod("q", &[]), pod("r", &[])];
    let outcome = world.provision(&all);
    assert_eq!((outcome.machines(), world.machines()), (1, 2));
}

#[test]
fn host_ports_are_taken_once_a_machine() {
    // scheduling 9-3
    let mut world = World::f();
    assert_eq!(world.provision(&pods("p", 3, &[port(8080)])).machines(), 3);
    assert!(world.places(&pod("other", &[port(8081)])));
    assert_eq!(world.machines(), 3);
}

#[test]
fn a_machine_without_a_zone_takes_no_pod_that_is_spread_over_zones_whatever_else_the_pod_says_of_zones() {
    // scheduling 15-2
    let mut world = World::f();
    world.problem.nodes.push(foreign(10, 10, &[]));
    let spread = [test(), must(ZONE, "NotIn", &["z3"]), spread(ZONE, 1)];
    let outcome = world.provision(&[pod("p", &spread)]);
    assert_ne!(outcome.on.get("p"), Some(&0));
}
