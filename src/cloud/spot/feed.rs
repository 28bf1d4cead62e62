//! The public price feed: fetched at most every five minutes, asked whether it changed, and never trusted.
//!
//! ```text
//! refresh ─▶ fresh enough? ─▶ GET with ETag/Last-Modified ─▶ 304 keep │ 200 parse ─▶ contradicts the last good one? ─▶ swap
//!                                                                      └─ anything wrong ─▶ keep what is good, say so
//! ```
//!
//! Readers take [`PriceFeed::table`], which is always a complete table: the last good one, else the one built in. The pricing controller calls
//! [`PriceFeed::refresh`]. Whether a body can be a feed is decided in `pricing::table`.

use crate::clock::SharedClock;
use crate::cloud::spot::transport::{Transport, TransportError};
use crate::pricing::{FeedProblem, PriceTable, snapshot};
use crate::telemetry::PriceMetrics;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thiserror::Error;
use tokio::time::Instant;

/// The real feed (`NGPC_PRICE_DETAILS_URL`).
pub const DEFAULT_URL: &str = "https://ngpc-prod-public-data.s3.us-east-2.amazonaws.com/percentiles.json";
/// How long an answer is good without asking again.
pub const FRESH_FOR: Duration = Duration::from_mins(5);
/// After a failure the feed is asked again sooner, but not at every call.
const RETRY_AFTER_FAILURE: Duration = Duration::from_secs(30);
/// Validators longer than this are not sent back.
const LONGEST_VALIDATOR: usize = 256;

/// Why an answer was not used.
#[derive(Debug, Error)]
pub enum FeedError {
    /// No answer.
    #[error("the price feed cannot be reached")]
    Transport(#[from] TransportError),
    /// An answer that is no feed.
    #[error("the price feed answered with status {0}")]
    Status(u16),
    /// "Not modified", although nothing was asked about.
    #[error("the price feed says that nothing changed, to somebody who has nothing")]
    NothingToKeep,
    /// A body that cannot be true.
    #[error(transparent)]
    Problem(#[from] FeedProblem),
    /// The setting is no URL.
    #[error("NGPC_PRICE_DETAILS_URL is not a URL")]
    Url,
}

impl FeedError {
    /// Value of the `problem` label.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Transport(TransportError::TooLarge) | Self::Problem(FeedProblem::TooLarge) => "too_large",
            Self::Transport(_) => "unreachable",
            Self::Status(_) | Self::NothingToKeep => "status",
            Self::Problem(FeedProblem::Malformed(_)) => "malformed",
            Self::Problem(FeedProblem::Empty) => "empty",
            Self::Problem(_) => "implausible",
            Self::Url => "setting",
        }
    }
}

/// What a refresh did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refreshed {
    /// Asked less than five minutes ago.
    StillFresh,
    /// The feed says that nothing changed, or nothing did.
    Unchanged,
    /// There are new prices.
    Changed,
    /// The feed gave nothing usable; the prices are what they were.
    Kept,
}

/// Which prices are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// From the feed.
    Live,
    /// Built into the binary.
    BuiltIn,
}

struct State {
    live: Option<Arc<PriceTable>>,
    /// The validators that came with `live`.
    validators: HeaderMap,
    /// When to ask again.
    due: Option<Instant>,
    /// The last failure's label, so that a failure that goes on is logged once.
    failing: Option<&'static str>,
}

/// The feed.
pub struct PriceFeed {
    transport: Arc<dyn Transport>,
    url: String,
    timeout: Duration,
    clock: SharedClock,
    metrics: Option<PriceMetrics>,
    state: Mutex<State>,
}

impl PriceFeed {
    /// A feed that is read through `transport`.
    pub fn new(
        transport: Arc<dyn Transport>,
        url: String,
        timeout: Duration,
        clock: SharedClock,
        metrics: Option<PriceMetrics>,
    ) -> Self {
        let state = State {
            live: None,
            validators: HeaderMap::new(),
            due: None,
            failing: None,
        };
        Self {
            transport,
            url,
            timeout,
            clock,
            metrics,
            state: Mutex::new(state),
        }
    }

    /// The prices to use now.
    pub fn table(&self) -> Arc<PriceTable> {
        self.lock().live.clone().unwrap_or_else(snapshot::table)
    }

    /// Where they come from.
    pub fn source(&self) -> Source {
        if self.lock().live.is_some() {
            Source::Live
        } else {
            Source::BuiltIn
        }
    }

    /// Asks the feed if the last answer is old enough. Never fails: prices that were good stay.
    pub async fn refresh(&self) -> Refreshed {
        let asked_about = {
            let mut state = self.lock();
            let now = Instant::now();
            if state.due.is_some_and(|due| now < due) {
                return Refreshed::StillFresh;
            }
            // Claimed before the request leaves, so that two callers send one.
            state.due = Some(now + RETRY_AFTER_FAILURE);
            state.validators.clone()
        };
        match self.fetch(asked_about).await {
            Ok(fetched) => self.take_in(fetched),
            Err(error) => self.keep(&error),
        }
    }

