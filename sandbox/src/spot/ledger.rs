//! What was bid, what was asked, what it cost: the record that tests and the demonstration read.

use super::money::{Amount, Price};
use super::pool::PoolKey;
use super::token::Bearer;
use chrono::{DateTime, Utc};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Requests that are kept; older ones are dropped.
const KEPT_REQUESTS: usize = 100_000;

/// A bid as it came over the wire.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BidRecord {
    /// When.
    pub at: DateTime<Utc>,
    /// Pool.
    pub pool: String,
    /// Server class.
    pub class: String,
    /// The bid as sent.
    pub bid: String,
    /// Market price at that moment.
    pub market: Option<Price>,
    /// The class's smallest bid.
    pub floor: Option<Price>,
    /// 20th, 50th and 80th percentile as the feed gives them.
    pub percentiles: Option<[f64; 3]>,
    /// Absent when accepted, else the words of the refusal.
    pub refused: Option<String>,
}

/// A request that came in, and what it got.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestRecord {
    /// When.
    pub at: DateTime<Utc>,
    /// Method.
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Body; the token exchange's is left out.
    pub body: String,
    /// What the bearer was worth.
    pub bearer: Bearer,
    /// The code that was answered.
    pub code: u16,
    /// The fault that was played, if any.
    pub fault: Option<&'static str>,
}

/// Money, bids and requests.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ledger {
    costs: BTreeMap<PoolKey, Amount>,
    /// What those pools had cost whose accounts were closed.
    closed: Amount,
    bids: Vec<BidRecord>,
    requests: VecDeque<RequestRecord>,
    asked: u64,
}

impl Ledger {
    /// Charges a pool.
    pub fn charge(&mut self, pool: &PoolKey, amount: Amount) {
        if let Some(cost) = self.costs.get_mut(pool) {
            *cost = cost.plus(amount);
        } else {
            self.costs.insert(pool.clone(), amount);
        }
    }

    /// What pools of this name have cost so far.
    pub fn cost_of(&self, pool: &str) -> Amount {
        self.costs
            .iter()
            .filter(|(key, _)| key.name == pool)
            .fold(Amount::default(), |sum, (_, cost)| sum.plus(*cost))
    }

    /// What everything has cost so far.
    pub fn total(&self) -> Amount {
        self.costs.values().fold(self.closed, |sum, cost| sum.plus(*cost))
    }

    /// Every pool's cost.
    pub fn costs(&self) -> &BTreeMap<PoolKey, Amount> {
        &self.costs
    }

    /// Writes down a bid.
    pub fn record_bid(&mut self, bid: BidRecord) {
        self.bids.push(bid);
    }

    /// Every bid so far, refused ones too.
    pub fn bids(&self) -> &[BidRecord] {
        &self.bids
    }

    /// Writes down a request.
    pub fn record_request(&mut self, request: RequestRecord) {
        if self.requests.len() >= KEPT_REQUESTS {
            self.requests.pop_front();
        }
        self.asked += 1;
        self.requests.push_back(request);
    }

    /// The requests that are kept, oldest first.
    pub fn requests(&self) -> impl DoubleEndedIterator<Item = &RequestRecord> {
        self.requests.iter()
    }

    /// How many requests there were.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// Forgets the requests, not their number.
    pub fn forget_requests(&mut self) {
        self.requests.clear();
    }

    /// Keeps only sums of what is past: for worlds that live for months. `lives` says whether a pool still is.
    pub fn close(&mut self, lives: impl Fn(&PoolKey) -> bool) {
        self.forget_requests();
        self.bids.clear();
        let closed = &mut self.closed;
        self.costs.retain(|pool, cost| {
            let keep = lives(pool);
            if !keep {
                *closed = closed.plus(*cost);
            }
            keep
        });
    }
}
