//! Whether there is a machine to buy for a pod that has none: what an explanation is held against.
//!
//! Counts on the safe side, from the plan, the platform's own catalogue and the census: a class that fits with room to spare, is sold at a price that the
//! NodePool's bid reaches, has stock, and that the limits still allow. Written without the product's solver. Called when a trial comes to rest.

use super::census::{Census, text};
use super::plan::Plan;
use crate::spot::{Class, ClassMarket, Price};
use crate::world::World;
use karpenter::resources::{Quantity, ResourceList};
use serde_json::Value;

/// What the machine keeps for itself and a plan's daemon takes, in thousandths of a CPU: 500 and 100 at most, and some.
const SPARE_CPU: i64 = 700;
/// The same in bytes: 1.1 GiB and 64 MiB at most, and some.
const SPARE_MEMORY: i64 = 3 << 29;

/// What a pod could be put on, in words; nothing if its explanation holds.
pub(super) fn for_pod(world: &World, plan: &Plan, census: &Census, pod: &Value) -> Option<String> {
    let selector = |label: &str| text(pod, &format!("/spec/nodeSelector/{}", label.replace('/', "~1")));
    let (pool, kind) = (selector("pool"), selector("node.kubernetes.io/instance-type"));
    let suits = |class: &&Class| kind.is_none_or(|kind| kind == class.name) && has_space(class, pod);
    let named = |wanted: &&Value| {
        let name = text(wanted, "/metadata/name");
        // taints are on the NodePool that is asked for by its name
        pool.map_or(name == Some("general"), |pool| name == Some(pool))
    };
    let nodes = world.values("nodes");
    let candidates: Vec<&Value> = plan.pools.iter().filter(named).collect();
    world.spot().with(|platform| {
        let classes = platform
            .classes()
            .values()
            .filter(|class| class.is_available() && class.gpu.is_none());
        let mut offers = classes
            .filter(suits)
            .flat_map(|class| candidates.iter().map(move |pool| (class, *pool)));
        offers.find_map(|(class, pool)| {
            let sold = platform
                .market_of(&class.name)
                .is_some_and(|market| is_sold(class, market, pool, plan));
            let name = text(pool, "/metadata/name").filter(|_| sold)?;
            let words = census.room(name, &capacity(class), &nodes)?;
            Some(format!("NodePool {name} has room for a {}: {words}", class.name))
        })
    })
}

/// Whether a machine of the class holds the pod with room to spare.
fn has_space(class: &Class, pod: &Value) -> bool {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let asks = |resource: &str| {
        let requests = containers.into_iter().flatten();
        let texts = requests.filter_map(|container| text(container, &format!("/resources/requests/{resource}")));
        let parsed = texts.filter_map(|text| text.parse::<Quantity>().ok());
        parsed.fold(Quantity::ZERO, |sum, more| sum + more)
    };
    let cpu = Quantity::units(class.cpu.unwrap_or_default().into());
    asks("cpu") + Quantity::millis(SPARE_CPU) <= cpu && asks("memory") + Quantity::bytes(SPARE_MEMORY) <= memory(class)
}

/// Whether one could be bought now by the rules of the NodePool.
fn is_sold(class: &Class, market: &ClassMarket, pool: &Value, plan: &Plan) -> bool {
    let requirements = pool
        .pointer("/spec/template/spec/requirements")
        .and_then(Value::as_array);
    let mut kinds = requirements
        .into_iter()
        .flatten()
        .filter_map(|one| one["values"].as_array())
        .flatten();
    market.stock > 0
        && kinds.any(|kind| match kind.as_str() {
            Some("on-demand") => class.on_demand > Price::ZERO,
            _ => is_won(market, plan),
        })
}

/// Whether the bid of the plan's NodeClass wins at the price of today.
fn is_won(market: &ClassMarket, plan: &Plan) -> bool {
    let number = match plan.class["spec"]["bidPercentile"].as_str() {
        Some("P20") => 0,
        Some("P50") => 1,
        _ => 2,
    };
    let bid = market.percentiles.and_then(|all| all.get(number).copied());
    #[allow(clippy::cast_precision_loss, reason = "dollars of a market")]
    let price = market.billed().as_micros() as f64 / 1e6;
    bid.is_some_and(|bid| bid >= price)
}

fn memory(class: &Class) -> Quantity {
    Quantity::bytes(i64::try_from(class.node_memory_ki.saturating_mul(1024)).unwrap_or(i64::MAX))
}

fn capacity(class: &Class) -> ResourceList {
    ResourceList::default()
        .with("cpu", Quantity::units(class.cpu.unwrap_or_default().into()))
        .with("memory", memory(class))
        .with("nodes", Quantity::units(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pool(name: &str, kind: &str, limits: &Value) -> Value {
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {"limits": limits, "template": {"spec": {
            "nodeClassRef": {"group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default"},
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": [kind]}]}}}})
    }

    fn pod(selector: &Value, cpu: &str) -> Value {
        json!({"metadata": {"name": "p"}, "spec": {"nodeSelector": selector,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]}})
    }

    #[tokio::test(start_paused = true)]
    async fn an_explanation_holds_only_where_nothing_can_be_bought() {
        let pools = vec![
            pool("narrow", "spot", &json!({"cpu": "1"})),
            pool("none", "spot", &json!({"nodes": "0"})),
            pool("wide", "spot", &json!({"cpu": "64"})),
            pool("reserved", "on-demand", &json!({})),
        ];
        let mut plan = Plan { pools, ..Plan::draw(1) };
        plan.class["spec"]["bidPercentile"] = json!("P80");
        let world = World::builder(1).options(plan.world.clone()).start().await.unwrap();
        let census = Census::of(&plan.pools);
        let place = |selector: Value, cpu: &str| for_pod(&world, &plan, &census, &pod(&selector, cpu));
        for (selector, cpu) in [
            (json!({"pool": "narrow"}), "500m"),
            (json!({"pool": "none"}), "500m"),
            (json!({"pool": "absent"}), "500m"),
            (json!({"pool": "wide"}), "500"),
            (
                json!({"pool": "wide", "node.kubernetes.io/instance-type": "no.such.class"}),
                "500m",
            ),
        ] {
            assert_eq!(place(selector.clone(), cpu), None, "{selector}");
        }
        for name in ["wide", "reserved"] {
            let words = place(json!({"pool": name}), "500m");
            assert!(words.is_some_and(|words| words.contains(name)), "{name}");
        }
    }
}