    async fn fetch(&self, asked_about: HeaderMap) -> Result<Option<(PriceTable, HeaderMap)>, FeedError> {
        let mut request = http::Request::get(&self.url)
            .header(header::ACCEPT, "application/json")
            .body(Bytes::new())
            .map_err(|_| FeedError::Url)?;
        request.headers_mut().extend(asked_about);
        let answer = tokio::time::timeout(self.timeout, self.transport.send(request))
            .await
            .unwrap_or(Err(TransportError::TimedOut(self.timeout)))?;
        match answer.status() {
            StatusCode::NOT_MODIFIED => {
                if self.lock().live.is_some() {
                    Ok(None)
                } else {
                    Err(FeedError::NothingToKeep)
                }
            }
            StatusCode::OK => {
                let table = PriceTable::parse(answer.body())?;
                if let Some(before) = &self.lock().live
                    && let Some(problem) = table.contradicts(before)
                {
                    return Err(problem.into());
                }
                Ok(Some((table, validators_of(answer.headers()))))
            }
            other => Err(FeedError::Status(other.as_u16())),
        }
    }

    fn take_in(&self, fetched: Option<(PriceTable, HeaderMap)>) -> Refreshed {
        let mut state = self.lock();
        state.due = Some(Instant::now() + FRESH_FOR);
        let recovered = state.failing.take().is_some();
        let first = state.live.is_none();
        let mut outcome = Refreshed::Unchanged;
        if let Some((table, validators)) = fetched {
            state.validators = validators;
            if state.live.as_deref() != Some(&table) {
                outcome = Refreshed::Changed;
                state.live = Some(Arc::new(table));
            }
        }
        let classes = state.live.as_ref().map_or(0, |table| table.len());
        let skipped = state.live.as_ref().map_or(0, |table| table.skipped());
        drop(state);
        if let Some(metrics) = &self.metrics {
            #[allow(clippy::cast_precision_loss)] // seconds fit into a float for a long time
            metrics.feed_is_good(self.clock.now().timestamp() as f64);
        }
        if first || recovered {
            tracing::info!(classes, skipped, "prices come from the feed");
        }
        outcome
    }

