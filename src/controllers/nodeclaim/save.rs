//! Writes what changed on a claim: metadata first, then the status, only what differs (lifecycle 2.5).

use crate::api::NodeClaim;
use crate::controllers::Kit;
use crate::k8s::merge::merge_patch;
use crate::k8s::queue::ReconcileError;
use crate::k8s::write::{Lock, Target};
use crate::k8s::write_as_expected;
use serde_json::{Value, json};

/// Sends the differences between the claim as it was read and as it shall be. A claim that is gone needs nothing.
///
/// Differs: upstream patches the status without a lock and may undo a condition that another controller set meanwhile; here the version that was
/// read must still be the present one, and a conflict is simply looked at again.
pub(in crate::controllers) async fn save(
    kit: &Kit,
    before: &NodeClaim,
    after: &NodeClaim,
) -> Result<(), ReconcileError> {
    let mut target = Target::object(before);
    let metadata = |claim: &NodeClaim| json!({ "metadata": { "labels": claim.metadata.labels, "annotations": claim.metadata.annotations } });
    if let Some(patch) = merge_patch(&metadata(before), &metadata(after)) {
        let Some(written) = write_as_expected(kit.writer.patch::<NodeClaim>(&target, patch, Lock::Version).await)?
        else {
            return Ok(());
        };
        target = Target::object(&written);
    }
    if let Some(patch) = merge_patch(&status(before)?, &status(after)?) {
        write_as_expected(
            kit.writer
                .patch_status::<NodeClaim>(&target, patch, Lock::Version)
                .await,
        )?;
    }
    Ok(())
}

fn status(claim: &NodeClaim) -> Result<Value, ReconcileError> {
    let status = claim.status.clone().unwrap_or_default();
    Ok(json!({ "status": serde_json::to_value(status).map_err(ReconcileError::new)? }))
}
