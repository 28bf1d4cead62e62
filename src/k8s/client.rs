//! The connection to the API server: our own retry and our own rate limit around kube's client.
//!
//! kube's built-in retry is off: it replays creates and swallows the 429 of a blocked eviction. Here only reads are repeated, on 429 and 5xx, a
//! bounded number of times, honouring `Retry-After`, and no read stands still for ever ([`reading`](super::reading)). Writes go out once; whoever writes decides what a failure means ([`crate::k8s::write`]).
//! Every request takes a token (`kube-client-qps`, `kube-client-burst`, surface §6.1). The wiring makes one [`ApiClient`]; simulations put theirs
//! over an in-process [`kube::Client`].

use super::bucket::{Rate, TokenBucket};
use super::metrics::{BorderMetrics, Route};
use super::reading::{Attended, Heard, STILL, Standstill};
use http::{Request, Response, StatusCode};
use kube::client::Body;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::time::Instant;

/// Reads are tried this often in all.
const READ_ATTEMPTS: u32 = 5;
/// The pause after the first failed read; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// No pause is longer, whatever the server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What the client may ask of the API server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// `kube-client-qps`.
    pub qps: f64,
    /// `kube-client-burst`.
    pub burst: u32,
}

impl Default for Limits {
    fn default() -> Self {
        // surface §6.1
        Self { qps: 200.0, burst: 300 }
    }
}

/// The API server could not be addressed at all: a start-up failure.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// Neither a service account nor a kubeconfig was found, or it is unreadable.
    #[error("reading the Kubernetes configuration")]
    Configuration(#[source] Box<kube::config::InferConfigError>),
    /// The configuration does not make a client (certificates, proxy, TLS).
    #[error("setting up the Kubernetes client")]
    Client(#[source] Box<kube::Error>),
}

/// A client whose reads are retried and whose requests are paced; cheap to clone.
#[derive(Clone)]
pub struct ApiClient {
    kube: kube::Client,
    bucket: Arc<TokenBucket>,
}

impl std::fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiClient").finish_non_exhaustive()
    }
}

impl ApiClient {
    /// Connects by `KUBECONFIG`, `~/.kube/config` or the pod's service account, in this order.
    pub async fn infer(limits: Limits, metrics: BorderMetrics) -> Result<Self, ConnectError> {
        let config = kube::Config::infer()
            .await
            .map_err(|e| ConnectError::Configuration(Box::new(e)))?;
        Self::from_config(config, limits, metrics)
    }

    /// Connects as the configuration says, but for its retries.
    pub fn from_config(mut config: kube::Config, limits: Limits, metrics: BorderMetrics) -> Result<Self, ConnectError> {
        config.default_retry = false;
        let client = kube::Client::try_from(config).map_err(|e| ConnectError::Client(Box::new(e)))?;
        Ok(Self::over(client, limits, metrics))
    }

    /// Puts retry, pace and metrics around a given client (which must not retry by itself).
    pub fn over(inner: kube::Client, limits: Limits, metrics: BorderMetrics) -> Self {
        let bucket = Arc::new(TokenBucket::new(Rate {
            per_second: limits.qps,
            burst: limits.burst,
        }));
        let namespace = inner.default_namespace().to_owned();
        let polite = Polite {
            inner,
            bucket: Arc::clone(&bucket),
            metrics,
        };
        let service = tower::service_fn(move |request| {
            let polite = polite.clone();
            async move { polite.send(request).await }
        });
        Self {
            kube: kube::Client::new(service, namespace),
            bucket,
        }
    }

    /// The client to read with. Writes belong to the [`Writer`](crate::k8s::write::Writer).
    pub fn kube(&self) -> kube::Client {
        self.kube.clone()
    }

    /// Waits for this client's turn; a request marked [`Admitted`] then goes out without waiting again.
    pub(crate) async fn admit(&self) {
        self.bucket.take().await;
    }
}

/// Marks a request that has waited for its token already, so that nothing lies between the check of the lease and the sending.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Admitted;

