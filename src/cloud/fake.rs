//! A programmable provider in memory, for tests and benches.
//!
//! It keeps the contract of the trait (idempotent creates, deletion in two steps, unknown when unreachable) and lets a test say what the cloud
//! does: attach a server, take it, lose the order, refuse the next create. It reads no clock and draws no chance.

use crate::api::{NodeClaim, NodeClassKind, NodePool, labels, nodeclass};
use crate::cloud::choose;
use crate::cloud::error::CloudError;
use crate::cloud::provider::{
    AWAITING_SERVER_ASSIGNMENT, Accepted, CreateOutcome, Deletion, InstanceTypes, Machine, MachineIdentity,
    MachineList, MachineState, Provider, RepairPolicy, Stage,
};
use crate::scheduling::{CapacityType, InstanceType, WellKnownLabels};
use async_trait::async_trait;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// When a machine gets its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Attaching {
    /// With the create.
    #[default]
    AtOnce,
    /// When the test says so ([`FakeProvider::attach`]).
    WhenTold,
}

/// When a machine that is deleted is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leaving {
    /// With the second call of delete.
    #[default]
    OnSecondCall,
    /// When the test says so ([`FakeProvider::finish_deletion`]).
    WhenTold,
}

#[derive(Debug, Clone)]
struct Order {
    instance_type: Arc<InstanceType>,
    capacity_type: CapacityType,
    stage: OrderStage,
    deleting: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OrderStage {
    Waiting,
    Attached,
    Taken,
}

const REPAIR: &[RepairPolicy] = &[RepairPolicy {
    condition_type: "Ready",
    status: "False",
    toleration: Duration::from_mins(30),
}];

struct State {
    types: InstanceTypes,
    orders: BTreeMap<String, Order>,
    foreign: Vec<Machine>,
    failures: VecDeque<CloudError>,
    drift: BTreeMap<String, String>,
    undelivered: Vec<(String, CapacityType)>,
    calls: Vec<String>,
    attaching: Attaching,
    leaving: Leaving,
    reachable: bool,
    launch_timeout: Duration,
    registration_timeout: Duration,
}

/// The provider.
pub struct FakeProvider {
    state: Mutex<State>,
    revision: watch::Sender<u64>,
    kinds: Vec<NodeClassKind>,
}

impl FakeProvider {
    /// A cloud that sells these instance types.
    pub fn new(types: Vec<InstanceType>) -> Self {
        Self {
            state: Mutex::new(State {
                types: shared(types),
                orders: BTreeMap::new(),
                foreign: Vec::new(),
                failures: VecDeque::new(),
                drift: BTreeMap::new(),
                undelivered: Vec::new(),
                calls: Vec::new(),
                attaching: Attaching::default(),
                leaving: Leaving::default(),
                reachable: true,
                launch_timeout: Duration::from_mins(30),
                registration_timeout: Duration::from_mins(15),
            }),
            revision: watch::Sender::new(1),
            kinds: vec![nodeclass::KIND],
        }
    }

    /// Serves other NodeClass kinds.
    pub fn with_kinds(mut self, kinds: Vec<NodeClassKind>) -> Self {
        self.kinds = kinds;
        self
    }

    /// Changes when machines get their servers.
    pub fn set_attaching(&self, attaching: Attaching) {
        self.lock().attaching = attaching;
    }

    /// Changes when deleted machines are gone.
    pub fn set_leaving(&self, leaving: Leaving) {
        self.lock().leaving = leaving;
    }

    /// Changes what is sold.
    pub fn set_types(&self, types: Vec<InstanceType>) {
        self.lock().types = shared(types);
        self.revision.send_modify(|revision| *revision += 1);
    }

    /// Changes the deadlines.
    pub fn set_timeouts(&self, launch: Duration, registration: Duration) {
        let mut state = self.lock();
        state.launch_timeout = launch;
        state.registration_timeout = registration;
    }

    /// The next create (after those already queued) fails with this.
    pub fn fail_next_create(&self, error: CloudError) {
        self.lock().failures.push_back(error);
    }

    /// Whether the cloud can be asked.
    pub fn set_reachable(&self, reachable: bool) {
        self.lock().reachable = reachable;
    }

    /// Attaches a server to a claim's machine.
    pub fn attach(&self, claim_uid: &str) {
        if let Some(order) = self.lock().orders.get_mut(claim_uid) {
            order.stage = OrderStage::Attached;
        }
    }

