//! What the state of a large cluster costs: taking in 500 nodes and 15,000 pods, and a snapshot after one change.
//!
//! Part of `make bench`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a measurement that cannot be set up has nothing to say"
)]

#[path = "cluster/objects.rs"]
mod objects;

use karpenter::cluster::entries::Reader;
use karpenter::cluster::{Cluster, Delta, Kind, Object, Source, Version};
use karpenter::k8s::kinds::WatchedKinds;
use objects::{NODES, PODS};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The operator's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

/// What the API server sends, as text.
struct Sent {
    nodes: Vec<String>,
    pods: Vec<String>,
}

fn sent() -> Sent {
    Sent {
        nodes: (0..NODES).map(|number| objects::node(number).to_string()).collect(),
        pods: (0..PODS).map(|number| objects::pod(number).to_string()).collect(),
    }
}

/// From text to what the state keeps, as a watcher does it.
fn read(kind: Kind, texts: &[String]) -> Vec<Object> {
    let kinds = WatchedKinds::with([]);
    let watched = kinds.of_source(&Source::of(kind)).unwrap();
    let mut reader = Reader::new();
    let mut object = |text: &String| {
        let value: Value = serde_json::from_str(text).unwrap();
        watched.read(&mut reader, value).unwrap()
    };
    texts.iter().map(&mut object).collect()
}

fn take_in(sent: &Sent) -> Cluster {
    let now = chrono::DateTime::UNIX_EPOCH;
    let mut cluster = Cluster::new([], Arc::new(|_| None), now);
    for (kind, texts) in [(Kind::Node, &sent.nodes), (Kind::Pod, &sent.pods)] {
        let listed = Delta::Listed {
            source: Source::of(kind),
            version: Version::of(100_000),
            began: now,
            objects: read(kind, texts),
            unread: BTreeSet::new(),
        };
        cluster.observe(listed, now);
    }
    cluster
}

/// From the answers of the API server to a complete state.
#[divan::bench(sample_count = 10)]
fn ingest_of_500_nodes_and_15000_pods(bencher: divan::Bencher) {
    let sent = sent();
    bencher.bench_local(|| take_in(&sent));
}

/// One pod changes, then somebody who decides asks for everything, machines as a scheduling pass sees them included.
#[divan::bench]
fn snapshot_after_one_change(bencher: divan::Bencher) {
    let now = chrono::DateTime::UNIX_EPOCH;
    let mut cluster = take_in(&sent());
    drop(cluster.snapshot().nodes_for_scheduling());
    let mut version = 200_000_usize;
    let kinds = WatchedKinds::with([]);
    let watched = kinds.of_source(&Source::of(Kind::Pod)).unwrap();
    let mut reader = Reader::new();
    bencher
        .with_inputs(move || {
            version += 1;
            let mut pod = objects::pod(version % PODS);
            pod["metadata"]["resourceVersion"] = version.to_string().into();
            pod["metadata"]["labels"]["changed"] = version.to_string().into();
            watched.read(&mut reader, pod).unwrap()
        })
        .bench_local_values(|pod| {
            cluster.observe(Delta::Applied(pod), now);
            let snapshot = cluster.snapshot();
            let nodes = snapshot.nodes_for_scheduling();
            (snapshot, nodes)
        });
}
