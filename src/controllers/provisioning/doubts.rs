//! Creates of claims that may or may not have taken effect, each kept until that is known (architecture §3.5).
//!
//! ```text
//! no answer, and not found at once ─▶ in doubt: its pods wait, it counts against limits
//!     ├─ found, and it is ours ─▶ its pods are promised to it
//!     ├─ not found, young, wanted ─▶ sent again under the same name: it cannot exist twice
//!     ├─ not found, old ─▶ never came: forgotten, its pods are planned anew (and should it come, nothing is ordered for it)
//!     └─ cannot be read ─▶ stays in doubt
//! ```
//!
//! Forgetting a name without an answer would plan its pods onto a second claim. [`verdict`] is pure; the provisioner settles what it can before each
//! pass. The memory is bounded: while it is full, no claim is created.

use super::create::{self, CreateError};
use super::record;
use crate::api::NodeClaim;
use crate::cluster::entries::ClaimEntry;
use crate::cluster::{MachineId, Snapshot};
use crate::controllers::Kit;
use crate::k8s::queue::ReconcileError;
use crate::k8s::write::Remedy;
use crate::scheduling::NewClaim;
use chrono::{DateTime, TimeDelta, Utc};
use futures::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An API server gives a request up after a minute: what is not there then never comes.
const COMES_WITHIN: TimeDelta = TimeDelta::minutes(1);
/// Creates in doubt at once; more than a burst that met one outage.
const MOST: usize = 1_000;

/// One create in doubt.
#[derive(Debug)]
pub(super) struct Doubt {
    /// What was sent.
    object: NodeClaim,
    /// What it was decided for.
    claim: NewClaim,
    /// When it was sent first.
    sent: DateTime<Utc>,
}

impl Doubt {
    fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// Whether the decision still holds: the pool is the one it was made for, and one of the pods still waits.
    fn is_wanted(&self, snapshot: &Snapshot) -> bool {
        let owner = self.object.metadata.owner_references.iter().flatten().next();
        let pool = snapshot.pool(&self.claim.pool).filter(|pool| !pool.facts.is_deleting());
        let same_pool = pool
            .zip(owner)
            .is_some_and(|(pool, owner)| *owner.uid == *pool.meta.uid);
        let waits = |pod: &Arc<crate::scheduling::Pod>| {
            let known = snapshot.pod(&pod.namespace, &pod.name);
            known.is_some_and(|known| *known.meta.uid == *pod.uid && known.is_provisionable())
        };
        same_pool && self.claim.pods.iter().any(waits)
    }
}

/// Whether anybody still asks for the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Demand {
    Wanted,
    Over,
}

/// What is done about a create in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It took effect.
    Adopt,
    /// Under the same name.
    SendAgain,
    /// It did not take effect, or the name is somebody else's.
    Forget,
    /// It may still come.
    Wait,
}

fn verdict(doubt: &Doubt, found: Option<&NodeClaim>, demand: Demand, now: DateTime<Utc>) -> Verdict {
    let age = now.signed_duration_since(doubt.sent);
    match (found, demand) {
        (Some(found), _) if create::is_ours(found, &doubt.object) => Verdict::Adopt,
        (Some(_), _) => Verdict::Forget,
        (None, _) if age >= COMES_WITHIN => Verdict::Forget,
        (None, Demand::Wanted) => Verdict::SendAgain,
        (None, Demand::Over) => Verdict::Wait,
    }
}

/// What a pass leaves alone because of creates in doubt.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// UIDs of the pods that they are for.
    pub(super) pods: BTreeSet<String>,
    /// The claims that may exist, for the limits of their pools.
    pub(super) claims: Vec<ClaimEntry>,
}

/// All creates in doubt, by the name of the claim.
#[derive(Debug, Default)]
pub(super) struct Doubts(Mutex<BTreeMap<String, Arc<Doubt>>>);

impl Doubts {
    /// Refuses to begin another create while too many are in doubt.
    pub(super) fn admit(&self) -> Result<(), CreateError> {
        if self.lock().len() < MOST {
            Ok(())
        } else {
            Err(CreateError::TooManyDoubts)
        }
    }

    /// A create got no answer.
    pub(super) fn add(&self, object: NodeClaim, claim: &NewClaim, now: DateTime<Utc>) {
        let doubt = Doubt {
            object,
            claim: claim.clone(),
            sent: now,
        };
        self.lock().insert(doubt.name().to_owned(), Arc::new(doubt));
    }

    /// What the next pass leaves alone.
    pub(super) fn held(&self) -> Held {
        let mut held = Held::default();
        for doubt in self.lock().values() {
            held.pods.extend(doubt.claim.pods.iter().map(|pod| pod.uid.to_string()));
            held.claims.push(ClaimEntry::read(doubt.object.clone()));
        }
        held
    }

