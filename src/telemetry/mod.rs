//! Leaves that all may use: the metrics we declare.
//!
//! One file per noun says which families there are; names, labels, types and buckets are those of surface §5 and are compared with what upstream
//! showed while it ran (`tests/surface/metrics.rs`). The families of the Kubernetes border (reconciles, queues, API calls) are declared there, beside
//! what they count. [`Exposition`] is where families are declared and the text of a scrape comes from; it is made once by the wiring, and every part
//! that counts something gets its noun's struct from it. Nothing here reads a clock: whoever observes a time-dependent value hands in `now`.

mod buckets;
mod causes;
mod cloudprovider;
mod cluster;
mod condition_gauges;
mod conditions;
mod decisions;
mod disruption;
mod exposition;
mod metrics;
mod node_gauges;
mod nodeclaims;
mod nodepools;
mod nodes;
mod not_yet;
mod pod_ages;
mod pod_states;
mod pods;
mod prices;
mod scheduler;
mod series;
mod structured;
mod summary;
mod text;
mod vectors;

pub use causes::with_causes;
pub use cloudprovider::{CallLabels, CloudProviderMetrics};
pub use cluster::ClusterMetrics;
pub use condition_gauges::ConditionSample;
pub use conditions::{ConditionKind, ConditionMetrics, ConditionTransition, LegacyConditionMetrics};
pub use decisions::{Decision, PodDecisions};
pub use disruption::DisruptionMetrics;
pub use exposition::{Declaration, DeclareError, Exposition, Family, Kind};
pub use metrics::{BuildInfo, Metrics};
pub use node_gauges::{NodeAmounts, NodeGauges};
pub use nodeclaims::NodeClaimMetrics;
pub use nodepools::NodePoolMetrics;
pub use nodes::{NODE_LABELS, NodeMetrics};
pub use not_yet::{Absent, NOT_YET};
pub use pod_ages::{Awaited, PodWait};
pub use pod_states::{NodeOfPods, PodOwner, PodState, PodStates, PodsOfMoment};
pub use pods::{POD_STATE_LABELS, PodMetrics};
pub use prices::{OfferingSample, PriceMetrics};
pub use scheduler::SchedulerMetrics;
pub use series::{Sample, SeriesStore};
pub use structured::Structured;
pub use summary::Summaries;
pub use vectors::{Counters, Gauges, Histograms};
