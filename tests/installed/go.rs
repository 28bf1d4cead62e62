//! A cluster as the Go provider leaves it, made by hand: definitions, NodePools, claims and Nodes with hashes of version `v3` that our own algorithm would
//! never make, machines whose pools are named by the claims' UIDs, and a lease that nobody gave back. Nothing of it comes from our code.

use super::scene::{Scene, condition, name, uid};
use chrono::SecondsFormat;
use karpenter::clock::{Clock, SystemClock};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

pub const GROUP: &str = "karpenter.rackspace.com";
pub const LEASE: &str = "karpenter-leader-election";
/// Who held the lease.
pub const HOLDER: &str = "karpenter-6d5f_0b0c7a0e-0000-4000-8000-000000000000";
const GO_HASH: &str = "4211082431876551783";
const ORGANIZATION: &str = "apis/ngpc.rxt.io/v1/namespaces/org-knyiltp8zznvkz5g";

/// The two NodePools that it was given, each of one capacity type, and the class that it bought for them.
pub const POOLS: [(&str, &str, &str); 2] = [
    ("default", "spot", "gp.vs1.xlarge-iad"),
    ("steady", "on-demand", "ch.vs1.large-iad"),
];

fn capacity_type(pool: &str) -> &'static str {
    POOLS.iter().find(|(known, ..)| *known == pool).unwrap().1
}

fn class(pool: &str) -> &'static str {
    POOLS.iter().find(|(known, ..)| *known == pool).unwrap().2
}

/// The definitions of its chart: NodePool and NodeClaim as upstream serves them (`tests/data/observed`) and its own node class; no NodeOverlay.
pub async fn install_crds(scene: &Scene) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("tests/data/observed/crd-skeletons.json")).unwrap();
    let observed: Value = serde_json::from_str(&text).unwrap();
    for kind in ["NodePool", "NodeClaim"] {
        let spec = &observed[kind];
        let plural = spec["names"]["plural"].as_str().unwrap();
        let crd = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.karpenter.sh") }, "spec": spec });
        scene.apply(&crd, "").await.unwrap();
    }
    let class = root.join("crds/karpenter.rackspace.com_rackspacespotnodeclasses.yaml");
    scene
        .plane
        .apply(&std::fs::read_to_string(class).unwrap(), "default")
        .await;
    scene
        .until("the Go provider's kinds are served", async || {
            let crds = scene
                .objects("apiextensions.k8s.io/v1", "CustomResourceDefinition")
                .await;
            let served = |crd: &&Value| condition(crd, "Established").is_some_and(|it| it["status"] == "True");
            crds.iter().filter(served).count() == 3
        })
        .await;
}

fn hashes() -> Value {
    json!({ "karpenter.sh/nodepool-hash": GO_HASH, "karpenter.sh/nodepool-hash-version": "v3" })
}

fn class_ref() -> Value {
    json!({ "group": GROUP, "kind": "RackspaceSpotNodeClass", "name": "default" })
}

/// Class and NodePools.
pub async fn apply_pools(scene: &Scene) {
    let class = json!({ "apiVersion": format!("{GROUP}/v1"), "kind": "RackspaceSpotNodeClass", "metadata": { "name": "default" }, "spec": {} });
    scene.apply(&class, "").await.unwrap();
    for (pool, capacity_type, _) in POOLS {
        let policy = if pool == "default" {
            "WhenEmptyOrUnderutilized"
        } else {
            "WhenEmpty"
        };
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": pool, "annotations": hashes() },
            "spec": { "template": { "metadata": { "labels": { "team": "a" } }, "spec": { "nodeClassRef": class_ref(), "expireAfter": "720h",
                    "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type] }] } },
                "disruption": { "consolidationPolicy": policy, "consolidateAfter": "1s", "budgets": [{ "nodes": "100%" }] } },
        });
        scene.apply(&pool, "").await.unwrap();
    }
}

/// Labels of a claim of this NodePool that is done, and of its Node.
pub fn labels(pool: &str) -> Map<String, Value> {
    let labels = json!({
        "karpenter.sh/nodepool": pool, "karpenter.sh/capacity-type": capacity_type(pool), "team": "a",
        format!("{GROUP}/rackspacespotnodeclass"): "default",
        "node.kubernetes.io/instance-type": class(pool), "topology.kubernetes.io/zone": "us-east-iad-1", "topology.kubernetes.io/region": "us-east-iad-1",
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
    });
    labels.as_object().unwrap().clone()
}

