//! How an operator begins, when what it needs for that does not answer.

use async_trait::async_trait;
use bytes::Bytes;
use chrono::DateTime;
use karpenter::clock::{SharedClock, TokioClock};
use karpenter::cloud::spot::{Transport, TransportError};
use karpenter::operator::{Candidacy, Environment, FirstLogin, Listeners, Options, RunError, Setup, Solving, run};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A platform that takes every request and never answers.
struct Silent;

#[async_trait]
impl Transport for Silent {
    async fn send(&self, _: http::Request<Bytes>) -> Result<http::Response<Bytes>, TransportError> {
        std::future::pending().await
    }
}

fn setup(kube: kube::Client) -> Setup {
    let environment = Environment::from([("SPOT_CLOUDSPACE_NAME", "c"), ("SPOT_REFRESH_TOKEN", "token")]);
    let epoch = DateTime::from_timestamp(1_750_000_000, 0).unwrap();
    let clock: SharedClock = Arc::new(TokioClock::starting_at(epoch));
    Setup {
        options: Options::read([], &environment).unwrap(),
        kube,
        transport: Arc::new(Silent),
        clock,
        seed: 1,
        listeners: Listeners::off(),
        solving: Solving::Inline,
        candidacy: Candidacy::Alone,
        first_login: FirstLogin::Required,
    }
}

/// An API server whose every answer is a defect of ours.
fn deadly() -> kube::Client {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        assert!(std::hint::black_box(false), "on purpose");
        Ok::<_, std::convert::Infallible>(http::Response::new(axum::body::Body::empty()))
    });
    kube::Client::new(service, "default")
}

// surface §6.4
#[tokio::test(start_paused = true)]
async fn a_task_that_dies_while_the_platform_does_not_answer_ends_the_operator() {
    let started = tokio::time::Instant::now();
    let error = run(setup(deadly()), CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, RunError::Task(_)), "{error:?}");
    assert!(started.elapsed() < Duration::from_mins(1), "{:?}", started.elapsed());
    assert_eq!(error.exit_code(), 2);
}
