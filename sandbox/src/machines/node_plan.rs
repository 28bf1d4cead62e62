//! What kubelet, cloud controller, CSI plugin and pool controller do next to one Node. Pure: the order and the Node in, acts out.
//!
//! ```text
//!  joins ─▶ Register ─▶ cloud controller: provider ID, instance type, region, taint off ─▶ Ready ─▶ 60 s ─▶ pool taints, once
//!                  └──▶ 0..5 s: platform labels, custom labels and annotations
//!  VM dies ─▶ silence ─▶ (node-lifecycle: Unknown) ─▶ 45..60 s: cloud controller deletes the Node
//! ```
//!
//! Called by the fleet whenever the order or the Node changed or an instant has come. At most one write to the Node is planned at a time, since each moves its
//! resourceVersion; the watch then brings the next.

use super::birth::{self, CINDER_ZONE, NOT_READY, Readiness, UNINITIALIZED};
use super::draft::Draft;
use super::options::{MachineOptions, NodeLifecycle};
use crate::spot::{MachineOrder, Phase, PoolKind};
use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use serde_json::{Value, json};

/// Labels that the cloud controller owns: other values lose (rackspace-spot 4.4, 5.3).
const CLOUD_LABELS: [&str; 4] = [
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/region",
];

/// Something that is to be done now.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Create the Node.
    Register(Value),
    /// Renew the Lease.
    RenewLease,
    /// Create the CSINode.
    CreateCsiNode(Value),
    /// Merge-patch the Node.
    PatchNode(Value),
    /// Merge-patch the Node's status.
    PatchStatus(Value),
    /// Tell the platform which of the pool's metadata the Node has.
    Applied(Applied),
    /// Delete the Node.
    DeleteNode,
    /// Remove what the kubelet left behind.
    CleanUp,
}

/// Which of a pool's metadata was put on a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// Labels and annotations.
    Labels,
    /// Taints, for good.
    Taints,
}

/// What the kubelet itself remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// When the Lease was last renewed.
    pub leased: Option<DateTime<Utc>>,
    /// The CSINode exists.
    pub has_csi_node: bool,
    /// What a dead machine left behind is gone.
    pub cleaned: bool,
}

/// What to do now, and when to look again by itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// In this order.
    pub acts: Vec<Act>,
    /// Absent: only when something changes.
    pub next: Option<DateTime<Utc>>,
}

