//! Rackspace Spot as a [`Provider`]: one pool of one server for each claim, named by the claim's UID.
//!
//! The story is told here; the parts decide: `launch` places orders, `view` and `orders` say what became of them, `stock` what is on offer,
//! `labels` what is written where. Called through the trait by the lifecycle, termination and garbage controllers; the NodeClass, pricing and
//! capacity controllers use the additional methods.

use crate::api::labels::{INSTANCE_TYPE, REGION};
use crate::api::{NodeClaim, NodeClassKind, NodePool, nodeclass};
use crate::capacity::OverheadSettings;
use crate::clock::SharedClock;
use crate::cloud::error::CloudError;
use crate::cloud::provider::{
    Accepted, Deletion, InstanceTypes, Machine, MachineIdentity, MachineList, MachineState, Provider, RepairPolicy,
};
use crate::cloud::spot::client::SpotClient;
use crate::cloud::spot::cooldown::Cause;
use crate::cloud::spot::error::SpotError;
use crate::cloud::spot::feed::PriceFeed;
use crate::cloud::spot::labels::{VOLUME_ZONE, claim_of_node, is_ours};
use crate::cloud::spot::launch::Launch;
use crate::cloud::spot::nodeclasses::NodeClasses;
use crate::cloud::spot::orders::{Orders, absence_is_final, provider_id};
use crate::cloud::spot::stock::Stock;
use crate::cloud::spot::types::{Cloudspace, Pool, PoolKind};
use crate::cloud::spot::view::{GOOD_FOR, View, Views};
use crate::pricing::{BidRules, BidRulesSetting, RefusalCause};
use crate::scheduling::CapacityType;
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// A node that joined within this time after its server was attached is in time (architecture §7.2; upstream has no setting for it).
const REGISTRATION_TIMEOUT: Duration = Duration::from_mins(15);

const REPAIR: &[RepairPolicy] = &[
    RepairPolicy {
        condition_type: "Ready",
        status: "False",
        toleration: Duration::from_mins(30),
    },
    RepairPolicy {
        condition_type: "Ready",
        status: "Unknown",
        toleration: Duration::from_mins(30),
    },
    RepairPolicy {
        condition_type: "NetworkUnavailable",
        status: "True",
        toleration: Duration::from_mins(30),
    },
];

/// What the provider obeys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSettings {
    /// The cloudspace that we work in (`SPOT_CLOUDSPACE_NAME`).
    pub cloudspace: String,
    /// How long a server may take (`RACKSPACE_LAUNCH_TIMEOUT`).
    pub launch_timeout: Duration,
    /// Which bids are legal (`RACKSPACE_BID_RULES`).
    pub bid_rules: BidRulesSetting,
    /// What nodes lack of what was advertised.
    pub overhead: OverheadSettings,
    /// After this long a create without an answer has either taken effect or never will.
    pub settles_in: Duration,
}

/// What the platform has for us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    /// The cloudspace's region.
    pub region: String,
    /// Names of the server classes that can be ordered there, sorted.
    pub server_classes: Vec<String>,
}

/// Since when this process orders machines, on both clocks. What is older may have been ordered by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Since {
    pub(super) time: DateTime<Utc>,
    pub(super) instant: Instant,
}

/// The provider.
pub struct SpotProvider {
    pub(super) client: SpotClient,
    pub(super) settings: ProviderSettings,
    pub(super) stock: Stock,
    since: Mutex<Since>,
    node_classes: Arc<NodeClasses>,
    feed: Arc<PriceFeed>,
    views: Views,
    orders: Mutex<Orders>,
    rules: Mutex<BidRules>,
    kinds: [NodeClassKind; 1],
}

impl SpotProvider {
    /// A provider for one cloudspace. `node_classes` is kept current by the NodeClass controller.
    pub fn new(
        client: SpotClient,
        feed: Arc<PriceFeed>,
        node_classes: Arc<NodeClasses>,
        clock: &SharedClock,
        settings: ProviderSettings,
    ) -> Self {
        let stock = Stock::new(Arc::clone(&feed), Arc::clone(clock), settings.overhead.clone());
        Self {
            views: Views::new(client.clone(), &settings.cloudspace),
            rules: Mutex::new(settings.bid_rules.initial()),
            client,
            stock,
            node_classes,
            feed,
            orders: Mutex::default(),
            since: Mutex::new(Since {
                time: clock.now(),
                instant: Instant::now(),
            }),
            kinds: [nodeclass::KIND],
            settings,
        }
    }

