//! Copies what the provider accepted onto the claim (lifecycle 3.5). PURE.

use crate::api::NodeClaim;
use crate::cloud::Accepted;

/// Labels: the claim's own win; annotations: the provider's win; identity and resources are the provider's.
pub(super) fn populate(claim: &mut NodeClaim, accepted: &Accepted) {
    let labels = claim.metadata.labels.get_or_insert_default();
    for (key, value) in &accepted.labels {
        labels.entry(key.clone()).or_insert_with(|| value.clone());
    }
    if !accepted.annotations.is_empty() {
        let annotations = claim.metadata.annotations.get_or_insert_default();
        annotations.extend(accepted.annotations.clone());
    }
    let status = claim.status.get_or_insert_default();
    // what nodelink has learnt since is better than the order's first name
    if status.provider_id.is_none() {
        status.provider_id.clone_from(&accepted.provider_id);
    }
    status.image_id.clone_from(&accepted.image_id);
    status.capacity = accepted.capacity.to_api();
    status.allocatable = accepted.allocatable.to_api();
}
