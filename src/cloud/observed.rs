//! Counts and times every call to a provider (surface §5.5).
//!
//! A decorator: each controller gets its own, with its name in the `controller` label. Differs: the Go Rackspace provider was never decorated, so
//! its users saw neither series.

use crate::api::{NodeClaim, NodeClassKind, NodePool};
use crate::cloud::error::CloudError;
use crate::cloud::provider::{
    Accepted, Deletion, InstanceTypes, MachineIdentity, MachineList, MachineState, Provider, RepairPolicy,
};
use crate::scheduling::CapacityType;
use crate::telemetry::{CallLabels, CloudProviderMetrics};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// A provider whose calls are counted under a controller's name.
#[derive(Clone)]
pub struct Observed {
    inner: Arc<dyn Provider>,
    metrics: CloudProviderMetrics,
    controller: &'static str,
}

impl Observed {
    /// Counts the calls of `controller` to `inner`.
    pub fn new(inner: Arc<dyn Provider>, metrics: CloudProviderMetrics, controller: &'static str) -> Self {
        Self {
            inner,
            metrics,
            controller,
        }
    }

    async fn count<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T, CloudError>> + Send,
    ) -> Result<T, CloudError> {
        let started = Instant::now();
        let result = call.await;
        let labels = CallLabels {
            controller: self.controller,
            method,
            provider: self.inner.name(),
        };
        self.metrics.called(labels, started.elapsed().as_secs_f64());
        if let Err(error) = &result {
            self.metrics.failed(labels, error.label());
        }
        result
    }
}

#[async_trait]
impl Provider for Observed {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn node_class_kinds(&self) -> &[NodeClassKind] {
        self.inner.node_class_kinds()
    }

    async fn instance_types(&self, pool: &NodePool) -> Result<InstanceTypes, CloudError> {
        self.count("GetInstanceTypes", self.inner.instance_types(pool)).await
    }

    fn catalogue_revision(&self) -> watch::Receiver<u64> {
        self.inner.catalogue_revision()
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Accepted, CloudError> {
        self.count("Create", self.inner.create(claim)).await
    }

    async fn get(&self, machine: &MachineIdentity) -> Result<MachineState, CloudError> {
        self.count("Get", self.inner.get(machine)).await
    }

    async fn delete(&self, machine: &MachineIdentity) -> Result<Deletion, CloudError> {
        self.count("Delete", self.inner.delete(machine)).await
    }

    async fn list(&self) -> Result<MachineList, CloudError> {
        self.count("List", self.inner.list()).await
    }

    fn launch_timeout(&self, claim: &NodeClaim) -> Duration {
        self.inner.launch_timeout(claim)
    }

    fn registration_timeout(&self, claim: &NodeClaim) -> Duration {
    fn well_known_labels(&self) -> &[&'static str] {
        self.inner.well_known_labels()
    }

        self.inner.registration_timeout(claim)
    }

    async fn drifted(&self, claim: &NodeClaim) -> Result<Option<String>, CloudError> {
        self.count("IsDrifted", self.inner.drifted(claim)).await
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.inner.repair_policies()
    }

    fn did_not_deliver(&self, instance_type: &str, capacity_type: CapacityType) {
        self.inner.did_not_deliver(instance_type, capacity_type);
    }

    fn claim_of_node(&self, node_labels: &BTreeMap<String, String>) -> Option<String> {
        self.inner.claim_of_node(node_labels)
    }

    fn readiness(&self) -> Result<(), String> {
        self.inner.readiness()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::fake::FakeProvider;
    use crate::telemetry::Exposition;

    #[tokio::test]
    async fn a_failed_call_is_counted_under_karpenters_name_of_its_error() {
        let exposition = Exposition::new();
        let metrics = CloudProviderMetrics::new(&exposition).unwrap();
        let fake = Arc::new(FakeProvider::new(Vec::new()));
        let provider = Observed::new(fake, metrics, "nodeclaim.lifecycle");
        let _ = provider.create(&NodeClaim::default()).await.unwrap_err();
        let text = exposition.render(chrono::DateTime::UNIX_EPOCH).unwrap();
        assert!(text.contains("karpenter_cloudprovider_errors_total"), "{text}");
        assert!(
            text.contains("InsufficientCapacityError") && text.contains("nodeclaim.lifecycle"),
            "{text}"
        );
    }
}
