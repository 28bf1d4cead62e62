//! The auction of one class: who gets how many of what there is (rackspace-spot 1, §7 rows 11 and 31).
//!
//! Reservations come first and are never taken back. Then bids from the highest down; at equal bids the older pool first, so that the youngest loses first. A
//! bid below the market price gets nothing; one that equals it keeps what it can get.

use super::money::Price;
use super::pool::PoolKey;
use chrono::{DateTime, Utc};

/// What one pool asks of the auction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// Pool.
    pub pool: PoolKey,
    /// The most it pays; absent for reservations.
    pub bid: Option<Price>,
    /// Servers it wants.
    pub desired: u32,
    /// Age.
    pub since: DateTime<Utc>,
}

/// Hands out `stock` servers; the order of the answer is the order of precedence.
pub fn allocate(stock: u32, market: Price, mut demands: Vec<Demand>) -> Vec<(PoolKey, u32)> {
    demands.sort_by(|a, b| {
        let reserved_first = a.bid.is_some().cmp(&b.bid.is_some());
        reserved_first
            .then_with(|| b.bid.cmp(&a.bid))
            .then_with(|| a.since.cmp(&b.since))
            .then_with(|| a.pool.cmp(&b.pool))
    });
    let mut left = stock;
    demands
        .into_iter()
        .map(|demand| {
            let affordable = demand.bid.is_none_or(|bid| bid >= market);
            let won = if affordable { demand.desired.min(left) } else { 0 };
            left -= won;
            (demand.pool, won)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spot::pool::PoolKind;

    fn demand(name: &str, bid: Option<i64>, desired: u32, age: i64) -> Demand {
        Demand {
            pool: PoolKey {
                kind: if bid.is_some() {
                    PoolKind::Spot
                } else {
                    PoolKind::OnDemand
                },
                name: name.into(),
            },
            bid: bid.map(Price::mills),
            desired,
            since: DateTime::from_timestamp(1_800_000_000 - age, 0).unwrap(),
        }
    }

    fn won(stock: u32, market: i64, demands: Vec<Demand>) -> Vec<(String, u32)> {
        allocate(stock, Price::mills(market), demands)
            .into_iter()
            .map(|(pool, won)| (pool.name, won))
            .collect()
    }

    #[test]
    fn reservations_come_first_then_the_highest_bids() {
        let demands = vec![
            demand("low", Some(10), 2, 9),
            demand("high", Some(20), 2, 1),
            demand("reserved", None, 1, 0),
        ];
        assert_eq!(
            won(4, 5, demands),
            [("reserved".into(), 1), ("high".into(), 2), ("low".into(), 1)]
        );
    }

    #[test]
    fn a_bid_that_equals_the_market_price_is_kept_unless_stock_is_short_and_then_the_youngest_loses() {
        // row 11
        let demands = || vec![demand("old", Some(10), 1, 100), demand("young", Some(10), 1, 1)];
        assert_eq!(won(2, 10, demands()), [("old".into(), 1), ("young".into(), 1)]);
        assert_eq!(won(1, 10, demands()), [("old".into(), 1), ("young".into(), 0)]);
        assert_eq!(won(2, 11, demands()), [("old".into(), 0), ("young".into(), 0)]);
    }
}
