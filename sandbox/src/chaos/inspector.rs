//! What may never be so, looked at all along.
//!
//! - a pool of ours has a live claim, or goes within the rules of collection (architecture §7.20);
//! - what is paid for machines without claim after that is nothing, by the platform's own ledger, whether or not it still shows a pool for it;
//! - one pool and one server for a claim, one registered node for a claim, no pool for a claim that never was;
//! - limits of NodePools hold;
//! - nothing foreign is written to, on either side.
//!
//! Who writes under whose lease is the witness's business.

use super::census::{Census, text};
use super::foreign::Foreign;
use super::pages::Pages;
use crate::spot::{Amount, Platform, Pool};
use crate::world::World;
use chrono::{DateTime, TimeDelta, Utc};
use karpenter::controllers::nodeclaim::garbage::PERIOD;
use karpenter::lifecycle::garbage::MACHINE_MIN_AGE;
use std::collections::{BTreeMap, BTreeSet};

/// The mark of our pools.
const MARK: &str = "karpenter.rackspace.com/managed";

/// What the collector's calls take, and the rounds of their limiter.
const CALLS: TimeDelta = TimeDelta::minutes(1);
/// How long a machine may still bill once it was given back, and one look: a server that the platform had told to end before runs to the end of its notice,
/// pool or no pool, and the longest notice that a plan draws is longer than the longest release.
const RELEASE: TimeDelta = TimeDelta::seconds(360 + 15);

/// How long in good weather a pool may be left without claim once it is old enough to be collected (architecture §7.20): one round of the collector and
/// what its calls take; where calls to the platform failed before, the longest wait for the next try comes on top.
pub(super) fn grace(longest_wait: TimeDelta) -> TimeDelta {
    TimeDelta::from_std(PERIOD).unwrap_or_default() + CALLS + longest_wait
}

/// A machine order whose claim is gone.
#[derive(Debug, Clone, Copy, Default)]
struct Orphan {
    /// How long it has been so in good weather, being old enough.
    clear: TimeDelta,
    /// What it had cost when its time was over, and what it has cost by now.
    cost: Option<(Amount, Amount)>,
}

/// Whether the operator has had its chance since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sky {
    /// It ran, and both APIs answered.
    Clear,
    /// Not quite.
    Covered,
}

/// Looks at a world.
pub(super) struct Inspector {
    census: Census,
    pages: Pages,
    orphans: BTreeMap<String, Orphan>,
    grace: TimeDelta,
    last: DateTime<Utc>,
    found: BTreeSet<String>,
}

impl Inspector {
    /// An inspector that begins now. `grace` is how long in good weather a pool may be left without claim.
    pub(super) fn new(census: Census, grace: TimeDelta, world: &World) -> Self {
        let mut inspector = Self {
            census,
            pages: Pages::default(),
            orphans: BTreeMap::new(),
            grace,
            last: world.now(),
            found: BTreeSet::new(),
        };
        inspector.census.follow(world);
        inspector.pages.turn(world);
        inspector
    }

    /// All claims so far.
    pub(super) fn census(&self) -> &Census {
        &self.census
    }

    /// Another operator begins.
    pub(super) fn operator_begins(&mut self, world: &World) {
        self.census.forget_plans(world);
    }

    /// What was found, each once.
    pub(super) fn into_found(mut self) -> Vec<String> {
        for (name, orphan) in &self.orphans {
            if let Some((first, last)) = orphan.cost.filter(|(first, last)| first != last) {
                self.found.insert(format!(
                    "pool {name} costs money although its claim is gone: ${first} when its time was over, ${last} in the end"
                ));
            }
        }
        self.found.into_iter().collect()
    }

    /// Notes something that others found.
    pub(super) fn note(&mut self, words: String) {
        self.found.insert(words);
    }

    /// Looks at everything.
    pub(super) fn look(&mut self, world: &World, foreign: &Foreign, sky: Sky) {
        let now = world.now();
        let passed = if sky == Sky::Clear {
            now - self.last
        } else {
            TimeDelta::zero()
        };
        self.last = now;
        self.census.follow(world);
        self.found.extend(self.census.breaches().cloned());
        self.look_at_pools(world, foreign, passed);
        self.look_at_nodes(world);
        self.look_at_writes(world, foreign);
    }

