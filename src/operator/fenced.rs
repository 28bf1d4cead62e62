//! The way to the platform, closed to changes while this process does not lead (architecture §3.5).
//!
//! The client of the platform tries again by itself, for minutes if need be; each try passes here, immediately before it is sent. A change that has
//! not left within the time of a write is dropped: a process that was frozen while it connected may find that another one leads. What has left may
//! wait for its answer for as long as the client likes, since cutting it off calls nothing back: a platform that takes longer than that for an order
//! would never be seen to accept one. Put around the transport by the wiring.

use crate::clock::within_while;
use crate::cloud::spot::{Departure, Transport, TransportError};
use crate::k8s::leadership::Leadership;
use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response};
use std::sync::Arc;

/// A transport under a leadership.
pub(super) struct Fenced {
    inner: Arc<dyn Transport>,
    leadership: Leadership,
}

/// This process may not change anything.
#[derive(Debug, thiserror::Error)]
#[error("this process does not lead")]
struct NotLeading;

impl Fenced {
    pub(super) fn new(inner: Arc<dyn Transport>, leadership: Leadership) -> Self {
        Self { inner, leadership }
    }
}

/// Logging in changes nothing that others could mind.
fn changes_something(request: &Request<Bytes>) -> bool {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    !reads && !request.uri().path().ends_with("/oauth/token")
}

#[async_trait]
impl Transport for Fenced {
    async fn send(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        if !changes_something(&request) {
            return self.inner.send(request).await;
        }
        let Some(writing) = self.leadership.begin_write() else {
            return Err(TransportError::NotSent(NotLeading.into()));
        };
        let departure = Departure::default();
        request.extensions_mut().insert(departure.clone());
        let limit = self.leadership.write_timeout();
        let outcome = within_while(limit, || !departure.has_left(), self.inner.send(request))
            .await
            // it may have been leaving at that very moment
            .unwrap_or(Err(TransportError::TimedOut(limit)));
        let clear = match &outcome {
            // a server in trouble may have done it all the same
            Ok(answer) => !answer.status().is_server_error(),
            Err(error) => !error.may_have_taken_effect(),
        };
        if clear {
            writing.answered();
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::spot::{ConnectionSettings, HttpTransport, ServiceTransport};
    use crate::k8s::election::Terms;
    use axum::body::Body;
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};
    use std::sync::Mutex;
    use std::time::Duration;
    use tokio::time::Instant;

    fn platform(status: u16) -> Arc<dyn Transport> {
        let service =
            tower::service_fn(
                move |_: Request<Body>| async move { Response::builder().status(status).body(Body::empty()) },
            );
        Arc::new(ServiceTransport::<_, Body>::new(service))
    }

    fn request(method: &str, path: &str) -> Request<Bytes> {
        Request::builder().method(method).uri(path).body(Bytes::new()).unwrap()
    }

    // architecture §3.5
    #[tokio::test(start_paused = true)]
    async fn who_does_not_lead_may_read_and_log_in_and_nothing_else() {
        let (keeper, leadership) = Leadership::kept();
        let way = Fenced::new(platform(200), leadership);
        for (method, path) in [("GET", "/apis/pools"), ("POST", "/oauth/token")] {
            assert!(way.send(request(method, path)).await.is_ok(), "{method}");
        }
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let error = way.send(request(method, "/apis/pools/a")).await.unwrap_err();
            assert!(!error.may_have_taken_effect(), "{method}: {error}");
        }
        keeper.hold_until(Instant::now() + Duration::from_secs(10));
        assert!(way.send(request("POST", "/apis/pools")).await.is_ok());
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(way.send(request("POST", "/apis/pools")).await.is_err());
    }

