//! The bearer for the platform: a refresh token becomes an id token, which is used until shortly before it expires.
//!
//! Three traps are built around (rackspace-spot §2.2): the bearer is the `id_token`, never the `access_token`; its life is its own `exp`, never the
//! answer's `expires_in`; and it must be renewed by us. However many callers wait, one exchange is in flight. The client calls [`Tokens::bearer`]
//! before each request and [`Tokens::refused`] after a 401.

use crate::clock::SharedClock;
use crate::cloud::spot::limits::{Jitter, RetrySettings};
use crate::cloud::spot::reader::Reader;
use crate::cloud::spot::transport::{Transport, TransportError};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use secrecy::{ExposeSecret, SecretString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thiserror::Error;
use tokio::time::Instant;

/// A token is renewed this long before it expires.
const RENEW_BEFORE: TimeDelta = TimeDelta::seconds(60);
/// Refused credentials are not tried again before this: they do not heal by asking.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_secs(30);

/// The OAuth client of the platform's own console, a public one (rackspace-spot §2.1).
pub const PUBLIC_CLIENT_ID: &str = "mwG3lUMV8KyeMqHe4fJ5Bb3nM1vBvRNa";

/// Why there is no bearer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AuthError {
    /// The token endpoint does not accept the refresh token.
    #[error("the refresh token was not accepted (status {status}): {words}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// `error` and `error_description` of the answer.
        words: String,
    },
    /// The token endpoint cannot be asked now.
    #[error("the token endpoint cannot be reached: {0}")]
    Unavailable(String),
    /// The answer holds no usable token.
    #[error("the answer of the token endpoint is not understood: {0}")]
    BadAnswer(String),
}

/// A bearer and what its claims say.
#[derive(Debug)]
pub struct Bearer {
    /// The token itself.
    pub secret: SecretString,
    /// The `org_id` claim, e.g. `org_kNYILtp8ZZNvkZ5g`.
    pub organization: Option<String>,
    renew_at: DateTime<Utc>,
}

/// The claims of an id token that matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Unix seconds at which it expires.
    pub expires: i64,
    /// The organization that it gives rights in.
    pub organization: Option<String>,
}

impl Claims {
    /// Reads the claims without checking the signature: we are the token's user, not its judge. None if it has not three parts, no readable payload
    /// or no `exp` (rackspace-spot §2.2: such a token counts as expired).
    pub fn of(token: &str) -> Option<Self> {
        let mut parts = token.split('.');
        let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
        let claims: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        Some(Self {
            expires: claims.get("exp")?.as_i64()?,
            organization: claims
                .get("org_id")
                .and_then(|v| v.as_str())
                .filter(|s| !s.is_empty())
                .map(str::to_owned),
        })
    }
}

/// Where tokens come from.
#[derive(Debug, Clone)]
pub struct AuthSettings {
    /// OAuth base; `/oauth/token` is appended (`SPOT_AUTH_URL`).
    pub url: String,
    /// OAuth client (`RXTSPOT_CLIENT_ID`).
    pub client_id: String,
    /// The user's refresh token (`SPOT_REFRESH_TOKEN`).
    pub refresh_token: Option<SecretString>,
    /// A ready-made bearer, used until it expires (`SPOT_ACCESS_TOKEN`).
    pub access_token: Option<SecretString>,
    /// For one exchange.
    pub timeout: Duration,
    /// When a failed exchange is tried again.
    pub retry: RetrySettings,
}

type Exchange = Shared<BoxFuture<'static, Result<Arc<Bearer>, AuthError>>>;

#[derive(Default)]
struct State {
    bearer: Option<Arc<Bearer>>,
    in_flight: Option<Exchange>,
    refused: Option<(Instant, AuthError)>,
    rotated: Option<SecretString>,
}

struct Shared_ {
    transport: Arc<dyn Transport>,
    clock: SharedClock,
    settings: AuthSettings,
    jitter: Jitter,
    state: Mutex<State>,
}

/// Hands out bearers.
#[derive(Clone)]
pub struct Tokens(Arc<Shared_>);

