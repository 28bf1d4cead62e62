//! What this process remembers of the pools it asked for, and the judgement what became of each.
//!
//! The memory holds what the platform does not tell: that a server was attached before, and which; that a create was sent whose answer never came;
//! that a deletion was asked for. [`judge`] is pure. After a restart the memory is empty and the claim's own record fills in. Called by the provider.

mod tidying;

use crate::cloud::provider::{
    AWAITING_SERVER_ASSIGNMENT, Attachment, CreateOutcome, MachineIdentity, MachineState, Stage,
};
use crate::cloud::spot::labels::is_ours;
use crate::cloud::spot::servers::{Likeness, first_of};
use crate::cloud::spot::types::{Pool, PoolKind};
use crate::cloud::spot::view::View;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// Scheme of the first provider ID (surface §2.6).
pub const SCHEME: &str = "rackspacespot://";
/// A server that left is believed gone after this many views without it: one could be a hiccup, and the price of a mistake is a node.
const VIEWS_WITHOUT: u32 = 2;
/// Orders remembered; the platform's own limit is 1,000 servers.
const MOST_ORDERS: usize = 20_000;
/// Custom labels of one pool are written again at most this often.
const BETWEEN_HEALINGS: Duration = Duration::from_mins(10);
/// Views that follow each other faster than this count once.
const BETWEEN_VIEWS: Duration = Duration::from_secs(4);

/// The provider ID of a pool before its node has one.
pub fn provider_id(cloudspace: &str, kind: PoolKind, uid: &str) -> String {
    format!("{SCHEME}{cloudspace}/{}/{uid}", kind.word())
}

/// One pool that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Its kind.
    pub kind: PoolKind,
    /// Its server class.
    pub server_class: String,
    /// When a create was last sent.
    pub sent: Instant,
    /// When a create was answered; none while the outcome is unknown.
    pub accepted: Option<Instant>,
    /// The first server that was attached, by its key.
    pub server: Option<String>,
    /// Views in a row without that server, and when the last of them began.
    pub without: Option<(u32, Instant)>,
}

/// What is remembered, by claim UID.
#[derive(Debug, Default)]
pub struct Orders {
    by_claim: BTreeMap<String, Order>,
    /// Kinds in which a create was sent that never got an answer, and when last: such a pool may come late.
    unclear: BTreeMap<String, BTreeMap<PoolKind, Instant>>,
    /// Claims that this process made, and when that was told.
    made_here: BTreeMap<String, Instant>,
    deletions: BTreeMap<(PoolKind, String), Instant>,
    healed: BTreeMap<String, Instant>,
}

impl Orders {
    /// One order.
    pub fn get(&self, uid: &str) -> Option<&Order> {
        self.by_claim.get(uid)
    }

    /// A create is about to be sent: until it is answered, its outcome is unknown. That of an earlier one without an answer stays so.
    pub fn sending(&mut self, uid: &str, kind: PoolKind, server_class: &str, now: Instant) {
        self.keep_in_doubt(uid);
        self.put(uid, kind, server_class, now);
    }

    fn keep_in_doubt(&mut self, uid: &str) {
        if let Some(before) = self.by_claim.get(uid).filter(|before| before.accepted.is_none()) {
            let kinds = self.unclear.entry(uid.to_owned()).or_default();
            kinds.insert(before.kind, before.sent);
        }
    }

    fn put(&mut self, uid: &str, kind: PoolKind, server_class: &str, now: Instant) {
        let order = Order {
            kind,
            server_class: server_class.to_owned(),
            sent: now,
            accepted: None,
            server: None,
            without: None,
        };
        if self.by_claim.len() >= MOST_ORDERS
            && let Some(oldest) = self
                .by_claim
                .iter()
                .min_by_key(|(_, order)| order.sent)
                .map(|(uid, _)| uid.clone())
        {
            self.forget(&oldest);
        }
        self.by_claim.insert(uid.to_owned(), order);
    }

    /// A create was answered, or its pool was found.
    pub fn accepted(&mut self, uid: &str, kind: PoolKind, server_class: &str, now: Instant) {
        self.keep_in_doubt(uid);
        self.put(uid, kind, server_class, now);
        // the name is taken now: what comes late in this kind is refused
        if let Some(kinds) = self.unclear.get_mut(uid) {
            kinds.remove(&kind);
        }
        if let Some(order) = self.by_claim.get_mut(uid) {
            order.accepted = Some(now);
        }
    }

    /// The last create was answered, and no pool was made by it. Earlier ones without an answer may still make one.
    pub fn refused(&mut self, uid: &str) {
        self.by_claim.remove(uid);
    }

    /// This process made the claim: nobody can have ordered for it before.
    pub fn made_here(&mut self, uid: &str, now: Instant) {
        if self.made_here.len() < MOST_ORDERS {
            self.made_here.insert(uid.to_owned(), now);
        }
    }

    /// Whether this process made the claim.
    pub fn is_made_here(&self, uid: &str) -> bool {
        self.made_here.contains_key(uid)
    }

