//! One call to the platform, whatever it is about: bearer, limits, retries, and what a status means.
//!
//! ```text
//! call ─▶ gate ─▶ bearer ─▶ send ─▶ 2xx ─▶ JSON
//!           ▲                  ├─▶ 401 ─▶ one fresh bearer ─┐ once
//!           │                  ├─▶ 429, 5xx, no answer ─▶ wait ─┤ while tries and time last
//!           └──────────────────┴────────────────────────────────┘
//! ```
//!
//! A create that got no clear answer is not sent again here: the caller looks its object up by name first (issue: never assumed). The typed
//! operations are in `operations`; retries obey `limits`, waiting on tokio's clock.

use crate::clock::{SharedClock, patiently, within};
use crate::cloud::spot::auth::{AuthError, Bearer, Tokens};
use crate::cloud::spot::error::SpotError;
use crate::cloud::spot::limits::{Gate, Jitter, RetrySettings};
use crate::cloud::spot::reader::FieldError;
use crate::cloud::spot::transport::{Transport, TransportError};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::{HeaderMap, Method, StatusCode, header};
use secrecy::ExposeSecret;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// What a client obeys.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientSettings {
    /// API base (`SPOT_BASE_URL`).
    pub base_url: String,
    /// For one request (`SPOT_REQUEST_TIMEOUT`).
    pub request_timeout: Duration,
    /// When a request is sent again.
    pub retry: RetrySettings,
    /// Requests in flight at once.
    pub at_once: usize,
    /// Requests per second in the long run.
    pub per_second: u32,
    /// Requests without waiting after a pause.
    pub burst: u32,
}

/// A client of the platform's API.
#[derive(Clone)]
pub struct SpotClient(pub(super) Arc<Inner>);

pub(super) struct Inner {
    transport: Arc<dyn Transport>,
    tokens: Tokens,
    clock: SharedClock,
    settings: ClientSettings,
    gate: Gate,
    jitter: Jitter,
    /// The namespace, once the organizations list named the only one.
    pub(super) listed_namespace: Mutex<Option<String>>,
}

/// One call.
pub(super) struct Call {
    /// As a verb, for errors.
    pub(super) operation: &'static str,
    /// Kind and name, for errors.
    pub(super) object: String,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<Value>,
}

impl Call {
    pub(super) fn new(operation: &'static str, object: impl Into<String>, method: Method, path: String) -> Self {
        Self {
            operation,
            object: object.into(),
            method,
            path,
            body: None,
        }
    }
}

/// What one try came to.
enum Try {
    Done(Bytes),
    /// The bearer was refused.
    Unauthorized(Arc<Bearer>, String),
    /// For now; may have taken effect or not.
    ForNow {
        last: String,
        effect: Effect,
        wish: Option<Duration>,
        source: Option<TransportError>,
    },
    Failed(SpotError),
}

/// Whether a failed try may have taken effect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    None,
    Possible,
}

impl SpotClient {
    /// A client that sends through `transport` with bearers from `tokens`.
    pub fn new(
        transport: Arc<dyn Transport>,
        tokens: Tokens,
        clock: SharedClock,
        settings: ClientSettings,
        seed: u64,
    ) -> Self {
        let gate = Gate::new(settings.at_once, settings.per_second, settings.burst);
        let jitter = Jitter::from_seed(seed);
        Self(Arc::new(Inner {
            transport,
            tokens,
            clock,
            settings,
            gate,
            jitter,
            listed_namespace: Mutex::new(None),
        }))
    }

    /// The tokens it uses.
    pub fn tokens(&self) -> &Tokens {
        &self.0.tokens
    }

    /// Whether a bearer is to be had at all.
    pub(super) async fn tokens_work(&self) -> Result<(), SpotError> {
        self.bearer("authenticating", "the token").await.map(|_| ())
    }

    /// The bearer's organization, from its claim.
    pub(super) async fn claimed_organization(&self) -> Result<Option<String>, SpotError> {
        Ok(self.bearer("authenticating", "the token").await?.organization.clone())
    }

