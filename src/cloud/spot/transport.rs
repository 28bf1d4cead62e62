//! How a request gets to the platform: one request in, one whole answer out.
//!
//! Decides nothing about meaning or retries; it tells "never left" from "no answer", which decides whether a create may have taken effect. Two
//! implementations: reqwest for the real thing, a tower service for a simulator in the same process (with the clock paused no socket may be open).
//! Both tell whoever put a [`Departure`] into a request when it has left.

use async_trait::async_trait;
use axum::body::HttpBody;
use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Full, Limited};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
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

/// Whether a request has left: it waits for its answer and for nothing before that, such as a connection. Put into the request's extensions by
/// whoever asks; one that no transport knows of never leaves.
#[derive(Debug, Clone, Default)]
pub struct Departure(Arc<AtomicBool>);

impl Departure {
    /// Whether it has left.
    pub fn has_left(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn left(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The body of a request whose departure is told. A connection drops it when it has taken the whole request, and not before it is there.
struct Parcel {
    body: Full<Bytes>,
    departure: Departure,
}

impl http_body::Body for Parcel {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        self.departure.left();
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
        let departure = request.extensions().get::<Departure>().cloned();
        let request = request.map(|bytes| match departure {
            Some(departure) => reqwest::Body::wrap(Parcel {
                body: Full::new(bytes),
                departure,
            }),
            None => reqwest::Body::from(bytes),
        });
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
        if let Some(departure) = request.extensions().get::<Departure>() {
            departure.left();
        }
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
