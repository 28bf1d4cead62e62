//! Work without keys that runs again and again, and sooner when woken.

use super::ending::last_moment;
use super::settings::{BackOff, Next, ReconcileError, Weight};
use crate::clock::Progress;
use crate::k8s::metrics::{BorderMetrics, ReconcileResult};
use crate::k8s::watchdog::{Signs, Vital};
use futures::FutureExt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// Wakes a [`Singleton`] before its time; cheap to clone, any number of wakes before the next run count as one.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<Notify>);

impl Wake {
    /// A wake for nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the next run begin at once.
    pub fn wake(&self) {
        self.0.notify_one();
    }
}

/// Since when something works, for the watchdog; cheap to clone. Whoever waits for work between two pieces of it tells each piece by itself.
#[derive(Debug, Clone, Default)]
pub struct Busy(Arc<Mutex<Option<(Instant, Progress)>>>);

/// A piece of work under way.
#[derive(Debug)]
pub struct Working(Busy);

impl Busy {
    /// A piece of work begins; it ends when the answer is dropped.
    pub fn begin(&self) -> Working {
        let progress = Progress::of_this_work();
        progress.note();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), progress));
        Working(self.clone())
    }

    /// What a watchdog looks at.
    pub fn vital(&self, name: &'static str) -> Vital {
        let busy = self.clone();
        Vital::new(name, move || {
            let work = busy.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((since, progress)) = &*work else {
                return Some(Signs::default());
            };
            Some(Signs {
                running_for: since.elapsed(),
                stuck_for: progress.stuck_for(),
                running: 1,
                waiting_for: Duration::ZERO,
            })
        })
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A loop: runs, then waits its period (or what the run asked for, or its back-off), or until woken.
#[derive(Debug, Clone)]
pub struct Singleton {
    name: &'static str,
    period: Duration,
    back_off: BackOff,
    wake: Wake,
    metrics: BorderMetrics,
    busy: Busy,
}

impl Singleton {
    /// A loop of this name that runs every `period`.
    pub fn new(name: &'static str, period: Duration, wake: Wake, metrics: BorderMetrics) -> Self {
        for result in ReconcileResult::ALL {
            metrics.reconciles.with_label_values(&[name, result.as_str()]);
        }
        metrics.reconcile_errors.with_label_values(&[name]);
        metrics.max_workers.with_label_values(&[name]).set(1);
        let back_off = BackOff::doubling(Duration::from_millis(100), Duration::from_mins(1));
        Self {
            name,
            period,
            back_off,
            wake,
            metrics,
            busy: Busy::default(),
        }
    }

    /// What a watchdog looks at: how long a run has been going on.
    pub fn vital(&self) -> Vital {
        self.busy.vital(self.name)
    }

    /// Runs `work` until `stop`; a run that has begun has a last moment to end. [`Next::Done`] means "after the period".
    pub async fn run<F, Fut>(self, stop: CancellationToken, mut work: F)
    where
        F: FnMut() -> Fut + Send,
        Fut: Future<Output = Result<Next, ReconcileError>> + Send,
    {
        let mut failures = 0_u32;
        while !stop.is_cancelled() {
            // Whoever woke it before this moment is served by this run.
            let _ = self.wake.0.notified().now_or_never();
            let started = Instant::now();
            self.metrics.active_workers.with_label_values(&[self.name]).set(1);
            let span = super::span::run(self.name);
            let run = Progress::begin().follow(async {
                let _run = self.busy.begin();
                work().instrument(span.clone()).await
            });
            let outcome = tokio::select! {
                biased;
                outcome = run => outcome,
                () = last_moment(&stop) => return,
            };
            self.metrics.active_workers.with_label_values(&[self.name]).set(0);
            let took = started.elapsed().as_secs_f64();
            self.metrics
                .reconcile_seconds
                .with_label_values(&[self.name])
                .observe(took);
            let pause = span.in_scope(|| self.pause_after(outcome, &mut failures));
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.wake.0.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn pause_after(&self, outcome: Result<Next, ReconcileError>, failures: &mut u32) -> Duration {
        let (result, pause) = match outcome {
            Ok(next) => {
                *failures = 0;
                match next {
                    Next::Done => (ReconcileResult::Success, self.period),
                    Next::After(pause) => (ReconcileResult::RequeueAfter, pause),
                    Next::Again => (ReconcileResult::Requeue, Duration::ZERO),
                }
            }
            Err(error) => {
                *failures = failures.saturating_add(1);
                if error.weight() == Weight::Expected {
                    tracing::debug!(%error, "run is tried again");
                } else {
                    self.metrics.reconcile_errors.with_label_values(&[self.name]).inc();
                    tracing::error!(%error, "Reconciler error");
                }
                let pause = self.back_off.pause(*failures).max(error.pause().unwrap_or_default());
                (ReconcileResult::Error, pause)
            }
        };
        self.metrics
            .reconciles
            .with_label_values(&[self.name, result.as_str()])
            .inc();
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn singleton(wake: &Wake) -> Singleton {
        Singleton::new(
            "test",
            Duration::from_secs(10),
            wake.clone(),
            BorderMetrics::detached().unwrap(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn it_runs_every_period_and_sooner_when_woken() {
        let (wake, stop) = (Wake::new(), CancellationToken::new());
        let times = Arc::new(Mutex::new(Vec::new()));
        let started = Instant::now();
        let seen = Arc::clone(&times);
        let task = tokio::spawn(singleton(&wake).run(stop.clone(), move || {
            seen.lock().unwrap().push(started.elapsed().as_secs());
            async { Ok(Next::Done) }
        }));
        tokio::time::sleep(Duration::from_secs(13)).await;
        wake.wake();
        wake.wake();
        tokio::time::sleep(Duration::from_secs(11)).await;
        stop.cancel();
        task.await.unwrap();
        assert_eq!(*times.lock().unwrap(), vec![0, 10, 13, 23]);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_back_off_and_a_success_forgets_them() {
        let stop = CancellationToken::new();
        let times = Arc::new(Mutex::new(Vec::new()));
        let started = Instant::now();
        let seen = Arc::clone(&times);
        let task = tokio::spawn(singleton(&Wake::new()).run(stop.clone(), move || {
            let run = {
                let mut seen = seen.lock().unwrap();
                seen.push(started.elapsed().as_millis());
                seen.len()
            };
            async move {
                if run < 4 {
                    Err(ReconcileError::new("no"))
                } else {
                    Ok(Next::Done)
                }
            }
        }));
        tokio::time::sleep(Duration::from_secs(5)).await;
        stop.cancel();
        task.await.unwrap();
        assert_eq!(*times.lock().unwrap(), vec![0, 100, 300, 700]);
    }
}
