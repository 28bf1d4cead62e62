//! The platform as one value: what it holds and how it is looked at. Time moves it in `advance`, calls are answered in `calls`, tests steer it in `control`.

use super::answer::Call;
use super::catalogue::{self, Class};
use super::chance::delta;
use super::ledger::Ledger;
use super::money::{Amount, Price};
use super::options::{CloudspaceSeed, Options};
use super::pool::{Pool, PoolKey};
use super::server::{MachineOrder, Phase, Server};
use super::token::TokenDesk;
use super::webhook::Delivery;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Price, percentiles and history of a class.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassMarket {
    /// Market price; absent for classes missing from the feed.
    pub price: Option<Price>,
    /// Percentiles of the feed.
    pub percentiles: Option<[f64; 3]>,
    /// Smallest bid.
    pub floor: Option<Price>,
    /// Machines there are.
    pub stock: u32,
    /// Past prices, oldest first: Unix seconds and price.
    pub history: VecDeque<(i64, Price)>,
}

impl ClassMarket {
    /// What is billed: never below the floor (rackspace-spot 1).
    pub fn billed(&self) -> Price {
        self.price.unwrap_or_default().max(self.floor.unwrap_or_default())
    }
}

/// A cloudspace as the platform keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Cloudspace {
    /// What it started as; the webhook and the version may change.
    pub seed: CloudspaceSeed,
    /// UID.
    pub uid: String,
    /// resourceVersion of the spec.
    pub version: u64,
    /// generation.
    pub generation: i64,
    /// creationTimestamp.
    pub created: DateTime<Utc>,
    /// Being deleted since.
    pub deleting: Option<DateTime<Utc>>,
}

/// A fault that a test orders.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderedFault {
    /// Method it is for; absent means any.
    pub method: Option<String>,
    /// Part of the path it is for.
    pub path: String,
    /// How often it is played.
    pub times: u32,
    /// What happens.
    pub fault: super::faults::Fault,
}

/// The simulated platform.
#[derive(Debug, Clone, PartialEq)]
pub struct Platform {
    pub(super) options: Options,
    pub(super) classes: BTreeMap<String, Class>,
    pub(super) markets: BTreeMap<String, ClassMarket>,
    pub(super) cloudspaces: BTreeMap<String, Cloudspace>,
    pub(super) pools: BTreeMap<PoolKey, Pool>,
    /// Pools that are gone but still shown by late lists, with the instant they went.
    pub(super) ghosts: Vec<(DateTime<Utc>, Pool)>,
    pub(super) servers: BTreeMap<String, Server>,
    pub(super) tokens: TokenDesk,
    pub(super) ledger: Ledger,
    pub(super) deliveries: Vec<Delivery>,
    pub(super) ordered_faults: Vec<OrderedFault>,
    pub(super) price_script: Vec<(DateTime<Utc>, String, Price)>,
    pub(super) started: DateTime<Utc>,
    pub(super) now: DateTime<Utc>,
    pub(super) last_auction: DateTime<Utc>,
    pub(super) next_auction: DateTime<Utc>,
    pub(super) auctions: u64,
    pub(super) won: u64,
    /// The revision that the last auction looked at.
    pub(super) auctioned_at: Option<u64>,
    pub(super) version: u64,
    pub(super) rate_window: (i64, u32),
    /// Moves when something changed that machines or watchers care about.
    pub(super) revision: u64,
    /// Changes of servers that concern nobody but their machines; the revision counts the others.
    pub(super) machine_moves: u64,
    /// Pools whose custom labels were wiped.
    pub(super) wiped: BTreeSet<String>,
}

impl Platform {
    /// A platform that starts at an instant.
    pub fn new(options: Options, now: DateTime<Utc>) -> Self {
        let mut classes = catalogue::classes();
        let regions = &options.market.regions;
        classes.retain(|_, class| regions.is_empty() || regions.contains(&class.region));
        let markets = classes
            .iter()
            .map(|(name, class)| (name.clone(), market(&options, class)))
            .collect();
        let price_script = options
            .market
            .script
            .iter()
            .filter_map(|step| {
                let at = now.checked_add_signed(options.at_speed(delta(step.after)))?;
                Some((at, step.class.clone(), step.price))
            })
            .collect();
        let mut platform = Self {
            classes,
            markets,
            price_script,
            cloudspaces: BTreeMap::new(),
            pools: BTreeMap::new(),
            ghosts: Vec::new(),
            servers: BTreeMap::new(),
            tokens: TokenDesk::default(),
            ledger: Ledger::default(),
            deliveries: Vec::new(),
            ordered_faults: Vec::new(),
            started: now,
            now,
            last_auction: now,
            next_auction: now,
            auctions: 0,
            won: 0,
            auctioned_at: None,
            version: 1000,
            rate_window: (0, 0),
            revision: 0,
            machine_moves: 0,
            wiped: BTreeSet::new(),
            options,
        };
        platform.next_auction = platform.in_(platform.options.delays.auction);
        for seed in platform.options.account.cloudspaces.clone() {
            platform.add_cloudspace(seed);
        }
        platform
    }

    fn add_cloudspace(&mut self, seed: CloudspaceSeed) {
        let uid = super::chance::uuid(&mut super::chance::dice(self.options.seed, "cloudspace", &seed.name));
        let version = self.next_version();
        let cloudspace = Cloudspace {
            uid,
            version,
            generation: 1,
            created: self.now,
            deleting: None,
            seed,
        };
        self.cloudspaces.insert(cloudspace.seed.name.clone(), cloudspace);
    }

