//! What may never be so, looked at all along.
//!
//! - a pool of ours has a live claim, or goes within the rules of collection (architecture §7.20); what it costs beyond that is a defect;
//! - one pool and one server for a claim, one registered node for a claim, no pool for a claim that never was;
//! - limits of NodePools hold;
//! - nothing foreign is written to, on either side.

use super::census::{Census, LEASES, text};
use super::foreign::Foreign;
use super::pages::Pages;
use crate::spot::{Amount, Pool};
use crate::world::World;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::{BTreeMap, BTreeSet};

/// The mark of our pools.
const MARK: &str = "karpenter.rackspace.com/managed";

/// A pool whose claim is gone.
#[derive(Debug)]
struct Orphan {
    /// How long it has been so in good weather.
    clear: TimeDelta,
    /// What it had cost when its time was over.
    cost: Option<Amount>,
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
    /// An inspector that begins now. `grace` is how long in good weather a pool may outlive its claim.
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

    /// What was found, each once.
    pub(super) fn into_found(self) -> Vec<String> {
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
        self.look_at_writes(world, foreign, sky);
    }

    fn look_at_pools(&mut self, world: &World, foreign: &Foreign, passed: TimeDelta) {
        let reported = reported(world);
        let live = self.census.live();
        let mut orphans = BTreeMap::new();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        world.spot().with(|platform| {
            for pool in platform.pools().filter(|pool| !foreign.owns_pool(&pool.meta.name)) {
                let name = &pool.meta.name;
                if !seen.insert(name.clone()) {
                    self.found.insert(format!("there are two pools {name}"));
                }
                if !self.census.knows(name) {
                    self.found.insert(format!("pool {name} is for a claim that never was"));
                }
                if pool.spec.wanted() > 1 {
                    self.found
                        .insert(format!("pool {name} asks for {} servers", pool.spec.wanted()));
                }
                if live.contains(name.as_str()) || pool.meta.deleting.is_some() || told(pool, &reported) {
                    continue;
                }
                let before = self.orphans.remove(name);
                let clear = before
                    .as_ref()
                    .map_or(TimeDelta::zero(), |orphan| orphan.clear + passed);
                let cost = before.and_then(|orphan| orphan.cost);
                if clear > self.grace {
                    let spent = platform.cost_of(name);
                    let first = cost.unwrap_or(spent);
                    self.found.insert(format!("pool {name} outlives its claim"));
                    if spent != first {
                        self.found
                            .insert(format!("pool {name} costs money although its claim is gone"));
                    }
                    orphans.insert(
                        name.clone(),
                        Orphan {
                            clear,
                            cost: Some(first),
                        },
                    );
                } else {
                    orphans.insert(name.clone(), Orphan { clear, cost });
                }
            }
        });
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

    fn look_at_writes(&mut self, world: &World, foreign: &Foreign, sky: Sky) {
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
        // in bad weather an answer may be late, and only the answer's time is known
        for entry in news
            .kubernetes
            .iter()
            .filter(|entry| sky == Sky::Clear && entry.user.starts_with("operator-"))
        {
            if entry.resource != LEASES && !self.census.may_write(&entry.user, entry.at) {
                self.found.insert(format!(
                    "{} wrote without the lease at {}",
                    entry.user,
                    entry.at.to_rfc3339()
                ));
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
