//! What is worked out once per pod before the nodes are looked at.

use super::affinity::AffinityState;
use super::cluster::Cluster;
use super::facts::PodFacts;
use super::reason::Reason;
use super::spread::SpreadState;
use super::volumes::VolumeState;

/// A pod's constraints in this cluster.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) affinity: AffinityState,
    pub(crate) spread: SpreadState,
    pub(crate) volumes: VolumeState,
}

impl Prepared {
    /// Works the constraints out, or says why no node can take the pod.
    pub(crate) fn of(cluster: &Cluster, pod: &PodFacts) -> Result<Self, Reason> {
        Ok(Self {
            volumes: VolumeState::look_up(cluster, pod)?,
            affinity: AffinityState::work_out(cluster, pod),
            spread: SpreadState::count(cluster, pod),
        })
    }
}
