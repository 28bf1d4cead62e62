//! Every claim as it was at every revision, from the API server's own log: what lasted only a moment is seen too.
//!
//! Holds the NodePools' limits against what their claims offer after each change.

use super::again::Again;
use super::mortal::LEASE;
use super::purchases::Purchases;
use crate::api::{Event, EventKind, Stored};
use crate::world::World;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use karpenter::resources::{Quantity, ResourceList};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const CLAIMS: &str = "nodeclaims.karpenter.sh";
/// Leases, as the API server calls them.
pub(super) const LEASES: &str = "leases.coordination.k8s.io";

/// The claims, nodes and pods that are followed.
#[derive(Debug, Default)]
pub(super) struct Census {
    cursor: u64,
    claims: BTreeMap<String, Arc<Stored>>,
    /// Nodes that are to go: their claims no longer count.
    marked: BTreeSet<String>,
    limits: BTreeMap<String, ResourceList>,
    /// Names of all claims that ever were, by UID.
    ever: BTreeMap<String, String>,
    /// UIDs of claims whose node was ready for pods.
    initialized: BTreeMap<String, String>,
    /// Nodes that ever had a pod that asked for a machine.
    used: BTreeSet<String>,
    purchases: Purchases,
    again: Again,
    breaches: BTreeSet<String>,
}

impl Census {
    /// A census of claims under these NodePools' limits.
    pub(super) fn of(pools: &[Value]) -> Self {
        let limits = pools.iter().filter_map(|pool| {
            let limits = amounts(&pool["spec"]["limits"]);
            Some((text(pool, "/metadata/name")?.to_owned(), limits)).filter(|(_, limits)| !limits.is_empty())
        });
        Self {
            limits: limits.collect(),
            ..Self::default()
        }
    }

