//! What one look of a method finds: candidates that pass its filter, and whether waiting alone may change the answer.
//!
//! Built for the choice and again for its validation.

use super::commands::Commands;
use super::events;
use crate::cluster::Snapshot;
use crate::cluster::entries::PoolEntry;
use crate::controllers::Kit;
use crate::controllers::node::events::protection;
use crate::disruption::allowance::Allowances;
use crate::disruption::candidate::{Candidate, Look};
use crate::disruption::method::{Fit, Method};
use crate::disruption::pdb::Guards;
use crate::k8s::queue::ReconcileError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a method finds now.
pub(super) struct View {
    /// Candidates that pass the method's filter.
    pub(super) candidates: Vec<Candidate>,
    /// What budgets allow for the method's reason.
    pub(super) allowances: Allowances,
    /// Whether some refusals end by time alone.
    pub(super) passing: bool,
    /// The revision that was looked at.
    pub(super) revision: u64,
}

/// Looks at the cluster as it is now.
pub(super) async fn look(kit: &Kit, commands: &Commands, method: Method) -> Result<View, ReconcileError> {
    let snapshot = kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
    let pools = pools(kit, &snapshot).await;
    let (now, busy) = (kit.now(), commands.busy());
    let look = Look {
        snapshot: &snapshot,
        guards: Guards::of(&snapshot),
        pools: &pools,
        busy: &busy,
        now,
    };
    let (mut candidates, refused) = look.candidates(method.class());
    let pods = snapshot.machines.values().filter(|machine| machine.is_managed());
    for event in pods
        .flat_map(|machine| machine.pods.iter())
        .filter_map(|pod| protection(pod, now))
    {
        kit.recorder.publish(event);
    }
    let kinds = kit.provider.node_class_kinds();
    let ours = refused.iter().filter(|refusal| {
        let claim = refusal.machine.claim.as_ref();
        claim.is_none_or(|claim| claim.is_managed(kinds))
    });
    for refusal in ours {
        if let Some(message) = refusal.why.message() {
            events::blocked(&kit.recorder, &refusal.machine, &message);
        }
    }
    candidates.retain(|candidate| match method.fit(candidate) {
        Fit::Eligible => true,
        Fit::No => false,
        Fit::Unconsolidatable(why) => {
            events::unconsolidatable(&kit.recorder, &candidate.machine, &why);
            false
        }
    });
    Ok(View {
        candidates,
        allowances: Allowances::count(&snapshot, kinds, &method.reason(), now),
        passing: refused.iter().any(|refusal| refusal.why.passes_with_time()),
        revision: snapshot.revision,
    })
}

/// The pools of ours whose instance types are known; without them nothing of a pool is touched (disruption 2.1).
async fn pools(kit: &Kit, snapshot: &Snapshot) -> BTreeMap<String, Arc<PoolEntry>> {
    let mut known = BTreeMap::new();
    let kinds = kit.provider.node_class_kinds();
    for pool in snapshot.objects.pools.values().filter(|pool| pool.is_managed(kinds)) {
        match kit.provider.instance_types(&pool.facts).await {
            Ok(types) if !types.is_empty() => {
                known.insert(pool.name().to_owned(), Arc::clone(pool));
            }
            Ok(_) => {}
            Err(error) => {
                tracing::error!(nodepool = pool.name(), %error, "failed listing instance types");
            }
        }
    }
    known
}