    /// The instant so many platform seconds from now.
    pub(super) fn in_(&self, seconds: f64) -> DateTime<Utc> {
        self.now
            .checked_add_signed(self.options.at_speed(delta(seconds)))
            .unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    pub(super) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.revision += 1;
        self.version
    }

    /// What can be set.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Changes what can be set; prices and stock of running classes are changed by `set_market` and `set_stock`.
    pub fn options_mut(&mut self) -> &mut Options {
        self.revision += 1;
        &mut self.options
    }

    /// A number that moves with every change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The instant the platform has been advanced to.
    pub fn now(&self) -> DateTime<Utc> {
        self.now
    }

    /// How many auctions there were.
    pub fn auctions(&self) -> u64 {
        self.auctions
    }

    /// How many servers were won so far.
    pub fn won(&self) -> u64 {
        self.won
    }

    /// Every class.
    pub fn classes(&self) -> &BTreeMap<String, Class> {
        &self.classes
    }

    /// Market of a class.
    pub fn market_of(&self, class: &str) -> Option<&ClassMarket> {
        self.markets.get(class)
    }

    /// Every pool, those being deleted too.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.pools.values()
    }

    /// A pool by name, of either kind.
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools.values().find(|pool| pool.meta.name == name)
    }

    /// Every server the platform remembers, dead ones too.
    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        self.servers.values()
    }

    /// The servers of a pool that are not dead.
    pub fn servers_of(&self, pool: &str) -> Vec<&Server> {
        self.servers
            .values()
            .filter(|server| server.pool.name == pool && server.phase != Phase::Dead)
            .collect()
    }

    /// Money, bids and requests.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Money, bids and requests, to be emptied.
    pub fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Keeps only sums of requests, bids and pools that are past.
    pub fn close_ledger(&mut self) {
        let pools = &self.pools;
        self.ledger.close(|pool| pools.contains_key(pool));
    }

    /// What a pool has cost up to the instant the platform was advanced to.
    pub fn cost_of(&self, pool: &str) -> Amount {
        self.ledger.cost_of(pool)
    }

    /// The token desk.
    pub fn tokens(&self) -> &TokenDesk {
        &self.tokens
    }

    /// A cloudspace by name.
    pub fn cloudspace(&self, name: &str) -> Option<&Cloudspace> {
        self.cloudspaces.get(name)
    }

    /// An `Authorization` header that is good now, for tests that do not care for the exchange.
    pub fn authorization(&mut self) -> String {
        let (options, now) = (self.options.clone(), self.now);
        format!("Bearer {}", self.tokens.give(&options, now))
    }

    /// Names of the pools whose custom labels the platform has ever wiped.
    pub fn wiped(&self) -> &BTreeSet<String> {
        &self.wiped
    }

    /// Moves whenever [`machine_orders`](Self::machine_orders) may be others than before.
    pub fn machine_revision(&self) -> (u64, u64) {
        (self.revision, self.machine_moves)
    }

    /// What the machines need to know of the servers that have, had or will have a Node in a cloudspace.
    pub fn machine_orders(&self) -> Vec<MachineOrder> {
        self.servers
            .values()
            .filter_map(|server| self.machine_order(server))
            .collect()
    }

    fn machine_order(&self, server: &Server) -> Option<MachineOrder> {
        server.joins_at?;
        let class = self.classes.get(&server.class)?.clone();
        let pool = self.pools.get(&server.pool).filter(|pool| pool.meta.deleting.is_none());
        Some(MachineOrder {
            region_code: catalogue::region(&class.region).map_or("", |region| region.code),
            server_type: server.pool.kind,
            labels: pool.map(|pool| pool.spec.custom_labels.clone()).unwrap_or_default(),
            annotations: pool
                .map(|pool| pool.spec.custom_annotations.clone())
                .unwrap_or_default(),
            taints: pool.map(|pool| pool.spec.custom_taints.clone()).unwrap_or_default(),
            pool_exists: pool.is_some(),
            node_lingers: self.options.quirks.node_lingers,
            wipes_labels: self.options.quirks.wipes_labels,
            kubernetes_version: self
                .cloudspaces
                .get(&server.cloudspace)
                .map(|cloudspace| cloudspace.seed.kubernetes_version.clone())
                .unwrap_or_default(),
            server: server.clone(),
            class,
        })
    }

    /// A call with a good bearer, for tests.
    pub fn call(&mut self, method: &str, path: &str, body: &serde_json::Value) -> Call {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let content_type = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        Call {
            method: method.into(),
            path: path.into(),
            query: query.into(),
            authorization: Some(self.authorization()),
            content_type: Some(content_type.into()),
            body: if body.is_null() {
                Vec::new()
            } else {
                body.to_string().into_bytes()
            },
            ..Call::default()
        }
    }
}

fn market(options: &Options, class: &Class) -> ClassMarket {
    let settings = &options.market;
    ClassMarket {
        price: settings.prices.get(&class.name).copied().or(class.market),
        percentiles: class.percentiles,
        floor: settings.floors.get(&class.name).copied().or(class.floor),
        stock: settings.stock_of.get(&class.name).copied().unwrap_or(settings.stock),
        history: VecDeque::new(),
    }
}
