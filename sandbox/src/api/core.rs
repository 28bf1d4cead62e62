//! The state behind the server's lock, and the one entry for every call on objects.
//!
//! Synchronous: a call sees and leaves a consistent store, nothing waits here. [`super::server`] holds the lock; the work that a real control
//! plane does a moment later (garbage, budgets) is in [`super::background`].

use super::builtin;
use super::crd;
use super::error::ApiError;
use super::ids::Ids;
use super::kinds::{Registry, Resource};
use super::options::ApiOptions;
use super::patch::Applied;
use super::read::Listing;
use super::route::{Call, Verb};
use super::store::{ObjectKey, Store, Stored};
use super::validation::CelEngine;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use std::sync::Arc;

/// What a call gets.
#[derive(Debug)]
pub(crate) enum Answer {
    /// One object as stored.
    Object { code: u16, object: Arc<Stored> },
    /// Something that is not a stored object: a `Status`, a `Scale`, a dry run's result.
    Value { code: u16, value: Value },
    /// Many objects.
    List(Listing),
}

impl Answer {
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Object { code, .. } | Self::Value { code, .. } => *code,
            Self::List(_) => 200,
        }
    }

    /// The object or value in it; `Null` for a list.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Object { object, .. } => object.value().clone(),
            Self::Value { value, .. } => value,
            Self::List(_) => Value::Null,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) registry: Registry,
    pub(crate) store: Store,
    pub(crate) ids: Ids,
    pub(crate) applied: Applied,
    pub(crate) cel: CelEngine,
    pub(crate) options: ApiOptions,
    /// When old Events were last looked for.
    pub(crate) events_swept: Option<DateTime<Utc>>,
}

impl Core {
    pub(crate) fn new(seed: u64, options: ApiOptions, now: DateTime<Utc>) -> Self {
        let mut core = Self {
            registry: Registry::default(),
            store: Store::new(options.log),
            ids: Ids::seeded(seed),
            applied: Applied::default(),
            cel: CelEngine::default(),
            options,
            events_swept: None,
        };
        for resource in builtin::resources() {
            core.serve(resource);
        }
        core.furnish(now);
        core
    }

    pub(crate) fn serve(&mut self, resource: Arc<Resource>) {
        self.store.serve(Arc::clone(&resource));
        self.registry.insert(resource);
    }

    /// What every cluster has from the start.
    fn furnish(&mut self, now: DateTime<Utc>) {
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": { "name": name, "uid": self.ids.uid(), "creationTimestamp": super::object::time_text(now),
                    "labels": { "kubernetes.io/metadata.name": name } },
                "spec": { "finalizers": ["kubernetes"] }, "status": { "phase": "Active" },
            });
            self.store.put("namespaces", &ObjectKey::new("", name), namespace, now);
        }
        for (name, value) in [
            ("system-cluster-critical", 2_000_000_000),
            ("system-node-critical", 2_000_001_000),
        ] {
            let class = json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": { "name": name, "uid": self.ids.uid(), "generation": 1,
                    "creationTimestamp": super::object::time_text(now) },
                "value": value, "preemptionPolicy": "PreemptLowerPriority",
                "description": "Used for system critical pods.",
            });
            self.store.put(
                "priorityclasses.scheduling.k8s.io",
                &ObjectKey::new("", name),
                class,
                now,
            );
        }
    }

    /// Carries out one call.
    pub(crate) fn execute(&mut self, call: &Call, now: DateTime<Utc>) -> Result<Answer, ApiError> {
        let answer = match (call.verb, call.subresource.as_str()) {
            (Verb::Get, "") => self.get(call),
            (Verb::Get, "status") if call.resource.has_status() => self.get(call),
            (Verb::Get, "scale") => self.get_scale(call),
            (Verb::List, "") => self.list(call),
            (Verb::Create, "") => self.create(call, now),
            (Verb::Create, "binding") if call.resource.is("", "Pod") => self.bind(call, now),
            (Verb::Create, "eviction") if call.resource.is("", "Pod") => self.evict(call, now),
            (Verb::Update, "") => self.update(call, now),
            (Verb::Patch, "") => self.patch(call, now),
            (Verb::Update | Verb::Patch, "scale") => self.write_scale(call, now),
            (Verb::Update, "status") if call.resource.has_status() => self.update(call, now),
            (Verb::Patch, "status") if call.resource.has_status() => self.patch(call, now),
            (Verb::Update, "finalize") if call.resource.is("", "Namespace") => self.update(call, now),
            (Verb::Delete, "") => self.delete(call, now),
            (Verb::DeleteCollection, "") => self.delete_collection(call, now),
            _ => Err(ApiError::no_such_path()),
        }?;
        if call.verb.is_write() && call.resource.is("apiextensions.k8s.io", "CustomResourceDefinition") {
            crd::follow(self, now);
        }
        Ok(answer)
    }

    /// Carries out a read as of an older revision, as a lagging replica would; falls back to the oldest that is kept.
    pub(crate) fn stale(&mut self, call: &Call, back: u64) -> Result<Answer, ApiError> {
        let revision = self.store.revision().saturating_sub(back);
        let Some(objects) = self.store.table(&call.table()).and_then(|t| t.at(revision).ok()) else {
            return if call.verb == Verb::Get {
                self.get(call)
            } else {
                self.list(call)
            };
        };
        if call.verb == Verb::Get {
            let found = objects.get(&Self::key(call)).cloned();
            let object = found.ok_or_else(|| ApiError::not_found(&call.resource, &call.name))?;
            return Ok(Answer::Object { code: 200, object });
        }
        self.list_at(call, revision)
    }

    pub(crate) fn key(call: &Call) -> ObjectKey {
        ObjectKey::new(&call.namespace, &call.name)
    }

    /// The object a call names, or 404.
    pub(crate) fn named(&self, call: &Call) -> Result<Arc<Stored>, ApiError> {
        let found = self.store.get(&call.table(), &Self::key(call));
        found
            .cloned()
            .ok_or_else(|| ApiError::not_found(&call.resource, &call.name))
    }
}
