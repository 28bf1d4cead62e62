//! Counts and times every call to a provider (surface §5.5), and gives up those that take too long.
//!
//! A client may try for minutes before it says that a cloud cannot be reached; whoever waits for it is deaf meanwhile, to nodes that join and to
//! deadlines. What was given up is asked for again by its own back-off.
//!
//! A decorator: each controller gets its own, with its name in the `controller` label. Differs: the Go Rackspace provider was never decorated, so
//! its users saw neither series.

use crate::api::{NodeClaim, NodePool};
use crate::cloud::error::CloudError;
use crate::cloud::provider::{
    Accepted, Deletion, InstanceTypes, Machine, MachineIdentity, MachineList, MachineState, Provider,
    passed_on_to_inner,
};
use crate::telemetry::{CallLabels, CloudProviderMetrics};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long the state of a machine is waited for: it is asked for every few seconds anyway.
const STATE_WITHIN: Duration = Duration::from_secs(15);
/// How long any other answer is waited for; with the state it is less than what a watchdog takes for a stuck queue.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

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
        let limit = if method == "Get" { STATE_WITHIN } else { ANSWER_WITHIN };
        let started = Instant::now();
        let result = tokio::time::timeout(limit, call)
            .await
            .unwrap_or_else(|_| Err(given_up(method, limit)));
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

/// Whether a create that was given up took effect is not known; everything else is asked for again.
fn given_up(method: &'static str, limit: Duration) -> CloudError {
    let detail = format!("no answer within {} s", limit.as_secs());
    if method == "Create" {
        return CloudError::UnknownOutcome {
            operation: "creating",
            object: "the machine".to_owned(),
            source: Some(detail.into()),
        };
    }
    CloudError::Unavailable {
        operation: method,
        detail,
        retry_after: None,
        source: None,
    }
}

#[async_trait]
impl Provider for Observed {
    passed_on_to_inner!();

    async fn instance_types(&self, pool: &NodePool) -> Result<InstanceTypes, CloudError> {
        self.count("GetInstanceTypes", self.inner.instance_types(pool)).await
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Accepted, CloudError> {
        self.count("Create", self.inner.create(claim)).await
    }

    async fn recover(&self, claim: &NodeClaim) -> Result<Option<Accepted>, CloudError> {
        self.count("Get", self.inner.recover(claim)).await
    }

    async fn get(&self, machine: &MachineIdentity) -> Result<MachineState, CloudError> {
        self.count("Get", self.inner.get(machine)).await
    }

    async fn delete(&self, machine: &MachineIdentity) -> Result<Deletion, CloudError> {
        self.count("Delete", self.inner.delete(machine)).await
    }

    async fn end(&self, machine: &Machine) -> Result<Deletion, CloudError> {
        self.count("Delete", self.inner.end(machine)).await
    }

    async fn list(&self) -> Result<MachineList, CloudError> {
        self.count("List", self.inner.list()).await
    }

    async fn drifted(&self, claim: &NodeClaim) -> Result<Option<String>, CloudError> {
        self.count("IsDrifted", self.inner.drifted(claim)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::error::Remedy;
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

    /// A cloud that never answers.
    struct Silent {
        inner: FakeProvider,
    }

    #[async_trait]
    impl Provider for Silent {
        passed_on_to_inner!();

        async fn instance_types(&self, _pool: &NodePool) -> Result<InstanceTypes, CloudError> {
            std::future::pending().await
        }
        async fn create(&self, _claim: &NodeClaim) -> Result<Accepted, CloudError> {
            std::future::pending().await
        }
        async fn recover(&self, _claim: &NodeClaim) -> Result<Option<Accepted>, CloudError> {
            std::future::pending().await
        }
        async fn get(&self, _machine: &MachineIdentity) -> Result<MachineState, CloudError> {
            std::future::pending().await
        }
        async fn delete(&self, _machine: &MachineIdentity) -> Result<Deletion, CloudError> {
            std::future::pending().await
        }
        async fn end(&self, _machine: &Machine) -> Result<Deletion, CloudError> {
            std::future::pending().await
        }
        async fn list(&self) -> Result<MachineList, CloudError> {
            std::future::pending().await
        }
        async fn drifted(&self, _claim: &NodeClaim) -> Result<Option<String>, CloudError> {
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cloud_that_never_answers_holds_nobody_up_for_long() {
        let metrics = CloudProviderMetrics::new(&Exposition::new()).unwrap();
        let silent = Arc::new(Silent {
            inner: FakeProvider::new(Vec::new()),
        });
        let provider = Observed::new(silent, metrics, "nodeclaim.lifecycle");
        let started = Instant::now();
        let error = provider.get(&MachineIdentity::default()).await.unwrap_err();
        assert_eq!(started.elapsed(), STATE_WITHIN);
        assert_eq!(error.remedy(), Remedy::TryAgain { after: None });
        let error = provider.create(&NodeClaim::default()).await.unwrap_err();
        assert_eq!(error.remedy(), Remedy::LookFirst, "it may have taken effect");
        assert_eq!(started.elapsed(), STATE_WITHIN + ANSWER_WITHIN);
    }
}