    async fn bearer(&self, operation: &'static str, object: &str) -> Result<Arc<Bearer>, SpotError> {
        let bearer = patiently(self.longest_call(), self.0.tokens.bearer()).await;
        bearer.map_err(|error| match error {
            AuthError::Refused { .. } => SpotError::Credentials {
                words: error.to_string(),
            },
            AuthError::Unavailable(_) | AuthError::BadAnswer(_) => SpotError::Unavailable {
                operation,
                object: object.to_owned(),
                tries: 0,
                last: error.to_string(),
                retry_after: None,
                source: None,
            },
        })
    }

    /// Calls and decodes the JSON of the answer.
    pub(super) async fn call(&self, call: &Call) -> Result<Value, SpotError> {
        let bytes = self.call_raw(call).await?;
        serde_json::from_slice(&bytes).map_err(|_| bad_answer(call, "(top)", "is not JSON"))
    }

    /// Calls until there is an answer, or tries or time are used up. However long that takes, whoever waits for it is not stuck.
    pub(super) async fn call_raw(&self, call: &Call) -> Result<Bytes, SpotError> {
        patiently(self.longest_call(), self.try_often(call)).await
    }

    /// How long one call may take.
    pub(super) fn longest_call(&self) -> Duration {
        let settings = &self.0.settings;
        settings.retry.longest_call(settings.request_timeout)
    }

    async fn try_often(&self, call: &Call) -> Result<Bytes, SpotError> {
        let retry = &self.0.settings.retry;
        let started = Instant::now();
        let mut failed = 0;
        let mut renewed = false;
        loop {
            let (last, effect, wish, source) = match self.try_once(call).await? {
                Try::Done(bytes) => return Ok(bytes),
                Try::Failed(error) => return Err(error),
                Try::Unauthorized(bearer, words) => {
                    self.0.tokens.refused(&bearer);
                    if renewed {
                        return Err(SpotError::Credentials { words });
                    }
                    renewed = true;
                    continue;
                }
                Try::ForNow {
                    last,
                    effect,
                    wish,
                    source,
                } => (last, effect, wish, source),
            };
            if effect == Effect::Possible && call.method == Method::POST {
                return Err(SpotError::UnknownOutcome {
                    operation: call.operation,
                    object: call.object.clone(),
                    last,
                });
            }
            failed += 1;
            let wait = retry.wait(failed, self.0.jitter.next(), wish);
            if failed >= retry.tries || started.elapsed() + wait > retry.most_wait {
                return Err(SpotError::Unavailable {
                    operation: call.operation,
                    object: call.object.clone(),
                    tries: failed,
                    last,
                    retry_after: wish,
                    source,
                });
            }
            tracing::debug!(
                operation = call.operation,
                object = call.object,
                reason = last,
                ?wait,
                "will try again"
            );
            tokio::time::sleep(wait).await;
        }
    }

    async fn try_once(&self, call: &Call) -> Result<Try, SpotError> {
        let bearer = self.bearer(call.operation, &call.object).await?;
        let request = self.request(call, &bearer)?;
        let permit = self.0.gate.enter().await;
        let timeout = self.0.settings.request_timeout;
        let answer = within(timeout, self.0.transport.send(request))
            .await
            .unwrap_or(Err(TransportError::TimedOut(timeout)));
        drop(permit);
        Ok(match answer {
            Err(error) => {
                let effect = if error.may_have_taken_effect() {
                    Effect::Possible
                } else {
                    Effect::None
                };
                Try::ForNow {
                    last: error.to_string(),
                    effect,
                    wish: None,
                    source: Some(error),
                }
            }
            Ok(answer) if answer.status() == StatusCode::UNAUTHORIZED => {
                Try::Unauthorized(bearer, shortened(&String::from_utf8_lossy(answer.body())))
            }
            Ok(answer) => judge(call, answer, self.0.clock.now()),
        })
    }

