//! Places the order for one claim: an offering, a bid, a pool.
//!
//! ```text
//! ordered before? ─▶ answer from memory
//! may it have been ordered? ─▶ look in both kinds, by name and in the lists ─▶ adopt
//!                             └▶ nothing, and it may still come ─▶ only the kind that was sent; unknown which, and the claim may be either: later
//! else ─▶ cheapest offering ─▶ bid ─▶ POST ─▶ made, or the name was taken ─▶ adopt if it is the same order
//!       ▲         ▲              ▲       └─ refused: increment ─▶ other rules (bid again)
//!       │         └── never sold ┼──────────────────┤
//!       └── class read again ────┴── market, floor ─┘
//! ```
//!
//! Called by the provider's `create`. Bids and refusals are logged here, and nowhere else.

use crate::api::{NodeClaim, RackspaceSpotNodeClass, labels, time};
use crate::cloud::choose::{Choice, choices, requirements_of, why_none};
use crate::cloud::error::CloudError;
use crate::cloud::provider::{AWAITING_SERVER_ASSIGNMENT, Accepted, Stage};
use crate::cloud::spot::catalogue::Catalogue;
use crate::cloud::spot::cooldown::Cause;
use crate::cloud::spot::error::SpotError;
use crate::cloud::spot::labels::{PoolPlan, claim_labels, is_uuid, pool_of, volume_zone};
use crate::cloud::spot::operations::Created;
use crate::cloud::spot::orders::provider_id;
use crate::cloud::spot::provider::SpotProvider;
use crate::cloud::spot::types::{Pool, PoolKind};
use crate::pricing::{Bid, BidInputs, Percentile, RefusalCause, place_bid};
use crate::scheduling::{CapacityType, WellKnownLabels};
use chrono::TimeDelta;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::Instant;

/// Offerings tried for one claim in one go.
const MOST_OFFERINGS: usize = 3;
/// Sends of one order whose bid is corrected in between.
const MOST_BIDS: u32 = 3;
/// How far the API server's clock may be from ours, when it is judged whether a claim is older than this process.
const CLOCKS_DIFFER: TimeDelta = TimeDelta::seconds(60);

/// One launch.
pub(super) struct Launch<'a> {
    pub(super) provider: &'a SpotProvider,
    pub(super) claim: &'a NodeClaim,
    pub(super) class: Arc<RackspaceSpotNodeClass>,
    pub(super) percentile: Percentile,
    pub(super) region: String,
}

/// What came of a look for an earlier order.
enum Found {
    Pool(Box<Pool>),
    /// In these kinds one may be ordered.
    Nothing(Kinds),
}

/// The kinds in which a pool may be ordered.
#[derive(Clone, Copy)]
enum Kinds {
    Any,
    /// Another one could become a second machine.
    Only(PoolKind),
}

impl Kinds {
    fn allow(self, choice: &Choice) -> bool {
        match self {
            Self::Any => true,
            Self::Only(kind) => PoolKind::of(choice.capacity_type) == Some(kind),
        }
    }
}

/// What one offering came to.
enum Placed {
    Accepted(Box<Accepted>),
    /// The platform does not sell this now; the reason is for people.
    TryNext(String),
    /// It costs something else than we thought, so that another offering may be the cheapest now.
    Repriced(String),
}

