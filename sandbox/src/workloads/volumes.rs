//! Volumes: their phase, and their end when their claim is gone.

use super::act::{Act, Plan, Sort};
use super::seen::Seen;
use crate::observe::Name;
use serde_json::json;

pub(crate) fn plan(seen: &Seen, name: &Name) -> Plan {
    let mut plan = Plan::default();
    let Some(volume) = seen
        .volumes
        .get(name)
        .filter(|v| v.metadata.deletion_timestamp.is_none())
    else {
        return plan;
    };
    let spec = volume.spec.clone().unwrap_or_default();
    let phase = match &spec.claim_ref {
        None => "Available",
        Some(claim) => {
            let text = |t: &Option<String>| t.clone().unwrap_or_default();
            let found = seen.claims.get(&Name::new(&text(&claim.namespace), &text(&claim.name)));
            match (&claim.uid, found) {
                // Reserved by its maker for a claim that may still come.
                (None, _) => "Available",
                (Some(uid), Some(found)) if found.metadata.uid.as_ref() == Some(uid) => "Bound",
                _ => "Released",
            }
        }
    };
    let attached = seen
        .attachments
        .all()
        .any(|(_, a)| a.spec.source.persistent_volume_name.as_ref() == Some(&name.name));
    if phase == "Released" && spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete") {
        if !attached {
            plan.acts
                .push(Act::delete(Sort::Volume, name, volume.metadata.uid.as_ref(), None));
        }
        return plan;
    }
    if volume.status.as_ref().and_then(|s| s.phase.as_deref()) != Some(phase) {
        plan.acts
            .push(Act::status(Sort::Volume, name, json!({"status": {"phase": phase}})));
    }
    plan
}
