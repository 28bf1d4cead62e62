//! VolumeAttachments: there while a pod on the node uses the volume, and a while longer.

use super::act::{Act, Plan, Sort};
use super::hash;
use super::options::WorkloadOptions;
use super::owned::{claims, host, instant, is_finished, later};
use super::seen::Seen;
use crate::observe::Name;
use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) fn plan(seen: &mut Seen, volume: &Name, options: &WorkloadOptions, now: DateTime<Utc>) -> Plan {
    let mut plan = Plan::default();
    let object = seen.volumes.get(volume).cloned();
    let wanted = object.as_deref().map(|v| hosts(seen, v)).unwrap_or_default();
    let of_volume = |a: &Arc<VolumeAttachment>| a.spec.source.persistent_volume_name.as_ref() == Some(&volume.name);
    let present: Vec<Arc<VolumeAttachment>> = seen
        .attachments
        .all()
        .map(|(_, a)| a)
        .filter(|a| of_volume(a))
        .cloned()
        .collect();
    let driver = object
        .as_ref()
        .and_then(|v| v.spec.as_ref())
        .and_then(|s| s.csi.as_ref())
        .map(|c| c.driver.clone());
    for host in wanted
        .iter()
        .filter(|h| !present.iter().any(|a| a.spec.node_name == **h))
    {
        let Some(driver) = &driver else { break };
        let name = format!(
            "csi-{:016x}",
            hash::number(format!("{driver} {} {host}", volume.name).as_bytes())
        );
        plan.acts.push(Act::create(
            Sort::Attachment,
            "",
            json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
                "spec": {"attacher": driver, "nodeName": host, "source": {"persistentVolumeName": volume.name}},
            }),
        ));
    }
    for attachment in &present {
        let unwanted = format!("detach {}", Name::of(&**attachment));
        if wanted.contains(&attachment.spec.node_name) {
            seen.since.remove(&unwanted);
            attach(&mut plan, attachment, options, now);
        } else {
            let since = *seen.since.entry(unwanted.clone()).or_insert(now);
            if plan.due(later(since, i64::from(options.detach_seconds)), now) {
                seen.since.remove(&unwanted);
                plan.acts.push(Act::delete(
                    Sort::Attachment,
                    &Name::of(&**attachment),
                    attachment.metadata.uid.as_ref(),
                    None,
                ));
            }
        }
    }
    plan
}

/// The nodes with a pod that uses the volume.
fn hosts(seen: &Seen, volume: &PersistentVolume) -> BTreeSet<String> {
    let Some(owner) = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref()) else {
        return BTreeSet::new();
    };
    let claim = Name::new(
        owner.namespace.as_deref().unwrap_or_default(),
        owner.name.as_deref().unwrap_or_default(),
    );
    let users = seen
        .pods
        .all()
        .filter(|(name, pod)| name.namespace == claim.namespace && !is_finished(pod));
    users
        .filter(|(_, pod)| claims(pod).contains(&claim))
        .filter_map(|(_, pod)| host(pod).map(str::to_owned))
        .collect()
}

fn attach(plan: &mut Plan, attachment: &VolumeAttachment, options: &WorkloadOptions, now: DateTime<Utc>) {
    let made = instant(attachment.metadata.creation_timestamp.as_ref()).unwrap_or(now);
    let attached = attachment.status.as_ref().is_some_and(|s| s.attached);
    if !attached && plan.due(later(made, i64::from(options.attach_seconds)), now) {
        plan.acts.push(Act::status(
            Sort::Attachment,
            &Name::of(attachment),
            json!({"status": {"attached": true}}),
        ));
    }
}
