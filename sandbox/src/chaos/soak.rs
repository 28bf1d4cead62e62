//! A long life: days of load waves, pre-emptions and faults in one run of one operator, and whether anything grows that should not.
//!
//! Once a day, at the same trough of the load, memory, metric series, queues and objects are counted. World and operator share one process, so in the end
//! the operator is judged by itself: what its stop gives back may not be more than what the stop of a fresh one gives back after a day of the same load.
//!
//! Called by `make soak` and by a short version in the tests; the caller brings the count of allocated bytes, since only a binary has an allocator.

use super::draw::Draw;
use super::levels::{about_gone, growth, heavier, series, sum};
use super::mortal::{Chair, Mortal, Settings, Traffic};
use super::weather::{self, SpotSpell};
use super::witness::Witness;
use crate::api::{ApiFaults, ApiOptions, Fault, FaultRule};
use crate::spot::{Control, FeedMode, Options};
use crate::world::{World, WorldError, WorldOptions};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

/// How often the load changes.
const HOUR: Duration = Duration::from_hours(1);
/// Pods of each app at the peak; a wave of a day goes from none to this and back.
const PEAK: u32 = 12;
/// From so many days on a fresh operator is held against the old one: it lives a day more.
const LONG: u32 = 3;

/// What was counted at the end of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Which day, from 1.
    pub day: u32,
    /// Bytes allocated and not freed, the world's own among them.
    pub bytes: u64,
    /// Series in a scrape of the metrics.
    pub series: u64,
    /// Keys that wait in the operator's queues.
    pub queued: u64,
    /// Keys in its queues whose time has not come.
    pub delayed: u64,
    /// Objects in the API server.
    pub objects: u64,
    /// Pools on the platform.
    pub pools: u64,
    /// Machines that were bought so far.
    pub bought: u64,
}

/// What came of a long life.
#[derive(Debug, Clone, PartialEq)]
pub struct Soak {
    /// One for each day.
    pub samples: Vec<Sample>,
    /// What the operator sent.
    pub traffic: Traffic,
    /// What the operator's stop gave back of the allocated bytes.
    pub operator_bytes: u64,
    /// The same of a fresh operator after one more day; none in a life too short to show more than the day itself.
    pub fresh_bytes: Option<u64>,
    /// What went wrong.
    pub problems: Vec<String>,
}

/// Why a long life did not begin.
#[derive(Debug, thiserror::Error)]
pub enum SoakError {
    /// No runtime.
    #[error("starting the runtime")]
    Runtime(#[from] std::io::Error),
    /// The world refused something.
    #[error("making the world")]
    World(#[from] WorldError),
    /// The operator's settings are refused.
    #[error("starting the operator")]
    Operator(#[from] karpenter::operator::OptionsError),
}

/// Lives so many days; `bytes` tells what is allocated.
///
/// # Errors
/// It did not begin.
pub fn soak(seed: u64, days: u32, bytes: &dyn Fn() -> u64, say: &mut dyn FnMut(&Sample)) -> Result<Soak, SoakError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    runtime.block_on(live(seed, days, bytes, say))
}

async fn live(seed: u64, days: u32, bytes: &dyn Fn() -> u64, say: &mut dyn FnMut(&Sample)) -> Result<Soak, SoakError> {
    let mut life = Life {
        world: world(seed).await?,
        seed,
        bytes,
        problems: Vec::new(),
    };
    let mut samples = Vec::new();
    let nobody = Witness::of(&life.world, Chair::Alone);
    let mut operator = Mortal::start(&life.world, 1, &settings(), Chair::Alone, &nobody)?;
    for day in 1..=days {
        let Some(names) = life.day(&mut operator, day).await else {
            break;
        };
        let sample = life.count(&operator, day, &names).await;
        say(&sample);
        samples.push(sample);
    }
    let (traffic, operator_bytes) = life.stop(operator).await;
    let mut fresh_bytes = None;
    if days >= LONG {
        let mut fresh = Mortal::start(&life.world, 2, &settings(), Chair::Alone, &nobody)?;
        life.day(&mut fresh, days.saturating_add(1)).await;
        fresh_bytes = Some(life.stop(fresh).await.1);
    }
    let mut problems = life.problems;
    problems.extend(growth(&samples));
    problems.extend(fresh_bytes.and_then(|fresh| heavier(operator_bytes, fresh)));
    Ok(Soak {
        samples,
        traffic,
        operator_bytes,
        fresh_bytes,
        problems,
    })
}

/// A world, and what is wrong with the operators in it.
struct Life<'a> {
    world: World,
    seed: u64,
    bytes: &'a dyn Fn() -> u64,
    problems: Vec<String>,
}

impl Life<'_> {
    /// Lives a day: the names that pods, nodes and claims had at noon, unless the operator ended.
    async fn day(&mut self, operator: &mut Mortal, day: u32) -> Option<BTreeSet<String>> {
        let today = live_a_day(&self.world, self.seed, day);
        let names = tokio::select! {
            biased;
            end = operator.ends() => {
                self.problems.push(format!("the operator ended on day {day}: {end:?}"));
                None
            }
            names = today => Some(names),
        };
        if names.as_ref().is_some_and(BTreeSet::is_empty) {
            self.problems.push(format!("nothing ran at noon of day {day}"));
        }
        self.world.spot().with(crate::spot::Platform::close_ledger);
        names
    }