impl Tokens {
    /// Tokens for these credentials.
    pub fn new(transport: Arc<dyn Transport>, clock: SharedClock, settings: AuthSettings, seed: u64) -> Self {
        let ready_made = settings
            .access_token
            .as_ref()
            .and_then(|token| bearer_of(token.clone(), clock.now()));
        let state = State {
            bearer: ready_made.map(Arc::new),
            ..State::default()
        };
        Self(Arc::new(Shared_ {
            transport,
            clock,
            settings,
            jitter: Jitter::from_seed(seed),
            state: Mutex::new(state),
        }))
    }

    /// A bearer that is good for now: the present one, or that of the exchange in flight, or of a new exchange.
    pub async fn bearer(&self) -> Result<Arc<Bearer>, AuthError> {
        let exchange = {
            let mut state = self.0.lock();
            if let Some(bearer) = &state.bearer
                && self.0.clock.now() < bearer.renew_at
            {
                return Ok(Arc::clone(bearer));
            }
            if let Some((at, error)) = &state.refused
                && at.elapsed() < PAUSE_AFTER_REFUSAL
            {
                return Err(error.clone());
            }
            state
                .in_flight
                .get_or_insert_with(|| run_exchange(Arc::clone(&self.0)).boxed().shared())
                .clone()
        };
        exchange.await
    }

    /// The platform refused this bearer: it is not used again. A newer one stays.
    pub fn refused(&self, bearer: &Arc<Bearer>) {
        let mut state = self.0.lock();
        if state
            .bearer
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, bearer))
        {
            state.bearer = None;
        }
    }

    /// Why there is no bearer at present, if the credentials were refused.
    pub fn trouble(&self) -> Option<AuthError> {
        let state = self.0.lock();
        state.refused.as_ref().map(|(_, error)| error.clone())
    }
}

