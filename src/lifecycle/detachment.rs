//! Which volumes a node that goes is still waited for (lifecycle 13.8).
//!
//! A machine that is removed while a volume is attached leaves the volume unusable elsewhere for minutes. Volumes of pods that stay until the end
//! (static pods, pods that tolerate everything) will never be detached and are not waited for. Called by the node termination controller.

use super::pods::is_drainable;
use crate::cluster::entries::{PodEntry, VolumeAttachmentEntry};
use crate::cluster::{Key, Snapshot};
use chrono::{DateTime, Utc};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the volume stage finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detachment {
    /// Nothing is attached any more.
    Done,
    /// Something is.
    Waiting,
    /// Something is, and the node's time is over.
    GivenUp,
}

/// The attachments that are waited for, in order of their names.
pub fn pending<'a>(
    snapshot: &'a Snapshot,
    node: &'a str,
    pods: &[Arc<PodEntry>],
    now: DateTime<Utc>,
) -> Vec<&'a Arc<VolumeAttachmentEntry>> {
    let staying = pods.iter().filter(|pod| !is_drainable(pod, now));
    let kept: BTreeSet<&str> = staying.flat_map(|pod| volumes_of(snapshot, pod)).collect();
    snapshot
        .attachments_of(node)
        .filter(|attachment| {
            attachment
                .volume
                .as_deref()
                .is_some_and(|volume| !kept.contains(volume))
        })
        .collect()
}

/// The volumes behind the pod's claims; a claim that is not there has none.
fn volumes_of<'a>(snapshot: &'a Snapshot, pod: &PodEntry) -> Vec<&'a str> {
    let claims = pod.claims.iter().filter_map(|used| {
        let key = Key {
            scope: Arc::clone(&pod.meta.key.scope),
            name: Arc::clone(&used.claim),
        };
        snapshot.objects.pvcs.get(&key)
    });
    claims.filter_map(|claim| claim.placement.volume.as_deref()).collect()
}

/// What follows from how many are pending; `termination` is the time by which the node must be gone.
pub fn verdict(pending: usize, termination: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Detachment {
    match (pending, termination) {
        (0, _) => Detachment::Done,
        (_, Some(end)) if now > end => Detachment::GivenUp,
        _ => Detachment::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::entries::{PvcEntry, Reader};
    use crate::cluster::{Cluster, Delta, Object};
    use serde_json::{Value, json};

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap()
    }

    fn attachment(name: &str, node: &str, volume: &Value) -> Object {
        let object = json!({
            "metadata": { "name": name, "uid": name },
            "spec": { "attacher": "csi", "nodeName": node, "source": { "persistentVolumeName": volume } },
            "status": { "attached": true },
        });
        Object::VolumeAttachment(Arc::new(VolumeAttachmentEntry::read(
            serde_json::from_value(object).unwrap(),
        )))
    }

    fn pod(tolerations: &Value) -> Arc<PodEntry> {
        let object = json!({
            "metadata": { "name": "p", "namespace": "ns", "uid": "p" },
            "spec": { "nodeName": "n", "containers": [], "tolerations": tolerations,
                "volumes": [{ "name": "d", "persistentVolumeClaim": { "claimName": "data" } }, { "name": "x", "persistentVolumeClaim": { "claimName": "missing" } }] },
        });
        Arc::new(Reader::new().pod(&serde_json::from_value(object).unwrap()))
    }

    fn names(tolerations: &Value) -> Vec<String> {
        let mut cluster = Cluster::new([], Arc::new(|_| None), at(0));
        let claim =
            json!({ "metadata": { "name": "data", "namespace": "ns", "uid": "d" }, "spec": { "volumeName": "pv-1" } });
        let claim = PvcEntry::read(&serde_json::from_value(claim).unwrap());
        let objects = [
            attachment("a1", "n", &json!("pv-1")),
            attachment("a2", "n", &json!("pv-2")),
            attachment("a3", "elsewhere", &json!("pv-3")),
            attachment("a4", "n", &Value::Null),
            Object::PersistentVolumeClaim(Arc::new(claim)),
        ];
        for object in objects {
            cluster.observe(Delta::Applied(object), at(0));
        }
        let snapshot = cluster.snapshot();
        let pending = pending(&snapshot, "n", &[pod(tolerations)], at(0));
        pending.iter().map(|found| found.name().to_owned()).collect()
    }

    #[test]
    fn attachments_of_the_node_with_a_volume_are_waited_for() {
        assert_eq!(names(&json!([])), ["a1", "a2"]);
    }

    #[test]
    fn volumes_of_pods_that_stay_are_not() {
        assert_eq!(names(&json!([{ "operator": "Exists" }])), ["a2"]);
    }

    #[test]
    fn waiting_ends_with_the_volumes_or_with_the_nodes_time() {
        assert_eq!(verdict(0, None, at(0)), Detachment::Done);
        assert_eq!(verdict(1, None, at(0)), Detachment::Waiting);
        assert_eq!(verdict(1, Some(at(10)), at(10)), Detachment::Waiting);
        assert_eq!(verdict(1, Some(at(10)), at(11)), Detachment::GivenUp);
    }
}
