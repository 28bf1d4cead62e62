//! What goes wrong for a while: faults of the Kubernetes API for the operator alone, and of the platform for everybody.

use super::draw::Draw;
use crate::api::{ApiFaults, Fault, FaultRule, Verb};
use crate::spot::{FeedMode, Options};
use std::time::Duration;

/// A spell of bad weather.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Spell {
    /// Of the Kubernetes API.
    Api(Vec<FaultRule>),
    /// Of the platform: how its options differ.
    Spot(SpotSpell),
}

/// What of the platform is bad.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SpotSpell {
    /// Errors, lost and slow answers by chance.
    Errors(f64),
    /// Everything but the feed answers 503.
    Outage,
    /// 429 above so many requests a second.
    RateLimit(u32),
    /// GETs of pools that exist answer 404 by chance.
    FlappingNotFound(f64),
    /// Lists are late by so many seconds.
    LateLists(f64),
    /// The status of pools is not written, nobody wins.
    FrozenStatus,
    /// Custom labels are wiped as soon as they were applied.
    WipedLabels,
    /// Servers are won and never built, by chance.
    NeverBuilt(f64),
    /// Servers are attached and never join, by chance.
    NeverJoins(f64),
    /// The price feed.
    Feed(FeedMode),
    /// Pre-empted servers get no notice.
    NoNotice,
}

/// A spell of the Kubernetes API: some kinds of faults at once.
pub(super) fn api_spell(draw: &mut Draw) -> Spell {
    let mut rules = Vec::new();
    let many = draw.count(1, 3);
    for _ in 0..many {
        let probability = draw.share(0.02, 0.3);
        let fault = match draw.between(0, 6) {
            0 => Fault::TooManyRequests {
                retry_after: draw.count(1, 3),
            },
            1 => Fault::InternalError,
            2 => Fault::Conflict,
            3 => Fault::TimeoutBefore {
                after: draw.seconds(1, 30),
            },
            4 => Fault::TimeoutAfter {
                after: draw.seconds(1, 30),
            },
            5 => Fault::Slow {
                least: Duration::from_millis(50),
                most: draw.seconds(1, 6),
            },
            _ => Fault::StaleRead {
                back: draw.between(1, 200),
            },
        };
        rules.push(FaultRule::new(fault, probability));
    }
    if draw.chance(0.5) {
        let fault = Fault::DropWatch {
            within: draw.seconds(1, 60),
        };
        rules.push(FaultRule::new(fault, draw.share(0.3, 1.0)).verbs(&[Verb::Watch]));
    }
    Spell::Api(rules)
}

/// A spell of the platform.
pub(super) fn spot_spell(draw: &mut Draw) -> Spell {
    Spell::Spot(match draw.between(0, 10) {
        0 => SpotSpell::Errors(draw.share(0.05, 0.4)),
        1 => SpotSpell::Outage,
        2 => SpotSpell::RateLimit(draw.count(1, 3)),
        3 => SpotSpell::FlappingNotFound(draw.share(0.1, 0.6)),
        4 => SpotSpell::LateLists(draw.share(5.0, 60.0)),
        5 => SpotSpell::FrozenStatus,
        6 => SpotSpell::WipedLabels,
        7 => SpotSpell::NeverBuilt(draw.share(0.2, 1.0)),
        8 => SpotSpell::NeverJoins(draw.share(0.2, 1.0)),
        9 => SpotSpell::Feed(draw.one_of([
            FeedMode::Outage,
            FeedMode::Broken,
            FeedMode::Empty,
            FeedMode::NoClasses,
            FeedMode::Hostile,
            FeedMode::Missing,
        ])),
        _ => SpotSpell::NoNotice,
    })
}

/// The rules for the operators of a trial, whatever their number.
pub(super) fn for_operators(rules: &[FaultRule], users: &[String]) -> ApiFaults {
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    ApiFaults {
        rules: rules.iter().cloned().map(|rule| rule.users(&users)).collect(),
    }
}

impl SpotSpell {
    /// Makes the platform so.
    pub(super) fn begin(self, options: &mut Options) {
        let (faults, quirks) = (&mut options.faults, &mut options.quirks);
        match self {
            Self::Errors(share) => {
                faults.server_errors = share;
                faults.lost_before = share / 4.0;
                faults.lost_after = share / 4.0;
                faults.slow = share;
            }
            Self::Outage => faults.outage = true,
            Self::RateLimit(limit) => faults.rate_limit = Some(limit),
            Self::FlappingNotFound(share) => quirks.flapping_not_found = share,
            Self::LateLists(seconds) => quirks.list_lag = seconds,
            Self::FrozenStatus => quirks.status_frozen = true,
            Self::WipedLabels => quirks.wipes_labels = true,
            Self::NeverBuilt(share) => quirks.never_built = share,
            Self::NeverJoins(share) => quirks.never_joins = share,
            Self::Feed(mode) => options.feed = mode,
            Self::NoNotice => quirks.preemption_notice = false,
        }
    }
}