/// What the platform is asked as the Go provider would.
pub struct Platform {
    address: SocketAddr,
    token: String,
}

impl Platform {
    pub async fn of(scene: &Scene) -> Self {
        let form = [
            ("grant_type", "refresh_token"),
            ("client_id", "mwG3lUMV8KyeMqHe4fJ5Bb3nM1vBvRNa"),
            ("refresh_token", "sandbox-refresh-token"),
        ];
        let url = format!("http://{}/oauth/token", scene.platform);
        let answer = reqwest::Client::new().post(url).form(&form).send().await.unwrap();
        let tokens: Value = answer.error_for_status().unwrap().json().await.unwrap();
        let token = tokens["id_token"].as_str().unwrap().to_owned();
        Self {
            address: scene.platform,
            token,
        }
    }

    fn url(&self, capacity_type: &str) -> String {
        let plural = if capacity_type == "spot" {
            "spotnodepools"
        } else {
            "ondemandnodepools"
        };
        format!("http://{}/{ORGANIZATION}/{plural}", self.address)
    }

    async fn order(&self, pool: &str, claim: &str, id: &str) {
        let capacity_type = capacity_type(pool);
        let custom = json!({
            format!("{GROUP}/managed"): "true", format!("{GROUP}/nodeclaim-name"): claim, format!("{GROUP}/nodeclaim-uid"): id,
            "karpenter.sh/nodepool": pool, "karpenter.sh/capacity-type": capacity_type, "topology.kubernetes.io/zone": "us-east-iad-1",
        });
        let mut spec =
            json!({ "serverClass": class(pool), "cloudSpace": "sandbox", "desired": 1, "customLabels": custom });
        if capacity_type == "spot" {
            spec["bidPrice"] = json!("0.1");
        }
        let request = reqwest::Client::new()
            .post(self.url(capacity_type))
            .bearer_auth(&self.token);
        let body = json!({ "metadata": { "name": id }, "spec": spec });
        let answer = request.json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
    }

    /// All pools with what was ordered: kind, class, bid, count, labels.
    pub async fn pools(&self) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        for (_, capacity_type, _) in POOLS {
            let request = reqwest::Client::new()
                .get(self.url(capacity_type))
                .bearer_auth(&self.token);
            let list: Value = request
                .send()
                .await
                .unwrap()
                .error_for_status()
                .unwrap()
                .json()
                .await
                .unwrap();
            for pool in list["items"].as_array().unwrap() {
                let ordered = json!({ "spec": pool["spec"], "labels": pool["metadata"]["labels"] });
                all.insert(name(pool), ordered);
            }
        }
        all
    }

    /// How long servers are built from now on, in seconds.
    pub async fn build_in(&self, seconds: f64) {
        let url = format!("http://{}/_sandbox/options", self.address);
        let patch = json!({ "delays": { "build": { "fixed": seconds, "between": null } } });
        let answer = reqwest::Client::new().patch(url).json(&patch).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    }

    /// A claim with its machine and its Node, finished.
    pub async fn machine(&self, scene: &Scene, pool: &str, claim: &str) {
        let id = apply_claim(scene, pool, claim, &labels(pool)).await;
        self.order(pool, claim, &id).await;
        let node = joined(scene, &id).await;
        finish(scene, pool, claim, &id, &node).await;
    }

    /// A claim whose bid is placed and whose server is still to come: it has no provider ID yet, and knows neither its class nor its zone.
    pub async fn in_flight(&self, scene: &Scene, pool: &str, claim: &str) {
        let mut known = labels(pool);
        for later in [
            "node.kubernetes.io/instance-type",
            "topology.kubernetes.io/zone",
            "topology.kubernetes.io/region",
        ] {
            known.remove(later);
        }
        let id = apply_claim(scene, pool, claim, &known).await;
        self.order(pool, claim, &id).await;
        let waits = [
            ("Launched", "AwaitingServerAssignment"),
            ("Registered", "AwaitingReconciliation"),
            ("Initialized", "AwaitingReconciliation"),
            ("Ready", "ReconcilingDependents"),
        ];
        let conditions = waits.map(|(type_, reason)| {
            json!({ "type": type_, "status": "Unknown", "reason": reason, "message": "", "lastTransitionTime": now(), "observedGeneration": 1 })
        });
        let status = json!({ "status": { "conditions": conditions } });
        scene.merge("karpenter.sh/v1", "NodeClaim", claim, &status).await;
    }
}