#[derive(Clone)]
struct Polite {
    inner: kube::Client,
    bucket: Arc<TokenBucket>,
    metrics: BorderMetrics,
}

impl Polite {
    async fn send(self, request: Request<Body>) -> Result<Response<Attended<Body>>, kube::Error> {
        if request.extensions().get::<Admitted>().is_none() {
            self.bucket.take().await;
        }
        if request.method() != http::Method::GET || is_watch(&request) {
            return Ok(self.once(request).await?.map(Attended::silent));
        }
        self.read(request).await
    }

    async fn read(self, request: Request<Body>) -> Result<Response<Attended<Body>>, kube::Error> {
        let (parts, _body) = request.into_parts();
        let mut pause = FIRST_PAUSE;
        for _ in 1..READ_ATTEMPTS {
            let attempt = Request::from_parts(parts.clone(), Body::empty());
            let wait = match self.begun(attempt).await {
                Ok(response) if !may_pass(response.status()) => return Ok(attended(response, &parts)),
                Ok(response) => retry_after(&response).unwrap_or(pause),
                Err(_) => pause,
            };
            tokio::time::sleep(wait.min(LONGEST_PAUSE)).await;
            pause = pause.saturating_mul(2);
            self.bucket.take().await;
        }
        let last = Request::from_parts(parts.clone(), Body::empty());
        Ok(attended(self.begun(last).await?, &parts))
    }

    /// An answer that begins in time.
    async fn begun(&self, attempt: Request<Body>) -> Result<Response<Body>, kube::Error> {
        tokio::time::timeout(STILL, self.once(attempt))
            .await
            .unwrap_or_else(|_| Err(kube::Error::Service(Standstill::Still.into())))
    }

    async fn once(&self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let started = Instant::now();
        let answer = self.inner.send(request).await;
        let code = match &answer {
            Ok(response) => response.status().as_str().to_owned(),
            // client-go's word for "no answer"
            Err(_) => "<error>".to_owned(),
        };
        self.metrics
            .observe_request(&code, method.as_str(), &Route::of(&method, &path), started.elapsed());
        answer
    }
}

/// The answer with its limits; of a good one, whoever asked hears each piece.
fn attended(response: Response<Body>, asked: &http::request::Parts) -> Response<Attended<Body>> {
    let heard = asked.extensions.get::<Heard>().cloned();
    let heard = heard.filter(|_| response.status().is_success());
    response.map(|body| Attended::new(body, heard))
}

/// Whether a failure of this kind may pass by itself.
fn may_pass(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let seconds = response
        .headers()
        .get(http::header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds))
}

