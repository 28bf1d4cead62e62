//! `nodeclaim.podevents`: remembers on each claim when a pod last came or went, the base of consolidateAfter (lifecycle 10.3).
//!
//! The trigger turns changes of pods into names of nodes; a pod that is gone is not known any more, so the trigger remembers where pods were.

use crate::api::{NodeClaim, time};
use crate::cluster::{Change, Cluster, Key, Kind, What};
use crate::controllers::Kit;
use crate::k8s::queue::{Next, Queue, ReconcileError, Reconciler};
use crate::k8s::write::{Lock, Target};
use crate::k8s::write_as_expected;
use crate::lifecycle::pod_events::{counts, is_due};
use async_trait::async_trait;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The controller; its keys are nodes.
#[derive(Debug)]
pub struct PodEvents {
    kit: Kit,
}

impl PodEvents {
    /// The controller.
    pub fn new(kit: Kit) -> Self {
        Self { kit }
    }
}

/// Puts the node of each pod that came or went into the queue.
pub fn trigger(queue: Queue<Key>) -> impl FnMut(&Change, &Cluster) + Send + 'static {
    let mut places: BTreeMap<Key, Key> = BTreeMap::new();
    move |change, cluster| {
        if change.kind != Kind::Pod {
            return;
        }
        let pod = cluster.pod(&change.key).filter(|pod| pod.meta.uid == change.uid);
        let node = match pod {
            Some(pod) => {
                let node = pod.node().map(Key::cluster).filter(|_| counts(pod, What::Appeared));
                if let Some(node) = &node {
                    places.entry(change.key.clone()).or_insert_with(|| node.clone());
                }
                node.filter(|_| counts(pod, change.what))
            }
            None => places.get(&change.key).cloned(),
        };
        if change.what == What::Gone {
            places.remove(&change.key);
        }
        if let Some(node) = node {
            queue.add(node);
        }
    }
}

#[async_trait]
impl Reconciler for PodEvents {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let kinds = self.kit.provider.node_class_kinds();
        let machine = snapshot.machine_of_node(&key.name);
        let claim = machine.and_then(|machine| machine.claim.as_ref());
        let Some(claim) = claim.filter(|claim| claim.is_managed(kinds)) else {
            return Ok(Next::Done);
        };
        let now = self.kit.now();
        if claim.provider_id().is_none() || !is_due(claim.last_pod_event(), now) {
            return Ok(Next::Done);
        }
        let patch = json!({ "status": { "lastPodEventTime": time::to_rfc3339(now) } });
        let target = Target::of(&Arc::clone(claim).meta);
        write_as_expected(
            self.kit
                .writer
                .patch_status::<NodeClaim>(&target, patch, Lock::None)
                .await,
        )?;
        Ok(Next::Done)
    }
}
