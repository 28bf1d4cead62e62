//! Servers without an operator: for tests that need nodes and nothing else.

use super::running::World;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A pool as a user would order it by hand.
#[derive(Debug, Clone, PartialEq)]
pub struct Order<'a> {
    /// Its name, a UUID.
    pub pool: &'a str,
    /// Server class.
    pub class: &'a str,
    /// How many servers.
    pub desired: u32,
    /// Bid in dollars an hour.
    pub bid: &'a str,
    /// Labels of its nodes.
    pub labels: BTreeMap<&'a str, &'a str>,
    /// Taints of its nodes, as the Spot API takes them.
    pub taints: Value,
}

impl Default for Order<'_> {
    fn default() -> Self {
        Self {
            pool: "00000000-0000-4000-8000-000000000001",
            class: "ch.vs1.large-iad",
            desired: 1,
            bid: "0.02",
            labels: BTreeMap::new(),
            taints: json!([]),
        }
    }
}

impl World {
    /// Places a bid through the Spot API; the code of its answer.
    pub fn order(&self, order: &Order<'_>) -> u16 {
        self.spot().with(|platform| {
            let space = platform.options().account.cloudspaces.first().map(|c| c.name.clone()).unwrap_or_default();
            let path = format!("{}/spotnodepools", namespace(&platform.options().account.namespace()));
            let body = json!({"metadata": {"name": order.pool}, "spec": {"serverClass": order.class, "cloudSpace": space,
                "desired": order.desired, "bidPrice": order.bid, "customLabels": order.labels, "customTaints": order.taints}});
            let call = platform.call("POST", &path, &body);
            let now = platform.now();
            platform.answer(now, &call).code
        })
    }

    /// Gives a pool back through the Spot API; the code of its answer.
    pub fn give_back(&self, pool: &str) -> u16 {
        self.spot().with(|platform| {
            let path = format!(
                "{}/spotnodepools/{pool}",
                namespace(&platform.options().account.namespace())
            );
            let call = platform.call("DELETE", &path, &Value::Null);
            let now = platform.now();
            platform.answer(now, &call).code
        })
    }
}

fn namespace(name: &str) -> String {
    format!("/apis/ngpc.rxt.io/v1/namespaces/{name}")
}
