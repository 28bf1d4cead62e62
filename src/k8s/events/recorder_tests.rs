use super::super::{EventType, Involved, Window};
use super::*;
use crate::clock::TokioClock;
use crate::k8s::client::Limits;
use http::{Request as HttpRequest, Response};
use kube::client::Body;
use std::collections::VecDeque;

type Seen = Arc<Mutex<Vec<(String, String, Value)>>>;

/// A server that notes each request and answers with the given codes, then with 201.
fn server(codes: &[u16]) -> (ApiClient, Seen) {
    let seen: Seen = Arc::default();
    let codes = Arc::new(Mutex::new(VecDeque::from(codes.to_vec())));
    let noted = Arc::clone(&seen);
    let service = tower::service_fn(move |request: HttpRequest<Body>| {
        let (noted, codes) = (Arc::clone(&noted), Arc::clone(&codes));
        async move {
            let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
            let body = http_body_util::BodyExt::collect(request.into_body()).await?.to_bytes();
            noted
                .lock()
                .unwrap()
                .push((method, path, serde_json::from_slice(&body).unwrap_or_default()));
            let code = codes.lock().unwrap().pop_front().unwrap_or(201);
            let answer = json!({ "kind": "Status", "status": if code < 300 { "Success" } else { "Failure" }, "code": code,
                "reason": if code == 404 { "NotFound" } else { "" }, "message": "" });
            Ok::<_, tower::BoxError>(
                Response::builder()
                    .status(code)
                    .body(Body::from(answer.to_string().into_bytes()))?,
            )
        }
    });
    let metrics = BorderMetrics::detached().unwrap();
    (
        ApiClient::over(kube::Client::new(service, "default"), Limits::default(), metrics),
        seen,
    )
}

fn start(codes: &[u16]) -> (Recorder, Seen, BorderMetrics) {
    let (client, seen) = server(codes);
    let metrics = BorderMetrics::detached().unwrap();
    let clock = Arc::new(TokioClock::starting_at(
        DateTime::from_timestamp(1_700_000_000, 0).unwrap(),
    ));
    let (recorder, task) = RecorderTask::new(client, clock, metrics.clone());
    tokio::spawn(task.run(CancellationToken::new()));
    (recorder, seen, metrics)
}

fn event(namespace: &str, message: &str) -> Event {
    let involved = Involved {
        api_version: "karpenter.sh/v1".into(),
        kind: "NodeClaim".into(),
        namespace: namespace.into(),
        name: "claim".into(),
        uid: "u".into(),
    };
    Event::new(EventType::Warning, "InsufficientCapacityError", involved, message).deduped_by(["u", message])
}

