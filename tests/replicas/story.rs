//! Pods come and pods go, whoever runs the cluster and whatever befalls the operators; and what must be so all along.

use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use sandbox::spot::Spot;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

const WITHIN: Duration = Duration::from_mins(3);
const LOOK: Duration = Duration::from_millis(150);

/// A cluster and a platform.
pub struct Scenery {
    pub client: kube::Client,
    pub spot: Spot,
    seen: Mutex<Seen>,
    /// Ends whatever plays the rest of the world.
    _alive: Box<dyn std::any::Any + Send + Sync>,
}

/// What was ever there.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Seen {
    /// UIDs of claims.
    pub claims: BTreeSet<String>,
    /// Names of pools.
    pub pools: BTreeSet<String>,
}

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, kind))
}

impl Scenery {
    /// A scenery that ends with `alive`.
    pub fn new(client: kube::Client, spot: Spot, alive: impl std::any::Any + Send + Sync) -> Self {
        Self {
            client,
            spot,
            seen: Mutex::default(),
            _alive: Box::new(alive),
        }
    }

    /// A NodeClass and a NodePool that gives empty nodes back at once.
    pub async fn furnish(&self) {
        let class = json!({ "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default" });
        self.apply(
            "karpenter.rackspace.com/v1",
            "RackspaceSpotNodeClass",
            "default",
            json!({ "spec": { "bidPercentile": "P80" } }),
        )
        .await;
        let pool = json!({ "spec": {
            "template": { "spec": { "nodeClassRef": class, "expireAfter": "Never",
                "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] }] } },
            "disruption": { "consolidateAfter": "1s", "consolidationPolicy": "WhenEmpty", "budgets": [{ "nodes": "100%" }] },
        } });
        self.apply("karpenter.sh/v1", "NodePool", "default", pool).await;
    }

    async fn apply(&self, api_version: &str, kind: &str, name: &str, mut object: Value) {
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        object["metadata"] = json!({ "name": name });
        let resource = resource(api_version, kind);
        let api: Api<DynamicObject> = if api_version.starts_with("apps/") {
            Api::namespaced_with(self.client.clone(), "default", &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        };
        let patch = Patch::Apply(&object);
        api.patch(name, &PatchParams::apply("test").force(), &patch)
            .await
            .unwrap();
    }

    /// Pods of which no two fit on one machine.
    pub async fn scale(&self, pods: u32) {
        let affinity = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": { "matchLabels": { "app": "web" } }, "topologyKey": "kubernetes.io/hostname" }] } });
        let container = json!({ "name": "main", "image": "app:1", "resources": { "requests": { "cpu": "1" } } });
        let deployment = json!({ "spec": { "replicas": pods, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "terminationGracePeriodSeconds": 1, "containers": [container], "affinity": affinity } } } });
        self.apply("apps/v1", "Deployment", "web", deployment).await;
    }

    async fn list(&self, api_version: &str, kind: &str) -> Vec<Value> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource(api_version, kind));
        let list = api.list(&ListParams::default()).await.unwrap();
        list.items
            .into_iter()
            .map(|object| serde_json::to_value(object).unwrap())
            .collect()
    }

    fn pools(&self) -> BTreeSet<String> {
        self.spot
            .with(|platform| platform.pools().map(|pool| pool.meta.name.clone()).collect())
    }

    async fn claims(&self) -> BTreeSet<String> {
        let claims = self.list("karpenter.sh/v1", "NodeClaim").await;
        claims
            .iter()
            .map(|claim| claim["metadata"]["uid"].as_str().unwrap().to_owned())
            .collect()
    }

    /// What was ever there.
    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    /// Looks what is there: each pool has its claim.
    async fn look(&self) -> Seen {
        // in this order: a claim is made before its pool and goes after it
        let before = self.claims().await;
        let pools = self.pools();
        let after = self.claims().await;
        let lone: Vec<_> = pools
            .iter()
            .filter(|pool| !before.contains(*pool) && !after.contains(*pool))
            .collect();
        assert!(lone.is_empty(), "pools without claim: {lone:?}");
        let mut seen = self.seen.lock().unwrap();
        seen.claims.extend(before);
        seen.claims.extend(after.iter().cloned());
        seen.pools.extend(pools.iter().cloned());
        Seen { claims: after, pools }
    }

    /// Waits until something is so.
    pub async fn until(&self, what: &str, holds: impl AsyncFn(&Seen) -> bool) {
        let waited = tokio::time::timeout(WITHIN, async {
            while !holds(&self.look().await).await {
                tokio::time::sleep(LOOK).await;
            }
        });
        if waited.await.is_err() {
            let claims = serde_json::to_string_pretty(&self.list("karpenter.sh/v1", "NodeClaim").await).unwrap();
            panic!(
                "not within {WITHIN:?}: {what}\nclaims: {claims}\npools: {:?}",
                self.pools()
            );
        }
    }

    /// So many pods come and run; each claim that was made for them is there and has its one pool.
    pub async fn pods_come(&self, pods: u32) {
        *self.seen.lock().unwrap() = Seen::default();
        self.scale(pods).await;
        let wanted = usize::try_from(pods).unwrap();
        self.until("the pods run", async |_| {
            let all = self.list("v1", "Pod").await;
            all.iter().filter(|pod| pod["status"]["phase"] == "Running").count() == wanted
        })
        .await;
        let (there, seen) = (self.look().await, self.seen());
        assert_eq!(seen.claims, there.claims, "a claim was lost on the way");
        assert_eq!(there.claims, there.pools, "each claim has one pool of its name");
        assert_eq!(there.claims.len(), wanted, "one machine for each pod and no more");
    }

    /// Pods go, and nothing is left.
    pub async fn pods_go(&self) {
        self.scale(0).await;
        self.until("nothing is left", async |there| {
            there.claims.is_empty() && there.pools.is_empty() && self.list("v1", "Node").await.is_empty()
        })
        .await;
    }

    /// Who holds the lease.
    pub async fn holder(&self) -> String {
        let leases: Api<k8s_openapi::api::coordination::v1::Lease> = Api::namespaced(self.client.clone(), "default");
        let lease = leases.get_opt("karpenter-leader-election").await.unwrap();
        lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
    }

    /// Waits until somebody else than `before` holds the lease.
    pub async fn holder_after(&self, before: &str) -> String {
        let found = tokio::time::timeout(WITHIN, async {
            loop {
                let holder = self.holder().await;
                if !holder.is_empty() && holder != before {
                    return holder;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        found.await.expect("somebody takes the lease")
    }
}
