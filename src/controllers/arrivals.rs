//! Where claims come from: sent by this process, there when it first decided what to buy, or late from a leader before it (architecture §3.5).
//!
//! ```text
//! lease lost while a create was on its way ─▶ another leads, sees the pods wait, buys ─▶ the create arrives: nobody needs its claim
//! ```
//!
//! Nothing fences a request that has left: the API server takes it whenever it comes. What can be known is who decided what. A claim that our
//! provisioner made, that this process did not send, and that its first decision did not see, was made for pods that are planned anew by now. It is
//! ended before anything is ordered for it. Claims that people make have no NodePool for their owner and are never late.
//!
//! The provisioner tells what it sends and when it decides; the lifecycle controller asks. Nothing here outlives the process, and nothing has to: a
//! new process begins by looking at everything.

use crate::api::{NodeClaim, NodePool};
use crate::cluster::{Change, Cluster, Kind, Snapshot, What};
use kube::Resource;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a claim comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// This process sent it.
    Sent,
    /// It was there when this process first decided what to buy, or nothing was decided yet, or a person made it.
    There,
    /// What the first decision sees is being looked at just now; to be asked again.
    Undecided,
    /// An earlier leader sent it, and it arrived after its pods were planned anew.
    Late,
}

#[derive(Debug, Default)]
struct State {
    /// Names of the claims that were sent and are not gone.
    sent: BTreeSet<String>,
    /// What the first decision sees.
    first: First,
}

#[derive(Debug, Default)]
enum First {
    /// Nothing was decided yet.
    #[default]
    Ahead,
    /// It looks.
    Looks,
    /// It has seen the claims with these UIDs; those that are gone are forgotten.
    Saw(BTreeSet<String>),
}

/// What is known of where claims come from; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Arrivals(Arc<Mutex<State>>);

impl Arrivals {
    /// A claim of this name is about to be sent; to be told before it can be seen.
    pub fn sending(&self, name: &str) {
        self.lock().sent.insert(name.to_owned());
    }

    /// It was not made and is no longer reckoned with: if it comes all the same, it comes late.
    pub fn given_up(&self, name: &str) {
        self.lock().sent.remove(name);
    }

    /// What is there is about to be looked at, to decide what to buy.
    pub fn deciding(&self) {
        let mut state = self.lock();
        if matches!(state.first, First::Ahead) {
            state.first = First::Looks;
        }
    }

    /// It is decided by this. Only the first decision counts: what comes later was not reckoned with.
    pub fn decided_by(&self, snapshot: &Snapshot) {
        let mut state = self.lock();
        if !matches!(state.first, First::Saw(_)) {
            let claims = snapshot.objects.claims.values();
            state.first = First::Saw(claims.map(|claim| claim.uid().to_owned()).collect());
        }
    }

    /// Where a claim comes from.
    pub fn of(&self, claim: &NodeClaim) -> Arrival {
        let state = self.lock();
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        if state.sent.contains(name) {
            return Arrival::Sent;
        }
        match &state.first {
            First::Looks if is_provisioned(claim) => Arrival::Undecided,
            First::Saw(there) if is_provisioned(claim) && !there.contains(uid) => Arrival::Late,
            _ => Arrival::There,
        }
    }

    /// Forgets claims that are gone.
    pub fn trigger(&self) -> impl FnMut(&Change, &Cluster) + Send + 'static {
        let arrivals = self.clone();
        move |change, _| {
            if change.kind == Kind::NodeClaim && change.what == What::Gone {
                let mut state = arrivals.lock();
                state.sent.remove(&*change.key.name);
                if let First::Saw(there) = &mut state.first {
                    there.remove(&*change.uid);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a provisioner made it: only that one makes a NodePool the owner (scheduling 21-3).
fn is_provisioned(claim: &NodeClaim) -> bool {
    let owners = claim.metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|owner| owner.kind == NodePool::kind(&()));
    owners.any(|owner| owner.api_version == NodePool::api_version(&()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::entries::ClaimEntry;
    use crate::cluster::{Delta, Object, Source};
    use chrono::DateTime;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    fn claim(name: &str) -> NodeClaim {
        let mut claim = NodeClaim::default();
        claim.metadata.name = Some(name.to_owned());
        claim.metadata.uid = Some(format!("uid-of-{name}"));
        claim.metadata.owner_references = Some(vec![OwnerReference {
            api_version: NodePool::api_version(&()).into_owned(),
            kind: NodePool::kind(&()).into_owned(),
            name: "default".to_owned(),
            ..OwnerReference::default()
        }]);
        claim
    }

    fn with(names: &[&str]) -> Arc<Snapshot> {
        let now = DateTime::UNIX_EPOCH;
        let mut cluster = Cluster::new([Source::of(Kind::NodeClaim)], Arc::new(|_: &_| None), now);
        for name in names {
            let object = Object::NodeClaim(Arc::new(ClaimEntry::read(claim(name))));
            cluster.observe(Delta::Applied(object), now);
        }
        cluster.snapshot()
    }

    // architecture §3.5
    #[test]
    fn a_claim_that_nobody_here_sent_or_reckoned_with_is_late() {
        let arrivals = Arrivals::default();
        assert_eq!(arrivals.of(&claim("any")), Arrival::There, "nothing was decided yet");
        arrivals.deciding();
        assert_eq!(arrivals.of(&claim("any")), Arrival::Undecided);
        arrivals.decided_by(&with(&["old"]));
        arrivals.sending("own");
        assert_eq!(arrivals.of(&claim("old")), Arrival::There);
        assert_eq!(arrivals.of(&claim("own")), Arrival::Sent);
        assert_eq!(arrivals.of(&claim("new")), Arrival::Late);
        arrivals.decided_by(&with(&["old", "new"]));
        assert_eq!(arrivals.of(&claim("new")), Arrival::Late, "the first decision counts");
        let mut by_hand = claim("new");
        by_hand.metadata.owner_references = None;
        assert_eq!(arrivals.of(&by_hand), Arrival::There);
    }

    // architecture §3.5
    #[test]
    fn a_create_that_was_given_up_comes_late_if_it_comes() {
        let arrivals = Arrivals::default();
        arrivals.decided_by(&with(&[]));
        arrivals.sending("own");
        arrivals.given_up("own");
        assert_eq!(arrivals.of(&claim("own")), Arrival::Late);
    }
}
