//! What a seed offers to buy: a NodeClass and one to three NodePools.
//!
//! The pool `general` has no limits and takes everything that is certain to be placed; the others are what makes choices: limits, weights, other kinds of
//! capacity, other rules of consolidation.

use super::draw::Draw;
use serde_json::{Value, json};

/// The class of all pools.
pub(super) const CLASS: &str = "default";

/// The NodeClass.
pub(super) fn class(seed: u64) -> Value {
    let mut draw = Draw::of(seed, "class");
    json!({
        "apiVersion": "karpenter.rackspace.com/v1", "kind": "RackspaceSpotNodeClass", "metadata": {"name": CLASS},
        "spec": {"bidPercentile": draw.one_of(["P20", "P50", "P80", "P80"])},
    })
}

/// The NodePools.
pub(super) fn pools(seed: u64) -> Vec<Value> {
    let mut draw = Draw::of(seed, "pools");
    let kinds = draw.one_of([&["spot"][..], &["spot", "on-demand"], &["spot", "on-demand"]]);
    let mut pools = vec![pool(&mut draw, "general", kinds)];
    if draw.chance(0.5) {
        let mut limited = pool(&mut draw, "limited", &["spot"]);
        limited["spec"]["limits"] = limits(&mut draw);
        limited["spec"]["weight"] = json!(draw.between(1, 50));
        pools.push(limited);
    }
    if draw.chance(0.3) {
        let mut reserved = pool(&mut draw, "reserved", &["on-demand"]);
        reserved["spec"]["template"]["spec"]["taints"] =
            json!([{"key": "reserved", "value": "yes", "effect": "NoSchedule"}]);
        pools.push(reserved);
    }
    pools
}

fn limits(draw: &mut Draw) -> Value {
    match draw.between(0, 2) {
        0 => json!({"cpu": draw.between(4, 16).to_string()}),
        1 => json!({"nodes": draw.between(1, 2).to_string()}),
        _ => json!({"memory": format!("{}Gi", draw.between(8, 40)), "cpu": "32"}),
    }
}

fn pool(draw: &mut Draw, name: &str, kinds: &[&str]) -> Value {
    let mut template = json!({
        "nodeClassRef": {"group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": CLASS},
        "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": kinds}],
        "expireAfter": draw.one_of(["Never", "Never", "Never", "2h", "50m"]),
    });
    if draw.chance(0.3) {
        template["terminationGracePeriod"] = json!(draw.one_of(["30s", "2m", "10m"]));
    }
    // The platform's volumes ask for a label that its CSI driver puts on nodes.
    let labels = json!({"pool": name, "topology.cinder.csi.openstack.org/zone": "nova"});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": labels}, "spec": template},
            "disruption": {
                "consolidationPolicy": draw.one_of(["WhenEmpty", "WhenEmptyOrUnderutilized", "WhenEmptyOrUnderutilized"]),
                "consolidateAfter": draw.one_of(["0s", "30s", "2m", "Never"]),
                "budgets": budgets(draw),
            },
        },
    })
}

fn budgets(draw: &mut Draw) -> Value {
    match draw.between(0, 4) {
        0 => json!([{"nodes": "10%"}]),
        1 => json!([{"nodes": "1"}]),
        2 => json!([{"nodes": "50%"}, {"nodes": "0", "reasons": ["Drifted"]}]),
        3 => json!([{"nodes": "100%"}, {"nodes": "0", "schedule": "*/20 * * * *", "duration": "5m"}]),
        _ => json!([]),
    }
}

/// What makes every empty node of a pool go at once: how a trial ends.
pub(super) fn haste() -> Value {
    json!({"spec": {"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10s", "budgets": [{"nodes": "100%"}]}}})
}
