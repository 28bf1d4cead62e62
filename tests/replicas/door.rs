//! A door that one operator has to pass to get anywhere: it writes down who changes what, and can spring a trap at the n-th write.
//!
//! Each operator gets a door of its own to Kubernetes and one to the platform, so that one knows by the door who wrote, whatever the credentials.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, StatusCode, header};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::SetOnce;
use tower::ServiceExt as _;

/// What a door leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Kubernetes,
    Spot,
}

/// On which side of the n-th write something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Nothing was done yet.
    Before,
    /// It is done, and the answer not sent.
    After,
}

/// What becomes of the request at which a trap was sprung.
#[derive(Debug, Clone)]
pub enum Then {
    /// It is never answered; before the write, nothing is done either.
    Vanish,
    /// It goes on.
    GoOn,
    /// It has left its sender and arrives only when somebody lets it, whoever waits for its answer by then.
    Late(Held),
}

/// A request on its way.
#[derive(Debug, Clone, Default)]
pub struct Held(Arc<HeldState>);

#[derive(Debug, Default)]
struct HeldState {
    what: SetOnce<String>,
    let_go: SetOnce<()>,
    answer: SetOnce<u16>,
}

#[allow(dead_code, reason = "not every test that has doors holds requests back")]
impl Held {
    /// Its method and path, when there is one.
    pub async fn what(&self) -> String {
        self.0.what.wait().await.clone()
    }

    /// Lets it arrive, and waits for the code of the answer.
    pub async fn arrive(&self) -> u16 {
        let _ = self.0.let_go.set(());
        *self.0.answer.wait().await
    }

    /// What becomes of it does not depend on who waits.
    async fn pass(self, what: String, beyond: Beyond, request: Request) -> Response {
        let passing = tokio::spawn(async move {
            let _ = self.0.what.set(what);
            self.0.let_go.wait().await;
            let answer = beyond(request).await;
            let _ = self.0.answer.set(answer.status().as_u16());
            answer
        });
        passing.await.unwrap()
    }
}

/// Something that happens at the n-th write.
pub struct Trap {
    pub side: Side,
    /// Only writes with this in their method and path count; all do if it is empty.
    pub of: &'static str,
    pub point: Point,
    pub nth: usize,
    pub then: Then,
    pub spring: Box<dyn FnOnce() + Send>,
}

/// A write that came to a door.
#[derive(Debug, Clone)]
pub struct Write {
    pub side: Side,
    pub what: String,
}

/// All doors of one operator.
#[derive(Clone)]
pub struct Doors {
    shared: Arc<Shared>,
    pub kubernetes: SocketAddr,
    pub spot: SocketAddr,
}

#[derive(Default)]
struct Shared {
    writes: Mutex<Vec<Write>>,
    trap: Mutex<Option<Trap>>,
}

type Beyond = Arc<dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync>;

#[derive(Clone)]
struct Door {
    side: Side,
    shared: Arc<Shared>,
    beyond: Beyond,
}

impl Doors {
    /// Doors to a cluster and a platform.
    pub async fn open(kubernetes: kube::Client, spot: Router) -> Self {
        let shared = Arc::<Shared>::default();
        let to_kubernetes: Beyond = Arc::new(move |request| pass_on(kubernetes.clone(), request).boxed());
        let to_spot: Beyond = Arc::new(move |request| {
            let spot = spot.clone();
            async move { spot.oneshot(request).await.into_response() }.boxed()
        });
        Self {
            kubernetes: listen(Side::Kubernetes, to_kubernetes, &shared).await,
            spot: listen(Side::Spot, to_spot, &shared).await,
            shared,
        }
    }

    /// Sets the trap.
    pub fn set(&self, trap: Trap) {
        *self.shared.trap.lock().unwrap() = Some(trap);
    }

    /// All writes so far. Leases and Events are no writes in this sense: nothing follows from them.
    pub fn writes(&self) -> Vec<Write> {
        self.shared.writes.lock().unwrap().clone()
    }
}

async fn listen(side: Side, beyond: Beyond, shared: &Arc<Shared>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let door = Door {
        side,
        shared: Arc::clone(shared),
        beyond,
    };
    let router = Router::new().fallback(pass).with_state(door);
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Hands a request to the API server, under the credentials of the client and as a stream, since a watch does not end.
async fn pass_on(client: kube::Client, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    for name in [header::AUTHORIZATION, header::HOST, header::ACCEPT_ENCODING] {
        parts.headers.remove(name);
    }
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    parts.uri = path.parse().unwrap();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let request = Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
    match client.send(request).await {
        Ok(answer) => answer.map(Body::new),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

fn is_write(side: Side, method: &Method, path: &str) -> bool {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
    let idle = match side {
        Side::Kubernetes => path.contains("/leases") || path.contains("/events"),
        Side::Spot => path.ends_with("/oauth/token"),
    };
    !reads && !idle
}

impl Shared {
    /// Writes a write down; yields the trap if it is the one.
    fn note(&self, side: Side, what: String) -> Option<Trap> {
        let mut writes = self.writes.lock().unwrap();
        writes.push(Write { side, what });
        let mut trap = self.trap.lock().unwrap();
        let of = trap.as_ref().filter(|trap| trap.side == side)?.of;
        let count = writes
            .iter()
            .filter(|write| write.side == side && write.what.contains(of))
            .count();
        let it = writes.last().is_some_and(|write| write.what.contains(of));
        trap.take_if(|trap| it && trap.nth == count)
    }
}

async fn pass(State(door): State<Door>, request: Request) -> Response {
    if !is_write(door.side, request.method(), request.uri().path()) {
        return (door.beyond)(request).await;
    }
    let what = format!("{} {}", request.method(), request.uri().path());
    let Some(trap) = door.shared.note(door.side, what.clone()) else {
        return (door.beyond)(request).await;
    };
    if let Then::Late(held) = trap.then {
        // received as long as its sender is there to send it
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
        spring(trap.spring).await;
        let request = Request::from_parts(parts, Body::from(body));
        return held.pass(what, Arc::clone(&door.beyond), request).await;
    }
    if trap.point == Point::Before {
        spring(trap.spring).await;
        return match trap.then {
            Then::Vanish => std::future::pending().await,
            Then::GoOn | Then::Late(_) => (door.beyond)(request).await,
        };
    }
    let answer = (door.beyond)(request).await;
    spring(trap.spring).await;
    match trap.then {
        Then::Vanish => std::future::pending().await,
        Then::GoOn | Then::Late(_) => answer,
    }
}

/// It may wait for a program that it starts.
async fn spring(spring: Box<dyn FnOnce() + Send>) {
    tokio::task::spawn_blocking(spring).await.unwrap();
}