impl Launch<'_> {
    /// Places the order, or finds it placed.
    pub(super) async fn run(&self) -> Result<Accepted, CloudError> {
        let uid = self.claim.uid();
        if !is_uuid(uid) {
            return Err(CloudError::Create {
                reason: "InvalidClaimUID",
                message: format!("the claim's UID {uid:?} cannot name a pool, which must be a lowercase UUID"),
                source: None,
            });
        }
        if let Some(accepted) = self.remembered() {
            return Ok(accepted);
        }
        let catalogue = self.provider.stock.current();
        let kinds = match self.look_first().await? {
            Found::Pool(pool) => return self.adopt(&pool, &catalogue),
            Found::Nothing(kinds) => kinds,
        };
        let well_known = WellKnownLabels::default();
        let mut reasons = Vec::new();
        let mut repriced: BTreeMap<(String, CapacityType), u32> = BTreeMap::new();
        let mut given_up: BTreeSet<(String, CapacityType)> = BTreeSet::new();
        while given_up.len() < MOST_OFFERINGS {
            // Ranked anew each time: a refusal tells of a price that moved.
            let catalogue = self.provider.stock.current();
            let mut ranked = choices(self.claim, &catalogue.types, &well_known).into_iter();
            let may_be = |choice: &Choice| kinds.allow(choice) && !given_up.contains(&offering(choice));
            let Some(choice) = ranked.find(may_be) else {
                break;
            };
            let reason = match self.place(&choice).await? {
                Placed::Accepted(accepted) => return Ok(*accepted),
                Placed::Repriced(reason) => {
                    let times = repriced.entry(offering(&choice)).or_default();
                    *times = times.saturating_add(1);
                    if *times < MOST_BIDS {
                        continue;
                    }
                    reason
                }
                Placed::TryNext(reason) => reason,
            };
            reasons.push(format!("{}: {reason}", choice.instance_type.name));
            given_up.insert(offering(&choice));
        }
        if let Kinds::Only(kind) = kinds {
            reasons.push(format!(
                "no other kind is tried while an earlier {} order may still be carried out",
                kind.word()
            ));
        }
        let now = self.provider.stock.current();
        reasons.push(why_none(self.claim, &now.types, &well_known));
        Err(CloudError::InsufficientCapacity {
            wanted: self.name().to_owned(),
            detail: reasons.join("; "),
        })
    }

    /// The order that a pool of this claim's name shows. Nothing is concluded from there being none.
    pub(super) async fn recover(&self) -> Result<Option<Accepted>, CloudError> {
        let uid = self.claim.uid();
        for kind in PoolKind::ALL.into_iter().filter(|_| is_uuid(uid)) {
            match self.provider.client.pool(kind, uid).await {
                Ok(pool) => return self.adopt(&pool, &self.provider.stock.current()).map(Some),
                Err(SpotError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    fn name(&self) -> &str {
        self.claim.metadata.name.as_deref().unwrap_or_default()
    }

    fn remembered(&self) -> Option<Accepted> {
        let (kind, class, attached) = {
            let orders = self.provider.orders();
            let order = orders.get(self.claim.uid()).filter(|order| order.accepted.is_some())?;
            (order.kind, order.server_class.clone(), order.server.is_some())
        };
        let stage = if attached { Stage::Attached } else { ordered() };
        self.accepted(kind, &class, &self.provider.stock.current(), stage).ok()
    }

    /// Whether a pool of this name may exist although this process remembers none: an earlier one may have ordered it, or our own create had no clear
    /// outcome.
    fn may_have_been_ordered_before(&self) -> bool {
        let (unanswered, is_made_here) = {
            let orders = self.provider.orders();
            let uid = self.claim.uid();
            (!orders.unanswered(uid).is_empty(), orders.is_made_here(uid))
        };
        if unanswered || is_made_here {
            return unanswered;
        }
        let ours_since = self.provider.since().time.checked_add_signed(CLOCKS_DIFFER);
        match (time::created(&self.claim.metadata), ours_since) {
            (Some(created), Some(since)) => created < since,
            _ => true,
        }
    }

    /// Looks for a pool of an earlier order, and says in which kinds one may be ordered if there is none. "Not found" has been answered for pools that
    /// are there, so the lists have to agree; and what is in none of them may still come (architecture §6).
    async fn look_first(&self) -> Result<Found, CloudError> {
        if !self.may_have_been_ordered_before() {
            return Ok(Found::Nothing(Kinds::Any));
        }
        let uid = self.claim.uid();
        for kind in PoolKind::ALL {
            match self.provider.client.pool(kind, uid).await {
                Ok(pool) => return Ok(Found::Pool(Box::new(pool))),
                Err(SpotError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let unanswered = self.provider.orders().unanswered(uid);
        let last = unanswered.values().max().copied();
        let last = last.unwrap_or_else(|| self.provider.since().instant);
        let view = self.provider.seen_since(last).await?;
        let listed = |kind: PoolKind| view.pools.get(&(kind, uid.to_owned()));
        if let Some(pool) = PoolKind::ALL.into_iter().find_map(listed) {
            return Ok(Found::Pool(Box::new(pool.clone())));
        }
        let settled = view.is_complete() && last.elapsed() >= self.provider.settings.settles_in;
        let sent: Vec<PoolKind> = unanswered.into_keys().collect();
        self.kinds(&sent, settled).map(Found::Nothing)
    }

    /// The kinds in which a pool may be ordered after one was `sent` in these, or, if they are unknown, perhaps by an earlier process. In one kind a
    /// second order changes nothing, since both have the same name; in the other it would be a second machine.
    fn kinds(&self, sent: &[PoolKind], settled: bool) -> Result<Kinds, CloudError> {
        if settled {
            return Ok(Kinds::Any);
        }
        if let [kind] = sent {
            return Ok(Kinds::Only(*kind));
        }
        let wanted = requirements_of(self.claim).get_or_any(labels::CAPACITY_TYPE);
        let is_wanted = |kind: &PoolKind| wanted.has(kind.capacity_type().as_str());
        if !PoolKind::ALL.iter().all(is_wanted) {
            return Ok(Kinds::Any);
        }
        Err(CloudError::UnknownOutcome {
            operation: "ordering",
            object: format!(
                "pool {}, which an earlier process may have sent as spot or as on-demand a moment ago,",
                self.claim.uid()
            ),
            source: None,
        })
    }

    /// Takes a pool that carries our claim's name for its order, if it is one (architecture §6).
    fn adopt(&self, pool: &Pool, catalogue: &Catalogue) -> Result<Accepted, CloudError> {
        let conflict = |message: String| CloudError::Create {
            reason: "PoolConflict",
            message,
            source: None,
        };
        if pool.cloudspace != self.provider.settings.cloudspace {
            return Err(conflict(format!(
                "pool {} belongs to cloudspace {}",
                pool.name, pool.cloudspace
            )));
        }
        if pool.deleting {
            return Err(conflict(format!("pool {} is being deleted", pool.name)));
        }
        let kind = catalogue.get(&pool.server_class);
        let requirements = requirements_of(self.claim);
        let recorded = self.claim.instance_type();
        let agrees = recorded.is_none_or(|name| name == pool.server_class)
            && kind.is_some_and(|kind| {
                kind.matches(&requirements)
                    && kind.offerings.iter().any(|offering| {
                        offering.capacity_type() == Some(pool.kind.capacity_type())
                            && offering.matches(&requirements, &WellKnownLabels::default())
                    })
            });
        if !agrees {
            return Err(conflict(format!(
                "pool {} is a {} pool of {}, which is not what the claim asks for",
                pool.name,
                pool.kind.word(),
                pool.server_class
            )));
        }
        tracing::info!(
            nodeclaim = self.name(),
            pool = pool.name,
            server_class = pool.server_class,
            "found the pool ordered"
        );
        self.provider
            .orders()
            .accepted(self.claim.uid(), pool.kind, &pool.server_class, Instant::now());
        self.accepted(pool.kind, &pool.server_class, catalogue, ordered())
    }

    async fn place(&self, choice: &Choice) -> Result<Placed, CloudError> {
        let server_class = choice.instance_type.name.as_str();
        let Some(kind) = PoolKind::of(choice.capacity_type) else {
            return Ok(Placed::TryNext("reserved capacity is not sold here".into()));
        };
        let mut sends = 0;
        loop {
            sends += 1;
            let catalogue = self.provider.stock.current();
            let bid = match (kind, self.bid(server_class, &catalogue)) {
                (PoolKind::OnDemand, _) => None,
                (PoolKind::Spot, Ok(bid)) => Some(bid),
                (PoolKind::Spot, Err(reason)) => return Ok(Placed::TryNext(reason)),
            };
            let words = match self.send(kind, server_class, bid.as_ref()).await {
                Ok(Created::New) => {
                    self.log_placed(kind, server_class, bid.as_ref());
                    self.provider
                        .orders()
                        .accepted(self.claim.uid(), kind, server_class, Instant::now());
                    let accepted = self.accepted(kind, server_class, &catalogue, ordered())?;
                    return Ok(Placed::Accepted(Box::new(accepted)));
                }
                Ok(Created::Existed(pool)) => return self.adopt(&pool, &catalogue).map(Box::new).map(Placed::Accepted),
                Err(SpotError::Refused { words, .. }) => words,
                Err(error) => {
                    if !matches!(error, SpotError::UnknownOutcome { .. }) {
                        self.provider.orders().refused(self.claim.uid());
                    }
                    return Err(error.into());
                }
            };
            self.provider.orders().refused(self.claim.uid());
            self.log_refused(kind, server_class, bid.as_ref(), &words);
            let next = self.after_refusal(choice, bid.as_ref(), &words).await?;
            match next {
                Next::Again if sends < MOST_BIDS => {}
                Next::Again | Next::Elsewhere => return Ok(Placed::TryNext(words)),
                Next::RankAnew => return Ok(Placed::Repriced(words)),
            }
        }
    }

    fn bid(&self, server_class: &str, catalogue: &Catalogue) -> Result<Bid, String> {
        let facts = catalogue.facts.get(server_class).ok_or("its prices are not known")?;
        let inputs = BidInputs {
            market: facts.market.ok_or("its market price is not known")?,
            percentile: facts.percentiles.map(|p| p.percentile(self.percentile)),
            floor: facts.floor.price(),
        };
        place_bid(inputs, self.provider.rules()).map_err(|error| error.to_string())
    }

    async fn send(&self, kind: PoolKind, server_class: &str, bid: Option<&Bid>) -> Result<Created, SpotError> {
        let plan = PoolPlan {
            cloudspace: &self.provider.settings.cloudspace,
            region: &self.region,
            kind,
            server_class,
            bid: bid.map(|bid| bid.amount),
        };
        let pool = pool_of(self.claim, &self.class, plan);
        // Remembered before it is sent: were this call dropped half-way, its outcome would be unknown, not "never sent".
        self.provider
            .orders()
            .sending(self.claim.uid(), kind, server_class, Instant::now());
        self.provider.client.create_pool(&pool).await
    }

    /// Decides whether the same offering is worth another bid, and learns what it costs now.
    async fn after_refusal(&self, choice: &Choice, bid: Option<&Bid>, words: &str) -> Result<Next, CloudError> {
        let server_class = choice.instance_type.name.as_str();
        match RefusalCause::of(words) {
            RefusalCause::Increment if bid.is_some_and(|bid| self.provider.other_rules_than(bid.rules)) => {
                Ok(Next::Again)
            }
            RefusalCause::BelowMarket | RefusalCause::BelowFloor => {
                match self.provider.client.server_class(server_class).await {
                    Ok(class) => self.provider.stock.replace_class(class),
                    Err(error) => tracing::debug!(server_class, reason = %error, "the class cannot be read again"),
                }
                // Another launch may have learnt the new price before us: what counts is what this bid was made from.
                let now = self.bid(server_class, &self.provider.stock.current()).ok();
                if now.map(|now| now.inputs) == bid.map(|bid| bid.inputs) {
                    self.leave_alone(choice, Cause::Refused);
                    return Ok(Next::Elsewhere);
                }
                Ok(Next::RankAnew)
            }
            RefusalCause::Increment => {
                self.leave_alone(choice, Cause::Refused);
                Ok(Next::Elsewhere)
            }
            RefusalCause::NotBiddable => {
                self.leave_alone(choice, Cause::NotDelivered);
                Ok(Next::Elsewhere)
            }
            RefusalCause::Other => Err(CloudError::Create {
                reason: "PoolRefused",
                message: format!("the platform refused the pool: {words}"),
                source: None,
            }),
        }
    }

    fn leave_alone(&self, choice: &Choice, cause: Cause) {
        self.provider
            .stock
            .cool_down(&choice.instance_type.name, choice.capacity_type, cause);
    }

    fn accepted(
        &self,
        kind: PoolKind,
        server_class: &str,
        catalogue: &Catalogue,
        stage: Stage,
    ) -> Result<Accepted, CloudError> {
        let instance_type = catalogue.get(server_class).ok_or_else(|| CloudError::Create {
            reason: "UnknownServerClass",
            message: format!("server class {server_class} is not listed in region {}", self.region),
            source: None,
        })?;
        Ok(Accepted {
            provider_id: Some(provider_id(&self.provider.settings.cloudspace, kind, self.claim.uid())),
            image_id: None,
            instance_type: server_class.to_owned(),
            capacity_type: kind.capacity_type(),
            labels: claim_labels(&self.region, kind, server_class)
                .into_iter()
                .chain(volume_zone(self.claim))
                .collect(),
            annotations: std::collections::BTreeMap::new(),
            capacity: instance_type.capacity.clone(),
            allocatable: instance_type.allocatable().clone(),
            stage,
        })
    }

    fn log_placed(&self, kind: PoolKind, server_class: &str, bid: Option<&Bid>) {
        let pool = self.claim.uid();
        if let Some(bid) = bid {
            tracing::info!(
                nodeclaim = self.name(),
                pool,
                server_class,
                bid = %bid.amount,
                market = %bid.inputs.market,
                percentile = %self.percentile,
                percentile_price = %bid.inputs.percentile.unwrap_or_default(),
                floor = %bid.inputs.floor.unwrap_or_default(),
                "placed a bid"
            );
        } else {
            tracing::info!(
                nodeclaim = self.name(),
                pool,
                server_class,
                kind = kind.word(),
                "ordered a server"
            );
        }
    }

    fn log_refused(&self, kind: PoolKind, server_class: &str, bid: Option<&Bid>, words: &str) {
        tracing::warn!(
            nodeclaim = self.name(),
            pool = self.claim.uid(),
            server_class,
            kind = kind.word(),
            bid = bid.map(|bid| bid.amount.to_string()),
            reason = words,
            "the platform refused a pool"
        );
    }
}

enum Next {
    /// The same offering, with another bid for the same price.
    Again,
    /// Whatever is the cheapest now.
    RankAnew,
    Elsewhere,
}

/// What tells one way to launch from the others.
fn offering(choice: &Choice) -> (String, CapacityType) {
    (choice.instance_type.name.clone(), choice.capacity_type)
}

fn ordered() -> Stage {
    Stage::Waiting {
        reason: AWAITING_SERVER_ASSIGNMENT,
        message: "the pool is ordered; no server is attached yet".into(),
    }
}
