//! Nodes: silent ones become unknown, conditions become taints.

use super::act::{Act, Plan, Sort};
use super::options::WorkloadOptions;
use super::owned::{instant, later, text};
use super::seen::Seen;
use crate::observe::Name;
use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use serde_json::{Value, json};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// Conditions that keep new pods away.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

fn conditions(node: &Node) -> &[NodeCondition] {
    node.status
        .as_ref()
        .and_then(|s| s.conditions.as_deref())
        .unwrap_or_default()
}

pub(crate) fn ready(node: &Node) -> &str {
    conditions(node)
        .iter()
        .find(|c| c.type_ == "Ready")
        .map_or("Unknown", |c| &c.status)
}

pub(crate) fn is_unknown(node: &Node) -> bool {
    ready(node) == "Unknown"
}

/// What moves when a kubelet reports.
pub(crate) fn heartbeat(node: &Node) -> Option<DateTime<Utc>> {
    conditions(node)
        .iter()
        .filter(|c| c.status != "Unknown")
        .filter_map(|c| instant(c.last_heartbeat_time.as_ref()))
        .max()
}

pub(crate) fn plan(seen: &Seen, name: &Name, options: &WorkloadOptions, now: DateTime<Utc>) -> Plan {
    let mut plan = Plan::default();
    let Some(node) = seen.nodes.get(name) else { return plan };
    if !is_unknown(node) || conditions(node).is_empty() {
        let heard = seen.heard.get(&name.name).copied().unwrap_or(now);
        if plan.due(later(heard, i64::from(options.silence_seconds)), now) {
            plan.acts.push(Act::status(Sort::Node, name, silence(node, now)));
            return plan;
        }
    }
    let present = node.spec.as_ref().and_then(|s| s.taints.clone()).unwrap_or_default();
    let wanted = taints(node, &present, now);
    if wanted != present {
        let list = if wanted.is_empty() { Value::Null } else { json!(wanted) };
        let version = &node.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": list}});
        plan.acts.push(Act::patch(Sort::Node, name, patch));
    }
    plan
}

/// All of a kubelet's conditions are unknown; only for the node as it was seen, since a merge patch replaces the list.
fn silence(node: &Node, now: DateTime<Utc>) -> Value {
    let known = conditions(node);
    let kinds = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
    let mut list: Vec<Value> = known
        .iter()
        .filter(|c| !kinds.contains(&c.type_.as_str()))
        .map(|c| json!(c))
        .collect();
    for kind in kinds {
        let before = known.iter().find(|c| c.type_ == kind);
        let (reason, message) = match before {
            Some(_) => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
            None => ("NodeStatusNeverUpdated", "Kubelet never posted node status."),
        };
        let turned = before
            .filter(|c| c.status == "Unknown")
            .and_then(|c| c.last_transition_time.as_ref());
        list.push(
            json!({"type": kind, "status": "Unknown", "reason": reason, "message": message,
            "lastHeartbeatTime": before.and_then(|c| c.last_heartbeat_time.as_ref()),
            "lastTransitionTime": turned.map_or_else(|| json!(text(now)), |t| json!(t))}),
        );
    }
    json!({"metadata": {"resourceVersion": node.metadata.resource_version}, "status": {"conditions": list}})
}

/// The taints as they should be: those of others, then those that follow from the node's state.
fn taints(node: &Node, present: &[Taint], now: DateTime<Utc>) -> Vec<Taint> {
    let (not_ready, unreachable) = (ready(node) == "False", is_unknown(node) && !conditions(node).is_empty());
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (holds, key) in [(not_ready, NOT_READY), (unreachable, UNREACHABLE)] {
        if holds {
            wanted.extend([(key, "NoSchedule"), (key, "NoExecute")]);
        }
    }
    for (kind, key) in PRESSURES {
        if conditions(node).iter().any(|c| c.type_ == kind && c.status == "True") {
            wanted.push((key, "NoSchedule"));
        }
    }
    if node.spec.as_ref().and_then(|s| s.unschedulable) == Some(true) {
        wanted.push((CORDON, "NoSchedule"));
    }
    let ours = |t: &Taint| {
        let keys = PRESSURES
            .iter()
            .map(|(_, key)| *key)
            .chain([NOT_READY, UNREACHABLE, CORDON]);
        keys.into_iter().any(|key| key == t.key)
    };
    // A node that never reported keeps the taint it was born with.
    let newborn = conditions(node).is_empty();
    let is_wanted = |t: &Taint| wanted.iter().any(|(key, effect)| *key == t.key && *effect == t.effect);
    let mut taints: Vec<Taint> = present
        .iter()
        .filter(|t| !ours(t) || is_wanted(t) || (newborn && t.key == NOT_READY))
        .cloned()
        .collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|t| t.key == key && t.effect == effect) {
            taints.push(Taint {
                key: key.into(),
                effect: effect.into(),
                time_added: Some(karpenter::api::time::to_k8s(now)),
                value: None,
            });
        }
    }
    taints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(ready: &str, cordoned: bool, taints: &Value) -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"unschedulable": cordoned, "taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": ready}, {"type": "DiskPressure", "status": "True"}]}}))
        .unwrap()
    }

    fn keys(node: &Node) -> Vec<String> {
        let present = node.spec.clone().unwrap().taints.unwrap_or_default();
        let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        taints(node, &present, now)
            .into_iter()
            .map(|t| format!("{}:{}", t.key, t.effect))
            .collect()
    }

    #[test]
    fn conditions_become_taints_and_go_with_them() {
        let born = json!([{"key": NOT_READY, "effect": "NoSchedule"}, {"key": "mine", "effect": "NoSchedule"}]);
        let disk = "node.kubernetes.io/disk-pressure:NoSchedule";
        assert_eq!(keys(&node("True", false, &born)), ["mine:NoSchedule", disk]);
        let not_ready = [
            format!("{NOT_READY}:NoSchedule"),
            "mine:NoSchedule".into(),
            format!("{NOT_READY}:NoExecute"),
            disk.into(),
        ];
        assert_eq!(keys(&node("False", false, &born)), not_ready);
        let unreachable = [
            "mine:NoSchedule".to_owned(),
            format!("{UNREACHABLE}:NoSchedule"),
            format!("{UNREACHABLE}:NoExecute"),
            disk.into(),
        ];
        assert_eq!(keys(&node("Unknown", false, &born)), unreachable);
        assert_eq!(
            keys(&node("True", true, &json!(null))),
            [disk.to_owned(), format!("{CORDON}:NoSchedule")]
        );
    }
}
