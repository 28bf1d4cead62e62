//! What a watcher of a world is told: a line for each thing that became different, and a summary at the end.
//!
//! Pure: scenes in, lines out. Called by [`super::demo`].

use crate::world::World;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How a world looks at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scene {
    /// Pods with a node.
    pub bound: usize,
    /// Pods without.
    pub pending: usize,
    /// NodeClaims, with their instance type once chosen.
    pub claims: BTreeMap<String, String>,
    /// Pools with their bids, as text.
    pub pools: BTreeMap<String, String>,
    /// Keys of the servers that are attached.
    pub servers: BTreeSet<String>,
    /// Nodes and whether they are ready.
    pub nodes: BTreeMap<String, bool>,
}

impl Scene {
    /// The present one.
    pub fn of(world: &World) -> Self {
        let text = |object: &Value, pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let claim = |c: &Value| {
            (
                text(c, "/metadata/name"),
                text(c, "/metadata/labels/node.kubernetes.io~1instance-type"),
            )
        };
        let is_ready = |n: &Value| {
            let conditions = n.pointer("/status/conditions").and_then(Value::as_array);
            conditions
                .into_iter()
                .flatten()
                .any(|c| c["type"] == "Ready" && c["status"] == "True")
        };
        let (pools, servers) = world.spot().with(|platform| {
            let bids: BTreeMap<String, String> = platform
                .ledger()
                .bids()
                .iter()
                .filter(|b| b.refused.is_none())
                .map(|b| (b.pool.clone(), format!("{} for ${}", b.class, b.bid)))
                .collect();
            let bid = |name: &String| bids.get(name).cloned().unwrap_or_else(|| "on demand".to_owned());
            let pools = platform
                .pools()
                .map(|p| (p.meta.name.clone(), bid(&p.meta.name)))
                .collect();
            let now = platform.now();
            let servers = platform
                .servers()
                .filter(|s| s.shows(now))
                .map(|s| s.key.clone())
                .collect();
            (pools, servers)
        });
        Self {
            bound: world.bound(),
            pending: world.pending(),
            claims: world.values("nodeclaims.karpenter.sh").iter().map(claim).collect(),
            pools,
            servers,
            nodes: world
                .values("nodes")
                .iter()
                .map(|n| (text(n, "/metadata/name"), is_ready(n)))
                .collect(),
        }
    }

    /// What happened since an earlier one, in words.
    pub fn since(&self, before: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (claim, class) in &self.claims {
            let old = before.claims.get(claim);
            if old.is_none() {
                lines.push(format!("claim    {claim} is made"));
            }
            if !class.is_empty() && old.is_none_or(String::is_empty) {
                lines.push(format!("claim    {claim} is to be {class}"));
            }
        }
        come(&mut lines, &before.pools, &self.pools, |pool, bid| {
            format!("pool     {pool} is ordered: {bid}")
        });
        lines.extend(
            self.servers
                .difference(&before.servers)
                .map(|s| format!("server   {s} is attached")),
        );
        for (node, ready) in &self.nodes {
            let old = before.nodes.get(node);
            if old.is_none() {
                lines.push(format!("node     {node} joins"));
            }
            if *ready && old != Some(&true) {
                lines.push(format!("node     {node} is ready"));
            }
        }
        if (self.bound, self.pending) != (before.bound, before.pending) {
            lines.push(format!("pods     {} bound, {} pending", self.bound, self.pending));
        }
        go(&mut lines, &before.nodes, &self.nodes, "node    ");
        go(&mut lines, &before.claims, &self.claims, "claim   ");
        go(&mut lines, &before.pools, &self.pools, "pool    ");
        lines
    }
}

fn come<V>(
    lines: &mut Vec<String>,
    before: &BTreeMap<String, V>,
    now: &BTreeMap<String, V>,
    say: impl Fn(&str, &V) -> String,
) {
    lines.extend(
        now.iter()
            .filter(|(k, _)| !before.contains_key(*k))
            .map(|(k, v)| say(k, v)),
    );
}

