//! How long the answer to a read may stand still.
//!
//! A list of many objects over a slow line may take minutes and is well as long as something comes; an answer of which nothing comes any more is over.
//! So the time between two pieces is limited, and only as a last resort the whole. The client puts an [`Attended`] around each body; watches pass
//! through it as they are, because the hub knows when the next bookmark is due.

use http_body::{Body, Frame, SizeHint};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use thiserror::Error;
use tokio::time::{Instant, Sleep, sleep_until};

/// A read of which nothing comes for this long, neither the head of the answer nor its next piece, is over.
pub(super) const STILL: Duration = Duration::from_secs(30);
/// No page takes longer, however steadily it trickles: five hundred objects have a few MiB.
pub(super) const WHOLE: Duration = Duration::from_mins(10);

/// The answer to a read stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum Standstill {
    /// Nothing came for too long.
    #[error("nothing came from the API server for {} s", STILL.as_secs())]
    Still,
    /// Something came all the time, and no end.
    #[error("the answer of the API server took more than {} s", WHOLE.as_secs())]
    Endless,
}

/// Told of each piece of a good answer: whoever waits for a long list can say that it goes on. Given with the request, as one of its extensions.
#[derive(Clone)]
pub(crate) struct Heard(Arc<dyn Fn() + Send + Sync>);

impl Heard {
    /// Calls this.
    pub(crate) fn new(call: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heard").finish_non_exhaustive()
    }
}

/// The limits of one answer, and who is told that it goes on.
struct Attention {
    still: Pin<Box<Sleep>>,
    end: Instant,
    heard: Option<Heard>,
}

/// A body whose standstill is an error.
pub(super) struct Attended<B> {
    body: B,
    /// None for what may be silent.
    attention: Option<Attention>,
}

impl<B> Attended<B> {
    /// A body that has to go on and to end.
    pub(super) fn new(body: B, heard: Option<Heard>) -> Self {
        let now = Instant::now();
        let attention = Attention {
            still: Box::pin(sleep_until(now + STILL)),
            end: now + WHOLE,
            heard,
        };
        Self {
            body,
            attention: Some(attention),
        }
    }

    /// A body that may be silent for as long as it likes.
    pub(super) fn silent(body: B) -> Self {
        Self { body, attention: None }
    }
}

impl Attention {
    /// Something came.
    fn note(&mut self) {
        let next = Instant::now() + STILL;
        self.still.as_mut().reset(next.min(self.end));
        if let Some(Heard(call)) = &self.heard {
            call();
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Standstill> {
        self.still.as_mut().poll(context).map(|()| {
            if Instant::now() >= self.end {
                Standstill::Endless
            } else {
                Standstill::Still
            }
        })
    }
}

impl<B> Body for Attended<B>
where
    B: Body + Unpin,
    B::Error: Into<tower::BoxError>,
{
    type Data = B::Data;
    type Error = tower::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(next) = Pin::new(&mut this.body).poll_frame(context) {
            if let (Some(Ok(_)), Some(attention)) = (&next, &mut this.attention) {
                attention.note();
            }
            return Poll::Ready(next.map(|frame| frame.map_err(Into::into)));
        }
        match &mut this.attention {
            None => Poll::Pending,
            Some(attention) => attention.poll(context).map(|standstill| Some(Err(standstill.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use futures::{StreamExt as _, stream};
    use http_body_util::{BodyExt as _, StreamBody};
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// So many pieces, each so long after the one before; then nothing, for ever.
    fn pieces(count: usize, every: Duration) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let some = stream::iter(0..count).then(move |_| async move {
            tokio::time::sleep(every).await;
            Ok(Frame::data(Bytes::from_static(b"x")))
        });
        StreamBody::new(Box::pin(some.chain(stream::pending())))
    }

    async fn standstill(body: impl Body<Data = Bytes, Error = Infallible> + Unpin) -> (Standstill, Duration) {
        let started = Instant::now();
        let error = Attended::new(body, None).collect().await.map(drop).unwrap_err();
        (*error.downcast::<Standstill>().unwrap(), started.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_of_which_nothing_comes_any_more_is_over() {
        assert_eq!(standstill(pieces(0, STILL)).await, (Standstill::Still, STILL));
        let every = Duration::from_secs(20);
        let expected = (Standstill::Still, every * 9 + STILL);
        assert_eq!(standstill(pieces(9, every)).await, expected, "each piece gives it time");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_trickles_without_end_is_over_too() {
        let endless = pieces(usize::MAX, Duration::from_secs(7));
        assert_eq!(standstill(endless).await, (Standstill::Endless, WHOLE));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_is_told_of_each_piece() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let heard = Heard::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let body = Attended::new(pieces(4, Duration::from_secs(1)), Some(heard));
        assert!(body.collect().await.is_err());
        assert_eq!(count.load(Ordering::Relaxed), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_be_silent_is_left_alone() {
        let mut watch = Attended::silent(pieces(1, Duration::from_hours(1)));
        let piece = watch.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(piece, "x");
    }
}