    /// From now on this process orders machines, and another may have until now.
    pub fn takes_over(&self, now: DateTime<Utc>) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Since {
            time: now,
            instant: Instant::now(),
        };
    }

    pub(super) fn since(&self) -> Since {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs in and finds the cloudspace: what has to work before anything else can.
    pub async fn log_in(&self) -> Result<Cloudspace, SpotError> {
        self.client.tokens_work().await?;
        tracing::info!("authenticated to Rackspace Spot");
        let cloudspace = self.client.cloudspace(&self.settings.cloudspace).await?;
        tracing::info!(
            name = self.settings.cloudspace,
            region = cloudspace.region,
            "resolved cloudspace"
        );
        Ok(cloudspace)
    }

    /// The NodeClasses that creates look at.
    pub fn node_classes(&self) -> &Arc<NodeClasses> {
        &self.node_classes
    }

    /// What is on offer, for the pricing and capacity controllers.
    pub fn stock(&self) -> &Stock {
        &self.stock
    }

    /// The price feed.
    pub fn feed(&self) -> &PriceFeed {
        &self.feed
    }

    /// Reads the cloudspace and the server classes again, and puts them on offer.
    pub async fn discover(&self) -> Result<Discovery, SpotError> {
        let cloudspace = self.client.cloudspace(&self.settings.cloudspace).await?;
        let listed = self.client.server_classes().await?;
        if let Some(field) = listed.unreadable.first() {
            let count = listed.unread;
            tracing::warn!(count, reason = %field, "some server classes cannot be read");
        }
        let mut names: Vec<String> = listed
            .items
            .iter()
            .filter(|class| class.region == cloudspace.region && class.is_offered())
            .map(|class| class.name.clone())
            .collect();
        names.sort();
        self.stock.set_classes(&cloudspace.region, listed.items);
        Ok(Discovery {
            region: cloudspace.region,
            server_classes: names,
        })
    }

    /// The rules that bids obey now.
    pub fn rules(&self) -> BidRules {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves on after a refusal of a bid by these rules for its increment, unless another launch has done so meanwhile; says whether there are other
    /// rules to bid by now.
    pub(super) fn other_rules_than(&self, refused: BidRules) -> bool {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        if *rules != refused {
            return true;
        }
        let next = self.settings.bid_rules.after_refusal(*rules, RefusalCause::Increment);
        let switched = next != *rules;
        if switched {
            tracing::info!(from = ?*rules, to = ?next, "the platform's bid increments are others than assumed");
        }
        *rules = next;
        switched
    }

    pub(super) fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn region(&self) -> Result<String, CloudError> {
        match self.stock.region() {
            Some(region) => Ok(region),
            None => Ok(self.discover().await?.region),
        }
    }

    /// Ends one kind of pool of a machine.
    async fn delete_kind(&self, kind: PoolKind, uid: &str) -> Result<Deletion, CloudError> {
        let asked = self.orders().deletion(kind, uid);
        let Some(asked) = asked else {
            return match self.client.delete_pool(kind, uid).await {
                Ok(()) => {
                    tracing::info!(pool = uid, kind = kind.word(), "deleting a pool");
                    self.orders().deleting(kind, uid, Instant::now());
                    Ok(Deletion::InProgress)
                }
                Err(SpotError::NotFound { .. }) => self.confirm_gone(kind, uid).await,
                Err(error) => Err(error.into()),
            };
        };
        // Shared by all that are being deleted; only what is missing from it is asked for by name.
        let view = self
            .views
            .not_older_than(GOOD_FOR)
            .await
            .map_err(|error| shared_error(&error))?;
        let still_there = view.pools.contains_key(&(kind, uid.to_owned()));
        if view.began <= asked || !view.complete.contains(&kind) || still_there {
            return Ok(Deletion::InProgress);
        }
        match self.client.pool(kind, uid).await {
            Err(SpotError::NotFound { .. }) => {
                self.orders().deletion_done(kind, uid);
                Ok(Deletion::Gone)
            }
            Ok(_) => Ok(Deletion::InProgress),
            Err(error) => Err(error.into()),
        }
    }

    /// A view that began no earlier than a moment.
    pub(super) async fn seen_since(&self, moment: Instant) -> Result<Arc<View>, CloudError> {
        let age = GOOD_FOR.min(moment.elapsed());
        let view = self.views.not_older_than(age).await;
        view.map_err(|error| shared_error(&error))
    }

    /// Ends pools of a machine in kinds in which none was known to be asked for: an earlier process may have, and what it sent may have come late
    /// (architecture §6).
    async fn delete_other_kinds(&self, known: &BTreeSet<PoolKind>, uid: &str) -> Result<Deletion, CloudError> {
        let view = self.views.not_older_than(GOOD_FOR).await;
        let view = view.map_err(|error| shared_error(&error))?;
        let mut all = Deletion::Gone;
        for kind in PoolKind::ALL.into_iter().filter(|kind| !known.contains(kind)) {
            let is_there = if view.complete.contains(&kind) {
                view.pools.contains_key(&(kind, uid.to_owned()))
            } else {
                !matches!(self.client.pool(kind, uid).await, Err(SpotError::NotFound { .. }))
            };
            if is_there && self.delete_kind(kind, uid).await? == Deletion::InProgress {
                all = Deletion::InProgress;
            }
        }
        Ok(all)
    }

    /// "Not found" has been answered for pools that are there; it is believed when the list agrees.
    async fn confirm_gone(&self, kind: PoolKind, uid: &str) -> Result<Deletion, CloudError> {
        let view = self
            .views
            .not_older_than(GOOD_FOR)
            .await
            .map_err(|error| shared_error(&error))?;
        let still_there = view.pools.contains_key(&(kind, uid.to_owned()));
        Ok(if still_there {
            Deletion::InProgress
        } else {
            Deletion::Gone
        })
    }

    /// The list does not have it: asked for by name, it may be there all the same (lists are known to lag).
    async fn confirm_absent(&self, machine: &MachineIdentity) -> MachineState {
        let kinds = self.orders().kinds(machine);
        for kind in kinds {
            match self.client.pool(kind, &machine.claim_uid).await {
                Err(SpotError::NotFound { .. }) => {}
                Ok(_) | Err(_) => return MachineState::Unknown,
            }
        }
        MachineState::Absent
    }

    /// Writes our mark on a pool that lost it: later readers, the next process among them, know it by that (architecture §7.5).
    async fn heal(&self, kind: PoolKind, uid: &str, mut labels: BTreeMap<String, String>) {
        if !self.orders().may_heal(uid, Instant::now()) {
            return;
        }
        labels.insert(nodeclass::MANAGED_LABEL.to_owned(), "true".to_owned());
        labels.insert(nodeclass::NODECLAIM_UID_LABEL.to_owned(), uid.to_owned());
        let patch = serde_json::json!({"spec": {"customLabels": labels}});
        match self.client.patch_pool(kind, uid, patch).await {
            Ok(()) => tracing::warn!(pool = uid, "the platform wiped our labels, written again"),
            Err(error) => tracing::warn!(pool = uid, reason = %error, "the platform wiped our labels"),
        }
    }

    fn machine(&self, pool: &Pool) -> Machine {
        Machine {
            claim_uid: pool.name.clone(),
            provider_id: Some(provider_id(&self.settings.cloudspace, pool.kind, &pool.name)),
            created: pool.created,
            going_away: pool.deleting,
            ours: is_ours(&pool.custom_labels) || is_ours(&pool.labels),
            instance_type: Some(pool.server_class.clone()),
            capacity_type: pool.kind.capacity_type(),
        }
    }
}

/// An error that several callers share, as each of them sees it.
fn shared_error(error: &SpotError) -> CloudError {
    match error {
        SpotError::Credentials { words } => CloudError::Credentials {
            operation: "authenticating",
            detail: words.clone(),
        },
        SpotError::NotFound { object } => CloudError::Refused {
            operation: "reading",
            object: object.clone(),
            detail: "it does not exist".into(),
        },
        other => CloudError::Unavailable {
            operation: "reading pools",
            detail: other.to_string(),
            retry_after: None,
            source: None,
        },
    }
}

impl SpotProvider {
    /// What is needed to order for a claim, or to know its order again.
    async fn launch<'a>(&'a self, claim: &'a NodeClaim) -> Result<Launch<'a>, CloudError> {
        let (class, percentile) = self.node_classes.usable_for(claim)?;
        Ok(Launch {
            provider: self,
            claim,
            class,
            percentile,
            region: self.region().await?,
        })
    }
}

#[async_trait]
impl Provider for SpotProvider {
    fn name(&self) -> &'static str {
        "rackspacespot"
    }

    fn node_class_kinds(&self) -> &[NodeClassKind] {
        &self.kinds
    }

    fn well_known_labels(&self) -> &[&'static str] {
        &[VOLUME_ZONE]
    }

    fn overwritten_labels(&self) -> &[&'static str] {
        &[INSTANCE_TYPE, REGION]
    }

    async fn instance_types(&self, pool: &NodePool) -> Result<InstanceTypes, CloudError> {
        self.node_classes.usable(&pool.spec.template.spec.node_class_ref)?;
        self.region().await?;
        Ok(Arc::clone(&self.stock.current().types))
    }

    fn catalogue_revision(&self) -> watch::Receiver<u64> {
        self.stock.revision()
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Accepted, CloudError> {
        self.launch(claim).await?.run().await
    }

    async fn recover(&self, claim: &NodeClaim) -> Result<Option<Accepted>, CloudError> {
        self.launch(claim).await?.recover().await
    }

    async fn get(&self, machine: &MachineIdentity) -> Result<MachineState, CloudError> {
        let view = match self.views.not_older_than(GOOD_FOR).await {
            Ok(view) => view,
            Err(error) => {
                tracing::debug!(pool = machine.claim_uid, reason = %error, "the platform cannot be asked");
                return Ok(MachineState::Unknown);
            }
        };
        let judgement = self.orders().judge(&self.settings.cloudspace, machine, &view);
        if let (Some(server), Some(kind), Some(class)) =
            (&judgement.first_server, judgement.kind, &judgement.server_class)
        {
            tracing::info!(
                pool = machine.claim_uid,
                server,
                server_class = class,
                "a server is attached"
            );
            self.stock.delivered(class, kind.capacity_type());
            if judgement.stranger {
                tracing::warn!(
                    pool = machine.claim_uid,
                    server,
                    node = machine.node_name,
                    "another server than the claim's node is attached, and bills; if that node does not come back, delete the NodeClaim"
                );
            }
        }
        if let (Some(labels), Some(kind)) = (judgement.wiped, judgement.kind) {
            self.heal(kind, &machine.claim_uid, labels).await;
        }
        if judgement.state == MachineState::Absent {
            return Ok(self.confirm_absent(machine).await);
        }
        Ok(judgement.state)
    }

    async fn delete(&self, machine: &MachineIdentity) -> Result<Deletion, CloudError> {
        let uid = machine.claim_uid.as_str();
        let (order, kinds) = {
            let orders = self.orders();
            (orders.get(uid).cloned(), orders.kinds(machine))
        };
        let mut all = Deletion::Gone;
        for kind in &kinds {
            if self.delete_kind(*kind, uid).await? == Deletion::InProgress {
                all = Deletion::InProgress;
            }
        }
        let (now, settles_in) = (Instant::now(), self.settings.settles_in);
        let since = self.since().instant;
        let settled = absence_is_final(order.as_ref(), machine.create_outcome, since, settles_in, now)
            && self.orders().may_come(uid, settles_in, now).is_empty();
        if all == Deletion::Gone && settled && self.delete_other_kinds(&kinds, uid).await? == Deletion::Gone {
            self.orders().forget(uid);
            return Ok(Deletion::Gone);
        }
        Ok(Deletion::InProgress)
    }

    async fn end(&self, machine: &Machine) -> Result<Deletion, CloudError> {
        match PoolKind::of(machine.capacity_type) {
            Some(kind) => self.delete_kind(kind, &machine.claim_uid).await,
            None => Ok(Deletion::Gone),
        }
    }

    async fn list(&self) -> Result<MachineList, CloudError> {
        let view = self.views.fresh().await.map_err(|error| shared_error(&error))?;
        self.orders().tidy(&view);
        let mut machines: Vec<Machine> = view.pools.values().map(|pool| self.machine(pool)).collect();
        machines.sort_by(|a, b| (&a.claim_uid, a.capacity_type).cmp(&(&b.claim_uid, b.capacity_type)));
        Ok(MachineList {
            machines,
            complete: view.is_complete(),
        })
    }

    fn launch_timeout(&self, _claim: &NodeClaim) -> Duration {
        self.settings.launch_timeout
    }

    fn registration_timeout(&self, _claim: &NodeClaim) -> Duration {
        REGISTRATION_TIMEOUT
    }

    /// Never: the Go provider reports no drift of its own (surface §3.2), and a class that is no longer sold is found by the core.
    async fn drifted(&self, _claim: &NodeClaim) -> Result<Option<String>, CloudError> {
        Ok(None)
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        REPAIR
    }

    fn made_here(&self, claim_uid: &str) {
        self.orders().made_here(claim_uid, Instant::now());
    }

    fn did_not_deliver(&self, instance_type: &str, capacity_type: CapacityType) {
        let until = self.stock.cool_down(instance_type, capacity_type, Cause::NotDelivered);
        tracing::warn!(server_class = instance_type, %capacity_type, %until, "did not deliver, left alone for a while");
    }

    fn claim_of_node(&self, node_labels: &BTreeMap<String, String>) -> Option<String> {
        claim_of_node(node_labels)
    }

    fn readiness(&self) -> Result<(), String> {
        if let Some(trouble) = self.client.tokens().trouble() {
            return Err(trouble.to_string());
        }
        match self.stock.region() {
            Some(_) => Ok(()),
            None => Err("the server classes were not read yet".into()),
        }
    }
}
