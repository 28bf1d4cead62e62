//! Who leads, and that never two write: candidates for one lease on an API server that has its bad days, frozen, killed and with wrong clocks.

use crate::world::seconds;
use chrono::{DateTime, TimeDelta};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use karpenter::clock::{SharedClock, TokioClock};
use karpenter::k8s::client::{ApiClient, Limits};
use karpenter::k8s::election::{Candidate, Ended, LeaseSettings, Terms};
use karpenter::k8s::leadership::Leadership;
use karpenter::k8s::metrics::BorderMetrics;
use kube::api::{Api, DeleteParams, ListParams};
use sandbox::api::{ApiFaults, ApiOptions, ApiServer, Fault, FaultRule, Verb};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const LEASES: &str = "leases.coordination.k8s.io";

pub fn epoch() -> DateTime<chrono::Utc> {
    DateTime::from_timestamp(1_767_225_600, 0).unwrap()
}

pub struct Scene {
    pub api: ApiServer,
    started: Instant,
}

/// What stops a future without its knowing, as SIGSTOP does a process.
#[derive(Default)]
struct Ice {
    frozen: bool,
    waker: Option<Waker>,
}

struct Freezable<F> {
    inner: Pin<Box<F>>,
    ice: Arc<Mutex<Ice>>,
}

impl<F: Future> Future for Freezable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        {
            let mut ice = self.ice.lock().unwrap();
            if ice.frozen {
                ice.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
        self.inner.as_mut().poll(context)
    }
}

/// One replica.
pub struct Replica {
    name: String,
    led: CancellationToken,
    pub leave: CancellationToken,
    leadership: Leadership,
    ice: Arc<Mutex<Ice>>,
    pub running: JoinHandle<Ended>,
}

impl Replica {
    pub fn freeze(&self) {
        self.ice.lock().unwrap().frozen = true;
    }

    pub fn thaw(&self) {
        let mut ice = self.ice.lock().unwrap();
        ice.frozen = false;
        if let Some(waker) = ice.waker.take() {
            waker.wake();
        }
    }

    /// Ends it as the kernel would.
    pub fn kill(&self) {
        self.running.abort();
    }

    pub fn leads(&self) -> bool {
        self.leadership.may_write()
    }
}

impl Scene {
    pub fn new() -> Self {
        let clock: SharedClock = Arc::new(TokioClock::starting_at(epoch()));
        Self {
            api: ApiServer::new(clock, 1, ApiOptions::default()),
            started: Instant::now(),
        }
    }

    pub fn replica(&self, name: &str) -> Replica {
        self.replica_whose_clock_is_off_by(name, TimeDelta::zero())
    }

    fn replica_whose_clock_is_off_by(&self, name: &str, off: TimeDelta) -> Replica {
        let passed = TimeDelta::from_std(self.started.elapsed()).unwrap();
        self.replica_with(name, Arc::new(TokioClock::starting_at(epoch() + off + passed)))
    }

    pub fn replica_with(&self, name: &str, clock: SharedClock) -> Replica {
        let metrics = BorderMetrics::detached().unwrap();
        let client = self.api.client_as(name, &["system:masters"]);
        let client = ApiClient::over(client, Limits::default(), metrics.clone());
        let settings = LeaseSettings {
            namespace: "default".into(),
            name: "karpenter-leader-election".into(),
            identity: name.into(),
            terms: Terms::default(),
        };
        let (keeper, leadership) = Leadership::kept();
        let candidate = Candidate::new(client, settings, keeper, clock, metrics);
        let (led, leave) = (CancellationToken::new(), CancellationToken::new());
        let ice: Arc<Mutex<Ice>> = Arc::default();
        let running = Freezable {
            inner: Box::pin(candidate.run(led.clone(), leave.clone())),
            ice: Arc::clone(&ice),
        };
        Replica {
            name: name.to_owned(),
            led,
            leave,
            leadership,
            ice,
            running: tokio::spawn(running),
        }
    }

