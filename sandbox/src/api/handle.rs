//! Direct access for the simulated controllers: objects and changes without HTTP in between.
//!
//! The same rules as through a client hold (validation, versions, finalizers); faults, hooks and the audit do not see these calls.

use super::core::Answer;
use super::error::ApiError;
use super::kinds::{Resource, Scope};
use super::object;
use super::route::{Call, Params, Shape, Verb};
use super::server::{ApiServer, Inner};
use super::store::{Event, ObjectKey, Stored};
use crate::ticks::Moved;
use bytes::Bytes;
use serde_json::Value;
use std::sync::Arc;

/// Direct access to a server's objects.
#[derive(Clone)]
pub struct Handle {
    server: ApiServer,
}

impl ApiServer {
    /// Direct access, past HTTP, faults and audit.
    pub fn handle(&self) -> Handle {
        Handle { server: self.clone() }
    }
}

impl Handle {
    /// One object. `resource` is the qualified plural, such as `pods` or `nodepools.karpenter.sh`.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.server
            .inner
            .core()
            .store
            .get(resource, &ObjectKey::new(namespace, name))
            .cloned()
    }

    /// All objects of a kind, by namespace and name.
    pub fn list(&self, resource: &str) -> Vec<Arc<Stored>> {
        self.server
            .inner
            .core()
            .store
            .objects(resource)
            .map(|(_, o)| Arc::clone(o))
            .collect()
    }

    /// Creates an object; its kind and namespace are read from itself.
    pub fn create(&self, object: &Value) -> Result<Value, ApiError> {
        let name = object::name(object).to_owned();
        self.write(Verb::Create, "", object, &name)
    }

    /// Replaces an object.
    pub fn update(&self, object: &Value) -> Result<Value, ApiError> {
        let name = object::name(object).to_owned();
        self.write(Verb::Update, "", object, &name)
    }

    /// Replaces an object's status.
    pub fn update_status(&self, object: &Value) -> Result<Value, ApiError> {
        let name = object::name(object).to_owned();
        self.write(Verb::Update, "status", object, &name)
    }

    /// Deletes an object; `options` is a `DeleteOptions`, or null.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str, options: &Value) -> Result<Value, ApiError> {
        let found = self
            .server
            .inner
            .core()
            .registry
            .get(resource)
            .cloned()
            .ok_or_else(ApiError::no_such_path)?;
        let body = if options.is_null() {
            Bytes::new()
        } else {
            Bytes::from(options.to_string())
        };
        self.execute(&call(Verb::Delete, found, "", namespace, name, body))
    }

    /// Follows a kind from its present state on. `None` when the kind is not served.
    pub fn follow(&self, resource: &str) -> Option<Changes> {
        let core = self.server.inner.core();
        let changed = core.store.table(resource)?.subscribe();
        let cursor = core.store.revision();
        Some(Changes {
            inner: Arc::clone(&self.server.inner),
            table: resource.to_owned(),
            cursor,
            changed,
        })
    }

    fn write(&self, verb: Verb, subresource: &str, object: &Value, name: &str) -> Result<Value, ApiError> {
        let (kind, version) = (object::text(object, "/kind"), object::text(object, "/apiVersion"));
        let found = {
            let core = self.server.inner.core();
            core.registry
                .all()
                .find(|r| r.kind == kind && r.api_version() == version)
                .cloned()
        };
        let resource = found.ok_or_else(ApiError::no_such_path)?;
        let namespace = match (resource.scope, object::namespace(object)) {
            (Scope::Cluster, _) => "",
            (Scope::Namespaced, "") => "default",
            (Scope::Namespaced, own) => own,
        };
        self.execute(&call(
            verb,
            resource,
            subresource,
            namespace,
            name,
            Bytes::from(object.to_string()),
        ))
    }

    fn execute(&self, call: &Call) -> Result<Value, ApiError> {
        let now = self.server.inner.now();
        let mut core = self.server.inner.core();
        let answer = core.execute(call, now).map(Answer::into_value);
        self.server.inner.stir(&core);
        answer
    }
}

fn call(verb: Verb, resource: Arc<Resource>, subresource: &str, namespace: &str, name: &str, body: Bytes) -> Call {
    Call {
        verb,
        resource,
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        params: Params::default(),
        shape: Shape::Objects,
        patch: None,
        body,
    }
}

/// The changes of one kind, in order.
pub struct Changes {
    inner: Arc<Inner>,
    table: String,
    cursor: u64,
    changed: Moved,
}

impl Changes {
    /// Waits for changes and returns all there are. `Err(410)` when some were forgotten: list and follow anew.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, ApiError> {
        loop {
            self.changed.note();
            let news = self.news()?;
            if !news.is_empty() {
                return Ok(news);
            }
            self.changed.changed().await.map_err(|_| ApiError::no_such_path())?;
        }
    }

    fn news(&mut self) -> Result<Vec<Arc<Event>>, ApiError> {
        let core = self.inner.core();
        let table = core.store.table(&self.table).ok_or_else(ApiError::no_such_path)?;
        let events = table
            .since(self.cursor)
            .map_err(|gone| ApiError::expired(format!("too old resource version: {} ({})", gone.asked, gone.oldest)))?;
        let events: Vec<Arc<Event>> = events.cloned().collect();
        self.cursor = core.store.revision();
        Ok(events)
    }
}
