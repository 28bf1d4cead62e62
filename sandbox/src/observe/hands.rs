//! The writes of the simulated controllers: one call each, bounded in time, with the answer that a mirror can assume.

use super::feed::Kind;
use super::name::Name;
use http::Request as HttpRequest;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Client, Error};
use serde_json::Value;
use std::future::Future;
use std::time::Duration;

/// No call may hold up a controller longer than this.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a write did not happen, as far as we know.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// The API did not answer in time.
    #[error("the Kubernetes API did not answer in {} s", PATIENCE.as_secs())]
    TimedOut,
    /// The API refused, or could not be reached.
    #[error("the Kubernetes API refused")]
    Refused(#[source] Box<Error>),
    /// What we wanted to write cannot be written down.
    #[error("building the request")]
    Malformed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl WriteError {
    fn malformed(problem: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Malformed(Box::new(problem))
    }

    /// The code of the API's refusal.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(error) => match &**error {
                Error::Api(status) => Some(status.code),
                _ => None,
            },
            _ => None,
        }
    }
}

/// What a deletion led to.
#[derive(Debug)]
pub(crate) enum Removed<K> {
    /// It is gone.
    Gone,
    /// It goes; this is how it is now.
    Going(Box<K>),
}

/// A client and how to use it.
#[derive(Clone)]
pub(crate) struct Hands {
    client: Client,
}

fn request<K: Kind>(namespace: &str) -> Request {
    Request::new(K::url_path(&(), Some(namespace).filter(|n| !n.is_empty())))
}

impl Hands {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Creates an object.
    pub(crate) async fn create<K: Kind>(&self, namespace: &str, body: &Value) -> Result<K, WriteError> {
        let bytes = serde_json::to_vec(body).map_err(WriteError::malformed)?;
        let call = request::<K>(namespace)
            .create(&PostParams::default(), bytes)
            .map_err(WriteError::malformed)?;
        self.send(call).await
    }

    /// Merge-patches an object.
    pub(crate) async fn patch<K: Kind>(&self, name: &Name, body: &Value) -> Result<K, WriteError> {
        let call = request::<K>(&name.namespace)
            .patch(&name.name, &PatchParams::default(), &Patch::Merge(body))
            .map_err(WriteError::malformed)?;
        self.send(call).await
    }

    /// Merge-patches a status.
    pub(crate) async fn patch_status<K: Kind>(&self, name: &Name, body: &Value) -> Result<K, WriteError> {
        let call = request::<K>(&name.namespace)
            .patch_subresource("status", &name.name, &PatchParams::default(), &Patch::Merge(body))
            .map_err(WriteError::malformed)?;
        self.send(call).await
    }

    /// Posts to a subresource that answers with a `Status`.
    pub(crate) async fn post<K: Kind>(&self, name: &Name, subresource: &str, body: &Value) -> Result<(), WriteError> {
        let bytes = serde_json::to_vec(body).map_err(WriteError::malformed)?;
        let call = request::<K>(&name.namespace)
            .create_subresource(subresource, &name.name, &PostParams::default(), bytes)
            .map_err(WriteError::malformed)?;
        bounded(self.client.request_text(call)).await.map(drop)
    }

    /// Deletes this very object; that it is gone, or another of its name is there, is as good.
    pub(crate) async fn delete<K: Kind>(
        &self,
        name: &Name,
        uid: &str,
        grace: Option<u32>,
    ) -> Result<Removed<K>, WriteError> {
        let preconditions = Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        let params = DeleteParams {
            grace_period_seconds: grace,
            preconditions,
            ..DeleteParams::default()
        };
        let call = request::<K>(&name.namespace)
            .delete(&name.name, &params)
            .map_err(WriteError::malformed)?;
        match bounded(self.client.request_text(call)).await {
            Ok(text) => removed(&text),
            Err(problem) if matches!(problem.code(), Some(404 | 409)) => Ok(Removed::Gone),
            Err(problem) => Err(problem),
        }
    }

    async fn send<K: Kind>(&self, call: HttpRequest<Vec<u8>>) -> Result<K, WriteError> {
        bounded(self.client.request::<K>(call)).await
    }
}

/// Reads the answer to a deletion: a `Status`, or the object in its last or present state.
fn removed<K: Kind>(text: &str) -> Result<Removed<K>, WriteError> {
    let answer: Value = serde_json::from_str(text).map_err(WriteError::malformed)?;
    if answer.get("kind").and_then(Value::as_str) == Some("Status") {
        return Ok(Removed::Gone);
    }
    let object = K::deserialize(answer).map_err(WriteError::malformed)?;
    let meta = object.meta();
    let stays = meta.finalizers.as_ref().is_some_and(|f| !f.is_empty())
        || meta.deletion_grace_period_seconds.is_some_and(|s| s > 0);
    Ok(if stays {
        Removed::Going(Box::new(object))
    } else {
        Removed::Gone
    })
}

async fn bounded<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, WriteError> {
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(outcome) => outcome.map_err(|problem| WriteError::Refused(Box::new(problem))),
        Err(_) => Err(WriteError::TimedOut),
    }
}
