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
use std::collections::BTreeSet;
use std::time::Duration;

/// The cloudspace of the operator.
const CLOUDSPACE: &str = "sandbox";

/// How many seeds run two operators under a lease.
const LEASE_SHARE: f64 = 0.1;

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
    /// Which of the operators that share a lease keep their caches warm.
    pub(super) warm: [bool; 2],
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
        // Renewing a lease is most of what an hour costs, so few seeds do; those have a second operator, and the lease goes from one to the other.
        let chair = if Draw::of(seed, "chair").chance(LEASE_SHARE) {
            Chair::Lease
        } else {
            Chair::Alone
        };
        let mut troubles = Troubles::draw(seed);
        troubles.kills |= chair == Chair::Lease;
        let apps = apps(seed);
        let length = Draw::of(seed, "length").seconds(8 * 60, 25 * 60);
        Self {
            seed,
            troubles,
            world: world(seed),
            settings: settings(seed),
            chair,
            warm: warm(seed),
            foreign: Foreign::draw(seed, CLOUDSPACE),
            class: node_pools::class(seed),
            pools: node_pools::pools(seed),
            deeds: deeds(seed, troubles, &apps, length, chair),
            apps,
            length,
        }
    }

    /// The kinds of all that happens in it: deeds, faults, quirks, and whether there is a lease.
    pub fn kinds(&self) -> BTreeSet<String> {
        let name = |thing: &dyn std::fmt::Debug| {
            let text = format!("{thing:?}");
            text.split(|c: char| !c.is_alphanumeric())
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let mut kinds = BTreeSet::from([name(&self.chair)]);
        for (_, deed) in &self.deeds {
            match deed {
                Deed::Begin(_, weather::Spell::Api(rules)) => kinds.extend(rules.iter().map(|rule| name(&rule.fault))),
                Deed::Begin(_, weather::Spell::Spot(spell)) => _ = kinds.insert(name(spell)),
                deed => _ = kinds.insert(name(deed)),
            }
        }
        kinds
    }

    /// How long a call of the operator to the platform may wait for its next try: none waits where none failed.
    pub(super) fn longest_wait(&self) -> TimeDelta {
        if self.troubles.platform {
            TimeDelta::from_std(self.setting("SPOT_RETRY_WAIT_MAX")).unwrap_or_default()
        } else {
            TimeDelta::zero()
        }
    }

    /// How long it may take from the end of all trouble until everything has come to rest, and from the wish for nothing until nothing is left. What may
    /// have to pass one after the other: the wait of a call for its next try, the time that a server which never comes is waited for, its successor's
    /// building, the drain of a machine that goes.
    pub(super) fn rest_limit(&self) -> Duration {
        let minutes = Duration::from_mins;
        let wait = self.longest_wait().to_std().unwrap_or_default();
        // launch: architecture §7.3; registration: architecture §7.2
        let never_comes = self.setting("RACKSPACE_LAUNCH_TIMEOUT").max(minutes(15));
        let is_awaited = !self.troubles.is_steady();
        // at most ten minutes for building, the rest for the auction, joining and becoming ready
        let successor = minutes(15);
        // the longest grace period of a NodePool is ten minutes, volumes are taken off a dead node after six, and an explanation is five minutes old
        let drain = minutes(15);
        wait + if is_awaited { never_comes } else { Duration::ZERO } + successor + drain
    }

    /// A setting that is a time.
    fn setting(&self, named: &str) -> Duration {
        let found = self.settings.iter().find(|(name, _)| *name == named);
        let text = found.map_or("", |(_, value)| value.as_str());
        let number = |unit: char| text.strip_suffix(unit).and_then(|number| number.parse().ok());
        let minutes = number('m').map(Duration::from_mins);
        minutes
            .or_else(|| number('s').map(Duration::from_secs))
            .unwrap_or_default()
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

fn deeds(seed: u64, troubles: Troubles, apps: &[App], length: Duration, chair: Chair) -> Vec<(Duration, Deed)> {
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
    if chair == Chair::Lease {
        deeds.extend(hand_overs(seed, &deeds, length));
    }
    deeds.sort_by_key(|(at, _)| *at);
    deeds
}

fn spell(deeds: &mut Vec<(Duration, Deed)>, spell: weather::Spell, at: Duration, lasts: Duration) {
    let number = u32::try_from(deeds.len()).unwrap_or(u32::MAX);
    deeds.push((at, Deed::Begin(number, spell)));
    deeds.push((at.saturating_add(lasts), Deed::End(number)));
}

/// Which of two operators keep their caches warm while they wait for the lease.
fn warm(seed: u64) -> [bool; 2] {
    let mut draw = Draw::of(seed, "warm");
    [draw.chance(0.5), draw.chance(0.5)]
}

/// What makes the lease change hands: one in the middle of each spell of bad weather, and some at any time.
fn hand_overs(seed: u64, deeds: &[(Duration, Deed)], length: Duration) -> Vec<(Duration, Deed)> {
    let mut draw = Draw::of(seed, "hand-overs");
    let ends = |number: &u32| {
        deeds
            .iter()
            .find(|(_, deed)| *deed == Deed::End(*number))
            .map(|(at, _)| *at)
    };
    let mut times: Vec<Duration> = Vec::new();
    for (begins, deed) in deeds {
        if let Deed::Begin(number, _) = deed {
            let lasts = ends(number).unwrap_or(*begins).saturating_sub(*begins);
            times.push(begins.saturating_add(draw.seconds(0, lasts.as_secs())));
        }
    }
    for _ in 0..draw.between(1, 2) {
        times.push(draw.seconds(5, length.as_secs()));
    }
    let overs = times.into_iter().map(|at| match draw.between(0, 2) {
        0 => (at, Deed::CutOff(draw.seconds(3, 60))),
        _ => (at, kill(&mut draw)),
    });
    overs.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_for_coming_to_rest_follows_from_what_may_have_to_be_waited_for() {
        let plans = || (1..200).map(Plan::draw);
        let calm = plans().find(|plan| plan.troubles.is_steady()).unwrap();
        assert_eq!(calm.rest_limit(), Duration::from_mins(30));
        assert_eq!(calm.longest_wait(), TimeDelta::zero());
        let longest = plans().map(|plan| plan.rest_limit()).max().unwrap();
        assert_eq!(longest, Duration::from_mins(10 + 30 + 15 + 15));
    }

    #[test]
    fn under_a_lease_there_is_a_hand_over_in_each_spell_of_bad_weather_and_kinds_of_trouble_are_all_drawn() {
        let mut kinds = BTreeSet::new();
        for plan in (1..500).map(Plan::draw) {
            kinds.extend(plan.kinds());
            if plan.chair == Chair::Alone {
                continue;
            }
            let hands_over = |deed: &Deed| {
                matches!(
                    deed,
                    Deed::CutOff(_) | Deed::Restart(_) | Deed::KillNow(_) | Deed::KillAt(..)
                )
            };
            for (begins, deed) in &plan.deeds {
                let Deed::Begin(number, _) = deed else { continue };
                let ends = plan
                    .deeds
                    .iter()
                    .find(|(_, deed)| *deed == Deed::End(*number))
                    .unwrap()
                    .0;
                let mut meanwhile = plan.deeds.iter().filter(|(at, _)| (*begins..=ends).contains(at));
                assert!(meanwhile.any(|(_, deed)| hands_over(deed)), "seed {}", plan.seed);
            }
        }
        for kind in [
            "Lease",
            "Alone",
            "CutOff",
            "KillAt",
            "Restart",
            "StaleRead",
            "DropWatch",
            "NeverJoins",
            "Outage",
            "Vanish",
        ] {
            assert!(kinds.contains(kind), "{kind} is in none of {kinds:?}");
        }
    }
}
