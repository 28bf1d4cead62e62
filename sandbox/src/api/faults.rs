//! Faults by seed: what a real API server does on a bad day.
//!
//! Rules can be changed while the world runs. Each rule that fits a request draws once, in order, so the same seed and the same requests meet
//! the same faults. Called by [`super::server`] before it carries a call out.

use super::error::ApiError;
use super::kinds::Resource;
use super::route::{Call, Verb};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::time::Duration;

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// 429 with a `Retry-After` of so many seconds; nothing is done.
    TooManyRequests {
        /// Seconds.
        retry_after: u32,
    },
    /// 500; nothing is done.
    InternalError,
    /// 409 on a write; nothing is done.
    Conflict,
    /// 504 after a while; nothing is done.
    TimeoutBefore {
        /// How long the client waits.
        after: Duration,
    },
    /// 504 after a while, but the write took effect.
    TimeoutAfter {
        /// How long the client waits.
        after: Duration,
    },
    /// The right answer, late.
    Slow {
        /// At least.
        least: Duration,
        /// At most.
        most: Duration,
    },
    /// A read is served as of so many revisions ago.
    StaleRead {
        /// Revisions.
        back: u64,
    },
    /// A watch ends without a word after at most so long.
    DropWatch {
        /// At most.
        within: Duration,
    },
}

impl Fault {
    fn fits(&self, verb: Verb) -> bool {
        match self {
            Self::Conflict => verb.is_write() && verb != Verb::Create,
            Self::StaleRead { .. } => matches!(verb, Verb::Get | Verb::List),
            Self::DropWatch { .. } => verb == Verb::Watch,
            _ => true,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::TooManyRequests { .. } => "too_many_requests",
            Self::InternalError => "internal_error",
            Self::Conflict => "conflict",
            Self::TimeoutBefore { .. } => "timeout_before",
            Self::TimeoutAfter { .. } => "timeout_after",
            Self::Slow { .. } => "slow",
            Self::StaleRead { .. } => "stale_read",
            Self::DropWatch { .. } => "drop_watch",
        }
    }
}

/// A fault, the requests it may meet, and how likely it is.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultRule {
    /// What goes wrong.
    pub fault: Fault,
    /// Between 0 and 1.
    pub probability: f64,
    /// Only these verbs; empty means all.
    pub verbs: Vec<Verb>,
    /// Only these kinds by qualified name; empty means all.
    pub resources: Vec<String>,
    /// Only these users; empty means all.
    pub users: Vec<String>,
}

impl FaultRule {
    /// A rule for every request that the fault fits.
    pub fn new(fault: Fault, probability: f64) -> Self {
        Self {
            fault,
            probability,
            verbs: Vec::new(),
            resources: Vec::new(),
            users: Vec::new(),
        }
    }

    /// Only for these verbs.
    pub fn verbs(mut self, verbs: &[Verb]) -> Self {
        self.verbs = verbs.to_vec();
        self
    }

    /// Only for these kinds.
    pub fn resources(mut self, resources: &[&str]) -> Self {
        self.resources = resources.iter().map(|r| (*r).to_owned()).collect();
        self
    }

    /// Only for these users.
    pub fn users(mut self, users: &[&str]) -> Self {
        self.users = users.iter().map(|u| (*u).to_owned()).collect();
        self
    }

    fn fits(&self, verb: Verb, resource: &str, user: &str) -> bool {
        let named = |list: &[String], item: &str| list.is_empty() || list.iter().any(|l| l == item);
        (self.verbs.is_empty() || self.verbs.contains(&verb))
            && named(&self.resources, resource)
            && named(&self.users, user)
            && self.fault.fits(verb)
    }
}

/// All rules in force; none by default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApiFaults {
    /// The rules, in the order in which they draw.
    pub rules: Vec<FaultRule>,
}

/// What a request meets.
#[derive(Debug, Default)]
pub(crate) struct Weather {
    pub(crate) delay: Duration,
    pub(crate) refusal: Option<ApiError>,
    pub(crate) lost_answer: Option<Duration>,
    pub(crate) stale: Option<u64>,
    pub(crate) drop_after: Option<Duration>,
}

#[derive(Debug)]
pub(crate) struct FaultEngine {
    rules: ApiFaults,
    rng: ChaCha8Rng,
    met: BTreeMap<&'static str, u64>,
}

impl FaultEngine {
    pub(crate) fn seeded(seed: u64) -> Self {
        // Not the stream of the ids: switching faults on must not change the names.
        Self {
            rules: ApiFaults::default(),
            rng: ChaCha8Rng::seed_from_u64(!seed),
            met: BTreeMap::new(),
        }
    }

    pub(crate) fn set(&mut self, rules: ApiFaults) {
        self.rules = rules;
    }

    pub(crate) fn met(&self) -> BTreeMap<&'static str, u64> {
        self.met.clone()
    }

    /// Draws for one request.
    pub(crate) fn meet(&mut self, call: &Call, user: &str) -> Weather {
        let mut weather = Weather::default();
        let resource = call.resource.qualified();
        for rule in &self.rules.rules {
            if !rule.fits(call.verb, &resource, user) || !self.rng.random_bool(rule.probability.clamp(0.0, 1.0)) {
                continue;
            }
            let count = self.met.entry(rule.fault.name()).or_default();
            *count = count.saturating_add(1);
            match &rule.fault {
                Fault::Slow { least, most } => {
                    let drawn = self
                        .rng
                        .random_range(millis(*least)..=millis(*most).max(millis(*least)));
                    weather.delay = weather.delay.saturating_add(Duration::from_millis(drawn));
                }
                Fault::StaleRead { back } => weather.stale = Some(*back),
                Fault::DropWatch { within } => {
                    let drawn = self.rng.random_range(0..=millis(*within));
                    weather.drop_after = Some(Duration::from_millis(drawn));
                }
                Fault::TimeoutAfter { after } => weather.lost_answer = Some(*after),
                Fault::TimeoutBefore { after } => {
                    weather.delay = weather.delay.saturating_add(*after);
                    weather.refusal = Some(timed_out());
                }
                fault => weather.refusal = Some(refusal(fault, &call.resource, &call.name)),
            }
        }
        weather
    }
}

fn refusal(fault: &Fault, resource: &Resource, name: &str) -> ApiError {
    match fault {
        Fault::TooManyRequests { retry_after } => {
            ApiError::too_many_requests("Too many requests, please try again later.", *retry_after)
        }
        Fault::Conflict => ApiError::modified(resource, name),
        _ => ApiError::internal("etcdserver: leader changed"),
    }
}

/// The answer of a server that gave up.
pub(crate) fn timed_out() -> ApiError {
    ApiError::timeout("Timeout: request did not complete within the allotted timeout")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