async fn apply_claim(scene: &Scene, pool: &str, claim: &str, labels: &Map<String, Value>) -> String {
    let owners = scene.objects("karpenter.sh/v1", "NodePool").await;
    let owner = owners.iter().find(|owner| name(owner) == pool).unwrap();
    let made = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": { "name": claim, "labels": labels, "annotations": hashes(), "finalizers": ["karpenter.sh/termination"],
            "ownerReferences": [{ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": pool, "uid": uid(owner), "blockOwnerDeletion": true }] },
        "spec": { "nodeClassRef": class_ref(), "expireAfter": "720h",
            "resources": { "requests": { "cpu": "7", "memory": "1Gi", "pods": "1" } },
            "requirements": [
                { "key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type(pool)] },
                { "key": "karpenter.sh/nodepool", "operator": "In", "values": [pool] },
                { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": [class(pool)] }] },
    });
    scene.apply(&made, "").await.unwrap();
    let claims = scene.claims().await;
    uid(claims.iter().find(|found| name(found) == claim).unwrap())
}

/// The Node of a pool once it is Ready.
async fn joined(scene: &Scene, id: &str) -> Value {
    let is_it = |node: &Value| {
        node["metadata"]["labels"][format!("{GROUP}/nodeclaim-uid")] == id
            && node["spec"]["providerID"].is_string()
            && condition(node, "Ready").is_some_and(|ready| ready["status"] == "True")
    };
    scene
        .until("the machine joins", async || scene.nodes().await.iter().any(is_it))
        .await;
    scene.nodes().await.into_iter().find(|node| is_it(node)).unwrap()
}

/// What its registration and initialization write.
async fn finish(scene: &Scene, pool: &str, claim: &str, id: &str, node: &Value) {
    let mut marks = labels(pool);
    for mark in ["registered", "initialized"] {
        marks.insert(format!("karpenter.sh/{mark}"), json!("true"));
    }
    // the platform's cloud controller keeps these two on the Node
    for kept in ["node.kubernetes.io/instance-type", "topology.kubernetes.io/region"] {
        marks.remove(kept);
    }
    let owner = json!([{ "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": claim, "uid": id, "blockOwnerDeletion": true }]);
    let metadata = json!({ "metadata": { "labels": marks, "annotations": hashes(), "finalizers": ["karpenter.sh/termination"], "ownerReferences": owner } });
    scene.merge("v1", "Node", &name(node), &metadata).await;
    let since = &condition(node, "Ready").unwrap()["lastTransitionTime"];
    let conditions: Vec<Value> = ["Launched", "Registered", "Initialized", "Ready"]
        .map(|type_| json!({ "type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": since, "observedGeneration": 1 }))
        .into();
    let status = json!({ "status": { "providerID": node["spec"]["providerID"], "nodeName": name(node), "capacity": node["status"]["capacity"],
        "allocatable": node["status"]["allocatable"], "conditions": conditions } });
    scene.merge("karpenter.sh/v1", "NodeClaim", claim, &status).await;
}

/// What it does when it comes back: it meets a version of the hash that is not its own, and stamps its own on NodePools and claims (surface T1).
pub async fn stamp_anew(scene: &Scene) {
    let stamped = json!({ "metadata": { "annotations": hashes() } });
    for kind in ["NodePool", "NodeClaim"] {
        for object in scene.objects("karpenter.sh/v1", kind).await {
            scene.merge("karpenter.sh/v1", kind, &name(&object), &stamped).await;
        }
    }
}

/// It led until a moment ago, and does not give the lease back when it stops (surface §6.4).
pub async fn leave_the_lease(scene: &Scene, namespace: &str) {
    let spec = json!({ "holderIdentity": HOLDER, "leaseDurationSeconds": 15, "acquireTime": now_micro(), "renewTime": now_micro(), "leaseTransitions": 3 });
    let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": LEASE, "namespace": namespace }, "spec": spec });
    scene.apply(&lease, namespace).await.unwrap();
}

fn now_micro() -> String {
    SystemClock.now().to_rfc3339_opts(SecondsFormat::Micros, true)
}

fn now() -> String {
    SystemClock.now().to_rfc3339_opts(SecondsFormat::Secs, true)
}
