//! Forgets machines that are over and that nobody says so of: those that went with a claim which lost its finalizer, and those that were collected.
//!
//! Everything else is forgotten when the claim's end is complete. Called with each complete view of the collector.

use super::Orders;
use crate::cloud::spot::types::PoolKind;
use crate::cloud::spot::view::View;
use std::time::Duration;
use tokio::time::Instant;

/// For so long after it was last asked for, a pool that no list shows may still come.
const MAY_COME: Duration = Duration::from_hours(1);

impl Orders {
    /// Forgets what a complete view does not show and what was not asked for lately.
    pub fn tidy(&mut self, view: &View) {
        if !view.is_complete() {
            return;
        }
        let is_there = |uid: &str| {
            let mut kinds = PoolKind::ALL.into_iter();
            kinds.any(|kind| view.pools.contains_key(&(kind, uid.to_owned())))
        };
        let stays = |uid: &str, asked: Instant| view.began.saturating_duration_since(asked) < MAY_COME || is_there(uid);
        self.by_claim.retain(|uid, order| stays(uid, order.sent));
        self.unclear
            .retain(|uid, kinds| kinds.values().any(|sent| stays(uid, *sent)));
        self.made_here.retain(|uid, at| stays(uid, *at));
        self.deletions.retain(|(_, uid), asked| stays(uid, *asked));
        self.healed.retain(|uid, at| stays(uid, *at));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pool;
    use super::*;
    use crate::cloud::spot::types::Pool;
    use std::collections::BTreeSet;

    fn view(began: Instant, pools: &[&str]) -> View {
        let pool = |uid: &&str| {
            let pool = Pool {
                name: (*uid).into(),
                ..pool(PoolKind::Spot)
            };
            ((pool.kind, pool.name.clone()), pool)
        };
        View {
            began,
            cloudspace: None,
            pools: pools.iter().map(pool).collect(),
            complete: PoolKind::ALL.into_iter().collect::<BTreeSet<_>>(),
        }
    }

    #[test]
    fn a_machine_that_was_collected_leaves_nothing_behind_and_one_that_is_there_or_may_come_stays() {
        let start = Instant::now();
        let late = start + MAY_COME;
        let mut orders = Orders::default();
        for uid in ["gone", "there"] {
            orders.accepted(uid, PoolKind::Spot, "c", start);
            orders.deleting(PoolKind::Spot, uid, start);
            orders.may_heal(uid, start);
            orders.sending(uid, PoolKind::OnDemand, "c", start);
            orders.sending(uid, PoolKind::OnDemand, "c", start);
            orders.made_here(uid, start);
        }
        orders.sending("new", PoolKind::Spot, "c", late);
        let mut partial = view(late, &[]);
        partial.complete.remove(&PoolKind::OnDemand);
        orders.tidy(&partial);
        assert_eq!(orders.by_claim.len(), 3, "what is not listed may be there");
        orders.tidy(&view(late, &["there"]));
        assert_eq!(orders.by_claim.keys().collect::<Vec<_>>(), ["new", "there"]);
        assert_eq!((orders.deletions.len(), orders.healed.len()), (1, 1));
        assert_eq!((orders.unclear.len(), orders.made_here.len()), (1, 1));
    }
}
