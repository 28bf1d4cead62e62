//! Pods that the label of a node rules out which was created for them: the cloud writes what its types do not say, and the next node would be like it.
//!
//! Differs: upstream creates one node after the other for such a pod. Here it waits, for longer each time, and its Event names node and label. Called
//! by each pass before it chooses its pods; [`verdict`] is pure.

use crate::cluster::entries::PodEntry;
use crate::cluster::{MachineId, Snapshot, StateNode};
use crate::scheduling::Constraints;
use crate::scheduling::validation::InvalidPod;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How long a pod waits after the first such node; after each further one twice as long.
const FIRST_WAIT: TimeDelta = TimeDelta::minutes(5);
const LONGEST_WAIT: TimeDelta = TimeDelta::hours(2);

/// What happened to one pod.
#[derive(Debug, Clone)]
struct Ruled {
    /// The last node that was created for it in vain.
    machine: MachineId,
    finding: Finding,
    /// How many there were.
    times: u32,
    until: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    node: String,
    label: String,
}

/// The pods that wait, by UID, as long as they are pending.
#[derive(Debug, Default)]
pub(super) struct RuledOut(Mutex<BTreeMap<Arc<str>, Ruled>>);

impl RuledOut {
    /// Looks at what became of the nodes that were created for pending pods; yields the pods that no node is created for now, by UID.
    ///
    /// `overwritten` are the labels that the cloud keeps to itself; all others that a claim has are written on its node again when they are lost, which
    /// is no reason to wait.
    pub(super) fn look(
        &self,
        snapshot: &Snapshot,
        overwritten: &[&str],
        now: DateTime<Utc>,
    ) -> BTreeMap<Arc<str>, InvalidPod> {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let former = std::mem::take(&mut *book);
        for pod in snapshot.provisionable() {
            let uid = &pod.pod.uid;
            let planned = snapshot.plan_of(pod).map(|plan| &plan.machine);
            let found = planned.and_then(|id| Some((id, verdict(pod, snapshot.machine(id)?, overwritten)?)));
            let ruled = match (former.get(uid), found) {
                (Some(known), Some((machine, finding))) if known.machine != *machine => {
                    Some(ruled(machine, finding, known.times.saturating_add(1), now))
                }
                (None, Some((machine, finding))) => Some(ruled(machine, finding, 1, now)),
                (known, _) => known.cloned(),
            };
            if let Some(ruled) = ruled {
                book.insert(Arc::clone(uid), ruled);
            }
        }
        let waiting = book.iter().filter(|(_, ruled)| now < ruled.until);
        waiting.map(|(uid, ruled)| (Arc::clone(uid), ruled.told())).collect()
    }
}

impl Ruled {
    fn told(&self) -> InvalidPod {
        InvalidPod::RuledOut {
            node: self.finding.node.clone(),
            label: self.finding.label.clone(),
            until: self.until.to_rfc3339_opts(SecondsFormat::Secs, true),
        }
    }
}

fn ruled(machine: &MachineId, finding: Finding, times: u32, now: DateTime<Utc>) -> Ruled {
    let doubled = 1_i32.checked_shl(times.saturating_sub(1).min(16)).unwrap_or(i32::MAX);
    let wait = FIRST_WAIT
        .checked_mul(doubled)
        .unwrap_or(LONGEST_WAIT)
        .min(LONGEST_WAIT);
    Ruled {
        machine: machine.clone(),
        finding,
        times,
        until: now.checked_add_signed(wait).unwrap_or(DateTime::<Utc>::MAX_UTC),
    }
}

/// A Node as far as its labels go.
struct Labelled<'n> {
    labels: &'n BTreeMap<String, String>,
    /// Those of its claim.
    claimed: Option<&'n BTreeMap<String, String>>,
    /// Before a Node is initialized, labels are still to come: those of its drivers among them.
    is_initialized: bool,
}

/// The label of a Node that rules the pod out for good.
fn in_the_way<'p>(constraints: &'p Constraints, node: &Labelled<'_>, overwritten: &[&str]) -> Option<&'p str> {
    let key = constraints.ruled_out_by(node.labels)?;
    let promised = node.claimed.is_some_and(|labels| labels.contains_key(key));
    let is_written_again = promised && !overwritten.contains(&key);
    let may_come = !node.is_initialized && !node.labels.contains_key(key);
    (!is_written_again && !may_come).then_some(key)
}

/// What of the machine's Node rules the pod out, once it is registered.
fn verdict(pod: &PodEntry, machine: &StateNode, overwritten: &[&str]) -> Option<Finding> {
    let claim = machine.claim.as_ref()?;
    let node = machine.node.as_ref().filter(|node| node.is_registered())?;
    let labelled = Labelled {
        labels: machine.labels(),
        claimed: claim.metadata.labels.as_ref(),
        is_initialized: node.is_initialized(),
    };
    let key = in_the_way(&pod.pod.constraints, &labelled, overwritten)?;
    Some(Finding {
        node: node.name().to_owned(),
        label: match labelled.labels.get(key) {
            Some(value) => format!("{key}={value}"),
            None => format!("{key}, which it lacks,"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::minutes(minutes)
    }

    #[test]
    fn a_pod_waits_longer_after_each_node_that_was_in_vain() {
        let finding = Finding {
            node: "n".into(),
            label: "a=b".into(),
        };
        let until = |times| ruled(&MachineId::Claim("c".into()), finding.clone(), times, at(0)).until;
        assert_eq!(until(1), at(5));
        assert_eq!(until(2), at(10));
        assert_eq!(until(5), at(80));
        assert_eq!(until(6), at(120));
        assert_eq!(until(u32::MAX), at(120));
    }

    #[test]
    fn a_label_is_in_the_way_unless_it_is_still_to_come_or_written_again() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pairs = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            pairs.collect()
        };
        let wants = Constraints {
            node_selector: map(&[("a", "1")]),
            ..Constraints::default()
        };
        let (fits, other, lacks) = (map(&[("a", "1")]), map(&[("a", "2")]), map(&[]));
        let claimed = map(&[("a", "1")]);
        for (labels, claimed, is_initialized, overwritten, is_in_the_way) in [
            (&fits, None, true, &[][..], false),
            (&other, None, false, &[], true),
            (&lacks, None, false, &[], false),
            (&lacks, None, true, &[], true),
            // ours, and lost: the platform wipes labels, and they are written again
            (&lacks, Some(&claimed), true, &[], false),
            (&other, Some(&claimed), true, &[], false),
            (&other, Some(&claimed), true, &["a"], true),
        ] {
            let node = Labelled {
                labels,
                claimed,
                is_initialized,
            };
            let found = in_the_way(&wants, &node, overwritten);
            assert_eq!(
                found.is_some(),
                is_in_the_way,
                "{labels:?} {claimed:?} {is_initialized} {overwritten:?}"
            );
        }
    }
}