    /// Takes the server away, as a pre-emption does; the order stays.
    pub fn take(&self, claim_uid: &str) {
        if let Some(order) = self.lock().orders.get_mut(claim_uid) {
            order.stage = OrderStage::Taken;
        }
    }

    /// Removes the order behind the operator's back.
    pub fn lose(&self, claim_uid: &str) {
        self.lock().orders.remove(claim_uid);
    }

    /// Ends a deletion that was told to wait.
    pub fn finish_deletion(&self, claim_uid: &str) {
        let mut state = self.lock();
        if state.orders.get(claim_uid).is_some_and(|order| order.deleting) {
            state.orders.remove(claim_uid);
        }
    }

    /// Adds a machine that no claim of ours asked for.
    pub fn add_foreign(&self, machine: Machine) {
        self.lock().foreign.push(machine);
    }

    /// Lets a claim's machine drift.
    pub fn drift(&self, claim_uid: &str, reason: &str) {
        self.lock().drift.insert(claim_uid.to_owned(), reason.to_owned());
    }

    /// UIDs of the claims whose machines exist.
    pub fn machines(&self) -> Vec<String> {
        self.lock().orders.keys().cloned().collect()
    }

    /// The calls so far, as `create <uid>`, `delete <uid>`.
    pub fn calls(&self) -> Vec<String> {
        self.lock().calls.clone()
    }