    /// The kinds in which a create was sent that has no answer, and when last.
    pub fn unanswered(&self, uid: &str) -> BTreeMap<PoolKind, Instant> {
        let mut kinds = self.unclear.get(uid).cloned().unwrap_or_default();
        if let Some(order) = self.get(uid).filter(|order| order.accepted.is_none()) {
            kinds.insert(order.kind, order.sent);
        }
        kinds
    }

    /// The kinds in which a create was sent so lately that, without an answer, it may still take effect.
    pub fn may_come(&self, uid: &str, settles_in: Duration, now: Instant) -> BTreeSet<PoolKind> {
        let unanswered = self.unanswered(uid).into_iter();
        let recent = unanswered.filter(|(_, sent)| now.saturating_duration_since(*sent) < settles_in);
        recent.map(|(kind, _)| kind).collect()
    }

    /// The kinds in which a machine may have a pool: where one was ordered or may still come, else the claim's recorded one, else both.
    pub fn kinds(&self, machine: &MachineIdentity) -> BTreeSet<PoolKind> {
        let uid = machine.claim_uid.as_str();
        let mut kinds: BTreeSet<PoolKind> = self.unanswered(uid).into_keys().collect();
        kinds.extend(kinds_of(self.get(uid), machine));
        kinds
    }

    /// A claim and its machine are gone for good.
    pub fn forget(&mut self, uid: &str) {
        self.by_claim.remove(uid);
        self.unclear.remove(uid);
        self.made_here.remove(uid);
        self.healed.remove(uid);
        for kind in PoolKind::ALL {
            self.deletions.remove(&(kind, uid.to_owned()));
        }
    }

    /// Remembers that a deletion was accepted.
    pub fn deleting(&mut self, kind: PoolKind, uid: &str, now: Instant) {
        self.deletions.insert((kind, uid.to_owned()), now);
    }

    /// When a deletion was accepted.
    pub fn deletion(&self, kind: PoolKind, uid: &str) -> Option<Instant> {
        self.deletions.get(&(kind, uid.to_owned())).copied()
    }

    /// A pool is not there any more.
    pub fn deletion_done(&mut self, kind: PoolKind, uid: &str) {
        self.deletions.remove(&(kind, uid.to_owned()));
    }

    /// Whether a pool's labels may be written again now; remembers that they are.
    pub fn may_heal(&mut self, uid: &str, now: Instant) -> bool {
        if self
            .healed
            .get(uid)
            .is_some_and(|at| now.saturating_duration_since(*at) < BETWEEN_HEALINGS)
        {
            return false;
        }
        self.healed.insert(uid.to_owned(), now);
        true
    }

    /// Judges a machine by a view and remembers what that shows.
    pub fn judge(&mut self, cloudspace: &str, machine: &MachineIdentity, view: &View) -> Judgement {
        let judgement = judge(cloudspace, self.by_claim.get(&machine.claim_uid), machine, view);
        if judgement.first_server.is_none() && judgement.without.is_none() {
            if let Some(order) = self.by_claim.get_mut(&machine.claim_uid) {
                order.without = None;
            }
            return judgement;
        }
        // Known only from the claim's record, after a restart: remembered from here on.
        let (kind, class) = (judgement.kind.unwrap_or(PoolKind::Spot), judgement.server_class.clone());
        let order = self.by_claim.entry(machine.claim_uid.clone()).or_insert_with(|| Order {
            kind,
            server_class: class.unwrap_or_default(),
            sent: view.began,
            accepted: Some(view.began),
            server: None,
            without: None,
        });
        if judgement.first_server.is_some() {
            order.server.clone_from(&judgement.first_server);
        }
        order.without = judgement.without;
        judgement
    }
}

/// The kinds in which a machine's pool may be: the order's, else the claim's recorded one, else both; never guessed (architecture §7.6).
pub fn kinds_of(order: Option<&Order>, machine: &MachineIdentity) -> Vec<PoolKind> {
    let known = order
        .map(|order| order.kind)
        .or_else(|| PoolKind::of(machine.capacity_type?));
    known.map_or_else(|| PoolKind::ALL.to_vec(), |kind| vec![kind])
}

/// What a view shows of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// For the caller.
    pub state: MachineState,
    /// The kind of its pool, if it was found.
    pub kind: Option<PoolKind>,
    /// The class of its pool, if it was found.
    pub server_class: Option<String>,
    /// A server that was not known before.
    pub first_server: Option<String>,
    /// That server is probably not the one that became the claim's node.
    pub stranger: bool,
    /// Views in a row without the server that was attached, and when the last of them began.
    pub without: Option<(u32, Instant)>,
    /// The pool lost our mark although it is not being deleted (architecture §7.5).
    pub wiped: Option<BTreeMap<String, String>>,
}

impl Judgement {
    fn of(state: MachineState) -> Self {
        Self {
            state,
            kind: None,
            server_class: None,
            first_server: None,
            stranger: false,
            without: None,
            wiped: None,
        }
    }
}

