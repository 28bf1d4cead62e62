//! What has stopped to work without ending is noticed within a minute, named, and healed or ended: each kind by itself.

use crate::lines::Disturbance;
use crate::world::{KARPENTER, MINUTE, World, claim, seconds, typed_claim};
use async_trait::async_trait;
use karpenter::clock::patiently;
use karpenter::cluster::{Cluster, Kind, Source};
use karpenter::k8s::cluster_task::{ClusterHandle, ClusterTask};
use karpenter::k8s::metrics::BorderMetrics;
use karpenter::k8s::queue::{Busy, Mode, Next, Queue, QueueSettings, ReconcileError, Reconciler};
use karpenter::k8s::watchdog::{Report, Signs, Vital, Vitals, Watchdog};
use sandbox::api::{Fault, FaultRule, Verb};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Guarded {
    world: World,
    vitals: Vitals,
    report: Report,
    running: JoinHandle<()>,
}

fn guarded(world: World) -> Guarded {
    let cluster = world.cluster.clone();
    guarded_with(world, cluster)
}

fn guarded_with(world: World, cluster: ClusterHandle) -> Guarded {
    let vitals = world.vitals.clone();
    let watchdog = Watchdog::new(
        world.hub.clone(),
        cluster,
        vitals.clone(),
        Arc::clone(&world.clock),
        world.border_metrics.clone(),
    );
    let report = watchdog.report();
    let running = tokio::spawn(watchdog.run(CancellationToken::new()));
    Guarded {
        world,
        vitals,
        report,
        running,
    }
}

