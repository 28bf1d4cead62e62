//! How a request gets to the platform: one request in, one whole answer out.
//!
//! Decides nothing about meaning or retries; it tells "never left" from "no answer", which decides whether a create may have taken effect. Two
//! implementations: reqwest for the real thing, a tower service for a simulator in the same process (with the clock paused no socket may be open).

use async_trait::async_trait;
use axum::body::HttpBody;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Limited};
use std::marker::PhantomData;
use std::time::Duration;
use thiserror::Error;
use tower::ServiceExt;

/// The most bytes of one answer, after decompression. A list of a thousand pools has about one MiB.
pub const MOST_ANSWER_BYTES: usize = 16 * 1024 * 1024;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum TransportError {
    /// The request never reached anybody: nothing took effect.
    #[error("could not connect")]
    NotSent(#[source] Cause),
    /// The request may have arrived; no whole answer came.
    #[error("no answer")]
    NoAnswer(#[source] Cause),
    /// No answer within the time for one request.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The answer is larger than anything the platform has to say.
    #[error("the answer is larger than {MOST_ANSWER_BYTES} bytes")]
    TooLarge,
}

impl TransportError {
    /// Whether the request may have taken effect.
    pub fn may_have_taken_effect(&self) -> bool {
        !matches!(self, Self::NotSent(_))
    }
}

/// Sends requests.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Sends one request and reads the whole answer, whatever its status.
    async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, TransportError>;
}

/// What the connections obey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// For one request, and for connecting (`SPOT_REQUEST_TIMEOUT`).
    pub request_timeout: Duration,
    /// An unused connection is closed after this (`SPOT_IDLE_CONN_TIMEOUT`).
    pub idle_timeout: Duration,
    /// Unused connections kept (`SPOT_MAX_IDLE_CONNS`).
    pub most_idle: usize,
}

/// Requests over the network.
#[derive(Debug, Clone)]
pub struct HttpTransport {
    client: reqwest::Client,
}

impl HttpTransport {
    /// A client with our limits: gzip, time-outs, no redirects (a bearer must not follow one).
    pub fn new(settings: ConnectionSettings) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .user_agent(concat!("karpenter-provider-rackspace-spot/", env!("CARGO_PKG_VERSION")))
            .gzip(true)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(settings.request_timeout)
            .timeout(settings.request_timeout)
            .pool_idle_timeout(settings.idle_timeout)
            .pool_max_idle_per_host(settings.most_idle)
            .build()?;
        Ok(Self { client })
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, TransportError> {
        let request = reqwest::Request::try_from(request).map_err(|e| TransportError::NotSent(e.into()))?;
        let mut answer = self.client.execute(request).await.map_err(|e| {
            // The URL may hold a secret path of a webhook or feed; it is not needed to understand the cause.
            let e = e.without_url();
            if e.is_connect() || e.is_builder() {
                TransportError::NotSent(e.into())
            } else {
                TransportError::NoAnswer(e.into())
            }
        })?;
        let mut whole = BytesMut::new();
        while let Some(chunk) = answer
            .chunk()
            .await
            .map_err(|e| TransportError::NoAnswer(e.without_url().into()))?
        {
            if whole.len() + chunk.len() > MOST_ANSWER_BYTES {
                return Err(TransportError::TooLarge);
            }
            whole.extend_from_slice(&chunk);
        }
        let mut response = http::Response::new(whole.freeze());
        *response.status_mut() = answer.status();
        *response.headers_mut() = std::mem::take(answer.headers_mut());
        Ok(response)
    }
}

/// Requests to a service in the same process, for simulators. `B` is the body type that the service takes.
pub struct ServiceTransport<S, B> {
    service: S,
    body: PhantomData<fn(B)>,
}

impl<S, B> ServiceTransport<S, B> {
    /// Sends to `service`.
    pub fn new(service: S) -> Self {
        Self {
            service,
            body: PhantomData,
        }
    }
}

#[async_trait]
impl<S, B, R> Transport for ServiceTransport<S, B>
where
    S: tower::Service<http::Request<B>, Response = http::Response<R>> + Clone + Send + Sync + 'static,
    S::Error: Into<Cause>,
    S::Future: Send,
    B: From<Bytes> + Send + 'static,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<Cause>,
{
    async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, TransportError> {
        let request = request.map(B::from);
        let answer = self
            .service
            .clone()
            .oneshot(request)
            .await
            .map_err(|e| TransportError::NoAnswer(e.into()))?;
        let (head, body) = answer.into_parts();
        let whole = Limited::new(body, MOST_ANSWER_BYTES).collect().await.map_err(|e| {
            if e.is::<http_body_util::LengthLimitError>() {
                TransportError::TooLarge
            } else {
                TransportError::NoAnswer(e)
            }
        })?;
        Ok(http::Response::from_parts(head, whole.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    #[tokio::test]
    async fn a_service_in_the_same_process_answers_without_a_socket() {
        let service = tower::service_fn(|request: http::Request<Body>| async move {
            Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(request.uri().path().to_owned())))
        });
        let transport = ServiceTransport::<_, Body>::new(service);
        let request = http::Request::get("http://spot.test/apis").body(Bytes::new()).unwrap();
        assert_eq!(transport.send(request).await.unwrap().body(), "/apis");
    }

    #[tokio::test]
    async fn an_answer_without_end_is_cut_off() {
        let service = tower::service_fn(|_: http::Request<Body>| async {
            let chunk = Bytes::from(vec![b' '; 1024 * 1024]);
            let endless = futures::stream::repeat_with(move || Ok::<_, std::convert::Infallible>(chunk.clone()));
            Ok::<_, std::convert::Infallible>(http::Response::new(Body::from_stream(endless)))
        });
        let transport = ServiceTransport::<_, Body>::new(service);
        let request = http::Request::get("http://spot.test/").body(Bytes::new()).unwrap();
        assert!(matches!(transport.send(request).await, Err(TransportError::TooLarge)));
    }
}
