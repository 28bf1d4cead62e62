//! The queue's handle and the loop that works it off.

use super::ending::last_moment;
use super::settings::{Mode, Next, QueueSettings, ReconcileError, Weight};
use super::span;
use super::state::{Added, Book};
use crate::k8s::bucket::TokenBucket;
use crate::k8s::metrics::{BorderMetrics, ReconcileResult};
use crate::k8s::watchdog::{Signs, Vital};
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// Works on one key: observe, decide, act, record.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// What names the work.
    type Key: Ord + Clone + fmt::Debug + Send + Sync + 'static;

    /// Looks at the key as it is now and does the next step. Called with no other call for the same key under way.
    async fn reconcile(&self, key: &Self::Key) -> Result<Next, ReconcileError>;
}

struct Shared<K> {
    settings: QueueSettings,
    metrics: BorderMetrics,
    bucket: Option<TokenBucket>,
    book: Mutex<Book<K>>,
    moved: Notify,
    works: AtomicBool,
}

/// The handle of a queue; cheap to clone. Adding never waits.
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("name", &self.shared.settings.name)
            .finish_non_exhaustive()
    }
}

impl<K: Ord + Clone + fmt::Debug + Send + Sync + 'static> Queue<K> {
    /// An empty queue; nothing is worked on before [`run`](Self::run).
    pub fn new(settings: QueueSettings, metrics: BorderMetrics) -> Self {
        let bucket = settings.back_off.rate.map(TokenBucket::new);
        let name = settings.name;
        // surface §5.7: the four results and the error counters are there from the start
        for result in ReconcileResult::ALL {
            metrics.reconciles.with_label_values(&[name, result.as_str()]);
        }
        metrics.reconcile_errors.with_label_values(&[name]);
        metrics.reconcile_terminal_errors.with_label_values(&[name]);
        metrics.reconcile_panics.with_label_values(&[name]);
        let workers = i64::try_from(settings.workers).unwrap_or(i64::MAX);
        metrics.max_workers.with_label_values(&[name]).set(workers);
        let book = Mutex::new(Book::new(settings.capacity));
        Self {
            shared: Arc::new(Shared {
                settings,
                metrics,
                bucket,
                book,
                moved: Notify::new(),
                works: AtomicBool::new(false),
            }),
        }
    }

    /// The controller's name.
    pub fn name(&self) -> &'static str {
        self.shared.settings.name
    }

    /// Adds a key now. Known keys are not added twice.
    pub fn add(&self, key: K) {
        let added = self.book().add(key, Instant::now());
        self.told(added);
    }

    /// Adds a key after a pause; of several pauses for one key the shortest counts.
    pub fn add_after(&self, key: K, pause: Duration) {
        if pause.is_zero() {
            return self.add(key);
        }
        let now = Instant::now();
        let at = now
            .checked_add(pause)
            .unwrap_or_else(|| now + Duration::from_hours(24 * 365));
        let added = self.book().add_at(key, at);
        if added == Added::Full {
            self.told(added);
        } else {
            self.shared.moved.notify_one();
        }
    }

    /// Keys that wait for a worker.
    pub fn depth(&self) -> usize {
        self.book().depth()
    }

    /// Keys that are worked on now.
    pub fn running(&self) -> usize {
        self.book().running()
    }

    /// What a watchdog looks at.
    pub fn vital(&self) -> Vital {
        let queue = self.clone();
        Vital::new(self.name(), move || queue.signs())
    }

    fn signs(&self) -> Option<Signs> {
        if !self.shared.works.load(Ordering::Relaxed) {
            return None;
        }
        let now = Instant::now();
        let book = self.book();
        // what became due and was not taken waits too
        let due = book.next_due().filter(|due| *due <= now);
        let since = |then: Option<Instant>| then.map(|then| now.duration_since(then)).unwrap_or_default();
        Some(Signs {
            running_for: since(book.running_since().min()),
            stuck_for: book.stuck_for(),
            running: book.running(),
            waiting_for: since(book.waiting_since().into_iter().chain(due).min()),
        })
    }

    fn book(&self) -> MutexGuard<'_, Book<K>> {
        self.shared.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(&self, added: Added) {
        let name = self.name();
        match added {
            Added::New => {
                self.shared.metrics.adds.with_label_values(&[name, name]).inc();
                self.show_depth();
                self.shared.moved.notify_one();
            }
            Added::Known => {}
            Added::Full => {
                self.shared.metrics.queue_full.with_label_values(&[name]).inc();
                tracing::warn!(controller = name, "work queue is full; key left to the next resync");
            }
        }
    }

    fn show_depth(&self) {
        let depth = i64::try_from(self.depth()).unwrap_or(i64::MAX);
        self.shared
            .metrics
            .depth
            .with_label_values(&[self.name(), self.name(), ""])
            .set(depth);
        let delayed = i64::try_from(self.book().delayed()).unwrap_or(i64::MAX);
        self.shared
            .metrics
            .delayed
            .with_label_values(&[self.name()])
            .set(delayed);
    }

    fn show_running(&self) {
        let name = self.name();
        let now = Instant::now();
        let (count, sum, longest) = {
            let book = self.book();
            let ages = book
                .running_since()
                .map(|since| now.duration_since(since).as_secs_f64());
            ages.fold((0_i64, 0.0_f64, 0.0_f64), |(n, sum, longest), age| {
                (n + 1, sum + age, longest.max(age))
            })
        };
        self.shared.metrics.active_workers.with_label_values(&[name]).set(count);
        self.shared
            .metrics
            .unfinished_seconds
            .with_label_values(&[name, name])
            .set(sum);
        self.shared
            .metrics
            .longest_seconds
            .with_label_values(&[name, name])
            .set(longest);
    }

    /// Works the queue off until `stop`; then takes no key any more, gives the running ones a last moment to end, and returns.
    pub async fn run<R: Reconciler<Key = K>>(self, reconciler: Arc<R>, stop: CancellationToken) {
        self.shared.works.store(true, Ordering::Relaxed);
        match self.shared.settings.mode {
            Mode::Spawned => self.run_spawned(reconciler, stop).await,
            Mode::Inline => self.run_inline(reconciler, stop).await,
        }
    }

    /// As many keys at a time as there are workers, all in this one task: a key that waits holds up no other, and a simulation replays.
    async fn run_inline<R: Reconciler<Key = K>>(self, reconciler: Arc<R>, stop: CancellationToken) {
        let mut running = FuturesUnordered::new();
        let mut last_moment = std::pin::pin!(last_moment(&stop));
        loop {
            while !stop.is_cancelled() && running.len() < self.shared.settings.workers {
                let Some(key) = self.take() else { break };
                let (reconciler, started, span) = (Arc::clone(&reconciler), Instant::now(), self.span(&key));
                let progress = self.book().progress_of(&key);
                running.push(async move {
                    let work = reconciler.reconcile(&key).instrument(span.clone());
                    let outcome = progress.follow(work).await;
                    (key, started, span, outcome)
                });
            }
            if stop.is_cancelled() && running.is_empty() {
                return;
            }
            tokio::select! {
                biased;
                Some((key, started, span, outcome)) = running.next() => {
                    span.in_scope(|| self.end(&key, started, outcome));
                }
                () = self.wait(&stop), if !stop.is_cancelled() => {}
                () = &mut last_moment => return,
            }
        }
    }

    async fn run_spawned<R: Reconciler<Key = K>>(self, reconciler: Arc<R>, stop: CancellationToken) {
        let mut tasks = JoinSet::new();
        let mut keys = std::collections::BTreeMap::new();
        let mut last_moment = std::pin::pin!(last_moment(&stop));
        loop {
            while !stop.is_cancelled() && tasks.len() < self.shared.settings.workers {
                let Some(key) = self.take() else { break };
                let (reconciler, owned, started) = (Arc::clone(&reconciler), key.clone(), Instant::now());
                let span = self.span(&key);
                let inside = span.clone();
                let progress = self.book().progress_of(&key);
                let work = async move { reconciler.reconcile(&owned).await }.instrument(inside);
                let handle = tasks.spawn(progress.follow(work));
                keys.insert(handle.id(), (key, started, span));
            }
            if stop.is_cancelled() && tasks.is_empty() {
                return;
            }
            tokio::select! {
                biased;
                Some(ended) = tasks.join_next_with_id() => {
                    let (id, outcome) = match ended {
                        Ok((id, outcome)) => (id, outcome),
                        Err(error) => (error.id(), Err(self.broken(error))),
                    };
                    if let Some((key, started, span)) = keys.remove(&id) {
                        span.in_scope(|| self.end(&key, started, outcome));
                    }
                }
                () = self.wait(&stop), if !stop.is_cancelled() => {}
                () = &mut last_moment => return,
            }
        }
    }

    fn span(&self, key: &K) -> tracing::Span {
        span::reconcile(self.name(), self.shared.settings.subject, &format!("{key:?}"))
    }

    /// A reconcile that panicked counts as one that failed: one defect on one object must not stop the rest.
    fn broken(&self, error: tokio::task::JoinError) -> ReconcileError {
        if error.is_panic() {
            self.shared
                .metrics
                .reconcile_panics
                .with_label_values(&[self.name()])
                .inc();
        }
        ReconcileError::new(error)
    }

    /// Waits until something may be ready, or the stop.
    async fn wait(&self, stop: &CancellationToken) {
        let due = self.book().next_due();
        let sleep = async {
            match due {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.shared.moved.notified() => {}
            () = sleep => {}
        }
    }

    fn take(&self) -> Option<K> {
        let name = self.name();
        let now = Instant::now();
        let (moved, taken) = {
            let mut book = self.book();
            (book.promote(now), book.take(now))
        };
        self.shared.metrics.adds.with_label_values(&[name, name]).inc_by(moved);
        let (key, waited) = taken?;
        self.shared
            .metrics
            .queued_seconds
            .with_label_values(&[name, name])
            .observe(waited.as_secs_f64());
        self.show_depth();
        self.show_running();
        Some(key)
    }

    fn end(&self, key: &K, started: Instant, outcome: Result<Next, ReconcileError>) {
        let name = self.name();
        let metrics = &self.shared.metrics;
        let took = started.elapsed().as_secs_f64();
        metrics.work_seconds.with_label_values(&[name, name]).observe(took);
        metrics.reconcile_seconds.with_label_values(&[name]).observe(took);
        if let Ok(Next::Done | Next::After(_)) = outcome {
            self.book().settle(key);
        }
        self.book().finish(key, Instant::now());
        let result = match outcome {
            Ok(Next::Done) => ReconcileResult::Success,
            Ok(Next::After(pause)) => {
                self.add_after(key.clone(), pause);
                ReconcileResult::RequeueAfter
            }
            Ok(Next::Again) => {
                self.retry(key, None);
                ReconcileResult::Requeue
            }
            Err(error) => {
                self.failed(key, &error);
                ReconcileResult::Error
            }
        };
        metrics.reconciles.with_label_values(&[name, result.as_str()]).inc();
        self.show_running();
        self.show_depth();
        // One of several waiting workers may be able to take what became ready.
        self.shared.moved.notify_one();
    }

    fn failed(&self, key: &K, error: &ReconcileError) {
        let name = self.name();
        match error.weight() {
            Weight::Expected => {
                tracing::debug!(error = %chain(error), "reconcile is tried again");
                self.retry(key, error.pause());
            }
            Weight::Failure => {
                self.shared.metrics.reconcile_errors.with_label_values(&[name]).inc();
                tracing::error!(error = %chain(error), "Reconciler error");
                self.retry(key, error.pause());
            }
            Weight::Terminal => {
                self.shared.metrics.reconcile_errors.with_label_values(&[name]).inc();
                self.shared
                    .metrics
                    .reconcile_terminal_errors
                    .with_label_values(&[name])
                    .inc();
                tracing::error!(error = %chain(error), "Reconciler error");
                self.book().forget(key);
            }
        }
    }

    fn retry(&self, key: &K, at_least: Option<Duration>) {
        let name = self.name();
        self.shared.metrics.retries.with_label_values(&[name, name]).inc();
        let failures = self.book().failed(key);
        let own = self.shared.settings.back_off.pause(failures);
        let shared = self
            .shared
            .bucket
            .as_ref()
            .map(TokenBucket::reserve)
            .unwrap_or_default();
        self.add_after(key.clone(), own.max(shared).max(at_least.unwrap_or_default()));
    }
}

/// An error with its causes, outermost first.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        // ReconcileError shows its source as its own text.
        if !text.ends_with(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
