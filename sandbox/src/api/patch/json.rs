//! JSON patch (RFC 6902) and merge patch (RFC 7396), and the choice between the formats.
//!
//! Called by [`super::super::write`].

use super::super::error::ApiError;
use super::super::kinds::Resource;
use super::super::route::PatchKind;
use super::strategic;
use serde_json::Value;

/// Applies a patch body to an object.
pub(crate) fn apply(kind: PatchKind, resource: &Resource, old: &Value, body: &[u8]) -> Result<Value, ApiError> {
    let unreadable = |e: &dyn std::fmt::Display| ApiError::bad_request(format!("error decoding patch: {e}"));
    let mut new = old.clone();
    match kind {
        PatchKind::Json => {
            let patch: json_patch::Patch = serde_json::from_slice(body).map_err(|e| unreadable(&e))?;
            json_patch::patch(&mut new, &patch).map_err(|_| {
                ApiError::new(
                    422,
                    "Invalid",
                    "the server rejected our request due to an error in our request",
                )
            })?;
        }
        PatchKind::Merge => {
            let patch: Value = serde_json::from_slice(body).map_err(|e| unreadable(&e))?;
            if !patch.is_object() {
                return Err(unreadable(&"a merge patch must be an object"));
            }
            json_patch::merge(&mut new, &patch);
        }
        PatchKind::Strategic => {
            if resource.built_in().is_none() {
                let words = "the body of the request was in an unknown format - accepted media types include: \
                             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
                return Err(ApiError::new(415, "UnsupportedMediaType", words));
            }
            let patch: Value = serde_json::from_slice(body).map_err(|e| unreadable(&e))?;
            strategic::merge(&mut new, &patch);
        }
        PatchKind::Apply => return Err(ApiError::bad_request("an apply patch is not applied to an object")),
    }
    if !new.is_object() || new.get("metadata").is_some_and(|m| !m.is_object()) {
        return Err(ApiError::bad_request("the patched object is not an object"));
    }
    Ok(new)
}
