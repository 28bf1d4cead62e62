//! `GET /metrics`.

use crate::clock::SharedClock;
use crate::telemetry::Exposition;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// Serves the exposition.
pub fn metrics_router(exposition: Exposition, clock: SharedClock) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .with_state((exposition, clock))
}

async fn scrape(State((exposition, clock)): State<(Exposition, SharedClock)>) -> Response {
    match exposition.render(clock.now()) {
        Ok(text) => (
            [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
            text,
        )
            .into_response(),
        Err(error) => {
            tracing::error!(%error, "rendering the metrics");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
