//! Claims: bound to a volume that is there, or to one that the pretended CSI provisioner makes; kept while a pod uses them.

use super::act::{Act, Plan, Sort};
use super::options::WorkloadOptions;
use super::owned::{claims, is_finished, later};
use super::seen::Seen;
use crate::binder::{NodeFacts, SELECTED_NODE, is_bound, smallest_free, waits};
use crate::csi::volume::{Near, provisioned, reference};
use crate::observe::Name;
use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

const PROTECTION: &str = "kubernetes.io/pvc-protection";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

pub(crate) fn plan(seen: &mut Seen, name: &Name, options: &WorkloadOptions, now: DateTime<Utc>) -> Plan {
    let mut plan = Plan::default();
    let wish = format!("volume for {name}");
    let Some(claim) = seen.claims.get(name).cloned() else {
        seen.since.remove(&wish);
        return plan;
    };
    protect(&mut plan, seen, name, &claim);
    if claim.metadata.deletion_timestamp.is_some() || is_bound(&claim) || !plan.acts.is_empty() {
        return plan;
    }
    let class = claim
        .spec
        .as_ref()
        .and_then(|s| s.storage_class_name.as_ref())
        .map(|c| Name::new("", c));
    let class = class.and_then(|c| seen.classes.get(&c).cloned());
    let node = match wish_of(seen, &claim, class.as_deref()) {
        Wish::Anywhere => None,
        Wish::Near(node) => Some(*node),
        Wish::NotYet => return plan,
    };
    let volumes = seen.volumes.all().map(|(_, v)| v);
    if let Some(volume) = smallest_free(volumes, &claim, node.as_ref(), &BTreeSet::new()).cloned() {
        bind(&mut plan, name, &claim, &volume);
        return plan;
    }
    let Some(class) = class.filter(|c| c.provisioner != NO_PROVISIONER) else {
        return plan;
    };
    let since = *seen.since.entry(wish.clone()).or_insert(now);
    if plan.due(later(since, i64::from(options.provision_seconds)), now) {
        seen.since.remove(&wish);
        let near = node.as_ref().map(|node| Near {
            labels: &node.labels,
            plugin: seen.csi_nodes.get(&Name::new("", node.name())).map(AsRef::as_ref),
        });
        plan.acts
            .push(Act::create(Sort::Volume, "", provisioned(&claim, &class, near)));
    }
    plan
}

/// A claim that is used outlives its deletion.
fn protect(plan: &mut Plan, seen: &Seen, name: &Name, claim: &PersistentVolumeClaim) {
    let finalizers = claim.metadata.finalizers.clone().unwrap_or_default();
    let protected = finalizers.iter().any(|f| f == PROTECTION);
    let going = claim.metadata.deletion_timestamp.is_some();
    let list = if going && protected && !is_used(seen, name) {
        finalizers.into_iter().filter(|f| f != PROTECTION).collect()
    } else if !going && !protected {
        finalizers
            .into_iter()
            .chain([PROTECTION.to_owned()])
            .collect::<Vec<_>>()
    } else {
        return;
    };
    let version = &claim.metadata.resource_version;
    plan.acts.push(Act::patch(
        Sort::Claim,
        name,
        json!({"metadata": {"finalizers": list, "resourceVersion": version}}),
    ));
}

fn is_used(seen: &Seen, name: &Name) -> bool {
    seen.pods
        .all()
        .any(|(_, pod)| !is_finished(pod) && claims(pod).contains(name))
}

/// Where a claim wants its volume.
enum Wish {
    Anywhere,
    /// Within reach of the node of its first pod.
    Near(Box<NodeFacts>),
    /// No pod of it has a node yet.
    NotYet,
}

fn wish_of(seen: &Seen, claim: &PersistentVolumeClaim, class: Option<&StorageClass>) -> Wish {
    if !class.is_some_and(waits) {
        return Wish::Anywhere;
    }
    let annotations = claim.metadata.annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(SELECTED_NODE))
        .and_then(|selected| seen.nodes.get(&Name::new("", selected)))
        .map_or(Wish::NotYet, |node| Wish::Near(Box::new(NodeFacts::of(node))))
}

fn bind(plan: &mut Plan, name: &Name, claim: &PersistentVolumeClaim, volume: &Arc<PersistentVolume>) {
    let spec = volume.spec.clone().unwrap_or_default();
    let owned = spec.claim_ref.as_ref().is_some_and(|r| r.uid == claim.metadata.uid);
    let volume_name = Name::of(&**volume);
    if !owned {
        let patch = json!({"spec": {"claimRef": reference(claim)},
            "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}});
        plan.acts.push(Act::patch(Sort::Volume, &volume_name, patch));
    }
    plan.acts.push(Act::patch(Sort::Claim, name, json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {"volumeName": volume_name.name},
    })));
    let status = json!({"status": {"phase": "Bound", "accessModes": spec.access_modes, "capacity": spec.capacity}});
    plan.acts.push(Act::status(Sort::Claim, name, status));
}
