//! The line to an API server, which can be disturbed: watches that hear nothing any more, lists that stand still or come slowly. Nobody says a word of it.

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::BodyExt;
use sandbox::api::{ApiServer, Identity};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower::{BoxError, ServiceExt};

/// What happens to requests of one kind of object, named as in paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disturbance {
    /// Watches say nothing any more, not even that they are over; what they would have said is lost.
    DeafWatches(&'static str),
    /// Watches are never answered.
    Unopened(&'static str),
    /// Lists begin to be answered and stand still.
    HalfLists(&'static str),
    /// Lists come in pieces, one each ten seconds.
    SlowLists(&'static str),
    /// Single objects are never answered.
    UnansweredReads(&'static str),
}

#[derive(Debug, Default)]
struct State {
    present: BTreeSet<Disturbance>,
}

/// The line; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Lines(Arc<Mutex<State>>);

impl Lines {
    /// From now on.
    pub fn disturb(&self, disturbance: Disturbance) {
        self.0.lock().unwrap().present.insert(disturbance);
    }

    /// Everything that is asked for from now on is answered as usual.
    pub fn mend(&self) {
        self.0.lock().unwrap().present.clear();
    }

    fn has(&self, disturbance: Disturbance) -> bool {
        self.0.lock().unwrap().present.contains(&disturbance)
    }

    /// A client of this user over the line.
    pub fn client(&self, api: &ApiServer, user: &str) -> kube::Client {
        let (lines, server) = (self.clone(), api.service(Identity::new(user, &["system:masters"])));
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (lines, server) = (lines.clone(), server.clone());
            async move { lines.carry(server, request).await }
        });
        kube::Client::new(service, "default")
    }

    async fn carry<S, B>(self, server: S, request: Request<kube::client::Body>) -> Result<Response<Body>, BoxError>
    where
        S: tower::Service<Request<kube::client::Body>, Response = Response<B>, Error = BoxError>,
        B: HttpBody<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        let Some(asked) = Asked::of(&request) else {
            return Ok(server.oneshot(request).await?.map(Body::new));
        };
        let unanswered = match asked.what {
            What::Watch => Disturbance::Unopened(asked.kind),
            What::One => Disturbance::UnansweredReads(asked.kind),
            What::List => return self.list(server.oneshot(request).await?, asked.kind).await,
        };
        if self.has(unanswered) {
            return std::future::pending().await;
        }
        let answer = server.oneshot(request).await?;
        if asked.what == What::One {
            return Ok(answer.map(Body::new));
        }
        let deaf = Disturbance::DeafWatches(asked.kind);
        Ok(answer.map(|body| Body::from_stream(self.until_deaf(body, deaf))))
    }

    /// The pieces of a watch, each until it is deaf when it comes; then none, and no end.
    fn until_deaf<B>(self, body: B, deaf: Disturbance) -> impl futures::Stream<Item = Result<Bytes, Infallible>>
    where
        B: HttpBody<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        let pieces = Box::pin(Body::new(body).into_data_stream());
        stream::unfold((self, pieces), move |(lines, mut pieces)| async move {
            let piece = pieces.next().await;
            if lines.has(deaf) {
                return std::future::pending().await;
            }
            Some((Ok(piece?.unwrap()), (lines, pieces)))
        })
    }

    async fn list<B>(self, answer: Response<B>, kind: &'static str) -> Result<Response<Body>, BoxError>
    where
        B: HttpBody<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        let (head, body) = answer.into_parts();
        let whole = body.collect().await?.to_bytes();
        let cut = |bytes: &Bytes| Ok::<_, Infallible>(bytes.slice(..bytes.len() / 2));
        let body = if self.has(Disturbance::HalfLists(kind)) {
            Body::from_stream(stream::iter([cut(&whole)]).chain(stream::pending()))
        } else if self.has(Disturbance::SlowLists(kind)) {
            let size = whole.len().div_ceil(12).max(1);
            let pieces: Vec<Bytes> = whole.chunks(size).map(Bytes::copy_from_slice).collect();
            Body::from_stream(stream::iter(pieces).then(|piece| async move {
                tokio::time::sleep(Duration::from_secs(10)).await;
                Ok::<_, Infallible>(piece)
            }))
        } else {
            Body::from(whole)
        };
        Ok(Response::from_parts(head, body))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Watch,
    List,
    One,
}

struct Asked {
    what: What,
    kind: &'static str,
}

impl Asked {
    /// A read of one of the kinds that are disturbed in tests.
    fn of(request: &Request<kube::client::Body>) -> Option<Self> {
        if request.method() != http::Method::GET {
            return None;
        }
        let kinds = ["pods", "nodeclaims"];
        let segments: Vec<&str> = request.uri().path().split('/').collect();
        let at = |kind: &&str| segments.iter().position(|segment| segment == kind);
        let (kind, place) = kinds.iter().find_map(|kind| Some((*kind, at(kind)?)))?;
        let what = if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            What::Watch
        } else if place + 1 == segments.len() {
            What::List
        } else {
            What::One
        };
        Some(Self { what, kind })
    }
}
