//! Metrics of calls to the cloud provider (surface §5.5).
//!
//! Counted by the decorator around `cloud::Provider`.

use super::buckets::DEFAULT;
use super::{Counters, DeclareError, Exposition, Histograms};

/// What is counted of the provider.
#[derive(Debug, Clone)]
pub struct CloudProviderMetrics {
    duration: Histograms<3>,
    errors: Counters<4>,
}

/// Who called what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLabels<'a> {
    /// The controller's name, empty where none applies.
    pub controller: &'a str,
    /// `Create`, `Delete`, `Get`, `List`, `GetInstanceTypes` or `IsDrifted`.
    pub method: &'a str,
    /// The provider's name.
    pub provider: &'a str,
}

impl CloudProviderMetrics {
    /// Declares the families.
    pub fn new(exposition: &Exposition) -> Result<Self, DeclareError> {
        Ok(Self {
            duration: exposition.histograms(
                "karpenter_cloudprovider_duration_seconds",
                "Duration of calls to the cloud provider.",
                ["controller", "method", "provider"],
                DEFAULT,
            )?,
            errors: exposition.counters(
                "karpenter_cloudprovider_errors_total",
                "Calls to the cloud provider that failed.",
                ["controller", "method", "provider", "error"],
            )?,
        })
    }

    /// Counts one call.
    pub fn called(&self, labels: CallLabels<'_>, seconds: f64) {
        self.duration
            .observe([labels.controller, labels.method, labels.provider], seconds);
    }

    /// Counts one failure. `error` is Karpenter's name of the error's kind, or empty.
    pub fn failed(&self, labels: CallLabels<'_>, error: &str) {
        self.errors
            .increment([labels.controller, labels.method, labels.provider, error]);
    }
}
