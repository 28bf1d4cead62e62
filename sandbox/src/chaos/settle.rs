//! What is still open when all trouble is over, and what is left when nobody wants anything any more.

use super::census::{Census, is_true, text};
use super::foreign::Foreign;
use super::inspector::{reported, told};
use super::plan::Plan;
use super::room;
use crate::spot::Phase;
use crate::world::World;
use chrono::{DateTime, Utc};
use serde_json::Value;
use std::collections::BTreeSet;

/// What has to come to rest: pods without node and without a true explanation since then, machines on their way, pools without claim.
pub(super) fn open_matters(world: &World, plan: &Plan, census: &Census, since: DateTime<Utc>) -> Vec<String> {
    let mut open = Vec::new();
    let explained = explained(world, since);
    for pod in world.values("pods").iter().filter(|pod| waits(pod)) {
        let name = text(pod, "/metadata/name").unwrap_or_default();
        let app = text(pod, "/metadata/labels/app").unwrap_or_default();
        if plan.is_certain(app) {
            open.push(format!("pod {name} has no node"));
        } else if !explained.contains(name) {
            open.push(format!("pod {name} has no node, and nobody says why"));
        } else if let Some(words) = room::for_pod(world, plan, census, pod) {
            open.push(format!("pod {name} has no node, although {words}"));
        }
    }
    for claim in our_claims(world) {
        let name = text(&claim, "/metadata/name").unwrap_or_default();
        if text(&claim, "/metadata/deletionTimestamp").is_some() {
            if !is_held_by_pods(world, &claim) {
                open.push(format!("claim {name} is being deleted"));
            }
        } else if !is_true(&claim, "Initialized") {
            open.push(format!("claim {name} is not initialized"));
        }
    }
    open.extend(pools_without_claim(world, &plan.foreign));
    open
}

/// What should not be there after everything was scaled to zero.
pub(super) fn remains(world: &World, foreign: &Foreign) -> Vec<String> {
    let mut left: Vec<String> = our_claims(world)
        .iter()
        .map(|claim| format!("claim {}", text(claim, "/metadata/name").unwrap_or_default()))
        .collect();
    let mut theirs = foreign.nodes(world);
    theirs.extend(lingering(world));
    let nodes = world.values("nodes");
    let nodes = nodes.iter().filter_map(|node| text(node, "/metadata/name"));
    left.extend(
        nodes
            .filter(|name| !theirs.contains(*name))
            .map(|name| format!("node {name}")),
    );
    let pools = world.pools().into_iter().filter(|name| !foreign.owns_pool(name));
    left.extend(pools.map(|name| format!("pool {name}")));
    left
}

/// Nodes of dead servers that the cloud controller, by its quirk, leaves behind: nobody else may tell that they are dead for good.
fn lingering(world: &World) -> Vec<String> {
    world.spot().with(|platform| {
        let left = platform.options().quirks.node_lingers;
        let dead = platform.servers().filter(|server| left && server.phase == Phase::Dead);
        dead.map(|server| server.node_name.clone()).collect()
    })
}

/// Nodes of dead servers that nobody deletes but a person, since no controller holds them: a StatefulSet waits for the pods on them for ever, and keeps
/// those on other nodes.
pub(super) fn dead_nodes_for_people(world: &World) -> Vec<String> {
    let dead = lingering(world);
    let held = |node: &Value| {
        node.pointer("/metadata/finalizers")
            .and_then(Value::as_array)
            .is_some_and(|all| !all.is_empty())
    };
    let nodes = world.values("nodes");
    let free = nodes
        .iter()
        .filter(|node| !held(node))
        .filter_map(|node| text(node, "/metadata/name"));
    free.filter(|name| dead.iter().any(|dead| dead == name))
        .map(str::to_owned)
        .collect()
}

/// Pools of ours that nobody may delete but a person: no mark, no claim, told.
pub(super) fn for_people(world: &World, foreign: &Foreign) -> Vec<String> {
    let reported = reported(world);
    world.spot().with(|platform| {
        let pools = platform
            .pools()
            .filter(|pool| !foreign.owns_pool(&pool.meta.name) && told(pool, &reported));
        pools.map(|pool| pool.meta.name.clone()).collect()
    })
}