async fn settle() {
    tokio::time::sleep(Duration::from_secs(30)).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_of_a_cluster_scoped_object_goes_to_the_default_namespace_as_upstream_writes_it() {
    // surface §4.1
    let (recorder, seen, _) = start(&[]);
    recorder.publish(event("", "no"));
    settle().await;
    let seen = seen.lock().unwrap();
    let (method, path, body) = &seen[0];
    assert_eq!(
        (method.as_str(), path.as_str()),
        ("POST", "/api/v1/namespaces/default/events")
    );
    assert_eq!(body["source"]["component"], "karpenter");
    assert_eq!(body["reportingComponent"], "karpenter");
    assert_eq!(
        (&body["type"], &body["reason"], &body["message"]),
        (&json!("Warning"), &json!("InsufficientCapacityError"), &json!("no"))
    );
    assert_eq!(
        (&body["count"], &body["firstTimestamp"]),
        (&json!(1), &json!("2023-11-14T22:13:20Z"))
    );
    assert_eq!(
        body["involvedObject"],
        json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "claim", "uid": "u" })
    );
    serde_json::from_value::<ApiEvent>(body.clone()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_same_again_after_its_window_is_counted_on_the_same_event() {
    let (recorder, seen, _) = start(&[]);
    recorder.publish(event("ns", "no"));
    recorder.publish(event("ns", "no"));
    tokio::time::sleep(Duration::from_mins(3)).await;
    recorder.publish(event("ns", "no"));
    settle().await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1].0, "PATCH");
    let name = seen[0].2["metadata"]["name"].as_str().unwrap();
    assert_eq!(seen[1].1, format!("/api/v1/namespaces/ns/events/{name}"));
    assert_eq!(seen[1].2["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_expired_at_the_server_is_created_anew() {
    let (recorder, seen, _) = start(&[201, 404]);
    let each = event("ns", "no").within(Window::None);
    recorder.publish(each.clone());
    recorder.publish(each);
    settle().await;
    let methods: Vec<String> = seen.lock().unwrap().iter().map(|(method, ..)| method.clone()).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_for_a_moment_loses_nothing_and_one_that_refuses_is_not_asked_again() {
    let (recorder, seen, metrics) = start(&[503, 500, 201, 403]);
    recorder.publish(event("ns", "first"));
    recorder.publish(event("ns", "second"));
    settle().await;
    assert_eq!(seen.lock().unwrap().len(), 4);
    assert_eq!(metrics.events_dropped.with_label_values(&["refused"]).get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts_and_never_waits() {
    let (client, _) = server(&[]);
    let metrics = BorderMetrics::detached().unwrap();
    let clock = Arc::new(TokioClock::starting_at(DateTime::UNIX_EPOCH));
    let (recorder, _task) = RecorderTask::new(client, clock, metrics.clone());
    for number in 0..QUEUE + 5 {
        recorder.publish(event("ns", &number.to_string()));
    }
    assert_eq!(metrics.events_dropped.with_label_values(&["queue_full"]).get(), 5);
    assert_eq!(metrics.events_queued.get(), i64::try_from(QUEUE).unwrap());
}

#[test]
fn a_message_that_has_no_end_is_cut_and_says_so() {
    let (recorder, mut told) = Recorder::recording();
    for length in [8 * 1024, 100_000] {
        recorder.publish(event("", &"é".repeat(length / 2)));
    }
    let told = told.take();
    assert_eq!(told[0].message.len(), 8 * 1024, "what is long enough stays as it is");
    assert_eq!(told[1].message.len(), 8 * 1024 + "… and 91808 more bytes".len());
    assert!(
        told[1].message.ends_with("é… and 91808 more bytes"),
        "{}",
        &told[1].message[8_180..]
    );
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn an_event_without_an_answer_in_the_time_of_a_write_is_cut_off_and_sent_again_under_its_name() {
    let seen: Arc<Mutex<Vec<(Duration, Value)>>> = Arc::default();
    let (noted, started) = (Arc::clone(&seen), Instant::now());
    let service = tower::service_fn(move |request: HttpRequest<Body>| {
        let noted = Arc::clone(&noted);
        async move {
            let body = http_body_util::BodyExt::collect(request.into_body()).await?.to_bytes();
            let body: Value = serde_json::from_slice(&body)?;
            let first = {
                let mut noted = noted.lock().unwrap();
                noted.push((started.elapsed(), body["metadata"]["name"].clone()));
                noted.len() == 1
            };
            if first {
                std::future::pending::<()>().await;
            }
            Ok::<_, tower::BoxError>(Response::builder().status(201).body(Body::from(b"{}".to_vec()))?)
        }
    });
    let metrics = BorderMetrics::detached().unwrap();
    let client = ApiClient::over(
        kube::Client::new(service, "default"),
        Limits::default(),
        metrics.clone(),
    );
    let clock = Arc::new(TokioClock::starting_at(DateTime::UNIX_EPOCH));
    let (recorder, task) = RecorderTask::new(client, clock, metrics);
    tokio::spawn(task.run(CancellationToken::new()));
    recorder.publish(event("", "hello"));
    tokio::time::sleep(Duration::from_mins(1)).await;
    let seen = seen.lock().unwrap().clone();
    let write = Leadership::always().write_timeout();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!(seen[1], (write + FIRST_PAUSE, seen[0].1.clone()));
}