    /// Reads on to the present.
    pub(super) fn follow(&mut self, world: &World) {
        let mut news: Vec<(&'static str, Arc<Event>)> = Vec::new();
        let revision = {
            let core = world.api().inner.core();
            for table in [CLAIMS, "nodes", "pods", "events", LEASES] {
                // what was forgotten meanwhile is not seen; looks come before each compaction
                let events = core.store.table(table).and_then(|t| t.since(self.cursor).ok());
                news.extend(events.into_iter().flatten().map(|event| (table, Arc::clone(event))));
            }
            core.store.revision()
        };
        self.cursor = revision;
        news.sort_by_key(|(_, event)| event.revision);
        for (table, event) in news {
            match table {
                CLAIMS => self.claim(&event),
                "nodes" => self.node(&event),
                LEASES => self.lease(&event),
                "events" => {
                    self.purchases.event(event.object.value());
                    self.again.event(event.kind, event.object.value());
                }
                _ => self.pod(&event),
            }
        }
    }

    /// UIDs of the claims there are.
    pub(super) fn live(&self) -> BTreeSet<&str> {
        self.claims
            .values()
            .filter_map(|claim| text(claim.value(), "/metadata/uid"))
            .collect()
    }

    /// How many claims there ever were.
    pub(super) fn ever(&self) -> usize {
        self.ever.len()
    }

    /// Whether a claim of this UID ever was.
    pub(super) fn knows(&self, uid: &str) -> bool {
        self.ever.contains_key(uid)
    }

    /// Limits that were exceeded, and pods that were planned twice.
    pub(super) fn breaches(&self) -> impl Iterator<Item = &String> {
        self.breaches.iter().chain(self.again.found())
    }

    /// Whether one of these nodes ever had a pod that asked for a machine.
    pub(super) fn were_used(&self, nodes: &BTreeSet<String>) -> bool {
        !self.used.is_disjoint(nodes)
    }

    /// Names of claims that were for nothing: their nodes were ready and never got a pod, and no earlier machine had taken those they were bought for.
    pub(super) fn needless(&self) -> Vec<String> {
        let unused = self.initialized.iter().filter(|(_, node)| !self.used.contains(*node));
        let unused = unused.filter_map(|(uid, _)| self.ever.get(uid).cloned());
        unused.filter(|claim| !self.purchases.was_overtaken(claim)).collect()
    }

    /// What the claims of a NodePool use of its limits, in words, if those leave room for so much more; `nodes` are all there are. A Node that a dead
    /// server left behind counts as long as nobody deletes it, with claim or without.
    pub(super) fn room(&self, pool: &str, more: &ResourceList, nodes: &[Value]) -> Option<String> {
        let Some(limits) = self.limits.get(pool) else {
            return Some("no limits".into());
        };
        let (mut usage, counted) = self.usage(pool);
        let claimed: BTreeSet<&str> = self
            .claims
            .values()
            .filter_map(|claim| text(claim.value(), "/status/nodeName"))
            .collect();
        for node in nodes {
            let named = text(node, "/metadata/labels/karpenter.sh~1nodepool") == Some(pool);
            let name = text(node, "/metadata/name").unwrap_or_default();
            if named && !claimed.contains(name) {
                usage.add(&amounts(&node["status"]["capacity"]).with("nodes", Quantity::units(1)));
            }
        }
        let words = format!(
            "{} use {:?} of {:?}",
            counted.join(", "),
            usage.to_api(),
            limits.to_api()
        );
        usage.add(more);
        limits.exceeded_by(&usage).is_none().then_some(words)
    }

    /// Another operator begins, and knows nothing of what the last one planned.
    pub(super) fn forget_plans(&mut self, world: &World) {
        self.again.stir(world.api().revision());
    }

    fn lease(&mut self, event: &Event) {
        let holder = |stored: &Stored| text(stored.value(), "/spec/holderIdentity").map(str::to_owned);
        let before = event.previous.as_deref().and_then(holder);
        if event.key.name == LEASE && holder(&event.object) != before {
            self.again.stir(event.revision);
        }
    }

    fn claim(&mut self, event: &Event) {
        let claim = event.object.value();
        let (name, uid) = (
            event.key.name.clone(),
            text(claim, "/metadata/uid").unwrap_or_default().to_owned(),
        );
        if is_true(claim, "Initialized")
            && let Some(node) = text(claim, "/status/nodeName")
        {
            self.initialized.insert(uid.clone(), node.to_owned());
        }
        self.ever.insert(uid, name.clone());
        self.purchases.claim(claim);
        self.again.claim(event.kind, event.revision, claim);
        if event.kind == EventKind::Deleted {
            self.claims.remove(&name);
        } else {
            self.claims.insert(name, Arc::clone(&event.object));
        }
        if let Some(pool) = text(claim, "/metadata/labels/karpenter.sh~1nodepool") {
            self.hold_to_limits(&pool.to_owned());
        }
    }

    fn node(&mut self, event: &Event) {
        let node = event.object.value();
        let taints = node.pointer("/spec/taints").and_then(Value::as_array);
        let marked = taints
            .into_iter()
            .flatten()
            .any(|taint| taint["key"] == "karpenter.sh/disrupted");
        if event.kind == EventKind::Deleted || marked {
            self.again.stir(event.revision);
        }
        if event.kind == EventKind::Deleted || !marked {
            self.marked.remove(&event.key.name);
        } else {
            self.marked.insert(event.key.name.clone());
        }
    }

    fn pod(&mut self, event: &Event) {
        let pod = event.object.value();
        let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let follows = owners.into_iter().flatten().any(|owner| owner["kind"] == "DaemonSet");
        if !follows {
            self.again.pod(event.kind, event.revision, pod);
        }
        if let Some(node) = text(pod, "/spec/nodeName").filter(|_| !follows) {
            self.used.insert(node.to_owned());
            self.purchases.bound(pod, node);
        }
    }

    /// scheduling 20: what is being replaced or deleted no longer counts.
    fn hold_to_limits(&mut self, pool: &String) {
        let Some(limits) = self.limits.get(pool) else { return };
        let (usage, counted) = self.usage(pool);
        if let Some((resource, usage, limit)) = limits.exceeded_by(&usage) {
            let words = format!(
                "NodePool {pool} has {usage} {resource} of at most {limit}: {}",
                counted.join(", ")
            );
            self.breaches.insert(words);
        }
    }

    /// What counts against a NodePool's limits, and the claims that do.
    fn usage(&self, pool: &str) -> (ResourceList, Vec<&str>) {
        let mut usage = ResourceList::default();
        let mut counted = Vec::new();
        for (name, stored) in &self.claims {
            let claim = stored.value();
            let ours = text(claim, "/metadata/labels/karpenter.sh~1nodepool") == Some(pool);
            let goes = text(claim, "/metadata/deletionTimestamp").is_some()
                || is_true(claim, "DisruptionReason")
                || text(claim, "/status/nodeName").is_some_and(|node| self.marked.contains(node));
            if ours && !goes {
                usage.add(&amounts(&claim["status"]["capacity"]).with("nodes", Quantity::units(1)));
                counted.push(name.as_str());
            }
        }
        (usage, counted)
    }
}

fn amounts(value: &Value) -> ResourceList {
    let map: BTreeMap<String, ApiQuantity> = serde_json::from_value(value.clone()).unwrap_or_default();
    ResourceList::from_api(&map)
}

/// A text inside an object.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

/// Whether a condition is True.
pub(super) fn is_true(object: &Value, kind: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|c| c["type"] == kind && c["status"] == "True")
}
