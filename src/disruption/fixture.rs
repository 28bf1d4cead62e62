//! A small cluster for the tests of this module: a pool `default`, machines with claim and node, pods.

use super::allowance::Allowances;
use super::candidate::{Candidate, Look, Refusal};
use super::method::{Class, Method};
use super::pdb::Guards;
use crate::api::NodeClassKind;
use crate::cluster::entries::{ClaimEntry, NodeEntry, PdbEntry, PoolEntry, Reader};
use crate::cluster::{Cluster, Delta, MachineId, Mark, Object, Snapshot};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) fn now() -> DateTime<Utc> {
    "2026-03-02T09:30:00Z".parse().unwrap()
}

pub(super) fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    into.remove(key);
                } else {
                    merge(into.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

fn kinds() -> [NodeClassKind; 1] {
    [NodeClassKind {
        group: "example.com".into(),
        kind: "Class".into(),
    }]
}

pub(super) struct Fixture {
    cluster: Cluster,
    versions: u64,
    pub(super) busy: BTreeSet<MachineId>,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let mut fixture = Self {
            cluster: Cluster::new([], Arc::new(|_| None), now()),
            versions: 0,
            busy: BTreeSet::new(),
        };
        fixture.pool("default", &json!({}));
        fixture
    }

    fn apply(&mut self, object: Object) -> &mut Self {
        self.cluster.observe(Delta::Applied(object), now());
        self
    }

    fn object<T: serde::de::DeserializeOwned>(&mut self, mut object: Value, patch: &Value) -> T {
        self.versions += 1;
        object["metadata"]["resourceVersion"] = json!(self.versions.to_string());
        merge(&mut object, patch);
        serde_json::from_value(object).unwrap()
    }

    pub(super) fn pool(&mut self, name: &str, patch: &Value) -> &mut Self {
        let class = json!({ "group": "example.com", "kind": "Class", "name": "c" });
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": name, "uid": name },
            "spec": { "template": { "spec": { "nodeClassRef": class, "requirements": [] } },
                "disruption": { "consolidateAfter": "0s", "budgets": [{ "nodes": "100%" }] } },
        });
        let pool = self.object(object, patch);
        self.apply(Object::NodePool(Arc::new(PoolEntry::read(pool))))
    }

    pub(super) fn machine(&mut self, name: &str) -> &mut Self {
        self.machine_with(name, &json!({}))
    }

    /// A claim changed by the patch, and its node.
    pub(super) fn machine_with(&mut self, name: &str, patch: &Value) -> &mut Self {
        let class = json!({ "group": "example.com", "kind": "Class", "name": "c" });
        let condition =
            |name: &str| json!({ "type": name, "status": "True", "lastTransitionTime": "2026-03-02T09:00:00Z" });
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": { "name": name, "uid": name, "creationTimestamp": "2026-03-02T09:00:00Z",
                "labels": { "karpenter.sh/nodepool": "default" }, "finalizers": ["karpenter.sh/termination"] },
            "spec": { "nodeClassRef": class, "requirements": [] },
            "status": { "providerID": format!("id-{name}"), "nodeName": name,
                "conditions": [condition("Launched"), condition("Registered"), condition("Initialized"), condition("Consolidatable")] },
        });
        let claim = self.object(object, patch);
        self.apply(Object::NodeClaim(Arc::new(ClaimEntry::read(claim))));
        self.node_with(name, &json!({}))
    }

    /// The node of a machine, changed by the patch.
    pub(super) fn node_with(&mut self, name: &str, patch: &Value) -> &mut Self {
        let object = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "uid": format!("node-{name}"), "labels": {
                "karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true" } },
            "spec": { "providerID": format!("id-{name}") },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        let node = self.object(object, patch);
        self.apply(Object::Node(Arc::new(NodeEntry::read(node))))
    }

    pub(super) fn foreign_node(&mut self, name: &str) -> &mut Self {
        self.node_with(
            name,
            &json!({ "metadata": { "labels": { "karpenter.sh/nodepool": null } } }),
        )
    }

    #[allow(
        clippy::needless_pass_by_value,
        reason = "json! literals as arguments read best without a borrow"
    )]
    pub(super) fn pod(&mut self, node: &str, name: &str, patch: Value) -> &mut Self {
        let object = json!({
            "metadata": { "name": name, "namespace": "default", "uid": name },
            "spec": { "nodeName": node, "containers": [] }, "status": { "phase": "Running" },
        });
        let pod = self.object(object, &patch);
        self.apply(Object::Pod(Arc::new(Reader::new().pod(&pod))))
    }

    pub(super) fn pdb(&mut self, object: Value) -> &mut Self {
        let budget = self.object(object, &json!({}));
        self.apply(Object::PodDisruptionBudget(Arc::new(PdbEntry::read(budget))))
    }

    pub(super) fn mark(&mut self, name: &str, mark: Mark) -> &mut Self {
        self.cluster.mark([MachineId::Claim(name.into())], mark);
        self
    }

    pub(super) fn nominate(&mut self, name: &str, until: DateTime<Utc>) -> &mut Self {
        self.cluster.nominate(MachineId::Claim(name.into()), until);
        self
    }

    pub(super) fn snapshot(&mut self) -> Arc<Snapshot> {
        self.cluster.snapshot()
    }

    pub(super) fn look(&mut self, name: &str, class: Class) -> Result<Candidate, Refusal> {
        let snapshot = self.snapshot();
        let pools: BTreeMap<_, _> = snapshot
            .objects
            .pools
            .values()
            .map(|pool| (pool.name().to_owned(), Arc::clone(pool)))
            .collect();
        let look = Look {
            snapshot: &snapshot,
            guards: Guards::of(&snapshot),
            pools: &pools,
            busy: &self.busy,
            now: now(),
        };
        let machine = snapshot
            .machine_of_claim(name)
            .or_else(|| snapshot.machine_of_node(name));
        look.candidate(machine.unwrap(), class)
    }

    pub(super) fn candidate(&mut self, name: &str) -> Candidate {
        self.look(name, Class::Graceful).unwrap()
    }

    pub(super) fn allowances(&mut self, method: Method) -> Allowances {
        let snapshot = self.snapshot();
        Allowances::count(&snapshot, &kinds(), &method.reason(), now())
    }
}
