//! `/healthz` and `/readyz` with their sub-paths, `?verbose` and `?exclude=` (surface §6.4).
//!
//! A probe is a list of named checks; all must pass. Replicas that do not lead are ready too.

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

/// A named condition.
#[derive(Clone)]
pub struct Check {
    name: &'static str,
    trouble: Arc<dyn Fn() -> Option<String> + Send + Sync>,
}

/// What upstream says of every check that fails.
const WITHHELD: &str = "reason withheld";

impl Check {
    /// A check that passes while `passes` says so. It is called per probe and must be quick.
    pub fn new(name: &'static str, passes: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self::telling(name, move || (!passes()).then(|| WITHHELD.to_owned()))
    }

    /// A check that says what is wrong, and passes while nothing is.
    pub fn telling(name: &'static str, trouble: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self {
            name,
            trouble: Arc::new(trouble),
        }
    }

    /// A check that always passes: that it answers at all is what it says.
    pub fn ping(name: &'static str) -> Self {
        Self::new(name, || true)
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Check").field(&self.name).finish()
    }
}

/// The checks of both probes.
#[derive(Debug, Clone)]
pub struct Health {
    /// Whether the process is alive.
    pub live: Vec<Check>,
    /// Whether it does its work.
    pub ready: Vec<Check>,
}

impl Health {
    /// Serves both probes.
    pub fn router(self) -> Router {
        probe("/healthz", self.live).merge(probe("/readyz", self.ready))
    }
}

fn probe(path: &str, checks: Vec<Check>) -> Router {
    let checks = Arc::new(checks);
    Router::new()
        .route(path, get(all))
        .route(&format!("{path}/"), get(all))
        .route(&format!("{path}/{{name}}"), get(one))
        .with_state(checks)
}

async fn all(State(checks): State<Arc<Vec<Check>>>, RawQuery(query): RawQuery) -> Response {
    let asked = Asked::from(query.unwrap_or_default().as_str());
    let mut failed = false;
    let mut report = String::new();
    for check in checks.iter() {
        let line = if asked.excluded.iter().any(|name| name == check.name) {
            format!("[+]{} excluded: ok\n", check.name)
        } else if let Some(trouble) = (check.trouble)() {
            failed = true;
            format!("[-]{} failed: {trouble}\n", check.name)
        } else {
            format!("[+]{} ok\n", check.name)
        };
        report.push_str(&line);
    }
    for name in asked
        .excluded
        .iter()
        .filter(|name| !checks.iter().any(|check| check.name == name.as_str()))
    {
        let _ = writeln!(
            report,
            "warn: some health checks cannot be excluded: no matches for {name:?}"
        );
    }
    if failed {
        return answer(StatusCode::INTERNAL_SERVER_ERROR, report + "healthz check failed\n");
    }
    if asked.verbose {
        answer(StatusCode::OK, report + "healthz check passed\n")
    } else {
        answer(StatusCode::OK, "ok".to_owned())
    }
}

async fn one(State(checks): State<Arc<Vec<Check>>>, Path(name): Path<String>) -> Response {
    match checks.iter().find(|check| check.name == name) {
        None => answer(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        Some(check) => match (check.trouble)() {
            None => answer(StatusCode::OK, "ok".to_owned()),
            Some(trouble) => answer(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("internal server error: {trouble}\n"),
            ),
        },
    }
}

fn answer(status: StatusCode, text: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, text).into_response()
}

/// What the query asks for.
struct Asked {
    verbose: bool,
    excluded: Vec<String>,
}

impl From<&str> for Asked {
    fn from(query: &str) -> Self {
        let mut asked = Self {
            verbose: false,
            excluded: Vec::new(),
        };
        for part in query.split('&') {
            match part.split_once('=').unwrap_or((part, "")) {
                ("verbose", _) => asked.verbose = true,
                // Names of checks need no escapes, so none are undone.
                ("exclude", name) => asked.excluded.push(name.to_owned()),
                _ => {}
            }
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    async fn get(path: &str) -> (u16, String) {
        let health = Health {
            live: vec![Check::ping("healthz")],
            ready: vec![Check::new("manager", || false), Check::ping("readyz")],
        };
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = health.router().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    // surface §6.4
    #[tokio::test]
    async fn probes_answer_ok_or_name_what_failed() {
        assert_eq!(get("/healthz").await, (200, "ok".to_owned()));
        let failed = "[-]manager failed: reason withheld\n[+]readyz ok\nhealthz check failed\n";
        assert_eq!(get("/readyz").await, (500, failed.to_owned()));
    }

    #[tokio::test]
    async fn single_checks_have_paths_of_their_own() {
        assert_eq!(get("/readyz/readyz").await, (200, "ok".to_owned()));
        assert_eq!(get("/readyz/manager").await.0, 500);
        assert_eq!(get("/readyz/nonsense").await.0, 404);
        assert_eq!(get("/nonsense").await.0, 404);
    }

    #[tokio::test]
    async fn a_check_may_say_what_is_wrong() {
        let health = Health {
            live: Vec::new(),
            ready: vec![Check::telling("watchdog", || {
                Some("watch Pod: silent for 90 s".to_owned())
            })],
        };
        let request = Request::get("/readyz").body(Body::empty()).unwrap();
        let response = health.router().oneshot(request).await.unwrap();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        assert_eq!(
            text,
            "[-]watchdog failed: watch Pod: silent for 90 s\nhealthz check failed\n"
        );
    }

    #[tokio::test]
    async fn checks_can_be_excluded_and_shown() {
        assert_eq!(get("/readyz?exclude=manager").await, (200, "ok".to_owned()));
        let shown = "[+]manager excluded: ok\n[+]readyz ok\nhealthz check passed\n";
        assert_eq!(get("/readyz?verbose&exclude=manager").await, (200, shown.to_owned()));
        let (_, warned) = get("/readyz?verbose&exclude=manager&exclude=other").await;
        assert!(warned.contains("no matches for \"other\""), "{warned}");
    }
}
