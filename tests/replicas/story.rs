//! Pods come and pods go, whoever runs the cluster and whatever befalls the operators; and what must be so all along.

use super::sight::{Seen, Sight, There, pools};
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use sandbox::spot::Spot;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

const WITHIN: Duration = Duration::from_mins(3);
/// A look without any news, since a watch may be dropped.
const LOOK: Duration = Duration::from_secs(1);

/// A cluster and a platform.
pub struct Scenery {
    pub client: kube::Client,
    pub spot: Spot,
    /// What is there and what ever was.
    pub sight: Sight,
    /// When the pods came.
    began: Mutex<Instant>,
    /// Ends whatever plays the rest of the world.
    _alive: Box<dyn std::any::Any + Send + Sync>,
}

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, kind))
}

impl Scenery {
    /// A scenery that ends with `alive`.
    pub fn new(client: kube::Client, spot: Spot, alive: impl std::any::Any + Send + Sync) -> Self {
        Self {
            sight: Sight::open(&client, &spot),
            began: Mutex::new(Instant::now()),
            client,
            spot,
            _alive: Box::new(alive),
        }
    }

    /// A NodeClass, a NodePool that gives empty nodes back at once, and the Lease as somebody left it who gave it back: without one, whoever comes first
    /// would wait its whole length for a holder that may still write (architecture §3.5).
    pub async fn furnish(&self) {
        let left = json!({ "spec": { "holderIdentity": "", "leaseDurationSeconds": 1 } });
        self.apply("coordination.k8s.io/v1", "Lease", "karpenter-leader-election", left)
            .await;
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
        let api: Api<DynamicObject> = if ["apps/v1", "coordination.k8s.io/v1"].contains(&api_version) {
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

    async fn claims(&self) -> Vec<DynamicObject> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource("karpenter.sh/v1", "NodeClaim"));
        api.list(&ListParams::default()).await.unwrap().items
    }

    /// What was ever there since the pods came.
    pub fn seen(&self) -> Seen {
        self.sight.seen()
    }

    /// Seconds since the pods came.
    pub fn passed(&self) -> f64 {
        self.began.lock().unwrap().elapsed().as_secs_f64()
    }

    /// What is there: each pool has its claim.
    async fn look(&self) -> There {
        let there = self.sight.there();
        if there.pools.is_subset(&there.claims) {
            return there;
        }
        // What was told may lag behind. In this order: a claim is made before its pool and goes after it.
        let mut claims = self.claims().await;
        let pools = pools(&self.spot);
        claims.extend(self.claims().await);
        let claims: BTreeSet<String> = claims.iter().filter_map(DynamicObject::uid).collect();
        let lone: Vec<_> = pools.difference(&claims).collect();
        assert!(lone.is_empty(), "pools without claim: {lone:?}");
        there
    }

    /// Waits until something is so.
    async fn until(&self, what: &str, holds: impl Fn(&There) -> bool) -> There {
        let waited = tokio::time::timeout(WITHIN, async {
            loop {
                let mut moved = std::pin::pin!(self.sight.moved());
                // in line before the look, so that nothing is missed in between
                moved.as_mut().enable();
                let there = self.look().await;
                if holds(&there) {
                    return there;
                }
                let _ = tokio::time::timeout(LOOK, moved).await;
            }
        });
        let Ok(there) = waited.await else {
            let claims = serde_json::to_string_pretty(&self.claims().await).unwrap();
            panic!(
                "not within {WITHIN:?}: {what}\n{:?}\nclaims: {claims}",
                self.sight.there()
            );
        };
        there
    }

    /// So many pods come and run.
    pub async fn pods_run(&self, pods: u32) -> There {
        self.sight.forget();
        *self.began.lock().unwrap() = Instant::now();
        self.scale(pods).await;
        let wanted = usize::try_from(pods).unwrap();
        self.until("the pods run", |there| {
            there.pods.values().filter(|phase| *phase == "Running").count() == wanted
        })
        .await
    }

    /// So many pods come and run; each claim that was made for them is there and has its one pool.
    pub async fn pods_come(&self, pods: u32) {
        let wanted = usize::try_from(pods).unwrap();
        let there = self.pods_run(pods).await;
        let seen = self.seen();
        assert_eq!(seen.claims, there.claims, "a claim was lost on the way");
        assert_eq!(there.claims, there.pools, "each claim has one pool of its name");
        assert_eq!(there.claims.len(), wanted, "one machine for each pod and no more");
    }

    /// Pods go, and nothing is left.
    pub async fn pods_go(&self) {
        self.scale(0).await;
        self.until("nothing is left", |there| {
            there.claims.is_empty() && there.pools.is_empty() && there.nodes.is_empty()
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
