//! What belongs to somebody else and must come out of every trial as it went in: pools on the platform, nodes behind them, claims and NodePools of another
//! provider.
//!
//! All names are UUIDs on the platform, a user's pools may carry labels like ours, and a second cloudspace of the account may hold an operator of its own: only
//! name, cloudspace and mark together prove that a pool is ours (architecture §7.5, §7.20).

use super::draw::Draw;
use crate::world::{World, WorldError};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A cloudspace of the account that is not the operator's.
pub(super) const ELSEWHERE: &str = "elsewhere";
/// NodePool and NodeClaim of another provider.
const THEIRS: &str = "theirs";

/// A pool that a user ordered.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ForeignPool {
    pub(super) name: String,
    plural: &'static str,
    body: Value,
}

/// Everything foreign of one seed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Foreign {
    pools: Vec<ForeignPool>,
    objects: Vec<Value>,
}

impl Foreign {
    /// Draws it.
    pub(super) fn draw(seed: u64, cloudspace: &str) -> Self {
        let mut draw = Draw::of(seed, "foreign");
        let class = "ch.vs1.large-iad";
        let ours = json!({"karpenter.rackspace.com/managed": "true", "karpenter.sh/nodepool": "general"});
        let taints = json!([{"key": "theirs", "value": "yes", "effect": "NoSchedule"}]);
        let mut pools = vec![ForeignPool {
            name: draw.uuid(),
            plural: "spotnodepools",
            body: json!({"serverClass": class, "cloudSpace": cloudspace, "desired": 1, "bidPrice": "0.02", "customTaints": taints}),
        }];
        if draw.chance(0.5) {
            pools.push(ForeignPool {
                name: draw.uuid(),
                plural: "spotnodepools",
                body: json!({"serverClass": class, "cloudSpace": ELSEWHERE, "desired": 1, "bidPrice": "0.02", "customLabels": ours}),
            });
        }
        if draw.chance(0.3) {
            pools.push(ForeignPool {
                name: draw.uuid(),
                plural: "ondemandnodepools",
                body: json!({"serverClass": class, "cloudSpace": cloudspace, "desired": 1,
                    "customLabels": {"karpenter.sh/nodepool": "general", "team": "ours"}, "customTaints": taints}),
            });
        }
        Self {
            pools,
            objects: objects(),
        }
    }

    /// Puts it into a world; says what the platform did not take.
    ///
    /// # Errors
    /// The API server refused.
    pub(super) async fn place(&self, world: &World) -> Result<Vec<String>, WorldError> {
        for object in &self.objects {
            world.apply_value(object).await?;
        }
        let place = |pool: &ForeignPool| {
            world.spot().with(|platform| {
                let namespace = platform.options().account.namespace();
                let path = format!("/apis/ngpc.rxt.io/v1/namespaces/{namespace}/{}", pool.plural);
                let body = json!({"metadata": {"name": pool.name}, "spec": pool.body});
                let call = platform.call("POST", &path, &body);
                let now = platform.now();
                platform.answer(now, &call)
            })
        };
        let answers = self.pools.iter().map(|pool| (pool, place(pool)));
        let refused = answers.filter(|(_, answer)| answer.code != 201);
        let words = refused.map(|(pool, answer)| {
            let body = String::from_utf8_lossy(&answer.body).into_owned();
            format!("the pool {} of a user was refused: {body}", pool.name)
        });
        Ok(words.collect())
    }

    /// Whether a pool of this name is foreign.
    pub(super) fn owns_pool(&self, name: &str) -> bool {
        self.pools.iter().any(|pool| pool.name == name)
    }

    /// A pool with custom labels, for tests.
    #[cfg(test)]
    pub(super) fn labelled(&self) -> Option<&str> {
        let mut pools = self.pools.iter();
        let found = pools.find(|pool| pool.body.get("customLabels").is_some())?;
        Some(&found.name)
    }

    /// Whether a path of the Spot API names a foreign pool.
    pub(super) fn is_named_by(&self, path: &str) -> bool {
        self.pools.iter().any(|pool| path.contains(&pool.name))
    }

    /// Whether an object of the Kubernetes API is foreign, by its qualified plural and name.
    pub(super) fn owns_object(resource: &str, name: &str) -> bool {
        name == THEIRS && matches!(resource, "nodepools.karpenter.sh" | "nodeclaims.karpenter.sh")
    }

    /// What must not change: the pools as they were ordered, and the objects with their versions.
    pub(super) fn picture(&self, world: &World) -> BTreeMap<String, Value> {
        let mut picture = BTreeMap::new();
        for resource in ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh"] {
            for object in world.values(resource) {
                if Self::owns_object(resource, object["metadata"]["name"].as_str().unwrap_or_default()) {
                    picture.insert(resource.to_owned(), object);
                }
            }
        }
        world.spot().with(|platform| {
            for pool in &self.pools {
                let found = platform.pool(&pool.name);
                let shown = found.map(|pool| json!({"spec": pool.spec, "deleting": pool.meta.deleting.is_some()}));
                picture.insert(pool.name.clone(), shown.unwrap_or(Value::Null));
            }
        });
        picture
    }

    /// Whether all is as in an earlier picture, but for labels that the platform itself has wiped.
    pub(super) fn is_as_in(&self, earlier: &BTreeMap<String, Value>, world: &World) -> bool {
        let mut expected = earlier.clone();
        world.spot().with(|platform| {
            for pool in platform.wiped() {
                let labels = expected
                    .get_mut(pool)
                    .and_then(|shown| shown.pointer_mut("/spec/customLabels"));
                if let Some(labels) = labels {
                    *labels = json!({});
                }
            }
        });
        self.picture(world) == expected
    }

    /// The Nodes behind the foreign pools.
    pub(super) fn nodes(&self, world: &World) -> BTreeSet<String> {
        world.spot().with(|platform| {
            let servers = platform.servers().filter(|server| self.owns_pool(&server.pool.name));
            servers.map(|server| server.node_name.clone()).collect()
        })
    }
}

/// A NodePool of another provider and a claim of it.
fn objects() -> Vec<Value> {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let requirements = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]);
    vec![
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": THEIRS},
            "spec": {"weight": 100, "template": {"spec": {"nodeClassRef": class, "requirements": requirements}}}}),
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": THEIRS, "labels": {"karpenter.sh/nodepool": THEIRS}},
            "spec": {"nodeClassRef": class, "requirements": requirements}}),
    ]
}