    pub fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.api.client(), "default")
    }

    async fn lease(&self) -> k8s_openapi::api::coordination::v1::LeaseSpec {
        self.leases()
            .get("karpenter-leader-election")
            .await
            .unwrap()
            .spec
            .unwrap()
    }

    pub async fn told(&self) -> Vec<String> {
        let events = Api::<Event>::namespaced(self.api.client(), "default");
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let mut told: Vec<String> = events
            .iter()
            .map(|event| {
                assert_eq!(event.reason.as_deref(), Some("LeaderElection"));
                assert_eq!(event.involved_object.kind.as_deref(), Some("Lease"));
                event.message.clone().unwrap()
            })
            .collect();
        told.sort();
        told
    }

    pub fn faults_of(&self, user: &str, rules: Vec<FaultRule>) {
        let rules = rules.into_iter().map(|rule| rule.users(&[user])).collect();
        self.api.set_faults(ApiFaults { rules });
    }
}

/// How long it takes until something is so.
pub async fn until(what: &str, holds: impl Fn() -> bool) -> Duration {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_mins(5), "{what} does not come true");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    started.elapsed()
}

// surface §6.4, surface §4.2
#[tokio::test(start_paused = true)]
async fn the_first_takes_the_lease_says_so_and_keeps_it_while_it_renews() {
    let scene = Scene::new();
    let (a, b) = (scene.replica("host_a"), scene.replica("host_b"));
    seconds(600).await;
    assert!(a.leads() && !b.leads() && a.led.is_cancelled() && !b.led.is_cancelled());
    let lease = scene.lease().await;
    assert_eq!(lease.holder_identity.as_deref(), Some("host_a"));
    assert_eq!(
        (lease.lease_duration_seconds, lease.lease_transitions),
        (Some(15), Some(1))
    );
    let renewed = karpenter::api::time::from_micro(&lease.renew_time.unwrap());
    assert!(scene.now() - renewed <= TimeDelta::seconds(2), "{renewed}");
    assert_eq!(scene.told().await, ["host_a became leader"]);
    let writes = scene.api.request_counts();
    let renewals = writes.get(&(Verb::Update, LEASES.to_owned())).copied().unwrap_or(0);
    assert!((290..=310).contains(&renewals), "one each two seconds, not {renewals}");
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn a_holder_that_dies_is_followed_within_the_leases_time_and_not_before_its_last_write_could_end() {
    for after in [0, 700, 1_300, 1_990] {
        let scene = Scene::new();
        let (a, b) = (scene.replica("a"), scene.replica("b"));
        seconds(20).await;
        tokio::time::sleep(Duration::from_millis(after)).await;
        a.kill();
        let took = until("b leads", || b.leads()).await;
        let range = Duration::from_millis(12_900)..=Duration::from_millis(15_600);
        assert!(range.contains(&took), "{after} ms after a renewal: {took:?}");
        assert_eq!(scene.lease().await.lease_transitions, Some(2));
    }
}

// architecture §7.18
#[tokio::test(start_paused = true)]
async fn a_holder_that_leaves_gives_the_lease_back_and_is_followed_at_once() {
    let scene = Scene::new();
    let (a, b) = (scene.replica("a"), scene.replica("b"));
    seconds(20).await;
    a.leave.cancel();
    let took = until("b leads", || b.leads()).await;
    assert!(took <= Duration::from_secs(1), "{took:?}");
    assert!(!a.leads());
    assert_eq!(a.running.await.unwrap(), Ended::Left);
    // told when the lease is in other hands already
    seconds(1).await;
    assert_eq!(
        scene.told().await,
        ["a became leader", "a stopped leading", "b became leader"]
    );
}

// architecture §7.18
#[tokio::test(start_paused = true)]
async fn with_a_write_of_unknown_outcome_the_lease_is_left_to_expire() {
    let scene = Scene::new();
    let (a, b) = (scene.replica("a"), scene.replica("b"));
    seconds(20).await;
    drop(a.leadership.begin_write().unwrap());
    a.leave.cancel();
    let took = until("b leads", || b.leads()).await;
    assert!(took >= Duration::from_secs(12), "{took:?}");
    assert_eq!(a.running.await.unwrap(), Ended::Left);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_leaves_or_never_led_takes_nothing_with_it() {
    let scene = Scene::new();
    let (a, b) = (scene.replica("a"), scene.replica("b"));
    seconds(20).await;
    b.leave.cancel();
    assert_eq!(b.running.await.unwrap(), Ended::Left);
    seconds(60).await;
    assert!(a.leads());
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn whoever_cannot_renew_stops_writing_ten_seconds_after_its_last_renewal_and_ends() {
    let scene = Scene::new();
    let (a, b) = (scene.replica("a"), scene.replica("b"));
    seconds(20).await;
    scene.faults_of("a", vec![FaultRule::new(Fault::InternalError, 1.0)]);
    let took = until("a stops", || !a.leads()).await;
    let range = Duration::from_secs(8)..=Duration::from_secs(10);
    assert!(range.contains(&took), "{took:?}");
    assert_eq!(a.running.await.unwrap(), Ended::Lost);
    let pause = until("b leads", || b.leads()).await;
    assert!(
        pause >= Duration::from_secs(4),
        "a write of a may still be on its way: {pause:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_costs_nobody_the_lease() {
    let scene = Scene::new();
    let (a, b) = (scene.replica("a"), scene.replica("b"));
    for fault in [
        Fault::InternalError,
        Fault::TooManyRequests { retry_after: 1 },
        Fault::TimeoutBefore { after: seconds_of(30) },
        Fault::TimeoutAfter { after: seconds_of(30) },
    ] {
        seconds(20).await;
        scene.api.set_faults(ApiFaults {
            rules: vec![FaultRule::new(fault.clone(), 1.0)],
        });
        seconds(6).await;
        scene.api.set_faults(ApiFaults::default());
        seconds(20).await;
        assert!(a.leads() && !b.leads(), "{fault:?}");
    }
    assert_eq!(scene.lease().await.lease_transitions, Some(1));
}

fn seconds_of(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn a_holder_frozen_for_a_minute_may_not_write_when_it_wakes_and_ends() {
    let scene = Scene::new();
    let (a, b) = (scene.replica("a"), scene.replica("b"));
    seconds(21).await;
    a.freeze();
    seconds(60).await;
    assert!(b.leads());
    // before the election of a had a chance to notice anything
    assert!(!a.leads() && a.leadership.begin_write().is_none());
    let asked_before = scene.api.audit().iter().filter(|entry| entry.user == "a").count();
    a.thaw();
    assert_eq!(a.running.await.unwrap(), Ended::Lost);
    let asked = scene.api.audit().iter().filter(|entry| entry.user == "a").count();
    assert_eq!(asked, asked_before, "it does not even ask");
    seconds(60).await;
    assert!(b.leads());
}

#[tokio::test(start_paused = true)]
async fn a_holder_frozen_for_less_than_its_term_goes_on() {
    let scene = Scene::new();
    let (a, b) = (scene.replica("a"), scene.replica("b"));
    seconds(20).await;
    a.freeze();
    seconds(7).await;
    a.thaw();
    seconds(60).await;
    assert!(a.leads() && !b.leads());
}

#[tokio::test(start_paused = true)]
async fn wall_clocks_decide_nothing() {
    for hours in [-24, 24] {
        let scene = Scene::new();
        let a = scene.replica_whose_clock_is_off_by("a", TimeDelta::hours(hours));
        let b = scene.replica("b");
        seconds(120).await;
        assert!(a.leads() && !b.leads(), "off by {hours} h");
        a.kill();
        let took = until("b leads", || b.leads()).await;
        assert!(
            took > Duration::from_secs(12) && took < Duration::from_secs(16),
            "{took:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_a_process_that_died_long_ago_is_taken_after_it_was_watched_for_its_length() {
    let scene = Scene::new();
    let a = scene.replica("a");
    seconds(20).await;
    a.kill();
    seconds(3_600).await;
    let b = scene.replica("b");
    let took = until("b leads", || b.leads()).await;
    assert!(
        took >= Duration::from_secs(15) && took < Duration::from_secs(16),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn of_many_who_see_a_free_lease_one_gets_it() {
    let scene = Scene::new();
    let slow = Fault::Slow {
        least: Duration::from_millis(100),
        most: Duration::from_millis(300),
    };
    scene.api.set_faults(ApiFaults {
        rules: vec![FaultRule::new(slow, 1.0)],
    });
    let replicas: Vec<Replica> = (0..5).map(|n| scene.replica(&format!("r{n}"))).collect();
    seconds(10).await;
    assert_eq!(replicas.iter().filter(|replica| replica.leads()).count(), 1);
    // and somebody who takes it by force is not fought
    let holder = replicas.iter().position(Replica::leads).unwrap();
    let mut lease = scene.leases().get("karpenter-leader-election").await.unwrap();
    lease.spec.as_mut().unwrap().holder_identity = Some("somebody".into());
    scene
        .leases()
        .replace("karpenter-leader-election", &kube::api::PostParams::default(), &lease)
        .await
        .unwrap();
    until("the holder ends", || replicas[holder].running.is_finished()).await;
    assert!(!replicas[holder].leads());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_is_made_again() {
    let scene = Scene::new();
    let (a, b) = (scene.replica("a"), scene.replica("b"));
    seconds(20).await;
    scene
        .leases()
        .delete("karpenter-leader-election", &DeleteParams::default())
        .await
        .unwrap();
    let two = async {
        for _ in 0..600 {
            assert!(!(a.leads() && b.leads()), "both lead");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    two.await;
    assert!(a.leads() && !b.leads(), "the holder made it again");
}

impl Scene {
    fn now(&self) -> DateTime<chrono::Utc> {
        epoch() + TimeDelta::from_std(self.started.elapsed()).unwrap()
    }
}

/// Numbers that look like chance and follow from a seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn fault(&mut self) -> FaultRule {
        let fault = match self.below(4) {
            0 => Fault::InternalError,
            1 => Fault::TimeoutAfter { after: seconds_of(5) },
            2 => Fault::StaleRead { back: 3 },
            _ => Fault::Slow {
                least: Duration::from_millis(10),
                most: seconds_of(6),
            },
        };
        let tenths = u32::try_from(2 + self.below(8)).unwrap();
        FaultRule::new(fault, f64::from(tenths) / 10.0)
    }
}

/// What befalls the replicas in one step of a seeded history.
fn befalls(chance: &mut Chance, scene: &Scene, replicas: &mut [Replica]) {
    let count = replicas.len() as u64;
    let one = usize::try_from(chance.below(count)).unwrap();
    match chance.below(8) {
        0 => replicas[one].freeze(),
        1 | 2 => replicas.iter().for_each(Replica::thaw),
        3 => replicas[one].kill(),
        4 => {
            let rules = vec![chance.fault()];
            scene.api.set_faults(ApiFaults { rules });
        }
        5 => scene.api.set_faults(ApiFaults::default()),
        _ => {}
    }
    for (n, replica) in replicas.iter_mut().enumerate() {
        if replica.running.is_finished() {
            let off = TimeDelta::seconds(i64::try_from(chance.below(2_000)).unwrap() - 1_000);
            let name = format!("r{n}-{}", chance.below(1 << 32));
            *replica = scene.replica_whose_clock_is_off_by(&name, off);
        }
    }
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn through_freezes_kills_and_bad_days_no_two_write_within_a_writes_time() {
    let mut handovers = 0;
    for seed in 0..40 {
        let scene = Scene::new();
        let mut chance = Chance(seed);
        let mut replicas: Vec<Replica> = (0..3).map(|n| scene.replica(&format!("r{n}"))).collect();
        // who could last begin a write, and when
        let mut last: Option<(String, Instant)> = None;
        for step in 0..3_000 {
            if step % 20 == 0 {
                befalls(&mut chance, &scene, &mut replicas);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            let leading: Vec<&Replica> = replicas.iter().filter(|replica| replica.leads()).collect();
            assert!(
                leading.len() <= 1,
                "seed {seed}: {} write in step {step}",
                leading.len()
            );
            let Some(now) = leading.first() else { continue };
            if let Some((before, at)) = &last
                && *before != now.name
            {
                handovers += 1;
                let pause = at.elapsed();
                assert!(
                    pause >= Duration::from_secs(4),
                    "seed {seed}, step {step}: only {pause:?} between two writers"
                );
            }
            last = Some((now.name.clone(), Instant::now()));
        }
        replicas.iter().for_each(Replica::kill);
    }
    assert!(handovers > 100, "the histories are too quiet: {handovers} hand-overs");
}
