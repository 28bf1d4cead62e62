//! The only way to change something at the API server: with preconditions, under the lease, within four seconds, and known to the cluster state.
//!
//! Each write waits for its token, is checked against the [`Leadership`] immediately before it is sent, is sent once, and gets 4 s
//! (architecture §3.5). A success is told to the cluster task at once (§3.2); an unknown outcome is neither assumed nor denied: whoever wrote
//! looks the object up, which is why objects get their names before they are sent. Controllers match on [`WriteError::remedy`].

use super::client::{Admitted, ApiClient};
use super::cluster_task::ClusterHandle;
use super::kinds::WatchedKinds;
use super::leadership::Leadership;
use super::write_error::{Cause, WriteError};
use super::write_target::Part;
use crate::clock::{SharedClock, within};
use crate::cluster::entries::Reader;
use crate::cluster::{Assumption, Delta, Object};
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use serde_json::{Value, json};
use std::sync::Arc;

pub use super::write_error::Remedy;
pub use super::write_target::{DeleteHow, DeleteLock, Deleted, Lock, Target, Writable};

/// Writes; cheap to clone.
#[derive(Debug, Clone)]
pub struct Writer {
    client: ApiClient,
    leadership: Leadership,
    cluster: ClusterHandle,
    kinds: WatchedKinds,
    clock: SharedClockDebug,
}

/// The clock, without being asked for its looks.
#[derive(Clone)]
struct SharedClockDebug(SharedClock);

impl std::fmt::Debug for SharedClockDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl Writer {
    /// A writer over this client, under this leadership, that tells this cluster task.
    pub fn new(
        client: ApiClient,
        leadership: Leadership,
        cluster: ClusterHandle,
        kinds: WatchedKinds,
        clock: SharedClock,
    ) -> Self {
        Self {
            client,
            leadership,
            cluster,
            kinds,
            clock: SharedClockDebug(clock),
        }
    }

    /// Whether a write would be sent now.
    pub fn may_write(&self) -> bool {
        self.leadership.may_write()
    }

    /// Creates the object under the name that it already has.
    pub async fn create<K: Writable>(&self, object: &K) -> Result<K, WriteError> {
        let target = Target::object(object);
        let failed = |cause| WriteError::new("creating", target.describe::<K>(), cause);
        let body = serde_json::to_vec(object).map_err(|e| failed(Cause::Malformed(Box::new(e))))?;
        let request = request::<K>(&target).create(&PostParams::default(), body);
        let answer = self
            .send::<K>(
                "creating",
                &target,
                request.map_err(|e| failed(Cause::Malformed(Box::new(e))))?,
            )
            .await?;
        self.settled::<K>("creating", &target, answer).await
    }

    /// Applies a merge patch to everything but the status.
    pub async fn patch<K: Writable>(&self, target: &Target, patch: Value, lock: Lock) -> Result<K, WriteError> {
        self.merge::<K>("patching", target, patch, lock, Part::Main).await
    }

    /// Applies a merge patch to the status: `patch` is the whole object's patch, as in `{"status": {…}}`.
    pub async fn patch_status<K: Writable>(&self, target: &Target, patch: Value, lock: Lock) -> Result<K, WriteError> {
        self.merge::<K>("patching the status of", target, patch, lock, Part::Status)
            .await
    }

    /// Adds a finalizer to those that the object had in the version that was looked at; nothing is sent if it is there.
    pub async fn add_finalizer<K: Writable>(
        &self,
        target: &Target,
        present: &[String],
        finalizer: &str,
    ) -> Result<Option<K>, WriteError> {
        if present.iter().any(|known| known == finalizer) {
            return Ok(None);
        }
        let finalizers: Vec<&str> = present.iter().map(String::as_str).chain([finalizer]).collect();
        let patch = json!({ "metadata": { "finalizers": finalizers } });
        self.merge::<K>("adding a finalizer to", target, patch, Lock::Version, Part::Main)
            .await
            .map(Some)
    }

