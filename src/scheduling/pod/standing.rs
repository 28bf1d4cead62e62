//! Which pods count for what (scheduling §3).

use super::Pod;
use crate::api::GoDuration;
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::Arc;

/// The phase of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Not all containers run yet; also what an unknown text is read as.
    #[default]
    Pending,
    /// It runs.
    Running,
    /// It ended well.
    Succeeded,
    /// It ended badly.
    Failed,
    /// Its node is silent.
    Unknown,
}

/// What the annotation `karpenter.sh/do-not-disrupt` says at an instant (scheduling 3-6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DoNotDisrupt {
    /// The pod may be disrupted.
    Absent,
    /// It may not.
    InForce,
    /// It may not until then.
    Until(DateTime<Utc>),
    /// It could not be until then; now it may.
    Elapsed(DateTime<Utc>),
    /// The text means nothing and is treated as absent.
    Invalid(String),
}

impl DoNotDisrupt {
    /// Whether the pod is protected.
    pub const fn protects(&self) -> bool {
        matches!(self, Self::InForce | Self::Until(_))
    }
}

/// Where a pod stands in its life.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools)] // independent facts of a pod, each asked alone
pub struct Standing {
    /// Its phase.
    pub phase: Phase,
    /// The node it is bound to.
    pub node: Option<Arc<str>>,
    /// It pre-empts others and is about to fit there.
    pub nominated_node: Option<String>,
    /// The scheduler said that it fits nowhere (scheduling 3-1).
    pub unschedulable: bool,
    /// When it was asked to go.
    pub deleted: Option<DateTime<Utc>>,
    /// When its containers began.
    pub started: Option<DateTime<Utc>>,
    /// The Ready condition, where there is one.
    pub ready: Option<bool>,
    /// Owned by a DaemonSet (scheduling 3-2).
    pub daemon: bool,
    /// Owned by a StatefulSet.
    pub stateful: bool,
    /// Owned by a Node: a static pod.
    pub mirror: bool,
    /// The annotation that protects it from disruption, as written.
    pub do_not_disrupt: Option<String>,
    /// The annotation that says what deleting it costs, as written.
    pub deletion_cost: Option<String>,
    /// Its priority.
    pub priority: Option<i32>,
    /// Seconds it wants for an orderly end.
    pub grace_seconds: Option<i64>,
    /// The DaemonSet (or other controller) that owns it: kind and name.
    pub controller: Option<(Arc<str>, Arc<str>)>,
}

impl Standing {
    /// Ended, well or badly (scheduling 3-3).
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Asked to go.
    pub const fn is_terminating(&self) -> bool {
        self.deleted.is_some()
    }

    /// Neither ended nor asked to go.
    pub fn is_active(&self) -> bool {
        !self.is_terminal() && !self.is_terminating()
    }

    /// Whether new capacity is wanted for it (scheduling 3-1).
    pub fn is_provisionable(&self) -> bool {
        self.unschedulable && self.node.is_none() && self.nominated_node.is_none() && !self.daemon && !self.mirror
    }

    /// Whether it would come back somewhere else if its node went (scheduling 3-4).
    pub fn is_reschedulable(&self) -> bool {
        (self.is_active() || (self.stateful && self.is_terminating())) && !self.daemon && !self.mirror
    }

    /// Whether disruption may touch it as far as its own annotation goes (scheduling 3-5).
    pub fn is_disruptable(&self, now: DateTime<Utc>) -> bool {
        !self.is_active() || !self.do_not_disrupt(now).protects()
    }

    /// What its annotation says now (scheduling 3-6).
    pub fn do_not_disrupt(&self, now: DateTime<Utc>) -> DoNotDisrupt {
        let Some(text) = &self.do_not_disrupt else {
            return DoNotDisrupt::Absent;
        };
        if text == "true" {
            return DoNotDisrupt::InForce;
        }
        let parsed = GoDuration::parse(text).ok().map(GoDuration::as_time_delta);
        let Some(duration) = parsed.filter(|duration| *duration > TimeDelta::zero()) else {
            return DoNotDisrupt::Invalid(text.clone());
        };
        let Some(end) = self.started.map(|started| started.checked_add_signed(duration)) else {
            return DoNotDisrupt::InForce;
        };
        match end {
            Some(end) if now >= end => DoNotDisrupt::Elapsed(end),
            end => DoNotDisrupt::Until(end.unwrap_or(DateTime::<Utc>::MAX_UTC)),
        }
    }
}

impl Pod {
    /// The node it is bound to.
    pub fn node(&self) -> Option<&str> {
        self.standing.node.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    #[test]
    fn protection_by_duration_counts_from_the_start_and_ends() {
        let mut standing = Standing {
            do_not_disrupt: Some("1m30s".into()),
            ..Standing::default()
        };
        assert_eq!(standing.do_not_disrupt(at(0)), DoNotDisrupt::InForce);
        standing.started = Some(at(10));
        assert_eq!(standing.do_not_disrupt(at(99)), DoNotDisrupt::Until(at(100)));
        assert_eq!(standing.do_not_disrupt(at(100)), DoNotDisrupt::Elapsed(at(100)));
        for text in ["", "5", "-5m", "0s", "tomorrow", "1.h.", "é", "999999999999h"] {
            standing.do_not_disrupt = Some(text.into());
            assert_eq!(
                standing.do_not_disrupt(at(0)),
                DoNotDisrupt::Invalid(text.into()),
                "{text}"
            );
        }
    }

    #[test]
    fn a_terminating_pod_comes_back_only_when_a_stateful_set_owns_it() {
        let mut standing = Standing {
            deleted: Some(at(0)),
            ..Standing::default()
        };
        assert!(!standing.is_reschedulable());
        standing.stateful = true;
        assert!(standing.is_reschedulable());
    }
}
