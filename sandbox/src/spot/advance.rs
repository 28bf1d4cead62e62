//! Time passes: auctions, builds, notices, ends. Everything happens at its own instant, whatever the steps in which the caller advances.

use super::auction::{Demand, allocate};
use super::chance::{dice, happens};
use super::money::{Amount, Price};
use super::platform::Platform;
use super::pool::{PoolKey, PoolKind};
use super::server::{Ending, Phase, Server};
use chrono::{DateTime, TimeDelta, Utc};
use rand::Rng;
use std::collections::BTreeSet;

/// Seconds in a week, for random moves.
const WEEK: f64 = 604_800.0;
/// Prices a history keeps.
const KEPT_HISTORY: usize = 1000;

/// Whether something else than an auction is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deadline {
    Reached,
    Ahead,
}

impl Platform {
    /// Lets everything happen up to and including `now`. Going back in time does nothing.
    pub fn advance(&mut self, now: DateTime<Utc>) {
        loop {
            let other = self.next_deadline();
            self.skip_idle_auctions(other.map_or(now, |at| at.min(now)));
            let Some(next) = self.next_event().filter(|next| *next <= now) else {
                break;
            };
            self.bill_until(next);
            let reached = other.is_some_and(|at| at <= next);
            self.happen(if reached { Deadline::Reached } else { Deadline::Ahead });
        }
        self.bill_until(now);
        self.forget_ghosts();
    }

    /// The next instant at which something happens by itself. Auctions that can only repeat the last one are not among them.
    pub fn next_event(&self) -> Option<DateTime<Utc>> {
        let auction = (!self.auctions_are_idle()).then_some(self.next_auction);
        self.next_deadline().into_iter().chain(auction).min()
    }

    /// The next instant at which something else than an auction happens.
    fn next_deadline(&self) -> Option<DateTime<Utc>> {
        let now = self.now;
        let servers = self.servers.values().flat_map(Server::deadlines).filter(|at| *at > now);
        let pools = self
            .pools
            .values()
            .filter(|pool| pool.status.is_none())
            .map(|pool| pool.noticed);
        let prices = self.price_script.iter().map(|(at, _, _)| *at);
        let calls = self
            .deliveries
            .iter()
            .filter(|d| d.outcome.is_none() && !d.sending && d.due > now)
            .map(|d| d.due);
        servers
            .chain(pools.filter(|at| *at > now))
            .chain(prices)
            .chain(calls)
            .min()
    }

    /// Whether an auction would end as the last one did: nothing has moved since, and prices do not move by chance.
    fn auctions_are_idle(&self) -> bool {
        self.auctioned_at == Some(self.revision) && self.options.market.moves_per_week <= 0.0
    }

    /// Counts the auctions up to an instant that would change nothing, without holding them: an idle day has 8,640 of them.
    fn skip_idle_auctions(&mut self, until: DateTime<Utc>) {
        if !self.auctions_are_idle() || self.next_auction > until {
            return;
        }
        let period = self.auction_period().num_milliseconds().max(1);
        let skipped = (until - self.next_auction).num_milliseconds() / period;
        let passed = TimeDelta::milliseconds(skipped.saturating_mul(period));
        self.last_auction = self.next_auction.checked_add_signed(passed).unwrap_or(until);
        self.next_auction = self
            .last_auction
            .checked_add_signed(TimeDelta::milliseconds(period))
            .unwrap_or(DateTime::<Utc>::MAX_UTC);
        self.auctions += u64::try_from(skipped).unwrap_or_default() + 1;
    }

    /// Between two auctions; a period of nothing would never let time pass.
    fn auction_period(&self) -> TimeDelta {
        let wished = self.options.at_speed(super::chance::delta(self.options.delays.auction));
        wished.max(TimeDelta::milliseconds(1))
    }