    // architecture §7.18
    #[tokio::test(start_paused = true)]
    async fn an_order_whose_outcome_is_unclear_keeps_the_lease_from_being_given_back() {
        let within = Duration::from_secs(15);
        for (status, open) in [(201, false), (422, false), (500, true)] {
            let (keeper, leadership) = Leadership::kept();
            keeper.hold_until(Instant::now() + Duration::from_secs(10));
            let way = Fenced::new(platform(status), leadership);
            way.send(request("POST", "/apis/pools")).await.unwrap();
            assert_eq!(keeper.has_open_writes(within), open, "{status}");
        }
    }

    /// How long a write may take to leave, where real sockets are open.
    const LIMIT: Duration = Duration::from_millis(300);

    /// The way over the network of a process that leads.
    fn network() -> Fenced {
        let settings = ConnectionSettings {
            request_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(20),
            most_idle: 1,
        };
        let (keeper, leadership) = Leadership::kept_on(&Terms {
            write_timeout: LIMIT,
            ..Terms::default()
        });
        keeper.hold_until(Instant::now() + Duration::from_mins(1));
        Fenced::new(Arc::new(HttpTransport::new(settings).unwrap()), leadership)
    }

    /// A server that answers each connection's first request after a while; yields where it is, and what it was sent.
    fn server(pause: Duration) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, heard) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let hearing = Arc::clone(&heard);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let (mut connection, mut bytes) = (connection.unwrap(), [0; 4096]);
                let count = connection.read(&mut bytes).unwrap_or(0);
                if count == 0 {
                    continue;
                }
                hearing
                    .lock()
                    .unwrap()
                    .push(String::from_utf8_lossy(&bytes[..count]).to_lowercase());
                std::thread::sleep(pause);
                let _ = connection.write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        });
        (address, heard)
    }

    /// Stops the whole runtime for longer than the limit, as SIGSTOP does a process.
    fn frost() {
        std::thread::sleep(LIMIT * 2);
    }

    // architecture §3.5
    #[tokio::test]
    async fn a_holder_that_is_frozen_while_it_connects_sends_nothing_when_it_wakes() {
        for method in ["POST", "DELETE"] {
            let (address, heard) = server(Duration::ZERO);
            let way = network();
            let request = request(method, &format!("http://{address}/apis/pools"));
            let (outcome, ()) = tokio::join!(biased; way.send(request), async { frost() });
            assert!(
                matches!(outcome, Err(TransportError::TimedOut(LIMIT))),
                "{method}: {outcome:?}"
            );
            tokio::time::sleep(LIMIT).await;
            assert!(heard.lock().unwrap().is_empty(), "{method} was sent after the frost");
        }
    }

    // architecture §3.5
    #[tokio::test]
    async fn a_change_that_does_not_get_a_connection_in_the_time_of_a_write_is_given_up() {
        // it never says a word, and no TLS connection comes about
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let way = network();
        let url = format!("https://{}/apis/pools/a", silent.local_addr().unwrap());
        let started = Instant::now();
        let outcome = way.send(request("DELETE", &url)).await;
        assert!(matches!(outcome, Err(TransportError::TimedOut(LIMIT))), "{outcome:?}");
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    }

    // architecture §3.5
    #[tokio::test]
    async fn what_has_left_may_wait_for_an_answer_that_takes_longer_than_a_write_may() {
        for (method, body) in [("POST", "{}"), ("DELETE", "")] {
            let (address, heard) = server(LIMIT * 3);
            let url = format!("http://{address}/apis/pools");
            let mut sent = request(method, &url);
            *sent.body_mut() = Bytes::from(body);
            let answer = network().send(sent).await.unwrap();
            assert_eq!(answer.status(), 201, "{method}");
            let heard = heard.lock().unwrap();
            assert_eq!(heard.len(), 1, "{method}");
            // the same bytes as without anybody who asks when they leave
            assert!(!heard[0].contains("transfer-encoding"), "{}", heard[0]);
            assert_eq!(heard[0].contains("content-length: 2"), method == "POST", "{}", heard[0]);
        }
    }
}