    /// What was reported as not delivered.
    pub fn undelivered(&self) -> Vec<(String, CapacityType)> {
        self.lock().undelivered.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shared(mut types: Vec<InstanceType>) -> InstanceTypes {
    types.sort_by(|a, b| a.name.cmp(&b.name));
    types.into_iter().map(Arc::new).collect()
}

fn unreachable(operation: &'static str) -> CloudError {
    CloudError::Unavailable {
        operation,
        detail: "the fake cloud is unreachable".into(),
        retry_after: None,
        source: None,
    }
}

fn waiting() -> Stage {
    Stage::Waiting {
        reason: AWAITING_SERVER_ASSIGNMENT,
        message: "no server is attached yet".into(),
    }
}

fn accepted(claim: &NodeClaim, order: &Order) -> Accepted {
    let labels = BTreeMap::from([
        (labels::INSTANCE_TYPE.to_owned(), order.instance_type.name.clone()),
        (labels::CAPACITY_TYPE.to_owned(), order.capacity_type.to_string()),
        (labels::ARCH.to_owned(), "amd64".to_owned()),
        (labels::OS.to_owned(), "linux".to_owned()),
    ]);
    Accepted {
        provider_id: Some(format!("fake:///{}", claim.uid())),
        image_id: None,
        instance_type: order.instance_type.name.clone(),
        capacity_type: order.capacity_type,
        labels,
        annotations: BTreeMap::new(),
        capacity: order.instance_type.capacity.clone(),
        allocatable: order.instance_type.allocatable().clone(),
        stage: if order.stage == OrderStage::Attached {
            Stage::Attached
        } else {
            waiting()
        },
    }
}

#[async_trait]
impl Provider for FakeProvider {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn node_class_kinds(&self) -> &[NodeClassKind] {
        &self.kinds
    }

    fn well_known_labels(&self) -> &[&'static str] {
        &["fake.example/zone"]
    }

    fn overwritten_labels(&self) -> &[&'static str] {
        &[]
    }

    async fn instance_types(&self, _pool: &NodePool) -> Result<InstanceTypes, CloudError> {
        Ok(Arc::clone(&self.lock().types))
    }

    fn catalogue_revision(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Accepted, CloudError> {
        let mut state = self.lock();
        state.calls.push(format!("create {}", claim.uid()));
        if let Some(error) = state.failures.pop_front() {
            return Err(error);
        }
        if !state.reachable {
            return Err(unreachable("creating"));
        }
        if let Some(order) = state.orders.get(claim.uid()) {
            return Ok(accepted(claim, order));
        }
        let well_known = WellKnownLabels::default();
        let Some(choice) = choose::choices(claim, &state.types, &well_known).into_iter().next() else {
            let detail = choose::why_none(claim, &state.types, &well_known);
            return Err(CloudError::InsufficientCapacity {
                wanted: claim.uid().to_owned(),
                detail,
            });
        };
        let stage = match state.attaching {
            Attaching::AtOnce => OrderStage::Attached,
            Attaching::WhenTold => OrderStage::Waiting,
        };
        let order = Order {
            instance_type: choice.instance_type,
            capacity_type: choice.capacity_type,
            stage,
            deleting: false,
        };
        let answer = accepted(claim, &order);
        state.orders.insert(claim.uid().to_owned(), order);
        Ok(answer)
    }

    async fn recover(&self, claim: &NodeClaim) -> Result<Option<Accepted>, CloudError> {
        let state = self.lock();
        if !state.reachable {
            return Err(unreachable("getting"));
        }
        Ok(state.orders.get(claim.uid()).map(|order| accepted(claim, order)))
    }

    async fn get(&self, machine: &MachineIdentity) -> Result<MachineState, CloudError> {
        let state = self.lock();
        if !state.reachable {
            return Ok(MachineState::Unknown);
        }
        Ok(match state.orders.get(&machine.claim_uid) {
            None => MachineState::Absent,
            Some(order) if order.stage == OrderStage::Taken => MachineState::Taken,
            Some(order) => MachineState::Present {
                stage: if order.stage == OrderStage::Attached {
                    Stage::Attached
                } else {
                    waiting()
                },
                provider_id: Some(format!("fake:///{}", machine.claim_uid)),
                going_away: order.deleting,
            },
        })
    }

    async fn delete(&self, machine: &MachineIdentity) -> Result<Deletion, CloudError> {
        let mut state = self.lock();
        state.calls.push(format!("delete {}", machine.claim_uid));
        if !state.reachable {
            return Err(unreachable("deleting"));
        }
        let leaving = state.leaving;
        let Some(order) = state.orders.get_mut(&machine.claim_uid) else {
            // While a create may still take effect, "not found" proves nothing (architecture §6).
            let sure = machine.create_outcome != CreateOutcome::Unknown;
            return Ok(if sure { Deletion::Gone } else { Deletion::InProgress });
        };
        if order.deleting && leaving == Leaving::OnSecondCall {
            state.orders.remove(&machine.claim_uid);
            return Ok(Deletion::Gone);
        }
        order.deleting = true;
        Ok(Deletion::InProgress)
    }

    async fn end(&self, machine: &Machine) -> Result<Deletion, CloudError> {
        let mut state = self.lock();
        state.calls.push(format!("delete {}", machine.claim_uid));
        if !state.reachable {
            return Err(unreachable("deleting"));
        }
        let is_it = |order: &Order| order.capacity_type == machine.capacity_type;
        if let Some(order) = state.orders.get_mut(&machine.claim_uid).filter(|order| is_it(order)) {
            order.deleting = true;
        }
        state.foreign.retain(|known| known != machine);
        Ok(Deletion::InProgress)
    }

    async fn list(&self) -> Result<MachineList, CloudError> {
        let state = self.lock();
        if !state.reachable {
            return Err(unreachable("listing"));
        }
        let ours = state.orders.iter().map(|(uid, order)| Machine {
            claim_uid: uid.clone(),
            provider_id: Some(format!("fake:///{uid}")),
            created: None,
            going_away: order.deleting,
            ours: true,
            instance_type: Some(order.instance_type.name.clone()),
            capacity_type: order.capacity_type,
        });
        let mut machines: Vec<Machine> = ours.chain(state.foreign.iter().cloned()).collect();
        machines.sort_by(|a, b| a.claim_uid.cmp(&b.claim_uid));
        Ok(MachineList {
            machines,
            complete: true,
        })
    }

    fn launch_timeout(&self, _claim: &NodeClaim) -> Duration {
        self.lock().launch_timeout
    }

    fn registration_timeout(&self, _claim: &NodeClaim) -> Duration {
        self.lock().registration_timeout
    }

    async fn drifted(&self, claim: &NodeClaim) -> Result<Option<String>, CloudError> {
        Ok(self.lock().drift.get(claim.uid()).cloned())
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        REPAIR
    }

    fn made_here(&self, _claim_uid: &str) {}

    fn did_not_deliver(&self, instance_type: &str, capacity_type: CapacityType) {
        self.lock().undelivered.push((instance_type.to_owned(), capacity_type));
    }

    fn claim_of_node(&self, node_labels: &BTreeMap<String, String>) -> Option<String> {
        node_labels.get(nodeclass::NODECLAIM_UID_LABEL).cloned()
    }

    fn readiness(&self) -> Result<(), String> {
        if self.lock().reachable {
            Ok(())
        } else {
            Err("the fake cloud is unreachable".into())
        }
    }
}
