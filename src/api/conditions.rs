//! Status conditions: how they are read, set and cleared, and how `Ready` follows from the others (lifecycle §1, surface §3).
//!
//! Decides what the list of conditions looks like after a change; the caller writes the object. Relies on an object's metadata and on `now` as an
//! argument; called by every controller that records what it found.

use super::time;
use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The root: whether everything that an object depends on is well.
pub const READY: &str = "Ready";
/// NodeClaim: the provider has made the machine.
pub const LAUNCHED: &str = "Launched";
/// NodeClaim: the machine joined as a node.
pub const REGISTERED: &str = "Registered";
/// NodeClaim: the node can take pods.
pub const INITIALIZED: &str = "Initialized";
/// NodeClaim: the node may be consolidated.
pub const CONSOLIDATABLE: &str = "Consolidatable";
/// NodeClaim: the node is no longer what its pool asks for.
pub const DRIFTED: &str = "Drifted";
/// NodeClaim: the node's pods have left.
pub const DRAINED: &str = "Drained";
/// NodeClaim: the node's volumes are detached.
pub const VOLUMES_DETACHED: &str = "VolumesDetached";
/// NodeClaim: the provider was told to remove the machine.
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
/// NodeClaim: the node is what was asked for.
pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
/// NodeClaim: why the node was chosen to go.
pub const DISRUPTION_REASON: &str = "DisruptionReason";
/// NodePool, NodeOverlay: the object makes sense.
pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
/// NodePool: its NodeClass is ready.
pub const NODE_CLASS_READY: &str = "NodeClassReady";
/// NodePool: its machines become nodes.
pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";
/// RackspaceSpotNodeClass: the region's server classes are known.
pub const SERVER_CLASSES_DISCOVERED: &str = "ServerClassesDiscovered";

/// Reason of a condition that nobody has looked at yet (lifecycle 1.2).
pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
/// Reason of a root some of whose dependents are False (lifecycle 1.5).
pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
/// Reason of a root some of whose dependents are not known yet (lifecycle 1.5).
pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";

const AWAITING_MESSAGE: &str = "object is awaiting reconciliation";

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody can say yet.
    #[default]
    Unknown,
}

impl ConditionStatus {
    /// The word as it is written in objects.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl std::fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ConditionStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ConditionStatus {
    /// A word that is none of the three says nothing that can be relied on: Unknown.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match String::deserialize(deserializer)?.as_str() {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        })
    }
}

/// One thing that is known, or not, about an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// When the status last changed, in whole seconds.
    #[serde(with = "stored_time")]
    #[schemars(with = "String")]
    pub last_transition_time: DateTime<Utc>,
    /// Why, in one word.
    #[serde(default)]
    pub reason: String,
    /// Why, in words for people.
    #[serde(default)]
    pub message: String,
    /// The object's generation that this was said about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// Whether it is True.
    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }

    /// Whether it is False.
    pub fn is_false(&self) -> bool {
        self.status == ConditionStatus::False
    }

    /// Whether it is Unknown.
    pub fn is_unknown(&self) -> bool {
        self.status == ConditionStatus::Unknown
    }
}

/// A condition's time as Kubernetes stores it.
mod stored_time {
    use super::super::time;
    use chrono::{DateTime, Utc};
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(value: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&time::to_rfc3339(*value))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DateTime<Utc>, D::Error> {
        // Go writes its zero time as null.
        match Option::<String>::deserialize(deserializer)? {
            None => Ok(DateTime::UNIX_EPOCH),
            Some(text) => time::parse_rfc3339(&text)
                .ok_or_else(|| de::Error::custom(format!("{text:?} is not a time such as 2026-01-31T12:00:00Z"))),
        }
    }
}

/// Why a condition cannot be cleared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("condition {type_} can never be absent, so it cannot be cleared")]
pub struct ClearError {
    /// The condition.
    pub type_: String,
}