fn is_watch(request: &Request<Body>) -> bool {
    request
        .uri()
        .query()
        .is_some_and(|query| query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A server that gives the listed answers, one each request, and says how often it was asked.
    fn scripted(answers: Vec<(u16, Option<&'static str>)>) -> (kube::Client, Arc<Mutex<usize>>) {
        let asked = Arc::new(Mutex::new(0));
        let count = Arc::clone(&asked);
        let service = tower::service_fn(move |_request: Request<Body>| {
            let mut count = count.lock().unwrap();
            let (status, wait) = answers.get(*count).copied().unwrap_or((200, None));
            *count += 1;
            let mut response = Response::builder().status(status);
            if let Some(wait) = wait {
                response = response.header("retry-after", wait);
            }
            let body = if status == 200 {
                r#"{"major":"1","minor":"33"}"#
            } else {
                "{}"
            };
            async move { response.body(Body::from(body.as_bytes().to_vec())) }
        });
        (kube::Client::new(service, "default"), asked)
    }

    fn polite(client: kube::Client) -> kube::Client {
        ApiClient::over(client, Limits::default(), BorderMetrics::detached().unwrap()).kube()
    }

    fn request(method: &str, path: &str) -> Request<Vec<u8>> {
        Request::builder().method(method).uri(path).body(Vec::new()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_is_repeated_when_the_server_asks_for_it() {
        let (client, asked) = scripted(vec![(503, None), (429, Some("7"))]);
        let started = Instant::now();
        let text = polite(client).request_text(request("GET", "/version")).await.unwrap();
        assert!(text.contains("33"));
        assert_eq!(*asked.lock().unwrap(), 3);
        assert_eq!(started.elapsed(), FIRST_PAUSE + Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_is_given_up_after_five_attempts() {
        let (client, asked) = scripted(vec![(500, None); 20]);
        assert!(polite(client).request_text(request("GET", "/version")).await.is_err());
        assert_eq!(*asked.lock().unwrap(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn writes_and_watches_are_never_repeated() {
        for (method, path) in [
            ("POST", "/api/v1/nodes"),
            ("DELETE", "/api/v1/nodes/a"),
            ("GET", "/api/v1/nodes?watch=true"),
        ] {
            let (client, asked) = scripted(vec![(503, Some("1")); 5]);
            assert!(polite(client).request_text(request(method, path)).await.is_err());
            assert_eq!(*asked.lock().unwrap(), 1, "{method} {path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_not_repeated() {
        let (client, asked) = scripted(vec![(403, None)]);
        assert!(polite(client).request_text(request("GET", "/version")).await.is_err());
        assert_eq!(*asked.lock().unwrap(), 1);
    }

    /// A server whose answers begin as `head` says and then stand still.
    fn silent(head: Option<u16>) -> (kube::Client, Arc<Mutex<usize>>) {
        let asked = Arc::new(Mutex::new(0));
        let count = Arc::clone(&asked);
        let service = tower::service_fn(move |_request: Request<Body>| {
            *count.lock().unwrap() += 1;
            async move {
                let Some(status) = head else {
                    return std::future::pending().await;
                };
                let never = futures::stream::pending::<Result<bytes::Bytes, std::convert::Infallible>>();
                Response::builder()
                    .status(status)
                    .body(axum::body::Body::from_stream(never))
            }
        });
        (kube::Client::new(service, "default"), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_whose_answer_never_begins_is_over_after_five_attempts_the_last_included() {
        let (client, asked) = silent(None);
        let started = Instant::now();
        let reading = polite(client);
        let read = reading.request_text(request("GET", "/api/v1/pods?limit=500"));
        let error = tokio::time::timeout(Duration::from_mins(10), read)
            .await
            .unwrap()
            .unwrap_err();
        assert!(
            error.to_string().contains("nothing came from the API server"),
            "{error}"
        );
        assert_eq!(*asked.lock().unwrap(), 5);
        assert!(started.elapsed() < Duration::from_secs(160), "{:?}", started.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_whose_answer_stands_still_in_the_middle_is_over() {
        // refusals have a body to wait for too
        for status in [200, 403] {
            let (client, _asked) = silent(Some(status));
            let started = Instant::now();
            let reading = polite(client);
            let read = reading.request_text(request("GET", "/api/v1/pods?limit=500"));
            assert!(
                tokio::time::timeout(Duration::from_mins(10), read)
                    .await
                    .unwrap()
                    .is_err()
            );
            assert_eq!(started.elapsed(), STILL, "{status}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_may_be_silent_for_longer_than_a_read() {
        let (client, _asked) = silent(Some(200));
        let reading = polite(client);
        let watch = reading.request_text(request("GET", "/api/v1/pods?watch=true"));
        assert!(tokio::time::timeout(Duration::from_mins(10), watch).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_keep_to_the_rate() {
        let (client, _asked) = scripted(Vec::new());
        let client = ApiClient::over(
            client,
            Limits { qps: 10.0, burst: 1 },
            BorderMetrics::detached().unwrap(),
        )
        .kube();
        let started = Instant::now();
        for _ in 0..11 {
            client.request_text(request("GET", "/version")).await.unwrap();
        }
        assert!(
            started.elapsed() >= Duration::from_millis(990),
            "{:?}",
            started.elapsed()
        );
    }
}
