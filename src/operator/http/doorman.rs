//! Keeps clients of the servers from using up the process: only so many at once, and none that stands still.
//!
//! Anybody in the cluster reaches these ports. A client that asks for the metrics and does not take them would hold a version of the state for ever, and
//! thousands of them the runtime that renews the lease.

use axum::serve::Listener;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;

/// What clients may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Connections at once; the kernel keeps the others waiting.
    pub(super) connections: usize,
    /// A connection on which nothing is asked for this long is closed. Longer than the interval of usual scrapes.
    pub(super) idle: Duration,
    /// A client that takes nothing of its answer for this long is gone.
    pub(super) stuck: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 64,
            idle: Duration::from_secs(90),
            stuck: Duration::from_secs(20),
        }
    }
}

/// A listener with bounds.
#[derive(Debug)]
pub(super) struct Doorman {
    listener: TcpListener,
    places: Arc<Semaphore>,
    bounds: Bounds,
}

impl Doorman {
    pub(super) fn new(listener: TcpListener, bounds: Bounds) -> Self {
        Self {
            listener,
            places: Arc::new(Semaphore::new(bounds.connections)),
            bounds,
        }
    }
}

impl Listener for Doorman {
    type Io = Guest;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guest, SocketAddr) {
        // nobody closes the semaphore; without a place the guest would only not be counted
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let mut stream = TimeoutStream::new(stream);
        stream.set_read_timeout(Some(self.bounds.idle));
        stream.set_write_timeout(Some(self.bounds.stuck));
        let guest = Guest {
            stream: Box::pin(stream),
            _place: place,
        };
        (guest, address)
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One connection, and its place.
#[derive(Debug)]
pub(super) struct Guest {
    stream: Pin<Box<TimeoutStream<TcpStream>>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl AsyncRead for Guest {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        self.stream.as_mut().poll_read(cx, buf)
    }
}

impl AsyncWrite for Guest {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        self.stream.as_mut().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.stream.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.stream.as_mut().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        self.stream.as_mut().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use bytes::Bytes;
    use futures::stream;
    use std::convert::Infallible;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    const SOON: Duration = Duration::from_millis(200);
    /// A limit against hanging, never waited for.
    const EVER: Duration = Duration::from_secs(30);

    async fn serving(bounds: Bounds) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let endless = || async {
            let part = Bytes::from(vec![b'x'; 64 * 1024]);
            Body::from_stream(stream::repeat(Ok::<_, Infallible>(part)))
        };
        let router = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/endless", get(endless));
        tokio::spawn(async move { axum::serve(Doorman::new(listener, bounds), router).await });
        address
    }

    async fn ask(address: SocketAddr, path: &str) -> TcpStream {
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        client
    }

    async fn is_served(address: SocketAddr) {
        let mut answer = String::new();
        let mut client = ask(address, "/").await;
        let read = client.read_to_string(&mut answer);
        tokio::time::timeout(EVER, read).await.unwrap().unwrap();
        assert!(answer.ends_with("here"), "{answer}");
    }

    #[tokio::test]
    async fn clients_that_say_nothing_or_take_nothing_make_room_for_others() {
        let bounds = Bounds {
            connections: 2,
            idle: SOON,
            stuck: SOON,
        };
        let address = serving(bounds).await;
        let silent = TcpStream::connect(address).await.unwrap();
        let never_reads = ask(address, "/endless").await;
        is_served(address).await;
        drop((silent, never_reads));
    }

    #[tokio::test]
    async fn a_client_too_many_waits_until_another_has_gone() {
        let bounds = Bounds {
            connections: 1,
            idle: EVER,
            stuck: EVER,
        };
        let address = serving(bounds).await;
        let first = TcpStream::connect(address).await.unwrap();
        // the first is known to be in: its answer came, and it stays
        let mut first = tokio::time::timeout(EVER, async {
            let mut first = first;
            first.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut answer = [0; 12];
            first.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
            first
        })
        .await
        .unwrap();
        let mut second = ask(address, "/").await;
        let mut byte = [0];
        let early = tokio::time::timeout(SOON, second.read_exact(&mut byte)).await;
        assert!(early.is_err(), "the second is not served beside the first");
        first.shutdown().await.unwrap();
        drop(first);
        tokio::time::timeout(EVER, second.read_exact(&mut byte))
            .await
            .unwrap()
            .unwrap();
    }
}
