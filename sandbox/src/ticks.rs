//! A number that moves, and those who wait for it, woken in the order in which they began to wait.
//!
//! tokio's own watch channel spreads its waiters over several lists by chance, so who is woken first differs from run to run; a world must replay.
//! Called by the stores, which tell watchers that something happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;

#[derive(Debug, Default)]
struct Inner {
    value: AtomicU64,
    closed: AtomicBool,
    waiting: Notify,
}

/// Moves the number; when it is dropped, nothing moves any more.
#[derive(Debug)]
pub struct Ticks(Arc<Inner>);

/// Waits for the number to move; cheap to clone.
#[derive(Debug, Clone)]
pub struct Moved {
    inner: Arc<Inner>,
    seen: u64,
}

/// The number will not move again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nothing moves here any more")]
pub struct Ended;

impl Ticks {
    /// A number to begin with.
    pub fn new(value: u64) -> Self {
        let inner = Inner {
            value: AtomicU64::new(value),
            ..Inner::default()
        };
        Self(Arc::new(inner))
    }

    /// Sets the number and wakes all who wait.
    pub fn set(&self, value: u64) {
        if self.0.value.swap(value, Ordering::SeqCst) != value {
            self.0.waiting.notify_waiters();
        }
    }

    /// Somebody who has seen the present number.
    pub fn subscribe(&self) -> Moved {
        Moved {
            seen: self.0.value.load(Ordering::SeqCst),
            inner: Arc::clone(&self.0),
        }
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::SeqCst);
        self.0.waiting.notify_waiters();
    }
}

impl Moved {
    /// Takes note of the present number: only later ones count as moved.
    pub fn note(&mut self) {
        self.seen = self.inner.value.load(Ordering::SeqCst);
    }

    /// Waits until the number is another one than the last noted, and notes it.
    ///
    /// # Errors
    /// It will not move again.
    pub async fn changed(&mut self) -> Result<(), Ended> {
        loop {
            let mut waiting = std::pin::pin!(self.inner.waiting.notified());
            // in line before the look, so that nothing is missed in between
            waiting.as_mut().enable();
            let value = self.inner.value.load(Ordering::SeqCst);
            if value != self.seen {
                self.seen = value;
                return Ok(());
            }
            if self.inner.closed.load(Ordering::SeqCst) {
                return Err(Ended);
            }
            waiting.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[tokio::test]
    async fn who_waits_first_is_woken_first() {
        let (ticks, order) = (Ticks::new(0), Arc::new(Mutex::new(Vec::new())));
        let mut tasks = Vec::new();
        for name in 0..50 {
            let (mut moved, order) = (ticks.subscribe(), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                moved.changed().await.unwrap();
                order.lock().unwrap().push(name);
            }));
        }
        tokio::task::yield_now().await;
        ticks.set(1);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_move_that_came_before_the_wait_is_not_missed_and_the_end_is_told() {
        let ticks = Ticks::new(1);
        let mut moved = ticks.subscribe();
        ticks.set(2);
        assert_eq!(moved.changed().await, Ok(()));
        drop(ticks);
        assert_eq!(moved.changed().await, Err(Ended));
    }
}
