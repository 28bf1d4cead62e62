//! A long life: days of load waves, pre-emptions and faults in one run of one operator, and whether anything grows that should not.
//!
//! Once a day, at the same trough of the load, memory, metric series, queues and objects are counted. Called by `make soak` and by a short version in the
//! tests; the caller brings the count of allocated bytes, since only a binary has an allocator.

use super::draw::Draw;
use super::mortal::{Chair, Mortal, Settings, Traffic};
use super::weather::{self, SpotSpell};
use crate::api::{ApiFaults, ApiOptions, Fault, FaultRule};
use crate::spot::{Control, FeedMode, Options};
use crate::world::{World, WorldError, WorldOptions};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

/// How often the load changes.
const HOUR: Duration = Duration::from_hours(1);
/// Pods of each app at the peak; a wave of a day goes from none to this and back.
const PEAK: u32 = 12;
/// How much may grow between the first and the last third of the days, in parts of a hundred.
const TOLERATED: u64 = 10;

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
    let world = world(seed).await?;
    let mut operator = Mortal::start(&world, 1, &settings(), Chair::Alone)?;
    let mut problems = Vec::new();
    let mut samples = Vec::new();
    for day in 1..=days {
        let today = live_a_day(&world, seed, day);
        tokio::select! {
            biased;
            end = operator.ends() => {
                problems.push(format!("the operator ended on day {day}: {end:?}"));
                break;
            }
            () = today => {}
        }
        world.spot().with(crate::spot::Platform::close_ledger);
        let sample = count(&world, &operator, day, bytes).await;
        say(&sample);
        samples.push(sample);
    }
    let before = bytes();
    let (traffic, wrong) = operator.stop().await;
    problems.extend(wrong);
    let operator_bytes = before.saturating_sub(bytes());
    problems.extend(growth(&samples));
    Ok(Soak {
        samples,
        traffic,
        operator_bytes,
        problems,
    })
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

/// Up by noon, down by midnight, with trouble in between.
async fn live_a_day(world: &World, seed: u64, day: u32) {
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
    }
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
                .set_faults(weather::for_operators(&rules, &[super::mortal::user(1)]));
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

async fn count(world: &World, operator: &Mortal, day: u32, bytes: &dyn Fn() -> u64) -> Sample {
    let scrape = operator.scrape().await;
    let series = scrape.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let depth = series.clone().filter(|line| line.starts_with("workqueue_depth"));
    let queued = depth
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum::<f64>();
    let objects = world
        .api()
        .inner
        .core()
        .store
        .tables()
        .map(|(_, table)| table.objects.len())
        .sum::<usize>();
    let bought = world.spot().with(|platform| platform.won());
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small count, written as a float by Prometheus"
    )]
    let queued = queued as u64;
    Sample {
        day,
        series: number(series.count()),
        queued,
        objects: number(objects),
        pools: number(world.pools().len()),
        bought,
        // last: the scrape itself is not counted
        bytes: {
            drop(scrape);
            bytes()
        },
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// What of a sample is looked at.
type Measure = fn(&Sample) -> u64;

/// What is larger at its most in the last third of the days than in the third before it.
fn growth(samples: &[Sample]) -> Vec<String> {
    let third = (samples.len() / 3).max(1);
    let (before, last) = samples.split_at(samples.len().saturating_sub(third));
    let before = before.get(before.len().saturating_sub(third)..).unwrap_or_default();
    if before.is_empty() || last.is_empty() {
        return Vec::new();
    }
    let counts: [(&str, Measure, u64); 4] = [
        ("allocated bytes", |sample| sample.bytes, 256 << 10),
        ("metric series", |sample| sample.series, 20),
        ("queued keys", |sample| sample.queued, 5),
        ("objects", |sample| sample.objects, 20),
    ];
    let most = |samples: &[Sample], of: Measure| samples.iter().map(of).max().unwrap_or_default();
    let grown = counts.into_iter().filter_map(|(what, of, slack)| {
        let (then, now) = (most(before, of), most(last, of));
        let allowed = then.saturating_add(then / 100 * TOLERATED).saturating_add(slack);
        (now > allowed).then(|| format!("{what} do not level off: {then} at most before, {now} in the end"))
    });
    grown.collect()
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = self.bytes / 1024;
        write!(
            f,
            "{:>4} {:>10} {:>8} {:>8} {:>8} {:>6} {:>8}",
            self.day, kib, self.series, self.queued, self.objects, self.pools, self.bought
        )
    }
}

/// The heading of a table of samples.
pub const HEADING: &str = " day  KiB in use   series   queued  objects  pools   bought";

#[cfg(test)]
mod tests {
    use super::*;

    fn day(day: u32, bytes: u64, series: u64) -> Sample {
        Sample {
            day,
            bytes,
            series,
            queued: 0,
            objects: 100,
            pools: 0,
            bought: 0,
        }
    }

    #[test]
    fn what_levels_off_is_well_and_what_grows_is_told() {
        let level: Vec<Sample> = (1..=9)
            .map(|n| day(n, 50_000_000 + u64::from(n % 2) * 1_000_000, 800))
            .collect();
        assert_eq!(growth(&level), Vec::<String>::new());
        let leak: Vec<Sample> = (1..=9).map(|n| day(n, u64::from(n) * 10_000_000, 800)).collect();
        assert_eq!(growth(&leak).len(), 1, "{:?}", growth(&leak));
        let series: Vec<Sample> = (1..=9).map(|n| day(n, 50_000_000, u64::from(n) * 100)).collect();
        assert!(growth(&series)[0].contains("series"));
    }
}
