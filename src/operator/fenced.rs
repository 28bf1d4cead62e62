//! The way to the platform, closed to changes while this process does not lead (architecture §3.5).
//!
//! The client of the platform tries again by itself, for minutes if need be; each try passes here, immediately before it is sent. Put around the
//! transport by the wiring.

use crate::cloud::spot::{Transport, TransportError};
use crate::k8s::leadership::Leadership;
use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response};
use std::sync::Arc;

/// A transport under a leadership.
pub(super) struct Fenced {
    inner: Arc<dyn Transport>,
    leadership: Leadership,
}

/// This process may not change anything.
#[derive(Debug, thiserror::Error)]
#[error("this process does not lead")]
struct NotLeading;

impl Fenced {
    pub(super) fn new(inner: Arc<dyn Transport>, leadership: Leadership) -> Self {
        Self { inner, leadership }
    }
}

/// Logging in changes nothing that others could mind.
fn changes_something(request: &Request<Bytes>) -> bool {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    !reads && !request.uri().path().ends_with("/oauth/token")
}

#[async_trait]
impl Transport for Fenced {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        if !changes_something(&request) {
            return self.inner.send(request).await;
        }
        let Some(writing) = self.leadership.begin_write() else {
            return Err(TransportError::NotSent(NotLeading.into()));
        };
        let outcome = self.inner.send(request).await;
        let clear = match &outcome {
            // a server in trouble may have done it all the same
            Ok(answer) => !answer.status().is_server_error(),
            Err(error) => !error.may_have_taken_effect(),
        };
        if clear {
            writing.answered();
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::spot::ServiceTransport;
    use axum::body::Body;
    use std::time::Duration;
    use tokio::time::Instant;

    fn platform(status: u16) -> Arc<dyn Transport> {
        let service =
            tower::service_fn(
                move |_: Request<Body>| async move { Response::builder().status(status).body(Body::empty()) },
            );
        Arc::new(ServiceTransport::<_, Body>::new(service))
    }

    fn request(method: &str, path: &str) -> Request<Bytes> {
        Request::builder().method(method).uri(path).body(Bytes::new()).unwrap()
    }

    // architecture §3.5
    #[tokio::test(start_paused = true)]
    async fn who_does_not_lead_may_read_and_log_in_and_nothing_else() {
        let (keeper, leadership) = Leadership::kept();
        let way = Fenced::new(platform(200), leadership);
        for (method, path) in [("GET", "/apis/pools"), ("POST", "/oauth/token")] {
            assert!(way.send(request(method, path)).await.is_ok(), "{method}");
        }
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let error = way.send(request(method, "/apis/pools/a")).await.unwrap_err();
            assert!(!error.may_have_taken_effect(), "{method}: {error}");
        }
        keeper.hold_until(Instant::now() + Duration::from_secs(10));
        assert!(way.send(request("POST", "/apis/pools")).await.is_ok());
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(way.send(request("POST", "/apis/pools")).await.is_err());
    }

    // architecture §7.18
    #[tokio::test(start_paused = true)]
    async fn an_order_whose_outcome_is_unclear_keeps_the_lease_from_being_given_back() {
        let within = Duration::from_secs(15);
        for (status, open) in [(201, false), (422, false), (500, true)] {
            let (keeper, leadership) = Leadership::kept();
            keeper.hold_until(Instant::now() + Duration::from_secs(10));
            let way = Fenced::new(platform(status), leadership);
            way.send(request("POST", "/apis/pools")).await.unwrap();
            assert_eq!(keeper.has_open_writes(within), open, "{status}");
        }
    }
}