fn go<V>(lines: &mut Vec<String>, before: &BTreeMap<String, V>, now: &BTreeMap<String, V>, word: &str) {
    lines.extend(
        before
            .keys()
            .filter(|k| !now.contains_key(*k))
            .map(|k| format!("{word} {k} is gone")),
    );
}

/// A bid, as the summary shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bid {
    /// Server class.
    pub class: String,
    /// Dollars an hour, as sent.
    pub bid: String,
    /// Market price at that moment, in dollars.
    pub market: Value,
    /// The 80th percentile at that moment, which the sample NodeClass bids by, in dollars.
    pub percentile_price: Option<f64>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The most pods that were bound at one time.
    pub pods_bound: usize,
    /// From the wish to all of them bound; absent when they never were.
    pub seconds_to_all_bound: Option<f64>,
    /// Nodes that joined.
    pub nodes_created: usize,
    /// Pools that were ordered.
    pub pools_created: usize,
    /// Pools that are still there.
    pub pools_left: usize,
    /// NodeClaims that are still there.
    pub claims_left: usize,
    /// Every accepted bid.
    pub bids: Vec<Bid>,
    /// What the platform charges.
    pub cost_usd: f64,
}

/// Counts over many scenes.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    last: Scene,
    nodes: BTreeSet<String>,
    pools: BTreeSet<String>,
    most_bound: usize,
}

impl Timeline {
    /// Takes a scene in; returns the lines to be shown.
    pub fn take(&mut self, scene: Scene) -> Vec<String> {
        self.nodes.extend(scene.nodes.keys().cloned());
        self.pools.extend(scene.pools.keys().cloned());
        self.most_bound = self.most_bound.max(scene.bound);
        let lines = scene.since(&self.last);
        self.last = scene;
        lines
    }

    /// What came of it.
    pub fn summary(&self, world: &World, seconds_to_all_bound: Option<f64>) -> Summary {
        let bids = world.spot().with(|platform| {
            let accepted = platform.ledger().bids().iter().filter(|b| b.refused.is_none());
            let bid = accepted.map(|b| Bid {
                class: b.class.clone(),
                bid: b.bid.clone(),
                market: serde_json::to_value(b.market).unwrap_or_default(),
                percentile_price: b.percentiles.map(|[_, _, p80]| p80),
            });
            bid.collect()
        });
        Summary {
            pods_bound: self.most_bound,
            seconds_to_all_bound,
            nodes_created: self.nodes.len(),
            pools_created: self.pools.len(),
            pools_left: world.pools().len(),
            claims_left: world.claims().len(),
            bids,
            cost_usd: world.cost_usd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_told_once_when_it_comes_changes_and_goes() {
        let mut timeline = Timeline::default();
        let one = |k: &str, v: &str| BTreeMap::from([(k.to_owned(), v.to_owned())]);
        let empty = Scene {
            pending: 3,
            ..Scene::default()
        };
        assert_eq!(timeline.take(empty.clone()), ["pods     0 bound, 3 pending"]);
        let chosen = Scene {
            claims: one("c", "gp"),
            pools: one("p", "gp for $0.01"),
            ..empty.clone()
        };
        let told = [
            "claim    c is made",
            "claim    c is to be gp",
            "pool     p is ordered: gp for $0.01",
        ];
        assert_eq!(timeline.take(chosen.clone()), told);
        assert!(timeline.take(chosen.clone()).is_empty());
        let joined = Scene {
            nodes: BTreeMap::from([("n".to_owned(), true)]),
            bound: 3,
            pending: 0,
            ..chosen
        };
        assert_eq!(
            timeline.take(joined),
            ["node     n joins", "node     n is ready", "pods     3 bound, 0 pending"]
        );
        let told = [
            "pods     0 bound, 0 pending",
            "node     n is gone",
            "claim    c is gone",
            "pool     p is gone",
        ];
        assert_eq!(timeline.take(Scene::default()), told);
        assert_eq!(timeline.most_bound, 3);
    }
}
