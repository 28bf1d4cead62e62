//! What a seed stands for, drawn before anything runs.

use super::apps::{App, Hope, apps};
use super::deeds::{Deed, Pick, Sick};
use super::draw::Draw;
use super::foreign::{ELSEWHERE, Foreign};
use super::mortal::{Chair, Settings, Trap};
use super::node_pools;
use super::weather;
use crate::api::HookPoint;
use crate::spot::{CloudspaceSeed, Distribution, Options};
use crate::world::WorldOptions;
use chrono::TimeDelta;
use serde_json::Value;
use std::time::Duration;

/// The cloudspace of the operator.
const CLOUDSPACE: &str = "sandbox";

/// Which kinds of trouble a seed has. All of them at once would drown each other's traces, so each is there with even odds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent kinds of trouble")]
pub struct Troubles {
    /// Faults of the Kubernetes API and dropped watches.
    pub api: bool,
    /// Faults and quirks of the platform.
    pub platform: bool,
    /// Prices, stock and pre-emptions.
    pub market: bool,
    /// Apps are scaled, rolled out, and their pods deleted.
    pub apps: bool,
    /// People delete claims, nodes, finalizers, and change NodePools.
    pub hands: bool,
    /// The operator is killed or restarted.
    pub kills: bool,
}

impl Troubles {
    fn draw(seed: u64) -> Self {
        let mut draw = Draw::of(seed, "troubles");
        Self {
            api: draw.chance(0.5),
            platform: draw.chance(0.5),
            market: draw.chance(0.4),
            apps: draw.chance(0.5),
            hands: draw.chance(0.3),
            kills: draw.chance(0.5),
        }
    }

    /// Whether every machine that is bought is needed and stays needed: then each must get a pod.
    pub fn is_steady(&self) -> bool {
        !self.platform && !self.market && !self.apps && !self.hands
    }
}

/// What a seed stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Its kinds of trouble.
    pub troubles: Troubles,
    pub(super) world: WorldOptions,
    pub(super) settings: Settings,
    pub(super) chair: Chair,
    pub(super) foreign: Foreign,
    pub(super) class: Value,
    pub(super) pools: Vec<Value>,
    pub(super) apps: Vec<App>,
    /// What happens, in order of time.
    pub(super) deeds: Vec<(Duration, Deed)>,
    /// How long trouble lasts.
    pub(super) length: Duration,
}

impl Plan {
    /// Draws the plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let troubles = Troubles::draw(seed);
        let apps = apps(seed);
        let length = Draw::of(seed, "length").seconds(8 * 60, 25 * 60);
        Self {
            seed,
            troubles,
            world: world(seed),
            settings: settings(seed),
            // renewing a lease is most of what an hour costs, so few seeds do
            chair: if Draw::of(seed, "chair").chance(0.1) {
                Chair::Lease
            } else {
                Chair::Alone
            },
            foreign: Foreign::draw(seed, CLOUDSPACE),
            class: node_pools::class(seed),
            pools: node_pools::pools(seed),
            deeds: deeds(seed, troubles, &apps, length),
            apps,
            length,
        }
    }

    /// How long a call of the operator to the platform may wait for its next try.
    pub(super) fn longest_wait(&self) -> TimeDelta {
        let wait = self.settings.iter().find(|(name, _)| *name == "SPOT_RETRY_WAIT_MAX");
        let seconds = wait.and_then(|(_, value)| value.trim_end_matches('s').parse().ok());
        TimeDelta::seconds(seconds.unwrap_or(600))
    }

    /// Whether the pods of an app must have a node in the end.
    pub(super) fn is_certain(&self, app: &str) -> bool {
        self.apps
            .iter()
            .any(|found| found.name == app && found.hope == Hope::Certain)
    }
}

fn world(seed: u64) -> WorldOptions {
    let mut draw = Draw::of(seed, "world");
    let mut spot = Options::short();
    spot.delays.auction = 10.0;
    spot.delays.build = draw.one_of([
        Distribution::Between(2.0, 10.0),
        Distribution::Between(20.0, 90.0),
        Distribution::LongTail {
            median: 120.0,
            sigma: 0.5,
            max: 600.0,
        },
    ]);
    spot.delays.notice = draw.one_of([0.0, 30.0, 360.0]);
    spot.delays.release = draw.one_of([1.0, 30.0]);
    spot.quirks.node_before_key = draw.chance(0.3);
    spot.quirks.wins_again = draw.chance(0.7);
    spot.quirks.node_lingers = draw.chance(0.1);
    spot.quirks.id_token_seconds = draw.one_of([300, 3600]);
    // a request that never answers is held longer than the operator waits
    spot.faults.hold_seconds = 40;
    spot.market.regions = [CloudspaceSeed::default().region].into();
    spot.account.cloudspaces = vec![
        CloudspaceSeed {
            name: CLOUDSPACE.into(),
            ..CloudspaceSeed::default()
        },
        CloudspaceSeed {
            name: ELSEWHERE.into(),
            ..CloudspaceSeed::default()
        },
    ];
    let mut world = WorldOptions {
        spot,
        ..WorldOptions::default()
    };
    // Heartbeats are most of what a quiet cluster does; three times as slow is quick enough here.
    world.machines.lease_seconds = 30;
    world.machines.pod_stop_seconds = draw.one_of([Some(1.0), None]);
    world.workloads.silence_seconds = 100;
    world
}

