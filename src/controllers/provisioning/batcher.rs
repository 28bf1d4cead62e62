//! Gathers pods that come together into one pass (scheduling 1-3).
//!
//! A window opens with the first trigger and closes after the idle time without a *new* one, at the latest after the longest time. The same pod
//! triggering again prolongs nothing. The state is pure; [`Batcher::window`] puts it on the tokio clock.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a window may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// It closes after this long without a new trigger.
    pub idle: Duration,
    /// It never lasts longer.
    pub longest: Duration,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(1),
            longest: Duration::from_secs(10),
        }
    }
}

/// When an open window closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Open {
    opened: Instant,
    last: Instant,
}

impl Open {
    fn at(now: Instant) -> Self {
        Self { opened: now, last: now }
    }

    fn closes(self, windows: Windows) -> Instant {
        (self.last + windows.idle).min(self.opened + windows.longest)
    }
}

#[derive(Debug, Default)]
struct Seen {
    elements: BTreeSet<Arc<str>>,
}

/// The batcher; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Batcher {
    seen: Arc<Mutex<Seen>>,
    signal: Arc<Notify>,
}

impl Batcher {
    /// A pod or node (by UID) asks for a pass. One that is in the window already is ignored.
    pub fn trigger(&self, element: &str) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.elements.insert(element.into()) {
            // one slot: a second signal before the first is taken says no more
            self.signal.notify_one();
        }
    }

    /// Waits for the first trigger and then for the end of its window.
    pub async fn window(&self, windows: Windows) {
        self.signal.notified().await;
        let mut open = Open::at(Instant::now());
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(open.closes(windows)) => break,
                () = self.signal.notified() => open.last = Instant::now(),
            }
        }
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .elements
            .clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    async fn length_of_window(batcher: &Batcher) -> Duration {
        let started = Instant::now();
        batcher.window(Windows::default()).await;
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_closes_a_second_after_its_last_new_pod() {
        let batcher = Batcher::default();
        batcher.trigger("a");
        let again = batcher.clone();
        tokio::spawn(async move {
            sleep(Duration::from_millis(700)).await;
            again.trigger("b");
            sleep(Duration::from_millis(700)).await;
            again.trigger("a");
        });
        assert_eq!(length_of_window(&batcher).await, Duration::from_millis(1700));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_new_pods_cannot_keep_a_window_open_beyond_its_longest_time() {
        let batcher = Batcher::default();
        let stream = batcher.clone();
        tokio::spawn(async move {
            for pod in 0..100 {
                stream.trigger(&pod.to_string());
                sleep(Duration::from_millis(500)).await;
            }
        });
        assert_eq!(length_of_window(&batcher).await, Duration::from_secs(10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_triggers_again_in_the_next_window() {
        let batcher = Batcher::default();
        batcher.trigger("a");
        length_of_window(&batcher).await;
        batcher.trigger("a");
        assert_eq!(length_of_window(&batcher).await, Duration::from_secs(1));
    }
}
