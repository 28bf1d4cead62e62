//! All metrics of the operator in one value.
//!
//! Made once by the wiring, which hands each part the noun it counts.

use super::{
    CloudProviderMetrics, ClusterMetrics, ConditionKind, ConditionMetrics, DeclareError, DisruptionMetrics, Exposition,
    LegacyConditionMetrics, NodeClaimMetrics, NodeMetrics, NodePoolMetrics, PodMetrics, PriceMetrics, SchedulerMetrics,
};

/// Everything that is counted.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// NodeClaims.
    pub nodeclaims: NodeClaimMetrics,
    /// Nodes.
    pub nodes: NodeMetrics,
    /// NodePools.
    pub nodepools: NodePoolMetrics,
    /// Pods.
    pub pods: PodMetrics,
    /// Scheduling simulations.
    pub scheduler: SchedulerMetrics,
    /// Voluntary disruption.
    pub disruption: DisruptionMetrics,
    /// The cluster state.
    pub cluster: ClusterMetrics,
    /// Calls to the cloud provider.
    pub cloudprovider: CloudProviderMetrics,
    /// The price feed and what is on offer.
    pub prices: PriceMetrics,
    /// Conditions of NodeClaims; extra labels: the node class, the NodePool.
    pub nodeclaim_conditions: ConditionMetrics<2, 4, 5>,
    /// Conditions of nodes; extra labels: the node class, whether it is initialized, the NodePool.
    pub node_conditions: ConditionMetrics<3, 5, 6>,
    /// Conditions of NodePools.
    pub nodepool_conditions: ConditionMetrics<0, 2, 3>,
    /// Conditions of node classes.
    pub nodeclass_conditions: ConditionMetrics<0, 2, 3>,
    /// The older families of NodeClaims and NodePools.
    pub legacy_conditions: LegacyConditionMetrics,
}

/// What the constant family `karpenter_build_info` says, and how the provider's node class is called in names and labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildInfo<'a> {
    /// Version of the operator.
    pub version: &'a str,
    /// Revision it was built from, empty when unknown.
    pub commit: &'a str,
    /// Architecture it was built for, in Go's word (`amd64`, `arm64`).
    pub arch: &'a str,
    /// Version of the compiler, where upstream shows Go's; empty when unknown.
    pub compiler: &'a str,
    /// The node class' kind in lower case.
    pub node_class_kind: &'a str,
    /// The label key of the node class as a Prometheus label.
    pub node_class_label: &'a str,
}

impl BuildInfo<'_> {
    /// Of a process that nobody built for users: tests and benches. The class' label is any that Prometheus takes.
    pub const fn unknown() -> Self {
        Self {
            version: "",
            commit: "",
            arch: "",
            compiler: "",
            node_class_kind: "class",
            node_class_label: "class_label",
        }
    }
}

impl Metrics {
    /// Declares every family.
    pub fn new(exposition: &Exposition, build: BuildInfo<'_>) -> Result<Self, DeclareError> {
        let info = exposition.gauges(
            "karpenter_build_info",
            "Constant 1, labelled by what the operator was built from.",
            ["version", "goversion", "goarch", "commit"],
        )?;
        info.set([build.version, build.compiler, build.arch, build.commit], 1.0);
        let (class, pool) = (build.node_class_label, "karpenter_sh_nodepool");
        let node_extras = [class, "karpenter_sh_initialized", pool];
        let class_kind = ConditionKind {
            kind: build.node_class_kind,
            extras: [],
        };
        let claim_kind = ConditionKind {
            kind: "nodeclaim",
            extras: [class, pool],
        };
        let pool_kind = ConditionKind {
            kind: "nodepool",
            extras: [],
        };
        let node_kind = ConditionKind {
            kind: "node",
            extras: node_extras,
        };
        let nodeclaim_conditions = ConditionMetrics::new(exposition, claim_kind)?;
        let nodepool_conditions = ConditionMetrics::new(exposition, pool_kind)?;
        Ok(Self {
            nodeclaims: NodeClaimMetrics::new(exposition)?,
            nodes: NodeMetrics::new(exposition)?,
            nodepools: NodePoolMetrics::new(exposition)?,
            pods: PodMetrics::new(exposition)?,
            scheduler: SchedulerMetrics::new(exposition)?,
            disruption: DisruptionMetrics::new(exposition)?,
            cluster: ClusterMetrics::new(exposition)?,
            cloudprovider: CloudProviderMetrics::new(exposition)?,
            prices: PriceMetrics::new(exposition)?,
            legacy_conditions: LegacyConditionMetrics::new(exposition, &nodeclaim_conditions, &nodepool_conditions)?,
            nodeclaim_conditions,
            node_conditions: ConditionMetrics::new(exposition, node_kind)?,
            nodepool_conditions,
            nodeclass_conditions: ConditionMetrics::new(exposition, class_kind)?,
        })
    }
}
