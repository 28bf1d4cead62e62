//! What is shown of a simulation while it runs (surface §5.4), and of its pods (surface §5.3).

use super::observe::Question;
use crate::controllers::Kit;
use crate::scheduling::{Pod, Results};
use crate::telemetry::Decision;
use std::sync::Arc;

const CONTROLLER: &str = "provisioner";

/// A simulation that runs. Its depth stays until the next one begins, as upstream has it; its running time goes with it.
pub(super) struct Simulation<'k> {
    kit: &'k Kit,
    id: String,
}

impl<'k> Simulation<'k> {
    /// It begins: from now on its pods count as looked at. `draws` make its id.
    pub(super) fn begin(kit: &'k Kit, question: &Question, draws: [u64; 2]) -> Self {
        let now = kit.now();
        tracing::debug!(
            "pending-pods" = question.pending,
            "deleting-pods" = question.problem.pods.len().saturating_sub(question.pending),
            "computing scheduling decision for provisionable pod(s)"
        );
        let pending = question.problem.pods.iter().take(question.pending);
        for pod in pending {
            kit.metrics
                .pods
                .decisions
                .seen(&pod.namespace, &pod.name, &pod.uid, now);
        }
        let id = uuid(draws);
        let simulation = Self { kit, id };
        simulation.depth(question.problem.pods.len());
        let unfinished = &kit.metrics.scheduler.unfinished_work_seconds;
        unfinished.set_since(CONTROLLER, [CONTROLLER, &simulation.id], now);
        simulation
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