/// An object with conditions: a root that follows from its dependents, and others that stand for themselves (lifecycle 1.1).
///
/// What changes conditions says whether it changed anything, so that the caller writes only when there is something to write.
pub trait Conditioned: kube::Resource {
    /// The conditions that the root follows from.
    const DEPENDENTS: &'static [&'static str];

    /// The conditions as they are stored.
    fn conditions(&self) -> &[Condition];

    /// The conditions as they are stored, to be changed; makes an empty status where there is none.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;

    /// One condition as it is stored.
    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions().iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the condition is there and True (lifecycle 1.9).
    fn is_true(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(Condition::is_true)
    }

    /// Whether the condition is there and False (lifecycle 1.9).
    fn is_false(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(Condition::is_false)
    }

    /// Whether the condition is Unknown or missing (lifecycle 1.9).
    fn is_unknown(&self, type_: &str) -> bool {
        self.condition(type_).is_none_or(Condition::is_unknown)
    }

    /// Whether the root is True.
    fn is_ready(&self) -> bool {
        self.is_true(READY)
    }

    /// Adds the root and the dependents that are missing, as of the object's creation (lifecycle 1.2).
    ///
    /// `now` stands in for the creation time of an object that has none yet.
    fn initialize_conditions(&mut self, now: DateTime<Utc>) -> bool {
        let mut changed = false;
        for type_ in Self::DEPENDENTS.iter().copied().chain([READY]) {
            if self.condition(type_).is_none() {
                put(
                    self,
                    new_condition(
                        type_,
                        ConditionStatus::Unknown,
                        AWAITING_RECONCILIATION,
                        AWAITING_MESSAGE,
                    ),
                    now,
                );
                changed = true;
            }
        }
        changed
    }

    /// Sets a condition True, with its own name as the reason (lifecycle 1.4).
    fn set_true(&mut self, type_: &str, now: DateTime<Utc>) -> bool {
        self.set_condition(type_, ConditionStatus::True, type_, "", now)
    }

    /// Sets a condition True with a reason of its own.
    fn set_true_because(&mut self, type_: &str, reason: &str, message: &str, now: DateTime<Utc>) -> bool {
        self.set_condition(type_, ConditionStatus::True, reason, message, now)
    }

    /// Sets a condition False.
    fn set_false(&mut self, type_: &str, reason: &str, message: &str, now: DateTime<Utc>) -> bool {
        self.set_condition(type_, ConditionStatus::False, reason, message, now)
    }

    /// Sets a condition Unknown.
    fn set_unknown(&mut self, type_: &str, reason: &str, message: &str, now: DateTime<Utc>) -> bool {
        self.set_condition(type_, ConditionStatus::Unknown, reason, message, now)
    }

    /// Sets a condition Unknown as if nobody had looked at it yet (lifecycle 1.2).
    fn set_awaiting(&mut self, type_: &str, now: DateTime<Utc>) -> bool {
        self.set_condition(
            type_,
            ConditionStatus::Unknown,
            AWAITING_RECONCILIATION,
            AWAITING_MESSAGE,
            now,
        )
    }

    /// Sets a condition and lets the root follow (lifecycle 1.3, lifecycle 1.5); says whether anything changed.
    fn set_condition(
        &mut self,
        type_: &str,
        status: ConditionStatus,
        reason: &str,
        message: &str,
        now: DateTime<Utc>,
    ) -> bool {
        let mut changed = self.initialize_conditions(now);
        changed |= put(self, new_condition(type_, status, reason, message), now);
        if type_ != READY {
            let root = root_condition(self);
            changed |= put(self, root, now);
        }
        changed
    }

    /// Removes a condition that stands for itself (lifecycle 1.8); says whether it was there.
    fn clear_condition(&mut self, type_: &str) -> Result<bool, ClearError> {
        if type_ == READY || Self::DEPENDENTS.contains(&type_) {
            return Err(ClearError {
                type_: type_.to_owned(),
            });
        }
        if self.condition(type_).is_none() {
            return Ok(false);
        }
        let conditions = self.conditions_mut();
        conditions.retain(|condition| condition.type_ != type_);
        conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        Ok(true)
    }
}

/// A condition that is not placed yet: [`put`] gives it its time and generation.
fn new_condition(type_: &str, status: ConditionStatus, reason: &str, message: &str) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status,
        last_transition_time: DateTime::UNIX_EPOCH,
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: None,
    }
}

/// Places one condition in the list: time, generation, order (lifecycle 1.3, lifecycle 1.7, lifecycle 1.8). Setting what is already so changes nothing.
fn put<K: Conditioned + ?Sized>(object: &mut K, mut condition: Condition, now: DateTime<Utc>) -> bool {
    let generation = Some(object.meta().generation.unwrap_or(0));
    let created = time::created(object.meta());
    let deleting = object.meta().deletion_timestamp.is_some();
    condition.observed_generation = generation;
    condition.last_transition_time = match object.condition(&condition.type_) {
        Some(present) if present.status == condition.status => present.last_transition_time,
        None if condition.type_ == READY || K::DEPENDENTS.contains(&condition.type_.as_str()) => {
            time::whole_seconds(created.unwrap_or(now))
        }
        _ => time::whole_seconds(now),
    };
    if object.condition(&condition.type_) == Some(&condition) {
        return false;
    }
    let conditions = object.conditions_mut();
    conditions.retain(|present| present.type_ != condition.type_);
    if deleting {
        for other in conditions.iter_mut() {
            other.observed_generation = generation;
        }
    }
    conditions.push(condition);
    conditions.sort_by_key(|condition| (condition.type_ == READY, condition.last_transition_time));
    true
}

/// What the root must be, given its dependents (lifecycle 1.5).
fn root_condition<K: Conditioned + ?Sized>(object: &K) -> Condition {
    let generation = object.meta().generation.unwrap_or(0);
    let current = |condition: &Condition| condition.observed_generation.unwrap_or(0) == generation;
    let mut unhealthy: Vec<&Condition> = K::DEPENDENTS
        .iter()
        .filter_map(|type_| object.condition(type_))
        .filter(|condition| !condition.is_true() || !current(condition))
        .collect();
    if unhealthy.is_empty() {
        return new_condition(READY, ConditionStatus::True, READY, "");
    }
    unhealthy.sort_by_key(|condition| std::cmp::Reverse(condition.last_transition_time));
    let message = unhealthy
        .iter()
        .map(|condition| format!("{}={}", condition.type_, condition.status))
        .collect::<Vec<_>>()
        .join(", ");
    if unhealthy
        .iter()
        .any(|condition| condition.is_false() && current(condition))
    {
        new_condition(READY, ConditionStatus::False, UNHEALTHY_DEPENDENTS, &message)
    } else {
        new_condition(READY, ConditionStatus::Unknown, RECONCILING_DEPENDENTS, &message)
    }
}

#[cfg(test)]
mod tests;
