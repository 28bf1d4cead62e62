//! `/debug/pprof/` on the metrics port, behind ENABLE_PROFILING (surface §6.1): where the process spends time and memory.
//!
//! Differs: upstream serves the profiles of Go's runtime. There is none here, and sampling stacks would need signal handlers, unsafe code and a
//! binary with symbols. Shown instead is what the kernel and tokio count: CPU time of each thread, over a while if asked, memory by kind, tasks. The
//! names of Go's profiles answer with what to use instead.

use axum::Router;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

/// Clock ticks per second in /proc, the same on every Linux.
const TICKS: f64 = 100.0;
/// Nobody needs a connection for longer.
const LONGEST: u64 = 300;

const INDEX: &str = "cmdline   the command line\n\
    memory    memory by kind (/proc/self/smaps_rollup)\n\
    tasks     tokio's tasks and queues\n\
    threads   CPU seconds of each thread; threads?seconds=30 over that time\n";

const INSTEAD: &str = "There is no Go runtime here. For stacks use `perf record -g` on the process of an image with symbols; see /debug/pprof/ for what is served.\n";

#[derive(serde::Deserialize)]
struct Span {
    #[serde(default)]
    seconds: u64,
}

/// The routes.
pub fn profiling_router() -> Router {
    let none = || async { (StatusCode::NOT_IMPLEMENTED, INSTEAD) };
    let mut router = Router::new()
        .route("/debug/pprof/", get(|| async { INDEX }))
        .route(
            "/debug/pprof/cmdline",
            get(|| async { file("/proc/self/cmdline").replace('\0', " ") }),
        )
        .route("/debug/pprof/memory", get(|| async { file("/proc/self/smaps_rollup") }))
        .route("/debug/pprof/tasks", get(tasks))
        .route("/debug/pprof/threads", get(threads));
    for name in [
        "profile",
        "heap",
        "allocs",
        "goroutine",
        "trace",
        "symbol",
        "block",
        "mutex",
        "threadcreate",
    ] {
        router = router.route(&format!("/debug/pprof/{name}"), get(none));
    }
    router
}

fn file(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| format!("{path}: {error}\n"))
}

async fn tasks() -> String {
    let metrics = tokio::runtime::Handle::current().metrics();
    format!(
        "workers {}\nalive_tasks {}\nglobal_queue_depth {}\n",
        metrics.num_workers(),
        metrics.num_alive_tasks(),
        metrics.global_queue_depth()
    )
}

async fn threads(Query(span): Query<Span>) -> Response {
    let before = if span.seconds == 0 {
        BTreeMap::new()
    } else {
        cpu_by_thread()
    };
    tokio::time::sleep(Duration::from_secs(span.seconds.min(LONGEST))).await;
    listed(&before, &cpu_by_thread()).into_response()
}

/// CPU seconds by thread id and name.
fn cpu_by_thread() -> BTreeMap<(u64, String), f64> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let read = |entry: fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let (name, seconds) = parse(&fs::read_to_string(entry.path().join("stat")).ok()?)?;
        Some(((id, name), seconds))
    };
    threads.filter_map(read).collect()
}

/// Name and CPU seconds of a line of /proc/…/stat; the name may hold blanks and brackets.
fn parse(stat: &str) -> Option<(String, f64)> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (times.next()?.parse().ok()?, times.next()?.parse().ok()?);
    Some((name.to_owned(), (user + system) / TICKS))
}

/// What each thread used since, most first.
fn listed(before: &BTreeMap<(u64, String), f64>, after: &BTreeMap<(u64, String), f64>) -> String {
    let mut used: Vec<(f64, &(u64, String))> = after
        .iter()
        .map(|(thread, seconds)| (seconds - before.get(thread).copied().unwrap_or_default(), thread))
        .collect();
    used.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(right.1)));
    used.iter().fold(String::new(), |mut text, (seconds, (id, name))| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{seconds:.2} {name} {id}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::{Body, to_bytes};
    use tower::ServiceExt as _;

    async fn ask(path: &str) -> (StatusCode, String) {
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        let answer = profiling_router().oneshot(request).await.unwrap();
        let status = answer.status();
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn each_page_of_the_index_answers_and_gos_profiles_say_what_to_use() {
        let (_, index) = ask("/debug/pprof/").await;
        for page in index.lines().map(|line| line.split(' ').next().unwrap()) {
            let (status, text) = ask(&format!("/debug/pprof/{page}")).await;
            assert!(status.is_success() && !text.is_empty(), "{page}: {status} {text}");
        }
        let (status, text) = ask("/debug/pprof/profile?seconds=30").await;
        assert_eq!(status, StatusCode::NOT_IMPLEMENTED);
        assert!(text.contains("perf record"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn threads_over_a_while_show_what_was_used_in_it() {
        let (status, text) = ask("/debug/pprof/threads?seconds=30").await;
        assert_eq!(status, StatusCode::OK);
        assert!(text.lines().count() >= 1, "{text}");
    }

    #[test]
    fn a_thread_named_like_a_bracket_is_read_and_the_busiest_comes_first() {
        let line = |name: &str, user: u64| format!("7 ({name}) S 1 1 1 0 -1 0 0 0 0 0 {user} 50 0 0 20 0 1 0 1 1 1");
        assert_eq!(parse(&line("a) (b", 150)), Some(("a) (b".to_owned(), 2.0)));
        assert_eq!(parse("nonsense"), None);
        let thread = |id: u64, name: &str| (id, name.to_owned());
        let before = BTreeMap::from([(thread(1, "a"), 5.0)]);
        let after = BTreeMap::from([(thread(1, "a"), 5.5), (thread(2, "b"), 3.0)]);
        assert_eq!(listed(&before, &after), "3.00 b 2\n0.50 a 1\n");
    }
}