impl Shared_ {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One exchange with its retries; records the outcome for everybody before anybody is woken.
async fn run_exchange(shared: Arc<Shared_>) -> Result<Arc<Bearer>, AuthError> {
    let outcome = exchange_with_retries(&shared).await.map(Arc::new);
    let mut state = shared.lock();
    state.in_flight = None;
    match &outcome {
        Ok(bearer) => {
            state.bearer = Some(Arc::clone(bearer));
            state.refused = None;
        }
        Err(error @ AuthError::Refused { .. }) => state.refused = Some((Instant::now(), error.clone())),
        Err(_) => {}
    }
    outcome
}

async fn exchange_with_retries(shared: &Shared_) -> Result<Bearer, AuthError> {
    let retry = &shared.settings.retry;
    let started = Instant::now();
    let mut failed = 0;
    loop {
        let (error, wish) = match exchange_once(shared).await {
            Err((error @ AuthError::Unavailable(_), wish)) => (error, wish),
            Ok(bearer) => return Ok(bearer),
            Err((error, _)) => return Err(error),
        };
        failed += 1;
        let wait = retry.wait(failed, shared.jitter.next(), wish);
        if failed >= retry.tries || started.elapsed() + wait > retry.most_wait {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
    }
}

async fn exchange_once(shared: &Shared_) -> Result<Bearer, (AuthError, Option<Duration>)> {
    let settings = &shared.settings;
    let refresh = shared.lock().rotated.clone().or_else(|| settings.refresh_token.clone());
    let Some(refresh) = refresh else {
        return Err((
            AuthError::Refused {
                status: 0,
                words: "no refresh token is configured".into(),
            },
            None,
        ));
    };
    let form = [
        ("grant_type", "refresh_token"),
        ("client_id", settings.client_id.as_str()),
        ("refresh_token", refresh.expose_secret()),
    ];
    let request = http::Request::post(format!("{}/oauth/token", settings.url.trim_end_matches('/')))
        .header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(http::header::ACCEPT, "application/json")
        .body(Bytes::from(form_encoded(&form)))
        .map_err(|e| (AuthError::BadAnswer(format!("SPOT_AUTH_URL: {e}")), None))?;
    let answer = tokio::time::timeout(settings.timeout, shared.transport.send(request))
        .await
        .unwrap_or(Err(TransportError::TimedOut(settings.timeout)))
        .map_err(|e| (AuthError::Unavailable(e.to_string()), None))?;
    let status = answer.status();
    if status.is_server_error() || status == http::StatusCode::TOO_MANY_REQUESTS {
        let wish = super::client::retry_after(answer.headers(), shared.clock.now());
        return Err((AuthError::Unavailable(format!("status {status}")), wish));
    }
    // Any other 4xx means that the credentials are bad (rackspace-spot §2.3).
    if !status.is_success() {
        return Err((
            AuthError::Refused {
                status: status.as_u16(),
                words: oauth_words(answer.body()),
            },
            None,
        ));
    }
    let body: serde_json::Value =
        serde_json::from_slice(answer.body()).map_err(|_| (AuthError::BadAnswer("it is not JSON".into()), None))?;
    let top = Reader::new(&body);
    let token = top
        .at("id_token")
        .text()
        .map_err(|e| (AuthError::BadAnswer(e.to_string()), None))?;
    // No rotation is documented; should a new refresh token come, the old one may be dead (rackspace-spot §2.1).
    if let Some(rotated) = top.at("refresh_token").optional_text().filter(|text| !text.is_empty()) {
        shared.lock().rotated = Some(SecretString::from(rotated));
    }
    bearer_of(SecretString::from(token), shared.clock.now())
        .ok_or_else(|| (AuthError::BadAnswer("id_token: has no readable exp".into()), None))
}

/// Reads a token; one with little life left is renewed after half of it, so that a short-lived token is not exchanged at every call.
fn bearer_of(secret: SecretString, now: DateTime<Utc>) -> Option<Bearer> {
    let claims = Claims::of(secret.expose_secret())?;
    let expires = DateTime::from_timestamp(claims.expires, 0)?;
    let left = expires.signed_duration_since(now);
    let early = RENEW_BEFORE.min(left / 2).max(TimeDelta::zero());
    let renew_at = expires.checked_sub_signed(early)?;
    Some(Bearer {
        secret,
        organization: claims.organization,
        renew_at,
    })
}

fn oauth_words(body: &[u8]) -> String {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) else {
        return String::from_utf8_lossy(body).chars().take(200).collect();
    };
    let word = |field: &str| value.get(field).and_then(|v| v.as_str()).unwrap_or_default().to_owned();
    let words = format!("{} {}", word("error"), word("error_description"));
    words.trim().chars().take(200).collect()
}

fn form_encoded(fields: &[(&str, &str)]) -> String {
    fields
        .iter()
        .map(|(key, value)| {
            format!(
                "{}={}",
                super::client::percent_encoded(key),
                super::client::percent_encoded(value)
            )
        })
        .collect::<Vec<_>>()
        .join("&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token(claims: &str) -> String {
        format!("h.{}.s", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn only_the_tokens_own_exp_counts() {
        // rackspace-spot 2.2
        let claims = Claims::of(&token(r#"{"exp":1700003600,"org_id":"org_kNYILtp8ZZNvkZ5g"}"#)).unwrap();
        assert_eq!(claims.expires, 1_700_003_600);
        assert_eq!(claims.organization.as_deref(), Some("org_kNYILtp8ZZNvkZ5g"));
    }

    #[test]
    fn a_token_without_three_parts_or_exp_counts_as_expired() {
        for bad in [
            "",
            "a.b",
            "opaque",
            "a.!!.c",
            &token("{}"),
            &token(r#"{"exp":"soon"}"#),
            &format!("{}.x", token(r#"{"exp":1}"#)),
        ] {
            assert_eq!(Claims::of(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_token_is_renewed_a_minute_early_but_never_at_every_call() {
        let now = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let renew_in = |life: i64| {
            let secret = SecretString::from(token(&format!(r#"{{"exp":{}}}"#, 1_700_000_000 + life)));
            (bearer_of(secret, now).unwrap().renew_at - now).num_seconds()
        };
        assert_eq!(renew_in(3600), 3540);
        assert_eq!(renew_in(30), 15);
        assert_eq!(renew_in(-5), -5);
    }

    #[test]
    fn a_token_never_shows_in_debug_output() {
        let now = DateTime::from_timestamp(0, 0).unwrap();
        let bearer = bearer_of(SecretString::from(token(r#"{"exp":9}"#)), now).unwrap();
        assert!(!format!("{bearer:?}").contains("h."));
    }

    proptest! {
        #[test]
        fn no_token_makes_it_panic(text in ".{0,80}", exp in any::<i64>()) {
            let _ = Claims::of(&text);
            let secret = SecretString::from(token(&format!(r#"{{"exp":{exp}}}"#)));
            let _ = bearer_of(secret, DateTime::from_timestamp(1_700_000_000, 0).unwrap());
        }
    }
}
