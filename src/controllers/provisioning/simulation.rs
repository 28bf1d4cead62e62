//! What is shown of a simulation while it runs (surface §5.4), and of its pods (surface §5.3).

use super::observe::Question;
use crate::cluster::Snapshot;
use crate::controllers::Kit;
use crate::k8s::queue::ReconcileError;
use crate::scheduling::{Pod, Results};
use crate::telemetry::{Decision, PodDecisions};
use std::sync::Arc;

const CONTROLLER: &str = "provisioner";

/// A simulation that runs. Its depth stays until the next one begins, as upstream has it; its running time goes with it.
pub(super) struct Simulation<'k> {
    kit: &'k Kit,
    id: String,
}

impl<'k> Simulation<'k> {
    /// It begins: from now on its pods count as looked at. `draws` make its id.
    pub(super) async fn begin(kit: &'k Kit, question: &Question, draws: [u64; 2]) -> Result<Self, ReconcileError> {
        let now = kit.now();
        tracing::debug!(
            "pending-pods" = question.pending,
            "deleting-pods" = question.problem.pods.len().saturating_sub(question.pending),
            "computing scheduling decision for provisionable pod(s)"
        );
        let pending = question.problem.pods.iter().take(question.pending);
        let decisions = &kit.metrics.pods.decisions;
        for pod in pending.clone() {
            decisions.seen(&pod.namespace, &pod.name, &pod.uid, now);
        }
        let there = kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        forget_gone(decisions, &there, pending);
        let id = uuid(draws);
        let simulation = Self { kit, id };
        simulation.depth(question.problem.pods.len());
        let unfinished = &kit.metrics.scheduler.unfinished_work_seconds;
        unfinished.set_since(CONTROLLER, [CONTROLLER, &simulation.id], now);
        Ok(simulation)
    }

    /// It has ended with these answers.
    pub(super) fn end(self, results: &Results) {
        let now = self.kit.now();
        let decisions = &self.kit.metrics.pods.decisions;
        let existing = results.existing.iter().flat_map(|placement| placement.pods.iter());
        let planned = results.new_claims.iter().flat_map(|claim| claim.pods.iter());
        existing
            .chain(planned)
            .for_each(|pod: &Arc<Pod>| decisions.decided(&pod.uid, Decision::Placed, now));
        for error in &results.errors {
            decisions.decided(&error.pod.uid, Decision::Refused, now);
        }
        self.depth(0);
    }

    #[allow(clippy::cast_precision_loss)] // a count of pods
    fn depth(&self, pods: usize) {
        let depth = &self.kit.metrics.scheduler.queue_depth;
        depth.set(CONTROLLER, [CONTROLLER, &self.id], pods as f64);
    }
}

impl Drop for Simulation<'_> {
    fn drop(&mut self) {
        self.kit.metrics.scheduler.unfinished_work_seconds.remove(CONTROLLER);
    }
}

/// Forgets the pods that went while the question was put: they were told of as gone before they were taken down, and nobody would do it later.
fn forget_gone<'p>(decisions: &PodDecisions, there: &Snapshot, pods: impl Iterator<Item = &'p Arc<Pod>>) {
    for pod in pods {
        let known = there.pod(&pod.namespace, &pod.name);
        if known.is_none_or(|known| known.meta.uid != pod.uid) {
            decisions.forget(&pod.uid);
        }
    }
}

/// A UUID of version 4 from two drawn numbers.
fn uuid([high, low]: [u64; 2]) -> String {
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::entries::Reader;
    use crate::cluster::{Cluster, Delta, Object};
    use crate::telemetry::{BuildInfo, Exposition, Metrics};
    use chrono::DateTime;
    use serde_json::json;

    #[test]
    fn pods_that_went_while_the_question_was_put_are_forgotten_and_their_successors_are_not() {
        let now = DateTime::UNIX_EPOCH;
        let mut cluster = Cluster::new([], Arc::new(|_: &_| None), now);
        for (name, uid) in [("there", "1"), ("again", "3")] {
            let pod = json!({ "metadata": { "namespace": "ns", "name": name, "uid": uid, "resourceVersion": "1" } });
            let entry = Reader::new().pod(&serde_json::from_value(pod).unwrap());
            cluster.observe(Delta::Applied(Object::Pod(Arc::new(entry))), now);
        }
        let decisions = Metrics::new(&Exposition::new(), BuildInfo::unknown())
            .unwrap()
            .pods
            .decisions;
        let asked = [("there", "1"), ("again", "2"), ("gone", "4")].map(|(name, uid)| {
            decisions.seen("ns", name, uid, now);
            Arc::new(Pod {
                namespace: "ns".into(),
                name: name.into(),
                uid: uid.into(),
                ..Pod::default()
            })
        });
        decisions.seen("ns", "again", "3", now);
        forget_gone(&decisions, &cluster.snapshot(), asked.iter());
        let known = ["1", "2", "3", "4"].map(|uid| {
            decisions.decided(uid, Decision::Placed, now);
            decisions.placed(uid).is_some()
        });
        assert_eq!(known, [true, false, true, false]);
    }

    #[test]
    fn an_id_is_a_uuid_of_version_four() {
        assert_eq!(uuid([0, 0]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid([u64::MAX, u64::MAX]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(
            uuid([0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdef]),
            "01234567-89ab-4def-8123-456789abcdef"
        );
    }
}
