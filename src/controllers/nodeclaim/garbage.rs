//! `nodeclaim.garbagecollection`: every two minutes, claims whose machine is gone and machines whose claim is gone (lifecycle 9, architecture
//! §7.20).
//!
//! ```text
//! machines, complete ─▶ claims of the state ─▶ registered, not listed, node not Ready ─▶ claim deleted
//!        │                                  └▶ registered, node silent, another one Ready ─▶ claim deleted
//!        ├─▶ two of one live claim ─▶ the one of another capacity type than the claim's ended
//!        └─▶ claims, read from the API server after that ─▶ old, ours, no claim ─▶ machine ended
//! ```
//!
//! A partial answer says nothing about what it leaves out, so nothing is done on one. What cannot be proved to be ours is told and never touched.

use crate::api::NodeClaim;
use crate::cloud::{Machine, MachineList};
use crate::cluster::entries::{ClaimEntry, ClassEntry, NodeEntry};
use crate::cluster::{Change, Cluster, Kind, Snapshot};
use crate::controllers::Kit;
use crate::k8s::client::ApiClient;
use crate::k8s::events::{Event, EventType, Involved, Window};
use crate::k8s::queue::{Next, ReconcileError};
use crate::k8s::write::{DeleteHow, Target};
use crate::lifecycle::garbage::{
    ClaimFacts, Listing, MachineFacts, NodeSays, Orphan, Recorded, claim_is_garbage, is_second, orphan,
};
use crate::scheduling::CapacityType;
use kube::api::ListParams;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often both directions are looked at (lifecycle 9.1).
pub const PERIOD: Duration = Duration::from_mins(2);
/// Claims per page of the live list.
const PAGE: u32 = 500;
/// A machine that cannot be proved to be ours is told of once in this time.
const REPORT_EVERY: Window = Window::For(Duration::from_hours(1));

/// UIDs of the claims that this process has known; cheap to clone. Those whose machine is gone are forgotten at each complete list.
#[derive(Debug, Clone, Default)]
pub struct Seen(Arc<Mutex<BTreeSet<String>>>);

impl Seen {
    /// Remembers every claim that appears.
    pub fn trigger(&self) -> impl FnMut(&Change, &Cluster) + Send + 'static {
        let seen = self.clone();
        move |change, _| {
            if change.kind == Kind::NodeClaim {
                let mut uids = seen.0.lock().unwrap_or_else(PoisonError::into_inner);
                uids.insert(change.uid.to_string());
            }
        }
    }

    fn all(&self) -> BTreeSet<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn retain(&self, keep: impl Fn(&str) -> bool) {
        let mut uids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        uids.retain(|uid| keep(uid));
    }
}

/// Names of Nodes that are Ready, by the UID of the claim that each was ordered for.
type ReadyNodes<'s> = BTreeMap<String, Vec<&'s str>>;

/// The controller.
#[derive(Debug)]
pub struct Garbage {
    kit: Kit,
    client: ApiClient,
    seen: Seen,
}

impl Garbage {
    /// The controller; `client` is what live lists are read with.
    pub fn new(kit: Kit, client: ApiClient, seen: Seen) -> Self {
        Self { kit, client, seen }
    }

    /// One run over both directions.
    pub async fn run(&self) -> Result<Next, ReconcileError> {
        self.kit.cluster.completed().await.map_err(ReconcileError::new)?;
        let seen = self.seen.all();
        let list = self.kit.provider.list().await.map_err(ReconcileError::new)?;
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        self.collect_claims(&snapshot, &list).await?;
        if list.complete {
            self.collect_second_machines(&snapshot, &list).await?;
            self.collect_machines(&snapshot, &list, &seen).await?;
        }
        Ok(Next::Done)
    }

    /// Deletes claims whose machine is gone (lifecycle 9.2, 9.3).
    async fn collect_claims(&self, snapshot: &Snapshot, list: &MachineList) -> Result<(), ReconcileError> {
        let there: BTreeSet<&str> = list
            .machines
            .iter()
            .filter(|machine| !machine.going_away)
            .map(|machine| machine.claim_uid.as_str())
            .collect();
        let kinds = self.kit.provider.node_class_kinds();
        let ready = self.ready_nodes(snapshot);
        for claim in snapshot.objects.claims.values() {
            let node = snapshot
                .machine_of_claim(claim.name())
                .and_then(|machine| machine.node.as_ref());
            let facts = facts(claim, &there, node, &ready);
            if claim.is_managed(kinds) && claim_is_garbage(listing(list), &facts) {
                self.delete_claim(claim, node).await?;
            }
        }
        Ok(())
    }