    fn look_at_pools(&mut self, world: &World, foreign: &Foreign, passed: TimeDelta) {
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let mut serving: BTreeMap<String, u32> = BTreeMap::new();
        let ours = |name: &str| !foreign.owns_pool(name);
        world.spot().with(|platform| {
            for pool in platform.pools().filter(|pool| ours(&pool.meta.name)) {
                let name = &pool.meta.name;
                *seen.entry(name.clone()).or_default() += 1;
                if !self.census.knows(name) {
                    self.found.insert(format!("pool {name} is for a claim that never was"));
                }
                if pool.spec.wanted() > 1 {
                    self.found
                        .insert(format!("pool {name} asks for {} servers", pool.spec.wanted()));
                }
            }
            for server in platform
                .servers()
                .filter(|server| server.counts() && ours(&server.pool.name))
            {
                *serving.entry(server.pool.name.clone()).or_default() += 1;
            }
            self.look_at_orphans(platform, ours, &reported(world), passed);
        });
        for (what, counts) in [("pools", seen), ("servers", serving)] {
            let many = counts.iter().filter(|(_, count)| **count > 1);
            self.found
                .extend(many.map(|(name, count)| format!("there are {count} {what} {name}")));
        }
    }

    /// Everything that was ever ordered and has no claim, whether or not there still is a pool.
    fn look_at_orphans(
        &mut self,
        platform: &Platform,
        ours: impl Fn(&str) -> bool,
        reported: &BTreeSet<String>,
        passed: TimeDelta,
    ) {
        let live = self.census.live();
        let billed = platform.ledger().costs().keys().map(|key| key.name.as_str());
        let pools = platform.pools().map(|pool| pool.meta.name.as_str());
        let names: BTreeSet<&str> = billed.chain(pools).filter(|name| ours(name)).collect();
        let mut orphans = BTreeMap::new();
        for name in names.into_iter().filter(|name| !live.contains(name)) {
            let pool = platform.pool(name);
            if pool.is_some_and(|pool| told(pool, reported)) {
                continue;
            }
            let mut orphan = self.orphans.get(name).copied();
            if let Some(orphan) = &mut orphan {
                let is_old = pool.is_none_or(|pool| self.last - pool.meta.created >= MACHINE_MIN_AGE + passed);
                orphan.clear += if is_old { passed } else { TimeDelta::zero() };
            }
            let mut orphan = orphan.unwrap_or_default();
            let stays = pool.is_some_and(|pool| pool.meta.deleting.is_none());
            if orphan.clear > self.grace && stays {
                self.found.insert(format!("pool {name} outlives its claim"));
            }
            if orphan.clear > self.grace + RELEASE {
                let spent = platform.cost_of(name);
                orphan.cost = Some((orphan.cost.map_or(spent, |(first, _)| first), spent));
            }
            orphans.insert(name.to_owned(), orphan);
        }
        self.orphans = orphans;
    }

    /// architecture §7.21
    fn look_at_nodes(&mut self, world: &World) {
        let mut registered: BTreeMap<String, String> = BTreeMap::new();
        let core = world.api().inner.core();
        for (_, node) in core.store.objects("nodes") {
            let node = node.value();
            let of = |label: &str| text(node, &format!("/metadata/labels/{}", label.replace('/', "~1")));
            let (Some(uid), Some("true")) = (
                of("karpenter.rackspace.com/nodeclaim-uid"),
                of("karpenter.sh/registered"),
            ) else {
                continue;
            };
            let name = text(node, "/metadata/name").unwrap_or_default().to_owned();
            if text(node, "/metadata/deletionTimestamp").is_some() {
                continue;
            }
            if let Some(other) = registered.insert(uid.to_owned(), name.clone()) {
                self.found
                    .insert(format!("claim {uid} has two registered nodes, {other} and {name}"));
            }
        }
    }

    fn look_at_writes(&mut self, world: &World, foreign: &Foreign) {
        let news = self.pages.turn(world);
        let nodes = if news.kubernetes.is_empty() {
            BTreeSet::new()
        } else {
            foreign.nodes(world)
        };
        for entry in news
            .kubernetes
            .iter()
            .filter(|entry| entry.user.starts_with("operator-"))
        {
            let a_node = entry.resource == "nodes" && nodes.contains(&entry.name);
            if a_node || Foreign::owns_object(&entry.resource, &entry.name) {
                let what = format!("{} {} {}", entry.verb.as_str(), entry.resource, entry.name);
                self.found
                    .insert(format!("{} wrote to what is not ours: {what}", entry.user));
            }
        }
        for request in news.spot.iter().filter(|request| foreign.is_named_by(&request.path)) {
            self.found.insert(format!(
                "a user's pool was written to: {} {}",
                request.method, request.path
            ));
        }
    }
}

/// Pools that were told to be without claim.
pub(super) fn reported(world: &World) -> BTreeSet<String> {
    let core = world.api().inner.core();
    let events = core.store.objects("events").map(|(_, event)| event.value());
    let messages = events
        .filter(|event| event["reason"] == "UnclaimedMachine")
        .filter_map(|event| text(event, "/message"));
    messages
        .filter_map(|message| message.split(' ').nth(1))
        .map(str::to_owned)
        .collect()
}

