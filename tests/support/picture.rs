//! How a corner of the world looks at one moment.

use chrono::{DateTime, Utc};
use sandbox::spot::{Platform, Pool, PoolKind};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

/// The claims, nodes, pods and pools of a corner.
#[derive(Debug, Clone)]
pub struct Picture {
    /// When, by the platform's clock.
    pub at: DateTime<Utc>,
    /// Pods of the corner's namespace.
    pub pods: Vec<Value>,
    /// Nodes of the corner's machines.
    pub nodes: Vec<Value>,
    /// NodeClaims of the corner's NodePools.
    pub claims: Vec<Value>,
    /// Pools that the platform holds for the corner now.
    pub pools: Vec<Pool>,
    /// Every pool that was ordered for the corner so far, as it came over the wire and was taken.
    pub orders: Vec<Order>,
    /// Those that were refused.
    pub refused: Vec<Order>,
}

/// A pool as it was asked for on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// When.
    pub at: DateTime<Utc>,
    /// Its name: the claim's UID.
    pub pool: String,
    /// Which of both kinds.
    pub kind: PoolKind,
    /// Server class.
    pub class: String,
    /// The bid as it was written; absent on demand.
    pub bid: Option<String>,
    /// The NodePool it is for.
    pub node_pool: String,
    /// What was answered.
    pub code: u16,
}

impl Picture {
    /// The corner's part of what there is.
    pub(super) fn of(
        corner: &str,
        pods: Vec<Value>,
        nodes: Vec<Value>,
        claims: Vec<Value>,
        platform: &Platform,
    ) -> Self {
        let all = orders(platform).into_iter();
        let (orders, refused): (Vec<Order>, Vec<Order>) = all
            .filter(|order| belongs(corner, &order.node_pool))
            .partition(|order| order.code == 201);
        let names: BTreeSet<&str> = orders.iter().map(|order| order.pool.as_str()).collect();
        let servers = platform.servers().filter(|server| names.contains(&*server.pool.name));
        let machines: BTreeSet<String> = servers.map(|server| server.node_name.clone()).collect();
        let pools = platform.pools().filter(|pool| names.contains(&*pool.meta.name));
        let pools = pools.cloned().collect();
        Self {
            at: platform.now(),
            pods,
            nodes: nodes
                .into_iter()
                .filter(|node| machines.contains(text(node, "/metadata/name")) || belongs(corner, node_pool(node)))
                .collect(),
            claims: claims
                .into_iter()
                .filter(|claim| belongs(corner, node_pool(claim)))
                .collect(),
            pools,
            orders,
            refused,
        }
    }

    /// Pods that are bound, not being deleted, and run.
    pub fn running(&self) -> impl Iterator<Item = &Value> {
        self.pods.iter().filter(|pod| {
            host(pod).is_some()
                && pod["metadata"]["deletionTimestamp"].is_null()
                && text(pod, "/status/phase") == "Running"
        })
    }

    /// The pods of an `app`.
    pub fn app(&self, app: &str) -> Vec<&Value> {
        let of_app = |pod: &&Value| pod["metadata"]["labels"]["app"] == app;
        self.pods.iter().filter(of_app).collect()
    }

    /// The names of the nodes that run the pods of an `app`, one for each pod.
    pub fn hosts(&self, app: &str) -> Vec<&str> {
        self.app(app).into_iter().filter_map(host).collect()
    }

    /// The label of the node of each pod of an `app`; absent where it has no such label, or no node.
    pub fn places(&self, app: &str, label: &str) -> Vec<Option<&str>> {
        let of = |pod: &Value| {
            let node = self
                .nodes
                .iter()
                .find(|node| Some(text(node, "/metadata/name")) == host(pod))?;
            node["metadata"]["labels"][label].as_str()
        };
        self.app(app).into_iter().map(of).collect()
    }

    /// Each claim's label.
    pub fn claim_labels(&self, label: &str) -> Vec<&str> {
        self.claims
            .iter()
            .filter_map(|claim| claim["metadata"]["labels"][label].as_str())
            .collect()
    }
}

/// The node of a pod.
pub fn host(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str()
}

/// An object's UID.
pub fn uid(object: &Value) -> String {
    text(object, "/metadata/uid").to_owned()
}

/// An object's name.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// Status and reason of a condition.
pub fn condition<'a>(object: &'a Value, kind: &str) -> (&'a str, &'a str) {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|one| one["type"] == kind);
    found.map_or(("", ""), |one| (text(one, "/status"), text(one, "/reason")))
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn node_pool(object: &Value) -> &str {
    object["metadata"]["labels"]["karpenter.sh/nodepool"]
        .as_str()
        .unwrap_or_default()
}

/// Whether a NodePool is of the corner: of its name, or with more after a hyphen.
fn belongs(corner: &str, node_pool: &str) -> bool {
    let rest = node_pool.strip_prefix(corner);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Every pool that was ordered through the API, oldest first.
fn orders(platform: &Platform) -> Vec<Order> {
    let posts = platform.ledger().requests().filter(|request| request.method == "POST");
    posts
        .filter_map(|request| {
            let kind = PoolKind::ALL
                .into_iter()
                .find(|kind| request.path.ends_with(kind.plural()))?;
            let body: Value = serde_json::from_str(&request.body).ok()?;
            Some(Order {
                at: request.at,
                pool: text(&body, "/metadata/name").to_owned(),
                kind,
                class: text(&body, "/spec/serverClass").to_owned(),
                bid: body["spec"]["bidPrice"].as_str().map(str::to_owned),
                node_pool: text(&body["spec"]["customLabels"], "/karpenter.sh~1nodepool").to_owned(),
                code: request.code,
            })
        })
        .collect()
}

impl fmt::Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for pod in &self.pods {
            let (status, _) = condition(pod, "PodScheduled");
            let why = pod["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|one| one["type"] == "PodScheduled")
                .map_or("", |one| text(one, "/message"));
            let going = if pod["metadata"]["deletionTimestamp"].is_null() {
                ""
            } else {
                " going"
            };
            let (phase, host) = (text(pod, "/status/phase"), host(pod).unwrap_or("no node"));
            writeln!(
                f,
                "pod {}: {phase}{going} on {host}; scheduled {status} {why}",
                name(pod)
            )?;
        }
        for node in &self.nodes {
            writeln!(
                f,
                "node {}: labels {} taints {}",
                name(node),
                node["metadata"]["labels"],
                node["spec"]["taints"]
            )?;
        }
        for claim in &self.claims {
            let labels = &claim["metadata"]["labels"];
            writeln!(f, "claim {} {} {labels}", name(claim), uid(claim))?;
            for one in claim["status"]["conditions"].as_array().into_iter().flatten() {
                writeln!(
                    f,
                    "  {} {} {} {}",
                    one["type"], one["status"], one["reason"], one["message"]
                )?;
            }
        }
        for pool in &self.pools {
            let status = pool.status.unwrap_or("no status");
            writeln!(
                f,
                "pool {} {}: {status}, won {:?}",
                pool.meta.name, pool.spec.server_class, pool.won
            )?;
        }
        for order in self.orders.iter().chain(&self.refused) {
            writeln!(f, "order {order:?}")?;
        }
        Ok(())
    }
}
