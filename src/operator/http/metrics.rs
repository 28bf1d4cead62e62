//! `GET /metrics`, sent part by part as the client takes it.

use crate::clock::SharedClock;
use crate::telemetry::Exposition;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::stream;
use std::convert::Infallible;

/// Serves the exposition.
pub fn metrics_router(exposition: Exposition, clock: SharedClock) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .with_state((exposition, clock))
}

async fn scrape(State((exposition, clock)): State<(Exposition, SharedClock)>) -> Response {
    match exposition.parts(clock.now()) {
        Ok(parts) => (
            [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
            Body::from_stream(stream::iter(parts.map(Ok::<_, Infallible>))),
        )
            .into_response(),
        Err(error) => {
            tracing::error!(%error, "rendering the metrics");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