fn pools_without_claim(world: &World, foreign: &Foreign) -> Vec<String> {
    let claims = our_claims(world);
    let uids: BTreeSet<&str> = claims.iter().filter_map(|claim| text(claim, "/metadata/uid")).collect();
    let reported = reported(world);
    world.spot().with(|platform| {
        let pools = platform.pools().filter(|pool| {
            let name = &pool.meta.name;
            !foreign.owns_pool(name) && !uids.contains(name.as_str()) && !told(pool, &reported)
        });
        pools
            .map(|pool| format!("pool {} has no claim", pool.meta.name))
            .collect()
    })
}

/// All claims but those of others.
fn our_claims(world: &World) -> Vec<Value> {
    let claims = world.values("nodeclaims.karpenter.sh").into_iter();
    claims
        .filter(|claim| {
            !Foreign::owns_object(
                "nodeclaims.karpenter.sh",
                text(claim, "/metadata/name").unwrap_or_default(),
            )
        })
        .collect()
}

/// Whether pods that may not be evicted keep a claim's node from going, as their owners want it.
fn is_held_by_pods(world: &World, claim: &Value) -> bool {
    let Some(node) = text(claim, "/status/nodeName") else {
        return false;
    };
    let budgets = world.values("poddisruptionbudgets.policy");
    let closed: BTreeSet<&str> = budgets
        .iter()
        .filter(|budget| budget.pointer("/status/disruptionsAllowed").and_then(Value::as_i64) == Some(0))
        .filter_map(|budget| text(budget, "/spec/selector/matchLabels/app"))
        .collect();
    world
        .values("pods")
        .iter()
        .filter(|pod| text(pod, "/spec/nodeName") == Some(node))
        .any(|pod| {
            let protected = text(pod, "/metadata/annotations/karpenter.sh~1do-not-disrupt") == Some("true");
            protected || text(pod, "/metadata/labels/app").is_some_and(|app| closed.contains(app))
        })
}

/// Whether a pod asks for a machine: daemons follow machines.
fn waits(pod: &Value) -> bool {
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let follows = owners.into_iter().flatten().any(|owner| owner["kind"] == "DaemonSet");
    let finished = matches!(text(pod, "/status/phase"), Some("Succeeded" | "Failed"));
    let going = text(pod, "/metadata/deletionTimestamp").is_some();
    !follows && !finished && !going && text(pod, "/spec/nodeName").is_none()
}

/// Names of pods that the operator has said of since then why they have no node: it counts the Event up at least every five minutes (surface §4.2).
fn explained(world: &World, since: DateTime<Utc>) -> BTreeSet<String> {
    let events = world.values("events");
    let failed = events.iter().filter(|event| event["reason"] == "FailedScheduling");
    let last = |event: &&Value| text(event, "/lastTimestamp").and_then(|at| at.parse::<DateTime<Utc>>().ok());
    let by_operator = |event: &&Value| text(event, "/source/component") == Some("karpenter");
    failed
        .filter(by_operator)
        .filter(|event| last(event).is_some_and(|at| at >= since))
        .filter_map(|event| text(event, "/involvedObject/name"))
        .map(str::to_owned)
        .collect()
}

/// What the cluster says of itself in the end: every Event, and claims, nodes and pods as they are.
pub(super) fn last_words(world: &World) -> Vec<String> {
    let event = |event: &Value| {
        let of = |pointer| text(event, pointer).unwrap_or_default();
        let (kind, name) = (of("/involvedObject/kind"), of("/involvedObject/name"));
        format!(
            "{} {} {kind} {name}: {} ({})",
            of("/lastTimestamp"),
            of("/reason"),
            of("/message"),
            event["count"]
        )
    };
    let mut words: Vec<String> = world.values("events").iter().map(event).collect();
    words.sort();
    for kind in ["nodeclaims.karpenter.sh", "nodes", "pods"] {
        words.extend(world.values(kind).iter().map(|object| format!("{kind} {object}")));
    }
    words
}