/// Whether nothing proves that a pool is ours, and that was told (architecture §7.20).
pub(super) fn told(pool: &Pool, reported: &BTreeSet<String>) -> bool {
    !pool.spec.custom_labels.contains_key(MARK) && reported.contains(&pool.meta.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::foreign::ELSEWHERE;
    use crate::spot::{CloudspaceSeed, Options};
    use crate::world::Order;
    use serde_json::{Value, json};
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_mins(1);

    struct Scene {
        world: World,
        foreign: Foreign,
        inspector: Inspector,
    }

    impl Scene {
        /// A world without operator: whatever is wrong in it stays so.
        async fn set(pools: &[Value]) -> Self {
            let spaces = ["sandbox", ELSEWHERE].map(|name| CloudspaceSeed {
                name: name.into(),
                ..CloudspaceSeed::default()
            });
            let world = World::builder(1).with(|options| {
                options.spot = Options::short();
                options.spot.account.cloudspaces = spaces.into();
            });
            let world = world.start().await.unwrap();
            for pool in pools {
                world.apply_value(pool).await.unwrap();
            }
            let foreign = Foreign::draw(1, "sandbox");
            assert_eq!(foreign.place(&world).await.unwrap(), Vec::<String>::new());
            let inspector = Inspector::new(Census::of(pools), grace(TimeDelta::zero()), &world);
            Self {
                world,
                foreign,
                inspector,
            }
        }

        async fn claim(&self, name: &str) -> String {
            let class =
                json!({"group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default"});
            let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "general"}},
                "spec": {"nodeClassRef": class, "requirements": []}});
            let made = self.world.apply_value(&claim).await.unwrap();
            made.metadata.uid.unwrap()
        }

        fn order(&self, pool: &str) {
            let labels = [(MARK, "true")].into();
            assert_eq!(
                self.world.order(&Order {
                    pool,
                    labels,
                    ..Order::default()
                }),
                201
            );
        }

        async fn look(&mut self, minutes: u32) {
            for _ in 0..minutes {
                self.world.pass(MINUTE).await;
                self.inspector.look(&self.world, &self.foreign, Sky::Clear);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pool_with_its_claim_is_well_and_one_that_outlives_it_is_found_with_its_cost() {
        let mut scene = Scene::set(&[]).await;
        let uid = scene.claim("one").await;
        scene.order(&uid);
        scene.look(30).await;
        assert_eq!(scene.inspector.found, BTreeSet::new());
        scene.world.delete("nodeclaim/one").await.unwrap();
        scene.look(3).await;
        assert_eq!(scene.inspector.found, BTreeSet::new(), "the collector has its time");
        scene.look(10).await;
        let found: Vec<String> = scene.inspector.into_found();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("costs money") && found[1].contains("outlives"),
            "{found:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_pool_for_nobody_and_a_touched_pool_of_a_user_are_found() {
        let mut scene = Scene::set(&[]).await;
        scene.order("00000000-0000-4000-8000-00000000000a");
        let theirs = scene
            .world
            .pools()
            .into_iter()
            .find(|pool| scene.foreign.owns_pool(pool))
            .unwrap();
        scene.world.give_back(&theirs);
        scene.look(1).await;
        let found = scene.inspector.into_found();
        assert!(found.iter().any(|words| words.contains("never was")), "{found:?}");
        assert!(
            found.iter().any(|words| words.contains("a user's pool was written to")),
            "{found:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn labels_of_a_users_pool_that_the_platform_wipes_are_no_deed_of_ours() {
        let world = Scene::set(&[]).await.world;
        let mut draws = (2..).map(|seed| Foreign::draw(seed, "sandbox"));
        let foreign = draws.find(|foreign| foreign.labelled().is_some()).unwrap();
        assert_eq!(foreign.place(&world).await.unwrap(), Vec::<String>::new());
        let pool = foreign.labelled().unwrap().to_owned();
        let before = foreign.picture(&world);
        assert!(foreign.is_as_in(&before, &world));
        let wipe = crate::spot::Control::WipeLabels { pool: pool.clone() };
        world.spot().with(|platform| platform.control(wipe));
        assert_ne!(foreign.picture(&world), before);
        assert!(foreign.is_as_in(&before, &world));
        world.give_back(&pool);
        assert!(!foreign.is_as_in(&before, &world), "that was no deed of the platform");
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_is_exceeded_for_a_moment_is_found() {
        let class = json!({"group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default"});
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
            "spec": {"limits": {"nodes": "1"}, "template": {"spec": {"nodeClassRef": class, "requirements": []}}}});
        let mut scene = Scene::set(&[pool]).await;
        scene.claim("one").await;
        scene.look(1).await;
        assert_eq!(scene.inspector.found, BTreeSet::new());
        scene.claim("two").await;
        scene.world.delete("nodeclaim/two").await.unwrap();
        scene.look(1).await;
        let found = scene.inspector.into_found();
        assert!(
            found.iter().any(|words| words.contains("NodePool general has 2 nodes")),
            "{found:?}"
        );
    }
}