fn settings(seed: u64) -> Settings {
    let mut draw = Draw::of(seed, "settings");
    let account = Options::default().account;
    vec![
        ("SPOT_CLOUDSPACE_NAME", CLOUDSPACE.into()),
        ("SPOT_REFRESH_TOKEN", account.refresh_token),
        ("DISABLE_LEADER_ELECTION", "true".into()),
        ("RACKSPACE_LAUNCH_TIMEOUT", draw.one_of(["5m", "10m", "30m"]).into()),
        ("SPOT_RETRY_WAIT_MAX", draw.one_of(["10s", "60s", "600s"]).into()),
        ("FEATURE_GATES", format!("SpotToSpotConsolidation={}", draw.chance(0.5))),
    ]
}

/// Draws what happens at a moment.
type Maker<'a> = &'a mut dyn FnMut(&mut Draw, &mut Vec<(Duration, Deed)>, Duration);

fn deeds(seed: u64, troubles: Troubles, apps: &[App], length: Duration) -> Vec<(Duration, Deed)> {
    let mut deeds = Vec::new();
    let seconds = length.as_secs();
    let mut add = |part: &str, least: u64, most: u64, make: Maker<'_>| {
        let mut draw = Draw::of(seed, part);
        for _ in 0..draw.between(least, most) {
            let at = draw.seconds(5, seconds);
            make(&mut draw, &mut deeds, at);
        }
    };
    if troubles.api {
        add("api", 1, 3, &mut |draw, deeds, at| {
            spell(
                deeds,
                weather::api_spell(draw),
                at,
                draw.seconds(30, 600).min(length.saturating_sub(at)),
            );
        });
        add("compact", 0, 2, &mut |_, deeds, at| deeds.push((at, Deed::Compact)));
    }
    if troubles.platform {
        add("spot", 1, 3, &mut |draw, deeds, at| {
            spell(
                deeds,
                weather::spot_spell(draw),
                at,
                draw.seconds(60, 900).min(length.saturating_sub(at)),
            );
        });
        add("quirk", 0, 4, &mut |draw, deeds, at| deeds.push((at, quirk(draw))));
    }
    if troubles.market {
        add("market", 1, 4, &mut |draw, deeds, at| deeds.push((at, market(draw))));
    }
    if troubles.apps {
        add("scale", 1, 6, &mut |draw, deeds, at| {
            deeds.extend(app(draw, apps).map(|deed| (at, deed)));
        });
    }
    if troubles.hands {
        add("hands", 1, 3, &mut |draw, deeds, at| deeds.push((at, hand(draw))));
    }
    if troubles.kills {
        add("kills", 1, 4, &mut |draw, deeds, at| deeds.push((at, kill(draw))));
    }
    deeds.sort_by_key(|(at, _)| *at);
    deeds
}

fn spell(deeds: &mut Vec<(Duration, Deed)>, spell: weather::Spell, at: Duration, lasts: Duration) {
    deeds.push((at, Deed::Begin(spell)));
    deeds.push((at.saturating_add(lasts), Deed::Clear));
}

fn quirk(draw: &mut Draw) -> Deed {
    let pick = Pick::draw(draw);
    match draw.between(0, 6) {
        0 => Deed::Vanish(pick),
        1 => Deed::RemoveKeys(pick),
        2 => Deed::WipeLabels(pick),
        3 => Deed::EndTokens,
        4 => Deed::RevokeToken(draw.seconds(30, 300)),
        5 => Deed::Sicken(pick, Sick::For(draw.seconds(30, 600))),
        _ => Deed::Sicken(pick, Sick::ForGood),
    }
}

fn market(draw: &mut Draw) -> Deed {
    let pick = Pick::draw(draw);
    match draw.between(0, 4) {
        0 => Deed::Preempt(pick),
        1 => Deed::Kill(pick),
        2 => Deed::Spike(pick, draw.seconds(60, 900)),
        3 => Deed::SellOut(pick, draw.seconds(60, 900)),
        _ => Deed::SpikeEverything(draw.seconds(60, 600)),
    }
}

fn app(draw: &mut Draw, apps: &[App]) -> Option<Deed> {
    let usable: Vec<&App> = apps.iter().filter(|app| app.target.is_some()).collect();
    let index = usize::try_from(draw.between(0, 1000)).unwrap_or_default() % usable.len().max(1);
    let target = usable.get(index)?.target.clone()?;
    Some(match draw.between(0, 4) {
        0 => Deed::Scale(target, 0),
        1 | 2 => Deed::Scale(target, draw.count(1, 6)),
        3 => Deed::RollOut(target, draw.between(2, 9)),
        _ => Deed::DeletePod(Pick::draw(draw)),
    })
}

fn hand(draw: &mut Draw) -> Deed {
    let pick = Pick::draw(draw);
    match draw.between(0, 4) {
        0 => Deed::DeleteClaim(pick),
        1 => Deed::DeleteNode(pick),
        2 => Deed::StripClaim(pick),
        3 => Deed::Relabel(pick),
        _ => Deed::Evict(pick),
    }
}

fn kill(draw: &mut Draw) -> Deed {
    let away = draw.seconds(0, 120);
    match draw.between(0, 4) {
        0 => Deed::Restart(away),
        1 => Deed::KillNow(away),
        _ => {
            let side = draw.one_of([HookPoint::Before, HookPoint::After]);
            Deed::KillAt(
                Trap {
                    writes: draw.between(1, 40),
                    side,
                },
                away,
            )
        }
    }
}
