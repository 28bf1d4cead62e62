//! What goes wrong on the wire: by chance from the seed, or as a test orders.

use super::answer::{Answer, Call, Timing};
use super::chance::{dice, happens};
use super::platform::Platform;
use rand::Rng;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A fault that is played on one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Fault {
    /// An error of the server, without effect.
    Error {
        /// HTTP status code.
        code: u16,
    },
    /// 429, without effect.
    TooMany {
        /// Seconds of `Retry-After`.
        retry_after: u32,
    },
    /// The object is said not to exist, without effect.
    NotFound,
    /// No answer and no effect.
    LostBefore,
    /// The effect, but no answer.
    LostAfter,
    /// The effect, and an answer after a while.
    Slow {
        /// How long.
        milliseconds: u64,
    },
    /// The effect, and a body that is no JSON.
    Garbage,
}

impl Fault {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Error { .. } => "error",
            Self::TooMany { .. } => "tooMany",
            Self::NotFound => "notFound",
            Self::LostBefore => "lostBefore",
            Self::LostAfter => "lostAfter",
            Self::Slow { .. } => "slow",
            Self::Garbage => "garbage",
        }
    }

    /// The answer, if the request has no effect.
    pub(super) fn instead(self, call: &Call, hold: Duration) -> Option<Answer> {
        match self {
            Self::Error { code } => Some(server_error(code)),
            Self::TooMany { retry_after } => Some(too_many(retry_after)),
            Self::NotFound => {
                let name = call.path.rsplit('/').next().unwrap_or_default();
                let plural = call.path.rsplit('/').nth(1).unwrap_or_default();
                Some(
                    super::answer::Subject {
                        plural,
                        kind: plural,
                        name,
                    }
                    .not_found(),
                )
            }
            Self::LostBefore => Some(held(hold)),
            Self::LostAfter | Self::Slow { .. } | Self::Garbage => None,
        }
    }

    /// What becomes of the answer, if the request had its effect.
    pub(super) fn distort(self, mut answer: Answer, hold: Duration) -> Answer {
        match self {
            Self::LostAfter => held(hold),
            Self::Slow { milliseconds } => {
                answer.timing = Timing::Late(Duration::from_millis(milliseconds));
                answer
            }
            Self::Garbage => {
                answer.body = b"<html><body>upstream connect error</body></html>".to_vec();
                answer
            }
            _ => answer,
        }
    }
}

fn server_error(code: u16) -> Answer {
    match code {
        502 | 504 => Answer::text(code, "upstream connect error or disconnect/reset before headers"),
        503 => Answer::text(code, "no healthy upstream"),
        _ => Answer::failure(
            code,
            "InternalError",
            "Internal error occurred: etcdserver: request timed out",
        ),
    }
}

fn too_many(retry_after: u32) -> Answer {
    let mut answer = Answer::failure(429, "TooManyRequests", "Too many requests, please try again later.");
    answer.headers.push(("retry-after", retry_after.to_string()));
    answer
}

fn held(hold: Duration) -> Answer {
    let mut answer = server_error(504);
    answer.timing = Timing::Late(hold);
    answer
}

impl Platform {
    /// The fault for a request: an ordered one first, then the rate limit, then chance.
    pub(super) fn draw_fault(&mut self, call: &Call) -> Option<Fault> {
        if let Some(fault) = self.ordered_fault(call) {
            return Some(fault);
        }
        let public = !call.path.starts_with("/apis/") && !call.path.starts_with("/oauth/");
        if public {
            return None;
        }
        let faults = &self.options.faults;
        if faults.outage {
            return Some(Fault::Error { code: 503 });
        }
        if let Some(limit) = faults.rate_limit {
            let second = self.now.timestamp();
            let (window, count) = self.rate_window;
            self.rate_window = (second, if window == second { count + 1 } else { 1 });
            if self.rate_window.1 > limit {
                return Some(Fault::TooMany { retry_after: 1 });
            }
        }
        let mut dice = dice(self.options.seed, "fault", &self.ledger.asked().to_string());
        let faults = &self.options.faults;
        if happens(faults.server_errors, &mut dice) {
            let codes = [500, 502, 503];
            let code = codes.get(dice.random_range(0..codes.len())).copied().unwrap_or(500);
            return Some(Fault::Error { code });
        }
        if happens(faults.lost_before, &mut dice) {
            return Some(Fault::LostBefore);
        }
        if happens(faults.lost_after, &mut dice) {
            return Some(Fault::LostAfter);
        }
        let is_pool = call.method == "GET" && call.path.contains("nodepools/");
        if is_pool && happens(self.options.quirks.flapping_not_found, &mut dice) {
            return Some(Fault::NotFound);
        }
        happens(faults.slow, &mut dice).then_some(Fault::Slow {
            milliseconds: faults.slow_milliseconds,
        })
    }

    fn ordered_fault(&mut self, call: &Call) -> Option<Fault> {
        let found = self.ordered_faults.iter_mut().find(|ordered| {
            ordered.times > 0
                && ordered.method.as_ref().is_none_or(|method| *method == call.method)
                && call.path.contains(&ordered.path)
        })?;
        found.times -= 1;
        let fault = found.fault;
        self.ordered_faults.retain(|ordered| ordered.times > 0);
        Some(fault)
    }
}
