use super::super::settings::BackOff;
use super::*;
use std::collections::BTreeMap;

type Work = Box<dyn Fn(&'static str, usize) -> Result<Next, ReconcileError> + Send + Sync>;

/// Takes `takes` per key, answers as told, and writes down when each key began and how many ran at once.
struct Probe {
    takes: Duration,
    work: Work,
    started: Instant,
    seen: Mutex<Vec<(u64, &'static str)>>,
    running: Mutex<(BTreeMap<&'static str, usize>, usize)>,
}

impl Probe {
    fn new(
        takes: Duration,
        work: impl Fn(&'static str, usize) -> Result<Next, ReconcileError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            takes,
            work: Box::new(work),
            started: Instant::now(),
            seen: Mutex::default(),
            running: Mutex::default(),
        })
    }

    fn seen(&self) -> Vec<(u64, &'static str)> {
        self.seen.lock().unwrap().clone()
    }

    fn most_at_once(&self) -> usize {
        self.running.lock().unwrap().1
    }
}

#[async_trait]
impl Reconciler for Probe {
    type Key = &'static str;

    async fn reconcile(&self, key: &&'static str) -> Result<Next, ReconcileError> {
        let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap();
        let run = {
            let mut seen = self.seen.lock().unwrap();
            seen.push((millis, *key));
            seen.iter().filter(|(_, known)| known == key).count()
        };
        {
            let mut running = self.running.lock().unwrap();
            let of_key = running.0.entry(*key).or_default();
            *of_key += 1;
            assert_eq!(*of_key, 1, "{key} runs twice at once");
            running.1 = running.1.max(running.0.values().sum());
        }
        tokio::time::sleep(self.takes).await;
        *self.running.lock().unwrap().0.get_mut(key).unwrap() -= 1;
        (self.work)(key, run)
    }
}

fn queue(settings: QueueSettings) -> (Queue<&'static str>, BorderMetrics) {
    let metrics = BorderMetrics::detached().unwrap();
    (Queue::new(settings, metrics.clone()), metrics)
}

fn doubling() -> BackOff {
    BackOff::doubling(Duration::from_millis(100), Duration::from_secs(1))
}

async fn wait(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

#[tokio::test(start_paused = true)]
async fn keys_run_in_parallel_up_to_the_workers_and_never_twice_at_once() {
    let (queue, _) = queue(QueueSettings::new("test", 2));
    let probe = Probe::new(Duration::from_millis(100), |_, _| Ok(Next::Done));
    for key in ["a", "b", "c", "a"] {
        queue.add(key);
    }
    let stop = CancellationToken::new();
    let task = tokio::spawn(queue.clone().run(Arc::clone(&probe), stop.clone()));
    wait(50).await;
    queue.add("a");
    wait(1000).await;
    stop.cancel();
    task.await.unwrap();
    assert_eq!(probe.seen(), [(0, "a"), (0, "b"), (100, "c"), (100, "a")]);
    assert_eq!(probe.most_at_once(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failing_key_backs_off_alone_and_a_success_forgets_it() {
    let (queue, metrics) = queue(QueueSettings::new("test", 4).with_back_off(doubling()));
    let probe = Probe::new(Duration::ZERO, |key, run| match (key, run) {
        ("bad", ..=4) => Err(ReconcileError::new("no")),
        _ => Ok(Next::Done),
    });
    queue.add("bad");
    queue.add("good");
    let stop = CancellationToken::new();
    let task = tokio::spawn(queue.clone().run(Arc::clone(&probe), stop.clone()));
    wait(2000).await;
    queue.add("bad");
    wait(100).await;
    stop.cancel();
    task.await.unwrap();
    let of_bad: Vec<u64> = probe
        .seen()
        .into_iter()
        .filter(|(_, key)| *key == "bad")
        .map(|(at, _)| at)
        .collect();
    assert_eq!(of_bad, [0, 100, 300, 700, 1500, 2000]);
    assert_eq!(metrics.retries.with_label_values(&["test", "test"]).get(), 4);
    assert_eq!(metrics.reconciles.with_label_values(&["test", "error"]).get(), 4);
    assert_eq!(metrics.reconciles.with_label_values(&["test", "success"]).get(), 3);
    assert_eq!(metrics.depth.with_label_values(&["test", "test", ""]).get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_while_it_backs_off_does_not_wait() {
    let (queue, _) = queue(
        QueueSettings::new("test", 1)
            .with_back_off(BackOff::doubling(Duration::from_secs(10), Duration::from_secs(10))),
    );
    let probe = Probe::new(Duration::ZERO, |_, run| {
        if run == 1 {
            Err(ReconcileError::new("no"))
        } else {
            Ok(Next::Done)
        }
    });
    queue.add("a");
    let stop = CancellationToken::new();
    let task = tokio::spawn(queue.clone().run(Arc::clone(&probe), stop.clone()));
    wait(1000).await;
    queue.add("a");
    wait(100).await;
    stop.cancel();
    task.await.unwrap();
    assert_eq!(probe.seen(), [(0, "a"), (1000, "a")]);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_may_ask_to_come_again_later_or_soon() {
    let (queue, _) = queue(QueueSettings::new("test", 1).with_back_off(doubling()));
    let probe = Probe::new(Duration::ZERO, |_, run| match run {
        1 => Ok(Next::After(Duration::from_secs(5))),
        2 => Ok(Next::Again),
        _ => Ok(Next::Done),
    });
    queue.add("a");
    let stop = CancellationToken::new();
    let task = tokio::spawn(queue.clone().run(Arc::clone(&probe), stop.clone()));
    wait(10_000).await;
    stop.cancel();
    task.await.unwrap();
    assert_eq!(probe.seen(), [(0, "a"), (5000, "a"), (5100, "a")]);
}

#[tokio::test(start_paused = true)]
async fn a_terminal_failure_waits_for_the_key_to_be_added_anew() {
    let (queue, metrics) = queue(QueueSettings::new("test", 1));
    let probe = Probe::new(Duration::ZERO, |_, _| {
        Err(ReconcileError::new("never").weighing(Weight::Terminal))
    });
    queue.add("a");
    let stop = CancellationToken::new();
    let task = tokio::spawn(queue.clone().run(Arc::clone(&probe), stop.clone()));
    wait(100_000).await;
    stop.cancel();
    task.await.unwrap();
    assert_eq!(probe.seen(), [(0, "a")]);
    assert_eq!(metrics.reconcile_terminal_errors.with_label_values(&["test"]).get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_the_failure_names_is_kept() {
    let (queue, _) = queue(QueueSettings::new("test", 1).with_back_off(doubling()));
    let probe = Probe::new(Duration::ZERO, |_, run| match run {
        1 => Err(ReconcileError::new("throttled").not_before(Duration::from_secs(7))),
        _ => Ok(Next::Done),
    });
    queue.add("a");
    let stop = CancellationToken::new();
    let task = tokio::spawn(queue.clone().run(Arc::clone(&probe), stop.clone()));
    wait(10_000).await;
    stop.cancel();
    task.await.unwrap();
    assert_eq!(probe.seen(), [(0, "a"), (7000, "a")]);
}

#[tokio::test(start_paused = true)]
async fn one_defect_on_one_key_does_not_stop_the_others() {
    let (queue, metrics) = queue(
        QueueSettings::new("test", 1).with_back_off(BackOff::doubling(Duration::from_mins(1), Duration::from_mins(1))),
    );
    let probe = Probe::new(Duration::ZERO, |key, _| {
        assert_ne!(key, "bad", "a defect");
        Ok(Next::Done)
    });
    queue.add("bad");
    queue.add("good");
    let stop = CancellationToken::new();
    let task = tokio::spawn(queue.clone().run(Arc::clone(&probe), stop.clone()));
    wait(1000).await;
    stop.cancel();
    task.await.unwrap();
    assert_eq!(probe.seen(), [(0, "bad"), (0, "good")]);
    assert_eq!(metrics.reconcile_panics.with_label_values(&["test"]).get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_the_running_end_and_takes_nothing_more() {
    for mode in [Mode::Spawned, Mode::Inline] {
        let (queue, _) = queue(QueueSettings::new("test", 1).with_mode(mode));
        let probe = Probe::new(Duration::from_secs(3), |_, _| Ok(Next::Done));
        queue.add("a");
        queue.add("b");
        let stop = CancellationToken::new();
        let started = Instant::now();
        let task = tokio::spawn(queue.clone().run(Arc::clone(&probe), stop.clone()));
        wait(1000).await;
        stop.cancel();
        task.await.unwrap();
        assert_eq!(started.elapsed(), Duration::from_secs(3), "{mode:?}");
        assert_eq!(probe.seen(), [(0, "a")], "{mode:?}");
        assert_eq!(queue.depth(), 1);
    }
}

// architecture §7.18
#[tokio::test(start_paused = true)]
async fn what_waits_for_longer_than_a_write_takes_is_dropped_after_the_stop() {
    for mode in [Mode::Spawned, Mode::Inline] {
        let (queue, _) = queue(QueueSettings::new("test", 1).with_mode(mode));
        let probe = Probe::new(Duration::from_hours(1), |_, _| Ok(Next::Done));
        queue.add("a");
        let stop = CancellationToken::new();
        let task = tokio::spawn(queue.clone().run(Arc::clone(&probe), stop.clone()));
        wait(1000).await;
        let stopped = Instant::now();
        stop.cancel();
        task.await.unwrap();
        assert_eq!(stopped.elapsed(), Duration::from_secs(5), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn inline_reconciles_run_side_by_side_as_spawned_ones_do() {
    let (queue, _) = queue(QueueSettings::new("test", 2).with_mode(Mode::Inline));
    let probe = Probe::new(Duration::from_millis(100), |_, _| Ok(Next::Done));
    for key in ["c", "a", "b"] {
        queue.add(key);
    }
    let stop = CancellationToken::new();
    let task = tokio::spawn(queue.clone().run(Arc::clone(&probe), stop.clone()));
    wait(1000).await;
    stop.cancel();
    task.await.unwrap();
    assert_eq!(probe.seen(), [(0, "c"), (0, "a"), (100, "b")]);
    assert_eq!(probe.most_at_once(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_and_counts() {
    let (queue, metrics) = queue(QueueSettings::new("test", 1).with_capacity(2));
    for key in ["a", "b", "c", "a"] {
        queue.add(key);
    }
    queue.add_after("d", Duration::from_secs(1));
    assert_eq!(queue.depth(), 2);
    assert_eq!(metrics.queue_full.with_label_values(&["test"]).get(), 2);
    assert_eq!(metrics.adds.with_label_values(&["test", "test"]).get(), 2);
}

// The expiry of a claim is 30 days away by default: keys of claims that were gone long before would fill the queue.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_leaves_no_delayed_key_behind() {
    let (queue, metrics) = queue(QueueSettings::new("test", 1));
    let month = Duration::from_hours(30 * 24);
    let probe = Probe::new(Duration::ZERO, move |_, run| {
        Ok(if run == 1 { Next::After(month) } else { Next::Done })
    });
    let stop = CancellationToken::new();
    let task = tokio::spawn(queue.clone().run(Arc::clone(&probe), stop.clone()));
    queue.add("a");
    wait(10).await;
    let delayed = metrics.delayed.with_label_values(&["test"]);
    assert_eq!(delayed.get(), 1);
    queue.add("a");
    wait(10).await;
    assert_eq!(delayed.get(), 0);
    assert_eq!(queue.book().len(), 0);
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watchdog_can_see_the_oldest_work() {
    let (queue, _) = queue(QueueSettings::new("test", 2));
    let probe = Probe::new(Duration::from_mins(10), |_, _| Ok(Next::Done));
    queue.add("a");
    let stop = CancellationToken::new();
    let task = tokio::spawn(queue.clone().run(probe, stop.clone()));
    wait(90_000).await;
    assert_eq!(queue.vital().signs().unwrap().running_for, Duration::from_secs(90));
    assert_eq!(queue.running(), 1);
    stop.cancel();
    task.await.unwrap();
}