    /// The Nodes that are Ready, by the UID of the claim that each was ordered for.
    fn ready_nodes<'s>(&self, snapshot: &'s Snapshot) -> ReadyNodes<'s> {
        let mut ready = ReadyNodes::new();
        for node in snapshot.objects.nodes.values().filter(|node| node.is_ready()) {
            if let Some(uid) = self.kit.provider.claim_of_node(&node.labels) {
                ready.entry(uid).or_default().push(node.name());
            }
        }
        ready
    }

    async fn delete_claim(&self, claim: &ClaimEntry, node: Option<&Arc<NodeEntry>>) -> Result<(), ReconcileError> {
        tracing::debug!(
            NodeClaim = claim.name(),
            Node = node.map(|node| node.name()),
            "provider-id" = claim.provider_id(),
            "garbage collecting nodeclaim with no cloudprovider representation"
        );
        self.kit
            .writer
            .delete::<NodeClaim>(&Target::of(&claim.meta), DeleteHow::default())
            .await?;
        let labels = [
            "garbage_collected",
            claim.nodepool().unwrap_or_default(),
            claim.capacity_type().unwrap_or_default(),
        ];
        self.kit.metrics.nodeclaims.disrupted.increment(labels);
        Ok(())
    }

    /// Ends machines of live claims that have another one of their own (architecture §6, §7.20).
    async fn collect_second_machines(&self, snapshot: &Snapshot, list: &MachineList) -> Result<(), ReconcileError> {
        let now = self.kit.now();
        for (machine, claim) in several_of_one_claim(snapshot, list) {
            let own: Option<CapacityType> = claim
                .provider_id()
                .and(claim.capacity_type())
                .and_then(|word| word.parse().ok());
            let is_own = |other: &&Machine| other.claim_uid == machine.claim_uid && Some(other.capacity_type) == own;
            let recorded = Recorded {
                capacity_type: own,
                listed: list.machines.iter().any(|other| is_own(&other) && !other.going_away),
            };
            if is_second(listing(list), &machine_facts(machine), recorded, now) {
                tracing::warn!(
                    NodeClaim = claim.name(),
                    machine = machine.claim_uid,
                    "provider-id" = machine.provider_id,
                    "instance-type" = machine.instance_type,
                    "garbage collecting second machine of nodeclaim, which has another one of its own"
                );
                self.kit.provider.end(machine).await.map_err(ReconcileError::new)?;
            }
        }
        Ok(())
    }

    /// Ends machines whose claim is gone (architecture §7.20).
    async fn collect_machines(
        &self,
        snapshot: &Snapshot,
        list: &MachineList,
        seen: &BTreeSet<String>,
    ) -> Result<(), ReconcileError> {
        let now = self.kit.now();
        let known: BTreeSet<String> = snapshot
            .objects
            .claims
            .values()
            .map(|claim| claim.uid().to_owned())
            .collect();
        let judge = |live: &BTreeSet<String>| -> Vec<(&Machine, Orphan)> {
            let verdicts = list.machines.iter().map(|machine| {
                let verdict = orphan(listing(list), &machine_facts(machine), live, seen, now);
                (machine, verdict)
            });
            verdicts.filter(|(_, verdict)| *verdict != Orphan::Keep).collect()
        };
        // The state is asked first: the API server need not be bothered while every machine has its claim.
        if judge(&known).is_empty() {
            self.unclaimed(0);
            self.forget(list, seen, &known);
            return Ok(());
        }
        let live = self.live_claims().await?;
        let verdicts = judge(&live);
        self.unclaimed(
            verdicts
                .iter()
                .filter(|(_, verdict)| *verdict == Orphan::Report)
                .count(),
        );
        for (machine, verdict) in verdicts {
            match verdict {
                Orphan::Collect => self.end(machine).await?,
                Orphan::Report => self.report(snapshot, machine),
                Orphan::Keep => {}
            }
        }
        self.forget(list, seen, &live);
        Ok(())
    }

    /// Shows how many machines are left alone because nothing proves that they are ours.
    fn unclaimed(&self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.kit.metrics.nodeclaims.unclaimed_machines.set([], f64::from(count));
    }

    /// Forgets claims that are gone together with their machines; what appeared after `before` was taken is not judged yet.
    fn forget(&self, list: &MachineList, before: &BTreeSet<String>, live: &BTreeSet<String>) {
        let machines: BTreeSet<&str> = list.machines.iter().map(|machine| machine.claim_uid.as_str()).collect();
        self.seen
            .retain(|uid| !before.contains(uid) || machines.contains(uid) || live.contains(uid));
    }

    /// The UIDs of all claims, read from the API server itself.
    async fn live_claims(&self) -> Result<BTreeSet<String>, ReconcileError> {
        let api: kube::Api<NodeClaim> = kube::Api::all(self.client.kube());
        let (mut uids, mut params) = (BTreeSet::new(), ListParams::default().limit(PAGE));
        loop {
            // only metadata: one claim that cannot be read must not make its machine an orphan
            let page = api.list_metadata(&params).await.map_err(ReconcileError::new)?;
            uids.extend(page.items.into_iter().filter_map(|claim| claim.metadata.uid));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(uids),
            }
        }
    }

    async fn end(&self, machine: &Machine) -> Result<(), ReconcileError> {
        tracing::info!(
            machine = machine.claim_uid,
            "provider-id" = machine.provider_id,
            "instance-type" = machine.instance_type,
            "garbage collecting machine without nodeclaim"
        );
        self.kit.provider.end(machine).await.map_err(ReconcileError::new)?;
        Ok(())
    }

    /// Tells of a machine that looks like ours and cannot be proved to be.
    fn report(&self, snapshot: &Snapshot, machine: &Machine) {
        tracing::warn!(
            machine = machine.claim_uid,
            "provider-id" = machine.provider_id,
            "machine without nodeclaim is left alone: nothing proves that it is ours"
        );
        for class in snapshot.objects.classes.values() {
            self.kit.recorder.publish(unclaimed(class, machine));
        }
    }
}