    /// Charges every running VM up to an instant and makes it the present.
    fn bill_until(&mut self, until: DateTime<Utc>) {
        if until <= self.now {
            return;
        }
        let speed = i64::from(self.options.speed.max(1));
        let passed = (until - self.now).num_milliseconds().saturating_mul(speed);
        for server in self.servers.values().filter(|server| server.phase == Phase::Active) {
            let price = match server.pool.kind {
                PoolKind::Spot => self
                    .markets
                    .get(&server.class)
                    .map(super::platform::ClassMarket::billed),
                PoolKind::OnDemand => self.classes.get(&server.class).map(|class| class.on_demand),
            };
            self.ledger
                .charge(&server.pool, Amount::of(price.unwrap_or_default(), passed));
        }
        self.now = until;
    }

    fn happen(&mut self, deadline: Deadline) {
        if deadline == Deadline::Reached {
            self.revision += 1;
            self.move_scripted_prices();
        }
        self.notice_new_pools();
        if self.next_auction <= self.now {
            self.run_auctions();
        }
        self.move_servers();
        self.finish_deletions();
    }

    fn move_scripted_prices(&mut self) {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.price_script)
            .into_iter()
            .partition(|(at, _, _)| *at <= now);
        self.price_script = later;
        for (_, class, price) in due {
            self.set_market(&class, price);
        }
    }

    fn notice_new_pools(&mut self) {
        if self.options.quirks.status_frozen {
            return;
        }
        let now = self.now;
        let new: Vec<PoolKey> = self
            .pools
            .values()
            .filter(|pool| pool.status.is_none() && pool.noticed <= now)
            .map(super::pool::Pool::key)
            .collect();
        for key in new {
            self.set_status(&key, "Pending", None);
        }
    }

    pub(super) fn set_status(&mut self, key: &PoolKey, status: &'static str, won: Option<u32>) {
        let version = self.version + 1;
        let Some(pool) = self.pools.get_mut(key) else { return };
        let won = won.or(pool.won);
        if pool.status != Some(status) || pool.won != won {
            pool.status = Some(status);
            pool.won = won;
            pool.meta.version = version;
            self.version = version;
            self.revision += 1;
        }
    }

    fn run_auctions(&mut self) {
        self.auctions += 1;
        self.last_auction = self.now;
        self.next_auction = self
            .now
            .checked_add_signed(self.auction_period())
            .unwrap_or(DateTime::<Utc>::MAX_UTC);
        self.move_random_prices();
        self.auctioned_at = Some(self.revision);
        if self.options.quirks.status_frozen {
            return;
        }
        let classes: BTreeSet<String> = self
            .pools
            .values()
            .filter(|pool| pool.status.is_some())
            .map(|pool| pool.spec.server_class.clone())
            .collect();
        for class in classes {
            self.auction(&class);
        }
    }

    fn move_random_prices(&mut self) {
        let chance = self.options.market.moves_per_week * self.options.delays.auction / WEEK;
        if chance <= 0.0 {
            return;
        }
        let mut dice = dice(self.options.seed, "market", &self.auctions.to_string());
        if !happens(chance, &mut dice) {
            return;
        }
        let names: Vec<&String> = self
            .markets
            .iter()
            .filter(|(_, m)| m.price.is_some())
            .map(|(name, _)| name)
            .collect();
        let Some(name) = names
            .get(dice.random_range(0..names.len().max(1)))
            .map(|name| (*name).clone())
        else {
            return;
        };
        // The steps that eleven weeks of the feed show: a cent or so up or down, seldom a jump.
        let steps = [-10, -5, -1, 1, 5, 10, 10, 50];
        let step = steps
            .get(dice.random_range(0..steps.len()))
            .copied()
            .unwrap_or_default();
        let old = self
            .markets
            .get(&name)
            .and_then(|market| market.price)
            .unwrap_or_default();
        self.set_market(&name, Price::micros((old.as_micros() + step * 1000).max(1000)));
    }

    /// Sets a market price; the next auction acts on it.
    pub fn set_market(&mut self, class: &str, price: Price) {
        let at = self.now.timestamp();
        if let Some(market) = self.markets.get_mut(class) {
            market.price = Some(price);
            if market.history.len() >= KEPT_HISTORY {
                market.history.pop_front();
            }
            market.history.push_back((at, price));
        }
        self.revision += 1;
    }

    fn auction(&mut self, class: &str) {
        let Some(market) = self.markets.get(class) else { return };
        let (stock, price) = (market.stock, market.price.unwrap_or_default());
        let demands = self
            .pools
            .values()
            .filter(|pool| pool.spec.server_class == class && pool.status.is_some() && pool.meta.deleting.is_none())
            .filter(|pool| self.options.quirks.wins_again || !self.has_lost(pool.has_won, &pool.key()))
            .map(|pool| Demand {
                pool: pool.key(),
                bid: (pool.kind == PoolKind::Spot).then(|| pool.spec.bid().unwrap_or_default()),
                desired: pool.spec.wanted(),
                since: pool.meta.created,
            })
            .collect();
        let results = allocate(stock, price, demands);
        // Losers first, so that what they hold is counted as leaving before winners are weighed against the account's limit.
        for (pool, won) in &results {
            if self.count(|server| server.pool == *pool && server.counts()) > *won {
                self.settle(pool, *won);
            }
        }
        for (pool, won) in &results {
            self.settle(pool, *won);
        }
        self.start_builds(class);
    }

    fn has_lost(&self, has_won: bool, pool: &PoolKey) -> bool {
        has_won
            && !self
                .servers
                .values()
                .any(|server| server.pool == *pool && server.counts())
    }

    /// Makes a pool's servers as many as it has won.
    fn settle(&mut self, key: &PoolKey, won: u32) {
        let Some(pool) = self.pools.get(key) else { return };
        let (wanted, had_won) = (pool.spec.wanted(), pool.has_won);
        let held = self.count(|server| server.pool == *key && server.counts());
        if held > wanted {
            self.end_youngest(key, held - wanted, Ending::Released);
        }
        let held = held.min(wanted);
        if held > won {
            self.end_youngest(key, held - won, Ending::Preempted);
        }
        let mut granted = won;
        let mut bumped = false;
        if let Some(limit) = self.options.quirks.speed_bump.filter(|_| won > held) {
            let room = limit.saturating_sub(self.count(Server::counts));
            granted = won.min(held + room);
            bumped = granted < won;
        }
        for _ in held..granted {
            self.win(key);
        }
        let status = match (granted, bumped) {
            (_, true) => "SpeedBump Hit",
            (granted, _) if granted == wanted => "Fulfilled",
            (0, _) if had_won => "Lost",
            (0, _) => "Pending",
            _ => "Partial",
        };
        self.set_status(key, status, Some(granted));
    }

    fn count(&self, which: impl Fn(&Server) -> bool) -> u32 {
        u32::try_from(self.servers.values().filter(|server| which(server)).count()).unwrap_or(u32::MAX)
    }

    fn win(&mut self, key: &PoolKey) {
        let Some(pool) = self.pools.get_mut(key) else { return };
        pool.built += 1;
        pool.has_won = true;
        self.won += 1;
        let server = Server::won(
            &self.options,
            key,
            &pool.spec.cloud_space,
            &pool.spec.server_class,
            pool.built,
            self.now,
        );
        self.servers.insert(server.uuid.clone(), server);
        self.revision += 1;
    }

    /// Ends the youngest servers of a pool (row 11; rackspace-spot 5.7: the platform chooses the victim).
    fn end_youngest(&mut self, key: &PoolKey, count: u32, ending: Ending) {
        let mut victims: Vec<(DateTime<Utc>, String)> = self
            .servers
            .values()
            .filter(|server| server.pool == *key && server.counts())
            .map(|server| (server.won_at, server.uuid.clone()))
            .collect();
        victims.sort();
        for (_, uuid) in victims
            .into_iter()
            .rev()
            .take(usize::try_from(count).unwrap_or(usize::MAX))
        {
            self.end_server(&uuid, ending);
        }
    }

    /// Announces the end of a server (rackspace-spot 5.6; rows 17, 18, 21).
    pub(super) fn end_server(&mut self, uuid: &str, ending: Ending) {
        let quirks = &self.options.quirks;
        let (delay, announced) = match ending {
            Ending::Preempted if quirks.preemption_notice => (self.options.delays.notice, true),
            Ending::Preempted => (0.0, true),
            Ending::Released => (self.options.delays.release, quirks.webhook_on_release),
            Ending::Failed => (0.0, false),
        };
        let (now, dies_at) = (self.now, self.in_(delay));
        let Some(server) = self.servers.get_mut(uuid).filter(|server| server.phase != Phase::Dead) else {
            return;
        };
        // An end that was announced before is not put off by a later one.
        server.dies_at = Some(server.dies_at.map_or(dies_at, |earlier| earlier.min(dies_at)));
        server.flagged_at.get_or_insert(now);
        server.ending = Some(ending);
        if server.phase == Phase::Queued {
            server.dies_at = Some(now);
        }
        let server = server.clone();
        // Servers that were never attached are nothing a receiver could know.
        if announced && server.phase == Phase::Active {
            self.notify(&server);
        }
        self.revision += 1;
        self.move_servers();
    }

    /// Starts as many builds as there are free machines.
    fn start_builds(&mut self, class: &str) {
        let stock = self.markets.get(class).map_or(0, |market| market.stock);
        let mut used = self.count(|server| server.class == class && server.holds_a_machine());
        let mut queued: Vec<(DateTime<Utc>, String)> = self
            .servers
            .values()
            .filter(|server| server.class == class && server.phase == Phase::Queued && server.dies_at.is_none())
            .map(|server| (server.won_at, server.uuid.clone()))
            .collect();
        queued.sort();
        for (_, uuid) in queued {
            if used >= stock {
                break;
            }
            if let Some(server) = self.servers.get_mut(&uuid) {
                server.start_building(&self.options, self.now);
                self.machine_moves += 1;
                used += 1;
            }
        }
    }

    pub(super) fn move_servers(&mut self) {
        let now = self.now;
        let mut freed: BTreeSet<String> = BTreeSet::new();
        for server in self.servers.values_mut() {
            if server.phase == Phase::Building && server.active_at.is_some_and(|at| at <= now) {
                server.phase = Phase::Active;
                self.machine_moves += 1;
            }
            if server.phase != Phase::Dead && server.dies_at.is_some_and(|at| at <= now) {
                server.phase = Phase::Dead;
                let mut dice = dice(self.options.seed, "node-deletion", &server.uuid);
                // Row 19: follows the Kubernetes heartbeats, so the speed does not touch it.
                let delay = self
                    .options
                    .delays
                    .node_deletion
                    .draw(&mut dice)
                    .unwrap_or_else(TimeDelta::zero);
                server.node_deleted_at = now.checked_add_signed(delay);
                freed.insert(server.class.clone());
                self.revision += 1;
            }
        }
        // A dead server is remembered an hour past the deletion of its Node, so that machines that were stopped meanwhile still learn of it.
        // One whose Node lingers is remembered for ever: the Node of an unknown server would be taken for a stray.
        let lingers = self.options.quirks.node_lingers;
        let known = self.servers.len();
        self.servers.retain(|_, server| {
            lingers
                || server.phase != Phase::Dead
                || server.node_deleted_at.is_none_or(|at| now - at < TimeDelta::hours(1))
        });
        if self.servers.len() < known {
            self.machine_moves += 1;
        }
        for class in freed {
            self.start_builds(&class);
        }
    }

    /// Rows 20 and 21: pools that are being deleted go when their servers are gone.
    pub(super) fn finish_deletions(&mut self) {
        let gone: Vec<PoolKey> = self
            .pools
            .values()
            .filter(|pool| pool.meta.deleting.is_some())
            .map(super::pool::Pool::key)
            .filter(|key| {
                !self
                    .servers
                    .values()
                    .any(|server| server.pool == *key && server.phase != Phase::Dead)
            })
            .collect();
        for key in gone {
            if let Some(pool) = self.pools.remove(&key) {
                self.ghosts.push((self.now, pool));
                self.next_version();
            }
        }
    }

    /// Late lists show deleted pools only for so long.
    fn forget_ghosts(&mut self) {
        let lag = super::chance::delta(self.options.quirks.list_lag);
        self.ghosts.retain(|(since, _)| self.now - *since < lag);
    }
}
