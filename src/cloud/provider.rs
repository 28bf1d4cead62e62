//! The provider border: what the core needs from a cloud, in Karpenter's words.
//!
//! Rackspace Spot is the first implementation; a Cluster API one follows (architecture §6), so nothing here knows pools, bids or clusters of
//! machines. The lifecycle, termination, garbage and NodeClass controllers call it; [`crate::cloud::fake::FakeProvider`] serves tests.
//!
//! ```text
//! create ─▶ Accepted{stage: Waiting} ─▶ get ─▶ Present{Waiting} … Present{Attached} ─▶ … ─▶ Taken | delete ─▶ InProgress … Gone
//! ```
//!
//! Three rules hold for every implementation. A machine is found by the claim's identity, never by provider ID alone. A cloud that cannot be
//! asked means *unknown*, never *gone*. And nothing here waits for a machine: a call asks, remembers, and returns.

use crate::api::{NodeClaim, NodeClassKind, NodePool};
use crate::cloud::error::CloudError;
use crate::resources::ResourceList;
use crate::scheduling::{CapacityType, InstanceType};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Instance types as a provider hands them out: shared, ordered by name.
pub type InstanceTypes = Arc<[Arc<InstanceType>]>;

/// Condition reason of a claim whose machine was asked for and has no server yet (issue: `Launched=Unknown/AwaitingServerAssignment`).
pub const AWAITING_SERVER_ASSIGNMENT: &str = "AwaitingServerAssignment";

/// What is known of the create that was sent for a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CreateOutcome {
    /// No create was ever sent, by this process or (as far as the claim's record shows) by an earlier one.
    NeverSent,
    /// A create was sent and answered.
    Known,
    /// A create may have been sent and its answer is not known. The cautious default.
    #[default]
    Unknown,
}

/// Whether a server was attached before, by the claim's own record: what a provider's memory does not know after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Attachment {
    /// The claim does not say so.
    #[default]
    Unrecorded,
    /// The claim is launched.
    Recorded,
}

/// Which machine is meant: the claim it was asked for, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineIdentity {
    /// UID of the NodeClaim; the machine's name at the provider derives from it.
    pub claim_uid: String,
    /// The claim's recorded provider ID, if any.
    pub provider_id: Option<String>,
    /// The claim's recorded capacity-type label, if any (architecture §7.6: never guessed from a requirement).
    pub capacity_type: Option<CapacityType>,
    /// The claim's instance-type label, if one was chosen.
    pub instance_type: Option<String>,
    /// While this is unknown, "not found" is not "gone".
    pub create_outcome: CreateOutcome,
    /// Whether it had a server already.
    pub attachment: Attachment,
    /// The node that it became, once it has registered.
    pub node_name: Option<String>,
}

/// How far a machine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Asked for and not there yet.
    Waiting {
        /// Condition reason, e.g. [`AWAITING_SERVER_ASSIGNMENT`].
        reason: &'static str,
        /// What is awaited, for people.
        message: String,
    },
    /// A server is attached to the order.
    Attached,
}

/// What a create answered: enough to let the claim take part in every scheduling pass at once (architecture §3.4).
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// The first provider ID, if the provider can name one before the machine exists.
    pub provider_id: Option<String>,
    /// The image, if the provider has such a thing.
    pub image_id: Option<String>,
    /// The chosen instance type.
    pub instance_type: String,
    /// The chosen capacity type.
    pub capacity_type: CapacityType,
    /// Labels for the claim; the claim's own win over these (lifecycle 3.5).
    pub labels: BTreeMap<String, String>,
    /// Annotations for the claim; these win over the claim's own (lifecycle 3.5).
    pub annotations: BTreeMap<String, String>,
    /// What the machine will have.
    pub capacity: ResourceList,
    /// What pods may use of it.
    pub allocatable: ResourceList,
    /// How far it is already.
    pub stage: Stage,
}

/// What the cloud says of one machine now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineState {
    /// A complete answer without it.
    Absent,
    /// It is there.
    Present {
        /// How far it is.
        stage: Stage,
        /// Its provider ID as the provider sees it.
        provider_id: Option<String>,
        /// Whether it is being deleted, by us or by somebody else.
        going_away: bool,
    },
    /// It had a server attached (by this provider's memory or the claim's record) and a complete answer says that it no longer has: it was taken
    /// (architecture §7.21).
    Taken,
    /// The cloud could not be asked: unknown, never gone.
    Unknown,
}

/// How far a deletion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// Asked for; it still exists, or it is not known that it does not.
    InProgress,
    /// A complete answer says that it does not exist.
    Gone,
}

/// One machine in a provider's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// UID of the claim that it was asked for (of whoever's claim: see `ours`).
    pub claim_uid: String,
    /// Its provider ID, if the provider knows one.
    pub provider_id: Option<String>,
    /// When the order was placed, if the cloud says so.
    pub created: Option<DateTime<Utc>>,
    /// Whether it is being deleted.
    pub going_away: bool,
    /// Whether it carries our mark. A missing mark proves nothing: platforms are known to wipe them (architecture §7.5, §7.20).
    pub ours: bool,
    /// Its instance type.
    pub instance_type: Option<String>,
    /// Its capacity type.
    pub capacity_type: CapacityType,
}

