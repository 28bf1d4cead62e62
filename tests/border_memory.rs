//! What the state of a large cluster weighs: with 500 nodes and 15,000 pods the whole operator stays under 64 MiB (architecture §5), and the
//! state is only a part of it. A test binary of its own, since it measures its process.

#![allow(
    clippy::unwrap_used,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "../benches/cluster/objects.rs"]
mod objects;

use karpenter::cluster::entries::{NodeEntry, Reader};
use karpenter::cluster::{Cluster, Delta, Kind, Object, Source, Version};
use objects::{NODES, PODS};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The operator's, so that what is measured is what the operator would hold.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Half of what the operator may have.
const MOST_MIB: f64 = 32.0;

fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0
}

fn node(number: usize) -> Object {
    let object = serde_json::from_value(objects::node(number)).unwrap();
    Object::Node(Arc::new(NodeEntry::read(object)))
}

fn pod(number: usize, reader: &mut Reader) -> Object {
    let object = serde_json::from_value(objects::pod(number)).unwrap();
    Object::Pod(Arc::new(reader.pod(&object)))
}

#[test]
fn a_large_cluster_fits_into_half_of_what_the_operator_may_have() {
    let now = chrono::DateTime::UNIX_EPOCH;
    let mut cluster = Cluster::new([], Arc::new(|_| None), now);
    // What reading needs for a moment is the allocator's by now, and not counted.
    let mut reader = Reader::new();
    drop((0..500).map(|number| pod(number, &mut reader)).collect::<Vec<_>>());
    let before = resident_mib();
    let mut listed = |kind, objects| {
        let (source, version, unread) = (Source::of(kind), Version::of(20_000), BTreeSet::new());
        cluster.observe(
            Delta::Listed {
                source,
                version,
                began: now,
                objects,
                unread,
            },
            now,
        );
    };
    listed(Kind::Node, (0..NODES).map(node).collect());
    listed(Kind::Pod, (0..PODS).map(|number| pod(number, &mut reader)).collect());
    let snapshot = cluster.snapshot();
    let nodes = snapshot.nodes_for_scheduling();
    let weight = resident_mib() - before;
    assert_eq!(nodes.iter().map(|node| node.pods.len()).sum::<usize>(), PODS);
    println!("state of {NODES} nodes and {PODS} pods: {weight:.1} MiB");
    assert!(weight < MOST_MIB, "{weight:.1} MiB");
}
