//! Taints and tolerations (scheduling §7).
//!
//! Decides whether tolerations tolerate taints, which taints of a machine count for placement, and how lists of taints merge. Called by the
//! solver, the cluster state and registration.

use k8s_openapi::api::core::v1 as core;
use std::fmt;

/// The effect that relaxation may ignore.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// A taint, reduced to what matters for placement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value; empty when absent.
    pub value: String,
    /// Its effect.
    pub effect: String,
}

/// A toleration, reduced to what matters for placement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Toleration {
    /// The taint's key; empty with Exists matches every key.
    pub key: String,
    /// Exists, Equal, Lt or Gt; empty means Equal.
    pub operator: String,
    /// The taint's value.
    pub value: String,
    /// The taint's effect; empty matches every effect.
    pub effect: String,
}

impl Taint {
    /// A taint from its parts.
    pub fn new(key: impl Into<String>, value: impl Into<String>, effect: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
            effect: effect.into(),
        }
    }

    /// Whether both have the same key and effect; values are not looked at (scheduling 7-4).
    pub fn is_like(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        if !self.effect.is_empty() {
            write!(f, ":{}", self.effect)?;
        }
        Ok(())
    }
}

impl From<&core::Taint> for Taint {
    fn from(taint: &core::Taint) -> Self {
        Self::new(&taint.key, taint.value.as_deref().unwrap_or_default(), &taint.effect)
    }
}

impl From<&Taint> for core::Taint {
    fn from(taint: &Taint) -> Self {
        let value = (!taint.value.is_empty()).then(|| taint.value.clone());
        Self {
            key: taint.key.clone(),
            value,
            effect: taint.effect.clone(),
            time_added: None,
        }
    }
}

impl From<&core::Toleration> for Toleration {
    fn from(toleration: &core::Toleration) -> Self {
        Self {
            key: toleration.key.clone().unwrap_or_default(),
            operator: toleration.operator.clone().unwrap_or_default(),
            value: toleration.value.clone().unwrap_or_default(),
            effect: toleration.effect.clone().unwrap_or_default(),
        }
    }
}

impl Toleration {
    /// Tolerates every taint that only asks to be avoided (scheduling 16-3.6).
    pub fn prefer_no_schedule() -> Self {
        Self {
            operator: "Exists".to_owned(),
            effect: PREFER_NO_SCHEDULE.to_owned(),
            ..Self::default()
        }
    }

    /// Whether it tolerates a taint (scheduling 7-2).
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if !self.effect.is_empty() && self.effect != taint.effect {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        let numbers = || Some((taint.value.parse::<i64>().ok()?, self.value.parse::<i64>().ok()?));
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            "Lt" => numbers().is_some_and(|(taint, own)| taint < own),
            "Gt" => numbers().is_some_and(|(taint, own)| taint > own),
            _ => false,
        }
    }
}

/// The taints that none of the tolerations tolerates, whatever their effect (scheduling 7-1).
pub fn untolerated<'a>(taints: &'a [Taint], tolerations: &'a [Toleration]) -> impl Iterator<Item = &'a Taint> {
    taints
        .iter()
        .filter(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

/// Whether every taint is tolerated.
pub fn tolerates_all(taints: &[Taint], tolerations: &[Toleration]) -> bool {
    untolerated(taints, tolerations).next().is_none()
}

/// The sentence for taints that are not tolerated (surface §4.3); none when all are.
pub fn explain_untolerated(taints: &[Taint], tolerations: &[Toleration]) -> Option<String> {
    let texts: Vec<String> = untolerated(taints, tolerations)
        .map(|taint| format!("did not tolerate taint (taint={taint})"))
        .collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// The left taints and those of the right whose key and effect are new (scheduling 7-6).
pub fn merged(left: &[Taint], right: &[Taint]) -> Vec<Taint> {
    let mut result = left.to_vec();
    for taint in right {
        if !result.iter().any(|own| own.is_like(taint)) {
            result.push(taint.clone());
        }
    }
    result
}

/// Whether a taint belongs to a machine that is still coming up (scheduling 7-4).
pub fn is_ephemeral(taint: &Taint) -> bool {
    matches!(
        (taint.key.as_str(), taint.effect.as_str()),
        ("node.kubernetes.io/not-ready", NO_SCHEDULE | NO_EXECUTE)
            | (
                "node.kubernetes.io/unreachable" | "node.cloudprovider.kubernetes.io/uninitialized",
                NO_SCHEDULE
            )
            | ("karpenter.sh/unregistered", NO_EXECUTE)
    )
}

/// How far a machine has come, as far as its taints care (scheduling 7-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Not ours, or initialised: every taint counts.
    Settled,
    /// Ours and not initialised: taints that are expected to go do not count.
    ComingUp,
}

/// The taints of an existing machine that count for placement (scheduling 7-5). `taints` are the claim's while there is no registered Node,
/// else the Node's.
pub fn effective(taints: &[Taint], startup_taints: &[Taint], stage: Stage) -> Vec<Taint> {
    let passing = |taint: &Taint| is_ephemeral(taint) || startup_taints.iter().any(|startup| startup.is_like(taint));
    taints
        .iter()
        .filter(|taint| stage == Stage::Settled || !passing(taint))
        .cloned()
        .collect()
}