impl Guarded {
    /// Waits until something is reported; yields the words and after how long.
    async fn noticed(&self) -> (String, Duration) {
        let started = tokio::time::Instant::now();
        loop {
            if let Some(words) = self.report.trouble() {
                return (words, started.elapsed());
            }
            assert!(started.elapsed() < Duration::from_mins(5), "nothing was noticed");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    fn stalled(&self, name: &str) -> u64 {
        self.world.metric("karpenter_watchdog_stalled", name)
    }

    fn lists_of(&self, kind: &str) -> u64 {
        let counts = self.world.api.request_counts();
        counts.get(&(Verb::List, kind.to_owned())).copied().unwrap_or(0)
    }
}

struct Stuck;

#[async_trait]
impl Reconciler for Stuck {
    type Key = &'static str;

    async fn reconcile(&self, _: &Self::Key) -> Result<Next, ReconcileError> {
        std::future::pending().await
    }
}

fn queue(mode: Mode) -> Queue<&'static str> {
    Queue::new(
        QueueSettings::new("nodeclaim.lifecycle", 1).with_mode(mode),
        BorderMetrics::detached().unwrap(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_raises_no_alarm() {
    let guarded = guarded(World::start().await);
    guarded.vitals.add(Busy::default().vital("provisioner"));
    seconds(3_600).await;
    assert_eq!(guarded.report.trouble(), None);
    assert!(!guarded.running.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_silent_is_named_within_a_minute_and_what_it_lost_is_known_afterwards() {
    let guarded = guarded(World::start().await);
    let lists = guarded.lists_of("nodeclaims.karpenter.sh");
    let started = tokio::time::Instant::now();
    guarded.world.lines.disturb(Disturbance::DeafWatches("nodeclaims"));
    guarded.world.create(KARPENTER, "NodeClaim", claim("lost")).await;
    seconds(45).await;
    assert!(
        guarded.world.snapshot().await.claim("lost").is_none(),
        "somebody told of it"
    );
    let (words, _) = guarded.noticed().await;
    assert!(words.contains("watch NodeClaim: silent for"), "{words}");
    assert!(started.elapsed() <= MINUTE, "{:?}", started.elapsed());
    assert_eq!(guarded.stalled("NodeClaim"), 1);
    guarded.world.lines.mend();
    seconds(10).await;
    assert!(guarded.world.snapshot().await.claim("lost").is_some());
    assert_eq!(guarded.lists_of("nodeclaims.karpenter.sh"), lists + 1);
    assert_eq!((guarded.report.trouble(), guarded.stalled("NodeClaim")), (None, 0));
    assert!(!guarded.running.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_never_opened_again_is_named_within_a_minute_and_says_why() {
    let guarded = guarded(World::start().await);
    seconds(31).await;
    guarded.world.lines.disturb(Disturbance::Unopened("pods"));
    // its present watch ends within half a minute, and that was the last that was heard of it
    seconds(29).await;
    let (words, took) = guarded.noticed().await;
    assert!(words.contains("watch Pod: silent for"), "{words}");
    assert!(took <= MINUTE, "{took:?}");
    seconds(600).await;
    let words = guarded.report.trouble().unwrap();
    assert!(words.contains("nothing came from the API server"), "{words}");
    assert!(!guarded.running.is_finished(), "it tries all the time");
    guarded.world.lines.mend();
    seconds(70).await;
    assert_eq!(guarded.report.trouble(), None);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_slow_to_open_watches_raises_no_alarm() {
    let guarded = guarded(World::start().await);
    let slow = Fault::Slow {
        least: Duration::from_secs(15),
        most: Duration::from_secs(15),
    };
    guarded.world.faults([FaultRule::new(slow, 1.0).verbs(&[Verb::Watch])]);
    for _ in 0..360 {
        seconds(5).await;
        assert_eq!(guarded.report.trouble(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_bookmarks_raises_no_alarm() {
    let world = World::start_with(|options| options.bookmark_every = Duration::from_hours(24)).await;
    let guarded = guarded(world);
    for _ in 0..360 {
        seconds(5).await;
        assert_eq!(guarded.report.trouble(), None);
    }
    assert_eq!(guarded.lists_of("pods"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_stands_still_after_one_that_failed_is_given_up_and_made_again() {
    let guarded = guarded(World::start().await);
    guarded
        .world
        .faults([FaultRule::new(Fault::InternalError, 1.0).resources(&["pods"])]);
    guarded.world.hub.relist(&Source::of(Kind::Pod));
    seconds(20).await;
    assert!(guarded.world.hub.pulses()[&Source::of(Kind::Pod)].trouble.is_some());
    guarded.world.lines.disturb(Disturbance::HalfLists("pods"));
    guarded.world.faults([]);
    let (words, _) = guarded.noticed().await;
    assert!(words.contains("watch Pod: silent for"), "{words}");
    for _ in 0..60 {
        seconds(30).await;
        let words = guarded.report.trouble().unwrap();
        assert!(words.contains("nothing came from the API server"), "{words}");
    }
    assert!(!guarded.running.is_finished(), "it tries all the time");
    guarded.world.lines.mend();
    seconds(90).await;
    assert_eq!((guarded.report.trouble(), guarded.stalled("Pod")), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_comes_slowly_and_steadily_raises_no_alarm_and_is_not_given_up() {
    let guarded = guarded(World::start().await);
    let lists = guarded.lists_of("pods");
    let started = guarded.world.clock.now();
    guarded.world.lines.disturb(Disturbance::SlowLists("pods"));
    guarded.world.hub.relist(&Source::of(Kind::Pod));
    for _ in 0..30 {
        seconds(5).await;
        assert_eq!(guarded.report.trouble(), None);
    }
    let listed = guarded.world.hub.pulses()[&Source::of(Kind::Pod)].last_list.unwrap();
    assert!(listed >= started + chrono::TimeDelta::seconds(100), "{listed}");
    assert_eq!(guarded.lists_of("pods"), lists + 1);
}

#[tokio::test(start_paused = true)]
async fn a_read_of_an_unconfirmed_write_that_hangs_is_named_within_a_minute_and_given_up() {
    let guarded = guarded(World::start().await);
    guarded.world.faults([FaultRule::new(Fault::InternalError, 1.0)
        .verbs(&[Verb::Watch, Verb::List])
        .resources(&["nodeclaims.karpenter.sh"])]);
    guarded.world.hub.relist(&Source::of(Kind::NodeClaim));
    seconds(1).await;
    guarded.world.lines.disturb(Disturbance::UnansweredReads("nodeclaims"));
    guarded.world.writer.create(&typed_claim("ours")).await.unwrap();
    guarded.world.delete(KARPENTER, "NodeClaim", "ours").await;
    // after half a minute it is doubted, and the read hangs
    seconds(35).await;
    let started = tokio::time::Instant::now();
    while !guarded
        .report
        .trouble()
        .is_some_and(|words| words.contains("controller state.doubts: one run takes"))
    {
        assert!(started.elapsed() <= MINUTE, "{:?}", guarded.report.trouble());
        seconds(1).await;
    }
    assert_eq!(guarded.stalled("state.doubts"), 1);
    guarded.world.lines.mend();
    guarded
        .world
        .until("the read tells that it is gone", MINUTE, |now| {
            now.claim("ours").is_none()
        })
        .await;
    assert!(!guarded.running.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_does_not_even_list_again_ends_the_process() {
    let world = World::start().await;
    let guarded = guarded(world);
    // the watchers are gone, and nobody says so
    guarded.world.stop_watching();
    let (words, _) = guarded.noticed().await;
    assert!(words.contains("watch Pod: silent"), "{words}");
    let ended = tokio::time::timeout(Duration::from_mins(8), guarded.running).await;
    assert!(ended.is_ok(), "it just sits there");
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_does_not_come_back_is_named_within_a_minute_and_in_the_end_ends_the_process() {
    for mode in [Mode::Inline, Mode::Spawned] {
        let guarded = guarded(World::start().await);
        let queue = queue(mode);
        guarded.vitals.add(queue.vital());
        seconds(600).await;
        assert_eq!(guarded.report.trouble(), None, "a queue that does not work yet");
        tokio::spawn(queue.clone().run(Arc::new(Stuck), CancellationToken::new()));
        queue.add("claim-1");
        let (words, took) = guarded.noticed().await;
        assert!(
            words.contains("controller nodeclaim.lifecycle: one run takes"),
            "{words}"
        );
        assert!(took <= Duration::from_mins(1), "{took:?}");
        assert_eq!(guarded.stalled("nodeclaim.lifecycle"), 1);
        let ended = tokio::time::timeout(Duration::from_mins(16), guarded.running).await;
        assert!(ended.is_ok(), "it just sits there");
    }
}

/// Waits for somebody who answers within a known time.
struct Patient;

#[async_trait]
impl Reconciler for Patient {
    type Key = &'static str;

    async fn reconcile(&self, _: &Self::Key) -> Result<Next, ReconcileError> {
        patiently(Duration::from_hours(1), seconds(3_000)).await;
        Ok(Next::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_waits_within_a_known_time_is_named_and_does_not_end_the_process() {
    for mode in [Mode::Inline, Mode::Spawned] {
        let guarded = guarded(World::start().await);
        let queue = queue(mode);
        guarded.vitals.add(queue.vital());
        tokio::spawn(queue.clone().run(Arc::new(Patient), CancellationToken::new()));
        queue.add("claim-1");
        let (words, took) = guarded.noticed().await;
        assert!(words.contains("nodeclaim.lifecycle: one run takes"), "{words}");
        assert!(took <= MINUTE, "{took:?}");
        seconds(3_000).await;
        assert_eq!(guarded.report.trouble(), None);
        assert!(!guarded.running.is_finished(), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_whose_keys_nobody_takes_is_named_within_a_minute_and_ends_the_process() {
    let guarded = guarded(World::start().await);
    let queue = queue(Mode::Inline);
    guarded.vitals.add(queue.vital());
    let loop_ = tokio::spawn(queue.clone().run(Arc::new(Stuck), CancellationToken::new()));
    seconds(5).await;
    loop_.abort();
    queue.add_after("claim-1", Duration::from_secs(1));
    let (words, took) = guarded.noticed().await;
    assert!(
        words.contains("controller nodeclaim.lifecycle: work waits for"),
        "{words}"
    );
    assert!(took <= Duration::from_secs(61), "{took:?}");
    let ended = tokio::time::timeout(Duration::from_mins(3), guarded.running).await;
    assert!(ended.is_ok(), "it just sits there");
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_hangs_in_a_run_is_named_within_a_minute() {
    let guarded = guarded(World::start().await);
    let busy = Busy::default();
    guarded.vitals.add(busy.vital("disruption"));
    let run = busy.begin();
    let (words, took) = guarded.noticed().await;
    assert!(
        words.contains("controller disruption: one run takes") && took <= Duration::from_mins(1),
        "{words} {took:?}"
    );
    drop(run);
    seconds(10).await;
    assert_eq!(guarded.report.trouble(), None);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_task_that_does_not_answer_is_named_within_a_minute_and_ends_the_process() {
    let world = World::start().await;
    // a task that hangs, as seen from its inbox
    let state = Cluster::new([], Arc::new(|_| None), world.clock.now());
    let hanging = ClusterTask::new(state, Arc::clone(&world.clock), BorderMetrics::detached().unwrap());
    let guarded = guarded_with(world, hanging.handle.clone());
    let (words, took) = guarded.noticed().await;
    assert!(words.contains("task cluster state: no answer for"), "{words}");
    assert!(took <= Duration::from_mins(1), "{took:?}");
    seconds(10).await;
    assert!(guarded.running.is_finished());
}

#[test]
fn what_is_not_meant_to_work_shows_no_signs() {
    let vital = Vital::new("x", || None);
    assert_eq!(vital.signs(), None::<Signs>);
}