    /// Stops an operator: what it sent, and what its stop gave back.
    async fn stop(&mut self, operator: Mortal) -> (Traffic, u64) {
        let before = (self.bytes)();
        let (traffic, wrong) = operator.stop().await;
        self.problems.extend(wrong);
        (traffic, before.saturating_sub((self.bytes)()))
    }
}

/// What pods, nodes and claims are called now.
fn names(world: &World) -> BTreeSet<String> {
    let kinds = ["pods", "nodes", "nodeclaims.karpenter.sh"];
    let objects = kinds.into_iter().flat_map(|kind| world.values(kind));
    objects
        .filter_map(|object| Some(object.pointer("/metadata/name")?.as_str()?.to_owned()))
        .collect()
}

async fn world(seed: u64) -> Result<World, WorldError> {
    let mut options = WorldOptions {
        spot: Options::short(),
        ..WorldOptions::default()
    };
    options.spot.delays.auction = 10.0;
    options.spot.market.regions = ["us-east-iad-1".to_owned()].into();
    options.machines.lease_seconds = 60;
    options.workloads.silence_seconds = 200;
    // what the world itself remembers must not look like a leak
    let api = ApiOptions {
        audit_capacity: 1000,
        ..ApiOptions::default()
    };
    let world = World::builder(seed).options(options).api(api).start().await?;
    world.apply_value(&super::node_pools::class(seed)).await?;
    world.apply_value(&pool()).await?;
    for (app, cpu) in [("day", "1"), ("shift", "1500m")] {
        world.apply_value(&deployment(app, cpu)).await?;
    }
    Ok(world)
}

fn settings() -> Settings {
    vec![
        ("SPOT_CLOUDSPACE_NAME", "sandbox".into()),
        ("SPOT_REFRESH_TOKEN", Options::default().account.refresh_token),
        ("DISABLE_LEADER_ELECTION", "true".into()),
    ]
}

fn pool() -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"}, "spec": {
        "template": {"spec": {
            "nodeClassRef": {"group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default"},
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]}],
            "expireAfter": "24h"}},
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m", "budgets": [{"nodes": "50%"}]}}})
}

fn deployment(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"terminationGracePeriodSeconds": 5,
                "containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]}}}})
}