/// All machines of the cluster as far as the answer goes, ordered by claim UID.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineList {
    /// The machines.
    pub machines: Vec<Machine>,
    /// Whether every kind and page was answered; conclusions from absence need this to be true.
    pub complete: bool,
}

/// A Node condition that, lasting this long, calls for a replacement (lifecycle §15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairPolicy {
    /// Type of the Node condition.
    pub condition_type: &'static str,
    /// The status that is unhealthy.
    pub status: &'static str,
    /// How long it is tolerated.
    pub toleration: Duration,
}

/// The questions that a decorator passes on as they are to `self.inner`: each is written here once, so that none is forgotten by one of them.
macro_rules! passed_on_to_inner {
    () => {
        fn name(&self) -> &'static str {
            self.inner.name()
        }

        fn node_class_kinds(&self) -> &[crate::api::NodeClassKind] {
            self.inner.node_class_kinds()
        }

        fn well_known_labels(&self) -> &[&'static str] {
            self.inner.well_known_labels()
        }

        fn overwritten_labels(&self) -> &[&'static str] {
            self.inner.overwritten_labels()
        }

        fn catalogue_revision(&self) -> tokio::sync::watch::Receiver<u64> {
            self.inner.catalogue_revision()
        }

        fn launch_timeout(&self, claim: &NodeClaim) -> std::time::Duration {
            self.inner.launch_timeout(claim)
        }

        fn registration_timeout(&self, claim: &NodeClaim) -> std::time::Duration {
            self.inner.registration_timeout(claim)
        }

        fn repair_policies(&self) -> &[crate::cloud::RepairPolicy] {
            self.inner.repair_policies()
        }

        fn made_here(&self, claim_uid: &str) {
            self.inner.made_here(claim_uid);
        }

        fn did_not_deliver(&self, instance_type: &str, capacity_type: crate::scheduling::CapacityType) {
            self.inner.did_not_deliver(instance_type, capacity_type);
        }

        fn claim_of_node(&self, node_labels: &std::collections::BTreeMap<String, String>) -> Option<String> {
            self.inner.claim_of_node(node_labels)
        }

        fn readiness(&self) -> Result<(), String> {
            self.inner.readiness()
        }
    };
}
pub(super) use passed_on_to_inner;

/// A cloud, as the core sees it.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Short name, the `provider` label of metrics.
    fn name(&self) -> &'static str;

    /// NodeClass kinds that this provider serves; claims and pools of other kinds are not managed (lifecycle 0.4).
    fn node_class_kinds(&self) -> &[NodeClassKind];

    /// Label keys beyond Karpenter's own that pods and volumes may ask for; every instance type defines them (scheduling 6-1).
    fn well_known_labels(&self) -> &[&'static str];

    /// Label keys that the cloud writes on each Node with values of its own, whatever the claim says: a pod cannot ask for them.
    fn overwritten_labels(&self) -> &[&'static str];

    /// Instance types on offer for the pool, overlaid with what was measured, ordered by name.
    async fn instance_types(&self, pool: &NodePool) -> Result<InstanceTypes, CloudError>;

    /// Moves when instance types, prices or availability changed.
    fn catalogue_revision(&self) -> watch::Receiver<u64>;

    /// Asks for a machine. Idempotent by claim UID, never waits for the machine, adopts what exists only when it is the same order.
    async fn create(&self, claim: &NodeClaim) -> Result<Accepted, CloudError>;

    /// What an earlier create for this claim came to, if the cloud shows its machine; asks for none. For a claim that knows nothing of its own machine,
    /// as when its node joined while no operator ran.
    async fn recover(&self, claim: &NodeClaim) -> Result<Option<Accepted>, CloudError>;

    /// What became of a machine.
    async fn get(&self, machine: &MachineIdentity) -> Result<MachineState, CloudError>;

    /// Ends a machine. Called whenever a claim ends, by identity; idempotent and cheap.
    async fn delete(&self, machine: &MachineIdentity) -> Result<Deletion, CloudError>;

    /// Ends one machine of a list and no other, were there another for the same claim.
    async fn end(&self, machine: &Machine) -> Result<Deletion, CloudError>;

    /// All machines of this cluster, also those that carry no mark of ours.
    async fn list(&self) -> Result<MachineList, CloudError>;

    /// How long the claim may stay in Launched != True (architecture §7.3).
    fn launch_timeout(&self, claim: &NodeClaim) -> Duration;

    /// How long the claim may stay in Registered != True (architecture §7.2).
    fn registration_timeout(&self, claim: &NodeClaim) -> Duration;

    /// A drift reason, if the machine no longer is what its class asks for (lifecycle 11.4).
    async fn drifted(&self, claim: &NodeClaim) -> Result<Option<String>, CloudError>;

    /// Node conditions that call for a replacement.
    fn repair_policies(&self) -> &[RepairPolicy];

    /// This process made the claim: nobody can have ordered a machine for it before.
    fn made_here(&self, claim_uid: &str);

    /// A type that was asked for and not delivered cools down, so that the next claim tries another (architecture §7.3).
    fn did_not_deliver(&self, instance_type: &str, capacity_type: CapacityType);

    /// UID of the claim that a Node belongs to, from what the platform wrote on it and before provider IDs agree; none for a foreign node.
    fn claim_of_node(&self, node_labels: &BTreeMap<String, String>) -> Option<String>;

    /// Whether credentials and catalogue let this provider be used, with words if not.
    fn readiness(&self) -> Result<(), String>;
}