    fn keep(&self, error: &FeedError) -> Refreshed {
        let label = error.label();
        let mut state = self.lock();
        let said_before = state.failing.replace(label) == Some(label);
        let falls_back = state.live.is_none();
        if let FeedError::Problem(_) = error {
            // What is not believed must not be vouched for by its validators: the next request asks for the whole again.
            state.validators = HeaderMap::new();
        }
        drop(state);
        if let Some(metrics) = &self.metrics {
            metrics.feed_failed(label, f64::from(u8::from(falls_back)));
        }
        if !said_before {
            let source = std::error::Error::source(error)
                .map(ToString::to_string)
                .unwrap_or_default();
            let using = if falls_back {
                "the prices built into the binary"
            } else {
                "the last good prices"
            };
            tracing::warn!(reason = %error, source, using, "the price feed is not usable");
        }
        Refreshed::Kept
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The headers of the next request that ask whether anything changed since this answer.
fn validators_of(answer: &HeaderMap) -> HeaderMap {
    let short = |value: &&HeaderValue| value.len() <= LONGEST_VALIDATOR;
    let mut request = HeaderMap::new();
    for (has, asks) in [
        (header::ETAG, header::IF_NONE_MATCH),
        (header::LAST_MODIFIED, header::IF_MODIFIED_SINCE),
    ] {
        if let Some(value) = answer.get(has).filter(short) {
            request.insert(asks, value.clone());
        }
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::cloud::spot::transport::ServiceTransport;
    use axum::body::Body;
    use std::collections::VecDeque;

    type Script = Arc<Mutex<VecDeque<http::Response<Body>>>>;
    type Requests = Arc<Mutex<Vec<HeaderMap>>>;

    fn feed_of(answers: Vec<http::Response<Body>>) -> (PriceFeed, Requests) {
        let script: Script = Arc::new(Mutex::new(answers.into()));
        let requests = Requests::default();
        let seen = Arc::clone(&requests);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            seen.lock().unwrap().push(request.headers().clone());
            let answer = script.lock().unwrap().pop_front();
            async move { answer.ok_or("nobody is there") }
        });
        let transport = Arc::new(ServiceTransport::<_, Body>::new(service));
        let feed = PriceFeed::new(
            transport,
            "http://feed.test/p".into(),
            Duration::from_secs(5),
            Arc::new(SystemClock),
            None,
        );
        (feed, requests)
    }

    fn body(prices: &[f64]) -> String {
        let classes: serde_json::Map<String, serde_json::Value> = prices
            .iter()
            .enumerate()
            .map(|(i, p)| {
                let entry = serde_json::json!({"20_percentile": p, "50_percentile": p, "80_percentile": p});
                (format!("c{i}"), entry)
            })
            .collect();
        serde_json::json!({"regions": {"r": {"serverclasses": classes}}}).to_string()
    }

    fn ok(text: &str, etag: &str) -> http::Response<Body> {
        http::Response::builder()
            .header("etag", etag)
            .body(Body::from(text.to_owned()))
            .unwrap()
    }

    fn status(code: u16) -> http::Response<Body> {
        http::Response::builder().status(code).body(Body::empty()).unwrap()
    }

    fn price(feed: &PriceFeed) -> String {
        feed.table().prices("r", "c0").unwrap().p80.to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn the_feed_is_asked_every_five_minutes_and_only_whether_it_changed() {
        let (feed, requests) = feed_of(vec![
            ok(&body(&[0.02]), "\"a\""),
            status(304),
            ok(&body(&[0.03]), "\"b\""),
        ]);
        assert_eq!(feed.source(), Source::BuiltIn);
        assert_eq!(feed.refresh().await, Refreshed::Changed);
        assert_eq!(feed.refresh().await, Refreshed::StillFresh);
        tokio::time::advance(FRESH_FOR).await;
        assert_eq!(feed.refresh().await, Refreshed::Unchanged);
        assert_eq!(price(&feed), "0.02");
        tokio::time::advance(FRESH_FOR).await;
        assert_eq!(feed.refresh().await, Refreshed::Changed);
        assert_eq!(price(&feed), "0.03");
        let asked: Vec<bool> = requests
            .lock()
            .unwrap()
            .iter()
            .map(|h| h.contains_key("if-none-match"))
            .collect();
        assert_eq!(asked, [false, true, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_that_is_broken_empty_huge_or_hostile_replaces_good_prices() {
        let good = [0.02, 0.02, 0.02];
        let mut answers = vec![ok(&body(&good), "\"a\"")];
        let huge = " ".repeat(crate::pricing::table::MOST_BYTES + 1);
        let bad = [
            "",
            "null",
            "<html>",
            r#"{"regions":{}}"#,
            &body(&[0.02]),
            &body(&[99.0, 99.0, 99.0]),
            &body(&[-1.0, 0.0, 1e9]),
            &huge,
        ]
        .map(|text| ok(text, "\"evil\""));
        let count = bad.len() + 3;
        answers.extend(bad);
        answers.extend([status(500), status(403), status(301)]);
        let (feed, requests) = feed_of(answers);
        assert_eq!(feed.refresh().await, Refreshed::Changed);
        for _ in 0..count {
            tokio::time::advance(FRESH_FOR).await;
            assert_eq!(feed.refresh().await, Refreshed::Kept);
            assert_eq!(price(&feed), "0.02");
        }
        // silence, at last
        tokio::time::advance(FRESH_FOR).await;
        assert_eq!(feed.refresh().await, Refreshed::Kept);
        assert_eq!(price(&feed), "0.02");
        let evil = requests
            .lock()
            .unwrap()
            .iter()
            .any(|h| h.get("if-none-match").is_some_and(|v| v == "\"evil\""));
        assert!(!evil, "validators of refused answers are not used");
    }

    #[tokio::test(start_paused = true)]
    async fn without_any_good_answer_the_built_in_prices_are_used_and_counted() {
        let exposition = crate::telemetry::Exposition::new();
        let metrics = PriceMetrics::new(&exposition).unwrap();
        let (mut feed, _) = feed_of(vec![status(503)]);
        feed.metrics = Some(metrics);
        assert_eq!(feed.refresh().await, Refreshed::Kept);
        assert_eq!(feed.source(), Source::BuiltIn);
        assert!(feed.table().prices("us-east-iad-1", "gp.vs1.large-iad").is_some());
        let text = exposition.render(chrono::DateTime::UNIX_EPOCH).unwrap();
        assert!(text.contains("karpenter_cloudprovider_price_feed_fallback 1"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_feed_that_never_answers_is_given_up_in_time() {
        let service =
            tower::service_fn(|_: http::Request<Body>| std::future::pending::<Result<http::Response<Body>, String>>());
        let transport = Arc::new(ServiceTransport::<_, Body>::new(service));
        let feed = PriceFeed::new(
            transport,
            "http://feed.test/".into(),
            Duration::from_secs(5),
            Arc::new(SystemClock),
            None,
        );
        let started = Instant::now();
        assert_eq!(feed.refresh().await, Refreshed::Kept);
        assert_eq!(started.elapsed(), Duration::from_secs(5));
    }
}
