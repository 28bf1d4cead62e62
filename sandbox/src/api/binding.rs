//! The `binding` subresource: the only way a pod gets its node.
//!
//! Called by [`super::core`] for the scheduler's request.

use super::core::{Answer, Core};
use super::error::ApiError;
use super::object;
use super::route::Call;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

impl Core {
    pub(crate) fn bind(&mut self, call: &Call, now: DateTime<Utc>) -> Result<Answer, ApiError> {
        let binding: Value = serde_json::from_slice(&call.body)
            .map_err(|e| ApiError::bad_request(format!("error decoding Binding: {e}")))?;
        let node = object::text(&binding, "/target/name").to_owned();
        if node.is_empty() {
            return Err(ApiError::bad_request("Binding.target.name: Required value"));
        }
        let old = self.named(call)?;
        let refuse = |why: String| {
            let mut error = ApiError::conflict(&call.resource, &call.name, &why);
            error.message = error.message.replacen("pods ", "pods/binding ", 1);
            Err(error)
        };
        let pod = old.value();
        let wanted = object::uid(&binding);
        if !wanted.is_empty() && wanted != object::uid(pod) {
            let is = object::uid(pod);
            return refuse(format!(
                "Precondition failed: UID in precondition: {wanted}, UID in object meta: {is}"
            ));
        }
        if object::is_deleting(pod) {
            return refuse(format!(
                "pod {} is being deleted, cannot be assigned to a host",
                call.name
            ));
        }
        let present = object::text(pod, "/spec/nodeName");
        if !present.is_empty() {
            return refuse(format!("pod {} is already assigned to node {present:?}", call.name));
        }
        if !object::list(pod, "/spec/schedulingGates").is_empty() {
            return refuse(format!("pod {} has non-empty .spec.schedulingGates", call.name));
        }
        let mut new = pod.clone();
        object::edit_at(&mut new, "spec", |spec| spec.insert("nodeName".into(), node.into()));
        let since = object::time_text(now);
        let scheduled =
            json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": since, "lastProbeTime": null });
        object::edit_at(&mut new, "status", |status| {
            let list = status.entry("conditions").or_insert_with(|| json!([]));
            if let Value::Array(conditions) = list {
                conditions.retain(|c| object::text(c, "/type") != "PodScheduled");
                conditions.push(scheduled);
            }
        });
        if let Some(generation) = object::generation(&new) {
            object::set_meta(&mut new, "generation", generation.saturating_add(1));
        }
        if !call.params.dry_run() {
            self.store.put(&call.table(), &Self::key(call), new, now);
        }
        let done = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
        Ok(Answer::Value { code: 201, value: done })
    }
}