/// Judges one machine by a view.
pub fn judge(cloudspace: &str, order: Option<&Order>, machine: &MachineIdentity, view: &View) -> Judgement {
    let kinds = kinds_of(order, machine);
    let pool = kinds
        .iter()
        .find_map(|kind| view.pools.get(&(*kind, machine.claim_uid.clone())));
    let Some(pool) = pool else {
        return Judgement::of(absent(cloudspace, &kinds, order, machine, view));
    };
    let id = provider_id(cloudspace, pool.kind, &machine.claim_uid);
    let present = |stage| MachineState::Present {
        stage,
        provider_id: Some(id.clone()),
        going_away: pool.deleting,
    };
    let found = |state| Judgement {
        kind: Some(pool.kind),
        server_class: Some(pool.server_class.clone()),
        wiped: (!pool.deleting && !is_ours(&pool.custom_labels)).then(|| pool.custom_labels.clone()),
        ..Judgement::of(state)
    };
    let Some(servers) = view.cloudspace.as_ref().filter(|c| c.assigned_servers.is_some()) else {
        return found(MachineState::Unknown);
    };
    let servers: Vec<(&str, &str)> = servers.servers_of(&machine.claim_uid).collect();
    let before = order.and_then(|order| order.server.as_deref());
    let was_attached = before.is_some()
        || machine.attachment == Attachment::Recorded
        || machine.provider_id.as_deref().is_some_and(|id| !id.starts_with(SCHEME));
    match (first_of(&servers, machine.node_name.as_deref()), before) {
        // A second server for one claim never becomes its node (architecture §7.21).
        (Some(_), Some(first)) if servers.iter().all(|(key, _)| *key != first) => found(MachineState::Taken),
        (Some(_), Some(_)) => found(present(Stage::Attached)),
        (Some(server), None) => Judgement {
            first_server: Some(server.key.to_owned()),
            stranger: server.likeness == Likeness::Stranger,
            ..found(present(Stage::Attached))
        },
        (None, _) if was_attached => {
            let without = one_more(order.and_then(|order| order.without), view.began);
            let state = if without.0 >= VIEWS_WITHOUT {
                MachineState::Taken
            } else {
                present(Stage::Attached)
            };
            Judgement {
                without: Some(without),
                ..found(state)
            }
        }
        (None, _) => found(present(waiting(pool))),
    }
}

fn one_more(before: Option<(u32, Instant)>, began: Instant) -> (u32, Instant) {
    match before {
        None => (1, began),
        Some((count, at)) if began.saturating_duration_since(at) >= BETWEEN_VIEWS => (count.saturating_add(1), began),
        Some(same) => same,
    }
}

/// What the absence of a pool means.
fn absent(
    cloudspace: &str,
    kinds: &[PoolKind],
    order: Option<&Order>,
    machine: &MachineIdentity,
    view: &View,
) -> MachineState {
    if !kinds.iter().all(|kind| view.complete.contains(kind)) {
        return MachineState::Unknown;
    }
    match order {
        // The view began before the create was answered (or, without an answer, sent): it says nothing about this pool.
        Some(order) if view.began <= order.accepted.unwrap_or(order.sent) => MachineState::Present {
            stage: Stage::Waiting {
                reason: AWAITING_SERVER_ASSIGNMENT,
                message: format!("{} pool ordered", order.kind.word()),
            },
            provider_id: Some(provider_id(cloudspace, order.kind, &machine.claim_uid)),
            going_away: false,
        },
        _ => MachineState::Absent,
    }
}

fn waiting(pool: &Pool) -> Stage {
    let status = if pool.status.is_empty() {
        "not looked at yet"
    } else {
        pool.status.as_str()
    };
    let what = match pool.kind {
        PoolKind::Spot => format!(
            "bid of {} for {} is {status} (won {} of {})",
            pool.bid.map_or_else(|| "?".to_owned(), |bid| format!("${bid}")),
            pool.server_class,
            pool.won,
            pool.desired
        ),
        PoolKind::OnDemand => format!("order of {} is {status}", pool.server_class),
    };
    Stage::Waiting {
        reason: AWAITING_SERVER_ASSIGNMENT,
        message: format!("{what}; no server is attached yet"),
    }
}

/// Whether "not found" is the last word about a machine: not while a create may still take effect.
pub fn absence_is_final(
    order: Option<&Order>,
    outcome: CreateOutcome,
    started: Instant,
    settles_in: Duration,
    now: Instant,
) -> bool {
    match (order, outcome) {
        (Some(order), _) if order.accepted.is_none() => now.saturating_duration_since(order.sent) >= settles_in,
        (Some(_), _) | (None, CreateOutcome::NeverSent | CreateOutcome::Known) => true,
        // An earlier process may have sent it just before it ended.
        (None, CreateOutcome::Unknown) => now.saturating_duration_since(started) >= settles_in,
    }
}

#[cfg(test)]
#[path = "orders_tests.rs"]
mod tests;
