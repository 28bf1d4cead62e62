//! The state in the form that a scheduling pass asks for: machines and volumes of [`scheduling`](crate::scheduling).
//!
//! Relies on machines being rebuilt when anything about them changes: each makes its view once, when somebody first asks.

use super::machine::StateNode;
use super::snapshot::Snapshot;
use crate::scheduling::pod::Pod;
use crate::scheduling::problem::{Fate, Node, NodeObject, Ownership, Readiness};
use crate::scheduling::taints::Taint;
use crate::scheduling::volumes::Volumes;
use k8s_openapi::api::core::v1::Taint as ApiTaint;
use std::collections::BTreeMap;
use std::sync::Arc;

impl StateNode {
    /// The machine as a scheduling pass sees it; made once.
    pub fn for_scheduling(&self) -> &Arc<Node> {
        self.view.get_or_init(|| Arc::new(self.view()))
    }

    fn view(&self) -> Node {
        let object = self.node.as_ref().map(|node| NodeObject {
            name: node.name().to_owned(),
            labels: Arc::clone(&node.facts.labels),
            taints: node.taints.iter().map(taint).collect(),
        });
        let limit = |(driver, limit): (&String, &i32)| (driver.clone(), u64::try_from(*limit).unwrap_or_default());
        Node {
            name: self.name().to_owned(),
            labels: self.shared_labels(),
            taints: self.taints().iter().map(taint).collect(),
            ownership: if self.is_managed() {
                Ownership::Managed
            } else {
                Ownership::Foreign
            },
            readiness: if self.is_initialized() {
                Readiness::Initialized
            } else {
                Readiness::ComingUp
            },
            fate: if self.is_marked_for_deletion() {
                Fate::Leaves
            } else {
                Fate::Stays
            },
            capacity: self.capacity(),
            allocatable: self.allocatable().into_owned(),
            object,
            pods: self.pods.iter().map(|pod| Arc::clone(&pod.facts.pod)).collect(),
            volume_limits: self.volume_limits.iter().map(limit).collect(),
        }
    }
}

fn taint(taint: &ApiTaint) -> Taint {
    Taint::new(&taint.key, taint.value.as_deref().unwrap_or_default(), &taint.effect)
}

impl Snapshot {
    /// All machines as a scheduling pass sees them, claims without a type left out: those take part as planned claims (architecture §3.4).
    pub fn nodes_for_scheduling(&self) -> Vec<Arc<Node>> {
        let resolved = self.machines.values().filter(|machine| machine.is_resolved());
        resolved.map(|machine| Arc::clone(machine.for_scheduling())).collect()
    }

    /// One pod for each DaemonSet: its newest, else the one that its template would make (scheduling 12-1).
    pub fn daemons_for_scheduling(&self) -> Vec<Arc<Pod>> {
        let sets = self.objects.daemon_sets.iter();
        let example = |key| self.daemons.get(key).map(|pod| Arc::clone(&pod.facts.pod));
        sets.map(|(key, set)| {
            example(key).map_or_else(
                || Arc::clone(&set.template),
                |pod| pinned_by_template(&pod, &set.template),
            )
        })
        .collect()
    }

    /// Labels of the namespaces.
    pub fn namespaces_for_scheduling(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let namespaces = self.objects.namespaces.values();
        namespaces
            .map(|namespace| (namespace.name().to_owned(), namespace.facts.labels.as_ref().clone()))
            .collect()
    }

    /// Volume claims, volumes and storage classes; made once for each snapshot.
    pub fn volumes_for_scheduling(&self) -> Arc<Volumes> {
        Arc::clone(self.volumes.get_or_init(|| {
            let claims = self.objects.pvcs.iter();
            let volumes = self.objects.pvs.values();
            let classes = self.objects.storage_classes.values();
            Arc::new(Volumes {
                claims: claims
                    .map(|(key, claim)| (key.to_string(), claim.placement.clone()))
                    .collect(),
                volumes: volumes
                    .map(|volume| (volume.name().to_owned(), volume.placement.clone()))
                    .collect(),
                classes: classes
                    .map(|class| (class.name().to_owned(), class.placement.clone()))
                    .collect(),
            })
        }))
    }
}

/// The DaemonSet controller pins real pods to a node by their affinity: what the template requires replaces it (scheduling 12-1).
fn pinned_by_template(pod: &Arc<Pod>, template: &Pod) -> Arc<Pod> {
    let mut free = pod.as_ref().clone();
    Arc::make_mut(&mut free.constraints)
        .required_terms
        .clone_from(&template.constraints.required_terms);
    Arc::new(free)
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
