//! What a large cluster weighs: with 500 nodes and 15,000 pods the whole operator stays under 64 MiB (architecture §5), and the state and what is
//! shown of it are only a part of it. Counted in the bytes that are asked of the allocator, which are the same on every machine; `make
//! bench-resident` measures the process. A test binary of its own, since it counts all that its process allocates.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "../benches/cluster/objects.rs"]
mod objects;

use chrono::{DateTime, Utc};
use karpenter::cluster::entries::{NodeEntry, Reader};
use karpenter::cluster::{Cluster, Delta, Kind, Object, Snapshot, Source, Version};
use karpenter::controllers::metrics::{Follower, NodeFollower, PodFollower, SeenPods};
use karpenter::telemetry::{BuildInfo, Exposition, Metrics};
use objects::{NODES, PODS};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes are counted for the process: tests of this file run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that are allocated now.
fn held() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fn grown(since: usize) -> usize {
    held().saturating_sub(since)
}

/// The state, and what fills it.
struct World {
    cluster: Cluster,
    reader: Reader,
}

impl World {
    fn new() -> Self {
        Self {
            cluster: Cluster::new([], Arc::new(|_| None), now()),
            reader: Reader::new(),
        }
    }

    /// As after the first lists; each pod as `shape` makes it of a running one.
    fn listed(shape: impl Fn(&mut Value)) -> Self {
        let mut world = Self::new();
        world.list(Kind::Node, (0..NODES).map(node).collect());
        let pods = (0..PODS).map(|number| {
            let mut pod = objects::pod(number);
            shape(&mut pod);
            world.reader.pod(&serde_json::from_value(pod).unwrap())
        });
        let pods = pods.map(|pod| Object::Pod(Arc::new(pod))).collect();
        world.list(Kind::Pod, pods);
        world
    }

    fn list(&mut self, kind: Kind, objects: Vec<Object>) {
        let delta = Delta::Listed {
            source: Source::of(kind),
            version: Version::of(20_000),
            began: now(),
            objects,
            unread: BTreeSet::new(),
        };
        self.cluster.observe(delta, now());
    }

    fn snapshot(&mut self) -> Arc<Snapshot> {
        self.cluster.snapshot()
    }
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_790_000_000, 0).unwrap()
}

fn node(number: usize) -> Object {
    let object = serde_json::from_value(objects::node(number)).unwrap();
    Object::Node(Arc::new(NodeEntry::read(object)))
}

/// Waiting for a place, as the scheduler says.
fn waiting(pod: &mut Value) {
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    pod["status"] = json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }] });
}

fn metrics(exposition: &Exposition) -> Metrics {
    Metrics::new(exposition, BuildInfo::unknown()).unwrap()
}

/// What is allocated at most while a scrape is sent part by part, and the length of its text.
fn scraped(exposition: &Exposition) -> (usize, usize) {
    let (before, mut most, mut length) = (held(), 0, 0);
    for part in exposition.parts(now()).unwrap() {
        most = most.max(grown(before));
        length += part.len();
    }
    (most, length)
}

/// The large cluster with running pods, and how many bytes it took; read once for the tests that share it.
struct Large {
    world: World,
    weight: usize,
}

static LARGE: LazyLock<Mutex<Large>> = LazyLock::new(|| {
    let before = held();
    let mut world = World::listed(|_| {});
    let nodes = world.snapshot().nodes_for_scheduling();
    let weight = grown(before);
    assert_eq!(nodes.iter().map(|node| node.pods.len()).sum::<usize>(), PODS);
    Mutex::new(Large { world, weight })
});

fn large() -> MutexGuard<'static, Large> {
    LARGE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_state_of_a_large_cluster_fits_into_a_quarter_of_what_the_operator_may_have() {
    let _alone = alone();
    let weight = large().weight;
    println!("state of {NODES} nodes and {PODS} pods: {weight} bytes");
    assert!(weight < 16 << 20, "{weight} bytes");
}

#[test]
fn one_more_version_of_the_state_costs_what_changed() {
    let _alone = alone();
    let world = &mut large().world;
    let first = world.snapshot();
    let before = held();
    let mut versions = vec![first];
    for number in 0..10 {
        let mut pod = objects::pod(number * 1000);
        pod["metadata"]["resourceVersion"] = json!((30_000 + number).to_string());
        let entry = world.reader.pod(&serde_json::from_value(pod).unwrap());
        world
            .cluster
            .observe(Delta::Applied(Object::Pod(Arc::new(entry))), now());
        versions.push(world.snapshot());
    }
    let each = grown(before) / 10;
    println!("one more version: {each} bytes");
    assert!(each < 48 << 10, "{each} bytes");
}

#[test]
fn showing_running_pods_keeps_nothing_for_each_of_them_and_a_scrape_is_never_whole() {
    let _alone = alone();
    let snapshot = large().world.snapshot();
    let exposition = Exposition::new();
    let metrics = metrics(&exposition);
    let (pods, nodes) = (
        PodFollower::new(metrics.pods, SeenPods::default()),
        NodeFollower::new(metrics.nodes.gauges),
    );
    let before = held();
    pods.follow(&snapshot, now());
    let of_pods = grown(before);
    assert!(of_pods < PODS, "less than a byte for each pod: {of_pods} in all");
    nodes.follow(&snapshot, now());
    let of_nodes = grown(before + of_pods) / NODES;
    println!("shown: {of_pods} bytes for all pods, {of_nodes} for each node");
    assert!(of_nodes < 1536, "{of_nodes} bytes for each node");
    let before = held();
    let (most, length) = scraped(&exposition);
    println!("a scrape of {length} bytes takes {most}");
    assert!(length > 5_000_000, "not all pods are in it: {length} bytes");
    assert!(most < 2 << 20, "{most} of {length} bytes at once");
    let left = grown(before);
    assert!(left < 1024, "{left} bytes stay after a scrape");
}

#[test]
fn what_is_kept_of_pods_that_wait_is_bounded_and_goes_with_them() {
    let _alone = alone();
    let exposition = Exposition::new();
    let metrics = metrics(&exposition);
    let seen = SeenPods::default();
    let follower = PodFollower::new(metrics.pods, seen);
    let mut world = World::listed(waiting);
    let snapshot = world.snapshot();
    let before = held();
    follower.follow(&snapshot, now());
    let each = grown(before) / PODS;
    println!("shown of a pod that waits: {each} bytes");
    assert!(each < 128, "{each} bytes for each pod");
    world.list(Kind::Pod, Vec::new());
    let snapshot = world.snapshot();
    follower.follow(&snapshot, now());
    drop((world, snapshot));
    let text: String = exposition.parts(now()).unwrap().collect();
    assert!(!text.contains("name=\"app-"), "{text}");
}
