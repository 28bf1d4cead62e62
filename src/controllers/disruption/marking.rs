//! Putting the marks of disruption on Node and NodeClaim, and taking them back (disruption 9.2, 11.6).
//!
//! Other controllers write the same objects, so each write holds for the version that was looked at; when that has moved, the object is read from
//! the API server and the change made again, a few times.

use crate::api::{Conditioned, NodeClaim, conditions};
use crate::controllers::Kit;
use crate::controllers::node::events::log_taint;
use crate::controllers::nodeclaim::save::save;
use crate::disruption::leftover::untainted;
use crate::k8s::queue::{ReconcileError, Weight};
use crate::k8s::write::{Lock, Target, Writable};
use crate::k8s::write_as_expected;
use crate::lifecycle::farewell::tainted;
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::json;

/// Attempts at one object.
const ATTEMPTS: usize = 5;

/// Which way the marks are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marking<'a> {
    /// They are put, with this reason.
    Put(&'a str),
    /// They are taken back.
    TakeBack,
}

/// Marks a Node; one that is gone needs no mark.
pub(super) async fn node(kit: &Kit, name: &str, marking: Marking<'_>) -> Result<(), ReconcileError> {
    for attempt in 1.. {
        let snapshot = kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let Some(node) = snapshot.node(name) else { return Ok(()) };
        let Some(taints) = changed(&node.taints, marking) else {
            return Ok(());
        };
        let target = Target::of(&node.meta);
        let patch = json!({ "spec": { "taints": taints } });
        let written = kit.writer.patch::<Node>(&target, patch, Lock::Version).await;
        match write_as_expected(written) {
            Ok(found) => {
                if found.is_some() && marking != Marking::TakeBack {
                    log_taint(node);
                }
                return Ok(());
            }
            Err(error) => once_more::<Node>(kit, &target, error.into(), attempt).await?,
        }
    }
    Ok(())
}

fn changed(taints: &[Taint], marking: Marking<'_>) -> Option<Vec<Taint>> {
    match marking {
        Marking::Put(_) => tainted(taints),
        Marking::TakeBack => Some(untainted(taints)).filter(|left| left.len() != taints.len()),
    }
}

/// Marks a NodeClaim; one that is gone needs no mark.
pub(super) async fn claim(kit: &Kit, name: &str, marking: Marking<'_>) -> Result<(), ReconcileError> {
    for attempt in 1.. {
        let snapshot = kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let Some(entry) = snapshot.claim(name) else {
            return Ok(());
        };
        let mut claim = entry.facts.clone();
        match marking {
            Marking::Put(reason) => {
                claim.set_true_because(conditions::DISRUPTION_REASON, reason, reason, kit.now());
            }
            Marking::TakeBack => {
                claim
                    .clear_condition(conditions::DISRUPTION_REASON)
                    .map_err(ReconcileError::new)?;
            }
        }
        match save(kit, &entry.facts, &claim).await {
            Ok(()) => return Ok(()),
            Err(error) => once_more::<NodeClaim>(kit, &Target::of(&entry.meta), error, attempt).await?,
        }
    }
    Ok(())
}

/// Whether another attempt makes sense: only after a conflict or an unknown outcome, and once the state knows what is there now.
async fn once_more<K: Writable>(
    kit: &Kit,
    target: &Target,
    error: ReconcileError,
    attempt: usize,
) -> Result<(), ReconcileError> {
    if error.weight() != Weight::Expected || attempt >= ATTEMPTS {
        return Err(error);
    }
    kit.writer.look_up::<K>(target).await?;
    Ok(())
}