/// Up by noon, down by midnight, with trouble in between; yields the names of noon.
async fn live_a_day(world: &World, seed: u64, day: u32) -> BTreeSet<String> {
    let mut noon = BTreeSet::new();
    let mut draw = Draw::of(seed, &format!("day {day}"));
    let midnight = Instant::now();
    for hour in 1..=24_u32 {
        let height = PEAK.saturating_sub(hour.abs_diff(12));
        for (app, shift) in [("deployment/day", 0), ("deployment/shift", 4)] {
            let wished = if hour >= 22 { 0 } else { height.saturating_sub(shift) };
            // the API server itself refuses nobody but the operator
            let _ = world.scale(app, wished).await;
        }
        trouble(world, &mut draw, hour).await;
        tokio::time::sleep_until(midnight + HOUR * hour).await;
        if hour == 12 {
            noon = names(world);
        }
    }
    noon
}

/// At most one kind of trouble an hour, over before the next.
async fn trouble(world: &World, draw: &mut Draw, hour: u32) {
    let lasts = draw.seconds(60, 900);
    match (hour, draw.between(0, 5)) {
        // the last hours are for coming to rest
        (21.., _) => {}
        (_, 0) => {
            let rules = [
                FaultRule::new(Fault::InternalError, 0.1),
                FaultRule::new(
                    Fault::TimeoutAfter {
                        after: Duration::from_secs(10),
                    },
                    0.05,
                ),
                FaultRule::new(
                    Fault::DropWatch {
                        within: Duration::from_secs(30),
                    },
                    1.0,
                ),
            ];
            world
                .api()
                .set_faults(weather::for_operators(&rules, &[1, 2].map(super::mortal::user)));
            tokio::time::sleep(lasts).await;
            world.api().set_faults(ApiFaults::default());
        }
        (_, 1) => {
            let spell = draw.one_of([
                SpotSpell::Errors(0.3),
                SpotSpell::Outage,
                SpotSpell::RateLimit(2),
                SpotSpell::Feed(FeedMode::Broken),
            ]);
            world.spot().with(|platform| spell.begin(platform.options_mut()));
            tokio::time::sleep(lasts).await;
            world.spot().with(|platform| {
                let options = platform.options_mut();
                options.faults = crate::spot::Faults::default();
                options.feed = FeedMode::Normal;
            });
        }
        (_, 2 | 3) => {
            tokio::time::sleep(lasts).await;
            let pool = super::deeds::Pick::draw(draw).of(world.pools());
            let Some(pool) = pool else { return };
            let control = if draw.chance(0.7) {
                Control::Preempt { pool }
            } else {
                Control::VanishPool { pool }
            };
            world.spot().with(|platform| platform.control(control));
        }
        (_, 4) => world.spot().with(|platform| platform.control(Control::EndTokens)),
        _ => {}
    }
}

impl Life<'_> {
    /// Counts everything; `noon` are names of objects of which most are gone by now.
    async fn count(&mut self, operator: &Mortal, day: u32, noon: &BTreeSet<String>) -> Sample {
        let scrape = operator.scrape().await;
        let present = names(&self.world);
        let gone = noon.difference(&present).map(String::as_str).collect();
        self.problems
            .extend(about_gone(&scrape, &gone).map(|line| format!("day {day}: {line}")));
        let objects = {
            let store = self.world.api();
            let core = store.inner.core();
            core.store.tables().map(|(_, table)| table.objects.len()).sum::<usize>()
        };
        let mut sample = Sample {
            day,
            series: number(series(&scrape).count()),
            queued: sum(&scrape, "workqueue_depth"),
            delayed: sum(&scrape, "karpenter_workqueue_delayed"),
            objects: number(objects),
            pools: number(self.world.pools().len()),
            bought: self.world.spot().with(|platform| platform.won()),
            bytes: 0,
        };
        // last: what was made for counting is not counted
        drop((scrape, present));
        sample.bytes = (self.bytes)();
        sample
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = self.bytes / 1024;
        write!(
            f,
            "{:>4} {:>10} {:>8} {:>8} {:>8} {:>8} {:>6} {:>8}",
            self.day, kib, self.series, self.queued, self.delayed, self.objects, self.pools, self.bought
        )
    }
}

/// The heading of a table of samples.
pub const HEADING: &str = " day  KiB in use   series   queued  delayed  objects  pools   bought";