fn listing(list: &MachineList) -> Listing {
    if list.complete {
        Listing::Complete
    } else {
        Listing::Partial
    }
}

fn facts(
    claim: &ClaimEntry,
    there: &BTreeSet<&str>,
    node: Option<&Arc<NodeEntry>>,
    ready: &ReadyNodes<'_>,
) -> ClaimFacts {
    use crate::api::{Conditioned, conditions};
    let is_another = |name: &&str| node.is_some_and(|own| own.name() != *name);
    ClaimFacts {
        registered: claim.facts.is_true(conditions::REGISTERED),
        deleting: claim.facts.is_deleting(),
        listed: there.contains(claim.uid()),
        node: node.map_or(NodeSays::NotReady, |node| says(node)),
        succeeded: ready.get(claim.uid()).is_some_and(|names| names.iter().any(is_another)),
    }
}

fn says(node: &NodeEntry) -> NodeSays {
    match node.condition("Ready").map(|condition| condition.status.as_str()) {
        Some("True") => NodeSays::Ready,
        Some("Unknown") => NodeSays::Nothing,
        _ => NodeSays::NotReady,
    }
}

/// Machines that share the name of one live claim, with that claim.
fn several_of_one_claim<'s>(snapshot: &'s Snapshot, list: &'s MachineList) -> Vec<(&'s Machine, &'s Arc<ClaimEntry>)> {
    let mut by_claim: BTreeMap<&str, Vec<&Machine>> = BTreeMap::new();
    for machine in &list.machines {
        by_claim.entry(machine.claim_uid.as_str()).or_default().push(machine);
    }
    by_claim.retain(|_, machines| machines.len() > 1);
    let claims = snapshot.objects.claims.values();
    let claims = claims.filter(|claim| !claim.is_deleting());
    claims
        .flat_map(|claim| {
            let machines = by_claim.get(claim.uid()).into_iter().flatten();
            machines.map(move |machine| (*machine, claim))
        })
        .collect()
}

fn machine_facts(machine: &Machine) -> MachineFacts {
    MachineFacts {
        claim_uid: machine.claim_uid.clone(),
        created: machine.created,
        capacity_type: machine.capacity_type,
        labelled_ours: machine.ours,
        going_away: machine.going_away,
    }
}

/// The Event about such a machine, on the class of machines.
fn unclaimed(class: &ClassEntry, machine: &Machine) -> Event {
    let (kind, group) = class.meta.key.scope.split_once('.').unwrap_or_default();
    let involved = Involved {
        api_version: format!("{group}/v1"),
        kind: kind.to_owned(),
        namespace: String::new(),
        name: class.name().to_owned(),
        uid: class.uid().to_owned(),
    };
    let message = format!(
        "Machine {} has no NodeClaim and nothing proves that it is ours, so it is left alone; it may cost money",
        machine.claim_uid
    );
    Event::new(EventType::Warning, "UnclaimedMachine", involved, message)
        .deduped_by([machine.claim_uid.clone()])
        .within(REPORT_EVERY)
}
