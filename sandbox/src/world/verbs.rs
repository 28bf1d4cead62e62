//! What tests and the demonstration do to a world.

use super::running::World;
use crate::api::kinds::Scope;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// How often a condition is looked at while nothing else is known about when it may come true.
const STEP: Duration = Duration::from_millis(100);

/// Why something could not be done to the world.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The manifest is not YAML.
    #[error("reading the manifest")]
    Manifest(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The world does not serve this kind.
    #[error("no kind {kind} in {api_version:?}")]
    UnknownKind {
        /// Kind.
        kind: String,
        /// API version.
        api_version: String,
    },
    /// The Kubernetes API refused.
    #[error("{what} was refused")]
    Refused {
        /// Verb and object.
        what: String,
        /// The refusal.
        #[source]
        source: Box<kube::Error>,
    },
    /// A condition did not come true.
    #[error("after {} s still not: {what}\n{state}", limit.as_secs())]
    Late {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
        /// How the world looks.
        state: String,
    },
}

impl World {
    /// Applies a manifest of one or more YAML (or JSON) documents: what is new is created, what is there is merged.
    ///
    /// # Errors
    /// The manifest cannot be read or was refused.
    pub async fn apply(&self, manifest: &str) -> Result<(), WorldError> {
        for document in documents(manifest)? {
            self.apply_value(&document).await?;
        }
        Ok(())
    }

    /// Applies one object.
    ///
    /// # Errors
    /// It was refused, or its kind is not served.
    pub async fn apply_value(&self, object: &Value) -> Result<DynamicObject, WorldError> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let api = self.dynamic(text("/apiVersion"), kind, text("/metadata/namespace"))?;
        let what = format!("apply {kind} {name}");
        let wish: DynamicObject =
            serde_json::from_value(object.clone()).map_err(|e| WorldError::Manifest(Box::new(e)))?;
        // The other way round would not do: a partial object is refused as a new one before anybody sees that it exists.
        let merged = match name {
            "" => None,
            name => Some(api.patch(name, &PatchParams::default(), &Patch::Merge(object)).await),
        };
        let outcome = match merged {
            Some(Err(kube::Error::Api(status))) if status.code == 404 => {
                api.create(&PostParams::default(), &wish).await
            }
            Some(outcome) => outcome,
            None => api.create(&PostParams::default(), &wish).await,
        };
        outcome.map_err(|source| refused(what, source))
    }

    /// Sets the number of replicas, such as of `deployment/web` or `statefulset/default/db`.
    ///
    /// # Errors
    /// There is none, or it cannot be scaled.
    pub async fn scale(&self, target: &str, replicas: u32) -> Result<(), WorldError> {
        let (api, name) = self.target(target)?;
        let patch = json!({"spec": {"replicas": replicas}});
        let outcome = api
            .patch_scale(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        outcome
            .map(drop)
            .map_err(|source| refused(format!("scale {target}"), source))
    }

    /// Deletes, such as `deployment/web` or `nodepool/general`.
    ///
    /// # Errors
    /// There is none, or it was refused.
    pub async fn delete(&self, target: &str) -> Result<(), WorldError> {
        let (api, name) = self.target(target)?;
        let outcome = api.delete(&name, &DeleteParams::default()).await;
        outcome
            .map(drop)
            .map_err(|source| refused(format!("delete {target}"), source))
    }

    /// Waits until something is so, and says how long it took. On a paused clock this is how time passes.
    ///
    /// # Errors
    /// It is not so within the limit; the error shows how the world looks.
    pub async fn wait_until(
        &self,
        what: &str,
        limit: Duration,
        mut condition: impl FnMut(&Self) -> bool,
    ) -> Result<Duration, WorldError> {
        let start = Instant::now();
        let mut looked_at = None;
        loop {
            // What is asked about changes only when one of the two counters moves.
            let moved = (self.api().revision(), self.spot().with(|platform| platform.revision()));
            if looked_at != Some(moved) && condition(self) {
                return Ok(start.elapsed());
            }
            looked_at = Some(moved);
            if start.elapsed() >= limit {
                let state = self.picture();
                return Err(WorldError::Late {
                    what: what.to_owned(),
                    limit,
                    state,
                });
            }
            tokio::time::sleep(STEP.min(limit.saturating_sub(start.elapsed()))).await;
        }
    }

    /// Lets time pass.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn target(&self, target: &str) -> Result<(Api<DynamicObject>, String), WorldError> {
        let (word, rest) = target.split_once('/').unwrap_or((target, ""));
        let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
        let found = self.served().find(|(r, _)| {
            let plain = r.plural == word || r.kind.eq_ignore_ascii_case(word);
            plain || (!r.group.is_empty() && format!("{}.{}", r.plural, r.group) == word)
        });
        let unknown = || WorldError::UnknownKind {
            kind: word.to_owned(),
            api_version: String::new(),
        };
        let (resource, namespaced) = found.ok_or_else(unknown)?;
        Ok((self.api_of(&resource, namespaced, namespace), name.to_owned()))
    }

    fn dynamic(&self, api_version: &str, kind: &str, namespace: &str) -> Result<Api<DynamicObject>, WorldError> {
        let found = self
            .served()
            .find(|(r, _)| r.kind == kind && r.api_version == api_version);
        let unknown = || WorldError::UnknownKind {
            kind: kind.to_owned(),
            api_version: api_version.to_owned(),
        };
        let (resource, namespaced) = found.ok_or_else(unknown)?;
        Ok(self.api_of(&resource, namespaced, namespace))
    }

    fn api_of(&self, resource: &ApiResource, namespaced: Scope, namespace: &str) -> Api<DynamicObject> {
        match (namespaced, namespace) {
            (Scope::Cluster, _) => Api::all_with(self.client(), resource),
            (Scope::Namespaced, "") => Api::namespaced_with(self.client(), "default", resource),
            (Scope::Namespaced, own) => Api::namespaced_with(self.client(), own, resource),
        }
    }

    fn served(&self) -> impl Iterator<Item = (ApiResource, Scope)> + use<> {
        let core = self.api().inner.core();
        let kinds = core.registry.all().map(|r| {
            let resource = ApiResource {
                group: r.group.clone(),
                version: r.version.clone(),
                api_version: r.api_version(),
                kind: r.kind.clone(),
                plural: r.plural.clone(),
            };
            (resource, r.scope)
        });
        kinds.collect::<Vec<_>>().into_iter()
    }
}

fn refused(what: String, source: kube::Error) -> WorldError {
    WorldError::Refused {
        what,
        source: Box::new(source),
    }
}

/// The documents of a YAML text; JSON is one of them.
fn documents(manifest: &str) -> Result<Vec<Value>, WorldError> {
    let mut found = Vec::new();
    for part in manifest.split("\n---") {
        let part = part.trim_start_matches("---");
        let value: Value = serde_saphyr::from_str(part).map_err(|e| WorldError::Manifest(Box::new(e)))?;
        if !value.is_null() {
            found.push(value);
        }
    }
    Ok(found)
}
