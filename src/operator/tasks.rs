//! The owner of every long-running task: it notices each end, and stops them all together.
//!
//! A task that should run for ever and returns, or panics, ends the operator: half an operator would look alive and do nothing. On a stop all tasks get
//! [`GRACE`] to end by themselves, which covers a write in flight (architecture §7.18); what is left is aborted and named.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A write takes 4 s at most; a little more lets its outcome be recorded.
const GRACE: Duration = Duration::from_secs(6);

/// Why the tasks stopped before they were asked to.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TaskError {
    /// A task returned although nobody asked it to stop.
    #[error("task {0} ended although the operator runs")]
    Ended(&'static str),
    /// A task panicked: a defect.
    #[error("a task panicked: {0}")]
    Panicked(String),
    /// Tasks did not end in time after the stop.
    #[error("tasks did not stop in time: {0}")]
    Stuck(String),
}

/// Tasks that live as long as the operator.
#[derive(Debug, Default)]
pub struct Tasks {
    set: JoinSet<&'static str>,
    running: BTreeSet<&'static str>,
}

impl Tasks {
    /// Starts a task that runs until the stop.
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.running.insert(name);
        self.set.spawn(async move {
            task.await;
            name
        });
    }

    /// Waits for `stop`, then for all tasks. A task that ends earlier cancels `stop` and is the result.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), TaskError> {
        let early = tokio::select! {
            biased;
            () = stop.cancelled() => Ok(()),
            Some(ended) = self.set.join_next() => Err(self.early(ended)),
        };
        stop.cancel();
        let drained = tokio::time::timeout(GRACE, self.drain())
            .await
            .unwrap_or_else(|_| Err(self.stuck()));
        self.set.abort_all();
        early.and(drained)
    }

    fn early(&mut self, ended: Result<&'static str, tokio::task::JoinError>) -> TaskError {
        match ended {
            Ok(name) => {
                self.running.remove(name);
                TaskError::Ended(name)
            }
            Err(error) => TaskError::Panicked(error.to_string()),
        }
    }

    async fn drain(&mut self) -> Result<(), TaskError> {
        let mut result = Ok(());
        while let Some(ended) = self.set.join_next().await {
            match ended {
                Ok(name) => {
                    self.running.remove(name);
                }
                Err(error) => result = result.and(Err(TaskError::Panicked(error.to_string()))),
            }
        }
        result
    }

    fn stuck(&self) -> TaskError {
        TaskError::Stuck(self.running.iter().copied().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tasks_that_end_at_the_stop_end_well() {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::default();
        for name in ["a", "b"] {
            let stop = stop.clone();
            tasks.spawn(name, async move { stop.cancelled().await });
        }
        let running = tokio::spawn(tasks.run(stop.clone()));
        tokio::time::sleep(Duration::from_mins(1)).await;
        stop.cancel();
        assert_eq!(running.await.unwrap(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_returns_early_stops_all_and_is_named() {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::default();
        let other = stop.clone();
        tasks.spawn("good", async move { other.cancelled().await });
        tasks.spawn("hub", async {});
        assert_eq!(tasks.run(stop.clone()).await, Err(TaskError::Ended("hub")));
        assert!(stop.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_stops_all() {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::default();
        let other = stop.clone();
        tasks.spawn("good", async move { other.cancelled().await });
        tasks.spawn("bad", async { panic!("on purpose") });
        assert!(matches!(tasks.run(stop).await, Err(TaskError::Panicked(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_stop_is_named_after_the_grace() {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::default();
        tasks.spawn("stubborn", std::future::pending());
        stop.cancel();
        let started = tokio::time::Instant::now();
        assert_eq!(tasks.run(stop).await, Err(TaskError::Stuck("stubborn".to_owned())));
        assert_eq!(started.elapsed(), GRACE);
    }
}