    /// Takes a finalizer from those that the object had in the version that was looked at. An object that is gone has none.
    pub async fn remove_finalizer<K: Writable>(
        &self,
        target: &Target,
        present: &[String],
        finalizer: &str,
    ) -> Result<Deleted, WriteError> {
        if !present.iter().any(|known| known == finalizer) {
            return Ok(Deleted::InProgress);
        }
        let left: Vec<&str> = present
            .iter()
            .map(String::as_str)
            .filter(|known| *known != finalizer)
            .collect();
        let patch = json!({ "metadata": { "finalizers": left } });
        match self
            .merge::<K>("removing a finalizer from", target, patch, Lock::Version, Part::Main)
            .await
        {
            Ok(object) if is_gone(&serde_json::to_value(&object).unwrap_or_default()) => Ok(Deleted::Gone),
            Ok(_) => Ok(Deleted::InProgress),
            Err(error) if error.is_not_found() => Ok(Deleted::Gone),
            Err(error) => Err(error),
        }
    }

    /// Deletes the object, never a successor of the same name. An object that is gone already is a success.
    pub async fn delete<K: Writable>(&self, target: &Target, how: DeleteHow) -> Result<Deleted, WriteError> {
        let failed = |cause| WriteError::new("deleting", target.describe::<K>(), cause);
        let version = match how.lock {
            DeleteLock::Uid => None,
            DeleteLock::UidAndVersion => Some(target.version.clone()).filter(|version| !version.is_empty()),
        };
        let uid = Some(target.uid.clone()).filter(|uid| !uid.is_empty());
        let params = DeleteParams {
            grace_period_seconds: how.grace_seconds,
            preconditions: Some(Preconditions {
                resource_version: version,
                uid,
            }),
            ..DeleteParams::default()
        };
        let request = request::<K>(target).delete(&target.name, &params);
        match self
            .send::<K>(
                "deleting",
                target,
                request.map_err(|e| failed(Cause::Malformed(Box::new(e))))?,
            )
            .await
        {
            Ok(answer) if answer.get("kind").and_then(Value::as_str) == Some("Status") || is_gone(&answer) => {
                self.gone::<K>(target).await;
                Ok(Deleted::Gone)
            }
            Ok(answer) => {
                self.written::<K>(answer).await;
                Ok(Deleted::InProgress)
            }
            Err(error) if error.is_not_found() => {
                self.gone::<K>(target).await;
                Ok(Deleted::Gone)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the object from the API server itself and tells the cluster state what was found: what follows an unknown outcome.
    pub async fn look_up<K: Writable>(&self, target: &Target) -> Result<Option<K>, WriteError> {
        let failed = |cause| WriteError::new("reading", target.describe::<K>(), cause);
        let request = request::<K>(target).get(&target.name, &GetParams::default());
        let request = request.map_err(|e| failed(Cause::Malformed(Box::new(e))))?;
        let began = self.clock.0.now();
        let found = match self.client.kube().request::<Value>(request).await {
            Ok(found) => Some(found),
            Err(kube::Error::Api(status)) if status.is_not_found() => None,
            Err(error) => return Err(WriteError::from_kube("reading", target.describe::<K>(), error)),
        };
        if let Some(watched) = self.kinds.find(&K::group(&()), &K::kind(&())) {
            let object = found
                .clone()
                .and_then(|found| watched.read(&mut Reader::new(), found).ok());
            if object.is_some() || found.is_none() {
                let key = object
                    .as_ref()
                    .map_or_else(|| target.key(), |object| object.meta().key.clone());
                let read = Delta::Read {
                    kind: watched.source.kind,
                    key,
                    began,
                    found: object,
                };
                // A closed cluster task means that the process ends: nobody is left to be told.
                let _ = self.cluster.observe(read).await;
            }
        }
        found
            .map(|found| crate::api::decode(found).map_err(|e| failed(Cause::Unreadable(e))))
            .transpose()
    }

    async fn merge<K: Writable>(
        &self,
        operation: &'static str,
        target: &Target,
        mut patch: Value,
        lock: Lock,
        part: Part,
    ) -> Result<K, WriteError> {
        let failed = |cause| WriteError::new(operation, target.describe::<K>(), cause);
        if lock == Lock::Version
            && !target.version.is_empty()
            && let Some(patch) = patch.as_object_mut()
        {
            let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("resourceVersion".to_owned(), Value::String(target.version.clone()));
            }
        }
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let request = match part {
            Part::Main => request::<K>(target).patch(&target.name, &params, &patch),
            Part::Status => request::<K>(target).patch_subresource("status", &target.name, &params, &patch),
        };
        let request = request.map_err(|e| failed(Cause::Malformed(Box::new(e))))?;
        let answer = self.send::<K>(operation, target, request).await?;
        self.settled::<K>(operation, target, answer).await
    }

    /// Sends one request once: token, lease, four seconds.
    pub(super) async fn send<K: Writable>(
        &self,
        operation: &'static str,
        target: &Target,
        mut request: http::Request<Vec<u8>>,
    ) -> Result<Value, WriteError> {
        self.client.admit().await;
        request.extensions_mut().insert(Admitted);
        let kube = self.client.kube();
        let Some(writing) = self.leadership.begin_write() else {
            return Err(WriteError::new(operation, target.describe::<K>(), Cause::NotLeading));
        };
        let sending = kube.request::<Value>(request);
        let answer = within(self.leadership.write_timeout(), sending).await;
        let error = match answer {
            Some(Ok(answer)) => {
                writing.answered();
                return Ok(answer);
            }
            Some(Err(error)) => WriteError::from_kube(operation, target.describe::<K>(), error),
            None => WriteError::new(operation, target.describe::<K>(), Cause::UnknownOutcome(None)),
        };
        if !matches!(error.cause(), Cause::UnknownOutcome(_)) {
            writing.answered();
        }
        Err(error)
    }

    /// A write was answered with the object: tell the state, and hand the object back.
    async fn settled<K: Writable>(
        &self,
        operation: &'static str,
        target: &Target,
        answer: Value,
    ) -> Result<K, WriteError> {
        if is_gone(&answer) {
            self.gone::<K>(&Target {
                uid: text_at(&answer, "/metadata/uid"),
                ..target.clone()
            })
            .await;
        } else {
            self.written::<K>(answer.clone()).await;
        }
        crate::api::decode(answer).map_err(|e| WriteError::new(operation, target.describe::<K>(), Cause::Unreadable(e)))
    }

    async fn written<K: Writable>(&self, answer: Value) {
        if let Some(object) = self.read::<K>(answer) {
            let _ = self.cluster.assume(Assumption::Written(object)).await;
        }
    }

    pub(super) async fn gone<K: Writable>(&self, target: &Target) {
        let Some(watched) = self.kinds.find(&K::group(&()), &K::kind(&())) else {
            return;
        };
        if target.uid.is_empty() {
            return;
        }
        let mut key = target.key();
        if !watched.source.class.is_empty() {
            key.scope = Arc::clone(&watched.source.class);
        }
        let assumption = Assumption::Gone {
            kind: watched.source.kind,
            key,
            uid: target.uid.as_str().into(),
        };
        let _ = self.cluster.assume(assumption).await;
    }

    fn read<K: Writable>(&self, answer: Value) -> Option<Object> {
        self.kinds
            .find(&K::group(&()), &K::kind(&()))?
            .read(&mut Reader::new(), answer)
            .ok()
    }
}

fn request<K: Writable>(target: &Target) -> Request {
    Request::new(K::url_path(&(), target.namespace.as_deref()))
}

fn text_at(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Whether the object in an answer is gone with that answer: it is being deleted, and neither a finalizer nor a grace period holds it.
fn is_gone(answer: &Value) -> bool {
    let metadata = answer.get("metadata");
    let at = |field: &str| metadata.and_then(|metadata| metadata.get(field));
    let held = at("finalizers")
        .and_then(Value::as_array)
        .is_some_and(|finalizers| !finalizers.is_empty());
    let graced = at("deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds > 0);
    at("deletionTimestamp").is_some_and(|time| !time.is_null()) && !held && !graced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_gone_when_nothing_holds_its_deletion() {
        let gone = |metadata: Value| is_gone(&json!({ "metadata": metadata }));
        let time = "2026-01-01T00:00:00Z";
        assert!(gone(
            json!({ "deletionTimestamp": time, "deletionGracePeriodSeconds": 0, "finalizers": [] })
        ));
        assert!(gone(json!({ "deletionTimestamp": time })));
        assert!(!gone(json!({ "deletionTimestamp": time, "finalizers": ["a"] })));
        assert!(!gone(
            json!({ "deletionTimestamp": time, "deletionGracePeriodSeconds": 30 })
        ));
        assert!(!gone(json!({})));
    }
}