impl Plan {
    /// Whether an instant has come; if not, it is one to look again at.
    fn due(&mut self, at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> bool {
        let Some(at) = at else { return false };
        if at <= now {
            return true;
        }
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
        false
    }
}

/// Plans for one server and its Node, if it has one.
pub fn plan(
    order: &MachineOrder,
    node: Option<&Node>,
    memory: Memory,
    options: &MachineOptions,
    now: DateTime<Utc>,
) -> Plan {
    let mut plan = Plan::default();
    if order.server.phase == Phase::Dead {
        plan_dead(&mut plan, order, node, memory, options, now);
        return plan;
    }
    let Some(registered) = order.server.registered_at else {
        if plan.due(order.server.joins_at, now) {
            plan.acts.push(Act::Register(birth::node(order, now)));
        }
        return plan;
    };
    // A kubelet registers once: if somebody deletes the Node, it does not come back.
    let Some(node) = node else { return plan };
    if order.server.sick {
        plan_silence(&mut plan, node, memory, options, now);
        return plan;
    }
    plan_lease(&mut plan, memory, options, now);
    let mut draft = Draft::of(node);
    plan_cloud(&mut plan, &mut draft, order, node, registered, now);
    plan_csi(&mut plan, &mut draft, order, node, memory, registered, now);
    plan_pool(&mut plan, &mut draft, order, node, registered, now);
    plan_ready_taint(&mut draft, node, options);
    match draft.patch() {
        // First: what was not written must not be reported as applied, since a failed act ends the pass.
        Some(patch) => plan.acts.insert(0, Act::PatchNode(patch)),
        None => plan_status(&mut plan, order, node, registered, options, now),
    }
    plan
}

fn plan_lease(plan: &mut Plan, memory: Memory, options: &MachineOptions, now: DateTime<Utc>) {
    let due = memory.leased.map_or(Some(now), |at| later(at, options.lease_seconds));
    if plan.due(due, now) {
        plan.acts.push(Act::RenewLease);
        plan.due(later(now, options.lease_seconds), now);
    }
}

/// The cloud controller's pass, and afterwards its habit to restore the labels it owns.
fn plan_cloud(
    plan: &mut Plan,
    draft: &mut Draft,
    order: &MachineOrder,
    node: &Node,
    registered: DateTime<Utc>,
    now: DateTime<Utc>,
) {
    if has_taint(node, UNINITIALIZED) {
        if !plan.due(registered.checked_add_signed(order.server.cloud_controller_after), now) {
            return;
        }
        draft.remove_taint(UNINITIALIZED);
        if node.spec.as_ref().is_none_or(|spec| spec.provider_id.is_none()) {
            draft.provider_id(&format!("openstack:///{}", order.server.uuid));
        }
    }
    for (label, value) in CLOUD_LABELS.iter().zip([
        &*order.class.flavor,
        &*order.class.flavor,
        order.region_code,
        order.region_code,
    ]) {
        draft.label(label, Some(value));
    }
}

fn plan_csi(
    plan: &mut Plan,
    draft: &mut Draft,
    order: &MachineOrder,
    node: &Node,
    memory: Memory,
    registered: DateTime<Utc>,
    now: DateTime<Utc>,
) {
    if memory.has_csi_node || !plan.due(registered.checked_add_signed(order.server.ready_after), now) {
        return;
    }
    plan.acts
        .push(Act::CreateCsiNode(birth::csi_node(node, &order.server.uuid)));
    draft.label(CINDER_ZONE, Some("nova"));
}

/// The platform's labels and the pool's metadata (row 23).
fn plan_pool(
    plan: &mut Plan,
    draft: &mut Draft,
    order: &MachineOrder,
    node: &Node,
    registered: DateTime<Utc>,
    now: DateTime<Utc>,
) {
    let server = &order.server;
    if !order.pool_exists || !plan.due(registered.checked_add_signed(server.labels_after), now) {
        return;
    }
    let wanted = (order.labels.clone(), order.annotations.clone());
    if server.applied.as_ref() != Some(&wanted) {
        draft.label("servers.ngpc.rxt.io/class", Some(&server.class));
        let server_type = match order.server_type {
            PoolKind::Spot => "spot",
            PoolKind::OnDemand => "ondemand",
        };
        draft.label("servers.ngpc.rxt.io/type", Some(server_type));
        draft.label("nodepool.ngpc.rxt.io/name", Some(&server.pool.name));
        let (old_labels, old_annotations) = server.applied.clone().unwrap_or_default();
        for key in old_labels.keys().filter(|key| !wanted.0.contains_key(*key)) {
            draft.label(key, None);
        }
        for key in old_annotations.keys().filter(|key| !wanted.1.contains_key(*key)) {
            draft.annotation(key, None);
        }
        for (key, value) in wanted.0.iter().filter(|(key, _)| !CLOUD_LABELS.contains(&key.as_str())) {
            draft.label(key, Some(value));
        }
        for (key, value) in &wanted.1 {
            draft.annotation(key, Some(value));
        }
        plan.acts.push(Act::Applied(Applied::Labels));
    }
    let ready = ready(node)
        .filter(|ready| ready.status == "True")
        .and_then(|ready| instant(ready.last_transition_time.as_ref()));
    if !server.tainted && plan.due(ready.and_then(|at| at.checked_add_signed(server.taints_after)), now) {
        for taint in &order.taints {
            draft.add_taint(&taint.key, taint.value.as_deref(), &taint.effect);
        }
        plan.acts.push(Act::Applied(Applied::Taints));
    }
}

fn plan_ready_taint(draft: &mut Draft, node: &Node, options: &MachineOptions) {
    if options.node_lifecycle == NodeLifecycle::Here && ready(node).is_some_and(|ready| ready.status == "True") {
        draft.remove_taint(NOT_READY);
        draft.remove_taint("node.kubernetes.io/unreachable");
    }
}

/// The kubelet's status: whole at first, Ready when the time has come, then a heartbeat now and then.
fn plan_status(
    plan: &mut Plan,
    order: &MachineOrder,
    node: &Node,
    registered: DateTime<Utc>,
    options: &MachineOptions,
    now: DateTime<Utc>,
) {
    let version = node.metadata.resource_version.clone().unwrap_or_default();
    let patch = |status: Value| Act::PatchStatus(json!({"metadata": {"resourceVersion": version}, "status": status}));
    let has_capacity = node
        .status
        .as_ref()
        .and_then(|status| status.capacity.as_ref())
        .is_some_and(|list| !list.is_empty());
    let Some(condition) = ready(node).filter(|_| has_capacity) else {
        plan.acts.push(patch(birth::status(order, now)));
        return;
    };
    if condition.status != "True" {
        if plan.due(registered.checked_add_signed(order.server.ready_after), now) {
            plan.acts
                .push(patch(json!({"conditions": merged(node, now, Readiness::Ready)})));
        }
        return;
    }
    let beat = instant(condition.last_heartbeat_time.as_ref()).unwrap_or(registered);
    if plan.due(later(beat, options.status_seconds), now) {
        plan.acts
            .push(patch(json!({"conditions": merged(node, now, Readiness::Ready)})));
    }
}

/// The kubelet's conditions over those that are there: others' conditions stay, and a transition time moves only with the status.
fn merged(node: &Node, now: DateTime<Utc>, readiness: Readiness) -> Value {
    let old: Vec<Value> = conditions(node)
        .iter()
        .filter_map(|condition| serde_json::to_value(condition).ok())
        .collect();
    let mut merged = birth::conditions(now, readiness)
        .as_array()
        .cloned()
        .unwrap_or_default();
    for condition in &mut merged {
        let same = old
            .iter()
            .find(|old| old.get("type") == condition.get("type") && old.get("status") == condition.get("status"));
        if let (Some(kept), Some(condition)) = (
            same.and_then(|old| old.get("lastTransitionTime")),
            condition.as_object_mut(),
        ) {
            condition.insert("lastTransitionTime".into(), kept.clone());
        }
    }
    let foreign = old.into_iter().filter(birth_type);
    Value::Array(foreign.chain(merged.clone()).collect())
}

fn birth_type(condition: &Value) -> bool {
    let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
    !matches!(kind, "MemoryPressure" | "DiskPressure" | "PIDPressure" | "Ready")
}

fn plan_dead(
    plan: &mut Plan,
    order: &MachineOrder,
    node: Option<&Node>,
    memory: Memory,
    options: &MachineOptions,
    now: DateTime<Utc>,
) {
    let Some(node) = node else {
        if !memory.cleaned && order.server.registered_at.is_some() {
            plan.acts.push(Act::CleanUp);
        }
        return;
    };
    // Row 19, rackspace-spot 5.6: the cloud controller asks the undercloud, hears of no such server and deletes the Node.
    let deleting = node.metadata.deletion_timestamp.is_some();
    if !order.node_lingers && !deleting && plan.due(order.server.node_deleted_at, now) {
        plan.acts.push(Act::DeleteNode);
        return;
    }
    plan_silence(plan, node, memory, options, now);
}

/// Nobody hears from the kubelet; if we are the node-lifecycle controller, we say so.
fn plan_silence(plan: &mut Plan, node: &Node, memory: Memory, options: &MachineOptions, now: DateTime<Utc>) {
    let Some(condition) = ready(node).filter(|ready| ready.status != "Unknown") else {
        return;
    };
    if options.node_lifecycle == NodeLifecycle::Elsewhere {
        return;
    }
    let heard = instant(condition.last_heartbeat_time.as_ref())
        .max(memory.leased)
        .unwrap_or(now);
    if !plan.due(later(heard, options.silence_seconds), now) {
        return;
    }
    let mut all: Vec<Value> = conditions(node)
        .iter()
        .filter_map(|condition| serde_json::to_value(condition).ok())
        .collect();
    for condition in all.iter_mut().filter(|condition| !birth_type(condition)) {
        if let Some(condition) = condition.as_object_mut() {
            condition.insert("status".into(), json!("Unknown"));
            condition.insert("reason".into(), json!("NodeStatusUnknown"));
            condition.insert("message".into(), json!("Kubelet stopped posting node status."));
            condition.insert("lastTransitionTime".into(), json!(birth::seconds(now)));
        }
    }
    let version = node.metadata.resource_version.clone().unwrap_or_default();
    plan.acts.push(Act::PatchStatus(
        json!({"metadata": {"resourceVersion": version}, "status": {"conditions": all}}),
    ));
}

fn later(at: DateTime<Utc>, seconds: u32) -> Option<DateTime<Utc>> {
    at.checked_add_signed(TimeDelta::seconds(i64::from(seconds)))
}

fn conditions(node: &Node) -> &[NodeCondition] {
    node.status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default()
}

/// The Ready condition of a Node.
pub(super) fn ready(node: &Node) -> Option<&NodeCondition> {
    conditions(node).iter().find(|condition| condition.type_ == "Ready")
}

/// Whether a Node has a taint.
pub(super) fn has_taint(node: &Node, key: &str) -> bool {
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    taints.iter().any(|taint| taint.key == key)
}

/// Kubernetes' time as ours.
pub(super) fn instant(time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>) -> Option<DateTime<Utc>> {
    time.map(karpenter::api::time::from_k8s)
}

#[cfg(test)]
#[path = "node_plan_tests.rs"]
mod tests;