    /// Settles what can be settled now.
    pub(super) async fn settle(&self, kit: &Kit) -> Result<(), ReconcileError> {
        let all: Vec<Arc<Doubt>> = self.lock().values().cloned().collect();
        if all.is_empty() {
            return Ok(());
        }
        let snapshot = kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let work = all.iter().map(|doubt| self.settle_one(kit, &snapshot, doubt));
        join_all(work).await.into_iter().collect()
    }

    async fn settle_one(&self, kit: &Kit, snapshot: &Snapshot, doubt: &Arc<Doubt>) -> Result<(), ReconcileError> {
        let found = match snapshot.claim(doubt.name()) {
            Some(known) => Some(known.facts.clone()),
            None => match create::look_up(kit, &doubt.object).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::debug!(NodeClaim = doubt.name(), error = %error, "cannot tell yet whether the nodeclaim was created");
                    return Ok(());
                }
            },
        };
        let demand = if doubt.is_wanted(snapshot) {
            Demand::Wanted
        } else {
            Demand::Over
        };
        match verdict(doubt, found.as_ref(), demand, kit.now()) {
            Verdict::Adopt => self.adopt(kit, doubt).await,
            Verdict::SendAgain => self.send_again(kit, doubt).await,
            Verdict::Forget => {
                self.give_up(kit, doubt);
                Ok(())
            }
            Verdict::Wait => Ok(()),
        }
    }

    /// A name exists at most once: either this makes the claim, or the claim is there and the next look finds it.
    async fn send_again(&self, kit: &Kit, doubt: &Doubt) -> Result<(), ReconcileError> {
        match kit.writer.create(&doubt.object).await {
            Ok(_) => self.adopt(kit, doubt).await,
            Err(error) if error.remedy() == Remedy::TellTheUser => {
                self.give_up(kit, doubt);
                Err(error.into())
            }
            Err(_) => Ok(()),
        }
    }

    async fn adopt(&self, kit: &Kit, doubt: &Doubt) -> Result<(), ReconcileError> {
        let claim = &doubt.claim;
        kit.cluster
            .plan(create::plans(doubt.name(), &claim.pods))
            .await
            .map_err(ReconcileError::new)?;
        create::record(kit, &claim.pool, claim, doubt.name());
        record::promised(kit, &claim.pods, &MachineId::Claim(doubt.name().into()));
        self.forget(doubt);
        Ok(())
    }

    /// Should the claim come all the same, its pods were planned anew by then: nothing is ordered for it.
    fn give_up(&self, kit: &Kit, doubt: &Doubt) {
        kit.arrivals.given_up(doubt.name());
        self.forget(doubt);
    }

    fn forget(&self, doubt: &Doubt) {
        self.lock().remove(doubt.name());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Doubt>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap()
    }

    fn claim(labels: &[(&str, &str)]) -> NodeClaim {
        let mut claim = NodeClaim::default();
        claim.metadata.name = Some("default-bbbbb".to_owned());
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        claim.metadata.labels = Some(labels.collect());
        claim
    }

    fn new_claim() -> NewClaim {
        NewClaim {
            pool: "default".to_owned(),
            pods: Vec::new(),
            requirements: crate::scheduling::Requirements::default(),
            requests: crate::resources::ResourceList::default(),
            instance_types: std::sync::Arc::default(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        }
    }

    fn doubt() -> Doubt {
        Doubt {
            object: claim(&[("karpenter.sh/nodepool", "default")]),
            claim: new_claim(),
            sent: at(0),
        }
    }

    #[test]
    fn a_claim_that_is_there_is_taken_over_also_when_it_has_got_more_labels_meanwhile() {
        let launched = claim(&[
            ("karpenter.sh/nodepool", "default"),
            ("node.kubernetes.io/instance-type", "a"),
        ]);
        assert_eq!(
            verdict(&doubt(), Some(&launched), Demand::Wanted, at(1)),
            Verdict::Adopt
        );
        let foreign = claim(&[("karpenter.sh/nodepool", "other")]);
        assert_eq!(
            verdict(&doubt(), Some(&foreign), Demand::Wanted, at(1)),
            Verdict::Forget
        );
    }

    #[test]
    fn a_claim_that_is_not_there_is_sent_again_under_its_name_until_it_can_no_longer_come() {
        assert_eq!(verdict(&doubt(), None, Demand::Wanted, at(59)), Verdict::SendAgain);
        assert_eq!(verdict(&doubt(), None, Demand::Over, at(59)), Verdict::Wait);
        for demand in [Demand::Wanted, Demand::Over] {
            assert_eq!(verdict(&doubt(), None, demand, at(60)), Verdict::Forget);
        }
    }

    #[test]
    fn while_too_many_creates_are_in_doubt_none_is_begun() {
        let doubts = Doubts::default();
        for number in 0..MOST {
            assert!(doubts.admit().is_ok());
            let mut object = claim(&[]);
            object.metadata.name = Some(number.to_string());
            doubts.add(object, &new_claim(), at(0));
        }
        assert!(doubts.admit().is_err());
        assert_eq!(doubts.held().claims.len(), MOST);
    }
}