    fn request(&self, call: &Call, bearer: &Bearer) -> Result<http::Request<Bytes>, SpotError> {
        let base = self.0.settings.base_url.trim_end_matches('/');
        let mut builder = http::Request::builder()
            .method(call.method.clone())
            .uri(format!("{base}{}", call.path))
            .header(header::ACCEPT, "application/json");
        let mut authorization = header::HeaderValue::from_str(&format!("Bearer {}", bearer.secret.expose_secret()))
            .map_err(|_| SpotError::Credentials {
                words: "the token holds characters that no header may".into(),
            })?;
        authorization.set_sensitive(true);
        builder = builder.header(header::AUTHORIZATION, authorization);
        let body = match &call.body {
            None => Bytes::new(),
            Some(value) => {
                let media = if call.method == Method::PATCH {
                    "application/merge-patch+json"
                } else {
                    "application/json"
                };
                builder = builder.header(header::CONTENT_TYPE, media);
                Bytes::from(value.to_string())
            }
        };
        builder
            .body(body)
            .map_err(|_| bad_answer(call, "SPOT_BASE_URL", "is not a URL"))
    }
}

/// What a whole answer means.
fn judge(call: &Call, answer: http::Response<Bytes>, now: DateTime<Utc>) -> Try {
    let status = answer.status();
    if status.is_success() {
        return Try::Done(answer.into_body());
    }
    let words = status_words(answer.body());
    let object = call.object.clone();
    match status {
        StatusCode::NOT_FOUND => Try::Failed(SpotError::NotFound { object }),
        StatusCode::CONFLICT if call.method == Method::POST => Try::Failed(SpotError::AlreadyExists { object }),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => Try::ForNow {
            last: format!("status {}: {words}", status.as_u16()),
            effect: Effect::None,
            wish: retry_after(answer.headers(), now),
            source: None,
        },
        _ if status.is_server_error() => Try::ForNow {
            last: format!("status {}: {words}", status.as_u16()),
            // A gateway's 5xx says nothing about what happened behind it.
            effect: Effect::Possible,
            wish: retry_after(answer.headers(), now),
            source: None,
        },
        _ => Try::Failed(SpotError::Refused {
            operation: call.operation,
            object,
            status: status.as_u16(),
            words,
        }),
    }
}

/// The message of a Kubernetes Status, or the beginning of whatever the body is.
fn status_words(body: &[u8]) -> String {
    let message = serde_json::from_slice::<Value>(body)
        .ok()
        .and_then(|value| value.get("message").and_then(Value::as_str).map(str::to_owned));
    shortened(&message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned()))
}

fn shortened(text: &str) -> String {
    text.trim().chars().take(500).collect()
}

pub(super) fn bad_answer(call: &Call, path: &str, problem: &'static str) -> SpotError {
    SpotError::BadAnswer {
        operation: call.operation,
        object: call.object.clone(),
        field: FieldError {
            path: path.to_owned(),
            problem,
        },
    }
}

/// The wait that an answer asks for: seconds, or an HTTP date.
pub(super) fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(u64::from(seconds)));
    }
    let at = DateTime::parse_from_rfc2822(text).ok()?.with_timezone(&Utc);
    Some(at.signed_duration_since(now).to_std().unwrap_or_default())
}

/// A text as it may stand in a path segment, a query or a form.
pub(super) fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let now = DateTime::from_timestamp(1_445_412_470, 0).unwrap(); // 2015-10-21 07:27:50
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers, now)
        };
        assert_eq!(read("7"), Some(Duration::from_secs(7)));
        assert_eq!(read("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(10)));
        assert_eq!(read("Wed, 21 Oct 2015 07:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(read("soon"), None);
    }

    #[test]
    fn names_cannot_leave_their_place_in_a_path() {
        assert_eq!(percent_encoded("a/../b?x=é"), "a%2F..%2Fb%3Fx%3D%C3%A9");
    }

    #[test]
    fn the_words_of_a_refusal_come_from_the_status_or_the_plain_body() {
        assert_eq!(status_words(br#"{"kind":"Status","message":"denied"}"#), "denied");
        assert_eq!(status_words(b" Jwt is expired "), "Jwt is expired");
    }
}
